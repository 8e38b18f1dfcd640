"""What comes out of the sandbox is judged, whatever it is; the notebook says what was found."""

import base64
import json

import nbformat.v4 as nb
import pytest

from classroom import judged
from classroom.judged import LOUDEST, clean, excess, grade
from classroom.secret import seed
from classroom.shown import plain
from classroom.verdicts import KEY
from normkit.tutor.mistakes import combine
from normkit.tutor.observing import observe

TASK, OF = "layer_norm/forward", b"of a class"
RIGHT = combine("layer_norm/layer_norm")


def values(answer, purpose="secret"):
    data = observe(answer, TASK, seed(OF, TASK, purpose)).to_bytes()
    return base64.b64encode(data).decode()


class Box:
    """A sandbox that has run already: what it sends is given."""

    def __init__(self, *messages, shown=None):
        self.messages, self.shown, self.work, self.said = messages, shown or {}, None, []

    def run(self, work):
        self.work = work
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __iter__(self):
        return iter(self.messages)

    def say(self, what):
        self.said.append(what)

    def next(self):
        return self.shown


def unanswered(source="", language="en"):
    """A notebook with one answer and its test."""
    known = {"grade": True, "grade_id": "test", "points": 6, "solution": False}
    test = f'assert True\n### BEGIN HIDDEN TESTS\ncheck(layer_norm, "{TASK}", seed=1)\n'
    cells = [
        nb.new_code_cell(f'@normkit.speak\ndef language():\n    """{language}"""'),
        nb.new_code_cell(source),
        nb.new_code_cell(test + "### END HIDDEN TESTS", metadata={"nbgrader": known}),
        nb.new_code_cell("print('after the last test')"),
    ]
    return nb.new_notebook(cells=cells)


def graded(*messages, shown=None, source="", language="en"):
    """It, and what the sandbox was given, after these messages from there."""
    notebook, box = unanswered(source, language), Box(*messages, shown=shown)
    grade(notebook, "layer_norm", OF, box)
    return notebook, box.work


def ran(*observations):
    cells = [{"cell": i, "outputs": [], "stopped": False} for i in range(3)]
    return [*cells, *({"cell": 2, "task": TASK, "secret": data} for data in observations)]


def passed(notebook):
    return notebook.cells[2].metadata[KEY]["passed"]


def test_values_that_are_right_pass_and_others_do_not():
    assert passed(graded(*ran(values(RIGHT)))[0])
    assert not passed(graded(*ran(values(lambda *given, **named: given[0])))[0])


def test_values_for_showing_are_asked_for_at_once_where_a_test_is_not_passed():
    wrong = values(lambda *given, **named: given[0])
    shown = {"shown": values(RIGHT, "shown")}
    for value, said in ((values(RIGHT), [False]), (wrong, [True])):
        box = Box(*ran(value), shown=shown)
        grade(unanswered(), "layer_norm", OF, box)
        assert box.said == said


def test_values_on_other_probes_than_the_secret_ones_do_not_pass():
    assert not passed(graded(*ran(values(RIGHT, "shown")))[0])


@pytest.mark.parametrize(
    "forged",
    ["", "no base64", base64.b64encode(b"{}").decode(), base64.b64encode(b"\x00" * 99).decode()],
)
def test_values_that_are_none_do_not_pass_and_are_told(forged):
    notebook, _ = graded(*ran(forged))
    assert not passed(notebook) and notebook.metadata[KEY]["flags"]


@pytest.mark.parametrize(
    "change",
    [
        {"results": []},
        {"results": [{"values": [["y", "|O", [1]]]}]},
        {"results": [{"values": [["y", "<f8", [10**9]]]}]},
        {"results": [{"values": [["y", "<f8", [-1]]]}]},
        {"results": [{"error": 3}] * 13, "ready_made": "x"},
        {"results": "x", "ready_made": []},
        {"results": [{"values": [["y", "<U2", [1]]], "kinds": {"y": "ndarray"}}] * 13},
    ],
)
def test_no_forged_observation_stops_the_grader(change):
    line = json.dumps({"ready_made": [], **change}).encode()
    notebook, _ = graded(*ran(base64.b64encode(line + b"\n" + b"a\0\0\0b\0\0\0" * 99).decode()))
    assert not passed(notebook)


def test_where_nothing_came_nothing_passes():
    notebook, _ = graded()
    assert not passed(notebook)
    assert "its process was ended" in notebook.metadata[KEY]["flags"]
    assert notebook.cells[1].outputs[0].evalue.startswith("The process was ended")


def test_of_two_messages_on_one_test_the_first_counts():
    wrong = values(lambda *given, **named: given[0])
    assert not passed(graded(*ran(wrong, values(RIGHT)))[0])


def test_no_hidden_test_goes_in_and_nothing_after_the_last_test():
    _, work = graded()
    sources = [source for _number, source in work.cells]
    assert len(sources) == 3 and "HIDDEN" not in "".join(sources) and "seed" not in sources[2]
    assert work.tests == {2: [("layer_norm", TASK)]}


def test_the_mistake_is_named_on_the_probes_for_showing_in_the_students_language():
    def biased(x, gamma, beta, eps=1e-5):
        return gamma * (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + eps) + beta

    shown = {"shown": values(biased, "shown")}
    notebook, _ = graded(*ran(values(biased)), shown=shown, language="fr")
    (output,) = notebook.cells[2].outputs
    assert "pas encore juste" in output.evalue and "racine" in output.evalue
    (verdict,) = notebook.cells[2].metadata[KEY]["verdicts"]
    assert verdict["mistakes"] == ["layer_norm/eps_outside_root"] and not verdict["passed"]


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize(("language", "said"), [("fr", "dx vaut None."), ("zh", "dx 是 None。")])
def test_a_visible_test_says_what_failed_in_the_students_language(box, language, said):
    notebook = unanswered("from normkit import check, say", language)
    first, _, test, _ = notebook.cells
    first.source = f"import normkit\n\n\n{first.source}"
    test.source = test.source.replace("True", 'False, say("{name} is None.", name="dx")')
    grade(notebook, "layer_norm", OF, box)
    assert plain(test.outputs[0]).text == f"AssertionError: {said}"
    assert not notebook.metadata[KEY]["flags"]


def test_an_answer_that_is_right_where_it_is_shown_alone_says_so():
    wrong = values(lambda *given, **named: given[0])
    notebook, _ = graded(*ran(wrong), shown={"shown": values(RIGHT, "shown")})
    assert "which stay hidden" in notebook.cells[2].outputs[0].evalue


def test_a_ready_made_function_is_found_in_the_text_though_nothing_was_seen():
    source = "import torch\nlayer_norm = torch.nn.functional.layer_norm"
    notebook, _ = graded(
        *ran(values(RIGHT)), shown={"shown": values(RIGHT, "shown")}, source=source
    )
    assert not passed(notebook)
    assert any("ready-made" in flag for flag in notebook.metadata[KEY]["flags"])


def test_points_are_withheld_where_the_watch_was_taken_off():
    for messages, source in (([{"seen": "sys.setprofile"}], ""), ([], "import gc")):
        notebook, _ = graded(*messages, *ran(values(RIGHT)), source=source)
        assert passed(notebook) and notebook.cells[2].metadata[KEY]["withheld"]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"cell": "x"},
        {"cell": 1, "outputs": 3},
        {"seen": 1},
        {"shown": 1},
        {"cell": [], "task": "t"},
    ],
)
def test_messages_that_are_none_are_passed_over(message):
    notebook, _ = graded(message)
    assert not passed(notebook)
    assert notebook.cells[0].outputs[0].evalue.startswith("The process was ended")


def test_outputs_hold_nothing_that_a_browser_would_run():
    data = {"text/html": "<script>", "application/javascript": "x", "text/plain": "a"}
    output = clean({"output_type": "display_data", "data": data}, "")
    assert output.data == {"text/plain": "a"}
    assert "script" in " ".join(excess(str(data)))


def test_an_output_that_is_none_or_too_large_is_left_out_and_told():
    large = {"output_type": "stream", "name": "stdout", "text": "x" * LOUDEST}
    cells = [{"cell": 0, "outputs": [large, {"output_type": "no"}, 3, {}], "stopped": False}]
    notebook, _ = graded(*cells)
    assert notebook.cells[0].outputs == []
    assert any("an output is none" in flag for flag in notebook.metadata[KEY]["flags"])


def test_probes_are_drawn_once_for_a_class_and_an_assignment():
    assert judged.probes("layer_norm", OF) is judged.probes("layer_norm", OF)
    assert judged.probes("layer_norm", OF) != judged.probes("layer_norm", b"of another")
