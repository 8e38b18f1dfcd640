"""Picture 6, depth: it shows what was measured, and measured again the numbers are the same."""

import json
from statistics import median

import numpy as np
import pytest

from press.site import HERE
from tests.pictures import choose, drag, guess, key, numbers, put, said

pytestmark = pytest.mark.needs("chromium")
TOLD = json.loads((HERE / "templates/pictures/depth.json").read_text())
FOUND, DEPTHS = TOLD["found"], TOLD["depths"]
ANSWERS = [0.5, 8, 39, 68, 1e38]


@pytest.mark.parametrize("placement", FOUND)
@pytest.mark.parametrize("layers", [2, 16])
def test_the_numbers_are_those_of_normkit(placement, layers):
    """They are kept with three digits, which is within half a percent; processors differ too."""
    torch = pytest.importorskip("torch")
    from normkit import data, experiments
    from normkit.placement import CharacterTransformer

    kept = FOUND[placement][str(layers)]
    rows = experiments.gradient_norms([placement], [layers])
    seeds = np.array([row["gradient"] for row in rows]).reshape(3, layers)
    np.testing.assert_allclose(kept["gradient"], np.median(seeds, axis=0), rtol=1e-2)

    names = data.french_names()
    characters = data.vocabulary(names)
    text = torch.from_numpy(data.stream(data.split(names)[0], characters))

    def ends(seed):
        torch.manual_seed(seed)
        model = CharacterTransformer(len(characters), layers=layers, placement=placement)
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(len(text) - 16, (32, 1), generator=generator)
        with torch.no_grad():
            x = model.characters(text[starts + torch.arange(16)]) + model.positions.weight
            y = model.blocks(x)
            half = model.blocks[:-1](x)
            last = model.blocks[-1]
            sums = (last.alpha or 1) * half + last.branch(half)
        return [v.var(-1, correction=0).mean().item() for v in (x, y, sums)]

    first, last, sums = (median(values) for values in zip(*map(ends, range(3)), strict=True))
    np.testing.assert_allclose([kept["variance"][i] for i in (0, -1)], [first, last], rtol=1e-2)
    if placement in ("post", "deep"):
        np.testing.assert_allclose(kept["sum"][-1], sums, rtol=1e-2)
    else:
        assert not kept["sum"]


@pytest.mark.parametrize("placement", FOUND)
def test_it_shows_what_is_kept(page, placement):
    choose(page, "placement", placement)
    for place, layers in enumerate(DEPTHS):
        put(page, "[name=layers]", place)
        kept = FOUND[placement][str(layers)]
        np.testing.assert_allclose(numbers(page, "rect[data-value]"), kept["variance"], atol=1e-9)
        np.testing.assert_allclose(numbers(page, "circle[data-value]"), kept["gradient"], atol=1e-9)
        heights = page.value(
            "[...document.querySelectorAll('.column')].map(e => +e.getAttribute('height'))"
        )
        tall = np.array(heights) > 2
        scale = np.array(heights)[tall] / np.array(kept["variance"])[tall]
        np.testing.assert_allclose(scale, scale[0], rtol=2e-2) if tall.any() else None


@pytest.mark.parametrize("placement", FOUND)
def test_the_right_answer_is_the_nearest(page, placement):
    choose(page, "placement", placement)
    variance = FOUND[placement]["64"]["variance"]
    factor = variance[-1] / variance[0]
    place = int(np.argmin(abs(np.log(ANSWERS) - np.log(factor))))
    assert abs(ANSWERS[place] / factor - 1) < 0.04
    assert guess(page, place).startswith("✓")
    choose(page, "placement", "deep" if placement == "post" else "post")
    assert not said(page).startswith("✓")  # it was the answer to another question
    assert page.value("document.querySelectorAll('.column').length") == 65


def test_what_the_page_says_holds_for_these_numbers():
    """The sentences of the picture."""
    for layers in DEPTHS[3:]:
        last = {name: FOUND[name][str(layers)] for name in FOUND}
        for name in ("pre", "peri"):
            assert last[name]["gradient"][0] > 2 * last[name]["gradient"][-1]
        assert max(last["deep"]["gradient"]) < 1.4 * min(last["deep"]["gradient"])
        assert 0.9 < (last["peri"]["variance"][-1] - 2) / (2 * layers) < 1.15
        assert last["post"]["variance"][1:] == last["deep"]["variance"][1:] == [1] * layers


def layer(page):
    return int(page.value("document.querySelector('.handle').ariaValueNow"))


def test_the_handle_moves_by_key_and_by_mouse_and_the_layers_by_key(page):
    assert layer(page) == 8
    page.value("document.querySelector('.handle').focus()")
    key(page, "ArrowRight", windowsVirtualKeyCode=39)
    assert layer(page) == 9
    drag(page, ".handle circle", (-150, 0), 1)
    assert layer(page) < 8
    for _ in range(30):
        key(page, "ArrowLeft", windowsVirtualKeyCode=37)
    assert layer(page) == 1
    page.value("document.querySelector('[name=layers]').focus()")
    key(page, "ArrowRight", windowsVirtualKeyCode=39)
    assert page.value("document.querySelectorAll('.column').length") == 33
    page.value("document.querySelector('.reset').click()")
    assert layer(page) == 8 and page.value("document.querySelectorAll('.column').length") == 17


def test_a_ghost_shows_the_placement_before(page):
    assert page.value("document.querySelectorAll('.ghost').length") == 0
    choose(page, "placement", "post")
    assert page.value("document.querySelectorAll('.ghost').length") == 2
    names = "[...document.querySelectorAll('.name')].map(e => e.textContent)"
    assert page.value(names) == ["Post", "Pre"] * 2
