"""Passes of a model that leave no trace: on a copy, from one seed, with everything put back."""

import copy
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

SEED = 0
HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
TORCH = "torch."  # hooks of torch's own, such as weight_norm's, compute the weights


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside wrappers: torch.compile, DataParallel, DDP, PEFT."""
    whole: Any = model
    while True:
        if hasattr(whole, "_orig_mod"):
            whole = whole._orig_mod
        elif type(whole).__name__ in {"DataParallel", "DistributedDataParallel"}:
            whole = whole.module
        elif hasattr(whole, "get_base_model") and hasattr(whole, "peft_config"):
            whole = whole.get_base_model()
        else:
            return whole


def copied(model: nn.Module) -> nn.Module:
    """Return a copy without the hooks that others put on it, and with nothing compiled in it."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twin = copy.deepcopy(model, _computed(model))
    for module in list(twin.modules()):
        for kind in HOOKS:
            hooks = getattr(module, kind, {})
            for key in [k for k, hook in hooks.items() if not _of_torch(hook)]:
                del hooks[key]
        for name, child in list(module._modules.items()):
            if child is not None and hasattr(child, "_orig_mod"):
                module._modules[name] = unwrapped(child)
    return twin


def _computed(model: nn.Module) -> dict[int, Any]:
    """For deepcopy, which refuses them: weights that hooks have computed, as plain tensors."""
    return {
        id(value): value.detach().clone()
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }


def _of_torch(hook: Any) -> bool:
    return (getattr(hook, "__module__", "") or type(hook).__module__).startswith(TORCH)


@contextmanager
def quietly() -> Iterator[None]:
    """Within it, what passes change of the process is put back: random state, switches."""
    state, numbers = random.getstate(), np.random.get_state()
    fast = torch.backends.mha.get_fastpath_enabled()
    dtype = torch.get_default_dtype()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        torch.backends.mha.set_fastpath_enabled(False)  # one operator would hide the norms in it
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            torch.set_default_dtype(dtype)
            random.setstate(state)
            np.random.set_state(numbers)


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it, PyTorch computes on one thread: the arrays of probes are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def seeded() -> None:
    """Every pass draws the same random numbers."""
    torch.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)


@contextmanager
def restored(model: nn.Module, train: bool | None = None) -> Iterator[None]:
    """Within it, the model is in a mode; then its buffers, gradients and modes are as before."""
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    if train is not None:
        model.train(train)
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for module, mode in modes:
            module.training = mode
        for parameter in model.parameters():
            parameter.grad = None


@contextmanager
def hooked(
    modules: dict[str, nn.Module], before: Callable | None, after: Callable | None
) -> Iterator[None]:
    """Within it, before(path, module, args, named) and after(…, output) are called at each."""
    handles = []
    for path, module in modules.items():
        if before:
            handles.append(
                module.register_forward_pre_hook(_pre(before, path), with_kwargs=True, prepend=True)
            )
        if after:
            handles.append(
                module.register_forward_hook(_post(after, path), with_kwargs=True, prepend=True)
            )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _pre(call: Callable, path: str) -> Callable:
    def hook(module: nn.Module, args: tuple, named: dict) -> None:
        call(path, module, args, named)

    return hook


def _post(call: Callable, path: str) -> Callable:
    def hook(module: nn.Module, args: tuple, named: dict, output: Any) -> None:
        call(path, module, args, named, output)

    return hook


def fresh(value: Any) -> Any:
    """Return inputs with tensors of their own: a pass may write into them."""
    return mapped(lambda t: t.detach().clone().requires_grad_(t.requires_grad and t.is_leaf), value)


def mapped(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Return the value with a function applied to each tensor in it."""
    return pytree.tree_map(lambda v: function(v) if isinstance(v, Tensor) else v, value)


def tensors(value: Any) -> list[Tensor]:
    """Return the tensors in what a model takes or returns, whatever holds them."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    elif not isinstance(value, (list, tuple)):
        value = list(getattr(value, "__dict__", {}).values())
    return [tensor for each in value for tensor in tensors(each)]


def real(value: Any) -> list[Tensor]:
    """Return the tensors of real numbers in a value."""
    return [tensor for tensor in tensors(value) if tensor.is_floating_point()]
