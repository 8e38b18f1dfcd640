"""Deep residual networks without norms: their start, and the learning rates that they bear."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from normkit import data
from normkit.experiments.training import (
    Row,
    accuracy,
    cross_entropy,
    draw_batches,
    known,
    table,
)
from normkit.layers import Derf, DyT, LayerNorm
from normkit.without_norms import clip_by_unit, expected_scales, fixup_scale, standardise_weight

METHODS = ("none", "scaled", "skipinit", "fixup", "nf", "nf_agc", "dyt", "derf", "layer")
NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": LayerNorm, "dyt": DyT, "derf": Derf}
ALPHA = 0.2  # of NF
GAIN = math.sqrt(2 / (1 - 1 / math.pi))  # of ReLU: activation_gain


class ResidualPerceptron(nn.Module):
    """A deep residual perceptron for the digits; branches of two layers around a ReLU.

    method: one of `METHODS`. blocks: L. width: of the stream.
    forward(x): (N, 64) to the logits, (N, 10).
    """

    def __init__(self, method: str, blocks: int, width: int = 64) -> None:
        super().__init__()
        self.method = method
        self.stem = _linear(64, width, 1.0)
        divisors = expected_scales(blocks, ALPHA if method.startswith("nf") else 0.0)
        self.blocks = nn.ModuleList(
            _Block(method, blocks, width, divisor) for divisor in divisors[:-1].tolist()
        )
        self.norm = NORMS.get(method, _no_norm)(width)
        self.head = _linear(width, 10, 0.0 if method == "fixup" else 1.0)

    def stream(self, x: Tensor) -> list[Tensor]:
        """The input of the first block, and the stream after each."""
        states = [self.stem(x)]
        for block in self.blocks:
            states.append(block(states[-1]))
        return states

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.stream(x)[-1]))

    def groups(self, lr: float) -> list[dict]:
        """Parameters with their learning rates: the scalars of Fixup have a tenth."""
        slow = [p for p in self.parameters() if self.method == "fixup" and p.numel() == 1]
        others = [p for p in self.parameters() if all(p is not s for s in slow)]
        return [{"params": others, "lr": lr}, {"params": slow, "lr": lr / 10}]


class _Block(nn.Module):
    """x + α F(norm(x) / β)."""

    def __init__(self, method: str, blocks: int, width: int, divisor: float) -> None:
        super().__init__()
        alpha = {"scaled": blocks**-0.5, "nf": ALPHA, "nf_agc": ALPHA}.get(method, 1.0)
        self.divisor = divisor
        self.alpha = nn.Parameter(torch.zeros(1)) if method == "skipinit" else alpha
        self.norm = NORMS.get(method, _no_norm)(width)
        self.branch = _branch(method, blocks, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.alpha * self.branch(self.norm(x / self.divisor))


def _no_norm(width: int) -> nn.Module:
    return nn.Identity()


def _branch(method: str, blocks: int, width: int) -> nn.Module:
    """Two layers that keep the variance around a ReLU, which halves the mean square."""
    if method.startswith("nf"):
        first, last = (_Standardised(width, width) for _ in range(2))
        return nn.Sequential(first, nn.ReLU(), _Constant(GAIN), last)
    if method != "fixup":
        return nn.Sequential(_linear(width, width, 1.0), nn.ReLU(), _linear(width, width, 2.0))
    up = _linear(width, width, fixup_scale(blocks) ** 2, bias=False)
    down = _linear(width, width, 0.0, bias=False)
    return nn.Sequential(
        _Shift(), up, _Shift(), nn.ReLU(), _Shift(), down, _Multiplier(), _Shift()
    )  # fmt: skip


def _linear(inputs: int, outputs: int, square: float, bias: bool = True) -> nn.Linear:
    """Weights of variance square/inputs, no bias at the start."""
    layer = nn.Linear(inputs, outputs, bias)
    nn.init.normal_(layer.weight, std=math.sqrt(square / inputs))
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class _Standardised(nn.Linear):
    """A Linear whose weights are standardised, with a learnt gain per output."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        nn.init.normal_(self.weight, std=inputs**-0.5)
        nn.init.zeros_(self.bias)
        self.gain = nn.Parameter(torch.ones(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, standardise_weight(self.weight, self.gain), self.bias)


class _Constant(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


class _Shift(nn.Module):
    """A learnt number is added: one for all features."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.shift


class _Multiplier(nn.Module):
    """A learnt number multiplies all features."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def residual_methods(
    methods: Sequence[str] = METHODS,
    lrs: Sequence[float] = (0.03, 0.3),
    seeds: Sequence[int] = (0,),
    blocks: int = 16,
    steps: int = 80,
    limit: float = 0.01,
) -> list[Row]:
    """A deep residual network for the digits, with norms and with what stands in for them.

    methods: "none"; "scaled", each branch times 1/√L; "layer", LayerNorm before each branch and at
    the end; "skipinit", α = 0 before each branch (the same as ReZero); "fixup"; "nf", standardised
    weights, α = 0.2 and β; "nf_agc", the same with `clip_by_unit`, all but the last layer; "dyt"
    and "derf" in the places of "layer".
    lrs: of SGD with momentum 0.9, batches of 64. blocks: L. limit: λ of the clipping.
    Returns a row per method, lr and seed: variance, of the stream before and after each block at
    the start, (blocks + 1,); loss, of each step, nan from where it diverges; accuracy on the test
    images, nan if it did.
    Expect the variance to double in each block with none, which diverges at rates from 0.001; all
    others to reach 0.94 or more at 0.03; at 0.3 only layer (0.87 to 0.92) and nf_agc (0.94 and
    more), while dyt and derf end at chance and the others diverge.
    Source: Zhang et al. (2019), De & Smith (2020), Brock et al. (2021), on a small scale.
    """
    known("methods", methods, METHODS)
    images = data.digits()
    train_x, train_y, test_x, test_y = (torch.from_numpy(array) for array in images)

    def run(generator, method, lr):
        model = ResidualPerceptron(method, blocks)
        with torch.no_grad():
            variance = np.array([state.var().item() for state in model.stream(test_x)])
        losses = np.full(steps, math.nan)
        optimiser = torch.optim.SGD(model.groups(lr), momentum=0.9)
        for step, (x, y) in enumerate(draw_batches(train_x, train_y, 64, steps, generator)):
            loss = cross_entropy(model(x), y)
            if not loss < 1e4:  # diverged, or nan
                break
            optimiser.zero_grad()
            loss.backward()
            if method == "nf_agc":
                _clip(model, limit)
            optimiser.step()
            losses[step] = loss.item()
        right = accuracy(model, test_x, test_y) if np.isfinite(losses).all() else math.nan
        return [{"variance": variance, "loss": losses, "accuracy": right}]

    return table("residual methods", run, method=methods, lr=lrs, seed=seeds)


@torch.no_grad()
def _clip(model: ResidualPerceptron, limit: float) -> None:
    """All parameters of one shape at once: matrices below each other, vectors as rows."""
    alike: dict[torch.Size, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not name.startswith("head"):
            alike.setdefault(parameter.shape, []).append(parameter)
    for shape, parameters in alike.items():
        weights = torch.stack(list(parameters)).view(-1, shape[-1])
        gradients = torch.stack(
            [parameter.grad for parameter in parameters if parameter.grad is not None]
        )
        clipped = clip_by_unit(gradients.view_as(weights), weights, limit).view_as(gradients)
        for parameter, gradient in zip(parameters, clipped, strict=True):
            parameter.grad = gradient
