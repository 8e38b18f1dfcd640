"""Group normalisation in JAX, on the worked example."""

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.jit, static_argnums=1)
def group_norm(x, num_groups, gamma, beta, eps=1e-5):
    """Normalise groups of channels, axis 1, of each example by itself."""

    def of_one_example(x):
        groups = x.reshape(num_groups, -1)
        mean = groups.mean(axis=-1, keepdims=True)
        variance = groups.var(axis=-1, keepdims=True)  # biased by default
        x_hat = (groups - mean) / jnp.sqrt(variance + eps)
        # One scale and one shift per channel, for all its positions.
        channels = (-1, *[1] * (x.ndim - 1))
        scale, shift = gamma.reshape(channels), beta.reshape(channels)
        return scale * x_hat.reshape(x.shape) + shift

    # Mapped over the batch, no example can see another one.
    return jax.vmap(of_one_example)(x)


x = jnp.array([[[1.0, 3.0], [5.0, 7.0], [0.0, 0.0], [2.0, 2.0]]])
gamma = jnp.array([1.0, 2.0, 3.0, 4.0])
beta = jnp.array([0.0, 0.0, 1.0, 2.0])
y = group_norm(x, 2, gamma, beta)
