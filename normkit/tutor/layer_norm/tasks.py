"""The tasks of the assignment on layer normalisation."""

from collections.abc import Callable
from inspect import signature

import numpy as np

from normkit.messages import N_
from normkit.tutor.by_hand import READY_MADE
from normkit.tutor.probes import CONSTANT, INTEGERS, probes, tokens, usual_eps
from normkit.tutor.states import (
    FLOATS,
    HALF,
    NEW,
    STARTS,
    TRAINED,
    backward,
    called,
    held,
    new,
    shapes,
    starts,
)
from normkit.tutor.tasks import Named, Probe, Task, add, by_name, part, parts

ROWS = [[0.2, 0.1, 0.3], [0.5, 0.1, 0.1]]


def _use_forward(answer, x, gamma, beta, eps) -> Named:
    yield "y", answer(x, gamma, beta, *usual_eps(answer, eps))


def _use_backward(answer, dy, x, gamma, eps) -> Named:
    yield from parts(answer(dy, x, gamma, *usual_eps(answer, eps)), "dx", "dgamma", "dbeta")


def _use_gradients(*wanted: str) -> Callable[..., Named]:
    """How a backward pass is used of which some gradients count."""

    def use(answer, **given) -> Named:
        for name, value in _use_backward(answer, **given):
            if name in (*wanted, "result"):
                yield name, value

    return use


PARAMETERS = "weight", "bias"
EVALUATED = N_("the output after layer.eval()")


def _use_layer(answer, dy, x, gamma, beta, eps) -> Named:
    """A new layer, then one with trained weights; x shares its memory, to see it modified.

    Where eps is the default, the layer is made without it; elsewhere, it is also evaluated, and
    brought to half precision.
    """
    import torch

    x, dy, weight, bias = map(torch.from_numpy, (x, dy, gamma, beta))
    usual = eps == 1e-5
    layer = new(answer, x.shape[-1]) if usual else new(answer, x.shape[-1], eps=eps)
    yield "state_dict()", shapes(layer.state_dict().items())
    yield STARTS, starts(layer.state_dict().items())
    layer = layer.to(x.dtype)
    yield NEW, layer(x)
    yield "named_parameters()", shapes(layer.named_parameters())
    layer.load_state_dict({"weight": weight, "bias": bias})
    x = x.requires_grad_()
    y = layer(x)
    yield TRAINED, y
    backward(y, dy)
    yield from {"dx": x.grad, "dweight": layer.weight.grad, "dbias": layer.bias.grad}.items()
    if not usual:
        yield EVALUATED, layer.eval()(x)
        yield HALF, str(layer.half()(x.half()).dtype)


def _use_plain(answer, dy, x, gamma, beta, eps) -> Named:
    """A layer without PyTorch: arrays are its state, and nobody asks for gradients."""
    layer = answer(x.shape[-1]) if eps == 1e-5 else answer(x.shape[-1], eps=eps)
    yield "vars(layer)", shapes(held(layer, PARAMETERS))
    yield STARTS, starts(held(layer, PARAMETERS), FLOATS)
    yield NEW, called(layer, x)
    layer.weight, layer.bias = gamma, beta
    yield TRAINED, called(layer, x)


# --- What layer normalisation does not see ----------------------------------------------------


def shift_tokens(x):
    """Add a constant to all features of a token; each token has its own."""
    return x + np.arange(1, len(x) + 1)[:, None]


def scale_tokens(x):
    """Multiply all features of a token by a positive factor; each token has its own."""
    return x * (np.arange(len(x)) + 1.7)[:, None]


def scale_dataset(x):
    """Multiply everything by 10."""
    return 10 * x


def negate_tokens(x):
    """Change the sign of everything."""
    return -x


def shift_dataset(x):
    """Add the same vector to every token."""
    return x + np.arange(x.shape[-1])


def scale_feature(x):
    """Multiply the first feature of every token by 10."""
    return np.concatenate([10 * x[:, :1], x[:, 1:]], axis=1)


CHANGES = {
    change.__name__: change
    for change in (
        shift_tokens,
        scale_tokens,
        scale_dataset,
        negate_tokens,
        shift_dataset,
        scale_feature,
    )
}

# More changes and norms, on which the usual wrong experiments fail
PLAIN = {
    "nothing": np.copy,
    "add_a_little": lambda x: x + 0.004 * np.eye(*x.shape),  # hidden where two decimals are kept
    "subtract_one": lambda x: x - 1,
    "absolute": np.abs,
    "move_first_token": lambda x: x + np.eye(len(x))[0][:, None],
    "move_second_token": lambda x: x + np.eye(len(x))[1][:, None],
    "move_last_token": lambda x: x + np.eye(len(x))[-1][:, None],
    "move_last_feature": lambda x: x + np.eye(x.shape[1])[-1],
    "reverse_tokens": lambda x: x[::-1],
    "reverse_features": lambda x: x[:, ::-1],
}


def layer_norm(x):
    """Layer normalisation with scale 1, shift 0 and eps 0."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True))


def norm(x):
    """Subtract the mean alone, under a name that the notebook has for another."""
    return x - x.mean(axis=-1, keepdims=True)


NORMS = {
    "layer_norm": layer_norm,
    "centring": norm,
    "identity": lambda x: x,
    "absolute": np.abs,
    "squares": np.square,  # which is another when applied twice
}


def _use_invariance(answer, x=None, norm="", change="") -> Named:
    if callable(answer) and not signature(answer).parameters:  # the program
        answer = answer()
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        yield N_("result"), answer
        return
    predictions, unchanged = answer
    if x is None:
        predictions = by_name(predictions, CHANGES)
        yield from ((f"predictions[{name!r}]", predictions.get(name)) for name in CHANGES)
    else:
        call = f"unchanged({norm}, {change}, x)"
        yield call, unchanged(NORMS[norm], {**CHANGES, **PLAIN}[change], x)


def _invariance_probes(rng):
    trials = [("layer_norm", change) for change in (*CHANGES, "nothing", "add_a_little")]
    trials += [("centring", change) for change in CHANGES]
    trials += [("identity", change) for change in ("shift_tokens", *PLAIN)]
    trials += [("absolute", change) for change in ("negate_tokens", "absolute")]
    given = [{"norm": n, "change": c, "x": tokens(rng, 4, 5)} for n, c in trials]
    small = {"norm": "layer_norm", "change": "scale_tokens", "x": tokens(rng, 4, 5) * 1e-3}
    others = {"norm": "squares", "change": "negate_tokens", "x": tokens(rng, 4, 5)}
    positive = {"norm": "identity", "change": "absolute", "x": np.abs(tokens(rng, 3, 6))}
    short = {"norm": "identity", "change": "add_a_little", "x": tokens(rng, 4, 5).round(1)}
    return [
        Probe(N_("your predictions"), {}),
        *(Probe(N_("a random x"), g) for g in given),
        Probe(N_("very small numbers"), small),
        Probe(N_("a random x"), others),
        Probe(N_("positive numbers"), positive),
        Probe(N_("numbers with one decimal"), short),
    ]


add(
    Task(
        "layer_norm/forward",
        by_hand=READY_MADE,
        programs=("layer_norm/layer_norm",),
        chapter="layer_norm#ln-formula",
        use=_use_forward,
        reference="normkit.functions:layer_norm",
        probes=probes("x gamma beta", (ROWS, [1, 1, 1], [0, 0, 0]), (ROWS, [1, 2, 3], [0, 0, 1])),
        rows=("y",),
        pairs=1000,  # quick ones
    ),
    Task(
        "layer_norm/layer",
        by_hand=READY_MADE,
        programs=("layer_norm/LayerNorm",),
        chapter="layer_norm#ln-code",
        use=_use_layer,
        reference="normkit.layers:LayerNorm",
        probes=probes(
            "dy x gamma beta",
            ([[1, 0, 0], [0, 1, 0]], ROWS, [1, 2, 3], [0, 0, 1]),
            # torch has no mean of integers; and where a token is constant, two wrong layers
            # that are alike may differ by a nan in the gradient
            without=(INTEGERS, CONSTANT),
        ),
        rows=(NEW, TRAINED),
        plain="layer_norm/layer_without_torch",
    ),
    Task(
        "layer_norm/backward",
        by_hand=READY_MADE,
        programs=("layer_norm/layer_norm_backward", "layer_norm/layer_norm_backward_staged"),
        chapter="layer_norm#ln-backward",
        use=_use_backward,
        any_dtype=("dx", "dgamma", "dbeta"),
        reference="normkit.functions:layer_norm_backward",
        probes=probes(
            "dy x gamma",
            ([[1, 0, 0, 0]], [[0, 0, 3, 3]], [1, 1, 1, 1]),
            ([[1, 1, 0, 2], [0, 1, 1, 0]], [[0, 0, 3, 3], [3, 0, 0, 3]], [1, 2, 1, 2]),
            ([[1, 2, 3, 4]], [[1, 3, 5, 7]], [1, 1, 1, 1]),
        ),
    ),
    Task(
        "layer_norm/invariance",
        programs=("layer_norm/layer_norm_invariance",),
        chapter="layer_norm#ln-invariance",
        use=_use_invariance,
        probes=_invariance_probes,
        at_once=len(CHANGES) + 1,  # they do not depend on each other
    ),
)

add(
    part(
        *("layer_norm/layer_without_torch", "layer_norm/layer"),
        use=_use_plain,
        programs=("layer_norm/PlainLayerNorm",),
        reference="",
        any_dtype=(NEW,),
        plain="",
    ),
    part("layer_norm/dx", "layer_norm/backward", use=_use_gradients("dx")),
    part("layer_norm/dgamma_dbeta", "layer_norm/backward", use=_use_gradients("dgamma", "dbeta")),
)
