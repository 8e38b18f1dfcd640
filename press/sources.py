"""Everything that has words to translate, by domain: each domain is one catalogue."""

import re
from collections.abc import Iterator
from io import BytesIO
from itertools import starmap
from pathlib import Path
from typing import Any, BinaryIO

import yaml
from babel.messages.extract import extract, extract_from_dir
from nbformat import NotebookNode

from press import code, needed, prose, run, typeset
from press.blocks import Block
from press.catalogue import Entry
from press.contents import chapters
from press.translate import messages

BOOK, SOLUTIONS = Path("book"), Path("solutions")
TOC = Path("_toc.yml")
# a page may quote the package, and then its words are the package's; labels of reports are none
APART = re.compile(r"normkit/(examining|watching)/")
CACHE = Path("_build/cache")


def book() -> dict[str, NotebookNode]:
    """Return the pages of the book by name, run."""
    paths = run.pages(TOC, BOOK)
    done = map(prose.write_out, run.run(paths, CACHE, [Path("requirements.txt")], _own))
    return {path.stem: notebook for path, notebook in zip(paths, done, strict=True)}


def _own(page: NotebookNode) -> set[Path]:
    """Return the files that a page reads: of the package, programs, data."""
    words = Path(page.metadata.path).read_text("utf-8")
    code = [cell.source for cell in page.cells if cell.cell_type == "code"]
    read = {path for path in [*programs(), *data()] if path.name in words}
    code += [path.read_text("utf-8") for path in read if path.suffix == ".py"]
    if any("press.reference" in source for source in code):  # which reads all docstrings
        read |= {Path("press/reference.py")}.union(needed.files(Path(needed.PACKAGE)))
    return read | needed.needed(*code)


def assignments() -> dict[str, NotebookNode]:
    """Return the sources of the assignments by name, not run."""
    return {path.stem: run.read(path) for path in sorted(SOLUTIONS.glob("*.md"))}


def programs() -> list[Path]:
    """Return the programs that pages show: they run in a cell and in the tests."""
    return sorted((BOOK / "code").glob("*.py"))


def data() -> list[Path]:
    """Return the files of data that pages read and offer."""
    return sorted((BOOK / "data").glob("*.*"))


def shown() -> list[Path]:
    """Return the modules that pages link to, and their tests: as they are, in any language."""
    packages = [*Path("normkit").glob("*.py"), *Path("normkit").glob("*/__init__.py")]
    return sorted([*packages, *Path("tests/normkit").rglob("*.py")])


def entries() -> dict[str, list[Entry]]:
    """Return what there is to translate: for each domain, its messages in order."""
    package = list(_of_normkit())
    known = {entry.message for entry in package if not APART.search(entry.path)}
    domains = {
        f"book/{name}": [entry for entry in _of_notebook(page) if entry.message not in known]
        for name, page in book().items()
    }
    domains["book/code"] = [entry for path in programs() for entry in _of_program(path)]
    domains |= {f"solutions/{name}": _of_notebook(nb) for name, nb in assignments().items()}
    domains["site"] = [*_of_contents(), *starmap(_entry, typeset.messages())]
    domains["normkit"] = package
    return domains


def _of_notebook(notebook: NotebookNode) -> list[Entry]:
    path = notebook.metadata.path
    return [Entry(b.message, b.kind, path, b.line + 1) for b in messages(notebook)]


def _of_program(path: Path) -> Iterator[Entry]:
    found: list[Block] = []

    def note(block: Block) -> str:
        found.append(block)
        return block.message

    code.rewrite(path.read_text("utf-8"), note)
    return (Entry(b.message, b.kind, path.as_posix(), b.line + 1) for b in found)


def _of_contents() -> Iterator[Entry]:
    """Yield the captions and titles of the table of contents."""
    contents = yaml.safe_load(TOC.read_text("utf-8"))
    for part in contents.get("parts", []):
        for item in [part, *chapters(part)]:
            for words in (item.get("caption"), item.get("title")):
                if words:
                    yield _entry(str(TOC), 1, words)


def _of_normkit() -> Iterator[Entry]:
    """Yield the strings that students read: of the package, the feedback page, the tests."""
    marks = [("**.py", "python"), ("**.j2", "jinja2"), ("**.diff", "press.sources:of_mistakes")]
    for folder in ("normkit", "classroom"):
        found = extract_from_dir(folder, marks, keywords=dict.fromkeys(("_", "N_", "say")))
        for file, line, message, *_ in sorted(found, key=lambda item: item[:2]):
            yield _entry(f"{folder}/{file}", line, str(message))
    for notebook in assignments().values():
        yield from _said(notebook)


def _said(notebook: NotebookNode) -> Iterator[Entry]:
    """Yield the messages of a notebook's assertions, which the package says."""
    for cell, first in zip(notebook.cells, notebook.metadata.source_map, strict=True):
        if cell.cell_type == "code":
            found = extract("python", BytesIO(cell.source.encode()), keywords={"say": None})
            for line, message, *_ in found:
                yield _entry(notebook.metadata.path, first + line, str(message))


def of_mistakes(
    file: BinaryIO, *_keywords: Any, **_options: Any
) -> Iterator[tuple[int, None, str, list[str]]]:
    """Babel's way to extract: the message of each mistake, and where it was met."""
    lines = [*file.read().decode("utf-8").splitlines(), ""]
    paragraph, mark = list[str](), ""
    for number, line in enumerate(lines, 1):
        if paragraph and line[:1] != mark:
            yield number - len(paragraph), None, " ".join(paragraph), []
            paragraph = []
        if line[:1] in (" ", "~"):
            paragraph, mark = [*paragraph, line[1:].strip()], line[0]


def _entry(path: str, line: int, message: str) -> Entry:
    return Entry(message, "message", path, line)
