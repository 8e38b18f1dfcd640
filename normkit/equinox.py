"""Normalisations as Equinox modules: the functions of normkit, with parameters and a state.

An array that changes must be a leaf of the pytree, or neither `jit` nor an optimiser sees it: γ
and β are leaves of the module, and the running statistics of BatchNorm are leaves of the state,
which the module takes and returns.
"""

from normkit._arrays import namespace
from normkit._extras import missing
from normkit.channels import batch_norm
from normkit.functions import layer_norm

try:
    import equinox as eqx
    import jax
    from jax import lax
    from jax import numpy as jnp
except ModuleNotFoundError as error:
    raise missing(error) from error


class LayerNorm(eqx.Module):
    r"""Layer normalisation over the last axis.

    $$ y = \gamma \odot \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} + \beta $$

    features: D, the length of the last axis of x.
    weight (γ) starts at 1 and bias (β) at 0, both of shape (D,).
    layer(x): (..., D), with or without `vmap`, to the same shape and dtype; key is ignored,
    `eqx.nn.Sequential` passes one.
    Raises ValueError for another width, and what `normkit.layer_norm` raises.
    Source: Ba, Kiros & Hinton (2016), Layer Normalization, eq. 4 (there without ε).

    See: ln-formula in book/layer_norm.md; tests/normkit/test_equinox.py.

    >>> import numpy as np
    >>> np.asarray(LayerNorm(4)(jnp.array([1.0, 3.0, 5.0, 7.0]))).round(4)
    array([-1.3416, -0.4472,  0.4472,  1.3416], dtype=float32)
    """

    weight: jax.Array
    bias: jax.Array
    eps: float = eqx.field(static=True)

    def __init__(self, features: int, eps: float = 1e-5) -> None:
        self.weight, self.bias = jnp.ones(features), jnp.zeros(features)
        self.eps = eps

    def __call__(self, x: jax.Array, *, key: jax.Array | None = None) -> jax.Array:
        width = self.weight.shape[0]
        _check_width(x, -1, width, f"LayerNorm({width}) normalises the last axis, the features")
        return layer_norm(x, self.weight, self.bias, self.eps)


class BatchNorm(eqx.nn.StatefulLayer):
    r"""Batch normalisation of each channel: layer(x, state) is (y, the new state).

    $$ y = \gamma_c\, \frac{x - \mu_c}{\sqrt{\sigma_c^2 + \varepsilon}} + \beta_c $$

    In training, μ and σ² are those of the batch, and the running statistics in the state move
    towards them: momentum is the share of the new batch, as in torch (in `eqx.nn.BatchNorm` and
    Flax it is what is left to the old value), and the variance they move to is the unbiased one.
    After `eqx.nn.inference_mode(model)`, μ and σ² are the running ones, 0 and 1 at first, and the
    state does not change.

    channels: C. weight (γ) starts at 1 and bias (β) at 0, both of shape (C,).
    axis_name: None if x is the whole batch, (N, C) or (N, C, ...). The name of a `vmap` over the
    examples if x is one of them, (C,) or (C, ...): the statistics are still those of the whole
    batch. State goes in and out of that `vmap` with None.
    Returns y like x, in its dtype; no gradient flows into the state. key is ignored.
    Raises ValueError for another width and what `normkit.batch_norm` raises, and NameError
    outside the `vmap` of that name.
    Source: Ioffe & Szegedy (2015), Batch Normalization, algorithms 1 and 2.

    See: bn-formula in book/batch_norm.md; tests/normkit/test_equinox.py.

    >>> import numpy as np
    >>> layer, state = eqx.nn.make_with_state(BatchNorm)(2)
    >>> x = jnp.array([[1.0, 2.0], [3.0, 6.0], [5.0, 4.0], [7.0, 8.0]])
    >>> y, state = layer(x, state)
    >>> np.asarray(y[:, 0]).round(4)
    array([-1.3416, -0.4472,  0.4472,  1.3416], dtype=float32)
    >>> y, state = eqx.nn.inference_mode(layer)(jnp.array([[4.0, 5.0]]), state)
    >>> np.asarray(y).round(4)
    array([[2.8762, 3.5952]], dtype=float32)
    """

    weight: jax.Array
    bias: jax.Array
    running: eqx.nn.StateIndex
    inference: bool
    axis_name: str | None = eqx.field(static=True)
    momentum: float = eqx.field(static=True)
    eps: float = eqx.field(static=True)

    def __init__(
        self,
        channels: int,
        axis_name: str | None = None,
        *,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> None:
        self.weight, self.bias = jnp.ones(channels), jnp.zeros(channels)
        self.running = eqx.nn.StateIndex((jnp.zeros(channels), jnp.ones(channels)))
        self.inference = False
        self.axis_name, self.momentum, self.eps = axis_name, momentum, eps

    def __call__(
        self, x: jax.Array, state: eqx.nn.State, *, key: jax.Array | None = None
    ) -> tuple[jax.Array, eqx.nn.State]:
        self._check(x)
        batch, place = self._batch(x)
        y, *running = batch_norm(
            batch,
            self.weight,
            self.bias,
            *state.get(self.running),
            training=not self.inference,
            momentum=self.momentum,
            eps=self.eps,
        )
        if not self.inference:
            state = state.set(self.running, lax.stop_gradient(tuple(running)))
        return y[place], state

    def _check(self, x):
        width, name = self.weight.shape[0], self.axis_name
        if name is None:
            axis = 1
            needed = (
                f"BatchNorm({width}) takes the whole batch, (N, {width}) or (N, {width}, ...), the "
                f"channels on axis 1; in a vmap over examples, give it the vmap's axis_name"
            )
        else:
            axis = 0
            needed = (
                f"BatchNorm({width}, {name!r}) takes one example, ({width},) or ({width}, ...), "
                f"in a vmap of that axis_name; without axis_name, it takes the whole batch"
            )
        _check_width(x, axis, width, needed)

    def _batch(self, x):
        """The batch that x is, or is an example of, and the place of x in it."""
        name = self.axis_name
        if name is None:
            return x, ...
        if self.inference:
            return x[None], 0
        try:  # all examples gather the same batch: vmap normalises it once
            return lax.all_gather(x, name), lax.axis_index(name)
        except NameError:
            raise NameError(
                f"In training, an example needs the others of its batch, in a vmap named {name!r}: "
                f"jax.vmap(model, axis_name={name!r}, in_axes=(0, None), out_axes=(0, None))."
            ) from None


def _check_width(x, axis, width, needed):
    namespace(x=x)
    if x.shape[axis:][:1] != (width,):
        raise ValueError(f"{needed}. The shape of x is {tuple(x.shape)}.")
