"""Padding: which tensor is the mask, and what may change under it."""

import torch

from normkit.examining.padding import changes, cropped, found

MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]])


def test_the_mask_is_the_given_one_or_a_named_one():
    assert torch.equal(found(MASK, {}), MASK.bool())
    assert torch.equal(found(None, {"attention_mask": MASK}), MASK.bool())
    assert torch.equal(found(None, {"src_key_padding_mask": MASK == 0}), MASK.bool())
    assert torch.equal(found(MASK[:, None, None], {}), MASK.bool())
    assert found(None, {"attention_mask": torch.ones(2, 4)}) is None  # it hides nothing
    assert found(None, {"attention_mask": torch.zeros(2, 4, 4)}) is None


def test_other_numbers_stand_under_the_mask_alone():
    x, ids = torch.randn(2, 4, 3), torch.tensor([[5, 6, 7, 0], [8, 9, 0, 0]])
    (_, others), _ = changes(MASK.bool())
    y, new, mask, wide = others([x, ids, MASK, MASK[:, None, None]])
    assert torch.equal(wide.flatten(1), MASK)
    same = (x == y).all(-1)
    assert torch.equal(same, MASK.bool()) and torch.equal(mask, MASK)
    assert torch.equal(new[MASK.bool()], ids[MASK.bool()]) and set(new[0].tolist()) <= {
        5,
        6,
        7,
        8,
        9,
    }


def test_a_longer_batch_is_padded_where_it_was():
    for mask in (MASK, MASK.flip(1)):
        _, (_, longer) = changes(mask.bool())
        x, new = longer([torch.arange(8.0).view(2, 4), mask])
        assert x.shape == (2, 5) and torch.equal(new.sum(1), mask.sum(1))
        kept, _ = cropped(x, torch.zeros(2, 4), before=mask is not MASK)
        assert torch.equal(kept, torch.arange(8.0).view(2, 4))
