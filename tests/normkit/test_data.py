"""Names and digits: what they are, and that nothing else changes them."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from normkit import data


@pytest.fixture(scope="module")
def names():
    return data.french_names()


# --- Names ------------------------------------------------------------------------------------


def test_names(names):
    assert len(names) == 565 and names == sorted(set(names))
    assert {"adrien", "zoé", "lefebvre"} <= set(names)
    assert all(name == name.lower() and name.isalpha() for name in names)
    assert len(data.vocabulary(names)) == 35


def test_no_seed_changes_the_names(names):
    from faker import Faker

    Faker.seed(3)
    np.random.seed(3)
    assert data.french_names() == names


def test_a_split_keeps_all_and_repeats_none(names):
    train, rest = data.split(names)
    assert len(train) == 508 and sorted(train + rest) == names
    assert (train, rest) == data.split(names) != data.split(names, seed=1)
    assert [len(part) for part in data.split(range(10), share=0.3)] == [3, 7]
    assert train != sorted(train)


def test_characters_come_back(names):
    characters = data.vocabulary(names)
    assert characters[0] == "." and list(characters[1:]) == sorted(set("".join(names)))
    tokens = data.stream(names, characters)
    assert tokens.dtype == np.int64
    assert "".join(characters[i] for i in tokens) == "." + ".".join(names) + "."


def test_an_unknown_character_is_refused():
    with pytest.raises(ValueError, match=r"\['x'\], and characters is '.abc'"):
        data.encode("abxc", ".abc")


@pytest.mark.parametrize("block", [1, 3, 5])
def test_windows_are_the_text_before_each_character(names, block):
    characters = data.vocabulary(names)
    contexts, following = data.character_windows(names, characters, block)
    assert contexts.shape == (sum(len(name) + 1 for name in names), block)
    decoded = ["".join(characters[i] for i in row) for row in contexts]
    expected = [("." * block + name)[i : i + block] for name in names for i in range(len(name) + 1)]
    assert decoded == expected
    assert "".join(characters[i] for i in following) == "".join(name + "." for name in names)


def test_windows_of_nothing():
    contexts, following = data.character_windows([], ".ab")
    assert contexts.shape == (0, 3) and following.shape == (0,)
    with pytest.raises(ValueError, match=r"block must be at least 1.*it is 0"):
        data.character_windows(["a"], ".a", block=0)


def test_entropy_is_the_least_loss_of_a_constant_guess(names):
    tokens = data.stream(data.split(names)[0], data.vocabulary(names))
    entropy = data.unigram_entropy(tokens)
    logits = torch.zeros(35, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([logits], max_iter=200, tolerance_change=1e-12)

    def loss():
        optimiser.zero_grad()
        mean = torch.nn.functional.cross_entropy(
            logits.expand(len(tokens), 35), torch.from_numpy(tokens)
        )
        mean.backward()
        return mean

    optimiser.step(loss)
    assert loss().item() == pytest.approx(entropy, abs=1e-5)
    assert entropy == pytest.approx(2.92, abs=0.01)
    assert data.unigram_entropy(np.arange(8)) == pytest.approx(np.log(8))
    assert data.unigram_entropy(np.zeros(5)) == 0


# --- Digits -----------------------------------------------------------------------------------


def test_digits():
    digits = data.digits()
    assert [len(array) for array in digits] == [1437, 1437, 360, 360]
    assert digits.train_x.shape[1] == 64
    assert {a.dtype.name for a in (digits.train_x, digits.test_x)} == {"float32"}
    assert {a.dtype.name for a in (digits.train_y, digits.test_y)} == {"int64"}
    assert digits.train_x.mean() == pytest.approx(0, abs=1e-5)
    assert digits.train_x.std() == pytest.approx(1, abs=1e-5)
    assert set(digits.train_y) == set(digits.test_y) == set(range(10))


def test_digits_are_those_published():
    """Every image once, all pixels moved and scaled alike."""
    from sklearn.datasets import load_digits

    published, labels = load_digits(return_X_y=True)
    digits = data.digits()
    x = np.concatenate([digits.train_x, digits.test_x]).astype(float)
    levels = np.unique(x.round(4))
    assert len(levels) == 17
    pixels = np.searchsorted(levels, x.round(4))
    found = np.column_stack([pixels, np.concatenate([digits.train_y, digits.test_y])])
    expected = np.column_stack([published, labels]).astype(int)
    assert sorted(map(tuple, found)) == sorted(map(tuple, expected))


def test_the_seed_is_that_of_the_split():
    np.random.seed(5)
    one, same, other = data.digits(), data.digits(), data.digits(seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.test_y, other.test_y)


# --- What must be installed -------------------------------------------------------------------


def test_nothing_is_imported_before_it_is_needed():
    code = (
        "import sys, normkit, normkit.data; normkit.data.encode('a', '.a')\n"
        "wanted = {'torch', 'faker', 'sklearn', 'tqdm', 'normkit.experiments'}\n"
        "assert not wanted & set(sys.modules), wanted & set(sys.modules)\n"
        "import normkit.experiments; assert not {'faker', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
