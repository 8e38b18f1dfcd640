"""The language of feedback."""

import pytest

from normkit import diagnose, messages, speak
from normkit.mistakes import MISTAKES, combine

PO = """
msgid ""
msgstr "Content-Type: text/plain; charset=utf-8\\n"

msgid "✓ {task}: right in all {count} checks."
msgstr "✓ {task} : juste sur les {count} entrées."

#, fuzzy
msgid "expected"
msgstr "peut-être"
"""


def french():
    """fr"""


def english():
    """en"""


@pytest.fixture
def catalogue(tmp_path, monkeypatch):
    (tmp_path / "fr.po").write_text(PO, "utf-8")
    monkeypatch.setattr(messages, "CATALOGUES", (f"{tmp_path}/{{language}}.po",))
    messages._catalogue.cache_clear()
    yield
    speak(english)
    messages._catalogue.cache_clear()


def test_feedback_speaks_the_language_of_the_notebook(catalogue, capsys):
    assert speak(french) is french
    diagnose(combine("layer_norm"), "layer_norm/forward")
    assert capsys.readouterr().out == "✓ layer_norm/forward : juste sur les 13 entrées.\n"
    diagnose(MISTAKES[0].wrong, "layer_norm/forward")
    assert "fr/layer_norm.html#ln-mistake-unbiased-variance" in capsys.readouterr().out


def test_what_is_not_translated_is_english(catalogue):
    translate = messages.translator("fr")
    assert translate("expected") == "expected"
    assert translate("no such message") == "no such message"
    assert messages.translator("zh")("expected") == "expected"


@pytest.mark.parametrize("docstring", [None, "", "klingon", "français"])
def test_an_unknown_language_is_english(catalogue, docstring):
    def language():
        pass

    language.__doc__ = docstring
    speak(french)
    speak(language)
    assert messages.current_language() == "en"


def test_a_message_reads_the_same_as_a_paragraph_of_the_book():
    from press.blocks import parser

    for mistake in MISTAKES:
        tokens = parser().parse(mistake.message)
        assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
        shown = "".join(child.content for child in tokens[1].children)
        assert shown == mistake.message, mistake.name
