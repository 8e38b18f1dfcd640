"""The sidebar: glyphs, the sections of the page, and nothing unfolded elsewhere."""

from bs4 import BeautifulSoup

from press.site.sidebar import sidebar

TREE = """
<p class="caption">Normalisations</p>
<ul><li class="toctree-l1 current active">
<a class="current reference internal" href="#">Layer</a></li>
<li class="toctree-l1"><a class="reference internal" href="batch_norm.html">Batch</a></li></ul>
<ul><li class="toctree-l1"><a class="reference internal" href="mistakes.html">Mistakes</a>
<details><summary>x</summary><ul><li class="toctree-l2"><a href="mistakes_dyt.html">DyT</a></li>
</ul></details></li></ul>
"""
SECTIONS = """<ul><li class="toc-h2 nav-item"><a href="#why">Why <em>so</em></a></li>
<li class="toc-h2 nav-item"><a href="#how">How</a></li></ul>"""


def test_each_chapter_has_its_glyph_and_the_current_one_its_sections():
    soup = BeautifulSoup(sidebar(TREE, SECTIONS, "layer_norm"), "html.parser")
    glyphs = [use["href"] for use in soup.select("li.toctree-l1 > a > svg.i > use")]
    assert glyphs == ["#glyph-layer_norm", "#glyph-batch_norm", "#glyph-mistakes"]
    current = soup.select_one("[aria-current=page]")
    assert current.get_text() == "Layer"
    assert [a["href"] for a in current.parent.select(".sections a")] == ["#why", "#how"]


def test_only_the_part_that_is_read_unfolds():
    assert "mistakes_dyt" not in sidebar(TREE, SECTIONS, "layer_norm")
    inside = TREE.replace('l1"><a class="reference internal" href="mis', 'l1 current"><a href="mis')
    shown = BeautifulSoup(sidebar(inside, "", "mistakes_dyt"), "html.parser")
    assert shown.select_one('a[href="mistakes_dyt.html"]') and not shown.select("details, summary")
