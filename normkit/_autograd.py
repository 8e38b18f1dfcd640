"""The kernels of `normkit.fast` for PyTorch's automatic differentiation. Private to the package."""

import torch
from torch.autograd.function import once_differentiable

from normkit.fast import _gradients, _rows


class Fast(torch.autograd.Function):
    """One norm on tensors: its kernels see their memory as NumPy arrays, nothing is copied."""

    @staticmethod
    def forward(ctx, norm, eps, x, *parameters):
        ctx.norm, ctx.eps = norm, eps
        ctx.save_for_backward(x, *parameters)
        y, arrays = torch.empty_like(x), _arrays(parameters)
        ctx.kept = norm.forward(_rows(*_arrays([x])), _rows(y.numpy()), eps, *arrays)
        return norm.ordinary(x, *parameters, eps) if ctx.kept is None else y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, *parameters = ctx.saved_tensors
        if ctx.kept is None:
            found = ctx.norm.ordinary_backward(dy, x, parameters[0], ctx.eps)
        else:
            dx, (dy, array) = torch.empty_like(x), _arrays([dy, x])
            arrays = _gradients(ctx.norm, dy, array, dx.numpy(), ctx.kept, _arrays(parameters))
            found = [dx, *map(torch.from_numpy, arrays[1:])]
        return None, None, *found


def _arrays(tensors):
    return [tensor.detach().numpy() for tensor in tensors]
