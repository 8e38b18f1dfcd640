"""How attention logits grow at a high learning rate, and what keeps them small."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normkit.experiments.training import Batch, Row, cross_entropy, known, table
from normkit.layers import RMSNorm
from normkit.outliers import qk_clip, soft_cap
from normkit.placement import Attention, Residual

SYMBOLS, HALF, WIDTH, HEADS, BATCH = 24, 12, 48, 4, 32
CURES = ("none", "qk_norm", "soft_cap", "qk_clip")


class CappedAttention(Attention):
    """`Attention` with its logits in the open: soft-capped if a cap is given, and their largest.

    cap: c of `soft_cap`, which comes before the mask. qk_norm: `"head"` or None, as in `Attention`.
    largest: (heads,), of the last forward pass, before the cap, unmasked positions only.
    """

    largest: Tensor

    def __init__(self, *arguments: Any, cap: float | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cap = cap

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self._split(part(x)) for part in (self.q, self.k, self.v))
        q, k = self.q_norm(q), self.k_norm(k)
        logits = q @ k.mT / math.sqrt(q.shape[-1])
        future = torch.ones_like(logits, dtype=torch.bool).triu(1)
        present = logits.detach().masked_fill(future, -math.inf)
        self.largest = present.amax((0, 2, 3))
        if self.cap is not None:
            logits = soft_cap(logits, self.cap)
        weights = logits.masked_fill(future, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(-3, -2).flatten(-2))


def logit_growth(
    cures: Sequence[str] = CURES,
    seeds: Sequence[int] = (0,),
    steps: int = 200,
    lr: float = 0.1,
    limit: float = 20.0,
) -> list[Row]:
    """The largest attention logit in training, at a learning rate that is too high.

    Two Pre-Norm layers of attention, of 48 features and 4 heads, copy 12 random symbols out of
    24; the loss is that of the copy. cures: "none", "qk_norm", "soft_cap" and "qk_clip", with the
    limit as cap or threshold. steps, lr: of Adam (betas 0.9 and 0.98) without warm-up.
    Returns a row per cure and seed: loss, the mean of the last 20; logits, the largest of each
    step before a cap.
    Expect a loss of ln 24 = 3.18, chance, with none, whose logits exceed 10,000; a loss near 0 and
    logits near 20 with qk_norm. soft_cap and qk_clip depend on the seed; the logits grow with
    soft_cap nearly as with none, and stay below 100 with qk_clip. With lr=0.05 all learn.
    Source: Wortsman et al. (2023), Small-Scale Proxies; Dehghani et al. (2023), ViT-22B; Gemma
    Team (2024), Gemma 2; Kimi Team (2025), Kimi K2.
    """
    known("cures", cures, CURES)

    def run(generator, cure):
        model = _model(cure, limit)
        optimiser = torch.optim.Adam(model.parameters(), lr, betas=(0.9, 0.98), fused=True)
        attentions = [part for part in model.modules() if isinstance(part, CappedAttention)]
        losses, logits = [], []
        for x, y in _copies(steps, generator):
            loss = cross_entropy(model(x)[:, HALF - 1 :], y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            logits.append(max(part.largest.max().item() for part in attentions))
            if cure == "qk_clip":
                for part in attentions:
                    _clip(part, limit)
        return [{"loss": sum(losses[-20:]) / 20, "logits": np.array(logits)}]

    return table("logits", run, cure=cures, seed=seeds)


@torch.no_grad()
def _clip(part: CappedAttention, limit: float) -> None:
    for name in ("weight", "bias"):
        q, k = getattr(part.q, name), getattr(part.k, name)
        for parameter, clipped in zip((q, k), qk_clip(q, k, part.largest, limit), strict=True):
            parameter.copy_(clipped)


def _model(cure: str, limit: float) -> nn.Module:
    attention = {"qk_norm": "head" if cure == "qk_norm" else None}
    cap = limit if cure == "soft_cap" else None
    layers = (
        Residual(CappedAttention(WIDTH, HEADS, cap=cap, **attention), WIDTH, norm=RMSNorm)
        for _ in range(2)
    )
    return nn.Sequential(_Embedding(), *layers, RMSNorm(WIDTH), nn.Linear(WIDTH, SYMBOLS))


class _Embedding(nn.Module):
    """Symbol and position."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.positions = nn.Embedding(2 * HALF, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.symbols(tokens) + self.positions.weight[: tokens.shape[-1]]


def _copies(steps: int, generator: torch.Generator) -> list[Batch]:
    """Symbols twice over, and the second half, each symbol to be predicted from those before."""
    halves = torch.randint(SYMBOLS, (steps, BATCH, HALF), generator=generator)
    return [(half.repeat(1, 2)[:, :-1], half) for half in halves]
