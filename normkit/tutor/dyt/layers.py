"""DyT and Derf as layers, and in the place of the norms of a model: the right programs."""

import copy  # noqa: F401, for a mistake

import torch

from normkit.tutor.programs import program


@program
class DyT(torch.nn.Module):
    def __init__(self, features, alpha_init=0.5):
        super().__init__()
        self.alpha = torch.nn.Parameter(torch.full((1,), float(alpha_init)))
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        z = self.alpha * x
        t = torch.tanh(z)
        return self.weight * t + self.bias


@program
class Derf(torch.nn.Module):
    def __init__(self, features, alpha_init=0.5):
        super().__init__()
        self.alpha = torch.nn.Parameter(torch.full((1,), float(alpha_init)))
        self.shift = torch.nn.Parameter(torch.zeros(1))
        self.weight = torch.nn.Parameter(torch.ones(features))
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        z = self.alpha * x + self.shift
        t = torch.erf(z)
        return self.weight * t + self.bias


@program
def replace_norms(model, make_layer, alpha_init=0.5):
    norms = torch.nn.LayerNorm, torch.nn.RMSNorm
    for name, module in model.named_children():
        if isinstance(module, norms):
            width = module.normalized_shape[0]
            layer = make_layer(width, alpha_init)
            if module.weight is not None:
                layer.weight = module.weight
            if getattr(module, "bias", None) is not None:
                layer.bias = module.bias
            setattr(model, name, layer)
        else:
            replace_norms(module, make_layer, alpha_init)
    return model


@program
def replace_norms_by_path(model, make_layer, alpha_init=0.5):
    norms = torch.nn.LayerNorm, torch.nn.RMSNorm
    for path, module in list(model.named_modules()):
        if isinstance(module, norms):
            width = module.normalized_shape[0]
            layer = make_layer(width, alpha_init)
            if module.weight is not None:
                layer.weight = module.weight
            if getattr(module, "bias", None) is not None:
                layer.bias = module.bias
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, layer)
    return model
