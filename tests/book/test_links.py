"""Formula, code and test of the same thing lead to each other."""

import inspect
import re
from pathlib import Path

import pytest

import normkit
import normkit.equinox
import normkit.nnx

ROOT = Path(__file__).parents[2]
SEE = re.compile(r"See: ([\w-]+) in (book/\w+\.md); (tests/normkit/\w+\.py)\.")
EVERYWHERE = {name: getattr(normkit, name) for name in normkit.__all__}
EVERYWHERE |= {f"variance.{name}": getattr(normkit.variance, name) for name in ("merge", "welford")}
EVERYWHERE |= {f"equinox.{n}": getattr(normkit.equinox, n) for n in ("LayerNorm", "BatchNorm")}
NNX = ("LayerNorm", "RMSNorm", "DyT", "BatchNorm")
EVERYWHERE |= {f"nnx.{n}": getattr(normkit.nnx, n) for n in NNX}
FORMULAS = {n: thing for n, thing in EVERYWHERE.items() if "$$" in (inspect.getdoc(thing) or "")}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_code_names_its_formula_and_its_test(name):
    label, page, test = SEE.search(inspect.getdoc(FORMULAS[name])).groups()
    assert f"\n({label})=\n" in (ROOT / page).read_text("utf-8")
    assert name.split(".")[-1] in (ROOT / test).read_text("utf-8")


@pytest.mark.parametrize("name", [name for name in FORMULAS if "." not in name])
def test_a_chapter_leads_to_the_code(name):
    slug = name.lower().replace("_", "-")
    kind = "class-" if isinstance(FORMULAS[name], type) else ""
    pages = (path.read_text("utf-8") for path in (ROOT / "book").glob("*.md"))
    assert any(f"(#api-{kind}{slug})" in page for page in pages)


def test_there_are_formulas():
    assert len(FORMULAS) > 20


def test_the_pages_of_the_package_show_all_that_is_public():
    """By its name, or with all of the module that it is from."""
    text = "".join(page.read_text("utf-8") for page in (ROOT / "book").glob("api*.md"))
    shown = {*re.findall(r'"([\w.]+)"', text), "variance"}
    for name in normkit.__all__:
        home = getattr(getattr(normkit, name), "__module__", "").removeprefix("normkit.")
        assert {name, home} & shown, name


def test_what_a_picture_shows_is_on_paper_too():
    """It takes the place of a figure, or stands some lines below one that it brings to life."""
    for file in sorted((ROOT / "book").glob("*.md")):
        page = file.read_text("utf-8")
        for found in re.finditer(r"^```\{picture\} (\w+)\n(.*?)^```$", page, re.M | re.S):
            name = re.search(r"^:figure: (.+)$", found[2], re.M)
            above = page[: found.start()].splitlines()[-40:]
            wanted = f"    name: {name[1]}" if name else "    name: fig-"
            assert any(line.startswith(wanted) for line in above), (file.name, found[1])
