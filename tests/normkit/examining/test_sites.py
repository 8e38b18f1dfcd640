"""Which modules are norms."""

import torch
from torch import nn

from normkit.examining import examine
from tests.normkit.examining.broken import Transformer, Written, rows, sequences


class PreNorm(nn.Module):
    """A wrapper that is named after the norm in it."""

    def __init__(self, inner):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(8), inner

    def forward(self, x):
        return self.inner(self.norm(x))


def paths(model, *inputs):
    return [norm.path for norm in examine(model, *inputs).norms]


def test_a_norm_is_known_by_what_it_does_whatever_its_name():
    assert paths(nn.Sequential(nn.Linear(8, 8), Written(8), nn.ReLU()), rows()) == ["1"]


def test_activations_softmax_and_linear_layers_are_none():
    class Gate(nn.Module):
        def forward(self, x):
            return x.softmax(-1)

    assert paths(nn.Sequential(nn.Linear(8, 8), nn.GELU(), Gate(), nn.Identity()), rows()) == []


def test_a_wrapper_is_not_the_norm_in_it():
    assert paths(PreNorm(nn.Linear(8, 4)), rows()) == ["norm"]


def test_standardised_weights_are_no_norm_of_activations():
    class Standardised(nn.Linear):
        def forward(self, x):
            weight = nn.functional.layer_norm(self.weight, self.weight.shape[1:])
            return nn.functional.linear(x, weight)

    assert paths(Standardised(8, 8), rows()) == []
    assert paths(nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), rows()) == []


def test_norms_are_found_as_functions_of_torch_and_in_exported_models():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8))

        def forward(self, x):
            return torch.layer_norm(2 * x, (8,), self.weight, None, 1e-3)

    assert paths(Plain(), rows()) == ["layer_norm()"]
    exported = torch.export.export(PreNorm(nn.Linear(8, 4)), (rows(),)).module()
    assert [norm.kind for norm in examine(exported, rows()).norms] == ["layer"]


def test_modules_alone_are_read_without_a_batch_in_any_size():
    with torch.device("meta"):
        model = Transformer(4096)
    report = examine(model, static=True)
    assert [norm.kind for norm in report.norms] == ["layer"] * 7
    assert report.norms[0].parameters == 8192 and not report.skipped
    assert examine(model, sequences(), static=True).norms == report.norms
