"""What a translation may not do."""

import pytest

from press.markup import problems

NNBSP = "\u202f"


@pytest.mark.parametrize(
    ("message", "translation", "language"),
    [
        ("See {ref}`the mean <ln-mean>`.", "Voir {ref}`la moyenne <ln-mean>`.", "fr"),
        ("Why {cite:p}`ba2016`?", f"Pourquoi {{cite:p}}`ba2016`{NNBSP}?", "fr"),
        ("**Mean** $\\mu$ of `x`[^a]", "`x` 的**均值** $\\mu$[^a]", "zh"),
        ("Use {download}`this <a.ipynb>`", "使用{download}`这个文件 <a.ipynb>`", "zh"),
        ("Layer normalisation (LN)", "层归一化（LN）", "zh"),
        ("a time: 10:30", f"une heure{NNBSP}: 10:30", "fr"),
    ],
)
def test_a_good_translation_has_no_problem(message, translation, language):
    assert list(problems(message, translation, "myst", language)) == []


@pytest.mark.parametrize(
    ("message", "translation", "language", "problem"),
    [
        ("See {ref}`it <a>`", "Voir {ref}`ceci <b>`", "fr", "lost: {ref}`a`"),
        ("A mean $\\mu$", "Une moyenne", "fr", "lost: $\\mu$"),
        ("A mean", "Une moyenne $\\mu$", "fr", "not in the English: $\\mu$"),
        ("Call `f` now", "Appeler `g`", "fr", "lost: `f`"),
        ("A [link](a.md)", "Un lien", "fr", "lost: link to a.md"),
        ("A note[^1]", "Une note", "fr", "lost: [^1]"),
        ("**Bold** word", "mot gras", "fr", "lost: **bold**"),
        ("a **bold** word", "一个**“加粗”**词", "zh", "shows as it is"),
        ("A mean", "A mean", "fr", "left in English"),
        ("One of the means", "Une of the moyennes", "fr", "English words left: of, the"),
        ("A mean", "mean", "zh", "no Chinese"),
        ("Why? Yes", "Pourquoi? Oui", "fr", "no narrow no-break space"),
        ("Why? Yes", "Pourquoi ? Oui", "fr", "an ordinary space"),
        ("Beyond 10,000", "Au-delà de 10 000", "fr", "an ordinary space inside a number"),
        ("the mean of it", "la moyenne d'un lot", "fr", "a straight apostrophe"),
        ("a mean", "一个 均值", "zh", "a space between Chinese"),
        ("a mean", "均值,方差", "zh", "half-width punctuation"),
        ("the LN layer", "这个LN层", "zh", "no space between Chinese and Latin"),
        ("the $x$ here", "这个$x$值", "zh", "no space between Chinese and Latin"),
        ("one", "1. un", "fr", "would not be read as a paragraph"),
    ],
)
def test_a_bad_translation_is_named(message, translation, language, problem):
    assert any(problem in found for found in problems(message, translation, "myst", language))


def test_fields_of_a_message_survive():
    assert not list(
        problems("{name}: {x:.2f}", f"{{name}}{NNBSP}: {{x:.2f}}", "message", "fr", False)
    )
    assert any("fields" in p for p in problems("got {name}", "reçu {nom}", "message", "fr"))


def test_a_name_may_be_flagged_as_the_same():
    assert list(problems("NumPy", "NumPy", "myst", "fr", same=True)) == []
    assert list(problems("QK-norm", "QK-Norm", "myst", "zh", same=True)) == []
    assert list(problems("NumPy", "NumPie", "myst", "fr", same=True))


def test_a_notebook_names_its_own_language():
    assert list(problems("en", "zh", "docstring", "zh")) == []
    assert list(problems("en", "fr", "docstring", "zh")) == ["should be 'zh'"]
