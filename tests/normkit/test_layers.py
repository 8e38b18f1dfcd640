"""LayerNorm, the torch layer: interchangeable with torch's."""

import subprocess
import sys

import pytest
import torch

import normkit
from normkit import LayerNorm

OPTIONS = [{}, {"eps": 0.1}, {"bias": False}, {"elementwise_affine": False}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shape", [5, (5,), [4, 5], torch.Size([3, 4, 5])])
def test_the_same_as_torch(shape, options):
    ours, theirs = LayerNorm(shape, **options), torch.nn.LayerNorm(shape, **options)
    assert repr(ours) == repr(theirs)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(ours(x), theirs(x))


def test_weights_travel_both_ways():
    ours, theirs = LayerNorm((4, 5)), torch.nn.LayerNorm((4, 5))
    x = torch.randn(3, 4, 5)
    torch.nn.init.normal_(theirs.weight)
    torch.nn.init.normal_(theirs.bias)
    ours.load_state_dict(theirs.state_dict())
    assert torch.equal(ours(x), theirs(x))
    fresh = torch.nn.LayerNorm((4, 5))
    fresh.load_state_dict(ours.state_dict())
    assert torch.equal(fresh(x), ours(x))


def test_the_layer_is_the_function():
    layer = LayerNorm(7, eps=1e-3, dtype=torch.float64)
    torch.nn.init.normal_(layer.weight)
    x = torch.randn(2, 3, 7, dtype=torch.float64)
    y = normkit.layer_norm(x, layer.weight, layer.bias, 1e-3)
    torch.testing.assert_close(layer(x), y)


def test_it_moves_and_resets():
    layer = LayerNorm(4).to(torch.bfloat16)
    assert layer(torch.ones(2, 4, dtype=torch.bfloat16)).dtype == torch.bfloat16
    torch.nn.init.zeros_(layer.weight)
    layer.reset_parameters()
    assert layer.weight.eq(1).all() and layer.bias.eq(0).all()
    assert LayerNorm(4, device="meta").weight.device.type == "meta"


def test_a_wrong_width_is_refused_as_torch_does():
    with pytest.raises(RuntimeError, match="normalized_shape"):
        LayerNorm(4)(torch.ones(2, 3))


def test_normkit_alone_does_not_import_torch():
    code = "import sys, normkit; sys.exit('torch' in sys.modules or 'jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'LayerNrom'"):
        normkit.LayerNrom  # noqa: B018
