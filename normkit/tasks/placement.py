"""The tasks of the assignment on placements."""

from collections.abc import Callable
from functools import partial

import numpy as np

from normkit.functions import layer_norm
from normkit.messages import N_
from normkit.observing import Named, Probe, Task, add
from normkit.tasks.parts import part
from normkit.tasks.probes import WORKED

# --- Blocks: functions of NumPy arrays --------------------------------------------------------


def _use_block(answer, **given) -> Named:
    yield "y", answer(**given)


def _reference_block(placement: str) -> Callable:
    """Two of normkit's residual branches, which work on NumPy arrays as on tensors."""

    def block(x, attention, feed_forward, norms, alpha=None):
        from normkit.placement import Residual

        left = iter(norms)
        for branch in (attention, feed_forward):
            x = Residual(branch, x.shape[-1], placement, alpha, lambda *_, **__: next(left))(x)
        return x

    return block


def first_of_third(v):
    """[v[2], 0, 0] of v."""
    return v[..., 2:] * np.array([1, 0, 0])


def silent(v):
    """0 of v."""
    return 0 * v


def _tokens(rng, *shape):
    return rng.normal(size=shape) * rng.uniform(0.5, 3, (*shape[:-1], 1)) + 1


def _attention(rng, x):
    """A branch that mixes tokens, where there are several."""
    matrix = rng.normal(size=(x.shape[-1], x.shape[-1])).astype(x.dtype)
    mix = rng.normal(size=2 * x.shape[-2:-1]).astype(x.dtype)
    return lambda v: mix @ np.tanh(v @ matrix) if v.ndim > 1 else np.tanh(v @ matrix)


def _feed_forward(rng, x):
    up, down = rng.normal(size=(2, x.shape[-1], x.shape[-1])).astype(x.dtype)
    return lambda v: np.maximum(v @ up, 0) @ down


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
            parts = {"attention": attention, "feed_forward": feed_forward}
            given = {"x": np.array([0.0, 2, 4]), **parts, "norms": [layer_norm] * count}
            return Probe(name, given | ({"alpha": 2.0} if deep else {}))

        def random(name, x, eps=1e-5, tolerance=1e-6):
            parts = {"attention": _attention(rng, x), "feed_forward": _feed_forward(rng, x)}
            given = {"x": x, **parts, "norms": _norms(rng, count, x, eps)}
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
            Probe(quiet.name, quiet.inputs | {"attention": silent, "feed_forward": silent}),
        ]

    return draw


# --- A stack of blocks: a PyTorch module ------------------------------------------------------

NEW = N_("the output of a new model")
TRAINED = N_("the output after a step of training")
PARAMETERS = N_("the number of parameters")


def _use_stack(answer, x, dy, layers, placement) -> Named:
    """A new model, then the same after a step of gradient descent."""
    import torch

    x, dy = map(torch.from_numpy, (x, dy))
    width = x.shape[-1]
    model = answer(_blocks(layers, width, placement), width, placement)
    y = model(x)
    yield NEW, y
    yield PARAMETERS, sum(parameter.numel() for parameter in model.parameters())
    y.backward(dy)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    yield TRAINED, model(x)


def _blocks(layers: int, width: int, placement: str) -> list:
    """Blocks of which none is like another, with parameters far from their usual start."""
    import torch

    from normkit.placement import FeedForward, Residual

    generator = torch.Generator().manual_seed(layers)
    alpha = 2.0 if placement == "deep" else None
    with torch.random.fork_rng(devices=[]):
        blocks = [Residual(FeedForward(width, 5), width, placement, alpha) for _ in range(layers)]
    for parameter in torch.nn.ModuleList(blocks).parameters():
        torch.nn.init.normal_(parameter, 0.5, 0.5, generator=generator)
    return blocks


def _reference_stack(blocks, width, placement):
    import torch

    from normkit.placement import CharacterTransformer

    end = CharacterTransformer(2, width, 1, 1, 1, placement).final_norm
    return torch.nn.Sequential(*blocks, end)


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


def _use_constants(answer, encoder_layers, decoder_layers) -> Named:
    found = dict(answer(encoder_layers, decoder_layers))
    call = f"deepnorm_constants({encoder_layers}, {decoder_layers})"
    yield call, " ".join(sorted(found))
    for side in sorted(found):
        yield f'{call}["{side}"]', np.array([float(constant) for constant in found[side]])


def _reference_constants():
    from normkit.placement import deepnorm_constants

    return deepnorm_constants


WORKED_LAYERS = (0, 8), (2, 0), (2, 16), (5, 27)


def _constants_probes(rng):
    names = N_("a decoder alone"), N_("an encoder alone"), N_("an encoder–decoder")
    n, m, other = (int(layers) for layers in rng.choice(np.arange(3, 50), 3, replace=False))
    layers = [*WORKED_LAYERS, (0, n), (m, 0), (n, m), (m, n), (1, other), (other, 1)]
    return [
        Probe(names[bool(n) + bool(n and m)], {"encoder_layers": n, "decoder_layers": m})
        for n, m in layers
    ]


def _is_one_side(**layers) -> bool:
    return 0 in layers.values()


def _is_both_sides(**layers) -> bool:
    return not _is_one_side(**layers)


GAINS = N_("the gains of q, k, v, out, up, down, rounded")
WIDTH, HIDDEN = 128, 384


def _use_init(answer, beta, seed) -> Named:
    """Standard deviations over those of Xavier, rounded: the weights are random."""
    import torch

    from normkit.placement import Attention, FeedForward

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seed))
        attention, feed_forward = Attention(WIDTH, 2), FeedForward(WIDTH, HIDDEN)
        answer(attention, feed_forward, beta)
    linears = [attention.q, attention.k, attention.v, attention.out]
    linears += [feed_forward.up, feed_forward.down]
    weights = [linear.weight.detach() for linear in linears]
    gains = [float(weight.std() / np.sqrt(2 / sum(weight.shape))) for weight in weights]
    rounded = [round(gain, 1) if gain < 3 else 4.0 * round(gain / 4) for gain in gains]
    yield GAINS, np.array(rounded)
    largest = [bool(weight.abs().max() > 2.5 * weight.std()) for weight in weights]
    yield N_("weights beyond 2.5 standard deviations"), np.array(largest)
    biases = [linear.bias.detach() for linear in linears]
    yield N_("the largest bias"), float(max(bias.abs().max() for bias in biases))
    yield N_("weights and biases of another shape"), sum(map(_misshapen, linears))
    count = sum(len(list(part.parameters())) for part in (attention, feed_forward))
    yield N_("parameters added"), count > 2 * len(linears)


def _misshapen(linear) -> int:
    """How many of weight and bias have a shape that does not belong to the layer."""
    shape = linear.out_features, linear.in_features
    return (linear.weight.shape != shape) + (linear.bias.shape != shape[:1])


def _reference_init():
    import torch

    from normkit.placement import deepnorm_init

    return lambda attention, feed_forward, beta: deepnorm_init(
        torch.nn.ModuleList([attention, feed_forward]), beta
    )


def _init_probes(rng):
    name = N_("attention of width 128, feed-forward part from 128 to 384 and back")
    return [Probe(name, {"beta": beta, "seed": rng.integers(1000)}) for beta in (0.4, 0.1)]


# --- QK-norm ----------------------------------------------------------------------------------


def _use_attention(answer, **given) -> Named:
    yield "y", answer(**given)


def _reference_attention(q, k, v, heads, qk_norm, gamma_q, gamma_k, eps):
    """normkit's layer, with projections that return what is given."""
    import torch

    from normkit.placement import Attention

    q, k, v, gamma_q, gamma_k = map(torch.from_numpy, (q, k, v, gamma_q, gamma_k))
    layer = Attention(q.shape[-1], heads, qk_norm, dtype=q.dtype)
    for projection, value in ((layer.q, q), (layer.k, k), (layer.v, v)):
        projection.forward = lambda _, value=value: value
    layer.out.forward = lambda mixed: mixed
    for norm, gamma in ((layer.q_norm, gamma_q), (layer.k_norm, gamma_k)):
        norm.weight.data, norm.eps = gamma, eps
    return layer(q).detach().numpy()


def _attention_probes(rng):
    def one(name, heads, qk_norm, tokens, width):
        over = width if qk_norm == "full" else width // heads
        gammas = {name: rng.uniform(0.5, 2, over) for name in ("gamma_q", "gamma_k")}
        parts = {name: _tokens(rng, tokens, width) for name in "qkv"}
        return Probe(name, {**parts, "heads": heads, "qk_norm": qk_norm, **gammas, "eps": 1e-9})

    padded = one(N_("a token of zeros"), 2, "head", 5, 4)
    padded.inputs["q"][1] = padded.inputs["k"][2] = 0

    worked = {"q": [[1, 1], [3, 4]], "k": [[2, -2], [3, 3]], "v": [[0, 1], [1, 0]]}
    worked |= {"gamma_q": [1, 1], "gamma_k": [1, 1]}
    worked = {name: np.array(value, dtype=float) for name, value in worked.items()}
    return [
        Probe(WORKED, {**worked, "heads": 1, "qk_norm": "full", "eps": 1e-9}),
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

    from normkit.placement import CharacterTransformer

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seed))
        model = CharacterTransformer(5, 8, 2, layers, 8, placement, dtype=torch.float64)
    tokens = torch.from_numpy(tokens)
    yield N_("the norm of the gradient"), float(answer(model, tokens))
    yield N_("the norm of the gradient, measured again"), float(answer(model, tokens))


def _reference_gradient(model, tokens):
    import torch

    logits = model(tokens[:, :-1]).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())
    (gradient,) = torch.autograd.grad(loss, model.blocks[-1].branch.down.weight)
    return torch.linalg.vector_norm(gradient)


def _gradient_probes(rng):
    def one(name, placement, layers, *shape):
        given = {"placement": placement, "layers": layers, "seed": rng.integers(1000)}
        return Probe(name, {"tokens": rng.integers(5, size=shape), **given})

    return [
        one(N_("a pre-norm model"), "pre", 1, 2, 5),
        one(N_("a post-norm model"), "post", 3, 3, 6),
        one(N_("a DeepNorm model"), "deep", 2, 2, 9),  # one more than it has positions for
    ]


CONSTANTS = Task(
    "placement/constants",
    by_hand=("normkit.deepnorm_constants",),
    algorithm="deepnorm_constants",
    use=_use_constants,
    reference=_reference_constants,
    probes=_constants_probes,
)

add(
    *(
        Task(
            f"placement/{placement}",
            by_hand=("normkit.Residual",),
            algorithm=f"{placement}_block",
            use=_use_block,
            reference=partial(_reference_block, placement),
            probes=_block_probes(4 if placement == "peri" else 2, deep=placement == "deep"),
        )
        for placement in ("post", "pre", "deep", "peri", "output")
    ),
    Task(
        "placement/model",
        by_hand=("normkit.CharacterTransformer",),
        algorithm="stack",
        use=_use_stack,
        reference=lambda: _reference_stack,
        probes=_stack_probes,
    ),
    CONSTANTS,
    part("placement/constants_one_side", CONSTANTS, _is_one_side),
    part("placement/constants_both_sides", CONSTANTS, _is_both_sides),
    Task(
        "placement/init",
        by_hand=("normkit.deepnorm_init",),
        algorithm="deepnorm_init",
        use=_use_init,
        reference=_reference_init,
        probes=_init_probes,
    ),
    Task(
        "placement/qk_norm",
        by_hand=("normkit.Attention",),
        algorithm="qk_attention",
        use=_use_attention,
        reference=lambda: _reference_attention,
        probes=_attention_probes,
    ),
    Task(
        "placement/gradient",
        algorithm="gradient_norm",
        use=_use_gradient,
        reference=lambda: _reference_gradient,
        probes=_gradient_probes,
    ),
)
