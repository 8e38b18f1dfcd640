"""Passes of a model that leave no trace: on a copy, from one seed, with everything put back."""

import copy
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.swa_utils import AveragedModel

from normkit.messages import N_

SEED = 0
HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)
WRAPPERS = nn.DataParallel, nn.parallel.DistributedDataParallel, AveragedModel
REACHED = N_("A copy cannot be run: a function in the model has kept a module of the model itself.")
TORCH = "torch."  # hooks of torch's own, such as weight_norm's, compute the weights


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside wrappers: torch.compile, DataParallel, DDP, AveragedModel, PEFT."""
    whole: Any = model
    while True:
        if "_orig_mod" in whole._modules:  # hasattr would ask a module that lends another's
            whole = whole._modules["_orig_mod"]
        elif isinstance(whole, WRAPPERS):
            whole = whole.module
        elif {"get_base_model", "peft_config"} <= {*dir(type(whole))}:
            whole = whole.get_base_model()
        else:
            return whole


def copied(model: nn.Module) -> nn.Module:
    """Return a copy without the hooks that others put on it, and with nothing compiled in it."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twin = copy.deepcopy(model, _computed(model))
    for module in list(local(twin).modules()):
        for kind in HOOKS:
            hooks = getattr(module, kind, {})
            for key in [k for k, hook in hooks.items() if not _of_torch(hook)]:
                del hooks[key]
        for name, child in list(module._modules.items()):
            if child is not None and "_orig_mod" in child._modules:
                module._modules[name] = unwrapped(child)
    return twin


def local(model: nn.Module) -> nn.Module:
    """Let the SyncBatchNorm of a copy compute alone: other processes would be waited for."""
    for module in model.modules():
        if isinstance(module, nn.SyncBatchNorm):
            vars(module)["forward"] = partial(_BatchNorm.forward, module)
    return model


def _computed(model: nn.Module) -> dict[int, Any]:
    """For deepcopy, which refuses them: weights that hooks have computed, as plain tensors."""
    return {
        id(value): value.detach().clone()
        for module in model.modules()
        for value in (*vars(module).values(), *module._buffers.values())
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
        stack.enter_context(torch.inference_mode(False))
        if "torch._dynamo" in sys.modules:  # else nothing is compiled, and the import takes seconds
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        torch.backends.mha.set_fastpath_enabled(False)  # one operator would hide the norms in it
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            torch.set_default_dtype(dtype)
            random.setstate(state)
            np.random.set_state(numbers)


@contextmanager
def probing() -> Iterator[None]:
    """Within it, PyTorch computes on the CPU, on one thread: the arrays of probes are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.device("cpu"), torch.autocast("cpu", enabled=False):
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


class ReachedError(RuntimeError):
    """A pass of the copy came to a module of the reader's own model."""


@contextmanager
def guarded(own: set[int]) -> Iterator[None]:
    """Within it, no pass comes to the reader's own modules: a function may have kept one."""

    def refuse(module: nn.Module, _: Any) -> None:
        if id(module) in own:
            raise ReachedError(REACHED)

    handle = register_module_forward_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()


def fresh(value: Any) -> Any:
    """Return inputs with tensors of their own: a pass may write into them."""
    return mapped(lambda t: t.detach().clone().requires_grad_(t.requires_grad and t.is_leaf), value)


def mapped(
    function: Callable[[Tensor], Tensor], value: Any, known: dict[int, Any] | None = None
) -> Any:
    """Return a copy of what a model takes, a function applied to each tensor in it.

    Containers are copied, whatever they are: a pass may write into them, or take things out.
    """
    known = {} if known is None else known  # the copies: an object may hold itself
    if isinstance(value, Tensor):
        return function(value)
    contains = isinstance(value, (list, tuple, dict))
    if id(value) in known or not (contains or tensors(value)):
        return known.get(id(value), value)
    if isinstance(value, tuple):
        items = [mapped(function, each, known) for each in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    known[id(value)] = twin = copy.copy(value)
    holder = twin if isinstance(value, (list, dict)) else twin.__dict__
    for key, each in enumerate(value) if isinstance(value, list) else _items(value):
        holder[key] = mapped(function, each, known)
    return twin


def _holds(value: Any) -> bool:
    """Whether a value is a container, or an object with attributes: no class, function, module."""
    opaque = (type, ModuleType, FunctionType, MethodType, nn.Module)
    holds = isinstance(value, (list, tuple, dict)) or bool(getattr(value, "__dict__", None))
    return holds and not isinstance(value, opaque)


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list((value if isinstance(value, dict) else vars(value)).items())


def tensors(value: Any, known: set[int] | None = None) -> list[Tensor]:
    """Return the tensors in what a model takes or returns, whatever holds them."""
    known = set() if known is None else known
    if isinstance(value, Tensor):
        return [value]
    if id(value) in known or not _holds(value):
        return []
    known.add(id(value))
    parts = value if isinstance(value, (list, tuple)) else [each for _, each in _items(value)]
    return [tensor for each in parts for tensor in tensors(each, known)]


def real(value: Any) -> list[Tensor]:
    """Return the tensors of real numbers in a value."""
    return [tensor for tensor in tensors(value) if tensor.is_floating_point()]
