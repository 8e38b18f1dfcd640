"""Placements since 2020: each equation by hand, its start, its effect on stream and gradient."""

import math
import pickle
from typing import get_args

import pytest
import torch
from torch import nn

import normkit
from normkit.placement import Attention, CharacterTransformer, Design, FeedForward, Residual
from normkit.placements import (
    B2T,
    Admin,
    Hybrid,
    HyperConnections,
    Keel,
    ManifoldHyperConnections,
    Scaled,
    Siamese,
    Stack,
    admin_init,
    sinkhorn,
)

F64 = {"dtype": torch.float64}
DESIGNS = get_args(Design)
designs = pytest.mark.parametrize("placement", DESIGNS)
X = torch.tensor([0.0, 2, 4], **F64)
ROOT2 = math.sqrt(2)


def toy(v):
    """F(v) = (v₃, 0, 0)."""
    return v[..., 2:] * torch.tensor([1.0, 0, 0], **F64)


def norm(v):
    return normkit.layer_norm(v, eps=0)


def close(found, right, atol=1e-4):
    right = torch.as_tensor(right, **F64)
    torch.testing.assert_close(found.detach(), right, rtol=0, atol=atol)


def differs(found, wrong):
    assert (found.detach() - torch.as_tensor(wrong, **F64)).abs().max() > 0.05


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), **F64)


def stack(placement, layers=3, width=12, seed=0, **options):
    torch.manual_seed(seed)
    return Stack(width, layers, placement, **options, **F64)


# --- One block, by hand -------------------------------------------------------------------------


def test_admin_by_hand():
    block = Admin(toy, 3, **F64)
    close(block(X), [0.7071, -1.4142, 0.7071])  # ω = 1: Post-Norm
    block.omega.data.fill_(ROOT2)
    close(block(X), [-0.1394, -1.1491, 1.2885])
    differs(block(X), norm(X + ROOT2 * toy(X)))  # ω on the branch
    block.omega.data.copy_(torch.tensor([1.0, 2, 3], **F64))  # one for each feature
    close(block(X), norm(torch.tensor([4.0, 4, 12], **F64)))


def test_keel_by_hand():
    close(Keel(toy, 3, alpha=2, **F64)(X), [-1.1447, -0.1468, 1.2915])
    close(Keel(toy, 3, alpha=4, **F64)(X), [-1.1895, -0.0676, 1.2571])
    differs(Keel(toy, 3, alpha=2, **F64)(X), norm(2 * X + toy(X)))  # DeepNorm: F reads no norm
    differs(Keel(toy, 3, alpha=2, **F64)(X), norm(X + toy(norm(X))))  # without α


def test_layer_norm_scaling_by_hand():
    close(Scaled(toy, 3, layer=4, **F64)(X), [0.6124, 2, 4])
    close(Scaled(toy, 3, layer=1, **F64)(X), [1.2247, 2, 4])
    differs(Scaled(toy, 3, layer=4, **F64)(X), X + toy(norm(X / 2)))  # before the norm: no effect
    differs(Scaled(toy, 3, layer=4, **F64)(X), X + toy(norm(X) / 4))  # 1/l
    close(X + toy(norm(X / 2)), [1.2247, 2, 4])


def test_hybrid_by_hand():
    y = Hybrid(torch.zeros_like, toy, 3, **F64)(X)
    close(y, [0, 0, 1.2247])
    differs(y, X + toy(norm(X)))  # Pre-Norm around F
    differs(y, norm(X + toy(X)))


def test_b2t_by_hand():
    def attention(v):
        return 2 * v.roll(1)

    y = B2T(attention, toy, 3, **F64)(X)
    u = norm(torch.tensor([8.0, 2, 8], **F64))
    close(u, [0.7071, -1.4142, 0.7071])
    close(y, norm(X + u + torch.tensor([0.7071, 0, 0], **F64)))
    differs(y, norm(u + toy(u)))  # Post-Norm


def test_siamese_by_hand():
    both = torch.stack([X, X])
    x, y = Siamese(toy, 3, **F64)(both)
    close(x, [1.1159, -1.3103, 0.1944])
    close(y, [5.2247, 2, 4])
    close(x + norm(y), [2.2318, -2.6207, 0.3889])
    x, y = Siamese(toy, 3, layer=2, **F64)(both)  # of the code: o = F(N(x + N(y))), and o/2 into x
    o = toy(norm(X + norm(X)))
    close(x, norm(X + o / 2))
    close(y, X + o)


def test_hyper_connections_by_hand():
    block = HyperConnections(toy, 3, index=5, streams=4, **F64)
    streams = draw(2, 4, 3)
    read = streams[:, 1]  # 5 mod 4
    close(block(streams), streams + toy(norm(read)).unsqueeze(-2), 1e-5)
    mix, a, b = draw(4, 4, seed=1), draw(4, seed=2), draw(4, seed=3)
    block.mix.data, block.read.data, block.write.data = mix, a, b
    o = toy(normkit.layer_norm(torch.einsum("n,bnd->bd", a, streams)))
    right = torch.einsum("mn,bmd->bnd", mix, streams) + torch.einsum("n,bd->bnd", b, o)
    close(block(streams), right, 1e-9)


def test_manifold_hyper_connections_by_hand():
    """Three streams: every doubly stochastic matrix of two is its own transpose."""
    block = ManifoldHyperConnections(toy, 3, streams=3, dynamic=False, **F64)
    streams, bias = draw(5, 3, 3), 3 * draw(15, seed=1)
    block.bias.data = bias
    q, p, mixer = bias[:3].sigmoid(), 2 * bias[3:6].sigmoid(), sinkhorn(bias[6:].view(3, 3))
    o = toy(normkit.layer_norm(torch.einsum("n,bnd->bd", q, streams)))
    written = torch.einsum("n,bd->bnd", p, o)
    close(block(streams), torch.einsum("nm,bmd->bnd", mixer, streams) + written, 1e-9)
    differs(block(streams), torch.einsum("mn,bmd->bnd", mixer, streams) + written)


def test_coefficients_of_each_token():
    torch.manual_seed(0)
    block = ManifoldHyperConnections(toy, 3, streams=2, **F64)
    nn.init.normal_(block.phi)
    block.alpha.data = torch.tensor([1.0, 2, 3], **F64)
    streams = draw(5, 2, 3)
    flat = streams.flatten(-2)
    u = normkit.rms_norm(flat, eps=1e-6) @ block.phi
    q, p, mixer = block.coefficients(streams)
    close(q, u[:, :2].sigmoid(), 1e-9)
    close(p, 2 * (2 * u[:, 2:4]).sigmoid(), 1e-9)
    close(mixer, sinkhorn(3 * u[:, 4:].view(5, 2, 2)), 1e-9)


# --- Sinkhorn -----------------------------------------------------------------------------------


def test_sinkhorn_by_hand():
    logits = torch.tensor([[2.0, 1], [1, 1]], **F64).log()
    close(sinkhorn(logits, rounds=1), [[0.5714, 0.4286], [0.4, 0.6]])
    big, small = ROOT2 / (1 + ROOT2), 1 / (1 + ROOT2)
    close(sinkhorn(logits), [[big, small], [small, big]], 1e-9)


@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_rows_are_exact_and_columns_nearly(scale):
    mixer = sinkhorn(scale * draw(20, 4, 4))
    close(mixer.sum(-1), torch.ones(20, 4), 1e-12)
    assert mixer.isfinite().all() and (mixer.sum(-2) - 1).abs().max() < (1e-4 if scale == 1 else 4)
    if scale == 1:
        differs((draw(20, 4, 4)).softmax(-1).sum(-2), torch.ones(20, 4))  # rows only


def test_the_gradient_of_sinkhorn():
    assert torch.autograd.gradcheck(lambda u: sinkhorn(u, 5), draw(3, 3).requires_grad_())


@pytest.mark.parametrize(("shape", "rounds"), [((2, 3), 5), ((3,), 5), ((2, 2), 0)])
def test_what_sinkhorn_refuses(shape, rounds):
    with pytest.raises(ValueError, match="square matrices and at least one round"):
        sinkhorn(torch.zeros(shape), rounds)


# --- Admin's start ------------------------------------------------------------------------------


def test_omega_of_branches_of_variance_one():
    """1, √2, √3, 2 if x and F have variance 1; and not 1, 2, 5, 26, without the root."""
    f = nn.functional.normalize(draw(400, seed=7) - draw(400, seed=7).mean(), dim=0) * 20
    blocks = nn.Sequential(*(Admin(lambda v: f.expand_as(v), 400, **F64) for _ in range(5)))
    x = normkit.layer_norm(draw(6, 400), eps=0)
    omegas = admin_init(blocks, x)
    close(torch.tensor(omegas, **F64), [1, ROOT2, 3**0.5, 2, 5**0.5], 1e-3)
    close(torch.stack([block.omega[0] for block in blocks]), omegas, 1e-12)
    assert not any(block._forward_pre_hooks for block in blocks)


def test_omega_is_measured_through_the_start():
    """The second ω depends on the variance of x itself, and branches run with the new ω."""
    net = stack("admin", layers=4)
    omegas = admin_init(net, 3 * draw(2, 5, 12))
    assert omegas[0] == 1 and omegas[1] > 2.5
    assert omegas == sorted(omegas)
    assert len(omegas) == 8 and all(p.grad is None for p in net.parameters())
    with pytest.raises(ValueError, match="the model has none"):
        admin_init(stack("post"), draw(2, 5, 12))


# --- Stacks -------------------------------------------------------------------------------------


@designs
def test_a_stack_ends_normalised(placement):
    net, x = stack(placement), 5 * draw(2, 7, 12)
    y = net(x)
    assert y.shape == x.shape
    close(y.mean(-1), torch.zeros(2, 7), 1e-9)
    close(y.var(-1, correction=0), torch.ones(2, 7), 1e-2)
    pickle.loads(pickle.dumps(net))


@designs
def test_the_future_does_not_count(placement):
    net, x = stack(placement), draw(2, 7, 12)
    if placement == "res_post":
        for name, parameter in net.named_parameters():
            if "norm_after.weight" in name:
                nn.init.ones_(parameter)
    other = x.clone()
    other[:, 4] += draw(2, 12, seed=1)
    change = (net(x) - net(other)).abs().amax((0, 2))
    assert change[:4].max() < 1e-12 and change[4:].min() > 1e-6


@designs
def test_the_same_weights_for_all(placement):
    """Up to the gain of a design: 1 for queries and keys, except in B2T."""
    net, pre = stack(placement), stack("pre")
    for part, other in zip(parts(net, Attention), parts(pre, Attention), strict=True):
        gain = 3**-0.5 if placement == "b2t" else 1
        torch.testing.assert_close(part.q.weight, gain * other.q.weight)
    gain = {"deep": 24**-0.25, "b2t": 3**-0.5, "sub_ln": math.log(6) ** 0.5}.get(placement, 1)
    for part, other in zip(parts(net, FeedForward), parts(pre, FeedForward), strict=True):
        torch.testing.assert_close(part.up.weight, gain * other.up.weight)
        last = part.down[-1] if placement == "sub_ln" else part.down
        torch.testing.assert_close(last.weight, gain * other.down.weight)


def parts(net, kind):
    return [part for part in net.modules() if isinstance(part, kind)]


@pytest.mark.parametrize("placement", ["post", "pre", "deep", "peri", "output"])
def test_the_older_designs_are_those_of_residual(placement):
    net, x = stack(placement), draw(2, 7, 12)
    branches = [part for pair in zip(parts(net, Attention), parts(net, FeedForward), strict=True)
                for part in pair]  # fmt: skip
    alpha = 6**0.25 if placement == "deep" else None
    right = nn.Sequential(*(Residual(f, 12, placement, alpha, **F64) for f in branches))(x)
    close(net.layers(x), right, 1e-12)


def test_constants_of_keel():
    """α = 2N but in the first layer: no norm on the stream and no α, then a norm and no α."""
    blocks = [block for layer in stack("keel", layers=5).layers for block in layer]
    assert isinstance(blocks[0], Residual) and blocks[0].placement == "pre"
    assert [block.alpha for block in blocks[1:]] == [1] + 8 * [10]


def test_the_number_of_a_layer_counts_from_one():
    blocks = [block for layer in stack("scaled", layers=3).layers for block in layer]
    assert [block.layer for block in blocks] == [1, 1, 2, 2, 3, 3]
    with pytest.raises(ValueError, match="layer counts from 1"):
        Scaled(toy, 3, layer=0)


def test_mix_is_post_in_a_quarter():
    layers = stack("mix", layers=8).layers
    assert [layer[1].placement for layer in layers] == 2 * ["post"] + 6 * ["pre"]


def test_swin_starts_as_the_identity():
    """And so no weight of a branch has a gradient before γ has moved."""
    net, x = stack("res_post"), draw(2, 7, 12)
    assert torch.equal(net.layers(x), x)
    (net(x) * draw(2, 7, 12, seed=1)).sum().backward()
    for part in parts(net, FeedForward) + parts(net, Attention):
        assert all(p.grad.abs().max() == 0 for p in part.parameters())
    assert all(layer[0].norm_after.weight.grad.abs().max() > 0 for layer in net.layers)


@pytest.mark.parametrize("placement", ["hyper", "mhc"])
def test_hyper_connections_start_as_pre(placement):
    net, pre, x = stack(placement), stack("pre"), draw(2, 7, 12)
    close(net(x), pre(x), 1e-4 if placement == "hyper" else 0.02)
    if placement == "mhc":
        for block in parts(net, ManifoldHyperConnections):
            block.alpha = None  # u = b = 0
        close(net(x), pre(x), 1e-4)


@pytest.mark.parametrize("dynamic", [True, False])
def test_equal_streams_stay_equal_without_a_projection(dynamic):
    net = stack("mhc")
    if not dynamic:
        for block in parts(net, ManifoldHyperConnections):
            block.alpha = None
    sgd, x = torch.optim.SGD(net.parameters(), 0.5), draw(4, 7, 12)
    for _ in range(5):
        sgd.zero_grad()
        (net(x) * draw(4, 7, 12, seed=1)).mean().backward()
        sgd.step()
    streams = net.layers(net.begin(x))
    spread = (streams - streams.mean(-2, keepdim=True)).abs().max()
    assert spread > 1e-9 if dynamic else spread < 1e-14


def test_hybrid_norm_forgets_the_size_of_values():
    net, x = stack("hybrid"), draw(2, 7, 12)
    attention = parts(net, Attention)[0]
    before = attention(x)
    for name in ("q", "k"):
        getattr(attention, name).weight.data *= 10
    attention.v[0].weight.data *= 10
    close(attention(x), before.detach(), 1e-3)
    plain = parts(stack("pre"), Attention)[0]
    close(plain(x), before.detach(), 10)
    once = plain(x)
    plain.v.weight.data *= 10
    close(plain(x), 10 * once.detach(), 1e-9)


def test_sub_norms_are_before_the_last_matrices():
    net, x = stack("sub_ln"), draw(2, 7, 12)
    feed = parts(net, FeedForward)[0]
    inner = normkit.layer_norm(feed.up(x).relu())
    close(feed(x), feed.down[-1](inner), 1e-9)
    assert feed.down[0].weight.shape == (48,)
    assert parts(net, Attention)[0].out[0].weight.shape == (12,)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Stack(12, 2, "Keel"), ValueError, "placement must be one of .*; it is 'Keel'"),
        (lambda: Stack(12, 0, "keel"), ValueError, "at least 1"),
        (lambda: Stack(12, 2, "keel", norm=nn.LayerNorm(12)), TypeError, "norm must be a class"),
        (lambda: Keel(toy, 3, alpha=0), ValueError, "alpha must be positive"),
        (lambda: Keel(lambda x: x[..., :1], 3, alpha=2)(X.float()), ValueError, "keep the shape"),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


# --- The model ----------------------------------------------------------------------------------


@designs
def test_the_model_takes_every_design(placement):
    torch.manual_seed(0)
    model = CharacterTransformer(7, 12, 2, layers=2, length=8, placement=placement, **F64)
    if placement == "admin":
        admin_init(model, torch.arange(7)[None])
    model(torch.arange(7)[None]).logsumexp(-1).sum().backward()
    unused = {name for name, p in model.named_parameters() if p.grad is None}
    assert not unused
    if placement not in ("post", "pre", "deep", "peri", "output"):
        assert model.blocks.placement == placement
    assert model.head.bias.eq(0).all()


@pytest.mark.parametrize("maker", [normkit.RMSNorm, nn.RMSNorm])
@designs
def test_any_norm(placement, maker):
    net = stack(placement, norm=maker)
    kinds = {type(part) for part in net.modules() if "Norm" in type(part).__name__}
    others = {normkit.RMSNorm} if placement == "hybrid" else set()  # of queries and keys
    assert kinds == {maker} | others
    assert net(draw(2, 7, 12)).isfinite().all()
