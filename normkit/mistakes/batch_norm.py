"""Batch normalisation: training, inference, the layer, the gradient, folding; and mistakes.

The steps of any normalisation with a mean and a variance, for each channel, axis 1. γ and β
come as `weight` and `bias`, of shape (C,); as `gamma` and `beta` they line up with x.
"""

import math
from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from normkit.channels import _spread
from normkit.messages import N_
from normkit.mistakes.chains import ALGORITHMS, Algorithm, Steps, chain, of, run
from normkit.mistakes.normalise import FORWARD, GRADIENTS

# --- In training and in inference -------------------------------------------------------------


@chain
class AXIS:
    def axis(x):
        return (0, *range(2, x.ndim))


MOMENTS = AXIS | {name: FORWARD[name] for name in ("mean", "var")}
NORMALISE = {name: FORWARD[name] for name in ("root", "xhat", "scaled", "y")}


@chain
class PARAMETERS:
    def gamma(xp, weight, x):
        return _spread(xp, weight, x)

    def beta(xp, bias, x):
        return _spread(xp, bias, x)


@chain
class UPDATE:
    def batch_mean(xp, x, axis):
        return xp.mean(x, axis=axis)

    def batch_var(xp, x, axis):
        return xp.var(x, axis=axis, correction=1)

    def running_mean(running_mean, batch_mean, momentum):
        return (1 - momentum) * running_mean + momentum * batch_mean

    def running_var(running_var, batch_var, momentum):
        return (1 - momentum) * running_var + momentum * batch_var


@chain
class TRAINING:
    def used_mean(mean):
        return mean

    def used_var(var):
        return var


@chain
class INFERENCE:
    def fixed_mean(xp, running_mean, x):
        return _spread(xp, running_mean, x)

    def fixed_var(xp, running_var, x):
        return _spread(xp, running_var, x)


@chain
class RETURNED:
    def returned(y, running_mean, running_var):
        return y, running_mean, running_var


def _go(steps: Steps, *phases: Steps, **values: Any) -> dict[str, Any]:
    """The values, and what the steps of these phases make of them."""
    for phase in phases:
        values = run({name: steps[name] for name in phase}, **values)
    return values


def _normalised(steps: Steps, kind: str, **done: Any) -> dict[str, Any]:
    """Normalise with the statistics of a kind: `used` in training, or `fixed`."""
    done |= {"mean": done[f"{kind}_mean"], "var": done[f"{kind}_var"]}
    return _go(steps, NORMALISE, **done)


def _forward(steps: Steps) -> Callable:
    def batch_norm(x, gamma, beta, eps=1e-5):
        return run(steps, xp=array_namespace(x), x=x, weight=gamma, bias=beta, eps=eps)["y"]

    return batch_norm


def _running(steps: Steps) -> Callable:
    def batch_norm(x, gamma, beta, running_mean, running_var, momentum=0.1, eps=1e-5):
        given = {"xp": array_namespace(x), "x": x, "weight": gamma, "bias": beta, "eps": eps}
        given |= {"running_mean": running_mean, "running_var": running_var, "momentum": momentum}
        given |= {"old_mean": running_mean, "old_var": running_var}
        done = _go(steps, PARAMETERS, MOMENTS, UPDATE, TRAINING, **given)
        return _go(steps, RETURNED, **_normalised(steps, "used", **done))["returned"]

    return batch_norm


def _inference(steps: Steps) -> Callable:
    def batch_norm_inference(x, gamma, beta, running_mean, running_var, eps=1e-5):
        given = {"xp": array_namespace(x), "x": x, "weight": gamma, "bias": beta, "eps": eps}
        given |= {"running_mean": running_mean, "running_var": running_var}
        return _normalised(steps, "fixed", **_go(steps, PARAMETERS, INFERENCE, **given))["y"]

    return batch_norm_inference


# --- The layer --------------------------------------------------------------------------------


@chain
class MADE:
    def first_mean(torch, features):
        return torch.zeros(features)

    def first_var(torch, features):
        return torch.ones(features)

    def register_parameters(torch, layer, features):
        layer.weight = torch.nn.Parameter(torch.ones(features))
        layer.bias = torch.nn.Parameter(torch.zeros(features))

    def register_statistics(layer, first_mean, first_var):
        layer.register_buffer("running_mean", first_mean)
        layer.register_buffer("running_var", first_var)

    def register_counter(torch, layer):
        layer.register_buffer("num_batches_tracked", torch.tensor(0))


@chain
class READ:
    def training(layer):
        return layer.training

    def learning(training):
        return training

    def graph():
        return False

    def parameters(layer):
        return layer.weight, layer.bias

    def statistics(layer):
        return layer.running_mean, layer.running_var


@chain
class COUNT:
    def count(layer):
        layer.num_batches_tracked += 1

    def momentum(layer, count):
        return 1 / layer.num_batches_tracked if layer.momentum is None else layer.momentum


@chain
class STORE:
    def store(layer, running_mean, running_var):
        layer.running_mean, layer.running_var = running_mean, running_var


LEARN = COUNT | UPDATE | STORE


def _layer(steps: Steps) -> type:
    import torch

    class BatchNorm(torch.nn.Module):
        def __init__(self, features, eps=1e-5, momentum=0.1):
            super().__init__()
            self.eps, self.momentum = eps, momentum
            _go(steps, MADE, torch=torch, layer=self, features=features)

        def forward(self, x):
            done = _go(steps, READ, xp=array_namespace(x), layer=self, x=x, eps=self.eps)
            done["weight"], done["bias"] = done["parameters"]
            done["running_mean"], done["running_var"] = done["statistics"]
            done["old_mean"], done["old_var"] = done["statistics"]
            if done["training"] or done["learning"]:
                done = _go(steps, MOMENTS, **done)
            if done["learning"]:
                with torch.set_grad_enabled(done["graph"]):
                    done = _go(steps, LEARN, **done)
            kind, phase = ("used", TRAINING) if done["training"] else ("fixed", INFERENCE)
            return _normalised(steps, kind, **_go(steps, PARAMETERS, phase, **done))["y"]

    return BatchNorm


# --- The backward pass, and folding -----------------------------------------------------------


@chain
class MODES:
    def batch(training):
        return training

    def constant(training):
        return not training


@chain
class CONSTANT:
    def mean_term():
        return 0

    def xhat_term():
        return 0


@chain
class TOKENS:
    def tokens(axis):
        return axis


SUMS = {name: FORWARD[name] for name in ("root", "xhat")} | GRADIENTS | TOKENS
GAMMA = {"gamma": PARAMETERS["gamma"]}


def _backward(steps: Steps) -> Callable:
    def batch_norm_backward(dy, x, gamma, running_mean, running_var, training, eps=1e-5):
        given = {"xp": array_namespace(x), "dy": dy, "x": x, "weight": gamma, "eps": eps}
        given |= {"running_mean": running_mean, "running_var": running_var, "training": training}
        done = _go(steps, MODES, GAMMA, AXIS, **given)
        if done["batch"]:
            done = _go(steps, MOMENTS, **done)
        else:
            done = _go(steps, INFERENCE, **done)
            done |= {"mean": done["fixed_mean"], "var": done["fixed_var"]}
        done = _go(steps | CONSTANT if done["constant"] else steps, SUMS, **done)
        return done["dx"], done["dgamma"], done["dbeta"]

    return batch_norm_backward


@chain
class FOLD:
    def a(xp, gamma, running_var, eps):
        return gamma / xp.sqrt(running_var + eps)

    def c(beta, a, running_mean):
        return beta - a * running_mean

    def new_weight(a, weight):
        return a[:, None] * weight

    def old_bias(bias):
        return 0 if bias is None else bias

    def new_bias(a, old_bias, c):
        return a * old_bias + c


def _fold(steps: Steps) -> Callable:
    def fold_batch_norm(weight, bias, gamma, beta, running_mean, running_var, eps=1e-5):
        given = {"weight": weight, "bias": bias, "gamma": gamma, "beta": beta, "eps": eps}
        given |= {"running_mean": running_mean, "running_var": running_var}
        done = run(steps, xp=array_namespace(weight), **given)
        return done["new_weight"], done["new_bias"]

    return fold_batch_norm


IN_TRAINING = PARAMETERS | MOMENTS | UPDATE | TRAINING | NORMALISE
LAYER = MADE | READ | COUNT | IN_TRAINING | INFERENCE | STORE

ALGORITHMS |= {
    name: Algorithm(steps, assemble, f"batch_norm#bn-{place}", "bn", tuple(contains))
    for name, steps, assemble, place, *contains in (
        ("batch_norm_forward", PARAMETERS | MOMENTS | NORMALISE, _forward, "formula", "normalise"),
        ("batch_norm_running", IN_TRAINING | RETURNED, _running, "running", "batch_norm_forward"),
        (
            *("batch_norm_inference", PARAMETERS | INFERENCE | NORMALISE, _inference),
            *("inference", "batch_norm_forward"),
        ),
        ("BatchNorm", LAYER, _layer, "code", "batch_norm_running", "batch_norm_inference"),
        (
            *("batch_norm_backward", MODES | GAMMA | MOMENTS | INFERENCE | SUMS, _backward),
            *("backward", "batch_norm_inference", "normalise_backward"),
        ),
        ("fold_batch_norm", FOLD, _fold, "folding"),
    )
}


# --- Which numbers share a mean and a variance ------------------------------------------------


@of("batch_norm_forward")
class first_axis_only:
    message = N_(
        "The mean and the variance run over axis 0 alone. For (N, C) that is all there is, but in "
        "images (N, C, H, W) every pixel then has statistics of its own. A channel has one mean "
        "and one variance: average over every axis but 1."
    )
    met = N_("Two teaching documents, one of which says that the input may be an image.")

    def axis():
        return 0


@of("batch_norm_forward")
class images_only:
    message = N_(
        "The axes (0, 2, 3) are fixed: right for images (N, C, H, W), but (N, C) has no axes 2 "
        "and 3, and (N, C, L) has no axis 3. Compute them from x: (0, *range(2, x.ndim))."
    )

    def axis():
        return (0, 2, 3)


@of("batch_norm_forward")
class sequences_forgotten:
    message = N_(
        "The axes are 0 for rows, (N, C), and otherwise (0, 2, 3), those of images. Sequences, (N, "
        "C, L), have no axis 3. One line serves all, every axis but 1: (0, *range(2, x.ndim))."
    )

    def axis(x):
        return 0 if x.ndim == 2 else (0, 2, 3)


@of("batch_norm_forward")
class instance_norm_instead:
    message = N_(
        "The mean and the variance run over the positions only, for each example by itself: that "
        "is instance normalisation. On (N, C) nothing is left to average, and y is beta whatever "
        "x is. The examples of a batch share statistics: average over axis 0 too."
    )

    def axis(x):
        return tuple(range(2, x.ndim))


@of("batch_norm_forward")
class layer_norm_instead:
    message = N_(
        "The mean and the variance are those of one example, over its channels and positions: "
        "that is layer normalisation. Batch normalisation has one mean and one variance for each "
        "channel, over all examples and positions."
    )

    def axis(x):
        return tuple(range(1, x.ndim))


@of("batch_norm_forward")
class over_the_channels:
    message = N_(
        "The mean and the variance run over axis 1, the channels. That axis is the one to keep: "
        "each channel has its own statistics, over all the other axes, (0, *range(2, x.ndim))."
    )

    def axis():
        return 1


@of("batch_norm_forward")
class over_the_last_axis:
    message = N_(
        "The mean and the variance run over the last axis, as in layer normalisation. In (N, C) "
        "that mixes the channels of an example; in images it is one row of pixels. Average over "
        "every axis but 1, the channels."
    )

    def axis():
        return -1


@of("batch_norm_forward")
class one_mean_for_all:
    message = N_(
        "One mean and one variance serve the whole array. Each channel needs its own: otherwise "
        "the channel with the largest numbers decides for all, and the channels do not come out "
        "with mean 0 and variance 1. Keep axis 1, average over the others."
    )

    def axis(x):
        return tuple(range(x.ndim))


@of("batch_norm_forward")
class statistics_on_last_axis:
    message = N_(
        "The mean and the variance have shape (C,), and are lined up with the last axis of x. For "
        "(N, C) those are the channels; in images it is the width, which fails, or, with C "
        "columns, silently takes the statistics of other channels. Pass keepdims=True."
    )

    def mean(xp, x, axis):
        return xp.mean(x, axis=axis)

    def var(xp, x, axis):
        return xp.var(x, axis=axis)


@of("batch_norm_forward")
class gamma_on_last_axis:
    message = N_(
        "gamma and beta, of shape (C,), are lined up with the last axis of x. For (N, C) those "
        "are the channels; in images it is the width, which fails, or, with C columns, is "
        "silently wrong. Give them an axis of length 1 for each axis of positions: (C, 1, 1)."
    )

    def gamma(weight):
        return weight

    def beta(bias):
        return bias


@of("batch_norm_forward")
class channels_last:
    message = N_(
        "The channels are looked for on the last axis, (N, H, W, C), where Keras and Flax have "
        "them. Here, as in PyTorch, they are axis 1: (N, C, H, W). Average over every axis but 1, "
        "and give gamma and beta the shape (C, 1, 1)."
    )

    def axis(x):
        return tuple(range(x.ndim - 1))

    def gamma(weight):
        return weight

    def beta(bias):
        return bias


@of("batch_norm_forward")
class reshaped_to_rows:
    message = N_(
        "x.reshape(-1, C) does not bring the channels of (N, C, H, W) to the end: it cuts the "
        "numbers into rows in the order of memory, and mixes the channels. Move the axis first, "
        "np.moveaxis(x, 1, -1), or average over (0, 2, 3) without reshaping."
    )

    def axis():
        return 0

    def xhat(xp, x, eps):
        rows = xp.reshape(x, (-1, x.shape[1]))
        centred = rows - xp.mean(rows, axis=0)
        return centred / xp.sqrt(xp.mean(centred**2, axis=0) + eps)

    def scaled(weight, xhat):
        return weight * xhat

    def y(xp, scaled, bias, x):
        return xp.reshape(scaled + bias, x.shape)


# --- The running statistics -------------------------------------------------------------------


@of("batch_norm_running")
class running_in_training:
    message = N_(
        "In training, x is normalised with the running statistics, after their update. They are "
        "for inference: training uses the mean and the variance of the batch itself, and only "
        "writes the running ones. Then each channel has mean 0 and variance 1."
    )
    met = N_("Two teaching documents say that training normalises with the moving average.")

    def used_mean(xp, running_mean, x):
        return _spread(xp, running_mean, x)

    def used_var(xp, running_var, x):
        return _spread(xp, running_var, x)


@of("batch_norm_running")
class old_running_in_training:
    message = N_(
        "In training, x is normalised with the running statistics of the batches before. They "
        "are for inference: at first 0 and 1, they would not normalise at all. Training uses "
        "the mean and the variance of the batch itself."
    )

    def used_mean(xp, old_mean, x):
        return _spread(xp, old_mean, x)

    def used_var(xp, old_var, x):
        return _spread(xp, old_var, x)


@of("batch_norm_running")
class never_updated:
    message = N_(
        "The running statistics stay what they were. Each batch in training moves them: (1 - "
        "momentum) * running + momentum * batch. Otherwise inference normalises with 0 and 1, "
        "which is not at all."
    )

    def running_mean(running_mean):
        return running_mean

    def running_var(running_var):
        return running_var


@of("batch_norm_running")
class last_batch_only:
    message = N_(
        "The statistics of the batch replace the running ones: only the last batch counts, "
        "however odd it is. They should move a little: (1 - momentum) * running + momentum * "
        "batch."
    )

    def running_mean(batch_mean):
        return batch_mean

    def running_var(batch_var):
        return batch_var


@of("batch_norm_running")
class swapped_momentum:
    message = N_(
        "momentum is given to the old value and 1 - momentum to the batch, as in Keras and Flax. "
        "In PyTorch, and here, momentum is the share of the batch, usually 0.1. In the worked "
        "example running_var becomes 6.1 instead of 1.5667."
    )
    met = N_(
        "A program in JAX has the momentum 0.9, the share of the old value. Copied into "
        "PyTorch, it becomes the share of the new batch."
    )

    def running_mean(running_mean, batch_mean, momentum):
        return momentum * running_mean + (1 - momentum) * batch_mean

    def running_var(running_var, batch_var, momentum):
        return momentum * running_var + (1 - momentum) * batch_var


@of("batch_norm_running")
class fixed_momentum:
    message = N_(
        "The argument momentum has no effect: 0.1 is used whatever the caller asks for. Short "
        "trainings need a larger one, and 1/k at the k-th batch makes a plain average. Use "
        "momentum itself."
    )

    def running_mean(running_mean, batch_mean):
        return 0.9 * running_mean + 0.1 * batch_mean

    def running_var(running_var, batch_var):
        return 0.9 * running_var + 0.1 * batch_var


@of("batch_norm_running")
class updated_twice:
    message = N_(
        "The running statistics are moved twice for one batch, so its share is 0.19 where "
        "momentum says 0.1. Look for a second update, applied with the same batch to the values "
        "already updated."
    )

    def running_mean(running_mean, batch_mean, momentum):
        once = (1 - momentum) * running_mean + momentum * batch_mean
        return (1 - momentum) * once + momentum * batch_mean

    def running_var(running_var, batch_var, momentum):
        once = (1 - momentum) * running_var + momentum * batch_var
        return (1 - momentum) * once + momentum * batch_var


@of("batch_norm_running")
class biased_running_var:
    message = N_(
        "running_var takes in the biased variance, which divides by the number of values, m. It "
        "must estimate the variance of all data: divide by m - 1. Only the output uses the biased "
        "one. In the worked example it is 1.4 instead of 1.5667. (Keras keeps the biased.)"
    )
    met = N_(
        "A class written by hand, whose comment claims the opposite. In Keras and Flax it is "
        "the rule."
    )

    def batch_var(xp, x, axis):
        return xp.var(x, axis=axis)


@of("batch_norm_running")
class variances_swapped:
    message = N_(
        "The two variances are swapped: the output is normalised with the unbiased one, and "
        "running_var takes in the biased one. The output describes just this batch: divide by "
        "m. running_var estimates the variance of all data: divide by m - 1."
    )

    def var(xp, x, axis):
        return xp.var(x, axis=axis, correction=1, keepdims=True)

    def batch_var(xp, x, axis):
        return xp.var(x, axis=axis)


@of("batch_norm_running")
class running_std:
    message = N_(
        "running_var averages standard deviations. Average variances, and take the root at the "
        "end. Standard deviations of small batches are too small on average: for batches of two "
        "from data with σ = 1 they average 0.80, while the variances average 1."
    )
    met = N_("Two teaching documents average the standard deviation.")

    def batch_var(xp, x, axis):
        return xp.std(x, axis=axis, correction=1)


@of("batch_norm_running")
class biased_running_std:
    message = N_(
        "running_var averages standard deviations, with the biased variance under the root. "
        "Average variances, with division by m - 1, and take the root where they are used: in the "
        "worked example the batch must count 6.667, not 2.236."
    )

    def batch_var(xp, x, axis):
        return xp.std(x, axis=axis)


@of("batch_norm_running")
class positions_not_counted:
    message = N_(
        "The unbiased variance is corrected by N / (N - 1), where N is the number of examples. A "
        "channel has m = N·H·W values, those of all positions, and the correction is m / (m - 1). "
        "For two images of 2 × 2 pixels, the factor is 8/7; 2 is far too large."
    )

    def batch_var(xp, x, axis):
        return xp.var(x, axis=axis) * x.shape[0] / (x.shape[0] - 1)


@of("batch_norm_running")
class running_in_place:
    message = N_(
        "running_mean and running_var are changed in place, with [...] =, += or *=. They are "
        "arrays of the caller, who may still need them as they were: compute new arrays and "
        "return them. (A layer owns its buffers, and may change them.)"
    )

    def returned(y, old_mean, old_var, running_mean, running_var):
        old_mean[...], old_var[...] = running_mean, running_var
        return y, old_mean, old_var


# --- Inference --------------------------------------------------------------------------------


@of("batch_norm_inference")
class running_on_last_axis:
    message = N_(
        "running_mean and running_var, of shape (C,), are lined up with the last axis of x. For "
        "(N, C) those are the channels; in images it is the width, which fails, or, with C "
        "columns, is silently wrong. Reshape them to (C, 1, 1), as gamma and beta."
    )

    def fixed_mean(running_mean):
        return running_mean

    def fixed_var(running_var):
        return running_var


@of("batch_norm_inference")
class shaped_for_images:
    message = N_(
        "gamma, beta and the running statistics are always reshaped to (1, C, 1, 1), which lines "
        "them up with images only. With (N, C), broadcasting makes an output of shape (1, C, N, "
        "C). After C, take one 1 for each axis of positions: (C, *[1] * (x.ndim - 2))."
    )

    def gamma(xp, weight):
        return xp.reshape(weight, (1, -1, 1, 1))

    def beta(xp, bias):
        return xp.reshape(bias, (1, -1, 1, 1))

    def fixed_mean(xp, running_mean):
        return xp.reshape(running_mean, (1, -1, 1, 1))

    def fixed_var(xp, running_var):
        return xp.reshape(running_var, (1, -1, 1, 1))


@of("batch_norm_inference")
class batch_in_inference:
    message = N_(
        "In inference, x is normalised with the statistics of its own batch. The output of an "
        "example then depends on its neighbours, and a single row comes out as beta whatever it "
        "holds. Use running_mean and running_var."
    )

    def fixed_mean(xp, x):
        return xp.mean(x, axis=(0, *range(2, x.ndim)), keepdims=True)

    def fixed_var(xp, x):
        return xp.var(x, axis=(0, *range(2, x.ndim)), keepdims=True)


@of("batch_norm_inference")
class batch_mean_in_inference:
    message = N_(
        "In inference, the mean of the batch itself is subtracted; only the variance is the "
        "running one. The output of an example then depends on its neighbours. Subtract "
        "running_mean."
    )

    def fixed_mean(xp, x):
        return xp.mean(x, axis=(0, *range(2, x.ndim)), keepdims=True)


@of("batch_norm_inference")
class batch_var_in_inference:
    message = N_(
        "In inference, the variance is that of the batch itself; only the mean is the running "
        "one. The output of an example then depends on its neighbours. Divide by "
        "sqrt(running_var + eps)."
    )

    def fixed_var(xp, x):
        return xp.var(x, axis=(0, *range(2, x.ndim)), keepdims=True)


@of("batch_norm_inference")
class corrected_again:
    message = N_(
        "In inference, running_var is multiplied by m / (m - 1). It is made of unbiased variances "
        "already, and m, the size of this batch, has nothing to do with them: a batch of one row "
        "would divide by 0. Use running_var as it is."
    )

    def fixed_var(xp, running_var, x):
        m = math.prod(x.shape) // x.shape[1]
        return _spread(xp, running_var, x) * m / (m - 1)


# --- The layer --------------------------------------------------------------------------------


@of("BatchNorm")
class starts_at_one_and_zero:
    message = N_(
        "running_mean starts at 1 and running_var at 0: the other way round. Before any "
        "training, evaluation subtracts 1 and divides by √eps, so it blows everything up 316 "
        "times. They start at mean 0, variance 1, which change nothing."
    )
    met = N_("A class written by hand in teaching notes.")

    def first_mean(torch, features):
        return torch.ones(features)

    def first_var(torch, features):
        return torch.zeros(features)


@of("BatchNorm")
class running_var_starts_at_zero:
    message = N_(
        "running_var starts at 0. Before any training, evaluation then divides by √eps, which "
        "blows everything up 316 times, and after some batches it is still too small. A "
        "variance starts at 1."
    )

    def first_var(torch, features):
        return torch.zeros(features)


@of("BatchNorm")
class statistics_not_registered:
    message = N_(
        "running_mean and running_var are plain tensors. state_dict() does not hold them, so "
        "a saved model loses what evaluation needs, and .to(device) leaves them behind. They "
        "are not learnt by gradients but belong to the layer: register_buffer."
    )
    met = N_("Teaching notes, with the comment that no buffer is needed.")

    def register_statistics(layer, first_mean, first_var):
        layer.running_mean, layer.running_var = first_mean, first_var


@of("BatchNorm")
class running_mean_not_registered:
    message = N_(
        "running_var is registered, but running_mean is a plain tensor. state_dict() does not hold "
        "it, so a saved model loses it, and .to(device) leaves it behind. It belongs to the layer "
        "as running_var does: register_buffer."
    )

    def register_statistics(layer, first_mean, first_var):
        layer.running_mean = first_mean
        layer.register_buffer("running_var", first_var)


@of("BatchNorm")
class statistics_as_parameters:
    message = N_(
        "running_mean and running_var are parameters: parameters() hands them to the optimiser, "
        "and counts them among what is learnt. No gradient teaches them, the batches do. "
        "Saved and moved, but not learnt: that is register_buffer."
    )

    def register_statistics(torch, layer, first_mean, first_var):
        layer.running_mean = torch.nn.Parameter(first_mean, requires_grad=False)
        layer.running_var = torch.nn.Parameter(first_var, requires_grad=False)

    def store(layer, running_mean, running_var):
        layer.running_mean.data, layer.running_var.data = running_mean, running_var


@of("BatchNorm")
class parameter_names:
    message = N_(
        "The parameters are called gamma and beta. The formula says so, but torch says weight "
        "and bias, and weights are saved by name: the state_dict of a trained "
        "torch.nn.BatchNorm2d will not load. Rename them."
    )

    def register_parameters(torch, layer, features):
        layer.gamma = torch.nn.Parameter(torch.ones(features))
        layer.beta = torch.nn.Parameter(torch.zeros(features))

    def parameters(layer):
        return layer.gamma, layer.beta


@of("BatchNorm")
class statistics_names:
    message = N_(
        "The running statistics are called moving_mean and moving_var, as in Keras. Buffers are "
        "saved by name: for the state_dict of a trained torch.nn.BatchNorm2d to load, they must "
        "be running_mean and running_var."
    )

    def register_statistics(layer, first_mean, first_var):
        layer.register_buffer("moving_mean", first_mean)
        layer.register_buffer("moving_var", first_var)

    def statistics(layer):
        return layer.moving_mean, layer.moving_var

    def store(layer, running_mean, running_var):
        layer.moving_mean, layer.moving_var = running_mean, running_var


@of("BatchNorm")
class counter_missing:
    message = N_(
        "The layer has no num_batches_tracked, the number of batches it has learnt from. Without "
        "it, momentum=None has no 1/k, and the state_dict of a trained torch.nn.BatchNorm2d will "
        "not load. Register it too: register_buffer(..., torch.tensor(0))."
    )

    def register_counter():
        pass

    def count():
        pass


@of("BatchNorm")
class batches_not_counted:
    message = N_(
        "num_batches_tracked stays 0. Every batch in training adds 1: that is what self.share() "
        "does, once for each batch. With momentum=None the running statistics are the plain "
        "average of all batches, and the share of the k-th is 1/k."
    )

    def count():
        pass


@of("BatchNorm")
class counted_twice:
    message = N_(
        "num_batches_tracked goes up by 2 for each batch, so with momentum=None every share is "
        "half of what it should be. self.share() counts already: call it once for each batch, "
        "and add nothing yourself."
    )

    def count(layer):
        layer.num_batches_tracked += 2


@of("BatchNorm")
class share_called_twice:
    message = N_(
        "self.share() is called for the mean, and again for the variance. Each call counts a "
        "batch, so num_batches_tracked goes up by 2, and with momentum=None the two shares differ. "
        "Call it once for each batch, and keep what it returns."
    )

    def running_var(layer, running_var, batch_var):
        layer.num_batches_tracked += 1
        again = 1 / layer.num_batches_tracked if layer.momentum is None else layer.momentum
        return (1 - again) * running_var + again * batch_var


@of("BatchNorm")
class no_plain_average:
    message = N_(
        "momentum=None is not handled. It asks for the plain average of all batches: the share "
        "of the k-th batch is then 1/k, and num_batches_tracked, counted first, is k. "
        "self.share() does both: use what it returns in the place of momentum."
    )

    def momentum(layer):
        return layer.momentum


@of("BatchNorm")
class graph_kept:
    message = N_(
        "The running statistics are updated with gradients on, so they hold the graph of every "
        "batch so far: the memory grows with each step. Update them under torch.no_grad(), or "
        "with mean.detach() and var.detach()."
    )
    met = N_(
        "Teaching notes: after 50 steps the graph of the running mean is about a hundred "
        "operations deep."
    )

    def graph():
        return True


@of("BatchNorm")
class batch_statistics_detached:
    message = N_(
        "The output is right, its gradient is not: the mean and the variance of the batch are "
        "cut off from the graph. They depend on x, and that part of the gradient is what batch "
        "normalisation does to learning. Only the update belongs under no_grad."
    )

    def mean(xp, x, axis):
        return xp.mean(x.detach(), axis=axis, keepdims=True)

    def var(xp, x, mean, axis):
        return xp.mean((x.detach() - mean) ** 2, axis=axis, keepdims=True)


@of("BatchNorm")
class eval_ignored:
    message = N_(
        "eval() has no effect: the layer always normalises with the batch, and always updates "
        "its running statistics. eval() gives no argument to forward; it sets self.training to "
        "False, so ask self.training."
    )
    met = N_(
        "Teaching notes: `forward` takes an argument `training`, which `model.eval()` does not "
        "change."
    )

    def training():
        return True


@of("BatchNorm")
class updated_in_evaluation:
    message = N_(
        "The running statistics move in evaluation too. Test data then leaks into the model, and "
        "the same input gives another output the second time. Update them only if "
        "self.training."
    )

    def learning():
        return True


# --- The backward pass ------------------------------------------------------------------------


@of("batch_norm_backward")
class training_formula_always:
    message = N_(
        "training has no effect: the gradient is always that of training. In inference the mean "
        "and the variance are fixed numbers, y is a·x + c for each channel, and dx = dy·gamma / "
        "√(running_var + eps), without further terms."
    )

    def batch():
        return True

    def constant():
        return False


@of("batch_norm_backward")
class inference_formula_always:
    message = N_(
        "training has no effect: the gradient is always that of inference, dy·gamma / "
        "√(running_var + eps). In training the mean and the variance are those of the batch, and "
        "depend on x, hence two more terms: mean(dxhat) and xhat·mean(dxhat·xhat)."
    )

    def batch():
        return False

    def constant():
        return True


@of("batch_norm_backward")
class detached_statistics:
    message = N_(
        "In training, dx = dy·gamma/√(var + eps) treats the mean and the variance as constants, "
        "which they are in inference only. Those of the batch depend on x, hence two more terms: "
        "mean(dxhat) and xhat·mean(dxhat·xhat). Test: for x = [1, 3], dx must be 0 (up to eps)."
    )

    def mean_term():
        return 0

    def xhat_term():
        return 0


@of("batch_norm_backward")
class terms_in_inference:
    message = N_(
        "In inference, the terms mean(dxhat) and xhat·mean(dxhat·xhat) are subtracted too. They "
        "come through the mean and the variance, which are fixed numbers there: dx = "
        "dy·gamma / √(running_var + eps), and each example stands by itself."
    )

    def constant():
        return False


@of("batch_norm_backward")
class running_statistics_in_dx:
    message = N_(
        "In training, xhat and 1/√(var + eps) are computed from the running statistics. The "
        "forward pass used the mean and the variance of the batch: its gradient needs the same "
        "numbers."
    )

    def batch():
        return False


@of("batch_norm_backward")
class dgamma_from_batch:
    message = N_(
        "dgamma uses the xhat of training in inference too. There the forward pass multiplied "
        "gamma by (x - running_mean) / √(running_var + eps): the sum must be over dy times that."
    )

    def dgamma(xp, dy, x, eps, tokens):
        centred = x - xp.mean(x, axis=tokens, keepdims=True)
        var = xp.mean(centred**2, axis=tokens, keepdims=True)
        return xp.sum(dy * centred / xp.sqrt(var + eps), axis=tokens)


@of("batch_norm_backward")
class divided_by_examples:
    message = N_(
        "The two means in dx are sums divided by N, the number of examples. They run over the "
        "positions too: divide by N·H·W, the number of values that share a mean. For (N, C) "
        "nobody would notice."
    )

    def mean_term(xp, dxhat, axis):
        return xp.sum(dxhat, axis=axis, keepdims=True) / dxhat.shape[0]

    def xhat_term(xp, dxhat, xhat, axis):
        return xhat * xp.sum(dxhat * xhat, axis=axis, keepdims=True) / xhat.shape[0]


@of("batch_norm_backward")
class factor_two_lost:
    message = N_(
        "The part of dx that comes through the variance is half of what it should be: the "
        "derivative of (x - mean)² is 2·(x - mean). In the closed form the 2 cancels the 1/2 of "
        "the root, and the term is xhat·mean(dxhat·xhat)."
    )

    def xhat_term(xp, dxhat, xhat, axis):
        return xhat * xp.mean(dxhat * xhat, axis=axis, keepdims=True) / 2


@of("batch_norm_backward")
class factor_half_lost:
    message = N_(
        "The part of dx that comes through the variance is twice what it should be: the "
        "derivative of (var + eps)^(-1/2) is -1/2·(var + eps)^(-3/2). In the closed form the 1/2 "
        "cancels the 2 of the square, and the term is xhat·mean(dxhat·xhat)."
    )

    def xhat_term(xp, dxhat, xhat, axis):
        return 2 * xhat * xp.mean(dxhat * xhat, axis=axis, keepdims=True)


@of("batch_norm_backward")
class gamma_not_reshaped:
    message = N_(
        "gamma, of shape (C,), is lined up with the last axis of dy. For (N, C) those are the "
        "channels; in images it is the width, which fails, or, with C columns, is silently "
        "wrong. Reshape it to (C, 1, 1), as in the forward pass."
    )

    def gamma(weight):
        return weight


@of("batch_norm_backward")
class summed_over_examples:
    message = N_(
        "dgamma and dbeta are summed over axis 0 alone. For images that leaves the shape (C, H, "
        "W), but gamma has shape (C,): all positions share it. Sum over every axis but 1."
    )

    def tokens():
        return 0


@of("batch_norm_backward")
class last_axis_kept:
    message = N_(
        "dgamma and dbeta are summed over every axis but the last, as in layer normalisation. "
        "For images that leaves one number per column. The channels are axis 1: sum over (0, "
        "*range(2, x.ndim))."
    )

    def tokens(x):
        return tuple(range(x.ndim - 1))


@of("batch_norm_backward")
class gradients_keep_axes:
    message = N_(
        "dgamma and dbeta have kept axes of length 1, from keepdims=True: shape (1, C) or (1, C, "
        "1, 1). A gradient has the shape of what it belongs to, here (C,), or the optimiser's "
        "step fails or changes the shape of the parameter. Sum without keepdims."
    )

    def dgamma(xp, dy, xhat, tokens):
        return xp.sum(dy * xhat, axis=tokens, keepdims=True)

    def dbeta(xp, dy, tokens):
        return xp.sum(dy, axis=tokens, keepdims=True)


# --- Folding ----------------------------------------------------------------------------------


@of("fold_batch_norm")
class gamma_not_folded:
    message = N_(
        "gamma is not in the new weight and bias: a = 1/√(running_var + eps). The batch norm is "
        "a·x + c with a = gamma / √(running_var + eps), and once it is gone, nothing else "
        "multiplies by gamma."
    )

    def a(xp, running_var, eps):
        return 1 / xp.sqrt(running_var + eps)


@of("fold_batch_norm")
class eps_not_folded:
    message = N_(
        "eps is missing: a = gamma / √running_var. The batch norm divides by √(running_var + "
        "eps), and the folded layer must do the same, or channels with a small variance come "
        "out larger than before."
    )

    def a(xp, gamma, running_var):
        return gamma / xp.sqrt(running_var)


@of("fold_batch_norm")
class running_var_as_std:
    message = N_(
        "gamma is divided by running_var + eps without the root, as if it were a standard "
        "deviation. It holds variances: a = gamma / √(running_var + eps)."
    )

    def a(gamma, running_var, eps):
        return gamma / (running_var + eps)


@of("fold_batch_norm")
class mean_not_folded:
    message = N_(
        "running_mean is not in the new bias: c = beta. The batch norm subtracts it before it "
        "multiplies by a, so c = beta - a·running_mean."
    )

    def c(beta):
        return beta


@of("fold_batch_norm")
class mean_not_scaled:
    message = N_(
        "running_mean is subtracted from the new bias as it is. The batch norm subtracts it "
        "before it multiplies by a, so it is multiplied too: c = beta - a·running_mean."
    )

    def c(beta, running_mean):
        return beta - running_mean


@of("fold_batch_norm")
class mean_added:
    message = N_(
        "running_mean is added to the new bias; the batch norm subtracts it: c = beta - "
        "a·running_mean."
    )

    def c(beta, a, running_mean):
        return beta + a * running_mean


@of("fold_batch_norm")
class beta_not_folded:
    message = N_(
        "beta is not in the new bias: c = -a·running_mean. Once the batch norm is gone, nothing "
        "else adds it: c = beta - a·running_mean."
    )

    def c(a, running_mean):
        return -a * running_mean


@of("fold_batch_norm")
class beta_scaled:
    message = N_(
        "beta is multiplied by a: c = a·(beta - running_mean). The batch norm adds beta last, "
        "after the scale: c = beta - a·running_mean."
    )

    def c(beta, a, running_mean):
        return a * (beta - running_mean)


@of("fold_batch_norm")
class weight_not_scaled:
    message = N_(
        "The weight is unchanged; only the bias is new. The batch norm multiplies all that the "
        "linear layer puts out, W·x + b, by a: W is multiplied too, each row by its own number, "
        "a[:, None] * W."
    )

    def new_weight(weight):
        return weight


@of("fold_batch_norm")
class columns_scaled:
    message = N_(
        "The columns of the weight are multiplied by a; they belong to the inputs. The batch norm "
        "comes after the layer and scales its outputs, the rows: a[:, None] * W. With a square W "
        "this is silently wrong, with another it usually fails."
    )

    def new_weight(a, weight):
        return weight * a


@of("fold_batch_norm")
class folded_as_if_before:
    message = N_(
        "This folds a batch norm that comes before the linear layer: W·diag(a) and b + W·c. "
        "Here it comes after, and acts on the outputs: diag(a)·W, each row by its own number, "
        "and a·b + c."
    )

    def new_weight(a, weight):
        return weight * a

    def new_bias(weight, old_bias, c):
        return old_bias + weight @ c


@of("fold_batch_norm")
class bias_not_scaled:
    message = N_(
        "The old bias is not multiplied by a: b + c. The batch norm acts on W·x + b as a whole, "
        "so the new bias is a·b + c."
    )

    def new_bias(old_bias, c):
        return old_bias + c


@of("fold_batch_norm")
class bias_dropped:
    message = N_(
        "The old bias is lost: the new one is c alone. A bias before a batch norm in training "
        "has no effect, but here the running mean was taken with it: the new bias is a·b + c."
    )

    def new_bias(c):
        return c


@of("fold_batch_norm")
class no_bias_not_handled:
    message = N_(
        "A linear layer without a bias fails: bias is None there, and cannot be multiplied. "
        "The folded layer needs a bias all the same: take 0 for the old one, and the new one is "
        "c = beta - a·running_mean."
    )

    def old_bias(bias):
        return bias


@of("fold_batch_norm")
class no_bias_left:
    message = N_(
        "Without an old bias, the folded layer gets none. The batch norm shifts its output by c "
        "= beta - a·running_mean all the same, and after folding this is the work of the bias: "
        "return c."
    )

    def new_bias(bias, a, c):
        return None if bias is None else a * bias + c
