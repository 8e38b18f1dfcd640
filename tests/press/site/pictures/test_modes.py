"""Picture 3, training mode against evaluation mode: its numbers are normkit's."""

import math

import numpy as np
import pytest

import normkit
from tests.pictures import guess, key, numbers, put

pytestmark = pytest.mark.needs("chromium")
QS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.9, 0.99]
OURS = 3.0


class Batches:
    """The picture's batches (mulberry32, Box and Muller), and what normkit makes of them."""

    def __init__(self):
        self.state, self.batches = 1, []
        self.size, self.centre, self.q = 8, 2.0, 0.1
        self.wrong = dict.fromkeys(("forgot", "swapped", "biased"), False)
        self.come(8)

    def uniform(self):
        full = 0xFFFFFFFF
        self.state = (self.state + 0x6D2B79F5) & full
        t = ((self.state ^ self.state >> 15) * (1 | self.state)) & full
        t = ((t + (((t ^ t >> 7) * (61 | t)) & full)) ^ t) & full
        return (t ^ t >> 14) / 2**32

    def normal(self):
        return math.sqrt(-2 * math.log(1 - self.uniform())) * math.cos(2 * math.pi * self.uniform())

    def come(self, count):
        for _ in range(count):
            self.batches.append(np.array([[self.centre + self.normal()] for _ in range(self.size)]))

    def running(self):
        """The running statistics after all batches; a batch of one does not move them."""
        mean, var = np.zeros(1), np.ones(1)
        q = 1 - self.q if self.wrong["swapped"] else self.q
        for batch in self.batches:
            if len(batch) > 1:
                biased = (1 - q) * var + q * batch.var(0)
                _, mean, var = normkit.batch_norm(
                    batch, None, None, mean, var, training=True, momentum=q
                )
                var = biased if self.wrong["biased"] else var
        return mean, var

    def outputs(self):
        """Our example in both modes."""
        batch, (mean, var) = self.batches[-1].copy(), self.running()
        batch[0] = OURS
        trained = normkit.batch_norm(batch, training=True)[0][0, 0] if len(batch) > 1 else 0.0
        told = normkit.batch_norm(batch, None, None, mean, var, training=False)[0][0, 0]
        return trained, trained if self.wrong["forgot"] else told


def agree(page, batches):
    trained, told = batches.outputs()
    found = numbers(page, ".outputs b")
    np.testing.assert_allclose(found, [trained, told, abs(trained - told)], atol=1e-9)
    mean, var = batches.running()
    np.testing.assert_allclose(numbers(page, ".work .result"), mean, atol=1e-9)
    if not batches.wrong["forgot"]:
        np.testing.assert_allclose(numbers(page, ".eval [class][data-value]"), [*mean, *var])


def toggle(page, batches, name):
    page.value(f"document.querySelector('[name={name}]').click()")
    batches.wrong[name] = not batches.wrong[name]


def step(page, batches, count):
    page.value(f"document.querySelector('[data-steps=\"{count}\"]').click()")
    batches.come(count)


def test_outputs_and_running_statistics_are_those_of_normkit(page):
    batches, draws = Batches(), np.random.default_rng(0)
    agree(page, batches)
    for turn in range(24):
        power, place, half = (int(draws.integers(high)) for high in (7, len(QS), 9))
        if turn % 3 == 0:
            put(page, "[name=size]", power)
            batches.size = 2**power
        if turn % 3 == 1:
            put(page, "[name=shift]", half / 2)
            batches.centre = half / 2
        put(page, ".picture [name=q]", place)
        batches.q = QS[place]
        toggle(page, batches, draws.choice(list(batches.wrong)))
        agree(page, batches)
        step(page, batches, 100 if turn == 9 else int(draws.choice([1, 10])))
        agree(page, batches)


def test_a_batch_of_one_says_nothing_of_x(page):
    batches = Batches()
    put(page, "[name=size]", 0)
    batches.size = 1
    step(page, batches, 1)
    agree(page, batches)
    assert numbers(page, ".train b")[0] == 0
    assert "PyTorch stops" in page.value("document.querySelector('.note').textContent")
    with pytest.raises(ValueError, match="1"):
        normkit.batch_norm(batches.batches[-1], training=True)


def test_the_right_answer_is_right(page):
    weights = [1.0]  # of the initial value: a running mean that moves from 1 towards zeros
    zeros, mean, var = np.zeros((8, 1)), np.ones(1), np.ones(1)
    for _ in range(300):
        _, mean, var = normkit.batch_norm(zeros, None, None, mean, var, training=True, momentum=0.1)
        weights.append(mean[0])
    nearest = min((3, 10, 28, 300), key=lambda k: abs(weights[k] - 0.05))
    for place, k in enumerate((3, 10, 28, 300)):
        words = guess(page, place)
        assert ("Right." in words) == (k == nearest)
        assert f"{k} of them cover {100 - 100 * weights[k]:.0f}\xa0% of the way" in words
    batches = Batches()
    batches.come(32)
    agree(page, batches)


def test_it_is_moved_with_the_keyboard_and_plays(page):
    batches = Batches()
    page.value("document.querySelector('.picture [name=q]').focus()")
    key(page, "ArrowRight", windowsVirtualKeyCode=39)
    batches.q = 0.3
    agree(page, batches)
    assert page.value("!!document.querySelector('.means .ghost')")
    page.value("document.querySelector('.play').click()")
    page.wait("document.querySelector('.work').textContent.includes('batch 10,')")
    page.value("document.querySelector('.play').click()")
    page.value("document.querySelector('.reset').click()")
    agree(page, Batches())
