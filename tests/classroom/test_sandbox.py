"""What a submission can see and do in the sandbox."""

import base64
import importlib
import pickle
import socket
import subprocess
import sys
from itertools import filterfalse

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from classroom import sandbox
from classroom.sandbox import MOST, Running, Sandbox, SandboxError, Work, view
from classroom.trial import ROOT
from normkit.tutor.observing import Observation
from normkit.tutor.tasks import find

pytestmark = pytest.mark.needs("bubblewrap")


def run(box, *cells, view="layer_norm", **others):
    """What the cells of a submission print and show, joined."""
    work = Work(view, list(enumerate(cells)), {}, pickle.dumps({}), **others)
    with box.run(work) as running:
        return list(running)


def said(box, *cells, **others):
    messages = [m for m in run(box, *cells, **others) if "outputs" in m]
    outputs = [output for message in messages for output in message["outputs"]]
    return "".join(o.get("text", o.get("evalue", str(o.get("data", "")))) for o in outputs)


def test_it_sees_python_and_nothing_of_the_course(box, tmp_path):
    (tmp_path / "gradebook.db").touch()
    course = str(tmp_path), str(sandbox.PACKAGE.parent / "solutions")
    for path in (*course, "/inside/warm.py", "/views/whole", "/proc/self"):
        assert said(box, f"import os\nprint(os.path.exists({path!r}))") == "False\n"


def test_it_sees_no_judge_and_no_reference(box):
    for name in ("functions", "tutor.judging", "tutor.mistakes", "tutor.layer_norm.programs"):
        assert "No module named" in said(box, f"import normkit.{name}")
    assert said(box, "import normkit.tutor.layer_norm.tasks") == ""
    assert said(box, "import normkit.functions", view="rms_norm") == ""


def test_it_has_no_rights(box):
    seen = said(box, "import os\nprint(os.getpid(), os.getuid(), os.getppid())")
    assert seen == "1 65534 0\n"
    for attempt in ("os.fork()", "os.execv('/bin/true', ['true'])", "os.mkdir('/course/x')"):
        assert "Errno" in said(box, f"import os\n{attempt}")
    assert "Operation not permitted" in said(box, "import socket\nsocket.socket()")


def test_it_writes_nowhere_else(box):
    for place in ("", "/course", "/usr", "/etc", "/views", "/dev", sys.prefix):
        assert "Errno" in said(box, f"open('{place}/x', 'w')"), place


@pytest.mark.parametrize("place", ["/home/ada", "/tmp/course"])
def test_python_may_lie_where_others_have_their_own(monkeypatch, place):
    monkeypatch.setattr(sandbox, "readable", lambda: ["/usr", f"{place}/.venv"])
    assert not any(place.startswith(own) for own in sandbox.private())
    assert sandbox.HOME in sandbox.private()


def test_its_files_go_with_it(box):
    listed = "import os\nprint([os.listdir(place) for place in ('.', '/dev/shm')])"
    made = "for place in ('.', '/dev/shm'):\n    open(f'{place}/a', 'w').close()"
    assert said(box, made, listed) == "[['a'], ['a']]\n"
    assert said(box, listed) == "[[], []]\n"


def test_its_memory_and_disk_are_limited(box):
    assert "MemoryError" in str(run(box, "x = bytearray(10**10)"))
    assert "No space left" in said(
        box, "for i in range(9):\n    open(f'{i}', 'wb').write(b'x' * 10**7)"
    )


def test_a_cell_is_stopped_and_those_after_it_run(box):
    first, second = (m for m in run(box, "while True: pass", "2 + 3", seconds=1) if "cell" in m)
    assert first["stopped"] and not second["stopped"]
    assert second["outputs"][0]["data"]["text/plain"] == "5"


def test_where_the_process_ends_what_came_before_stays(box):
    messages = run(box, "1", "import os\nos._exit(0)", "3")
    assert [message["cell"] for message in messages if "cell" in message] == [0]


def test_the_same_notebook_draws_the_same_numbers(box):
    draw = "import random, torch\nprint(random.random(), np.random.rand(), torch.rand(1).item())"
    drawn = [said(box, f"import numpy as np\n{draw}", seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_picture_and_a_value_are_kept(box):
    (shown,) = run(box, "from IPython.display import Image\nImage(data=b'x', format='png')")[0][
        "outputs"
    ]
    assert set(shown["data"]) == {"image/png", "text/plain"}


def test_what_the_package_offers_here_is_watched(box):
    """The warm process, which sees less of the package, remembers nothing of it."""
    by_a_name = "import normkit\ndef answer(*given):\n    return getattr(normkit, name)(*given)"
    name = "name = 'rms_' + 'norm'"
    task = "rms_norm/forward"
    probes = pickle.dumps({(task, "secret"): find(task).draw(0)})
    work = Work("rms_norm", [(0, f"{name}\n{by_a_name}")], {0: [("answer", task)]}, probes)
    with box.run(work) as running:
        message = next(m for m in running if "secret" in m)
        seen = Observation.from_bytes(base64.b64decode(message["secret"]))
        running.say(False)
    assert seen.ready_made == ["normkit.rms_norm"]


def test_a_student_who_reads_code_is_seen(box):
    read = "def f(): pass\ngetattr(f, '__co' + 'de__')"
    assert {"seen": "object.__getattr__"} in run(box, read)
    assert not [m for m in run(box, "def f(): pass\nf()") if "seen" in m]


def test_cells_without_magics_are_as_ipython_makes_them(monkeypatch):
    """They are not taken apart, for speed; nor are they compiled to see that they await nothing."""
    monkeypatch.syspath_prepend(sandbox.INSIDE)
    cells = importlib.import_module("cells")
    shell = InteractiveShell()
    for notebook in (ROOT / "exercises").rglob("*.ipynb"):
        sources = [c.source for c in nbformat.read(notebook, 4).cells if c.cell_type == "code"]
        assert not any(cells.AWAITS.search(source) for source in sources)
        for source in filterfalse(cells.MAGIC.search, sources):
            assert shell.transform_cell(source) == source.rstrip("\n") + "\n"


@pytest.mark.parametrize(
    "cell",
    [
        "import asyncio\nawait asyncio.sleep(0)\nprint(5)",
        "x = %time 5\nprint(5)",
        ">>> print(5)",
        "  print(5)",
        "\n\nprint(5)\n\n",
        "print(5) # why?",
    ],
)
def test_magics_prompts_and_await_work(box, cell):
    assert said(box, cell).endswith("5\n")


def test_files_come_only_if_they_are_given(box):
    assert said(box, "print(open('data.csv').read())", files={"data.csv": b"1,2"}) == "1,2\n"


def test_a_sandbox_that_is_closed_leaves_no_process():
    box = Sandbox()
    inside = box.process.pid
    box.close()
    children = subprocess.run(["ps", "--ppid", str(inside)], capture_output=True, check=False)
    assert children.returncode == 1


def test_what_is_missing_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match="apt install bubblewrap"):
        Sandbox()


def test_views_hold_the_first_half_of_the_tasks_alone(tmp_path):
    view("layer_norm", tmp_path)
    names = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.py")}
    assert "normkit/tutor/layer_norm/tasks.py" in names
    assert not [
        n for n in names if any(w in n for w in ("judging", "mistakes", "programs", "functions"))
    ]


def test_a_sandbox_that_cannot_make_namespaces_says_so_before_anybody_is_graded(monkeypatch):
    denied = sandbox.bubblewrap

    def command(folder):
        found = denied(folder)
        at = found.index("--unshare-all")
        return [*found[: at + 1], "--unshare-user", "--disable-userns", *found[at + 1 :]]

    monkeypatch.setattr(sandbox, "bubblewrap", command)
    box = Sandbox()
    with pytest.raises(SandboxError, match="needs the user namespaces"):
        box.wait()
    box.close()


def test_who_sends_without_an_end_is_not_listened_to_when_the_time_is_over():
    ours, theirs = socket.socketpair()
    running = Running(ours, Work("none", [], {}, b""))
    theirs.sendall((b"%010d" % 2 + b"{}") * 9)
    assert running.next() == {} and running.left < MOST
    before, running.end = running.left, 0
    assert list(running) == [] and running.left == before
    theirs.close()
    ours.close()


def test_jax_computes_there(box):
    cell = "import jax.numpy as jnp\nfrom jax import jit\nprint(jit(jnp.sum)(jnp.arange(4)))"
    assert said(box, cell).endswith("6\n")
