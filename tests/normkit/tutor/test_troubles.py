"""What exceptions mean, raised as students raise them by the libraries that are installed."""

import re
import string
from collections import namedtuple

import numpy as np
import pytest
import torch

from normkit.tutor import troubles
from normkit.tutor.states import new
from normkit.tutor.troubles import COMMON, meaning

x, t = np.ones((2, 3)), torch.ones(2, 3, requires_grad=True)


Chunk = namedtuple("Chunk", "n")


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.weight


class Bare(torch.nn.Module):
    def __init__(self):
        self.weight = torch.nn.Parameter(torch.ones(3))


class NoForward(torch.nn.Module):
    """A layer whose forward is misspelt."""


class Replaced(Scale):
    def forward(self, x):
        self.weight = x


def in_place():
    t.mul_(2)


def endless():
    return endless()


def unset():
    if t is None:
        value = 1
    return value


RAISED = {
    "FIT": [lambda: x + np.ones(2), lambda: t + torch.ones(2)],
    "OUTSIDE": [lambda: x.mean(axis=2)],
    "INSIDE": [lambda: t.mean(dim=2)],
    "ARGUMENT": [lambda: x.mean(keepdim=True)],
    "INDEX": [lambda: x[2]],
    "EMPTY": [lambda: x[:, 3:][0, 0], lambda: t[:0][0]],
    "INDICES": [lambda: x[0, 0, 0]],
    "LISTED": [lambda: [1][1]],
    "HOLDER": [lambda: torch.nn.ModuleList([Scale()])(t)],
    "FORWARD": [lambda: NoForward()(t)],
    "PARAMETER": [lambda: Replaced()(t)],
    "LIST": [lambda: [1.0].mean(), lambda: (1.0).shape],
    "SEQUENCE": [lambda: [1, 2] * 0.5],
    "NOTHING": [lambda: None + 1, lambda: None.shape],
    "NAME": [lambda: meean(x)],  # noqa: F821
    "UNSET": [unset],
    "HEAD": [lambda: unset(1), lambda: Scale(3)],
    "COMBINATION": [lambda: t.var(-1, ddof=0)],
    "RECORDED": [lambda: np.sqrt(t)],
    "SLICE": [lambda: x[: np.ceil(1.5)]],
    "AXES": [lambda: x.mean(axis=[0, 1])],
    "POWER": [lambda: x ^ 2, lambda: 1.5 ^ 2],
    "DATATYPE": [lambda: x.mean(-1, True)],
    "BRACKETS": [lambda: x - x.mean, lambda: 1 - np.mean],
    "OPERANDS": [lambda: 1 + "1"],
    "ZERO": [lambda: 1 / 0],
    "ENDLESS": [endless],
    "WHOLE": [lambda: np.ones(2, int).__isub__(0.5)],
    "INIT": [Bare],
    "ATTRIBUTES": [lambda: x.float(), lambda: t.astype(float)],
    "OBJECT": [lambda: new(Scale(), 3)],
    "METHOD": [lambda: np.mean.__get__(x).var, lambda: endless.shape],
    "UNPACK": [lambda: [0 for n, d in [x.shape[:1]]], lambda: [0 for n, d in [1]]],
    "TENSOR": [lambda: torch.mean(x), lambda: torch.cat([x])],
    "PLACES": [lambda: [x[i] for i in x[0]]],
    "BUILTIN": [lambda: sum(x, axis=0), lambda: max(x, keepdims=True)],
    "FIXED": [lambda: setattr(slice(1), "start", 2), lambda: setattr(Chunk(1), "n", 2)],
    "ONE_INDEX": [lambda: x.tolist()[0, 0]],
    "JOINED": [lambda: [1] + 1],
    "NUMBER": [lambda: range(3 / 1), lambda: np.zeros(4 / 2)],
    "ATTRIBUTE": [lambda: Scale().bias],
    "MODULE": [lambda: torch.asarrays, lambda: np.rsqrt],
    "KEYS": [lambda: Scale().load_state_dict({"weight": torch.ones(3), "bias": torch.ones(3)})],
    "SIZE": [lambda: Scale().load_state_dict({"weight": torch.ones(2)})],
    "LEAF": [in_place],
    "GRAPH": [lambda: t.detach().sum().backward()],
    "PRODUCT": [lambda: t @ t],
    "DTYPES": [lambda: t @ torch.ones(3, 2, dtype=torch.float64)],
    "SINGLE": [lambda: float(x), lambda: t.item()],
    "TRUTH": [lambda: bool(x == 1), lambda: bool(t == 1)],
    "RESHAPE": [lambda: x.reshape(4), lambda: t.view(4)],
    "INTEGERS": [lambda: torch.ones(2, dtype=torch.int64).mean()],
    "CALL": [lambda: x(3), lambda: np.float64(2)(x)],
    "SUBSCRIPT": [lambda: np.mean[0]],
    "KEY": [lambda: {}["weight"]],
    "INSTALL": [lambda: __import__("tensorflow_of_nobody")],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "raises"), [(name, each) for name, every in RAISED.items() for each in every]
)
def test_the_sentence_fits_the_exception(name, raises):
    with pytest.raises(Exception) as caught:
        raises()
    told = meaning(f"{caught.type.__name__}: {caught.value}", str, own=name != "HEAD")
    fields = string.Formatter().parse(getattr(troubles, name))
    pattern = "".join(re.escape(text) + ".+" * (field is not None) for text, field, *_ in fields)
    assert re.fullmatch(pattern, told, re.DOTALL), told or f"{caught.type.__name__}: {caught.value}"


def test_a_call_of_the_students_own_is_told_from_a_changed_head():
    error = "TypeError: f() takes 1 positional argument but 2 were given"
    assert meaning(error, str) == troubles.HEAD
    assert meaning(error, str, own=True) == troubles.CALLED


def test_a_result_handed_in_for_a_function_is_told_from_a_missing_operator():
    error = "TypeError: 'float' object is not callable"
    assert meaning(error, str).startswith("float cannot be called. Hand in a function")
    assert "operator or a comma" in meaning(error, str, own=True)


def test_what_is_not_usual_is_left_to_itself():
    assert meaning("OSError: [Errno 28] No space left on device", str) == ""


def test_every_sentence_is_tried():
    tried = {getattr(troubles, name) for name in RAISED}
    left = {sentence for _pattern, sentence in COMMON} - tried
    assert left == {troubles.LAYER, troubles.ASSERTED}
