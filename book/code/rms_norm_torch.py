"""RMSNorm in PyTorch, on the worked example."""

import torch


def rms_norm(x, gamma, eps=1e-6):
    """Divide each row of x by its root mean square, then scale."""
    wide = x.float()  # the squares of float16 overflow
    mean_square = wide.square().mean(dim=-1, keepdim=True)
    return (gamma * wide * torch.rsqrt(mean_square + eps)).to(x.dtype)


x = torch.tensor([[1.0, 2.0, 2.0, 4.0], [1.0, 7.0, 5.0, 5.0]])
gamma = torch.tensor([5.0, 1.0, 2.0, 1.0])
y = rms_norm(x, gamma)

# The layer that PyTorch provides: gamma is its weight, and there is no bias.
layer = torch.nn.RMSNorm(4, eps=1e-6)
with torch.no_grad():
    layer.weight.copy_(gamma)
assert torch.allclose(layer(x), y, atol=1e-6)
