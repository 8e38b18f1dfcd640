"""Catalogues: what is missing, stale or obsolete is said, and one edit touches one message."""

import re

import pytest

from press import PressError, catalogue
from press.catalogue import Entry, load

ENGLISH = ["The mean of each token.", "Its variance, which is biased.", "A scale and a shift."]
FRENCH = ["La moyenne de chaque token.", "Sa variance, biaisée.", "Une échelle et un décalage."]


def entries(texts):
    return [Entry(text, "myst", "book/page.md", 10 + n) for n, text in enumerate(texts)]


@pytest.fixture
def translated(tmp_path):
    catalogue.update("fr", "page", entries(ENGLISH), tmp_path)
    path = tmp_path / "fr/page.po"
    text = path.read_text("utf-8")
    for english, french in zip(ENGLISH, FRENCH, strict=True):
        text = text.replace(
            f'msgid "{english}"\nmsgstr ""', f'msgid "{english}"\nmsgstr "{french}"'
        )
    path.write_text(text, "utf-8")
    return tmp_path


def check(texts, folder):
    return list(catalogue.check("fr", "page", entries(texts), folder))


def test_a_complete_catalogue_is_right(translated):
    assert check(ENGLISH, translated) == []
    assert load("fr", "page", folder=translated) == dict(zip(ENGLISH, FRENCH, strict=True))


def test_what_is_missing_names_page_line_and_message(tmp_path):
    catalogue.update("fr", "page", entries(ENGLISH), tmp_path)
    assert check(ENGLISH, tmp_path)[1] == (
        "fr: book/page.md:11: Its variance, which is biased.: missing"
    )


def test_one_edit_makes_exactly_its_own_translation_fuzzy(translated):
    edited = [ENGLISH[0], ENGLISH[1].replace("biased", "not biased"), ENGLISH[2]]
    assert any("missing" in line for line in check(edited, translated))  # before make messages
    catalogue.update("fr", "page", entries(edited), translated)
    assert [re.findall("fuzzy|missing", line) for line in check(edited, translated)] == [["fuzzy"]]
    assert load("fr", "page", folder=translated) == {ENGLISH[0]: FRENCH[0], ENGLISH[2]: FRENCH[2]}


def test_what_is_not_translated_is_an_error_that_says_what_to_do(translated):
    with pytest.raises(PressError, match=r"\(fr\): 'Another sentence.'\nRun `make messages`"):
        load("fr", "page", folder=translated)["Another sentence."]
    assert load("en", "page", folder=translated)["Another sentence."] == "Another sentence."


def test_a_catalogue_is_clean_gettext_after_any_edit(translated):
    """Editors such as Poedit read it: no guessed formats, nothing left of former messages."""
    path = translated / "fr/page.po"
    edited = [
        f"{text} {{ref}}`More <a>` words, 5 % of them, to fill a second line." for text in ENGLISH
    ]
    for texts in (edited, edited[:2], ENGLISH):
        catalogue.update("fr", "page", entries(texts), translated)
        path.write_text(path.read_text("utf-8").replace("#, fuzzy\n", ""), "utf-8")
    catalogue.update("fr", "page", entries(edited), translated)
    kinds = {line.split(" ")[0] for line in path.read_text("utf-8").splitlines()}
    assert {kind for kind in kinds if kind.startswith("#")} <= {"#.", "#,"}
    assert "format" not in path.read_text("utf-8")


def test_a_message_that_went_is_obsolete_until_the_catalogue_is_refreshed(translated):
    assert "obsolete" in check(ENGLISH[:2], translated)[0]
    catalogue.update("fr", "page", entries(ENGLISH[:2]), translated)
    assert check(ENGLISH[:2], translated) == []


def test_what_a_translator_notes_stays(translated):
    path = translated / "fr/page.po"
    note = "# Le mot du glossaire."
    path.write_text(path.read_text("utf-8").replace("#. myst", f"{note}\n#. myst", 1), "utf-8")
    catalogue.update("fr", "page", entries(ENGLISH), translated)
    assert path.read_text("utf-8").count(note) == 1


def test_refreshing_twice_changes_nothing(translated):
    before = (translated / "fr/page.po").read_bytes()
    catalogue.update("fr", "page", entries(ENGLISH), translated)
    assert (translated / "fr/page.po").read_bytes() == before


def test_a_damaged_catalogue_is_named(translated):
    (translated / "fr/page.po").write_text("nonsense", "utf-8")
    with pytest.raises(PressError, match=r"fr/page\.po: not a catalogue"):
        load("fr", "page", folder=translated)
