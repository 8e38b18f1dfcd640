"""A measurement that fails is one line; the others stand."""

import torch
from torch import nn

from normkit.examining import examine
from tests.normkit.examining.broken import images, network, perceptron, rows


def test_a_model_that_needs_targets_in_training_is_examined_in_inference():
    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = network(nn.BatchNorm2d)

        def forward(self, x, targets=None):
            if self.training and targets is None:
                raise ValueError("targets should not be none")
            return self.body(x)

    report = examine(Detector(), images())
    assert [(s.what, s.why) for s in report.skipped] == [
        ("a training pass", "ValueError: targets should not be none")
    ]
    assert [norm.kind for norm in report.norms] == ["batch", "batch"]


def test_a_model_that_fails_is_read_all_the_same():
    model = perceptron(nn.BatchNorm1d(8))
    model[1].running_mean[0] = torch.nan
    report = examine(model, torch.randn(4, 9))
    assert {f.name for f in report.findings} == {
        "forward_pass_fails",
        "running_statistics_not_finite",
    }
    assert "shapes cannot be multiplied" in report.skipped[0].why


def test_one_example_is_no_reason_to_stop():
    assert examine(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), rows(1)).level is None


def test_outputs_and_inputs_may_lie_in_dictionaries():
    class Output(dict):
        pass

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(8)

        def forward(self, batch, scale=1.0):
            return Output(hidden=self.norm(batch["x"] * scale), other=[None, 3])

    report = examine(Model(), {"x": rows()}, scale=2.0)
    assert report.norms[0].calls == 1 and not report.skipped
