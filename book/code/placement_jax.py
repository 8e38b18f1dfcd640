"""A Post-Norm and a Pre-Norm block in JAX, on the worked example."""

import jax
import jax.numpy as jnp


def norm(v, eps=1e-5):
    """Layer normalisation, with scale 1 and shift 0."""
    return jax.nn.standardize(v, axis=-1, epsilon=eps)


def branch(v):
    """A toy sub-layer: the third feature first, then zeros."""
    return jnp.zeros_like(v).at[..., 0].set(v[..., 2])


def post_sublayer(x):
    """Normalise the sum."""
    return norm(x + branch(x))


def pre_sublayer(x):
    """Normalise the input of the branch."""
    return x + branch(norm(x))


x = jnp.array([[0.0, 2.0, 4.0]])
post = post_sublayer(post_sublayer(x))
pre = pre_sublayer(pre_sublayer(x))
final = norm(pre)  # after the last block

# The gradient of the first feature that one sub-layer returns.
post_gradient = jax.grad(lambda x: post_sublayer(x)[0, 0])(x)
pre_gradient = jax.grad(lambda x: pre_sublayer(x)[0, 0])(x)
