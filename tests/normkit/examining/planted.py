"""Traps planted in real architectures: `python -m tests.normkit.examining.planted`.

Each must give a finding that the architecture alone does not, at the place of the trap. Needs
torchvision, timm and transformers.
"""

import copy
import sys
from collections.abc import Callable

import torch
from torch import nn

from normkit.examining import examine
from tests.normkit.examining.broken import OverTheBatch
from tests.normkit.examining.zoo import architectures

Found = set[tuple[str, str]]
Plant = Callable[[nn.Module, list[str]], tuple[str, str]]  # the model, its norms: what, where

CONVOLUTIONAL = (
    "resnet18 resnet50 resnext50_32x4d mnasnet0_5 mobilenet_v2 densenet121 shufflenet_v2_x0_5 "
    "efficientnet_b0 googlenet hrnet_w18_small"
)
TRANSFORMERS = "llama mistral qwen2 qwen3 gemma gpt2 gpt_neox phi falcon opt dinov2 mamba"


def put(model: nn.Module, path: str, module: nn.Module) -> None:
    """Put a module at a path."""
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)


def bias(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """A bias in the convolution whose output a batch norm reads."""
    order = [p for p, m in model.named_modules() if not any(m.children())]
    for path in paths[1:]:
        before = model.get_submodule(order[order.index(path) - 1])
        if isinstance(before, nn.Conv2d) and before.bias is None:
            before.bias = nn.Parameter(torch.randn(before.out_channels))
            return "bias_before_norm", path
    raise LookupError("no convolution without bias before a norm")


def untracked(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """A batch norm without running statistics."""
    norm = model.get_submodule(paths[2])
    norm.running_mean = norm.running_var = None
    return "depends_on_the_batch_in_eval", paths[2]


def infinite(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """An infinite running mean."""
    model.get_submodule(paths[2]).running_mean[0] = torch.inf
    return "running_statistics_not_finite", paths[2]


def halved(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """A batch norm in bfloat16."""
    model.get_submodule(paths[2]).bfloat16()
    return "statistics_in_half_precision", paths[2]


def frozen(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """γ and β frozen, the mode not changed."""
    for parameter in model.get_submodule(paths[2]).parameters():
        parameter.requires_grad_(False)
    return "frozen_but_statistics_move", paths[2]


def shared(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """One batch norm in the place of two."""
    norms = [(p, model.get_submodule(p)) for p in paths]
    for i, (path, norm) in enumerate(norms):
        for other, second in norms[i + 1 :]:
            if norm.num_features == second.num_features:
                put(model, other, norm)
                return "shared_running_statistics", path
    raise LookupError("no two norms of one width")


def unfinished(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """The final norm removed: the last Pre norm is named."""
    put(model, paths[-1], nn.Identity())
    return "no_final_norm_after_pre_norm", paths[-2]


class Twice(nn.Sequential):
    """Two norms, one after the other."""


def doubled(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """A second norm right after the final one."""
    norm = model.get_submodule(paths[-1])
    put(model, paths[-1], Twice(norm, copy.deepcopy(norm)))
    return "norm_after_norm", f"{paths[-1]}.1"


def without_eps(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """ε = 0."""
    norm = model.get_submodule(paths[0])
    for name in ("eps", "variance_epsilon"):
        if hasattr(norm, name):
            setattr(norm, name, 0.0)
    return "not_finite_on_constants", paths[0]


def width(norm: nn.Module) -> int:
    """How many features a norm has."""
    return norm.weight.numel()


class Annotated(nn.Module):
    """n − 1, and ε beside the deviation."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x - x.mean(-1, keepdim=True)
        return self.weight * h / (x.std(-1, keepdim=True) + 1e-6)


def over_batch(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """Statistics over the batch."""
    put(model, paths[0], OverTheBatch(width(model.get_submodule(paths[0])), 0))
    return "depends_on_the_batch_in_eval", paths[0]


def annotated(model: nn.Module, paths: list[str]) -> tuple[str, str]:
    """A norm written by hand."""
    put(model, paths[0], Annotated(width(model.get_submodule(paths[0]))))
    return "unbiased_variance", paths[0]


PLANTS: list[tuple[Plant, str]] = [
    *((plant, CONVOLUTIONAL) for plant in (bias, untracked, infinite, halved, frozen, shared)),
    *((p, TRANSFORMERS) for p in (unfinished, doubled, without_eps, over_batch, annotated)),
]


def said(report) -> Found:
    """Findings and their consequences, each at each place."""
    every = [*report.findings, *(e for f in report.findings for e in f.consequences)]
    return {(finding.name, path) for finding in every for path in finding.paths}


def main() -> int:
    """Plant every trap, and print what is not found."""
    torch.set_num_threads(1)
    zoo, planted, found, unable = dict(architectures()), 0, 0, 0
    for plant, names in PLANTS:
        for name in names.split():
            model, inputs, named = zoo[name]()
            plain = examine(model, *inputs, **named)
            kinds = {"batch"} if names is CONVOLUTIONAL else {"layer", "rms"}
            norms = [norm for norm in plain.norms if norm.kind in kinds and norm.calls]
            paths = [norm.path for norm in sorted(norms, key=lambda n: n.place == "final")]
            try:
                expected = plant(model, paths)
            except Exception as error:
                unable += 1
                print(f"{name}: {plant.__name__} cannot be planted: {error}"[:150], flush=True)
                continue
            planted += 1
            new = said(examine(model, *inputs, **named)) - said(plain)
            found += expected in new
            if expected not in new:
                print(f"{name}: {plant.__name__} missed: {expected}, came {new}", flush=True)
    print(f"{found} of {planted} traps found; {unable} could not be planted")
    return int(found < planted)


if __name__ == "__main__":
    sys.exit(main())
