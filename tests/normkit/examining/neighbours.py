"""Other tools on the same broken models: `python -m tests.normkit.examining.neighbours`.

A trap counts as found where a tool says of the broken model what it does not say of the mended
one. torch-audit 0.3.0 is installed beside; AllenNLP's rule is written anew from its description (a
module with a bias is called just before a norm), since AllenNLP needs an old PyTorch.
"""

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from normkit.examining import examine
from normkit.examining.passes import real
from tests.normkit.examining.broken import CASES, Case

NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)
Told = set[tuple[str, str, str]]
LOUD = {"error", "warning", "ERROR", "WARN", "FATAL"}


def of_examine(model: nn.Module, inputs: tuple, options: dict[str, Any]) -> Told:
    """What `normkit.examine` says: names, paths and levels, consequences too."""
    found = examine(model, *inputs, **options).findings
    every = [*found, *(effect for finding in found for effect in finding.consequences)]
    return {(f.name, path, f.level) for f in every for path in f.paths}


def of_torch_audit(model: nn.Module, inputs: tuple, options: dict[str, Any]) -> Told:
    """What torch-audit says of one training step: its rules, and the modules they name."""
    from torch_audit import audit_dynamic

    optimizer = options.get("optimizer") or torch.optim.SGD(model.parameters(), lr=1e-3)
    model.train()
    with audit_dynamic(model, optimizer=optimizer) as auditor:
        auditor.audit_static()
        auditor.audit_init()
        auditor.audit_data(inputs[0])
        with suppress(Exception):  # the model itself fails: what was said so far stands
            out = auditor.forward(*inputs)
            auditor.backward(sum(t.float().square().mean() for t in real(out)))
            auditor.optimizer_step(optimizer)
    said = auditor.findings
    return {(f.rule_id, f"{f.module_path}{f.entity or ''}", f.severity.value) for f in said}


def of_allennlp(model: nn.Module, inputs: tuple, options: dict[str, Any]) -> Told:
    """Pairs of a module with a bias and a norm that is called next."""
    last: list[str] = [""]
    pairs: Told = set()
    modules = dict(model.named_modules())

    def hook(path: str) -> Callable:
        def called(module: nn.Module, _: Any, __: Any) -> None:
            before = modules.get(last[0])
            if isinstance(module, NORMS) and isinstance(getattr(before, "bias", None), Tensor):
                pairs.add(("bias", path, "warning"))
            last[0] = path

        return called

    leaves = {p: m for p, m in modules.items() if not any(m.children())}
    handles = [m.register_forward_hook(hook(p)) for p, m in leaves.items()]
    with suppress(Exception):
        model(*inputs)
    for handle in handles:
        handle.remove()
    return pairs


def told(tool: Callable, case: Case, mended: bool) -> Told:
    """What a tool says of a case, from the first seed."""
    torch.manual_seed(0)
    model, inputs, options = case.build(mended)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tool(model, inputs, options)


def main() -> None:
    """Print, for each tool, the traps found, and the mended models of which it says something."""
    for tool in (of_examine, of_torch_audit, of_allennlp):
        found, said = [], 0
        for case in CASES:
            broken, mended = told(tool, case, False), told(tool, case, True)
            found += [case.name] if broken - mended else []
            said += any(level in LOUD for *_, level in mended)
        print(f"{tool.__name__[3:]}: {len(found)} of {len(CASES)}; warns of {said} mended models")
        print("  " + ", ".join(found))


if __name__ == "__main__":
    main()
