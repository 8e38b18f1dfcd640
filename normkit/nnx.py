"""Normalisations as Flax NNX modules: the functions of normkit, with torch's names and conventions.

γ, β and α are `nnx.Param`; the running statistics of BatchNorm are `nnx.BatchStat`, which a call in
training changes in place. `nnx.jit` carries such changes out of a compiled function, and `jax.jit`
drops them. Nothing is drawn at random, so no layer takes rngs.
"""

from normkit._arrays import namespace
from normkit._extras import missing
from normkit.alternatives import dyt
from normkit.channels import batch_norm
from normkit.functions import layer_norm, rms_norm

try:
    import jax
    from flax import nnx
    from jax import lax
    from jax import numpy as jnp
except ModuleNotFoundError as error:
    raise missing(error) from error


class LayerNorm(nnx.Module):
    r"""Layer normalisation over the last axis.

    $$ y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta $$

    features: D. weight (γ) starts at 1 and bias (β) at 0, both of shape (D,).
    layer(x): (..., D) to the same shape and dtype.
    Raises ValueError for another width, and what `normkit.layer_norm` raises.
    Source: Ba, Kiros & Hinton (2016), Layer Normalization, eq. 4 (there without ε).

    See: jax-nnx in book/jax.md; tests/normkit/test_nnx.py.

    >>> import numpy as np
    >>> np.asarray(LayerNorm(4)(jnp.array([1.0, 3.0, 5.0, 7.0]))).round(4)
    array([-1.3416, -0.4472,  0.4472,  1.3416], dtype=float32)
    """

    def __init__(self, features: int, eps: float = 1e-5) -> None:
        self.weight, self.bias = nnx.Param(jnp.ones(features)), nnx.Param(jnp.zeros(features))
        self.eps = eps

    def __call__(self, x: jax.Array) -> jax.Array:
        _check_width(self, x, -1)
        return layer_norm(x, self.weight[...], self.bias[...], self.eps)


class RMSNorm(nnx.Module):
    r"""RMSNorm over the last axis: layer normalisation without the mean, and without β.

    $$ y = \gamma \odot \frac{x}{\sqrt{\tfrac{1}{D} \sum_i x_i^2 + \varepsilon}} $$

    features: D. weight (γ) starts at 1, of shape (D,). eps: None is the machine epsilon.
    layer(x): as in `LayerNorm`.
    Source: Zhang & Sennrich (2019), Root Mean Square Layer Normalization, eq. 4.

    See: jax-nnx in book/jax.md; tests/normkit/test_nnx.py.
    """

    def __init__(self, features: int, eps: float | None = None) -> None:
        self.weight, self.eps = nnx.Param(jnp.ones(features)), eps

    def __call__(self, x: jax.Array) -> jax.Array:
        _check_width(self, x, -1)
        return rms_norm(x, self.weight[...], self.eps)


class DyT(nnx.Module):
    r"""Dynamic tanh, in the place of a normalisation.

    $$ y = \gamma \odot \tanh(\alpha x) + \beta $$

    features: D. alpha_init: where α, a single number, starts; weight (γ) at 1, bias (β) at 0.
    layer(x): as in `LayerNorm`.
    Source: Zhu et al. (2025), Transformers without Normalization, eq. 1.

    See: jax-nnx in book/jax.md; tests/normkit/test_nnx.py.
    """

    def __init__(self, features: int, alpha_init: float = 0.5) -> None:
        self.weight, self.bias = nnx.Param(jnp.ones(features)), nnx.Param(jnp.zeros(features))
        self.alpha = nnx.Param(jnp.full(1, alpha_init))

    def __call__(self, x: jax.Array) -> jax.Array:
        _check_width(self, x, -1)
        return dyt(x, self.alpha[...], self.weight[...], self.bias[...])


class BatchNorm(nnx.Module):
    r"""Batch normalisation of each channel, with running statistics that a call changes in place.

    $$ y = \gamma_c\, \frac{x - \mu_c}{\sqrt{\sigma_c^2 + \varepsilon}} + \beta_c $$

    In training, μ and σ² are those of the batch, and the running statistics move towards them:
    momentum is the share of the new batch, and the variance they move to is the unbiased one, both
    as in torch and not as in `nnx.BatchNorm`. After `model.eval()`, μ and σ² are the running ones.

    channels: C. weight (γ) starts at 1 and bias (β) at 0; running_mean at 0 and running_var at 1.
    layer(x): the whole batch, (N, C) or (N, C, ...), to the same shape and dtype.
    Raises ValueError for another width, and what `normkit.batch_norm` raises.
    Source: Ioffe & Szegedy (2015), Batch Normalization, algorithms 1 and 2.

    See: jax-nnx in book/jax.md; tests/normkit/test_nnx.py.

    >>> import numpy as np
    >>> layer = BatchNorm(2)
    >>> y = layer(jnp.array([[1.0, 2.0], [3.0, 6.0], [5.0, 4.0], [7.0, 8.0]]))
    >>> np.asarray(layer.running_mean[...]).round(4)
    array([0.4, 0.5], dtype=float32)
    """

    def __init__(self, channels: int, *, momentum: float = 0.1, eps: float = 1e-5) -> None:
        self.weight, self.bias = nnx.Param(jnp.ones(channels)), nnx.Param(jnp.zeros(channels))
        self.running_mean = nnx.BatchStat(jnp.zeros(channels))
        self.running_var = nnx.BatchStat(jnp.ones(channels))
        self.use_running_average = False  # the name that train() and eval() set
        self.momentum, self.eps = momentum, eps

    def __call__(self, x: jax.Array) -> jax.Array:
        _check_width(self, x, 1)
        training, statistics = not self.use_running_average, (self.running_mean, self.running_var)
        y, *running = batch_norm(
            x,
            self.weight[...],
            self.bias[...],
            *(each[...] for each in statistics),
            training=training,
            momentum=self.momentum,
            eps=self.eps,
        )
        if training:
            for each, new in zip(statistics, running, strict=True):
                each[...] = lax.stop_gradient(new)
        return y


def _check_width(layer, x, axis):
    namespace(x=x)
    width = layer.weight.shape[0]
    if x.shape[axis:][:1] != (width,):
        raise ValueError(
            f"{type(layer).__name__}({width}) takes {width} features on axis {axis}. The shape of "
            f"x is {tuple(x.shape)}."
        )
