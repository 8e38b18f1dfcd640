"""What the text of a submission shows, without running it."""

from pathlib import Path

import pytest

from classroom.planting import CALL
from classroom.suspicions import behind, ready_made, text_of, unusual
from normkit.tutor.by_hand import GRADIENTS, NORMS, OURS, VARIANCES
from normkit.tutor.tasks import find
from press.run import read

SOLUTIONS = Path(__file__).parents[2] / "solutions"

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
        "from normkit.tutor.states import sys",
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
        "e = eval\ne('1')",
        "import inspect\ninspect.currentframe().f_back",
        "getattr(frame, 'f_locals')",
        "list(map(getattr, [torch], ['layer_norm']))",
        "__builtins__['eval']",
        "operator.attrgetter('__globals__')",
        "import sys\nsys.exc_info()[2].tb_frame",
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
        "from normkit.tutor.states import run, state",
        "torch.manual_seed(0)\nnp.set_printoptions(precision=3)",
        "model.eval()",
        "import sys\nprint(torch.__version__, np.__version__, sys.version, type(1).__name__)",
        "class Layer(torch.nn.Module):\n    def __call__(self, x): return x",
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


@pytest.mark.parametrize("path", sorted(SOLUTIONS.glob("*.md")), ids=lambda path: path.stem)
def test_nothing_is_told_of_the_assignments_themselves_and_their_right_answers(path):
    cells = [c for c in read(path).cells if c.cell_type == "code"]
    own = [c.source for c in cells if not c.metadata.get("nbgrader", {}).get("grade")]
    text = text_of(own)
    assert behind(text) == [] and unusual(text) == []
    for cell in cells:
        for _call, names, task, _seed in CALL.findall(cell.source):
            assert ready_made(text, names, find(task).by_hand) == []


LENT = """
import torch
norm = torch.nn.LayerNorm(3)
x = norm
"""


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("def forward(x):\n    return x - x.mean()", False),
        ("forward = lambda x, *, y: x - y", False),
        ("def forward(y):\n    return x(y)", True),
        ("def forward(y, x=x):\n    return x(y)", True),
        ("def forward(y, *, x=x):\n    return x(y)", True),
        ("@x\ndef forward(x):\n    return x", True),
        ("def forward(y):\n    def inner(x):\n        return x\n    return x(y)", True),
        ("def forward(y):\n    x = y\n    return x - x.mean()", False),
        ("def forward(y):\n    global x\n    x = x(y)\n    return x", True),
        ("def make():\n    global forward\n    forward = x\nmake()", True),
        ("def forward(y):\n    z = x\n    return z(y)", True),
        ("def forward(y):\n    def inner():\n        x = 1\n    return x(y)", True),
        ("def forward(y):\n    [0 for x in ()]\n    return x(y)", True),
        ("def forward(y):\n    class A:\n        x = 1\n    return x(y)", True),
        ("def forward(y, g=lambda x: 0):\n    return x(y)", True),
        ("def other():\n    z = x\ndef forward(y):\n    return z(y)", False),
        ("class forward:\n    def __call__(self, y):\n        return x(y)", True),
    ],
)
def test_a_parameter_is_not_the_variable_of_its_name(answer, found):
    text = text_of([LENT, answer])
    assert bool(ready_made(text, "forward", ["torch.nn.LayerNorm"])) == found
