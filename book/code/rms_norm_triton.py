"""RMSNorm as Triton kernels, forward and backward. Without a GPU: TRITON_INTERPRET=1.

That variable must be set before triton is imported. Linux: `pip install "normkit[triton]"`.
"""

import json

import torch
import triton
import triton.language as tl
from torch.autograd.function import once_differentiable

import normkit

PROGRAMS = 8  # of the backward pass; on a GPU as many as it has multiprocessors, or a multiple


@triton.jit
def forward_kernel(X, GAMMA, Y, R, D, eps, BLOCK: tl.constexpr):
    # one program for each row
    row = tl.program_id(0).to(tl.int64)  # beyond 2³¹ values an int32 overflows
    column = tl.arange(0, BLOCK)  # a power of two
    inside = column < D
    x = tl.load(X + row * D + column, mask=inside, other=0.0).to(tl.float32)
    gamma = tl.load(GAMMA + column, mask=inside, other=0.0).to(tl.float32)
    r = tl.rsqrt(tl.sum(x * x) / D + eps)
    tl.store(R + row, r)
    tl.store(Y + row * D + column, (gamma * (x * r)).to(Y.dtype.element_ty), mask=inside)


@triton.jit
def backward_kernel(DY, X, GAMMA, R, DX, PARTS, N, D, rows, BLOCK: tl.constexpr):
    # a share of the rows for each program
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < D
    gamma = tl.load(GAMMA + column, mask=inside, other=0.0).to(tl.float32)
    part = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(program * rows, tl.minimum((program + 1) * rows, N)):
        place = row * D + column
        x = tl.load(X + place, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(DY + place, mask=inside, other=0.0).to(tl.float32)
        r = tl.load(R + row)
        xhat = x * r
        dxhat = gamma * dy
        dx = r * (dxhat - xhat * (tl.sum(dxhat * xhat) / D))
        tl.store(DX + place, dx.to(DX.dtype.element_ty), mask=inside)
        part += dy * xhat
    tl.store(PARTS + program * D + column, part, mask=inside)


class RMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, eps):
        rows = x.contiguous().view(-1, x.shape[-1])
        N, D = rows.shape
        y, r = torch.empty_like(rows), torch.empty(N, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(D)
        if N:
            forward_kernel[(N,)](rows, gamma, y, r, D, eps, BLOCK=block)
        ctx.save_for_backward(rows, gamma, r)
        return y.view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, gamma, r = ctx.saved_tensors
        N, D = x.shape
        dx = torch.empty_like(x)
        parts = torch.zeros(PROGRAMS, D, dtype=torch.float32, device=x.device)
        rows = dy.contiguous().view(N, D)
        each, block = triton.cdiv(N, PROGRAMS), triton.next_power_of_2(D)
        backward_kernel[(PROGRAMS,)](rows, x, gamma, r, dx, parts, N, D, each, BLOCK=block)
        return dx.view(dy.shape), parts.sum(0).to(gamma.dtype), None


def rms_norm(x, gamma, eps=1e-5):
    """RMSNorm over the last axis; x of any floating dtype, gamma of shape (D,)."""
    return RMSNormFunction.apply(x, gamma, eps)


def errors(shape, dtype, device="cpu"):
    """The largest errors of y, dx and dγ against float64, relative to the largest value of each."""
    generator = torch.Generator().manual_seed(0)
    x, dy = torch.randn(2, *shape, generator=generator).to(device, dtype)
    gamma = torch.randn(shape[-1], generator=generator).to(device, dtype)
    found = []
    for norm, kind in ((rms_norm, dtype), (normkit.rms_norm, torch.float64)):
        given = [tensor.to(kind).detach().requires_grad_() for tensor in (x, gamma)]
        y = norm(*given, 1e-5)
        found.append([y.detach(), *torch.autograd.grad(y, given, dy.to(kind))])
    pairs = zip(*found, strict=True)
    return [float((a - b).abs().max() / b.abs().max()) for a, b in pairs]


if __name__ == "__main__":
    CASES = [((256, 512), "float32"), ((5, 100), "float32"), ((3, 4, 96), "bfloat16")]
    found = [[shape, dtype, errors(shape, getattr(torch, dtype))] for shape, dtype in CASES]
    print(json.dumps(found))
