"""Inside a Transformer: what is read adds up to what the model says."""

import pytest
import torch
from torch import nn

import normkit
from normkit.inside import attribution, logit_lens, stream

TOKENS = torch.arange(32).view(4, 8) % 7
LAYER_NORMS = (nn.LayerNorm, normkit.LayerNorm)
norms = pytest.mark.parametrize(
    "norm", [*LAYER_NORMS, nn.RMSNorm, normkit.RMSNorm], ids=lambda norm: norm.__module__
)
placements = pytest.mark.parametrize("placement", ["pre", "peri", "output"])


def transformer(**options):
    """A model in which every parameter is random, those of the norms too."""
    model = normkit.CharacterTransformer(7, layers=2, dtype=torch.float64, **options)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.data.add_(torch.empty_like(parameter).uniform_(-0.3, 0.5, generator=generator))
    return model.requires_grad_(False)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@placements
def test_the_stream_begins_with_the_embeddings_and_ends_before_the_final_norm(placement):
    model = transformer(placement=placement)
    states = stream(model, TOKENS)
    assert states.shape == (5, 4, 8, 32)
    close(states[0], model.characters(TOKENS) + model.positions.weight[:8])
    for block, before, after in zip(model.blocks, states, states[1:], strict=False):
        close(block(before), after)
    close(model.head(model.final_norm(states[-1])), model(TOKENS))
    assert not any(m._forward_pre_hooks for m in model.modules())


@norms
@placements
def test_the_contributions_add_up_to_the_logits(norm, placement):
    model = transformer(norm=norm, placement=placement)
    parts = attribution(model, TOKENS)
    assert parts.shape == (6, 4, 8, 7)
    close(parts.sum(0), model(TOKENS))
    constant = model.head.bias.clone()
    if norm in LAYER_NORMS:
        constant += model.head.weight @ model.final_norm.bias
    close(parts[-1], constant.expand(4, 8, 7))


@norms
def test_both_lenses_end_at_the_logits_and_the_frozen_one_adds_up(norm):
    model = transformer(norm=norm)
    lens, frozen = logit_lens(model, TOKENS), logit_lens(model, TOKENS, frozen=True)
    close(lens[-1], model(TOKENS))
    close(frozen[-1], model(TOKENS))
    close(lens[0], model.head(model.final_norm(stream(model, TOKENS)[0])))
    parts = attribution(model, TOKENS)
    close(frozen, parts[:-1].cumsum(0) + parts[-1])
    assert (lens[:-1] - frozen[:-1]).abs().amax((1, 2, 3)).min() > 0.01


def test_by_hand_two_equal_halves():
    """(1,1,3,3) + (0,0,2,2): sigma 2; frozen, each contributes ∓1/2; alone, each would give ∓1."""
    model = transformer(width=32).float()
    for block in model.blocks:
        block.branch.forward = torch.zeros_like  # nothing is added but below
    model.blocks[0].branch.forward = lambda x: torch.tensor([0.0, 2]).repeat_interleave(16) + 0 * x
    model.positions.weight.zero_()
    model.characters.weight[:] = torch.tensor([1.0, 3]).repeat_interleave(16)
    model.final_norm = normkit.LayerNorm(32, eps=0)
    model.head.weight.zero_()
    model.head.weight[0, 0] = 1
    model.head.bias.zero_()
    parts = attribution(model, torch.tensor([[0]]))[:, 0, 0, 0]
    torch.testing.assert_close(parts, torch.tensor([-0.5, -0.5, 0, 0, 0, 0]))
    lens = logit_lens(model, torch.tensor([[0]]))[:, 0, 0, 0]
    torch.testing.assert_close(lens, torch.tensor([-1.0, -1, -1, -1, -1]))


def test_folding_changes_neither_the_lenses_nor_the_sum():
    model = transformer()
    twin = normkit.fold_transformer(model)
    for frozen in (False, True):
        close(logit_lens(twin, TOKENS, frozen), logit_lens(model, TOKENS, frozen))
    close(attribution(twin, TOKENS), attribution(model, TOKENS))


@pytest.mark.parametrize("function", [stream, logit_lens, attribution])
@pytest.mark.parametrize("placement", ["post", "deep", "keel", "siamese"])
def test_a_stream_that_is_no_sum_is_refused(function, placement):
    with pytest.raises(ValueError, match=f'"{placement}", which normalises the stream'):
        function(transformer(placement=placement), TOKENS)


def test_a_final_norm_without_a_scale_to_freeze_is_refused():
    with pytest.raises(TypeError, match=r"LayerNorm or an RMSNorm.*a DyT"):
        stream(transformer(norm=normkit.DyT), TOKENS)
