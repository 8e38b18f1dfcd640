"""Layer normalisation in PyTorch, on the worked example."""

import torch


def layer_norm(x, gamma, beta, eps=1e-5):
    """Normalise each row of x over its last axis, then scale and shift."""
    mean = x.mean(dim=-1, keepdim=True)
    # PyTorch's default is the unbiased variance: ask for the biased one.
    variance = x.var(dim=-1, keepdim=True, correction=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


x = torch.tensor([[0.2, 0.1, 0.3], [0.5, 0.1, 0.1]])
gamma, beta = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 0.0, 1.0])
y = layer_norm(x, gamma, beta)

# The layer that PyTorch provides: gamma is its weight, beta its bias.
layer = torch.nn.LayerNorm(3)
with torch.no_grad():
    layer.weight.copy_(gamma)
    layer.bias.copy_(beta)
assert torch.allclose(layer(x), y, atol=1e-6)
