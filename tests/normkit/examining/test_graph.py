"""Where norms stand, and which sums close a branch, read from the operators alone."""

import pytest
import torch
from torch import nn

from normkit.examining import examine
from tests.normkit.examining.broken import Block, Transformer, images, sequences


def places(model, *inputs):
    return {norm.path: norm.place for norm in examine(model, *inputs).norms}


def test_pre_norm_and_its_final_norm():
    found = places(Transformer(), sequences())
    assert found.pop("norm") == "final"
    assert set(found.values()) == {"pre"}


def test_post_norm_to_the_last():
    assert set(
        places(nn.Sequential(Block(16, "post"), Block(16, "post")), sequences()).values()
    ) == {"post"}


class Between(nn.Module):
    """One block, its norms where `order` says."""

    def __init__(self, order):
        super().__init__()
        self.first, self.second = nn.LayerNorm(16), nn.LayerNorm(16)
        self.inner, self.other = nn.Linear(16, 16), nn.Linear(16, 16)
        self.order = order

    def forward(self, x):
        if self.order == "olmo":
            x = x + self.first(self.inner(x))
            return x + self.second(self.other(x))
        if self.order == "peri":
            x = x + self.second(self.inner(self.first(x)))
            return x + self.other(x)
        if self.order == "parallel":
            h = self.first(x)
            x = x + self.inner(h) + self.other(h)
            return self.second(x)
        if self.order == "embedding":
            x = self.first(self.inner(x))
            return self.second(x + self.other(x))
        x = x + self.other(torch.tanh(self.first(self.inner(x))))
        return self.second(x[:, 0])


@pytest.mark.parametrize(
    "order, expected",
    [
        ("olmo", ("branch end", "branch end")),
        ("peri", ("pre", "branch end")),
        ("parallel", ("pre", "final")),
        ("embedding", ("start", "post")),
        ("inner", ("inside", "final")),
    ],
)
def test_other_orders(order, expected):
    assert tuple(places(Between(order), sequences()).values()) == expected


class Residual(nn.Module):
    """A residual block of ResNet's, its shortcut projected or not."""

    def __init__(self, c, d):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(c, d, 3, padding=1, bias=False), nn.BatchNorm2d(d)
        self.conv2, self.norm2 = nn.Conv2d(d, d, 3, padding=1, bias=False), nn.BatchNorm2d(d)
        projected = nn.Sequential(nn.Conv2d(c, d, 1, bias=False), nn.BatchNorm2d(d))
        self.short = nn.Identity() if c == d else projected

    def forward(self, x):
        h = torch.relu_(self.norm1(self.conv1(x)))
        h = self.norm2(self.conv2(h))
        h += self.short(x)
        return torch.relu_(h)


def test_branches_of_a_convolutional_network_end_in_norms_projected_shortcut_or_not():
    found = places(nn.Sequential(nn.Conv2d(3, 8, 3), Residual(8, 8), Residual(8, 12)), images())
    assert found == {
        "1.norm1": "inside",
        "1.norm2": "branch end",
        "2.norm1": "inside",
        "2.norm2": "branch end",
        "2.short.1": "branch end",
    }


def test_a_norm_that_is_not_called_has_no_place():
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    model[1].norm = nn.LayerNorm(16)
    assert places(model, sequences()) == {"1.norm": None}
