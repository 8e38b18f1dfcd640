"""A Post-Norm and a Pre-Norm block in PyTorch, on the worked example."""

import torch
from torch import nn


class PostBlock(nn.Module):
    """Normalise each sum. Each sub-layer has its own norm."""

    def __init__(self, width, attention, feed_forward):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        u = self.norm1(x + self.attention(x))
        return self.norm2(u + self.feed_forward(u))


class PreBlock(PostBlock):
    """Normalise the input of each sub-layer."""

    def forward(self, x):
        u = x + self.attention(self.norm1(x))
        return u + self.feed_forward(self.norm2(u))


def branch(v):
    """A toy sub-layer: the third feature first, then zeros."""
    return v[..., [2, 0, 0]] * torch.tensor([1.0, 0.0, 0.0])


x = torch.tensor([[0.0, 2.0, 4.0]])
post = PostBlock(3, branch, branch)(x)
pre = PreBlock(3, branch, branch)(x)
final = nn.LayerNorm(3)(pre)  # after the last block
