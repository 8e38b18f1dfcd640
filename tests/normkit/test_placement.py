"""Placements of the norm, DeepNorm's constants and start, and the small Transformer."""

import math

import pytest
import torch
from torch import nn

import normkit
from normkit import (
    Attention,
    CharacterTransformer,
    FeedForward,
    Residual,
    deepnorm_constants,
    deepnorm_init,
)

F64 = {"dtype": torch.float64}
PLACEMENTS = ("post", "pre", "deep", "peri", "output")
BLOCKS = {  # of x = [0, 2, 4] and F(v) = [v₃, 0, 0], by hand
    "post": [0.7071, -1.4142, 0.7071],
    "pre": [1.2247, 2, 4],
    "deep": [-0.7071, -0.7071, 1.4142],
    "peri": [1.4142, 1.2929, 3.2929],
    "output": [1.4142, 1.2929, 3.2929],
}
placements = pytest.mark.parametrize("placement", PLACEMENTS)


def draw(*shape, seed=0):
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), **F64) + 1


def random(module, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0.5, 0.5, generator=generator)
    return module


def residual(branch, width, placement, **options):
    alpha = 2 if placement == "deep" else None
    return Residual(branch, width, placement, alpha, **options, **F64)


def model(placement="pre", seed=0, **options):
    torch.manual_seed(seed)
    settings = {"vocabulary": 7, "width": 12, "heads": 3, "layers": 2, "length": 8}
    return CharacterTransformer(**(settings | options), placement=placement, **F64)


# --- Residual ---------------------------------------------------------------------------------


@placements
def test_blocks_worked_by_hand(placement):
    def branch(v):
        return v[2] * torch.tensor([1.0, 0, 0], **F64)

    y = residual(branch, 3, placement)(torch.tensor([0.0, 2, 4], **F64))
    torch.testing.assert_close(y, torch.tensor(BLOCKS[placement], **F64), rtol=0, atol=6e-5)


def test_all_placements_differ():
    """Here too peri and output, which a branch that only scales its input cannot tell apart."""
    branch, x = random(FeedForward(5, **F64)), draw(4, 5)
    outputs = [residual(branch, 5, placement)(x) for placement in PLACEMENTS]
    for i, a in enumerate(outputs):
        for b in outputs[:i]:
            assert (a - b).abs().max() > 0.1


@placements
def test_what_is_normalised(placement):
    branch, x = random(FeedForward(5, **F64)), draw(4, 5)
    block = residual(branch, 5, placement)
    y = block(x)
    # What pre adds is as the branch made it; peri and output normalise it.
    inside = y if placement in ("post", "deep") else y - x
    is_normalised = inside.std(-1, correction=0).sub(1).abs().max() < 1e-3
    assert is_normalised == (placement != "pre")
    count = {"peri": 2}.get(placement, 1)
    assert sum(isinstance(part, normkit.LayerNorm) for part in block.modules()) == count


@pytest.mark.parametrize("placement", ["pre", "peri", "output"])
def test_a_silent_branch_leaves_the_stream_alone(placement):
    x = draw(4, 5)
    assert torch.equal(residual(torch.zeros_like, 5, placement)(x), x)


def test_alpha_weighs_the_stream_and_not_the_branch():
    x, f = torch.tensor([0.0, 2, 4], **F64), torch.tensor([4.0, 0, 0], **F64)
    y = residual(lambda _: f, 3, "deep")(x)
    torch.testing.assert_close(y, normkit.layer_norm(2 * x + f))
    wrong = torch.tensor([1.3363, -1.0690, -0.2673], **F64)  # LN(x + 2F)
    assert (y - wrong).abs().max() > 1


@placements
def test_any_norm(placement):
    block = residual(FeedForward(5, **F64), 5, placement, norm=normkit.RMSNorm)
    kinds = [type(part) for name, part in block.named_children() if part is not None]
    assert set(kinds) - {FeedForward} == {normkit.RMSNorm}
    assert block(draw(2, 4, 5)).shape == (2, 4, 5)


@pytest.mark.parametrize(
    ("placement", "alpha", "message"),
    [
        ("Post", None, r'one of "post", "pre", "deep", "peri", "output"; it is \'Post\''),
        (None, None, "it is None"),
        ("deep", None, "needs alpha, from deepnorm_constants.*alpha is None"),
        ("post", 2.0, 'placement is "post" and alpha is 2.0'),
    ],
)
def test_a_wrong_placement_is_refused(placement, alpha, message):
    with pytest.raises(ValueError, match=message):
        Residual(torch.zeros_like, 3, placement, alpha)


# --- DeepNorm ---------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_constants_of_one_side(side):
    def constants(layers):
        (found,) = deepnorm_constants(**{f"{side}_layers": layers}).items()
        assert found[0] == side
        return found[1]

    assert constants(8)[0] == 2 and constants(2)[1] == 0.5
    for n, alpha, beta in [(6, 1.8612, 0.3799), (24, 2.6321, 0.2686), (1000, 6.6874, 0.1057)]:
        assert constants(n) == (pytest.approx(alpha, abs=5e-5), pytest.approx(beta, abs=5e-5))
    for n in range(1, 50):
        assert math.prod(constants(n)) == pytest.approx(1 / math.sqrt(2))


def test_constants_of_both_sides():
    both = deepnorm_constants(2, 16)  # N⁴M = 2⁸, its root 2^(1/2)
    root = math.sqrt(2)
    assert both["encoder"] == (pytest.approx(0.81 * root), pytest.approx(0.87 / root))
    assert deepnorm_constants(5, 27)["decoder"][0] == pytest.approx(3)
    assert deepnorm_constants(5, 108)["decoder"][1] == pytest.approx(1 / 6)


@pytest.mark.parametrize("layers", [(0, 0), (-1, 3), (2, -1)])
def test_no_layers_are_refused(layers):
    with pytest.raises(ValueError, match="at least one layer"):
        deepnorm_constants(*layers)


@pytest.mark.parametrize("placement", ["deep", "pre"])
def test_the_spread_of_the_first_weights(placement):
    torch.manual_seed(0)
    start = CharacterTransformer(300, 128, layers=2, placement=placement)
    beta = 0.5 if placement == "deep" else 1  # N = 2
    gains = {"q": 1, "k": 1, "v": beta, "out": beta, "up": beta, "down": beta, "head": 1}
    linears = {n: p for n, p in start.named_modules() if isinstance(p, nn.Linear)}
    assert len(linears) == 2 * 6 + 1
    for name, linear in linears.items():
        gain = gains[name.split(".")[-1]]
        std = gain * math.sqrt(2 / (linear.in_features + linear.out_features))
        assert linear.weight.std().item() == pytest.approx(std, rel=0.05), name
        assert linear.weight.abs().max() > 3 * std  # normal: uniform ones end at √3 of it
        assert linear.bias.eq(0).all()


def test_the_start_of_other_modules():
    module = nn.Sequential(nn.Linear(3, 4, bias=False), nn.LayerNorm(4), nn.Linear(4, 4))
    assert deepnorm_init(module, 0.1) is module
    assert module[1].weight.eq(1).all() and module[2].bias.eq(0).all()
    assert module[2].weight.std() > 0.2  # β is for attention and feed-forward parts


@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_deepnorm_are_as_large_in_all_layers(seed):
    deep = model("deep", width=32, heads=2, layers=32, seed=seed)
    tokens = torch.randint(7, (8, 8), generator=torch.Generator().manual_seed(seed))
    nn.functional.cross_entropy(deep(tokens[:, :-1]).mT, tokens[:, 1:]).backward()
    gradients = [block.branch.down.weight.grad.norm().item() for block in deep.blocks[1::2]]
    assert 0.8 < gradients[-1] / gradients[0] < 1.25


# --- The Transformer --------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_a_layer_is_that_of_torch(placement):
    attention, feed = random(Attention(6, 2, **F64)), random(FeedForward(6, 10, **F64), 2)
    ours = nn.Sequential(*(random(residual(f, 6, placement)) for f in (attention, feed)))
    theirs = nn.TransformerEncoderLayer(
        6, 2, 10, dropout=0, batch_first=True, norm_first=placement == "pre", **F64
    )
    first, second = (b.norm_before if placement == "pre" else b.norm_after for b in ours)
    projections = attention.q, attention.k, attention.v
    theirs.self_attn.in_proj_weight.data = torch.cat([p.weight for p in projections]).detach()
    theirs.self_attn.in_proj_bias.data = torch.cat([p.bias for p in projections]).detach()
    for target, source in (
        (theirs.self_attn.out_proj, attention.out),
        (theirs.linear1, feed.up),
        (theirs.linear2, feed.down),
        (theirs.norm1, first),
        (theirs.norm2, second),
    ):
        target.load_state_dict(source.state_dict())
    x = draw(3, 5, 6)
    mask = nn.Transformer.generate_square_subsequent_mask(5, **F64)
    torch.testing.assert_close(ours(x), theirs(x, mask, is_causal=True), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("qk_norm", [None, "full", "head"])
def test_attention_by_its_formula(qk_norm):
    attention = random(Attention(6, 2, qk_norm, **F64))
    x = draw(5, 6)
    q, k, v = (project(x) for project in (attention.q, attention.k, attention.v))
    heads = []
    if qk_norm == "full":
        q, k = attention.q_norm(q), attention.k_norm(k)
    for part in (slice(0, 3), slice(3, 6)):
        query, key = q[:, part], k[:, part]
        if qk_norm == "head":
            query, key = attention.q_norm(query), attention.k_norm(key)
        scores = (query @ key.T / math.sqrt(3)).masked_fill(torch.ones(5, 5).triu(1) > 0, -math.inf)
        heads.append(scores.softmax(-1) @ v[:, part])
    right = attention.out(torch.cat(heads, -1))
    torch.testing.assert_close(attention(x[None])[0], right, rtol=1e-10, atol=1e-10)
    widths = {None: set(), "full": {(6,)}, "head": {(3,)}}[qk_norm]
    found = [n for n in attention.modules() if isinstance(n, normkit.RMSNorm)]
    assert {n.normalized_shape for n in found} == widths
    assert len({id(n) for n in found}) == 2 * len(widths)  # q and k do not share one


@pytest.mark.parametrize("qk_norm", ["full", "head"])
def test_qk_norm_forgets_the_size_of_queries(qk_norm):
    attention, x = random(Attention(6, 2, qk_norm, **F64)), draw(1, 5, 6)
    before = attention(x)
    for parameter in attention.q.parameters():
        parameter.data *= 1000
    torch.testing.assert_close(attention(x), before)


@placements
@pytest.mark.parametrize("qk_norm", [None, "full", "head"])
def test_the_future_does_not_count(placement, qk_norm):
    net = model(placement, qk_norm=qk_norm)
    tokens = torch.randint(7, (3, 8), generator=torch.Generator().manual_seed(0))
    other = tokens.clone()
    other[:, 5] = (tokens[:, 5] + 1) % 7
    before, after = net(tokens), net(other)
    assert before.shape == (3, 8, 7)
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=0, atol=1e-12)
    assert all((before - after)[:, t].abs().max() > 1e-6 for t in range(5, 8))
    other[0] = 0  # nor do other examples, nor what comes after a shorter sequence
    torch.testing.assert_close(net(other)[1:], after[1:], rtol=0, atol=1e-12)
    torch.testing.assert_close(net(tokens[:, :3]), before[:, :3], rtol=0, atol=1e-12)


@placements
def test_the_final_norm(placement):
    """What the head reads is always normalised, and never twice."""
    net, seen = model(placement), []
    net.head.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    net(torch.arange(7)[None])
    std = seen[0].std(-1, correction=0)
    torch.testing.assert_close(std, torch.ones_like(std), rtol=0, atol=1e-3)
    count = {"post": 4, "deep": 4, "pre": 5, "peri": 9, "output": 5}[placement]
    assert sum(isinstance(part, normkit.LayerNorm) for part in net.modules()) == count


@placements
def test_all_parameters_learn(placement):
    """Even the biases of the keys, which softmax would cancel without a norm between."""
    net = model(placement, qk_norm="head", norm=normkit.RMSNorm)
    net(torch.arange(7)[None]).logsumexp(-1).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in net.parameters())


def test_the_size_and_the_norms_that_were_asked_for():
    net = model("peri", width=6, layers=3, vocabulary=5, length=4, norm=normkit.RMSNorm)
    kinds = [type(part) for part in net.modules()]
    assert kinds.count(normkit.RMSNorm) == 13 and normkit.LayerNorm not in kinds
    attention, feed = 4 * (6 * 6 + 6), (6 * 24 + 24) + (24 * 6 + 6)
    count = (5 + 4) * 6 + 3 * (attention + feed) + 13 * 6 + (6 * 5 + 5)
    assert sum(p.numel() for p in net.parameters()) == count


def test_the_same_seed_gives_the_same_model():
    for a, b in zip(model().parameters(), model().parameters(), strict=True):
        assert torch.equal(a, b)
    assert model().characters.weight.shape == (7, 12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: model("before"), "placement must be one of .*; it is 'before'"),
        (lambda: Attention(6, 4), "heads must divide width, 6; it is 4"),
        (lambda: Attention(6, 0), "it is 0"),
        (lambda: Attention(6, 2, "heads"), "qk_norm must be None, .*; it is 'heads'"),
        (lambda: model("deep", layers=0), "at least one layer"),
        (lambda: model()(torch.zeros(1, 9, dtype=torch.long)), r"for 8 characters.*\(1, 9\)"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
