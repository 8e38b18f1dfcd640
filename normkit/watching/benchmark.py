"""What `watch` costs: the time of a training step with it, in that of a step without.

python -m normkit.watching.benchmark
"""

import random
import statistics
from collections.abc import Callable
from contextlib import nullcontext
from time import process_time
from typing import Any

import torch
from torch import Tensor, nn

from normkit.placement import CharacterTransformer
from normkit.watching import watch

ROUNDS, STEPS = 21, 10


class Block(nn.Module):
    """A residual branch with as little work as a norm can have behind it."""

    def __init__(self, norm: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.norm, self.layer = norm, layer

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layer(self.norm(x)).relu()


def models() -> dict[str, tuple[nn.Module, Tensor]]:
    """Models with 100 norms, by name, each with a batch."""
    transformer = CharacterTransformer(65, width=128, heads=4, layers=50, length=64)
    linear = (Block(nn.LayerNorm(128), nn.Linear(128, 128)) for _ in range(100))
    convolutions = (Block(nn.BatchNorm2d(16), nn.Conv2d(16, 16, 3, padding=1)) for _ in range(100))
    return {
        "Transformer, 100 sub-layers of width 128": (transformer, torch.randint(65, (1, 64))),
        "100 × (LayerNorm, Linear 128)": (nn.Sequential(*linear), torch.randn(128, 128)),
        "100 × (BatchNorm, 3 × 3 convolution)": (
            nn.Sequential(*convolutions),
            torch.randn(16, 16, 16, 16),
        ),
    }


def step_of(model: nn.Module, x: Tensor) -> Callable[[], None]:
    """A training step of a model."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def ratios(model: nn.Module, x: Tensor, rounds: int = ROUNDS) -> dict[int, float]:
    """For every=1 and every=10: the time with `watch` in that without, the median of the rounds."""
    step = step_of(model, x)
    contexts: dict[int, Any] = {0: nullcontext(), 1: watch(model), 10: watch(model, every=10)}
    found: dict[int, list[float]] = {1: [], 10: []}
    for _ in range(rounds):
        times = {}
        for every in random.sample(list(contexts), len(contexts)):
            with contexts[every]:
                start = process_time()
                for _ in range(STEPS):
                    step()
                times[every] = process_time() - start
        for every, each in found.items():
            each.append(times[every] / times[0])  # what else runs here disturbs neighbours alike
    return {every: statistics.median(each) for every, each in found.items()}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name, (model, x) in models().items():
        found = ratios(model, x)
        print(f"{name:42} every step {found[1]:.3f}   every tenth {found[10]:.3f}", flush=True)


if __name__ == "__main__":
    main()
