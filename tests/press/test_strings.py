"""Words that programs print: literals and output change alike, and nothing else does."""

import contextlib
import io

import pytest
from nbformat import v4

from press import strings
from press.markup import problems

SOURCE = '''\
"""Not printed."""
kinds = {"raw": 1.0, "centred": 22.5}
print("inputs    value")
for name, value in kinds.items():
    print(f"{name:9} {value:5.1f}")
for step in (1, 10):
    print(f"after step {step:2}: {kinds['raw']}, raw or not")
print("dx ", 'first', "layer: of a kind\\n")
'''
FRENCH = {
    "raw": "brut",
    "centred": "centré",
    "inputs    value": "entrées valeur",
    "after step {step:2}: {kinds['raw']}, raw or not": (
        "{kinds['raw']} après le pas {step:2}, brut ou non"
    ),
    "first": "première",
    "layer: of a kind\\n": "couche d’une sorte\\n",
}
CHINESE = {
    "raw": "原始",
    "centred": "中心化",
    "inputs    value": "输入      数值",
    "after step {step:2}: {kinds['raw']}, raw or not": (
        "第 {step:2} 步之后：{kinds['raw']}，原始与否"
    ),
    "first": "首",
    "layer: of a kind\\n": "层\\n",
}


def run(source):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(source, {})
    return printed.getvalue()


def notebook(source=SOURCE, **metadata):
    output = v4.new_output("stream", text=run(source))
    return v4.new_notebook(cells=[v4.new_code_cell(source, outputs=[output], metadata=metadata)])


def test_what_is_printed_is_a_message_as_it_is_written():
    assert strings.spoken(notebook()) == frozenset(FRENCH)


def test_what_a_reader_does_not_see_is_none():
    assert not strings.spoken(notebook(tags=["remove-cell"]))
    quiet = notebook(tags=["remove-input"])
    quiet.cells[0].outputs = []
    assert not strings.spoken(quiet)
    assert not strings.spoken(notebook("keys = {'rows': 1}\nprint(3)\n'''a lone string'''"))


def test_of_an_assignment_it_is_what_its_given_cells_hand_to_print():
    given = 'print("largest:", getattr(model, "bias"), f"{keys[\'name\']} found: {found}", "1.1:")'
    test = v4.new_code_cell('print("tested")', metadata={"nbgrader": {"locked": True}})
    page = v4.new_notebook(cells=[v4.new_code_cell(given), test])
    assert strings.spoken(page) == {"largest:", "{keys['name']} found: {found}"}


def test_words_inside_a_figure_count_as_seen():
    figure = v4.new_output("display_data", {"image/svg+xml": "<text x='1'>raw inputs</text>"})
    cell = v4.new_code_cell('plot("raw inputs", "rawer")', outputs=[figure])
    assert strings.spoken(v4.new_notebook(cells=[cell])) == {"raw inputs"}


def test_the_identity_changes_nothing():
    source, pairs = strings.rewrite(SOURCE, strings.spoken(notebook()), lambda b: b.message)
    assert source == SOURCE
    assert strings.said(run(SOURCE), pairs) == run(SOURCE)


@pytest.mark.parametrize("words", [FRENCH, CHINESE], ids=["fr", "zh"])
def test_the_output_is_what_the_translated_program_prints(words):
    source, pairs = strings.rewrite(SOURCE, FRENCH, lambda block: words[block.message])
    assert pairs == words
    assert strings.said(run(SOURCE), words).split() == run(source).split()


def test_columns_stay_where_they_were():
    pairs = {"{name:9} rows {count:3}": "{name:9} lignes {count:3}", "of batch": "du lot"}
    pairs |= {"{kind:9} {count:7.1f} mean": "{kind:9} {count:7.1f} moyenne"}
    assert strings.said("of batch  rows   3\n", pairs) == "du lot    lignes   3\n"
    assert strings.said("of batch      2.0 mean", pairs) == "du lot        2.0 moyenne"
    assert strings.said("of 8      rows  12\n", pairs) == "of 8      lignes  12\n"
    printed = strings.said("raw        1.0\nanother    2.0\n", {"raw": "原始"})
    assert printed == "原始       1.0\nanother    2.0\n"
    assert strings.said("a   batch  layer\n", {"batch": "lot"}) == "a   lot    layer\n"


def test_a_name_of_several_words_stands_before_a_number():
    pairs = {"{n:9} {x:5.1f}, at {y:.1f}": "{n:9} {x:5.1f}, à {y:.1f}", "two words": "deux mots"}
    assert strings.said("two words   1.5, at 2.5", pairs) == "deux mots   1.5, à 2.5"


def test_what_a_library_says_is_left_alone():
    said = "Expected more than 1 value when training, got 1"
    assert strings.said(said, {"training": "entraînement"}) == said
    assert strings.said("Attempted to use old state\n", {"state": "état"}) == (
        "Attempted to use old state\n"
    )


@pytest.mark.parametrize(
    ("message", "translation", "problem"),
    [
        ("after {n:3} steps", "{n:3} pas après", None),
        ("after {n:3} steps", "pas {n}", "its fields should be {n:3}"),
        ("step {n:3}", "{n:3} pas", "should begin and end with the field"),
        ("{n:3} steps", "pas {n:3}", "should begin and end with the field"),
        ("{n:3} steps", "{n:3} pas", None),
        ("{n:3} steps", '{n:3} "pas"', 'should have as many " as the English'),
    ],
)
def test_a_translation_keeps_fields_and_quotes(message, translation, problem):
    found = list(problems(message, translation, "printed", "fr"))
    assert not found if problem is None else any(each.startswith(problem) for each in found)


def test_a_key_of_rows_that_the_notebook_has_not_made_stays():
    source = (
        "from library import rows\n"
        "for row in rows:\n"
        '    print("variance", row["variance"], f"{row[\'variance\']:.2f}")\n'
        'own = [{"raw": 1}]\n'
        "for row in own:\n"
        '    print(row["raw"])\n'
    )
    cells = [v4.new_code_cell(source)]
    foreign = strings.foreign(v4.new_notebook(cells=cells))
    assert foreign == {"variance"}
    words = {"variance": "方差", "raw": "原始", "{row['variance']:.2f}": "{row['variance']:.2f}"}
    turned, _ = strings.rewrite(source, set(words), lambda block: words[block.message], foreign)
    assert turned == source.replace('print("variance"', 'print("方差"').replace('"raw"', '"原始"')
