"""The mistakes are read from the verdicts that a graded cell holds."""

import nbformat.v4 as nb

from classroom.verdicts import KEY, address, keys, known, mistakes

FORWARD, LAYER = "layer_norm/forward", "layer_norm/layer"
UNBIASED = "layer_norm/unbiased_variance"


def verdict(task, *names, passed=False):
    return {"task": task, "passed": passed, "mistakes": list(names)}


def test_each_mistake_is_read_once_in_the_order_of_the_verdicts():
    held = [verdict(FORWARD, UNBIASED), verdict(LAYER, UNBIASED, "layer_norm/gamma_forgotten")]
    graded = nb.new_code_cell("", metadata={KEY: {"verdicts": held}})
    assert [m.key for m in mistakes(graded)] == [UNBIASED, "layer_norm/gamma_forgotten"]
    assert mistakes(nb.new_code_cell("")) == ()


def test_a_task_or_mistake_that_is_gone_is_passed_over():
    gone = [verdict("layer_norm/gone", UNBIASED), verdict(FORWARD, "layer_norm/gone")]
    graded = nb.new_code_cell("", metadata={KEY: {"verdicts": gone}})
    assert mistakes(graded) == ()


def test_a_key_is_read_whether_its_mistake_is_known_or_not():
    gone = {"layer_norm/gone", "../gone", "gone"}
    held = [verdict("layer_norm/gone", UNBIASED, *gone), verdict(FORWARD)]
    assert keys({KEY: {"verdicts": held}}) == {UNBIASED, *gone} and keys({}) == set()
    assert known(UNBIASED).key == UNBIASED and not any(map(known, gone))


def test_the_address_is_that_of_the_book_or_none(monkeypatch):
    (mistake,) = mistakes(
        nb.new_code_cell("", metadata={KEY: {"verdicts": [verdict(FORWARD, UNBIASED)]}})
    )
    monkeypatch.setenv("NORMKIT_BOOK", "https://example.org/")
    assert address("fr")(mistake).startswith("https://example.org/fr/")
    monkeypatch.delenv("NORMKIT_BOOK")
    assert address("fr")(mistake) == ""
