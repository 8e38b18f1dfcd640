"""The chapters beside the text: each with its glyph, the current one unfolded to its sections."""

from pathlib import PurePosixPath

from bs4 import BeautifulSoup, Tag


def sidebar(tree: object, sections: object, page: str) -> str:
    """The list of chapters, from the theme's, and the sections of the page, from its contents."""
    soup = BeautifulSoup(str(tree), "html.parser")
    for link in soup.select("li.toctree-l1 > a"):
        name = page if link["href"] == "#" else PurePosixPath(str(link["href"])).stem
        link.insert(0, _glyph(soup, name))
    for fold in soup.select("li > details"):
        _unfold(fold) if fold.find_parent("li", class_="current") else fold.decompose()
    current = soup.select_one("li.current > a.current")
    if current:
        current["aria-current"] = "page"
        current.insert_after(_sections(sections))
    return str(soup)


def _glyph(soup: BeautifulSoup, name: str) -> Tag:
    svg = soup.new_tag("svg", attrs={"class": "i", "aria-hidden": "true"})
    svg.append(soup.new_tag("use", href=f"#glyph-{name}"))  # templates/glyphs.html
    return svg


def _unfold(fold: Tag) -> None:
    """Show the pages of a part while one of them is read."""
    summary = fold.find("summary")
    if isinstance(summary, Tag):
        summary.decompose()
    fold.unwrap()


def _sections(contents: object) -> BeautifulSoup:
    """The headings of the second level as a list of links."""
    soup = BeautifulSoup(str(contents), "html.parser")
    links = [link for link in soup.select("li.toc-h2 > a")] or soup.select("li.toc-h1 li > a")
    items = "".join(f"<li>{link}</li>" for link in links)
    return BeautifulSoup(f'<ul class="sections">{items}</ul>' if items else "", "html.parser")
