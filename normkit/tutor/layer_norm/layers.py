"""Layer normalisation as a layer of PyTorch: the right program, as the chapter prints it."""

import torch

from normkit.tutor.programs import program


@program
class LayerNorm(torch.nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        mean = x.mean(axis=-1, keepdims=True)
        var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
        xhat = (x - mean) / torch.sqrt(var + self.eps)
        return self.weight * xhat + self.bias
