"""Broken models, at least one for each finding, and the mended twin of each.

A case is a function of `mended`: it returns the model, what it is called with, and options. The
finding that it must give, and where, stand in its decorator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Case:
    """A broken model: what is to be found, at which path, and how it is built."""

    name: str
    finding: str
    path: str
    level: str
    build: Callable[[bool], tuple[nn.Module, tuple, dict[str, Any]]]


CASES: list[Case] = []


def case(finding: str, path: str, level: str = "warning") -> Callable:
    """List a builder among the cases."""

    def listed(build: Callable) -> Callable:
        CASES.append(Case(build.__name__, finding, path, level, build))
        return build

    return listed


def rows(n: int = 16, d: int = 8) -> Tensor:
    """A batch of rows that is no noise."""
    return 3 * torch.randn(n, d) + 1


def images(n: int = 8, c: int = 3, size: int = 12) -> Tensor:
    """A batch of images."""
    return 2 * torch.randn(n, c, size, size) + 1


def sequences(n: int = 4, t: int = 6, d: int = 16) -> Tensor:
    """A batch of sequences of vectors."""
    return 2 * torch.randn(n, t, d) + 1


def network(norm: Callable[[int], nn.Module], bias: bool = False, width: int = 8) -> nn.Sequential:
    """Convolution, norm, activation, twice; a head."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, bias=bias),
        norm(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, bias=False),
        norm(width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, 4),
    )


def perceptron(norm: nn.Module, bias: bool = False, d: int = 8) -> nn.Sequential:
    """Two linear layers with a norm between."""
    return nn.Sequential(nn.Linear(d, d, bias=bias), norm, nn.ReLU(), nn.Linear(d, 4))


def trained(model: nn.Module, *inputs: Any, batches: int = 60) -> nn.Module:
    """The model, its running statistics taken from batches like this one."""
    model.train()
    with torch.no_grad():
        for _ in range(batches):
            model(*inputs)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data += 0.01 * torch.randn_like(parameter)
    return model


class Block(nn.Module):
    """A Transformer block; `order` says where its norms stand."""

    def __init__(self, d: int, order: str = "pre", norm: Callable = nn.LayerNorm) -> None:
        super().__init__()
        self.norm1, self.norm2, self.order = norm(d), norm(d), order
        self.mix = nn.MultiheadAttention(d, 2, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        def attend(h: Tensor) -> Tensor:
            return self.mix(h, h, h, key_padding_mask=hidden, need_weights=False)[0]

        if self.order == "pre":
            x = x + attend(self.norm1(x))
            return x + self.ffn(self.norm2(x))
        x = self.norm1(x + attend(x))
        return self.norm2(x + self.ffn(x))


class Transformer(nn.Module):
    """Blocks over a sequence, with or without a final norm, and a head."""

    def __init__(
        self, d: int = 16, order: str = "pre", final: bool = True, norm: Callable = nn.LayerNorm
    ) -> None:
        super().__init__()
        self.inward = nn.Linear(d, d)
        self.blocks = nn.ModuleList(Block(d, order, norm) for _ in range(3))
        self.norm = norm(d) if final else nn.Identity()
        self.head = nn.Linear(d, 5)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        x = self.inward(x)
        for block in self.blocks:
            x = block(x, hidden)
        return self.head(self.norm(x))


# running statistics


@case("running_statistics_not_finite", "1", "error")
def infinite_mean(mended: bool):
    model = trained(network(nn.BatchNorm2d), x := images())
    if not mended:
        model[1].running_mean[3] = torch.inf
    return model, (x,), {}


@case("running_statistics_not_finite", "4", "error")
def variance_is_nan(mended: bool):
    model = trained(network(nn.BatchNorm2d), x := images())
    if not mended:
        model[4].running_var[0] = torch.nan
    return model, (x,), {}


@case("running_variance_negative", "1", "error")
def mean_and_variance_exchanged(mended: bool):
    model = trained(network(nn.BatchNorm2d), x := images())
    if not mended:
        model[1].running_var[2] = -0.5
    return model, (x,), {}


@case("statistics_in_half_precision", "1", "error")
def buffers_in_bfloat16(mended: bool):
    model = trained(perceptron(nn.BatchNorm1d(8)), x := rows())
    if mended:
        return model, (x,), {}
    return model.bfloat16(), (x.bfloat16(),), {}


@case("statistics_in_half_precision", "4", "error")
def one_norm_in_float16(mended: bool):
    model = trained(network(nn.BatchNorm2d), x := images())
    if not mended:
        model[4].half()
    return model, (x,), {}


@case("late_running_statistics", "1")
def momentum_too_small(mended: bool):
    model = network(lambda c: nn.BatchNorm2d(c, momentum=0.1 if mended else 0.003))
    return trained(model, x := images()), (x,), {}


@case("late_running_statistics", "1")
def few_batches(mended: bool):
    model = network(nn.BatchNorm2d)
    return trained(model, x := images(), batches=60 if mended else 10), (x,), {}


@case("momentum_of_another_library", "1")
def momentum_of_keras(mended: bool):
    model = perceptron(nn.BatchNorm1d(8, momentum=0.01 if mended else 0.99))
    return trained(model, x := rows(), batches=600), (x,), {}


@case("momentum_of_another_library", "1")
def momentum_of_zero(mended: bool):
    model = network(lambda c: nn.BatchNorm2d(c, momentum=0.1 if mended else 0.0))
    return trained(model, x := images()), (x,), {}


@case("running_statistics_do_not_fit", "1")
def other_preprocessing(mended: bool):
    x = images(16)
    model = trained(network(nn.BatchNorm2d), x)
    return model, (x if mended else 60 * x + 100,), {}


@case("running_statistics_do_not_fit", "1")
def converted_statistics_that_nothing_has_counted(mended: bool):
    x = images(16)
    model = trained(network(nn.BatchNorm2d), x)
    for norm in (model[1], model[4]):
        norm.num_batches_tracked.zero_()
    return model, (x if mended else 60 * x + 100,), {}


@case("instance_norm_with_running_statistics", "1")
def instance_norm_that_remembers(mended: bool):
    x = images()
    model = network(lambda c: nn.InstanceNorm2d(c, affine=True, track_running_stats=not mended))
    return trained(model, x), (x,), {}


class TwoSources(nn.Module):
    """One encoder for two kinds of images."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.other = self.norm if shared else nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)) + self.other(self.conv(5 * x + 3))


@case("shared_running_statistics", "norm")
def one_norm_for_two_sources(mended: bool):
    return trained(TwoSources(shared=not mended), x := images()), (x,), {}


@case("frozen_but_statistics_move", "1")
def frozen_without_eval(mended: bool):
    model = trained(network(nn.BatchNorm2d), x := images())
    if not mended:
        for parameter in model[:5].parameters():
            parameter.requires_grad_(False)
    return model, (x,), {}


@case("shared_running_statistics", "norm")
def one_norm_for_two_scales(mended: bool):
    class Scales(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(8)
            self.other = nn.BatchNorm1d(8) if mended else self.norm

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(x) + self.other(4 * (x - 1) + 1)

    return trained(Scales(), x := rows(64)), (x,), {}


class Checkpointed(nn.Module):
    """A block that is computed again in the backward pass."""

    def __init__(self, norm: nn.Module, reentrant: bool) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(8, 8, bias=False), norm, nn.ReLU())
        self.head, self.reentrant = nn.Linear(8, 4), reentrant

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return self.head(checkpoint(self.block, x, use_reentrant=self.reentrant))
        return self.head(self.block(x))


@case("updated_again_in_backward", "block.1", "error")
def checkpoint_without_reentry(mended: bool):
    model = Checkpointed(nn.LayerNorm(8) if mended else nn.BatchNorm1d(8), reentrant=False)
    return trained(model, x := rows()), (x,), {}


@case("updated_again_in_backward", "block.1", "error")
def checkpoint_with_reentry(mended: bool):
    model = Checkpointed(nn.LayerNorm(8) if mended else nn.BatchNorm1d(8), reentrant=True)
    return trained(model, x := rows()), (x,), {}


# the batch shows through


@case("depends_on_the_batch_in_eval", "1", "error")
def statistics_not_tracked(mended: bool):
    model = network(lambda c: nn.BatchNorm2d(c, track_running_stats=mended))
    return trained(model, x := images()), (x,), {}


@case("depends_on_the_batch_in_eval", "1", "error")
def statistics_not_tracked_one_example(mended: bool):
    model = trained(network(lambda c: nn.BatchNorm2d(c, track_running_stats=mended)), images())
    return model, (images(2 if mended else 1),), {}


class OverTheBatch(nn.Module):
    """Layer normalisation whose mean runs over the wrong axis."""

    def __init__(self, d: int, axis: int) -> None:
        super().__init__()
        self.weight, self.axis = nn.Parameter(torch.ones(d)), axis

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, dim=self.axis, keepdim=True, correction=0)
        return self.weight * (x - mean) * torch.rsqrt(variance + 1e-5)


@case("depends_on_the_batch_in_eval", "blocks.0.norm1", "error")
def mean_over_the_batch(mended: bool):
    model = Transformer(norm=lambda d: OverTheBatch(d, -1 if mended else 0))
    return model, (sequences(),), {}


@case("depends_on_the_batch_in_eval", "0.batch_norm()", "error")
def function_of_the_batch(mended: bool):
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.register_buffer("mean", torch.zeros(8))
            self.register_buffer("variance", torch.ones(8))

        def forward(self, x: Tensor) -> Tensor:
            training = self.training if mended else True
            return F.batch_norm(self.conv(x), self.mean, self.variance, training=training)

    return nn.Sequential(Functional(), nn.AdaptiveAvgPool2d(1)), (images(),), {}


@case("depends_on_the_batch_in_eval", "0.forward()", "error")
def written_out_over_the_batch(mended: bool):
    class Inline(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = nn.Linear(8, 8), nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            h = self.inner(x)
            axis = -1 if mended else 0
            variance, mean = torch.var_mean(h, axis, keepdim=True, correction=0)
            return self.outer((h - mean) * torch.rsqrt(variance + 1e-5))

    return nn.Sequential(Inline(), nn.ReLU()), (rows(),), {}


@case("depends_on_the_batch_in_eval", "1", "error")
def mean_over_the_batch_on_axis_1(mended: bool):
    model = nn.Sequential(nn.Linear(16, 16), OverTheBatch(16, -1 if mended else 1))
    return model, (sequences(),), {"batch_axis": 1}


class MeanOfBatch(nn.Module):
    """Something of the batch that is no norm."""

    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.inner, self.axis = nn.Linear(8, 8), -1 if mended else 0

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return y - y.mean(dim=self.axis, keepdim=True)


@case("rows_mix_outside_norms", "", "note")
def mean_of_the_batch_subtracted(mended: bool):
    return MeanOfBatch(mended), (rows(),), {}


# padding


class Padded(nn.Module):
    """A convolution over time, a norm, a mean over what is there."""

    def __init__(self, norm: nn.Module, masked: bool) -> None:
        super().__init__()
        self.conv, self.norm, self.masked = nn.Conv1d(4, 8, 1, bias=False), norm, masked

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        h = self.conv(x.transpose(1, 2))
        there = mask[:, None].to(h.dtype)
        if self.masked:
            h = h * there
        h = torch.relu(self.norm(h)) * there
        return h.sum(-1) / there.sum(-1)


class TokenNorm(nn.LayerNorm):
    """Layer normalisation of channels first."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


def padded_batch() -> tuple[Tensor, Tensor]:
    """Three sequences, two of them shorter."""
    mask = torch.ones(3, 10)
    mask[1, 7:] = 0
    mask[2, 4:] = 0
    return sequences(3, 10, 4), mask


@case("padding_enters_the_statistics", "norm", "error")
def padding_in_group_norm(mended: bool):
    x, mask = padded_batch()
    model = Padded(TokenNorm(8) if mended else nn.GroupNorm(2, 8), masked=False)
    return model, (x, mask), {"mask": mask}


@case("padding_enters_the_statistics", "norm", "error")
def padding_of_zeros_in_instance_norm(mended: bool):
    x, mask = padded_batch()
    model = Padded(TokenNorm(8) if mended else nn.InstanceNorm1d(8), masked=True)
    return model, (x, mask), {"mask": mask}


@case("padding_enters_the_statistics", "norm")
def padding_in_batch_norm(mended: bool):
    x, mask = padded_batch()
    model = Padded(TokenNorm(8) if mended else nn.BatchNorm1d(8), masked=False)
    return trained(model, x, mask), (x, mask), {"mask": mask}


# constants, overflow, counts


@case("one_value_per_group", "1", "error")
def groups_of_one_channel(mended: bool):
    return perceptron(nn.GroupNorm(2 if mended else 8, 8)), (rows(),), {}


@case("one_value_per_group", "1", "error")
def layer_norm_of_one_feature(mended: bool):
    d = 8 if mended else 1
    model = nn.Sequential(nn.Linear(8, d), nn.LayerNorm(d), nn.Linear(d, 4))
    return model, (rows(),), {}


class Written(nn.Module):
    """Normalisation written by hand, in one of its right and wrong ways."""

    def __init__(self, d: int, eps: float = 1e-6, how: str = "right") -> None:
        super().__init__()
        self.gain, self.eps, self.how = nn.Parameter(torch.ones(d)), eps, how

    def forward(self, x: Tensor) -> Tensor:
        h = x - x.mean(-1, keepdim=True)
        unbiased = self.how in {"unbiased", "both"}
        variance = h.float().var(-1, keepdim=True, correction=int(unbiased))
        if self.how in {"outside", "both"}:
            return self.gain * h / (variance.sqrt() + self.eps).to(x.dtype)
        return self.gain * (h * torch.rsqrt(variance + self.eps)).to(x.dtype)


@case("not_finite_on_constants", "1", "error")
def nothing_in_the_root(mended: bool):
    return perceptron(Written(8, eps=1e-6 if mended else 0.0)), (rows(),), {}


@case("not_finite_on_constants", "1", "error")
def gradient_of_a_deviation(mended: bool):
    class Deviation(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            h = x - x.mean(-1, keepdim=True)
            return h / (h.square().mean(-1, keepdim=True).sqrt() + 1e-6)

    return perceptron(Written(8) if mended else Deviation()), (rows(),), {}


class SquaresInHalf(nn.Module):
    """RMSNorm in the type that came, or in float32."""

    def __init__(self, d: int, wide: bool) -> None:
        super().__init__()
        self.weight, self.wide = nn.Parameter(torch.ones(d)), wide

    def forward(self, x: Tensor) -> Tensor:
        h = x.float() if self.wide else x
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * h.to(x.dtype)


@case("overflows_in_half_precision", "blocks.0.norm1", "error")
def squares_in_half_precision(mended: bool):
    model = Transformer(norm=lambda d: SquaresInHalf(d, mended)).half()
    return model, (sequences().half(),), {}


@case("overflows_in_half_precision", "blocks.0.norm1", "note")
def squares_that_would_overflow(mended: bool):
    return Transformer(norm=lambda d: SquaresInHalf(d, mended)), (sequences(),), {}


@case("forward_pass_fails", "", "error")
def shape_that_does_not_fit(mended: bool):
    return perceptron(nn.LayerNorm(8 if mended else 7)), (rows(),), {}


class Pooled(nn.Module):
    """A branch with global pooling, as in DeepLab."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1, bias=False), norm)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x)
        return h + self.pool(h)


@case("one_value_per_image", "pool.2")
def batch_norm_after_pooling(mended: bool):
    model = Pooled(nn.GroupNorm(2, 8) if mended else nn.BatchNorm2d(8))
    return trained(model, x := images(4)), (x,), {}


@case("two_values_per_group", "1")
def groups_of_two_channels(mended: bool):
    return perceptron(nn.GroupNorm(2 if mended else 4, 8)), (rows(),), {}


@case("two_values_per_group", "1")
def batch_of_two(mended: bool):
    model = trained(perceptron(nn.BatchNorm1d(8)), rows())
    return model, (rows(16 if mended else 2),), {}


# axes


@case("positions_share_statistics", "blocks.0.norm1")
def layer_norm_over_time_too(mended: bool):
    shape = (lambda d: d) if mended else (lambda d: (6, d))
    return Transformer(norm=lambda d: nn.LayerNorm(shape(d))), (sequences(),), {}


class OverTime(nn.Module):
    """A linear layer, then batch normalisation of axis 1."""

    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.inner, self.mended = nn.Linear(16, 12, bias=False), mended
        self.norm, self.head = nn.BatchNorm1d(12 if mended else 6), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        h = self.norm(h.transpose(1, 2)).transpose(1, 2) if self.mended else self.norm(h)
        return self.head(torch.relu(h))


@case("channels_on_another_axis", "norm")
def batch_norm_of_positions(mended: bool):
    return trained(OverTime(mended), x := sequences()), (x,), {}


class OverWidth(nn.Module):
    """A convolution, then layer normalisation of the last axis."""

    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.conv, self.mended = nn.Conv2d(3, 8, 3, padding=1), mended
        self.norm = nn.LayerNorm(8 if mended else 12)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x)
        return self.norm(h.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) if self.mended else self.norm(h)


@case("channels_on_another_axis", "norm")
def layer_norm_of_the_width(mended: bool):
    return OverWidth(mended), (images(),), {}


# ε, γ, n


@case("eps_dominates", "1")
def eps_too_large(mended: bool):
    class Small(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 1e-3 * x

    norm = nn.LayerNorm(8, eps=1e-12 if mended else 1e-3)
    norm.weight.data += 0.1 * torch.randn(8)
    return nn.Sequential(Small(), norm, nn.Linear(8, 4)), (rows(),), {}


@case("unbiased_variance", "1")
def divided_by_n_minus_1(mended: bool):
    return perceptron(Written(8, how="right" if mended else "unbiased")), (rows(),), {}


@case("eps_outside_the_root", "1")
def eps_beside_the_deviation(mended: bool):
    return perceptron(Written(8, how="right" if mended else "outside")), (rows(),), {}


class OnePlus(nn.Module):
    """RMSNorm that adds 1 to its weight."""

    def __init__(self, d: int, start: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((d,), start))

    def forward(self, x: Tensor) -> Tensor:
        h = x.float()
        h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
        return ((1 + self.weight.float()) * h).to(x.dtype)


@case("one_added_to_a_weight_of_one", "blocks.0.norm1")
def one_plus_a_weight_of_one(mended: bool):
    return Transformer(norm=lambda d: OnePlus(d, 0.0 if mended else 1.0)), (sequences(),), {}


@case("several_eps", "4", "note")
def another_eps_in_one_norm(mended: bool):
    model = trained(network(nn.BatchNorm2d), x := images())
    if not mended:
        model[4].eps = 1e-3
    return model, (x,), {}


# dataflow


@case("no_final_norm_after_pre_norm", "blocks.2.norm2")
def pre_norm_without_final(mended: bool):
    return Transformer(final=mended), (sequences(),), {}


@case("no_final_norm_after_pre_norm", "layers.1.norm2")
def encoder_of_pytorch(mended: bool):
    layer = nn.TransformerEncoderLayer(16, 2, 32, norm_first=True, batch_first=True)
    norm = nn.LayerNorm(16) if mended else None
    return nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False), (sequences(),), {}


@case("norm_after_norm", "2")
def two_norms_in_a_row(mended: bool):
    second = nn.Identity() if mended else nn.LayerNorm(8)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), second, nn.ReLU(), nn.Linear(8, 4))
    return model, (rows(),), {}


class OnBranch(nn.Module):
    """A norm on a branch that reads a normalised stream."""

    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.first = nn.LayerNorm(16)
        self.second = nn.Identity() if mended else nn.LayerNorm(16)
        self.branch = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return x + self.branch(self.second(x))


@case("norm_after_norm_on_a_branch", "second", "note")
def norm_of_a_normalised_stream(mended: bool):
    return OnBranch(mended), (sequences(),), {}


@case("bias_before_norm", "1", "note")
def bias_before_batch_norm(mended: bool):
    return trained(network(nn.BatchNorm2d, bias=not mended), x := images()), (x,), {}


@case("bias_before_norm", "norm", "note")
def bias_before_batch_norm_elsewhere(mended: bool):
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(8)
            self.inner = nn.Linear(8, 8, bias=not mended)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.norm(self.inner(x)))

    return trained(Apart(), x := rows()), (x,), {}


@case("dropout_before_batch_norm", "2")
def dropout_then_batch_norm(mended: bool):
    parts = [nn.Linear(8, 8, bias=False), nn.Dropout(0.5), nn.BatchNorm1d(8)]
    model = nn.Sequential(*(parts[::2] + parts[1:2] if mended else parts), nn.ReLU())
    return trained(model, x := rows(64)), (x,), {}


@case("dropout_before_batch_norm", "norm")
def dropout_as_a_function(mended: bool):
    class Drops(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.norm = nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8)

        def forward(self, x: Tensor) -> Tensor:
            h = self.inner(x)
            if mended:
                return F.dropout(self.norm(h), 0.5, self.training)
            return self.norm(F.dropout(h, p=0.5, training=self.training))

    return trained(Drops(), x := rows(64)), (x,), {}


@case("functional_norm", "layer_norm()", "note")
def norm_as_a_function(mended: bool):
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

        def forward(self, x: Tensor) -> Tensor:
            h = self.inner(x)
            return self.norm(h) if mended else F.layer_norm(h, (8,))

    return Plain(), (rows(),), {}


@case("norm_inside_forward", "forward()", "note")
def norm_between_other_lines(mended: bool):
    class Inline(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer, self.norm = nn.Linear(8, 8), nn.Linear(8, 4), nn.RMSNorm(8)

        def forward(self, x: Tensor) -> Tensor:
            h = self.inner(x)
            if not mended:
                h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.outer(self.norm(h) if mended else h)

    return Inline(), (rows(),), {}


def inline(compute: Callable[[Tensor], Tensor], norm: nn.Module, mended: bool):
    """A norm written out between two layers, or a module in its place."""

    class Inline(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer, self.norm = nn.Linear(8, 8), nn.Linear(8, 4), norm

        def forward(self, x: Tensor) -> Tensor:
            h = self.inner(x)
            return self.outer(self.norm(h) if mended else compute(h))

    return Inline(), (rows(),), {}


@case("norm_inside_forward", "forward()", "note")
def norm_by_a_power(mended: bool):
    def compute(h: Tensor) -> Tensor:
        return h * (h.square().mean(-1, keepdim=True) + 1e-6) ** -0.5

    return inline(compute, nn.RMSNorm(8), mended)


@case("norm_inside_forward", "forward()", "note")
def norm_by_a_deviation(mended: bool):
    def compute(h: Tensor) -> Tensor:
        return (h - h.mean(-1, keepdim=True)) / (h.std(-1, keepdim=True) + 1e-6)

    return inline(compute, nn.LayerNorm(8), mended)


@case("sum_of_squares", "1")
def norm_that_sums_squares(mended: bool):
    class Summed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            h = x - x.mean(-1, keepdim=True)
            squares = h.square()
            total = squares.mean(-1, keepdim=True) if mended else squares.sum(-1, keepdim=True)
            return h * torch.rsqrt(total + 1e-5)

    return perceptron(Summed()), (rows(),), {}


@case("averaged_statistics_do_not_fit", "1")
def averaged_model_with_first_buffers(mended: bool):
    x = 10 * images(16)
    model, other = network(nn.BatchNorm2d), network(nn.BatchNorm2d)
    trained(model, x)
    if mended:
        trained(other, x)
    for own, copied in zip(other.parameters(), model.parameters(), strict=True):
        own.data.copy_(copied)
    for own, copied in zip(other.buffers(), model.buffers(), strict=True):
        own.copy_(copied if mended else own)
    return model, (x,), {"other": other}


# the optimizer, modes, names


@case("norm_not_in_the_optimizer", "1")
def optimizer_without_norms(mended: bool):
    model = trained(network(nn.BatchNorm2d), x := images())
    wanted = [p for p in model.parameters() if mended or p.ndim > 1]
    return model, (x,), {"optimizer": torch.optim.SGD(wanted, lr=0.1)}


@case("weight_decay_on_norm", "1", "note")
def decay_of_everything(mended: bool):
    model = trained(network(nn.BatchNorm2d), x := images())
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    everything = groups if mended else list(model.parameters())
    return model, (x,), {"optimizer": torch.optim.AdamW(everything, weight_decay=0.1)}


@case("stays_in_eval", "1", "note")
def training_mode_that_skips_norms(mended: bool):
    class Frozen(nn.Sequential):
        def train(self, mode: bool = True) -> nn.Module:
            super().train(mode)
            if not mended:
                self[1].eval()
            return self

    model = trained(network(nn.BatchNorm2d), x := images())
    return Frozen(*model), (x,), {}


@case("statistics_never_updated", "1", "note")
def another_path_in_training(mended: bool):
    class Norm(nn.BatchNorm1d):
        def forward(self, x: Tensor) -> Tensor:
            if mended:
                return super().forward(x)
            return (
                F.batch_norm(x, None, None, self.weight, self.bias, training=self.training)
                if (self.training)
                else super().forward(x)
            )

    return trained(perceptron(Norm(8)), x := rows()), (x,), {}


@case("norm_never_called", "norm", "note")
def norm_that_nothing_calls(mended: bool):
    class Forgotten(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

        def forward(self, x: Tensor) -> Tensor:
            h = self.inner(x)
            return self.norm(h) if mended else h

    return Forgotten(), (rows(),), {}


@case("one_norm_under_two_names", "first", "note")
def one_norm_twice(mended: bool):
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.LayerNorm(8)
            self.second = nn.LayerNorm(8) if mended else self.first
            self.inner = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(torch.relu(self.inner(self.first(x))))

    return Twice(), (rows(),), {}
