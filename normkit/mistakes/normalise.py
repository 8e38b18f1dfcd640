"""What all norms with a mean and a variance share: their steps, and the mistakes in these.

`axis`: what shares a mean and a variance, here the features of a token; `tokens`: what shares γ
and β, whose own axis is the last.
"""

from collections.abc import Callable

from array_api_compat import array_namespace

from normkit.messages import N_
from normkit.mistakes.chains import ALGORITHMS, Algorithm, Steps, chain, of, run


@chain
class FORWARD:
    def axis(x):
        return -1

    def mean(xp, x, axis):
        return xp.mean(x, axis=axis, keepdims=True)

    def var(xp, x, mean, axis):
        return xp.mean((x - mean) ** 2, axis=axis, keepdims=True)

    def root(xp, var, eps):
        return xp.sqrt(var + eps)

    def xhat(x, mean, root):
        return (x - mean) / root

    def scaled(gamma, xhat, beta):
        return gamma * xhat

    def y(scaled, beta):
        return scaled + beta


@chain
class GRADIENTS:
    def dxhat(dy, gamma):
        return dy * gamma

    def mean_term(xp, dxhat, axis):
        return xp.mean(dxhat, axis=axis, keepdims=True)

    def xhat_term(xp, dxhat, xhat, axis):
        return xhat * xp.mean(dxhat * xhat, axis=axis, keepdims=True)

    def dx(dxhat, mean_term, xhat_term, root):
        return (dxhat - mean_term - xhat_term) / root

    def tokens(x):
        return tuple(range(x.ndim - 1))

    def dgamma(xp, dy, xhat, tokens):
        return xp.sum(dy * xhat, axis=tokens)

    def dbeta(xp, dy, tokens):
        return xp.sum(dy, axis=tokens)


@chain
class RETURNED:
    def returned(dx, dgamma, dbeta):
        return dx, dgamma, dbeta


STATISTICS = {name: FORWARD[name] for name in ("axis", "mean", "var", "root", "xhat")}
BACKWARD = STATISTICS | GRADIENTS | RETURNED


def layer_norm(steps: Steps) -> Callable:
    def layer_norm(x, gamma=None, beta=None, eps=1e-5):
        xp = array_namespace(x)
        gamma = xp.ones(x.shape[-1]) if gamma is None else gamma
        beta = xp.zeros(x.shape[-1]) if beta is None else beta
        return run(steps, xp=xp, x=x, gamma=gamma, beta=beta, eps=eps)["y"]

    return layer_norm


def layer_norm_backward(steps: Steps) -> Callable:
    def layer_norm_backward(dy, x, gamma=None, eps=1e-5):
        xp = array_namespace(x)
        gamma = xp.ones(x.shape[-1]) if gamma is None else gamma
        return run(steps, xp=xp, dy=dy, x=x, gamma=gamma, eps=eps)["returned"]

    return layer_norm_backward


ALGORITHMS |= {
    name: Algorithm(steps, assemble, f"layer_norm#{place}", "ln", contains, book="layer_norm")
    for name, steps, assemble, place, *contains in (
        ("normalise", FORWARD, layer_norm, "ln-formula"),
        ("normalise_backward", BACKWARD, layer_norm_backward, "ln-backward", "normalise"),
    )
}


@of("normalise")
class unbiased_variance:
    message = N_(
        "The variance of n numbers divides by n - 1 instead of n. That estimates the variance of "
        "a population from a sample; a norm describes just these n numbers. With n = 3 the output "
        "is 18 % too small. In torch, var and std need correction=0; in NumPy, no ddof."
    )
    met = N_(
        "Two teaching notebooks call `std` of PyTorch, which divides by n - 1 unless told "
        "otherwise."
    )

    def var(xp, x, axis):
        return xp.var(x, axis=axis, correction=1, keepdims=True)


@of("normalise")
class sum_of_squares:
    message = N_(
        "The squared deviations are summed, but the sum is not divided by their number n. The "
        "variance is their mean. The output is √n times too small: for n = 3, by the factor 1.73."
    )

    def var(xp, x, mean, axis):
        return xp.sum((x - mean) ** 2, axis=axis, keepdims=True)


@of("normalise")
class mean_of_squares:
    label = "ln-formula"
    message = N_(
        "The mean of x² is used as the variance. It is larger by the square of the mean, so the "
        "output is too small. The variance is the mean of the squares of x - mean."
    )

    def var(xp, x, axis):
        return xp.mean(x**2, axis=axis, keepdims=True)


@of("normalise")
class one_pass_variance:
    message = N_(
        "The variance is mean(x²) - mean(x)²: right on paper, but it subtracts two large, "
        "nearly equal numbers. In float32, with values around 10 000, all digits cancel, and it "
        "may even be negative. Subtract the mean first, then average the squares."
    )

    def var(xp, x, mean, axis):
        return xp.mean(x**2, axis=axis, keepdims=True) - mean**2


@of("normalise")
class eps_outside_root:
    message = N_(
        "eps is added to the standard deviation; it belongs inside the root: sqrt(var + eps). "
        "Outside, it hardly protects: for values of ±0.0001 the output is ±0.909 instead of "
        "±0.032, so noise is blown up, and gradients with it."
    )
    met = N_(
        "Two teaching notebooks, and the PyTorch program of the authors of RMSNorm, where it is"
        " part of their definition."
    )

    def root(xp, var, eps):
        return xp.sqrt(var) + eps


@of("normalise")
class no_eps:
    message = N_(
        "eps is not used. Numbers that are all equal have variance 0, and 0/0 gives nan; nearly "
        "equal ones are blown up to size 1. Divide by sqrt(var + eps)."
    )
    met = N_("Two teaching documents: the formulas of one, the training code of the other.")

    def root(xp, var):
        return xp.sqrt(var)


@of("normalise")
class fixed_eps:
    message = N_(
        "The argument eps has no effect: 1e-5 is used whatever the caller asks for. Models are "
        "trained with different values, and weights only fit the one they were trained with. "
        "Use eps itself."
    )

    def root(xp, var):
        return xp.sqrt(var + 1e-5)


@of("normalise")
class no_root:
    message = N_(
        "The centred values are divided by the variance instead of its root. The output then "
        "has variance 1/σ² instead of 1, and the unit of x does not cancel. Divide by "
        "sqrt(var + eps)."
    )

    def root(var, eps):
        return var + eps


@of("normalise")
class mean_not_subtracted:
    message = N_(
        "x is divided by its standard deviation, but its mean is not subtracted first. A "
        "constant added to all numbers that share a mean should vanish; here it stays, "
        "multiplied by 1/σ. The numerator is x - mean."
    )

    def xhat(x, root):
        return x / root


@of("normalise")
class brackets_forgotten:
    label = "ln-formula"
    message = N_(
        "Brackets are missing: division comes before subtraction, so that only the mean is divided "
        "by the root. Put x - mean in brackets: all of it is divided."
    )

    def xhat(x, mean, root):
        return x - mean / root


@of("normalise")
class brackets_around_product_forgotten:
    label = "ln-formula"
    message = brackets_forgotten.message

    def scaled(gamma, x, mean, root):
        return gamma * x - mean / root


@of("normalise")
class gamma_forgotten:
    message = N_(
        "gamma has no effect. Without it all outputs keep the same scale, and the layer cannot "
        "give one feature or channel more weight than another. The last line is gamma * xhat + "
        "beta. (With gamma = 1 nobody would notice: test with other values.)"
    )

    def scaled(xhat):
        return xhat


@of("normalise")
class beta_forgotten:
    message = N_(
        "beta has no effect. Without it the outputs keep mean 0 when gamma is 1. The last line "
        "is gamma * xhat + beta. (With beta = 0 nobody would notice: test with other values.)"
    )

    def y(scaled):
        return scaled


@of("normalise")
class beta_before_gamma:
    message = N_(
        "beta is added before the multiplication by gamma: gamma * (xhat + beta). The shift is "
        "then gamma·beta, and cannot be learnt where gamma is 0. Multiply first, then add: "
        "gamma * xhat + beta."
    )

    def scaled(gamma, xhat, beta):
        return gamma * (xhat + beta)

    def y(scaled):
        return scaled


# --- The backward pass ------------------------------------------------------------------------


@of("normalise_backward")
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


@of("normalise_backward")
class mean_term_dropped:
    message = N_(
        "The term mean(dxhat) is missing in dx: the gradient that passes through the mean. A "
        "constant added to all numbers that share a mean changes nothing in the output, so "
        "their entries of dx must sum to 0; yours do not."
    )

    def mean_term(x):
        return 0 * x


@of("normalise_backward")
class xhat_term_dropped:
    message = N_(
        "The term xhat·mean(dxhat·xhat) is missing in dx: the gradient that passes through the "
        "variance. A positive factor on all numbers that share a variance changes nothing in "
        "the output, so the sum of dx·xhat over them must be 0 (up to eps); yours is not."
    )

    def xhat_term(x):
        return 0 * x


@of("normalise_backward")
class xhat_term_added:
    message = N_(
        "The term xhat·mean(dxhat·xhat) is added in dx; it must be subtracted, as mean(dxhat) "
        "is: dx is what is left of dxhat without these two parts."
    )

    def xhat_term(xp, dxhat, xhat, axis):
        return -xhat * xp.mean(dxhat * xhat, axis=axis, keepdims=True)


@of("normalise_backward")
class sums_instead_of_means:
    message = N_(
        "The two correction terms in dx are sums over the n numbers that share a mean and a "
        "variance; they must be means. Each is n times too large. The 1/n comes from the "
        "derivative of the mean and the variance, which both divide by n."
    )

    def mean_term(xp, dxhat, axis):
        return xp.sum(dxhat, axis=axis, keepdims=True)

    def xhat_term(xp, dxhat, xhat, axis):
        return xhat * xp.sum(dxhat * xhat, axis=axis, keepdims=True)


@of("normalise_backward")
class means_of_everything:
    label = "ln-backward"
    message = N_(
        "A mean in dx runs over the whole array: mean() without an axis. It must run over the "
        "numbers that share a mean and a variance in the forward pass, and no others: give it the "
        "same axis, with keepdims=True."
    )

    def mean_term(xp, dxhat):
        return xp.mean(dxhat)

    def xhat_term(xp, dxhat, xhat):
        return xhat * xp.mean(dxhat * xhat)


@of("normalise_backward")
class mean_of_everything:
    label = "ln-backward"
    message = means_of_everything.message

    def mean_term(xp, dxhat):
        return xp.mean(dxhat)


@of("normalise_backward")
class product_mean_of_everything:
    label = "ln-backward"
    message = means_of_everything.message

    def xhat_term(xp, dxhat, xhat):
        return xhat * xp.mean(dxhat * xhat)


@of("normalise_backward")
class product_with_x:
    label = "ln-backward"
    message = N_(
        "The second mean in dx is that of dxhat * x; it must be that of dxhat * xhat. What passes "
        "through the variance is the part of dxhat along the normalised input."
    )

    def xhat_term(xp, dxhat, xhat, x, axis):
        return xhat * xp.mean(dxhat * x, axis=axis, keepdims=True)


@of("normalise_backward")
class product_mean_without_xhat:
    label = "ln-backward"
    message = N_(
        "mean(dxhat·xhat) is subtracted from dxhat as it is: one number for all that share a "
        "variance. It says how much of xhat is in dxhat, so multiply it by xhat before you "
        "subtract it."
    )

    def xhat_term(xp, dxhat, xhat, axis):
        return xp.mean(dxhat * xhat, axis=axis, keepdims=True)


@of("normalise_backward")
class exact_projection:
    label = "ln-backward"
    message = N_(
        "The second term of dx is divided by the sum of the squares of xhat. Divide by their "
        "number n instead, that is, take mean(dxhat·xhat): the two are equal only for eps = 0, and "
        "where the variance is 0, yours is 0/0."
    )

    def xhat_term(xp, dxhat, xhat, axis):
        along, squares = (
            xp.sum(factor * xhat, axis=axis, keepdims=True) for factor in (dxhat, xhat)
        )
        return xhat * along / squares


@of("normalise_backward")
class root_inverted:
    label = "ln-mistake-r-forgotten"
    message = N_(
        "The root multiplies where it must divide: r is 1/√(var + eps), both in xhat = (x - mean) "
        "* r and in dx. Where the variance is large, the gradient is small."
    )

    def root(xp, var, eps):
        return 1 / xp.sqrt(var + eps)


@of("normalise_backward")
class root_inverted_in_dx:
    label = "ln-mistake-r-forgotten"
    message = root_inverted.message

    def dx(dxhat, mean_term, xhat_term, root):
        return (dxhat - mean_term - xhat_term) * root


@of("normalise_backward")
class r_forgotten:
    message = N_(
        "dx lacks the factor 1/√(var + eps). The forward pass divides by √(var + eps), so does "
        "the backward pass: where the variance is large, the gradient is small."
    )

    def dx(dxhat, mean_term, xhat_term):
        return dxhat - mean_term - xhat_term


@of("normalise_backward")
class gamma_forgotten_in_dx:
    message = N_(
        "gamma is missing in dx. The output is gamma * xhat + beta, so the gradient at xhat is "
        "dxhat = dy * gamma, not dy. (With gamma = 1 nobody would notice.)"
    )

    def dxhat(dy):
        return dy


@of("normalise_backward")
class gamma_twice_in_dx:
    label = "ln-backward"
    message = N_(
        "gamma is in dx twice: dxhat = dy * gamma contains it already, and the bracket is "
        "multiplied by it again. Before the bracket stands 1/√(var + eps) alone."
    )

    # as it was: without it, gamma outside alone is right where each mean has but one gamma
    def dxhat(dy, gamma):
        return dy * gamma

    def dx(dxhat, mean_term, xhat_term, root, gamma):
        return gamma * (dxhat - mean_term - xhat_term) / root


@of("normalise_backward")
class gamma_forgotten_in_mean:
    label = "ln-backward"
    message = N_(
        "The first mean in dx is that of dy; it must be that of dxhat = dy * gamma, the gradient "
        "at xhat. (With gamma = 1 nobody would notice.)"
    )

    def mean_term(xp, dy, axis):
        return xp.mean(dy, axis=axis, keepdims=True)


@of("normalise_backward")
class gamma_forgotten_in_product:
    label = "ln-backward"
    message = N_(
        "The second mean in dx is that of dy * xhat; it must be that of dxhat * xhat, where dxhat "
        "= dy * gamma is the gradient at xhat. (With gamma = 1 nobody would notice.)"
    )

    def xhat_term(xp, dy, xhat, axis):
        return xhat * xp.mean(dy * xhat, axis=axis, keepdims=True)


@of("normalise_backward")
class dgamma_without_xhat:
    message = N_(
        "dgamma sums dy alone, which is dbeta. gamma multiplies xhat, so its gradient is the "
        "sum of dy * xhat over all that share gamma."
    )

    def dgamma(xp, dy, tokens):
        return xp.sum(dy, axis=tokens)


@of("normalise_backward")
class dgamma_with_gamma:
    message = N_(
        "dgamma contains gamma: it sums dxhat * xhat. The derivative of gamma * xhat with "
        "respect to gamma is xhat alone, so dgamma sums dy * xhat."
    )

    def dgamma(xp, dxhat, xhat, tokens):
        return xp.sum(dxhat * xhat, axis=tokens)


@of("normalise_backward")
class gradients_not_summed:
    message = N_(
        "dgamma and dbeta have the shape of x: the sum is missing. One gamma and one beta serve "
        "many numbers, and each of these contributes to their gradient: sum over every axis "
        "that shares them."
    )

    def dgamma(dy, xhat):
        return dy * xhat

    def dbeta(dy):
        return dy


@of("normalise_backward")
class gradients_averaged:
    message = N_(
        "dgamma and dbeta are means; they must be sums. Each number that shares gamma and beta "
        "adds its part to the loss. Where the loss is a mean, the division is already inside "
        "dy."
    )

    def dgamma(xp, dy, xhat, tokens):
        return xp.mean(dy * xhat, axis=tokens)

    def dbeta(xp, dy, tokens):
        return xp.mean(dy, axis=tokens)
