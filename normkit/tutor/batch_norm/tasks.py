"""The tasks of the assignment on batch normalisation."""

import numpy as np

from normkit.messages import N_
from normkit.tutor.by_hand import READY_MADE
from normkit.tutor.probes import INTEGERS, WORKED, probes
from normkit.tutor.states import FLOATS, STARTS, backward, called, held, new, shapes, starts
from normkit.tutor.tasks import Named, Probe, Task, add, part, parts

# --- Inputs -----------------------------------------------------------------------------------

COLUMNS = [[1, 2], [3, 6], [5, 4], [7, 8]]
IMAGES = [[[[1, 3]], [[2, 6]]], [[[5, 7]], [[4, 8]]]]  # the same channels, in two images of 1 × 2
DY = [[1, 0], [0, 0], [0, 0], [0, 1]]
RUNNING = "running_mean", "running_var"
MOVED = [0.4, 0.5], [1.5667, 1.5667]  # from 0 and 1, by COLUMNS with momentum 0.1
CONSTANT = N_("a channel whose values are all equal")
FAR = N_("float32 numbers around 10 000")
WIDE = N_("images as wide as they have channels")


def channels(rng, *shape):
    """Random numbers: each channel, axis 1, and each example has its own mean and scale."""
    x = rng.normal(size=shape)
    for axis in (0, 1):
        own = [size if i == axis else 1 for i, size in enumerate(shape)]
        x = x * rng.uniform(0.5, 2, own) + rng.normal(scale=2, size=own)
    return x


def _probe(rng, name, x, eps=1e-5, momentum=0.1, training=True, **options) -> Probe:
    """Random numbers for all that batch normalisation takes beside x."""
    dtype, count = x.dtype if x.dtype.kind == "f" else float, x.shape[1]
    arrays = {
        "gamma": rng.uniform(0.5, 2, count),
        "beta": rng.normal(size=count),
        "running_mean": rng.normal(size=count),
        "running_var": rng.uniform(0.5, 4, count),
        "dy": rng.normal(size=x.shape),
    }
    arrays = {name: array.astype(dtype) for name, array in arrays.items()}
    others = {"eps": eps, "momentum": momentum, "training": training}
    return Probe(name, {"x": x, **arrays, **others}, **options)


def _channel_probes(rng) -> list[Probe]:
    """All sizes of an array differ, save where one axis shall pass for another."""
    constant = channels(rng, 4, 5)
    constant[:, 1] = 3.0
    single = channels(rng, 5, 6).astype(np.float32)
    far = (rng.normal(scale=2, size=(8, 3)) + 10_000).astype(np.float32)
    one = _probe
    return [
        one(rng, N_("a large eps, 0.1"), channels(rng, 4, 3), eps=0.1, momentum=0.3),
        one(rng, N_("a batch of sequences"), channels(rng, 2, 5, 3), momentum=0.5),
        one(rng, N_("a batch of images"), channels(rng, 3, 2, 4, 5), momentum=0.25),
        one(rng, WIDE, channels(rng, 2, 4, 3, 4), eps=0.01, momentum=0.25),
        one(rng, CONSTANT, constant),
        one(rng, N_("a transposed array"), channels(rng, 6, 4).T),
        one(rng, N_("an array of dtype float32"), single, tolerance=1e-4),
        one(rng, FAR, far, momentum=0.3, tolerance=0.02, rough=True),
        one(rng, INTEGERS, rng.integers(-9, 10, size=(7, 3))),
    ]


def _still(rng, **options) -> Probe:
    """A channel that never varied: eps alone keeps the division finite."""
    probe = _probe(rng, N_("a running variance of 0"), channels(rng, 2, 3), **options)
    probe.inputs["running_var"][1] = 0
    return probe


def _inference_probes(rng) -> list[Probe]:
    single = _probe(rng, N_("a single row"), channels(rng, 1, 3))
    return [single, _still(rng), *_channel_probes(rng)]


def _two_modes(rng) -> list[Probe]:
    """At inference, and in training."""
    worked = {"dy": DY, "x": COLUMNS, "gamma": [1, 2], **dict(zip(RUNNING, MOVED, strict=True))}
    worked = {name: np.array(values, float) for name, values in worked.items()}
    fixed = [
        Probe(N_("a worked example at inference"), {**worked, "training": False, "eps": 1e-5}),
        _probe(rng, N_("rows at inference"), channels(rng, 4, 3), 0.1, training=False),
        _probe(rng, N_("images at inference"), channels(rng, 3, 2, 4, 5), training=False),
        _probe(rng, N_("sequences at inference"), channels(rng, 2, 3, 3), training=False),
        _still(rng, training=False),
    ]
    return fixed + _channel_probes(rng)


def _layer_probes(rng) -> list[Probe]:
    """Few, since a layer is slow: as wide as they have channels, images show most."""
    small, average = channels(rng, 6, 3) * 1e-3, N_("momentum=None, the plain average")
    chosen = N_("a batch of sequences"), WIDE, FAR
    others = [probe for probe in _channel_probes(rng) if probe.name in chosen]
    return [_probe(rng, average, small, eps=1e-3, momentum=None), *others]


def _fold_probes(rng) -> list[Probe]:
    names = "weight", "bias", "gamma", "beta", *RUNNING, "eps"

    def drawn(outputs, inputs):
        bias, beta, mean = rng.normal(scale=2, size=(3, outputs))
        gamma, var = rng.uniform(0.5, 2, outputs), rng.uniform(0.5, 4, outputs)
        return rng.normal(size=(outputs, inputs)), bias, gamma, beta, mean, var, 1e-5

    def given(name, weight, bias, *others):
        values = [weight, bias, *others]
        values = [np.array(v, float) if isinstance(v, list) else v for v in values]
        return Probe(name, dict(zip(names, values, strict=True)))

    tall, wide, square, small = drawn(5, 3), drawn(2, 4), drawn(3, 3), drawn(4, 2)
    *others, var, _ = drawn(3, 2)
    return [
        given(WORKED, [[2]], [1], [2], [-1], [3], [4], 0.0),
        given(WORKED, [[1, 2, 3], [0, 1, 4]], [5, 1], [4, 9], [1, 2], [3, -1], [4, 9], 0.0),
        given(N_("a large eps, 0.1"), *wide[:-1], 0.1),
        given(N_("more outputs than inputs"), *tall),
        given(N_("a linear layer without a bias"), small[0], None, *small[2:]),
        given(N_("a square weight"), *square),
        given(N_("a transposed weight"), square[0].T, *square[1:]),
        given(N_("very small numbers"), *others, var * 1e-4, 1e-4),
    ]


# --- How an answer is used --------------------------------------------------------------------

GIVEN = N_("running_mean as the caller holds it")
NEW = N_("y of a new layer in evaluation (weight 1, bias 0)")
TRAINED = N_("y in training")
EVALUATED = N_("y of one example in evaluation")
SECOND = N_("y of a second batch in training")
AGAIN = N_("y in evaluation after a second batch")
UNTOLD = N_("y of a new layer that nobody has told its mode")


def _use_forward(answer, **given) -> Named:
    yield "y", answer(*given.values())


def _use_running(answer, **given) -> Named:
    yield from parts(answer(*given.values()), "y", *RUNNING)
    yield GIVEN, given["running_mean"]


def _use_statistics(answer, **given) -> Named:
    """All that `_use_running` yields but y, which a mistake in the forward pass spoils."""
    yield from ((name, value) for name, value in _use_running(answer, **given) if name != "y")


def _use_backward(answer, **given) -> Named:
    yield from parts(answer(*given.values()), "dx", "dgamma", "dbeta")


def _use_fold(answer, **given) -> Named:
    yield from parts(answer(*given.values()), "weight", "bias")


def _asked(eps, momentum) -> dict[str, float | None]:
    """What is asked of a new layer: nothing where its defaults will do."""
    defaults = eps == 1e-5 and momentum == 0.1
    return {} if defaults else {"eps": eps, "momentum": momentum}


def _use_layer(answer, dy, x, gamma, beta, momentum, eps) -> Named:
    """Two batches, with an evaluation before, between and after."""
    import torch

    x, dy, weight, bias = map(torch.from_numpy, (x, dy, gamma, beta))
    layer = new(answer, x.shape[1], **_asked(eps, momentum))
    yield "state_dict()", shapes(layer.state_dict().items())
    counter = "num_batches_tracked"
    yield STARTS, starts((k, v) for k, v in layer.state_dict().items() if k != counter)
    yield "named_parameters()", shapes(layer.named_parameters())
    layer = layer.to(x.dtype).eval()
    yield NEW, layer(x)
    layer.load_state_dict(layer.state_dict() | {"weight": weight, "bias": bias})
    y = layer.train()(x.requires_grad_())
    yield TRAINED, y
    yield "running_mean", layer.running_mean
    yield "running_var", layer.running_var
    yield "running_mean.grad_fn is None", layer.running_mean.grad_fn is None
    yield "running_var.grad_fn is None", layer.running_var.grad_fn is None
    backward(y, dy)
    yield from {"dx": x.grad, "dweight": layer.weight.grad, "dbias": layer.bias.grad}.items()
    yield EVALUATED, layer.eval()(x[:1])
    yield SECOND, layer.train()(dy)
    yield AGAIN, layer.eval()(x)
    yield "num_batches_tracked", layer.num_batches_tracked


def _use_plain(answer, dy, x, gamma, beta, momentum, eps) -> Named:
    """The same without PyTorch: arrays are its state, `training` its mode; no gradients."""
    layer = answer(x.shape[1], **_asked(eps, momentum))
    state = "weight", "bias", *RUNNING
    yield "vars(layer)", shapes(held(layer, state))
    yield STARTS, starts(held(layer, state), FLOATS)
    layer.training = False
    yield NEW, called(layer, x)
    layer.weight, layer.bias, layer.training = gamma, beta, True
    yield TRAINED, called(layer, x)
    yield from held(layer, RUNNING)
    layer.training = False
    yield EVALUATED, called(layer, x[:1])
    layer.training = True
    yield SECOND, called(layer, dy)
    layer.training = False
    yield AGAIN, called(layer, x)
    yield "num_batches_tracked", layer.num_batches_tracked
    yield UNTOLD, called(answer(x.shape[1], **_asked(eps, momentum)), x)


# --- The tasks --------------------------------------------------------------------------------

add(
    Task(
        "batch_norm/forward",
        by_hand=READY_MADE,
        programs=("batch_norm/batch_norm",),
        chapter="batch_norm#bn-formula",
        use=_use_forward,
        probes=probes(
            "x gamma beta",
            (COLUMNS, [1, 1], [0, 0]),
            (COLUMNS, [1, 2], [0, 1]),
            (IMAGES, [1, 2], [0, 1]),
            random=_channel_probes,
        ),
        pairs=1000,  # quick ones
    ),
    Task(
        "batch_norm/running",
        by_hand=READY_MADE,
        programs=("batch_norm/batch_norm_training",),
        chapter="batch_norm#bn-running",
        any_dtype=("y", *RUNNING),
        use=_use_running,
        probes=probes(
            "x gamma beta running_mean running_var momentum",
            (COLUMNS, [1, 1], [0, 0], [0, 0], [1, 1], 0.1),
            (IMAGES, [1, 2], [0, 1], [1, 3], [4, 2], 0.5),
            random=_channel_probes,
        ),
    ),
    Task(
        "batch_norm/inference",
        by_hand=READY_MADE,
        programs=("batch_norm/batch_norm_inference",),
        chapter="batch_norm#bn-inference",
        any_dtype=("y",),
        use=_use_forward,
        probes=probes(
            "x gamma beta running_mean running_var",
            ([[4, 5]], [1, 1], [0, 0], *MOVED),
            (COLUMNS, [1, 2], [0, 1], [1, 3], [4, 0.25]),
            random=_inference_probes,
            without=(CONSTANT, FAR),
        ),
    ),
    Task(
        "batch_norm/layer",
        by_hand=READY_MADE,
        programs=("batch_norm/BatchNorm",),
        chapter="batch_norm#bn-code",
        use=_use_layer,
        probes=probes(
            "dy x gamma beta momentum",
            (DY, COLUMNS, [1, 2], [0, 1], 0.1),
            random=_layer_probes,
        ),
        plain="batch_norm/layer_without_torch",
    ),
    Task(
        "batch_norm/backward",
        by_hand=READY_MADE,
        programs=("batch_norm/batch_norm_backward", "batch_norm/batch_norm_backward_staged"),
        chapter="batch_norm#bn-backward",
        any_dtype=("dx", "dgamma", "dbeta"),
        use=_use_backward,
        probes=probes(
            "dy x gamma running_mean running_var training",
            (DY, COLUMNS, [1, 1], *MOVED, True),
            ([[1], [2]], [[1], [3]], [1], [0], [1], True),
            random=_two_modes,
        ),
    ),
    Task(
        "batch_norm/fold",
        by_hand=READY_MADE,
        programs=("batch_norm/fold_batch_norm",),
        chapter="batch_norm#bn-folding",
        use=_use_fold,
        probes=_fold_probes,
    ),
)


# --- Parts of tasks, for points of their own --------------------------------------------------


def _is_rows(x, **_others) -> bool:
    return x.ndim == 2


def _is_inference(training, **_others) -> bool:
    return not training


add(
    # axes that rows do not have raise always: the exception says more than any mistake
    part("batch_norm/rows", "batch_norm/forward", _is_rows, without=("images_only",)),
    part(
        *("batch_norm/layer_without_torch", "batch_norm/layer"),
        use=_use_plain,
        programs=("batch_norm/PlainBatchNorm",),
        any_dtype=(NEW, TRAINED, EVALUATED, SECOND, AGAIN, UNTOLD, *RUNNING),
        plain="",
    ),
    part("batch_norm/statistics", "batch_norm/running", use=_use_statistics),
    part("batch_norm/backward_inference", "batch_norm/backward", _is_inference),
)
