"""The book as one file to print: pages in order, links inside it, nothing folded away."""

from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from pypdf import PdfReader

from press.printed import NAME, browser, one_page, print_book

INDEX = (
    '<h1>Book<a class="headerlink" href="#book">#</a></h1><p><a href="normalisation.pdf">x</a></p>'
)
LESSON = """<h1 id="why">Why &amp; how</h1>
<p>See <a href="#formula">here</a>, <a href="index.html">there</a>, <a href="https://a.org">a</a>
and <a href="_downloads/1/lesson.ipynb">the notebook</a>.</p>
<div id="formula">y = x</div>
<details class="sd-dropdown"><summary>Yes</summary><p>Because.</p></details>
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


def test_pages_follow_each_other_after_the_list_of_them(book):
    page = BeautifulSoup(one_page(*book), "html.parser")
    assert [article["id"] for article in page.select("article")] == ["index", "lesson"]
    assert [(a["href"], a.text) for a in page.select("nav a")] == [("#lesson", "Why & how")]
    assert page.html["lang"] == "en" and page.title.string == "Book"


def test_links_stay_in_the_file_and_lead_nowhere_else(book):
    page = BeautifulSoup(one_page(*book), "html.parser")
    links = {a.text: a["href"] for a in page.select("article a")}
    assert links == {"here": "#lesson--formula", "there": "#index", "a": "https://a.org"}
    assert page.find(id="lesson--formula") and "the notebook" in page.text
    assert page.img["src"].startswith("file:") and page.img["src"].endswith("en/_images/a.svg")


def test_answers_are_open_and_the_code_of_figures_is_left_out(book):
    page = BeautifulSoup(one_page(*book), "html.parser")
    assert [details.get("open") for details in page.select("details")] == [""]
    assert "draw()" not in page.text and "#" not in page.h1.text


@pytest.mark.skipif(browser() is None, reason="no Chromium or Chrome on this machine")
def test_it_is_printed_once(book, tmp_path, capsys):
    for _ in range(2):
        print_book(*book, tmp_path)
    assert capsys.readouterr().out.count("printing") == 1
    printed = PdfReader(book[-1] / "en" / NAME)
    texts = [page.extract_text() for page in printed.pages]
    assert len(texts) == 2 and "Book" in texts[0] and "Because." in texts[1]
    assert [entry["/Title"] for entry in printed.outline] == ["Book", "Why & how"]
