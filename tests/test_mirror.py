"""The tests mirror the modules, one file each; what concerns more than one is named here."""

from fnmatch import fnmatch
from pathlib import Path

TESTS = Path(__file__).parent
SEVERAL = {
    "test_mirror.py",
    "test_install.py",
    "test_site.py",  # all that `make` builds
    "test_workers.py",
    "book/test_commands.py",  # what instructors and students type
    "book/test_coverage.py",
    "book/test_links.py",
    "book/test_models.py",  # data
    "book/test_notebooks.py",  # to download
    "book/test_printed.py",  # what cells print, in all languages
    "book/test_times.py",  # of chapters and of notebooks
    "book/test_visible.py",  # cells that a reader may copy
    "book/test_words.py",  # terms, in all languages
    "classroom/test_formgrader.py",  # nbgrader's pages, on what is graded here
    "classroom/test_nbgrader.py",  # all commands of nbgrader
    "classroom/test_zoo.py",  # all that stands between a submission and its points
    "normkit/test_bad_input.py",
    "normkit/test_command.py",  # __main__.py
    "normkit/test_doctests.py",
    "normkit/test_every_norm.py",
    "normkit/test_invariances.py",
    "normkit/test_package.py",
    "press/site/pictures/*.py",  # modules of the browser's
    "press/site/test_bench.py",  # likewise
    "press/site/test_models.py",  # a directive and a module of the browser’s
    "press/site/test_terms.py",  # a module of Node’s and one of the browser’s
    "press/site/test_fonts.py",  # fonts.mjs
    "press/site/test_formula.py",  # formula.mjs
    "solutions/test_assignments.py",
    "solutions/test_without_torch.py",
}


def test_each_file_of_tests_has_its_module():
    for path in TESTS.rglob("test_*.py"):
        name = path.relative_to(TESTS)
        stem = name.stem.removeprefix("test_")
        modules = [TESTS.parent / name.with_name(m) for m in (stem, f"_{stem}")]  # one is private
        alone = any(m.is_dir() or m.with_suffix(".py").exists() for m in modules)
        assert alone != any(fnmatch(name.as_posix(), crossing) for crossing in SEVERAL), name


def test_each_module_of_the_tutor_has_its_file():
    modules = (TESTS.parent / "normkit/tutor").glob("*.py")
    names = {path.name for path in (TESTS / "normkit/tutor").glob("test_*.py")}
    left = {m.stem for m in modules if f"test_{m.name}" not in names}
    assert left == {"__init__", "probes"}  # whose numbers all tasks try
