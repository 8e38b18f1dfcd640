"""What each language's build starts from: translated notebooks, contents, programs, assignments."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import nbformat
import yaml
from joblib import Memory
from nbformat import NotebookNode

from press import LANGUAGES, PressError, benches, book, code, sources, terms
from press.catalogue import LOCALE, load, path_of
from press.contents import chapters
from press.files import digest, mirror, under
from press.headings import addresses
from press.made import EXERCISES
from press.numbers import localise
from press.packs import build_wheel, packs
from press.palette import paint
from press.site.readme import readme
from press.strings import SVG
from press.translate import translate

STAGE = Path("_build/stage")
KEPT = Memory(Path("_build/translated"), verbose=0)  # what translations and the press made of pages
WHEEL = "normkit-VERSION-py3-none-any.whl"  # its name on the pages


def assignments() -> dict[str, dict[str, NotebookNode]]:
    """Return the sources of the assignments, by language and name."""
    originals = sources.assignments()
    return {
        language: {
            name: _in_language(notebook, nbformat.writes(notebook), language, f"solutions/{name}")
            for name, notebook in originals.items()
        }
        for language in LANGUAGES
    }


def stage(
    pages: Mapping[str, NotebookNode], folder: Path = STAGE, languages: Iterable[str] = LANGUAGES
) -> dict[str, Path]:
    """Write what each language's build starts from, and return its folder by language.

    Only files that changed are written, so that a build reads only what changed; a language of
    which nothing changed is left alone.
    """
    stages = {language: folder / language for language in languages}
    wheel = build_wheel()
    texts = {name: nbformat.writes(page) for name, page in pages.items()}
    for language, target in stages.items():
        stamp, inputs = target.with_suffix(".stamp"), _inputs(texts, language, wheel)
        if not (target.exists() and stamp.exists() and stamp.read_text() == inputs):
            mirror(_files(pages, texts, language, wheel), target, under(target))
            stamp.write_text(inputs)
    KEPT.reduce_size(items_limit=500)
    return stages


def _inputs(texts: Mapping[str, str], language: str, wheel: Path) -> str:
    """Return a hash of all that a stage is made of."""
    press = Path(__file__).parent.rglob("*.py")
    released = {path for of in ("en", language) for path in under(EXERCISES / of)}
    own = [sources.TOC, terms.FILE, wheel, *sources.BOOK.glob("*.bib"), *under(LOCALE / language)]
    read = {*own, *press, *released, *sources.programs(), *sources.shown(), *sources.data()}
    return digest(read, language, book(), *texts.values())


def _files(
    pages: Mapping[str, NotebookNode], texts: Mapping[str, str], language: str, wheel: Path
) -> dict[str, bytes]:
    """Return the files of a stage by their path in it."""
    files = {"_toc.yml": _contents(language).encode(), wheel.name: wheel.read_bytes()}
    for name, page in pages.items():
        translated = _in_language(page, texts[name], language, "normkit", f"book/{name}")
        named = nbformat.writes(translated).replace(f"install ./{WHEEL}", _installed(wheel))
        files[f"{name}.ipynb"] = named.replace(WHEEL, wheel.name).encode()
    words = load(language, "book/code")
    for path in sources.programs():
        with _naming(path):
            program = code.rewrite(path.read_text("utf-8"), lambda block: words[block.message])
        files[f"code/{path.name}"] = program.encode()
    say = load(language, "site").__getitem__
    for name, page in benches.pages(EXERCISES, language, say).items():
        files[f"{name}.ipynb"] = nbformat.writes(page).encode()
    for path in sources.BOOK.glob("*.bib"):
        files[path.name] = path.read_bytes()
    for path in sources.shown():
        files[path.as_posix()] = path.read_bytes()
    for path in sources.data():
        files[f"data/{path.name}"] = path.read_bytes()
    for name, pack in packs(EXERCISES / language, lambda name: readme(name, say), wheel):
        files[f"exercises/{name}"] = pack
    return files


def _installed(wheel: Path) -> str:
    """How pip is told where the package is: on the site, if its address is known."""
    return f"install {book() or '.'}/{wheel.name}"


def _in_language(notebook: NotebookNode, text: str, language: str, *domains: str) -> NotebookNode:
    """The notebook in a language; kept, since few of them change from one build to the next."""
    catalogues = [path for domain in domains if (path := path_of(language, domain)).exists()]
    press = Path(__file__).parent.glob("*.py")
    inputs = digest([*catalogues, *press, terms.FILE], text)
    return nbformat.from_dict(_translated(notebook, language, domains, inputs))


@KEPT.cache(ignore=["notebook"])
def _translated(
    notebook: NotebookNode, language: str, domains: tuple[str, ...], inputs: str
) -> NotebookNode:
    translated = translate(notebook, load(language, *domains))
    for cell in translated.cells:
        if cell.cell_type == "markdown" and terms.PLACE in cell.source:
            cell.source = cell.source.replace(terms.PLACE, terms.table(language))
    localise(translated, language)
    for cell in translated.cells:
        for output in cell.get("outputs", []):
            if SVG in output.get("data", {}):
                output.data[SVG] = paint(output.data[SVG])
    del translated.metadata["path"]
    translated.metadata.language = language
    translated.metadata.addresses = addresses(notebook)
    return translated


def _contents(language: str) -> str:
    """Return the table of contents with its captions and titles in a language."""
    words = load(language, "site")
    contents = yaml.safe_load(sources.TOC.read_text("utf-8"))
    for part in contents.get("parts", []):
        for item in [part, *chapters(part)]:
            if item.get("file") == benches.FOLDER:
                item["sections"] = [{"file": name} for name in benches.listed()]
            with _naming(sources.TOC):
                item |= {key: words[item[key]] for key in ("caption", "title") if key in item}
    return yaml.safe_dump(contents, allow_unicode=True, sort_keys=False)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in an error about its words."""
    try:
        yield
    except PressError as error:
        raise PressError(f"{path}: {error}") from None
