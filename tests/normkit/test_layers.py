"""The torch layers: interchangeable with torch's, and right where torch has none."""

import inspect

import pytest
import torch
from torch import nn

import normkit

AFFINE = [{}, {"eps": 0.1}, {"elementwise_affine": False}]
CHANNELS = [{}, {"eps": 0.1}, {"affine": False}, {"bias": False}]
RUNNING = [
    {"momentum": 0.4},
    {"momentum": None},
    {"track_running_stats": False},
    {"affine": True, "track_running_stats": True},
]
LAYERS = {
    "LayerNorm": ([(5,), ((4, 5),), ([3, 4, 5],)], [*AFFINE, {"bias": False}], [(2, 3, 4, 5)]),
    "RMSNorm": ([(5,), ((4, 5),), ([3, 4, 5],)], AFFINE, [(2, 3, 4, 5)]),
    "BatchNorm1d": ([(5,)], CHANNELS + RUNNING, [(4, 5), (3, 5, 2)]),
    "BatchNorm2d": ([(5,)], CHANNELS + RUNNING, [(3, 5, 4, 2)]),
    "InstanceNorm2d": ([(5,)], CHANNELS + RUNNING[:1] + RUNNING[2:], [(3, 5, 4, 2), (5, 4, 2)]),
    "GroupNorm": ([(2, 6), (1, 6), (6, 6)], CHANNELS, [(3, 6, 4), (3, 6, 4, 2), (2, 6, 2, 2, 2)]),
}
CASES = [
    pytest.param(name, arguments, options, shape, id=f"{name}-{arguments}-{options}-{shape}")
    for name, (all_arguments, all_options, shapes) in LAYERS.items()
    for arguments in all_arguments
    for options in all_options
    for shape in shapes
]
BY_HAND = {"RMSNorm": nn.RMSNorm, "DyT": None, "Derf": None}


def test_every_layer_is_here():
    offered = {name for name in vars(normkit.layers) if name in normkit.__all__}
    assert offered == LAYERS.keys() | BY_HAND.keys()


class Plain(nn.Module):
    """DyT and Derf as automatic differentiation sees them."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.squash = torch.erf if isinstance(layer, normkit.Derf) else torch.tanh

    def forward(self, x):
        layer = self.layer
        y = self.squash(layer.alpha * x + getattr(layer, "shift", 0))
        y = y if layer.weight is None else layer.weight * y
        return y if layer.bias is None else y + layer.bias


def random(layer, seed=1):
    """The layer with random parameters."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, 0.5, 2, generator=generator)
    return layer


def run(layer, x, seed=2):
    """The output and all gradients of a random loss."""
    layer.zero_grad()
    x = x.detach().requires_grad_()
    y = layer(x)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(seed)).to(y)
    y.backward(dy)
    return [y, x.grad, *(p.grad for p in layer.parameters())]


def draw(shape, dtype=torch.float64, seed=0):
    return (2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed)) + 1).to(dtype)


@pytest.mark.parametrize(("name", "arguments", "options", "shape"), CASES)
def test_the_same_as_torch(name, arguments, options, shape):
    options = options | {"dtype": torch.float64}
    ours, theirs = (getattr(m, name)(*arguments, **options) for m in (normkit, nn))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for key, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[key], value)
        assert ours.state_dict()[key].dtype == value.dtype
    assert repr(ours).split("bias")[0] == repr(theirs).split("bias")[0]
    ours.load_state_dict(random(theirs).state_dict())
    for step in range(3):
        torch.testing.assert_close(
            run(ours, draw(shape, seed=step)), run(theirs, draw(shape, seed=step))
        )
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    fresh = getattr(nn, name)(*arguments, **options)
    fresh.load_state_dict(ours.state_dict())
    x = draw(shape, seed=9)
    torch.testing.assert_close(run(ours.eval(), x), run(fresh.eval(), x))
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    ours.reset_parameters()
    theirs.reset_parameters()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


@pytest.mark.parametrize("name", LAYERS)
def test_the_same_defaults_and_order_of_arguments_as_torch(name):
    def signature(layer):
        parameters = inspect.signature(layer).parameters.values()
        return [(p.name, p.default) for p in parameters]

    assert signature(getattr(normkit, name)) == signature(getattr(nn, name))


@pytest.mark.parametrize("name", ["BatchNorm1d", "BatchNorm2d"])
def test_running_statistics_move_with_the_layer_and_keep_no_graph(name):
    layer = getattr(normkit, name)(3)
    x = draw((4, 3) if name == "BatchNorm1d" else (4, 3, 2, 2), torch.float32)
    for _ in range(50):
        layer(x.requires_grad_())
    assert not layer.running_mean.requires_grad and layer.num_batches_tracked == 50
    assert layer.to(torch.float64).running_var.dtype == torch.float64
    before = layer.eval().running_mean.clone()
    assert torch.equal(layer(x.double()), layer(x.double()))
    assert torch.equal(before, layer.running_mean)
    layer.reset_running_stats()
    assert layer.running_mean.eq(0).all() and layer.running_var.eq(1).all()


# --- Gradients by hand ------------------------------------------------------------------------


def pair(name, *arguments, **options):
    """Our layer with random parameters, and one that computes the same with autograd."""
    ours = random(getattr(normkit, name)(*arguments, **options))
    if BY_HAND[name] is None:
        return ours, Plain(ours)
    theirs = BY_HAND[name](*arguments, **options)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


by_hand = pytest.mark.parametrize("name", BY_HAND)


@by_hand
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 3, 5), (2, 3, 4, 5), (0, 5), (0, 3, 5)])
def test_by_hand_is_what_autograd_finds(name, shape, affine):
    ours, plain = pair(name, 5, elementwise_affine=affine, dtype=torch.float64)
    x = draw(shape)
    found = run(ours, x)
    torch.testing.assert_close(found, run(plain, x))


@by_hand
def test_many_blocks_of_rows_are_as_one(name, monkeypatch):
    """More values than one block holds, whatever the number of threads."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    ours, plain = pair(name, 512)
    x = draw((1030, 512), torch.float32)  # two full blocks, and six rows more
    for a, b in zip(run(ours, x), run(plain, x), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-4)


@by_hand
def test_another_device(name):
    """All that can be said without one: shapes and devices fit."""
    layer = getattr(normkit, name)(5, device="meta")
    found = run(layer, torch.ones(2, 3, 5, device="meta"))
    assert all(tensor.device.type == "meta" for tensor in found)
    assert [tuple(tensor.shape) for tensor in found[:2]] == [(2, 3, 5)] * 2


@by_hand
def test_single_precision_is_right_to_its_last_digits(name):
    ours, plain = pair(name, 64)
    x = draw((50, 64), torch.float32)
    found, right = run(ours, x), run(plain.double(), x.double())
    for i, (a, b) in enumerate(zip(found, right, strict=True)):
        assert (a.double() - b).abs().max() < (4e-6 if i < 2 else 1e-4)  # y and dx; sums


@by_hand
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_computes_in_single(name, dtype):
    ours = random(getattr(normkit, name)(6))
    half, x = ours.to(dtype), draw((4, 6), dtype)
    x = 300 * x if name == "RMSNorm" else x  # its square overflows in float16
    found = run(half, x)
    assert all(a.dtype == dtype and a.isfinite().all() for a in found)
    right = run(half.float(), x.float())
    for a, b in zip(found, right, strict=True):
        torch.testing.assert_close(a.float(), b, rtol=0.02, atol=0.02)


@by_hand
@pytest.mark.parametrize(("weights", "values"), [(32, 64), (64, 32), (32, 16)])
def test_parameters_of_another_precision(name, weights, values):
    dtypes = {16: torch.bfloat16, 32: torch.float32, 64: torch.float64}
    layer = random(getattr(normkit, name)(5)).to(dtypes[weights])
    y, dx, *gradients = run(layer, draw((3, 5), dtypes[values]))
    assert y.dtype == dx.dtype == dtypes[values]
    assert all(gradient.dtype == dtypes[weights] for gradient in gradients)


@by_hand
def test_any_layout(name):
    ours, plain = pair(name, 5, dtype=torch.float64)
    for x in (
        draw((5, 7)).T,
        draw((2, 5, 3)).transpose(1, 2),
        draw((5, 2, 3)).permute(1, 2, 0),
        draw((4, 10))[:, ::2],
        draw((1, 5)).expand(3, 5),
    ):
        before = x.clone()
        torch.testing.assert_close(run(ours, x), run(plain, x))
        assert torch.equal(x, before)
    x = draw((2, 3, 5)).requires_grad_()
    right = x.detach().clone().requires_grad_()
    ours(x).sum().backward()  # its dy is a single value, expanded
    plain(right).sum().backward()
    torch.testing.assert_close(x.grad, right.grad)
    ours(x[0]).transpose(0, 1).backward(draw((5, 3)))


@by_hand
def test_gradcheck_and_a_second_derivative_is_refused(name):
    layer = random(getattr(normkit, name)(4, dtype=torch.float64))
    x = draw((3, 4)).requires_grad_()
    names = [parameter for parameter, _ in layer.named_parameters()]

    def function(x, *values):
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,))

    values = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    assert torch.autograd.gradcheck(function, (x, *values))
    (dx,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dx.sum().backward()


@by_hand
def test_several_axes_and_only_the_wanted_gradients(name):
    ours, plain = pair(name, (3, 5), dtype=torch.float64)
    x = draw((2, 4, 3, 5))
    torch.testing.assert_close(run(ours, x), run(plain, x))
    for parameter in ours.parameters():
        parameter.requires_grad_(False)
    ours.zero_grad()
    assert not ours(x).requires_grad
    ours(x.requires_grad_()).sum().backward()
    assert x.grad is not None and all(p.grad is None for p in ours.parameters())


def test_extreme_values():
    x = torch.tensor([[0.0, 0, 0], [1e-30, 0, 0], [1e15, -1e15, 0], [100, -100, 1e30]])
    for layer in (normkit.DyT(3), normkit.Derf(3)):
        assert all(a.isfinite().all() for a in run(layer, x))
        assert layer(x).abs().max() <= 1
    torch.testing.assert_close(run(normkit.RMSNorm(3), x[:3]), run(nn.RMSNorm(3), x[:3]))
    for layer in (normkit.LayerNorm(3), normkit.RMSNorm(3)):
        assert torch.equal(layer(x).isnan().all(-1), torch.tensor([False, False, False, True]))


@pytest.mark.parametrize("name", ["DyT", "Derf"])
def test_dyt_and_derf_start_as_published(name):
    layer = getattr(normkit, name)(3, alpha_init=0.2)
    keys = {"alpha", "weight", "bias"} | ({"shift"} if name == "Derf" else set())
    assert layer.state_dict().keys() == keys
    assert getattr(normkit, name)(3).alpha.item() == 0.5
    initial = {key: value.clone() for key, value in layer.state_dict().items()}
    assert initial["alpha"].tolist() == [pytest.approx(0.2)]
    random(layer).reset_parameters()
    torch.testing.assert_close(dict(layer.state_dict()), initial)
    assert getattr(normkit, name)(3, bias=False).bias is None
    assert repr(layer) == f"{name}((3,), alpha_init=0.2, elementwise_affine=True, bias=True)"


# --- All --------------------------------------------------------------------------------------


def test_the_layers_are_the_functions():
    image, tokens = draw((4, 6, 3, 2)), draw((2, 3, 7))
    options = {"dtype": torch.float64}
    batch = random(normkit.BatchNorm2d(6, **options))
    y, mean, var = normkit.batch_norm(image, batch.weight, batch.bias, training=True)
    torch.testing.assert_close(batch(image), y)
    torch.testing.assert_close((batch.running_mean, batch.running_var), (mean, var))
    group = random(normkit.GroupNorm(3, 6, **options))
    torch.testing.assert_close(group(image), normkit.group_norm(image, 3, group.weight, group.bias))
    instance = normkit.InstanceNorm2d(6, **options)
    torch.testing.assert_close(instance(image), normkit.instance_norm(image))
    layer = random(normkit.LayerNorm(7, **options))
    y = normkit.layer_norm(tokens, layer.weight, layer.bias)
    torch.testing.assert_close(layer(tokens), y)
    rms = random(normkit.RMSNorm(7, **options))
    torch.testing.assert_close(rms(tokens), normkit.rms_norm(tokens, rms.weight))
    dyt = random(normkit.DyT(7, **options))
    y = normkit.dyt(tokens, dyt.alpha, dyt.weight, dyt.bias)
    torch.testing.assert_close(dyt(tokens), y)
    derf = random(normkit.Derf(7, **options))
    y = normkit.derf(tokens, derf.alpha, derf.shift, derf.weight, derf.bias)
    torch.testing.assert_close(derf(tokens), y)


def test_it_moves_and_resets():
    layer = normkit.LayerNorm(4).to(torch.bfloat16)
    assert layer(torch.ones(2, 4, dtype=torch.bfloat16)).dtype == torch.bfloat16
    nn.init.zeros_(layer.weight)
    layer.reset_parameters()
    assert layer.weight.eq(1).all() and layer.bias.eq(0).all()
    for make in (normkit.LayerNorm, normkit.RMSNorm, normkit.DyT, normkit.BatchNorm1d):
        assert make(4, device="meta").weight.device.type == "meta"


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (normkit.RMSNorm(4), (2, 3), r"RMSNorm\(\(4,\)\) needs an x whose last axes are \(4,\)"),
        (normkit.LayerNorm(4), (4, 3), r"LayerNorm\(\(4,\)\) needs an x whose last axes are"),
        (normkit.LayerNorm(4), (), r"LayerNorm\(\(4,\)\) .* its shape is \(\)"),
        (normkit.DyT((2, 3)), (3, 2), r"DyT\(\(2, 3\)\).*its shape is \(3, 2\)"),
        (normkit.Derf(4), (), r"Derf\(\(4,\)\).*its shape is \(\)"),
        (normkit.BatchNorm1d(3), (2, 4), "2 or 3 axes with 3 channels on axis 1"),
        (normkit.BatchNorm1d(3), (2, 3, 4, 5), "2 or 3 axes"),
        (normkit.BatchNorm2d(3), (2, 3), "4 axes with 3 channels on axis 1"),
        (normkit.BatchNorm1d(3), (1, 3), "more than 1 value per channel"),
        (normkit.InstanceNorm2d(3), (3, 4, 5, 6), "3 or 4 axes with 3 channels on axis 1"),
        (normkit.InstanceNorm2d(3), (4, 5, 6), "with 3 channels on axis 0"),
        (normkit.InstanceNorm2d(3), (2, 3), "3 or 4 axes"),
        (normkit.GroupNorm(3, 6), (2, 9, 4), "needs 6 channels on axis 1"),
    ],
)
def test_a_wrong_shape_is_refused(layer, shape, message):
    with pytest.raises(ValueError, match=message):
        layer(torch.ones(shape))


def test_other_bad_input():
    for groups in (4, 0):
        with pytest.raises(ValueError, match=f"must divide num_channels, 6; it is {groups}"):
            normkit.GroupNorm(groups, 6)


@pytest.mark.parametrize("eps", [-1e-5, float("nan")])
@pytest.mark.parametrize("name", LAYERS)
def test_a_negative_eps_is_refused(name, eps):
    layer, arguments = getattr(normkit, name), LAYERS[name][0][0]
    assert layer(*arguments, eps=0).eps == 0
    with pytest.raises(ValueError, match=f"eps must not be negative.*it is {eps}"):
        layer(*arguments, eps=eps)


def saved(layer, x):
    """The bytes that forward keeps for backward, x and what the layer holds aside."""
    held = {tensor.data_ptr() for tensor in (x, *layer.parameters(), *layer.buffers())}
    sizes = {}

    def note(tensor):
        sizes[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        y = layer(x.requires_grad_())
    assert y.requires_grad
    return sum(size for pointer, size in sizes.items() if pointer not in held)


@pytest.mark.parametrize("name", [*LAYERS, "DyT", "Derf"])
def test_no_more_memory_is_kept_for_backward_than_by_torch(name):
    all_arguments, _, shapes = LAYERS.get(name, ([(5,)], None, [(2, 3, 4, 5)]))
    ours = getattr(normkit, name)(*all_arguments[0])
    theirs = getattr(nn, name)(*all_arguments[0]) if name in LAYERS else Plain(ours)
    for shape in shapes:
        x = draw(shape, torch.float32)
        assert 0 < saved(ours, x) <= saved(theirs, x)


def test_every_public_name_exists_and_no_other():
    assert all(getattr(normkit, name) for name in normkit.__all__)
    with pytest.raises(AttributeError, match="no attribute 'LayerNrom'"):
        normkit.LayerNrom  # noqa: B018
