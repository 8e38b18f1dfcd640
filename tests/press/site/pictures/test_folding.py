"""Picture 8, folding: its numbers are those of normkit's `fold_batch_norm`."""

import numpy as np
import pytest

from tests.pictures import choose, drag, guess, key, numbers, put, said

pytestmark = pytest.mark.needs("chromium")
START = {
    "x": [[1.0, 2], [2, 0], [-1, 1]],
    "W": [[2.0, -1, 4], [0.1, 0.2, -0.1]],
    "w": [[3.0], [0.5]],
    "mean": [[1.0], [0.4]],
    "variance": [[4.0], [0.009]],
    "gamma": [[3.0], [0.2]],
    "beta": [[-1.0], [1]],
    "eps": [[0.001]],
}


def start():
    return {name: np.array(values) for name, values in START.items()}


def layers(net, eps=None, bias=True):
    torch = pytest.importorskip("torch")
    tensor = {name: torch.tensor(values) for name, values in net.items()}
    linear = torch.nn.Linear(3, 2, bias=bias, dtype=torch.float64)
    norm = torch.nn.BatchNorm1d(2, float(net["eps"].item()) if eps is None else eps).double()
    numbers = {linear.weight: "W", norm.weight: "gamma", norm.bias: "beta"}
    numbers |= {norm.running_mean: "mean", norm.running_var: "variance"}
    numbers |= {linear.bias: "w"} if bias else {}
    for place, name in numbers.items():
        place.data.copy_(tensor[name].reshape(place.shape))
    return linear, norm.eval(), tensor["x"].T


def outputs(net, training=False):
    """What the two layers give, a row for each channel."""
    linear, norm, x = layers(net)
    return norm.train(training)(linear(x)).detach().numpy().T


def folded(net, **options):
    """Weights and biases, a row for each channel, and the outputs."""
    from normkit import fold_batch_norm

    linear, norm, x = layers(net, **options)
    (one,) = fold_batch_norm(linear, norm)
    weights = np.column_stack([one.weight.detach(), one.bias.detach()])
    return weights, one(x).detach().numpy().T


def edited(page, draws, times):
    """Type random numbers into random fields; return what there is then."""
    net = start()
    for _ in range(times):
        name = draws.choice([name for name in net if name != "eps"])
        place = tuple(int(draws.integers(size)) for size in net[name].shape)
        value = float(
            draws.integers(1, 40) / 8 if name == "variance" else draws.integers(-40, 40) / 8
        )
        net[name][place] = value
        put(page, f".field[name={name}-{place[0]}-{place[1]}]", value)
    return net


def shown(page, *parts):
    return [numbers(page, f"{part} [data-value]") for part in parts]


def test_weights_and_outputs_are_those_of_normkit_after_any_edit(page):
    net, draws = edited(page, np.random.default_rng(0), 12), np.random.default_rng(1)
    for _ in range(4):
        for step in range(4):
            put(page, "[name=step]", step)
            two, after = shown(page, ".y.before", ".y.after")
            np.testing.assert_allclose(two, outputs(net).ravel(), atol=1e-9)
            np.testing.assert_allclose(after, two, atol=1e-9)
        weights, y = folded(net)
        np.testing.assert_allclose(shown(page, ".linear.after")[0], weights.ravel(), atol=1e-9)
        np.testing.assert_allclose(after, y.ravel(), atol=1e-9)
        page.value("document.querySelector('.reset').click()")
        net = edited(page, draws, 8)


def test_what_is_left_of_the_norm_after_each_step(page):
    net = start()
    scale = (net["gamma"] / np.sqrt(net["variance"] + net["eps"])).ravel()
    shift = net["beta"].ravel() - scale * net["mean"].ravel()
    linear = np.column_stack([net["W"], net["w"]])
    for step, left, weights in [
        (1, np.column_stack([scale, shift]), linear),
        (2, shift, scale[:, None] * linear),
        (3, np.array([]), folded(net)[0]),
    ]:
        put(page, "[name=step]", step)
        found = shown(page, ".left", ".linear.after")
        np.testing.assert_allclose(found[0], left.ravel(), atol=1e-9)
        np.testing.assert_allclose(found[1], weights.ravel(), atol=1e-9)


@pytest.mark.parametrize("how", ["eps", "bias", "training"])
def test_each_mistake_shows(page, how):
    choose(page, "how", how)
    put(page, "[name=step]", 3)
    net = start()
    weights, y = folded(net, **{"eps": {"eps": 0.0}, "bias": {"bias": False}}.get(how, {}))
    two = outputs(net, training=how == "training")
    found = shown(page, ".linear.after", ".y.before", ".y.after")
    for there, here in zip(found, (weights, two, y), strict=True):
        np.testing.assert_allclose(there, here.ravel(), atol=1e-9)
    off = float(page.value("document.querySelector('.same').dataset.off"))
    assert off == pytest.approx(abs(two - y).max(), abs=1e-9) and off > 0.01
    assert page.value("document.querySelectorAll('.y .off').length") > 0


@pytest.mark.parametrize(
    ("action", "name", "how", "count"),
    [
        ("gamma", "gamma", lambda v: v * 2, 4),
        ("beta", "beta", lambda v: v + 1, 1),
        ("variance", "variance", lambda v: v * 4, 4),
        ("x", "x", lambda v: v + 1, 0),
    ],
)
def test_as_many_numbers_change_as_under_normkit(page, action, name, how, count):
    page.value(
        f"(s => {{ s.value = '{action}'; s.dispatchEvent(new Event('change')) }})"
        "(document.querySelector('.ask select'))"
    )
    net = start()
    net[name][0, 0] = how(net[name][0, 0])
    assert (abs(folded(net)[0] - folded(start())[0]) > 5e-4).sum() == count
    assert guess(page, [0, 1, 3, 4, 8].index(count)).startswith("✓")
    assert page.value("document.querySelectorAll('.linear.after .moved').length") == count
    np.testing.assert_allclose(shown(page, ".linear.after")[0], folded(net)[0].ravel(), atol=1e-9)


def test_it_is_folded_with_the_keyboard_and_a_number_is_dragged(page):
    page.value("document.querySelector('[name=step]').focus()")
    for _ in range(3):
        key(page, "ArrowRight", windowsVirtualKeyCode=39)
    net = start()
    np.testing.assert_allclose(shown(page, ".linear.after")[0], folded(net)[0].ravel(), atol=1e-9)
    page.value("document.querySelector('[name=gamma-0-0]').focus()")
    key(page, "ArrowUp", windowsVirtualKeyCode=38)
    net["gamma"][0, 0] += 0.5
    np.testing.assert_allclose(shown(page, ".linear.after")[0], folded(net)[0].ravel(), atol=1e-9)
    drag(page, "[name=W-0-2]", (0, -16))
    net["W"][0, 2] += 1
    np.testing.assert_allclose(shown(page, ".linear.after")[0], folded(net)[0].ravel(), atol=1e-9)
    assert page.value("document.querySelectorAll('.linear.after .moved').length") == 1
    assert "Choose" in said(page)
