"""The book as one file to print: pages in order, links inside it, nothing folded away."""

from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from pypdf import PdfReader

from press import PressError
from press.printed import ELSEWHERE, NAME, _parts, collect, print_book

INDEX = "<h1>Book</h1>"
LESSON = """<h1 id="why">Why &amp; how</h1>
<p>See <a href="#formula">here</a>, <a href="index.html">there</a>, <a href="https://a.org">a</a>
and <a href="_downloads/1/lesson.ipynb">the notebook</a>.</p>
<p>A <a class="term" href="glossary.html#term-token">token</a>.</p><div id="formula">y = x</div>
<details class="sd-dropdown"><summary>Yes</summary><p>Because. 归化</p></details>
<details class="hide"><summary>Show the code</summary><pre>draw()</pre></details>
<p>See <a href="mistakes_lesson.html#one">a mistake</a>.</p>
<p><a href="normalisation.pdf">one file</a></p>
<img src="_images/a.svg" alt="a">"""
MORE = "<h1>More</h1>"
FILES = [{"file": name} for name in ("lesson", "mistakes_lesson", "more")]
CONTENTS = {"root": "index", "parts": [{"caption": "First", "chapters": FILES}]}


@pytest.fixture
def book(tmp_path: Path) -> tuple[str, str, Path, Path]:
    for name, text in (("index", INDEX), ("lesson", LESSON), ("more", MORE)):
        page = tmp_path / f"site/en/{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f'<nav>menu</nav><article class="bd-article">{text}</article>', "utf-8")
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(CONTENTS))
    return "en", "Book", tmp_path / "_toc.yml", tmp_path / "site"


@pytest.fixture
def sheets(book):
    """The pages that are printed, as one."""
    return whole(*book)


def whole(lang, _title, contents, site):
    pages = collect(lang, list(_parts(yaml.safe_load(contents.read_text()))), site)
    return BeautifulSoup("".join(map(str, pages.values())), "html.parser")


def test_pages_follow_each_other_and_mistakes_stay_on_the_site(sheets):
    assert [page["id"] for page in sheets.select("article")] == ["lesson", "more"]


def test_links_stay_in_the_file_and_lead_nowhere_else(sheets):
    page = sheets.find(id="lesson")
    links = {a.text: a["href"] for a in page.select("a")}
    there = {"here": "#lesson--formula", "there": f"{ELSEWHERE}index", "a": "https://a.org"}
    assert links == there and "one file" not in page.text
    assert page.find(id="lesson--formula") and "the notebook" in page.text
    assert "A token." in page.text
    assert page.img["src"].startswith("file:") and page.img["src"].endswith("en/_images/a.svg")


def test_a_site_with_an_address_is_linked_to(book, monkeypatch):
    monkeypatch.setenv("NORMKIT_BOOK", "https://example.org/course/")
    links = {a.text: a["href"] for a in whole(*book).select("a")}
    course = "https://example.org/course/en"
    assert links["a mistake"] == f"{course}/mistakes_lesson.html#one"
    assert links["the notebook"] == f"{course}/_downloads/1/lesson.ipynb"


def test_answers_are_open_and_the_code_of_figures_is_left_out(sheets):
    page = sheets.find(id="lesson")
    assert [details.get("open") for details in page.select("details")] == [""]
    assert "draw()" not in page.text and "#" not in page.h1.text


def test_without_a_browser_it_says_what_to_install(book, tmp_path, monkeypatch):
    monkeypatch.setenv("CHROMIUM", "no-such-program")
    with pytest.raises(PressError, match="install it"):
        print_book(*book, tmp_path)


@pytest.mark.needs("chromium")
def test_it_is_printed_once_and_its_links_lead_to_the_page(book, tmp_path, capsys):
    files = {print_book(*book, tmp_path) for _ in range(2)}
    assert capsys.readouterr().out.count("printing") == 2
    assert files == {tmp_path / NAME}
    printed = PdfReader(tmp_path / NAME)
    cover, contents, lesson, more = (page.extract_text() for page in printed.pages)
    assert "Book" in cover and "Because. 归化" in lesson
    assert contents.split() == ["First", "Why", "&", "how", "1", "More", "2"]
    assert (lesson.split()[0], more.split()[0]) == ("1", "2")  # the numbers of the sheets
    assert [entry["/Title"] for entry in printed.outline] == ["Book", "Why & how", "More"]
    assert printed.metadata.title == "Book"
    places = printed.named_destinations
    led = [
        printed.get_destination_page_number(places[link.get_object()["/Dest"]])
        for page in printed.pages
        for link in page.get("/Annots", [])
        if "/Dest" in link.get_object()
    ]
    assert led == [2, 3, 2, 0]  # from the contents, to the formula, to the cover
