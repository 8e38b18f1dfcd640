"""Dynamic tanh in PyTorch, on the worked example."""

import torch


class DyT(torch.nn.Module):
    """Dynamic tanh, with the names of the authors' code."""

    def __init__(self, features, alpha_init=0.5):
        super().__init__()
        self.alpha = torch.nn.Parameter(torch.full((1,), alpha_init))
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        """Squash each number of x, then scale and shift each feature."""
        return self.weight * torch.tanh(self.alpha * x) + self.bias


x = torch.tensor([[-2.0, 1.0, 10.0], [2.0, 0.0, -1.0]])
layer = DyT(3)
with torch.no_grad():
    layer.weight.copy_(torch.tensor([1.0, 2.0, 1.0]))
    layer.bias.copy_(torch.tensor([0.0, 1.0, 0.0]))
    y = layer(x)
