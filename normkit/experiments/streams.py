"""The stream and the gradients of every placement, layer by layer, before training."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from normkit.experiments.training import Row, cross_entropy, table
from normkit.placement import Design, FeedForward
from normkit.placements import Stack, admin_init

BATCH, LENGTH, VOCABULARY, WIDTH = 32, 16, 35, 32


def stream_by_layer(
    placements: Sequence[Design] = get_args(Design),
    depths: Sequence[int] = (16,),
    seeds: Sequence[int] = (0, 1, 2),
    qk_norm: Literal["full", "head"] | None = None,
) -> list[Row]:
    """The stream and its gradient after each layer of a `Stack`, before training.

    placements, qk_norm: of the stack, of 32 features and 2 heads. depths: N. The same random
    input of variance 1, the same weights and the same random targets for all placements.
    Returns a row per placement, depth, seed and layer, 0 for the input: variance, of the stream
    over the features; gradient, the norm of that of the stream; and from layer 1, change, the norm
    of what the layer adds divided by that of the stream, and weights, the norm of the gradient of
    the second feed-forward matrix. Of several streams their mean, and of Siamese the
    Pre-Norm one; their gradients add up.
    Expect the variance to be 1 with the norms on the stream, to grow about as N with pre, and as
    1 + 1/2 + ... + 1/N with scaled.
    Source: Xiong et al. (2020); Sun et al. (2025).
    """

    def run(generator: torch.Generator, placement: Design, layers: int) -> Iterator[Row]:
        return _layers(generator, Stack(WIDTH, layers, placement, qk_norm=qk_norm))

    return table("streams", run, placement=placements, layers=depths, seed=seeds)


def _layers(generator: torch.Generator, stack: Stack) -> Iterator[Row]:
    x = torch.randn(BATCH, LENGTH, WIDTH, generator=generator)
    targets = torch.randint(VOCABULARY, (BATCH, LENGTH), generator=generator)
    head = nn.Linear(WIDTH, VOCABULARY)
    nn.init.xavier_normal_(head.weight, generator=generator)
    if stack.placement == "admin":
        admin_init(stack, x)
    states = [stack.begin(x.requires_grad_())]
    for layer in stack.layers:
        states.append(layer(states[-1]))
    parts = [part for part in stack.modules() if isinstance(part, FeedForward)]
    matrices = [list(part.down.parameters())[-2] for part in parts]  # Sub-LN has a norm before
    loss = cross_entropy(head(stack.end(states[-1])), targets)
    gradients = torch.autograd.grad(loss, [*states, *matrices])
    seen = [_one(stack, state.detach(), torch.mean) for state in states]
    for number, stream in enumerate(seen):
        row: Row = {
            "layer": number,
            "variance": stream.var(-1, correction=0).mean().item(),
            "gradient": _one(stack, gradients[number], torch.sum).norm().item(),
        }
        if number:
            before = seen[number - 1]
            row["change"] = ((stream - before).norm() / before.norm()).item()
            row["weights"] = gradients[len(seen) + number - 1].norm().item()
        yield row


def _one(stack: Stack, state: Tensor, take: Callable[[Tensor, int], Tensor]) -> Tensor:
    """One stream out of several."""
    if stack.placement == "siamese" and take is torch.mean:
        return state[..., 1, :]
    return take(state, -2) if stack.placement in ("siamese", "hyper", "mhc") else state
