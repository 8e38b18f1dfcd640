"""The right values on the way to a result."""

import numpy as np
import pytest

from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import observe
from normkit.tutor.steps import steps
from normkit.tutor.tasks import find


def of(answer, name):
    task = find(name)
    return steps(task, judge(observe(answer, task), task).first)


def test_the_values_of_a_forward_pass_are_those_by_hand():
    found = of(lambda x, gamma, beta, eps: x + 0.0, "layer_norm/forward")
    assert list(found) == ["mean", "var", "xhat"]
    np.testing.assert_allclose(found["mean"].ravel(), [0.2, 0.7 / 3])
    np.testing.assert_allclose(found["xhat"][0], [0, -1.2238, 1.2238], atol=1e-4)


def test_of_a_long_way_the_last_steps_are_told_and_none_that_the_result_does_not_need():
    def answer(dy, x, shift, scale, gate, weight, eps=1e-6):
        return dy, *np.zeros((3, *gate.shape))

    found = of(answer, "conditional/backward")
    assert list(found) == ["gamma", "df", "dh", "dxhat", "mean_term", "xhat_term"]


def test_of_a_layer_in_two_modes_those_of_the_mode_that_differs_are_told():
    pytest.importorskip("torch")

    class Wrong(combine("batch_norm/BatchNorm")):
        def forward(self, x):
            if self.training:
                self.running_mean = self.running_mean - 5
            return super().forward(x)

    found = of(Wrong, "batch_norm/layer")
    np.testing.assert_allclose(found["mean"].ravel(), [4, 5])


def test_of_a_gradient_in_inference_nothing_is_told_that_training_alone_needs():
    found = of(lambda dy, x, *_given, **_named: (dy, dy, dy), "batch_norm/backward_inference")
    assert "dxhat" in found and not {"mean_term", "xhat_term"} & set(found)


def test_of_a_large_array_the_values_are_those_of_the_token_that_is_shown():
    right = combine("rms_norm/rms_norm")

    def answer(x, gamma, eps=1e-5):
        y = right(x, gamma, eps)
        if y.ndim == 3:
            y[0, 1] += 0.01
            y[1, 2] += 5
        return y

    task = find("rms_norm/forward")
    found = judge(observe(answer, task), task).first
    token = found.probe.inputs["x"][1, 2]
    np.testing.assert_allclose(steps(task, found)["squares"], token**2)
