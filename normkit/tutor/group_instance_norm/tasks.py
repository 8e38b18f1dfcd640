"""The tasks of the assignment on group and instance normalisation: images (N, C, H, W)."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from normkit.messages import N_
from normkit.tutor.by_hand import READY_MADE
from normkit.tutor.probes import INTEGERS, WORKED
from normkit.tutor.tasks import Named, Probe, Task, add, by_name, part, parts

RAISED = N_("the exception that is raised")


def _use_forward(answer, x, num_groups, gamma, beta, eps) -> Named:
    if x.shape[1] % num_groups:
        yield RAISED, _raised(answer, x, num_groups, gamma, beta, eps)
    else:
        yield "y", answer(x, num_groups, gamma, beta, eps)


def _use_backward(answer, dy, x, num_groups, gamma, eps) -> Named:
    yield from parts(answer(dy, x, num_groups, gamma, eps), "dx", "dgamma", "dbeta")


def _raised(answer, *arguments) -> str:
    """The name of the exception; a subclass of ValueError will do under its name."""
    try:
        result = answer(*arguments)
    except ValueError:
        return ValueError.__name__
    except Exception as error:
        return type(error).__name__
    return "-" if isinstance(result, np.ndarray) else f"return {type(result).__name__}"


# --- Probes -----------------------------------------------------------------------------------


def images(rng, *shape):
    """Random images: each channel of each example has its own mean and scale."""
    channels = (*shape[:2], *(1 for _ in shape[2:]))
    return rng.normal(size=shape) * rng.uniform(0.5, 3, channels) + rng.normal(
        scale=2, size=channels
    )


def _worked(num_groups: int, gamma: list, beta: list) -> Probe:
    x = np.array([[[1, 3], [5, 7], [0, 0], [2, 2]]], dtype=float)
    dy = np.array([[[1, 0], [0, 0], [0, 2], [0, 0]]], dtype=float)
    given = {"gamma": np.array(gamma, dtype=float), "beta": np.array(beta, dtype=float)}
    return Probe(WORKED, {"x": x, "dy": dy, "num_groups": num_groups, **given, "eps": 1e-5})


def _probe(rng, name, x, num_groups, eps=1e-5, **options) -> Probe:
    """Random gamma, beta and dy for x."""
    dtype = x.dtype if x.dtype.kind == "f" else float
    arrays = {
        "gamma": rng.uniform(0.5, 2, x.shape[1]),
        "beta": rng.normal(size=x.shape[1]),
        "dy": rng.normal(size=x.shape),
    }
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    return Probe(name, {"x": x, "num_groups": num_groups, **arrays, "eps": eps}, **options)


def _group_probes(rng) -> list[Probe]:
    """All sizes of an array differ; the number of groups is not their size, the worked aside."""
    constant = images(rng, 4, 6, 5, 2)
    constant[1, :3] = 3.0
    far = (rng.normal(scale=2, size=(2, 6, 4)) + 10_000).astype(np.float32)
    single = images(rng, 2, 6, 4, 3).astype(np.float32)
    whole = rng.integers(-9, 10, size=(2, 6, 5))
    one, some = _probe, images
    return [
        _worked(2, [1, 1, 1, 1], [0, 0, 0, 0]),
        _worked(4, [1, 2, 3, 4], [0, 0, 1, 2]),
        _worked(1, [1, 2, 3, 4], [0, 0, 1, 2]),
        one(rng, N_("6 channels in 2 groups"), some(rng, 3, 6, 2, 4), 2),
        one(rng, N_("12 channels in 3 groups, a large eps, 0.1"), some(rng, 2, 12, 5), 3, eps=0.1),
        one(rng, N_("features without positions"), some(rng, 4, 6), 2),
        one(rng, N_("as many columns as channels"), some(rng, 2, 6, 3, 6), 3, eps=0.01),
        one(rng, N_("very small numbers"), some(rng, 3, 6, 5) * 1e-4, 2),
        one(rng, N_("a group whose numbers are all equal"), constant, 2),
        one(rng, N_("a transposed array"), np.moveaxis(some(rng, 2, 4, 6), 1, 2), 3),
        one(rng, N_("an array of dtype float32"), single, 2, tolerance=1e-4),
        one(rng, N_("float32 numbers around 10 000"), far, 3, tolerance=0.02, rough=True),
        one(rng, INTEGERS, whole, 2),
        one(rng, N_("7 channels do not make 3 groups"), some(rng, 4, 7, 2, 3), 3),
    ]


def _probes(names: str):
    """What draws the probes with these inputs and eps."""
    wanted = [*names.split(), "eps"]
    return lambda rng: [
        replace(probe, inputs={name: probe.inputs[name] for name in wanted})
        for probe in _group_probes(rng)
    ]


# --- What group normalisation is the same as --------------------------------------------------


def _over(x, *axes):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def _in_pairs(x):
    return x.reshape(len(x), x.shape[1] // 2, 2, *x.shape[2:])


def layer_norm_of_examples(x):
    """Normalise each example over its channels and positions, (C, H, W)."""
    return _over(x, 1, 2, 3)


def layer_norm_of_positions(x):
    """Normalise each position over its channels, C, as a Transformer does with tokens."""
    return _over(x, 1)


def instance_norm_of_channels(x):
    """Normalise each channel of each example over its positions, (H, W)."""
    return _over(x, 2, 3)


def batch_norm_of_examples(x):
    """Normalise each channel over the examples and the positions, (N, H, W)."""
    return _over(x, 0, 2, 3)


def batch_norm_of_single_examples(x):
    """Make a batch of one of each example, and normalise its channels over (1, H, W)."""
    return np.concatenate([_over(x[i : i + 1], 0, 2, 3) for i in range(len(x))])


def pairs_of_channels(x):
    """Normalise channels 0 and 1 of an example together, then 2 and 3, and so on."""
    return _over(_in_pairs(x), 2, 3, 4).reshape(x.shape)


def every_other_channel(x):
    """Normalise channels 0, 2, 4 … of an example together, and channels 1, 3, 5 …."""
    return _over(_in_pairs(x), 1, 3, 4).reshape(x.shape)


NORMS = {
    "layer_norm_of_examples": layer_norm_of_examples,
    "layer_norm_of_positions": layer_norm_of_positions,
    "instance_norm": instance_norm_of_channels,
    "batch_norm": batch_norm_of_examples,
    "batch_norm_of_single_examples": batch_norm_of_single_examples,
    "pairs_of_channels": pairs_of_channels,
    "every_other_channel": every_other_channel,
}


def _pairs_in(example):
    """Normalise this example in pairs of channels, and each channel of the others by itself."""

    def norm(x):
        y = instance_norm_of_channels(x)
        y[example] = pairs_of_channels(x)[example]
        return y

    return norm


def group_norm(x, num_groups, eps=1e-5):
    """Normalise each group of neighbouring channels of an example over its positions too."""
    if x.shape[1] % num_groups:
        raise ValueError(f"{x.shape[1]} channels do not split into {num_groups} groups.")
    rows = x.reshape(len(x), num_groups, -1)
    centred = rows - rows.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    return (centred * r).reshape(x.shape)  # as NORMS, but for the last digits


def _moved(place, by):
    """Group normalisation, but for the numbers in one place."""

    def norm(x):
        y = group_norm(x, 2)
        y[place] += by
        return y

    return norm


def _stretched(x):
    """Group normalisation with the mean of each channel, but twice the deviations from it."""
    y = group_norm(x, 2)
    return 2 * y - y.mean((2, 3), keepdims=True)


# More, on which wrong searches fail: most are like group normalisation in some numbers only
MORE_NORMS = {
    "pairs_in_first_example": _pairs_in(0),
    "pairs_in_last_example": _pairs_in(-1),
    "group_norm_in_two": lambda x: group_norm(x, 2),
    "first_channel_lower": _moved(np.s_[:, 0], -1),
    "last_channel_higher": _moved(np.s_[:, -1], 1),
    "first_position_higher": _moved(np.s_[..., 0, 0], 1),
    "last_position_lower": _moved(np.s_[..., -1, -1], -1),
    "stretched_channels": _stretched,
}


def _use_identities(answer, x=None, norm="") -> Named:
    numbers, groups_like = answer() if callable(answer) else answer  # as the program does
    if x is None:
        numbers = by_name(numbers, NORMS)
        yield from ((f"numbers[{name!r}]", _whole(numbers.get(name))) for name in NORMS)
    else:
        call = f"groups_like({norm}, group_norm, x)"
        yield call, _whole(groups_like({**NORMS, **MORE_NORMS}[norm], group_norm, x))


def _whole(number):
    """NumPy's whole numbers will do."""
    return int(number) if isinstance(number, np.integer) else number


RANDOM = N_("a random x")
YOURS = N_("your predictions")


def _identity_probes(rng):
    six = [{"norm": name, "x": images(rng, 3, 6, 2, 4)} for name in NORMS]
    eight = {"norm": "pairs_of_channels", "x": images(rng, 2, 8, 3, 5)}
    four = {"norm": "pairs_of_channels", "x": images(rng, 2, 4, 3, 8)}
    more = [{"norm": name, "x": images(rng, 3, 6, 2, 4)} for name in MORE_NORMS]
    more += [{"norm": "instance_norm", "x": images(rng, 2, count, 3, 5)} for count in (8, 24)]
    more += [{"norm": "pairs_of_channels", "x": images(rng, 5, 8, 3, 2)}]  # more examples than 4
    x = six[0]["x"] - six[0]["x"].mean((2, 3), keepdims=True)
    done = {"norm": "layer_norm_of_positions", "x": x / x.std((2, 3), keepdims=True)}
    name = N_("channels that are normalised already")
    some = (Probe(RANDOM, given) for given in (*six, eight, four, *more))
    return [Probe(YOURS, {}), *some, Probe(name, done)]


# --- Why the batch does not matter ------------------------------------------------------------


def _each(norm):
    """The norm applied to the examples one by one: what is independent is so to the last digit."""
    return lambda x: np.concatenate([norm(x[i : i + 1]) for i in range(len(x))])


def _batch_norm_inference(x):
    channels = np.arange(x.shape[1])[:, None]
    return (x - (channels - 1.0)) / np.sqrt(channels + 0.5 + 1e-5)


BATCHED = {
    "batch_norm_training": lambda x: _over(x, 0, 2),
    "batch_norm_inference": _batch_norm_inference,
    "layer_norm": _each(lambda x: _over(x, 2)),
    "instance_norm": _each(lambda x: _over(x, 2)),
    "group_norm": _each(lambda x: group_norm(x, 2)),
}


def _shifted(x):
    """The example before each; for the first, itself."""
    return x[[max(i - 1, 0) for i in range(len(x))]]


def _mean_kept(x):
    """Shift the channels by a number of the batch, up and down in turn: each mean stays."""
    return x + x[..., 0].mean() * (-1.0) ** np.arange(x.shape[1])[:, None]


def _next(x):
    """The example after each; for the last, itself."""
    return x[[min(i + 1, len(x) - 1) for i in range(len(x))]]


def _less(channel, other):
    """Subtract from one channel the mean of another over the examples: nothing else depends."""

    def norm(x):
        y = x.copy()
        y[:, channel] -= x[:, other].mean(0)
        return y

    return norm


def _tilted(x):
    """Shift the positions by a number of the batch, up to down: each channel keeps its mean."""
    return x + x[..., 0].mean() * np.linspace(1, -1, x.shape[-1])


# More, on which the usual wrong experiments fail
MORE_BATCHED = {
    "group_norm_of_shifted": lambda x: _each(lambda x: group_norm(x, 2, eps=0))(x + x.mean()),
    "minus_mean_so_far": lambda x: x - np.cumsum(x, 0) / np.arange(1, len(x) + 1)[:, None, None],
    "minus_second": lambda x: x - x[min(1, len(x) - 1)],
    "minus_sum": lambda x: x - x.sum(0),
    "identity": np.copy,
    "zero": np.zeros_like,
    "minus_one_before": lambda x: x - _shifted(x) * (np.arange(len(x)) % 2)[:, None, None],
    "minus_little": lambda x: x - 0.01 * x.mean(0),
    "mean_kept": _mean_kept,
    "minus_next": lambda x: x - _next(x),
    "plus_exponentials": lambda x: x + np.exp(x / 4).sum(0),
    "minus_exponentials": lambda x: x - np.exp(x / 4).sum(0),
    "plus_mean_of_first": lambda x: x + x[..., 0].mean(),
    "first_channel_less_first": _less(0, 0),
    "first_channel_less_last": _less(0, -1),
    "last_channel_less_first": _less(-1, 0),
    "last_channel_less_last": _less(-1, -1),
    "tilted": _tilted,
}


def _minus(i, j):
    """Subtract example j, if it is there, from example i: nothing else depends on anything."""

    def norm(x):
        y = x.copy()
        if max(i, j) < len(x):
            y[i] -= x[j]
        return y

    return norm


# For each example and each other one a norm in which the first alone sees the second alone
SEEING = {f"example_{i}_minus_{j}": _minus(i, j) for i, j in itertools.permutations(range(4), 2)}
FIFTH = {"example_4_minus_0": _minus(4, 0)}  # for a batch that has a fifth


def _use_batch(answer, x=None, norm="") -> Named:
    predictions, independent = answer() if callable(answer) else answer
    if x is None:
        predictions = by_name(predictions, BATCHED)
        yield from ((f"predictions[{name!r}]", predictions.get(name)) for name in BATCHED)
    else:
        norms = {**BATCHED, **MORE_BATCHED, **SEEING, **FIFTH}
        yield f"independent({norm}, x)", independent(norms[norm], x)


def _batch_probes(rng):
    names = *BATCHED, *MORE_BATCHED, *SEEING
    trials = [{"norm": name, "x": images(rng, 4, 6, 3)} for name in names]
    trials += [{"norm": name, "x": images(rng, 5, 6, 3)} for name in FIFTH]
    trials += [{"norm": "batch_norm_training", "x": images(rng, 2, 6, 3)}]  # a pair, kept together
    return [Probe(YOURS, {})] + [Probe(RANDOM, given) for given in trials]


# --- The tasks, and their parts ---------------------------------------------------------------


def _only(*names: str) -> Callable[..., Named]:
    """How a backward pass is used of which these gradients count."""

    def use(answer, **given):
        for name, value in _use_backward(answer, **given):
            if name in (*names, "result"):
                yield name, value

    return use


def _divides(x, num_groups, **_others) -> bool:
    return x.shape[1] % num_groups == 0


def _is_image(x, num_groups, **_others) -> bool:
    return x.ndim == 4 and _divides(x, num_groups)


def _is_more(**given) -> bool:
    return not _is_image(**given)


def _is_prediction(x=None, **_others) -> bool:
    return x is None


def _is_experiment(x=None, **_others) -> bool:
    return x is not None


FORWARD = Task(
    "group_instance_norm/forward",
    by_hand=READY_MADE,
    programs=("group_instance_norm/group_norm",),
    chapter="group_instance_norm#gn-formula",
    reference="normkit.channels:group_norm",
    use=_use_forward,
    probes=_probes("x num_groups gamma beta"),
)
BACKWARD = Task(
    "group_instance_norm/backward",
    by_hand=READY_MADE,
    programs=(
        "group_instance_norm/group_norm_backward",
        "group_instance_norm/group_norm_backward_staged",
    ),
    chapter="group_instance_norm#gn-backward",
    reference="normkit.channels:group_norm_backward",
    use=_use_backward,
    probes=_probes("dy x num_groups gamma"),
    any_dtype=("dx", "dgamma", "dbeta"),
)
IDENTITIES = Task(
    "group_instance_norm/identities",
    programs=("group_instance_norm/group_norm_identities",),
    chapter="group_instance_norm#gn-identities",
    use=_use_identities,
    probes=_identity_probes,
    at_once=len(NORMS) + 1,  # they do not depend on each other
)
BATCH = Task(
    "group_instance_norm/batch",
    programs=("group_instance_norm/group_norm_batch",),
    chapter="group_instance_norm#gn-batch",
    use=_use_batch,
    probes=_batch_probes,
    at_once=len(BATCHED) + 1,
)

add(
    FORWARD,
    part("group_instance_norm/images", FORWARD, _is_image),
    part("group_instance_norm/shapes", FORWARD, _is_more),
    part("group_instance_norm/backward", BACKWARD, _divides),  # the forward pass has refused
    part("group_instance_norm/dx", BACKWARD, _divides, use=_only("dx")),
    part("group_instance_norm/dgamma_dbeta", BACKWARD, _divides, use=_only("dgamma", "dbeta")),
    IDENTITIES,
    part("group_instance_norm/identities_predictions", IDENTITIES, _is_prediction),
    part("group_instance_norm/identities_search", IDENTITIES, _is_experiment, at_once=2),
    BATCH,
    part("group_instance_norm/batch_predictions", BATCH, _is_prediction),
    part("group_instance_norm/batch_experiment", BATCH, _is_experiment, at_once=2),
)
