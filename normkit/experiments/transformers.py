"""Small Transformers on French names: where to normalise, and with what."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from normkit import data
from normkit.experiments.training import (
    Batch,
    Row,
    _seeded,
    cross_entropy,
    fit,
    known,
    loss,
    reproducible,
    table,
)
from normkit.layers import BatchNorm1d, Derf, DyT, LayerNorm, RMSNorm
from normkit.placement import CharacterTransformer, Design, FeedForward, NormMaker, Placement
from normkit.placements import admin_init

LENGTH, BATCH = 16, 32


def _no_norm(width, device=None, dtype=None):
    return nn.Identity()


class _TokenBatchNorm(BatchNorm1d):
    """Over the batch and the positions: all tokens (..., D) are examples."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, -2)).view_as(x)


NORMS: dict[str, NormMaker] = {
    "layer": LayerNorm,
    "rms": RMSNorm,
    "batch": _TokenBatchNorm,
    "dyt": DyT,
    "derf": Derf,
    "none": _no_norm,
}


def depth_sweep(
    placements: Sequence[Design] = ("post", "pre", "deep"),
    depths: Sequence[int] = (6, 12, 24),
    seeds: Sequence[int] = (0,),
    steps: int = 150,
    lr: float = 1e-3,
    warmup: int = 0,
    qk_norm: Literal["full", "head"] | None = None,
) -> list[Row]:
    """How deep a Transformer may be, by the placement of its norms.

    placements, qk_norm: as in `CharacterTransformer`, of 32 features and 2 heads; "admin" is
    measured on one batch. depths: N.
    steps: of Adam (betas 0.9 and 0.98) on 32 sequences of 16 characters each. warmup: over so
    many of them the rate grows to lr.
    Returns a row per placement, depth and seed: the loss on all training names after the last
    step; the entropy, the loss of a model that knows only how often each character comes; and
    the curve, the loss of each batch.
    Expect post to train at 6 layers, and to stay at the entropy, 2.92, at 12 and 24; pre and
    deep to train at all depths, to about 2.3. With steps=400 and warmup=200, post trains at 12
    layers, and does not at 24.
    Source: Xiong et al. (2020), On Layer Normalization in the Transformer Architecture; Wang et
    al. (2022), DeepNet.
    """
    text = _text()
    entropy = data.unigram_entropy(text.train.numpy())

    def run(generator, placement, layers):
        model = _model(text, layers, placement=placement, qk_norm=qk_norm)
        if placement == "admin":
            admin_init(model, text.train[: BATCH * LENGTH].view(BATCH, LENGTH))
        curve = _train(model, text, steps, lr, warmup, generator)
        final = loss(model, *_rows(text.train))
        return [{"loss": final, "entropy": entropy, "curve": curve}]

    return table("depth", run, placement=placements, layers=depths, seed=seeds)


def gradient_norms(
    placements: Sequence[Placement] = ("post", "pre", "deep"),
    depths: Sequence[int] = (4, 8, 16, 32, 64),
    seeds: Sequence[int] = (0, 1, 2),
    qk_norm: Literal["full", "head"] | None = None,
) -> list[Row]:
    r"""The gradient that each layer receives before training.

    $$ g_l = \left\lVert \frac{\partial L}{\partial W_l} \right\rVert_F $$

    with W the second matrix of the feed-forward part of layer l. Settings as in `depth_sweep`;
    nothing is trained.
    Returns a row per placement, depth, seed and layer (1 is the first): gradient.
    Expect the gradient of the last layer to be the same at all depths with post, and to fall
    with pre and deep, about as N to the power -1/2; and to be as great in the first layer as in
    the last with deep alone. With output, that of the first layer explodes: it needs qk_norm.
    Source: Xiong et al. (2020), theorem 1 and figure 3.
    """
    text = _text()

    def run(generator, placement, layers):
        model = _model(text, layers, placement=placement, qk_norm=qk_norm)
        ((x, y),) = _windows(text, 1, generator)
        parts = [part for part in model.modules() if isinstance(part, FeedForward)]
        weights = [part.down.weight for part in parts]
        gradients = torch.autograd.grad(cross_entropy(model(x), y), weights)
        for layer, gradient in enumerate(gradients, start=1):
            yield {"layer": layer, "gradient": gradient.norm().item()}

    return table("gradients", run, placement=placements, layers=depths, seed=seeds)


def same_task(
    norms: Sequence[str] = ("layer", "rms", "dyt", "derf", "none"),
    seeds: Sequence[int] = (0,),
    layers: int = 12,
    steps: int = 200,
    lr: float = 3e-3,
    alpha: float = 0.5,
) -> list[Row]:
    """The same Transformer, pre-norm, with different norms.

    norms: "layer", "rms", "batch" (over the batch and the positions), "dyt", "derf", "none".
    steps, lr: of Adam, as in `depth_sweep`, without warm-up. alpha: where α of DyT and Derf starts.
    Returns a row per norm and seed: the losses train and development, of nine names in ten and
    of the others, both in evaluation.
    Expect layer, RMS and batch normalisation to differ less than two seeds do; DyT and Derf to be
    about 0.15 behind on the training names, about 0.05 on the others; and "none" to explode.
    In training, the statistics of batch normalisation contain the characters to come.
    Source: Zhang & Sennrich (2019); Zhu et al. (2025), Transformers without Normalization; Chen
    et al. (2025), Stronger Normalization-Free Transformers.
    """
    known("norms", norms, NORMS)
    text = _text()
    makers = NORMS | {name: partial(NORMS[name], alpha_init=alpha) for name in ("dyt", "derf")}

    def run(generator, norm):
        model = _model(text, layers, norm=makers[norm])
        _train(model, text, steps, lr, 0, generator)
        losses = (loss(model, *_rows(part)) for part in (text.train, text.development))
        return [dict(zip(("train", "development"), losses, strict=True))]

    return table("same task", run, norm=norms, seed=seeds)


def trained(
    layers: int = 4, steps: int = 250, lr: float = 3e-3, seed: int = 0
) -> tuple[CharacterTransformer, "Text"]:
    """One Pre-Norm Transformer with LayerNorm, trained, and its text: for what looks inside it.

    steps, lr: of Adam, as in `depth_sweep`, without warm-up.
    Expect a loss of about 2.1 on the training names and 2.3 on the others, after two seconds; with
    many more steps it knows the training names by heart.
    """
    text = _text()
    with reproducible():
        generator = _seeded(seed)
        model = _model(text, layers)
        _train(model, text, steps, lr, 0, generator)
    return model, text


# --- Model and text ---------------------------------------------------------------------------


class Text(NamedTuple):
    """Names one after the other, nine in ten for training."""

    characters: str
    train: Tensor
    development: Tensor


def _text() -> Text:
    names = data.french_names()
    characters = data.vocabulary(names)
    parts = (data.stream(part, characters) for part in data.split(names))
    return Text(characters, *map(torch.from_numpy, parts))


def _model(text: Text, layers: int, **options: Any) -> CharacterTransformer:
    return CharacterTransformer(len(text.characters), layers=layers, length=LENGTH, **options)


def _train(
    model: nn.Module,
    text: Text,
    steps: int,
    lr: float,
    warmup: int,
    generator: torch.Generator,
) -> np.ndarray:
    optimiser = torch.optim.Adam(model.parameters(), lr, betas=(0.9, 0.98), fused=True)
    return fit(model, _windows(text, steps, generator), optimiser, warmup)


def _windows(text: Text, steps: int, generator: torch.Generator) -> list[Batch]:
    """Sequences from anywhere in the training text, and the same one character later."""
    last, offsets = len(text.train) - LENGTH, torch.arange(LENGTH + 1)
    starts = torch.randint(last, (steps, BATCH, 1), generator=generator)
    return [(window[:, :-1], window[:, 1:]) for window in text.train[starts + offsets]]


def _rows(tokens: Tensor) -> Batch:
    """A text cut into sequences, and the same one character later; a shorter end is left out."""
    count = (len(tokens) - 1) // LENGTH * LENGTH
    x, y = tokens[:count], tokens[1 : count + 1]
    return x.unflatten(0, (-1, LENGTH)), y.unflatten(0, (-1, LENGTH))
