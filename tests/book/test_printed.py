"""What the cells of the pages print: in the reader's language, as the translated code prints it."""

import re

import pytest

from press import LANGUAGES, run, sources
from press.catalogue import load
from press.translate import messages, translate

WORD = re.compile(r"(?<![\w.])[A-Za-zÀ-ÿ]{3,}(?![\w.])")
# the same in every language: values of Python, names of the field, of code, and of errors
NAMES = """
True False None nan inf tensor torch dtype Array Torch normkit numba jit jax vmap eps ema PyTorch
Welford Kaiming LayerNorm BatchNorm GroupNorm InstanceNorm RMSNorm DyT Derf Identity DeepNorm Peri
Post Pre Norm OLMo post pre deep full MLP Transformer Scale PyTreeDef CustomNode Missing softmax
logits scores sigma dalpha dgamma dbeta affine batch norm KeyError TracerBoolConversionError
UnexpectedTracerError train eval
Admin Hybrid Scaled Siamese admin adam sgd hybrid hyper mix siamese flax layer fixup scaled skipinit
dyt derf nf agc none Renorm
"""
KEPT = set(NAMES.split())
SPEAKS = re.compile(r"\bexcept\b|catch_warnings")  # such a cell prints what a library says
UNSEEN = {"remove-cell", "remove-output", "prose"}
TIMED = {"cost", "systems"}  # print times


@pytest.fixture(scope="module")
def book():
    return sources.book()


@pytest.fixture(scope="module")
def english(book):
    """The messages of each page that its cells print."""
    return {
        name: [block.message for block in messages(page) if block.kind == "printed"]
        for name, page in book.items()
    }


def in_language(name, page, language):
    return translate(page, load(language, "normkit", f"book/{name}"))


def printed(cell):
    """What a reader sees a cell print."""
    if cell.cell_type != "code" or UNSEEN & set(cell.metadata.get("tags", ())):
        return ""
    return "\n".join(
        output.get("text", "" if "image/svg+xml" in data else data.get("text/plain", ""))
        for output in cell.get("outputs", [])
        for data in [output.get("data", {})]
        if "text/markdown" not in data
    )


@pytest.mark.parametrize("language", list(LANGUAGES)[1:])
def test_no_english_word_is_printed(book, english, language):
    left = {}
    for name, page in book.items():
        words = load(language, "normkit", f"book/{name}")
        known = KEPT | {word for text in english[name] for word in WORD.findall(words[text])}
        for cell in in_language(name, page, language).cells:
            if not SPEAKS.search(cell.source):
                for word in set(WORD.findall(printed(cell))) - known:
                    left.setdefault(name, []).append(word)
    assert left == {}


@pytest.mark.proof
@pytest.mark.parametrize("language", list(LANGUAGES)[1:])
def test_the_translated_code_prints_what_its_page_shows(book, language, monkeypatch):
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:Glyph")  # a font here may lack the labels' script
    pages = {name: in_language(name, page, language) for name, page in book.items()}
    shown = {name: list(map(printed, page.cells)) for name, page in pages.items()}
    paths = {sources.BOOK / f"{name}.md": page for name, page in pages.items() if name not in TIMED}
    different = []
    for path, page in run.execute(paths, f"Running pages ({language})"):
        for cell, before in zip(page.cells, shown[path.stem], strict=True):
            if printed(cell).split() != before.split():
                different.append((path.stem, cell.source, before, printed(cell)))
    assert different == []
