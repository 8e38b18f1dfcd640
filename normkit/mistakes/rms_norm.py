"""RMSNorm, whole and partial, its gradients, what it makes of LayerNorm, folding; their mistakes.

All steps are NumPy. Of a token of D features, those that are `counted` make its mean square.
"""

import math
from collections.abc import Callable

import numpy as np

from normkit.messages import N_
from normkit.mistakes.chains import ALGORITHMS, Algorithm, Steps, chain, of, run


@chain
class RMS:
    def axis():
        return -1

    def counted(x):
        return x

    def squares(counted):
        return counted**2

    def mean_square(squares, axis):
        return np.mean(squares, axis=axis, keepdims=True)

    def rms(mean_square, eps):
        return np.sqrt(mean_square + eps)

    def xhat(x, rms):
        return x / rms


@chain
class OUTPUT:
    def y(gamma, xhat):
        return gamma * xhat


@chain
class FIRST:
    def k(x, p):
        return math.ceil(p * x.shape[-1])

    def counted(x, k):
        return x[..., :k]


@chain
class CAST:
    def counted(x):
        return x.astype(np.float32)

    def cast(y, x):
        return y.astype(x.dtype)


@chain
class DX:
    def dxhat(dy, gamma):
        return dy * gamma

    def projection(dxhat, xhat, axis):
        return np.mean(dxhat * xhat, axis=axis, keepdims=True)

    def xhat_term(xhat, projection):
        return xhat * projection

    def dx(dxhat, xhat_term, rms):
        return (dxhat - xhat_term) / rms


@chain
class DGAMMA:
    def tokens(x):
        return tuple(range(x.ndim - 1))

    def dgamma(dy, xhat, tokens):
        return np.sum(dy * xhat, axis=tokens)


@chain
class PARTIAL_GRADIENTS:
    def projection(dxhat, xhat, k, axis):
        return np.sum(dxhat * xhat, axis=axis, keepdims=True) / k

    def xhat_term(xhat, projection, k):
        return np.where(np.arange(xhat.shape[-1]) < k, xhat * projection, 0)


@chain
class FROM_RMS:
    def over():
        return -1

    def mean(x, over):
        return np.mean(x, axis=over, keepdims=True)

    def centred(x, mean):
        return x - mean

    def scaled(rms_norm, centred, gamma, eps):
        return rms_norm(centred, gamma, eps)

    def shifted(scaled, beta):
        return scaled + beta


@chain
class AFFINE:
    def new_weight(weight, gamma):
        return weight * gamma

    def new_bias(bias, weight, beta):
        return bias + weight @ beta


@chain
class CENTRING:
    def new_weight(weight):
        return weight - np.mean(weight, axis=0)

    def new_bias(bias):
        return bias - np.mean(bias)


def _rms_norm(steps: Steps) -> Callable:
    def rms_norm(x, gamma, eps=1e-5):
        return run(steps, x=x, gamma=gamma, eps=eps)["y"]

    return rms_norm


def _partial_rms_norm(steps: Steps) -> Callable:
    def partial_rms_norm(x, gamma, p, eps=1e-5):
        return run(steps, x=x, gamma=gamma, p=p, eps=eps)["y"]

    return partial_rms_norm


def _half_rms_norm(steps: Steps) -> Callable:
    def half_rms_norm(x, gamma, eps=1e-5):
        return run(steps, x=x, gamma=gamma, eps=eps)["cast"]

    return half_rms_norm


def _rms_norm_backward(steps: Steps) -> Callable:
    def rms_norm_backward(dy, x, gamma, eps=1e-5):
        done = run(steps, dy=dy, x=x, gamma=gamma, eps=eps)
        return done.get("dx"), done.get("dgamma")  # None if the chain is only that of the other

    return rms_norm_backward


def _partial_rms_norm_backward(steps: Steps) -> Callable:
    def partial_rms_norm_backward(dy, x, gamma, p, eps=1e-5):
        done = run(steps, dy=dy, x=x, gamma=gamma, p=p, eps=eps)
        return done["dx"], done["dgamma"]

    return partial_rms_norm_backward


def _layer_norm_from_rms_norm(steps: Steps) -> Callable:
    def layer_norm(x, gamma, beta, eps, rms_norm):
        given = dict(x=x, gamma=gamma, beta=beta, eps=eps, rms_norm=rms_norm)
        return run(steps, **given)["shifted"]

    return layer_norm


def _fold_affine(steps: Steps) -> Callable:
    def fold_affine(weight, bias, gamma, beta):
        done = run(steps, weight=weight, bias=bias, gamma=gamma, beta=beta)
        return done["new_weight"], done["new_bias"]

    return fold_affine


def _fold_centring(steps: Steps) -> Callable:
    def fold_centring(weight, bias):
        done = run(steps, weight=weight, bias=bias)
        return done["new_weight"], done["new_bias"]

    return fold_centring


BACKWARD = RMS | DX | DGAMMA

ALGORITHMS |= {
    name: Algorithm(steps, assemble, f"rms_norm#{place}", "rms", tuple(contains))
    for name, steps, assemble, place, *contains in (
        ("rms_norm", RMS | OUTPUT, _rms_norm, "rms-formula"),
        # FIRST twice: k comes before what needs it, and its `counted` replaces the other
        (
            "partial_rms_norm",
            FIRST | RMS | OUTPUT | FIRST,
            _partial_rms_norm,
            "rms-partial",
            "rms_norm",
        ),
        ("half_rms_norm", RMS | OUTPUT | CAST, _half_rms_norm, "rms-half", "rms_norm"),
        ("rms_norm_backward", BACKWARD, _rms_norm_backward, "rms-backward", "rms_norm"),
        ("rms_norm_dx", RMS | DX, _rms_norm_backward, "rms-backward", "rms_norm_backward"),
        ("rms_norm_dgamma", RMS | DGAMMA, _rms_norm_backward, "rms-backward", "rms_norm_backward"),
        (
            "partial_rms_norm_backward",
            FIRST | BACKWARD | FIRST | PARTIAL_GRADIENTS,
            _partial_rms_norm_backward,
            "rms-partial",
            "partial_rms_norm",
            "rms_norm_backward",
        ),
        ("layer_norm_from_rms_norm", FROM_RMS, _layer_norm_from_rms_norm, "rms-formula"),
        ("fold_affine", AFFINE, _fold_affine, "rms-folding"),
        ("fold_centring", CENTRING, _fold_centring, "rms-folding"),
    )
}


# --- Which mean, of which numbers -------------------------------------------------------------


@of("rms_norm")
class layer_norm_instead:
    message = N_(
        "The mean is subtracted, in the numerator and in the root: this is layer normalisation. "
        "RMSNorm subtracts none. For [1, 7, 5, 5] it gives [0.2, 1.4, 1, 1], layer normalisation "
        "[-1.61, 1.15, 0.23, 0.23]."
    )

    def squares(counted, axis):
        return (counted - np.mean(counted, axis=axis, keepdims=True)) ** 2

    def xhat(x, rms, axis):
        return (x - np.mean(x, axis=axis, keepdims=True)) / rms


@of("rms_norm")
class standard_deviation:
    message = N_(
        "x is divided by its standard deviation. RMSNorm divides by the root of the mean of x², "
        "from which no mean is subtracted: for [1, 7, 5, 5] by 5, not by 2.18. In a token of "
        "equal features the standard deviation is 0."
    )

    def squares(counted, axis):
        return (counted - np.mean(counted, axis=axis, keepdims=True)) ** 2


@of("rms_norm")
class numerator_centred:
    message = N_(
        "The numerator is x minus its mean. RMSNorm subtracts no mean: a constant added to all "
        "features is seen in the output. [1, 7, 5, 5] becomes [0.2, 1.4, 1, 1], not [-0.7, 0.5, "
        "0.1, 0.1]."
    )

    def xhat(x, rms, axis):
        return (x - np.mean(x, axis=axis, keepdims=True)) / rms


@of("rms_norm")
class squares_summed:
    message = N_(
        "The squares are summed, but the sum is not divided by their number: x is divided by "
        "its length (L2 norm). The output is √D times too small, for D = 4 by the factor 2. The "
        "M of RMS is a mean."
    )

    def mean_square(squares, axis):
        return np.sum(squares, axis=axis, keepdims=True)


@of("rms_norm")
class divided_by_one_less:
    message = N_(
        "The sum of the squares is divided by D - 1. The M of RMS is a mean: divide by D. (D - 1 "
        "belongs to a variance that is estimated from a sample.) For D = 4 your output is 0.866 "
        "times the right one."
    )

    def mean_square(squares, axis):
        return np.sum(squares, axis=axis, keepdims=True) / (squares.shape[-1] - 1)


@of("rms_norm")
class divided_by_len:
    message = N_(
        "The sum of the squares is divided by len(x), the length of the first axis: for a batch "
        "that is the number of tokens, not of features. Take the mean over axis=-1, which "
        "divides by the right number by itself."
    )

    def mean_square(squares, x, axis):
        return np.sum(squares, axis=axis, keepdims=True) / len(x)


@of("rms_norm")
class mean_of_absolute:
    message = N_(
        "x is divided by the mean of its absolute values, for [1, 7, 5, 5] by 4.5. The RMS is "
        "5: square the features, take the mean, 100/4, and then the root."
    )

    def mean_square(counted, axis):
        return np.mean(np.abs(counted), axis=axis, keepdims=True) ** 2


@of("rms_norm")
class square_of_mean:
    message = N_(
        "The mean is squared, mean(x)², instead of the squares averaged, mean(x²). Positive and "
        "negative features then cancel: [1, -1] is divided by the root of eps alone. Square first."
    )

    def squares(counted):
        return counted

    def mean_square(squares, axis):
        return np.mean(squares, axis=axis, keepdims=True) ** 2


@of("rms_norm")
class rms_over_batch:
    message = N_(
        "The mean square is taken over axis 0, the examples. Each token must be divided by the "
        "RMS of its own features, axis=-1; otherwise the output of one example depends on its "
        "neighbours in the batch."
    )

    def axis():
        return 0


@of("rms_norm")
class rms_of_all:
    message = N_(
        "One RMS serves the whole array, all tokens together. Each token needs its own, over "
        "axis=-1: otherwise a token with large features makes the output of all the others small."
    )

    def axis(x):
        return tuple(range(x.ndim))


@of("rms_norm")
class rms_of_sequence:
    message = N_(
        "The mean square runs over all axes but the first. For (N, D) that is right, but in a "
        "sequence (N, T, D) the T tokens then share one RMS, and a token sees those that follow "
        "it. Use axis=-1."
    )

    def axis(x):
        return tuple(range(1, x.ndim))


@of("rms_norm")
class rms_over_axis_1:
    message = N_(
        "The mean square is taken over axis 1. For (N, D) that is the last axis, but in a batch "
        "of sequences (N, T, D) it is that of the tokens, and a single token (D,) has no axis 1. "
        "The features are the last axis: axis=-1."
    )

    def axis():
        return 1


@of("rms_norm")
class rms_without_keepdims:
    message = N_(
        "The RMS has lost its last axis: shape (N,) instead of (N, 1). NumPy then lines it up "
        "with the features, which fails, or, for a square x, silently divides by the RMS of "
        "other tokens. Pass keepdims=True."
    )

    def mean_square(squares, axis):
        return np.mean(squares, axis=axis)


@of("rms_norm")
class rms_as_column:
    message = N_(
        "The mean square is made a column of shape (N, 1). That fits a batch (N, D), but "
        "neither a single token (D,) nor a batch of sequences (N, T, D). keepdims=True keeps the "
        "last axis, whatever the number of axes."
    )

    def mean_square(squares):
        return np.mean(squares, axis=-1)[:, None]


@of("rms_norm")
class rms_as_column_by_reshape:
    message = rms_as_column.message

    def mean_square(squares):
        return np.mean(squares, axis=-1).reshape(-1, 1)


# --- The root and what follows ----------------------------------------------------------------


@of("rms_norm")
class mean_square_without_root:
    message = N_(
        "x is divided by its mean square (MSE) instead of the root of it (RMS). The unit of x "
        "does not cancel: twice as large an x gives half the output. Divide by "
        "sqrt(mean(x²) + eps)."
    )
    met = N_("Teaching notes ask why the mean square was chosen.")

    def rms(mean_square, eps):
        return mean_square + eps


@of("rms_norm")
class eps_added_to_rms:
    message = N_(
        "eps is added to the RMS; it belongs inside the root: sqrt(mean(x²) + eps). Outside, it "
        "hardly protects: with eps = 1e-5, values of ±0.0001 become ±0.909 instead of ±0.032. "
        "(The authors' own code has 1e-8 outside.)"
    )
    met = N_(
        "The PyTorch program of the authors, where it is part of their definition; most "
        "libraries write eps inside the root."
    )

    def rms(mean_square, eps):
        return np.sqrt(mean_square) + eps


@of("rms_norm")
class eps_added_to_xhat:
    message = N_(
        "eps is added after the division; it belongs inside the root: sqrt(mean(x²) + eps). "
        "Afterwards it only shifts every number a little, and a token of zeros is still 0/0, "
        "which is nan. Mind the brackets."
    )

    def rms(mean_square):
        return np.sqrt(mean_square)

    def xhat(x, rms, eps):
        return x / rms + eps


@of("rms_norm")
class eps_added_to_y:
    message = eps_added_to_xhat.message

    def rms(mean_square):
        return np.sqrt(mean_square)

    def y(gamma, xhat, eps):
        return gamma * xhat + eps


@of("rms_norm")
class eps_subtracted:
    message = N_(
        "eps is subtracted from the mean square; it must be added. For small features the "
        "difference is negative and the root nan, just where eps should keep the division finite."
    )
    met = N_("A page whose formula was garbled.")

    def rms(mean_square, eps):
        return np.sqrt(mean_square - eps)


@of("rms_norm")
class rms_without_eps:
    message = N_(
        "eps is not used. A token of zeros gives 0/0, which is nan, and a nearly empty one is "
        "blown up to size 1. The equation of the paper has no eps, but programs need one: divide "
        "by sqrt(mean(x²) + eps)."
    )

    def rms(mean_square):
        return np.sqrt(mean_square)


@of("rms_norm")
class rms_fixed_eps:
    message = N_(
        "The argument eps has no effect: 1e-5 is used whatever the caller asks for. Trained "
        "models differ in it, and weights only fit the one that they were trained with. Use eps "
        "itself."
    )

    def rms(mean_square):
        return np.sqrt(mean_square + 1e-5)


@of("rms_norm")
class multiplied_by_rms:
    message = N_(
        "x is multiplied by its RMS; it must be divided, so that a factor on all features "
        "cancels. (rsqrt is 1/sqrt.) [3, 4] becomes [0.85, 1.13]."
    )

    def xhat(x, rms):
        return x * rms


@of("rms_norm")
class rms_gamma_forgotten:
    message = N_(
        "gamma has no effect. Without it all outputs keep the same scale, and the layer cannot "
        "give one feature more weight than another. The last line is gamma * xhat. (With gamma = "
        "1 nobody would notice: test with other values.)"
    )

    def y(xhat):
        return xhat


@of("rms_norm")
class gamma_before_rms:
    message = N_(
        "gamma multiplies x before the RMS is taken, which is then that of gamma * x. Divide x "
        "by its own RMS, and multiply by gamma only after that. (With gamma = 1 nobody would "
        "notice.)"
    )

    def squares(counted, gamma):
        return (gamma[: counted.shape[-1]] * counted) ** 2


@of("rms_norm")
class one_plus_gamma:
    message = N_(
        "The factor is 1 + gamma. Gemma has it, with a gamma that starts at 0. Here gamma is the "
        "factor itself and starts at 1: your output would start twice too large. Weights of one "
        "convention do not fit the other."
    )

    def y(gamma, xhat):
        return (1 + gamma) * xhat


@of("rms_norm")
class rms_gamma_on_wrong_axis:
    message = N_(
        "gamma is spread along the wrong axis: one number per token instead of one per feature. "
        "That fails unless x is square, and then it is silently wrong. A gamma of shape (D,) "
        "needs no reshaping: NumPy lines it up with the last axis."
    )

    def y(gamma, xhat):
        return gamma[:, None] * xhat


@of("rms_norm")
class subtracted_from_x:
    message = N_(
        "The normalised x is subtracted from x. Some pages show RMSNorm so; there is no "
        "difference in it, only x divided by its RMS and multiplied by gamma. The residual sum "
        "x + F(norm(x)) is made outside the norm, and adds."
    )
    met = N_("A page that writes the residual connection minus the norm.")

    def y(x, gamma, xhat):
        return x - gamma * xhat


# --- Partial ----------------------------------------------------------------------------------


@of("partial_rms_norm")
class k_rounded_down:
    message = N_(
        "k is p·D rounded down. It is rounded up, k = ⌈p·D⌉ (math.ceil): for D = 3 and p = 0.4, "
        "k is 2, not 1. Rounded down it may even be 0, and the mean of no numbers is nan."
    )

    def k(x, p):
        return math.floor(p * x.shape[-1])


@of("partial_rms_norm")
class k_rounded_to_nearest:
    message = N_(
        "k is p·D rounded to the nearest number. It is rounded up, k = ⌈p·D⌉ (math.ceil): for "
        "D = 3 and p = 0.4, k is 2, not 1."
    )

    def k(x, p):
        return round(p * x.shape[-1])


@of("partial_rms_norm")
class k_rounded_down_to_1_or_more:
    message = N_(
        "k is p·D rounded down, but at least 1. It is rounded up, k = ⌈p·D⌉ (math.ceil), and so "
        "never 0: for D = 3 and p = 0.4, k is 2, not 1."
    )

    def k(x, p):
        return max(1, math.floor(p * x.shape[-1]))


@of("partial_rms_norm")
class k_one_too_large:
    message = N_(
        "k is p·D rounded down, plus 1. That is one too many where p·D is a whole number: for "
        "D = 4 and p = 0.5, k is 2, not 3. math.ceil rounds up and leaves whole numbers alone."
    )

    def k(x, p):
        return math.floor(p * x.shape[-1]) + 1


@of("partial_rms_norm")
class k_of_tokens:
    message = N_(
        "k is the share p of len(x), the number of tokens. It is a share of the features: "
        "k = ⌈p·D⌉, where D = x.shape[-1] is the length of the last axis. Only for a single token "
        "are the two the same."
    )

    def k(x, p):
        return math.ceil(p * len(x))


@of("partial_rms_norm")
class last_features:
    message = N_(
        "The mean square is that of the last k features; it is that of the first k: x[..., :k]. "
        "Both would serve, but weights only fit the choice they were trained with."
    )

    def counted(x, k):
        return x[..., -k:]


@of("partial_rms_norm")
class p_without_effect:
    message = N_(
        "p has no effect: the mean square is that of all features. Only the first k = ⌈p·D⌉ are "
        "counted. For [3, 4, 0, 12] and p = 0.5, x is divided by 3.54, not by 6.5."
    )

    def counted(x):
        return x


@of("partial_rms_norm")
class first_tokens:
    message = N_(
        "x[:k] cuts the first axis, the examples, and takes k of them. The first k features of "
        "each token are x[..., :k]; for a single token of shape (D,) the two are the same."
    )

    def counted(x, k):
        return x[:k]


@of("partial_rms_norm")
class second_axis_cut:
    message = N_(
        "x[:, :k] cuts axis 1. In a batch of sequences (N, T, D) these are tokens, and a single "
        "token (D,) has no axis 1. The first k features are x[..., :k], whatever the number of "
        "axes."
    )

    def counted(x, k):
        return x[:, :k]


@of("partial_rms_norm")
class divided_by_all:
    message = N_(
        "The sum of the squares of the first k features is divided by D. The mean of k numbers "
        "divides by k. As it is the output is √(D/k) times too large: for half of the features, "
        "by the factor 1.41."
    )

    def mean_square(squares, x, axis):
        return np.sum(squares, axis=axis, keepdims=True) / x.shape[-1]


@of("partial_rms_norm")
class divided_by_share:
    message = N_(
        "The sum of the squares of the first k features is divided by p·D, which need not be "
        "whole. The mean of k numbers divides by k = ⌈p·D⌉: for D = 3 and p = 0.4 by 2, not by "
        "1.2."
    )

    def mean_square(squares, x, p, axis):
        return np.sum(squares, axis=axis, keepdims=True) / (p * x.shape[-1])


@of("partial_rms_norm")
class rest_not_divided:
    message = N_(
        "Only the first k features are divided by the RMS, the rest stays as it is. They stand "
        "for the whole token: all D features are divided by the RMS of the first k. [3, 4, 0, "
        "12] with p = 0.5 ends in 3.39, not 12."
    )

    def xhat(x, rms, k):
        return np.concatenate([x[..., :k] / rms, x[..., k:]], axis=-1)


@of("partial_rms_norm")
class rest_dropped:
    message = N_(
        "Only the first k features are returned. The output has the shape of x: the first k only "
        "measure the RMS, by which all D are divided."
    )

    def xhat(x, rms, k):
        return x[..., :k] / rms

    def y(gamma, xhat, k):
        return gamma[:k] * xhat


@of("partial_rms_norm")
class gamma_on_first:
    message = N_(
        "Only the first k features are multiplied by gamma. They alone measure the RMS, but the "
        "division and gamma are for all D features: gamma * x / RMS."
    )

    def y(gamma, xhat, k):
        return np.concatenate([gamma[:k] * xhat[..., :k], xhat[..., k:]], axis=-1)


# --- Half precision ---------------------------------------------------------------------------


@of("half_rms_norm")
class squares_in_half:
    message = N_(
        "The squares are float16, which ends at 65504: 300² is inf, and x divided by inf is 0. At "
        "the other end 0.0001² is 0. Widen x first, x.astype(np.float32), and square then."
    )

    def counted(x):
        return x


@of("half_rms_norm")
class squares_clipped:
    message = N_(
        "The squares are float16 and cut off at 65504. That prevents inf, but each feature "
        "beyond 256 then counts as 256, and 0.0001² is still 0. Widen x first, "
        "x.astype(np.float32), and square then."
    )

    def counted(x):
        return x

    def squares(counted):
        return np.clip(counted**2, None, 65504)


@of("half_rms_norm")
class divided_by_largest:
    message = N_(
        "x is divided by its largest absolute value first. That prevents inf, but eps is then "
        "added to another mean square, which shows where x is small, and a token of zeros is "
        "0/0. Square x itself, in float32: x.astype(np.float32)."
    )

    def counted(x):
        return x.astype(np.float32) / np.max(np.abs(x), axis=-1, keepdims=True)

    def xhat(counted, rms):
        return counted / rms


@of("half_rms_norm")
class sum_in_half:
    message = N_(
        "The squares are summed in float16, which ends at 65504: 1000 squares of 10 are beyond "
        "it, though none of them is. np.mean adds in float32, np.sum does not unless told so. "
        "Square and add in float32."
    )

    def counted(x):
        return x

    def mean_square(squares, axis):
        return np.sum(squares, axis=axis, keepdims=True) / squares.shape[-1]


@of("half_rms_norm")
class mean_square_in_half:
    message = N_(
        "The mean square is computed in float32 but rounded to float16 before the root. It goes "
        "with the square of x: from 256 on it is inf in float16, below 0.0001 it is 0. Take the "
        "root and divide in float32; round once, at the end."
    )

    def mean_square(squares, axis):
        return np.mean(squares, axis=axis, keepdims=True).astype(np.float16)


@of("half_rms_norm")
class product_in_half:
    message = N_(
        "gamma * x is formed in float16, before the division. It may be beyond 65504 where the "
        "normalised value is near 1. Divide first, in float32, then multiply."
    )

    def y(gamma, x, rms):
        return (gamma * x) / rms


@of("half_rms_norm")
class not_cast_back:
    message = N_(
        "The result stays in float32. Only the computation needs it: the result has the dtype of "
        "x, float16, or the rest of the network runs in float32 from here on, with twice the "
        "memory. Finish with .astype(x.dtype)."
    )

    def cast(y):
        return y


# --- The backward pass ------------------------------------------------------------------------


@of("rms_norm_backward")
class detached_rms:
    message = N_(
        "dx = dy·gamma/RMS treats the RMS as a constant. It depends on x, hence the second term, "
        "xhat·mean(dxhat·xhat). Test: for dy = x and gamma = 1, dx must be 0 (up to eps), for a "
        "factor on x changes nothing."
    )

    def dx(dxhat, rms):
        return dxhat / rms


@of("rms_norm_backward")
class projection_added:
    message = N_(
        "xhat·mean(dxhat·xhat) is added in dx; it must be subtracted: dx is what is left of "
        "dxhat without its part along xhat. For dy = x and gamma = 1 it is 0 (up to eps)."
    )

    def dx(dxhat, xhat_term, rms):
        return (dxhat + xhat_term) / rms


@of("rms_norm_backward")
class mean_term_kept:
    message = N_(
        "dx contains mean(dxhat), as in layer normalisation. That term is the gradient through "
        "the mean, and RMSNorm subtracts no mean: leave it out. dx need not sum to 0."
    )

    def dx(dxhat, xhat_term, rms):
        return (dxhat - np.mean(dxhat, axis=-1, keepdims=True) - xhat_term) / rms


@of("rms_norm_backward")
class projection_summed:
    message = N_(
        "The products dxhat·xhat are summed over the features; their mean is needed. The "
        "derivative of mean(x²) brings a 1/D. Your second term is D times too large."
    )

    def dx(dxhat, xhat_term, rms, counted):
        return (dxhat - xhat_term * counted.shape[-1]) / rms


@of("rms_norm_backward")
class projection_doubled:
    message = N_(
        "The second term of dx is twice too large. The derivative of x² brings a factor 2, that "
        "of the root a factor 1/2: they cancel. Test: for dy = x and gamma = 1, dx must be 0 "
        "(up to eps)."
    )

    def dx(dxhat, xhat_term, rms):
        return (dxhat - 2 * xhat_term) / rms


@of("rms_norm_backward")
class x_instead_of_xhat:
    message = N_(
        "The second term of dx is made with x: x·mean(dxhat·x). It takes xhat = x/RMS in both "
        "places: xhat·mean(dxhat·xhat). (Where the RMS is 1 nobody would notice.)"
    )

    def dx(dxhat, xhat_term, rms):
        return (dxhat - rms**2 * xhat_term) / rms  # rms * xhat is x


@of("rms_norm_backward")
class x_for_one_xhat:
    message = N_(
        "In the second term of dx, x stands in one of the two places of xhat = x/RMS. It is "
        "xhat·mean(dxhat·xhat): as it is, your term is RMS times too large. (Where the RMS is 1 "
        "nobody would notice.)"
    )

    def dx(dxhat, xhat_term, rms):
        return (dxhat - rms * xhat_term) / rms  # rms * xhat is x


@of("rms_norm_backward")
class projection_of_all:
    message = N_(
        "One mean of dxhat·xhat serves all tokens. The RMS of a token depends on its own "
        "features alone, so each token needs its own mean: over axis=-1, with keepdims=True."
    )

    def projection(dxhat, xhat):
        return np.mean(dxhat * xhat)


@of("rms_norm_backward")
class projection_over_batch:
    message = N_(
        "In dx, mean(dxhat·xhat) is taken over axis 0, the examples. The RMS of a token depends "
        "on its own features alone: the mean is over these, axis=-1, with keepdims=True."
    )

    def projection(dxhat, xhat):
        return np.mean(dxhat * xhat, axis=0)


@of("rms_norm_backward")
class projection_without_keepdims:
    message = N_(
        "mean(dxhat·xhat) has lost its last axis: shape (N,) instead of (N, 1). NumPy then lines "
        "it up with the features, which fails, or, for a square x, silently takes the means of "
        "other tokens. Pass keepdims=True."
    )

    def projection(dxhat, xhat, axis):
        return np.mean(dxhat * xhat, axis=axis)


@of("rms_norm_backward")
class division_forgotten:
    message = N_(
        "dx lacks the division by the RMS. The forward pass divides by sqrt(mean(x²) + eps), so "
        "does the backward pass: where x is large, the gradient is small."
    )

    def dx(dxhat, xhat_term):
        return dxhat - xhat_term


@of("rms_norm_backward")
class rms_gamma_forgotten_in_dx:
    message = N_(
        "gamma is missing in dx. The output is gamma * xhat, so the gradient at xhat is dxhat = "
        "dy * gamma, not dy. (With gamma = 1 nobody would notice.)"
    )

    def dxhat(dy):
        return dy


@of("rms_norm_backward")
class gamma_forgotten_in_projection:
    message = N_(
        "gamma is missing in the second term of dx. What arrives at xhat is dxhat = dy * gamma, "
        "in both terms: xhat·mean(dxhat·xhat), not xhat·mean(dy·xhat). (With gamma = 1 nobody "
        "would notice.)"
    )

    def projection(dy, xhat, axis, counted):
        return np.sum(dy * xhat, axis=axis, keepdims=True) / counted.shape[-1]


@of("rms_norm_backward")
class gamma_outside_projection:
    message = N_(
        "In dx, gamma multiplies the whole bracket. Each feature has its own gamma, so it does "
        "not pass through the mean over the features: it belongs inside, dxhat = dy * gamma, "
        "before mean(dxhat·xhat)."
    )

    def dxhat(dy):
        return dy

    def dx(gamma, dxhat, xhat_term, rms):
        return gamma * (dxhat - xhat_term) / rms


@of("rms_norm_backward")
class dgamma_without_product:
    message = N_(
        "dgamma sums dy alone. gamma multiplies xhat, so its gradient is the sum of dy * xhat "
        "over all tokens. The sum of dy alone would be the gradient of a shift, which RMSNorm "
        "has not."
    )

    def dgamma(dy, tokens):
        return np.sum(dy, axis=tokens)


@of("rms_norm_backward")
class dgamma_of_x:
    message = N_(
        "dgamma sums dy * x. gamma multiplies the normalised xhat = x/RMS: its gradient is the "
        "sum of dy * xhat."
    )

    def dgamma(dy, x, tokens):
        return np.sum(dy * x, axis=tokens)


@of("rms_norm_backward")
class dgamma_of_dxhat:
    message = N_(
        "dgamma sums dxhat * xhat, and so contains gamma. The derivative of gamma * xhat with "
        "respect to gamma is xhat alone: sum dy * xhat."
    )

    def dgamma(dy, gamma, xhat, tokens):
        return np.sum(dy * gamma * xhat, axis=tokens)


@of("rms_norm_backward")
class dgamma_not_summed:
    message = N_(
        "dgamma has the shape of x: the sum is missing. One gamma serves all tokens, and each of "
        "them contributes: sum over every axis but the last."
    )

    def dgamma(dy, xhat):
        return dy * xhat


@of("rms_norm_backward")
class dgamma_averaged:
    message = N_(
        "dgamma is a mean over the tokens; it must be a sum. Each token adds its part to the "
        "loss. Where the loss is a mean, the division is already inside dy."
    )

    def dgamma(dy, xhat, tokens):
        return np.mean(dy * xhat, axis=tokens)


@of("rms_norm_backward")
class dgamma_over_features:
    message = N_(
        "dgamma is summed over the features, the last axis, and has one number per token. gamma "
        "has one number per feature, and the tokens share it: keep the last axis and sum over "
        "all the others."
    )

    def tokens():
        return -1


@of("rms_norm_backward")
class dgamma_over_first_axis:
    message = N_(
        "dgamma is summed over axis 0 only. For x of shape (N, T, D) it then has shape (T, D), "
        "but gamma has shape (D,). Sum over every axis but the last: tuple(range(x.ndim - 1))."
    )

    def tokens():
        return 0


@of("rms_norm_backward")
class gradients_swapped:
    message = N_(
        "The gradients are returned in the wrong order. dx, the gradient of x, comes first: "
        "return dx, dgamma."
    )

    def dx(dy, x, xhat):
        return np.sum(dy * xhat, axis=tuple(range(x.ndim - 1)))

    def dgamma(dxhat, xhat_term, rms):
        return (dxhat - xhat_term) / rms


@of("partial_rms_norm_backward")
class every_feature_projected:
    message = N_(
        "The second term of dx is subtracted from all features. The RMS depends on the first k "
        "only, so only these have it; for the rest dx is dxhat/RMS."
    )

    def xhat_term(xhat, projection):
        return xhat * projection


@of("partial_rms_norm_backward")
class projection_over_all:
    message = N_(
        "The sum of dxhat·xhat is divided by D. The 1/k of the mean of k squares stays in the "
        "derivative: divide by k."
    )

    def projection(dxhat, xhat, axis):
        return np.mean(dxhat * xhat, axis=axis, keepdims=True)


@of("partial_rms_norm_backward")
class projection_of_first:
    message = N_(
        "The products dxhat·xhat are summed over the first k features. All D outputs are divided "
        "by the RMS, so all of them send a gradient through it: sum over D, then divide by k."
    )

    def projection(dxhat, xhat, k, axis):
        return np.mean((dxhat * xhat)[..., :k], axis=axis, keepdims=True)


# --- Layer normalisation from RMSNorm ---------------------------------------------------------


@of("layer_norm_from_rms_norm")
class not_centred:
    message = N_(
        "The mean is not subtracted, so this is RMSNorm with a shift. To leave out the mean "
        "changes the output: [1, 7, 5, 5] gives [0.2, 1.4, 1, 1] instead of [-1.61, 1.15, 0.23, "
        "0.23]. Call rms_norm on x minus its mean."
    )

    def centred(x):
        return x


@of("layer_norm_from_rms_norm")
class centred_afterwards:
    message = N_(
        "The mean is subtracted after the normalisation. The RMS of x then still contains its "
        "mean, and the output is too small: [1, 7, 5, 5] gives [-0.7, 0.5, 0.1, 0.1]. Centre "
        "first, then the RMS is the standard deviation."
    )

    def centred(x):
        return x

    def scaled(rms_norm, centred, gamma, eps, over):
        y = rms_norm(centred, gamma, eps)
        return y - np.mean(y, axis=over, keepdims=True)


@of("layer_norm_from_rms_norm")
class rms_norm_not_used:
    message = N_(
        "The output is that of layer normalisation, but rms_norm has no part in it. The task is "
        "to write no root and no division: with the centred x, rms_norm does all the rest."
    )

    def scaled(centred, gamma, eps):
        return gamma * centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps)


@of("layer_norm_from_rms_norm")
class normalised_twice:
    message = N_(
        "x is divided by its standard deviation and then normalised again by rms_norm. The "
        "second division finds an RMS near 1, so that little is seen, but eps acts twice: it "
        "shows where x is small or eps large. Only centre x."
    )

    def centred(x, mean, eps):
        return (x - mean) / np.sqrt(np.var(x, axis=-1, keepdims=True) + eps)


@of("layer_norm_from_rms_norm")
class normalised_twice_without_eps:
    message = N_(
        "x is divided by its standard deviation and then normalised again by rms_norm. eps then "
        "joins a variance of 1 instead of that of x, and a token of equal features is 0/0. Only "
        "centre x."
    )

    def centred(x, mean):
        return (x - mean) / np.std(x, axis=-1, keepdims=True)


@of("layer_norm_from_rms_norm")
class mean_over_batch:
    message = N_(
        "The mean is taken over axis 0, the examples. Layer normalisation subtracts from each "
        "token the mean of its own features: axis=-1."
    )

    def over():
        return 0


@of("layer_norm_from_rms_norm")
class mean_over_axis_1:
    message = N_(
        "The mean is taken over axis 1. For (N, D) that is the last axis, but in a batch of "
        "sequences (N, T, D) it is that of the tokens, and a single token (D,) has no axis 1. "
        "The features are the last axis: axis=-1."
    )

    def over():
        return 1


@of("layer_norm_from_rms_norm")
class mean_of_all:
    message = N_(
        "One mean of the whole array is subtracted. Each token needs that of its own features: "
        "x.mean(axis=-1, keepdims=True). The RMS is that of a token already, and only with its "
        "own mean it becomes the standard deviation."
    )

    def over(x):
        return tuple(range(x.ndim))


@of("layer_norm_from_rms_norm")
class mean_without_keepdims:
    message = N_(
        "The mean has lost its last axis: shape (N,) instead of (N, 1). NumPy lines it up with "
        "the features, which fails, or, for a square x, subtracts the means of other tokens. "
        "Pass keepdims=True."
    )

    def mean(x, over):
        return np.mean(x, axis=over)


@of("layer_norm_from_rms_norm")
class gamma_twice:
    message = N_(
        "gamma acts twice: rms_norm multiplies by it, and so do you. Pass it to rms_norm, or "
        "multiply by it, not both. (With gamma = 1 nobody would notice.)"
    )

    def scaled(rms_norm, centred, gamma, eps):
        return gamma * rms_norm(centred, gamma, eps)


@of("layer_norm_from_rms_norm")
class eps_not_passed:
    message = N_(
        "eps does not reach rms_norm, which then takes its default, 1e-5. Pass it on: "
        "rms_norm(centred, gamma, eps). The eps of layer normalisation and that of RMSNorm stand "
        "in the same place."
    )

    def scaled(rms_norm, centred, gamma):
        return rms_norm(centred, gamma)


@of("layer_norm_from_rms_norm")
class beta_not_added:
    message = N_(
        "beta has no effect. RMSNorm has none, so it must be added after rms_norm. (With beta = "
        "0 nobody would notice: test with other values.)"
    )

    def shifted(scaled):
        return scaled


@of("layer_norm_from_rms_norm")
class beta_passed_through:
    message = N_(
        "beta is added before rms_norm, and is divided and multiplied with the rest. It is the "
        "last thing that happens: rms_norm(x - mean, gamma, eps) + beta."
    )

    def centred(x, mean, beta):
        return x - mean + beta

    def shifted(scaled):
        return scaled


@of("layer_norm_from_rms_norm")
class beta_times_gamma:
    message = N_(
        "beta is multiplied by gamma. It is added last, as it is: gamma acts on the normalised "
        "token alone. (With gamma = 1 or beta = 0 nobody would notice.)"
    )

    def shifted(scaled, gamma, beta):
        return scaled + gamma * beta


@of("layer_norm_from_rms_norm")
class affine_first:
    message = N_(
        "gamma and beta are applied before rms_norm, which then divides by the RMS of their "
        "result. They act on the normalised token: pass gamma to rms_norm, and add beta to what "
        "it returns."
    )

    def centred(x, mean, gamma, beta):
        return gamma * (x - mean) + beta

    def scaled(rms_norm, centred, gamma, eps):
        return rms_norm(centred, np.ones_like(gamma), eps)

    def shifted(scaled):
        return scaled


@of("layer_norm_from_rms_norm")
class affine_first_and_gamma_again:
    message = N_(
        "gamma and beta are applied before rms_norm, and gamma a second time in it. Give "
        "rms_norm the centred x as it is: gamma acts inside rms_norm, and beta is added to what "
        "it returns."
    )

    def centred(x, mean, gamma, beta):
        return gamma * (x - mean) + beta

    def shifted(scaled):
        return scaled


# --- Folding ----------------------------------------------------------------------------------
# torch keeps a weight as (outputs, inputs): gamma belongs to the inputs, axis 1


@of("fold_affine")
class gamma_on_rows:
    message = N_(
        "gamma multiplies the rows of the weight, the outputs. It scales what the linear layer "
        "reads: the columns, in NumPy weight * gamma. On the rows it only fits a square weight, "
        "and is silently wrong there."
    )

    def new_weight(weight, gamma):
        return weight * gamma[:, None]


@of("fold_affine")
class folded_into_previous:
    message = N_(
        "This folds gamma and beta into the linear layer before the norm: gamma on the rows of "
        "weight, and gamma * bias + beta. Between that layer and gamma stands the division by a "
        "number that differs from token to token. They go into the next layer."
    )
    met = N_(
        "Teaching notes fold even the division into the previous linear map. It is another "
        "number for each token, and fits in no fixed weight."
    )

    def new_weight(weight, gamma):
        return gamma[:, None] * weight

    def new_bias(bias, gamma, beta):
        return gamma * bias + beta


@of("fold_affine")
class weight_of_inputs_and_outputs:
    message = N_(
        "The weight is read as (inputs, outputs), as in Keras or Flax: gamma on the rows, and "
        "beta @ weight. Here it is torch's, (outputs, inputs): weight * gamma and weight @ beta. "
        "On a square weight nothing warns you."
    )

    def new_weight(weight, gamma):
        return weight * gamma[:, None]

    def new_bias(bias, weight, beta):
        return bias + beta @ weight


@of("fold_affine")
class weight_times_gamma:
    message = N_(
        "weight @ gamma is a matrix times a vector: it sums over the inputs and leaves one "
        "number per output. The new weight is a matrix whose columns are scaled: weight * gamma "
        "in NumPy, or weight @ np.diag(gamma)."
    )

    def new_weight(weight, gamma):
        return weight @ gamma


@of("fold_affine")
class gamma_not_folded:
    message = N_(
        "The weight stays as it was, so gamma is lost with the norm's parameters. Each input of "
        "the layer was multiplied by its gamma: multiply the columns of the weight instead."
    )

    def new_weight(weight):
        return weight


@of("fold_affine")
class divided_by_gamma:
    message = N_(
        "The weight is divided by gamma. The norm without its scale hands on xhat instead of "
        "gamma * xhat, so the weight must now do the multiplication: weight * gamma."
    )

    def new_weight(weight, gamma):
        return weight / gamma


@of("fold_affine")
class beta_not_folded:
    message = N_(
        "The bias stays as it was, so beta is lost. The linear layer made weight @ beta of it, "
        "the same vector for every token: add it to the bias. (RMSNorm has no beta, layer "
        "normalisation has.)"
    )

    def new_bias(bias):
        return bias


@of("fold_affine")
class beta_added_as_it_is:
    message = N_(
        "beta itself is added to the bias. It stood before the linear layer, which turns it into "
        "weight @ beta; only on a square weight do the shapes even fit."
    )

    def new_bias(bias, beta):
        return bias + beta


@of("fold_affine")
class beta_on_outputs:
    message = N_(
        "beta @ weight sums over the outputs, axis 0 of (outputs, inputs). beta belongs to the "
        "inputs: weight @ beta. On a square weight nothing warns you."
    )

    def new_bias(bias, weight, beta):
        return bias + beta @ weight


@of("fold_affine")
class beta_summed_over_outputs:
    message = N_(
        "weight * beta is right, but it is summed over axis 0, the outputs. Each output adds up "
        "what its inputs send: sum over axis 1, or weight @ beta. On a square weight nothing "
        "warns you."
    )

    def new_bias(bias, weight, beta):
        return bias + np.sum(weight * beta, axis=0)


@of("fold_affine")
class beta_not_summed:
    message = N_(
        "weight * beta is a matrix, which makes one of the bias. The linear layer adds up what "
        "its inputs send to each output: weight @ beta."
    )

    def new_bias(bias, weight, beta):
        return bias + weight * beta


@of("fold_affine")
class gamma_on_bias:
    message = N_(
        "gamma multiplies the old bias too. The bias is added after the linear layer, where "
        "gamma no longer acts: it stays as it is, plus weight @ beta. Only on a square weight do "
        "the shapes even fit."
    )

    def new_bias(bias, weight, gamma, beta):
        return bias * gamma + weight @ beta


@of("fold_affine")
class new_weight_on_beta:
    message = N_(
        "The new weight, with gamma in it, is applied to beta. beta is added after gamma, so it "
        "meets the old weight: bias + weight @ beta. Compute the new bias first, or keep the old "
        "weight."
    )

    def new_bias(bias, new_weight, beta):
        return bias + new_weight @ beta


@of("fold_affine")
class old_bias_lost:
    message = N_(
        "The new bias is weight @ beta alone; the bias that the layer had is lost. It is added "
        "after the product, and neither gamma nor beta changes it: bias + weight @ beta."
    )

    def new_bias(weight, beta):
        return weight @ beta


@of("fold_centring")
class centred_over_inputs:
    message = N_(
        "From each row of the weight its own mean is subtracted, over the inputs. What must have "
        "mean 0 is the output, for every input: subtract from each column its mean over the "
        "outputs, axis 0 of (outputs, inputs)."
    )

    def new_weight(weight):
        return weight - np.mean(weight, axis=1, keepdims=True)


@of("fold_centring")
class next_layer_centred:
    message = N_(
        "This centres what a layer reads: the rows of the weight, and no bias. It belongs to the "
        "layer after the norm, where it comes too late: the division by the standard deviation "
        "needs a centred x. Centre what the layer before it writes."
    )

    def new_weight(weight):
        return weight - np.mean(weight, axis=1, keepdims=True)

    def new_bias(bias):
        return bias


@of("fold_centring")
class one_mean_of_weight:
    message = N_(
        "One mean of the whole weight is subtracted. The mean of the outputs is a different "
        "number for each input: every column of (outputs, inputs) needs its own, axis=0."
    )

    def new_weight(weight):
        return weight - np.mean(weight)


@of("fold_centring")
class sum_of_outputs:
    message = N_(
        "The sum over the outputs is subtracted instead of their mean: the 1/D is missing. Test: "
        "the columns of the new weight must sum to 0."
    )

    def new_weight(weight):
        return weight - np.sum(weight, axis=0)


@of("fold_centring")
class weight_standardised:
    message = N_(
        "The columns of the weight are divided by their standard deviation too. Only the "
        "centring is the same for all tokens and fits into a weight; the division by the "
        "standard deviation of a token stays in the norm."
    )

    def new_weight(weight):
        return (weight - np.mean(weight, axis=0)) / np.std(weight, axis=0)


@of("fold_centring")
class bias_not_centred:
    message = N_(
        "The bias is not centred. It is part of the output whose mean is subtracted: with x = 0 "
        "the output is the bias, and it must have mean 0 as well: b - mean(b)."
    )

    def new_bias(bias):
        return bias


@of("fold_centring")
class bias_removed:
    message = N_(
        "The bias is set to 0. Before batch normalisation it would be useless; here only its "
        "mean over the features is removed, and the differences between them stay: b - mean(b)."
    )

    def new_bias(bias):
        return 0 * bias
