"""Large values and what is done about them: the right programs, as the chapter prints them."""

import math

import numpy as np

from normkit.tutor.programs import program


@program
def outlier_predictions():
    predictions = {}
    predictions["others"] = 1 / 3
    predictions["large"] = 17 / 3
    predictions["limit"] = 6.0
    predictions["clipped"] = 1.0
    predictions["gradient"] = (1 - (17 / 3) ** 2 / 36) / 3
    predictions["step"] = 17 / 3 / 127
    predictions["integer"] = 7
    return predictions


@program
def to_int8(x, axis=None):
    size = np.abs(x)
    largest = size.max(axis=axis, keepdims=True)
    step = np.where(largest > 0, largest / 127, 1.0)
    scaled = x / step
    rounded = np.round(scaled)
    q = rounded.astype(np.int8)
    return q, step


@program
def mixed_product(x, w, threshold):
    large = np.abs(x) > threshold
    outlier = large.any(axis=0)
    kept = x[:, ~outlier]
    columns = w[:, ~outlier]
    step_x = np.abs(kept).max(axis=1, keepdims=True) / 127
    step_w = np.abs(columns).max(axis=1, keepdims=True) / 127
    q_x = np.round(kept / step_x).astype(np.int32)
    q_w = np.round(columns / step_w).astype(np.int32)
    integers = q_x @ q_w.T
    small = integers * step_x * step_w.T
    apart = x[:, outlier] @ w[:, outlier].T
    return small + apart


@program
def migrate(y, gamma, beta, w):
    of_y = np.abs(y).max(axis=0)
    of_w = np.abs(w).max(axis=0)
    scale = np.sqrt(of_y / of_w)
    new_gamma = gamma / scale
    new_beta = beta / scale
    new_w = w * scale
    return new_gamma, new_beta, new_w


@program
def qk_logits(q, k, heads, gamma_q, gamma_k, eps=1e-6):
    d = q.shape[-1] // heads

    def rms(a):
        mean_square = (a**2).mean(axis=-1, keepdims=True)
        return a / np.sqrt(mean_square + eps)

    def by_head(a):
        split = a.reshape(len(a), heads, d)
        return split.swapaxes(0, 1)

    queries = gamma_q * rms(by_head(q))
    keys = gamma_k * rms(by_head(k))
    products = queries @ keys.swapaxes(1, 2)
    logits = products / math.sqrt(d)
    return logits


@program
def capped_weights(logits, mask, cap):
    capped = cap * np.tanh(logits / cap)
    masked = np.where(mask, capped, -np.inf)
    e = np.exp(masked - masked.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights


@program
def soft_cap_backward(dy, logits, cap):
    t = np.tanh(logits / cap)
    slope = 1 - t**2
    dlogits = dy * slope
    return dlogits


@program
def qk_clip(w_q, w_k, largest, threshold):
    above = largest > threshold
    ratio = np.where(above, threshold / largest, 1.0)
    factor = np.sqrt(ratio)
    rows = np.repeat(factor, len(w_q) // len(largest))
    new_q = rows[:, None] * w_q
    new_k = rows[:, None] * w_k
    return new_q, new_k


@program
def loss_with_z(logits, targets, c):
    largest = logits.max(axis=-1)
    total = np.exp(logits - largest[:, None]).sum(axis=-1)
    log_z = largest + np.log(total)
    right = logits[np.arange(len(logits)), targets]
    cross_entropy = log_z - right
    penalty = c * log_z**2
    loss = cross_entropy + penalty
    return loss


@program
def loss_with_z_backward(logits, targets, c):
    largest = logits.max(axis=-1, keepdims=True)
    e = np.exp(logits - largest)
    total = e.sum(axis=-1, keepdims=True)
    log_z = largest + np.log(total)
    p = e / total
    onehot = np.eye(logits.shape[-1])[targets]
    factor = 1 + 2 * c * log_z
    dlogits = factor * p - onehot
    return dlogits
