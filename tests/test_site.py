"""The real site, as a reader gets it: no warning, nothing broken, one language a page."""

import gc
import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
import yaml
from bs4 import BeautifulSoup
from pypdf import PdfReader

from normkit.tutor.listing import FORMER, anchor, stood_here
from normkit.tutor.listing import pages as mistakes_by_page
from normkit.tutor.mistakes import catalogue
from normkit.tutor.tasks import assignments
from press import LANGUAGES
from press.commands import SITE, pdf
from press.contents import chapters
from press.node import NODE, install
from press.printed import NAME
from tests.browser import chromium, serving

# the same in every language
NAMES = {"DeepNorm", "OLMo 2", "Peri", "Post", "Pre", "PyTorch", "normkit"}


VNU = NODE / "node_modules/vnu-jar/build/dist/vnu.jar"
# it checks one run of pages, mostly while it warms up: the first compiler is enough
JAVA = ("java", "-Xss8m", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-jar", VNU)


def invalid(*pages: Path) -> list[str]:
    """The errors that the Nu HTML checker finds in pages or in folders of pages."""
    asked = ["--errors-only", "--format", "json", "--exit-zero-always", "--skip-non-html"]
    told = subprocess.run([*JAVA, *asked, *pages], capture_output=True, text=True, check=True)
    found = json.loads(told.stderr)["messages"]
    return [f"{m['url']}: {m['message']} {m.get('extract', '')!r}" for m in found]


@pytest.mark.needs("java")
def test_pages_are_valid_html(built):
    install(NODE, for_tests=True)
    some = sorted((SITE / "en").rglob("*.html"))[::3]
    others = [SITE / lang / f"{name}.html" for lang in ("fr", "zh") for name in ("index", "why")]
    assert invalid(SITE / "index.html", *some, *others) == []


@pytest.mark.proof
@pytest.mark.needs("java")
def test_all_pages_are_valid_html(built):
    install(NODE, for_tests=True)
    assert invalid(SITE) == []


@pytest.fixture(scope="module")
def pages(built) -> Iterator[dict[Path, BeautifulSoup]]:
    gc.disable()  # it would go through all trees again and again
    found = {
        path: BeautifulSoup(path.read_text("utf-8"), "html.parser") for path in SITE.rglob("*.html")
    }
    gc.enable()
    gc.freeze()
    assert len(found) > len(LANGUAGES)
    yield found
    found.clear()  # 750 MB
    gc.unfreeze()
    gc.collect()


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
            formulas = (found.get_text() for found in page.select(".katex, .math"))
            assert not [text for text in formulas if re.search(r"\d\.\d", text)], path
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


def test_a_formula_is_seen_once(pages):
    """What is read aloud is hidden: MathML, or its signs where a button is named by them."""
    for page, soup in pages.items():
        for formula in soup.select(".katex:has(> [aria-hidden])"):
            shown = [
                text for text in formula.find_all(string=True, recursive=False) if text.strip()
            ]
            assert shown == [], page


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
    wanted = {m.label: m for m in listed if stood_here(m)}
    wanted |= {label: every[key] for label, key in former.items()}
    for language in LANGUAGES:
        index = pages[SITE / language / "mistakes.html"]
        named = index.select(".entry[id], .entry [id], .sd-card-text > a[id]")
        places = {element["id"]: element for element in named}
        assert places.keys() == {*wanted, "test-finding"}
        for label, mistake in wanted.items():
            entry = places[label].find_parent(class_="entry") or places[label]
            link = entry if entry.name == "a" else entry.a
            assert link["href"] == f"{mistake.listed}.html#{anchor(mistake)}"


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
    """Before compression: 25 kB on the heaviest page, 14 on one without pictures."""
    sizes = {path.stem: path.stat().st_size for path in SITE.glob("static/**/*.css")}
    theme = (SITE / "static/book.css").read_text("utf-8")
    own = len(theme) - theme.rindex(":root{--a:")
    assert own <= 14_000
    assert sizes["book"] < 147_000
    pictures = {
        place["data-picture"] for page in pages.values() for place in page.select("[data-picture]")
    }
    heaviest = max(sizes[name] for name in pictures)  # they come one by one, as one scrolls
    assert own + sizes["front"] + sizes["common"] + sizes["who"] <= 26_000
    assert own + sizes["common"] + sizes["drawing"] + heaviest <= 25_000
    assert own + sizes["mistakes"] <= 25_000


def test_a_heading_has_the_same_address_in_every_language(pages):
    for path, page in pages.items():
        if "en" in path.parts:
            places = [section["id"] for section in page.select("article section[id]")]
            for language in LANGUAGES:
                other = pages[SITE / language / path.relative_to(SITE / "en")]
                assert [e["id"] for e in other.select("article section[id]")] == places, path


def elements(html: str) -> int:
    return len(re.findall("<[a-z]", html))


def test_every_page_is_light(pages):
    """What makes a page slow to lay out is its elements."""
    for path in pages:
        html = path.read_text("utf-8")
        many, long = (5000, 250_000) if path.stem.startswith("mistakes") else (8000, 400_000)
        assert elements(html) <= many, (path, elements(html))
        assert len(html.encode()) <= long, path


@pytest.fixture(scope="module")
def browser(pages):
    with chromium() as page:
        page.ask("Runtime.enable")
        yield page


@pytest.fixture
def reader(browser):
    """A browser whose scripts have not failed when the test is over."""
    browser.events.clear()
    yield browser
    assert not [e for e in browser.events if e.get("method") == "Runtime.exceptionThrown"]


CHROMIUM = pytest.mark.needs("chromium")
BROKEN = r"""(() => { const broken = [];
for (const cell of document.querySelectorAll('article tr > :nth-child(-n + 3)')) {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = new Range();
  while (walk.nextNode()) {
    for (const word of walk.currentNode.data.matchAll(/[\p{Script=Latin}\d-]+/gu)) {
      range.setStart(walk.currentNode, word.index);
      range.setEnd(walk.currentNode, word.index + word[0].length);
      const lines = [...range.getClientRects()].map(({ top }) => Math.round(top));
      if (new Set(lines).size > 1) broken.push(word[0]);
    }
  }
} return broken; })()"""


@CHROMIUM
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_word_of_the_glossary_is_broken(reader, served, language):
    reader.open(f"{served}/{language}/glossary.html")
    for width in (320, 360, 390, 480, 576, 577, 640, 768, 992, 1100, 1280, 1600):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        reader.ask("Emulation.setDeviceMetricsOverride", **size)
        assert reader.value(BROKEN) == [], width
    reader.ask("Emulation.clearDeviceMetricsOverride")


def test_terms_are_marked_on_the_pages_that_are_read(pages):
    apart = "index|api.*|exercises|glossary|instructors|references|search|mistakes.*"
    for path in (path for language in LANGUAGES for path in (SITE / language).glob("*.html")):
        marked = [a["href"].split("#")[1] for a in pages[path].select("a.term")]
        told = [element["data-term"] for element in pages[path].find_all(attrs={"data-term": True})]
        assert marked == told and len(set(marked)) == len(marked) <= 20, path
        assert re.fullmatch(apart, path.stem) or len(marked) >= 6, path


PICTURED = sorted(p.stem for p in Path("book").glob("*.md") if "{picture}" in p.read_text("utf-8"))


@pytest.fixture(scope="module")
def visitor(pages):
    """A browser of its own, since what is unfolded is kept."""
    with chromium() as page:
        yield page


# one page of each kind, with every sort of thing that pages show
KINDS = ["index", "search", "notation", "why", "api", "choosing", "glossary", "references"]
KINDS += ["exercises", "instructors", "models", "mistakes", "mistakes_weight_norm"]
# open, so that axe sees it; without transitions, which would blend two themes
OPENED = """document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
    document.head.append(Object.assign(document.createElement("style"),
        { textContent: "* { transition: none !important; animation: none !important; }" }));"""
THEMES = {"light": "{}", "dark": "{ runOnly: ['color-contrast'] }"}  # only colours differ


def violations(visitor, address: str) -> list:
    """What axe finds on a page in both themes, with all folds open."""
    visitor.open(address)
    visitor.value(OPENED)
    found = []
    for theme, options in THEMES.items():
        visitor.value(f"document.documentElement.dataset.theme = '{theme}'")
        found += visitor.axe(options=options)
    return found


@CHROMIUM
@pytest.mark.sample(5)
@pytest.mark.parametrize("name", KINDS)
def test_axe_finds_nothing(visitor, served, name):
    assert violations(visitor, f"{served}/fr/{name}.html") == []


@pytest.mark.proof
@CHROMIUM
@pytest.mark.parametrize("language", LANGUAGES)
def test_axe_finds_nothing_on_any_page(pages, visitor, served, language):
    for path in sorted(p for p in pages if language in p.parts):
        assert violations(visitor, f"{served}/{language}/{path.name}") == [], path


def resize(visitor, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    visitor.ask("Emulation.setDeviceMetricsOverride", **size)


def too_wide(visitor, address: str, widths: list[int]) -> list[int]:
    """The widths at which a page scrolls sideways, with all folds open."""
    resize(visitor, widths[0])
    visitor.open(address)
    visitor.value(OPENED)
    root, found = "document.documentElement", []
    for width in widths:
        resize(visitor, width)
        if visitor.value(f"{root}.scrollWidth > {root}.clientWidth"):
            found.append(width)
    visitor.ask("Emulation.clearDeviceMetricsOverride")
    return found


@CHROMIUM
def test_no_page_scrolls_sideways(pages, visitor, served):
    for path in sorted(p for p in pages if "fr" in p.parts)[::8]:  # whose words are the longest
        assert too_wide(visitor, f"{served}/fr/{path.name}", [320, 390]) == [], path


@pytest.mark.proof
@CHROMIUM
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_page_scrolls_sideways_at_any_width(pages, visitor, served, language):
    for path in sorted(p for p in pages if language in p.parts):
        found = too_wide(visitor, f"{served}/{language}/{path.name}", [320, 390, 900, 1200])
        assert found == [], path


@pytest.mark.parametrize(("name", "form"), [("mistakes", "mistake-filter"), ("models", "models")])
def test_a_filter_stands_in_its_page_before_any_script_runs(pages, name, form):
    """Put there by a script, it pushed down what was read already."""
    for language in LANGUAGES:
        assert pages[SITE / language / f"{name}.html"].select_one(f"article form.{form}")


@CHROMIUM
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_name_of_the_course_fits_the_header(visitor, served, language):
    visitor.open(f"{served}/{language}/notation.html")
    for width in (320, 375, 577, 768, 901, 991, 1440):
        resize(visitor, width)
        assert visitor.value("document.querySelector('.top').offsetHeight") < 60, width
    visitor.ask("Emulation.clearDeviceMetricsOverride")


@CHROMIUM
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_front_page_lists_the_chapters_beside_the_name_of_their_part(visitor, served, language):
    lists = "[...document.querySelectorAll('section section section > ul')]"
    resize(visitor, 1440)
    visitor.open(f"{served}/{language}/index.html")
    narrowest = visitor.value(f"Math.min(...{lists}.map((list) => list.offsetWidth))")
    visitor.ask("Emulation.clearDeviceMetricsOverride")
    assert narrowest > 700


def zipped(file: Path) -> int:
    """What a file weighs on the way to a reader."""
    content = file.read_bytes()
    return len(content if file.suffix in {".woff2", ".png"} else gzip.compress(content))


def loaded(visitor, path: Path, address: str) -> dict[str, int]:
    """What each file weighs that a page loads at first: styles, scripts, fonts, images in view."""
    entries = "performance.getEntriesByType('resource').map((entry) => entry.name)"
    visitor.open(address)
    visitor.wait("document.fonts.status == 'loaded'")
    urls = [url for url in visitor.value(entries) if "favicon" not in url]  # of the tab's
    files = {path, *(SITE / urlparse(url).path[1:] for url in urls)}
    return {file.name: zipped(file) for file in files}


@CHROMIUM
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.proof)])
def test_what_a_page_loads_is_light(pages, visitor, served, every):
    resize(visitor, 390)  # a phone
    for path in sorted(p for p in pages if "en" in p.parts and p.stem != "search")[::every]:
        sizes = loaded(visitor, path, f"{served}/en/{path.name}")
        assert sum(sizes.values()) <= 160_000, (path, sizes)


@CHROMIUM
@pytest.mark.parametrize("name", PICTURED)
def test_every_picture_of_a_page_runs(reader, served, name):
    reader.open(f"{served}/fr/{name}.html")
    count = reader.value("document.querySelectorAll('[data-picture]').length")
    for place in range(count):
        reader.value(
            f"(e => (document.getElementById(e.dataset.figure) ?? e).scrollIntoView())"
            f"(document.querySelectorAll('[data-picture]')[{place}])"
        )
        reader.wait(
            f"!!document.querySelectorAll('[data-picture]')[{place}].querySelector('.verdict')"
        )


@CHROMIUM
def test_another_language_opens_at_the_heading_that_is_read(reader, served):
    reader.open(f"{served}/en/layer_norm.html")
    reader.value("document.querySelector('#the-formula').scrollIntoView()")
    reader.value("document.querySelector('.languages a[data-code=fr]').click()")
    reader.wait("location.pathname.startsWith('/fr/') && document.readyState == 'complete'")
    assert reader.value("location.hash") == "#the-formula"
    top = "document.querySelector('#the-formula').getBoundingClientRect().top"
    assert abs(reader.value(top)) < 200


@CHROMIUM
@pytest.mark.parametrize(
    ("language", "words", "name"),
    [
        ("en", "unbiased", "unbiased_variance"),
        ("en", "root epsilon outside", "eps_outside_root"),
        ("fr", "n - 1", "unbiased_variance"),
        ("zh", "n - 1", "unbiased_variance"),
    ],
)
def test_a_mistake_is_found_as_one_types(reader, served, language, words, name):
    reader.open(f"{served}/{language}/mistakes.html")
    field = "document.querySelector('.mistake-filter input')"
    reader.value(f"{field}.focus(); {field}.value = '{words}'")
    reader.value(f"{field}.dispatchEvent(new Event('input'))")
    reader.wait("!!document.querySelector('.mistake-filter li')")
    found = reader.value(
        "[...document.querySelectorAll('.mistake-filter code')].map(e => e.textContent)"
    )
    assert name in found
    said = reader.value("document.querySelector('.mistake-filter [role=status]').textContent")
    assert max(map(int, re.findall(r"\d+", said))) > len(found)


@CHROMIUM
def test_an_address_opens_the_entry_that_it_means(reader, served):
    reader.open(f"{served}/en/mistakes_layer_norm.html#mistakes-layer-norm-unbiased-variance")
    assert reader.value("document.querySelectorAll('details.folded[open]').length") == 1
    assert "unbiased_variance" in reader.value(
        "document.querySelector('details[open] h3').textContent"
    )


# how many boxes scroll and are not reached with the keyboard, or the other way round
WRONG = """[...document.querySelectorAll("pre, div.math")].filter((box) => box.checkVisibility()
    && box.scrollWidth > box.clientWidth !== (box.tabIndex === 0)).length"""


@CHROMIUM
def test_what_scrolls_is_reached_with_the_keyboard_once_it_shows(visitor, served):
    resize(visitor, 320)
    visitor.open(f"{served}/en/layer_norm.html")
    visitor.wait(f"{WRONG} === 0")
    before = visitor.value("document.querySelectorAll('pre[tabindex=\"0\"]').length")
    visitor.value(OPENED)
    visitor.wait(f"{WRONG} === 0")
    assert visitor.value("document.querySelectorAll('pre[tabindex=\"0\"]').length") > before > 0
    visitor.ask("Emulation.clearDeviceMetricsOverride")


@CHROMIUM
def test_the_header_shows_one_icon_of_the_theme(reader, served):
    reader.open(f"{served}/en/cost.html")
    shown = (
        "[...document.querySelectorAll('.theme-switch')].filter(e => e.checkVisibility()).length"
    )
    assert reader.value(shown) == 1


@CHROMIUM
def test_a_page_whose_summary_stands_first_is_read_at_its_end(reader, served):
    reader.open(f"{served}/en/interview.html")
    reader.value("localStorage.clear()")
    reader.open(f"{served}/en/interview.html?again")
    frame = "requestAnimationFrame"
    reader.value(f"{frame}(() => {frame}(() => {frame}(() => {{ window.drawn = true; }})))")
    reader.wait("window.drawn")
    assert reader.value("localStorage.getItem('normkit')") is None
    reader.value("document.querySelector('#sources').scrollIntoView()")
    reader.wait("!!document.querySelector('.bd-links .current .read')")
    assert not reader.value("document.querySelector('.sections .read')")
    reader.value("localStorage.clear()")


@CHROMIUM
def test_what_a_reader_did_is_kept_until_it_is_erased(reader, served):
    reader.open(f"{served}/en/layer_norm.html")
    reader.value("localStorage.clear()")
    reader.open(f"{served}/en/layer_norm.html?again")
    reader.value(
        "document.querySelector('details.wrong > summary').click();"
        "document.querySelector('details.right > summary').click();"
        "document.querySelectorAll('.sd-tab-set > label')[1].click();"
        "document.querySelector('.remember').scrollIntoView()"
    )
    reader.wait("!!document.querySelector('.bd-links .current .read')")
    reader.open(f"{served}/fr/layer_norm.html")
    assert reader.value("document.querySelectorAll('details:is(.right, .wrong)[open]').length") == 2
    assert reader.value("document.querySelectorAll('.sd-tab-set > input')[1].checked")
    reader.open(f"{served}/fr/index.html")
    told = reader.value("document.querySelector('.progress').textContent")
    assert re.findall(r"\d+", told) == ["1", "0", "1"]
    reader.value("document.querySelector('.progress button').click()")
    assert reader.value("document.querySelector('.progress').hidden")
    assert reader.value("localStorage.getItem('normkit')") is None
