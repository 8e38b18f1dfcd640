"""Where a Transformer normalises: five placements around a residual branch, and a small model.

The branch F is attention or the feed-forward part; x is the residual stream.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, TypeAlias, cast, get_args

from normkit._extras import missing

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ModuleNotFoundError as error:
    raise missing(error) from error

from normkit.layers import LayerNorm, RMSNorm

NormMaker: TypeAlias = Callable[..., nn.Module]
Placement: TypeAlias = Literal["post", "pre", "deep", "peri", "output"]
Design: TypeAlias = Literal[  # the later ones are in normkit.placements
    "post", "pre", "deep", "peri", "output", "admin", "b2t", "keel", "res_post", "mix", "scaled",
    "sub_ln", "hybrid", "siamese", "hyper", "mhc",
]  # fmt: skip


class Residual(nn.Module):
    r"""A residual branch F with its normalisation.

    $$ \begin{aligned}
    \text{post:} \quad & N(x + F(x)) \\
    \text{deep:} \quad & N(\alpha x + F(x)) \\
    \text{pre:} \quad & x + F(N(x)) \\
    \text{peri:} \quad & x + N'(F(N(x))) \\
    \text{output:} \quad & x + N(F(x))
    \end{aligned} $$

    The last three leave the stream x itself unnormalised: a model with them needs a final norm.

    branch: F, keeps the shape. width: D. alpha: of `"deep"` alone, see `deepnorm_constants`.
    norm: makes N from D (and device, dtype), for example `RMSNorm`.
    forward(x): (..., D) to the same shape.
    Raises ValueError for an unknown placement, for an alpha missing or without use, and for a
    branch that changes the shape; TypeError for an alpha that is no number or a norm ready made.
    Source: post, Vaswani et al. (2017); pre, Xiong et al. (2020); deep, Wang et al. (2022),
    DeepNet; peri, Kim et al. (2025), Peri-LN; output, OLMo 2 (2024).

    See: placement-formula in book/placement.md; tests/normkit/test_placement.py.

    >>> def branch(v):
    ...     return torch.stack([v[2], 0 * v[2], 0 * v[2]])
    >>> for placement in ("post", "pre", "output"):
    ...     print(Residual(branch, 3, placement)(torch.tensor([0.0, 2.0, 4.0])).detach())
    tensor([ 0.7071, -1.4142,  0.7071])
    tensor([1.2247, 2.0000, 4.0000])
    tensor([1.4142, 1.2929, 3.2929])
    """

    norm_before: nn.Module | Any  # the norms and alpha are None where the placement has none
    norm_after: nn.Module | Any
    alpha: float | Any

    def __init__(
        self,
        branch: Callable[[Tensor], Tensor],
        width: int,
        placement: Placement = "pre",
        alpha: float | None = None,
        norm: NormMaker = LayerNorm,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_placement(placement)
        _check_norm(norm)
        if (alpha is not None) != (placement == "deep"):
            raise ValueError(
                f'placement="deep" needs alpha, from deepnorm_constants, and no other placement '
                f'has one; placement is "{placement}" and alpha is {alpha}.'
            )
        if alpha is not None:
            _check_constant("alpha", alpha)
        self.branch, self.placement, self.alpha = branch, placement, alpha
        before, after = placement in ("pre", "peri"), placement != "pre"
        options = _options(device, dtype)
        self.norm_before = norm(width, **options) if before else None
        self.norm_after = norm(width, **options) if after else None

    def forward(self, x: Tensor) -> Tensor:
        match self.placement:
            case "post":
                return self.norm_after(x + self._branch(x))
            case "deep":
                return self.norm_after(self.alpha * x + self._branch(x))
            case "pre":
                return x + self._branch(self.norm_before(x))
            case "peri":
                return x + self.norm_after(self._branch(self.norm_before(x)))
            case "output":
                return x + self.norm_after(self._branch(x))

    def _branch(self, x: Tensor) -> Tensor:
        return _of_branch(self.branch, x)

    def extra_repr(self) -> str:
        return f'placement="{self.placement}", alpha={self.alpha}'


def _of_branch(branch: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """F(x), which must not broadcast against the stream."""
    y = branch(x)
    if y.shape != x.shape:
        raise ValueError(
            f"The branch must keep the shape of the stream, {tuple(x.shape)}, because the two "
            f"are added; it returns {tuple(y.shape)}."
        )
    return y


# --- DeepNorm ---------------------------------------------------------------------------------


def deepnorm_constants(
    encoder_layers: int = 0, decoder_layers: int = 0
) -> dict[str, tuple[float, float]]:
    r"""α, the weight of the stream, and β, the gain of the initialisation, of DeepNorm.

    $$ \alpha = (2N)^{1/4}, \quad \beta = (8N)^{-1/4} $$

    for N layers of an encoder or of a decoder alone. For N and M layers of both:

    $$ \alpha_e = 0.81 (N^4 M)^{1/16}, \quad \beta_e = 0.87 (N^4 M)^{-1/16}, \quad
    \alpha_d = (3M)^{1/4}, \quad \beta_d = (12M)^{-1/4} $$

    encoder_layers, decoder_layers: N and M; a layer is attention and feed-forward part together.
    Returns (α, β) of the `"encoder"` and of the `"decoder"`, those that there are.
    Raises ValueError unless there is a layer.
    Source: Wang et al. (2022), DeepNet: Scaling Transformers to 1,000 Layers, fig. 2.

    See: placement-deepnorm in book/placement.md; tests/normkit/test_placement.py.

    >>> deepnorm_constants(decoder_layers=8)
    {'decoder': (2.0, 0.3535533905932738)}
    """
    n, m = encoder_layers, decoder_layers
    if n < 0 or m < 0 or n + m == 0:
        raise ValueError(
            f"There must be at least one layer, and no negative number of them; encoder_layers is "
            f"{n} and decoder_layers is {m}."
        )
    if n and m:
        both = (n**4 * m) ** (1 / 16)
        encoder, decoder = (0.81 * both, 0.87 / both), ((3 * m) ** 0.25, (12 * m) ** -0.25)
        return {"encoder": encoder, "decoder": decoder}
    layers = n or m
    return {"encoder" if n else "decoder": ((2 * layers) ** 0.25, (8 * layers) ** -0.25)}


def deepnorm_init(module: nn.Module, beta: float) -> nn.Module:
    r"""Initialise every Linear in the module as DeepNorm does.

    $$ W \sim \mathcal{N}\left(0, \frac{2 g^2}{n_{\mathrm{in}} + n_{\mathrm{out}}}\right) $$

    with the gain g = β for values, output projections and both feed-forward matrices, g = 1 for
    queries, keys and whatever is outside of `Attention` and `FeedForward`. Biases become 0.

    beta: from `deepnorm_constants`; 1 gives the plain Xavier initialisation.
    Returns the module, changed. Raises TypeError unless beta is a number, ValueError unless it is
    positive. Source: the same, fig. 2; Glorot & Bengio (2010), eq. 16.

    See: placement-deepnorm in book/placement.md; tests/normkit/test_placement.py.
    """
    _check_constant("beta", beta)
    scaled = {
        linear
        for part in module.modules()
        if isinstance(part, Attention | FeedForward)
        for linear in part._scaled()
    }
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_normal_(layer.weight, beta if layer in scaled else 1)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return module


# --- A small Transformer ----------------------------------------------------------------------


class Attention(nn.Module):
    r"""Causal multi-head self-attention.

    $$ \operatorname{softmax}\left(\frac{q k^\top}{\sqrt{d}}\right) v, \quad d = D / \text{heads} $$

    width: D, which heads divides. qk_norm: `"full"` normalises q and k over all D features
    (OLMo 2), `"head"` over the d of each head (Qwen 3, Gemma 3), None neither, by RMSNorm.
    forward(x): (B, T, D) to the same shape; position t depends on positions up to t.
    Raises ValueError for heads that do not divide, an unknown qk_norm, or another shape.
    Source: Vaswani et al. (2017), eq. 1; Henry et al. (2020), Query-Key Normalization.

    See: placement-qk in book/placement.md; tests/normkit/test_placement.py.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        qk_norm: Literal["full", "head"] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"heads must divide width, {width}; it is {heads}.")
        if qk_norm not in (None, "full", "head"):
            raise ValueError(f'qk_norm must be None, "full" or "head"; it is {qk_norm!r}.')
        options = _options(device, dtype)
        self.heads, self.qk_norm = heads, qk_norm
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, **options) for _ in range(4))
        over = {None: None, "full": width, "head": width // heads}[qk_norm]
        self.q_norm, self.k_norm = (
            RMSNorm(over, **options) if over else nn.Identity() for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        _check_shape(self, x, self.q.in_features, axes=2)
        q, k, v = self.q(x), self.k(x), self._split(self.v(x))
        if self.qk_norm == "full":
            q, k = self._split(self.q_norm(q)), self._split(self.k_norm(k))
        else:
            q, k = self.q_norm(self._split(q)), self.k_norm(self._split(k))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(-3, -2).flatten(-2))

    def _split(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, heads, T, d)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def _scaled(self) -> tuple[nn.Linear, ...]:
        """The matrices that DeepNorm initialises with the gain β."""
        return self.v, self.out


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between, (..., D) to the same shape, each token by itself.

    width: D. hidden: the features between, 4D if left out.
    Raises ValueError for another number of features.
    """

    def __init__(
        self,
        width: int,
        hidden: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        hidden, options = hidden or 4 * width, _options(device, dtype)
        self.up, self.down = (
            nn.Linear(*sizes, **options) for sizes in ((width, hidden), (hidden, width))
        )

    def forward(self, x: Tensor) -> Tensor:
        _check_shape(self, x, self.up.in_features, axes=1)
        return self.down(self.up(x).relu())

    def _scaled(self) -> tuple[nn.Linear, ...]:
        """The matrices that DeepNorm initialises with the gain β."""
        return self.up, self.down


class CharacterTransformer(nn.Module):
    """A causal Transformer that predicts the next character, for every placement of the norms.

    vocabulary: how many characters. layers: N, each an attention and a feed-forward part.
    length: the longest sequence. placement, norm: as in `Residual`, or a later placement, as in
    `Stack`; constants and initialisation follow from N. qk_norm: as in `Attention`. Placements
    that leave the stream unnormalised get a final norm. Weights start Xavier-normal, biases at 0.
    forward(tokens): integers (B, T) to logits (B, T, vocabulary).
    Raises ValueError for a size below 1, more than length positions, or a token that is not below
    vocabulary; TypeError for tokens that are no integers.

    >>> model = CharacterTransformer(vocabulary=35, placement="deep", layers=8)
    >>> model(torch.zeros(2, 16, dtype=torch.long)).shape, model.blocks[0].alpha
    (torch.Size([2, 16, 35]), 2.0)
    """

    blocks: Any  # of the five placements in a row, or a Stack
    final_norm: nn.Module

    def __init__(
        self,
        vocabulary: int,
        width: int = 32,
        heads: int = 2,
        layers: int = 6,
        length: int = 16,
        placement: Design = "pre",
        norm: NormMaker = LayerNorm,
        qk_norm: Literal["full", "head"] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_placement(placement, Design)
        deep, options = placement == "deep", _options(device, dtype)
        alpha, beta = deepnorm_constants(decoder_layers=layers)["decoder"] if deep else (None, 1)
        _check_sizes(vocabulary=vocabulary, width=width, layers=layers, length=length)
        self.length, self.placement = length, placement
        self.characters = nn.Embedding(vocabulary, width, **options)
        self.positions = nn.Embedding(length, width, **options)
        if placement not in get_args(Placement):
            from normkit.placements import Stack  # which builds on this module

            self.blocks = Stack(width, layers, placement, heads, norm, qk_norm, **options)
            self.final_norm = nn.Identity()  # the stack has its own
            self.head = deepnorm_init(nn.Linear(width, vocabulary, **options), 1)
            return
        branches = (
            branch
            for _ in range(layers)
            for branch in (
                Attention(width, heads, qk_norm, **options),
                FeedForward(width, **options),
            )
        )
        self.blocks = nn.Sequential(
            *(
                Residual(branch, width, cast(Placement, placement), alpha, norm, **options)
                for branch in branches
            )
        )
        normalised = placement in ("post", "deep")
        self.final_norm = nn.Identity() if normalised else norm(width, **options)
        self.head = nn.Linear(width, vocabulary, **options)
        deepnorm_init(self, beta)

    def forward(self, tokens: Tensor) -> Tensor:
        self._check(tokens)
        try:
            x = self.characters(tokens)
        except IndexError:
            raise ValueError(
                f"The model knows the characters 0 to {self.characters.num_embeddings - 1}, and "
                f"the tokens go from {int(tokens.min())} to {int(tokens.max())}. Number the "
                f"characters from 0, or build it with a larger vocabulary."
            ) from None
        x = x + self.positions.weight[: tokens.shape[-1]]
        return self.head(self.final_norm(self.blocks(x)))

    def _check(self, tokens: Tensor) -> None:
        if torch.is_floating_point(tokens) or tokens.ndim == 0:
            raise TypeError(
                f"tokens must be integers of shape (batch, length), one for each character; they "
                f"are {tokens.dtype} of shape {tuple(tokens.shape)}. One-hot vectors become "
                f"integers with argmax(-1)."
            )
        if tokens.shape[-1] > self.length:
            raise ValueError(
                f"The model has positions for {self.length} characters; the tokens have shape "
                f"{tuple(tokens.shape)}, (batch, length). Cut them, or build it with more length."
            )


def _options(device: torch.device | str | None, dtype: torch.dtype | None) -> dict[str, Any]:
    return {"device": device, "dtype": dtype}


# --- Checks -----------------------------------------------------------------------------------


def _check_placement(placement: str, known: Any = Placement) -> None:
    if placement not in get_args(known):
        names = ", ".join(f'"{name}"' for name in get_args(known))
        raise ValueError(f"placement must be one of {names}; it is {placement!r}.")


def _check_norm(norm: NormMaker) -> None:
    if isinstance(norm, nn.Module) or not callable(norm):
        raise TypeError(
            f"norm must be a class or function that makes a norm from a width, RMSNorm and not "
            f"RMSNorm(8): every place needs one of its own. It is a {type(norm).__name__}."
        )


def _check_constant(name: str, constant: float) -> None:
    if not isinstance(constant, float | Real):
        raise TypeError(
            f"{name} must be a single number; it is {constant!r}. deepnorm_constants returns the "
            f"pair (alpha, beta) for each side: "
            f'alpha, beta = deepnorm_constants(decoder_layers=8)["decoder"].'
        )
    if not constant > 0:
        raise ValueError(
            f"{name} must be positive; it is {constant}. deepnorm_constants computes it from the "
            f"number of layers."
        )


def _check_sizes(**sizes: int) -> None:
    if min(sizes.values()) < 1:
        named = ", ".join(f"{name} is {size}" for name, size in sizes.items())
        raise ValueError(f"All sizes of a Transformer must be at least 1; {named}.")


def _check_shape(part: nn.Module, x: Tensor, width: int, axes: int) -> None:
    if x.ndim < axes or x.shape[-1] != width:
        shape = ("..., T, " if axes == 2 else "..., ") + str(width)
        raise ValueError(
            f"This {type(part).__name__} needs an x of shape ({shape}), with {width} features on "
            f"the last axis; its shape is {tuple(x.shape)}."
        )
