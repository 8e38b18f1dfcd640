"""What is told of a layer's state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import normkit
from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import observe
from normkit.tutor.states import (
    NEITHER,
    backward,
    is_in_jax,
    is_of_jax,
    new,
    shapes,
    starts,
)


def test_names_and_shapes_are_sorted():
    assert shapes(torch.nn.LayerNorm(3).named_parameters()) == "bias(3,) weight(3,)"


def test_a_start_is_all_ones_or_all_zeros_or_unknown():
    layer = torch.nn.LayerNorm(2)
    assert starts(layer.named_parameters()) == "bias = 0, weight = 1"
    layer.bias.data = torch.tensor([0.0, -0.0])
    assert starts(layer.named_parameters()) == "bias = 0, weight = 1"
    layer.bias.data = torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert starts(layer.named_parameters()) == f"bias = {NEITHER}, weight = 1 float64"


def test_what_is_neither_is_told_in_the_language_of_the_student():
    class Drawn(combine("layer_norm/LayerNorm")):
        def __init__(self, features, eps=1e-5):
            super().__init__(features, eps)
            torch.nn.init.normal_(self.weight)

    said = judge(observe(Drawn, "layer_norm/layer"), "layer_norm/layer").explain("fr")
    assert "weight = ni tous 0 ni tous 1" in said


def test_a_layer_is_made_of_a_class_not_of_a_layer():
    assert new(torch.nn.LayerNorm, 2, eps=0.5).eps == 0.5
    with pytest.raises(TypeError, match="'LayerNorm' object is not a class"):
        new(torch.nn.LayerNorm(2), 2)


def test_the_gradient_handed_back_is_torchs():
    x, dy = torch.ones(2, 3, requires_grad=True), torch.arange(6.0).reshape(2, 3)
    backward(x**2, dy)
    torch.testing.assert_close(x.grad, torch.autograd.grad(x**2, x, dy)[0], rtol=0, atol=0)


# --- A function in JAX ------------------------------------------------------------------------


def mean(x):
    return jnp.mean(x)


def imports_it_inside(x):
    import jax.numpy as anything

    return anything.mean(x)


IN_JAX = [mean, jax.jit(mean), imports_it_inside, lambda x: mean(x)]
IN_NUMPY = [normkit.rms_norm, np.mean, lambda x: np.mean(x), "jax", None, object]


@pytest.mark.parametrize("answer", IN_JAX)
def test_a_function_in_jax_is_known_by_what_it_names(answer):
    assert is_in_jax(answer)


@pytest.mark.parametrize("answer", IN_NUMPY)
def test_other_answers_are_not_in_jax(answer):
    assert not is_in_jax(answer)


def test_functions_that_call_each_other_are_read_once():
    names = {}
    exec("def f(x): return g(x)\ndef g(x): return f(x)", names)
    assert not is_in_jax(names["f"])


def test_an_array_of_jax_is_told_from_other_values():
    assert is_of_jax(jnp.ones(2))
    assert not any(map(is_of_jax, (np.ones(2), torch.ones(2), 1.0, "jax", jnp)))
