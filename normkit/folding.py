"""Folding: what a normalisation does to every token alike moves into the weights beside it.

A fixed scale and shift is an affine map, so it joins the linear map before or after it. A
statistic of the token itself, such as 1/RMS, differs from token to token: no fixed weight holds it.
A fold of two layers returns a Sequential that takes their place.
"""

import copy
from typing import Any, TypeVar

from normkit._extras import missing

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    raise missing(error) from error

from normkit import layers
from normkit.placement import Attention, CharacterTransformer

_Layer = TypeVar("_Layer", nn.Linear, nn.Embedding)

_BATCH_NORMS = {
    nn.Linear: (nn.BatchNorm1d, layers.BatchNorm1d),
    nn.Conv1d: (nn.BatchNorm1d, layers.BatchNorm1d),
    nn.Conv2d: (nn.BatchNorm2d, layers.BatchNorm2d),
}
_ALL_BATCH_NORMS = _BATCH_NORMS[nn.Linear] + _BATCH_NORMS[nn.Conv2d]
_LAYER_NORMS = (nn.LayerNorm, layers.LayerNorm)
_RMS_NORMS: tuple[type, ...] = (nn.RMSNorm, layers.RMSNorm)
_OVER_FEATURES = (*_LAYER_NORMS, *_RMS_NORMS, layers.DyT, layers.Derf)


def fold_batch_norm(first: nn.Module, second: nn.Module) -> nn.Sequential:
    r"""Batch normalisation in evaluation, merged with the linear map beside it.

    With $a = \gamma / \sqrt{\sigma^2 + \varepsilon}$ and $c = \beta - a\mu$ from the running
    statistics, the norm is y = ax + c. After a linear map and before it:

    $$ W' = \operatorname{diag}(a)\, W, \quad b' = a \odot b + c \qquad \text{and} \qquad
    W' = W \operatorname{diag}(a), \quad b' = b + W c $$

    first, second: in the order of the data, a BatchNorm1d with a Linear, over (N, C), or with a
    Conv1d, or a BatchNorm2d with a Conv2d; of torch or of normkit. Neither changes.
    Returns a new Linear or convolution that does the work of both, as a Sequential of one.
    Raises ValueError for what does not fold: in training, without running statistics, and before
    a zero-padded convolution, whose border sees 0 where the norm would have sent it c.
    Source: Ioffe & Szegedy (2015), Batch Normalization, algorithm 2, step 11.

    See: bn-folding in book/batch_norm.md; tests/normkit/test_folding.py.

    >>> linear, norm = nn.Linear(1, 1), nn.BatchNorm1d(1, eps=0).eval()
    >>> numbers = {linear.weight: 2, linear.bias: 1, norm.weight: 2, norm.bias: -1}
    >>> numbers |= {norm.running_mean: 3, norm.running_var: 4}
    >>> for tensor, number in numbers.items():
    ...     _ = nn.init.constant_(tensor, number)
    >>> (folded,) = fold_batch_norm(linear, norm)
    >>> folded.weight.item(), folded.bias.item()
    (2.0, -3.0)
    """
    if isinstance(first, _ALL_BATCH_NORMS):
        return _fold_before(first, second)
    _check_batch_norm(second, first, "out_channels", "out_features")
    scale, shift = _scale_and_shift(second)
    weight, bias = _double(first.weight), _double(first.bias)
    bias = shift if bias is None else scale * bias + shift
    return nn.Sequential(_with(first, _spread(scale, weight) * weight, bias))


def _fold_before(norm: Any, layer: Any) -> nn.Sequential:
    _check_batch_norm(norm, layer, "in_channels", "in_features")
    if not isinstance(layer, nn.Linear) and _pads_with_zeros(layer):
        raise ValueError(
            "A batch norm before a zero-padded convolution does not fold: the padding puts 0 "
            "where the norm sends nothing, and no bias is right both there and inside. Fold the "
            "norm into the layer before it, or use padding=0 or another padding_mode."
        )
    scale, shift = _scale_and_shift(norm)
    weight, bias = _double(layer.weight), _double(layer.bias)
    groups = getattr(layer, "groups", 1)
    # For each output, the scales and shifts of the channels that its group reads.
    scale, shift = (
        _spread(v.reshape(groups, -1).repeat_interleave(len(weight) // groups, 0), weight)
        for v in (scale, shift)
    )
    added = (weight * shift).flatten(1).sum(1)
    bias = added if bias is None else bias + added
    return nn.Sequential(_with(layer, weight * scale, bias))


def fold_affine(norm: nn.Module, linear: nn.Linear) -> nn.Sequential:
    r"""γ and β of a norm over features, merged into the Linear that follows it.

    $$ W' = W \operatorname{diag}(\gamma), \quad b' = b + W\beta $$

    Into the Linear before, γ and β cannot move: the statistics lie between.

    norm: LayerNorm or RMSNorm, of torch or of normkit, DyT or Derf, over (D,) alone.
    linear: from D features. If the output of the norm feeds several Linears (queries, keys and
    values), fold it into each. Neither argument changes.
    Returns the norm without γ and β, and the new Linear, as a Sequential.
    Raises TypeError for other layers, ValueError for a norm over other axes.

    See: rms-folding in book/rms_norm.md; tests/normkit/test_folding.py.

    >>> norm, linear = layers.RMSNorm(2), nn.Linear(2, 1, bias=False)
    >>> for parameter, values in ((norm.weight, [10.0, 100.0]), (linear.weight, [[1.0, 2.0]])):
    ...     parameter.data = torch.tensor(values)
    >>> fold_affine(norm, linear)[1].weight.tolist()
    [[10.0, 200.0]]
    """
    _check_features(norm, _OVER_FEATURES, "LayerNorm, RMSNorm, DyT or Derf", linear, "in_features")
    gamma, beta = (_double(getattr(norm, name, None)) for name in ("weight", "bias"))
    weight, bias = _double(linear.weight), _double(linear.bias)
    if beta is not None:
        bias = weight @ beta + (0 if bias is None else bias)
    bare: Any = copy.deepcopy(norm)
    bare.elementwise_affine = False
    for name in ("weight", "bias"):
        if getattr(bare, name, None) is not None:
            setattr(bare, name, None)
    return nn.Sequential(bare, _with(linear, weight if gamma is None else weight * gamma, bias))


def fold_centring(linear: nn.Linear, norm: nn.LayerNorm | layers.LayerNorm) -> nn.Sequential:
    r"""The centring of a LayerNorm, merged into the Linear before it: RMSNorm may follow.

    $$ W' = W - \tfrac{1}{D} \mathbf{1} \mathbf{1}^\top W, \quad b' = b - \overline{b}, \qquad
    \operatorname{LN}(Wx + b) = \operatorname{RMSNorm}(W'x + b') $$

    The means run over the outputs: every output W'x + b' has mean 0. Nothing may be added between
    the two: on a residual stream, everything that writes to the stream has to be centred.

    linear: to D features. norm: LayerNorm of torch or of normkit over (D,), without β, which
    RMSNorm has not: `fold_affine` moves it into the next Linear first. Neither argument changes.
    Returns the new Linear and an RMSNorm with the γ and ε of the norm, as a Sequential.
    Raises TypeError for other layers, ValueError for β or a norm over other axes.

    See: rms-folding in book/rms_norm.md; tests/normkit/test_folding.py.

    >>> linear = nn.Linear(3, 4)
    >>> folded = fold_centring(linear, layers.LayerNorm(4, bias=False))
    >>> bool(folded[0](torch.ones(3)).mean().abs() < 1e-6)
    True
    """
    if isinstance(norm, _RMS_NORMS):
        raise TypeError("RMSNorm does not centre: there is nothing to fold into the Linear.")
    _check_features(norm, _LAYER_NORMS, "LayerNorm", linear, "out_features")
    if norm.bias is not None:
        raise ValueError(
            "RMSNorm, which takes the place of the norm, has no β. Move β into the Linear after "
            "the norm with fold_affine first, or use a LayerNorm with bias=False."
        )
    gamma = norm.weight
    rms = layers.RMSNorm(norm.normalized_shape, norm.eps, elementwise_affine=gamma is not None)
    if gamma is not None:
        rms.weight = nn.Parameter(gamma.detach().clone(), gamma.requires_grad)
    return nn.Sequential(centre_writer(linear), rms.train(norm.training))


def centre_writer(layer: _Layer) -> _Layer:
    r"""A layer whose output is added to a residual stream, without the mean of that output.

    $$ W' = W - \tfrac{1}{D} \mathbf{1} \mathbf{1}^\top W, \quad b' = b - \overline{b} $$

    layer: a Linear to the D features of the stream, or an Embedding, each of whose rows loses its
    mean. It does not change.
    Returns a new layer. If all that writes to a stream is centred, the stream has mean 0, and a
    LayerNorm without β that reads it is an RMSNorm with the same γ and ε.
    Raises TypeError for other layers, and for an Embedding with max_norm.
    Source: TransformerLens, `center_writing_weights`; Jiang et al. (2023), Pre-RMSNorm.

    See: inside-folding in book/inside.md; tests/normkit/test_folding.py.

    >>> table = nn.Embedding.from_pretrained(torch.tensor([[1.0, 2.0, 6.0]]))
    >>> centre_writer(table).weight.tolist()
    [[-2.0, -1.0, 3.0]]
    """
    if isinstance(layer, nn.Linear):
        weight, bias = _double(layer.weight), _double(layer.bias)
        return _with(layer, weight - weight.mean(0), None if bias is None else bias - bias.mean())
    if not isinstance(layer, nn.Embedding) or layer.max_norm is not None:
        raise TypeError(
            "What writes to the stream must be a Linear, or an Embedding without max_norm, which "
            f"would rescale the centred rows; this is {layer}."
        )
    weight, new = _double(layer.weight), copy.deepcopy(layer)
    centred = (weight - weight.mean(1, keepdim=True)).to(layer.weight.dtype)
    new.weight = nn.Parameter(centred, layer.weight.requires_grad)
    return new


def centre_reader(linear: nn.Linear) -> nn.Linear:
    r"""A Linear that does not depend on the mean of its input.

    $$ W' = W - W \tfrac{1}{D} \mathbf{1} \mathbf{1}^\top, \qquad W'x = W(x - \overline{x}) $$

    linear: from D features; it does not change. After `fold_affine` this takes the centring of a
    LayerNorm over: $U \operatorname{LN}(x) + b = W'x / \sqrt{\sigma^2 + \varepsilon} + b'$. The
    σ of the token stays outside, and is still measured about the mean.
    Returns a new Linear, with the same bias.
    Raises TypeError for other layers.
    Source: TransformerLens, `fold_layer_norm` with center_weights.

    See: inside-folding in book/inside.md; tests/normkit/test_folding.py.

    >>> linear = nn.Linear(4, 1)
    >>> linear.weight.data = torch.tensor([[6.0, 1.0, 0.0, 1.0]])
    >>> centre_reader(linear).weight.tolist()
    [[4.0, -1.0, -2.0, -1.0]]
    """
    if not isinstance(linear, nn.Linear):
        raise TypeError(f"What reads the stream must be a Linear; it is a {type(linear).__name__}.")
    weight = _double(linear.weight)
    return _with(linear, weight - weight.mean(1, keepdim=True), _double(linear.bias))


def fold_transformer(model: CharacterTransformer) -> CharacterTransformer:
    r"""A Pre-Norm Transformer with the same logits, whose norms have neither parameters nor a mean.

    γ and β of each norm move into all the matrices that read its output, with `fold_affine`. If the
    norms are LayerNorm, all that writes to the stream is centred, with `centre_writer`: the
    embeddings and the last matrix of each sub-layer. Each LayerNorm is then an RMSNorm.

    model: with placement "pre" and norms that `fold_affine` takes; it does not change.
    Returns a new model.
    Raises ValueError for another placement, TypeError for other norms.
    Source: TransformerLens, `fold_ln` and `center_writing_weights`; Jiang et al. (2023).

    See: inside-folding in book/inside.md; tests/normkit/test_folding.py.

    >>> model, tokens = CharacterTransformer(vocabulary=5), torch.tensor([[0, 1, 2]])
    >>> twin = fold_transformer(model)
    >>> twin.final_norm
    RMSNorm((32,), eps=1e-05, elementwise_affine=False)
    >>> torch.allclose(twin(tokens), model(tokens), atol=1e-5)
    True
    """
    if (placement := model.placement) != "pre":
        raise ValueError(
            'Only placement="pre" folds: its norms stand between the stream and matrices. It is '
            f'"{placement}", where a norm writes to the stream or changes it.'
        )
    centring = isinstance(model.final_norm, _LAYER_NORMS)
    twin = copy.deepcopy(model)
    twin.final_norm = _into_readers(twin.final_norm, twin, "head")
    for block in twin.blocks:
        attention = isinstance(block.branch, Attention)
        readers, writer = (("q", "k", "v"), "out") if attention else (("up",), "down")
        block.norm_before = _into_readers(block.norm_before, block.branch, *readers)
        if centring:
            setattr(block.branch, writer, centre_writer(getattr(block.branch, writer)))
    if centring:
        twin.characters = centre_writer(twin.characters)
        twin.positions = centre_writer(twin.positions)
    return twin


def _into_readers(norm: Any, branch: nn.Module, *readers: str) -> nn.Module:
    """Fold γ and β into these layers of the branch; return the norm of a stream with mean 0."""
    folded = {name: fold_affine(norm, getattr(branch, name)) for name in readers}
    for name, (_, linear) in folded.items():
        setattr(branch, name, linear)
    if not isinstance(norm, _LAYER_NORMS):
        return folded[readers[0]][0]
    rms = layers.RMSNorm(norm.normalized_shape, norm.eps, elementwise_affine=False)
    return rms.train(norm.training)


# --- Checks -----------------------------------------------------------------------------------


def _check_batch_norm(norm: Any, layer: Any, channels: str, features: str) -> None:
    kinds = next((kinds for kind, kinds in _BATCH_NORMS.items() if isinstance(layer, kind)), ())
    if not isinstance(norm, kinds):
        raise TypeError(
            "A BatchNorm1d folds into a Linear or Conv1d, a BatchNorm2d into a Conv2d; these are "
            f"{type(norm).__name__} and {type(layer).__name__}."
        )
    if norm.running_mean is None:
        raise ValueError(
            "A batch norm with track_running_stats=False does not fold: without running "
            "statistics it takes those of each batch, and fixed weights cannot know them."
        )
    if norm.training:
        raise ValueError(
            "A batch norm in training does not fold: it takes the statistics of each batch. Call "
            "eval() first, when training is over."
        )
    count = getattr(layer, features if isinstance(layer, nn.Linear) else channels)
    if norm.num_features != count:
        raise ValueError(
            f"The layers must have the same channels between them; the batch norm has "
            f"{norm.num_features}, the {type(layer).__name__} {count}."
        )


def _check_features(
    norm: Any, kinds: tuple[type[Any], ...], names: str, linear: Any, side: str
) -> None:
    if not isinstance(norm, kinds) or not isinstance(linear, nn.Linear):
        raise TypeError(
            f"norm must be a {names}, and linear a Linear; they are {type(norm).__name__} and "
            f"{type(linear).__name__}. Batch norm has fold_batch_norm."
        )
    if tuple(norm.normalized_shape) != (getattr(linear, side),):
        raise ValueError(
            f"The norm must be over the last axis alone, the {side} of the Linear, "
            f"({getattr(linear, side)},); it is over {tuple(norm.normalized_shape)}."
        )


def _pads_with_zeros(conv: Any) -> bool:
    if conv.padding_mode != "zeros" or conv.padding == "valid":
        return False  # the other modes repeat values of x, on which the norm acts as inside
    return any(k > 1 for k in conv.kernel_size) if conv.padding == "same" else any(conv.padding)


# --- Weights ----------------------------------------------------------------------------------


def _scale_and_shift(norm: Any) -> tuple[Tensor, Tensor]:
    """Batch norm in evaluation as ax + c."""
    mean, var = _double(norm.running_mean), _double(norm.running_var)
    gamma, beta = _double(norm.weight), _double(norm.bias)
    scale = (1 if gamma is None else gamma) / torch.sqrt(var + norm.eps)
    return scale, (0 if beta is None else beta) - scale * mean


def _double(tensor: Any) -> Any:
    """A copy in float64: the weights are rounded once, at the end."""
    return None if tensor is None else tensor.detach().to(torch.float64, copy=True)


def _spread(values: Tensor, weight: Tensor) -> Tensor:
    """The values shaped to line up with the first axes of the weight."""
    return values.reshape(*values.shape, *(1,) * (weight.ndim - values.ndim))


def _with(layer: Any, weight: Tensor, bias: Tensor | None) -> Any:
    """A copy of the layer with other weights, in the dtype of its own."""
    new = copy.deepcopy(layer)
    dtype, learns = layer.weight.dtype, layer.weight.requires_grad
    new.weight = nn.Parameter(weight.to(dtype), learns)
    new.bias = None if bias is None else nn.Parameter(bias.to(dtype), learns)
    return new
