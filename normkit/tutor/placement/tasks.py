"""The tasks of the assignment on placements."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from normkit.messages import N_
from normkit.tutor.probes import WORKED
from normkit.tutor.states import backward, new
from normkit.tutor.tasks import Named, Probe, Task, add, part, parts

# --- Blocks: functions of NumPy arrays --------------------------------------------------------


def _use(answer, **given) -> Named:
    """The arguments in their order, whatever their names."""
    yield "y", answer(*given.values())


def layer_norm(x, gamma=1, beta=0, eps=1e-5):
    """The norm of the probes."""
    centred = x - x.mean(axis=-1, keepdims=True)
    var = (centred**2).mean(axis=-1, keepdims=True)
    return gamma * (centred / np.sqrt(var + eps)) + beta


def first_of_third(v):
    """[v[2], 0, 0] of v."""
    return v[..., 2:] * np.array([1, 0, 0])


def silent(v):
    """0 of v."""
    return 0 * v


def _tokens(rng, *shape):
    return rng.normal(size=shape) * rng.uniform(0.5, 3, (*shape[:-1], 1)) + 1


def _mixed(matrix, mix, v):
    """A branch that mixes tokens, where there are several."""
    return mix @ np.tanh(v @ matrix) if v.ndim > 1 else np.tanh(v @ matrix)


def _each(up, down, v):
    """A branch that sees each token by itself, and does not grow in proportion to it."""
    return np.maximum(v @ up + 1, 0) @ down


def _attention(rng, x):
    matrix = rng.normal(size=(x.shape[-1], x.shape[-1])).astype(x.dtype)
    return partial(_mixed, matrix, rng.normal(size=2 * x.shape[-2:-1]).astype(x.dtype))


def _feed_forward(rng, x):
    return partial(_each, *rng.normal(size=(2, x.shape[-1], x.shape[-1])).astype(x.dtype))


def _norms(rng, count, x, eps=1e-5):
    features = x.shape[-1]
    draws = [(rng.uniform(0.5, 2, features), rng.normal(size=features)) for _ in range(count)]
    return [
        partial(layer_norm, gamma=gamma.astype(x.dtype), beta=beta.astype(x.dtype), eps=eps)
        for gamma, beta in draws
    ]


def _block_probes(count: int, deep: bool = False) -> Callable:
    """What draws the probes for a block with so many norms, none like another."""

    def draw(rng):
        def worked(name, attention, feed_forward):
            given = {"x": np.array([0.0, 2, 4]), "attention": attention}
            given |= {"feed_forward": feed_forward, "norms": [layer_norm] * count}
            return Probe(name, given | ({"alpha": 2.0} if deep else {}))

        def random(name, x, eps=1e-5, tolerance=1e-6):
            given = {"x": x, "attention": _attention(rng, x)}
            given |= {"feed_forward": _feed_forward(rng, x), "norms": _norms(rng, count, x, eps)}
            alpha = {"alpha": float(rng.uniform(1.5, 3))} if deep else {}
            return Probe(name, given | alpha, tolerance)

        quiet = random(N_("a block whose branches return 0"), _tokens(rng, 3, 5))
        return [
            worked(
                N_("attention(v) = [v[2], 0, 0] and feed_forward(v) = 0 * v"),
                first_of_third,
                silent,
            ),
            worked(
                N_("attention(v) = 0 * v and feed_forward(v) = [v[2], 0, 0]"),
                silent,
                first_of_third,
            ),
            random(N_("a large eps, 0.1"), _tokens(rng, 4), eps=0.1),
            random(N_("a sequence of tokens"), _tokens(rng, 5, 3)),
            random(N_("a batch of sequences"), _tokens(rng, 2, 4, 3)),
            random(N_("a transposed array"), _tokens(rng, 6, 4).T),
            random(N_("an array of dtype float32"), _tokens(rng, 3, 7).astype("f"), tolerance=1e-4),
            Probe(
                quiet.name, quiet.inputs | {"attention": silent, "feed_forward": partial(silent)}
            ),
        ]

    return draw


# --- Modules of PyTorch that behave like normkit's --------------------------------------------


@cache
def _branches() -> tuple[Any, Any]:
    """Attention, with one head, and FeedForward."""
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
            self.q_norm, self.k_norm = nn.Identity(), nn.Identity()

        def forward(self, x):
            q, k = self.q_norm(self.q(x)), self.k_norm(self.k(x))
            return self.out(scaled_dot_product_attention(q, k, self.v(x), is_causal=True))

    class FeedForward(nn.Module):
        def __init__(self, width, hidden):
            super().__init__()
            self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, x):
            return self.down(self.up(x).relu())

    return Attention, FeedForward


@cache
def _models() -> tuple[Any, Any]:
    """Residual and CharacterTransformer."""
    from torch import nn

    Attention, FeedForward = _branches()

    class Residual(nn.Module):
        def __init__(self, branch, width, placement):
            super().__init__()
            self.branch, self.alpha = branch, 2.0 if placement == "deep" else 1.0
            self.normalised = placement in ("post", "deep")
            self.norm_before = nn.LayerNorm(width) if placement in ("pre", "peri") else None
            self.norm_after = nn.LayerNorm(width) if placement != "pre" else None

        def forward(self, x):
            y = self.branch(self.norm_before(x) if self.norm_before else x)
            if self.normalised:
                return self.norm_after(self.alpha * x + y)
            return x + (self.norm_after(y) if self.norm_after else y)

    class CharacterTransformer(nn.Module):
        def __init__(self, vocabulary, width, layers, length, placement):
            super().__init__()
            self.characters = nn.Embedding(vocabulary, width)
            self.positions = nn.Embedding(length, width)
            parts = [lambda: Attention(width), lambda: FeedForward(width, 4 * width)] * layers
            self.blocks = nn.Sequential(*(Residual(make(), width, placement) for make in parts))
            self.final_norm = nn.LayerNorm(width) if placement == "pre" else nn.Identity()
            self.head = nn.Linear(width, vocabulary)

        def forward(self, tokens):
            positions, length = self.positions.weight, tokens.shape[-1]
            if length > len(positions):
                raise ValueError(f"There are {len(positions)} positions, but {length} characters.")
            x = self.characters(tokens) + positions[:length]
            return self.head(self.final_norm(self.blocks(x)))

    return Residual, CharacterTransformer


# --- A stack of blocks: a PyTorch module ------------------------------------------------------

NEW = N_("the output of a new model")
TRAINED = N_("the output after a step of training")
PARAMETERS = N_("the number of parameters")


def _use_stack(answer, x, dy, layers, placement) -> Named:
    """A new model, then the same after a step of gradient descent."""
    import torch

    x, dy = map(torch.from_numpy, (x, dy))
    width = x.shape[-1]
    model = new(answer, _blocks(layers, width, placement), width, placement)
    y = model(x)
    yield NEW, y
    yield PARAMETERS, sum(parameter.numel() for parameter in model.parameters())
    backward(y, dy)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * (0 if parameter.grad is None else parameter.grad)
    yield TRAINED, model(x)


def _blocks(layers: int, width: int, placement: str) -> list:
    """Blocks of which none is like another, with parameters far from their usual start."""
    import torch

    (_, FeedForward), (Residual, _) = _branches(), _models()
    generator = torch.Generator().manual_seed(layers)
    with torch.random.fork_rng(devices=[]):
        blocks = [Residual(FeedForward(width, 5), width, placement) for _ in range(layers)]
    for parameter in torch.nn.ModuleList(blocks).parameters():
        torch.nn.init.normal_(parameter, 0.5, 0.5, generator=generator)
    return blocks


def _stack_probes(rng):
    def one(name, placement, layers, *shape):
        x, dy = _tokens(rng, *shape).astype("f"), rng.normal(size=shape).astype("f")
        given = {"x": x, "dy": dy, "layers": layers, "placement": placement}
        return Probe(name, given, tolerance=1e-4)

    return [
        one(N_("pre blocks"), "pre", 2, 1, 3),
        one(N_("post blocks"), "post", 3, 2, 4),
        one(N_("peri blocks"), "peri", 3, 5, 4),
        one(N_("output blocks"), "output", 2, 2, 3, 4),
        one(N_("deep blocks"), "deep", 2, 3, 4),
        one(N_("pre blocks"), "pre", 4, 2, 5, 3),
    ]


# --- DeepNorm ---------------------------------------------------------------------------------


KEYS = N_("the keys")
PAIRS = {
    "encoder": (N_("alpha of the encoder"), N_("beta of the encoder")),
    "decoder": (N_("alpha of the decoder"), N_("beta of the decoder")),
}


def _use_constants(answer, n, m) -> Named:
    """Each constant by itself, so that each is explained by itself."""
    found = answer(n, m)
    if found is None:
        yield from ((name, None) for name in (KEYS, *sum(PAIRS.values(), ())))
        return
    if not isinstance(found, dict):
        yield from parts(found)
        return
    yield KEYS, ", ".join(sorted(map(str, found)))
    for side, names in PAIRS.items():
        if found.get(side) is not None:
            yield from zip(names, _pair(found[side]), strict=False)


def _pair(found: Any) -> list:
    """Alpha and beta; alpha alone if there is one number, and what is no pair as it is."""
    values = [found] if isinstance(found, str | dict | set) else np.ravel(found).tolist()
    numbers = [float(value) if isinstance(value, int) else value for value in values]
    return numbers if len(numbers) < 3 else [found]


WORKED_LAYERS = (0, 8), (2, 0), (2, 16), (5, 27)


def _constants_probes(rng):
    names = N_("a decoder alone"), N_("an encoder alone"), N_("an encoder–decoder")
    n, m, other = (int(layers) for layers in rng.choice(np.arange(3, 50), 3, replace=False))
    layers = [*WORKED_LAYERS, (0, n), (m, 0), (n, m), (m, n), (1, other), (other, 1)]
    return [Probe(names[bool(n) + bool(n and m)], {"n": n, "m": m}) for n, m in layers]


def _is_one_side(**layers) -> bool:
    return 0 in layers.values()


def _is_both_sides(**layers) -> bool:
    return not _is_one_side(**layers)


def _looking_alike(where: str) -> tuple[str, ...]:
    """The mistakes of one case which, in the part that has no other, look like those of all."""
    return f"exponent_without_brackets_{where}", f"factor_outside_power_{where}"


GAINS = N_("the gains of q, k, v, out, up, down, rounded")
MEANS = N_("their means over their standard deviations, rounded")
WIDTH, HIDDEN = 128, 384


def _use_init(answer, beta, seed) -> Named:
    """Standard deviations over those of Xavier, rounded: the weights are random."""
    import torch

    Attention, FeedForward = _branches()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seed))
        attention, feed_forward = Attention(WIDTH), FeedForward(WIDTH, HIDDEN)
        answer(attention, feed_forward, beta)
    linears = [attention.q, attention.k, attention.v, attention.out]
    linears += [feed_forward.up, feed_forward.down]
    weights = [linear.weight.detach() for linear in linears]
    gains = [float(weight.std() / np.sqrt(2 / sum(weight.shape))) for weight in weights]
    rounded = [round(gain, 1) if gain < 3 else 4.0 * round(gain / 4) for gain in gains]
    yield GAINS, np.array(rounded)
    largest = [bool(weight.abs().max() > 2.5 * weight.std()) for weight in weights]
    means = [round(float(weight.mean() / weight.std()), 1) + 0.0 for weight in weights]
    yield MEANS, np.array(means)
    yield N_("weights beyond 2.5 standard deviations"), np.array(largest)
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    yield N_("the largest bias"), float(max((bias.abs().max() for bias in biases), default=0))
    yield N_("weights and biases of another shape"), sum(map(_misshapen, linears))
    dtypes = {str(parameter.dtype) for linear in linears for parameter in linear.parameters()}
    yield N_("the dtypes of weights and biases"), ", ".join(sorted(dtypes))
    count = sum(len(list(part.parameters())) for part in (attention, feed_forward))
    yield N_("parameters added or taken away"), count != 2 * len(linears)
    yield N_("whether two matrices are alike"), _alike(weights)
    fixed = [p for linear in linears for p in linear.parameters() if not p.requires_grad]
    yield N_("whether a weight or a bias is kept from learning"), bool(fixed)


def _alike(weights: list) -> bool:
    """Whether one begins like another, or its transpose does, whatever the factor."""
    import torch

    count = min(weight.numel() for weight in weights)
    rows = torch.stack([w.double().flatten()[:count] for w in weights])
    turned = torch.stack([torch.atleast_2d(w.double()).mT.flatten()[:count] for w in weights])
    both = torch.corrcoef(torch.cat([rows, turned])).nan_to_num()[: len(weights)]
    others = torch.arange(len(weights)).repeat(2) != torch.arange(len(weights))[:, None]
    return bool((both.abs() > 0.9)[others].any())


def _misshapen(linear) -> int:
    """How many of weight and bias have a shape that does not belong to the layer."""
    shape = linear.out_features, linear.in_features
    bias = shape[:1] if linear.bias is None else linear.bias.shape  # none has no other shape
    return (linear.weight.shape != shape) + (bias != shape[:1])


def _init_probes(rng):
    name = N_("attention of width 128, feed-forward part from 128 to 384 and back")
    return [Probe(name, {"beta": beta, "seed": rng.integers(1000)}) for beta in (0.4, 0.1)]


# --- QK-norm ----------------------------------------------------------------------------------


def _attention_probes(rng):
    def one(name, heads, qk_norm, tokens, width):
        over = width if qk_norm == "full" else width // heads
        gammas = {name: rng.uniform(0.5, 2, over) for name in ("gamma_q", "gamma_k")}
        given = {name: _tokens(rng, tokens, width) for name in "qkv"}
        return Probe(name, {**given, "heads": heads, "qk_norm": qk_norm, **gammas, "eps": 1e-9})

    padded = one(N_("a token of zeros"), 2, "head", 5, 4)
    padded.inputs["q"][1] = padded.inputs["k"][2] = 0

    worked = {"q": [[1, 1], [3, 4]], "k": [[2, -2], [3, 3]], "v": [[0, 1], [1, 0]]}
    worked = {name: np.array(value, dtype=float) for name, value in worked.items()}
    gammas = {"gamma_q": np.ones(2), "gamma_k": np.ones(2)}
    return [
        Probe(WORKED, {**worked, "heads": 1, "qk_norm": "full", **gammas, "eps": 1e-9}),
        one(N_('qk_norm="head", two heads'), 2, "head", 3, 8),
        one(N_('qk_norm="full", two heads'), 2, "full", 3, 8),
        one(N_('qk_norm="head", three heads'), 3, "head", 5, 6),
        one(N_('qk_norm="full", three heads'), 3, "full", 5, 6),
        one(N_('qk_norm="head", a square array'), 2, "head", 4, 4),
        padded,
    ]


# --- Gradients against depth ------------------------------------------------------------------


def _use_gradient(answer, tokens, placement, layers, seed) -> Named:
    import torch

    _, CharacterTransformer = _models()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seed))
        model = CharacterTransformer(5, 8, layers, 8, placement).double()
    tokens = torch.from_numpy(tokens)
    once, again = answer(model, tokens), answer(model, tokens)
    yield N_("the norm of the gradient"), once if once is None else float(once)
    yield N_("a second measurement over the first"), _ratio(again, once)
    for parameter in model.parameters():  # as another backward() leaves them
        parameter.grad = 10 * torch.ones_like(parameter)
    third = answer(model, tokens)
    yield N_("a measurement after another backward() over the first"), _ratio(third, once)


def _ratio(again: Any, once: Any) -> float | None:
    return None if again is None else float(again) / (float(once) or 1)


def _gradient_probes(rng):
    def one(name, placement, layers, *shape):
        given = {"placement": placement, "layers": layers, "seed": rng.integers(1000)}
        return Probe(name, {"tokens": rng.integers(5, size=shape), **given})

    return [
        one(N_("a Pre-Norm model"), "pre", 1, 2, 5),
        one(N_("a Post-Norm model"), "post", 3, 3, 6),
        one(N_("a DeepNorm model"), "deep", 2, 2, 9),  # one more than it has positions for
    ]


CONSTANTS = Task(
    "placement/constants",
    use=_use_constants,
    probes=_constants_probes,
    programs=("placement/deepnorm_constants",),
    chapter="placement#placement-deepnorm",
    by_hand=("normkit.deepnorm_constants",),
)

add(
    *(
        Task(
            f"placement/{placement}",
            use=_use,
            probes=_block_probes(4 if placement == "peri" else 2, deep=placement == "deep"),
            programs=(f"placement/{placement}_block",),
            chapter="placement#placement-formula",
            by_hand=("normkit.Residual",),
            any_dtype=("y",),
        )
        for placement in ("post", "pre", "deep", "peri", "output")
    ),
    Task(
        "placement/model",
        use=_use_stack,
        probes=_stack_probes,
        programs=("placement/Stack",),
        pairs=100,
        chapter="placement#placement-formula",
        by_hand=("normkit.CharacterTransformer",),
        sees=("_arrays", "functions", "layers", "placement", "typing"),
    ),
    CONSTANTS,
    part("placement/constants_one_side", CONSTANTS, _is_one_side, without=_looking_alike("alone")),
    part(
        "placement/constants_both_sides",
        CONSTANTS,
        _is_both_sides,
        without=_looking_alike("together"),
    ),
    Task(
        "placement/init",
        use=_use_init,
        probes=_init_probes,
        programs=("placement/deepnorm_init",),
        pairs=100,
        chapter="placement#placement-deepnorm",
        by_hand=("normkit.deepnorm_init",),
    ),
    Task(
        "placement/qk_norm",
        use=_use,
        probes=_attention_probes,
        programs=("placement/qk_attention",),
        chapter="placement#placement-qk",
        by_hand=("normkit.Attention",),
    ),
    Task(
        "placement/gradient",
        use=_use_gradient,
        probes=_gradient_probes,
        programs=("placement/gradient_norm",),
        pairs=100,
        chapter="placement#placement-gradients",
    ),
)
