"""Batch normalisation in PyTorch, on the worked example."""

import torch
from torch import nn


class BatchNorm(nn.Module):
    """Normalise each channel, axis 1."""

    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        # Buffers are saved and moved with the layer, and not learnt.
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        mean, variance = self.running_mean, self.running_var
        if self.training:  # set by train() and eval()
            shared = (0, *range(2, x.ndim))
            mean, variance = x.mean(shared), x.var(shared, correction=0)
            self.update(mean, x.var(shared, correction=1))
        channels = (-1, *[1] * (x.ndim - 2))
        r = torch.rsqrt(variance + self.eps).reshape(channels)
        x_hat = (x - mean.reshape(channels)) * r
        scale = self.weight.reshape(channels)
        return scale * x_hat + self.bias.reshape(channels)

    @torch.no_grad()
    def update(self, mean, unbiased):
        """Move the running statistics, without a graph."""
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(unbiased, self.momentum)


x = torch.tensor([[1.0, 2.0], [3.0, 6.0], [5.0, 4.0], [7.0, 8.0]])
new = torch.tensor([[4.0, 5.0]])
layer = BatchNorm(2)
y = layer(x).detach()
z = layer.eval()(new).detach()
running = layer.running_mean, layer.running_var

# The layer that PyTorch provides.
provided = nn.BatchNorm1d(2)
assert torch.allclose(provided(x), y, atol=1e-6)
assert torch.allclose(provided.eval()(new), z, atol=1e-6)
