"""The tasks of the assignment on conditional norms."""

from collections.abc import Callable
from functools import partial

import numpy as np

from normkit.messages import N_
from normkit.tutor.by_hand import CONDITIONAL, CONDITIONAL_LAYERS, GRADIENTS, READY_MADE
from normkit.tutor.group_instance_norm.tasks import images
from normkit.tutor.placement.tasks import first_of_third, layer_norm
from normkit.tutor.probes import CONSTANT, WORKED, tokens, usual_eps
from normkit.tutor.states import STARTS, backward, new, shapes, starts
from normkit.tutor.tasks import Named, Probe, Task, add, part, parts

SINGLE = N_("an array of dtype float32")
FAR = N_("float32 numbers around 10 000")
CHANNEL = N_("a channel whose numbers are all equal")
SQUARE = N_("as many tokens as examples")


def _use(answer, **given) -> Named:
    """The arguments in their order, whatever their names."""
    yield "y", answer(*given.values())


def _use_with_eps(usual: float) -> Callable[..., Named]:
    """The same, with eps last: left out where it is the usual one."""

    def use(answer, eps, **given) -> Named:
        yield "y", answer(*given.values(), *usual_eps(answer, eps, usual))

    return use


def _use_backward(answer, eps, **given) -> Named:
    result = answer(*given.values(), *usual_eps(answer, eps, 1e-6))
    yield from parts(result, "dx", "dshift", "dscale", "dgate")


def _use_gradients(*wanted: str) -> Callable[..., Named]:
    """How the backward pass is used when only these gradients count."""

    def use(answer, **given) -> Named:
        for name, value in _use_backward(answer, **given):
            if name in (*wanted, "result"):
                yield name, value

    return use


IDENTITY = N_("whether a new layer returns x as it is")
BRANCH = N_("whether the branch is as it was handed in")
OTHERS = N_("learnt numbers that are neither in modulation nor in branch")
ENTRIES = N_("entries of state_dict() that are neither in modulation nor in branch")
TRAINED = N_("the output with loaded weights")


def _use_layer(answer, dy, x, c, weight, bias, seed) -> Named:
    """A new layer, then one whose modulation is trained; x shares its memory."""
    import torch

    x, dy, c, weight, bias = map(torch.from_numpy, (x, dy, c, weight, bias))
    branch, untouched = (_branch(x.shape[-1], seed) for _ in range(2))
    layer = new(answer, branch, x.shape[-1], c.shape[-1])
    state = layer.state_dict()
    own = {n: v for n, v in state.items() if n.startswith(("modulation", "branch"))}
    yield ENTRIES, shapes(_others(state, own))
    yield "state_dict()", shapes(own.items())
    yield OTHERS, sum(p.numel() for n, p in layer.named_parameters() if n not in own)
    yield STARTS, starts(_thirds(own, x.shape[-1]))
    pairs = zip(branch.parameters(), untouched.parameters(), strict=True)
    yield BRANCH, all(torch.equal(a, b) and a.requires_grad for a, b in pairs)
    layer = layer.to(x.dtype)
    yield IDENTITY, bool(torch.equal(layer(x, c), x))
    trained = {"modulation.weight": weight, "modulation.bias": bias}
    layer.load_state_dict({**layer.state_dict(), **trained})
    x, c = x.requires_grad_(), c.requires_grad_()
    y = layer(x, c)
    yield TRAINED, y
    backward(y, dy)
    yield from {"dx": x.grad, "dc": c.grad}.items()
    yield from ((f"d{name}", layer.get_parameter(name).grad) for name in trained)
    yield "dbranch", _gradient(layer, branch)


def _gradient(layer, branch):
    """That of the branch, all in one, whether the layer holds it or not; None if a part is."""
    import torch

    held = dict(layer.named_parameters())
    found = [held.get(f"branch.{name}", p).grad for name, p in branch.named_parameters()]
    return None if any(g is None for g in found) else torch.cat([g.flatten() for g in found])


def _others(state: dict, own: dict):
    """What is not its own, whatever the module is called that holds it; nothing twice."""
    places = {value.data_ptr() for value in own.values()}
    for name, value in state.items():
        if value.data_ptr() not in places:
            yield name.rpartition(".")[2], value


def _thirds(state: dict, width: int):
    """The parameters of the modulation by name, its bias in the three parts."""
    for name, value in state.items():
        if name == "modulation.bias" and len(value) == 3 * width:
            yield from zip(("bias[:D]", "bias[D:2D]", "bias[2D:]"), value.split(width), strict=True)
        elif name.startswith("modulation"):
            yield name.removeprefix("modulation."), value


def _branch(width: int, seed: int):
    """A small network that keeps the shape."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seed))
        up, down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)
    return torch.nn.Sequential(up, torch.nn.GELU(), down)


# --- Probes -----------------------------------------------------------------------------------


def _array(value):
    return np.array(value, dtype=float) if isinstance(value, list) else value


def _worked(**given) -> Probe:
    return Probe(WORKED, {name: _array(value) for name, value in given.items()})


def _rows(rng, count: int, x, width: int) -> list:
    """Random rows of a modulation, one for each example of x."""
    return list(rng.normal(size=(count, len(x), width)).astype(x.dtype))


def _film_probes(rng) -> list[Probe]:
    def one(name, x, **options):
        scale, shift = _rows(rng, 2, x, x.shape[1])
        return Probe(name, {"x": x, "scale": scale, "shift": shift}, **options)

    single = images(rng, 2, 3, 4, 5).astype("f")
    return [
        _worked(x=[[[1, 3], [5, 7]]], scale=[[1, -0.5]], shift=[[0, 2]]),
        one(N_("a batch of images"), images(rng, 2, 3, 4, 5)),
        one(N_("a batch of sequences"), images(rng, 3, 4, 5)),
        one(N_("a batch of rows"), images(rng, 5, 6)),
        one(N_("images whose sides are N and C"), images(rng, 3, 5, 3, 5)),
        one(N_("a batch of volumes"), images(rng, 3, 2, 4, 2, 5)),
        one(N_("a single example"), images(rng, 1, 4, 3)),
        one(SINGLE, single, tolerance=1e-4),
    ]


def _adaln_probes(rng) -> list[Probe]:
    def one(name, x, eps=1e-6, **options):
        scale, shift = _rows(rng, 2, x, x.shape[-1])
        return Probe(name, {"x": x, "scale": scale, "shift": shift, "eps": eps}, **options)

    constant = tokens(rng, 2, 4, 5)
    constant[1, 2] = 3.0
    far = (rng.normal(scale=2, size=(2, 3, 8)) + 10_000).astype("f")
    return [
        _worked(x=[[[0, 2, 4]]], scale=[[1, 0, -0.5]], shift=[[0, 1, 0]], eps=1e-6),
        one(N_("a large eps, 0.1"), tokens(rng, 2, 3, 4), eps=0.1),
        one(N_("a batch of sequences"), tokens(rng, 3, 5, 4)),
        one(SQUARE, tokens(rng, 4, 4, 3)),
        one(N_("as many tokens as features"), tokens(rng, 2, 5, 5)),
        one(N_("very small numbers"), tokens(rng, 2, 3, 5) * 1e-3),
        one(CONSTANT, constant),
        one(N_("a single example"), tokens(rng, 1, 4, 3), eps=0.01),
        one(SINGLE, tokens(rng, 2, 5, 6).astype("f"), tolerance=1e-4),
        one(FAR, far, tolerance=0.02, rough=True),
    ]


def _through(up, down, mix, v):
    """A branch that mixes tokens and features."""
    return mix @ np.tanh(v @ up) @ down


def _root_mean_square(x):
    """Another norm."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5)


def _block_probes(rng) -> list[Probe]:
    def one(name, x, norm=layer_norm, **options):
        width, length = x.shape[-1], x.shape[-2]
        matrices = *rng.normal(size=(2, width, width)), rng.normal(size=(length, length))
        (rows,) = _rows(rng, 1, x, 3 * width)
        branch = partial(_through, *(matrix.astype(x.dtype) for matrix in matrices))
        given = {"x": x, "modulation": rows, "norm": norm, "branch": branch}
        return Probe(name, given, **options)

    rows = [[0, 1, 0, 1, 0, -0.5, 0.5, 1, 1]]
    closed = one(N_("a modulation of zeros"), tokens(rng, 2, 3, 4))
    return [
        _worked(x=[[[0, 2, 4]]], modulation=rows, norm=layer_norm, branch=first_of_third),
        one(N_("a batch of sequences"), tokens(rng, 3, 5, 4)),
        one(SQUARE, tokens(rng, 4, 4, 5)),
        one(N_("as many tokens as features"), tokens(rng, 2, 3, 3)),
        one(N_("a large eps, 0.1"), tokens(rng, 2, 4, 3), partial(layer_norm, eps=0.1)),
        one(N_("another norm"), tokens(rng, 2, 3, 5), _root_mean_square),
        one(N_("three examples"), tokens(rng, 3, 2, 4)),
        one(SINGLE, tokens(rng, 2, 5, 4).astype("f"), tolerance=1e-4),
        Probe(closed.name, {**closed.inputs, "modulation": np.zeros((2, 12))}),
    ]


def _backward_probes(rng) -> list[Probe]:
    def one(name, x, eps=1e-6, **options):
        width = x.shape[-1]
        shift, scale, gate = _rows(rng, 3, x, width)
        given = {"dy": rng.normal(size=x.shape).astype(x.dtype), "x": x}
        given |= {"shift": shift, "scale": scale, "gate": gate}
        weight = rng.normal(size=(width, width)).astype(x.dtype)
        return Probe(name, {**given, "weight": weight, "eps": eps}, **options)

    weight = [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    rows = {"shift": [[0, 1, 0]], "scale": [[1, 0, -0.5]], "gate": [[0.5, 1, 1]]}
    return [
        _worked(dy=[[[1, 0, 0]]], x=[[[0, 2, 4]]], **rows, weight=weight, eps=1e-6),
        one(N_("a large eps, 0.1"), tokens(rng, 2, 3, 4), eps=0.1),
        one(N_("a batch of sequences"), tokens(rng, 3, 5, 4)),
        one(SQUARE, tokens(rng, 4, 4, 3)),
        one(N_("as many tokens as features"), tokens(rng, 2, 5, 5)),
        one(N_("small numbers"), tokens(rng, 2, 3, 5) * 1e-2),
        one(N_("a single example"), tokens(rng, 1, 4, 3), eps=0.01),
        one(SINGLE, tokens(rng, 2, 5, 6).astype("f"), tolerance=1e-4),
    ]


def _class_probes(rng) -> list[Probe]:
    def one(name, x, labels, classes=3, eps=1e-5, **options):
        scales, shifts = rng.normal(size=(2, classes, x.shape[1])).astype(x.dtype)
        given = {"x": x, "labels": np.array(labels), "scales": scales, "shifts": shifts}
        return Probe(name, {**given, "eps": eps}, **options)

    constant = images(rng, 4, 3, 5)
    constant[:, 1] = 3.0
    far = (rng.normal(scale=2, size=(2, 4, 3)) + 10_000).astype("f")
    single = images(rng, 4, 3, 2, 5).astype("f")
    classes = np.array([0, 0, 1, 1])
    columns = {"scales": [[0], [1]], "shifts": [[0], [2]]}
    return [
        _worked(x=[[1], [3], [5], [7]], labels=classes, **columns, eps=1e-5),
        one(N_("a large eps, 0.1"), images(rng, 4, 3), [1, 0, 1, 2], eps=0.1),
        one(N_("a batch of rows"), images(rng, 5, 4), [2, 0, 2, 1, 1], classes=6),
        one(N_("a batch of images"), images(rng, 4, 3, 2, 5), [2, 2, 1, 2]),
        one(N_("a batch of sequences"), images(rng, 3, 4, 5), [1, 4, 1], classes=5),
        one(N_("images whose sides are N and C"), images(rng, 3, 5, 3, 5), [2, 0, 2], eps=0.01),
        one(CHANNEL, constant, [0, 1, 1, 2]),
        one(N_("very small numbers"), images(rng, 4, 2, 3) * 1e-3, [1, 1, 0, 1]),
        one(SINGLE, single, [0, 2, 0, 2], tolerance=1e-4),
        one(FAR, far, [2, 0], tolerance=0.02, rough=True),
    ]


def _style_probes(rng) -> list[Probe]:
    def one(name, x, style, eps=1e-5, **options):
        return Probe(name, {"x": x, "style": style, "eps": eps}, **options)

    flat, plain = images(rng, 2, 3, 4, 5), images(rng, 2, 3, 3, 4)
    flat[1, 2], plain[0, 1] = 3.0, 2.0
    far, other = (rng.normal(scale=2, size=(2, 2, 3, 8)) + 10_000).astype("f")
    single, same = images(rng, 2, 3, 4, 5).astype("f"), images(rng, 2, 3, 5, 4).astype("f")
    small = images(rng, 2, 3, 4, 2) * 1e-3
    return [
        _worked(x=[[[1, 3, 5, 7]]], style=[[[10, 10, 20, 20]]], eps=1e-5),
        one(N_("a large eps, 0.1"), images(rng, 2, 3, 4, 5), images(rng, 2, 3, 4, 5), eps=0.1),
        one(N_("a style of another size"), images(rng, 2, 3, 4, 5), images(rng, 2, 3, 2, 3)),
        one(N_("a batch of sequences"), images(rng, 3, 2, 5), images(rng, 3, 2, 4)),
        one(N_("a batch of volumes"), images(rng, 2, 3, 2, 4, 3), images(rng, 2, 3, 3, 2, 2)),
        one(N_("a channel whose numbers are all equal"), flat, plain),
        one(N_("a style that is x itself"), small, small.copy()),
        one(SINGLE, single, same, tolerance=1e-4),
        one(FAR, far, other, tolerance=0.02, rough=True),
    ]


def _layer_probes(rng) -> list[Probe]:
    def one(name, x, condition_width, **options):
        width = x.shape[-1]
        (c,) = _rows(rng, 1, x, condition_width)
        weight = rng.normal(size=(3 * width, condition_width)).astype(x.dtype)
        bias = rng.normal(size=3 * width).astype(x.dtype)
        given = {"dy": rng.normal(size=x.shape).astype(x.dtype), "x": x, "c": c}
        given |= {"weight": weight, "bias": bias, "seed": int(rng.integers(1000))}
        return Probe(name, given, **options)

    return [
        one(N_("a batch of sequences"), tokens(rng, 3, 5, 4), 2),
        one(SQUARE, tokens(rng, 4, 4, 3), 5),
        one(N_("as many tokens as features"), tokens(rng, 2, 5, 5), 3),
        one(N_("small numbers"), tokens(rng, 2, 4, 6) * 1e-2, 3),
        one(SINGLE, tokens(rng, 2, 3, 5).astype("f"), 4, tolerance=1e-3),
    ]


BACKWARD = Task(
    "conditional/backward",
    by_hand=(*(f"normkit.conditional.{name}" for name in CONDITIONAL.split()), *GRADIENTS),
    programs=("conditional/adaln_zero_backward",),
    chapter="conditional#conditional-backward",
    use=_use_backward,
    any_dtype=("dx", "dshift", "dscale", "dgate"),
    probes=_backward_probes,
    sees=("_arrays", "functions", "typing"),  # layer_norm and layer_norm_backward may be called
)

add(
    Task(
        "conditional/film",
        by_hand=READY_MADE,
        programs=("conditional/film",),
        chapter="conditional#conditional-film",
        use=_use,
        any_dtype=("y",),
        probes=_film_probes,
    ),
    Task(
        "conditional/adaln",
        by_hand=READY_MADE,
        programs=("conditional/adaptive_layer_norm",),
        chapter="conditional#conditional-adaln",
        use=_use_with_eps(1e-6),
        reference="normkit.conditional:adaptive_layer_norm",
        any_dtype=("y",),
        probes=_adaln_probes,
    ),
    Task(
        "conditional/zero",
        by_hand=READY_MADE,
        programs=("conditional/adaln_zero",),
        chapter="conditional#conditional-zero",
        use=_use,
        any_dtype=("y",),
        probes=_block_probes,
    ),
    BACKWARD,
    part("conditional/modulation", BACKWARD, use=_use_gradients("dshift", "dscale", "dgate")),
    part("conditional/dx", BACKWARD, use=_use_gradients("dx")),
    Task(
        "conditional/batch_norm",
        by_hand=READY_MADE,
        programs=("conditional/conditional_batch_norm",),
        chapter="conditional#conditional-bn",
        use=_use_with_eps(1e-5),
        any_dtype=("y",),
        probes=_class_probes,
    ),
    Task(
        "conditional/adain",
        by_hand=READY_MADE,
        programs=("conditional/adaptive_instance_norm",),
        chapter="conditional#conditional-adain",
        use=_use_with_eps(1e-5),
        reference="normkit.conditional:adaptive_instance_norm",
        any_dtype=("y",),
        probes=_style_probes,
    ),
    Task(
        "conditional/layer",
        by_hand=(
            *(f"normkit.conditional.{name}" for name in CONDITIONAL.split()),
            *(f"normkit.conditional_layers.{name}" for name in CONDITIONAL_LAYERS.split()),
        ),
        programs=("conditional/AdaLNZero",),
        chapter="conditional#conditional-zero",
        use=_use_layer,
        reference="normkit.conditional_layers:AdaLNZero",
        probes=_layer_probes,
        pairs=300,
    ),
)
