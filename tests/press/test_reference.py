"""The pages of the package: what files say, as importing them would."""

import inspect
import re
from pathlib import Path

import pytest

import normkit
import normkit.equinox
import normkit.experiments
from press import reference, run
from press.reference import entry, of_module, of_package

PAGES = sorted((Path(__file__).parents[2] / "book").glob("api*.md"))
CELLS = [cell for page in PAGES for cell in run.read(page).cells]


@pytest.fixture(scope="module")
def entries():
    """The entries of the pages by their labels."""
    names = {"of_package": of_package, "of_module": of_module}
    cells = [c.source for c in CELLS if "prose" in c.metadata.get("tags", [])]
    text = "\n\n".join(eval(cell, names).data for cell in cells)
    found = re.split(r"\n*^\((api-[\w-]+)\)=\n", text, flags=re.MULTILINE)[1:]
    assert len(found[::2]) == len(set(found[::2]))
    return dict(zip(found[::2], found[1::2], strict=True))


def label(name, thing, module=""):
    words = ["api", module, "class" * isinstance(thing, type), name.lower().replace("_", "-")]
    return "-".join(filter(None, words))


def test_a_cell_of_the_pages_is_one_line():
    for cell in CELLS:
        assert cell.cell_type != "code" or len(cell.source.splitlines()) == 1


def test_the_pages_have_all_that_the_package_offers(entries):
    things = {name: getattr(normkit, name) for name in normkit.__all__}
    wanted = {label(n, thing) for n, thing in things.items() if not inspect.ismodule(thing)}
    assert wanted <= entries.keys()
    for name in normkit.experiments.__all__:
        assert label(name, None, "experiments") in entries


@pytest.mark.parametrize("name", [name for name in normkit.__all__ if name != "variance"])
def test_call_and_docstring_are_those_of_the_object(name, entries):
    thing = getattr(normkit, name)
    shown = entries[label(name, thing)]
    call = "".join(re.search(r"```python\n(.*?)\n```", shown, re.DOTALL)[1].split())
    wanted = inspect.signature(thing).parameters
    assert re.findall(r"[(,](?:[*/],)?\*{0,2}(\w+)", call) == list(wanted)
    default = {n: p.default for n, p in wanted.items() if isinstance(p.default, (int, float, str))}
    assert all(f"{name}={value!r}" in call for name, value in default.items())
    assert inspect.getdoc(thing).split("\n\n")[0] in shown


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A package with one module of the name `made`, whose text is given."""

    def write(text, **others):
        for name, content in {"made": text, **others}.items():
            path = tmp_path / "normkit" / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(content, "utf-8")

    monkeypatch.setattr(reference, "ROOT", tmp_path)
    reference._tree.cache_clear()
    yield write
    reference._tree.cache_clear()


def test_an_entry_has_label_call_prose_items_and_example(module):
    module(
        '''
def some_name(x: Array, *, eps: float = 1e-5) -> Array:
    r"""What it does.

    $$ \\mu $$

    x, y: (N, D).
    eps: the small number,
    on two lines.
    Raises ValueError.

    See: ln-formula in book/layer_norm.md; tests/normkit/test_made.py.

    >>> some_name(1)
    1
    """
'''
    )
    assert entry("made", "some_name").split("\n\n") == [
        "(api-some-name)=\n### `some_name`",
        "```python\nsome_name(x, *, eps=1e-05)\n```",
        "What it does.",
        "$$ \\mu $$",
        "- `x, y`: (N, D).\n- `eps`: the small number,\n  on two lines.\n- Raises ValueError.",
        "See {ref}`the formula <ln-formula>`, {download}`the code <normkit/made.py>` and "
        "{download}`its tests <tests/normkit/test_made.py>`.",
        "```pycon\n>>> some_name(1)\n1\n```",
    ]


def test_a_class_is_called_as_its_init_or_that_of_its_base_or_by_its_fields(module):
    module(
        '''
class Base:
    """Of all."""

    def __init__(self, width: int, norm: type = nn.LayerNorm) -> None: ...

class Made(Base):
    """One."""

class Pair(NamedTuple):
    """Two."""

    n: int
    mean: float
'''
    )
    text = of_module("made").data
    assert re.findall(r"^made\..*$", text, re.MULTILINE) == [
        "made.Base(width, norm=nn.LayerNorm)",
        "made.Made(width, norm=nn.LayerNorm)",
        "made.Pair(n, mean)",
    ]
    assert "(api-made-class-pair)=" in text


def test_what_a_module_imports_is_found_where_it_is_defined(module):
    module("from normkit.deeper import found\n\n__all__ = ['found']", deeper="def found(): 'Yes.'")
    assert of_module("made").data.endswith("```python\nmade.found()\n```\n\nYes.")
    with pytest.raises(LookupError, match=r"made\.py does not define lost"):
        entry("made", "lost")
