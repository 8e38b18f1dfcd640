"""Dynamic tanh in JAX, on the worked example."""

import jax
import jax.numpy as jnp


@jax.jit
def dyt(x, alpha, gamma, beta):
    """Squash each number of x, then scale and shift each feature."""
    return gamma * jnp.tanh(alpha * x) + beta


x = jnp.array([[-2.0, 1.0, 10.0], [2.0, 0.0, -1.0]])
gamma, beta = jnp.array([1.0, 2.0, 1.0]), jnp.array([0.0, 1.0, 0.0])
y = dyt(x, 0.5, gamma, beta)

# JAX differentiates the program: the gradient of alpha is one number.
dy = jnp.array([[1.0, 1.0, 1.0], [1.0, 2.0, -1.0]])
dalpha = jax.grad(lambda alpha: (dy * dyt(x, alpha, gamma, beta)).sum())(0.5)
assert jnp.allclose(dalpha, 2.3612, atol=1e-4)
