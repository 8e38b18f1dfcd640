"""Pages as notebooks: read once, run once, kept by content."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import yaml
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import ExecutionResult, single_nb_execution
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from nbformat import NotebookNode
from tqdm import tqdm

from press import PressError
from press.blocks import EXTENSIONS
from press.contents import chapters
from press.files import digest

TIMEOUT = 120  # seconds for one cell
UNSEEN = {"remove-cell", "prose"}  # what such a cell writes to stderr reaches no reader
# One box for what a cell prints; no warnings of the kernel's between the bars.
CLIENT = {"coalesce_streams": True, "extra_arguments": ["--log-level=ERROR"]}


def read(path: Path) -> NotebookNode:
    """Return a MyST page as a notebook that knows its path and the line of each cell."""
    if not path.exists():
        raise PressError(f"{path} is listed in the table of contents, but does not exist")
    text = path.read_text("utf-8")
    config = MdParserConfig(enable_extensions=EXTENSIONS)
    try:
        notebook = read_myst_markdown_notebook(text, config, add_source_map=True)
    except Exception as error:  # MyST's own errors, and YAML's: they all say what is wrong
        raise PressError(f"{path}: {error}") from error
    if "kernelspec" not in notebook.metadata:
        raise PressError(f"{path}:1: no kernelspec: begin the page with the header of the others")
    lines = text.split("\n")
    for index, (cell, first) in enumerate(
        zip(notebook.cells, notebook.metadata.source_map, strict=True)
    ):
        cell.id = f"cell-{index}"  # nbformat would draw it at random
        opening = cell.source.split("\n")[0]
        if cell.source:  # MyST counts blank lines and options before it
            notebook.metadata.source_map[index] = lines.index(opening, first)
    notebook.metadata.path = path.as_posix()
    return notebook


def run(
    paths: Iterable[Path],
    cache: Path,
    inputs: Iterable[Path] = (),
    own: Callable[[NotebookNode], Iterable[Path]] = lambda _page: (),
) -> list[NotebookNode]:
    """Return the pages as notebooks with outputs; only what changed runs again.

    Parameters
    ----------
    paths
        The pages. Each runs in its own folder.
    cache
        Where jupyter-cache keeps what was run.
    inputs
        Files that the pages depend on: where one changes, every page runs again.
    own
        The files that a page depends on beside these.

    Raises
    ------
    PressError
        A cell raises: names page and line, with the traceback.
    """
    store = get_cache(cache)
    shared = digest(inputs, Path(__file__).read_text("utf-8"))  # wherever it lies
    notebooks = {path: read(path) for path in paths}
    for notebook in notebooks.values():
        # jupyter-cache looks at the cells and at this block only.
        notebook.metadata.kernelspec["inputs"] = digest(own(notebook), shared)
    stale = [path for path, notebook in notebooks.items() if not _done(store, notebook)]
    for path, notebook in execute({path: notebooks[path] for path in stale}, "Running pages"):
        bundle = CacheBundleIn(notebook, uri=str(path))
        store.cache_notebook_bundle(bundle, overwrite=True, check_validity=False)
    return [_finished(store, notebook) for notebook in notebooks.values()]


def _done(store: Any, notebook: NotebookNode) -> bool:
    try:
        return not _has_code(notebook) or bool(store.match_cache_notebook(notebook))
    except KeyError:
        return False


def _has_code(notebook: NotebookNode) -> bool:
    return any(cell.cell_type == "code" for cell in notebook.cells)


def _finished(store: Any, notebook: NotebookNode) -> NotebookNode:
    if _has_code(notebook):
        _, notebook = store.merge_match_into_notebook(notebook)
    del notebook.metadata.kernelspec["inputs"]
    return notebook


def execute(notebooks: dict[Path, NotebookNode], what: str) -> Iterable[tuple[Path, NotebookNode]]:
    """Run notebooks over the machine's cores, and show how far it is; raise where a cell does."""
    if not notebooks:
        return
    with (
        ThreadPoolExecutor(os.cpu_count()) as pool,  # each page runs in a kernel, a process
        tqdm(total=len(notebooks), desc=what, unit="page") as bar,
    ):
        jobs = {
            pool.submit(single_nb_execution, nb, str(path.parent), TIMEOUT, False, **CLIENT): path
            for path, nb in notebooks.items()
        }
        failures = []  # told at the end: what runs meanwhile is kept
        for job in as_completed(jobs):
            bar.set_postfix_str(jobs[job].stem)
            bar.update()
            if job.result().err or _complaint(job.result().nb):
                failures.append(_complaint(job.result().nb) or _failure(job.result()))
            else:
                yield jobs[job], _without_blanks(job.result().nb)
    if failures:
        raise PressError("\n\n".join(failures))


def _without_blanks(notebook: NotebookNode) -> NotebookNode:
    """Leave out what a progress line left behind: an output of nothing."""
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [o for o in cell.outputs if o.get("data") != {"text/plain": ""}]
    return notebook


def _failure(result: ExecutionResult) -> str:
    return f"{result.nb.metadata.path}: {result.exc_string}"


def _complaint(notebook: NotebookNode) -> str | None:
    """What raises, or writes a warning that readers would see, and where."""
    metadata = notebook.metadata
    for cell, line in zip(notebook.cells, metadata.source_map, strict=True):
        where = f"{metadata.path}, cell at line {line + 1},"
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                return f"{where} raises:\n" + "\n".join(output.traceback)
            if output.get("name") == "stderr" and not UNSEEN & set(cell.metadata.get("tags", ())):
                return f"{where} warns (mend it, or expect the warning):\n{output.text}"
    return None


def pages(toc: Path, folder: Path) -> list[Path]:
    """Return the pages that a table of contents lists, in its order."""
    content = yaml.safe_load(toc.read_text("utf-8"))
    parts = content.get("parts", [content])
    listed = [chapter["file"] for part in parts for chapter in chapters(part)]
    return [folder / f"{name}.md" for name in [content["root"], *listed]]
