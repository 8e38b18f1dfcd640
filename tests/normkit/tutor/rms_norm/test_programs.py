"""The programs of RMSNorm: they agree with the library, and what their mistakes are said to do."""

import numpy as np
import pytest
import torch

import normkit
from normkit.tutor.judging import differences
from normkit.tutor.mistakes import combine, mistakes_of
from normkit.tutor.observing import observe
from normkit.tutor.tasks import find

ROW = np.array([1.0, 7, 5, 5])


def right(program):
    return combine(f"rms_norm/{program}")


def wrong(program):
    name = f"rms_norm/{program}"
    return {mistake.name: combine(name, mistake) for mistake in mistakes_of(name)}


# --- They agree with the library --------------------------------------------------------------


def fold_affine(weight, bias, gamma, beta):
    norm = filled(normkit.LayerNorm(len(gamma), dtype=torch.float64), gamma, beta)
    return arrays(normkit.fold_affine(norm, linear(weight, bias))[1])


def fold_centring(weight, bias):
    norm = normkit.LayerNorm(len(bias), bias=False)
    return arrays(normkit.fold_centring(linear(weight, bias), norm)[0])


def linear(weight, bias):
    return filled(torch.nn.Linear(*weight.shape[::-1], dtype=torch.float64), weight, bias)


def filled(module, weight, bias):
    module.load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    return module


def arrays(module):
    return module.weight.detach().numpy(), module.bias.detach().numpy()


LIBRARY = {
    "partial": lambda x, gamma, p, eps=1e-5: normkit.rms_norm(x, gamma, eps, p),
    "partial_backward": lambda dy, x, gamma, p, eps=1e-5: normkit.rms_norm_backward(
        dy, x, gamma, eps, p
    ),
    "fold": fold_affine,
    "fold_centring": fold_centring,
}


@pytest.mark.parametrize("name", LIBRARY)
def test_a_program_without_another_reference_agrees_with_the_library(name):
    task = find(f"rms_norm/{name}")
    assert not task.reference and not any(differences(observe(LIBRARY[name], task), task))


def test_the_gradient_by_stages_is_right():
    task = find("rms_norm/backward")
    answer = right("rms_norm_backward_staged")
    assert not any(differences(observe(answer, task), task))


def test_layer_normalisation_from_rms_norm_is_layer_normalisation():
    answer = right("layer_norm_from_rms_norm")
    for probe in find("rms_norm/layer_norm").draw(0):
        given = dict(probe.inputs)
        result = answer(**given, rms_norm=normkit.rms_norm)
        np.testing.assert_allclose(result, normkit.layer_norm(**given), rtol=0.01, atol=0.01)
        if given["x"].dtype == float:
            np.testing.assert_allclose(result, normkit.layer_norm(**given), rtol=1e-9, atol=1e-12)


# --- Numbers that the messages state ----------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_of_rms_norm():
    made, well, one = wrong("rms_norm"), right("rms_norm"), np.ones(4)
    np.testing.assert_allclose(well(ROW, one), [0.2, 1.4, 1, 1], atol=1e-5)
    ln, half_centred = [-1.61, 1.15, 0.23, 0.23], [-0.7, 0.5, 0.1, 0.1]
    np.testing.assert_allclose(made["layer_norm_instead"](ROW, one), ln, atol=5e-3)
    np.testing.assert_allclose(made["numerator_centred"](ROW, one), half_centred, atol=1e-5)
    np.testing.assert_allclose(made["standard_deviation"](ROW, one), ROW / 2.18, rtol=1e-3)
    np.testing.assert_allclose(made["squares_summed"](ROW, one) * 2, well(ROW, one), rtol=1e-5)
    pair = np.array([1.0, -1])
    np.testing.assert_allclose(made["square_of_mean"](pair, one[:2]), pair / 1e-5**0.5)
    np.testing.assert_allclose(made["eps_added_to_rms"](1e-4 * pair, one[:2])[0], 0.909, atol=1e-3)
    np.testing.assert_allclose(well(1e-4 * pair, one[:2])[0], 0.032, atol=5e-4)
    assert np.isnan(made["eps_subtracted"](1e-4 * pair, one[:2])).all()
    assert np.isnan(made["rms_without_eps"](np.zeros(4), one)).all()
    np.testing.assert_allclose(well(np.array([3.0, 4]), one[:2]), [0.85, 1.13], atol=5e-3)
    np.testing.assert_allclose(made["mean_of_absolute"](ROW, one), ROW / 4.5, rtol=1e-5)
    np.testing.assert_allclose(made["divided_by_one_less"](ROW, one), ROW / 5 * 0.866, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_of_partial_rms_norm():
    made, well, one = wrong("partial_rms_norm"), right("partial_rms_norm"), np.ones(4)
    x = np.array([3.0, 4, 0, 12])
    np.testing.assert_allclose(well(x, one, 0.5), x / 3.54, rtol=2e-3)
    np.testing.assert_allclose(made["p_without_effect"](x, one, 0.5), x / 6.5, rtol=1e-5)
    np.testing.assert_allclose(made["rest_not_divided"](x, one, 0.5)[3], 12)
    assert made["rest_zero"](x, one, 0.5)[3] == 0
    np.testing.assert_allclose(well(x, one, 0.5)[3], 3.39, atol=5e-3)
    ratio = made["divided_by_all"](x, one, 0.5) / well(x, one, 0.5)
    np.testing.assert_allclose(ratio[[0, 1, 3]], 1.41, atol=5e-3)
    assert np.isnan(made["k_rounded_down"](np.arange(8.0), np.ones(8), 0.0625)).all()


def test_numbers_of_half_precision():
    made, one = wrong("half_rms_norm"), np.ones(4, np.float16)
    with np.errstate(all="ignore"):
        assert np.float16(300) ** 2 == np.inf and np.float16(1e-4) ** 2 == 0
        assert (made["squares_in_half"](np.float16([300] * 4), one) == 0).all()
        assert np.sum(np.full(1000, 10, np.float16) ** 2) == np.inf
        assert np.mean(np.full(1000, 10, np.float16) ** 2) == 100
        assert np.float16(256.0**2) == np.inf and np.float16(1e-4**2) == 0
        large = np.float16([65408, -65408])
        assert (right("half_rms_norm")(large, one[:2]) == [1, -1]).all()
        error = made["inverse_in_half"](large, one[:2])[0] - 1
        assert abs(abs(error) - 0.002) < 1e-4 and np.finfo(np.float16).tiny < 0.00007
        assert (made["product_in_half"](np.float16([4e4] * 4), 2 * one) == np.inf).all()


def test_gradients_that_the_messages_call_zero():
    well, x = right("rms_norm_backward"), np.array([[1.0, 2, 2, 4]])
    np.testing.assert_allclose(well(x, x, np.ones(4), 1e-12)[0], 0, atol=1e-11)
    for name in ("detached_rms", "projection_added", "projection_doubled", "projection_halved"):
        assert np.abs(wrong("rms_norm_backward")[name](x, x, np.ones(4))[0]).min() > 0.1


def test_numbers_of_layer_norm_from_rms_norm():
    made, one = wrong("layer_norm_from_rms_norm"), np.ones(4)
    rest = one, 0 * one, 1e-5, normkit.rms_norm
    np.testing.assert_allclose(made["not_centred"](ROW, *rest), [0.2, 1.4, 1, 1], atol=1e-5)
    late = made["centred_afterwards"](ROW, *rest)
    np.testing.assert_allclose(late, [-0.7, 0.5, 0.1, 0.1], atol=1e-5)
