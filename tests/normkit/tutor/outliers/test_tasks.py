"""Eight bits and large logits as students compute them, rightly and wrongly."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from normkit.outliers import quantise
from normkit.tutor.judging import judge
from normkit.tutor.observing import observe
from normkit.tutor.outliers.tasks import QUESTIONS


def judged(answer, task, seed=5):
    task = f"outliers/{task}"
    return judge(observe(answer, task, seed), task, seed)


def named(answer, task):
    return sorted(mistake.name for mistake in judged(answer, task).mistakes)


# --- Right answers ----------------------------------------------------------------------------

RIGHT = {
    "others": 1 / 3,
    "large": 17 / 3,
    "limit": 6,
    "clipped": 1,
    "gradient": 0.036,
    "step": 0.0446,
    "integer": 7,
}


def int8_by_loops(x, axis=None):
    if axis is None:
        rows, shape = [x.ravel()], (1,) * x.ndim
    else:
        moved = np.moveaxis(x, axis, -1)
        rows, shape = moved.reshape(-1, x.shape[axis]), (*moved.shape[:-1], 1)
    steps = [max(map(abs, row)) / 127 or 1.0 for row in rows]
    integers = [[round(v / s) for v in row] for row, s in zip(rows, steps, strict=True)]
    if axis is None:
        return np.array(integers, dtype=np.int8).reshape(x.shape), np.array(steps).reshape(shape)
    q = np.array(integers, dtype=np.int8).reshape(moved.shape)
    return np.moveaxis(q, -1, axis), np.moveaxis(np.array(steps).reshape(shape), -1, axis)


def int8_by_cases(x, axis=None):
    if axis is None:
        step = float(max(x.max(), -x.min())) / 127
        return np.rint(x / step).astype("int8"), step
    step = np.maximum(x.max(axis, keepdims=True), -x.min(axis, keepdims=True)) / 127
    step[step == 0] = 0.5  # any will do
    return np.floor(x / step + 0.5).astype(np.int8), step


def int8_in_torch(x, axis=None):
    t = torch.from_numpy(x)
    largest = t.abs().max() if axis is None else t.abs().amax(dim=axis, keepdim=True)
    step = torch.where(largest > 0, largest / 127, torch.ones_like(largest))
    q = torch.round(t / step).clamp(-127, 127).to(torch.int8)
    return q.numpy(), step.numpy()


def product_of_approximations(x, w, threshold):
    large = np.abs(x).max(axis=0) > threshold
    y = x[:, large] @ w[:, large].T
    (qx, sx), (qw, sw) = quantise(x[:, ~large], -1), quantise(w[:, ~large], -1)
    return (qx * sx) @ (qw * sw).T + y


def product_by_loops(x, w, threshold):
    small = [d for d in range(x.shape[1]) if all(abs(v) <= threshold for v in x[:, d])]
    y = np.zeros((len(x), len(w)))
    for t in range(len(x)):
        for o in range(len(w)):
            sx, sw = (max(abs(row[d]) for d in small) / 127 for row in (x[t], w[o]))
            for d in range(x.shape[1]):
                if d in small:
                    y[t, o] += round(x[t, d] / sx) * round(w[o, d] / sw) * sx * sw
                else:
                    y[t, o] += x[t, d] * w[o, d]
    return y


def product_with_zeros(x, w, threshold):
    """Large features become 0 instead of going: they add nothing, and decide no step."""
    large = (abs(x) > threshold).any(0)
    kept, columns = np.where(large, 0, x), np.where(large, 0, w)
    (qx, sx), (qw, sw) = quantise(kept, -1), quantise(columns, -1)
    return np.einsum("td,od->to", qx * 1.0, qw * 1.0) * sx * sw.T + (x * large) @ (w * large).T


def migrate_by_loops(y, gamma, beta, w):
    gamma, beta, w = gamma.copy(), beta.copy(), w.copy()
    for j in range(len(gamma)):
        s = math.sqrt(max(map(abs, y[:, j])) / max(map(abs, w[:, j])))
        gamma[j] /= s
        beta[j] /= s
        w[:, j] *= s
    return [gamma, beta, w]


def migrate_as_matrices(y, gamma, beta, w):
    s = np.abs(y).max(0) ** 0.5 * np.abs(w).max(0) ** -0.5
    return np.diag(1 / s) @ gamma, np.diag(1 / s) @ beta, w @ np.diag(s)


def logits_by_heads(q, k, heads, gamma_q, gamma_k, eps=1e-6):
    d, found = len(gamma_q), []
    for h in range(heads):
        a, b = (z[:, h * d : (h + 1) * d].astype(float) for z in (q, k))
        a = a / np.sqrt(np.mean(a * a, 1) + eps)[:, None] * gamma_q
        b = b / np.sqrt(np.mean(b * b, 1) + eps)[:, None] * gamma_k
        found.append(a @ b.T / math.sqrt(d))
    return np.stack(found)


def logits_of_unit_vectors(q, k, heads, gamma_q, gamma_k, eps=1e-6):
    """Euclidean norms, and √d instead of 1/√d."""
    d = q.shape[1] // heads
    q, k = (z.reshape(-1, heads, d) for z in (q, k))
    unit = [z / np.sqrt((z**2).sum(-1, keepdims=True) + d * eps) for z in (q, k)]
    return np.einsum("qhd,khd,d->hqk", *unit, gamma_q * gamma_k) * np.sqrt(d)


def weights_by_loops(logits, mask, cap):
    out = np.zeros(logits.shape)
    for place in np.ndindex(logits.shape[:-1]):
        e = [
            math.exp(cap * math.tanh(z / cap)) if seen else 0.0
            for z, seen in zip(logits[place], mask[place], strict=True)
        ]
        out[place] = np.array(e) / sum(e)
    return out


def weights_with_a_large_number(logits, mask, cap):
    z = cap * np.tanh(logits / cap)
    z[~mask] = -1e9
    return torch.softmax(torch.from_numpy(z), -1).numpy()


def clip_by_slices(w_q, w_k, largest, threshold):
    w_q, w_k, d = w_q.copy(), w_k.copy(), len(w_q) // len(largest)
    for h, s in enumerate(largest):
        if s > threshold:
            for w in (w_q, w_k):
                w[h * d : (h + 1) * d] *= math.sqrt(threshold / s)
    return w_q, w_k


def clip_by_heads(w_q, w_k, largest, threshold):
    factor = np.minimum(1, (threshold / largest.clip(min=1e-9)) ** 0.5)
    shape = (len(largest), -1, w_q.shape[1])
    return [(w.reshape(shape) * factor[:, None, None]).reshape(w.shape) for w in (w_q, w_k)]


def loss_by_loops(logits, targets, c):
    found = []
    for z, y in zip(logits, targets, strict=True):
        m = max(z)
        log_z = m + math.log(math.fsum(math.exp(v - m) for v in z))
        found.append(log_z - z[y] + c * log_z * log_z)
    return np.array(found)


def loss_in_torch(logits, targets, c):
    z = torch.from_numpy(logits)
    ce = torch.nn.functional.cross_entropy(z, torch.from_numpy(targets), reduction="none")
    return (ce + c * torch.logsumexp(z, -1) ** 2).numpy()


def gradient_in_place_of_the_target(logits, targets, c):
    p = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
    dz = p + 2 * c * np.logaddexp.reduce(logits, axis=-1)[:, None] * p
    dz[np.arange(len(dz)), targets] -= 1
    return dz


CORRECT = [
    ("predict", RIGHT),
    ("predict", {n: np.float32(v) for n, v in RIGHT.items()}),
    ("predict", RIGHT | {"others": 0.333, "large": 5.67, "gradient": 0.0360}),
    ("int8", int8_by_loops),
    ("int8", int8_by_cases),
    ("int8", int8_in_torch),
    ("product", product_of_approximations),
    ("product", product_by_loops),
    ("product", product_with_zeros),
    ("migrate", migrate_by_loops),
    ("migrate", migrate_as_matrices),
    ("qk_norm", logits_by_heads),
    ("qk_norm", logits_of_unit_vectors),
    ("cap", weights_by_loops),
    ("cap", weights_with_a_large_number),
    ("cap_backward", lambda dy, z, c: dy / np.cosh(z / c) ** 2),
    ("cap_backward", lambda dy, z, c: dy * (1 - (c * np.tanh(z / c) / c) ** 2)),
    ("clip", clip_by_slices),
    ("clip", clip_by_heads),
    ("z_loss", loss_by_loops),
    ("z_loss", loss_in_torch),
    ("z_loss_backward", gradient_in_place_of_the_target),
]


@pytest.mark.parametrize(("task", "answer"), CORRECT)
@pytest.mark.parametrize("seed", [0, 5])
def test_a_right_answer_passes_however_it_is_written(task, answer, seed):
    verdict = judged(answer, task, seed)
    assert verdict.passed, verdict.explain()


# --- Wrong answers, as students write them ----------------------------------------------------


def to_int8(x, axis=None, most=127, absolute=np.abs, rounded=np.round, kind=np.int8):
    largest = absolute(x).max(axis=axis, keepdims=True)
    step = np.where(largest > 0, largest / most, 1)
    return rounded(x / step).astype(kind), step


def int8_with_step(x, step):
    return np.rint(x / step).astype(np.int8), step


def product(x, w, threshold, outlier=None, of_x=-1, of_w=-1):
    outlier = (np.abs(x) > threshold).any(0) if outlier is None else outlier(x, threshold)
    (qx, sx), (qw, sw) = quantise(x[:, ~outlier], of_x), quantise(w[:, ~outlier], of_w)
    return qx.astype(int) @ qw.astype(int).T * sx * sw.T + x[:, outlier] @ w[:, outlier].T


def product_that_wraps(x, w, threshold, kind="int8"):
    outlier = (np.abs(x) > threshold).any(0)
    (qx, sx), (qw, sw) = quantise(x[:, ~outlier], -1), quantise(w[:, ~outlier], -1)
    return qx.astype(kind) @ qw.astype(kind).T * sx * sw.T + x[:, outlier] @ w[:, outlier].T


def by_tokens(x, w, threshold):
    large = (np.abs(x) > threshold).any(1)
    y = x @ w.T
    y[~large] = all_quantised(x[~large], w, threshold)
    return y


def all_quantised(x, w, threshold):
    (qx, sx), (qw, sw) = quantise(x, -1), quantise(w, -1)
    return (qx * sx) @ (qw * sw).T


def quantised_before_the_split(x, w, threshold):
    """The steps are those of all features."""
    o = (np.abs(x) > threshold).any(axis=0)
    sx = np.abs(x).max(1, keepdims=True) / 127
    sw = np.abs(w[:, ~o]).max(1, keepdims=True) / 127
    return (np.round(x[:, ~o] / sx) * sx) @ (np.round(w[:, ~o] / sw) * sw).T + x[:, o] @ w[:, o].T


def scale(y, w):
    return np.sqrt(np.abs(y).max(0) / np.abs(w).max(0))


def qk(q, k, heads, gamma_q, gamma_k, eps=1e-6, mean=np.mean, split=None, by=np.sqrt, out="hqk"):
    d = q.shape[1] // heads
    split = split or (lambda z: z.reshape(len(z), heads, d))
    q, k = (split(z) for z in (q, k))
    q, k = (z / np.sqrt(mean(z**2, axis=-1, keepdims=True) + eps) for z in (q, k))
    return np.einsum(f"qhd,khd->{out}", gamma_q * q, gamma_k * k) / by(d)


def qk_by_reshape(q, k, heads, gamma_q, gamma_k, eps=1e-6):
    d = len(gamma_q)
    q, k = (z.reshape(-1, heads, d).transpose(1, 0, 2) for z in (q, k))
    q, k = (z / np.sqrt((z**2).mean(-1, keepdims=True) + eps) for z in (q, k))
    return (q * gamma_q) @ (k * gamma_k).reshape(heads, d, -1) / d**0.5


def qk_token_by_token(q, k, heads, gamma_q, gamma_k, eps=1e-6):
    q, k = (z.reshape(len(z), heads, -1) for z in (q, k))
    q, k = (z / np.sqrt((z**2).mean(-1, keepdims=True) + eps) for z in (q, k))
    return (q * gamma_q) @ (k * gamma_k).transpose(0, 2, 1) / len(gamma_q) ** 0.5


def qk_whole(q, k, heads, gamma_q, gamma_k, eps=1e-6):
    q, k = (z / np.sqrt((z**2).mean(1, keepdims=True) + eps) for z in (q, k))
    d = len(gamma_q)
    q, k = (z.reshape(-1, heads, d).transpose(1, 0, 2) for z in (q, k))
    return (q * gamma_q) @ (k * gamma_k).transpose(0, 2, 1) / d**0.5


def soft(z):
    e = np.exp(z)
    return e / e.sum(-1, keepdims=True)


def clip(factor):
    def answer(w_q, w_k, largest, threshold):
        f = np.repeat(factor(largest, threshold), len(w_q) // len(largest))[:, None]
        return w_q * f, w_k * f

    return answer


def ifs(largest, threshold):
    return np.array([math.sqrt(threshold / s) if s > threshold else 1.0 for s in largest])


def rows_of(head, count=None):
    """The rows of each of the first heads are multiplied, as it thinks."""

    def answer(w_q, w_k, largest, threshold):
        w_q, w_k = w_q.copy(), w_k.copy()
        for h, factor in enumerate(ifs(largest, threshold)[:count]):
            rows = head(h, len(w_q) // len(largest))
            w_q[rows] *= factor
            w_k[rows] *= factor
        return w_q, w_k

    return answer


def log_sum(z):
    return np.logaddexp.reduce(z, axis=-1)


def shifted_sum(z):
    return np.exp(z - z.max(axis=-1, keepdims=True)).sum(axis=-1)


def with_one_largest(z):
    return np.log(np.exp(z - z.max()).sum(axis=-1)) + z.max()


def loss(penalty, log_z=log_sum):
    def answer(logits, targets, c):
        ce = log_sum(logits) - np.take_along_axis(logits, targets[:, None], 1)[:, 0]
        return ce + penalty(c, log_z(logits))

    return answer


def with_cross_entropy(of):
    """The z-loss is right."""

    def answer(logits, targets, c):
        right = logits[np.arange(len(targets)), targets]
        return of(log_sum(logits), right, logits.max(-1)) + c * log_sum(logits) ** 2

    return answer


def shifted_by(reduce):
    """log Z of logits that are shifted by another number than the largest."""
    return lambda z: np.log(np.exp(z - reduce(z)[:, None]).sum(-1)) + reduce(z)


def square(c, log_z):
    return c * log_z**2


def gradient(of):
    def answer(logits, targets, c):
        p = np.exp(logits - log_sum(logits)[:, None])
        onehot = np.eye(logits.shape[1])[targets]
        return of(p, onehot, c, log_sum(logits)[:, None])

    return answer


def whole_rows(z, targets):
    onehot = np.zeros_like(z)
    onehot[targets] = 1
    return onehot


def shifted_softmax_loss(logits, targets, c):
    """The usual stable softmax, whose log Z is that of the shifted logits."""
    z = logits - logits.max(1, keepdims=True)
    log_z = np.log(np.exp(z).sum(1))
    return log_z - z[range(len(z)), targets] + c * log_z**2


WRONG = {
    "int8": {
        "divided_by_128": lambda x, axis=None: to_int8(x, axis, 128),
        "divided_by_255": lambda x, axis=None: to_int8(x, axis, 255),
        "abs_forgotten": lambda x, axis=None: to_int8(x, axis, absolute=lambda x: x),
        "truncated": lambda x, axis=None: to_int8(x, axis, rounded=lambda x: x),
        "rounded_down": lambda x, axis=None: to_int8(x, axis, rounded=lambda x: x // 1),
        "half_added_and_cut": lambda x, axis=None: to_int8(x, axis, rounded=lambda x: x + 0.5),
        "axis_ignored": lambda x, axis=None: to_int8(x),
        "always_along_the_first_axis": lambda x, axis=None: to_int8(x, axis if axis is None else 0),
        "always_along_the_last_axis": lambda x, axis=None: to_int8(x, -1),
        "last_axis_by_default": lambda x, axis=-1: to_int8(x, axis),
        "not_int8": lambda x, axis=None: to_int8(x, axis, kind=int),
        "unsigned": lambda x, axis=None: to_int8(x, axis, kind=np.uint8),
        "step_inverted": lambda x, axis=None: (lambda q, s: (q, 1 / s))(*to_int8(x, axis)),
        "step_upside_down": lambda x, axis=None: int8_with_step(
            x, 127 / np.maximum(abs(x).max(axis, keepdims=True), 1e-300)
        ),
        "results_exchanged": lambda x, axis=None: to_int8(x, axis)[::-1],
        "values_returned": lambda x, axis=None: (lambda q, s: (q * s, s))(*to_int8(x, axis)),
        "abs_after_max": lambda x, axis=None: int8_with_step(
            x, np.maximum(abs(x.max(axis, keepdims=True)), 1e-300) / 127
        ),
        "axis_zero_forgotten": lambda x, axis=None: to_int8(x, axis if axis else None),
        "eps_in_the_step": lambda x, axis=None: int8_with_step(
            x, np.maximum(abs(x).max(axis, keepdims=True) / 127, 1e-3)
        ),
        "changed_in_place": lambda x, axis=None: to_int8(np.multiply(x, 1 + 1e-15, out=x), axis),
        "zero_step": lambda x, axis=None: (lambda s: (np.rint(x / s).astype("int8"), s))(
            abs(x).max(axis, keepdims=True) / 127
        ),
    },
    "product": {
        "nothing_apart": all_quantised,
        "product_in_int8": product_that_wraps,
        "product_in_int16": lambda *a: product_that_wraps(*a, "int16"),
        "nothing_quantised": lambda x, w, threshold: x @ w.T,
        "large_features_in_the_step": quantised_before_the_split,
        "threshold_on_signed_numbers": lambda *a: product(*a, lambda x, t: (x > t).any(0)),
        "abs_after_max": lambda *a: product(*a, lambda x, t: abs(x.max(0)) > t),
        "first_token_decides": lambda *a: product(*a, lambda x, t: abs(x[0]) > t),
        "mean_over_the_threshold": lambda *a: product(
            *a, lambda x, t: np.sqrt(np.mean(x * x, axis=0)) > t
        ),
        "sizes_added_up": lambda *a: product(*a, lambda x, t: np.linalg.norm(x, axis=0) > t),
        "groups_exchanged": lambda *a: product(*a, lambda x, t: (abs(x) <= t).any(0)),
        "other_features_twice": lambda x, w, t: product(x, w, t) + (x * (abs(x) <= t).all(0)) @ w.T,
        "large_features_quantised": lambda x, w, t: sum(
            all_quantised(x[:, some], w[:, some], t)
            for some in ((abs(x) > t).any(0), (abs(x) <= t).all(0))
            if some.any()
        ),
        "all_tokens_must_be_large": lambda *a: product(*a, lambda x, t: (abs(x) > t).all(0)),
        "threshold_ignored": lambda *a: product(*a, lambda x, t: (abs(x) > 6).any(0)),
        "threshold_included": lambda *a: product(*a, lambda x, t: abs(x).max(0) >= t),
        "weights_counted_as_large": lambda x, w, t: product(
            *(x, w, t), lambda x, t: np.abs(np.concatenate([x, w])).max(0) > t
        ),
        "tokens_for_features": lambda *a: product(*a, lambda x, t: abs(x).max(1) > t),
        "one_step_for_all_tokens": lambda *a: product(*a, of_x=None),
        "steps_along_axis_zero": lambda *a: product(*a, of_x=0, of_w=0),
        "tokens_apart": by_tokens,
        "one_step_for_all_outputs": lambda *a: product(*a, of_w=None),
        "large_features_lost": lambda x, w, t: all_quantised(
            *(np.where((abs(x) > t).any(0), 0, a) for a in (x, w)), t
        ),
        "large_features_twice": lambda x, w, t: (
            all_quantised(x, w, t) + (x * (abs(x) > t).any(0)) @ w.T
        ),
    },
    "migrate": {
        "beta_forgotten": lambda y, g, b, w: (g / scale(y, w), b, w * scale(y, w)),
        "nothing_moved": lambda y, g, b, w: (g, b, w),
        "norm_results_exchanged": lambda y, g, b, w: (
            b / scale(y, w),
            g / scale(y, w),
            w * scale(y, w),
        ),
        "rows_of_w_scaled": lambda y, g, b, w: (
            g / scale(y, w),
            b / scale(y, w),
            w * scale(y, w)[:, None],
        ),
        "largest_of_each_row": lambda y, g, b, w: (lambda s: (g / s, b / s, w * s))(
            scale(y.T, w.T)
        ),
        "root_of_one_alone": lambda y, g, b, w: (lambda s: (g / s, b / s, w * s))(
            np.sqrt(abs(y).max(0)) / abs(w).max(0)
        ),
        "scale_without_root": lambda y, g, b, w: (
            g / scale(y, w) ** 2,
            b / scale(y, w) ** 2,
            w * scale(y, w) ** 2,
        ),
        "scale_at_least_one": lambda y, g, b, w: (lambda s: (g / s, b / s, w * s))(
            scale(y, w).clip(1)
        ),
        "weights_divided": lambda y, g, b, w: (g / scale(y, w), b / scale(y, w), w / scale(y, w)),
        "moved_the_other_way": lambda y, g, b, w: (
            g * scale(y, w),
            b * scale(y, w),
            w / scale(y, w),
        ),
        "scale_of_gamma": lambda y, g, b, w: (np.ones(len(g)), b / g, w * g),
        "one_scale_for_all": lambda y, g, b, w: (lambda s: (g / s, b / s, w * s))(
            np.sqrt(abs(y).max() / abs(w).max())
        ),
        "largest_of_y_signed": lambda y, g, b, w: (lambda s: (g / s, b / s, w * s))(
            np.sqrt(y.max(0) / abs(w).max(0))
        ),
    },
    "qk_norm": {
        "full_width": qk_whole,
        "euclidean_norm": lambda *a: qk(*a, mean=np.sum),
        "not_scaled": lambda *a: qk(*a, by=lambda d: 1),
        "scaled_by_a_number_of_others": lambda q, k, h, *rest: qk(
            q, k, h, *rest, by=lambda d: math.sqrt(h)
        ),
        "queries_for_keys": lambda q, k, *rest: qk(q, q, *rest),
        "keys_reshaped": qk_by_reshape,
        "scaled_twice": lambda *a: qk(*a, by=lambda d: d),
        "unit_vectors_not_scaled": lambda *a: qk(*a, mean=np.sum, by=lambda d: 1),
        "logits_transposed": lambda *a: qk(*a, out="hkq"),
        "heads_last": lambda *a: qk(*a, out="qkh"),
        "heads_behind_the_tokens": qk_token_by_token,
        "eps_of_another_library": lambda q, k, h, gq, gk, eps=1e-5: qk(q, k, h, gq, gk, eps),
        "one_plus_gamma": lambda q, k, h, gq, gk, eps=1e-6: qk(q, k, h, 1 + gq, 1 + gk, eps),
        "gammas_forgotten": lambda q, k, h, gq, gk, eps=1e-6: qk(q, k, h, 1, 1, eps),
        "gamma_shared": lambda q, k, h, gq, gk, eps=1e-6: qk(q, k, h, gq, gq, eps),
        "reshaped_into_heads": lambda q, k, h, gq, gk, eps=1e-6: qk(
            *(q, k, h, gq, gk, eps),
            split=lambda z: z.reshape(h, len(z), -1).swapaxes(0, 1),
        ),
        "features_of_the_heads_overlap": lambda q, k, h, gq, gk, eps=1e-6: qk(
            *(q, k, h, gq, gk, eps),
            split=lambda z: np.stack([z[:, i : i + len(gq)] for i in range(h)], axis=1),
        ),
        "features_dealt_out": lambda q, k, h, gq, gk, eps=1e-6: qk(
            *(q, k, h, gq, gk, eps), split=lambda z: z.reshape(len(z), -1, h).swapaxes(1, 2)
        ),
    },
    "cap": {
        "mask_before_the_cap": lambda z, mask, c: soft(c * np.tanh(np.where(mask, z, -np.inf) / c)),
        "finite_mask": lambda z, mask, c: soft(np.where(mask, c * np.tanh(z / c), -50)),
        "infinity_multiplied": lambda z, mask, c: soft(c * np.tanh(z / c) - np.inf * (1 - mask)),
        "tanh_forgotten": lambda z, mask, c: soft(np.where(mask, z / c, -np.inf)),
        "cap_not_multiplied_back": lambda z, mask, c: soft(np.where(mask, np.tanh(z / c), -np.inf)),
        "cap_forgotten": lambda z, mask, c: soft(np.where(mask, z, -np.inf)),
        "hard_clip": lambda z, mask, c: soft(np.where(mask, np.clip(z, -c, c), -np.inf)),
        "mask_inverted": lambda z, mask, c: soft(np.where(mask, -np.inf, c * np.tanh(z / c))),
        "masked_to_zero": lambda z, mask, c: soft(c * np.tanh(z / c) * mask),
        "mask_after_the_softmax": lambda z, mask, c: soft(c * np.tanh(z / c)) * mask,
        "softmax_forgotten": lambda z, mask, c: np.where(mask, c * np.tanh(z / c), -np.inf),
        "weights_not_divided": lambda z, mask, c: (lambda m: np.exp(m - m.max(-1, keepdims=True)))(
            np.where(mask, c * np.tanh(z / c), -np.inf)
        ),
    },
    "cap_backward": {
        "slope_times_cap": lambda dy, z, c: dy * c * (1 - np.tanh(z / c) ** 2),
        "slope_over_cap": lambda dy, z, c: dy * (1 - np.tanh(z / c) ** 2) / c,
        "tanh_not_squared": lambda dy, z, c: dy * (1 - np.tanh(z / c)),
        "capped_value_squared": lambda dy, z, c: dy * (1 - (c * np.tanh(z / c)) ** 2),
        "slope_of_a_clip": lambda dy, z, c: np.where(abs(z) < c, dy, 0),
        "brackets_forgotten": lambda dy, z, c: dy - np.tanh(z / c) ** 2,
        "square_of_the_whole": lambda dy, z, c: dy * (1 - np.tanh(z / c)) ** 2,
        "square_inside_the_tanh": lambda dy, z, c: dy * (1 - np.tanh((z / c) ** 2)),
        "slope_without_tanh": lambda dy, z, c: dy * (1 - z**2 / c**2),
        "dy_forgotten": lambda dy, z, c: 1 - np.tanh(z / c) ** 2,
        "argument_not_divided": lambda dy, z, c: dy * (1 - np.tanh(z) ** 2),
    },
    "clip": {
        "root_forgotten": clip(lambda s, t: ifs(s, t) ** 2),
        "root_of_a_negative_number": clip(lambda s, t: np.sqrt(np.minimum(1, t / s))),
        "sizes_scaled": clip(lambda s, t: np.sqrt(t / abs(s))),
        "every_head_scaled": clip(lambda s, t: np.sqrt(t / s)),
        "one_factor_for_all": clip(lambda s, t: np.full(len(s), ifs([s.max()], t)[0])),
        "heads_interleaved": lambda w_q, w_k, s, t: [
            w * np.tile(ifs(s, t), len(w) // len(s))[:, None] for w in (w_q, w_k)
        ],
        "columns_scaled": lambda w_q, w_k, s, t: (w_q * ifs(s, t), w_k * ifs(s, t)),
        "one_row_for_each_head": rows_of(lambda h, d: h),
        "rows_of_the_heads_overlap": rows_of(lambda h, d: slice(h, h + d)),
        "first_head_alone": rows_of(lambda h, d: slice(h * d, h * d + d), 1),
        "queries_alone": lambda w_q, w_k, s, t: (clip(ifs)(w_q, w_k, s, t)[0], w_k),
        "one_head_decides_for_all": clip(
            lambda s, t: np.sqrt(t / s) if max(s) > t else np.ones(len(s))
        ),
        "matrices_exchanged": lambda *a: clip(ifs)(*a)[::-1],
        "ratio_inverted": clip(lambda s, t: 1 / ifs(s, t)),
        "largest_of_two_factors": clip(lambda s, t: np.sqrt(np.maximum(1, t / s))),
        "other_heads_set_to_zero": clip(lambda s, t: ifs(s, t) * (s > t)),
        "size_of_the_largest": clip(lambda s, t: ifs(abs(s), t)),
        "condition_inverted": clip(lambda s, t: np.where(s <= t, np.sqrt(t / s), 1)),
    },
    "z_loss": {
        "square_forgotten": loss(lambda c, log_z: c * log_z),
        "c_squared": loss(lambda c, log_z: (c * log_z) ** 2),
        "penalty_subtracted": loss(lambda c, log_z: -c * log_z**2),
        "penalty_halved": loss(lambda c, log_z: 0.5 * c * log_z**2),
        "c_forgotten": loss(lambda c, log_z: log_z**2),
        "log_of_the_square": loss(lambda c, log_z: c * 2 * log_z),
        "largest_not_added_back": shifted_softmax_loss,
        "penalty_forgotten": loss(
            lambda c, log_z: c * log_z**2, lambda z: log_sum(z - log_sum(z)[:, None])
        ),
        "cross_entropy_squared": lambda z, y, c: (lambda ce: ce + c * ce**2)(
            log_sum(z) - z[range(len(z)), y]
        ),
        "z_for_its_logarithm": loss(lambda c, total: c * total**2, shifted_sum),
        "one_largest_for_all": lambda z, y, c: (
            lambda log_z: log_z - z[range(len(z)), y] + c * log_z**2
        )(with_one_largest(z)),
        "logits_squared": loss(lambda c, z: c * (z**2).sum(-1), lambda z: z),
        "averaged_over_the_tokens": lambda *a: loss(lambda c, log_z: c * log_z**2)(*a).mean(),
        "overflows": lambda z, y, c: (lambda log_z: log_z - z[range(len(z)), y] + c * log_z**2)(
            np.log(np.exp(z).sum(-1))
        ),
        "log_z_over_everything": lambda z, y, c: (
            lambda log_z: log_z - z[range(len(z)), y] + c * log_z**2
        )(np.log(np.exp(z).sum())),
        "targets_of_all_tokens": lambda z, y, c: log_sum(z) - z[:, y] + c * log_sum(z) ** 2,
        "rows_of_the_targets": lambda z, y, c: log_sum(z) - z[y] + c * log_sum(z) ** 2,
        "targets_from_one": lambda z, y, c: loss(lambda c, log_z: c * log_z**2)(z, y - 1, c),
        "largest_as_a_column": lambda z, y, c: (
            lambda log_z: log_z - z[range(len(z)), y] + c * log_z**2
        )(z.max(-1, keepdims=True) + np.log(shifted_sum(z))),
        "softmax_before": lambda z, y, c: loss(lambda c, log_z: c * log_z**2)(
            soft(z - z.max(-1, keepdims=True)), y, c
        ),
        "cross_entropy_forgotten": lambda z, y, c: c * log_sum(z) ** 2,
        "cross_entropy_averaged": with_cross_entropy(lambda log_z, z, most: (log_z - z).mean()),
        "right_logit_forgotten": with_cross_entropy(lambda log_z, z, most: log_z),
        "log_z_forgotten": with_cross_entropy(lambda log_z, z, most: -z),
        "subtracted_from_one_alone": with_cross_entropy(lambda log_z, z, most: log_z - z - most),
        "largest_not_subtracted": loss(square, shifted_by(lambda z: z.min(-1))),
    },
    "z_loss_backward": {
        "targets_from_one": lambda z, y, c: gradient(
            lambda p, onehot, c, log_z: (1 + 2 * c * log_z) * p - onehot
        )(z, y - 1, c),
        "target_for_onehot": lambda z, y, c: gradient(
            lambda p, onehot, c, log_z: (1 + 2 * c * log_z) * p - y.reshape(-1, 1)
        )(z, y, c),
        "onehot_of_the_tokens": lambda z, y, c: gradient(
            lambda p, onehot, c, log_z: (1 + 2 * c * log_z) * p - np.identity(len(z))[y]
        )(z, y, c),
        "two_forgotten": gradient(lambda p, y, c, log_z: (1 + c * log_z) * p - y),
        "square_kept": gradient(lambda p, y, c, log_z: p - y + 2 * c * log_z**2 * p),
        "one_not_multiplied": gradient(lambda p, y, c, log_z: 1 + 2 * c * log_z * p - y),
        "onehot_of_all_tokens": gradient(
            lambda p, y, c, log_z: (1 + 2 * c * log_z) * p - y.max(0, keepdims=True)
        ),
        "one_largest_for_all": lambda z, y, c: (
            lambda log_z: (1 + 2 * c * log_z) * np.exp(z - log_z) - np.eye(z.shape[1])[y]
        )(with_one_largest(z)[:, None]),
        "largest_not_added_back": lambda z, y, c: (
            lambda log_z: (1 + 2 * c * log_z) * np.exp(z - log_z) - np.eye(z.shape[1])[y]
        )(np.log(shifted_sum(z))[:, None]),
        "largest_not_subtracted": lambda z, y, c: (
            lambda log_z: (1 + 2 * c * log_z) * np.exp(z - log_z) - np.eye(z.shape[1])[y]
        )(shifted_by(lambda z: z.mean(-1))(z)[:, None]),
        "overflows": lambda z, y, c: (
            (1 + 2 * c * log_sum(z)[:, None]) * soft(z) - np.eye(z.shape[1])[y]
        ),
        "onehot_of_whole_rows": lambda z, y, c: (
            (1 + 2 * c * log_sum(z)[:, None]) * np.exp(z - log_sum(z)[:, None]) - whole_rows(z, y)
        ),
        "onehot_added": gradient(lambda p, y, c, log_z: (1 + 2 * c * log_z) * p + y),
        "p_forgotten": gradient(lambda p, y, c, log_z: p - y + 2 * c * log_z),
        "both_scaled": gradient(lambda p, y, c, log_z: (p - y) * (1 + 2 * c * log_z)),
        "penalty_without_gradient": gradient(lambda p, y, c, log_z: p - y),
        "log_z_lost": gradient(lambda p, y, c, log_z: p - y + 2 * c * p),
        "sign_reversed": gradient(lambda p, y, c, log_z: y - (1 + 2 * c * log_z) * p),
        "gradient_averaged": gradient(
            lambda p, y, c, log_z: ((1 + 2 * c * log_z) * p - y) / len(p)
        ),
    },
}


AVERAGES = {
    "mean": lambda x, t: abs(x.mean(0)) > t,
    "median": lambda x, t: np.median(abs(x), 0) > t,
    "majority": lambda x, t: (abs(x) > t).sum(0) > len(x) // 2,
}


@pytest.mark.parametrize("kind", AVERAGES)
def test_an_average_that_decides_is_named(kind):
    def answer(*given):
        return product(*given, AVERAGES[kind])

    assert named(answer, "product") == ["mean_over_the_threshold"]


@pytest.mark.parametrize(
    ("task", "name"), [(task, name) for task, answers in WRONG.items() for name in answers]
)
def test_a_wrong_answer_is_named(task, name):
    assert named(WRONG[task][name], task) == [name]


# --- Predictions ------------------------------------------------------------------------------

GUESSES = [
    ({"others": 1.0}, ["others_unchanged"]),
    ({"large": 17}, ["large_unchanged"]),
    ({"limit": math.inf}, ["limit_unbounded"]),
    ({"limit": 36, "integer": 127}, ["integer_of_the_large_one", "limit_is_the_width"]),
    ({"clipped": 1 / 3}, ["clipped_as_before"]),
    ({"integer": 7.47}, ["integer_not_rounded"]),
    ({"others": 1 / 9, "large": 17 / 9}, ["mean_square_for_rms"]),
    ({"gradient": 0.333}, ["gradient_only_divided"]),
    ({"gradient": 0.108}, ["gradient_not_divided"]),
    ({"step": 0.134, "integer": 8}, ["integer_rounded_up", "step_before_the_norm"]),
    ({"gradient": -2.34}, ["gradient_of_the_input"]),
    ({"gradient": -10.4}, ["gradient_without_the_width"]),
    ({"gradient": 0.281}, ["gradient_without_the_square"]),
    ({"integer": 0}, ["integer_of_the_output"]),
    ({"integer": 22}, ["integer_of_the_input"]),
    (
        {"others": 0.3, "gradient": 0.04, "step": 0.04},
        ["gradient_rounded_too_far", "others_rounded_too_far", "step_rounded_too_far"],
    ),
    ({"others": 0.0556, "large": 0.944}, ["length_for_rms"]),
    ({"others": 0.692, "large": 11.8}, ["mean_for_rms"]),
    ({"others": -0.169, "large": 5.916}, ["layer_norm_for_rms"]),
    ({"limit": 5.916, "step": 0.0443}, ["limit_is_the_width", "step_for_256_levels"]),
]


@pytest.mark.parametrize(("guess", "names"), GUESSES)
def test_a_wrong_prediction_is_named(guess, names):
    assert named(RIGHT | guess, "predict") == names


@pytest.mark.parametrize("third", [Fraction(1, 3), np.array(1 / 3), np.float32(1 / 3)])
def test_a_prediction_is_a_number_of_any_type(third):
    assert judged(RIGHT | {"others": third}, "predict").passed


@pytest.mark.parametrize("guess", [{"others": 0.33}, {"large": 5.7}, {"step": 0.045}])
def test_a_number_that_is_nearly_right_is_perhaps_rounded_too_far(guess):
    said = judged(RIGHT | guess, "predict").explain()
    assert "nearly right" in said and "like no mistake" not in said


@pytest.mark.parametrize("answer", [None, {"large": 3}, [1, 2]])
def test_predictions_that_are_no_dictionary_of_these_names_fail(answer):
    assert not judged(answer, "predict").passed


def test_what_is_right_already_is_said():
    verdict = judged(dict.fromkeys(QUESTIONS) | {"limit": 6}, "predict")
    assert "predictions['limit']" in verdict.explain()


# --- Two at once, and what is not known -------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "names", "answer"),
    [
        (
            "int8",
            ["abs_forgotten", "truncated"],
            lambda x, axis=None: to_int8(x, axis, absolute=lambda x: x, rounded=lambda x: x),
        ),
        (
            "migrate",
            ["beta_forgotten", "scale_without_root"],
            lambda y, g, b, w: (g / scale(y, w) ** 2, b, w * scale(y, w) ** 2),
        ),
        (
            "qk_norm",
            ["full_width", "placement/not_scaled"],
            lambda *a: qk_whole(*a) * math.sqrt(len(a[3])),
        ),
        (
            "clip",
            ["keys_alone", "ratio_inverted"],
            lambda w_q, w_k, s, t: (w_q, clip(lambda s, t: 1 / ifs(s, t))(w_q, w_k, s, t)[1]),
        ),
        (
            "z_loss_backward",
            ["sign_reversed", "two_forgotten"],
            gradient(lambda p, y, c, log_z: y - (1 + c * log_z) * p),
        ),
        (
            "z_loss_backward",
            ["both_scaled", "gradient_averaged"],
            gradient(lambda p, y, c, log_z: (1 + 2 * c * log_z) * (p - y) / len(p)),
        ),
    ],
)
def test_two_mistakes_are_both_named(task, names, answer):
    assert named(answer, task) == [name.rpartition("/")[2] for name in names]


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        ("int8", lambda x, axis=None: to_int8(x, axis, most=100)),
        ("product", lambda x, w, t: x @ w.T + 0.1),
        ("product", lambda x, w, t: product(x, w, t / 2)),
        ("product", lambda x, w, t: product(x, w, 2 * t)),
        ("qk_norm", lambda *a: np.tanh(qk(*a))),
        ("cap", lambda z, mask, c: soft(np.where(mask, c * np.arctan(z / c), -np.inf))),
        ("clip", lambda w_q, w_k, s, t: (w_q - 1, w_k - 1)),
        ("z_loss", loss(lambda c, log_z: c * log_z**4)),
    ],
)
def test_what_is_not_known_is_not_named(task, answer):
    verdict = judged(answer, task)
    assert not verdict.passed and not verdict.mistakes


def test_the_caller_keeps_its_matrices():
    def answer(w_q, w_k, largest, threshold):
        rows = np.repeat(ifs(largest, threshold), len(w_q) // len(largest))[:, None]
        w_q *= rows
        w_k *= rows
        return w_q, w_k

    verdict = judged(answer, "clip")
    assert [mistake.name for mistake in verdict.mistakes] == ["matrices_changed_in_place"]
    assert not verdict.changed  # the mistake says it of both


def test_exponentials_that_are_not_divided_are_told_whatever_was_subtracted():
    def answer(z, mask, cap):
        return np.exp(np.where(mask, cap * np.tanh(z / cap), -np.inf))

    assert named(answer, "cap") == ["weights_not_divided"]


def test_a_quotient_without_remainder_is_rounded_down():
    def answer(x, axis=None):
        step = to_int8(x, axis)[1]
        return (x // step).astype(np.int8), step

    assert named(answer, "int8") == ["rounded_down"]


def test_arrays_that_are_changed_by_slices_are_told_once():
    def answer(y, gamma, beta, w):
        s = scale(y, w)
        gamma[:], beta[:], w[:] = gamma / s, beta / s, w * s
        return gamma, beta, w

    verdict = judged(answer, "migrate")
    assert [mistake.name for mistake in verdict.mistakes] == ["norm_changed_in_place"]
    assert not verdict.changed


def test_a_step_as_small_as_the_numbers_is_right():
    def answer(x, axis=None):
        return int8_with_step(x, np.maximum(abs(x).max(axis, keepdims=True) / 127, 1e-30))

    assert judged(answer, "int8").passed


def test_ready_made_functions_are_refused():
    assert judged(quantise, "int8").difference.what == "ready_made"
    assert judged(lambda x, axis=None: quantise(x, axis), "int8").difference.what == "ready_made"


def test_an_axis_of_length_1_that_is_left_is_told_of():
    def answer(logits, targets, c):
        largest = logits.max(axis=-1, keepdims=True)
        log_z = largest + np.log(np.exp(logits - largest).sum(axis=-1, keepdims=True))
        return log_z - logits[np.arange(len(logits)), targets] + c * log_z**2

    assert "An axis of length 1 is too many" in judged(answer, "z_loss").explain()
    assert "axis of length 1" not in judged(lambda y, *norm: (y, *norm), "migrate").explain()


@pytest.mark.parametrize(
    ("axis", "name"), [(None, "softmax_over_everything"), (-2, "softmax_over_the_queries")]
)
def test_only_the_sum_of_the_softmax_along_another_axis(axis, name):
    def answer(logits, mask, cap):
        z = np.where(mask, cap * np.tanh(logits / cap), -np.inf)
        e = np.exp(z - z.max(axis=-1, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)

    assert named(answer, "cap") == [name]


def test_steps_of_the_weights_along_axis_0():
    def answer(x, w, threshold):
        large = (np.abs(x) > threshold).any(axis=0)
        (q_x, step_x), (q_w, step_w) = quantise(x[:, ~large], -1), quantise(w[:, ~large], 0)
        small = q_x.astype(int) @ q_w.astype(int).T * step_x * step_w.T
        return small + x[:, large] @ w[:, large].T

    assert named(answer, "product") == ["steps_along_axis_zero"]


def test_only_the_logarithm_overflows():
    def answer(logits, targets, c):
        log_z = np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        p = np.exp(logits - np.logaddexp.reduce(logits, axis=-1)[:, None])
        return (1 + 2 * c * log_z) * p - np.eye(logits.shape[-1])[targets]

    assert named(answer, "z_loss_backward") == ["overflows"]


@pytest.mark.parametrize("slope", [lambda t: t**2, lambda t: t**2 - 1])
def test_a_slope_without_its_one(slope):
    answer = lambda dy, logits, cap: dy * slope(np.tanh(logits / cap))  # noqa: E731
    assert named(answer, "cap_backward") == ["one_minus_forgotten"]


def test_keys_divided_by_the_size_of_the_queries():
    def answer(q, k, heads, gamma_q, gamma_k, eps=1e-6):
        def split(a):
            return a.reshape(len(a), heads, -1).swapaxes(0, 1)

        q, k = split(q), split(k)
        size = np.sqrt((q**2).mean(axis=-1, keepdims=True) + eps)
        product = (gamma_q * q / size) @ (gamma_k * k / size).swapaxes(1, 2)
        return product / math.sqrt(len(gamma_q))

    assert named(answer, "qk_norm") == ["size_of_the_other"]
