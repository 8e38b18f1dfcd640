"""DyT, Derf and weight normalisation: their steps and their mistakes."""

import copy
import math
from collections.abc import Callable

from array_api_compat import array_namespace

from normkit.alternatives import _erf
from normkit.messages import N_
from normkit.mistakes import layer_norm, normalise
from normkit.mistakes.chains import ALGORITHMS, Algorithm, Steps, chain, of, run


@chain
class FORWARD:
    def inner(alpha, x):
        return alpha * x

    def argument(inner):
        return inner

    def t(xp, argument):
        return xp.tanh(argument)

    def weighted(gamma, t):
        return gamma * t

    def output(weighted, beta):
        return weighted + beta


@chain
class WITH_ERF:
    def argument(inner, shift):
        return inner + shift

    def t(xp, argument):
        return _erf(xp, argument)


@chain
class GRADIENTS:
    def slope(t):
        return 1 - t**2

    def dt(dy, gamma):
        return dy * gamma

    def dargument(dt, slope):
        return dt * slope

    def to_x(alpha, dargument):
        return alpha * dargument

    def tokens(x):
        return tuple(range(x.ndim - 1))

    def alpha_terms(dargument, x):
        return dargument * x

    def to_alpha(xp, alpha_terms):
        return xp.sum(alpha_terms)

    def to_gamma(xp, dy, t, tokens):
        return xp.sum(dy * t, axis=tokens)

    def to_beta(xp, dy, tokens):
        return xp.sum(dy, axis=tokens)


@chain
class ONE_GRADIENT:  # fewer steps: with one gradient alone, some mistakes look alike
    def argument(alpha, x):
        return alpha * x

    def t(xp, argument):
        return xp.tanh(argument)

    def slope(t):
        return 1 - t**2

    def dargument(dy, gamma, slope):
        return dy * gamma * slope


@chain
class GRADIENTS_WITH_ERF:
    def slope(xp, argument):
        return 2 / math.sqrt(math.pi) * xp.exp(-(argument**2))

    def to_shift(xp, dargument):
        return xp.sum(dargument)


@chain
class ALPHA:
    def start(alpha_init):
        return alpha_init

    def alpha_made(torch, start):
        return torch.full((1,), float(start))

    def register_alpha(torch, layer, alpha_made):
        layer.alpha = torch.nn.Parameter(alpha_made)


@chain
class SHIFT:
    def shift_made(torch):
        return torch.zeros(1)

    def register_shift(torch, layer, shift_made):
        layer.shift = torch.nn.Parameter(shift_made)


@chain
class CALL:
    def alpha(layer):
        return layer.alpha


@chain
class SHIFTED_CALL:
    def shift(layer):
        return layer.shift


@chain
class INITIAL:
    def row(width):
        return {4096: (0.8, 0.2), 5120: (0.6, 0.15), 8192: (0.2, 0.05)}[width]

    def attention(row):
        return row[0]

    def other(row):
        return row[1]


@chain
class SEARCH:
    def target(model):
        return model

    def kinds(torch):
        return torch.nn.LayerNorm, torch.nn.RMSNorm

    def norms(target, kinds):
        return [(path, part) for path, part in target.named_modules() if isinstance(part, kinds)]


@chain
class EXCHANGE:
    def width(norm):
        return norm.normalized_shape[0]

    def start(alpha_init):
        return alpha_init

    def layer(make_layer, width, start):
        return make_layer(width, start)

    def put(target, path, layer):
        parent, _, name = path.rpartition(".")
        setattr(target.get_submodule(parent), name, layer)


@chain
class TAKE_OVER:
    def take_weight(layer, norm):
        if norm.weight is not None:
            layer.weight = norm.weight

    def take_bias(layer, norm):
        if getattr(norm, "bias", None) is not None:
            layer.bias = norm.bias


@chain
class RETURNED:
    def returned(target):
        return target


@chain
class WEIGHTS:
    def g_wide(g, v):
        return g.reshape((-1,) + (1,) * (v.ndim - 1))

    def axes(v):
        return tuple(range(1, v.ndim))

    def rows(v):
        return v

    def length(xp, rows, axes):
        return xp.sqrt(xp.sum(rows**2, axis=axes, keepdims=True))

    def direction(rows, length):
        return rows / length

    def w(g_wide, direction):
        return g_wide * direction


@chain
class WEIGHT_GRADIENTS:
    def along(xp, dw, direction, axes):
        return xp.sum(dw * direction, axis=axes, keepdims=True)

    def across(dw, direction, along):
        return dw - direction * along

    def to_v(g_wide, length, across):
        return g_wide / length * across

    def to_g(along):
        return along.reshape(-1)


CURVE = {name: FORWARD[name] for name in ("inner", "argument", "t")}
BACKWARD = CURVE | GRADIENTS

DX, DALPHA, DGAMMA_DBETA = (
    before | {name: GRADIENTS[name] for name in names}
    for before, names in (
        (ONE_GRADIENT, ("to_x",)),
        (ONE_GRADIENT, ("alpha_terms", "to_alpha")),
        (CURVE, ("tokens", "to_gamma", "to_beta")),
    )
)
WEIGHTS_BACKWARD = {k: v for k, v in WEIGHTS.items() if k != "w"} | WEIGHT_GRADIENTS


def _dyt(steps: Steps) -> Callable:
    def dyt(x, alpha=0.5, gamma=1.0, beta=0.0):
        xp = array_namespace(x)
        return run(steps, xp=xp, x=x, alpha=alpha, gamma=gamma, beta=beta)["output"]

    return dyt


def _derf(steps: Steps) -> Callable:
    def derf(x, alpha=0.5, shift=0.0, gamma=1.0, beta=0.0):
        given = {"x": x, "alpha": alpha, "shift": shift, "gamma": gamma, "beta": beta}
        return run(steps, xp=array_namespace(x), **given)["output"]

    return derf


def _dyt_backward(steps: Steps) -> Callable:
    def dyt_backward(dy, x, alpha=0.5, gamma=1.0):
        done = run(steps, xp=array_namespace(x), dy=dy, x=x, alpha=alpha, gamma=gamma)
        # None for what the chain of one gradient does not hold
        return tuple(done.get(f"to_{name}") for name in ("x", "alpha", "gamma", "beta"))

    return dyt_backward


def _derf_backward(steps: Steps) -> Callable:
    def derf_backward(dy, x, alpha=0.5, shift=0.0, gamma=1.0):
        given = {"dy": dy, "x": x, "alpha": alpha, "shift": shift, "gamma": gamma}
        done = run(steps, xp=array_namespace(x), **given)
        return tuple(done[f"to_{name}"] for name in ("x", "alpha", "shift", "gamma", "beta"))

    return derf_backward


def _squashing_layer(steps: Steps) -> type:
    import torch

    made = {k: v for k, v in steps.items() if k in layer_norm.PARAMETERS | ALPHA | SHIFT}
    called = {k: v for k, v in steps.items() if k not in made}

    class DyT(torch.nn.Module):
        def __init__(self, features, alpha_init=0.5):
            super().__init__()
            run(made, torch=torch, layer=self, features=features, alpha_init=alpha_init)

        def forward(self, x):
            return run(called, torch=torch, layer=self, xp=array_namespace(x), x=x)["output"]

    return DyT


def _initial(steps: Steps) -> Callable:
    def dyt_alpha_init(width):
        done = run(steps, width=width)
        return done["attention"], done["other"]

    return dyt_alpha_init


def _replace_norms(steps: Steps) -> Callable:
    search, exchange, end = (
        {name: step for name, step in steps.items() if name in part}
        for part in (SEARCH, EXCHANGE | TAKE_OVER, RETURNED)
    )

    def replace_norms(model, make_layer, alpha_init=0.5):
        import torch

        found = run(search, torch=torch, model=model)
        given = {"target": found["target"], "make_layer": make_layer, "made": []}
        for path, norm in found["norms"]:
            done = run(exchange, path=path, norm=norm, alpha_init=alpha_init, **given)
            given["made"].append(done["layer"])
        return run(end, target=found["target"])["returned"]

    return replace_norms


def _weight_norm(steps: Steps) -> Callable:
    return lambda v, g: run(steps, xp=array_namespace(v), v=v, g=g)["w"]


def _weight_norm_backward(steps: Steps) -> Callable:
    def weight_norm_backward(dw, v, g):
        done = run(steps, xp=array_namespace(v), dw=dw, v=v, g=g)
        return done["to_v"], done["to_g"]

    return weight_norm_backward


LAYER = layer_norm.PARAMETERS | ALPHA | layer_norm.CALL | CALL | FORWARD
ALGORITHMS |= {
    name: Algorithm(steps, assemble, f"dyt#{place}", "dyt", contains)
    for name, steps, assemble, place, *contains in (
        ("squash", FORWARD, _dyt, "dyt-formula"),
        (
            "squash_backward",
            BACKWARD,
            _dyt_backward,
            "dyt-backward",
            "squash",
            "layer_norm_backward",
        ),
        ("dyt", FORWARD, _dyt, "dyt-formula", "squash"),
        ("dyt_backward", BACKWARD, _dyt_backward, "dyt-backward", "squash_backward", "dyt"),
        ("dyt_dx", DX, _dyt_backward, "dyt-backward", "dyt_backward"),
        ("dyt_dalpha", DALPHA, _dyt_backward, "dyt-backward", "dyt_backward"),
        ("dyt_dgamma_dbeta", DGAMMA_DBETA, _dyt_backward, "dyt-backward", "dyt_backward"),
        ("derf", FORWARD | WITH_ERF, _derf, "dyt-derf", "squash"),
        (
            "derf_backward",
            BACKWARD | WITH_ERF | GRADIENTS_WITH_ERF,
            _derf_backward,
            "dyt-derf",
            "squash_backward",
            "derf",
        ),
        ("squash_layer", LAYER, _squashing_layer, "dyt-code", "LayerNorm"),
        ("DyT", LAYER, _squashing_layer, "dyt-code", "squash_layer", "dyt"),
        (
            "Derf",
            layer_norm.PARAMETERS | ALPHA | SHIFT | SHIFTED_CALL | LAYER | WITH_ERF,
            _squashing_layer,
            "dyt-derf",
            "squash_layer",  # and not derf: its mistakes are those of DyT with another curve
        ),
        ("dyt_alpha_init", INITIAL, _initial, "dyt-alpha-init"),
        ("replace_norms", SEARCH | EXCHANGE | TAKE_OVER | RETURNED, _replace_norms, "dyt-code"),
        (
            "norms_replaced",
            SEARCH | EXCHANGE | RETURNED,
            _replace_norms,
            "dyt-code",
            "replace_norms",
        ),
        ("weight_norm", WEIGHTS, _weight_norm, "dyt-weight-norm"),
        (
            "weight_norm_backward",
            WEIGHTS_BACKWARD,
            _weight_norm_backward,
            "dyt-weight-norm",
            "weight_norm",
        ),
    )
}


# --- DyT and Derf -----------------------------------------------------------------------------


@of("squash")
class alpha_outside:
    message = N_(
        "alpha multiplies the tanh or erf instead of x. Inside, alpha sets where the curve bends, "
        "at about |x| = 1/alpha; outside, it is one more factor beside gamma. Compute alpha * x "
        "first."
    )

    def inner(x):
        return x

    def weighted(alpha, gamma, t):
        return gamma * (alpha * t)


@of("squash")
class x_added:
    message = N_(
        "x itself is added, and alpha stands outside: x + alpha * tanh(x). The layer replaces x "
        "by a bounded curve, tanh(alpha * x), or erf in Derf. Adding x is the part of the residual "
        "connection around it."
    )

    def inner(x):
        return x

    def weighted(x, alpha, gamma, t):
        return gamma * (x + alpha * t)


@of("squash")
class alpha_divides:
    message = N_(
        "x is divided by alpha instead of multiplied. A layer that meets large numbers needs a "
        "small alpha, to bend later; dividing does the reverse. For alpha = 0.5 and x = 1, tanh "
        "must give 0.462, and gives 0.964."
    )

    def inner(x, alpha):
        return x / alpha


@of("squash")
class alpha_forgotten:
    message = N_(
        "alpha has no effect: the curve is taken at x. It then bends at about |x| = 1, whatever "
        "the scale of x; alpha is the one number that fits the curve to it. The argument starts "
        "with alpha * x."
    )

    def inner(x):
        return x


@of("squash")
class fixed_alpha:
    message = N_(
        "The argument alpha has no effect: 0.5 is used whatever the caller passes. 0.5 is only "
        "where training starts; each layer then learns its own. Use alpha itself."
    )

    def inner(x):
        return 0.5 * x


@of("squash")
class gamma_inside:
    message = N_(
        "gamma stands inside the tanh or erf. There it makes the curve steeper, as alpha does, "
        "but the output stays between -1 and 1 (before beta). Outside, gamma sets the range of "
        "each feature."
    )

    def inner(gamma, alpha, x):
        return gamma * (alpha * x)

    def weighted(t):
        return t


@of("squash")
class alpha_and_gamma_swapped:
    message = N_(
        "alpha and gamma have changed places: gamma multiplies x, and alpha the tanh or erf. alpha "
        "is one number for all features, inside; gamma has one number per feature, and multiplies "
        "the curve."
    )

    def inner(gamma, x):
        return gamma * x

    def weighted(alpha, t):
        return alpha * t


@of("squash")
class normalised_first:
    message = N_(
        "x is normalised first, with its own mean and variance. DyT and Derf measure nothing: "
        "alpha, which is learnt, stands for 1/σ, the same for all tokens. Squash alpha * x itself."
    )

    def inner(xp, alpha, x):
        mean = xp.mean(x, axis=-1, keepdims=True)
        var = xp.mean((x - mean) ** 2, axis=-1, keepdims=True)
        return alpha * (x - mean) / xp.sqrt(var + 1e-5)


@of("squash")
class sigmoid_instead:
    message = N_(
        "The curve is the sigmoid. It lies between 0 and 1 and takes 0 to 0.5, so that all its "
        "values are positive. What stands in for a normalisation has to be centred at 0, as tanh "
        "and erf are, between -1 and 1."
    )

    def t(xp, argument):
        return 1 / (1 + xp.exp(-argument))


@of("squash")
class hard_tanh:
    message = N_(
        "The curve is a straight line, cut off at -1 and 1 (hardtanh). Beyond, its gradient is "
        "exactly 0, so large numbers learn nothing; at 0.5 it is 8 % above tanh. Use the smooth "
        "curve."
    )

    def t(xp, argument):
        return xp.clip(argument, -1.0, 1.0)


@of("squash")
class output_without_gamma:
    message = N_(
        "gamma has no effect: all features keep the range from -1 to 1 (before beta). The "
        "tanh or erf is multiplied by gamma, then beta is added. (With gamma = 1 nobody would "
        "notice: test with other values.)"
    )

    def weighted(t):
        return t


@of("squash")
class output_without_beta:
    message = N_(
        "beta has no effect: every feature stays centred at 0, which the curve takes to 0. beta is "
        "added last, after gamma. (With beta = 0 nobody would notice: test with other values.)"
    )

    def output(weighted):
        return weighted


@of("squash")
class beta_times_gamma:
    message = N_(
        "beta is added before the multiplication by gamma. The shift is then gamma·beta, and "
        "cannot be learnt where gamma is 0. Multiply the curve by gamma first, then add beta."
    )

    def weighted(gamma, t, beta):
        return gamma * (t + beta)

    def output(weighted):
        return weighted


@of("dyt")
class beta_inside:
    message = N_(
        "beta is added inside the tanh. The output then stays between -gamma and gamma, and beta "
        "moves where the curve bends instead of moving the output. Add it last: "
        "gamma * tanh(alpha * x) + beta."
    )

    def argument(inner, beta):
        return inner + beta

    def output(weighted):
        return weighted


@of("dyt")
class erf_instead:
    message = N_(
        "The curve is erf: that is Derf, another layer, which is steeper and flattens sooner. For "
        "alpha = 0.5 and x = 1 it gives 0.5205, DyT 0.4621. Use tanh."
    )

    def t(xp, argument):
        return _erf(xp, argument)


@of("dyt")
class half_argument:
    message = N_(
        "2 * sigmoid(z) - 1 is tanh(z/2): the curve is half as steep as it should be. The "
        "identity is tanh(z) = 2 * sigmoid(2z) - 1."
    )

    def t(xp, argument):
        return 2 / (1 + xp.exp(-argument)) - 1


@of("dyt")
class tanh_of_two_exponentials:
    message = N_(
        "tanh is computed from exp(z) and exp(-z). One of them overflows when |z| exceeds 709 (88 "
        "in float32), and inf/inf gives nan: one large feature is enough. The library's tanh has "
        "no such limit."
    )

    def t(xp, argument):
        up, down = xp.exp(argument), xp.exp(-argument)
        return (up - down) / (up + down)


@of("dyt")
class tanh_of_one_exponential:
    message = N_(
        "tanh is computed from exp(2z), which overflows when z exceeds 354 (44 in float32), and "
        "inf/inf gives nan: one large feature is enough. The library's tanh has no such limit."
    )

    def t(xp, argument):
        up = xp.exp(2 * argument)
        return (up - 1) / (up + 1)


@of("derf")
class tanh_instead:
    message = N_(
        "The curve is tanh: that is DyT. Derf uses the error function, which is steeper at 0 and "
        "flattens sooner: for alpha = 0.5 and x = 1 it gives 0.5205, DyT 0.4621."
    )

    def t(xp, argument):
        return xp.tanh(argument)


@of("derf")
class tanh_approximation:
    message = N_(
        "erf is replaced by tanh(2z/√π). It has the right slope at 0, but is too flat beyond, by "
        "up to 0.035. NumPy has no erf; math.erf (with np.vectorize), SciPy and torch have it."
    )

    def t(xp, argument):
        return xp.tanh(2 / math.sqrt(math.pi) * argument)


@of("derf")
class root_two_inside:
    message = N_(
        "The argument of erf is divided by √2. That belongs to the normal distribution function Φ "
        "and to GELU. Derf takes erf of alpha * x + s itself: for alpha = 0.5, x = 1 and s = 0 "
        "that is 0.5205; yours is 0.3829."
    )

    def t(xp, argument):
        return _erf(xp, argument / math.sqrt(2))


@of("derf")
class normal_distribution:
    message = N_(
        "The curve is Φ(z) = (1 + erf(z/√2))/2, the normal distribution function, known from GELU. "
        "It lies between 0 and 1 and takes 0 to 0.5. Derf takes erf(z) alone: between -1 and 1, "
        "and centred at 0."
    )

    def t(xp, argument):
        return (1 + _erf(xp, argument / math.sqrt(2))) / 2


@of("derf")
class shift_forgotten:
    message = N_(
        "The shift s has no effect. It is added to alpha * x, inside erf, and moves the point "
        "where the curve is steepest. (With s = 0, where it starts, nobody would notice.)"
    )

    def argument(inner):
        return inner


@of("derf")
class shift_outside:
    message = N_(
        "The shift s is added after erf. There it does what beta does already. Inside, it moves "
        "the point where the curve is steepest: erf(alpha * x + s)."
    )

    def argument(inner):
        return inner

    def weighted(gamma, t, shift):
        return gamma * (t + shift)


@of("derf")
class shift_times_alpha:
    message = N_(
        "alpha multiplies the shift too: erf(alpha * (x + s)). The shift is added after the "
        "multiplication: for alpha = 0.5, x = 1 and s = -0.5 the result must be erf(0) = 0; yours "
        "is 0.2763."
    )

    def argument(inner, alpha, shift):
        return inner + alpha * shift


@of("derf")
class shift_subtracted:
    message = N_(
        "The shift s is subtracted; it must be added: erf(alpha * x + s). Trained weights only "
        "fit the sign that they were trained with."
    )

    def argument(inner, shift):
        return inner - shift


# --- Their gradients --------------------------------------------------------------------------


@of("squash_backward")
class slope_forgotten:
    message = N_(
        "The slope of the curve is missing in the gradients of x and alpha. Where the curve is "
        "flat, hardly any gradient passes: the slope is 1 - t² for t = tanh(z), and "
        "2/√π · exp(-z²) for erf(z)."
    )

    def slope(t):
        return 1 + 0 * t


@of("squash_backward")
class dx_without_alpha:
    message = N_(
        "dx lacks the factor alpha. The curve is taken at alpha * x, and the chain rule "
        "multiplies by the derivative of that: alpha."
    )

    def to_x(dargument):
        return dargument


@of("squash_backward")
class gradients_without_gamma:
    message = N_(
        "gamma is missing in the gradients of x and alpha. The curve is multiplied by gamma, so "
        "the gradient that arrives at it is dy * gamma, not dy. (With gamma = 1 nobody would "
        "notice.)"
    )

    def dt(dy):
        return dy


@of("squash_backward")
class dx_without_gamma:
    message = N_(
        "gamma is missing in dx. Both dx and dalpha begin with the gradient that arrives at the "
        "curve, dy * gamma: compute it once, and use it for both."
    )

    def to_x(alpha, dy, slope):
        return alpha * dy * slope


@of("squash_backward")
class dalpha_without_gamma:
    message = N_(
        "gamma is missing in dalpha. Both dx and dalpha begin with the gradient that arrives at "
        "the curve, dy * gamma: compute it once, and use it for both."
    )

    def alpha_terms(dy, slope, x):
        return dy * slope * x


@of("squash_backward")
class dalpha_without_x:
    message = N_(
        "dalpha lacks the factor x. The derivative of alpha * x with respect to alpha is x: a "
        "number far from 0 pulls harder at alpha, and at x = 0 alpha changes nothing."
    )

    def alpha_terms(dargument):
        return dargument


@of("squash_backward")
class dalpha_with_alpha:
    message = N_(
        "dalpha contains alpha: it sums dx * x. The derivative of alpha * x with respect to alpha "
        "is x alone; the factor alpha belongs to dx."
    )

    def alpha_terms(alpha, dargument, x):
        return alpha * dargument * x


@of("squash_backward")
class dalpha_averaged:
    message = N_(
        "dalpha is a mean; it must be a sum. All numbers of x share alpha, and each adds its part "
        "to the loss. Where the loss is a mean, the division is already inside dy."
    )

    def to_alpha(xp, alpha_terms):
        return xp.mean(alpha_terms)


@of("squash_backward")
class dalpha_per_feature:
    message = N_(
        "dalpha is summed over the tokens only, and has one number per feature. alpha is one "
        "number for the whole layer: sum over the features too."
    )

    def to_alpha(xp, alpha_terms, x):
        return xp.sum(alpha_terms, axis=tuple(range(x.ndim - 1)))


@of("squash_backward")
class dalpha_per_token:
    message = N_(
        "dalpha is summed over the features only, and has one number per token. alpha is one "
        "number for the whole layer: sum over the tokens too."
    )

    def to_alpha(xp, alpha_terms):
        return xp.sum(alpha_terms, axis=-1)


@of("squash_backward")
class dalpha_not_summed:
    message = N_(
        "dalpha has the shape of x: the sum is missing. One alpha serves all numbers of x, and "
        "each of these contributes to its gradient: sum over everything."
    )

    def to_alpha(alpha_terms):
        return alpha_terms


@of("squash_backward")
class dgamma_without_curve:
    message = N_(
        "dgamma sums dy alone, which is dbeta. gamma multiplies the tanh or erf, so its gradient "
        "is the sum of dy times that, over all tokens."
    )

    def to_gamma(xp, dy, tokens):
        return xp.sum(dy, axis=tokens)


@of("squash_backward")
class gamma_in_dgamma:
    message = N_(
        "dgamma contains gamma. The derivative of gamma * t with respect to gamma is t alone, "
        "the tanh or erf, so dgamma sums dy * t over all tokens."
    )

    def to_gamma(xp, dy, gamma, t, tokens):
        return xp.sum(dy * gamma * t, axis=tokens)


@of("squash_backward")
class gradients_not_summed:
    message = normalise.gradients_not_summed.message

    def to_gamma(dy, t):
        return dy * t

    def to_beta(dy):
        return dy


@of("squash_backward")
class gradients_averaged:
    message = normalise.gradients_averaged.message

    def to_gamma(xp, dy, t, tokens):
        return xp.mean(dy * t, axis=tokens)

    def to_beta(xp, dy, tokens):
        return xp.mean(dy, axis=tokens)


@of("dyt_backward")
class one_minus_t:
    message = N_(
        "The slope of tanh is taken as 1 - t; it is 1 - t², for t = tanh(alpha * x). 1 - t is not "
        "even symmetric: it is near 2 where x is far below 0, where the curve is flat."
    )

    def slope(t):
        return 1 - t


@of("dyt_backward")
class slope_of_sigmoid:
    message = N_(
        "The slope is t·(1 - t), which is that of the sigmoid. For t = tanh(alpha * x) it is "
        "1 - t²: 1 at x = 0, where yours is 0."
    )

    def slope(t):
        return t * (1 - t)


@of("dyt_backward")
class slope_at_x:
    message = N_(
        "The slope of tanh is taken at x: 1 - tanh(x)². The forward pass goes through the curve "
        "at alpha * x, so the slope is the one there. Keep t = tanh(alpha * x), and use 1 - t²."
    )

    def slope(xp, x):
        return 1 - xp.tanh(x) ** 2


@of("derf_backward")
class factor_forgotten:
    message = N_(
        "The factor 2/√π is missing in the slope of erf, which is 2/√π · exp(-z²). At z = 0 the "
        "slope is 1.128, not 1; for alpha = 0.5 and gamma = 1, dx there must be 0.564·dy."
    )

    def slope(xp, argument):
        return xp.exp(-(argument**2))


@of("derf_backward")
class slope_of_normal_distribution:
    message = N_(
        "The slope is exp(-z²/2)/√(2π), the density of the normal distribution, which belongs to "
        "Φ and GELU. That of erf(z) is 2/√π · exp(-z²)."
    )

    def slope(xp, argument):
        return xp.exp(-(argument**2) / 2) / math.sqrt(2 * math.pi)


@of("derf_backward")
class slope_of_tanh:
    message = N_(
        "The slope is 1 - t², which is that of tanh. For t = erf(z) it is 2/√π · exp(-z²), and "
        "cannot be had from t alone: keep z = alpha * x + s."
    )

    def slope(t):
        return 1 - t**2


@of("derf_backward")
class slope_without_shift:
    message = N_(
        "The slope of erf is taken at alpha * x, without the shift. The forward pass goes through "
        "the curve at alpha * x + s, so the slope is the one there."
    )

    def slope(xp, inner):
        return 2 / math.sqrt(math.pi) * xp.exp(-(inner**2))


@of("derf_backward")
class dshift_with_alpha:
    message = N_(
        "dshift contains alpha: it is the sum of dx. The shift is added after the multiplication "
        "by alpha, so it is the sum of the gradient at alpha * x + s, which has no factor alpha."
    )

    def to_shift(xp, to_x):
        return xp.sum(to_x)


@of("derf_backward")
class dshift_with_x:
    message = N_(
        "dshift contains x, as dalpha does. The derivative of alpha * x + s with respect to s is "
        "1: sum the gradient at alpha * x + s as it is."
    )

    def to_shift(xp, alpha_terms):
        return xp.sum(alpha_terms)


@of("derf_backward")
class dshift_per_feature:
    message = N_(
        "dshift is summed over the tokens only, and has one number per feature. The shift is one "
        "number for the whole layer: sum over the features too. One number per feature is what "
        "beta is for."
    )

    def to_shift(xp, dargument, tokens):
        return xp.sum(dargument, axis=tokens)


# --- Their layers -----------------------------------------------------------------------------


@of("squash_layer")
class alpha_per_feature:
    message = N_(
        "alpha has one number per feature. It must be a single number, of shape (1,), shared by "
        "all features: one per feature is what gamma is for, and the weights of a trained layer "
        "will not load."
    )

    def alpha_made(torch, features, start):
        return torch.full((features,), float(start))


@of("squash_layer")
class alpha_without_axis:
    message = N_(
        "alpha has shape (); the authors' has shape (1,), and weights are saved with their "
        "shapes. Make it with torch.ones(1) * alpha_init or torch.full((1,), alpha_init)."
    )

    def alpha_made(torch, start):
        return torch.tensor(float(start))


@of("squash_layer")
class alpha_not_registered:
    message = N_(
        "alpha is a plain number or tensor. A module knows only what is registered: the optimiser "
        "will not see alpha, so it stays where it started, and state_dict() leaves it out. Wrap it "
        "in nn.Parameter."
    )

    def register_alpha(layer, alpha_made):
        layer.alpha = alpha_made


@of("squash_layer")
class alpha_as_buffer:
    message = N_(
        "alpha is a buffer: it is saved and moved with the layer, but receives no gradient, so it "
        "will never be learnt. It replaces 1/σ, and has to follow the scale of x. Wrap it in "
        "nn.Parameter."
    )

    def register_alpha(layer, alpha_made):
        layer.register_buffer("alpha", alpha_made)


@of("squash_layer")
class alpha_starts_at_one:
    message = N_(
        "alpha starts at 1, whatever alpha_init says. It must start at alpha_init, 0.5 unless "
        "said otherwise (language models start elsewhere, the wider the lower); weight starts at "
        "1."
    )

    def start():
        return 1.0


@of("squash_layer")
class alpha_starts_at_zero:
    message = N_(
        "alpha starts at 0. The curve is then taken at 0 for every x: a new layer returns the "
        "same for all tokens, and passes no gradient back to x. It must start at alpha_init, 0.5 "
        "unless said otherwise."
    )

    def start():
        return 0.0


@of("squash_layer")
class alpha_init_ignored:
    message = N_(
        "alpha starts at 0.5 whatever alpha_init says. That is the default; language models start "
        "elsewhere, the wider the lower, and differently before attention. Use alpha_init."
    )

    def start():
        return 0.5


@of("squash_layer")
class alpha_detached:
    message = N_(
        "The output is right, but alpha receives no gradient: it was taken out of the graph "
        "(item, data, detach, float or no_grad), and will never be learnt. Use the parameter "
        "itself: self.alpha * x."
    )

    def alpha(layer):
        return layer.alpha.detach()


@of("Derf")
class shift_per_feature:
    message = N_(
        "shift has one number per feature. It must be a single number, of shape (1,), shared by "
        "all features, as alpha is; one per feature is what the bias is for."
    )

    def shift_made(torch, features):
        return torch.zeros(features)


@of("Derf")
class shift_not_registered:
    message = N_(
        "shift is a plain number or tensor. A module knows only what is registered: the optimiser "
        "will not see shift, so it stays 0, and state_dict() leaves it out. Wrap it in "
        "nn.Parameter."
    )

    def register_shift(layer, shift_made):
        layer.shift = shift_made


@of("Derf")
class shift_as_buffer:
    message = N_(
        "shift is a buffer: it is saved and moved with the layer, but receives no gradient, so it "
        "will stay 0. Wrap it in nn.Parameter."
    )

    def register_shift(layer, shift_made):
        layer.register_buffer("shift", shift_made)


# --- Where alpha starts -----------------------------------------------------------------------


@of("dyt_alpha_init")
class attention_and_other_swapped:
    message = N_(
        "The two values are swapped. alpha starts higher before attention than elsewhere: "
        "(0.8, 0.2) for width 4096, in the order attention, other."
    )

    def attention(row):
        return row[1]

    def other(row):
        return row[0]


@of("dyt_alpha_init")
class attention_value_everywhere:
    message = N_(
        "The value for attention is used everywhere. Before the feed-forward part and at the end "
        "alpha starts at a quarter of it: 0.2 instead of 0.8 for width 4096."
    )

    def other(row):
        return row[0]


@of("dyt_alpha_init")
class other_value_everywhere:
    message = N_(
        "The value of the feed-forward part is used everywhere. Before attention alpha starts "
        "four times as high: at 0.8 instead of 0.2 for width 4096."
    )

    def attention(row):
        return row[1]


@of("dyt_alpha_init")
class one_half_everywhere:
    message = N_(
        "alpha starts at 0.5 everywhere. That is the value for models of images, speech or DNA; "
        "language models start elsewhere: (0.8, 0.2) for width 4096, and lower when they are wider."
    )

    def attention():
        return 0.5

    def other():
        return 0.5


@of("dyt_alpha_init")
class width_ignored:
    message = N_(
        "The width has no effect: all models get the values of width 4096, (0.8, 0.2). The wider "
        "the model, the lower alpha starts: (0.6, 0.15) for 5120, (0.2, 0.05) for 8192."
    )

    def row():
        return 0.8, 0.2


@of("dyt_alpha_init")
class grows_with_width:
    message = N_(
        "alpha grows with the width. It is the other way round: the wider the model, the lower "
        "alpha starts, from (0.8, 0.2) for width 4096 to (0.2, 0.05) for 8192."
    )

    def row(width):
        return {4096: (0.2, 0.05), 5120: (0.6, 0.15), 8192: (0.8, 0.2)}[width]


@of("dyt_alpha_init")
class one_row_late:
    message = N_(
        "Each width above 4096 gets the values of the next narrower model. 5120 starts at "
        "(0.6, 0.15) and 8192 at (0.2, 0.05): look for < where <= should be, or for an index "
        "that is one too small."
    )

    def row(width):
        return {4096: (0.8, 0.2), 5120: (0.8, 0.2), 8192: (0.6, 0.15)}[width]


@of("dyt_alpha_init")
class one_row_early:
    message = N_(
        "Each width below 8192 gets the values of the next wider model. 4096 starts at (0.8, 0.2) "
        "and 5120 at (0.6, 0.15): look for < where <= should be, or for an index that is one too "
        "large."
    )

    def row(width):
        return {4096: (0.6, 0.15), 5120: (0.2, 0.05), 8192: (0.2, 0.05)}[width]


@of("dyt_alpha_init")
class middle_as_narrow:
    message = N_(
        "Width 5120 (13B parameters) gets the values of 4096 (7B). It has its own, (0.6, 0.15)."
    )

    def row(width):
        return (0.2, 0.05) if width == 8192 else (0.8, 0.2)


@of("dyt_alpha_init")
class middle_as_wide:
    message = N_(
        "Width 5120 (13B parameters) gets the values of 8192 (34B and 70B). It has its own, "
        "(0.6, 0.15)."
    )

    def row(width):
        return (0.8, 0.2) if width == 4096 else (0.2, 0.05)


@of("dyt_alpha_init")
class inverse_width:
    message = N_(
        "alpha is made proportional to 1/width. It does fall with the width, but not by that "
        "rule: the published values are (0.6, 0.15) for 5120 and (0.2, 0.05) for 8192."
    )

    def row(width):
        return 0.8 * 4096 / width, 0.2 * 4096 / width


# --- In the place of the norms of a model -----------------------------------------------------


@of("replace_norms")
class direct_children_only:
    message = N_(
        "Only the norms that are direct children of the model are replaced; those inside its "
        "blocks are still there. model.named_modules() reaches every depth; named_children() needs "
        "a recursion, a call of the function for each child."
    )

    def norms(target, kinds):
        return [(path, part) for path, part in target.named_children() if isinstance(part, kinds)]


@of("replace_norms")
class endless_recursion:
    message = N_(
        "The function calls itself without end, hence the RecursionError. named_modules() and "
        "modules() begin with the model itself, and the call for it begins anew. A recursion goes "
        "over named_children(), and is called for the child, not for the model."
    )

    def norms(target, kinds):
        def inside(model):
            for path, part in model.named_modules():
                yield from [(path, part)] if isinstance(part, kinds) else inside(part)

        return list(inside(target))


@of("replace_norms")
class first_norm_only:
    message = N_(
        "Only the first norm is replaced. Look for a return or a break inside the loop: return "
        "belongs after it, at the indentation of for."
    )

    def norms(target, kinds):
        found = ((path, part) for path, part in target.named_modules() if isinstance(part, kinds))
        return [*found][:1]


@of("replace_norms")
class layer_norm_only:
    message = N_(
        "The LayerNorms are replaced, the RMSNorms are not. RMSNorm is a class of its own in "
        "torch.nn, not a LayerNorm: isinstance takes a pair of classes, (torch.nn.LayerNorm, "
        "torch.nn.RMSNorm)."
    )

    def kinds(torch):
        return torch.nn.LayerNorm


@of("replace_norms")
class batch_norm_replaced:
    message = N_(
        "The batch normalisation is replaced too. DyT was found to stand in for LayerNorm and "
        "RMSNorm; in the place of batch normalisation it costs a ResNet-50 seven points of "
        "accuracy. Ask isinstance for the two classes, not for Norm in the name."
    )

    def kinds(torch):
        return torch.nn.LayerNorm, torch.nn.RMSNorm, torch.nn.BatchNorm1d

    def width(norm):
        return getattr(norm, "num_features", 0) or norm.normalized_shape[0]


@of("replace_norms")
class model_unchanged:
    message = N_(
        "The model has kept its norms. norm = make_layer(…) makes the name norm stand for "
        "something else, and the model does not notice: use setattr(parent, name, layer). If you "
        "do, look for a return inside the loop, which ends it at the first child."
    )

    def put():
        pass


@of("replace_norms")
class dotted_name:
    message = N_(
        "The norms inside blocks are still there, and the model has new layers besides: "
        'setattr(model, "0.norm", layer) makes an attribute with a dot in its name. Split the '
        "path: model.get_submodule finds the module before the last dot."
    )

    def put(target, path, layer):
        setattr(target, path, layer)


@of("replace_norms")
class changed_while_iterating:
    message = N_(
        "The model grows while the loop goes through it, hence the RuntimeError: a path such as "
        '"0.norm" given to setattr adds a layer to the model and replaces none. Set the last '
        "name on the module before the dot, and loop over list(model.named_modules())."
    )

    def norms(target, kinds):
        return ((path, part) for path, part in target.named_modules() if isinstance(part, kinds))

    def put(target, path, layer):
        setattr(target, path, layer)


@of("replace_norms")
class copy_changed:
    message = N_(
        "A copy is changed and returned; the model that was handed in keeps its norms. The task "
        "is to change the model itself. (A caller who wants a copy makes one with copy.deepcopy "
        "first.)"
    )

    def target(model):
        return copy.deepcopy(model)


@of("replace_norms")
class model_not_returned:
    message = N_(
        "The norms are replaced, but the function returns None: return model is missing at its "
        "end. The caller who writes model = replace_norms(model, …) has no model any more."
    )

    def returned():
        return None


@of("replace_norms")
class default_alpha_everywhere:
    message = N_(
        "All new layers start at alpha = 0.5, whatever alpha_init says. Hand it on: "
        "make_layer(features, alpha_init)."
    )

    def start():
        return 0.5


@of("replace_norms")
class default_alpha_inside:
    message = N_(
        "The direct children of the model start at alpha_init, the layers inside its blocks at "
        "0.5. A function that calls itself must hand on all its arguments: "
        "replace_norms(child, make_layer, alpha_init)."
    )

    def start(alpha_init, path):
        return 0.5 if "." in path else alpha_init


@of("replace_norms")
class one_layer_for_all:
    message = N_(
        "The same layer stands in all places. They then share alpha, weight and bias, so that "
        "what one place learns changes the others. Call make_layer(features, alpha_init) inside "
        "the loop, once for each norm."
    )

    def layer(make_layer, width, start, made):
        return made[0] if made else make_layer(width, start)


@of("replace_norms")
class alpha_shared:
    message = N_(
        "All new layers share one alpha. alpha stands for 1/σ of what arrives at a layer, and "
        "that differs from layer to layer: each learns its own."
    )

    def layer(make_layer, width, start, made):
        layer = make_layer(width, start)
        layer.alpha = made[0].alpha if made else layer.alpha
        return layer


@of("replace_norms")
class parameters_not_taken_over:
    message = N_(
        "The new layers start at weight 1 and bias 0: what the norms have learnt is lost. Take "
        "over the weight of each norm, and its bias if it has one."
    )

    def take_weight():
        pass

    def take_bias():
        pass


@of("replace_norms")
class weight_not_taken_over:
    message = N_(
        "The bias of each norm is taken over, the weight is not: it starts at 1 again. Take over "
        "both, so that each feature keeps its scale."
    )

    def take_weight():
        pass


@of("replace_norms")
class bias_not_taken_over:
    message = N_(
        "The weight of each norm is taken over, the bias is not: it starts at 0 again. RMSNorm "
        "has none, but LayerNorm has. Take over both."
    )

    def take_bias():
        pass


@of("replace_norms")
class bias_of_rms_norm:
    message = N_(
        "The bias of a norm is read where there is none. RMSNorm has no attribute bias, and in "
        'some LayerNorms it is None: getattr(norm, "bias", None) is None in both cases, and the '
        "new layer keeps its bias of 0."
    )

    def take_bias(layer, norm):
        layer.bias.data.copy_(norm.bias)


@of("replace_norms")
class absent_weight_read:
    message = N_(
        "The weight of a norm is read where there is none. With elementwise_affine=False a norm "
        "has neither weight nor bias, both are None. The new layer then keeps its weight of 1."
    )

    def take_weight(layer, norm):
        layer.weight.data.copy_(norm.weight)


# --- Weight normalisation ---------------------------------------------------------------------


@of("weight_norm")
class norm_of_columns:
    message = N_(
        "The lengths are those of the columns. Each row of v, axis 0, holds the weights of one "
        "output, and gets its own length g: sum the squares over all axes but the first."
    )

    def axes():
        return 0


@of("weight_norm")
class norm_of_matrix:
    message = N_(
        "One length is computed for all of v. The rows then keep their unequal lengths, and g "
        "only scales them. Each output has its own: sum the squares over all axes but the first, "
        "with keepdims=True."
    )

    def axes(v):
        return tuple(range(v.ndim))


@of("weight_norm")
class norm_of_last_axis:
    message = N_(
        "The squares are summed over the last axis only. For a matrix that is right, but the "
        "kernel of a convolution, (outputs, inputs, height, width), has one length per output: "
        "sum over all axes but the first."
    )

    def axes():
        return -1


@of("weight_norm")
class norm_of_axis_one:
    message = N_(
        "The squares are summed over axis 1 only. For a matrix that is right, but the kernel of a "
        "convolution, (outputs, inputs, height, width), has one length per output: sum over all "
        "axes but the first."
    )

    def axes():
        return 1


@of("weight_norm")
class length_squared:
    message = N_(
        "v is divided by the sum of its squares: the root is missing. The rows then get the "
        "length g/‖v‖ instead of g: for v = [3, 4] and g = 10, that is 2."
    )

    def length(xp, rows, axes):
        return xp.sum(rows**2, axis=axes, keepdims=True)


@of("weight_norm")
class root_mean_square:
    message = N_(
        "v is divided by the root of the mean of its squares, as in RMSNorm. The length divides "
        "by the root of their sum: otherwise a row of n weights gets the length g·√n."
    )

    def length(xp, rows, axes):
        return xp.sqrt(xp.mean(rows**2, axis=axes, keepdims=True))


@of("weight_norm")
class absolute_values_summed:
    message = N_(
        "The length is the sum of the absolute values (the 1-norm). It is the root of the sum of "
        "squares: [3, 4] has length 5, not 7."
    )

    def length(xp, rows, axes):
        return xp.sum(xp.abs(rows), axis=axes, keepdims=True)


@of("weight_norm")
class eps_in_length:
    message = N_(
        "1e-5 is added under the root. Short rows then get less than the length g: for "
        "‖v‖ = 0.001, only 30 % of it. Unlike data, a row of weights does not become 0 by chance: "
        "no eps is needed."
    )

    def length(xp, rows, axes):
        return xp.sqrt(xp.sum(rows**2, axis=axes, keepdims=True) + 1e-5)


@of("weight_norm")
class centred_weights:
    message = N_(
        "The mean of each row is subtracted first, as in weight standardisation. Weight "
        "normalisation changes the length of v, never its direction: g·v/‖v‖."
    )

    def rows(xp, v, axes):
        return v - xp.mean(v, axis=axes, keepdims=True)


@of("weight_norm")
class g_inside_length:
    message = N_(
        "v is multiplied by g before its length is taken. g then cancels, its sign aside: all "
        "rows have length 1. Divide by the length of v, then multiply by g."
    )

    def length(xp, rows, g_wide, axes):
        return xp.sqrt(xp.sum((g_wide * rows) ** 2, axis=axes, keepdims=True))


@of("weight_norm")
class g_on_wrong_axis:
    message = N_(
        "g is lined up with the last axis, the inputs. That fails unless v is square, and then it "
        "is silently wrong. g has one number per output, along axis 0: g[:, None], with one more "
        "None for each further axis."
    )

    def g_wide(g):
        return g


@of("weight_norm")
class g_for_matrices_only:
    message = N_(
        "g[:, None] has two axes, which suits a matrix only. The kernel of a convolution has four: "
        "there it fails, or lines g up with the wrong axis. Give g as many axes as v has: "
        "g.reshape(-1, *[1] * (v.ndim - 1))."
    )

    def g_wide(g):
        return g[:, None]


@of("weight_norm")
class g_forgotten:
    message = N_(
        "g has no effect: all rows get length 1. The length is what g is there to learn, apart "
        "from the direction. (With g = 1 nobody would notice.)"
    )

    def w(direction):
        return direction


@of("weight_norm")
class length_forgotten:
    message = N_(
        "v is not divided by its length. w then has the length g·‖v‖, and length and direction "
        "are not learnt apart. For v = [3, 4] and g = 10, w must be [6, 8]."
    )

    def w(g_wide, rows):
        return g_wide * rows


@of("weight_norm_backward")
class length_detached:
    message = N_(
        "dv = g/‖v‖·dw treats the length of v as a constant. It depends on v: the part of dw "
        "along v must be taken out, since a longer v gives the same w. Test: the sum of dv * v "
        "over each row is 0."
    )

    def across(dw):
        return dw


@of("weight_norm_backward")
class part_along_v_added:
    message = N_(
        "The part of dw along v is added; it must be subtracted. What is left is at right angles "
        "to v: the sum of dv * v over each row is 0."
    )

    def across(dw, direction, along):
        return dw + direction * along


@of("weight_norm_backward")
class part_along_v_averaged:
    message = N_(
        "The part of dw along v is found with a mean, as in RMSNorm. There xhat has length √n, "
        "here v/‖v‖ has length 1: take the sum of dw * v/‖v‖ over each row."
    )

    def across(xp, dw, direction, axes):
        return dw - direction * xp.mean(dw * direction, axis=axes, keepdims=True)


@of("weight_norm_backward")
class part_along_v_too_long:
    message = N_(
        "The part of dw along v is taken with v itself: v·Σ dw·v. It needs v/‖v‖ in both places; "
        "yours is ‖v‖² times too large."
    )

    def across(xp, dw, rows, axes):
        return dw - rows * xp.sum(dw * rows, axis=axes, keepdims=True)


@of("weight_norm_backward")
class dv_without_g:
    message = N_(
        "dv lacks the factor g. w = g·v/‖v‖, so what v does to the loss grows with g. (With g = 1 "
        "nobody would notice.)"
    )

    def to_v(length, across):
        return across / length


@of("weight_norm_backward")
class dv_without_length:
    message = N_(
        "dv lacks the factor 1/‖v‖. Only the direction of v counts, and the longer v is, the less "
        "the same step turns it."
    )

    def to_v(g_wide, across):
        return g_wide * across


@of("weight_norm_backward")
class dg_with_v:
    message = N_(
        "dg sums dw * v. g multiplies v/‖v‖, so its gradient is the sum of dw * v/‖v‖ over each "
        "row; yours is ‖v‖ times too large."
    )

    def to_g(xp, dw, rows, axes):
        return xp.sum(dw * rows, axis=axes)


@of("weight_norm_backward")
class dg_with_g:
    message = N_(
        "dg contains g. The derivative of g·v/‖v‖ with respect to g is v/‖v‖ alone: dg sums "
        "dw * v/‖v‖ over each row."
    )

    def to_g(g, along):
        return g * along.reshape(-1)


@of("weight_norm_backward")
class dg_averaged:
    message = N_(
        "dg is a mean; it must be a sum. All weights of a row share g, and each adds its part to "
        "the loss."
    )

    def to_g(xp, dw, direction, axes):
        return xp.mean(dw * direction, axis=axes)


@of("weight_norm_backward")
class dg_not_summed:
    message = N_(
        "dg has the shape of v: the sum is missing. One g serves all weights of a row, and each "
        "of these contributes to its gradient: sum over all axes but the first."
    )

    def to_g(dw, direction):
        return dw * direction


@of("weight_norm_backward")
class dg_keeps_axes:
    message = N_(
        "dg keeps axes of length 1 (keepdims=True). A gradient has the shape of what it belongs "
        "to: one number per output, as in g."
    )

    def to_g(along):
        return along
