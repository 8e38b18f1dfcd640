"""Whatever happens, the model, its inputs and the process are as before."""

import random
import warnings
from collections import UserDict

import numpy as np
import pytest
import torch
from torch import nn

from normkit.examining import examine
from normkit.examining.passes import copied, mapped, tensors, unwrapped
from tests.normkit.examining.broken import CASES, images, network, perceptron, rows


def state(model, *tensors):
    """All that can change: values, versions, gradients, modes, hooks, random states, switches."""
    of = [*model.parameters(), *model.buffers(), *tensors]
    return [
        *((t.detach().clone().tolist(), t._version, t.requires_grad, t.grad is None) for t in of),
        *((m.training, len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()),
        torch.get_rng_state().tolist(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.backends.mha.get_fastpath_enabled(),
        torch.is_grad_enabled(),
        len(warnings.filters),
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_examining_changes_nothing(case):
    torch.manual_seed(0)
    model, inputs, options = case.build(False)
    calls = []
    hook = model.register_forward_hook(lambda *_: calls.append(1))
    before = state(model, *inputs)
    examine(model, *inputs, **options)
    assert str(state(model, *inputs)) == str(before)  # as text: nan is not equal to itself
    assert not calls  # hooks of the reader's own are not called
    hook.remove()


@pytest.mark.parametrize("raised", [RuntimeError, KeyboardInterrupt])
def test_a_pass_that_raises_or_is_interrupted_changes_nothing(raised):
    class Raises(nn.Module):
        def forward(self, x):
            if self.training:
                raise raised("in the middle")
            return x

    model = nn.Sequential(*network(nn.BatchNorm2d), Raises())
    x = images()
    before = state(model, x)
    if raised is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            examine(model, x)
    else:
        found = examine(model, x)
        assert [s.what for s in found.skipped] == ["a training pass"]
        assert "in the middle" in found.skipped[0].why
    assert str(state(model, x)) == str(before)


def test_a_gradient_that_waits_is_kept():
    model, x = network(nn.BatchNorm2d), images()
    model(x).sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    examine(model, x)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True))


def test_wrappers_are_taken_off():
    model = network(nn.BatchNorm2d)
    assert unwrapped(nn.DataParallel(model)) is model
    assert unwrapped(torch.compile(model)) is model  # compiled only when called
    inner = nn.Sequential(torch.compile(nn.LayerNorm(8)), nn.Linear(8, 8))
    assert type(copied(inner)[0]) is nn.LayerNorm
    averaged = torch.optim.swa_utils.AveragedModel(model)
    assert unwrapped(averaged) is averaged.module
    report = examine(torch.compile(nn.DataParallel(model)), images())
    assert [norm.path for norm in report.norms] == ["1", "4"]


def test_a_module_that_lends_the_attributes_of_another_is_no_wrapper():
    class Lends(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

        def forward(self, x, scale):
            return self.inner(x * scale)

    report = examine(Lends(torch.compile(perceptron(nn.LayerNorm(8)))), rows(), 2.0)
    assert [norm.path for norm in report.norms] == ["inner.1"] and not report.skipped


class Batch(UserDict):
    """What holds a batch in some libraries: no dictionary, but like one."""


def test_a_pass_may_take_things_out_of_what_it_is_given():
    class Pops(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(8, track_running_stats=False)

        def forward(self, batch):
            return self.norm(batch.pop("x"))

    batch = Batch(x=rows())
    report = examine(Pops(), batch)
    assert "x" in batch and not report.skipped
    assert [(f.name, f.paths) for f in report.findings] == [
        ("depends_on_the_batch_in_eval", ("norm",))
    ]


def test_tensors_are_found_in_whatever_holds_them():
    class Holds:
        pass

    value = Holds()
    value.itself, value.x, value.model = value, [torch.zeros(2)], nn.Linear(2, 2)
    twin = mapped(lambda t: t + 1, value)
    assert twin is not value and twin.itself is twin and twin.model is value.model
    assert len(tensors(value)) == 1 and not value.x[0].any() and twin.x[0].all()


@pytest.mark.parametrize(
    "context",
    [
        torch.inference_mode,
        torch.no_grad,
        lambda: torch.device("meta"),
        lambda: torch.autocast("cpu", torch.bfloat16),
    ],
)
def test_what_the_reader_has_switched_on_changes_no_answer(context):
    model, x = network(nn.BatchNorm2d), images()
    plain = examine(model, x)
    with context():
        found = examine(model, x)
    assert found.norms == plain.norms and found.skipped == plain.skipped == []
    assert [f.name for f in found.findings] == [f.name for f in plain.findings]


def test_what_is_compiled_runs_uncompiled():
    calls = []

    def backend(graph, _):
        calls.append(graph)
        return graph.forward

    class Compiled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

        @torch.compile(backend=backend)
        def forward(self, x):
            return self.norm(self.inner(x))

    report = examine(Compiled(), rows())
    assert not calls and [norm.path for norm in report.norms] == ["norm"]


@pytest.fixture
def process_group(tmp_path):
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_no_other_process_is_waited_for(process_group):
    model, x = network(nn.SyncBatchNorm), images()
    for static in (False, True):
        report = examine(model, x, static=static)
        assert [norm.kind for norm in report.norms] == ["batch", "batch"] and not report.skipped
    assert "forward" not in vars(model[1])
    report = examine(nn.parallel.DistributedDataParallel(network(nn.BatchNorm2d)), x)
    assert [norm.path for norm in report.norms] == ["1", "4"]


def test_a_hook_of_torch_that_computes_the_weights_stays():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = nn.utils.weight_norm(nn.Linear(8, 8))
    model = nn.Sequential(layer, nn.LayerNorm(8))
    assert not examine(model, torch.randn(4, 8)).skipped


def test_what_cannot_be_copied_is_read_and_said():
    model = network(nn.BatchNorm2d)
    model.kept = (torch.ones(2, requires_grad=True) * 2,)  # no leaf: deepcopy refuses
    model[1].running_var[0] = -1
    report = examine(model, images())
    assert [skipped.what for skipped in report.skipped] == ["a copy of the model"]
    assert [finding.name for finding in report.findings] == ["running_variance_negative"]


def test_a_function_may_build_the_model():
    assert len(examine(lambda: network(nn.BatchNorm2d), images()).norms) == 2
    with pytest.raises(TypeError, match=r"examine takes a torch.nn.Module"):
        examine(lambda: 3)
