"""Layer normalisation: its steps and its mistakes."""

from collections.abc import Callable

import numpy as np
from array_api_compat import array_namespace

from normkit.messages import N_
from normkit.mistakes.chains import ALGORITHMS, Algorithm, Steps, chain, of, run
from normkit.mistakes.normalise import BACKWARD, FORWARD, layer_norm, layer_norm_backward


@chain
class PARAMETERS:
    def weight(torch, features):
        return torch.ones(features)

    def bias(torch, features):
        return torch.zeros(features)

    def register(torch, layer, weight, bias):
        layer.weight, layer.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)


@chain
class CALL:
    def prepare(layer, x):
        """Nothing: the parameters exist since the layer was made."""

    def gamma(layer, prepare):
        return layer.weight

    def beta(layer, prepare):
        return layer.bias


@chain
class INVARIANCE:
    def shift_tokens():
        return True

    def scale_tokens():
        return True

    def scale_dataset():
        return True

    def negate_tokens():
        return False

    def shift_dataset():
        return False

    def scale_feature():
        return False

    def unchanged():
        return lambda norm, change, x: np.allclose(norm(change(x)), norm(x))


def _layer_norm_layer(steps: Steps) -> type:
    import torch

    made = {name: steps[name] for name in PARAMETERS}
    called = {name: steps[name] for name in CALL | FORWARD}

    class LayerNorm(torch.nn.Module):
        def __init__(self, features, eps=1e-5):
            super().__init__()
            self.eps = eps
            run(made, torch=torch, layer=self, features=features)

        def forward(self, x):
            xp = array_namespace(x)
            return run(called, torch=torch, layer=self, xp=xp, x=x, eps=self.eps)["y"]

    return LayerNorm


def _layer_norm_invariance(steps: Steps) -> tuple[dict[str, bool], Callable]:
    done = run(steps)
    return {name: done[name] for name in steps if name != "unchanged"}, done["unchanged"]


ALGORITHMS |= {
    name: Algorithm(steps, assemble, f"layer_norm#{place}", "ln", contains, book="layer_norm")
    for name, steps, assemble, place, *contains in (
        ("layer_norm", FORWARD, layer_norm, "ln-formula", "normalise"),
        (
            *("layer_norm_backward", BACKWARD, layer_norm_backward, "ln-backward"),
            *("layer_norm", "normalise_backward"),
        ),
        ("LayerNorm", PARAMETERS | CALL | FORWARD, _layer_norm_layer, "ln-code", "layer_norm"),
        ("layer_norm_invariance", INVARIANCE, _layer_norm_invariance, "ln-invariance"),
    )
}


# --- The statistics and the parameters --------------------------------------------------------


@of("layer_norm")
class batch_axis:
    message = N_(
        "The mean and the variance are taken over axis 0, the examples: that is batch "
        "normalisation. Each token must be normalised by itself, over its features, axis=-1; "
        "otherwise the output of one example depends on its neighbours in the batch."
    )
    met = N_("A French course, in the text; its code is right.")

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
class variance_of_whole_array:
    label = "ln-mistake-whole-array"
    message = N_(
        "Each token has its own mean, but the variance is that of the whole array: x.var() without "
        "an axis. It also measures how far the tokens lie apart, and they do not come out with "
        "variance 1. Pass axis=-1, keepdims=True to the variance too."
    )

    def var(xp, x):
        return xp.var(x)


@of("layer_norm")
class squares_over_whole_array:
    label = "ln-mistake-whole-array"
    message = N_(
        "The squares of x - mean are averaged over the whole array, so all tokens share one "
        "variance, and the one with the largest deviations decides for the others. Each token "
        "needs its own: average with axis=-1, keepdims=True."
    )

    def var(xp, x, mean):
        return xp.mean((x - mean) ** 2)


@of("layer_norm")
class last_two_axes:
    message = N_(
        "The mean and the variance run over the last two axes. The tokens of a sequence, or the "
        "examples of a batch, then share statistics and leak into each other. Use the last "
        "axis alone, axis=-1, however many axes x has."
    )
    met = N_(
        "A teaching notebook about Transformers, where these axes are the batch and the features."
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
class loop_over_first_axis:
    label = "ln-mistake-all-but-batch"
    message = N_(
        "The loop runs over the first axis. For (N, D) it meets tokens, but in (N, T, D) whole "
        "sequences, whose tokens then share statistics, and in a single token (D,) numbers. No "
        "loop is needed: average with axis=-1, keepdims=True."
    )

    def axis(x):
        return tuple(range(1, x.ndim))

    def y(xp, x, scaled, beta):
        y = scaled + beta
        return y if x.ndim > 1 else xp.stack([y] * x.shape[0])


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
class squares_without_keepdims:
    label = "ln-mistake-no-keepdims"
    message = no_keepdims.message

    def mean(xp, x, axis):
        return xp.mean(x, axis=axis)

    def var(xp, x, mean, axis):
        return xp.mean((x - mean) ** 2, axis=axis)


@of("layer_norm")
class mean_without_keepdims:
    label = "ln-mistake-no-keepdims"
    message = N_(
        "The mean has lost its last axis: shape (N,) instead of (N, 1). It is then lined up with "
        "the features, which fails, or, for a square x, silently uses the means of other rows. "
        "Keep its axis as that of the variance (keepdims)."
    )

    def mean(xp, x, axis):
        return xp.mean(x, axis=axis)


@of("layer_norm")
class mean_alone_without_keepdims:
    label = "ln-mistake-no-keepdims"
    message = mean_without_keepdims.message

    def mean(xp, x, axis):
        return xp.mean(x, axis=axis)

    def var(xp, x, axis):
        return xp.var(x, axis=axis, keepdims=True)


@of("layer_norm")
class var_without_keepdims:
    label = "ln-mistake-no-keepdims"
    message = N_(
        "The variance has lost its last axis: shape (N,) instead of (N, 1). It is then lined up "
        "with the features, which fails, or, for a square x, silently uses the variances of other "
        "rows. Keep its axis as that of the mean (keepdims)."
    )

    def var(xp, x, axis):
        return xp.var(x, axis=axis)


@of("layer_norm")
class axis_put_back_second:
    label = "ln-mistake-no-keepdims"
    message = N_(
        "[:, None] puts the lost axis back in second place. That is right for (N, D) alone: with "
        "(N, T, D), or a single token (D,), it fails. keepdims leaves the axis where it was, "
        "whatever the shape."
    )

    def mean(xp, x, axis):
        return xp.mean(x, axis=axis)[:, None]


@of("layer_norm")
class rms_instead:
    message = N_(
        "The mean is subtracted nowhere, neither in the numerator nor in the variance: this is "
        "RMSNorm, another normalisation. For [1, 7, 5, 5] it gives [0.2, 1.4, 1, 1], layer "
        "normalisation [-1.61, 1.15, 0.23, 0.23]. Subtract the mean first."
    )

    def mean(x):
        return 0 * x


@of("layer_norm")
class changed_in_place:
    label = "ln-code"
    message = N_(
        "x -= ... writes into the array of the caller, who still needs it; so do /=, *= and +=. "
        "It fails on integers, and in PyTorch on an x that needs a gradient. Make a new array: "
        "centred = x - mean."
    )

    def xhat(x, mean, root):
        x -= mean
        return x / root


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


# --- The layer --------------------------------------------------------------------------------


@of("LayerNorm")
class gamma_per_example:
    label = "ln-mistake-gamma-per-example"
    message = N_(
        "weight and bias are made with the shape of x, batch included: every example has its "
        "own. Nothing learnt on one example then serves another, and the last, smaller batch "
        "fails. Their shape is (D,): make them in the constructor, from the number of features."
    )
    met = N_("Two teaching documents make γ of the shape of the batch, or of the whole input.")

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
        "(D,): make them in the constructor, from the number of features."
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
        "and bias, and weights are saved by name: the state_dict of a trained layer will not "
        "load. Rename them."
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
        "gradient back to it. A new layer has weight = 1 and bias = 0."
    )

    def weight(torch, features):
        return torch.zeros(features)


@of("LayerNorm")
class weight_starts_anywhere:
    label = "ln-affine"
    message = N_(
        "weight does not start at 1. A new layer has weight = 1 and bias = 0, so that at first it "
        "only normalises; what else is needed will be learnt."
    )

    def weight(torch, features):  # random numbers would differ from those of the student
        return torch.linspace(-1, 2, features)


@of("LayerNorm")
class one_weight:
    label = "ln-affine"
    message = N_(
        "weight and bias hold one number for all features. Each feature has its own: their shape "
        "is (D,), made from the argument features."
    )

    def weight(torch):
        return torch.ones(1)

    def bias(torch):
        return torch.zeros(1)


@of("LayerNorm")
class no_bias:
    label = "ln-affine"
    message = N_(
        "The layer has no bias: beta is missing, and the state_dict of a trained layer will not "
        "load. Make a second parameter, all zeros at first, and add it at the end of forward."
    )

    def register(torch, layer, weight):
        layer.weight = torch.nn.Parameter(weight)

    def beta():
        return 0


@of("LayerNorm")
class no_grad_forward:
    label = "ln-mistake-detached-statistics"
    message = N_(
        "The output is cut off from the graph, as under no_grad: no gradient reaches x, weight or "
        "bias, and nothing before this layer, nor the layer itself, can learn. Let PyTorch record "
        "all of forward."
    )

    def y(scaled, beta):
        return (scaled + beta).detach()


@of("LayerNorm")
class x_detached:
    label = "ln-mistake-detached-statistics"
    message = N_(
        "x is cut off from the graph (detach or data), so no gradient reaches the layers before "
        "this one, and they cannot learn. Use x as it comes."
    )

    def xhat(x, mean, root):
        return ((x - mean) / root).detach()


@of("LayerNorm")
class parameters_detached:
    label = "ln-mistake-detached-statistics"
    message = N_(
        "weight and bias are used without their graph (data or detach), so no gradient reaches "
        "them, and they will never be learnt. Use self.weight and self.bias themselves."
    )

    def gamma(layer, prepare):
        return layer.weight.detach()

    def beta(layer, prepare):
        return layer.bias.detach()


@of("LayerNorm")
class weight_detached:
    label = "ln-mistake-detached-statistics"
    message = N_(
        "weight is used without its graph (data or detach), so no gradient reaches it, and it will "
        "never be learnt. Use self.weight itself."
    )

    def gamma(layer, prepare):
        return layer.weight.detach()


@of("LayerNorm")
class mean_detached:
    label = "ln-mistake-detached-statistics"
    message = N_(
        "The output is right, its gradient is not: the mean is cut off from the graph (no_grad, "
        "detach, data or item). It depends on x, and so the term mean(dxhat) is missing in dx. "
        "Leave it in the graph."
    )

    def mean(xp, x, axis):
        return xp.mean(x.detach(), axis=axis, keepdims=True)


@of("LayerNorm")
class var_detached:
    label = "ln-mistake-detached-statistics"
    message = N_(
        "The output is right, its gradient is not: the variance is cut off from the graph "
        "(no_grad, detach, data or item). It depends on x, and so the term xhat·mean(dxhat·xhat) "
        "is missing in dx. Leave it in the graph."
    )

    def var(xp, x, mean, axis):
        return xp.mean((x - mean).detach() ** 2, axis=axis, keepdims=True)


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


# --- The backward pass ------------------------------------------------------------------------


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
class terms_without_keepdims:
    label = "ln-mistake-no-keepdims"
    message = N_(
        "The two means in dx have lost their last axis: shape (N,) instead of (N, 1). NumPy then "
        "lines them up with the features, which fails, or, for a square x, silently uses those of "
        "other rows. Pass keepdims=True."
    )

    def mean_term(xp, dxhat, axis):
        return xp.mean(dxhat, axis=axis)

    def xhat_term(xp, dxhat, xhat, axis):
        return xhat * xp.mean(dxhat * xhat, axis=axis)


@of("layer_norm_backward")
class dy_changed_in_place:
    label = "ln-code"
    message = N_(
        "dy *= gamma writes into the array of the caller, and what you compute from dy afterwards, "
        "dgamma and dbeta, then contains gamma. Make a new array: dxhat = dy * gamma."
    )

    def dxhat(dy, gamma):
        dy *= gamma
        return dy


@of("layer_norm_backward")
class dx_returned_last:
    label = "ln-backward"
    message = N_(
        "The gradients are returned in another order: dgamma, dbeta, dx. The task asks for dx, "
        "dgamma, dbeta: the first is what goes on to the layer before."
    )

    def returned(dx, dgamma, dbeta):
        return dgamma, dbeta, dx


# --- What stays invariant ---------------------------------------------------------------------


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
    met = N_(
        "A transcript of the table of invariances in the paper on RMSNorm, copied on many pages."
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


@of("layer_norm_invariance")
class norm_left_out:
    label = "ln-mistake-compared-with-input"
    message = N_(
        "unchanged compares change(x) with x: the norm is not applied. The question is whether the "
        "change can be seen in its output: compare norm(change(x)) with norm(x)."
    )

    def unchanged():
        return lambda norm, change, x: np.allclose(change(x), x)


@of("layer_norm_invariance")
class output_changed:
    label = "ln-mistake-order-tested"
    message = N_(
        "unchanged compares change(norm(x)) with norm(x): the change is made to the output. It "
        "must be made to the input, and the norm applied after it: compare norm(change(x)) with "
        "norm(x)."
    )

    def unchanged():
        return lambda norm, change, x: np.allclose(change(norm(x)), norm(x))


@of("layer_norm_invariance")
class always_false:
    label = "ln-invariance"
    message = N_(
        "unchanged gives the same answer for every norm and every change. It must find out: "
        "compute both outputs, with the change and without it, and compare them up to rounding."
    )

    def unchanged():
        return lambda norm, change, x: False


@of("layer_norm_invariance")
class always_true:
    label = "ln-invariance"
    message = always_false.message

    def unchanged():
        return lambda norm, change, x: True


@of("layer_norm_invariance")
class answer_reversed:
    label = "ln-invariance"
    message = N_(
        "unchanged says the contrary: True where the output changes. Two outputs that are equal up "
        "to rounding are unchanged: leave out the not before np.allclose."
    )

    def unchanged():
        return lambda norm, change, x: not np.allclose(norm(change(x)), norm(x))


@of("layer_norm_invariance")
class rise_without_abs:
    label = "ln-invariance"
    message = N_(
        "unchanged takes the largest difference with its sign: if all entries of the output move "
        "to one side, that is below any tolerance. Take np.abs of the difference before its "
        "maximum, or use np.allclose."
    )

    def unchanged():
        return lambda norm, change, x: bool((norm(change(x)) - norm(x)).max() < 1e-8)


@of("layer_norm_invariance")
class fall_without_abs:
    label = "ln-invariance"
    message = rise_without_abs.message

    def unchanged():
        return lambda norm, change, x: bool((norm(x) - norm(change(x))).max() < 1e-8)


@of("layer_norm_invariance")
class too_tolerant:
    label = "ln-mistake-exact-equality"
    message = N_(
        "The tolerance is too large: a difference of 0.05 counts as rounding. Rounding errors are "
        "about 1e-16 times as large as the numbers: np.allclose(a, b) alone will do."
    )

    def unchanged():
        return lambda norm, change, x: np.allclose(norm(change(x)), norm(x), atol=0.1)


@of("layer_norm_invariance")
class own_layer_norm:
    label = "ln-invariance"
    message = N_(
        "unchanged calls layer_norm, whatever norm it is given. It must work for any norm: call "
        "its argument, norm(change(x)) and norm(x)."
    )

    def unchanged():
        norm = layer_norm(FORWARD)
        return lambda _norm, change, x: np.allclose(norm(change(x)), norm(x))


@of("layer_norm_invariance")
class own_layer_norm_without_eps:
    label = "ln-invariance"
    message = own_layer_norm.message

    def unchanged():
        norm = layer_norm(FORWARD)
        return lambda _norm, change, x: np.allclose(norm(change(x), eps=0), norm(x, eps=0))
