"""Reading a Transformer from inside: its residual stream as a sum, and what each term says.

A frozen normalisation takes the scale of the complete stream for every term of the sum. It is then
an affine map, and the logits are the sum of what the terms contribute to them.
"""

from typing import Any

from normkit._extras import missing

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    raise missing(error) from error

from normkit import layers
from normkit.placement import CharacterTransformer

_LAYER_NORMS = (nn.LayerNorm, layers.LayerNorm)
_RMS_NORMS: tuple[type, ...] = (nn.RMSNorm, layers.RMSNorm)
_SUMS = ("pre", "peri", "output")  # placements that only ever add to the stream


def stream(model: CharacterTransformer, tokens: Tensor) -> Tensor:
    r"""The residual stream before the first sub-layer, and after each.

    $$ x_0 = \text{characters} + \text{positions}, \qquad x_{l} = x_{l-1} + F_l(x_{l-1}) $$

    model: with placement "pre", "peri" or "output". tokens: integers (B, T).
    Returns (1 + number of sub-layers, B, T, D), in the dtype of the model; a layer has two
    sub-layers.
    Raises ValueError for a placement that normalises the stream: there it is no sum; TypeError
    for a final norm other than LayerNorm or RMSNorm.
    Source: Elhage et al. (2021), A Mathematical Framework for Transformer Circuits.

    See: inside-stream in book/inside.md; tests/normkit/test_inside.py.

    >>> model = CharacterTransformer(vocabulary=5, layers=3)
    >>> stream(model, torch.zeros(2, 4, dtype=torch.long)).shape
    torch.Size([7, 2, 4, 32])
    """
    _check(model)
    states: list[Tensor] = []
    hooks = [
        part.register_forward_pre_hook(lambda _, given: states.append(given[0]))
        for part in (*model.blocks, model.final_norm)  # what a sub-layer or the final norm receives
    ]
    try:
        model(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(states)


def logit_lens(model: CharacterTransformer, tokens: Tensor, frozen: bool = False) -> Tensor:
    r"""The logits that the stream gives after each sub-layer, read as if it were the last.

    $$ z_l = U\, N(x_l) + b $$

    with the final norm N and the head U, b of the model. model, tokens: as in `stream`.
    frozen: divide each $x_l$ by the standard deviation (or root mean square) of the last one.
    Returns (1 + number of sub-layers, B, T, vocabulary); the last are the logits of the model.
    Raises what `stream` raises.
    Source: nostalgebraist (2020), interpreting GPT: the logit lens.

    See: inside-lens in book/inside.md; tests/normkit/test_inside.py.

    >>> model, tokens = CharacterTransformer(vocabulary=5, layers=3), torch.tensor([[0, 1, 2]])
    >>> torch.equal(logit_lens(model, tokens)[-1], model(tokens))
    True
    """
    states = stream(model, tokens)
    if not frozen:
        return model.head(model.final_norm(states))
    linear, shift = _frozen(model.final_norm, states[-1])
    return model.head(linear(states) + shift)


def attribution(model: CharacterTransformer, tokens: Tensor) -> Tensor:
    r"""What each term of the stream contributes to the logits, the last norm frozen.

    $$ z = \sum_l U \frac{\gamma \odot (f_l - \overline{f_l})}{\sqrt{\sigma^2 + \varepsilon}} +
    (U\beta + b) $$

    with $f_0 = x_0$, $f_l = x_l - x_{l-1}$ what sub-layer l has added, and σ that of the last
    stream; for RMSNorm without the mean and β. model, tokens: as in `stream`.
    Returns (2 + number of sub-layers, B, T, vocabulary): the embeddings, the sub-layers, the
    constant. Their sum is the logits of the model.
    Raises what `stream` raises.
    Source: Elhage et al. (2021), A Mathematical Framework for Transformer Circuits.

    See: inside-attribution in book/inside.md; tests/normkit/test_inside.py.

    >>> model, tokens = CharacterTransformer(vocabulary=5, layers=3), torch.tensor([[0, 1, 2]])
    >>> parts = attribution(model, tokens)
    >>> parts.shape, torch.allclose(parts.sum(0), model(tokens), atol=1e-5)
    (torch.Size([8, 1, 3, 5]), True)
    """
    states = stream(model, tokens)
    linear, shift = _frozen(model.final_norm, states[-1])
    terms = torch.cat([states[:1], states.diff(dim=0)])
    parts = linear(terms) @ model.head.weight.T
    constant = model.head(shift.expand_as(states[-1]))
    return torch.cat([parts, constant[None]])


def _frozen(norm: Any, last: Tensor) -> tuple[Any, Tensor]:
    """The linear part of a norm whose scale is that of one input, and its shift."""
    centres = isinstance(norm, _LAYER_NORMS)

    def centred(x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True) if centres else x

    eps = torch.finfo(last.dtype).eps if norm.eps is None else norm.eps
    scale = torch.rsqrt(centred(last).square().mean(-1, keepdim=True) + eps)
    if norm.weight is not None:
        scale = scale * norm.weight
    beta = getattr(norm, "bias", None)
    return lambda x: centred(x) * scale, last.new_zeros(last.shape[-1]) if beta is None else beta


def _check(model: CharacterTransformer) -> None:
    if (placement := model.placement) not in _SUMS:
        raise ValueError(
            f'The stream must be a sum: the placement must be "pre", "peri" or "output". It is '
            f'"{placement}", which normalises the stream or has more than one.'
        )
    if not isinstance(model.final_norm, (*_LAYER_NORMS, *_RMS_NORMS)):
        raise TypeError(
            f"The final norm must be a LayerNorm or an RMSNorm, whose scale can be frozen; it is "
            f"a {type(model.final_norm).__name__}."
        )
