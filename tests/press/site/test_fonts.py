"""Each font of formulas holds the signs that are set in it, and no others."""

import pytest

from press.node import NODE, install
from press.site import HERE
from tests.browser import chromium, node, serving

RUN = """
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { signs } from "FONTS";
import { render } from "FORMULA";
const require = createRequire(process.cwd() + "/package.json"), { Parser } = require("htmlparser2");
const { formulas } = JSON.parse(readFileSync(0, "utf8"));
const framed = (tex) => `<p>text <span class="katex">${render(tex, false, "")}</span></p>`;
const css = readFileSync("node_modules/katex/dist/katex.css", "utf8");
const held = signs(formulas.map(framed), css, Parser);
console.log(JSON.stringify([...held].map(([font, of]) => [font, [...of].join("")])));
"""
PROGRAM = RUN.replace("FONTS", (HERE / "fonts.mjs").absolute().as_uri()).replace(
    "FORMULA", (HERE / "formula.mjs").absolute().as_uri()
)


@pytest.mark.parametrize(
    ("formula", "font", "signs"),
    [
        ("x + 1", "Math-Italic", "x"),
        ("x + 1", "Main-Regular", "1+"),
        (r"\mathbf{W}x", "Main-Bold", "W"),
        (r"\mathcal{N}", "Caligraphic-Regular", "N"),
        (r"\mathbb{R}", "AMS-Regular", "R"),
        (r"\sum_i x", "Size1-Regular", "∑"),
        (r"\boldsymbol{\gamma}", "Math-BoldItalic", "γ"),
        (r"\text{eff}", "Main-Regular", "ef"),
        (r"\Bigl(x\Bigr)", "Size2-Regular", "()"),
    ],
)
def test_a_sign_is_in_the_font_that_sets_it(formula, font, signs):
    install(NODE)
    held = dict(node(PROGRAM, formulas=[formula]))
    assert set(held[f"KaTeX_{font}"]) - {"\u200b"} == set(signs)


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("name", ["layer_norm", "batch_norm", "outliers"])
def test_no_formula_falls_back_to_another_font(built, name):
    with serving(built) as address, chromium() as page:
        page.open(f"{address}/en/{name}.html")
        page.wait("document.fonts.status == 'loaded'")
        for domain in ("DOM", "CSS"):
            page.ask(f"{domain}.enable")
        root = page.ask("DOM.getDocument")["root"]["nodeId"]
        seen = page.ask("DOM.querySelectorAll", nodeId=root, selector=".katex [aria-hidden]")
        told = [page.ask("CSS.getPlatformFontsForNode", nodeId=one) for one in seen["nodeIds"]]
    families = {font["familyName"] for one in told for font in one["fonts"]}
    assert len(told) > 100
    assert all(family.startswith("KaTeX_") for family in families), families
