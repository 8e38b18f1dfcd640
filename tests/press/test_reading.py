"""How long a page is, and how long it takes to read."""

import pytest

from press.reading import length

PAGE = """---
file_format: mystnb
---

(why)=
# Why

Three open words, $x + y$ one.

```{code-cell} ipython3
print(1)
```

```{code-cell} ipython3
:tags: [remove-cell]
assert True
```

$$
y = x
$$

::::{tab-set}
:::{tab-item} NumPy
open too
:::
::::

:::{dropdown} A fold
that does not count
:::

(why-sources)=
## Sources

nor these
"""


def test_what_is_open_counts():
    found = length(PAGE)
    assert (found.words, found.formulas, found.cells) == (8, 1, 1)


@pytest.mark.parametrize(("words", "minutes"), [(100, 5), (600, 5), (700, 10), (3500, 30)])
def test_minutes_are_rounded_up(words, minutes):
    assert length("word " * words).minutes == minutes


def test_a_chinese_character_counts_as_two_thirds_of_a_word():
    assert length("层归一化 BN").words == pytest.approx(4 * 2 / 3 + 1)
