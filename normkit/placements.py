"""Placements of the norms since 2020, and a stack of layers with any of them.

F is a sub-layer, attention or the feed-forward part; x is the residual stream, l the number of
a layer, from 1, and i that of a sub-layer, from 1. `normkit.placement` has the five older designs.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, cast

from normkit._extras import missing

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ModuleNotFoundError as error:
    raise missing(error) from error

from normkit.layers import LayerNorm
from normkit.placement import (
    Attention,
    Design,
    FeedForward,
    NormMaker,
    Placement,
    Residual,
    _check_constant,
    _check_norm,
    _check_placement,
    _check_sizes,
    _of_branch,
    _options,
    deepnorm_constants,
    deepnorm_init,
)

Branch = Callable[[Tensor], Tensor]
Device = torch.device | str | None
NORMALISED = ("post", "deep", "admin", "b2t", "keel")  # the stream itself: no final norm


class _SubLayer(nn.Module):
    """A branch F, and the norms around it: as many as there are names."""

    norms: tuple[str, ...] = ()
    norm_before: nn.Module | Any
    norm_after: nn.Module | Any
    norm_x: nn.Module | Any
    norm_y: nn.Module | Any

    def __init__(
        self,
        branch: Branch,
        width: int,
        norm: NormMaker = LayerNorm,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_norm(norm)
        self.branch = branch
        for name in self.norms:
            setattr(self, name, norm(width, **_options(device, dtype)))

    def _branch(self, x: Tensor) -> Tensor:
        return _of_branch(self.branch, x)


# --- On the stream: Admin, B2T, Keel ------------------------------------------------------------


class Admin(_SubLayer):
    r"""Post-Norm with a learnt weight of the stream for each feature.

    $$ y = N(\omega \odot x + F(x)) $$

    branch: F, keeps the shape. width: D. norm: makes N from D. omega starts at 1, which is
    Post-Norm; `admin_init` gives it its value.
    forward(x): (..., D) to the same shape.
    Raises ValueError for a branch that changes the shape; TypeError for a norm ready made.
    Source: Liu et al. (2020), Understanding the Difficulty of Training Transformers;
    LiyuanLucasLiu/Transformer-Clinic@70f72b708ab0 transformer_layer.py.

    See: placements-table in book/placements.md; tests/normkit/test_placements.py.

    >>> block = Admin(lambda x: torch.tensor([4.0, 0, 0]), 3)
    >>> block.omega.data.fill_(2**0.5)
    tensor([1.4142, 1.4142, 1.4142])
    >>> block(torch.tensor([0.0, 2, 4])).detach()
    tensor([-0.1394, -1.1491,  1.2885])
    """

    norms = ("norm_after",)

    def __init__(self, branch: Branch, width: int, **options: Any) -> None:
        super().__init__(branch, width, **options)
        place = {key: options.get(key) for key in ("device", "dtype")}
        self.omega = nn.Parameter(torch.ones(width, **place))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm_after(self.omega * x + self._branch(x))


@torch.no_grad()
def admin_init(model: nn.Module, x: Tensor) -> list[float]:
    r"""Set the ω of each `Admin` in a model, from one batch.

    $$ \omega_1 = 1, \quad \omega_{i+1}^2 = \operatorname{Var}(\omega_i x_i)
    + \operatorname{Var} F_i(x_i) $$

    so that sub-layer i counts about as 1/√i of the stream, when all branches have variance 1.
    model: its `Admin` blocks run in the order of `model.modules()`. x: a batch of its inputs.
    Returns ω of each block. Raises ValueError for a model without such blocks.
    Source: as for `Admin`, lines 186-198.

    See: placements-table in book/placements.md; tests/normkit/test_placements.py.
    """
    blocks, omegas = [b for b in model.modules() if isinstance(b, Admin)], [1.0]
    if not blocks:
        raise ValueError(
            "admin_init sets the omega of Admin blocks, and the model has none. Build it with "
            'placement="admin".'
        )

    def measure(block: Admin, inputs: tuple[Tensor]) -> None:
        nn.init.constant_(block.omega, omegas[-1])
        f = block._branch(inputs[0])
        variance = (block.omega * inputs[0]).var(correction=0) + f.var(correction=0)
        omegas.append(variance.sqrt().item())

    handles = [block.register_forward_pre_hook(measure) for block in blocks]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return omegas[:-1]


class Keel(_SubLayer):
    r"""Post-Norm with a weight of the stream, whose branch reads a norm.

    $$ y = N(\alpha x + F(N'(x))), \quad \alpha = 2N $$

    α is the number of sub-layers. The first attention is Pre-Norm, $x + F(N'(x))$, and the first
    feed-forward part has α = 1: `Stack` builds them so.
    branch, width, norm, forward, errors: as in `Admin`. Raises also ValueError unless α is
    positive. Source: Chen & Wei (2026), eq. 8 and section 3.1; no official code found.

    See: placements-keel in book/placements.md; tests/normkit/test_placements.py.

    >>> def branch(v):
    ...     return torch.stack([v[2], 0 * v[2], 0 * v[2]])
    >>> Keel(branch, 3, alpha=2)(torch.tensor([0.0, 2, 4])).detach()
    tensor([-1.1447, -0.1468,  1.2915])
    """

    norms = ("norm_before", "norm_after")

    def __init__(self, branch: Branch, width: int, alpha: float, **options: Any) -> None:
        super().__init__(branch, width, **options)
        _check_constant("alpha", alpha)
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return self.norm_after(self.alpha * x + self._branch(self.norm_before(x)))

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class _Layer(nn.Module):
    """Attention and feed-forward part, which some designs do not treat alike."""

    norms: tuple[str, ...] = ()
    norm: nn.Module | Any
    norm_middle: nn.Module | Any
    norm_after: nn.Module | Any

    def __init__(
        self,
        attention: Branch,
        feed_forward: Branch,
        width: int,
        norm: NormMaker = LayerNorm,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_norm(norm)
        self.attention, self.feed_forward = attention, feed_forward
        for name in self.norms:
            setattr(self, name, norm(width, **_options(device, dtype)))


class B2T(_Layer):
    r"""Post-Norm with one more addition, from the bottom of a layer to its top.

    $$ u = N(x + A(x)), \quad y = N'(x + u + F(u)) $$

    attention, feed_forward: A and F, keep the shape. width: D. norm: makes N from D.
    The released code also multiplies all weights by N to the power -1/2: `Stack` does.
    forward(x): (..., D) to the same shape. Raises TypeError for a norm ready made.
    Source: Takase et al. (2022); takase/b2t_connection@c8e2ad4ed0b1 transformer_layer.py.

    See: placements-table in book/placements.md; tests/normkit/test_placements.py.
    """

    norms = ("norm_middle", "norm_after")

    def forward(self, x: Tensor) -> Tensor:
        u = self.norm_middle(x + self.attention(x))
        return self.norm_after(x + u + self.feed_forward(u))


class Hybrid(_Layer):
    r"""HybridNorm: no norm before attention, which has its own; Post-Norm around F.

    $$ y = x + A(x), \quad N(y) + F(N(y)) $$

    attention: A, which normalises its queries, keys and values (`Stack` builds such a one).
    feed_forward, width, norm, forward, errors: as in `B2T`.
    Source: Zhuo et al. (2025), eq. 5-7; BryceZhuo/HybridNorm@f0dd60589c4c olmo/model.py.

    See: placements-table in book/placements.md; tests/normkit/test_placements.py.
    """

    norms = ("norm",)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x + self.attention(x))
        return h + self.feed_forward(h)


# --- On the branch: LayerNorm scaling -----------------------------------------------------------


class Scaled(_SubLayer):
    r"""LayerNorm scaling: Pre-Norm whose norm is divided by the root of the layer's number.

    $$ y = x + F\left(\frac{N(x)}{\sqrt{l}}\right) $$

    layer: l, from 1, the same for the attention and the feed-forward part of a layer.
    branch, width, norm, forward, errors: as in `Admin`. Raises also ValueError for l below 1.
    Source: Sun et al. (2025), The Curse of Depth in Large Language Models, eq. 12.

    See: placements-scaling in book/placements.md; tests/normkit/test_placements.py.

    >>> def branch(v):
    ...     return torch.stack([v[2], 0 * v[2], 0 * v[2]])
    >>> Scaled(branch, 3, layer=4)(torch.tensor([0.0, 2, 4])).detach()
    tensor([0.6124, 2.0000, 4.0000])
    """

    norms = ("norm_before",)

    def __init__(self, branch: Branch, width: int, layer: int, **options: Any) -> None:
        super().__init__(branch, width, **options)
        if layer < 1:
            raise ValueError(
                f"layer counts from 1, because the norm is divided by its root; it is {layer}. "
                f"With enumerate, start at 1."
            )
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return x + self._branch(self.norm_before(x) / math.sqrt(self.layer))

    def extra_repr(self) -> str:
        return f"layer={self.layer}"


class _PerHead(nn.Module):
    """A norm of each head by itself, (..., heads · d) to the same shape."""

    def __init__(self, norm: nn.Module, heads: int) -> None:
        super().__init__()
        self.norm, self.heads = norm, heads

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.unflatten(-1, (self.heads, -1))).flatten(-2)


# --- Several streams: SiameseNorm, hyper-connections, mHC ---------------------------------------


class Siamese(_SubLayer):
    r"""SiameseNorm: one branch writes into a Post-Norm stream x and a Pre-Norm stream y.

    $$ o = F(x + N'(y)), \quad x \leftarrow N(x + o), \quad y \leftarrow y + o $$

    layer: None for this equation; l for the released code, which norms also what F reads, and
    divides by √(2l) the o that is added to x.
    branch, width, norm, errors: as in `Admin`.
    forward(streams): (..., 2, D), x and y, to the same shape.
    Source: Li et al. (2026), SiameseNorm; Qwen-Applications/SiameseNorm@70efa00c6e37.

    See: placements-table in book/placements.md; tests/normkit/test_placements.py.
    """

    norms = ("norm_x", "norm_y", "norm_before")

    def __init__(
        self, branch: Branch, width: int, layer: int | None = None, **options: Any
    ) -> None:
        super().__init__(branch, width, **options)
        self.scale = 1 if layer is None else 1 / math.sqrt(2 * layer)
        if layer is None:
            self.norm_before = nn.Identity()

    def forward(self, streams: Tensor) -> Tensor:
        x, y = streams.unbind(-2)
        o = self._branch(self.norm_before(x + self.norm_y(y)))
        return torch.stack([self.norm_x(x + self.scale * o), y + o], -2)


class HyperConnections(_SubLayer):
    r"""Pre-Norm with n streams, which learnt numbers read, mix and write.

    $$ H \leftarrow A_r^\top H + b\, F(N(a^\top H)) $$

    streams: n, the rows of H. index: of the sub-layer; a is 1 at the place index mod n and 0
    elsewhere, A_r is the identity and b is all 1, so that the start is Pre-Norm.
    branch, width, norm, errors: as in `Admin`.
    forward(H): (..., n, D) to the same shape.
    Source: Zhu et al. (2024), Hyper-Connections, eq. 2 and 14, the static form.

    See: placements-mhc in book/placements.md; tests/normkit/test_placements.py.
    """

    norms = ("norm_before",)

    def __init__(
        self, branch: Branch, width: int, index: int, streams: int = 4, **options: Any
    ) -> None:
        super().__init__(branch, width, **options)
        place = {key: options.get(key) for key in ("device", "dtype")}
        self.mix = nn.Parameter(torch.eye(streams, **place))
        self.read = nn.Parameter(torch.eye(streams, **place)[index % streams].clone())
        self.write = nn.Parameter(torch.ones(streams, **place))

    def forward(self, streams: Tensor) -> Tensor:
        o = self._branch(self.norm_before(self.read @ streams))
        return self.mix.T @ streams + self.write[:, None] * o.unsqueeze(-2)


def sinkhorn(logits: Tensor, rounds: int = 20) -> Tensor:
    r"""A positive matrix whose rows, and nearly columns, have the sum 1.

    $$ M \leftarrow T_r(T_c(M)), \quad M_0 = \exp(\text{logits}) $$

    T_c divides each column by its sum, T_r each row.
    logits: (..., n, n), float. rounds: how often both are done, at least once; the rows come last
    and are exact. Returns the same shape. Raises ValueError for other shapes or no rounds.
    Source: Xie et al. (2025), mHC, eq. 9; Sinkhorn & Knopp (1967).

    See: placements-mhc in book/placements.md; tests/normkit/test_placements.py.

    >>> sinkhorn(torch.tensor([[2.0, 1], [1, 1]]).log(), rounds=1)
    tensor([[0.5714, 0.4286],
            [0.4000, 0.6000]])
    """
    if logits.ndim < 2 or logits.shape[-1] != logits.shape[-2] or rounds < 1:
        raise ValueError(
            f"sinkhorn needs square matrices and at least one round; the shape is "
            f"{tuple(logits.shape)} and rounds is {rounds}."
        )
    for _ in range(rounds):  # in logarithms, where nothing overflows
        logits = logits.log_softmax(-2).log_softmax(-1)
    return logits.exp()


class ManifoldHyperConnections(_SubLayer):
    r"""mHC: hyper-connections whose mixer R is doubly stochastic.

    $$ H \leftarrow R H + p\, F(N(q^\top H)), \quad q = \sigma(u_q), \quad p = 2\sigma(u_p), \quad
    R = \operatorname{Sinkhorn}(u_R) $$

    Each u is $\alpha\, \tilde{x} \Phi + b$, for each token, with $\tilde{x}$ the RMSNorm of all
    n D numbers of H; the α start at 0.01, the b at 0.
    streams: n. rounds: of `sinkhorn`. dynamic: False for u = b, which leaves all streams equal.
    branch, width, norm, errors: as in `Admin`.
    forward(H): (..., n, D) to the same shape.
    Source: Xie et al. (2025), mHC, eq. 6-9 and app. A.1; Φ starts as in transformers 5.23
    `deepseek_v4`, normal with deviation 0.02.

    See: placements-mhc in book/placements.md; tests/normkit/test_placements.py.
    """

    norms = ("norm_before",)

    def __init__(
        self,
        branch: Branch,
        width: int,
        streams: int = 4,
        rounds: int = 20,
        dynamic: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(branch, width, **options)
        place = {key: options.get(key) for key in ("device", "dtype")}
        n, self.rounds = streams, rounds
        self.sizes = (n, n, n * n)
        self.bias = nn.Parameter(torch.zeros(sum(self.sizes), **place))
        self.alpha = nn.Parameter(torch.full((3,), 0.01, **place)) if dynamic else None
        if dynamic:
            self.phi = nn.Parameter(torch.empty(n * width, sum(self.sizes), **place))
            nn.init.normal_(self.phi, std=0.02)

    def coefficients(self, streams: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q (..., n), p (..., n) and R (..., n, n) of each token."""
        parts = self.bias.split(self.sizes)
        if self.alpha is not None:
            flat = streams.flatten(-2)
            x = functional.rms_norm(flat, flat.shape[-1:], eps=1e-6)
            dynamic = (x @ self.phi).split(self.sizes, -1)
            parts = tuple(a * u + b for a, u, b in zip(self.alpha, dynamic, parts, strict=True))
        q, p, r = parts
        n = self.sizes[0]
        return q.sigmoid(), 2 * p.sigmoid(), sinkhorn(r.unflatten(-1, (n, n)), self.rounds)

    def forward(self, streams: Tensor) -> Tensor:
        q, p, mixer = self.coefficients(streams)
        read = (q.unsqueeze(-2) @ streams).squeeze(-2)
        o = self._branch(self.norm_before(read))
        return mixer @ streams + p.unsqueeze(-1) * o.unsqueeze(-2)


class _Copies(nn.Module):
    """n equal streams, (..., D) to (..., n, D)."""

    def __init__(self, streams: int) -> None:
        super().__init__()
        self.streams = streams

    def forward(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-2).expand(*x.shape[:-1], self.streams, -1)


class _Sum(nn.Module):
    def forward(self, streams: Tensor) -> Tensor:
        return streams.sum(-2)


class _SiameseSum(nn.Module):
    """x + N(y)."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, streams: Tensor) -> Tensor:
        x, y = streams.unbind(-2)
        return x + self.norm(y)


# --- A stack of layers --------------------------------------------------------------------------


class Stack(nn.Module):
    r"""The layers of a Transformer, with their norms, initialisation and final norm.

    width, heads, qk_norm: as in `Attention`. layers: N. norm: as in `Residual`. placement: one of
    the five of `Residual`, or "admin", "b2t", "keel", "res_post" (Swin V2: γ and β of `"output"`
    start at 0), "mix" (Post in the first quarter, then Pre), "scaled", "sub_ln", "hybrid",
    "siamese" (as in the released code), "hyper" and "mhc" (4 streams).
    Weights start Xavier-normal, the same for all placements if the seed is; then a design applies
    its own gain: β of DeepNorm; √(ln 2N) of Sub-LN; the power -1/2 of N of B2T's code.
    With "admin" call `admin_init` before training.
    forward(x): (B, T, D) to the same shape, normalised. `begin`, `layers` and `end` are its parts.
    Raises ValueError for an unknown placement or a size below 1, TypeError for a norm ready made.

    See: placements-table in book/placements.md; tests/normkit/test_placements.py.

    >>> stack = Stack(32, layers=12, placement="keel")
    >>> [block.alpha for block in stack.layers[1]], stack.end
    ([24, 24], Identity())
    """

    def __init__(
        self,
        width: int,
        layers: int,
        placement: Design = "pre",
        heads: int = 2,
        norm: NormMaker = LayerNorm,
        qk_norm: Literal["full", "head"] | None = None,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_placement(placement, Design)
        _check_norm(norm)
        _check_sizes(width=width, layers=layers)
        place = _options(device, dtype)
        self.placement, self._norm = placement, lambda size: norm(size, **place)
        self._make = {"norm": norm, **place}
        if placement == "hybrid":
            qk_norm = "head"
        branches = nn.ModuleList(
            part
            for _ in range(layers)
            for part in (Attention(width, heads, qk_norm, **place), FeedForward(width, **place))
        )
        self._start(branches, layers)
        self.layers = nn.Sequential(
            *(
                self._layer(layer, layers, width, *branches[2 * layer - 2 : 2 * layer])
                for layer in range(1, layers + 1)
            )
        )
        copies = {"siamese": 2, "hyper": 4, "mhc": 4}.get(placement)
        self.begin = _Copies(copies) if copies else nn.Identity()
        self.end = self._end(width)
        del self._norm, self._make  # so that the stack can be pickled

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.layers(self.begin(x)))

    def _start(self, branches: nn.ModuleList, layers: int) -> None:
        """Draw the weights, with the gain of the design."""
        gains = {
            "deep": deepnorm_constants(decoder_layers=layers)["decoder"][1],
            "sub_ln": math.sqrt(math.log(2 * layers)),
        }
        deepnorm_init(branches, gains.get(self.placement, 1))
        if self.placement == "b2t":
            for linear in branches.modules():
                if isinstance(linear, nn.Linear):
                    linear.weight.data *= layers**-0.5
        for part in branches:
            if self.placement == "sub_ln":
                name = "out" if isinstance(part, Attention) else "down"
                last = getattr(part, name)
                setattr(part, name, nn.Sequential(self._norm(last.in_features), last))
            if self.placement == "hybrid" and isinstance(part, Attention):
                size = part.v.out_features // part.heads
                norms = _PerHead(self._norm(size), part.heads)
                part.v = nn.Sequential(part.v, norms)  # type: ignore[assignment]  # also a map

    def _layer(
        self, layer: int, layers: int, width: int, attention: nn.Module, feed: nn.Module
    ) -> nn.Module:
        whole = {"b2t": B2T, "hybrid": Hybrid}.get(self.placement)
        if whole:
            return whole(attention, feed, width, **self._make)
        pair = enumerate((attention, feed), start=2 * layer - 1)
        return nn.Sequential(*(self._sub_layer(i, layers, f, width) for i, f in pair))

    def _sub_layer(self, i: int, layers: int, branch: nn.Module, width: int) -> nn.Module:
        """Sub-layer i, from 1, of 2N."""
        layer, make = (i + 1) // 2, self._make
        match self.placement:
            case "admin":
                return Admin(branch, width, **make)
            case "keel" if i > 1:
                return Keel(branch, width, 2 * layers if i > 2 else 1, **make)
            case "scaled":
                return Scaled(branch, width, layer, **make)
            case "siamese":
                return Siamese(branch, width, layer, **make)
            case "hyper":
                return HyperConnections(branch, width, i - 1, **make)
            case "mhc":
                return ManifoldHyperConnections(branch, width, **make)
        plain: dict[Design, Placement] = {
            "keel": "pre",  # the first attention
            "sub_ln": "pre",
            "res_post": "output",
            "mix": "post" if layer <= layers / 4 else "pre",
        }
        placement = plain.get(self.placement, cast(Placement, self.placement))
        deep = placement == "deep"
        alpha = deepnorm_constants(decoder_layers=layers)["decoder"][0] if deep else None
        block = Residual(branch, width, placement, alpha, **make)
        if self.placement == "res_post":
            for parameter in block.norm_after.parameters():
                nn.init.zeros_(parameter)
        return block

    def _end(self, width: int) -> nn.Module:
        """One stream out of several, and the final norm."""
        if self.placement in NORMALISED:
            return nn.Identity()
        final = self._norm(width)
        if self.placement == "siamese":
            return nn.Sequential(_SiameseSum(self._norm(width)), final)
        return nn.Sequential(_Sum(), final) if self.placement in ("hyper", "mhc") else final
