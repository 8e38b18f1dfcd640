"""What a student is shown: nothing of the hidden tests, and no more than a page holds."""

import nbformat.v4 as nb
import pytest

from classroom.shown import BLANK, BOX, Shown, hidden, plain

CALL = 'check(half, "assignment/half", seed=4703)'
TEST = (
    f"assert half(4) == 2\n### BEGIN HIDDEN TESTS\nif True:\n    {CALL}\n"
    "else:\n    half(12, seed=7)\n### END HIDDEN TESTS"
)


def graded(source=TEST):
    return nb.new_code_cell(source, metadata={"nbgrader": {"grade": True, "grade_id": "test_half"}})


def printed(text):
    return nb.new_output("stream", text=text)


def shown(*outputs, shown=None, **cell):
    """A cell that put these things out, as it is shown beside the test above."""
    cell = nb.new_code_cell("1 + 1", outputs=list(outputs), **cell)
    (shown or Shown(nb.new_notebook(cells=[graded()]))).cut(cell)
    return cell


def text_of(*outputs):
    return "".join(told.text for told in shown(*outputs).metadata.told)


# --- The hidden tests --------------------------------------------------------------------------


def test_a_test_is_shown_without_its_hidden_part():
    cell = graded()
    Shown(nb.new_notebook(cells=[cell])).cut(cell)
    assert cell.source == "assert half(4) == 2"


@pytest.mark.parametrize(
    "leak",
    [
        TEST,
        repr(TEST),
        [TEST],
        TEST.upper(),
        " ".join(TEST),
        "\n".join(TEST),
        TEST.replace("\n", "\r"),
        "".join(f"\x1b[3{i % 8}m{c}\x1b[0m" for i, c in enumerate(TEST)),  # as IPython colours code
        "----> 5     " + CALL,
        "seed = 4703",
        "the seed: 4703.",
        "种子是4703。",
    ],
)
@pytest.mark.parametrize(
    "output",
    [
        printed,
        lambda text: nb.new_output("error", ename="E", evalue=text, traceback=[]),
        lambda text: nb.new_output("error", ename=text, evalue="", traceback=[]),
        lambda text: nb.new_output("display_data", data={"text/plain": text}),
    ],
)
def test_what_a_student_prints_of_a_hidden_test_is_blanked(leak, output):
    text = text_of(output(str(leak)))
    letters = "".join(filter(str.isalnum, text)).lower()
    assert BLANK in text
    assert (
        "4703" not in letters and "assignmenthalf" not in letters and "hiddentests" not in letters
    )


@pytest.mark.parametrize(
    "honest",
    ["half(4) is 2", "if True:", "0.4703", "14703", "4703.5", "4703px", "seed=8", "seed=77", "7"],
)
def test_honest_words_and_numbers_are_left_alone(honest):
    assert text_of(printed(honest)) == honest


def test_only_graded_cells_hide_something():
    cell = nb.new_code_cell(TEST)
    assert not hidden(nb.new_notebook(cells=[cell])).search(TEST)


# --- How much ----------------------------------------------------------------------------------


def test_what_fits_is_shown_whole():
    cell = shown(printed("1\n"), nb.new_output("display_data", data={"image/png": "aGk=\n"}))
    assert [told.get("text", told.get("data")) for told in cell.metadata.told] == ["1\n", "aGk="]
    assert cell.metadata.cut is False


def test_outputs_are_capped_one_by_one_by_cell_and_by_page():
    page = Shown(nb.new_notebook())
    most = page.texts.page
    long = printed("x" * 1_000_000)
    (one,) = shown(long, shown=page).metadata.told
    assert len(one.text) == page.texts.output
    sizes = [len(one.text)]
    for _ in range(40):
        cell = shown(long, long, long, shown=page)
        sizes.append(sum(len(told.text) for told in cell.metadata.told))
        assert cell.metadata.cut
    assert max(sizes) <= page.texts.cell
    assert most - 100 * BOX < sum(sizes) <= most


def test_many_small_outputs_are_capped_too():
    cell = shown(*[nb.new_output("display_data", data={"text/plain": "1"})] * 1000)
    assert 100 < len(cell.metadata.told) < 20_000 / BOX
    assert cell.metadata.cut


def test_pictures_are_shown_whole_or_not_at_all():
    page = Shown(nb.new_notebook())
    most = page.pictures.page
    small, large = ("A" * size for size in (1000, 1 + page.pictures.output))
    pictures = [nb.new_output("display_data", data={"image/png": data}) for data in (large, small)]
    cell = shown(*pictures, shown=page)
    assert [told.data for told in cell.metadata.told] == [small] and cell.metadata.cut
    fit = nb.new_output("display_data", data={"image/png": "A" * page.pictures.output})
    cells = [shown(fit, fit, fit, shown=page) for _ in range(10)]
    told = [len(told.data) for cell in cells for told in cell.metadata.told]
    assert 0 < sum(told) <= most


def test_pasted_pictures_and_sources_are_capped():
    page = Shown(nb.new_notebook())
    pasted = {n: {"image/png": "A" * size} for n, size in [("a", 10), ("b", 3_000_000)]}
    cell = nb.new_markdown_cell("x" * 1_000_000, attachments=pasted)
    page.cut(cell)
    assert list(cell.attachments) == ["a"] and cell.metadata.cut
    assert len(cell.source) <= 20_000


# --- Outputs -----------------------------------------------------------------------------------


def test_an_error_is_told_without_its_traceback():
    def error(name, text):
        return nb.new_output("error", ename=name, evalue=text, traceback=["check(half, seed=7)"])

    assert plain(error("ValueError", "no")) == {"kind": "error", "text": "ValueError: no"}
    assert plain(error("AssertionError", "✗ half: not right yet."))["text"].startswith("✗")


def test_what_could_run_or_load_something_is_left_out():
    data = {"text/html": "<script>alert(1)</script>", "text/plain": "a table"}
    assert plain(nb.new_output("display_data", data=data)) == {"kind": "text", "text": "a table"}
    assert plain(nb.new_output("display_data", data={"text/html": "<b>"})) is None
    picture = plain(nb.new_output("display_data", data={"image/png": 'aGk="><script>'}))
    assert picture == {"kind": "picture", "data": "aGk=script"}
