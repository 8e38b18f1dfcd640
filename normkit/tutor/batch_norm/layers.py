"""Batch normalisation as a layer of PyTorch: the right program, as the chapter prints it."""

import torch

from normkit.tutor.programs import program


@program
class BatchNorm(torch.nn.Module):
    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.register_buffer("num_batches_tracked", torch.tensor(0))
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def share(self):
        self.num_batches_tracked += 1
        return 1 / self.num_batches_tracked if self.momentum is None else self.momentum

    def forward(self, x):
        axes = (0, *range(2, x.ndim))
        shape = (-1, *[1] * (x.ndim - 2))
        mean = self.running_mean.reshape(shape)
        var = self.running_var.reshape(shape)
        if self.training:
            mean = x.mean(axis=axes, keepdims=True)
            var = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
        if self.training:  # the running statistics learn from batches, not from gradients
            with torch.no_grad():
                share = self.share()
                batch_mean = x.mean(axis=axes)
                batch_var = x.var(axis=axes, correction=1)
                self.running_mean = (1 - share) * self.running_mean + share * batch_mean
                self.running_var = (1 - share) * self.running_var + share * batch_var
        xhat = (x - mean) / torch.sqrt(var + self.eps)
        y = self.weight.reshape(shape) * xhat + self.bias.reshape(shape)
        return y
