"""Blocks of MyST: all the prose is found, nothing else changes."""

import pytest

from press import PressError, blocks
from press.blocks import Block

PAGE = r"""
(lesson-label)=
# Title with $x$

A paragraph that goes on
  over two lines, with {ref}`words <lesson-label>` and **bold**.

> Quoted words
> on two lines

1. first item
   goes on
   - inner item

| Name | Value \| unit |
|------|------|
| word | $x$ |

Term
: Its definition
  in two lines

$$
\text{display mathematics}
$$ (eq-a)

\begin{equation}
\text{more mathematics}
\end{equation}

::::{tab-set}
:::{tab-item} Label words
:sync: words

```{literalinclude} code/a.py
:caption: Caption words
:language: python
```
:::
::::

- ```{figure} words.svg
  :alt: Alternative words
  :name: fig-words

  Figure caption
  ```

```python
words = "plain code"
```

<details>
<summary>Hint words</summary>

Hidden words

</details>

A note[^1].

[^1]: Footnote words
    on two lines

% a remark to authors
"""
MESSAGES = [
    "Title with $x$",
    "A paragraph that goes on over two lines, with {ref}`words <lesson-label>` and **bold**.",
    "Quoted words on two lines",
    "first item goes on",
    "inner item",
    "Name",
    r"Value \| unit",
    "word",
    "Term",
    "Its definition in two lines",
    "Label words",
    "Caption words",
    "Alternative words",
    "Figure caption",
    "Hint words",
    "Hidden words",
    "A note[^1].",
    "Footnote words on two lines",
]


def collect(text: str) -> list[Block]:
    found: list[Block] = []
    blocks.rewrite(text, lambda block: found.append(block) or block.message)
    return found


def test_every_block_is_a_message():
    assert sorted(block.message for block in collect(PAGE)) == sorted(MESSAGES)


def test_identity_returns_the_page_byte_for_byte():
    assert blocks.rewrite(PAGE, lambda block: block.message) == PAGE


def test_only_the_prose_changes():
    marked = blocks.rewrite(PAGE, lambda block: "⟦" + block.message + "⟧")
    assert marked.count("⟦") == len(MESSAGES)
    back = collect(marked)
    assert sorted(b.message.strip("⟦⟧") for b in back) == sorted(MESSAGES)
    for untouched in (
        "(lesson-label)=",
        ":sync: words",
        ":name: fig-words",
        'words = "plain code"',
    ):
        assert untouched in marked


def test_the_structure_is_the_same_after_a_translation():
    def shape(text):
        return [(t.type, t.nesting) for t in blocks.parser().parse(text)]

    assert shape(blocks.rewrite(PAGE, lambda block: "une traduction")) == shape(PAGE)


def test_a_block_knows_its_line():
    lines = PAGE.split("\n")
    for block in collect(PAGE):
        assert block.message.split()[0] in lines[block.line]


@pytest.mark.parametrize(
    "text", ["$x + y$", "`code`", "![](a.svg)", "1.5", "{eq}`eq-a`", "[le mot]{.language-fr}"]
)
def test_mathematics_code_and_numbers_are_no_messages(text):
    assert collect(text) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```{magic} argument\nbody\n```", "unknown"),
        ("<div>words</div>", "HTML"),
        ("broken  \nline", "no hard line break"),
        ("```{figure} a.svg\n---\nalt: words\n---\n```", ":key: value"),
        ("    indented code", "not allowed"),
    ],
)
def test_what_cannot_be_translated_is_refused(text, reason):
    with pytest.raises(PressError, match=rf"line \d+: .*{reason}"):
        collect(text)
