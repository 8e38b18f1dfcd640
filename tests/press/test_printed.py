"""The book as one file to print: pages in order, links inside it, nothing folded away."""

from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from pypdf import PdfReader

from press import PressError
from press.printed import ELSEWHERE, NAME, one_by_one, print_book

INDEX = (
    '<h1>Book<a class="headerlink" href="#book">#</a></h1><p><a href="normalisation.pdf">x</a></p>'
)
LESSON = """<h1 id="why">Why &amp; how</h1>
<p>See <a href="#formula">here</a>, <a href="index.html">there</a>, <a href="https://a.org">a</a>
and <a href="_downloads/1/lesson.ipynb">the notebook</a>.</p>
<div id="formula">y = x</div>
<details class="sd-dropdown"><summary>Yes</summary><p>Because. 归化</p></details>
<details class="hide"><summary>Show the code</summary><pre>draw()</pre></details>
<img src="_images/a.svg" alt="a">"""
CONTENTS = {"root": "index", "parts": [{"caption": "First", "chapters": [{"file": "lesson"}]}]}


@pytest.fixture
def book(tmp_path: Path) -> tuple[str, str, Path, Path]:
    for name, text in (("index", INDEX), ("lesson", LESSON)):
        page = tmp_path / f"site/en/{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f'<nav>menu</nav><article class="bd-article">{text}</article>', "utf-8")
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(CONTENTS))
    return "en", "Book", tmp_path / "_toc.yml", tmp_path / "site"


@pytest.fixture
def sheets(book):
    """The HTML of each page that is printed, as if it were the first."""
    return {name: BeautifulSoup(page(0), "html.parser") for name, page in one_by_one(*book)}


def test_pages_follow_each_other_after_the_list_of_them(sheets):
    assert [page.article["id"] for page in sheets.values()] == list(sheets) == ["index", "lesson"]
    links = [(a["href"], a.text) for a in sheets["index"].select("nav a")]
    assert links == [(f"{ELSEWHERE}lesson", "Why & how")]
    assert all(
        page.html["lang"] == "en" and page.title.string == "Book" for page in sheets.values()
    )


def test_links_stay_in_the_file_and_lead_nowhere_else(sheets):
    page = sheets["lesson"]
    links = {a.text: a["href"] for a in page.select("article a")}
    there = {"here": "#lesson--formula", "there": f"{ELSEWHERE}index", "a": "https://a.org"}
    assert links == there
    assert page.find(id="lesson--formula") and "the notebook" in page.text
    assert page.img["src"].startswith("file:") and page.img["src"].endswith("en/_images/a.svg")


def test_answers_are_open_and_the_code_of_figures_is_left_out(sheets):
    page = sheets["lesson"]
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
    texts = [page.extract_text() for page in printed.pages]
    assert len(texts) == 2 and "Book" in texts[0] and "Because. 归化" in texts[1]
    assert [entry["/Title"] for entry in printed.outline] == ["Book", "Why & how"]
    assert printed.metadata.title == "Book"
    places = printed.named_destinations
    led = [
        printed.get_destination_page_number(places[link.get_object()["/Dest"]])
        for page in printed.pages
        for link in page["/Annots"]
        if "/Dest" in link.get_object()
    ]
    assert led == [1, 1, 0]  # from the list of pages, to the formula, to the first page
    assert texts[1].split()[0] == "2"  # the number of the sheet
