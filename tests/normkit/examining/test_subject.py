"""A measurement that fails is one line; the others stand."""

import torch
from torch import nn

from normkit.examining import Skipped, examine
from normkit.examining.passes import REACHED
from normkit.examining.subject import COMPILED, META, SINGLE
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


def test_what_no_pass_can_run_is_read_and_said():
    scripted = examine(torch.jit.script(perceptron(nn.LayerNorm(8))), rows())
    with torch.device("meta"):
        model, x = perceptron(nn.LayerNorm(8)), rows()
    unreal = examine(model, x)
    for report, why in ((scripted, COMPILED), (unreal, META)):
        assert report.skipped == [Skipped("a copy of the model", why)] and not report.findings
    assert [norm.kind for norm in unreal.norms] == ["layer"]
    part = examine(perceptron(torch.jit.script(nn.LayerNorm(8))), rows())
    assert part.skipped == [Skipped("1", COMPILED)] and not part.findings


def test_a_function_that_keeps_the_model_is_no_way_into_it():
    model = perceptron(nn.BatchNorm1d(8))
    forward = model.forward
    model.forward = lambda x: 2 * forward(x)
    report = examine(model, rows())
    assert [s.why for s in report.skipped] == [REACHED] and not report.findings
    assert model[1].num_batches_tracked == 0


def test_lazy_modules_learn_their_sizes_in_the_copy():
    model = nn.Sequential(nn.LazyLinear(8), nn.LayerNorm(8), nn.LazyLinear(3))
    report = examine(model, rows())
    assert [norm.kind for norm in report.norms] == ["layer"] and not report.skipped
    assert model[0].has_uninitialized_params()
    assert len(examine(nn.Sequential(nn.LazyBatchNorm1d()), rows()).norms) == 1


def test_sparse_and_local_inputs_and_norms_are_no_reason_to_stop():
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

        def forward(self, x, adjacent):
            return self.norm(torch.sparse.mm(adjacent, self.inner(x)))

    report = examine(Graph(), rows(), (torch.rand(16, 16) < 0.2).float().to_sparse())
    assert not report.skipped and report.level in {None, "note"}
    local = examine(nn.Sequential(nn.Conv2d(3, 8, 3), nn.LocalResponseNorm(5)), images())
    assert [norm.kind for norm in local.norms] == [None] and local.level is None


def test_a_mask_that_is_none_is_said():
    mask = torch.ones(16, 3)
    assert [s.what for s in examine(perceptron(nn.LayerNorm(8)), rows(), mask=mask).skipped] == [
        "padding"
    ]


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
    report = examine(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), rows(1))
    assert report.level is None and [s.why for s in report.skipped] == [SINGLE]


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
