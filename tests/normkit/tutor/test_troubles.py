"""What exceptions mean, raised as students raise them by the libraries that are installed."""

import re
import string
from collections import namedtuple

import numpy as np
import pytest
import torch

import normkit
from normkit.tutor import troubles
from normkit.tutor.observing import _describe, _raised_in
from normkit.tutor.states import new
from normkit.tutor.tasks import by_name
from normkit.tutor.troubles import COMMON, meaning

leaf = torch.ones(2, requires_grad=True)
leaf.sum().backward()
x, t = np.ones((2, 3)), torch.ones(2, 3, requires_grad=True)
eps = 1e-5


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


class Misspelt(torch.nn.Module):
    def _init_(self, features, eps=1e-5):
        self.features = features


class PlainMisspelt:
    def _init_(self, features):
        self.features = features


class Unrelated:
    def __init__(self):
        self.register_buffer("running_mean", t)


class WithFeatures(torch.nn.Module):
    def __init__(self):
        super().__init__(3)


class Registered(torch.nn.Module):
    def __init__(self, value, twice=False):
        super().__init__()
        if twice:
            self.running_mean = 0
        self.register_buffer("running_mean", value)

    def exchanged(self):
        self.register_buffer(t, "running_mean")

    def slip(self):
        self.register_bufer("running_var", t)

    def borrow(self):
        self.weight = self.Parameter(t)


class OfNothing(torch.nn.Module):
    def forward(self, x):
        return super().forward(x)


class Replaced(Scale):
    def forward(self, x):
        self.weight = x


class Keeping(Scale):
    def forget(self):
        return weight  # noqa: F821

    def misspell(self):
        return mean(self.weight)  # noqa: F821

    def unset(self):
        return self.zzzzzz

    def call(self):
        return self.zzzzzz(1)

    def make(self):
        self.weight = self.add_weight(shape=(3,), initializer="ones")


def in_place():
    t.mul_(2)


def parted(values):
    n, d = values
    return n + d


def assigned():
    x.copy()[0] = x


def changed():
    shape = x.shape
    shape[0] = 1


def shadowed():
    endless = endless(x)  # noqa: F823
    return endless


def endless():
    return endless()


def unset():
    if t is None:
        value = 1
    return value


RAISED = {
    "FIT": [lambda: x + np.ones(2), lambda: t + torch.ones(2)],
    "GROWN": [lambda: x[0].__imul__(x), lambda: torch.ones(3).mul_(t)],
    "ASSIGNED": [assigned],
    "OUTSIDE": [lambda: x.mean(axis=2)],
    "INSIDE": [lambda: t.mean(dim=2)],
    "ARGUMENT": [lambda: x.mean(keepdim=True)],
    "INIT_ARGUMENT": [lambda: Misspelt(eps=0.1)],
    "INIT_NONE": [lambda: Misspelt(3), lambda: NoForward(3), lambda: Scale(3)],
    "NO_INIT": [lambda: PlainMisspelt(3)],
    "SUPER": [WithFeatures],
    "MADE_FIRST": [lambda: torch.nn.Tanh(t), lambda: torch.nn.MSELoss(t, t)],
    "NO_ARGUMENT": [lambda: endless(keep=True), lambda: t.mean(-1, keep=True)],
    "INDEX": [lambda: x[2]],
    "ONLY_INDEX": [lambda: x[:1][1], lambda: t[:1][1]],
    "EMPTY": [lambda: x[:, 3:][0, 0], lambda: t[:0][0]],
    "MASK": [lambda: x[np.ones(3, bool)]],
    "INDICES": [lambda: x[0, 0, 0]],
    "LISTED": [lambda: [1][1], lambda: (1,)[1], lambda: torch.nn.ModuleList()[1]],
    "SHAPE": [lambda: x.shape[2], lambda: t.shape[2]],
    "LAYER": [lambda: torch.nn.ModuleList([1])],
    "WRAPPED": [lambda: Scale().register_parameter("bias", torch.ones(3))],
    "MADE_OF": [lambda: torch.nn.Parameter(0.5), lambda: torch.nn.Parameter(x)],
    "LENGTH": [lambda: torch.Tensor(0.5)],
    "INSIDE_LAYER": [
        lambda: torch.nn.init.xavier_normal_(Scale()),
        lambda: torch.nn.init.zeros_(Scale()),
        lambda: t.mul(Scale()),
        lambda: torch.nn.functional.linear(torch.nn.SiLU(t), t),
    ],
    "CHILDREN": [lambda: list(Scale()), lambda: len(Scale()), lambda: Scale()[0]],
    "HOLDER": [lambda: torch.nn.ModuleList([Scale()])(t)],
    "FORWARD": [lambda: NoForward()(t)],
    "INHERITED": [lambda: OfNothing()(t)],
    "BUFFER": [lambda: Registered(0), lambda: Registered(x)],
    "BUFFER_NAME": [lambda: Registered(t).exchanged()],
    "TWICE": [lambda: Registered(t, twice=True)],
    "NO_MODULE": [Unrelated, lambda: PlainMisspelt().state_dict()],
    "REGISTERED": [Keeping().make],
    "PARAMETER": [lambda: Replaced()(t)],
    "LIST": [lambda: [1.0].mean(), lambda: (1.0).shape],
    "APPENDING": [lambda: x.append(1), lambda: t.append(1)],
    "SEQUENCE": [lambda: [1, 2] * 0.5, lambda: "n" * 0.5],
    "DICTIONARY": [lambda: {}.append(1), lambda: {"encoder": 1}.encoder],
    "PLAIN": [lambda: t.sum().item().backward()],
    "NOTHING": [lambda: None + 1, lambda: None.shape],
    "NAME": [lambda: zzzzzz(x)],  # noqa: F821
    "MEANT": [lambda: mean(x), lambda: in_plaice(), Keeping().forget, Keeping().misspell],  # noqa: F821
    "SELF": [lambda: self.eps],  # noqa: F821
    "UNSET": [unset],
    "SHADOWED": [shadowed],
    "HEAD": [lambda: unset(1), Registered],
    "COMBINATION": [lambda: t.var(-1, ddof=0)],
    "LIKE": [lambda: torch.ones_like(3), lambda: torch.zeros_like(3.0)],
    "RECORDED": [lambda: np.sqrt(t)],
    "SLICE": [lambda: x[: np.ceil(1.5)]],
    "AXES": [lambda: x.mean(axis=[0, 1]), lambda: x.mean(axis={0, 1})],
    "AXES_INSIDE": [
        lambda: x.mean(axis=(0, (1,))),
        lambda: np.concatenate((x, x), axis=(0,)),
        lambda: t.mean(dim=(0, (1,))),
        lambda: t.mean(dim=[[0]], keepdim=True),
    ],
    "LENGTHS": [
        lambda: x.reshape(x.shape, 1),
        lambda: x.reshape((-1, [1] * 2)),
        lambda: np.zeros((2, x.shape)),
        lambda: t.reshape((t.shape, 1)),
        lambda: t.view(t.shape, 1),
    ],
    "STRING": [lambda: x.mean(axis="0")],
    "PACKED": [lambda: np.stack(x, x), lambda: np.concatenate(x, x)],
    "STRINGS": [lambda: "x: " + 1, lambda: "x: " + x],
    "RESULT": [lambda: np.sqrt(x, 1e-5)],
    "MODULE_MET": [lambda: x / np],
    "POWER": [lambda: x ^ 2, lambda: 1.5 ^ 2],
    "DATATYPE": [lambda: x.mean(-1, True)],
    "ZEROS": [lambda: np.zeros(2, 3), lambda: np.ones(2, len(x))],
    "VIEW": [lambda: x.view((1, 6)), lambda: x.view(1, 6)],
    "BRACKETS": [
        lambda: x - x.mean,
        lambda: 1 - np.mean,
        lambda: torch.sqrt(x.mean),
        lambda: range(t.dim),
        lambda: len(t.size),
        lambda: list(Scale().modules),
    ],
    "OPERANDS": [lambda: 1 + "1"],
    "ZERO": [lambda: 1 / 0, lambda: 0 ** (-1 / 4)],
    "ENDLESS": [endless],
    "WHOLE": [lambda: np.ones(2, int).__isub__(0.5)],
    "INIT": [Bare],
    "ATTRIBUTES": [lambda: x.float(), lambda: t.astype(float)],
    "OBJECT": [lambda: new(Scale(), 3)],
    "METHOD": [lambda: np.mean.__get__(x).var, lambda: endless.shape],
    "LOOPED": [lambda: [0 for i, j in x], lambda: [0 for i, j in range(2)]],
    "UNPACK": [lambda: parted(x.shape[:1]), lambda: parted(1)],
    "TENSOR": [lambda: torch.mean(x), lambda: torch.cat([x]), lambda: torch.var(x, dim=-1)],
    "PREDICTED": [lambda: by_name([1], ["a"])],
    "RENAMED": [lambda: by_name({"b": 1}, ["a"])],
    "PAIRS": [lambda: [0 for name, layer in torch.nn.Sequential(Scale()).children()]],
    "CLASSES": [lambda: isinstance(t, [int, float])],
    "EINSUM": [lambda: np.einsum("nchw->c", x), lambda: np.einsum("c->c", x)],
    "EINSUM_KEPT": [lambda: np.einsum("...c->c", x), lambda: np.einsum("...c,...c->c", x, x)],
    "TRANSPOSED": [lambda: x.transpose(0, 2, 1)],
    "COUNTED": [lambda: list(3), lambda: sum(3.0)],
    "ENTRY": [lambda: range(x.shape)],
    "PLACES": [lambda: [x[i] for i in x[0]]],
    "BUILTIN": [lambda: sum(x, axis=0), lambda: max(x, keepdims=True)],
    "ROUND": [lambda: round(x), lambda: round(np.ones((2, 1)))],
    "UNCHANGING": [changed],
    "LENGTHLESS": [lambda: len(3), lambda: len(x.sum())],
    "COUNTING": [lambda: range(torch.nn.ModuleList()), lambda: range({})],
    "NO_COUNT": [lambda: range(torch.nn.LayerNorm(3)), lambda: range(torch.nn.Linear(3, 2))],
    "FIXED": [lambda: setattr(slice(1), "start", 2), lambda: setattr(Chunk(1), "n", 2)],
    "PARTS": [lambda: Chunk(1)["n"], lambda: x.shape["features"]],
    "ONE_INDEX": [lambda: x.tolist()[0, 0]],
    "JOINED": [lambda: [1] + 1, lambda: (1,) + 1, lambda: 0 + (1,)],
    "UNLIKE": [lambda: (1,) + [1], lambda: (0,) + range(2), lambda: range(2) + (0,)],  # noqa: RUF005
    "NUMBER": [lambda: range(3 / 1), lambda: np.zeros(4 / 2), lambda: x.mean(axis=1.0)],
    "UNMADE": [Keeping().call],
    "ASKED": [lambda: Scale().running_mean],
    "ATTRIBUTE": [Keeping().unset],
    "OTHER": [
        lambda: Chunk(1).N,
        lambda: Scale().weigth,
        lambda: x.Shape,
        lambda: np.squrt,
        lambda: [].apend,
        Registered(t).slip,
        Registered(t).borrow,
    ],
    "LACKING": [lambda: Scale().zzzzzz, lambda: Chunk(1).zzzzzz],
    "MODULE": [lambda: torch.expand_dims, lambda: np.rsqrt],
    "KEYS": [lambda: Scale().load_state_dict({"weight": torch.ones(3), "bias": torch.ones(3)})],
    "SIZE": [lambda: Scale().load_state_dict({"weight": torch.ones(2)})],
    "LEAF": [in_place],
    "NEEDED": [lambda: (e := t.exp()).mul_(2) is e and e.sum().backward()],
    "FAN": [lambda: torch.nn.init.xavier_normal_(torch.ones(3))],
    "ALIGNED": [
        lambda: x @ x,
        lambda: np.dot(x, x),
        lambda: x @ 3,
        lambda: t @ torch.ones(2),
    ],
    "AGAIN": [lambda: (y := t.exp().sum()).backward() or y.backward()],
    "STARTED": [lambda: t.exp().backward()],
    "GRAPH": [lambda: t.detach().sum().backward()],
    "PRODUCT": [lambda: t @ t],
    "DTYPES": [lambda: t @ torch.ones(3, 2, dtype=torch.float64)],
    "MADE_ANEW": [lambda: torch.nn.LayerNorm(3)(torch.ones(2, 3, dtype=torch.float64))],
    "IN_ORDER": [lambda: normkit.layer_norm(x, eps)],
    "SIZES": [lambda: torch.full(1, 0.5), lambda: torch.ones(t)],
    "SPLIT": [lambda: np.split(x, 3), lambda: np.split(np.ones((1, 9)), 2, axis=1)],
    "UNEVEN": [lambda: np.asarray((x, x[0])), lambda: np.testing.assert_allclose((x, x[0]), x)],
    "SINGLE": [lambda: float(x), lambda: t.item()],
    "TRUTH": [lambda: bool(x == 1), lambda: bool(t == 1)],
    "SHARED_OUT": [lambda: x.reshape(4, -1), lambda: t.view(4, -1)],
    "WIDTH": [lambda: torch.nn.LayerNorm(2)(t)],
    "RESHAPE": [lambda: x.reshape(4), lambda: t.view(4)],
    "INTEGERS": [lambda: torch.ones(2, dtype=torch.int64).mean()],
    "CALL": [lambda: x(3), lambda: np.float64(2)(x)],
    "ATTRIBUTE_CALLED": [
        lambda: x.shape(),
        lambda: x.ndim(),
        lambda: t.shape(),
        lambda: leaf.grad(),
    ],
    "MODULE_CALLED": [lambda: torch.nn.parameter(t)],
    "SUBSCRIPT": [lambda: np.mean[0]],
    "KEY": [lambda: {}["weight"]],
    "INSTALL": [lambda: __import__("tensorflow_of_nobody")],
}


HANDED_IN = (
    "HEAD",
    "ASKED",
    "INIT_ARGUMENT",
    "INIT_NONE",
    "NO_INIT",
    "KEYS",
)  # no line of the answer raises them


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "raises"), [(name, each) for name, every in RAISED.items() for each in every]
)
def test_the_sentence_fits_the_exception(name, raises):
    with pytest.raises(Exception) as caught:
        raises()
    line, _shapes, meant = _raised_in(caught.value)
    told = meaning(_describe(caught.value), str, "" if name in HANDED_IN else line, meant)
    fields = string.Formatter().parse(getattr(troubles, name))
    pattern = "".join(re.escape(text) + ".+" * (field is not None) for text, field, *_ in fields)
    assert re.fullmatch(pattern, told, re.DOTALL), told or f"{caught.type.__name__}: {caught.value}"


def test_a_call_of_the_students_own_is_told_from_a_changed_head():
    error = "TypeError: f() takes 1 positional argument but 2 were given"
    assert meaning(error, str) == troubles.HEAD
    assert meaning(error, str, "f(1, 2)") == troubles.CALLED


def test_weights_that_the_answer_loads_are_told_from_those_of_the_check():
    error = 'RuntimeError: Missing key(s) in state_dict: "alpha".'
    assert "strict=False" not in meaning(error, str)
    told = meaning(error, str, "layer.load_state_dict(norm.state_dict())")
    assert 'only one of the two has "alpha"' in told and "strict=False" in told


def test_a_result_handed_in_for_a_function_is_told_from_a_missing_operator():
    error = "TypeError: 'float' object is not callable"
    assert meaning(error, str).startswith("float cannot be called. Hand in a function")
    assert "an operator, a comma" in meaning(error, str, "x(1)")


def test_a_layer_that_has_no_forward_is_told_from_one_that_calls_that_of_module():
    error = 'NotImplementedError: Module [Norm] is missing the required "forward" function'
    assert meaning(error, str).startswith("The layer Norm has no forward")
    assert meaning(error, str, "y = self.norm(x)").startswith("The layer Norm has no forward")
    error = "AttributeError: 'Norm' object has no attribute 'forward'"  # without PyTorch
    assert meaning(error, str).startswith("The layer Norm has no forward")


INTEGER = "TypeError: 'list' object cannot be interpreted as an integer"


@pytest.mark.parametrize(
    ("error", "line", "sentence"),
    [
        ("local variable 'm' referenced before assignment", "m = a.m() - m", troubles.UNSET),
        (INTEGER, "m = x.mean(axes)", troubles.AXES),
        (INTEGER, "m = x.mean(axes).reshape(shape)", troubles.AXES),
        ("TypeError: 'X' object is not callable", "jax.grad(f(x))(x)", troubles.CALL),
        ("__init__() takes 1 positional argument but 2 were given", "A(3)", troubles.CALLED),
        ("TypeError: cannot unpack non-iterable Linear object", "q, k = layer", troubles.UNPACK),
        ("ValueError: not enough values to unpack", "for i in r: n, d = x.shape", troubles.UNPACK),
    ],
)
def test_in_another_line_another_sentence(error, line, sentence):
    known = {"m", "list", "X"}
    assert meaning(error, str, line) in {sentence.format(name) for name in known}


def test_what_is_not_usual_is_left_to_itself():
    assert meaning("OSError: [Errno 28] No space left on device", str) == ""


def test_every_sentence_is_tried():
    tried = {getattr(troubles, name) for name in RAISED}
    left = {sentence for _pattern, sentence in COMMON} - tried
    assert left == {troubles.ASSERTED}
