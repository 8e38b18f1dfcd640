"""A norm of unknown class beside the catalogue of mistakes."""

import pytest
import torch
from torch import nn

from normkit.examining.likeness import message, mistake
from normkit.examining.probes import Sample, probe
from normkit.examining.sites import Site


class Norm(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self, x):
        return self.compute(x, x.mean(-1, keepdim=True))


def site(compute):
    module = Norm(compute)
    found = Site("norm", module, "Norm", sample=Sample((3, 5, 8)))
    found.probe = probe(module, found.sample)
    return found


@pytest.mark.parametrize(
    "name, compute",
    [
        (None, lambda x, m: (x - m) * torch.rsqrt((x - m).square().mean(-1, True) + 1e-5)),
        (None, lambda x, m: x * torch.rsqrt(x.square().mean(-1, True) + 1e-5)),
        (None, lambda x, m: nn.functional.normalize(x, dim=-1)),
        ("sum_of_squares", lambda x, m: (x - m) / ((x - m).square().sum(-1, True) + 1e-5).sqrt()),
        ("mean_of_squares", lambda x, m: (x - m) / (x.square().mean(-1, True) + 1e-5).sqrt()),
        ("no_root", lambda x, m: (x - m) / ((x - m).square().mean(-1, True) + 1e-5)),
        ("mean_not_subtracted", lambda x, m: x / ((x - m).square().mean(-1, True) + 1e-5).sqrt()),
    ],
)
def test_what_a_norm_computes_names_the_mistake(name, compute):
    found = mistake(site(compute))
    assert (found.name if found else None) == name
    assert message(name or "") == (found.message if found else "")
