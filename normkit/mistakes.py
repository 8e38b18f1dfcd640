"""The classic mistakes, each a few steps of the right algorithm written wrongly.

Two mistakes combine by merging their steps. One entry serves the book, the feedback to students,
the tests of the package and the report to the instructor.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from normkit.algorithms import ALGORITHMS, Steps, chain
from normkit.messages import N_


@dataclass(frozen=True, eq=False)
class Mistake:
    """A mistake by name: the steps of the algorithm `of` that it changes, and what to say of it.

    label: the place in the book, on the page `page`, that explains it.
    """

    name: str
    of: str
    changes: Steps
    message: str
    label: str

    @property
    def page(self) -> str:
        return ALGORITHMS[self.of].page

    @property
    def wrong(self) -> Any:
        """The answer of a student who makes this mistake and no other."""
        return combine(self.of, self)


MISTAKES: list[Mistake] = []


def combine(algorithm: str, *mistakes: Mistake) -> Any:
    """The algorithm with these mistakes in it; without any, the right one."""
    steps = dict(ALGORITHMS[algorithm].steps)
    for mistake in mistakes:
        steps |= mistake.changes
    return ALGORITHMS[algorithm].assemble(steps)


def mistakes_of(algorithm: str) -> list[Mistake]:
    """The mistakes that `algorithm` can carry: its own and those of the one that it contains."""
    right = ALGORITHMS[algorithm]
    origins = {algorithm, right.contains}
    return [m for m in MISTAKES if m.of in origins and m.changes.keys() <= right.steps.keys()]


def of(algorithm: str) -> Callable[[type], Mistake]:
    """Make a Mistake of a class: its name, its `message`, and as functions the wrong steps."""

    def record(wrong: type) -> Mistake:
        slug = f"{ALGORITHMS[algorithm].prefix}-mistake-{wrong.__name__.replace('_', '-')}"
        label = getattr(wrong, "label", slug)
        mistake = Mistake(wrong.__name__, algorithm, chain(wrong), wrong.message, label)
        MISTAKES.append(mistake)
        return mistake

    return record


# --- LayerNorm: the statistics ----------------------------------------------------------------


@of("layer_norm")
class unbiased_variance:
    message = N_(
        "The variance divides by D - 1 instead of D. That estimates the variance of a "
        "population from a sample; a norm describes just these D numbers. With D = 3 the output "
        "is 18 % too small. In torch, var and std need correction=0; in NumPy, no ddof."
    )

    def var(xp, x, axis):
        return xp.var(x, axis=axis, correction=1, keepdims=True)


@of("layer_norm")
class sum_of_squares:
    message = N_(
        "The squared deviations are summed, but the sum is not divided by D. The variance is "
        "their mean. The output is √D times too small: for D = 3, by the factor 1.73."
    )

    def var(xp, x, mean, axis):
        return xp.sum((x - mean) ** 2, axis=axis, keepdims=True)


@of("layer_norm")
class one_pass_variance:
    message = N_(
        "The variance is mean(x²) - mean(x)²: right on paper, but it subtracts two large, "
        "nearly equal numbers. In float32, with values around 10 000, all digits cancel, and it "
        "may even be negative. Subtract the mean first, then average the squares."
    )

    def var(xp, x, mean, axis):
        return xp.mean(x**2, axis=axis, keepdims=True) - mean**2


@of("layer_norm")
class eps_outside_root:
    message = N_(
        "eps is added to the standard deviation; it belongs inside the root: sqrt(var + eps). "
        "Outside, it hardly protects: for values of ±0.0001 the output is ±0.909 instead of "
        "±0.032, so noise is blown up, and gradients with it."
    )

    def root(xp, var, eps):
        return xp.sqrt(var) + eps


@of("layer_norm")
class no_eps:
    message = N_(
        "eps is not used. A token whose features are all equal has variance 0, and 0/0 gives "
        "nan; a nearly constant one is blown up to size 1. Divide by sqrt(var + eps)."
    )

    def root(xp, var):
        return xp.sqrt(var)


@of("layer_norm")
class fixed_eps:
    message = N_(
        "The argument eps has no effect: 1e-5 is used whatever the caller asks for. Models are "
        "trained with different values, and weights only fit the one they were trained with. "
        "Use eps itself."
    )

    def root(xp, var):
        return xp.sqrt(var + 1e-5)


@of("layer_norm")
class no_root:
    message = N_(
        "The centred values are divided by the variance instead of its root. The output then "
        "has variance 1/σ² instead of 1, and the unit of x does not cancel. Divide by "
        "sqrt(var + eps)."
    )

    def root(var, eps):
        return var + eps


@of("layer_norm")
class batch_axis:
    message = N_(
        "The mean and the variance are taken over axis 0, the examples: that is batch "
        "normalisation. Each token must be normalised by itself, over its features, axis=-1; "
        "otherwise the output of one example depends on its neighbours in the batch."
    )

    def axis():
        return 0


@of("layer_norm")
class whole_array:
    message = N_(
        "One mean and one variance serve the whole array, batch and features together. Each "
        "token needs its own, over axis=-1; otherwise changing one example changes the output "
        "of all others, and no row has mean 0."
    )

    def axis(x):
        return tuple(range(x.ndim))


@of("layer_norm")
class last_two_axes:
    message = N_(
        "The mean and the variance run over the last two axes. The tokens of a sequence, or the "
        "examples of a batch, then share statistics and leak into each other. Use the last "
        "axis alone, axis=-1, however many axes x has."
    )

    def axis():
        return (-2, -1)


@of("layer_norm")
class all_but_batch:
    message = N_(
        "The mean and the variance run over all axes but the batch. With x of shape (N, D) that "
        "is the same thing, but in a sequence (N, T, D) the T tokens then share statistics, and "
        "a token sees those that follow it. Use axis=-1."
    )

    def axis(x):
        return tuple(range(1, x.ndim))


@of("layer_norm")
class axis_one:
    message = N_(
        "The mean and the variance are taken over axis 1. That is the feature axis of (N, D) "
        "only; in (N, T, D) it holds the tokens. The features are always the last axis: axis=-1."
    )

    def axis():
        return 1


@of("layer_norm")
class no_keepdims:
    message = N_(
        "The mean and the variance have lost their last axis: shape (N,) instead of (N, 1). "
        "NumPy then lines them up with the features, which fails, or, for a square x, silently "
        "uses the statistics of other rows. Pass keepdims=True."
    )

    def mean(xp, x, axis):
        return xp.mean(x, axis=axis)

    def var(xp, x, axis):
        return xp.var(x, axis=axis)


@of("layer_norm")
class mean_not_subtracted:
    message = N_(
        "x is divided by its standard deviation, but its mean is not subtracted first. A "
        "constant added to a token should vanish; here it stays, multiplied by 1/σ. The "
        "numerator is x - mean."
    )

    def xhat(x, root):
        return x / root


@of("layer_norm")
class rms_instead:
    message = N_(
        "The mean is subtracted nowhere, neither in the numerator nor in the variance: this is "
        "RMSNorm, another normalisation. For [1, 7, 5, 5] it gives [0.2, 1.4, 1, 1], layer "
        "normalisation [-1.61, 1.15, 0.23, 0.23]. Subtract the mean first."
    )

    def mean(x):
        return 0 * x


# --- LayerNorm: gamma and beta ----------------------------------------------------------------


@of("layer_norm")
class gamma_forgotten:
    message = N_(
        "gamma has no effect. Without it all features keep the same scale, and the layer cannot "
        "give one more weight than another. The last line is gamma * xhat + beta. (With gamma "
        "= 1 nobody would notice: test with other values.)"
    )

    def scaled(xhat):
        return xhat


@of("layer_norm")
class beta_forgotten:
    message = N_(
        "beta has no effect. Without it every token keeps mean 0 when gamma is 1. The last line "
        "is gamma * xhat + beta. (With beta = 0 nobody would notice: test with other values.)"
    )

    def y(scaled):
        return scaled


@of("layer_norm")
class beta_before_gamma:
    message = N_(
        "beta is added before the multiplication by gamma: gamma * (xhat + beta). The shift of "
        "a feature is then gamma·beta, and cannot be learnt where gamma is 0. Multiply first, "
        "then add: gamma * xhat + beta."
    )

    def scaled(gamma, xhat, beta):
        return gamma * (xhat + beta)

    def y(scaled):
        return scaled


@of("layer_norm")
class gamma_on_wrong_axis:
    message = N_(
        "gamma and beta are spread along the wrong axis: one number per token instead of one "
        "per feature. That fails unless x is square, and then it is silently wrong. A gamma of "
        "shape (D,) needs no reshaping: NumPy lines it up with the last axis."
    )

    def scaled(gamma, xhat):
        return gamma[:, None] * xhat

    def y(scaled, beta):
        return scaled + beta[:, None]


# --- LayerNorm: the layer ---------------------------------------------------------------------


@of("LayerNorm")
class gamma_per_example:
    label = "ln-mistake-gamma-per-example"
    message = N_(
        "weight and bias are made with the shape of x, batch included: every example has its "
        "own. Nothing learnt on one example then serves another, and the last, smaller batch "
        "fails. Their shape is (D,): make them in __init__, from the number of features."
    )

    def register():
        pass

    def prepare(torch, layer, x):
        if not hasattr(layer, "weight"):
            layer.weight = torch.nn.Parameter(torch.ones(x.shape, dtype=x.dtype))
            layer.bias = torch.nn.Parameter(torch.zeros(x.shape, dtype=x.dtype))


@of("LayerNorm")
class gamma_per_position:
    label = "ln-mistake-gamma-per-example"
    message = N_(
        "weight and bias are made with the last two axes of x: every position has its own. The "
        "layer then serves one length only, and learns T times too many numbers. Their shape is "
        "(D,): make them in __init__, from the number of features."
    )

    def register():
        pass

    def prepare(torch, layer, x):
        if not hasattr(layer, "weight"):
            layer.weight = torch.nn.Parameter(torch.ones(x.shape[-2:], dtype=x.dtype))
            layer.bias = torch.nn.Parameter(torch.zeros(x.shape[-2:], dtype=x.dtype))


@of("LayerNorm")
class plain_tensors:
    message = N_(
        "weight and bias are plain tensors. A module knows only what is registered: the "
        "optimiser will not see them, state_dict() is empty, and .to(device) leaves them "
        "behind. Wrap them in nn.Parameter."
    )

    def register(layer, weight, bias):
        layer.weight, layer.bias = weight, bias


@of("LayerNorm")
class buffers_not_parameters:
    message = N_(
        "weight and bias are buffers: they are saved and moved with the layer, but receive no "
        "gradient, so they will never be learnt. Wrap them in nn.Parameter."
    )

    def register(layer, weight, bias):
        layer.register_buffer("weight", weight)
        layer.register_buffer("bias", bias)


@of("LayerNorm")
class gamma_beta_names:
    message = N_(
        "The parameters are called gamma and beta. The formula says so, but torch says weight "
        "and bias, and weights are saved by name: the state_dict of a trained torch.nn.LayerNorm "
        "will not load. Rename them."
    )

    def register(torch, layer, weight, bias):
        layer.gamma, layer.beta = torch.nn.Parameter(weight), torch.nn.Parameter(bias)

    def gamma(layer):
        return layer.gamma

    def beta(layer):
        return layer.beta


@of("LayerNorm")
class weight_starts_at_zero:
    message = N_(
        "weight starts at 0, so that a new layer returns 0 whatever comes in, and passes no "
        "gradient back to it. A normalisation starts as the identity on xhat: weight = 1, "
        "bias = 0."
    )

    def weight(torch, features):
        return torch.zeros(features)


@of("LayerNorm")
class no_grad_statistics:
    label = "ln-mistake-detached-statistics"
    message = N_(
        "The output is right, its gradient is not: the mean and the variance are cut off from "
        "the graph (no_grad, detach, data or item). They depend on x, and that part of the "
        "gradient is what layer normalisation does to learning. Leave them in the graph."
    )

    def mean(xp, x, axis):
        return xp.mean(x.detach(), axis=axis, keepdims=True)

    def var(xp, x, mean, axis):
        return xp.mean((x.detach() - mean) ** 2, axis=axis, keepdims=True)


# --- LayerNorm: the backward pass -------------------------------------------------------------


@of("layer_norm_backward")
class detached_statistics:
    message = N_(
        "dx = dy·gamma/√(var + eps) treats the mean and the variance as constants. They depend "
        "on x, hence two more terms: mean(dxhat) and xhat·mean(dxhat·xhat). Test: for x = [1, "
        "3, 5, 7], dy = [1, 2, 3, 4] and gamma = 1, dx must be 0 (up to eps)."
    )

    def mean_term(x):
        return 0 * x

    def xhat_term(x):
        return 0 * x


@of("layer_norm_backward")
class mean_term_dropped:
    message = N_(
        "The term mean(dxhat) is missing in dx: the gradient that passes through the mean. "
        "Adding a constant to a token changes nothing in the output, so the entries of dx must "
        "sum to 0 in each token; yours do not."
    )

    def mean_term(x):
        return 0 * x


@of("layer_norm_backward")
class xhat_term_dropped:
    message = N_(
        "The term xhat·mean(dxhat·xhat) is missing in dx: the gradient that passes through the "
        "variance. Multiplying a token by a positive factor changes nothing in the output, so "
        "sum(dx·xhat) must be 0 (up to eps) in each token; yours is not."
    )

    def xhat_term(x):
        return 0 * x


@of("layer_norm_backward")
class xhat_term_added:
    message = N_(
        "The term xhat·mean(dxhat·xhat) is added in dx; it must be subtracted, as mean(dxhat) "
        "is: dx is what is left of dxhat without these two parts."
    )

    def xhat_term(xp, dxhat, xhat, axis):
        return -xhat * xp.mean(dxhat * xhat, axis=axis, keepdims=True)


@of("layer_norm_backward")
class sums_instead_of_means:
    message = N_(
        "The two correction terms in dx are sums over the features; they must be means. Each is "
        "D times too large. The 1/D comes from the derivative of the mean and the variance, "
        "which both divide by D."
    )

    def mean_term(xp, dxhat, axis):
        return xp.sum(dxhat, axis=axis, keepdims=True)

    def xhat_term(xp, dxhat, xhat, axis):
        return xhat * xp.sum(dxhat * xhat, axis=axis, keepdims=True)


@of("layer_norm_backward")
class r_forgotten:
    message = N_(
        "dx lacks the factor 1/√(var + eps). The forward pass divides by √(var + eps), so "
        "does the backward pass: a token of large variance receives a small gradient."
    )

    def dx(dxhat, mean_term, xhat_term):
        return dxhat - mean_term - xhat_term


@of("layer_norm_backward")
class gamma_forgotten_in_dx:
    message = N_(
        "gamma is missing in dx. The output is gamma * xhat + beta, so the gradient at xhat is "
        "dxhat = dy * gamma, not dy. (With gamma = 1 nobody would notice.)"
    )

    def dxhat(dy):
        return dy


@of("layer_norm_backward")
class gamma_outside_bracket:
    message = N_(
        "In dx, gamma multiplies the whole bracket. That is right in batch normalisation, where "
        "all that share a mean share one gamma. Here each feature of a token has its own: "
        "gamma belongs inside the means, dxhat = dy * gamma."
    )

    def dxhat(dy):
        return dy

    def dx(dxhat, mean_term, xhat_term, gamma, root):
        return gamma * (dxhat - mean_term - xhat_term) / root


@of("layer_norm_backward")
class dgamma_without_xhat:
    message = N_(
        "dgamma sums dy alone, which is dbeta. gamma multiplies xhat, so its gradient is the "
        "sum over all tokens of dy * xhat."
    )

    def dgamma(xp, dy, tokens):
        return xp.sum(dy, axis=tokens)


@of("layer_norm_backward")
class dgamma_with_gamma:
    message = N_(
        "dgamma contains gamma: it sums dxhat * xhat. The derivative of gamma * xhat with "
        "respect to gamma is xhat alone, so dgamma is the sum over all tokens of dy * xhat."
    )

    def dgamma(xp, dxhat, xhat, tokens):
        return xp.sum(dxhat * xhat, axis=tokens)


@of("layer_norm_backward")
class gradients_not_summed:
    message = N_(
        "dgamma and dbeta have the shape of x: the sum is missing. All tokens share gamma and "
        "beta, so each token contributes to their gradient, and the contributions add up: sum "
        "over every axis but the last."
    )

    def dgamma(dy, xhat):
        return dy * xhat

    def dbeta(dy):
        return dy


@of("layer_norm_backward")
class gradients_over_features:
    message = N_(
        "dgamma and dbeta are summed over the features, the last axis, and have one number per "
        "token. gamma and beta have one number per feature and are shared by the tokens: keep "
        "the last axis and sum over all the others."
    )

    def tokens():
        return -1


@of("layer_norm_backward")
class gradients_over_first_axis:
    message = N_(
        "dgamma and dbeta are summed over axis 0 only. For x of shape (N, T, D) the result has "
        "shape (T, D), but gamma has shape (D,). Sum over every axis but the last: "
        "tuple(range(x.ndim - 1))."
    )

    def tokens():
        return 0


@of("layer_norm_backward")
class gradients_averaged:
    message = N_(
        "dgamma and dbeta are means over the tokens; they must be sums. Each token adds its "
        "share to the loss. Where the loss is a mean, the division is already inside dy."
    )

    def dgamma(xp, dy, xhat, tokens):
        return xp.mean(dy * xhat, axis=tokens)

    def dbeta(xp, dy, tokens):
        return xp.mean(dy, axis=tokens)


# --- LayerNorm: what stays invariant ----------------------------------------------------------


@of("layer_norm_invariance")
class dataset_recentring:
    message = N_(
        "shift_dataset: adding the same vector to every token does change the output. Batch "
        "normalisation subtracts a mean per feature, and would not see it. The mean of a token "
        "is another: entries of the vector that differ do not cancel."
    )

    def shift_dataset():
        return True


@of("layer_norm_invariance")
class token_shift_denied:
    label = "ln-invariance"
    message = N_(
        "shift_tokens: a constant added to all features of a token moves its mean by the same "
        "constant, and x - mean stays what it was. Each token may have its own constant."
    )

    def shift_tokens():
        return False


@of("layer_norm_invariance")
class token_scale_denied:
    label = "ln-invariance"
    message = N_(
        "scale_tokens: a positive factor on all features of a token multiplies x - mean and the "
        "standard deviation alike, and cancels (exactly for eps = 0). Each token may have its "
        "own factor."
    )

    def scale_tokens():
        return False


@of("layer_norm_invariance")
class dataset_scale_denied:
    label = "ln-invariance"
    message = N_(
        "scale_dataset: one positive factor for the whole array is also one for each token, and "
        "a factor of a token cancels."
    )

    def scale_dataset():
        return False


@of("layer_norm_invariance")
class negation_accepted:
    label = "ln-invariance"
    message = N_(
        "negate_tokens: a standard deviation is never negative, so dividing by it does not "
        "remove the sign: the output changes its sign with the token. Only positive factors "
        "cancel."
    )

    def negate_tokens():
        return True


@of("layer_norm_invariance")
class feature_scale_accepted:
    label = "ln-invariance"
    message = N_(
        "scale_feature: a factor on one feature changes the mean and the variance of every "
        "token, hence all of its outputs. It would cancel in batch normalisation, which has one "
        "standard deviation per feature."
    )

    def scale_feature():
        return True


@of("layer_norm_invariance")
class exact_equality:
    message = N_(
        "unchanged compares with ==. The two outputs are equal as real numbers, but rounding "
        "makes their last digits differ, so it answers False where it should say True. Compare "
        "up to rounding: np.allclose(a, b)."
    )

    def unchanged():
        return lambda norm, change, x: bool((norm(change(x)) == norm(x)).all())


@of("layer_norm_invariance")
class compared_with_input:
    message = N_(
        "unchanged compares norm(change(x)) with x itself. The question is whether the change "
        "can be seen in the output: compare norm(change(x)) with norm(x)."
    )

    def unchanged():
        return lambda norm, change, x: np.allclose(norm(change(x)), x)


@of("layer_norm_invariance")
class order_tested:
    message = N_(
        "unchanged compares norm(change(x)) with change(norm(x)): it asks whether the order of "
        "the two matters (equivariance). For invariance the change must leave no trace: compare "
        "norm(change(x)) with norm(x)."
    )

    def unchanged():
        return lambda norm, change, x: np.allclose(norm(change(x)), change(norm(x)))
