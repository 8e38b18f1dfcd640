"""Code: comments and docstrings change, the program does not."""

import pytest

from press import PressError, code

SOURCE = '''\
# A first comment
# that goes on.
x = 1  # trailing words
s = "# no comment"


### BEGIN SOLUTION
def f(x):
    r"""Double a number.

        f(x) = 2 \\cdot x
    """
    # (N, D)
    return 2 * x  # noqa: E501
### END SOLUTION


class A:
    """One line."""
'''


def messages(source):
    found = []
    code.rewrite(source, lambda block: found.append((block.kind, block.message)) or block.message)
    return found


def test_comments_and_docstrings_are_messages():
    assert sorted(messages(SOURCE)) == [
        ("comment", "A first comment that goes on."),
        ("comment", "trailing words"),
        ("docstring", "Double a number.\n\n    f(x) = 2 \\cdot x"),
        ("docstring", "One line."),
    ]


def test_a_program_has_a_docstring_and_a_lone_string_is_none():
    assert messages('"""A program."""\nx = 1\n') == [("docstring", "A program.")]
    assert messages('"""A string."""\n') == []


def test_identity_returns_the_source_byte_for_byte():
    assert code.rewrite(SOURCE, lambda block: block.message) == SOURCE


@pytest.mark.parametrize("words", ["mots", "词" * 90, "des mots " * 30, "un\n\ndeux"])
def test_the_program_stays_the_same(words):
    turned = code.rewrite(
        SOURCE, lambda b: words if b.kind == "docstring" else words.replace("\n", " ")
    )
    assert turned != SOURCE
    assert code.bare(turned) == code.bare(SOURCE)
    assert "".join(messages(turned)[0][1].split()) == "".join(words.split())


def test_a_long_comment_is_wrapped_and_its_punctuation_begins_no_line():
    turned = code.rewrite("# one\nx = 1\n", lambda block: "归一化，" * 40)
    comments = [line for line in turned.split("\n") if line.startswith("#")]
    assert len(comments) > 1
    assert all(len(line) <= 38 and line[2] != "，" for line in comments)


def test_bare_sees_any_change_of_the_program():
    assert code.bare(SOURCE) != code.bare(SOURCE.replace("2 * x", "3 * x"))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("%matplotlib inline", "line 1: not plain Python"),
        ("def f():\n    'words'", "line 2: write a docstring between"),
    ],
)
def test_what_cannot_be_translated_is_refused(source, reason):
    with pytest.raises(PressError, match=reason):
        messages(source)
