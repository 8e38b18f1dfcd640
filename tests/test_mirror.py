"""The tests mirror the modules, one file each; what concerns more than one is named here."""

from fnmatch import fnmatch
from pathlib import Path

TESTS = Path(__file__).parent
SEVERAL = {
    "test_mirror.py",
    "test_site.py",  # all that `make` builds
    "book/test_coverage.py",
    "book/test_links.py",
    "classroom/test_grading.py",  # all commands of nbgrader
    "normkit/test_bad_input.py",
    "normkit/test_doctests.py",
    "normkit/test_every_norm.py",
    "normkit/test_handwritten*.py",
    "normkit/test_invariances.py",
    "normkit/test_mistakes_*.py",
    "solutions/test_assignments.py",
}


def test_each_file_of_tests_has_its_module():
    for path in TESTS.rglob("test_*.py"):
        name = path.relative_to(TESTS)
        module = TESTS.parent / name.with_name(name.stem.removeprefix("test_"))
        alone = module.is_dir() or module.with_suffix(".py").exists()
        assert alone != any(fnmatch(name.as_posix(), crossing) for crossing in SEVERAL), name
