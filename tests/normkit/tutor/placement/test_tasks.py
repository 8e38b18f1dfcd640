"""Blocks, stacks, constants, first weights, QK-norm and gradients as students write them."""

import copy
import math
from functools import reduce

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from normkit import CharacterTransformer, Residual, deepnorm_constants, deepnorm_init
from normkit.tutor.judging import judge
from normkit.tutor.mistakes import combine, mistakes_of
from normkit.tutor.observing import observe


def judged(answer, task, seed=5):
    return judge(observe(answer, f"placement/{task}", seed), f"placement/{task}", seed)


def named(answer, task):
    return [mistake.name for mistake in judged(answer, task).mistakes]


# --- Right answers ----------------------------------------------------------------------------


def post_in_a_loop(x, attention, feed_forward, norms):
    for branch, norm in zip((attention, feed_forward), norms, strict=True):
        x = norm(x + branch(x))
    return x


def pre_in_place_on_a_copy(x, attention, feed_forward, norms):
    y = x.copy()
    y += attention(norms[0](y))
    y += feed_forward(norms[1](y))
    return y


def deep_with_names(x, attention, feed_forward, norms, alpha):
    first, second = norms
    middle = first(np.add(attention(x), x * alpha))
    return second(np.add(feed_forward(middle), middle * alpha))


def peri_token_by_token_sum(x, attention, feed_forward, norms):
    n = iter(norms)
    for f in (attention, feed_forward):
        inside, outside = next(n), next(n)
        x = np.stack([x, outside(f(inside(x)))]).sum(axis=0, dtype=x.dtype)
    return x


def output_in_one_line(x, attention, feed_forward, norms):
    return (y := x + norms[0](attention(x))) + norms[1](feed_forward(y))


class LoopOverModules(nn.Module):
    def __init__(self, blocks, width, placement):
        super().__init__()
        self.last = None if placement in ("post", "deep") else nn.LayerNorm(width)
        self.parts = nn.ModuleList(blocks)

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x if self.last is None else self.last(x)


def sequential(blocks, width, placement):
    ends = {"post": [], "deep": []}.get(placement, [nn.LayerNorm(width)])
    return nn.Sequential(nn.Sequential(*blocks), *ends)


def constants_with_numpy(encoder_layers=0, decoder_layers=0):
    n, m = np.float64(encoder_layers), np.float64(decoder_layers)
    if n * m > 0:
        root = np.exp(np.log(n) / 4 + np.log(m) / 16)
        return {
            "decoder": [np.sqrt(np.sqrt(3 * m)), np.power(12 * m, -0.25)],
            "encoder": [0.81 * root, 0.87 / root],
        }
    layers = n + m
    alpha = (2 * layers) ** 0.25
    return {"encoder" if n else "decoder": np.array([alpha, 1 / (alpha * math.sqrt(2))])}


def init_by_xavier(attention, feed_forward, beta):
    for gain, linears in (
        (beta, (feed_forward.down, feed_forward.up, attention.out, attention.v)),
        (1, (attention.k, attention.q)),
    ):
        for linear in linears:
            nn.init.xavier_normal_(linear.weight, gain=gain)
            nn.init.zeros_(linear.bias)


def init_by_numpy(attention, feed_forward, beta):
    rng = np.random.default_rng()
    for part in (attention, feed_forward):
        for name, linear in part.named_children():
            if isinstance(linear, nn.Linear):
                rows, columns = linear.weight.shape
                noise = rng.normal(size=(rows, columns)) * math.sqrt(2 / (rows + columns))
                noise = noise if name in "qk" else beta * noise
                linear.weight.data = torch.tensor(noise, dtype=torch.float32)
                linear.bias.data.fill_(0)


def attention_in_loops(q, k, v, heads, qk_norm, gamma_q, gamma_k, eps):
    tokens, width = q.shape
    d = width // heads
    y = np.empty_like(v)

    def normalise(row, gamma, head):
        part = row[head * d : (head + 1) * d]
        over = part if qk_norm == "head" else row
        gain = gamma if qk_norm == "head" else gamma[head * d : (head + 1) * d]
        return gain * part / math.sqrt(sum(value * value for value in over) / len(over) + eps)

    for head in range(heads):
        for t in range(tokens):
            query = normalise(q[t], gamma_q, head)
            scores = [query @ normalise(k[s], gamma_k, head) / d**0.5 for s in range(t + 1)]
            weights = np.exp(scores) / np.exp(scores).sum()
            y[t, head * d : (head + 1) * d] = weights @ v[: t + 1, head * d : (head + 1) * d]
    return y


def attention_by_torch(q, k, v, heads, qk_norm, gamma_q, gamma_k, eps):
    def split(a):
        return a.unflatten(-1, (heads, -1)).transpose(0, 1)

    def norm(a, gamma):
        gamma = torch.tensor(gamma)
        if qk_norm == "full":
            return split(functional.rms_norm(a, gamma.shape, gamma, eps))
        return functional.rms_norm(split(a), gamma.shape, gamma, eps)

    q, k, v = map(torch.tensor, (q, k, v))
    y = functional.scaled_dot_product_attention(
        norm(q, gamma_q), norm(k, gamma_k), split(v), is_causal=True
    )
    return y.transpose(0, 1).flatten(1).numpy()


def attention_by_einsum(q, k, v, heads, qk_norm, gamma_q, gamma_k, eps):
    tokens, width = q.shape
    shape = (tokens, heads, width // heads)

    def norm(a, gamma):
        a = a.reshape(shape) if qk_norm == "head" else a
        a = a * gamma * (np.einsum("...d,...d->...", a, a)[..., None] / a.shape[-1] + eps) ** -0.5
        return a.reshape(shape)

    scores = np.einsum("thd,shd->hts", norm(q, gamma_q), norm(k, gamma_k)) / np.sqrt(shape[-1])
    weights = np.exp(scores) * np.tri(tokens)
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hts,shd->thd", weights, v.reshape(shape)).reshape(tokens, width)


def gradient_by_autograd(model, tokens):
    logits = model(tokens[:, :-1])
    loss = functional.nll_loss(logits.log_softmax(-1).flatten(0, 1), tokens[:, 1:].flatten())
    return torch.autograd.grad(loss, model.blocks[-1].branch.down.weight)[0].square().sum().sqrt()


def gradient_by_backward(model, tokens):
    for parameter in model.parameters():
        parameter.grad = None
    predicted = model(tokens[:, :-1])
    functional.cross_entropy(predicted.transpose(1, 2), tokens[:, 1:]).backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    last = max(int(name.split(".")[1]) for name in gradients if name.startswith("blocks"))
    return float(np.linalg.norm(gradients[f"blocks.{last}.branch.down.weight"].numpy()))


def post_in_other_words(h, attn, mlp, layer_norms):
    first, second = layer_norms
    return second((h := first(np.asarray(h) + attn(h))) + mlp(h))


def post_by_recursion(x, attention, feed_forward, norms):
    def sublayers(x, parts):
        (f, norm), *rest = parts
        y = norm(x + f(x))
        return sublayers(y, rest) if rest else y

    return sublayers(x, list(zip([attention, feed_forward], norms, strict=True)))


def pre_in_double_precision(x, attention, feed_forward, norms):
    x = np.array(x, dtype=np.float64)
    for f, norm in zip((attention, feed_forward), norms, strict=True):
        x = x + f(norm(x))
    return x


def pre_with_a_helper(x, attention, feed_forward, norms):
    def sublayer(f, norm):
        return lambda v: np.sum([v, f(norm(v))], axis=0)

    return sublayer(feed_forward, norms[-1])(sublayer(attention, norms[-2])(x))


def pre_by_reduction(x, attention, feed_forward, norms):
    parts = [(attention, norms[0]), (feed_forward, norms[1])]
    return reduce(lambda u, part: u + part[0](part[1](u)), parts, x)


def deep_with_the_branch_divided(x, attention, feed_forward, norms, alpha):
    u = norms[0](alpha * (x + attention(x) / alpha))
    return norms[1](alpha * (u + feed_forward(u) / alpha))


def deep_in_a_loop(x, attention, feed_forward, norms, alpha):
    for branch in (attention, feed_forward):
        x = norms[branch is feed_forward](np.multiply(x, alpha, dtype=float) + branch(x))
    return x


def deep_on_a_copy(x, attention, feed_forward, norms, alpha):
    y = x.copy()
    y *= alpha
    y += attention(x)
    u = norms[0](y)
    return norms[1](np.einsum("...,->...", u, alpha) + feed_forward(u))


def peri_by_slices(x, attention, feed_forward, norms):
    def branch(f, pair, v):
        before, after = pair
        return v + after(f(before(v)))

    return branch(feed_forward, norms[2:], branch(attention, norms[:2], x))


def peri_step_by_step(x, attention, feed_forward, norms):
    n = norms[0](x)
    a = attention(n)
    a = norms[1](a)
    x = x + a
    n = norms[2](x)
    f = feed_forward(n)
    f = norms[3](f)
    x = x + f
    return x


class BlocksOfADictionary(nn.Module):
    def __init__(self, blocks, width, placement):
        super().__init__()
        self.blocks = nn.ModuleDict({str(i): block for i, block in enumerate(blocks)})
        normalised = {"post": True, "pre": False, "deep": True, "peri": False, "output": False}
        self.last = (lambda v: v) if normalised[placement] else nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks.values():
            x = block(x)
        return self.last(x)


class ModulesByName(nn.Module):
    def __init__(self, blocks, width, placement):
        super().__init__()
        for number, block in enumerate(blocks):
            self.add_module(f"block_{number}", block)
        self.depth = len(blocks)
        if placement in {"pre", "peri", "output"}:
            self.register_module("norm", nn.LayerNorm(width, eps=1e-5))

    def forward(self, x):
        for number in range(self.depth):
            x = getattr(self, f"block_{number}")(x)
        norm = getattr(self, "norm", None)
        return x if norm is None else norm(x)


class OneList(nn.Module):
    def __init__(self, blocks, width, placement):
        super().__init__()
        needed = not placement.startswith(("post", "deep"))
        self.parts = nn.ModuleList([*blocks, *([nn.LayerNorm(width)] if needed else [])])

    def forward(self, x):
        return reduce(lambda x, part: part(x), self.parts, x)


class OwnNorm(nn.Sequential):
    """With a final norm from parameters of its own."""

    def __init__(self, blocks, width, placement):
        super().__init__(*blocks)
        self.width, self.raw = width, placement not in ("post", "deep")
        if self.raw:
            self.weight, self.bias = (
                nn.Parameter(make(width)) for make in (torch.ones, torch.zeros)
            )

    def forward(self, x):
        x = super().forward(x)
        return functional.layer_norm(x, [self.width], self.weight, self.bias) if self.raw else x


def constants_by_sides(n, m):
    found = {}
    if n > 0:
        found["encoder"] = (
            ((2 * n) ** 0.25, 1 / (8 * n) ** 0.25)
            if m == 0
            else (0.81 * (n**4 * m) ** 0.0625, 0.87 * (n**4 * m) ** -0.0625)
        )
    if m > 0:
        both = n != 0
        found["decoder"] = ((2 + both) * m) ** 0.25, ((8 + 4 * both) * m) ** -0.25
    return found


def constants_by_logarithms(n, m):
    def power(base, exponent):
        return math.exp(exponent * math.log(base))

    if not n or not m:
        k = max(n, m)
        side = "decoder" if m else "encoder"
        return dict([(side, [power(2 * k, 1 / 4), power(8 * k, -1 / 4)])])
    root = math.sqrt(math.sqrt(math.sqrt(math.sqrt(n * n * n * n * m))))
    return dict(
        decoder=(power(3 * m, 1 / 4), power(12 * m, -1 / 4)), encoder=(0.81 * root, 0.87 / root)
    )


def constants_with_tensors(n, m):
    n, m = torch.tensor([n, m], dtype=torch.float64)
    if n and m:
        product = n.pow(4) * m
        encoder = torch.stack([0.81 * product.pow(1 / 16), 0.87 * product.pow(-1 / 16)])
        return {"encoder": encoder, "decoder": ((3 * m).pow(0.25), (12 * m).pow(-0.25))}
    k = n + m
    return {"encoder" if n else "decoder": ((2 * k).pow(0.25), (8 * k).pow(-0.25))}


def init_by_hand(attention, feed_forward, beta):
    gains = {"q": 1, "k": 1, "v": beta, "out": beta, "up": beta, "down": beta}
    with torch.no_grad():
        for name, gain in gains.items():
            linear = getattr(feed_forward if name in ("up", "down") else attention, name)
            fan_out, fan_in = linear.weight.shape
            linear.weight.copy_(
                torch.randn_like(linear.weight) * gain * (2 / (fan_in + fan_out)) ** 0.5
            )
            linear.bias *= 0


def init_by_parameters(attention, feed_forward, beta):
    for linear in (*attention.modules(), *feed_forward.modules()):
        if isinstance(linear, nn.Linear):
            linear.weight = nn.Parameter(nn.init.xavier_normal_(torch.empty_like(linear.weight)))
            linear.bias = nn.Parameter(torch.zeros(linear.out_features))
    for linear in (attention.v, attention.out, *feed_forward.children()):
        linear.weight.data.mul_(beta)


def init_by_calculate_gain(attention, feed_forward, beta):
    for part, names in ((attention, "q k v out"), (feed_forward, "up down")):
        for name in names.split():
            linear = part.get_submodule(name)
            std = math.sqrt(2.0 / (linear.in_features + linear.out_features))
            nn.init.normal_(linear.weight, mean=0.0, std=std * (beta if name not in "qk" else 1.0))
            nn.init.constant_(linear.bias, 0)
    return attention, feed_forward


def init_after_one_seed(attention, feed_forward, beta):
    torch.manual_seed(0)
    init_by_hand(attention, feed_forward, beta)


def gradient_character_by_character(model, tokens):
    model.zero_grad()
    logits = model(tokens[:, :-1]).log_softmax(-1)
    losses = [
        -logits[row, position, tokens[row, position + 1]]
        for row in range(tokens.shape[0])
        for position in range(tokens.shape[1] - 1)
    ]
    torch.stack(losses).mean().backward()
    return model.blocks[-1].branch.down.weight.grad.pow(2).sum() ** 0.5


def gradient_on_a_copy(model, tokens):
    model = copy.deepcopy(model)
    predicted = torch.movedim(model(tokens.narrow(1, 0, tokens.shape[1] - 1)), -1, 1)
    nn.CrossEntropyLoss()(predicted, tokens[:, 1:].contiguous()).backward()
    return torch.linalg.matrix_norm(model.blocks[-1].branch.get_parameter("down.weight").grad)


def gradient_by_one_hot(model, tokens):
    logits = model(tokens[..., :-1])
    wanted = functional.one_hot(tokens[..., 1:], logits.shape[-1]).to(logits)
    loss = -(wanted * (logits - logits.logsumexp(-1, keepdim=True))).sum() / wanted.sum()
    grads = torch.autograd.grad(loss, list(model.blocks[-1].branch.down.parameters()))
    return np.linalg.norm(grads[0].numpy(), "fro")


RIGHT = [
    ("post", post_in_a_loop),
    ("pre", pre_in_place_on_a_copy),
    ("deep", deep_with_names),
    ("peri", peri_token_by_token_sum),
    ("output", output_in_one_line),
    ("model", LoopOverModules),
    ("model", sequential),
    ("constants", constants_with_numpy),
    ("init", init_by_xavier),
    ("init", init_by_numpy),
    ("qk_norm", attention_in_loops),
    ("qk_norm", attention_by_torch),
    ("qk_norm", attention_by_einsum),
    ("gradient", gradient_by_autograd),
    ("gradient", gradient_by_backward),
    ("post", post_in_other_words),
    ("post", post_by_recursion),
    ("pre", pre_in_double_precision),
    ("pre", pre_with_a_helper),
    ("pre", pre_by_reduction),
    ("deep", deep_in_a_loop),
    ("deep", deep_with_the_branch_divided),
    ("deep", deep_on_a_copy),
    ("peri", peri_by_slices),
    ("peri", peri_step_by_step),
    ("model", ModulesByName),
    ("model", BlocksOfADictionary),
    ("model", OneList),
    ("model", OwnNorm),
    ("constants", constants_by_sides),
    ("constants", constants_by_logarithms),
    ("constants", constants_with_tensors),
    ("constants_one_side", constants_by_sides),
    ("constants_both_sides", constants_with_tensors),
    ("init", init_by_hand),
    ("init", init_by_parameters),
    ("init", init_by_calculate_gain),
    ("gradient", gradient_character_by_character),
    ("gradient", gradient_on_a_copy),
    ("gradient", gradient_by_one_hot),
    ("init", init_after_one_seed),
]


@pytest.mark.parametrize(("task", "answer"), RIGHT)
def test_right_answers_of_any_style_pass(task, answer):
    for seed in range(3):
        verdict = judged(answer, task, seed)
        assert verdict.passed, verdict.explain()


# --- Wrong answers: blocks --------------------------------------------------------------------


def post_from_the_notes(x, attention, feed_forward, norms):
    return x + norms[1](feed_forward(x + norms[0](attention(x))))


def pre_from_the_notes(x, attention, feed_forward, norms):
    return x + feed_forward(norms[1](x)) + attention(norms[0](x))


def pre_with_one_name(x, attention, feed_forward, norms):
    x = norms[0](x)
    x = x + attention(x)
    x = norms[1](x)
    return x + feed_forward(x)


def pre_with_first_norm(x, attention, feed_forward, norms):
    norm = norms[0]
    x = x + attention(norm(x))
    return x + feed_forward(norm(x))


def pre_without_residuals(x, attention, feed_forward, norms):
    return feed_forward(norms[1](attention(norms[0](x))))


def deep_weighing_branches(x, attention, feed_forward, norms, alpha):
    y = norms[0](x + alpha * attention(x))
    return norms[1](y + alpha * feed_forward(y))


def deep_with_a_bracket(x, attention, feed_forward, norms, alpha):
    y = norms[0](alpha * (x + attention(x)))
    return norms[1](alpha * (y + feed_forward(y)))


def deep_on_a_scaled_stream(x, attention, feed_forward, norms, alpha):
    x = alpha * x
    x = alpha * norms[0](x + attention(x))
    return norms[1](x + feed_forward(x))


def deep_at_first(x, attention, feed_forward, norms, alpha):
    x = norms[0](alpha * x + attention(x))
    return norms[1](x + feed_forward(x))


def peri_around_the_sum(x, attention, feed_forward, norms):
    y = norms[1](x + attention(norms[0](x)))
    return norms[3](y + feed_forward(norms[2](y)))


def peri_that_is_pre(x, attention, feed_forward, norms):
    y = x + attention(norms[0](x))
    return y + feed_forward(norms[2](y))


def peri_before_then_after(x, attention, feed_forward, norms):
    before, after = norms[:2], norms[2:]
    x = x + after[0](attention(before[0](x)))
    return x + after[1](feed_forward(before[1](x)))


def output_that_is_post(x, attention, feed_forward, norms):
    y = norms[0](attention(x) + x)
    return norms[1](feed_forward(y) + y)


def beginning(start):
    """A pre-norm block whose first line is `start`."""

    def pre(x, attention, feed_forward, norms):
        u = start(x, attention, norms)
        return u + feed_forward(norms[1](u))

    return pre


def post_beginning(start):
    def post(x, attention, feed_forward, norms):
        u = start(x, attention, norms)
        return norms[1](u + feed_forward(u))

    return post


FIRST = [
    ("pre", beginning(lambda x, f, norms: x + f(x)), "norm_forgotten_in_first"),
    ("pre", beginning(lambda x, f, norms: f(norms[0](x))), "residual_forgotten_in_first"),
    ("pre", beginning(lambda x, f, norms: norms[0](x + f(x))), "post_in_first"),
    ("pre", beginning(lambda x, f, norms: norms[0](f(x)) + x), "output_in_first"),
    ("post", post_beginning(lambda x, f, norms: x + f(x)), "norm_forgotten_in_first"),
    ("post", post_beginning(lambda x, f, norms: norms[0](f(x))), "residual_forgotten_in_first"),
    ("post", post_beginning(lambda x, f, norms: x + f(norms[0](x))), "pre_in_first"),
    ("post", post_beginning(lambda x, f, norms: x + norms[0](f(x))), "output_in_first"),
]


def attention_copied(x, attention, feed_forward, norms):
    x = x + attention(norms[0](x))
    x = x + attention(norms[1](x))
    return x


def pre_in_place(x, attention, feed_forward, norms):
    x += attention(norms[0](x))
    x += feed_forward(norms[1](x))
    return x


def deep_in_place(x, attention, feed_forward, norms, alpha):
    a = attention(x)
    x *= alpha
    x += a
    u = norms[0](x)
    return norms[1](alpha * u + feed_forward(u))


def pre_with_a_final_norm(x, attention, feed_forward, norms):
    x = x + attention(norms[0](x))
    x = x + feed_forward(norms[1](x))
    return norms[1](x)


def deep_at_last(x, attention, feed_forward, norms, alpha):
    x = norms[0](x + attention(x))
    return norms[1](alpha * x + feed_forward(x))


def peri_norms_side_by_side(x, attention, feed_forward, norms):
    for f, before, after in ((attention, *norms[:2]), (feed_forward, *norms[2:])):
        x = x + f(after(before(x)))
    return x


def pre_in_one_sum(x, attention, feed_forward, norms):
    return x + feed_forward(norms[1](attention(norms[0](x))))


def output_in_one_sum(x, attention, feed_forward, norms):
    return x + norms[1](feed_forward(norms[0](attention(x))))


def peri_in_one_sum(x, attention, feed_forward, norms):
    return x + norms[3](feed_forward(norms[2](norms[1](attention(norms[0](x))))))


def post_in_one_sum(x, attention, feed_forward, norms):
    return norms[1](x + feed_forward(norms[0](attention(x))))


def post_with_one_norm(x, attention, feed_forward, norms):
    return norms[1](x + feed_forward(attention(x)))


def deep_in_one_sum(x, attention, feed_forward, norms, alpha):
    return norms[1](alpha * x + feed_forward(norms[0](attention(x))))


# --- Wrong answers: the second sub-layer, and pairs of mistakes -------------------------------


def post_with_norms_at_the_end(x, attention, feed_forward, norms):
    u = x + attention(x)
    return norms[1](norms[0](u + feed_forward(u)))


def post_adding_the_sum(x, attention, feed_forward, norms):
    for norm, branch in zip(norms, (attention, feed_forward), strict=True):
        x = x + norm(x + branch(x))
    return x


def post_with_x_in_both_sums(x, attention, feed_forward, norms):
    u = norms[0](x + attention(x))
    return norms[1](x + u + feed_forward(u))


def post_reading_the_sum(x, attention, feed_forward, norms):
    s = x + attention(x)
    return norms[1](norms[0](s) + feed_forward(s))


def pre_ending(end):
    """A pre-norm block whose second line is `end`."""

    def pre(x, attention, feed_forward, norms):
        u = x + attention(norms[0](x))
        return end(u, feed_forward, norms)

    return pre


def post_ending(end):
    def post(x, attention, feed_forward, norms):
        u = norms[0](x + attention(x))
        return end(u, feed_forward, norms)

    return post


def peri_ending(end):
    def peri(x, attention, feed_forward, norms):
        u = x + norms[1](attention(norms[0](x)))
        return end(u, feed_forward, norms)

    return peri


def without_norm(u, feed_forward, norms):
    return u + feed_forward(u)


def around_the_sum(u, feed_forward, norms):
    return norms[1](u + feed_forward(u))


def on_the_branch(u, feed_forward, norms):
    return u + norms[1](feed_forward(u))


def beside_the_norm(u, feed_forward, norms):
    return norms[-1](u) + feed_forward(u)


def sum_with_its_norm(u, feed_forward, norms):
    return u + norms[-1](u + feed_forward(u))


def without_stream(u, feed_forward, norms):
    return feed_forward(norms[1](u))


def without_outer_norm(u, feed_forward, norms):
    return u + feed_forward(norms[2](u))


def without_inner_norm(u, feed_forward, norms):
    return u + norms[3](feed_forward(u))


def inside_out(u, feed_forward, norms):
    return u + norms[2](feed_forward(norms[3](u)))


def one_norm_too_early(u, feed_forward, norms):
    return u + norms[2](feed_forward(norms[1](u)))


def third_norm_twice(u, feed_forward, norms):
    return u + norms[2](feed_forward(norms[2](u)))


def pre_without_attention(x, attention, feed_forward, norms):
    attention(norms[0](x))
    return x + feed_forward(norms[1](x))


def post_without_attention(x, attention, feed_forward, norms):
    u = norms[0](x)
    return norms[1](u + feed_forward(u))


def deep_without_attention(x, attention, feed_forward, norms, alpha):
    return norms[1](alpha * x + feed_forward(x))


def pre_from_the_other_end(x, attention, feed_forward, norms):
    u = x + feed_forward(norms[1](x))
    return u + attention(norms[0](u))


def post_from_the_other_end(x, attention, feed_forward, norms):
    u = norms[1](x + feed_forward(x))
    return norms[0](u + attention(u))


def pre_with_last_norm_first(x, attention, feed_forward, norms):
    u = x + attention(norms[1](x))
    return u + feed_forward(norms[0](u))


def post_with_last_norm_first(x, attention, feed_forward, norms):
    u = norms[1](x + attention(x))
    return norms[0](u + feed_forward(u))


def peri_with_one_name(x, attention, feed_forward, norms):
    n = norms[0](x)
    u = n + norms[1](attention(n))
    n = norms[2](u)
    return n + norms[3](feed_forward(n))


def deep_reading_a_scaled_stream_at_last(x, attention, feed_forward, norms, alpha):
    u = norms[0](alpha * x + attention(x))
    return norms[1](alpha * u + feed_forward(alpha * u))


def deep_with_a_bracket_at_last(x, attention, feed_forward, norms, alpha):
    u = norms[0](alpha * x + attention(x))
    return norms[1](alpha * (u + feed_forward(u)))


def deep_without_the_last_norm(x, attention, feed_forward, norms, alpha):
    u = norms[0](alpha * x + attention(x))
    return alpha * u + feed_forward(u)


def deep_with_a_smaller_branch(x, attention, feed_forward, norms, alpha):
    u = norms[0](x + attention(x) / alpha)
    return norms[1](u + feed_forward(u) / alpha)


def deep_with_a_smaller_stream(x, attention, feed_forward, norms, alpha):
    u = norms[0](x / alpha + attention(x))
    return norms[1](u / alpha + feed_forward(u))


def pre_keeping(first, second):
    """Pre-norm in which the normalised stream goes on, in the first sub-layer or the second."""

    def pre(x, attention, feed_forward, norms):
        n = norms[0](x)
        u = (n if first else x) + attention(n)
        n = norms[1](u)
        return (n if second else u) + feed_forward(n)

    return pre


def pre_on_both_sides(x, attention, feed_forward, norms):
    for f in (attention, feed_forward):
        x = x + norms[1](f(norms[0](x)))
    return x


def pre_without_the_stream(x, attention, feed_forward, norms):
    a = attention(norms[0](x))
    return x + a + feed_forward(norms[1](a))


def deep_with_two(x, attention, feed_forward, norms, alpha):
    alpha = 2
    u = norms[0](alpha * x + attention(x))
    return norms[1](alpha * u + feed_forward(u))


def deep_scaled_at_the_beginning(x, attention, feed_forward, norms, alpha):
    return post_in_a_loop(alpha * x, attention, feed_forward, norms)


def deep_with_norms_on_the_branches(x, attention, feed_forward, norms, alpha):
    u = alpha * x + norms[0](attention(x))
    return alpha * u + norms[1](feed_forward(u))


def deep_with_norms_before(x, attention, feed_forward, norms, alpha):
    u = alpha * x + attention(norms[0](x))
    return alpha * u + feed_forward(norms[1](u))


# --- Wrong answers: the model -----------------------------------------------------------------


class PlainList(nn.Module):
    def __init__(self, blocks, width, placement):
        super().__init__()
        self.blocks = list(blocks)
        if placement in ("pre", "peri", "output"):
            self.norm = nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x) if hasattr(self, "norm") else x


class NormInForward(nn.Module):
    def __init__(self, blocks, width, placement):
        super().__init__()
        self.blocks, self.placement = nn.Sequential(*blocks), placement

    def forward(self, x):
        x = self.blocks(x)
        if self.placement in ("pre", "peri", "output"):
            x = nn.LayerNorm(x.shape[-1])(x)
        return x


class NormForPostUnused(nn.Module):
    def __init__(self, blocks, width, placement):
        super().__init__()
        self.blocks, self.norm = nn.Sequential(*blocks), nn.LayerNorm(width)
        self.normalised = placement in ("post", "deep")

    def forward(self, x):
        return self.blocks(x) if self.normalised else self.norm(self.blocks(x))


class NormForAll(LoopOverModules):
    def __init__(self, blocks, width, placement):
        super().__init__(blocks, width, "pre")


class OutputForgotten(LoopOverModules):
    def __init__(self, blocks, width, placement):
        super().__init__(blocks, width, placement if placement in ("pre", "peri") else "post")


class AddedInPlace(LoopOverModules):
    def forward(self, x):
        for block in self.parts:
            x += block(x)
        return x if self.last is None else self.last(x)


def ending_with(make):
    """A model whose final norm is `make(width)`."""

    class Ending(LoopOverModules):
        def __init__(self, blocks, width, placement):
            super().__init__(blocks, width, placement)
            if self.last is not None:
                self.last = make(width)

    return Ending


class NormAsFunction(nn.Module):
    def __init__(self, blocks, width, placement):
        super().__init__()
        self.blocks, self.width = nn.ModuleList(blocks), width
        self.needs_norm = placement in ["pre", "peri", "output"]

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return functional.layer_norm(x, (self.width,)) if self.needs_norm else x


class AllInAList(nn.Module):
    def __init__(self, blocks, width, placement):
        super().__init__()
        self.layers = list(blocks)
        if placement not in ("post", "deep"):
            self.layers.append(nn.LayerNorm(width))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class BlocksDropped(LoopOverModules):
    def forward(self, x):
        for part in self.parts:
            part(x)
        return x if self.last is None else self.last(x)


class ReturnedInTheLoop(LoopOverModules):
    def forward(self, x):
        for part in self.parts:
            x = part(x)
            return x if self.last is None else self.last(x)


class FirstBlockReturned(LoopOverModules):
    def forward(self, x):
        for part in self.parts:
            return part(x)


class FirstNormalisedBlockReturned(ReturnedInTheLoop):
    def forward(self, x):
        for part in self.parts:
            x = part(x)
            if self.last is not None:
                return self.last(x)
        return x


class BlocksNotCalled(LoopOverModules):
    def forward(self, x):
        return x if self.last is None else self.last(x)


def in_the_order(of):
    """A model that calls the blocks that `of` leaves of the list."""

    class Ordered(LoopOverModules):
        def __init__(self, blocks, width, placement):
            super().__init__(blocks, width, placement)
            self.order = of(list(range(len(blocks))))

        def forward(self, x):
            for number in self.order:
                x = self.parts[number](x)
            return x if self.last is None else self.last(x)

    return Ordered


class NormNotCalled(LoopOverModules):
    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


class NormAfterEach(LoopOverModules):
    def forward(self, x):
        for part in self.parts:
            x = part(x) if self.last is None else self.last(part(x))
        return x if self.last is None else self.last(x)


def as_if(**others):
    """A model that takes some placements for others."""

    class Other(LoopOverModules):
        def __init__(self, blocks, width, placement):
            super().__init__(blocks, width, others.get(placement, placement))

    return Other


MODELS = [
    (BlocksDropped, "result_dropped"),
    (ReturnedInTheLoop, "returned_in_the_loop"),
    (FirstBlockReturned, "returned_in_the_loop"),
    (in_the_order(lambda of: of[1:]), "blocks_left_out"),
    (in_the_order(lambda of: of[:-1]), "blocks_left_out"),
    (in_the_order(lambda of: of[::-1]), "blocks_left_out"),
    (FirstNormalisedBlockReturned, "returned_in_the_loop"),
    (BlocksNotCalled, "result_dropped"),
    (NormNotCalled, "final_norm_not_called"),
    (NormAfterEach, "norm_after_every_block"),
    (as_if(peri="post"), "peri_forgotten"),
    (as_if(deep="pre"), "final_norm_after_deep"),
    (
        as_if(post="pre", deep="pre", pre="post", peri="post", output="post"),
        "final_norms_exchanged",
    ),
    (ending_with(lambda width: nn.LayerNorm(width, bias=False)), "bias_left_out"),
]


# --- Wrong answers: constants and first weights -----------------------------------------------


def constants(one, encoder, decoder):
    """A function of N and M, from the pair of one side and the pairs of both."""

    def answer(n=0, m=0):
        if n and m:
            return {"encoder": encoder(n, m), "decoder": decoder(n, m)}
        return {"encoder" if n else "decoder": one(n + m)}

    return answer


def alone(n):
    return (2 * n) ** 0.25, (8 * n) ** -0.25


def encoder(n, m):
    return 0.81 * (n**4 * m) ** (1 / 16), 0.87 * (n**4 * m) ** (-1 / 16)


def decoder(n, m):
    return (3 * m) ** 0.25, (12 * m) ** -0.25


def without_a_root(n):
    return (2 * n) ** 0.5, (8 * n) ** -0.5


def tenths(n, m):
    return 0.81 * (n**4 * m) ** 0.1, 0.87 * (n**4 * m) ** -0.1


def exchanged(n, m):
    return encoder(m, n)


def alone_without_brackets(n):
    return (2 * n) ** 1 / 4, (8 * n) ** -1 / 4


def alone_without_any_brackets(n):
    return 2 * n**1 / 4, 8 * n**-1 / 4


def alone_with_brackets_in_the_exponent(n):
    return 2 * n ** (1 / 4), 8 * n ** (-1 / 4)


def encoder_without_brackets(n, m):
    return 0.81 * (n**4 * m) ** 1 / 16, 0.87 * (n**4 * m) ** -1 / 16


def decoder_without_brackets(n, m):
    return (3 * m) ** 1 / 4, (12 * m) ** -1 / 4


def decoder_with_brackets_in_the_exponent(n, m):
    return 3 * m ** (1 / 4), 12 * m ** (-1 / 4)


def every_matrix(attention, feed_forward, beta):
    for part in (attention, feed_forward):
        for parameter in part.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_normal_(parameter, gain=beta)
            else:
                nn.init.zeros_(parameter)


def scaled_by(change):
    """v, out, up and down by `change`; everything else right."""

    def answer(attention, feed_forward, beta):
        init_by_xavier(attention, feed_forward, beta)
        for linear in (attention.v, attention.out, feed_forward.up, feed_forward.down):
            change(linear.weight, beta)

    return answer


def twice(weight, beta):
    nn.init.xavier_normal_(weight, gain=beta)
    weight.data.mul_(beta)


def by_variance(weight, beta):
    variance = 2 / sum(weight.shape)
    nn.init.normal_(weight, std=math.sqrt(beta * variance))


def attention_alone(attention, feed_forward, beta):
    init_by_xavier(attention, feed_forward, beta)
    for linear in (feed_forward.up, feed_forward.down):
        nn.init.xavier_normal_(linear.weight)


def only_scaled(attention, feed_forward, beta):
    for linear in (attention.v, attention.out, feed_forward.up, feed_forward.down):
        nn.init.xavier_normal_(linear.weight, gain=beta)
    for linear in (*attention.children(), *feed_forward.children()):
        if isinstance(linear, nn.Linear):
            linear.bias.data.zero_()


def four_of_six(attention, feed_forward, beta):
    for linear in (attention.v, attention.out, feed_forward.up, feed_forward.down):
        nn.init.xavier_normal_(linear.weight, gain=beta)
        nn.init.zeros_(linear.bias)


def kaiming(attention, feed_forward, beta):
    init_by_xavier(attention, feed_forward, beta)
    for linear in (*attention.children(), *feed_forward.children()):
        if isinstance(linear, nn.Linear):
            nn.init.kaiming_normal_(linear.weight)
            if linear not in (attention.q, attention.k):
                linear.weight.data *= beta


def minus_before(one):
    """alpha, and the sign of the exponent of beta before the number."""

    def answer(*layers):
        alpha, beta = one(*layers)
        factor = 0.87**2 if one is encoder else 1
        return alpha, -factor / beta

    return answer


def backwards(function):
    return lambda *layers: function(*layers)[::-1]


def encoder_with_the_factors_exchanged(n, m):
    return 0.87 * (n**4 * m) ** (1 / 16), 0.81 * (n**4 * m) ** (-1 / 16)


def both_keys(n, m):
    if n and m:
        return {"encoder": encoder(n, m), "decoder": decoder(n, m)}
    return {"encoder": alone(n) if n else (0, 0), "decoder": alone(m) if m else (0, 0)}


def one_key(n, m):
    return {"encoder": alone(n)} if n else {"decoder": alone(m)}


def of_both(alpha, beta):
    """Constants whose encoder, beside a decoder, has these."""
    return constants(alone, lambda n, m: (alpha(n, m), beta(n, m)), decoder)


def beta_without_brackets(n, m):
    if n and m:
        powers = 0.87 * (n**4 * m) ** -1 / 16, (12 * m) ** -1 / 4
        return {"encoder": (encoder(n, m)[0], powers[0]), "decoder": (decoder(n, m)[0], powers[1])}
    return {"encoder" if n else "decoder": (alone(n + m)[0], (8 * (n + m)) ** -1 / 4)}


def from_the_other(alpha, beta):
    """Constants with other factors in front of N, those of the encoder aside."""
    return constants(
        lambda n: ((2 * alpha * n) ** 0.25, (8 * beta * n) ** -0.25),
        encoder,
        lambda n, m: ((3 * alpha * m) ** 0.25, (12 * beta * m) ** -0.25),
    )


BRACKETS_TOGETHER = "exponent_without_brackets_together"


def one_pair_off(**other):
    """The constants, of which one of an encoder–decoder is computed in another way."""

    def pair(side, right):
        def both(n, m):
            names = f"alpha_{side}", f"beta_{side}"
            return tuple(
                other[name](n, m) if name in other else value
                for name, value in zip(names, right(n, m), strict=True)
            )

        return both

    return constants(alone, pair("e", encoder), pair("d", decoder))


CONSTANTS = [
    (
        constants(lambda n: ((3 * n) ** 0.25, (12 * n) ** -0.25), encoder, decoder),
        "three_sublayers_alone",
    ),
    (one_pair_off(alpha_e=lambda n, m: 0.81 * (n**4 * m) ** 1 / 16), BRACKETS_TOGETHER),
    (one_pair_off(beta_d=lambda n, m: (12 * m) ** -1 / 4), BRACKETS_TOGETHER),
    (one_pair_off(alpha_e=lambda n, m: 0.81 * (n**4 * m) ** (-1 / 16)), "alpha_below_one"),
    (one_pair_off(alpha_e=lambda n, m: 0.87 * (n**4 * m) ** 0.0625), "encoder_factors_exchanged"),
    (one_pair_off(alpha_e=lambda n, m: 0.81 * (n**4 * m) ** 0.25), "fourth_root_of_product"),
    (one_pair_off(alpha_d=lambda n, m: 3 * m**0.25), "factor_outside_power_together"),
    (constants(lambda n: ((2 * n) ** 0.5, alone(n)[1]), encoder, decoder), "square_root"),
    (constants(alone, lambda n, m: encoder(n, 1), decoder), "product_misread"),
    (from_the_other(4, 1), "alpha_from_the_numbers_of_beta"),
    (from_the_other(4, 1 / 4), "two_and_eight_exchanged"),
    (
        constants(alone, encoder, lambda n, m: ((12 * m) ** 0.25, (3 * m) ** -0.25)),
        "two_and_eight_exchanged",
    ),
    (
        constants(lambda n: ((8 * n) ** 0.25, (8 * n) ** -0.25), encoder, decoder),
        "alpha_from_the_numbers_of_beta",
    ),
    (
        of_both(lambda n, m: (n**4 * m) ** (1 / 16), lambda n, m: encoder(n, m)[1]),
        "encoder_factors_forgotten",
    ),
    (
        of_both(lambda n, m: (n**4 * m) ** (1 / 16), lambda n, m: (n**4 * m) ** (-1 / 16)),
        "encoder_factors_forgotten",
    ),
    (
        of_both(
            lambda n, m: 0.81 * n**4 * m ** (1 / 16), lambda n, m: 0.87 * n**4 * m ** (-1 / 16)
        ),
        "power_of_m_alone",
    ),
    (
        of_both(lambda n, m: 0.81 * (n * m) ** (1 / 16), lambda n, m: 0.87 * (n * m) ** (-1 / 16)),
        "product_misread",
    ),
    (
        of_both(
            lambda n, m: 0.81 * (n ^ 4 * m) ** (1 / 16),
            lambda n, m: 0.87 * (n ^ 4 * m) ** (-1 / 16),
        ),
        "caret_for_power",
    ),
    (
        of_both(lambda n, m: 0.81 * (n**4 * m) ** 0.25, lambda n, m: 0.87 * (n**4 * m) ** -0.25),
        "fourth_root_of_product",
    ),
    (of_both(lambda n, m: (3 * n) ** 0.25, lambda n, m: (12 * n) ** -0.25), "encoder_like_decoder"),
    (constants(alone, encoder, encoder), "decoder_like_encoder"),
    (
        constants(alone, encoder, lambda n, m: (decoder(n, m)[0], (12 * n) ** -0.25)),
        "decoder_from_n",
    ),
    (
        constants(lambda n: (alone(n)[0], 1 / alone(n)[0]), encoder, decoder),
        "beta_as_inverse_of_alpha",
    ),
    (beta_without_brackets, "exponent_without_brackets"),
    (
        constants(lambda n: (alone(n)[0], (8 * n) ** -1 / 4), encoder, decoder),
        "exponent_without_brackets_alone",
    ),
    (
        lambda n, m: both_sides_or(n, m, {"decoder" if n else "encoder": alone(n + m)}),
        "key_of_the_other_side",
    ),
    (lambda n, m: both_sides_or(n, m, {"decoder": alone(n + m)}), "key_of_the_other_side"),
    (
        lambda n, m: both_sides_or(
            n, m, {"encoder": alone(n)} if n else {"decoder": ((3 * m) ** 0.25, alone(m)[1])}
        ),
        "three_sublayers_alone",
    ),
    (lambda n, m: both_sides_or(n, m, alone(n + m)), "pair_without_dictionary"),
    (lambda n, m: alone(n + m), "pair_without_dictionary"),
    (lambda n, m: both_sides_or(n, m, print(alone(n + m))), "return_forgotten"),
    (
        constants(lambda n: (alone(n)[0], 1 / (8 * n)), encoder, decoder),
        "fourth_root_forgotten",
    ),
    (
        constants(lambda n: ((2 * n) ** (1 // 4), (8 * n) ** (-1 // 4)), encoder, decoder),
        "integer_division",
    ),
    (
        constants(lambda n: (2 * n ** (1 / 4), alone(n)[1]), encoder, decoder),
        "factor_outside_power_alone",
    ),
    (
        of_both(
            lambda n, m: 0.81 * (n * 4 * m) ** (1 / 16),
            lambda n, m: 0.87 * (n * 4 * m) ** (-1 / 16),
        ),
        "product_misread",
    ),
    (
        of_both(lambda n, m: encoder(n, m)[0], lambda n, m: 0.87 * (n**4 * m) ** (1 / 16)),
        "beta_above_one",
    ),
]


def both_sides_or(n, m, other):
    return {"encoder": encoder(n, m), "decoder": decoder(n, m)} if n and m else other


LINEARS = "q", "k", "v", "out", "up", "down"


def drawn(weight, names=LINEARS, bias=nn.init.zeros_):
    """The layers of these names drawn by `weight`, which is given each layer and its gain."""

    def answer(attention, feed_forward, beta):
        layers = dict(attention.named_children()) | dict(feed_forward.named_children())
        for name in names:
            weight(layers[name], 1 if name in "qk" else beta)
            bias(layers[name].bias)

    return answer


def xavier(linear, gain):
    nn.init.xavier_normal_(linear.weight, gain)


def one_zero(bias):
    bias.data = torch.zeros(1)


def transposed(linear, gain):
    std = gain * math.sqrt(2 / (linear.in_features + linear.out_features))
    linear.weight.data = torch.randn(linear.in_features, linear.out_features) * std


def one_copy(bias):
    nn.init.zeros_(bias.clone())


def by_numpy(linear, gain):
    noise = np.random.normal(0, gain * np.sqrt(2 / sum(linear.weight.shape)), linear.weight.shape)
    linear.weight.data = torch.from_numpy(noise)


def around_the_gain(linear, gain):
    nn.init.normal_(linear.weight, gain, math.sqrt(2 / sum(linear.weight.shape)))


def multiplied(linear, gain):
    if gain == 1:
        xavier(linear, 1)
    else:
        linear.weight.data *= gain


def spread(linear, std):
    nn.init.normal_(linear.weight, std=std)


def gains(names):
    """beta for these alone."""

    def answer(attention, feed_forward, beta):
        layers = dict(attention.named_children()) | dict(feed_forward.named_children())
        for name in LINEARS:
            xavier(layers[name], beta if name in names.split() else 1)
            nn.init.zeros_(layers[name].bias)

    return answer


def in_another_way(change):
    """Those with the gain 1 drawn as asked for, the others so."""
    return drawn(lambda linear, gain: (xavier if gain == 1 else change)(linear, gain))


def by_kaiming(linear, gain):
    nn.init.kaiming_normal_(linear.weight)
    linear.weight.data *= gain


def after_a_seed(linear, gain):
    torch.manual_seed(7)
    xavier(linear, gain)


def but(*left):
    """All weights but these are drawn, and all biases are zeros."""

    def answer(attention, feed_forward, beta):
        drawn(xavier, [name for name in LINEARS if name not in left])(attention, feed_forward, beta)
        for linear in (*attention.children(), *feed_forward.children()):
            if isinstance(linear, nn.Linear):
                nn.init.zeros_(linear.bias)

    return answer


def copied(attention, feed_forward, beta):
    init_by_xavier(attention, feed_forward, beta)
    attention.k.weight.data.copy_(attention.q.weight)


def transposed_and_scaled(attention, feed_forward, beta):
    init_by_xavier(attention, feed_forward, beta)
    feed_forward.down.weight.data = -feed_forward.up.weight.data.mT.clone()


def truncated(linear, gain):
    std = gain * (2 / sum(linear.weight.shape)) ** 0.5
    nn.init.trunc_normal_(linear.weight, std=std, a=-2 * std, b=2 * std)


def as_torch_does(linear, gain):
    nn.init.kaiming_uniform_(linear.weight, a=5**0.5)


LEFT = "scaled_left_as_made"


def layers_without_biases(attention, feed_forward, beta):
    for name in LINEARS:
        part = attention if name in LINEARS[:4] else feed_forward
        old = getattr(part, name)
        new = nn.Linear(old.in_features, old.out_features, bias=False)
        xavier(new, 1 if name in "qk" else beta)
        setattr(part, name, new)


def biases_deleted(names):
    def answer(attention, feed_forward, beta):
        drawn(xavier)(attention, feed_forward, beta)
        for name in names:
            getattr(attention if name in LINEARS[:4] else feed_forward, name).bias = None

    return answer


def by_the_deviation(linear, gain):
    xavier(linear, gain * (2 / sum(linear.weight.shape)) ** 0.5)


INITS = [
    (layers_without_biases, "biases_removed"),
    (biases_deleted(LINEARS), "biases_removed"),
    (biases_deleted("qk"), "biases_removed"),
    (drawn(lambda linear, gain: nn.init.normal_(linear.weight, 0, 0.02)), "deviation_of_gpt2"),
    (
        drawn(lambda linear, gain: nn.init.normal_(linear.weight, 0, 0.02 * gain)),
        "deviation_of_gpt2",
    ),
    (but("v", "out", "up", "down"), LEFT),
    (drawn(xavier, ("q", "k")), LEFT),
    (in_another_way(lambda linear, gain: xavier(copy.deepcopy(linear), gain)), LEFT),
    (in_another_way(as_torch_does), LEFT),
    (but("q"), "queries_untouched"),
    (but("k"), "queries_untouched"),
    *((but(name), "layer_untouched") for name in ("v", "out", "up", "down")),
    (but("v", "out"), "layer_untouched"),
    (but("up", "down"), "attention_untouched"),
    (but("q", "k", "v", "out"), "attention_untouched"),
    (copied, "matrices_alike"),
    (drawn(truncated), "truncated_normal"),
    (transposed_and_scaled, "matrices_alike"),
    (drawn(after_a_seed), "matrices_alike"),
    (in_another_way(by_kaiming), "kaiming_instead"),
    (in_another_way(lambda linear, gain: spread(linear, gain)), "gain_as_std"),
    (in_another_way(lambda linear, gain: xavier(linear, 1 / gain)), "gain_inverted"),
    (drawn(xavier, bias=nn.init.ones_), "biases_of_one"),
    (drawn(lambda linear, gain: xavier(linear, 1)), "beta_without_effect"),
    (drawn(lambda linear, gain: nn.init.normal_(linear.weight, gain)), "gain_as_mean"),
    (drawn(lambda linear, gain: nn.init.normal_(linear.weight, 0, gain)), "gain_as_std"),
    (drawn(xavier, ("q", "v", "out", "up", "down")), "queries_untouched"),
    (drawn(xavier, ("k", "v", "out", "up", "down")), "queries_untouched"),
    *(
        (drawn(xavier, [name for name in LINEARS if name != left]), "layer_untouched")
        for left in ("v", "out", "up", "down")
    ),
    (drawn(around_the_gain), "gain_as_mean"),
    (drawn(multiplied), "scaled_as_made"),
    (drawn(xavier, ("up", "down")), "attention_untouched"),
    (drawn(xavier, ("q", "k", "v", "out")), "attention_untouched"),
    (drawn(xavier, bias=one_zero), "biases_of_one_number"),
    (drawn(transposed), "weights_transposed"),
    (
        drawn(lambda linear, gain: xavier(linear.to(linear.weight), gain), bias=one_copy),
        "biases_left_as_made",
    ),
    (drawn(lambda linear, gain: xavier(copy.deepcopy(linear), gain)), "drawn_into_a_copy"),
    (drawn(by_numpy), "weights_of_another_dtype"),
    (drawn(lambda linear, gain: spread(linear, gain / linear.in_features**0.5)), "fan_in_alone"),
    (
        drawn(lambda linear, gain: spread(linear, gain / sum(linear.weight.shape) ** 0.5)),
        "two_forgotten",
    ),
    (drawn(by_the_deviation), "variance_as_std"),
    (
        drawn(lambda linear, gain: spread(linear, 2 * gain / sum(linear.weight.shape) ** 0.5)),
        "two_outside_the_root",
    ),
    (gains("v out up"), "gain_forgotten_on_down"),
    (gains("v"), "gain_on_v_alone"),
    (gains("out up down"), "gain_forgotten_on_v"),
    (gains("up down"), "gain_forgotten_on_attention"),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("answer", "name"), INITS)
def test_wrong_first_weights_are_named_whatever_the_numbers_drawn(answer, name, seed):
    assert [mistake.name for mistake in judged(answer, "init", seed).mistakes] == [name]


def test_a_truth_about_the_weights_does_not_name_what_their_size_denies():
    def answer(attention, feed_forward, beta):
        drawn(lambda linear, gain: xavier(linear, gain / 3))(attention, feed_forward, beta)
        for linear in (attention.q, attention.k):
            nn.init.xavier_uniform_(linear.weight)

    assert named(answer, "init") == []


def test_weights_are_drawn_to_be_learnt():
    def fixed(linear, gain):
        xavier(linear, gain)
        linear.weight = nn.Parameter(linear.weight.detach(), requires_grad=False)

    assert not judged(drawn(fixed), "init").passed


# --- Wrong answers: QK-norm and gradients -----------------------------------------------------


def attention_with(norm=functional.rms_norm, before=1.0, values=None, causal=True):
    """Torch's attention, with one thing changed."""

    def answer(q, k, v, heads, qk_norm, gamma_q, gamma_k, eps):
        def split(a):
            return a.unflatten(-1, (heads, -1)).transpose(0, 1)

        def normalised(a, gamma):
            a = a if qk_norm == "full" else split(a)
            a = norm(a, a.shape[-1:], None, eps) * torch.tensor(gamma)
            return split(a) if qk_norm == "full" else a

        q, k, v = map(torch.tensor, (q, k, v))
        q, k, v = normalised(q, gamma_q), normalised(k, gamma_k), split(v)
        q = q * (q.shape[-1] ** -0.5 if before == "scaled" else before)
        v = values(v) if values else v
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return y.transpose(0, 1).flatten(1).numpy()

    return answer


def unit_length(a, *_):
    return functional.normalize(a, dim=-1)


def unit_values(v):
    return functional.rms_norm(v, v.shape[-1:], eps=1e-9)


def trained(model, tokens, inputs=slice(None, -1), **options):
    model.zero_grad()
    loss = functional.cross_entropy(model(tokens[:, inputs]).mT, tokens[:, 1:], **options)
    (loss.sum(-1).mean() if loss.ndim else loss).backward()
    return model.blocks[-1].branch.down.weight.grad


def forgetful(model, tokens):
    loss = functional.cross_entropy(model(tokens[:, :-1]).mT, tokens[:, 1:])
    loss.backward()
    return model.blocks[-1].branch.down.weight.grad.norm()


def same_character(model, tokens):
    model.zero_grad()
    tokens = tokens[:, :-1]
    functional.cross_entropy(model(tokens).mT, tokens).backward()
    return model.blocks[-1].branch.down.weight.grad.norm().item()


def every_character(model, tokens):
    model.zero_grad()
    functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    return model.blocks[-1].branch.down.weight.grad.norm()


def last_logits_cut_off(model, tokens):
    model.zero_grad()
    logits = model(tokens)[:, :-1]
    functional.cross_entropy(logits.mT, tokens[:, 1:]).backward()
    return model.blocks[-1].branch.down.weight.grad.norm()


def clipped(model, tokens):
    trained(model, tokens)
    return nn.utils.clip_grad_norm_(model.parameters(), math.inf)


def measured(logits, targets, number=lambda model: model.blocks[-1].branch.down.weight.grad.norm()):
    """The gradient, from other logits and targets, or another number of it."""

    def answer(model, tokens):
        model.zero_grad()
        functional.cross_entropy(logits(model, tokens), targets(tokens)).backward()
        return number(model)

    return answer


def predictions(model, tokens):
    return model(tokens[:, :-1])


def turned(model, tokens):
    return predictions(model, tokens).mT


def following(tokens):
    return tokens[:, 1:]


def reshaped(model, tokens):
    logits = predictions(model, tokens)
    return logits.reshape(logits.shape[0], -1, logits.shape[1])


def root_mean_square(model):
    return model.blocks[-1].branch.down.weight.grad.square().mean().sqrt()


def norm_of_the_bias(model):
    return model.blocks[-1].branch.down.bias.grad.norm()


def gradient_of(model):
    return model.blocks[-1].branch.down.weight.grad


def by_nll_of_probabilities(model, tokens):
    model.zero_grad()
    functional.nll_loss(predictions(model, tokens).softmax(-1).mT, tokens[:, 1:]).backward()
    return gradient_of(model).norm()


def cleared_afterwards(model, tokens):
    logits = model(tokens[:, :-1])
    functional.cross_entropy(
        logits.reshape(-1, logits.size(-1)), tokens[:, 1:].reshape(-1)
    ).backward()
    norm = math.sqrt(sum(float(g) ** 2 for g in model.blocks[-1].branch.down.weight.grad.flatten()))
    torch.optim.SGD(model.parameters(), lr=0.1).zero_grad()
    return norm


def by_nll_of_logits(model, tokens):
    model.zero_grad()
    functional.nll_loss(turned(model, tokens), following(tokens)).backward()
    return gradient_of(model).norm()


def one_character_left_out(model, tokens):
    return turned(model, tokens[:, :-1])


GRADIENTS = [
    (cleared_afterwards, "cleared_afterwards_alone"),
    (measured(one_character_left_out, lambda t: t[:, 1:-1]), "one_character_too_few"),
    (measured(turned, following, lambda m: gradient_of(m).std()), "standard_deviation"),
    (by_nll_of_logits, "logits_for_logarithms"),
    (measured(lambda m, t: m(t[:, 1:]).mT, lambda t: t[:, :-1]), "shifted_backwards"),
    (measured(lambda m, t: predictions(m, t)[:, -1], lambda t: t[:, -1]), "last_prediction_alone"),
    (measured(reshaped, following), "logits_reshaped"),
    (measured(predictions, following), "logits_not_turned"),
    (measured(turned, following, root_mean_square), "root_mean_square"),
    (measured(turned, following, norm_of_the_bias), "bias_instead_of_weight"),
    (measured(lambda m, t: m(t[:-1]).mT, lambda t: t[1:]), "sequences_cut"),
    (measured(turned, following, lambda m: gradient_of(m).norm(p=1)), "sum_of_absolute_values"),
    (lambda m, t: trained(m, t, reduction="none").norm(), "loss_summed_over_positions"),
    (lambda m, t: functional.cross_entropy(turned(m, t), following(t)), "loss_instead"),
    (by_nll_of_probabilities, "logarithm_forgotten"),
    (measured(lambda m, t: m(t).mT, lambda t: t.roll(-1, 1)), "targets_rolled"),
    (measured(turned, following, lambda m: gradient_of(m).abs().max()), "largest_entry"),
]


def plain(v):
    return (v - v.mean(-1, keepdims=True)) / (v.var(-1, keepdims=True) + 1e-5) ** 0.5


def post_with_a_plain_norm(x, attention, feed_forward, norms):
    u = plain(x + attention(x))
    return plain(u + feed_forward(u))


def pre_with_a_plain_norm(x, attention, feed_forward, norms):
    u = x + attention(plain(x))
    return u + feed_forward(plain(u))


def deep_with_a_plain_norm(x, attention, feed_forward, norms, alpha):
    u = plain(alpha * x + attention(x))
    return plain(alpha * u + feed_forward(u))


def deep_with_an_average(x, attention, feed_forward, norms, alpha):
    for norm, branch in zip(norms, (attention, feed_forward), strict=True):
        x = norm(alpha * x + (1 - alpha) * branch(x))
    return x


def pre_with_x_in_both_sums(x, attention, feed_forward, norms):
    u = x + attention(norms[0](x))
    return x + u + feed_forward(norms[1](u))


def peri_normalised_at_last(x, attention, feed_forward, norms):
    u = x + norms[1](attention(norms[0](x)))
    return norms[3](u + feed_forward(norms[2](u)))


def peri_normalised_at_first(x, attention, feed_forward, norms):
    u = norms[1](x + attention(norms[0](x)))
    return u + norms[3](feed_forward(norms[2](u)))


def factors_inside(n, m):
    return (0.81 * n**4 * m) ** (1 / 16), (0.87 * n**4 * m) ** (-1 / 16)


def capital_keys(n, m):
    pairs = constants(alone, encoder, decoder)(n, m)
    return {side.title(): pair for side, pair in pairs.items()}


def deep_with_alpha_on_a_branch(x, attention, feed_forward, norms, alpha):
    u = norms[0](alpha * x + attention(x))
    return norms[1](u + alpha * feed_forward(u))


def peri_after_the_branch(x, attention, feed_forward, norms):
    u = norms[1](x + norms[0](attention(x)))
    return norms[3](u + norms[2](feed_forward(u)))


def peri_of_the_attention_alone(x, attention, feed_forward, norms):
    a = norms[1](attention(norms[0](x)))
    return x + a + norms[3](feed_forward(norms[2](a)))


def post_by_lambdas(x, attention, feed_forward, norms):
    parts = []
    for branch, norm in zip((attention, feed_forward), norms, strict=True):
        parts.append(lambda v: norm(v + branch(v)))  # noqa: B023, the mistake
    return parts[1](parts[0](x))


def pre_by_lambdas(x, attention, feed_forward, norms):
    pairs = zip((attention, feed_forward), norms, strict=True)
    parts = [lambda v: v + branch(norm(v)) for branch, norm in pairs]  # noqa: B023, the mistake
    return parts[1](parts[0](x))


WRONG = [
    ("post", post_from_the_notes, "nested_residuals"),
    ("post", pre_in_place_on_a_copy, "pre_instead"),
    ("pre", pre_from_the_notes, "parallel_branches"),
    ("pre", pre_with_one_name, "normalised_stream_kept"),
    ("pre", pre_with_first_norm, "norm_shared"),
    ("pre", pre_without_residuals, "residual_forgotten"),
    ("pre", post_in_a_loop, "post_instead"),
    ("deep", deep_weighing_branches, "alpha_on_branch"),
    ("deep", deep_with_a_bracket, "alpha_on_both"),
    ("deep", deep_on_a_scaled_stream, "scaled_stream_read"),
    ("deep", deep_at_first, "alpha_in_the_first_alone"),
    ("peri", peri_before_then_after, "norms_by_their_end"),
    ("peri", peri_around_the_sum, "input_and_sum_normalised"),
    ("peri", peri_that_is_pre, "pre_instead"),
    ("output", output_that_is_post, "post_instead"),
    ("pre", pre_ending(without_norm), "norm_forgotten_in_second"),
    ("pre", pre_ending(around_the_sum), "post_in_second"),
    ("pre", pre_ending(without_stream), "residual_forgotten_in_second"),
    ("pre", pre_with_last_norm_first, "norms_exchanged"),
    ("post", post_ending(without_norm), "norm_forgotten_in_second"),
    ("post", post_ending(on_the_branch), "output_in_second"),
    ("post", post_ending(beside_the_norm), "norm_on_the_stream"),
    ("post", post_ending(sum_with_its_norm), "sum_added_again"),
    ("post", post_with_norms_at_the_end, "norms_at_the_end"),
    ("post", post_adding_the_sum, "sum_added_again"),
    ("post", post_with_x_in_both_sums, "input_added_again"),
    ("post", post_reading_the_sum, "sum_read_before_its_norm"),
    ("post", post_with_last_norm_first, "norms_exchanged"),
    ("pre", pre_without_attention, "attention_lost"),
    ("post", post_without_attention, "attention_lost"),
    ("deep", deep_without_attention, "attention_lost"),
    ("pre", pre_from_the_other_end, "parts_exchanged"),
    ("post", post_from_the_other_end, "parts_exchanged"),
    ("model", ending_with(lambda width: nn.LayerNorm(width, 1e-3)), "eps_of_the_final_norm"),
    ("deep", deep_reading_a_scaled_stream_at_last, "scaled_stream_read_in_second"),
    ("deep", deep_with_a_bracket_at_last, "alpha_on_both"),
    ("deep", deep_without_the_last_norm, "norm_forgotten_in_second"),
    ("deep", deep_with_a_smaller_branch, "branch_divided"),
    ("deep", deep_with_a_smaller_stream, "stream_divided"),
    ("deep", deep_with_norms_on_the_branches, "deep_output_instead"),
    ("deep", deep_with_norms_before, "deep_pre_instead"),
    ("pre", pre_keeping(first=True, second=False), "normalised_stream_kept"),
    ("pre", pre_keeping(first=False, second=True), "normalised_stream_kept"),
    ("pre", pre_on_both_sides, "peri_instead"),
    ("pre", pre_without_the_stream, "attention_alone_read"),
    ("deep", deep_with_two, "alpha_fixed"),
    ("peri", peri_ending(without_outer_norm), "pre_in_second"),
    ("peri", peri_ending(without_inner_norm), "output_in_second"),
    ("peri", peri_ending(inside_out), "inner_and_outer_exchanged_in_second"),
    ("peri", peri_ending(one_norm_too_early), "one_norm_twice"),
    ("peri", peri_ending(third_norm_twice), "one_norm_twice"),
    ("peri", peri_with_one_name, "peri_normalised_stream_kept"),
    ("model", OutputForgotten, "output_forgotten"),
    ("model", AddedInPlace, "added_in_place"),
    ("model", ending_with(nn.RMSNorm), "rms_norm_at_the_end"),
    ("model", NormAsFunction, "final_norm_not_learnt"),
    (
        "model",
        ending_with(lambda width: nn.LayerNorm(width, elementwise_affine=False)),
        "final_norm_not_learnt",
    ),
    ("model", PlainList, "blocks_in_a_list"),
    ("model", NormForPostUnused, "unused_norm_kept"),
    ("model", NormForAll, "final_norm_after_post"),
    ("model", NormInForward, "final_norm_not_learnt"),
    ("model", lambda blocks, *_: nn.Sequential(*blocks), "final_norm_forgotten"),
    ("constants", constants(alone, tenths, decoder), "tenth_root"),
    (
        "constants",
        constants(minus_before(alone), minus_before(encoder), minus_before(decoder)),
        "beta_negative",
    ),
    ("constants", constants(minus_before(alone), encoder, decoder), "beta_negative"),
    ("constants", constants(alone, exchanged, decoder), "n_and_m_exchanged"),
    ("constants", constants(alone, decoder, encoder), "sides_exchanged"),
    ("constants", constants(alone, encoder, lambda n, m: alone(m)), "cross_attention_forgotten"),
    ("constants", constants(alone, lambda n, m: alone(n), decoder), "encoder_alone"),
    ("constants", constants(alone, encoder, lambda n, m: decoder(m, n)), "decoder_from_n"),
    (
        "constants",
        constants(backwards(alone), backwards(encoder), backwards(decoder)),
        "pairs_exchanged",
    ),
    ("constants", constants(backwards(alone), encoder, decoder), "pairs_exchanged"),
    (
        "constants",
        constants(alone, encoder_with_the_factors_exchanged, decoder),
        "encoder_factors_exchanged",
    ),
    ("constants", both_keys, "both_keys_always"),
    ("constants", one_key, "one_side_always"),
    (
        "constants",
        constants(lambda n: ((2 * n) ** -0.25, (8 * n) ** -0.25), encoder, decoder),
        "alpha_below_one",
    ),
    (
        "constants",
        constants(lambda n: ((2 * n) ** 0.25, (8 * n) ** 0.25), encoder, decoder),
        "beta_above_one",
    ),
    ("constants", constants(lambda n: alone(2 * n), encoder, decoder), "sublayers_counted"),
    (
        "constants",
        constants(alone_without_brackets, encoder, decoder),
        "exponent_without_brackets_alone",
    ),
    (
        "constants",
        constants(alone, encoder_without_brackets, decoder_without_brackets),
        "exponent_without_brackets_together",
    ),
    (
        "constants",
        constants(alone_without_brackets, encoder_without_brackets, decoder_without_brackets),
        "exponent_without_brackets",
    ),
    (
        "constants",
        constants(alone_with_brackets_in_the_exponent, encoder, decoder),
        "factor_outside_power_alone",
    ),
    (
        "constants",
        constants(alone, encoder, decoder_with_brackets_in_the_exponent),
        "factor_outside_power_together",
    ),
    (
        "constants",
        constants(lambda n: ((8 * n) ** 0.25, (2 * n) ** -0.25), encoder, decoder),
        "two_and_eight_exchanged",
    ),
    ("init", every_matrix, "gain_on_everything"),
    ("init", attention_alone, "gain_forgotten_on_feed_forward"),
    ("init", scaled_by(twice), "gain_applied_twice"),
    ("init", scaled_by(by_variance), "gain_on_variance"),
    ("init", only_scaled, "queries_left_as_made"),
    ("init", four_of_six, "queries_and_keys_untouched"),
    ("init", kaiming, "kaiming_instead"),
    ("qk_norm", attention_with(unit_length), "euclidean_norm"),
    ("qk_norm", attention_with(before="scaled"), "scaled_twice"),
    ("qk_norm", attention_with(values=unit_values), "values_normalised"),
    ("qk_norm", attention_with(causal=False), "future_visible"),
    ("gradient", forgetful, "gradients_accumulated"),
    ("gradient", every_character, "whole_sequence_compared"),
    ("gradient", last_logits_cut_off, "last_character_read"),
    ("gradient", same_character, "targets_not_shifted"),
    ("gradient", lambda m, t: torch.linalg.norm(trained(m, t), ord=2), "spectral_norm"),
    ("gradient", lambda m, t: trained(m, t).pow(2).sum(), "root_forgotten"),
    ("gradient", lambda m, t: trained(m, t, reduction="sum").norm(), "loss_summed"),
    ("gradient", clipped, "all_parameters"),
    *(("gradient", answer, name) for answer, name in GRADIENTS),
    *FIRST,
    ("post", post_with_a_plain_norm, "norms_without_effect"),
    ("pre", pre_with_a_plain_norm, "norms_without_effect"),
    ("deep", deep_with_a_plain_norm, "norms_without_effect"),
    ("deep", deep_with_an_average, "weights_with_the_sum_one"),
    ("pre", pre_with_x_in_both_sums, "input_added_again"),
    ("peri", peri_normalised_at_last, "sum_normalised_in_one"),
    ("peri", peri_normalised_at_first, "sum_normalised_in_one"),
    ("constants", constants(alone, factors_inside, decoder), "encoder_factors_inside_power"),
    ("constants", capital_keys, "keys_with_capitals"),
    ("pre", attention_copied, "one_branch_twice"),
    ("pre", pre_in_place, "changed_in_place"),
    ("deep", deep_in_place, "changed_in_place"),
    ("pre", pre_with_a_final_norm, "block_ends_with_a_norm"),
    ("deep", deep_at_last, "alpha_in_the_second_alone"),
    ("peri", peri_norms_side_by_side, "both_on_one_side"),
    ("pre", pre_in_one_sum, "one_sum_for_both"),
    ("output", output_in_one_sum, "one_sum_for_both"),
    ("peri", peri_in_one_sum, "one_sum_for_both"),
    ("post", post_in_one_sum, "one_sum_for_both"),
    ("post", post_with_one_norm, "one_sum_for_both"),
    ("deep", deep_in_one_sum, "one_sum_for_both"),
    ("gradient", lambda m, t: trained(m, t).mean(), "mean_instead_of_norm"),
    ("deep", deep_with_alpha_on_a_branch, "alpha_on_branch"),
    ("peri", peri_after_the_branch, "output_and_sum_normalised"),
    ("peri", peri_of_the_attention_alone, "attention_alone_read"),
    ("post", post_by_lambdas, "one_branch_twice"),
    ("pre", pre_by_lambdas, "one_branch_twice"),
    *(("model", answer, name) for answer, name in MODELS),
    *(("constants", answer, name) for answer, name in CONSTANTS),
]


@pytest.mark.parametrize(("task", "answer", "name"), WRONG)
def test_a_wrong_answer_is_named(task, answer, name):
    assert named(answer, task) == [name]


def test_both_pairs_of_brackets_forgotten_on_one_side():
    answer = constants(alone_without_any_brackets, encoder, decoder)
    found = {"factor_outside_power_alone", "exponent_without_brackets_alone"}
    assert set(named(answer, "constants")) == found


def test_two_mistakes_are_both_named():
    found = named(pre_in_place_on_a_copy, "peri")
    assert set(found) == {"pre_instead", "first_two_norms_alone"}
    assert set(named(AllInAList, "model")) == {"blocks_in_a_list", "final_norm_not_learnt"}
    found = {"scaled_stream_read", "alpha_in_the_first_alone"}
    assert set(named(deep_scaled_at_the_beginning, "deep")) == found


def test_what_is_said_of_one_sub_layer_is_true_beside_the_other():
    def pre_then_plain(x, attention, feed_forward, norms):
        u = x + attention(norms[0](x))
        return u + feed_forward(u)

    def in_one_sum(x, attention, feed_forward, norms):
        return norms[1](x + feed_forward(x + attention(x)))

    for answer, false in ((pre_then_plain, "No norm is applied"), (in_one_sum, "used nowhere")):
        verdict = judged(answer, "post")
        assert len(verdict.mistakes) == 2 and false not in verdict.explain()


def test_an_input_that_is_returned_is_not_said_to_be_a_sum():
    for task in ("post", "pre", "peri"):
        found = named(lambda x, attention, feed_forward, norms: x + 0, task)
        assert set(found) == {"attention_lost", "feed_forward_forgotten"}


def test_branches_side_by_side_have_no_order():
    def answer(x, attention, feed_forward, norms):
        return x + attention(norms[1](x)) + feed_forward(norms[0](x))

    assert set(named(answer, "pre")) == {"parallel_branches", "norms_exchanged"}


def test_a_norm_that_grows_hides_no_other_mistake():
    def answer(model, tokens):
        forgetful(model, tokens)
        return gradient_of(model).abs().mean()

    assert set(named(answer, "gradient")) == {"gradients_accumulated", "mean_instead_of_norm"}


def test_two_mistakes_in_different_constants_are_both_named():
    answer = constants(lambda n: (alone(n)[0] ** 2, (8 * n) ** -1 / 4), encoder, decoder)
    found = {"square_root", "exponent_without_brackets_alone"}
    assert set(named(answer, "constants")) == found


# --- What is said -----------------------------------------------------------------------------


class WithoutReturn(LoopOverModules):
    def forward(self, x):
        super().forward(x)


class WithoutInit(LoopOverModules):
    def __init__(self, blocks, width, placement):
        self.parts = nn.ModuleList(blocks)


class ListCalled(LoopOverModules):
    def forward(self, x):
        return self.parts(x)


class OwnListCalled(PlainList):
    def forward(self, x):
        return self.blocks(x)


class WithoutGraph(LoopOverModules):
    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


def no_gradient(model, tokens):
    model.zero_grad()
    functional.cross_entropy(predictions(model, tokens).mT, tokens[:, 1:])
    return gradient_of(model).norm()


def one_too_many(x, attention, feed_forward, norms):
    u = norms[1](x + attention(x))
    return norms[2](u + feed_forward(u))


FAILING = [
    ("model", WithoutReturn, "None instead of a result: the output of a new model"),
    ("model", WithoutInit, "super().__init__() is missing"),
    ("model", ListCalled, "NotImplementedError: Module [ModuleList] is missing"),
    ("model", OwnListCalled, "TypeError: 'list' object is not callable"),
    ("model", WithoutGraph, "does not require grad"),
    ("post", lambda *a: None, "None instead of a result: y"),
    ("post", one_too_many, "IndexError: list index out of range"),
    ("constants", lambda n, m: {"encoder": alone(n), "decoder": alone(m)}, "ZeroDivisionError"),
    ("constants", lambda n, m: None, "None instead of a result: the keys, alpha of the decoder"),
    (
        "constants",
        constants(lambda n: alone(n)[0], encoder, decoder),
        "Returned: the keys (str), alpha of the decoder (float). Expected",
    ),
    (
        "constants",
        constants(lambda n: {"alpha": 1, "beta": 2}, encoder, decoder),
        "The type of alpha of the decoder is dict instead of float",
    ),
    ("gradient", no_gradient, "'NoneType' object has no attribute 'norm'"),
    ("gradient", lambda *a: None, "None instead of a result: the norm of the gradient"),
]


@pytest.mark.parametrize(("task", "answer", "told"), FAILING)
def test_what_fails_is_explained_by_itself(task, answer, told):
    verdict = judged(answer, task)
    assert not verdict.mistakes and told in " ".join(verdict.explain().split())


def test_the_constants_are_told_by_the_names_of_the_statement():
    text = judged(constants(without_a_root, encoder, decoder), "constants").explain()
    assert "n = 0 · m = 8" in text and "alpha of the decoder 4" in text
    assert "Right already" not in text and "looked at alone" not in text


# --- Ready-made answers, and parts ------------------------------------------------------------


def as_tensors(function):
    return lambda v: torch.from_numpy(function(v.numpy()))


def ready_made_post(x, attention, feed_forward, norms):
    y = torch.from_numpy(x)
    for branch, norm in zip((attention, feed_forward), norms, strict=True):
        made = {"norm": lambda *_, norm=norm, **__: as_tensors(norm)}
        y = Residual(as_tensors(branch), x.shape[-1], "post", **made)(y)
    return y.numpy()


def ready_made_stack(blocks, width, placement):
    model = CharacterTransformer(2, width, 1, 1, 1, placement)
    return nn.Sequential(*blocks, model.final_norm)


def ready_made_init(attention, feed_forward, beta):
    deepnorm_init(nn.ModuleList([attention, feed_forward]), beta)


SIDES = "one_side", "both_sides"
READY = [
    ("post", ready_made_post, "normkit.Residual"),
    ("model", ready_made_stack, "normkit.CharacterTransformer"),
    ("constants", deepnorm_constants, "normkit.deepnorm_constants"),
    ("constants_one_side", deepnorm_constants, "normkit.deepnorm_constants"),
    ("init", ready_made_init, "normkit.deepnorm_init"),
]


@pytest.mark.parametrize(("task", "answer", "name"), READY)
def test_a_ready_made_answer_is_told_apart(task, answer, name):
    verdict = judged(answer, task)
    assert not verdict.passed and name in verdict.explain()


def test_each_side_counts_by_itself():
    for answer, lost in (
        (constants(alone, tenths, decoder), "both_sides"),
        (constants(without_a_root, encoder, decoder), "one_side"),
    ):
        passed = {side: judged(answer, f"constants_{side}").passed for side in SIDES}
        assert passed == {side: side != lost for side in SIDES}


def test_every_mistake_with_the_constants_shows_on_a_side():
    program = "placement/deepnorm_constants"
    for mistake in mistakes_of(program):
        wrong = combine(program, mistake)
        assert not all(judged(wrong, f"constants_{side}").passed for side in SIDES)


def test_what_a_branch_raises_is_not_explained_by_the_line_that_calls_it():
    def uncalled(x, attention, feed_forward, norms):
        y = x + attention(norms[0])
        return y + feed_forward(norms[1](y))

    told = judged(uncalled, "pre").explain("en")
    assert "What is called in this line" in told and "Square brackets" not in told
