"""Group normalisation in PyTorch, on the worked example."""

import torch


def group_norm(x, num_groups, gamma, beta, eps=1e-5):
    """Normalise groups of channels, axis 1, of each example by itself."""
    groups = x.reshape(len(x), num_groups, -1)
    mean = groups.mean(dim=-1, keepdim=True)
    # PyTorch's default is the unbiased variance: ask for the biased one.
    variance = groups.var(dim=-1, keepdim=True, correction=0)
    x_hat = (groups - mean) / torch.sqrt(variance + eps)
    # One scale and one shift per channel, for all its positions.
    channels = (-1, *[1] * (x.ndim - 2))
    gamma, beta = gamma.reshape(channels), beta.reshape(channels)
    return gamma * x_hat.reshape(x.shape) + beta


x = torch.tensor([[[1.0, 3.0], [5.0, 7.0], [0.0, 0.0], [2.0, 2.0]]])
gamma = torch.tensor([1.0, 2.0, 3.0, 4.0])
beta = torch.tensor([0.0, 0.0, 1.0, 2.0])
y = group_norm(x, 2, gamma, beta)

# The layer that PyTorch provides: two groups, four channels.
layer = torch.nn.GroupNorm(2, 4)
with torch.no_grad():
    layer.weight.copy_(gamma)
    layer.bias.copy_(beta)
assert torch.allclose(layer(x), y, atol=1e-6)
