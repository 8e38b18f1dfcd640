"""Where the norms stand in a Transformer: blocks, a stack of them, DeepNorm, QK-norm, gradients."""

import math
from collections.abc import Callable

import numpy as np

from normkit.messages import N_
from normkit.mistakes.chains import ALGORITHMS, Algorithm, Steps, chain, of, run

# --- Steps ------------------------------------------------------------------------------------


@chain
class BLOCK:
    """Two sub-layers; the steps from `kept` on are those of one. `start`: x of the first."""

    def parts(attention, feed_forward):
        return attention, feed_forward

    def pairs(norms):
        return [(norm, norm) for norm in norms]

    def chosen(pairs):
        return pairs

    def kept(x):
        return x

    def stream(kept):
        return kept

    def source(x):
        return x

    def read(source):
        return source

    def f(branch, read):
        return branch(read)

    def written(f):
        return f

    def total(stream, written):
        return stream + written

    def y(total):
        return total


@chain
class POST:
    def y(total, after):
        return after(total)


@chain
class DEEP:
    def stream(kept, alpha):
        return alpha * kept


@chain
class PRE:
    def read(source, before):
        return before(source)


@chain
class OUTPUT:
    def written(f, after):
        return after(f)


@chain
class FOUR_NORMS:
    def pairs(norms):
        return [(norms[0], norms[1]), (norms[2], norms[3])]


@chain
class STACK:
    """A model made of blocks: what it keeps."""

    def raw():
        return "pre", "peri", "output"

    def normalised():
        return ()

    def ends(placement, raw, normalised):
        return placement in raw or placement in normalised

    def norm(torch, width, ends):
        return torch.nn.LayerNorm(width) if ends else torch.nn.Identity()

    def stored(torch, blocks):
        return torch.nn.ModuleList(blocks)

    def keep_blocks(layer, stored):
        layer.blocks = stored

    def keep_norm(layer, norm):
        layer.final_norm = norm


@chain
class THROUGH:
    """A model made of blocks: what it does."""

    def start(x):
        return x

    def step(layer):
        return lambda block, x: block(x)

    def through(layer, start, step):
        x = start
        for block in layer.blocks:
            x = step(block, x)
        return x

    def y(layer, through):
        return layer.final_norm(through)


@chain
class LAYERS:
    def n(encoder_layers):
        return encoder_layers

    def m(decoder_layers):
        return decoder_layers

    def fourth():
        return 4

    def sixteenth():
        return 16

    def plus():
        return 1

    def minus():
        return -1


@chain
class ONE_SIDE:
    def power():
        return lambda base, sign, root: base ** (sign / root)

    def layers(n, m):
        return n or m

    def alpha(layers, power, plus, fourth):
        return power(2 * layers, plus, fourth)

    def beta(layers, power, minus, fourth):
        return power(8 * layers, minus, fourth)

    def constants(n, alpha, beta):
        return {"encoder" if n else "decoder": (alpha, beta)}


@chain
class BOTH_SIDES:
    def powers():
        return lambda base, sign, root: base ** (sign / root)

    def product(n, m):
        return n**4 * m

    def alpha_e(product, powers, plus, sixteenth):
        return 0.81 * powers(product, plus, sixteenth)

    def beta_e(product, powers, minus, sixteenth):
        return 0.87 * powers(product, minus, sixteenth)

    def alpha_d(m, powers, plus, fourth):
        return powers(3 * m, plus, fourth)

    def beta_d(m, powers, minus, fourth):
        return powers(12 * m, minus, fourth)

    def sides(alpha_e, beta_e, alpha_d, beta_d):
        return {"encoder": (alpha_e, beta_e), "decoder": (alpha_d, beta_d)}


@chain
class START:
    """Which layers are `drawn`, and what happens to each of them, by its `name`."""

    def drawn():
        return "q", "k", "v", "out", "up", "down"

    def scaled():
        return "v", "out", "up", "down"

    def gain(name, scaled, beta):
        return beta if name in scaled else 1

    def std(linear, gain):
        return gain * math.sqrt(2 / (linear.in_features + linear.out_features))

    def weight(linear, std):
        linear.weight.normal_(0, std)

    def bias(linear):
        linear.bias.zero_()

    def others(torch, linear, beta):
        """Nothing else: β appears in the initialisation alone."""


@chain
class ATTENTION:
    def split(heads):
        return lambda a: a.reshape(len(a), heads, -1).swapaxes(0, 1)

    def rms(xp, eps):
        return lambda a: a / xp.sqrt(xp.mean(a**2, axis=-1, keepdims=True) + eps)

    def normalised(split, rms, qk_norm):
        if qk_norm == "full":
            return lambda a, gamma: split(gamma * rms(a))
        return lambda a, gamma: gamma * rms(split(a))

    def queries(normalised, q, gamma_q):
        return normalised(q, gamma_q)

    def keys(normalised, k, gamma_k):
        return normalised(k, gamma_k)

    def values(split, v):
        return split(v)

    def dots(queries, keys):
        return queries @ keys.swapaxes(-1, -2)

    def scale(q, heads):
        return 1 / math.sqrt(q.shape[-1] // heads)

    def scores(dots, scale):
        return dots * scale

    def masked(xp, scores):
        past = xp.tril(xp.ones(scores.shape[-2:])) > 0
        return xp.where(past, scores, -math.inf)

    def weights(xp, masked):
        e = xp.exp(masked - xp.max(masked, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    def joined():
        return lambda a: a.swapaxes(0, 1).reshape(a.shape[1], -1)

    def y(weights, values, joined):
        return joined(weights @ values)


@chain
class GRADIENT:
    def cleared(model):
        model.zero_grad()

    def logits(model, tokens, cleared):
        return model(tokens[:, :-1])

    def targets(tokens):
        return tokens[:, 1:]

    def scores(logits):
        return logits

    def loss(torch, scores, targets):
        return torch.nn.functional.cross_entropy(scores.mT, targets)

    def passed(loss):
        loss.backward()

    def matrix(model):
        return model.blocks[-1].branch.down.weight

    def gradient(matrix, passed):
        return matrix.grad

    def size(gradient):
        return gradient.norm()


# --- Assembled --------------------------------------------------------------------------------


OF_BOTH = "parts", "pairs", "chosen"


def _blocks(right: Steps) -> tuple[Steps, Callable]:
    """Steps and assembly of a block. A step `name_2` is one of the second sub-layer alone."""
    one = {name: step for name, step in right.items() if name not in OF_BOTH}

    def assemble(steps):
        first = {name: steps[name] for name in one}
        own = {name: steps[f"{name}_2"] for name in one if steps[f"{name}_2"] is not one[name]}
        return _block({name: steps[name] for name in OF_BOTH}, (first, first | own))

    return {**right, **{f"{name}_2": step for name, step in one.items()}}, assemble


def _block(both: Steps, sublayers: tuple[Steps, Steps]) -> Callable:
    def block(x, attention, feed_forward, norms, alpha=None):
        made = run(both, attention=attention, feed_forward=feed_forward, norms=norms)
        start, norms = x, made["chosen"]
        for branch, (before, after), steps in zip(made["parts"], norms, sublayers, strict=False):
            given = {"branch": branch, "before": before, "after": after, "alpha": alpha}
            x = run(steps, x=x, start=start, **given)["y"]
        return x

    return block


def _stack(steps: Steps) -> type:
    import torch

    made = {name: steps[name] for name in STACK}
    called = {name: steps[name] for name in THROUGH}

    class Stack(torch.nn.Module):
        def __init__(self, blocks, width, placement):
            super().__init__()
            run(made, torch=torch, layer=self, blocks=blocks, width=width, placement=placement)

        def forward(self, x):
            return run(called, layer=self, x=x)["y"]

    return Stack


def _constants(steps: Steps) -> Callable:
    def deepnorm_constants(encoder_layers=0, decoder_layers=0):
        both = encoder_layers and decoder_layers
        names = LAYERS | (BOTH_SIDES if both else ONE_SIDE)
        given = {"encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
        done = run({name: steps[name] for name in names}, **given)
        return done["sides" if both else "constants"]

    return deepnorm_constants


def _init(steps: Steps) -> Callable:
    import torch

    @torch.no_grad()
    def deepnorm_init(attention, feed_forward, beta):
        for name in steps["drawn"]():
            linear = getattr(feed_forward if name in ("up", "down") else attention, name)
            run(steps, torch=torch, linear=linear, name=name, beta=beta)

    return deepnorm_init


def _attention(steps: Steps) -> Callable:
    def attention(q, k, v, heads, qk_norm, gamma_q, gamma_k, eps=1e-6):
        given = {"q": q, "k": k, "v": v, "gamma_q": gamma_q, "gamma_k": gamma_k}
        return run(steps, xp=np, **given, heads=heads, qk_norm=qk_norm, eps=eps)["y"]

    return attention


def _gradient(steps: Steps) -> Callable:
    import torch

    def gradient_norm(model, tokens):
        return run(steps, torch=torch, model=model, tokens=tokens)["size"]

    return gradient_norm


ALGORITHMS |= {
    name: Algorithm(steps, assemble, f"placement#placement-{place}", "placement", tuple(contains))
    for name, place, (steps, assemble), *contains in (
        ("block", "formula", _blocks(BLOCK)),
        ("post_block", "formula", _blocks(BLOCK | POST), "block"),
        ("deep_block", "formula", _blocks(BLOCK | POST | DEEP), "block"),
        ("pre_block", "formula", _blocks(BLOCK | PRE), "block"),
        ("peri_block", "formula", _blocks(BLOCK | PRE | OUTPUT | FOUR_NORMS), "block"),
        ("output_block", "formula", _blocks(BLOCK | OUTPUT), "block"),
        ("stack", "formula", (STACK | THROUGH, _stack)),
        ("deepnorm_constants", "deepnorm", (LAYERS | ONE_SIDE | BOTH_SIDES, _constants)),
        ("deepnorm_init", "deepnorm", (START, _init)),
        ("qk_attention", "qk", (ATTENTION, _attention)),
        ("gradient_norm", "gradients", (GRADIENT, _gradient)),
    )
}


# --- Blocks: where the norm stands ------------------------------------------------------------
# The first four are right in one placement, which therefore has no such mistake.


@of("block")
class post_instead:
    message = N_(
        "The norm stands around the sum: N(x + F(x)). That is post-norm. The stream itself passes "
        "through a norm in every sub-layer. For x = [0, 2, 4] and F(v) = [v[2], 0, 0] it gives "
        "[0.71, -1.41, 0.71]."
    )
    read, written, y = BLOCK["read"], BLOCK["written"], POST["y"]


@of("block")
class pre_instead:
    message = N_(
        "The only norm stands before the branch: x + F(N(x)). That is pre-norm. What the branch "
        "returns is added as it is, and the stream grows from layer to layer. For x = [0, 2, 4] "
        "and F(v) = [v[2], 0, 0] it gives [1.22, 2, 4]."
    )
    read, written, y = PRE["read"], BLOCK["written"], BLOCK["y"]


@of("block")
class output_instead:
    message = N_(
        "The only norm stands after the branch, inside the sum: x + N(F(x)). That is the order of "
        "OLMo 2. The branch reads a stream that no norm has touched. For x = [0, 2, 4] and F(v) = "
        "[v[2], 0, 0] it gives [1.41, 1.29, 3.29]."
    )
    read, written, y = BLOCK["read"], OUTPUT["written"], BLOCK["y"]


@of("block")
class peri_instead:
    message = N_(
        "The branch is normalised on both sides: x + N(F(N(x))). That is peri-norm, or sandwich "
        "norm, which has two norms in each sub-layer. This placement has one."
    )
    read, written, y = PRE["read"], OUTPUT["written"], BLOCK["y"]


@of("block")
class input_and_sum_normalised:
    message = N_(
        "The input of the branch and the sum are both normalised: N(x + F(N(x))). Pre-norm has "
        "the first alone, post-norm the second alone. Where two norms are wanted, in peri-norm, "
        "they stand at both ends of the branch, and the stream passes outside."
    )
    met = N_("A French course places the norm both before and after each sub-layer.")
    read, written, y = PRE["read"], BLOCK["written"], POST["y"]


@of("block")
class norm_forgotten:
    message = N_(
        "No norm is applied. The size of the stream then depends on every matrix before it, and a "
        "deep model does not train. Call the functions in norms, where the formula says N."
    )
    read, written, y = BLOCK["read"], BLOCK["written"], BLOCK["y"]


@of("block")
class normalised_stream_kept:
    message = N_(
        "The normalised x takes the place of x: N(x) + F(N(x)). No placement does that: what the "
        "branch returns is added to the stream as it came in. Keep x itself, and give N(x) another "
        "name."
    )
    read, written, y = PRE["read"], BLOCK["written"], BLOCK["y"]

    def kept(x, before):
        return before(x)


@of("block")
class norm_on_the_stream:
    message = N_(
        "The norm is on the wrong term: N(x) + F(x). It should act on what the branch reads, on "
        "what it returns, or on the whole sum, but never on the stream x alone: that loses the "
        "size of x and leaves F as it was."
    )
    read, written, y = BLOCK["read"], BLOCK["written"], BLOCK["y"]

    def kept(x, before):
        return before(x)


# --- Blocks: what is added to what ------------------------------------------------------------


@of("block")
class residual_forgotten:
    message = N_(
        "The stream is not added: a sub-layer returns what its branch made, and nothing of x. "
        "Where F is small at first, the input is lost, and the gradient must pass through every "
        "branch. Add x to F."
    )

    def total(written):
        return written


@of("block")
class branch_subtracted:
    message = N_(
        "The branch is subtracted from the stream. Every placement adds it, x + F. A network can "
        "learn the other sign, but trained weights will not fit."
    )

    def total(stream, written):
        return stream - written


@of("block")
class feed_forward_forgotten:
    message = N_(
        "The block ends after the attention. It has two sub-layers, attention and feed-forward "
        "part, each with a branch, a sum and a norm of its own; the second reads what the first "
        "returns."
    )

    def parts(attention):
        return (attention,)


@of("block")
class parts_exchanged:
    message = N_(
        "The feed-forward part comes before the attention. In a Transformer block attention is "
        "the first sub-layer, and the feed-forward part reads what it returns."
    )

    def parts(attention, feed_forward):
        return feed_forward, attention


@of("block")
class norm_shared:
    message = N_(
        "Both sub-layers use the norms of the first. They see different inputs, so each has a "
        "gamma and a beta of its own; shared ones are half as many, and trained weights will not "
        "fit. Take norms in order."
    )

    def chosen(pairs):
        return pairs[0], pairs[0]


@of("block")
class stale_stream:
    message = N_(
        "The second sub-layer adds its branch to the input of the block, so what the attention "
        "added to the stream is lost. Write u for the output of the first sub-layer, and use u, "
        "not x, in the second."
    )

    def kept(start):
        return start


@of("block")
class parallel_branches:
    message = N_(
        "The feed-forward part reads the input of the block, as the attention does. Branches side "
        "by side, x + A(N(x)) + F(N(x)), make a parallel block (GPT-J, PaLM). Here they follow "
        "each other: the feed-forward part reads u, the output of the first sub-layer."
    )
    met = N_("Teaching notes give this formula for Pre-Norm.")

    def source(start):
        return start


@of("post_block")
class nested_residuals:
    message = N_(
        "This is x + N(F(x + N(A(x)))): the norms are on the branches, and the second sum takes x "
        "again instead of the new stream. Post-norm is u = N(x + A(x)), then N(u + F(u)); with "
        "gamma = 1 and beta = 0 each token of its output has variance 1."
    )
    written, y = OUTPUT["written"], BLOCK["y"]

    def kept(start):
        return start


# --- Blocks: the second sub-layer alone -------------------------------------------------------


@of("block")
class norm_forgotten_in_second:
    message = N_(
        "The second sub-layer has no norm. It follows the same formula as the first: u, the result "
        "of the first, takes the place of x, and it has a norm of its own."
    )
    read_2, written_2, y_2 = BLOCK["read"], BLOCK["written"], BLOCK["y"]


@of("block")
class post_in_second:
    message = N_(
        "The second sub-layer has its only norm around the sum. It follows the same formula as the "
        "first: u, the result of the first, takes the place of x."
    )
    read_2, written_2, y_2 = BLOCK["read"], BLOCK["written"], POST["y"]


@of("block")
class pre_in_second:
    message = N_(
        "The second sub-layer normalises what the feed-forward part reads, and nothing else. It "
        "follows the same formula as the first: u, the result of the first, takes the place of x."
    )
    read_2, written_2, y_2 = PRE["read"], BLOCK["written"], BLOCK["y"]


@of("block")
class output_in_second:
    message = N_(
        "The second sub-layer normalises what the feed-forward part returns, and nothing else. It "
        "follows the same formula as the first: u, the result of the first, takes the place of x."
    )
    read_2, written_2, y_2 = BLOCK["read"], OUTPUT["written"], BLOCK["y"]


@of("block")
class residual_forgotten_in_second:
    message = N_(
        "The second sub-layer does not add the stream. It follows the same formula as the first: "
        "what the feed-forward part makes is added to u, the result of the first."
    )

    def total_2(written):
        return written


@of("block")
class norms_exchanged:
    message = N_(
        "Each sub-layer uses what belongs to the other in norms. norms is in the order of the "
        "sub-layers: first what the attention needs, then what the feed-forward part needs."
    )

    def chosen(pairs):
        return pairs[1], pairs[0]


@of("deep_block")
class scaled_stream_read_in_second:
    message = N_(
        "The feed-forward part reads alpha·u. It reads u as it is, and alpha stands in the sum "
        "alone: N(alpha·u + F(u)), as in the first sub-layer."
    )

    def read_2(source, alpha):
        return alpha * source


@of("peri_block")
class inner_and_outer_exchanged_in_second:
    message = N_(
        "The last two norms are exchanged: norms[2] acts on what the feed-forward part reads, "
        "norms[3] on what it returns. norms holds them in the order in which they act."
    )

    def chosen(pairs):
        return pairs[0], pairs[1][::-1]


# --- Blocks: α of DeepNorm --------------------------------------------------------------------


@of("deep_block")
class alpha_forgotten:
    message = N_(
        "alpha has no effect: N(x + F(x)) is plain post-norm. DeepNorm gives the stream more "
        "weight, N(alpha·x + F(x)), so that one layer changes it little, however deep the model."
    )
    stream = BLOCK["stream"]


@of("deep_block")
class alpha_on_branch:
    message = N_(
        "alpha multiplies the branch: N(x + alpha·F(x)). It belongs on the stream, N(alpha·x + "
        "F(x)). For x = [0, 2, 4], F(v) = [v[2], 0, 0] and alpha = 2 yours gives [1.34, -1.07, "
        "-0.27] instead of [-0.71, -0.71, 1.41]."
    )
    met = N_("A page on DeepNorm.")
    stream = BLOCK["stream"]

    def total(stream, written, alpha):
        return stream + alpha * written


@of("deep_block")
class pre_instead:  # noqa: F811  (in words of its own)
    message = N_(
        "The only norm stands before the branch: alpha·x + F(N(x)). DeepNorm is Post-Norm with "
        "alpha: its norm acts on the whole sum, N(alpha·x + F(x))."
    )
    label = "placement-mistake-deep-pre-instead"
    read, written, y = PRE["read"], BLOCK["written"], BLOCK["y"]


@of("deep_block")
class output_instead:  # noqa: F811  (in words of its own)
    message = N_(
        "The only norm stands after the branch, inside the sum: alpha·x + N(F(x)). DeepNorm is "
        "Post-Norm with alpha: its norm acts on the whole sum, N(alpha·x + F(x))."
    )
    label = "placement-mistake-deep-output-instead"
    read, written, y = BLOCK["read"], OUTPUT["written"], BLOCK["y"]


@of("deep_block")
class branch_divided:
    message = N_(
        "This is N(x + F(x)/alpha). It has the right weights, for the norm removes a common "
        "factor; but eps is added to a variance that is alpha² times smaller, so the numbers "
        "differ. Write the formula as it stands: N(alpha·x + F(x))."
    )
    stream = BLOCK["stream"]

    def total(stream, written, alpha):
        return stream + written / alpha


@of("deep_block")
class stream_divided:
    message = N_(
        "alpha divides the stream: N(x/alpha + F(x)). It multiplies it, N(alpha·x + F(x)), so that "
        "the stream weighs more than the branch."
    )

    def stream(kept, alpha):
        return kept / alpha


@of("deep_block")
class alpha_on_both:
    message = N_(
        "alpha multiplies the whole sum: N(alpha·(x + F(x))). The norm removes a common factor "
        "again (up to eps), and plain post-norm is left. alpha belongs on x alone."
    )
    stream = BLOCK["stream"]

    def total(stream, written, alpha):
        return alpha * (stream + written)


@of("deep_block")
class alpha_outside_norm:
    message = N_(
        "alpha multiplies the output of the norm: alpha·N(x + F(x)). That is alpha times too "
        "large, and x and F have the same weight, as in post-norm. alpha belongs inside, on the "
        "stream: N(alpha·x + F(x))."
    )
    stream = BLOCK["stream"]

    def y(total, after, alpha):
        return alpha * after(total)


@of("deep_block")
class stream_twice:
    message = N_(
        "The stream enters twice, as x and as alpha·x: its weight is 1 + alpha. alpha takes the "
        "place of the factor 1 that x has in post-norm: N(alpha·x + F(x))."
    )

    def stream(kept, alpha):
        return kept + alpha * kept


@of("deep_block")
class scaled_stream_read:
    message = N_(
        "The branch reads alpha·x: N(alpha·x + F(alpha·x)). It reads x as it is, and alpha stands "
        "in the sum alone: N(alpha·x + F(x)). Do not overwrite x by alpha·x."
    )

    def read(source, alpha):
        return alpha * source


@of("deep_block")
class alpha_in_the_first_alone:
    message = N_(
        "alpha is in the sum of the attention, but not in that of the feed-forward part. Each sum "
        "has it: N(alpha·x + F(x)) holds for every sub-layer."
    )
    stream_2 = BLOCK["stream"]


# --- Blocks: the two norms of peri ------------------------------------------------------------


@of("peri_block")
class inner_and_outer_exchanged:
    message = N_(
        "The two norms of a sub-layer are exchanged. norms holds them in the order in which they "
        "act: that of the input of the branch first, then that of its output. Each has its own "
        "gamma and beta."
    )

    def chosen(pairs):
        return [(after, before) for before, after in pairs]


@of("peri_block")
class inner_norm_again:
    message = N_(
        "One norm serves both ends of the branch. Input and output of a branch differ, and each "
        "has a norm with a gamma and a beta of its own: four norms in a block, not two."
    )

    def chosen(pairs):
        return [(before, before) for before, _ in pairs]


@of("peri_block")
class first_two_norms_alone:
    message = N_(
        "Only norms[0] and norms[1] are used, one for each sub-layer. A Peri-LN block has four, "
        "two for each: norms[0] and norms[1] belong to the attention, norms[2] and norms[3] to the "
        "feed-forward part."
    )

    def pairs(norms):
        return [(norms[0], norms[0]), (norms[1], norms[1])]


@of("peri_block")
class normalised_stream_kept:  # noqa: F811  (with the outer norm)
    message = N_(
        "The normalised x takes the place of x: N(x) + N'(F(N(x))). What the branch returns is "
        "added to the stream as it came in. Keep x itself, and give N(x) another name."
    )
    label = "placement-mistake-peri-normalised-stream-kept"

    def kept(x, before):
        return before(x)


@of("peri_block")
class norms_by_their_end:
    message = N_(
        "norms is read as both norms before the branches, then both norms after them. It holds "
        "them in the order in which they act: before and after the attention, then before and "
        "after the feed-forward part."
    )

    def pairs(norms):
        return [(norms[0], norms[2]), (norms[1], norms[3])]


# --- A stack of blocks ------------------------------------------------------------------------


@of("stack")
class final_norm_forgotten:
    message = N_(
        "There is no final norm. In pre, peri and output blocks the stream x passes outside the "
        "norms and grows with every block; whatever reads it needs one last norm, after the last "
        "block."
    )

    def raw():
        return ()


@of("stack")
class final_norm_for_pre_alone:
    message = N_(
        "Pre blocks get a final norm, but not peri and output blocks. Their norms are inside the "
        "branches, too: the stream is a sum of what came before, and no block normalises it. All "
        "three need a final norm."
    )

    def raw():
        return ("pre",)


@of("stack")
class output_forgotten:
    message = N_(
        'Pre and peri blocks get a final norm, but not "output" blocks, OLMo 2\'s order: x + '
        "N(F(x)) ends with an addition, too, and no norm has touched the stream itself."
    )

    def raw():
        return "pre", "peri"


@of("stack")
class final_norm_after_post:
    message = N_(
        "Post and deep blocks get a final norm. They end with a norm themselves, so a second one "
        "only normalises again what is normalised, and adds parameters that trained weights do "
        "not have."
    )

    def normalised():
        return "post", "deep"


@of("stack")
class norm_before_the_blocks:
    message = N_(
        "The norm stands before the first block instead of after the last. What the blocks add to "
        "the stream is then not normalised at the end. It is called a final norm: apply it to the "
        "output of the last block."
    )

    def start(layer, x):
        return layer.final_norm(x)

    def y(through):
        return through


@of("stack")
class norm_after_every_block:
    message = N_(
        "The final norm is applied after every block, inside the loop. It then cuts the stream "
        "that should pass from the first block to the last. Apply it once, after the loop."
    )

    def step(layer):
        return lambda block, x: layer.final_norm(block(x))

    def y(through):
        return through


@of("stack")
class residual_added_again:
    message = N_(
        "x is added to the output of each block. The blocks contain their residuals already: x "
        "then counts twice, and doubles with every block. Write x = block(x)."
    )

    def step():
        return lambda block, x: x + block(x)


@of("stack")
class added_in_place:
    message = N_(
        "x += block(x) adds x to the output of a block, which contains its residual already, and "
        "writes into a tensor that the gradient still needs. Write x = block(x)."
    )

    def step():
        return lambda block, x: x.add_(block(x))


@of("stack")
class last_block_alone:
    message = N_(
        "Every block is given the input of the model, and only the result of the last one is "
        "returned. Each block reads what the one before returned: x = block(x)."
    )

    def through(layer, start, step):
        return [step(block, start) for block in layer.blocks][-1]


@of("stack")
class rms_norm_at_the_end:
    message = N_(
        "The final norm is an RMSNorm: it does not subtract the mean, and has no bias. The task "
        "asks for torch.nn.LayerNorm(width)."
    )

    def norm(torch, width, ends):
        return torch.nn.RMSNorm(width, eps=1e-5) if ends else torch.nn.Identity()


@of("stack")
class blocks_in_a_list:
    message = N_(
        "The blocks are kept in a plain list. A module does not look inside lists: the optimiser "
        "gets none of their parameters, and state_dict() does not save them. Use nn.ModuleList or "
        "nn.Sequential."
    )

    def keep_blocks(layer, stored):
        layer.blocks = list(stored)


@of("stack")
class final_norm_not_learnt:
    message = N_(
        "The model knows no gamma and beta of a final norm, so no training changes them. Make "
        "torch.nn.LayerNorm(width), with its parameters, once, as an attribute of the "
        "model and not in a plain list, and call it in forward."
    )

    def keep_norm(layer, norm):
        layer.__dict__["final_norm"] = norm


@of("stack")
class unused_norm_kept:
    message = N_(
        "The final norm is made for post and deep blocks as well, and not used there. Its "
        "parameters are saved and counted all the same, and trained weights do not have them. Make "
        "it only where the model needs it."
    )

    def keep_norm(torch, layer, norm, width, ends):
        layer.final_norm = norm
        layer.unused = torch.nn.Identity() if ends else torch.nn.LayerNorm(width)


# --- DeepNorm: α and β ------------------------------------------------------------------------


@of("deepnorm_constants")
class square_root:
    message = N_(
        "The exponent is 1/2 where it must be 1/4. For N = 8 layers alpha is (2N)^(1/4) = 2, not "
        "4: the fourth root grows so slowly that 1000 layers need no more than 6.7."
    )

    def fourth():
        return 2


@of("deepnorm_constants")
class alpha_below_one:
    message = N_(
        "The exponent of alpha is negative, which makes alpha smaller than 1 and the stream weaker "
        "with every layer. It is positive: (2N)^(1/4), which is 2 for N = 8. Only that of beta is "
        "negative."
    )
    met = N_("A page on DeepNorm, which calls α less than 1.")

    def plus():
        return -1


@of("deepnorm_constants")
class beta_above_one:
    message = N_(
        "The exponent of beta is positive. beta makes the first weights smaller, the more layers "
        "there are: (8N)^(-1/4), which is 1/2 for N = 2. With the sign forgotten it would be 2."
    )

    def minus():
        return 1


@of("deepnorm_constants")
class tenth_root:
    message = N_(
        "In an encoder–decoder, the exponent of N⁴M is 1/10; it must be 1/16, and -1/16 for beta. "
        "For N = 2 and M = 16 the product is 2⁸, its sixteenth root √2, and alpha of the encoder "
        "0.81·√2 = 1.15."
    )
    met = N_("A page on DeepNorm, probably a misread 16.")

    def sixteenth():
        return 10


@of("deepnorm_constants")
class two_and_eight_exchanged:
    message = N_(
        "The factors 2 and 8 are exchanged: alpha is (2N)^(1/4), and beta (8N)^(-1/4). For N = 8 "
        "that gives 2 and 0.354; yours gives 2.83 and 0.5. The product of alpha and beta must be "
        "1/√2 = 0.71 for every N; yours is √2."
    )

    def alpha(layers, power, plus, fourth):
        return power(8 * layers, plus, fourth)

    def beta(layers, power, minus, fourth):
        return power(2 * layers, minus, fourth)


@of("deepnorm_constants")
class sublayers_counted:
    message = N_(
        "The sub-layers are counted, two for each layer. N and M count layers: one layer is an "
        "attention and a feed-forward part together. The 2 in (2N)^(1/4) is already the number of "
        "sub-layers in each; alpha for 8 layers is 2."
    )

    def n(encoder_layers):
        return 2 * encoder_layers

    def m(decoder_layers):
        return 2 * decoder_layers


@of("deepnorm_constants")
class sides_exchanged:
    message = N_(
        "The pairs of encoder and decoder are exchanged in the result. In an encoder–decoder, the "
        "encoder has 0.81·(N⁴M)^(1/16) and 0.87·(N⁴M)^(-1/16), the decoder (3M)^(1/4) and "
        "(12M)^(-1/4)."
    )

    def sides(alpha_e, beta_e, alpha_d, beta_d):
        return {"encoder": (alpha_d, beta_d), "decoder": (alpha_e, beta_e)}


@of("deepnorm_constants")
class pairs_exchanged:
    message = N_(
        "The pairs hold beta before alpha. The task asks for (alpha, beta): for a decoder alone "
        "with 8 layers that is (2, 0.354)."
    )

    def constants(n, alpha, beta):
        return {"encoder" if n else "decoder": (beta, alpha)}

    def sides(alpha_e, beta_e, alpha_d, beta_d):
        return {"encoder": (beta_e, alpha_e), "decoder": (beta_d, alpha_d)}


@of("deepnorm_constants")
class both_keys_always:
    message = N_(
        "The dictionary has both keys even where there is one side only. For n = 0 there is no "
        'encoder, and the only key is "decoder"; for m = 0 it is "encoder".'
    )

    def constants(alpha, beta):
        return {"encoder": (alpha, beta), "decoder": (alpha, beta)}


@of("deepnorm_constants")
class one_side_always:
    message = N_(
        "For an encoder–decoder, the dictionary has one side only. Where n and m are both above 0, "
        "it has a pair for each, and their formulas are those of the last two lines of the table."
    )

    def sides(n, powers, plus, minus, fourth):
        return {"encoder": (powers(2 * n, plus, fourth), powers(8 * n, minus, fourth))}


@of("deepnorm_constants")
class encoder_factors_exchanged:
    message = N_(
        "The factors of the encoder of an encoder–decoder are exchanged: 0.81 belongs to alpha, "
        "0.87 to beta. For N = 2 and M = 16, alpha is 0.81·√2 = 1.15."
    )

    def alpha_e(product, powers, plus, sixteenth):
        return 0.87 * powers(product, plus, sixteenth)

    def beta_e(product, powers, minus, sixteenth):
        return 0.81 * powers(product, minus, sixteenth)


@of("deepnorm_constants")
class n_and_m_exchanged:
    message = N_(
        "N and M are exchanged in N⁴M. N counts the layers of the encoder, whose constants these "
        "are, and has the fourth power; M counts those of the decoder."
    )

    def product(n, m):
        return m**4 * n


@of("deepnorm_constants")
class cross_attention_forgotten:
    message = N_(
        "The decoder of an encoder–decoder gets (2M)^(1/4) and (8M)^(-1/4), as if it stood alone. "
        "It has a third sub-layer in each layer, the attention to the encoder: (3M)^(1/4) and "
        "(12M)^(-1/4). For M = 27, alpha is 3."
    )

    def alpha_d(m, powers, plus, fourth):
        return powers(2 * m, plus, fourth)

    def beta_d(m, powers, minus, fourth):
        return powers(8 * m, minus, fourth)


@of("deepnorm_constants")
class encoder_alone:
    message = N_(
        "The encoder of an encoder–decoder gets (2N)^(1/4) and (8N)^(-1/4), as if it stood alone. "
        "What it learns also depends on the M layers that read it: 0.81·(N⁴M)^(1/16) and "
        "0.87·(N⁴M)^(-1/16)."
    )

    def alpha_e(n, powers, plus, fourth):
        return powers(2 * n, plus, fourth)

    def beta_e(n, powers, minus, fourth):
        return powers(8 * n, minus, fourth)


@of("deepnorm_constants")
class decoder_from_n:
    message = N_(
        "The constants of the decoder are computed from N, the layers of the encoder. They follow "
        "from M, those of the decoder itself: (3M)^(1/4) and (12M)^(-1/4). For N = 5 and M = 27, "
        "alpha of the decoder is 3."
    )

    def alpha_d(n, powers, plus, fourth):
        return powers(3 * n, plus, fourth)

    def beta_d(n, powers, minus, fourth):
        return powers(12 * n, minus, fourth)


@of("deepnorm_constants")
class exponent_without_brackets:
    message = N_(
        "The brackets around the exponent are missing: Python reads a ** 1 / 4 as (a ** 1) / 4. "
        "For N = 8 alpha would be 4 instead of 2. Write a ** (1 / 4), or a ** 0.25."
    )

    def power():
        return lambda base, sign, root: base**sign / root

    def powers():
        return lambda base, sign, root: base**sign / root


@of("deepnorm_constants")
class exponent_without_brackets_alone:
    message = N_(
        "For one side alone, the brackets around the exponent are missing: Python reads a ** 1 / 4 "
        "as (a ** 1) / 4. For N = 8 alpha would be 4 instead of 2. Write a ** (1 / 4), or "
        "a ** 0.25."
    )
    power = exponent_without_brackets.changes["power"]


@of("deepnorm_constants")
class exponent_without_brackets_together:
    message = N_(
        "For an encoder–decoder, the brackets around the exponent are missing: Python reads "
        "a ** 1 / 4 as (a ** 1) / 4. For M = 27 alpha of the decoder would be 20.25 instead of 3. "
        "Write a ** (1 / 4) and a ** (1 / 16)."
    )
    powers = exponent_without_brackets.changes["powers"]


@of("deepnorm_constants")
class factor_outside_power:
    message = N_(
        "The factor before N or M stands outside the power: Python reads 2 * N ** 0.25 as 2 * (N "
        "** 0.25). For N = 8 alpha would be 3.36 instead of 2. Write (2 * N) ** 0.25."
    )

    def alpha(layers, power, plus, fourth):
        return 2 * power(layers, plus, fourth)

    def beta(layers, power, minus, fourth):
        return 8 * power(layers, minus, fourth)

    def alpha_d(m, powers, plus, fourth):
        return 3 * powers(m, plus, fourth)

    def beta_d(m, powers, minus, fourth):
        return 12 * powers(m, minus, fourth)


@of("deepnorm_constants")
class factor_outside_power_alone:
    message = N_(
        "For one side alone, the factor before N or M stands outside the power: Python reads 2 * N "
        "** 0.25 as 2 * (N ** 0.25). For N = 8 alpha would be 3.36 instead of 2. Write (2 * N) ** "
        "0.25, and brackets around 8 * N for beta."
    )
    alpha, beta = (factor_outside_power.changes[name] for name in ("alpha", "beta"))


@of("deepnorm_constants")
class factor_outside_power_together:
    message = N_(
        "For an encoder–decoder, the factor before M stands outside the power: Python reads 3 * M "
        "** 0.25 as 3 * (M ** 0.25). For M = 27 alpha of the decoder would be 6.84 instead of 3. "
        "Write (3 * M) ** 0.25, and brackets around 12 * M for beta."
    )
    alpha_d, beta_d = (factor_outside_power.changes[name] for name in ("alpha_d", "beta_d"))


# --- DeepNorm: the first weights --------------------------------------------------------------


@of("deepnorm_init")
class gain_on_everything:
    message = N_(
        "q and k get the gain beta, too. They only decide where the attention looks, and keep gain "
        "1; beta is for what adds to the stream: v, out, and both matrices of the feed-forward "
        "part."
    )

    def scaled():
        return "q", "k", "v", "out", "up", "down"


@of("deepnorm_init")
class gain_on_queries_and_keys:
    message = N_(
        "In the attention, q and k have the gain beta, and v and out the gain 1. It is the other "
        "way round: beta is for what adds to the stream, v and out; q and k only decide where the "
        "attention looks."
    )

    def scaled():
        return "q", "k", "up", "down"


@of("deepnorm_init")
class gain_on_the_last_alone:
    message = N_(
        "Only out and down, the last matrices of the branches, have the gain beta; GPT-2 scales "
        "these two. DeepNorm scales v and up as well: both factors of a product are made smaller."
    )

    def scaled():
        return "out", "down"


@of("deepnorm_init")
class gain_forgotten_on_out:
    message = N_(
        "out, the output projection of the attention, has the gain 1. What it returns is added to "
        "the stream, so it gets the gain beta, as v, up and down do."
    )

    def scaled():
        return "v", "up", "down"


@of("deepnorm_init")
class gain_forgotten_on_up:
    message = N_(
        "up, the first matrix of the feed-forward part, has the gain 1. Both of its matrices get "
        "the gain beta, as do v and out."
    )

    def scaled():
        return "v", "out", "down"


@of("deepnorm_init")
class gain_forgotten_on_feed_forward:
    message = N_(
        "up and down, the matrices of the feed-forward part, have the gain 1. Like v and out of "
        "the attention, they make up what is added to the stream: all four get the gain beta."
    )

    def scaled():
        return "v", "out"


@of("deepnorm_init")
class beta_without_effect:
    message = N_(
        "All matrices have the gain 1: beta has no effect. v, out, up and down get the gain beta, "
        "the second argument of xavier_normal_."
    )

    def scaled():
        return ()


@of("deepnorm_init")
class gain_as_mean:
    message = N_(
        "The second argument of normal_ is the mean, so the weights lie around the gain, with the "
        "standard deviation 1. The mean is 0 and the standard deviation gain·√(2/(inputs + "
        "outputs)); xavier_normal_(weight, gain) does both."
    )

    def weight(linear, gain):
        linear.weight.normal_(gain)


@of("deepnorm_init")
class gain_as_std:
    message = N_(
        "The gain itself is the standard deviation. It only multiplies Xavier's, gain·√(2/(inputs "
        "+ outputs)), which for 128 inputs, 128 outputs and gain 1 is 0.088. Use "
        "xavier_normal_(weight, gain)."
    )

    def weight(linear, gain):
        linear.weight.normal_(0, gain)


@of("deepnorm_init")
class gain_on_variance:
    message = N_(
        "beta multiplies the variance, so the standard deviation has the factor √beta only. A gain "
        "multiplies the standard deviation: beta·√(2/(inputs + outputs))."
    )

    def gain(name, scaled, beta):
        return math.sqrt(beta) if name in scaled else 1


@of("deepnorm_init")
class gain_applied_twice:
    message = N_(
        "The gain enters twice: the standard deviation has the factor beta². Give beta to "
        "xavier_normal_, or multiply its result by beta, but not both. The variance has the "
        "factor beta², its root the factor beta."
    )

    def gain(name, scaled, beta):
        return beta**2 if name in scaled else 1


@of("deepnorm_init")
class variance_as_std:
    message = N_(
        "The variance 2·gain²/(inputs + outputs) is given to a function that wants the standard "
        "deviation, its root. For 128 inputs, 128 outputs and gain 1 that is 0.0078 instead of "
        "0.088, and the branches start all but silent."
    )

    def std(linear, gain):
        return gain**2 * 2 / (linear.in_features + linear.out_features)


@of("deepnorm_init")
class kaiming_instead:
    message = N_(
        "The standard deviation is gain·√(2/inputs): Kaiming's. DeepNorm's beta is the gain of "
        "Xavier's, √(2/(inputs + outputs)). For a square matrix the difference is a factor √2."
    )

    def std(linear, gain):
        return gain * math.sqrt(2 / linear.in_features)


@of("deepnorm_init")
class scaled_as_made:
    message = N_(
        "The weights that torch made are multiplied by the gain. nn.Linear does not start with "
        "Xavier's weights: for a square matrix its own are 0.58 times as large. Use "
        "xavier_normal_(weight, gain) for all matrices, q and k included."
    )

    def weight(linear, gain):
        linear.weight *= gain


@of("deepnorm_init")
class queries_left_as_made:
    message = N_(
        "q and k are left as torch made them. nn.Linear does not start with Xavier's weights: for "
        "a square matrix its own are 0.58 times as large. q and k need xavier_normal_ as well, "
        "with gain 1."
    )

    def weight(linear, std, name):
        if name not in ("q", "k"):
            linear.weight.normal_(0, std)


@of("deepnorm_init")
class queries_and_keys_untouched:
    message = N_(
        "q and k are left as torch made them, weights and biases. nn.Linear does not start with "
        "Xavier's weights: for a square matrix its own are 0.58 times as large. q and k need "
        "xavier_normal_ with gain 1, and biases of 0."
    )

    def drawn():
        return "v", "out", "up", "down"


QUERY_OR_KEY = N_(
    "One of q and k is left as torch made it. Both need xavier_normal_, with gain 1, and biases of "
    "0: all six layers are drawn anew."
)
ATTENTION_OR_FEED_FORWARD = N_(
    "One of the two parts is left as torch made it. All six layers are drawn anew: q, k, v and out "
    "of the attention, up and down of the feed-forward part."
)


@of("deepnorm_init")
class queries_untouched:
    message = QUERY_OR_KEY

    def drawn():
        return "k", "v", "out", "up", "down"


@of("deepnorm_init")
class keys_untouched:
    message = QUERY_OR_KEY

    def drawn():
        return "q", "v", "out", "up", "down"


@of("deepnorm_init")
class attention_untouched:
    message = ATTENTION_OR_FEED_FORWARD

    def drawn():
        return "up", "down"


@of("deepnorm_init")
class feed_forward_untouched:
    message = ATTENTION_OR_FEED_FORWARD

    def drawn():
        return "q", "k", "v", "out"


@of("deepnorm_init")
class uniform_instead:
    message = N_(
        "The weights are uniform: their standard deviation is right, but none is larger than √3 "
        "times it. DeepNorm draws them from a normal distribution: xavier_normal_, not "
        "xavier_uniform_."
    )

    def weight(linear, std):
        linear.weight.uniform_(-math.sqrt(3) * std, math.sqrt(3) * std)


@of("deepnorm_init")
class biases_left_as_made:
    message = N_(
        "The biases are left as torch made them, at random. They start at 0, so that at first a "
        "branch is as small as its weights say."
    )

    def bias(linear):
        pass


@of("deepnorm_init")
class biases_of_one_number:
    message = N_(
        "A bias has another shape than before. A layer has one bias for each of its outputs: set "
        "them to 0 in place, with zeros_(linear.bias)."
    )

    def bias(torch, linear):
        linear.bias.data = torch.zeros(1)


@of("deepnorm_init")
class weights_transposed:
    message = N_(
        "A matrix has another shape than before: torch keeps the weights of a layer as (outputs, "
        "inputs). Draw them in place, with xavier_normal_(linear.weight, gain), or with the shape "
        "linear.weight.shape."
    )

    def weight(torch, linear, std):
        linear.weight.data = std * torch.randn(linear.in_features, linear.out_features)


@of("deepnorm_init")
class beta_as_parameter:
    message = N_(
        "beta has become a parameter of the model. It is not learnt, and multiplies nothing in the "
        "forward pass: it is the gain with which v, out, up and down are drawn, and then it is "
        "gone."
    )
    met = N_("Teaching notes ask where this parameter is, and leave the question open.")

    def gain():
        return 1

    def others(torch, linear, beta):
        linear.beta = torch.nn.Parameter(torch.tensor(beta))


# --- QK-norm ----------------------------------------------------------------------------------


@of("qk_attention")
class keys_not_normalised:
    message = N_(
        "Only q is normalised. The dot product still grows with the size of k, and with it the "
        "attention becomes all or nothing. QK-norm normalises both, before the dot product."
    )

    def keys(split, k):
        return split(k)


@of("qk_attention")
class values_normalised:
    message = N_(
        "v is normalised, too. QK-norm bounds the scores, which are made of q and k alone; v holds "
        "what is passed on, and its size counts."
    )

    def values(split, rms, v):
        return rms(split(v))


@of("qk_attention")
class scores_normalised:
    message = N_(
        "The dot products are normalised, not q and k. Normalised scores depend on all keys of "
        "the row, later ones included, and have the same spread everywhere. Normalise q and k, "
        "then multiply them."
    )

    def queries(split, q):
        return split(q)

    def keys(split, k):
        return split(k)

    def scores(dots, scale, rms):
        return rms(dots) * scale


@of("qk_attention")
class over_the_tokens:
    message = N_(
        "q and k are normalised over the tokens. Each token then depends on those that follow it. "
        "Their mean square is taken over the features of one token, the last axis."
    )

    def rms(xp, eps):
        return lambda a: a / xp.sqrt(xp.mean(a**2, axis=-2, keepdims=True) + eps)


@of("qk_attention")
class full_width_always:
    message = N_(
        'qk_norm="head" asks for one mean square for each head, over its d features; yours is one '
        "over the full width D for all heads. A head with large queries then makes the others "
        "small. Split first, then normalise."
    )

    def normalised(split, rms, qk_norm):
        if qk_norm == "full":
            return lambda a, gamma: split(gamma * rms(a))
        return lambda a, gamma: gamma * split(rms(a))


@of("qk_attention")
class by_heads_always:
    message = N_(
        'qk_norm="full" asks for one mean square over the full width D, as in OLMo 2; yours is one '
        "for each head, as in Qwen 3 and Gemma 3. Normalise first, then split into heads."
    )
    met = N_(
        "The documentation of a library says that OLMo 2 does it; its code normalises the full "
        "width."
    )

    def normalised(split, rms, qk_norm):
        if qk_norm == "full":
            return lambda a, gamma: split(gamma[None]) * rms(split(a))
        return lambda a, gamma: gamma * rms(split(a))


@of("qk_attention")
class euclidean_norm:
    message = N_(
        "q and k are divided by their Euclidean norm, the root of the sum of squares. RMSNorm "
        "divides by the root of the mean of squares, so that the entries have size 1. Yours, and "
        "the scores, shrink with the width, and all tokens get nearly the same weight."
    )

    def rms(xp, eps):
        return lambda a: a / xp.sqrt(xp.sum(a**2, axis=-1, keepdims=True) + eps)


@of("qk_attention")
class scaled_twice:
    message = N_(
        "The scores are divided by √d twice, that is by d. Once is right. (Calling "
        "scaled_dot_product_attention with q that is already divided does it, too.)"
    )

    def scores(dots, scale):
        return dots * scale**2


@of("qk_attention")
class not_scaled:
    message = N_(
        "The scores are not divided by √d. QK-norm gives q and k entries of size 1, so their dot "
        "product is still a sum of d terms, up to d in size. Divide by √d, as without QK-norm."
    )

    def scores(dots):
        return dots


@of("qk_attention")
class scaled_by_full_width:
    message = N_(
        "The scores are divided by the root of the full width D. A dot product runs over the "
        "features of one head, d = D / heads of them: divide by √d."
    )

    def scale(q):
        return 1 / math.sqrt(q.shape[-1])


@of("qk_attention")
class reshaped_into_heads:
    message = N_(
        "reshape(heads, T, d) cuts the rows in the wrong places: a head gets all features of a few "
        "tokens. First (T, heads, d), then exchange the first two axes; at the end, exchange them "
        "back before the last reshape."
    )

    def split(heads):
        return lambda a: a.reshape(heads, len(a), -1)

    def joined():
        return lambda a: a.reshape(a.shape[1], -1)


@of("qk_attention")
class gamma_shared:
    message = N_(
        "gamma_q serves the keys, too. Queries and keys have a norm each, with a gamma of its own: "
        "gamma_k for k."
    )

    def keys(normalised, k, gamma_q):
        return normalised(k, gamma_q)


@of("qk_attention")
class future_visible:
    message = N_(
        "A token sees those that follow it: the mask is missing. Position t may look at positions "
        "up to t; set the scores of later ones to -inf before the softmax."
    )

    def masked(scores):
        return scores


# --- The gradient of the last feed-forward matrix ---------------------------------------------


@of("gradient_norm")
class gradients_accumulated:
    message = N_(
        "The gradients of the call before are still there: backward() adds to what it finds. "
        "Measured twice, the same model gives twice the norm. Call model.zero_grad() first."
    )

    def cleared():
        pass


@of("gradient_norm")
class targets_not_shifted:
    message = N_(
        "The model is asked for the character that it reads. It predicts the next one: read "
        "tokens[:, :-1], and compare with tokens[:, 1:]."
    )

    def targets(tokens):
        return tokens[:, :-1]


@of("gradient_norm")
class whole_sequence_compared:
    message = N_(
        "The model reads all characters, and is asked for the same ones. It predicts the next one: "
        "let it read tokens[:, :-1], and compare with tokens[:, 1:]. The last character has no "
        "next one."
    )

    def logits(model, tokens, cleared):
        return model(tokens)

    def targets(tokens):
        return tokens


@of("gradient_norm")
class shifted_backwards:
    message = N_(
        "The model reads tokens[:, 1:] and is asked for tokens[:, :-1], the character before each. "
        "It predicts the next one: let it read tokens[:, :-1], and compare with tokens[:, 1:]."
    )

    def logits(model, tokens, cleared):
        return model(tokens[:, 1:])

    def targets(tokens):
        return tokens[:, :-1]


@of("gradient_norm")
class last_prediction_alone:
    message = N_(
        "Only the prediction of the last character is compared. The loss is the mean over all "
        "characters that have a next one: compare all logits with tokens[:, 1:]."
    )

    def scores(logits):
        return logits[:, -1:]

    def targets(tokens):
        return tokens[:, -1:]


@of("gradient_norm")
class last_character_read:
    message = N_(
        "The model reads all characters, and its last logits are left out afterwards. It has no "
        "position for the last character where a sequence is one longer than it can read: give it "
        "tokens[:, :-1]."
    )

    def logits(model, tokens, cleared):
        return model(tokens)[:, :-1]


@of("gradient_norm")
class softmax_twice:
    message = N_(
        "cross_entropy is given probabilities. It wants the logits, and takes the softmax itself; "
        "a second one makes all probabilities nearly equal and the gradient small."
    )

    def scores(torch, logits):
        return torch.softmax(logits, -1)


@of("gradient_norm")
class loss_summed:
    message = N_(
        "The loss is the sum over all characters. The gradient then grows with the batch and the "
        "length; the loss is the mean, which cross_entropy takes by itself."
    )

    def loss(torch, scores, targets):
        return torch.nn.functional.cross_entropy(scores.mT, targets, reduction="sum")


@of("gradient_norm")
class logits_reshaped:
    message = N_(
        "reshape gives the logits the right shape, but mixes positions and characters: it keeps "
        "the numbers in their order. logits.mT exchanges the two axes."
    )

    def loss(torch, scores, targets):
        turned = scores.reshape(len(scores), -1, scores.shape[1])
        return torch.nn.functional.cross_entropy(turned, targets)


@of("gradient_norm")
class logits_not_turned:
    message = N_(
        "cross_entropy takes axis 1 of the logits for the characters of the vocabulary, but there "
        "are the positions. Give it logits.mT, which exchanges the last two axes."
    )

    def loss(torch, scores, targets):
        return torch.nn.functional.cross_entropy(scores, targets)


@of("gradient_norm")
class first_layer:
    message = N_(
        "This is the feed-forward matrix of the first layer. Asked for is that of the last, next "
        "to the output: model.blocks[-1]. They differ: in a pre-norm model of 16 layers the first "
        "has two to three times its gradient."
    )

    def matrix(model):
        return model.blocks[1].branch.down.weight


@of("gradient_norm")
class up_instead_of_down:
    message = N_(
        "This is up, the first matrix of the feed-forward part. Asked for is the second, down, "
        "whose result is added to the stream."
    )

    def matrix(model):
        return model.blocks[-1].branch.up.weight


@of("gradient_norm")
class bias_instead_of_weight:
    message = N_(
        "This is the gradient of the bias. Asked for is that of the matrix, "
        "model.blocks[-1].branch.down.weight."
    )

    def matrix(model):
        return model.blocks[-1].branch.down.bias


@of("gradient_norm")
class head_instead:
    message = N_(
        "This is the gradient of the head, the layer that makes the logits. Asked for is that of "
        "the last feed-forward matrix, model.blocks[-1].branch.down.weight."
    )

    def matrix(model):
        return model.head.weight


@of("gradient_norm")
class all_parameters:
    message = N_(
        "This is the norm of the gradient of all parameters together. It does not say in which "
        "layer the gradient is large. Take that of model.blocks[-1].branch.down.weight alone."
    )

    def gradient(torch, model, passed):
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@of("gradient_norm")
class norms_summed:
    message = N_(
        "The norms of all gradients are summed. Asked for is the norm of one matrix, "
        "model.blocks[-1].branch.down.weight; and where several belong together, the squares of "
        "the norms are summed, not the norms."
    )

    def size(model, passed):
        return sum(p.grad.norm() for p in model.parameters() if p.grad is not None)


@of("gradient_norm")
class weight_instead_of_gradient:
    message = N_(
        "This is the norm of the matrix, not of its gradient. After backward() the gradient is in "
        "weight.grad."
    )

    def gradient(matrix, passed):
        return matrix.detach()


@of("gradient_norm")
class mean_instead_of_norm:
    message = N_(
        "This is the mean absolute value of the entries of the gradient. A norm is the root of "
        "the sum of their squares; a mean also depends on how many entries there are."
    )

    def size(gradient):
        return gradient.abs().mean()


@of("gradient_norm")
class root_mean_square:
    message = N_(
        "This is the root of the mean of the squares. A norm is the root of their sum: the number "
        "of entries does not divide it."
    )

    def size(gradient):
        return gradient.square().mean().sqrt()


@of("gradient_norm")
class spectral_norm:
    message = N_(
        "This is the largest singular value: linalg.norm(matrix, 2) is the spectral norm. The "
        "Frobenius norm is the root of the sum of all squares: weight.grad.norm(), or linalg.norm "
        "without the 2."
    )

    def size(torch, gradient):
        return torch.linalg.norm(gradient, 2)


@of("gradient_norm")
class root_forgotten:
    message = N_(
        "This is the square of the norm: the root of the sum of squares is missing. On a log–log "
        "plot the slope against depth would be doubled, -1 instead of -1/2 for pre-norm."
    )

    def size(gradient):
        return (gradient**2).sum()
