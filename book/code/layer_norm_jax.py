"""Layer normalisation in JAX, on the worked example."""

import jax
import jax.numpy as jnp


@jax.jit
def layer_norm(x, gamma, beta, eps=1e-5):
    """Normalise each row of x over its last axis, then scale and shift."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)  # biased by default
    return gamma * (x - mean) / jnp.sqrt(variance + eps) + beta


x = jnp.array([[0.2, 0.1, 0.3], [0.5, 0.1, 0.1]])
gamma, beta = jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 0.0, 1.0])
y = layer_norm(x, gamma, beta)

# The same function for one example, mapped over the batch.
per_example = jax.vmap(layer_norm, in_axes=(0, None, None))
assert jnp.allclose(per_example(x, gamma, beta), y, atol=1e-6)
