"""Placements of the norms: the right programs that need PyTorch, as the chapter prints them."""

import torch

from normkit.tutor.programs import program


@program
class Stack(torch.nn.Module):
    def __init__(self, blocks, width, placement):
        super().__init__()
        self.blocks = torch.nn.ModuleList(blocks)
        normalised = placement in ("post", "deep")
        self.final_norm = torch.nn.Identity() if normalised else torch.nn.LayerNorm(width)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.final_norm(x)


@program
def deepnorm_init(attention, feed_forward, beta):
    plain = attention.q, attention.k
    scaled = attention.v, attention.out, feed_forward.up, feed_forward.down
    for linear in (*plain, *scaled):
        gain = beta if linear in scaled else 1
        torch.nn.init.xavier_normal_(linear.weight, gain)
        torch.nn.init.zeros_(linear.bias)


@program
def gradient_norm(model, tokens):
    model.zero_grad()
    logits = model(tokens[:, :-1])
    targets = tokens[:, 1:]
    loss = torch.nn.functional.cross_entropy(logits.mT, targets)
    loss.backward()
    matrix = model.blocks[-1].branch.down.weight
    return matrix.grad.norm()
