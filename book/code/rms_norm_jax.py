"""RMSNorm in JAX, on the worked example."""

import jax
import jax.numpy as jnp


@jax.jit
def rms_norm(x, gamma, eps=1e-6):
    """Divide each row of x by its root mean square, then scale."""
    mean_square = jnp.square(x).mean(axis=-1, keepdims=True)
    return gamma * x * jax.lax.rsqrt(mean_square + eps)


x = jnp.array([[1.0, 2.0, 2.0, 4.0], [1.0, 7.0, 5.0, 5.0]])
gamma = jnp.array([5.0, 1.0, 2.0, 1.0])
y = rms_norm(x, gamma)

# The gradient of a function of y, here y[1, 0] + y[1, 3], comes for free.
gradient = jax.grad(lambda x: rms_norm(x, gamma)[1, jnp.array([0, 3])].sum())
by_hand = jnp.array([0.98, -0.14, -0.10, 0.10])  # see the backward pass
assert jnp.allclose(gradient(x)[1], by_hand, atol=1e-6)
