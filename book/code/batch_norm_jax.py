"""Batch normalisation in JAX, on the worked example."""

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.jit, static_argnames="training")
def batch_norm(x, gamma, beta, running, training, momentum=0.1, eps=1e-5):
    """Normalise each channel; return y and the running statistics."""
    shared = (0, *range(2, x.ndim))  # examples and positions
    channels = (-1, *[1] * (x.ndim - 2))
    mean, variance = running
    if training:
        mean, variance = x.mean(axis=shared), x.var(axis=shared)
        seen = mean, x.var(axis=shared, ddof=1)
        # The state comes in and goes out: nothing is changed in place.
        running = jax.tree.map(
            lambda old, batch: (1 - momentum) * old + momentum * batch,
            running,
            jax.lax.stop_gradient(seen),
        )
    centred = x - mean.reshape(channels)
    x_hat = centred / jnp.sqrt(variance.reshape(channels) + eps)
    y = gamma.reshape(channels) * x_hat + beta.reshape(channels)
    return y, running


x = jnp.array([[1.0, 2.0], [3.0, 6.0], [5.0, 4.0], [7.0, 8.0]])
gamma, beta = jnp.ones(2), jnp.zeros(2)
start = jnp.zeros(2), jnp.ones(2)  # mean 0, variance 1
y, running = batch_norm(x, gamma, beta, start, training=True)
new = jnp.array([[4.0, 5.0]])
z, _ = batch_norm(new, gamma, beta, running, training=False)
