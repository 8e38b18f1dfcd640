"""The language of feedback."""

import ast
import sys
from datetime import date

import pytest
import wcwidth
from babel.messages.pofile import read_po

from normkit import diagnose, messages, say, speak
from normkit.tutor.exposing import wrong
from normkit.tutor.mistakes import catalogue as mistakes
from normkit.tutor.mistakes import combine
from normkit.tutor.tasks import assignments

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


@pytest.fixture
def catalogue(tmp_path, monkeypatch):
    (tmp_path / "fr").mkdir()
    (tmp_path / "fr" / "normkit.po").write_text(PO, "utf-8")
    monkeypatch.setattr(messages, "SOURCES", tmp_path)
    messages._catalogue.cache_clear()
    yield
    speak("en")
    messages._catalogue.cache_clear()


def test_feedback_speaks_the_language_of_the_notebook(catalogue, capsys):
    assert speak(french) is french
    diagnose(combine("layer_norm/layer_norm"), "layer_norm/forward")
    assert capsys.readouterr().out == "✓ layer_norm/forward : juste sur les 13 entrées.\n"
    diagnose(wrong("layer_norm/layer_norm", "unbiased_variance"), "layer_norm/forward")
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


def test_a_message_is_said_in_the_language_of_the_notebook(catalogue):
    fields = {"task": "dx", "count": 3}
    assert say("✓ {task}: right in all {count} checks.", **fields).startswith("✓ dx: right")
    speak(french)
    assert say("✓ {task}: right in all {count} checks.", **fields).startswith("✓ dx : juste")
    assert say("{message} is {other!r}.", message="x", other="") == "x is ''."  # no such message
    with pytest.raises(KeyError):
        say("{name} is None.")


def test_a_call_sets_the_language(catalogue):
    assert speak("fr") is None
    assert messages.current_language() == "fr"


@pytest.mark.parametrize("code", ["klingon", "", "FR", "zh_CN"])
def test_a_call_with_an_unknown_code_says_which_there_are(catalogue, code):
    speak("fr")
    with pytest.raises(ValueError, match=f"speaks en, fr and zh; {code!r} is none"):
        speak(code)
    assert messages.current_language() == "fr"


def test_an_edited_catalogue_is_read_anew(catalogue, tmp_path):
    path = tmp_path / "fr" / "normkit.po"
    path.write_text(PO.replace("juste", "exact"), "utf-8")
    assert "exact" in messages.translator("fr")("✓ {task}: right in all {count} checks.")


def test_compiled_messages_need_the_standard_library_alone(catalogue, tmp_path, monkeypatch):
    compiled = messages.compiled(tmp_path / "fr" / "normkit.po")
    (tmp_path / "fr.mo").write_bytes(compiled)
    monkeypatch.setattr(messages, "COMPILED", tmp_path)
    monkeypatch.setattr(messages, "SOURCES", tmp_path / "none")
    monkeypatch.setitem(sys.modules, "babel", None)
    translate = messages.translator("fr")
    assert translate("✓ {task}: right in all {count} checks.").startswith("✓ {task} : juste")
    assert translate("expected") == "expected"  # fuzzy
    assert translate("") == ""


def test_without_babel_a_checkout_speaks_english_and_says_why(catalogue, monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    monkeypatch.setitem(sys.modules, "babel.messages.mofile", None)
    with pytest.warns(UserWarning, match="python -m pip install babel"):
        assert messages.translator("fr")("expected") == "expected"


@pytest.mark.parametrize("language", messages.LANGUAGES[1:])
def test_columns_are_those_of_a_terminal(language):
    catalogue = read_po((messages.SOURCES / language / "normkit.po").open("rb"))
    for message in filter(None, catalogue):
        if message.id:
            line = " ".join(message.string.split())
            assert messages.columns(line) == wcwidth.wcswidth(line)


def test_a_message_reads_the_same_as_a_paragraph_of_the_book():
    from press.blocks import parser

    for mistake in (mistake for name in assignments() for mistake in mistakes(name)[""]):
        tokens = parser().parse(mistake.message)
        assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
        shown = "".join(child.content for child in tokens[1].children)
        assert shown == mistake.message, mistake.name


def test_every_message_of_the_package_is_one_to_translate():
    known = {message.id for message in read_po((messages.SOURCES / "fr/normkit.po").open("rb"))}
    for path in messages.HERE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"say", "N_"}:
                said = node.args[0]
                assert not isinstance(said, ast.Constant) or said.value in known, (path, said.value)


def test_a_compiled_catalogue_does_not_say_when_it_was_made(catalogue, tmp_path):
    compiled = messages.compiled(tmp_path / "fr" / "normkit.po")
    assert str(date.today().year).encode() not in compiled
