"""AdaLN-Zero as a layer: the right program, as the chapter prints it."""

import torch

from normkit.tutor.programs import program


@program
class AdaLNZero(torch.nn.Module):
    def __init__(self, branch, width, condition_width):
        super().__init__()
        self.branch = branch
        self.norm = torch.nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.modulation = torch.nn.Linear(condition_width, 3 * width)
        torch.nn.init.zeros_(self.modulation.weight)
        torch.nn.init.zeros_(self.modulation.bias)

    def forward(self, x, c):
        condition = torch.nn.functional.silu(c)
        rows = self.modulation(condition)[:, None]
        beta, gamma, gate = rows.chunk(3, dim=-1)
        xhat = self.norm(x)
        h = (1 + gamma) * xhat + beta
        f = self.branch(h)
        return x + gate * f
