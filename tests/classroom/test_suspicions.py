"""What the text of a submission shows, without running it."""

import pytest

from classroom.suspicions import behind, ready_made, text_of, unusual
from normkit.tutor.by_hand import GRADIENTS, NORMS, OURS, VARIANCES

BY_HAND = (OURS, *NORMS, *GRADIENTS, *VARIANCES)
START = "import numpy as np\nimport normkit\nfrom normkit import check, diagnose\nimport torch"


def found(*cells, answer="answer"):
    return ready_made(text_of([START, *cells]), answer, BY_HAND)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (
            "def answer(x): return torch.nn.functional.layer_norm(x, (3,))",
            "torch.nn.functional.layer_norm",
        ),
        ("from torch.nn.functional import layer_norm as answer", "torch.nn.functional.layer_norm"),
        (
            "import torch.nn.functional as F\nanswer = F.layer_norm",
            "torch.nn.functional.layer_norm",
        ),
        ("class answer(torch.nn.LayerNorm): pass", "torch.nn.LayerNorm"),
        ("def helper(d): return torch.nn.LayerNorm(d)\nanswer = helper", "torch.nn.LayerNorm"),
        ("layer = torch.nn.LayerNorm(3)\ndef answer(x): return layer(x)", "torch.nn.LayerNorm"),
        ("def answer(x): return normkit.layer_norm(x)", "normkit.layer_norm"),
        ("answer = __import__('normkit').layer_norm", "normkit.layer_norm"),
        ("def answer(x): return np.var(x)", "numpy.var"),
        (
            "import torch.nn.functional as F\nimport math as F\nanswer = F.rms_norm",
            "torch.nn.functional.rms_norm",
        ),
        (
            "G = torch.nn.functional\nH = G\ndef answer(x): return H.layer_norm(x)",
            "torch.nn.functional.layer_norm",
        ),
        (
            "from torch.nn.functional import *\ndef answer(x): return layer_norm(x)",
            "torch.nn.functional.layer_norm",
        ),
        ("%time answer = torch.layer_norm", "torch.layer_norm"),
        ("%%capture\ndef answer(x): return torch.layer_norm(x)", "torch.layer_norm"),
        ("np.mean?\ndef answer(x): return torch.layer_norm(x)", "torch.layer_norm"),
        ("def answer(x, f=torch.layer_norm): return f(x)", "torch.layer_norm"),
        (
            "if True:\n    def answer(x):\n        return torch.autograd.grad(x)",
            "torch.autograd.grad",
        ),
    ],
)
def test_a_ready_made_function_is_found_however_it_is_named(code, name):
    assert found(code) == [name]
    assert found("answer = None", code.replace("answer", "other"), "answer = other") == [name]


@pytest.mark.parametrize(
    "code",
    [
        "def answer(x): return isinstance(x, torch.nn.LayerNorm)",
        "def answer(x): return x - np.mean(x)",
        "def answer(x): return layer_norm(x)\ndef layer_norm(x): return x",
        "def answer(x): return x\nprint(torch.nn.functional.layer_norm(torch.ones(3), (3,)))",
        "class answer(torch.nn.Module):\n    def forward(self, x): return x",
        "def answer(x): return x\ncheck(answer, 'layer_norm/forward')",
        "def answer(x:",
        "%timeit 1\n!ls\ndef answer(x): return x",
    ],
)
def test_what_is_allowed_is_not_found(code):
    assert found(code) == []


@pytest.mark.parametrize(
    "code",
    [
        "import gc",
        "from importlib import reload",
        "sys = __import__('sys'); sys.setprofile(None)",
        "import sys\nsys.modules['numpy'] = None",
        "import normkit.tutor.judging",
        "eval('1')",
        "ｅｖａｌ('1')",
        "np.allclose = print",
        "getattr(torch, 'layer' + '_norm')",
        "getattr(torch, 'layer_norm')",
        "setattr(normkit, 'check', print)",
        "torch.ops.aten.layer_norm",
        "torch.jit.script(print)",
        "(lambda: 0).__globals__",
        "np.testing.assert_allclose = print",
        "import threading",
        "x = 1\n" * 30_000,
        "G = np\nG.allclose = print",
    ],
)
def test_what_reaches_behind_the_watch_is_told(code):
    assert behind(text_of([START, code]))


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nprint('x', file=sys.stderr)",
        "import os\nos.path.join('a', 'b')",
        "class Layer(torch.nn.Module):\n    def __init__(self):\n        super().__init__()",
        "setattr(model, name, layer)",
        "getattr(self, f'norm{i}')",
        "getattr(child, 'bias', None)",
        "torch.backends.cudnn.deterministic = True",
        "from normkit.tutor.layer_norm.tasks import CHANGES",
        "torch.manual_seed(0)\nnp.set_printoptions(precision=3)",
        "model.eval()",
    ],
)
def test_ordinary_code_does_not(code):
    assert behind(text_of([START, code])) == []


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess",
        "check = print",
        "get_ipython().events",
        "class A(np.ndarray): pass",
        "!ls",
        "%run other.py",
    ],
)
def test_what_a_person_may_want_to_know_is_told(code):
    assert unusual(text_of([START, code]))
    plain = "import math, copy\n%matplotlib inline\n%time x = 1\nnp.mean?"
    assert unusual(text_of([START, plain])) == []
