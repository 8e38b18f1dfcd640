"""The terms as the text of pages has them: their spellings, and what shows beside them."""

import re
from collections import Counter

import pytest

from press import marks
from press.terms import terms


@pytest.mark.parametrize(
    ("language", "word", "forms", "others"),
    [
        ("en", "batch", ["batch", "Batches"], ["batching", "BATCH"]),
        ("en", "query", ["query", "queries"], ["querys’"]),
        ("en", "BN", ["BN"], ["bn", "Bn"]),
        ("fr", "canal", ["canal", "canaux"], ["cana"]),
        ("fr", "valeur propre", ["valeurs\npropres", "Valeur propre"], ["valeurpropre"]),
        ("fr", "équivariant", ["équivariante", "Équivariants"], ["équivariance"]),
        ("zh", "批归一化", ["批归一化"], ["批归一"]),
    ],
)
def test_a_word_is_found_in_the_plural_and_at_the_start_of_a_sentence(
    language, word, forms, others
):
    found = marks.pattern(word, language)
    assert all(re.fullmatch(found, form) for form in forms)
    assert not any(re.fullmatch(found, other) for other in others)


def spelt(language):
    return {term.id: marks.spellings(term, language) for term in terms()}


def test_what_means_other_things_too_is_no_spelling():
    english = spelt("en")
    assert english["term-norm-of-a-vector"] == ["norm of a vector", "Euclidean norm", "L2 norm"]
    assert english["term-layer-normalisation"][:2] == ["layer normalisation", "LN"]
    assert english["term-training-mode-evaluation-mode"] == ["training mode", "evaluation mode"]
    assert english["term-query-key-value"] == []  # the key idea, a value
    assert spelt("zh")["term-inference"] == ["推理", "测试阶段"]
    assert spelt("zh")["term-step"] == []  # 步骤, 同步


def test_a_word_of_two_terms_is_of_neither():
    words = Counter(word for of in spelt("en").values() for word in of)
    assert words["kernel"] == 2
    assert not [
        mark for mark in marks.marks("en") if marks.pattern("kernel", "en") in mark["words"]
    ]


def test_what_is_shown_is_html_with_formulas_as_sphinx_writes_them():
    shown = {mark["id"]: mark["shown"] for mark in marks.marks("fr")}
    assert "divisée par" not in shown["term-softmax"]
    formula = r'<span class="math notranslate nohighlight">\(n - 1\)</span>'
    assert formula in shown["term-unbiased-variance"]
    assert "<code>momentum=None</code>" in shown["term-cumulative-average"]
    assert "$" not in "".join(shown.values()) and "`" not in "".join(shown.values())
