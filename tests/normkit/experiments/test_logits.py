"""Attention logits at a high learning rate: who learns, and how large the logits become."""

import math

import pytest
import torch

from normkit.experiments.logits import CURES, CappedAttention, logit_growth
from normkit.placement import Attention

CHANCE = math.log(24)


def learnt(rows, cure, values):
    return values(rows, "loss", cure=cure)


def test_without_a_cure_nothing_is_learnt_and_with_qk_norm_all(values):
    rows = logit_growth(["none", "qk_norm"])
    assert learnt(rows, "none", values) == pytest.approx(CHANCE, abs=0.1)
    assert learnt(rows, "qk_norm", values) < 0.1
    none, qk_norm = (values(rows, "logits", cure=cure)[0] for cure in ("none", "qk_norm"))
    assert len(none) == 200 and none[-1] > 3000 and none[0] < 10
    # The bound is the root of 12 features, 3.5, times the learnt weights of both norms.
    assert math.sqrt(12) < max(qk_norm) < 100


@pytest.mark.proof
def test_the_other_cures_depend_on_the_seed_and_the_rate(values):
    rows = logit_growth(["none", "qk_norm", "soft_cap"], seeds=[1, 2])
    assert (abs(learnt(rows, "none", values) - CHANCE) < 0.1).all()
    assert (learnt(rows, "qk_norm", values) < 0.1).all()
    assert (values(rows, "logits", cure="soft_cap")[:, -1] > 1000).all()
    slower = logit_growth(lr=0.05)
    assert (values(slower, "loss") < 0.5).all()
    assert values(slower, "logits", cure="none")[0, -1] > 300


def test_qk_clip_keeps_the_logits_near_the_threshold(values):
    rows = logit_growth(["qk_clip"], steps=60)
    assert 20 < max(values(rows, "logits")[0]) < 200


def test_without_cap_it_is_the_attention_of_the_library():
    for qk_norm in (None, "head"):
        torch.manual_seed(0)
        ours = CappedAttention(8, 2, qk_norm=qk_norm)
        theirs = Attention(8, 2, qk_norm=qk_norm)
        theirs.load_state_dict(ours.state_dict())
        x = torch.randn(3, 5, 8)
        torch.testing.assert_close(ours(x), theirs(x))
        assert ours.largest.shape == (2,)


def test_the_cap_never_lets_the_future_in():
    torch.manual_seed(0)
    attention, x = CappedAttention(8, 2, cap=0.1), torch.randn(1, 5, 8)
    other = x.clone()
    other[:, 3:] += 1
    torch.testing.assert_close(attention(x)[:, :3], attention(other)[:, :3])


def test_unknown_cures_are_refused():
    with pytest.raises(ValueError, match="cures must be a list of some of"):
        logit_growth(["weight_decay"])
    assert CURES == ("none", "qk_norm", "soft_cap", "qk_clip")
