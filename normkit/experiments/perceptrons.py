"""Networks without attention, with and without normalisation, on digits and on names."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from normkit import data
from normkit.experiments.training import (
    Batch,
    Row,
    accuracy,
    checkpoints,
    cross_entropy,
    draw_batches,
    fit,
    known,
    loss,
    table,
    with_population_statistics,
)
from normkit.layers import BatchNorm1d, GroupNorm, LayerNorm

ACTIVATIONS = {"sigmoid": nn.Sigmoid, "relu": nn.ReLU, "tanh": nn.Tanh}
NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": nn.Identity,
    "batch": BatchNorm1d,
    "layer": LayerNorm,
    "group": partial(GroupNorm, 8),
}


def trainability(
    activations: Sequence[str] = ("sigmoid", "relu", "tanh"),
    norms: Sequence[str] = ("none", "batch"),
    lrs: Sequence[float] = (0.01, 0.1, 1.0, 3.0),
    scales: Sequence[float] = (1.0,),
    seeds: Sequence[int] = (0, 1, 2),
    layers: int = 8,
    epochs: int = 4,
) -> list[Row]:
    r"""The learning rates and initial weights with which a deep network trains.

    $$ W \sim \mathcal{N}\left(0, \frac{s^2}{\text{inputs}}\right) $$

    activations: "sigmoid", "relu", "tanh". norms: "none", "batch", "layer", "group" (8 groups),
    before the activation. scales: s of the hidden layers; it is 1 for the last. layers: hidden
    ones, of 64. Plain gradient descent on batches of 64 digits.
    Returns a row per activation, norm, lr, scale and seed: accuracy on the test images.
    Expect the sigmoid at rate 0.1 to stay at chance without norm (0.10), and to reach 0.94 with
    batch normalisation; at rate 1, nothing trains without norm and all reach about 0.9 with it.
    Source: after Ioffe & Szegedy (2015), section 4.2.2, on a small scale.
    """
    known("activations", activations, ACTIVATIONS)
    known("norms", norms, NORMS)
    train, test = _digits()
    steps = len(train[0]) // 64 * epochs

    def run(generator, activation, norm, lr, scale):
        model = perceptron([64] * (layers + 1) + [10], activation, NORMS[norm], scale)
        batches = draw_batches(*train, 64, steps, generator)
        fit(model, batches, torch.optim.SGD(model.parameters(), lr))
        return [{"accuracy": accuracy(model, *test)}]

    return table(
        "trainability", run, activation=activations, norm=norms, lr=lrs, scale=scales, seed=seeds
    )


def running_mean(
    momenta: Sequence[float] = (0.9, 0.1, 0.01, 0.001),
    batch: int = 8,
    channels: int = 1024,
    seeds: Sequence[int] = (0,),
) -> list[Row]:
    r"""The running mean of a `BatchNorm1d` that is fed batches of N(1, 1): delay and noise.

    $$ \text{steps} = \frac{\ln 0.05}{\ln(1 - m)}, \quad
    \text{std} = \frac{1}{\sqrt{B}} \sqrt{\frac{m}{2 - m}} $$

    momenta: m, the share of the new batch. batch: B. channels: independent repetitions.
    Returns a row per momentum and seed: the steps until the running mean, from 0 and averaged
    over the channels, is 95 % of the true one; later, its std over the channels; and
    expected_steps and expected_std from the equations.
    Expect small momenta to be late and quiet: 28 steps at 0.1, 298 at 0.01; std 0.32 at 0.9,
    which is the momentum of other libraries given to PyTorch by mistake, and 0.08 at 0.1.
    """

    def run(generator, momentum):
        if not 0 < momentum < 1:
            raise ValueError(f"momenta must lie between 0 and 1, without either; got {momentum}.")
        layer, steps = BatchNorm1d(channels, momentum=momentum), 0
        for step in range(1, math.ceil(8 / momentum) + 1):  # less than e⁻⁸ of the start is left
            layer(torch.randn(batch, channels, generator=generator) + 1)
            if not steps and layer.running_mean.mean() >= 0.95:
                steps = step
        return [
            {
                "steps": steps,
                "expected_steps": math.log(0.05) / math.log(1 - momentum),
                "std": layer.running_mean.std().item(),
                "expected_std": math.sqrt(momentum / (2 - momentum) / batch),
            }
        ]

    return table("running mean", run, momentum=momenta, seed=seeds)


def saturation(
    gains: Sequence[float] = (0.5, 1.0, 3.0, 10.0),
    norms: Sequence[str] = ("none", "batch", "layer"),
    seeds: Sequence[int] = (0,),
    layers: int = 10,
    width: int = 200,
) -> list[Row]:
    r"""What the first weights make of the signal and of the gradient, layer by layer.

    $$ h_l = \tanh(N(W_l h_{l-1})), \quad
    W_l \sim \mathcal{N}\left(0, \frac{\text{gain}^2}{\text{inputs}}\right) $$

    norms: N, "none", "batch", "layer" or "group" (8 groups). layers, width: of the hidden
    layers. Nothing is trained: all training digits pass once, forwards and backwards.
    Returns a row per gain, norm, seed and layer: the std of h; the share saturated, where
    |h| > 0.97; and the gradient, the norm of ∂L/∂W.
    Expect without norm: gain 0.5 to end with a std of 0.0007, gain 3 with 0.4 saturated, gain 10
    with 0.83, and there a gradient a thousand times greater in the first layer than in the last.
    With batch normalisation the share is 0.034 at every gain.
    Source: after Glorot & Bengio (2010).
    """
    known("norms", norms, NORMS)
    (x, y), _ = _digits()

    def run(generator, gain, norm):
        model = perceptron([64] + [width] * layers + [10], "tanh", NORMS[norm], gain)
        hidden, signal = [], x
        for module in model:
            signal = module(signal)
            if isinstance(module, nn.Tanh):
                hidden.append(signal)
        weights = [module.weight for module in model if isinstance(module, nn.Linear)]
        gradients = torch.autograd.grad(cross_entropy(signal, y), weights)
        for layer, (h, gradient) in enumerate(zip(hidden, gradients, strict=False), start=1):
            yield {
                "layer": layer,
                "std": h.std().item(),
                "saturated": _saturated(h),
                "gradient": gradient.norm().item(),
            }

    return table("saturation", run, gain=gains, norm=norms, seed=seeds)


STARTS = {  # the std of the first weights: hidden layer, last layer
    "normal": (1.0, 1.0),
    "small": (0.01, 0.01),
    "kaiming": (5 / 3 / math.sqrt(30), 0.01),
}


def names_model(
    starts: Sequence[str] = ("normal", "small", "kaiming"),
    norms: Sequence[str] = ("none", "batch"),
    at: Sequence[int] = (0, 500, 2000),
    seeds: Sequence[int] = (0,),
) -> list[Row]:
    """The next character of a name from the three before it, with and without normalisation.

    Each character becomes 10 numbers; one hidden layer of 200 with tanh. starts: "normal"
    (weights N(0, 1)), "small" (0.01 of that) or "kaiming" (std 5/3 over the root of the inputs;
    0.01 in the last layer). norms: "none", "batch", "layer" or "group" (8 groups), before tanh.
    at: after how many steps to look. Plain gradient descent, batches of 32, rate 0.1.
    Returns a row per start, norm, seed and step: the losses train and development, of nine names
    in ten and of the others, and the share of the hidden layer that is saturated, |h| > 0.97.
    Batch normalisation takes the statistics of all training names.
    Expect "normal" without norm to start at a loss near 28, 0.7 saturated, and not to recover;
    batch normalisation brings that share to 0.03. After 2000 steps the development losses are
    4.0 and 2.6; from the other starts they are 2.2 to 2.3, with and without.
    Source: after Bengio et al. (2003), A Neural Probabilistic Language Model.
    """
    known("starts", starts, STARTS)
    known("norms", norms, NORMS)
    size, train, development = _names()

    def run(generator, start, norm):
        model = _characters(size, STARTS[start], NORMS[norm])
        batches = draw_batches(*train, 32, max(at), generator)
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        for step in checkpoints(model, batches, optimiser, at):
            settled = with_population_statistics(model, train[0])
            yield {
                "step": step,
                "train": loss(settled, *train),
                "development": loss(settled, *development),
                "saturated": _saturated(settled[:-1](train[0])),
            }

    return table("names", run, start=starts, norm=norms, seed=seeds)


# --- Networks and data ------------------------------------------------------------------------


def perceptron(
    sizes: Sequence[int], activation: str, norm: Callable[[int], nn.Module], scale: float = 1.0
) -> nn.Sequential:
    """Linear layers with norm and activation between, W ~ N(0, scale²/inputs), biases 0."""
    *inner, outputs = sizes
    layers = []
    for before, after in pairwise(inner):
        layers += [_linear(before, after, scale), norm(after), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers, _linear(inner[-1], outputs))


def _linear(inputs: int, outputs: int, scale: float = 1.0) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, 0, scale / math.sqrt(inputs))
    nn.init.zeros_(layer.bias)
    return layer


def _characters(
    size: int, start: tuple[float, float], norm: Callable[[int], nn.Module]
) -> nn.Sequential:
    model = nn.Sequential(
        nn.Embedding(size, 10), nn.Flatten(), *perceptron([30, 200, size], "tanh", norm)
    )
    linears = (module for module in model if isinstance(module, nn.Linear))
    for linear, std in zip(linears, start, strict=True):
        nn.init.normal_(linear.weight, 0, std)
    return model


def _digits() -> tuple[Batch, Batch]:
    """Digits for training and for the test."""
    train_x, train_y, test_x, test_y = map(torch.from_numpy, data.digits())
    return (train_x, train_y), (test_x, test_y)


def _names() -> tuple[int, Batch, Batch]:
    """How many characters there are, and windows for training and for development."""
    names = data.french_names()
    characters = data.vocabulary(names)
    windows = (data.character_windows(part, characters) for part in data.split(names))
    train, development = ((torch.from_numpy(x), torch.from_numpy(y)) for x, y in windows)
    return len(characters), train, development


def _saturated(h: Tensor) -> float:
    return (h.abs() > 0.97).float().mean().item()
