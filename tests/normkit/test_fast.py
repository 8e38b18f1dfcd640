"""The fast path: the ordinary functions and autograd beside it, nan and ∞, what it leaves alone."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import normkit
from normkit import _kernels, fast

NORMS = ("rms_norm", "layer_norm", "dyt")
DTYPES = ("float32", "float64")
# relative to the largest value, if that is above 1
CLOSE = {"float32": 4e-6, "float64": 1e-14}
every_norm = pytest.mark.parametrize("name", NORMS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def arguments(name, features, dtype="float32", seed=0):
    """γ, or γ and β, or α, γ and β."""
    rng = np.random.default_rng(seed)
    gamma, beta = rng.normal(size=(2, features)).astype(dtype)
    alpha = np.array([0.7], dtype)
    return {"rms_norm": [gamma], "layer_norm": [gamma, beta], "dyt": [alpha, gamma, beta]}[name]


def draw(*shape, dtype="float32", seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def close(ours, theirs, dtype="float32"):
    ours, theirs = (np.asarray(array) for array in (ours, theirs))
    assert ours.shape == theirs.shape
    size = np.abs(theirs[np.isfinite(theirs)]).max(initial=1)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=CLOSE[dtype] * size)


def backward(module, name, dy, x, parameters):
    """What `<name>_backward` returns, which takes no β."""
    given = parameters if name == "rms_norm" else parameters[:-1]
    return getattr(module, f"{name}_backward")(dy, x, *given)


@pytest.fixture
def used(monkeypatch):
    """Which kernels ran."""
    ran = []

    class Watched:
        def __getattr__(self, name):
            ran.append(name)
            return getattr(_kernels, name)

    monkeypatch.setattr(fast, "_kernels", Watched())
    return ran


# --- the same as the ordinary functions -------------------------------------------------------


@every_norm
@every_dtype
@pytest.mark.parametrize(
    "shape", [(5,), (1, 7), (130, 12), (2, 3, 4, 5), (3, 1), (0, 4), (2, 0, 3), (4, 1000)]
)
def test_it_is_the_ordinary_function_and_its_gradient(name, dtype, shape, used):
    x, dy, given = draw(*shape, dtype=dtype), draw(*shape, dtype=dtype, seed=2), None
    given = arguments(name, shape[-1], dtype)
    before = [array.copy() for array in (x, dy, *given)]
    y = getattr(fast, name)(x, *given)
    close(y, getattr(normkit, name)(*(array.astype(float) for array in (x, *given))), dtype)
    assert y.dtype == dtype
    exact = backward(normkit, name, *(a.astype(float) for a in (dy, x)), [*map(np.float64, given)])
    for ours, theirs in zip(backward(fast, name, dy, x, given), exact, strict=True):
        assert ours.dtype == dtype
        close(ours, theirs, dtype)
    assert all(map(np.array_equal, before, (x, dy, *given)))
    assert bool(used) == ((name, dtype) != ("dyt", "float64"))


@every_norm
def test_parameters_may_be_left_out(name, used):
    x, dy = draw(6, 9), draw(6, 9, seed=2)
    close(getattr(fast, name)(x), getattr(normkit, name)(x))
    for ours, theirs in zip(
        getattr(fast, f"{name}_backward")(dy, x),
        getattr(normkit, f"{name}_backward")(dy, x),
        strict=True,
    ):
        close(ours, theirs)
    assert used


@every_norm
@every_dtype
@pytest.mark.parametrize("shape", [(5,), (70, 12), (2, 3, 8), (0, 4)])
def test_tensors_have_the_gradients_of_autograd(name, dtype, shape, used, torch_gradients):
    given = [draw(*shape, dtype=dtype), *arguments(name, shape[-1], dtype)]
    dy = draw(*shape, dtype=dtype, seed=2)
    exact = torch_gradients(getattr(normkit, name), dy.astype(float), *map(np.float64, given))
    for ours, theirs in zip(torch_gradients(getattr(fast, name), dy, *given), exact, strict=True):
        assert ours.dtype == dtype
        close(ours, theirs, dtype)
    y = getattr(fast, name)(*map(torch.tensor, given))
    close(y, getattr(normkit, name)(*given), dtype)
    tensors = [*map(torch.tensor, given[1:])]
    direct = backward(fast, name, torch.tensor(dy), torch.tensor(given[0]), tensors)
    assert all(isinstance(gradient, torch.Tensor) for gradient in direct)
    close(direct[0], exact[0], dtype)
    assert bool(used) == ((name, dtype) != ("dyt", "float64"))


@pytest.mark.parametrize("name", NORMS[:2])
def test_gradcheck(name):
    given = (draw(3, 5, dtype="float64"), *arguments(name, 5, "float64"))
    tensors = [torch.tensor(array, requires_grad=True) for array in given]
    assert torch.autograd.gradcheck(getattr(fast, name), tensors)


def test_a_gradient_may_come_expanded_or_transposed(used):
    x = torch.tensor(draw(6, 4), requires_grad=True)
    for loss in (lambda y: y.sum(), lambda y: (y.T @ torch.arange(6.0)).sum()):
        found = [torch.autograd.grad(loss(m.layer_norm(x)), x)[0] for m in (fast, normkit)]
        torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


def test_a_model_learns_through_it_with_one_derivative():
    torch.manual_seed(0)
    linear, gamma = torch.nn.Linear(4, 4), torch.ones(4, requires_grad=True)
    x = torch.randn(8, 4)
    fast.rms_norm(linear(x), gamma).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in (gamma, linear.weight))
    with pytest.raises(RuntimeError, match="grad"):
        (first,) = torch.autograd.grad(
            fast.rms_norm(linear(x), gamma).sum(), gamma, create_graph=True
        )
        first.sum().backward()


# --- hard numbers -----------------------------------------------------------------------------


@every_norm
@every_dtype
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_row_as_in_the_ordinary_function(name, dtype, bad):
    x, given = draw(4, 20, dtype=dtype), arguments(name, 20, dtype)
    x[1, 3] = bad
    with np.errstate(invalid="ignore"):
        theirs = getattr(normkit, name)(x, *given)
        ours = getattr(fast, name)(x, *given)
        gradients = backward(fast, name, np.ones_like(x), x, given)
        expected = backward(normkit, name, np.ones_like(x), x, given)
    assert np.array_equal(np.isfinite(ours), np.isfinite(theirs))
    close(np.nan_to_num(ours), np.nan_to_num(theirs), dtype)
    for gradient, exact in zip(gradients, expected, strict=True):
        assert np.array_equal(np.isfinite(gradient), np.isfinite(exact))
    tensor = torch.tensor(x, requires_grad=True)
    getattr(fast, name)(tensor, *map(torch.tensor, given)).sum().backward()
    assert np.array_equal(np.isfinite(tensor.grad), np.isfinite(expected[0]))


@pytest.mark.parametrize("name", NORMS[:2])
@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 1e37), ("float32", 1e20), ("float64", 1e200)]
)
def test_large_values_do_not_overflow(name, dtype, size):
    x, dy = draw(3, 8, dtype=dtype), draw(3, 8, dtype=dtype, seed=2)
    close(getattr(fast, name)(size * x), getattr(normkit, name)(x, eps=0))
    dx = torch.tensor(size * x, requires_grad=True)
    getattr(fast, name)(dx).backward(torch.tensor(dy))
    exact = getattr(normkit, f"{name}_backward")(dy, x, eps=0)[0]
    close(dx.grad * size, exact)
    close(getattr(fast, f"{name}_backward")(dy, size * x.astype(dtype))[0] * size, exact)


def test_equal_features_become_beta_and_a_large_mean_costs_no_digits():
    constant = np.full((2, 100), -123456.7, np.float32)
    beta = draw(100)
    assert np.array_equal(fast.layer_norm(constant, None, beta), np.stack([beta, beta]))
    x = 1e4 + draw(4, 512)
    close(fast.layer_norm(x), normkit.layer_norm(x.astype(float)))


def test_zeros_without_epsilon_are_nan_and_raise_nothing():
    for norm in (fast.rms_norm, fast.layer_norm):
        assert np.isnan(norm(np.zeros((2, 3)), eps=0)).all()


def test_tanh_is_right_to_five_units_in_the_last_place():
    z = np.r_[np.linspace(-12, 12, 400_001), np.geomspace(1e-37, 1, 100_001)].astype(np.float32)
    t = fast.dyt(z[:, None], 1.0)[:, 0]
    exact = np.tanh(z.astype(float))
    units = np.abs(t - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert units.max() < 5
    assert np.abs(t).max() == 1 and (t[z > 9.1] == 1).all()
    assert fast.dyt(np.array([np.inf, -np.inf, 0.0], np.float32), 1.0).tolist() == [1, -1, 0]


def test_a_sum_over_many_tokens_keeps_its_digits():
    x, dy = np.ones((20_000, 2), np.float32), np.full((20_000, 2), 0.1, np.float32)
    np.testing.assert_allclose(fast.rms_norm_backward(dy, x)[1], 2000, rtol=2e-6)


# --- what it leaves to the ordinary functions -------------------------------------------------


def half(x):
    return torch.tensor(x).bfloat16()


@pytest.mark.parametrize(
    "to",
    [
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x.astype(np.float16),
        lambda x: x.astype(">f4"),
        lambda x: x.view(np.recarray),
        lambda x: torch.tensor(x).T.contiguous().T,
        half,
        lambda x: torch.tensor(x, device="meta"),
        jnp.asarray,
    ],
)
@every_norm
def test_what_it_does_not_know_is_answered_by_the_ordinary_function(name, to, used):
    x = to(draw(4, 6))
    ours, theirs = getattr(fast, name)(x), getattr(normkit, name)(x)
    assert (type(ours), ours.dtype, ours.shape) == (type(theirs), theirs.dtype, theirs.shape)
    if getattr(x, "device", None) != torch.device("meta"):
        assert bool((ours == theirs).all())
    assert not used


def test_parameters_of_another_dtype_are_answered_by_the_ordinary_function(used):
    x, gamma = half(draw(4, 6)), torch.ones(6)
    assert fast.rms_norm(x, gamma).dtype == torch.bfloat16
    assert fast.rms_norm(x.float(), gamma.double()).dtype == torch.float32
    assert not used


def test_traced_tensors_are_answered_by_the_ordinary_function(used):
    x = torch.tensor(draw(4, 6))
    per_row = torch.func.vmap(fast.rms_norm)(x)
    torch.testing.assert_close(per_row, normkit.rms_norm(x))
    torch.func.grad(lambda x: fast.layer_norm(x).square().sum())(x)
    compiled = torch.compile(fast.rms_norm, backend="eager")
    torch.testing.assert_close(compiled(x), normkit.rms_norm(x))
    torch.func.jvp(fast.rms_norm, (x,), (x,))
    dy = torch.ones_like(x, requires_grad=True)
    fast.rms_norm_backward(dy, x)[0].sum().backward()  # which is differentiated in its turn
    assert dy.grad is not None and not used


@every_norm
def test_without_numba_the_ordinary_function_answers(name, monkeypatch):
    monkeypatch.setattr(fast, "_kernels", None)
    x, given = draw(3, 5), arguments(name, 5)
    assert np.array_equal(getattr(fast, name)(x, *given), getattr(normkit, name)(x, *given))
    ours, theirs = (backward(m, name, x, x, given) for m in (fast, normkit))
    assert all(map(np.array_equal, ours, theirs))


def test_without_numba_and_torch_it_is_imported_all_the_same():
    code = (
        "import sys; sys.modules.update(numba=None, torch=None)\n"
        "import numpy; from normkit import fast; print(fast.rms_norm(numpy.ones(3)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[1. 1. 1.]\n", done.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m, x: m.rms_norm(x, np.ones(3)),
        lambda m, x: m.rms_norm(x, eps=-1),
        lambda m, x: m.layer_norm([1.0, 2.0]),
        lambda m, x: m.layer_norm(x, eps=float("nan")),
        lambda m, x: m.layer_norm(x, torch.ones(4)),
        lambda m, x: m.dyt(x, np.ones(2)),
        lambda m, x: m.dyt(x, None),
        lambda m, x: m.rms_norm(np.array(1.0)),
        lambda m, x: m.rms_norm_backward(np.ones(3), x),
    ],
)
def test_errors_are_those_of_the_ordinary_functions(wrong):
    said = []
    for module in (normkit, fast):
        with pytest.raises((TypeError, ValueError)) as caught:
            wrong(module, draw(2, 4))
        said.append((caught.type, str(caught.value)))
    assert said[0] == said[1]
