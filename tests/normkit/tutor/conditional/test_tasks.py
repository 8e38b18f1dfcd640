"""Conditional norms as students write them, rightly and wrongly."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import normkit
from normkit import conditional
from normkit.conditional_layers import AdaLNZero as Ready
from normkit.tutor.judging import judge
from normkit.tutor.observing import observe


def judged(answer, task, seed=5):
    task = f"conditional/{task}"
    return judge(observe(answer, task, seed), task, seed)


def named(answer, task, seed=5):
    return sorted(mistake.name for mistake in judged(answer, task, seed).mistakes)


# --- Right answers: NumPy ---------------------------------------------------------------------


def film_in_loops(x, scale, shift):
    y = np.empty(x.shape)
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            y[n, c] = x[n, c] * (scale[n, c] + 1.0) + shift[n, c]
    return y


def film_by_moving_the_axes(x, scale, shift):
    return (x.T * (1 + scale.T) + shift.T).T


def film_in_the_paper_form(x, scale, shift):
    gamma, beta = 1 + scale, shift
    return np.einsum("nc...,nc->nc...", x, gamma) + np.expand_dims(beta, tuple(range(2, x.ndim)))


def film_with_the_input_apart(x, scale, shift):
    ones = [1] * (x.ndim - 2)
    return x + scale.reshape(*scale.shape, *ones) * x + shift.reshape(*shift.shape, *ones)


def film_on_a_copy(x, scale, shift):
    y = x.copy()
    for n, (row, term) in enumerate(zip(scale, shift, strict=True)):
        for c in range(len(row)):
            y[n, c] *= 1 + row[c]
            y[n, c] += term[c]
    return y


def adaln_token_by_token(x, scale, shift, eps=1e-6):
    y = []
    for example, gamma, beta in zip(x, scale, shift, strict=True):
        rows = []
        for token in example:
            centred = token - sum(token) / len(token)
            rows.append(beta + centred / math.sqrt(np.dot(centred, centred) / len(token) + eps)
                        + gamma * centred / math.sqrt((centred**2).mean() + eps))  # fmt: skip
        y.append(rows)
    return np.array(y)


def adaln_in_float64(x, scale, shift, eps=1e-6):
    wide = x.astype(np.float64)
    xhat = (wide - wide.mean(-1, keepdims=True)) * (wide.var(-1, keepdims=True) + eps) ** -0.5
    y = np.einsum("ntd,nd->ntd", xhat, 1 + scale.astype(float)) + shift.astype(float)[:, np.newaxis]
    return y.astype(x.dtype)


def adaln_by_repeating(x, scale, shift, eps=1e-6):
    count, length, width = x.shape
    gamma = np.repeat(scale, length, axis=0) + 1
    beta = np.repeat(shift, length, axis=0)
    rows = x.reshape(-1, width)
    mean = rows.mean(axis=1)[:, None]
    std = np.sqrt(rows.var(axis=1) + eps)[:, None]
    return (gamma * (rows - mean) / std + beta).reshape(count, length, width)


def zero_example_by_example(x, modulation, norm, branch):
    width = x.shape[-1]
    h = np.empty_like(x)
    for n, row in enumerate(modulation):
        h[n] = norm(x)[n] * (1 + row[width : 2 * width]) + row[:width]
    out = branch(h)
    return np.stack([x[n] + modulation[n, 2 * width :] * out[n] for n in range(len(x))])


def zero_by_reshape(x, modulation, norm, branch):
    parts = modulation.reshape(len(x), 3, -1)
    h = np.multiply(norm(x), 1 + parts[:, 1:2]) + parts[:, :1]
    return np.add(x, np.einsum("nd,ntd->ntd", parts[:, 2], branch(h)))


def backward_in_loops(dy, x, shift, scale, gate, weight, eps=1e-6):
    dx, (dshift, dscale, dgate) = dy.astype(float), np.zeros((3, *shift.shape))
    for n, t in np.ndindex(x.shape[:2]):
        mean, var = x[n, t].mean(), x[n, t].var()
        xhat = (x[n, t] - mean) / np.sqrt(var + eps)
        h = (1 + scale[n]) * xhat + shift[n]
        dgate[n] += dy[n, t] * (h @ weight)
        dh = weight @ (gate[n] * dy[n, t])
        dshift[n] += dh
        dscale[n] += dh * xhat
        dxhat = (1 + scale[n]) * dh
        inner = dxhat - dxhat.mean() - xhat * (dxhat * xhat).mean()
        dx[n, t] += inner / np.sqrt(var + eps)
    return dx, dshift, dscale, dgate


def backward_with_the_library(dy, x, shift, scale, gate, weight, eps=1e-6):
    xhat = normkit.layer_norm(x, eps=eps)
    h = (1 + scale)[:, None] * xhat + shift[:, None]
    dh = np.einsum("ntj,nj,ij->nti", dy, gate, weight)
    dxhat = dh + scale[:, None] * dh
    dgate = np.einsum("ntj,ntj->nj", dy, h @ weight)
    through, _, _ = normkit.layer_norm_backward(dxhat, x, eps=eps)
    return [dy + through, dh.sum(1), (dh * xhat).sum(1), dgate]


def backward_by_stages(dy, x, shift, scale, gate, weight, eps=1e-6):
    width = x.shape[-1]
    centred = x - x.mean(-1, keepdims=True)
    root = np.sqrt((centred**2).sum(-1, keepdims=True) / width + eps)
    xhat = centred / root
    dh = np.matmul(gate[:, None, :] * dy, weight.transpose())
    dxhat = dh * (1 + scale[:, None])
    dvar = -0.5 * (dxhat * centred).sum(-1, keepdims=True) / root**3
    dcentred = dxhat / root + 2 / width * centred * dvar
    dx = dcentred - dcentred.mean(-1, keepdims=True) + dy
    out = np.matmul(xhat * (1 + scale[:, None]) + shift[:, None], weight)
    return dx, dh.sum(axis=-2), (dh * xhat).sum(axis=-2), (dy * out).sum(axis=-2)


def classes_in_loops(x, labels, scales, shifts, eps=1e-5):
    y = np.zeros(x.shape)
    for c in range(x.shape[1]):
        channel = x[:, c].astype(float)
        for n, k in enumerate(labels):
            xhat = (channel[n] - channel.mean()) / math.sqrt(channel.var() + eps)
            y[n, c] = (1 + scales[k, c]) * xhat + shifts[k, c]
    return y


def classes_one_hot(x, labels, scales, shifts, eps=1e-5):
    one_hot = np.eye(len(scales))[labels]
    gamma, beta = one_hot @ (1 + scales), one_hot @ shifts
    last = np.moveaxis(x, 1, -1)
    rows = last.reshape(-1, x.shape[1])
    xhat = (last - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0) + eps)
    ones = [1] * (x.ndim - 2)
    y = xhat * gamma.reshape(len(x), *ones, -1) + beta.reshape(len(x), *ones, -1)
    return np.moveaxis(y, -1, 1)


def classes_class_by_class(x, labels, scales, shifts, eps=1e-5):
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    y = (x - mean) / np.sqrt(var + eps)
    for k in set(labels.tolist()):
        one = (1, -1) + (1,) * (x.ndim - 2)
        y[labels == k] = y[labels == k] * (1 + scales[k].reshape(one)) + shifts[k].reshape(one)
    return y


def adain_channel_by_channel(x, style, eps=1e-5):
    y = np.empty(x.shape)
    for n, c in np.ndindex(x.shape[:2]):
        a, s = x[n, c].astype(float), style[n, c].astype(float)
        y[n, c] = (a - a.mean()) * math.sqrt((s.var() + eps) / (a.var() + eps)) + s.mean()
    return y


def adain_flattened(x, style, eps=1e-5):
    a, s = x.reshape(*x.shape[:2], -1), style.reshape(*style.shape[:2], -1)
    spread = np.sqrt(s.var(axis=2, ddof=0, keepdims=True) + eps)
    xhat = (a - a.mean(2, keepdims=True)) / (a.var(2, keepdims=True) + eps) ** 0.5
    return (xhat * spread + s.mean(2, keepdims=True)).reshape(x.shape)


def adain_as_one_line(x, style, eps=1e-5):
    over = tuple(range(2, x.ndim))
    ratio = np.sqrt(style.var(over, keepdims=True) + eps) / np.sqrt(
        x.var(over, keepdims=True) + eps
    )
    return ratio * x + style.mean(over, keepdims=True) - ratio * x.mean(over, keepdims=True)


# --- Right answers: the layer -----------------------------------------------------------------


class WithFunctional(nn.Module):
    def __init__(self, branch, width, condition_width):
        super().__init__()
        self.width, self.branch = width, branch
        self.modulation = nn.Linear(condition_width, 3 * width)
        nn.init.constant_(self.modulation.weight, 0)
        nn.init.constant_(self.modulation.bias, 0)

    def forward(self, x, c):
        m = self.modulation(functional.silu(c)).unsqueeze(1)
        shift, scale, gate = m.split(self.width, dim=-1)
        h = functional.layer_norm(x, (self.width,), eps=1e-6) * (scale + 1) + shift
        return x + gate * self.branch(h)


class ByHand(nn.Module):
    def __init__(self, branch, width, condition_width):
        super().__init__()
        self.branch, self.act = branch, nn.SiLU()
        self.modulation = nn.Linear(condition_width, width * 3)
        with torch.no_grad():
            for parameter in self.modulation.parameters():
                parameter.zero_()

    def forward(self, x, c):
        d = x.shape[-1]
        m = self.modulation(self.act(c))
        shift, scale, gate = m[:, :d], m[:, d : 2 * d], m[:, 2 * d :]
        wide = x.double()
        centred = wide - wide.mean(-1, keepdim=True)
        xhat = (centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()).to(x.dtype)
        h = torch.einsum("ntd,nd->ntd", xhat, 1 + scale) + shift[:, None, :]
        return torch.addcmul(x, gate[:, None], self.branch(h))


class SignedZeros(WithFunctional):
    def __init__(self, branch, width, condition_width):
        super().__init__(branch, width, condition_width)
        self.modulation = nn.Linear(condition_width, 3 * width)
        with torch.no_grad():
            self.modulation.weight *= 0  # half of them become -0
        self.modulation.bias.data = -torch.zeros(3 * width)


class SigmoidWritten(WithFunctional):
    def forward(self, x, c):
        rows = self.modulation(c * torch.sigmoid(c))
        shift, scale, gate = rows.reshape(len(x), 3, 1, -1).unbind(1)
        norm = nn.LayerNorm(self.width, 1e-6, False)
        return x + self.branch(norm(x) + norm(x) * scale + shift) * gate


RIGHT = {
    "film": [
        *(film_in_loops, film_by_moving_the_axes, film_in_the_paper_form),
        *(film_with_the_input_apart, film_on_a_copy),
    ],
    "adaln": [adaln_token_by_token, adaln_in_float64, adaln_by_repeating],
    "zero": [zero_example_by_example, zero_by_reshape],
    "backward": [backward_in_loops, backward_with_the_library, backward_by_stages],
    "modulation": [backward_with_the_library],
    "dx": [backward_with_the_library],
    "batch_norm": [classes_in_loops, classes_one_hot, classes_class_by_class],
    "adain": [adain_channel_by_channel, adain_flattened, adain_as_one_line],
    "layer": [WithFunctional, ByHand, SignedZeros, SigmoidWritten],
}


@pytest.mark.parametrize(
    ("task", "answer"), [(task, answer) for task, answers in RIGHT.items() for answer in answers]
)
def test_right_answers_of_any_style_pass(task, answer):
    for seed in range(3):
        verdict = judged(answer, task, seed)
        assert verdict.passed, verdict.explain()


def test_gradients_of_a_half_written_backward_pass_count_by_themselves():
    def answer(*given):
        _, *others = backward_by_stages(*given)
        return None, *others

    assert judged(answer, "modulation").passed and not judged(answer, "dx").passed


def by_autograd(dy, x, shift, scale, gate, weight, eps=1e-6):
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, shift, scale, gate)]
    x, shift, scale, gate = leaves
    xhat = functional.layer_norm(x, x.shape[-1:], eps=eps)
    h = (1 + scale[:, None]) * xhat + shift[:, None]
    (x + gate[:, None] * (h @ torch.tensor(weight))).backward(torch.tensor(dy))
    return [leaf.grad.numpy() for leaf in leaves]


READY_MADE = {
    "torch.Tensor.backward": ("backward", by_autograd),
    "normkit.conditional.modulate": (
        "film",
        lambda x, scale, shift: conditional.modulate(x, scale, shift, axis=1),
    ),
    "normkit.conditional.adaptive_layer_norm": ("adaln", conditional.adaptive_layer_norm),
    "normkit.conditional.adaptive_instance_norm": ("adain", conditional.adaptive_instance_norm),
    "normkit.layer_norm": (
        "adaln",
        lambda x, g, b, eps=1e-6: (1 + g[:, None]) * normkit.layer_norm(x, eps=eps) + b[:, None],
    ),
    "normkit.conditional_layers.AdaLNZero": ("layer", Ready),
}


@pytest.mark.parametrize("name", READY_MADE)
def test_a_ready_made_answer_is_refused(name):
    task, answer = READY_MADE[name]
    difference = judged(answer, task).difference
    assert (difference.what, difference.name) == ("ready_made", name)


# --- Wrong answers: scale and shift -----------------------------------------------------------


def lines_up(rows, x):
    return rows.reshape(*rows.shape, *[1] * (x.ndim - 2))


def of_film(combine):
    """FiLM that puts x, scale and shift, which line up, together in its own way."""
    return lambda x, scale, shift: combine(x, lines_up(scale, x), lines_up(shift, x))


def film_with_loop_that_forgets_the_examples(x, scale, shift):
    y = np.empty(x.shape)
    for c in range(x.shape[1]):
        y[:, c] = (1 + scale[0, c]) * x[:, c] + shift[0, c]
    return y


def film_in_place(x, scale, shift):
    for n, c in np.ndindex(scale.shape):
        x[n, c] = x[n, c] * (1 + scale[n, c]) + shift[n, c]
    return x


def standardised(x, axes=-1, eps=1e-6, ddof=0):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True, ddof=ddof)
    return (x - mean) / np.sqrt(var + eps)


def of_adaln(combine):
    """AdaLN whose norm is right."""
    return lambda x, scale, shift, eps=1e-6: combine(standardised(x, -1, eps), scale, shift)


def norm_of_modulated(x, scale, shift, eps=1e-6):
    return standardised(x * (scale[:, None] + 1) + shift[:, None], -1, eps)


def with_torchs_eps(x, scale, shift, eps=1e-5):
    return standardised(x, -1, eps) * (1 + scale[:, None]) + shift[:, None]


WRONG = {
    "film": {
        "scale_without_one": of_film(lambda x, g, b: x * g + b),
        "one_added_twice": of_film(lambda x, g, b: (1 + (1 + g)) * x + b),
        "one_for_both": of_film(lambda x, g, b: (1 + b) * x + b),
        "scale_and_shift_exchanged": of_film(lambda x, g, b: (1 + b) * x + g),
        "scale_subtracted": of_film(lambda x, g, b: x - g * x + b),
        "shift_before_scale": of_film(lambda x, g, b: (x + b) * (1 + g)),
        "one_outside_brackets": of_film(lambda x, g, b: b + 1 + g * x),
        "shift_forgotten": of_film(lambda x, g, b: x + g * x),
        "exponential_scale": of_film(lambda x, g, b: x * np.exp(g) + b),
        "first_row_for_all": film_with_loop_that_forgets_the_examples,
        "for_images_alone": lambda x, g, b: (1 + g[..., None, None]) * x + b[..., None, None],
        "lined_up_with_last_axes": lambda x, g, b: (g + 1) * x + b,
        "changed_in_place": film_in_place,
    },
    "adaln": {
        "scale_without_one": of_adaln(lambda z, g, b: z * g[:, None, :] + b[:, None, :]),
        "one_added_twice": of_adaln(lambda z, g, b: z * g[:, None] + 2 * z + b[:, None]),
        "one_for_both": of_adaln(lambda z, g, b: z * (1 + g[:, None]) + g[:, None]),
        "other_fixed_eps": lambda x, g, b, eps=1e-6: with_torchs_eps(x, g, b, 1e-3),
        "rows_meet_tokens": of_adaln(lambda z, g, b: b + z * (g + 1)),
        "features_meet_tokens": of_adaln(lambda z, g, b: b[..., None] + z * (g + 1)[..., None]),
        "rms_instead": lambda x, g, b, eps=1e-6: (
            x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * (1 + g[:, None]) + b[:, None]
        ),
        "modulated_first": norm_of_modulated,
        "unbiased_variance": lambda x, g, b, eps=1e-6: (
            standardised(x, -1, eps, 1) * (1 + g[:, None]) + b[:, None]
        ),
        "last_two_axes": lambda x, g, b, eps=1e-6: (
            standardised(x, (1, 2), eps) * (1 + g[:, None]) + b[:, None]
        ),
        "eps_outside_root": lambda x, g, b, eps=1e-6: (
            (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + eps) * (g[:, None] + 1)
            + b[:, None]
        ),
        "eps_of_layer_norm": with_torchs_eps,
        "eps_of_another_library": lambda x, g, b, eps=1e-3: with_torchs_eps(x, g, b, eps),
        "norm_forgotten": lambda x, g, b, eps=1e-6: x + x * g[:, None] + b[:, None],
    },
}


# --- Wrong answers: the block -----------------------------------------------------------------


def of_block(combine, order=(0, 1, 2)):
    """A block that cuts the modulation in this order: shift, scale, gate."""

    def answer(x, modulation, norm, branch):
        parts = np.array_split(modulation[:, np.newaxis, :], 3, axis=2)
        return combine(x, *(parts[i] for i in order), norm, branch)

    return answer


def right_block(x, b, g, a, norm, branch):
    return x + branch(norm(x) * (1 + g) + b) * a


def every_third(x, modulation, norm, branch):
    shift, scale, gate = (modulation[:, None, i::3] for i in (0, 1, 2))
    return right_block(x, shift, scale, gate, norm, branch)


def reshaped_to_three(x, modulation, norm, branch):
    shift, scale, gate = modulation.reshape(3, x.shape[0], x.shape[2])[:, :, None]
    return right_block(x, shift, scale, gate, norm, branch)


def without_an_axis_for_tokens(x, modulation, norm, branch):
    width = x.shape[-1]
    shift, scale, gate = (modulation[:, i * width : (i + 1) * width] for i in range(3))
    return right_block(x, shift, scale, gate, norm, branch)


WRONG["zero"] = {
    "scale_before_shift": of_block(right_block, (1, 0, 2)),
    "gate_not_last": of_block(right_block, (1, 2, 0)),
    "parts_interleaved": every_third,
    "cut_across_examples": reshaped_to_three,
    "rows_meet_tokens": without_an_axis_for_tokens,
    "one_added_twice": of_block(lambda x, b, g, a, N, F: F(N(x) * (2 + g) + b) * a + x),
    "scale_without_one": of_block(lambda x, b, g, a, N, F: F(N(x) * g + b) * a + x),
    "one_plus_gate": of_block(lambda x, b, g, a, N, F: F(N(x) * (1 + g) + b) * (1 + a) + x),
    "gate_on_sum": of_block(lambda x, b, g, a, N, F: (F(N(x) * (1 + g) + b) + x) * a),
    "gate_forgotten": of_block(lambda x, b, g, a, N, F: F(N(x) * (1 + g) + b) + x),
    "stream_forgotten": of_block(lambda x, b, g, a, N, F: F(N(x) * (1 + g) + b) * a),
    "branch_not_added": lambda x, modulation, norm, branch: x.copy(),
    "h_returned": of_block(lambda x, b, g, a, N, F: N(x) * (1 + g) + b),
    "stream_normalised": of_block(lambda x, b, g, a, N, F: F(N(x) * (1 + g) + b) * a + N(x)),
    "modulated_first": of_block(lambda x, b, g, a, N, F: F(N(x * (1 + g) + b)) * a + x),
    "gate_before_branch": of_block(lambda x, b, g, a, N, F: F(a * (N(x) * (1 + g) + b)) + x),
    "shift_behind_branch": of_block(lambda x, b, g, a, N, F: F(N(x) * (1 + g)) * a + x + b),
    "branch_normalised": of_block(lambda x, b, g, a, N, F: N(F(N(x) * (1 + g) + b)) * a + x),
    "gate_squashed": of_block(lambda x, b, g, a, N, F: F(N(x) * (1 + g) + b) * np.tanh(a) + x),
    "norm_ignored": of_block(lambda x, b, g, a, N, F: (
        F(standardised(x, -1, 1e-5) * (1 + g) + b) * a + x
    )),
    "normalised_after_sum": of_block(
        lambda x, b, g, a, N, F: N(F(N(x) * (1 + g) + b) * a + x)
    ),
}  # fmt: skip


# --- Wrong answers: gradients -----------------------------------------------------------------


def of_backward(change=lambda v: {}, over=1, order=("dx", "dshift", "dscale", "dgate")):
    """The backward pass of which some steps are others; `over`: the axes of the sums."""

    def answer(dy, x, shift, scale, gate, weight, eps=1e-6):
        v = {"dy": dy, "x": x, "scale": scale[:, None], "gate": gate[:, None], "weight": weight}
        v |= {"xhat": standardised(x, -1, eps), "eps": eps, "shift": shift[:, None]}
        steps = {
            "h": lambda: v["xhat"] + v["scale"] * v["xhat"] + v["shift"],
            "f": lambda: v["h"] @ weight,
            "df": lambda: dy * v["gate"],
            "dh": lambda: v["df"] @ weight.T,
            "dxhat": lambda: v["dh"] + v["scale"] * v["dh"],
            "through": lambda: normkit.layer_norm_backward(v["dxhat"], x, eps=v["eps"])[0],
            "dx": lambda: v["through"] + dy,
            "dshift": lambda: v["dh"].sum(over),
            "dscale": lambda: (v["xhat"] * v["dh"]).sum(over),
            "dgate": lambda: (v["f"] * dy).sum(over),
        }
        others = change(v)
        for name, step in steps.items():
            v[name] = others.get(name, step)()
        return tuple(v[name] for name in order)

    return answer


def changing(**steps):
    """Steps as functions of what is computed before."""
    return of_backward(lambda v: {k: (lambda f=f: f(v)) for k, f in steps.items()})


WRONG["backward"] = {
    "one_forgotten_in_dxhat": changing(dxhat=lambda v: v["scale"] * v["dh"]),
    "shift_forgotten": changing(h=lambda v: v["xhat"] * (1 + v["scale"])),
    "forward_transposed": changing(f=lambda v: v["h"] @ v["weight"].T),
    "branch_forgotten_in_dx": changing(dx=lambda v: v["dy"]),
    "scale_forgotten_in_dxhat": changing(dxhat=lambda v: v["dh"]),
    "gate_forgotten_on_the_way": changing(df=lambda v: v["dy"]),
    "gate_at_the_branch": changing(dh=lambda v: v["gate"] * (v["dy"] @ v["weight"].T)),
    "scale_behind_the_norm": changing(
        through=lambda v: (
            (1 + v["scale"]) * normkit.layer_norm_backward(v["dh"], v["x"], eps=v["eps"])[0]
        )
    ),
    "stream_forgotten_in_dx": changing(dx=lambda v: v["through"]),
    "norm_taken_at_xhat": changing(
        through=lambda v: normkit.layer_norm_backward(v["dxhat"], v["xhat"], eps=v["eps"])[0]
    ),
    "modulation_from_dy": changing(
        dshift=lambda v: v["dy"].sum(1), dscale=lambda v: (v["xhat"] * v["dy"]).sum(1)
    ),
    "dscale_from_dy": changing(dscale=lambda v: (v["xhat"] * v["dy"]).sum(1)),
    "dshift_from_dy": changing(dshift=lambda v: v["dy"].sum(1)),
    "one_plus_gate": changing(df=lambda v: (1 + v["gate"]) * v["dy"]),
    "dgate_from_dh": changing(dgate=lambda v: (v["dh"] * v["f"]).sum(1)),
    "dgate_from_output": changing(dgate=lambda v: ((v["x"] + v["gate"] * v["f"]) * v["dy"]).sum(1)),
    "norm_skipped": changing(through=lambda v: v["dxhat"]),
    "weight_not_transposed": changing(dh=lambda v: v["df"] @ v["weight"]),
    "dgate_from_h": changing(dgate=lambda v: (v["h"] * v["dy"]).sum(1)),
    "dgate_with_gate": changing(dgate=lambda v: (v["df"] * v["f"]).sum(1)),
    "dscale_from_x": changing(dscale=lambda v: (v["x"] * v["dh"]).sum(1)),
    "dscale_with_scale": changing(dscale=lambda v: (v["xhat"] * v["dxhat"]).sum(1)),
    "eps_of_layer_norm": changing(
        through=lambda v: normkit.layer_norm_backward(v["dxhat"], v["x"])[0]
    ),
    "summed_over_examples": of_backward(over=(0, 1)),
    "summed_over_first_axis": of_backward(over=0),
    "summed_over_features": of_backward(over=2),
    "gradients_in_another_order": of_backward(order=("dx", "dscale", "dshift", "dgate")),
}


def dy_overwritten(dy, x, shift, scale, gate, weight, eps=1e-6):
    dy *= gate[:, None]
    return of_backward()(dy, x, shift, scale, np.ones_like(gate), weight, eps)


WRONG["backward"]["dy_multiplied_in_place"] = dy_overwritten


# --- Wrong answers: channels ------------------------------------------------------------------


def of_classes(norm=None, rows=lambda table, labels, x: table[labels]):
    def answer(x, labels, scales, shifts, eps=1e-5):
        over = (0, *range(2, x.ndim))
        xhat = norm(x, labels, eps) if norm else standardised(x, over, eps)
        gamma, beta = (lines_up(rows(table, labels, x), x) for table in (scales, shifts))
        return xhat + gamma * xhat + beta

    return answer


def class_by_class(x, labels, eps):
    xhat = np.zeros(x.shape)
    for k in np.unique(labels):
        xhat[labels == k] = standardised(x[labels == k], (0, *range(2, x.ndim)), eps)
    return xhat


def plain_gamma(x, labels, scales, shifts, eps=1e-5):
    xhat = standardised(x, (0, *range(2, x.ndim)), eps)
    return lines_up(scales[labels], x) * xhat + lines_up(shifts[labels], x)


WRONG["batch_norm"] = {
    "statistics_per_class": of_classes(class_by_class),
    "instance_norm_instead": of_classes(
        lambda x, labels, eps: standardised(x, tuple(range(2, x.ndim)), eps)
    ),
    "first_axis_only": of_classes(lambda x, labels, eps: standardised(x, 0, eps)),
    "unbiased_variance": of_classes(
        lambda x, labels, eps: standardised(x, (0, *range(2, x.ndim)), eps, 1)
    ),
    "last_axis_for_the_channels": of_classes(
        lambda x, labels, eps: standardised(x, tuple(range(x.ndim - 1)), eps)
    ),
    "layer_norm_instead": of_classes(
        lambda x, labels, eps: standardised(x, tuple(range(1, x.ndim)), eps)
    ),
    "other_fixed_eps": of_classes(
        lambda x, labels, eps: standardised(x, (0, *range(2, x.ndim)), 1e-6)
    ),
    "not_centred": of_classes(
        lambda x, labels, eps: x / np.sqrt((x**2).mean((0, *range(2, x.ndim)), keepdims=True) + eps)
    ),
    "scale_without_one": plain_gamma,
    "labels_ignored": of_classes(rows=lambda table, labels, x: table[:1]),
    "labels_from_one": of_classes(rows=lambda table, labels, x: table[labels - 1]),
    "rows_by_example": of_classes(rows=lambda table, labels, x: table[np.arange(len(x))]),
    "labels_sorted": of_classes(rows=lambda table, labels, x: table[sorted(labels)]),
}


def of_adain(combine, axes=lambda x: tuple(range(2, x.ndim)), ddof=0):
    """AdaIN that puts its four statistics together in its own way; deviations hold eps."""

    def answer(x, style, eps=1e-5):
        over = axes(x)
        means = x.mean(over, keepdims=True), style.mean(over, keepdims=True)
        stds = x.var(over, keepdims=True), style.var(over, keepdims=True, ddof=ddof)
        return combine(x, style, *means, *(np.sqrt(v + eps) for v in stds))

    return answer


def transferred(x, s, m, ms, d, ds):
    return ms + ds * ((x - m) / d)


def unbiased_in_both(x, style, eps=1e-5):
    over = tuple(range(2, x.ndim))
    std = np.sqrt(style.var(over, ddof=1, keepdims=True) + eps)
    return standardised(x, over, eps, 1) * std + style.mean(over, keepdims=True)


WRONG["adain"] = {
    "style_and_content_exchanged": lambda x, style, eps=1e-5: of_adain(transferred)(style, x, eps),
    "statistics_exchanged": of_adain(lambda x, s, m, ms, d, ds: m + d * (x - ms) / ds),
    "own_statistics_restored": of_adain(lambda x, s, m, ms, d, ds: m + d * ((x - m) / d)),
    "style_mean_forgotten": of_adain(lambda x, s, m, ms, d, ds: ds * (x - m) / d),
    "style_deviation_forgotten": of_adain(lambda x, s, m, ms, d, ds: ms + (x - m) / d),
    "content_mean_kept": of_adain(lambda x, s, m, ms, d, ds: m + ds * (x - m) / d),
    "style_variance_for_deviation": of_adain(lambda x, s, m, ms, d, ds: ms + ds**2 * (x - m) / d),
    "one_plus_deviation": of_adain(lambda x, s, m, ms, d, ds: ms + (1 + ds) * (x - m) / d),
    "mean_not_subtracted": of_adain(lambda x, s, m, ms, d, ds: ms + ds * x / d),
    "unbiased_style": of_adain(transferred, ddof=1),
    "both_unbiased": unbiased_in_both,
    "eps_in_neither_root": lambda x, style, eps=1e-5: of_adain(transferred)(x, style, 0),
    "eps_missing_in_content": lambda x, style, eps=1e-5: (
        style.mean(over := tuple(range(2, x.ndim)), keepdims=True)
        + np.sqrt(style.var(over, keepdims=True) + eps) * standardised(x, over, 0)
    ),
    "eps_fixed_in_one_root": lambda x, style, eps=1e-5: (
        style.mean(over := tuple(range(2, x.ndim)), keepdims=True)
        + np.sqrt(style.var(over, keepdims=True) + 1e-5) * standardised(x, over, eps)
    ),
    "own_mean_restored": of_adain(lambda x, s, m, ms, d, ds: m + (x - m) / d),
    "deviations_exchanged": of_adain(lambda x, s, m, ms, d, ds: ms + d * (x - m) / ds),
    "style_mean_subtracted": of_adain(lambda x, s, m, ms, d, ds: ms + ds * (x - ms) / d),
    "not_centred": of_adain(lambda x, s, m, ms, d, ds: ms + ds * x / np.sqrt(d**2 + m**2)),
    "statistics_of_batch": of_adain(transferred, lambda x: (0, *range(2, x.ndim))),
    "statistics_of_example": of_adain(transferred, lambda x: tuple(range(1, x.ndim))),
    "axes_of_images": of_adain(transferred, lambda x: (2, 3)),
    "last_axis_for_the_channels": of_adain(transferred, lambda x: tuple(range(1, x.ndim - 1))),
    "eps_of_another_library": lambda x, style, eps=1e-3: of_adain(transferred)(x, style, eps),
    "eps_missing_in_style": lambda x, style, eps=1e-5: (
        style.mean(over := tuple(range(2, x.ndim)), keepdims=True)
        + style.std(over, keepdims=True) * standardised(x, over, eps)
    ),
}


@pytest.mark.parametrize(
    ("task", "name"), [(task, name) for task, answers in WRONG.items() for name in answers]
)
def test_wrong_answers_are_named(task, name):
    assert named(WRONG[task][name], task) == [name]


# --- Wrong answers: the layer -----------------------------------------------------------------


def layer(**methods):
    return type("Layer", (WithFunctional,), methods)


def made_with(set_up):
    """The layer after something more, or something else, in its constructor."""

    def __init__(self, branch, width, condition_width):
        WithFunctional.__init__(self, branch, width, condition_width)
        set_up(self, width, condition_width)

    return layer(__init__=__init__)


def standardised_tokens(x):
    return functional.layer_norm(x, x.shape[-1:], eps=1e-6)


def forward_with(combine, act=functional.silu, norm=None):
    def forward(self, x, c):
        shift, scale, gate = self.modulation(act(c))[:, None].chunk(3, -1)
        xhat = standardised_tokens(x) if norm is None else norm(x)
        return combine(self, x, xhat, shift, scale, gate)

    return layer(forward=forward)


def right_forward(self, x, xhat, b, g, a):
    return x + a * self.branch(xhat * (1 + g) + b)


def random_again(self, width, condition_width):
    self.modulation = nn.Linear(condition_width, 3 * width)


def drawn_small(self, width, condition_width):
    nn.init.normal_(self.modulation.weight, std=0.02)


def branch_closed(self, width, condition_width):
    nn.init.zeros_(self.branch[-1].weight)


def branch_erased(self, width, condition_width):
    for parameter in self.branch.parameters():
        parameter.data = torch.zeros_like(parameter)


def branch_frozen(self, width, condition_width):
    for parameter in self.branch.parameters():
        parameter.requires_grad = False


def gate_alone_at_zero(self, width, condition_width):
    self.modulation = nn.Linear(condition_width, 3 * width)
    with torch.no_grad():
        self.modulation.weight[2 * width :] = 0
        self.modulation.bias[2 * width :] = 0


def scale_at_one(self, width, condition_width):
    self.modulation.bias.data[width : 2 * width] += 1


def gate_opened(self, width, condition_width):
    with torch.no_grad():
        self.modulation.bias[2 * width :].fill_(1)


class InAList(WithFunctional):
    def __init__(self, branch, width, condition_width):
        super().__init__(None, width, condition_width)
        del self.branch
        self.parts = [branch]

    def forward(self, x, c):
        shift, scale, gate = self.modulation(functional.silu(c))[:, None].chunk(3, dim=-1)
        h = functional.layer_norm(x, (self.width,), eps=1e-6) * (1 + scale) + shift
        for part in self.parts:
            h = part(h)
        return x + gate * h


class TokensForgotten(WithFunctional):
    def forward(self, x, c):
        shift, scale, gate = self.modulation(functional.silu(c)).chunk(3, dim=-1)
        xhat = functional.layer_norm(x, (self.width,), eps=1e-6)
        return x + gate * self.branch(xhat * (1 + scale) + shift)


class AsInDiT(nn.Module):
    def __init__(self, branch, width, condition_width):
        super().__init__()
        self.branch, self.norm = branch, nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(condition_width, 3 * width))
        nn.init.constant_(self.modulation[-1].weight, 0)
        nn.init.constant_(self.modulation[-1].bias, 0)

    def forward(self, x, c):
        shift, scale, gate = self.modulation(c).unsqueeze(1).chunk(3, dim=-1)
        return x + gate * self.branch(self.norm(x) * (1 + scale) + shift)


class OwnNorm(WithFunctional):
    def __init__(self, branch, width, condition_width):
        super().__init__(branch, width, condition_width)
        self.layer_norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x, c):
        shift, scale, gate = self.modulation(functional.silu(c))[:, None].chunk(3, dim=-1)
        return x + gate * self.branch(self.layer_norm(x) * (1 + scale) + shift)


class MapOfAnotherName(WithFunctional):
    def __init__(self, branch, width, condition_width):
        super().__init__(branch, width, condition_width)
        self.to_rows = self.modulation
        del self.modulation

    def forward(self, x, c):
        shift, scale, gate = self.to_rows(functional.silu(c))[:, None].chunk(3, dim=-1)
        return right_forward(self, x, functional.layer_norm(x, (self.width,)), shift, scale, gate)


class BranchOfAnotherName(WithFunctional):
    def __init__(self, branch, width, condition_width):
        super().__init__(branch, width, condition_width)
        self.F = self.branch
        del self.branch

    def forward(self, x, c):
        shift, scale, gate = self.modulation(functional.silu(c))[:, None].chunk(3, dim=-1)
        xhat = functional.layer_norm(x, (self.width,), eps=1e-6)
        return x + gate * self.F(xhat * (1 + scale) + shift)


class WithoutBias(WithFunctional):
    def __init__(self, branch, width, condition_width):
        super().__init__(branch, width, condition_width)
        self.modulation = nn.Linear(condition_width, 3 * width, bias=False)
        nn.init.zeros_(self.modulation.weight)


WRONG_LAYERS = {
    "modulation_starts_at_random": made_with(random_again),
    "weight_starts_at_random": made_with(drawn_small),
    "gate_starts_at_one": made_with(gate_opened),
    "only_gate_starts_at_zero": made_with(gate_alone_at_zero),
    "branch_detached": made_with(branch_frozen),
    "map_under_another_name": MapOfAnotherName,
    "branch_under_another_name": BranchOfAnotherName,
    "branch_zeroed": made_with(branch_erased),
    "branch_weight_zeroed": made_with(branch_closed),
    "branch_not_registered": InAList,
    "rows_meet_tokens": TokensForgotten,
    "map_inside_sequential": AsInDiT,
    "norm_with_parameters": OwnNorm,
    "map_without_bias": WithoutBias,
    "eps_of_layer_norm": forward_with(
        right_forward, norm=lambda x: functional.layer_norm(x, x.shape[-1:])
    ),
    "unbiased_variance": forward_with(
        right_forward,
        norm=lambda x: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1e-6) ** 0.5,
    ),
    "silu_forgotten": forward_with(right_forward, act=lambda c: c),
    "another_activation": forward_with(right_forward, act=functional.relu),
    "condition_detached": forward_with(right_forward, act=lambda c: functional.silu(c).detach()),
    "scale_without_one": forward_with(lambda s, x, z, b, g, a: x + a * s.branch(z * g + b)),
    "scale_subtracted": forward_with(lambda s, x, z, b, g, a: x + a * s.branch(z - z * g + b)),
    "one_moved_into_bias": type(
        "Layer",
        (forward_with(lambda s, x, z, b, g, a: x + a * s.branch(z * g + b)),),
        {"__init__": made_with(scale_at_one).__init__},
    ),
    "rms_instead": forward_with(
        right_forward, norm=lambda x: functional.rms_norm(x, x.shape[-1:], eps=1e-6)
    ),
    "h_returned": forward_with(lambda s, x, z, b, g, a: z * (1 + g) + b),
    "branch_not_added": layer(forward=lambda self, x, c: x),
    "scale_before_shift": forward_with(lambda s, x, z, b, g, a: right_forward(s, x, z, g, b, a)),
    "gate_not_last": forward_with(lambda s, x, z, b, g, a: right_forward(s, x, z, g, a, b)),
    "gate_on_sum": forward_with(lambda s, x, z, b, g, a: a * (x + s.branch(z * (1 + g) + b))),
    "one_plus_gate": forward_with(lambda s, x, z, b, g, a: x + (1 + a) * s.branch(z * (1 + g) + b)),
    "gate_squashed": forward_with(
        lambda s, x, z, b, g, a: x + a.sigmoid() * s.branch(z * (1 + g) + b)
    ),
}


@pytest.mark.parametrize("name", WRONG_LAYERS)
def test_wrong_layers_are_named(name):
    assert named(WRONG_LAYERS[name], "layer") == [name]


def test_an_entry_of_the_state_that_is_not_asked_for_is_shown():
    answer = made_with(lambda self, *widths: self.register_buffer("one", torch.ones(1)))
    verdict = judged(answer, "layer")
    assert not verdict.passed and "one(1,)" in verdict.explain()


# --- Two mistakes, and what is no known mistake -----------------------------------------------


def unbiased_in_both_without_eps(x, style, eps=1e-5):
    over = tuple(range(2, x.ndim))
    std = style.std(over, ddof=1, keepdims=True)
    return standardised(x, over, eps, 1) * std + style.mean(over, keepdims=True)


def plain_and_exchanged(x, scale, shift, eps=1e-6):
    return standardised(x, -1, eps) * shift[:, None] + scale[:, None]


def two_in_the_block(x, modulation, norm, branch):
    scale, shift, gate = np.split(modulation[:, None], 3, axis=-1)
    return x + gate * branch(norm(x) * scale + shift)


TOGETHER = [
    ("adain", unbiased_in_both_without_eps, ["both_unbiased", "eps_missing_in_style"]),
    ("adaln", plain_and_exchanged, ["scale_and_shift_exchanged", "scale_without_one"]),
    ("zero", two_in_the_block, ["scale_before_shift", "scale_without_one"]),
    (
        "layer",
        forward_with(lambda s, x, z, b, g, a: x + (1 + a) * s.branch(z * (1 + g) + b), lambda c: c),
        ["one_plus_gate", "silu_forgotten"],
    ),
]


@pytest.mark.parametrize(("task", "answer", "names"), TOGETHER)
def test_two_mistakes_are_both_named(task, answer, names):
    assert named(answer, task) == names


def shift_without_an_axis(x, scale, shift, eps=1e-6):
    return standardised(x, -1, eps) * (1 + scale[:, None]) + shift


def gate_without_an_axis(x, modulation, norm, branch):
    width = x.shape[-1]
    shift, scale = modulation[:, None, :width], modulation[:, None, width : 2 * width]
    return x + modulation[:, 2 * width :] * branch(norm(x) * (1 + scale) + shift)


def torchs_eps_on_the_way_there(dy, x, shift, scale, gate, weight, eps=1e-6):
    dx, dshift, *_ = backward_with_the_library(dy, x, shift, scale, gate, weight, eps)
    xhat = normkit.layer_norm(x)
    dh = (gate[:, None] * dy) @ weight.T
    f = ((1 + scale)[:, None] * xhat + shift[:, None]) @ weight
    return dx, dshift, (dh * xhat).sum(1), (dy * f).sum(1)


def with_detached_branch(self, x, xhat, b, g, a):
    fixed = {name: p.detach() for name, p in self.branch.named_parameters()}
    return x + a * torch.func.functional_call(self.branch, fixed, (xhat * (1 + g) + b,))


def rows_without_labels(shape):
    def answer(x, labels, scales, shifts, eps=1e-5):
        xhat = standardised(x, (0, *range(2, x.ndim)), eps)
        return (1 + scales.reshape(shape(x, scales))) * xhat + shifts.reshape(shape(x, shifts))

    return answer


def means_of_classes(x, labels, eps):
    over = (0, *range(2, x.ndim))
    mean = np.zeros(x.shape)
    for k in labels:
        mean[labels == k] = x[labels == k].mean(over, keepdims=True)
    return (x - mean) / np.sqrt(x.var(over, keepdims=True) + eps)


def instance_norm_of_images(x, labels, eps):
    return standardised(x, tuple(range(2, x.ndim)) if x.ndim > 2 else 0, eps)


def mean_of(name):
    """The backward pass whose gradient of this name is a mean over the tokens."""

    def answer(dy, x, shift, scale, gate, weight, eps=1e-6):
        names = "dx", "dshift", "dscale", "dgate"
        found = backward_with_the_library(dy, x, shift, scale, gate, weight, eps)
        return [g / x.shape[1] if n == name else g for n, g in zip(names, found, strict=True)]

    return answer


def shift_without_an_axis_in_the_block(x, modulation, norm, branch):
    shift, scale, gate = np.split(modulation, 3, axis=-1)
    return x + gate[:, None] * branch(norm(x) * (1 + scale[:, None]) + shift)


def zeroed_again(self, x, c):
    nn.init.zeros_(self.modulation.weight)
    nn.init.zeros_(self.modulation.bias)
    shift, scale, gate = self.modulation(functional.silu(c))[:, None].chunk(3, -1)
    return right_forward(self, x, standardised_tokens(x), shift, scale, gate)


def in_loops(fill, examples=slice(None), channels=slice(None)):
    """The result of a loop over these examples and channels, into zeros."""

    def answer(x, *given, **options):
        y, right = np.zeros(x.shape), fill(x, *given, **options)
        for n in range(len(x))[examples]:
            y[n, channels] = right[n, channels]
        return y

    return answer


def kept(*names):
    """The backward pass in which these gradients are those of the last token."""

    def answer(dy, x, shift, scale, gate, weight, eps=1e-6):
        found = backward_with_the_library(dy, x, shift, scale, gate, weight, eps)
        last = backward_with_the_library(dy[:, -1:], x[:, -1:], shift, scale, gate, weight, eps)
        every = zip(("dx", "dshift", "dscale", "dgate"), found, last, strict=True)
        return [one if name in names else all for name, all, one in every]

    return answer


def arguments_exchanged(dy, x, shift, scale, gate, weight, eps=1e-6):
    _, *rest = backward_with_the_library(dy, x, shift, scale, gate, weight, eps)
    dxhat = (1 + scale[:, None]) * ((gate[:, None] * dy) @ weight.T)
    return dy + normkit.layer_norm_backward(x, dxhat, eps=eps)[0], *rest


def style_over(*axes):
    def answer(x, style, eps=1e-5):
        xhat, mean = standardised(x, axes, eps), style.mean(axes, keepdims=True)
        return np.sqrt(style.var(axes, keepdims=True) + eps) * xhat + mean

    return answer


FIRST, EARLY = "returned_in_loop", "loop_ends_early"
TWICE = "one_added_twice"
OTHERWISE = [
    ("batch_norm", of_classes(means_of_classes), "statistics_per_class"),
    (
        "batch_norm",
        rows_without_labels(lambda x, rows: (len(x), -1, *[1] * (x.ndim - 2))),
        "rows_by_example",
    ),
    (
        "batch_norm",
        rows_without_labels(lambda x, rows: (*rows.shape, *[1] * (x.ndim - 2))),
        "rows_by_example",
    ),
    ("adain", lambda x, style, eps=1e-5: x.copy(), "own_statistics_restored"),
    (
        "layer",
        made_with(lambda self, *widths: self.branch.requires_grad_(False)),
        "branch_detached",
    ),
    ("layer", forward_with(with_detached_branch), "branch_detached"),
    ("adaln", shift_without_an_axis, "rows_meet_tokens"),
    ("zero", gate_without_an_axis, "rows_meet_tokens"),
    ("backward", torchs_eps_on_the_way_there, "eps_of_layer_norm"),
    ("film", lambda x, g, b: lines_up(1 + g, x) * x + b, "lined_up_with_last_axes"),
    (
        "backward",
        lambda dy, x, b, g, a, w, eps=1e-5: backward_with_the_library(dy, x, b, g, a, w, eps),
        "eps_of_layer_norm",
    ),
    (
        "adaln",
        lambda x, g, b, eps=1e-8: with_torchs_eps(x, g, b, eps),
        "eps_of_another_library",
    ),
    ("zero", shift_without_an_axis_in_the_block, "rows_meet_tokens"),
    ("layer", layer(forward=zeroed_again), "zeroed_in_forward"),
    ("batch_norm", of_classes(instance_norm_of_images), "instance_norm_of_images"),
    ("layer", forward_with(lambda s, x, z, b, g, a: x + a * s.branch(z * (2 + g) + b)), TWICE),
    ("film", in_loops(film_in_loops, slice(1)), FIRST),
    ("film", in_loops(film_in_loops, slice(1), slice(1)), FIRST),
    ("film", in_loops(film_in_loops, channels=slice(-1)), EARLY),
    ("adaln", in_loops(adaln_token_by_token, slice(-1)), EARLY),
    ("film", lambda x, g, b: x + lines_up(g, x) + lines_up(b, x), "scale_added"),
    ("backward", kept("dshift", "dscale", "dgate"), "last_token_kept"),
    ("backward", kept("dscale"), "last_token_kept"),
    ("backward", arguments_exchanged, "norm_arguments_exchanged"),
    ("adain", style_over(1, 2), "last_axis_for_the_channels"),
    *(("backward", mean_of(name), "modulation_averaged") for name in ("dshift", "dscale", "dgate")),
]


@pytest.mark.parametrize(("task", "answer", "name"), OTHERWISE)
def test_the_same_mistake_in_other_places_is_named(task, answer, name):
    assert named(answer, task) == [name]


UNKNOWN = [
    ("film", of_film(lambda x, g, b: x * (1 + g) ** 2 + b)),
    ("adaln", of_adaln(lambda z, g, b: z * (1 + g[:, None]) ** 2 + b[:, None])),
    ("zero", of_block(lambda x, b, g, a, N, F: x + a * F(F(N(x) * (1 + g) + b)))),
    ("batch_norm", of_classes(rows=lambda table, labels, x: table[labels[::-1]])),
    ("adain", of_adain(lambda x, s, m, ms, d, ds: np.maximum(transferred(x, s, m, ms, d, ds), 0))),
    ("layer", forward_with(lambda s, x, z, b, g, a: x + a * s.branch(z * (1 + g) ** 2 + b))),
]


@pytest.mark.parametrize(("task", "answer"), UNKNOWN)
def test_what_is_no_known_mistake_is_called_none(task, answer):
    verdict = judged(answer, task)
    assert not verdict.passed and not verdict.mistakes


ERRORS = [
    ("film", lambda x, scale, shift: (1 + scale.reshape(x.shape)) * x + shift),
    ("zero", lambda x, m, norm, branch: x + np.split(m, 3, axis=1)[2][:, None] @ branch(norm(x))),
    ("adain", lambda x, style, eps=1e-5: style.std(axis=(2, 3)) * x),
]


def without_bias(self, width, condition_width):
    self.modulation = nn.Linear(condition_width, 3 * width, bias=False)
    nn.init.zeros_(self.modulation.weight)


@pytest.mark.parametrize(
    "forward",
    [
        lambda s, x, z, b, g, a: a * s.branch(z * (1 + g) + b),
        lambda s, x, z, b, g, a: x + (1 + a) * s.branch(z * (1 + g) + b),
    ],
)
def test_of_mistakes_that_show_alike_where_no_weights_load_none_is_named(forward):
    Layer = made_with(without_bias)
    Layer.forward = forward_with(forward).forward
    assert named(Layer, "layer") == ["map_without_bias"]


def two_thirds(self, width, condition_width):
    self.modulation = nn.Linear(condition_width, 2 * width)


def test_a_map_of_another_size_is_shown_with_its_shape():
    told = judged(made_with(two_thirds), "layer").explain()
    assert "modulation.weight(8, 2)" in told and "zip" not in told


@pytest.mark.parametrize(("task", "answer"), ERRORS)
def test_an_exception_is_explained_where_no_mistake_fits(task, answer):
    verdict = judged(answer, task)
    assert verdict.difference.what == "error" and not verdict.mistakes
    assert "raise" in verdict.explain()
