"""The table of models: its short columns say no more than the wording that was written down."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

from normkit.examining import Norm
from tests.book.models import BORROWED, MORE, SHOWN_BY, differences, order, rows, several
from tests.normkit.examining import zoo

ROWS = rows()
BY_NAME = {row["model"]: row for row in ROWS}
PAGE = Path(__file__).parents[2].joinpath("book/models.md").read_text("utf-8")
WORDS = {
    "kind": "language vision speech diffusion –",
    "norm": "LayerNorm RMSNorm BatchNorm GroupNorm other none",
    "place": "Pre Post Peri branch_end parallel –",
    "multiply": "cast_first float32 no_cast –",
    "weight": "weight weight_+_bias 1_+_weight 1_+_weight_+_bias no_bias none",
    "qk": "none per_head full_width latent LayerNorm L2 –",
    "bias": "none QKV some all",
    "positions": "sinusoidal learned relative RoPE ALiBi none",
    "activation": "ReLU ReLU² GELU QuickGELU SiLU SwiGLU GEGLU xIELU",
}
# how the full wording begins to say what a short value says
SAID = {
    "norm": {
        **{name: name for name in ("LayerNorm", "RMSNorm", "BatchNorm", "GroupNorm")},
        "other": "global response",
        "none": "none",
    },
    "place": {
        "Pre": r"Pre\b",
        "Post": r"Post\b",
        "Peri": "Pre [+] Post inside",
        "branch end": r"^Post inside the branch|or Post inside the branch",
        "parallel": "Parallel",
        "–": "conv|where the LayerNorm was|LN as V1",
    },
    "weight": {
        "weight": r"^weight|\bweight ",
        "weight + bias": r"weight( \(g\))? \+ bias|\(\+ bias|weight \+ bias",
        "1 + weight": r"1 \+ weight|scale_plus_one",
        "1 + weight + bias": r"1 \+ weight, and bias",
        "no bias": "no bias",
        "none": "^none",
    },
    "qk": {
        "none": r"none\b|default off|does not use qk_norm",
        "per head": "per head|per Q head",
        "full width": "full width",
        "latent": "latents",
        "LayerNorm": "LayerNorm",
        "L2": "L2",
        "–": "no attention",
    },
    "bias": {
        "none": r"\bno\b|optional",
        "QKV": "QKV",
        "some": "FFN yes|yes, except|MLP and lm_head yes|excite yes|conv yes|HAS a bias|qkv yes",
        "all": r"^yes|optional",
    },
    "positions": {
        "sinusoidal": "sinusoidal|sin-cos",
        "learned": "learned",
        "relative": "relative",
        "RoPE": "RoPE",
        "ALiBi": "ALiBi",
        "none": "^none|NoPE",
    },
    "activation": {
        "ReLU": "ReLU",
        "ReLU²": "ReLU squared",
        "GELU": "GELU",
        "QuickGELU": "QuickGELU",
        "SiLU": "SiLU",
        "SwiGLU": "SwiGLU",
        "GEGLU": "GEGLU|GeGLU|GELU gated",
        "xIELU": "xIELU",
    },
    "multiply": {
        "cast first": "[Cc]ast back, then|cast back, THEN|after casting|as T5 1.0|as LLaMA 1",
        "float32": "float32",
        "no cast": "no cast|as T5 1.0",
        "–": "no weight|no statistics",
    },
}
FULL = ["norm", "place", "final_norm", "eps", "weight", "qk", "bias", "positions", "activation"]


def test_each_model_stands_there_once():
    assert len(BY_NAME) == len(ROWS) == 79
    assert all(2015 <= int(row["year"]) <= 2026 for row in ROWS)


def test_the_cells_that_were_verified_are_counted():
    """As many as were read; those of the order of the multiplication are not among them."""
    filled = sum(bool(row[f"{column}_full"]) for row in ROWS for column in FULL)
    assert (filled, len(ROWS) * len(FULL)) == (687, 711)
    assert "687 are filled" in PAGE and "711 cells" in PAGE


@pytest.mark.parametrize("column", WORDS)
def test_a_short_column_has_few_words(column):
    known = {word.replace("_", " ") for word in WORDS[column].split()}
    assert {value for row in ROWS for value in several(row[column])} == known


@pytest.mark.parametrize("column", [*SAID, "eps"])
def test_a_short_cell_says_what_the_wording_says(column):
    """Never more: where nothing was written down, nothing is claimed."""
    for row in ROWS:
        told = row[f"{column}_full"]
        assert told or not row[column], row["model"]
        for value in several(row[column]):
            pattern = SAID.get(column, {"–": "no eps"}).get(value, re.escape(value))
            assert re.search(pattern, told), (row["model"], value, told)


def test_a_link_leads_to_what_the_source_names():
    for row in ROWS:
        address = re.fullmatch(
            r"https://github\.com/[\w-]+/([\w.-]+)/(?:blob|tree)/([\w.]+)(/\S+)?", row["link"]
        )
        if not address:
            assert row["link"] == f"https://arxiv.org/abs/{row['paper']}", row["model"]
        elif address[2] == "v5.23.0":
            assert "transformers 5.23.0" in row["source"], row["model"]
        else:
            assert f"{address[1]}" in row["source"] and f"@{address[2]}" in row["source"]


def spans():
    """The rows of the table of trends: years, and what is told of them."""
    for line in re.findall(r"^\| (20.*) \|$", PAGE, re.M):
        years, *told = line.split(" | ")
        first, _, last = years.partition("–")
        yield range(int(first), int(first[: 4 - len(last)] + last) + 1), told


def test_the_trends_are_those_of_the_data():
    apart = {"nanoGPT", "Mamba", "Mamba-2"}
    counted = 0
    for years, told in spans():
        language = [r for r in ROWS if r["kind"] == "language" and r["model"] not in apart]
        of = [row for row in language if int(row["year"]) in years]
        main = [{column: several(row[column])[:1] for column in row} for row in of]
        places = Counter(row["place"][0] for row in main)
        assert [
            len(of),
            sum(row["norm"] == ["RMSNorm"] for row in main),
            {f"{n} {place}" for place, n in places.items()},
            sum(row["bias"] == ["none"] for row in main),
            sum(row["qk"] not in ([], ["none"], ["latent"]) for row in main),
        ] == [int(told[0]), int(told[1]), {*told[2].split(", ")}, int(told[3]), int(told[4])]
        counted += len(of)
    assert counted == 59


def test_what_is_compared_exists_and_is_counted_on_the_page():
    built = {*zoo.TORCHVISION, *zoo.TEXTS, *zoo.PAIRS, *zoo.SOUNDS, *zoo.PICTURES, *MORE}
    built |= {"vit_b_16", "clip", "whisper"} | {name.partition("@")[0] for name in zoo.TIMM}
    shown = [name for names in SHOWN_BY.values() for name in names.split()]
    assert {*SHOWN_BY, *BORROWED} <= {*BY_NAME} and {*shown} <= built
    assert f"{len(shown)} comparisons, of {len(SHOWN_BY)} rows" in " ".join(PAGE.split())


class Scale(nn.Module):
    """RMSNorm in one of the two orders, its weight stored around 0 or 1."""

    def __init__(self, first: str, plus: float = 0.0):
        super().__init__()
        self.first, self.plus, self.weight = first, plus, nn.Parameter(torch.ones(48))

    def forward(self, x):
        wide = x.float() * (x.float().pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        if self.first == "cast first":
            return wide.to(x.dtype) * (self.weight + self.plus)
        return (wide * (self.weight.float() + self.plus)).to(x.dtype)


@pytest.mark.parametrize("plus", [0.0, 1.0])
@pytest.mark.parametrize("first", ["cast first", "float32"])
def test_the_order_of_the_multiplication_is_measured(first, plus):
    assert order(Scale(first, plus), 1e-6) == first


def test_what_is_no_root_mean_square_norm_has_no_order():
    assert order(nn.Linear(48, 48), 1e-6) is None
    assert order(nn.LayerNorm(48), 1e-6) is None


def norm(kind="rms", eps=1e-6, place="pre"):
    return Norm("norm", "Norm", kind, (-1,), 48, eps, None, True, 48, None, place, 1)


WRONG = {
    "kind": {"norms": [norm("layer"), norm("layer", place="final")]},
    "place": {"norms": [norm(place="branch end"), norm(place="final")]},
    "eps": {"norms": [norm(eps=1e-5), norm(place="final")]},
    "multiplies": {"orders": {"float32"}},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_row_that_is_wrong_is_found(what):
    row, right = (
        BY_NAME["Qwen3"],
        {"norms": [norm(), norm(place="final")], "orders": {"cast first"}},
    )
    assert not list(differences(row, **right))
    assert [found.split()[0] for found in differences(row, **(right | WRONG[what]))] == [what]
