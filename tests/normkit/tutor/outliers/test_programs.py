"""Mistakes with large values: right programs beside the library, and the numbers of messages."""

import math

import numpy as np
import pytest

from normkit import outliers, rms_norm, rms_norm_backward
from normkit.tutor.mistakes import catalogue, combine, mistakes_of
from normkit.tutor.outliers.tasks import QUESTIONS, TOKEN


def right(program):
    return combine(f"outliers/{program}")


def wrong(program):
    name = f"outliers/{program}"
    return {m.name: combine(name, m) for m in mistakes_of(name)}


def message(name):
    (found,) = [m.message for m in catalogue("outliers")[""] if m.name == name]
    return found


# --- Beside the library -----------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, -1, 0])
def test_eight_bits(axis):
    x = np.random.default_rng(0).normal(size=(3, 5))
    for ours, theirs in zip(right("to_int8")(x, axis), outliers.quantise(x, axis), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape


def test_a_scale_that_is_moved_keeps_the_output_and_balances_it():
    rng = np.random.default_rng(0)
    xhat, gamma, beta, w = (rng.normal(size=s) for s in ((6, 4), 4, 4, (3, 4)))
    y = gamma * xhat + beta
    new_gamma, new_beta, new_w = right("migrate")(y, gamma, beta, w)
    new_y = new_gamma * xhat + new_beta
    np.testing.assert_allclose(new_y @ new_w.T, y @ w.T, atol=1e-12)
    np.testing.assert_allclose(np.abs(new_y).max(0), np.abs(new_w).max(0))
    scale = np.sqrt(np.abs(y).max(0) / np.abs(w).max(0))
    theirs = outliers.migrate_scale(gamma, beta, w, scale)
    for ours, found in zip((new_gamma, new_beta, new_w), theirs, strict=True):
        np.testing.assert_allclose(ours, found)


def test_a_product_without_outliers_is_near_and_with_them_apart_as_near():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 64)), rng.normal(size=(5, 64))
    size = np.linalg.norm(x @ w.T)
    x[:, 3] *= 1000
    apart, all_in_eight = right("mixed_product"), wrong("mixed_product")["nothing_apart"]
    assert np.linalg.norm(apart(x, w, 10.0) - x @ w.T) < 0.02 * size
    assert np.linalg.norm(all_in_eight(x, w, 10.0) - x @ w.T) > 0.5 * size


def test_logits_are_those_of_rms_norm():
    rng = np.random.default_rng(0)
    q, k, gammas = rng.normal(size=(5, 8)), rng.normal(size=(5, 8)), rng.normal(size=(2, 4))
    found = right("qk_logits")(q, k, 2, *gammas)
    for head in range(2):
        own = slice(4 * head, 4 * head + 4)
        a, b = rms_norm(q[:, own], gammas[0], 1e-6), rms_norm(k[:, own], gammas[1], 1e-6)
        np.testing.assert_allclose(found[head], a @ b.T / 2, atol=1e-12)


def test_capping_and_clipping():
    rng = np.random.default_rng(0)
    z, dy = rng.normal(size=(2, 3, 4)) * 9
    mask = np.ones(z.shape) > 0
    capped = np.exp(outliers.soft_cap(z, 5.0))
    found = right("capped_weights")(z, mask, 5.0)
    np.testing.assert_allclose(found, capped / capped.sum(-1, keepdims=True))
    theirs = outliers.soft_cap_backward(dy, z, 5.0)
    np.testing.assert_allclose(right("soft_cap_backward")(dy, z, 5.0), theirs, atol=1e-12)
    w_q, w_k, largest = rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), np.array([300.0, -7, 90])
    with np.errstate(all="ignore"):
        ours = right("qk_clip")(w_q, w_k, largest, 100.0)
    for a, b in zip(ours, outliers.qk_clip(w_q, w_k, largest, 100.0), strict=True):
        np.testing.assert_allclose(a, b)


def test_the_loss_and_its_gradient():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(size=(4, 5)) * 3, rng.integers(5, size=4)
    z = torch.tensor(logits, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(z, torch.tensor(targets), reduction="none")
    loss = loss + 0.1 * z.logsumexp(-1) ** 2
    loss.sum().backward()
    given = logits, targets, 0.1
    np.testing.assert_allclose(right("loss_with_z")(*given), loss.detach(), rtol=1e-12)
    np.testing.assert_allclose(right("loss_with_z_backward")(*given), z.grad, atol=1e-12)
    penalty = right("loss_with_z")(*given) - right("loss_with_z")(logits, targets, 0)
    np.testing.assert_allclose(penalty, outliers.z_loss(logits, 0.1))


# --- The predictions --------------------------------------------------------------------------


def test_predictions_are_what_happens():
    found = right("outlier_predictions")()
    assert tuple(found) == QUESTIONS
    y = rms_norm(TOKEN, eps=0)
    np.testing.assert_allclose([y[0], y[-1]], [found["others"], found["large"]])
    far = rms_norm(np.r_[TOKEN[:-1], 1e9], eps=0)
    np.testing.assert_allclose(far[-1], found["limit"])
    np.testing.assert_allclose(rms_norm(np.minimum(TOKEN, 1), eps=0)[0], found["clipped"])
    dx = rms_norm_backward(np.eye(36)[-1], TOKEN, eps=0)[0]
    np.testing.assert_allclose(dx[-1], found["gradient"])
    q, step = outliers.quantise(y)
    assert q[0] == found["integer"] and q[-1] == 127
    np.testing.assert_allclose(step, found["step"])


# --- What messages say ------------------------------------------------------------------------


def test_numbers_of_the_token():
    assert math.hypot(*TOKEN) == 18 and np.mean(TOKEN**2) == 9 and np.mean(TOKEN) == 52 / 36
    assert "√(35 + 17²) = 18" in message("length_for_rms")
    assert round(127 / 17, 2) == 7.47 and round(17 / 3, 3) == 5.667
    assert (1 - (17 / 3) ** 2 / 36) / 3 < 0.04


def test_numbers_of_eight_bits():
    x = np.array([-200.0, 100])
    with np.errstate(all="ignore"):
        found = {name: f(x.copy())[0] for name, f in wrong("to_int8").items()}
        assert wrong("to_int8")["divided_by_128"](np.array([1.0, 0.5]))[0][0] == -128
    assert found["sign_lost"].min() > 0
    assert wrong("to_int8")["unsigned"](np.array([-1.0, 127]))[0].tolist() == [255, 127]
    half = wrong("to_int8")["half_added_and_cut"](np.array([-1.7, 127]))[0]
    assert half.tolist() == [-1, 127]
    assert np.float64(-200).astype(np.int64).astype(np.int8) == 56
    assert np.int32(127) * 127 == 16129


def test_numbers_of_clipping():
    w, largest = np.ones((1, 1)), np.array([400.0])

    def logit(answer):
        w_q, w_k = answer(w.copy(), w.copy(), largest, 100.0)
        return 400 * float(w_q[0, 0] * w_k[0, 0])

    found = {n: f for n, f in wrong("qk_clip").items() if n != "matrices_changed_in_place"}
    assert math.isclose(logit(right("qk_clip")), 100)
    assert math.isclose(logit(found["root_forgotten"]), 25)
    assert math.isclose(logit(found["root_taken_twice"]), 200)
    assert math.isclose(logit(found["threshold_not_divided"]), 1)


def test_numbers_of_the_slope_and_the_mask():
    assert math.isclose(1 - math.tanh(1) ** 2, 0.42, abs_tol=5e-3)
    logits, mask = np.array([[-4.0, 9]]), np.array([[True, False]])
    early = wrong("capped_weights")["mask_before_the_cap"](logits, mask, 5.0)
    assert math.isclose(early[0, 1], 0.157, abs_tol=5e-4)
    assert right("capped_weights")(logits, mask, 5.0).tolist() == [[1, 0]]


def test_numbers_of_the_loss():
    with np.errstate(over="ignore"):
        assert np.isfinite(np.exp(709.0)) and np.isinf(np.exp(710.0))
