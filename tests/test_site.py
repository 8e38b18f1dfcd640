"""The real site, as a reader gets it: no warning, nothing broken, one language a page."""

import re
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
import yaml
from bs4 import BeautifulSoup
from pypdf import PdfReader

from normkit.tutor.listing import FORMER, anchor
from normkit.tutor.listing import pages as mistakes_by_page
from normkit.tutor.mistakes import catalogue
from normkit.tutor.tasks import assignments
from press import LANGUAGES
from press.__main__ import SITE, pdf, site
from press.contents import chapters
from press.printed import NAME
from tests.browser import chromium, serving

# the same in every language
NAMES = {"DeepNorm", "OLMo 2", "Peri", "Post", "Pre", "PyTorch", "normkit"}


@pytest.fixture(scope="module")
def pages() -> dict[Path, BeautifulSoup]:
    site()
    found = {
        path: BeautifulSoup(path.read_text("utf-8"), "html.parser") for path in SITE.rglob("*.html")
    }
    assert len(found) > len(LANGUAGES)
    return found


@pytest.fixture(scope="module")
def served():
    """The address of the site."""
    with serving(SITE) as address:
        yield address


def test_every_link_leads_somewhere(pages):
    ids = {page: {e["id"] for e in soup.find_all(id=True)} for page, soup in pages.items()}
    broken = []
    for page, soup in pages.items():
        for element in soup.find_all(["a", "link", "script", "img"]):
            url = urlparse(element.get("href") or element.get("src") or "")
            if url.scheme or url.netloc:
                continue
            target = (page.parent / unquote(url.path)).resolve() if url.path else page.resolve()
            known = ids.get(SITE / target.relative_to(SITE.resolve()))
            if not target.exists() or (
                url.fragment and known is not None and url.fragment not in known
            ):
                broken.append(f"{page}: {url.geturl()}")
    assert broken == []


def test_the_same_pages_exist_in_every_language(pages):
    names = {
        language: {p.relative_to(SITE / language).as_posix() for p in pages if language in p.parts}
        for language in LANGUAGES
    }
    assert all(of == names["en"] for of in names.values())


def test_every_page_says_what_it_is_and_in_which_language(pages):
    for language, of in LANGUAGES.items():
        for page in (SITE / language).glob("*.html"):
            head = pages[page].head
            assert pages[page].html["lang"] == of.html
            assert head.title.string.strip()
            assert page.stem == "search" or head.find("meta", attrs={"name": "description"})


def test_authors_and_numbers_are_written_as_in_the_language_of_the_page(pages):
    """No “et al.” or “&” of the English; no decimal point in a French formula."""
    cited = 0
    for path, page in pages.items():
        language = path.relative_to(SITE).parts[0]
        names = " ".join(span.get_text() for span in page.select(".bibtex-citation"))
        cited += len(names)
        assert " & " not in names and (language == "en" or "et al." not in names), path
        if language == "fr":
            formulas = (found.get_text() for found in page.select('[encoding="application/x-tex"]'))
            assert not [tex for tex in formulas if re.search(r"\d\.\d", tex)], path
    assert cited


def test_nothing_is_loaded_from_elsewhere(pages):
    for page, soup in pages.items():
        loaded = [e.get("src") or e.get("href") for e in soup.find_all(["script", "img"])]
        loaded += [e["href"] for e in soup.find_all("link") if "stylesheet" in e.get("rel", [])]
        assert not [url for url in loaded if url and urlparse(url).netloc], page
    for sheet in SITE.rglob("*.css"):
        assert not re.search(r"(url\(|@import)[\"' ]*(https?:)?//", sheet.read_text("utf-8")), sheet


def test_no_markup_shows_as_it_is(pages):
    for page, soup in pages.items():
        article = soup.find("article")
        if article is None:
            continue
        for code in article.select("pre, code, .katex, script"):
            code.decompose()
        shown = article.get_text()
        # (a ** b, with spaces, is Python)
        assert not re.search(r"\S\*\*|\*\*\S|\$|\\\(|\{[a-z:]+\}`", shown), page
        if LANGUAGES["zh"].html == soup.html["lang"]:  # no quote is guessed: “ and ” take turns
            assert re.fullmatch("(“”)*", re.sub("[^“”]", "", shown)), page


def test_every_figure_has_words_in_the_language_of_the_page(pages):
    chinese = re.compile("[\u4e00-\u9fff]")
    for page, soup in pages.items():
        for image in soup.select("article img"):
            assert len(image["alt"]) > 20, page
            assert bool(chinese.search(image["alt"])) == ("zh" in page.parts), page
            drawing = (page.parent / image["src"]).read_text("utf-8")
            words = set(re.findall(r"<text[^>]*>([^<]*[^\W\d_]{2}[^<]*)<", drawing))
            if not words <= NAMES:
                assert bool(chinese.search(drawing)) == ("zh" in page.parts), image["src"]


def test_every_mistake_leads_to_its_place_in_the_book(pages):
    every = [mistake for name in assignments() for mistake in catalogue(name)[""]]
    ids = {page: {e["id"] for e in soup.find_all(id=True)} for page, soup in pages.items()}
    for language in LANGUAGES:
        for mistake in every:
            assert mistake.label in ids[SITE / language / f"{mistake.page}.html"], mistake.where


def test_the_address_that_an_entry_had_on_one_page_leads_to_it(pages):
    former = {label: key for key, labels in FORMER.items() for label in labels}
    listed = [mistake for of_page in mistakes_by_page().values() for mistake in of_page]
    every = {mistake.key: mistake for mistake in listed}
    wanted = {m.label: m for m in listed if anchor(m) == m.label}
    wanted |= {label: every[key] for label, key in former.items()}
    for language in LANGUAGES:
        index = pages[SITE / language / "mistakes.html"]
        places = {e["id"]: e for e in index.select(".entry[id], .entry [id]")}
        assert places.keys() == {*wanted, "test-finding"}
        for label, mistake in wanted.items():
            entry = places[label].find_parent(class_="entry") or places[label]
            assert entry.a["href"] == f"{mistake.listed}.html#{anchor(mistake)}"


def test_every_assignment_can_be_downloaded_in_every_language(pages):
    for language in LANGUAGES:
        links = [a["href"] for a in pages[SITE / language / "exercises.html"].select("a[download]")]
        names = {Path(link).name for link in links if link.endswith(".zip")}
        assert names == {f"{path.stem}.zip" for path in Path("solutions").glob("*.md")}


def test_the_wheel_can_be_downloaded_beside_the_line_that_installs_it(pages):
    for language in LANGUAGES:
        text = (SITE / language / "exercises.html").read_text("utf-8")
        page = BeautifulSoup(text, "html.parser")  # whole: other tests take the code away
        links = [a["href"] for a in page.select("a[download]") if a["href"].endswith(".whl")]
        assert len(links) == 1
        line = f"python -m pip install ./{Path(links[0]).name}\n"
        assert line in [block.get_text() for block in page.select("pre")]


def test_no_solution_travels_with_the_site(pages):
    for file in SITE.rglob("*"):
        if file.suffix in {".html", ".ipynb", ".js", ".txt"}:
            assert "BEGIN SOLUTION" not in file.read_text("utf-8"), file


@pytest.mark.proof
@pytest.mark.needs("chromium")
def test_the_file_to_print_holds_every_page_in_order(pages):
    pdf()
    contents = yaml.safe_load(Path("_toc.yml").read_text())
    listed = [c["file"] for part in contents["parts"] for c in chapters(part)]
    for language in LANGUAGES:
        printed = PdfReader(SITE / language / NAME)
        titles = [pages[SITE / language / f"{name}.html"].select_one("h1") for name in listed]
        for title in titles:
            title.select_one(".headerlink").extract()
        outline = [entry["/Title"] for entry in printed.outline if not isinstance(entry, list)]
        written = [title.get_text() for title in titles]  # a line's end may join two words
        assert ["".join(t.split()) for t in outline[1:]] == ["".join(t.split()) for t in written]


# colours are drawn by name; numbers of other kinds begin with # too: names of clips and marks
HEX = re.compile(r"(?<!url\()(?<!href=\")#[0-9a-fA-F]{6}\b")


def test_figures_have_the_palette_and_no_other_colour(pages):
    figures = sorted(SITE.glob("*/_images/*.svg"))
    assert len(figures) > 3 * 30
    for figure in figures:
        drawn = re.sub(r"<style>svg\{.*?</style>", "", figure.read_text("utf-8"))
        assert not HEX.search(drawn) and "var(--" in drawn, figure


def test_the_course_s_own_style_is_small(pages):
    """Before compression: 25 kB on the heaviest page, 14 on a chapter without pictures."""
    sizes = {path.name: path.stat().st_size for path in SITE.glob("static/**/*.css")}
    theme = (SITE / "static/book.css").read_text("utf-8")
    own = len(theme) - theme.rindex(":root{--a:")
    assert own <= 14_000
    assert own + max(sizes["front.css"], 0) + sizes["who.css"] <= 25_000
    assert sizes["book.css"] < 147_000


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("name", ["index", "layer_norm", "batch_norm", "group_instance_norm"])
def test_pictures_run_and_no_script_stops_the_others(pages, served, tmp_path, name):
    with chromium(tmp_path / "profile") as page:
        page.ask("Runtime.enable")
        page.open(f"{served}/fr/{name}.html")
        page.value(
            "document.querySelector('[data-picture]').previousElementSibling.scrollIntoView()"
        )
        page.wait("!!document.querySelector('.who [data-value]')")
        assert not [e for e in page.events if e.get("method") == "Runtime.exceptionThrown"]
