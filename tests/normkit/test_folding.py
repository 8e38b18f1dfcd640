"""Folding: the new module computes what the two old ones did."""

import copy

import pytest
import torch
from torch import nn

import normkit

F64 = {"dtype": torch.float64}
AFFINE = [{}, {"affine": False}, {"bias": False}]
CONVOLUTIONS = [
    {},
    {"padding": 1},
    {"padding": "same", "dilation": 2},
    {"padding": "valid", "stride": 2},
    {"padding": 1, "padding_mode": "reflect"},
    {"padding": (1, 0), "padding_mode": "circular", "groups": 2},
    {"groups": 2, "bias": False},
    {"bias": False, "kernel_size": (3, 1), "padding": "same"},
]


def draw(*shape, seed=0):
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), **F64) + 1


def random(module, seed=1):
    """The module in evaluation, all its parameters and running statistics random."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            tensor.uniform_(0.5, 2, generator=generator)
    return module.eval()


def convolution(options):
    return random(nn.Conv2d(4, 6, **({"kernel_size": 3} | options), **F64), seed=3)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def unchanged(fold, *modules):
    """The result of the fold, which must leave the modules as they were and share nothing."""
    before = [copy.deepcopy(module.state_dict()) for module in modules]
    new = fold(*modules)
    for module, state in zip(modules, before, strict=True):
        torch.testing.assert_close(dict(module.state_dict()), dict(state), rtol=0, atol=0)
    old = {p.data_ptr() for module in modules for p in module.parameters()}
    assert all(p.data_ptr() not in old and p.is_leaf for p in new.parameters())
    return new


def norms(name):
    return pytest.mark.parametrize("norm", [getattr(m, name) for m in (nn, normkit)])


# --- Batch norm -------------------------------------------------------------------------------


@norms("BatchNorm1d")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("options", AFFINE)
def test_batch_norm_and_a_linear(norm, bias, options):
    first, last = (random(nn.Linear(*io, bias, **F64)) for io in ((3, 5), (5, 2)))
    middle = random(norm(5, **options, **F64), seed=2)
    x = draw(7, 3)
    close(unchanged(normkit.fold_batch_norm, first, middle)(x), middle(first(x)))
    y = draw(7, 5)
    close(unchanged(normkit.fold_batch_norm, middle, last)(y), last(middle(y)))


@norms("BatchNorm2d")
@pytest.mark.parametrize("options", CONVOLUTIONS)
def test_batch_norm_after_a_convolution(norm, options):
    conv, after = convolution(options), random(norm(6, **F64))
    x = draw(2, 4, 7, 6)
    folded = unchanged(normkit.fold_batch_norm, conv, after)
    close(folded(x), after(conv(x)))
    assert isinstance(folded[0], nn.Conv2d) and folded[0].bias is not None


@norms("BatchNorm2d")
@pytest.mark.parametrize("options", CONVOLUTIONS)
def test_batch_norm_before_a_convolution(norm, options):
    conv, before = convolution(options), random(norm(4, **F64))
    if options.get("padding", "valid") != "valid" and "padding_mode" not in options:
        with pytest.raises(ValueError, match="zero-padded convolution does not fold"):
            normkit.fold_batch_norm(before, conv)
        return
    x = draw(2, 4, 7, 6)
    close(unchanged(normkit.fold_batch_norm, before, conv)(x), conv(before(x)))


def test_why_a_zero_padded_convolution_is_refused():
    """Folded as if unpadded, it is right inside and wrong on the border."""
    padded, norm = convolution({"padding": 1}), random(nn.BatchNorm2d(4, **F64))
    bare = copy.deepcopy(padded)
    bare.padding = (0, 0)
    folded = normkit.fold_batch_norm(norm, bare)
    folded[0].padding = (1, 1)
    x = draw(2, 4, 7, 6)
    error = (folded(x) - padded(norm(x))).abs()
    assert error[..., 1:-1, 1:-1].max() < 1e-10
    assert error[..., 0, :].min() > 0.1 and error[..., -1].min() > 0.1


def test_batch_norm_beside_a_one_dimensional_convolution():
    conv = random(nn.Conv1d(4, 6, 3, groups=2, **F64))
    before, after = random(nn.BatchNorm1d(4, **F64)), random(nn.BatchNorm1d(6, **F64))
    x = draw(2, 4, 8)
    close(normkit.fold_batch_norm(conv, after)(x), after(conv(x)))
    close(normkit.fold_batch_norm(before, conv)(x), conv(before(x)))
    pointwise = random(nn.Conv1d(4, 2, 1, padding="same", **F64))
    close(normkit.fold_batch_norm(before, pointwise)(x), pointwise(before(x)))


def test_worked_numbers():
    """Linear w=2, b=1; batch norm μ=3, σ²=4, γ=2, β=-1: a=1, so w'=2 and b'=-3."""
    linear, norm = nn.Linear(1, 1), nn.BatchNorm1d(1, eps=0).eval()
    state = {"weight": 2, "bias": -1, "running_mean": 3, "running_var": 4}
    for name, value in state.items():
        getattr(norm, name).data.fill_(value)
    linear.weight.data.fill_(2)
    linear.bias.data.fill_(1)
    folded = normkit.fold_batch_norm(linear, norm)
    assert (folded[0].weight.item(), folded[0].bias.item()) == (2, -3)
    x = torch.tensor([[5.0]])
    assert folded(x).item() == norm(linear(x)).item() == 7
    other = normkit.fold_batch_norm(norm, linear)  # y = x - 4 first
    assert (other[0].weight.item(), other[0].bias.item()) == (2, -7)


@pytest.mark.parametrize(
    ("first", "second", "error", "message"),
    [
        (nn.Linear(2, 3), nn.BatchNorm1d(3), ValueError, r"in training.*Call eval\(\)"),
        (nn.BatchNorm1d(3), nn.Linear(3, 2), ValueError, r"in training.*Call eval\(\)"),
        (
            nn.Linear(2, 3),
            nn.BatchNorm1d(3, track_running_stats=False).eval(),
            ValueError,
            "track_running_stats=False does not fold",
        ),
        (nn.Linear(2, 3), nn.BatchNorm1d(2).eval(), ValueError, "norm has 2, the Linear 3"),
        (nn.BatchNorm1d(3).eval(), nn.Linear(2, 3), ValueError, "norm has 3, the Linear 2"),
        (nn.Conv2d(2, 4, 1), nn.BatchNorm2d(2).eval(), ValueError, "norm has 2, the Conv2d 4"),
        (nn.BatchNorm2d(4).eval(), nn.Conv2d(2, 4, 1), ValueError, "norm has 4, the Conv2d 2"),
        (nn.Linear(2, 3), nn.BatchNorm2d(3).eval(), TypeError, "BatchNorm2d and Linear"),
        (nn.Conv2d(2, 3, 1), nn.BatchNorm1d(3).eval(), TypeError, "BatchNorm1d and Conv2d"),
        (nn.ConvTranspose2d(2, 3, 1), nn.BatchNorm2d(3).eval(), TypeError, "ConvTranspose2d"),
        (nn.Conv2d(2, 3, 1), nn.InstanceNorm2d(3).eval(), TypeError, "InstanceNorm2d and Conv2d"),
        (nn.Linear(2, 3), nn.LayerNorm(3), TypeError, "LayerNorm and Linear"),
        (nn.BatchNorm1d(3).eval(), nn.ReLU(), TypeError, "BatchNorm1d and ReLU"),
    ],
)
def test_batch_norm_that_does_not_fold(first, second, error, message):
    with pytest.raises(error, match=message):
        normkit.fold_batch_norm(first, second)


# --- γ and β into the next Linear -------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "norm",
    [
        normkit.LayerNorm(5, 0.1, **F64),
        normkit.LayerNorm(5, bias=False, **F64),
        normkit.LayerNorm(5, elementwise_affine=False, **F64),
        normkit.RMSNorm(5, 0.1, **F64),
        normkit.DyT(5, **F64),
        normkit.Derf(5, bias=False, **F64),
        nn.LayerNorm((5,), 0.1, **F64),
        nn.RMSNorm(5, **F64),
    ],
    ids=lambda norm: f"{type(norm).__module__}-{norm}",
)
def test_gamma_and_beta(norm, bias):
    norm, linear = random(norm), random(nn.Linear(5, 3, bias, **F64))
    folded = unchanged(normkit.fold_affine, norm, linear)
    x = draw(2, 7, 5)
    close(folded(x), linear(norm(x)))
    assert type(folded[0]) is type(norm)
    assert {"weight", "bias"}.isdisjoint(folded[0].state_dict())
    beta = getattr(norm, "bias", None)
    assert (folded[1].bias is None) == (not bias and beta is None)


def test_gamma_does_not_fold_into_the_linear_before():
    """The wrong direction: diag(γ) W changes the statistics themselves."""
    linear, norm = random(nn.Linear(3, 5, **F64)), random(normkit.RMSNorm(5, **F64))
    wrong = normkit.RMSNorm(5, elementwise_affine=False)
    x = draw(7, 3)
    assert (wrong(norm.weight * linear(x)) - norm(linear(x))).abs().max() > 0.1


# --- Centring into the previous Linear --------------------------------------------------------


@norms("LayerNorm")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("options", [{"bias": False}, {"elementwise_affine": False}])
def test_centring(norm, bias, options):
    linear, norm = random(nn.Linear(3, 5, bias, **F64)), random(norm(5, 0.1, **options, **F64))
    folded = unchanged(normkit.fold_centring, linear, norm)
    x = draw(2, 7, 3)
    close(folded(x), norm(linear(x)))
    assert folded[0](x).mean(-1).abs().max() < 1e-10
    assert isinstance(folded[1], normkit.RMSNorm) and (folded[0].bias is not None) == bias


def test_both_folds_follow_each_other():
    parts = nn.Linear(3, 5, **F64), normkit.LayerNorm(5, **F64), nn.Linear(5, 2, **F64)
    first, norm, last = (random(part, seed) for seed, part in enumerate(parts))
    bare, last_folded = normkit.fold_affine(norm, last)
    folded = nn.Sequential(normkit.fold_centring(first, bare), last_folded)
    x = draw(7, 3)
    close(folded(x), last(norm(first(x))))
    assert len(list(folded.parameters())) == 4


@pytest.mark.parametrize(
    ("fold", "first", "second", "error", "message"),
    [
        ("affine", nn.LayerNorm(3), nn.Linear(2, 3), ValueError, r"in_features .* \(2,\); .* \(3,"),
        ("affine", nn.LayerNorm((2, 3)), nn.Linear(3, 3), ValueError, r"over \(2, 3\)"),
        ("affine", nn.BatchNorm1d(3), nn.Linear(3, 3), TypeError, "fold_batch_norm"),
        ("affine", nn.LayerNorm(3), nn.Conv2d(3, 3, 1), TypeError, "LayerNorm and Conv2d"),
        ("centring", nn.Linear(2, 3), nn.LayerNorm(3), ValueError, "no β.*fold_affine first"),
        ("centring", nn.Linear(2, 3), nn.LayerNorm(2), ValueError, r"out_features .* \(3,\)"),
        ("centring", nn.Linear(2, 3), nn.RMSNorm(3), TypeError, "RMSNorm does not centre"),
        ("centring", nn.Conv2d(2, 3, 1), nn.LayerNorm(3), TypeError, "LayerNorm and Conv2d"),
        ("centring", nn.Linear(2, 3), nn.GroupNorm(1, 3), TypeError, "GroupNorm and Linear"),
    ],
)
def test_what_does_not_fold(fold, first, second, error, message):
    with pytest.raises(error, match=message):
        getattr(normkit, f"fold_{fold}")(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_dtype_and_the_training_of_the_weights_stay(dtype):
    linear = nn.Linear(3, 5).to(dtype).requires_grad_(False)
    for folded in (
        normkit.fold_batch_norm(linear, nn.BatchNorm1d(5).eval()),
        normkit.fold_centring(linear, nn.LayerNorm(5, bias=False))[0],
        normkit.fold_affine(nn.LayerNorm(3), linear)[1],
    ):
        assert {p.dtype for p in folded.parameters()} == {dtype}
        assert not any(p.requires_grad for p in folded.parameters())


def test_every_fold_takes_the_place_of_both_layers():
    linear, x = nn.Linear(3, 5), torch.ones(2, 3)
    before, batch, layer = nn.LayerNorm(3), nn.BatchNorm1d(5).eval(), nn.LayerNorm(5, bias=False)
    pairs = {
        (linear, batch): normkit.fold_batch_norm(linear, batch),
        (before, linear): normkit.fold_affine(before, linear),
        (linear, layer): normkit.fold_centring(linear, layer),
    }
    for pair, folded in pairs.items():
        assert type(folded) is nn.Sequential
        torch.testing.assert_close(folded(x), nn.Sequential(*pair)(x))


# --- A whole Transformer ----------------------------------------------------------------------


def transformer(**options):
    """A model in which every parameter is random, those of the norms too."""
    model = normkit.CharacterTransformer(7, layers=2, **options, **F64)
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.data.add_(torch.empty_like(parameter).uniform_(-0.3, 0.5, generator=generator))
    return model.requires_grad_(False)


TOKENS = torch.arange(32).view(4, 8) % 7


@pytest.mark.parametrize(
    "layer", [nn.Linear(3, 5, **F64), nn.Linear(3, 5, bias=False, **F64), nn.Embedding(3, 5, **F64)]
)
def test_a_centred_writer_writes_the_same_without_its_mean(layer):
    x = torch.arange(3) if isinstance(layer, nn.Embedding) else draw(7, 3)
    y = layer(x)
    close(unchanged(normkit.centre_writer, layer)(x), y - y.mean(-1, keepdim=True))


@pytest.mark.parametrize("bias", [True, False])
def test_a_centred_reader_reads_the_same_without_the_mean(bias):
    linear, x = nn.Linear(5, 3, bias, **F64), draw(7, 5)
    reader = unchanged(normkit.centre_reader, linear)
    close(reader(x), linear(x - x.mean(-1, keepdim=True)))
    close(reader(x + 3), reader(x))


def test_a_reader_takes_all_of_a_layer_norm_but_sigma():
    """x = (1, 1, 5, 5): mu 3, sigma 2; W' = (4, -1, -2, -1), b' = 4, W'x = -12, result -2."""
    norm, linear = nn.LayerNorm(4, eps=0, **F64), nn.Linear(4, 1, **F64)
    for parameter, values in (
        (norm.weight, [2, 1, 1, 1]),
        (norm.bias, [1, 0, 0, 0]),
        (linear.weight, [[3, 1, 0, 1]]),
        (linear.bias, [1]),
    ):
        parameter.data = torch.tensor(values, **F64)
    x = torch.tensor([1, 1, 5, 5], **F64)
    reader = normkit.centre_reader(normkit.fold_affine(norm, linear)[1])
    assert reader.weight.tolist() == [[4, -1, -2, -1]] and reader.bias.tolist() == [4]
    result = reader.weight @ x / x.std(correction=0) + reader.bias
    assert result.item() == linear(norm(x)).item() == -2


@pytest.mark.parametrize("qk_norm", [None, "head"])
@pytest.mark.parametrize("norm", [nn.LayerNorm, normkit.LayerNorm, nn.RMSNorm, normkit.DyT])
def test_a_folded_transformer_has_the_same_logits(norm, qk_norm):
    model = transformer(norm=norm, qk_norm=qk_norm)
    twin = unchanged(normkit.fold_transformer, model)
    close(twin(TOKENS), model(TOKENS))
    norms = [twin.final_norm, *(block.norm_before for block in twin.blocks)]
    assert not any("weight" in n.state_dict() or "bias" in n.state_dict() for n in norms)
    centring = norm in (nn.LayerNorm, normkit.LayerNorm)
    assert all(isinstance(n, normkit.RMSNorm) == centring for n in norms)


def test_every_writer_must_be_centred():
    model = transformer()
    twin = normkit.fold_transformer(model)
    branches = [block.branch for block in twin.blocks], [block.branch for block in model.blocks]
    places = [(twin, model, "characters"), (twin, model, "positions")]
    pairs = zip(*branches, strict=True)
    places += [(*pair, "down" if hasattr(pair[0], "down") else "out") for pair in pairs]
    assert len(places) == 6
    for new, old, name in places:
        centred = getattr(new, name)
        setattr(new, name, getattr(old, name))
        assert (twin(TOKENS) - model(TOKENS)).abs().max() > 1e-3, name
        setattr(new, name, centred)


@pytest.mark.parametrize(
    ("fold", "given", "error", "message"),
    [
        ("centre_writer", nn.Embedding(3, 5, max_norm=1), TypeError, "without max_norm"),
        ("centre_writer", nn.Conv1d(3, 5, 1), TypeError, "a Linear, or an Embedding.*Conv1d"),
        ("centre_writer", nn.ReLU(), TypeError, "this is ReLU"),
        ("centre_reader", nn.Embedding(3, 5), TypeError, "a Linear; it is a Embedding"),
        ("fold_transformer", transformer(placement="post"), ValueError, '"post", where a norm'),
        ("fold_transformer", transformer(placement="peri"), ValueError, '"peri"'),
        ("fold_transformer", transformer(placement="keel"), ValueError, '"keel"'),
        (
            "fold_transformer",
            transformer(norm=lambda width, **_: nn.Identity()),
            TypeError,
            "they are Identity and Linear",
        ),
    ],
)
def test_what_does_not_fold_in_a_transformer(fold, given, error, message):
    with pytest.raises(error, match=message):
        getattr(normkit, fold)(given)
