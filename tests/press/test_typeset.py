"""The site, built small in three languages: what a reader, a browser and a search engine get."""

import json
import re
from pathlib import Path

import nbformat.v4 as nb
import pytest
import yaml
from bs4 import BeautifulSoup

from press import LANGUAGES, PressError
from press.printed import NAME
from press.site import describe, spare_readers, tell_sides
from press.typeset import Book, messages, print_site, typeset

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200" viewBox="0 0 300 200">'
    '<text x="10" y="20">row</text></svg>'
)
WORDS = {
    "en": ["Layer", "The mean of a sample is subtracted.", "Four rows", "Rows."],
    "fr": ["Couche", "La moyenne d’un échantillon est soustraite.", "Quatre lignes", "Lignes."],
    "zh": ["层归一化", "从样本中减去均值。", "四行", "行。"],
}
LESSON = """(lesson)=
# {0}

{1} {{eq}}`eq-mean`, $x_i < 1$.

$$
\\mu = \\frac{{1}}{{D}} \\sum_i x_i
$$ (eq-mean)

## {0} $\\mu$

:::{{note}}
{1}
:::

::::{{tab-set}}
:::{{tab-item}} NumPy
```{{literalinclude}} code/mean.py
```
:::
::::

:::{{dropdown}} {0}
{1}
:::

| a | b |
|--:|--:|
| 1 | 2 |

{{cite:p}}`ba2016` {{download}}`{0} <exercises/lesson.ipynb>`

```{{bibliography}}
```
"""
PRINTED = (
    "- One.\n- [one file](print:normalisation.pdf)\n\nAlso [one file](print:normalisation.pdf)."
)
BIB = "@misc{ba2016, author={Ba, Jimmy}, title={Layer normalization}, year={2016}}\n"


def notebook(*cells) -> str:
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(nb.new_notebook(cells=list(cells), metadata={"kernelspec": kernel}))


def figure(alt: str, caption: str):
    output = nb.new_output("display_data", data={"image/svg+xml": SVG})
    meta = {"image": {"alt": alt}, "figure": {"caption": caption, "name": "fig-rows"}}
    cell = nb.new_code_cell("plot()", outputs=[output], execution_count=1)
    cell.metadata |= {"mystnb": meta, "tags": ["hide-input"]}
    return cell


def printing():
    output = nb.new_output("stream", text="1 2\n")
    return nb.new_code_cell("1", outputs=[output], metadata={"tags": ["hide-output"]})


def write_stage(stage: Path, lang: str) -> None:
    title, sentence, alt, caption = WORDS[lang]
    (stage / "code").mkdir(parents=True)
    (stage / "exercises").mkdir()
    index = nb.new_markdown_cell(f"(home)=\n# {title} 0\n\n{sentence}\n\n{PRINTED}")
    lesson = nb.new_markdown_cell(LESSON.format(title, sentence))
    (stage / "index.ipynb").write_text(notebook(index))
    (stage / "lesson.ipynb").write_text(notebook(lesson, figure(alt, caption), printing()))
    toc = {"format": "jb-book", "root": "index", "chapters": [{"file": "lesson"}]}
    (stage / "_toc.yml").write_text(yaml.safe_dump(toc))
    (stage / "references.bib").write_text(BIB)
    (stage / "normkit-1-py3-none-any.whl").touch()
    (stage / "code/mean.py").write_text("mean = sum(x) / len(x)\n")
    (stage / "exercises/lesson.ipynb").write_text(notebook())


def strings(lang: str):
    """Translations that cannot be mistaken for English."""
    return lambda message: message if lang == "en" else f"⟦{lang}⟧"


@pytest.fixture(scope="module")
def press(tmp_path_factory):
    folder = tmp_path_factory.mktemp("press")
    stages = {lang: folder / "stage" / lang for lang in LANGUAGES}
    for lang, stage in stages.items():
        write_stage(stage, lang)
    typeset(stages, strings, folder / "site", folder / "build")
    return folder


@pytest.fixture(scope="module")
def site(press):
    return press / "site"


def soup(site: Path, lang: str, page: str = "lesson") -> BeautifulSoup:
    return BeautifulSoup((site / lang / f"{page}.html").read_text(), "html.parser")


LANGS = pytest.mark.parametrize("lang", LANGUAGES)


@LANGS
def test_head(site, lang):
    page = soup(site, lang)
    assert page.html["lang"] == LANGUAGES[lang].html
    assert page.title.text.startswith(WORDS[lang][0])
    assert page.find("meta", {"name": "description"})["content"].startswith(WORDS[lang][1])
    icon = page.find("link", rel="icon")["href"]
    assert (site / lang / icon).is_file()


@LANGS
@pytest.mark.parametrize("name", ["index", "lesson", "search"])
def test_language_switch_keeps_the_page(site, lang, name):
    page = soup(site, lang, name)
    alternates = page.find_all("link", rel="alternate")
    tags = [link["hreflang"] for link in alternates]
    assert tags == [*(language.html for language in LANGUAGES.values()), "x-default"]
    switch = page.select(".languages a")
    assert [link.text for link in switch] == [x.name for x in LANGUAGES.values()]
    for link in [*switch, *alternates[:-1]]:
        assert (site / lang / link["href"]).resolve().name == f"{name}.html"
    assert all((site / lang / link["href"]).is_file() for link in [*switch, *alternates])


@LANGS
def test_every_link_and_resource_is_on_the_site(site, lang):
    for page in (site / lang).glob("*.html"):
        tree = soup(site, lang, page.stem)
        loaded = [t["src"] for t in tree.select("script[src], img[src]")]
        loaded += [t["href"] for t in tree.select("link[href]")]
        assert not [url for url in loaded if re.match(r"(https?:)?//", url)]
        links = [a["href"] for a in tree.select("a[href]") if "://" not in a["href"]]
        for url in loaded + links:
            target = url.split("#")[0].split("?")[0]
            assert (page.parent / target).exists(), f"{page.name}: {url}"


def test_styles_load_only_what_is_bundled(site):
    css = (site / "static/book.css").read_text()
    for url in re.findall(r"url\(([^)]*)\)", css):
        assert url.startswith(('"data:', "data:")) or (site / "static" / url).is_file()
    assert not list(site.rglob("fontawesome*"))
    assert (site / "static/icons.woff2").stat().st_size < 10_000


@LANGS
def test_formulas_need_no_script(site, lang):
    page = soup(site, lang)
    assert len(page.select("article .katex")) == 3  # in the text, displayed, in a heading
    assert not page.find_all(string=re.compile(r"\\\(|\\\[|\\frac"))
    assert "mathjax" not in str(page).lower()
    box = page.select_one("div.math")
    assert box["tabindex"] == "0" and box["role"] == "group" and box["aria-label"]
    assert box.select_one(".eqno").text.startswith("(1)")
    assert page.select_one('a[href="#equation-eq-mean"]').text == "(1)"


@LANGS
def test_images_have_alt_text_and_size(site, lang):
    image = soup(site, lang).select_one("article img")
    assert image["alt"] == WORDS[lang][2]
    assert (image["width"], image["height"]) == ("300", "200")


@pytest.mark.parametrize("lang", ["fr", "zh"])
@pytest.mark.parametrize("name", ["index", "lesson", "search"])
def test_no_english_is_left_in_the_theme(site, lang, name):
    page = soup(site, lang, name)
    for gone in page.select("script, style, .languages, .highlight, .citation, kbd"):
        gone.decompose()
    named = ("title", "aria-label", "alt", "placeholder", "data-bs-title", "data-copied")
    shown = [page.get_text(" ")]
    shown += [tag[name] for tag in page.find_all(True) for name in named if tag.has_attr(name)]
    english = """search skip main content toggle show hide code cell source previous next page
        link this heading permalink contents download notebook color mode light dark system settings
        copy copied language table formula site navigation back top fig see also authors"""
    french = "fig page code notebook site navigation table mode source" if lang == "fr" else ""
    left = set(re.findall(r"[a-z]+", " ".join(shown).lower())) & {*english.split()}
    assert left <= {*french.split()}


def test_the_book_s_own_strings_reach_the_page(site):
    assert "⟦zh⟧" in soup(site, "zh").title.text
    assert soup(site, "fr").select_one("dialog .finder input")["placeholder"] == "⟦fr⟧"
    said = {message for _file, _line, message in messages()}
    assert {"Copy", "Formula", "Search the course"} < said


@LANGS
def test_downloads(site, lang):
    page = soup(site, lang)
    notebooks = [page.select_one("p.notebook a"), page.select_one("article a.download")]
    for link in notebooks:
        assert json.loads((site / lang / link["href"]).read_text())["nbformat"] == 4
    cells = json.loads((site / lang / notebooks[0]["href"]).read_text())["cells"]
    assert WORDS[lang][1] in cells[0]["source"]


@LANGS
def test_the_sections_that_the_search_loads_are_this_language_s(site, lang):
    index = (site / f"static/search/{lang}.js").read_text()
    sections = json.loads(index[index.index("{") : index.rindex(";")])["sections"]
    assert any({"en": "sample", "fr": "échantillon", "zh": "样本"}[lang] in s[6] for s in sections)
    assert not soup(site, lang).select('script[src*="search"]')  # before it is opened
    assert soup(site, lang, "search").select_one("article .finder")


def test_scripts_are_deferred_and_few(site):
    scripts = soup(site, "en").select("script[src]")
    assert all(script.has_attr("defer") for script in scripts) and len(scripts) <= 2


def test_landing_page(site):
    page = BeautifulSoup((site / "index.html").read_text(), "html.parser")
    links = page.select("a")
    assert [link["hreflang"] for link in links] == [x.html for x in LANGUAGES.values()]
    assert all((site / link["href"]).is_file() for link in links)
    assert (site / ".nojekyll").exists()


def test_nothing_is_rebuilt_when_nothing_changed(press, capsys):
    before = {file: file.stat().st_mtime_ns for file in press.rglob("*")}
    stages = {lang: press / "stage" / lang for lang in LANGUAGES}
    typeset(stages, strings, press / "site", press / "build")
    assert {file: file.stat().st_mtime_ns for file in press.rglob("*")} == before
    assert capsys.readouterr().out.count("unchanged") == 3


def labelled(page: str) -> str:
    """A page with a label more."""
    return notebook(*nb.reads(page).cells, nb.new_markdown_cell("(moved)=\n## Moved"))


@pytest.mark.long
def test_edits_failures_deletions_and_printing(tmp_path, monkeypatch):
    stage, site = tmp_path / "stage", tmp_path / "site"
    write_stage(stage, "en")
    lesson = (stage / "lesson.ipynb").read_text()

    def build(page: str) -> list[Book]:
        (stage / "lesson.ipynb").write_text(page)
        return typeset({"en": stage}, strings, site, tmp_path / "build")

    def printed() -> list[bool]:
        pages = [(site / page).read_text() for page in ("index.html", "en/index.html")]
        return [(site / "en" / NAME).exists(), *(NAME in page for page in pages)]

    for _twice in range(2):
        with pytest.raises(PressError, match=r"lesson\.md:.*no-such-label"):
            build(lesson.replace("`eq-mean`", "`no-such-label`"))
    with pytest.raises(PressError, match=r"en/lesson\.html(?s:.*)\\nosuchmacro"):
        build(lesson.replace(r"\\frac", r"\\nosuchmacro"))
    books = build(lesson)
    assert (site / "en/lesson.html").exists()
    assert list((site / "en/_images").glob("*.svg"))

    assert printed() == [False] * 3
    assert [item.text for item in soup(site, "en", "index").select("article li")] == ["One."]
    monkeypatch.setattr("press.typeset.print_book", lambda *_: stage / "_toc.yml")
    print_site(books, site)
    assert printed() == [True] * 3
    build(lesson)  # nothing changed, so it is what was printed
    assert printed() == [True] * 3

    index = stage / "index.ipynb"
    build(labelled(lesson))
    index.write_text(labelled(index.read_text()))
    build(lesson)  # a label that has moved to a page which is read earlier is there once
    assert 'id="moved"' in (site / "en/index.html").read_text()

    (stage / "lesson.ipynb").unlink()
    (stage / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    typeset({"en": stage}, strings, site, tmp_path / "build")
    assert printed() == [False] * 3
    left = {file.name for file in (site / "en").rglob("*") if file.is_file()}
    assert "index.html" in left and not {n for n in left if "lesson" in n or ".svg" in n}


def test_description_of_a_page_without_text():
    assert describe(None) == ""


def test_empty_heads_and_roles_given_up_are_left_out():
    cell, body = '<th class="head"><p></p></th>', "<tbody><tr><td>1</td></tr></tbody>"
    table = f'<table><thead>\n<tr class="row-odd">{cell}\n{cell}\n</tr>\n</thead>\n{body}</table>'
    assert spare_readers(table) == f"<table>{body}</table>"
    named = table.replace("<p></p>", "<p>n</p>", 1)
    assert spare_readers(named) == named.replace(cell, '<td class="head"></td>')
    entry = '<div role="list" class="citation-list"><div class="citation" role="doc-biblioentry">'
    assert spare_readers(entry) == '<div class="citation-list"><div class="citation">'


def test_rows_whose_column_has_no_name_have_heads_of_their_own():
    head = '<thead><tr class="row-odd"><th class="head"></th><th class="head">n</th></tr></thead>'
    row = "<tbody><tr><td>{}</td><td>1</td></tr></tbody>"
    table = f"<table>{head}{row.format('mean')}</table>"
    assert '<tr><th scope="row">mean</th><td>1</td></tr>' in spare_readers(table)
    other = table.replace('<th class="head"></th>', '<th class="head">of</th>')
    assert spare_readers(other) == other


def test_the_sides_of_a_diff_are_told_in_words():
    def page(lines):
        return f'<div class="highlight-diff notranslate"><pre><span></span>{lines}</pre></div>'

    right, wrong = '<span class="gd">- a</span>\n', '<span class="gi">+ b</span>\n'
    same, other = '<span class="w"> </span>c\n', '<span class="gd">- not a diff</span>'
    told = (
        '<span class="gd" data-side="right"> a\n a</span>'
        '<span class="gi" data-side="wrong"> b</span>'
        f'{same}<span class="gd" data-side="right"> a</span>'
    )
    sides = right + right + wrong + same + right
    assert tell_sides(page(sides) * 2 + other) == page(told) * 2 + other


@pytest.mark.long
def test_a_site_that_knows_its_address_tells_it(tmp_path, monkeypatch):
    monkeypatch.setenv("NORMKIT_BOOK", "https://example.org/course/")
    write_stage(tmp_path / "stage", "en")
    typeset({"en": tmp_path / "stage"}, strings, tmp_path / "site", tmp_path / "build")
    page, course = soup(tmp_path / "site", "en"), "https://example.org/course"
    assert page.select_one("[rel=canonical]")["href"] == f"{course}/en/lesson.html"
    assert {a["href"] for a in page.select("[hreflang][rel]")} == {f"{course}/en/lesson.html"}
    told = {meta["property"]: meta["content"] for meta in page.select("[property]")}
    assert told["og:url"] == f"{course}/en/lesson.html"
    picture = tmp_path / "site" / told["og:image"].removeprefix(f"{course}/")
    assert picture.read_bytes().startswith(b"\x89PNG")
    linked = json.loads(page.select_one('[type="application/ld+json"]').string)
    assert (linked["@type"], linked["isPartOf"]["@type"]) == ("LearningResource", "Course")
    root = {name: (tmp_path / "site" / name).read_text() for name in ("sitemap.xml", "robots.txt")}
    assert root["sitemap.xml"].count("<loc>") == 2 and f"{course}/sitemap.xml" in root["robots.txt"]
    missing = BeautifulSoup((tmp_path / "site/404.html").read_text(), "html.parser")
    assert {a["href"] for a in missing.select("a")} == {f"{course}/en/index.html"}


def test_a_site_that_does_not_know_its_address_makes_none_up(site):
    page = soup(site, "en")
    assert not page.select("[rel=canonical], [property='og:url'], [property='og:image']")
    assert not (site / "sitemap.xml").exists() and not (site / "404.html").exists()
    assert len(page.select("meta[name=viewport]")) == 1
