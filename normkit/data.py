"""Data that need no download: French names (Faker) and handwritten digits (scikit-learn).

The extra `experiments` installs both libraries; each is imported when it is needed.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from normkit._extras import need

T = TypeVar("T")
END = "."  # before, between and after names; character 0


# --- Names ------------------------------------------------------------------------------------


def french_names() -> list[str]:
    """Return the first and family names that Faker knows for France: small letters, sorted.

    They are read from Faker's lists, not drawn, so no seed changes them. Names of two words,
    such as Le Goff, are left out: the space would be a character more, for eight names only.
    Raises ModuleNotFoundError without Faker.

    >>> names = french_names()
    >>> len(names), names[:3]
    (565, ['adam', 'adrien', 'adrienne'])
    """
    faker = need("faker.providers.person.fr_FR").Provider
    both = {name.lower() for name in (*faker.first_names, *faker.last_names)}
    return sorted(name for name in both if " " not in name)


def split(items: Sequence[T], share: float = 0.9, seed: int = 0) -> tuple[list[T], list[T]]:
    """Shuffle, and cut in two: the share for training first, then the rest.

    >>> split("abcde", share=0.6)
    (['c', 'e', 'd'], ['a', 'b'])
    """
    order = np.random.default_rng(seed).permutation(len(items))
    cut = int(share * len(items))
    return [items[i] for i in order[:cut]], [items[i] for i in order[cut:]]


def vocabulary(names: Iterable[str]) -> str:
    """Return the characters of the names, sorted, after the full stop that ends a name.

    >>> vocabulary(["noé", "zoé"])
    '.nozé'
    """
    return END + "".join(sorted(set("".join(names)) - {END}))


def encode(text: str, characters: str) -> np.ndarray:
    """Return the place of each character of the text among the characters, as int64.

    Raises ValueError for a character that is not among them.

    >>> encode("zoé.", ".nozé")
    array([3, 2, 4, 0])
    """
    unknown = sorted(set(text) - set(characters))
    if unknown:
        raise ValueError(
            f"The text has {unknown}, and characters is {characters!r}. Take the vocabulary of "
            f"all names, those for development too."
        )
    places = {character: place for place, character in enumerate(characters)}
    return np.array([places[character] for character in text], dtype=np.int64)


def stream(names: Iterable[str], characters: str) -> np.ndarray:
    """Return all names one after the other, encoded, with a full stop around each.

    >>> stream(["zoé", "noé"], ".nozé")
    array([0, 3, 2, 4, 0, 1, 2, 4, 0])
    """
    return encode(END + "".join(name + END for name in names), characters)


def character_windows(
    names: Iterable[str], characters: str, block: int = 3
) -> tuple[np.ndarray, np.ndarray]:
    """Return every character of the names, its end included, and the characters before it.

    block: how many before; those that would be outside of the name are full stops.
    Returns contexts of shape (n, block) and the n characters that follow, encoded.
    Source: Bengio et al. (2003), A Neural Probabilistic Language Model.

    >>> contexts, following = character_windows(["noé"], ".nozé")
    >>> contexts.tolist(), following.tolist()
    ([[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 4]], [1, 2, 4, 0])
    """
    if block < 1:
        raise ValueError(f"block must be at least 1, to have something to go by; it is {block}.")
    padded = [encode(END * block + name + END, characters) for name in names]
    windows = [np.lib.stride_tricks.sliding_window_view(each, block + 1) for each in padded]
    both = np.concatenate([np.empty((0, block + 1), dtype=np.int64), *windows])
    return both[:, :-1], both[:, -1]


def unigram_entropy(tokens: np.ndarray) -> float:
    r"""Return the loss, in nats, of the best guess that looks at no other character.

    $$ H = -\sum_v p_v \ln p_v $$

    with p the frequency of each value among the tokens. A model whose loss stays there has
    learnt how often characters come, and nothing of their order.

    >>> unigram_entropy(np.array([0, 1, 0, 1])) == np.log(2)
    np.True_
    """
    p = np.unique(tokens, return_counts=True)[1] / np.size(tokens)
    return -float(p @ np.log(p))


# --- Digits -----------------------------------------------------------------------------------


class Digits(NamedTuple):
    """Images as rows of 64 numbers, float32, and the digit that each shows, int64."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def digits(seed: int = 0) -> Digits:
    r"""Return scikit-learn's 1797 images of 8 × 8 pixels: 1437 for training, 360 for the test.

    $$ x \leftarrow (x - \mu) / \sigma $$

    with μ and σ, one number each, over all pixels of the training images: pixel by pixel is not
    possible, because some are always black. The published pixels are integers from 0 to 16.

    seed: of the split. `x.reshape(-1, 8, 8)` has the shape of the images.
    Raises ModuleNotFoundError without scikit-learn.
    Source: Alpaydin & Kaynak (1998), Optical Recognition of Handwritten Digits.

    >>> data = digits()
    >>> data.train_x.shape, data.test_x.shape, data.train_x.dtype
    ((1437, 64), (360, 64), dtype('float32'))
    """
    x, y = need("sklearn.datasets").load_digits(return_X_y=True)
    halves = need("sklearn.model_selection").train_test_split(
        x, y.astype(np.int64), test_size=360, random_state=seed
    )
    train_x, test_x, train_y, test_y = halves
    mean, std = train_x.mean(), train_x.std()
    train_x, test_x = (((x - mean) / std).astype(np.float32) for x in (train_x, test_x))
    return Digits(train_x, train_y, test_x, test_y)
