"""The tasks of the assignment on DyT, Derf and weight normalisation."""

import itertools
import operator
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from normkit.messages import N_
from normkit.tutor.by_hand import READY_MADE
from normkit.tutor.probes import INTEGERS, WORKED, token_probe, token_probes, tokens
from normkit.tutor.states import HALF, NEW, STARTS, TRAINED, backward, new, shapes, starts
from normkit.tutor.tasks import Named, Probe, Task, add, part, parts

X = [-2.0, -1.0, 0.0, 1.0, 2.0, 10.0]


def _use_dyt(answer, x, alpha, gamma, beta) -> Named:
    yield "y", answer(x, alpha, gamma, beta)


def _use_derf(answer, x, alpha, shift, gamma, beta) -> Named:
    yield "y", answer(x, alpha, shift, gamma, beta)


def _named(result, *names: str) -> Named:
    """The results by name, single numbers as floats, whatever type they came in."""
    for name, value in parts(result, *names):
        single = isinstance(value, (int, float, np.ndarray, np.generic)) and np.ndim(value) == 0
        yield name, float(value) if single else value


def _use_dyt_backward(answer, dy, x, alpha, gamma) -> Named:
    yield from _named(answer(dy, x, alpha, gamma), "dx", "dalpha", "dgamma", "dbeta")


def _use_part(*names: str) -> Callable[..., Named]:
    """How the backward pass is used when only these gradients count."""

    def use(answer, **given) -> Named:
        for name, value in _use_dyt_backward(answer, **given):
            if name in (*names, "result"):
                yield name, value

    return use


def _use_derf_backward(answer, dy, x, alpha, shift, gamma) -> Named:
    result = answer(dy, x, alpha, shift, gamma)
    yield from _named(result, "dx", "dalpha", "dshift", "dgamma", "dbeta")


def _use_initial(answer, width) -> Named:
    result = answer(width)
    two = list(result) if isinstance(result, np.ndarray) and result.ndim == 1 else result
    yield from _named(two, "attention", "other")


DTYPES = N_("the dtype of the parameters of a new layer")
DEFAULT = N_("the output of a new layer made without alpha_init")


def _use_layer(answer, dy, x, alpha, gamma, beta, shift=None) -> Named:
    """A new layer, then one with trained weights, at last in half precision.

    x shares its memory, to see it modified.
    """
    import torch

    x, dy, weight, bias = map(torch.from_numpy, (x, dy, gamma, beta))
    trained = {"alpha": torch.tensor([2 * alpha]), "weight": weight, "bias": bias}
    trained |= {} if shift is None else {"shift": torch.tensor([shift])}
    layer = new(answer, x.shape[-1], alpha_init=alpha)
    yield "state_dict()", shapes(layer.state_dict().items())
    yield DTYPES, _dtypes(layer.state_dict().values())
    others = {name: v for name, v in layer.state_dict().items() if name != "alpha"}
    yield STARTS, starts(others.items())
    yield "alpha", float(torch.as_tensor(layer.alpha).mean())
    layer = layer.to(x.dtype)
    yield NEW, layer(x)
    yield DEFAULT, answer(x.shape[-1]).to(x.dtype)(x)
    yield "named_parameters()", shapes(layer.named_parameters())
    layer.load_state_dict(trained)
    x = x.requires_grad_()
    y = layer(x)
    yield TRAINED, y
    backward(y, dy)
    yield "dx", x.grad
    yield from ((f"d{name}", getattr(layer, name).grad) for name in trained)
    yield HALF, str(layer.half()(x.half()).dtype)


def _dtypes(tensors) -> str:
    return ", ".join(sorted({str(tensor.dtype) for tensor in tensors}))


def _use_norms_replaced(answer, model, alpha_init, seed) -> Named:
    """Which layer stands where, each with its own alpha."""
    yield from _replaced(answer, _model(model, seed), alpha_init)


def _use_replace(answer, model, alpha_init, seed) -> Named:
    """The same, with the weights of the new layers and what the model makes of some input."""
    x, model = _input(model, seed), _model(model, seed)
    norms = _norms(model)
    yield from _replaced(answer, model, alpha_init)
    if _norms(model):
        return
    for path in norms:
        layer = model.get_submodule(path)
        for name in ("weight", "bias"):
            if getattr(layer, name) is not None:
                yield f"{_at(path)}.{name}", getattr(layer, name)
    y = model(x)
    yield N_("the output of the model"), y
    y.sum().backward()
    learnt = sum(p.numel() for p in model.parameters() if p.grad is not None)
    yield N_("the number of parameters that receive a gradient"), learnt


ENDS = N_("whether the calls come to an end")


def _made_layer() -> type:
    """The class that is handed in as make_layer: a DyT with a name of its own."""
    import torch

    class MadeLayer(torch.nn.Module):
        def __init__(self, features, alpha_init=0.5):
            super().__init__()
            self.alpha = torch.nn.Parameter(torch.full((1,), float(alpha_init)))
            width = operator.index(features)  # no tuple, as torch.ones would take
            self.weight = torch.nn.Parameter(torch.ones(width))
            self.bias = torch.nn.Parameter(torch.zeros(width))

        def forward(self, x):
            return self.weight * torch.tanh(self.alpha * x) + self.bias

    return MadeLayer


def _replaced(answer, model, alpha_init) -> Named:
    """The types of all modules after the call, and where alpha starts."""
    before, norms = [path for path, _ in model.named_modules() if path], _norms(model)
    try:
        result = answer(model, _made_layer(), alpha_init)
    except RecursionError:
        yield ENDS, False
        raise
    yield ENDS, True
    yield N_("the type of the result"), type(result).__name__
    yield N_("whether the result is the model itself"), result is model
    for path in before:
        yield f"type({_at(path)})", type(model.get_submodule(path)).__name__
    yield N_("the number of modules"), len(list(model.modules()))
    layers = [model.get_submodule(path) for path in norms]
    for path, layer in zip(norms, layers, strict=True):
        if hasattr(layer, "alpha"):
            yield f"{_at(path)}.alpha", float(layer.alpha)
    yield N_("the number of different alpha"), len({id(getattr(s, "alpha", 0)) for s in layers})


def _use_weight_norm(answer, v, g) -> Named:
    yield "w", answer(v, g)


def _use_weight_norm_backward(answer, dw, v, g) -> Named:
    yield from parts(answer(dw, v, g), "dv", "dg")


# --- Probes -----------------------------------------------------------------------------------


def _token_probes(rng) -> list[Probe]:
    """Those of every norm, with alpha and shift, and one that makes exponentials overflow."""
    large = tokens(rng, 3, 4)
    large[1, 2], large[2, 0] = 3000.0, -3000.0
    drawn = [p for p in token_probes(rng) if p.inputs["eps"] < 0.1 and not p.rough]
    for x in large, np.where(large < 1000, large, -large):
        drawn.append(token_probe(rng, N_("two large numbers among small ones"), x))
    alphas = itertools.cycle((0.3, 0.7, -1.5, 0.4))  # neither 1 nor 0.5, where it starts
    return [
        replace(probe, inputs={**probe.inputs, "alpha": alpha, "shift": rng.uniform(0.2, 1)})
        for probe, alpha in zip(drawn, alphas, strict=False)
    ]


def _probes(
    names: str,
    *worked: tuple,
    random: Callable[[np.random.Generator], Iterable[Probe]] = _token_probes,
    without: tuple[str, ...] = (),
) -> Callable[[np.random.Generator], list[Probe]]:
    """What draws the worked probes, then the random ones, with these inputs."""

    def array(value):
        return np.array(value, dtype=float) if isinstance(value, list) else value

    def draw(rng):
        examples = [
            Probe(WORKED, dict(zip(names.split(), map(array, v), strict=True))) for v in worked
        ]
        return examples + [
            replace(probe, inputs={name: probe.inputs[name] for name in names.split()})
            for probe in random(rng)
            if probe.name not in without
        ]

    return draw


SEQUENTIAL, DEEP = N_("norms among linear layers"), N_("norms at several depths")
BATCH, PLAIN_NORM = N_("a model with a batch normalisation"), N_("a norm without weight and bias")
LAYER_MODEL, RMS_MODEL = N_("a Transformer with LayerNorm"), N_("a Transformer with RMSNorm")


def _model(name: str, seed: int):
    """A small model, whose norms have a weight and a bias as after training."""
    import torch
    from torch import nn

    models = {
        SEQUENTIAL: lambda: nn.Sequential(
            *(nn.LayerNorm(3), nn.Linear(3, 4), nn.LayerNorm(4)),
            *(nn.ReLU(), nn.Linear(4, 4), nn.LayerNorm(4)),
        ),
        DEEP: lambda: nn.Sequential(
            nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 5))),
            nn.RMSNorm(5),
            nn.Sequential(nn.Linear(5, 6), nn.RMSNorm(6)),
        ),
        BATCH: lambda: nn.Sequential(
            nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
        ),
        PLAIN_NORM: lambda: nn.Sequential(
            nn.Linear(3, 4), nn.LayerNorm(4, elementwise_affine=False), nn.RMSNorm(4)
        ),
        LAYER_MODEL: lambda: _transformer(nn.LayerNorm),
        RMS_MODEL: lambda: _transformer(nn.RMSNorm),
    }
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seed))
        model = models[name]()
        for path in _norms(model):
            for parameter in model.get_submodule(path).parameters():
                nn.init.normal_(parameter)
    return model


def _transformer(norm: type):
    """A Pre-Norm Transformer of two blocks; its norms are attributes of classes."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = norm(8), norm(8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.feed_forward = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 8))

        def forward(self, x):
            read = self.norm_1(x)
            x = x + self.attention(read, read, read)[0]
            return x + self.feed_forward(self.norm_2(x))

    return nn.Sequential(nn.Embedding(5, 8), Block(), Block(), norm(8), nn.Linear(8, 5))


def _input(name: str, seed: int):
    import torch

    generator = torch.Generator().manual_seed(int(seed))
    if name in (LAYER_MODEL, RMS_MODEL):
        return torch.randint(5, (2, 6), generator=generator)
    return torch.randn(4, 3, generator=generator)


def _norms(model) -> list[str]:
    """The paths of the layers to replace."""
    from torch import nn

    kinds = nn.LayerNorm, nn.RMSNorm
    return [path for path, part in model.named_modules() if isinstance(part, kinds)]


def _at(path: str) -> str:
    return f'model.get_submodule("{path}")'


def _models(rng) -> list[Probe]:
    def one(name):
        given = {"alpha_init": round(rng.uniform(0.6, 0.9), 2), "seed": rng.integers(1000)}
        return Probe(name, {"model": name, **given}, tolerance=1e-4)

    return list(map(one, (SEQUENTIAL, DEEP, BATCH, PLAIN_NORM, LAYER_MODEL, RMS_MODEL)))


def _weights(rng) -> list[Probe]:
    """Rows of different lengths; the square matrix aside, no axis passes for another."""

    def probe(name, v, **options):
        dtype = v.dtype if v.dtype.kind == "f" else float
        g, dw = rng.normal(scale=2, size=v.shape[0]), rng.normal(size=v.shape)
        inputs = {"v": v, "g": g.astype(dtype), "dw": dw.astype(dtype)}
        return Probe(name, inputs, **options)

    return [
        probe(N_("a matrix"), tokens(rng, 4, 3)),
        probe(N_("the kernel of a convolution"), tokens(rng, 3, 4, 2, 5)),
        probe(N_("a square matrix"), tokens(rng, 4, 4)),
        probe(N_("short rows"), tokens(rng, 3, 5) * 1e-3),
        probe(N_("a transposed array"), tokens(rng, 5, 3).T),
        probe(N_("an array of dtype float32"), tokens(rng, 5, 6).astype("f4"), tolerance=1e-4),
        probe(INTEGERS, rng.integers(1, 10, size=(3, 7))),
    ]


def _widths(rng) -> list[Probe]:
    return [Probe(N_("a published width"), {"width": width}) for width in (4096, 5120, 8192)]


PLAIN, SCALES, SHIFTS = [1.0] * 6, [1.0, 2, 3, 1, 2, 3], [0.0, 1, 0, 0, 2, 0]
WEIGHTS = ([[3, 4], [0, 2]], [10, 1])
GRADIENTS = _probes(
    "dy x alpha gamma",
    ([0.0, 0, 0, 1, 0, 0], X, 0.5, PLAIN),
    ([1.0, 0, 0, 0, 0, 2], X, 0.5, SCALES),
)

add(
    Task(
        "dyt/forward",
        by_hand=READY_MADE,
        programs=("dyt/dyt",),
        chapter="dyt#dyt-formula",
        use=_use_dyt,
        reference="normkit.alternatives:dyt",
        probes=_probes("x alpha gamma beta", (X, 0.5, PLAIN, [0.0] * 6), (X, 0.5, SCALES, SHIFTS)),
    ),
    Task(
        "dyt/backward",
        by_hand=READY_MADE,
        programs=("dyt/dyt_backward",),
        chapter="dyt#dyt-backward",
        use=_use_dyt_backward,
        reference="normkit.alternatives:dyt_backward",
        any_dtype=("dx", "dgamma", "dbeta"),
        probes=GRADIENTS,
    ),
    Task(
        "dyt/derf",
        by_hand=READY_MADE,
        programs=("dyt/derf",),
        chapter="dyt#dyt-derf",
        use=_use_derf,
        reference="normkit.alternatives:derf",
        probes=_probes(
            "x alpha shift gamma beta",
            (X, 0.5, 0.0, PLAIN, [0.0] * 6),
            (X, 0.5, -0.5, SCALES, SHIFTS),
        ),
    ),
    Task(
        "dyt/derf_backward",
        by_hand=READY_MADE,
        programs=("dyt/derf_backward",),
        chapter="dyt#dyt-derf",
        use=_use_derf_backward,
        reference="normkit.alternatives:derf_backward",
        any_dtype=("dx", "dgamma", "dbeta"),
        probes=_probes(
            "dy x alpha shift gamma",
            ([0.0, 0, 1, 0, 0, 0], X, 0.5, 0.0, PLAIN),
            ([0.0, 0, 0, 1, 1, 0], X, 0.5, -0.5, SCALES),
        ),
    ),
    Task(
        "dyt/layer",
        by_hand=READY_MADE,
        programs=("dyt/DyT",),
        chapter="dyt#dyt-code",
        use=_use_layer,
        reference="normkit.layers:DyT",
        probes=_probes(
            "dy x alpha gamma beta",
            ([0.0, 0, 0, 1, 0, 0], X, 0.25, SCALES, SHIFTS),
            without=(INTEGERS,),
        ),
    ),
    Task(
        "dyt/derf_layer",
        by_hand=READY_MADE,
        programs=("dyt/Derf",),
        chapter="dyt#dyt-derf",
        use=_use_layer,
        reference="normkit.layers:Derf",
        probes=_probes(
            "dy x alpha shift gamma beta",
            ([0.0, 0, 0, 1, 0, 0], X, 0.25, -0.5, SCALES, SHIFTS),
            without=(INTEGERS,),
        ),
    ),
    Task(
        "dyt/initial",
        by_hand=READY_MADE,
        programs=("dyt/dyt_alpha_init",),
        chapter="dyt#dyt-alpha-init",
        use=_use_initial,
        reference="normkit.alternatives:dyt_alpha_init",
        probes=_widths,
    ),
    Task(
        "dyt/replace",
        sees=("_arrays", "layers", "placement"),
        programs=("dyt/replace_norms", "dyt/replace_norms_by_path"),
        chapter="dyt#dyt-code",
        use=_use_replace,
        probes=_models,
    ),
    Task(
        "dyt/weight_norm",
        by_hand=READY_MADE,
        programs=("dyt/weight_norm",),
        chapter="dyt#dyt-weight-norm",
        use=_use_weight_norm,
        reference="normkit.alternatives:weight_norm",
        probes=_probes("v g", WEIGHTS, random=_weights),
    ),
    Task(
        "dyt/weight_norm_backward",
        by_hand=READY_MADE,
        programs=("dyt/weight_norm_backward",),
        chapter="dyt#dyt-weight-norm",
        use=_use_weight_norm_backward,
        reference="normkit.alternatives:weight_norm_backward",
        any_dtype=("dv", "dg"),
        probes=_probes("dw v g", ([[1, 0], [1, 1]], *WEIGHTS), random=_weights),
    ),
)

AS_ONE = "alpha_forgotten", "gradients_without_gamma"  # in one gradient they look like others

add(
    part("dyt/dx", "dyt/backward", use=_use_part("dx"), without=AS_ONE),
    part("dyt/dalpha", "dyt/backward", use=_use_part("dalpha"), without=AS_ONE),
    part("dyt/dgamma_dbeta", "dyt/backward", use=_use_part("dgamma", "dbeta")),
    part("dyt/replaced", "dyt/replace", use=_use_norms_replaced),
)
