"""What a translation must keep of the English, and the typography it must have."""

import re
from collections import Counter
from collections.abc import Iterator

from markdown_it.token import Token

from press.blocks import inline, parser, role_words

# Roles that show words of their own beside their target; of others, all must be kept.
SHOWS_WORDS = {"ref", "doc", "numref", "download", "term"}
ENGLISH = re.compile(r"\b(the|and|of|is|are|with|that|this|from|which|it|by|not|you)\b", re.I)
FIELD = re.compile(r"\{\w*(?:[.:!][^{}]*)?\}")
CODE_FIELD = re.compile(r"\{[^{}]*\}")  # of an f-string
HAN = "\u4e00-\u9fff"
WIDE = HAN + "\u3000-\u303f\uff00-\uffef"
SOLID = "\ufffc"  # stands for mathematics and code in a line of words
LATIN = f"A-Za-z0-9{SOLID}"
# (language, what is wrong, pattern) over the words of a translation.
TYPOGRAPHY = [
    ("fr", "no narrow no-break space (U+202F) before ; : ! ?", r"[^\u202f\s;:!?][;:!?](?=\s|$)"),
    ("fr", "an ordinary space before ; : ! ? » or after «", r"[ \u00a0][;:!?»]|«[ \u00a0]"),
    ("fr", "an ordinary space inside a number", r"(?<![\d,.])\d{1,3}[ \u00a0]\d{3}(?!\d)"),
    ("fr", "a guillemet without its narrow no-break space", r"«[^\u202f]|[^\u202f]»"),
    ("fr", "straight quotation marks: use « »", r'"'),
    ("fr", "a straight apostrophe: use ’", r"\w'"),
    ("zh", "a space between Chinese characters", rf"[{WIDE}] +[{WIDE}]"),
    ("zh", "half-width punctuation after a Chinese character", rf"[{HAN}][,;:!?.](?![A-Za-z0-9])"),
    ("zh", "half-width parentheses around Chinese", rf"\([{HAN}]|[{HAN}]\)"),
    ("zh", "no space between Chinese and Latin", rf"[{HAN}][{LATIN}]|[{LATIN}][{HAN}]"),
]


def problems(
    message: str, translation: str, kind: str, language: str, same: bool = False
) -> Iterator[str]:
    """Yield what is wrong with a translation, nothing when it may be shown to a reader.

    Parameters
    ----------
    kind
        "myst" for prose, whose markup must survive; "printed" for what stands between the quotes
        of a program's string; other kinds are plain text, with {fields}.
    same
        The translator says that the translation is the English (a name, a title), but for capitals.
    """
    if message == "en":  # what a notebook of the assignments says of its language
        if translation != language:
            yield f"should be {language!r}"
        return
    if same:
        if translation.casefold() != message.casefold():
            yield "flagged as the same as the English, but differs"
        return
    if translation == message:
        yield "left in English (if it must be, flag it `#, same`)"
    elif kind == "myst":
        yield from _markup(message, translation)
    elif kind == "printed":
        yield from _literal(message, translation)
    elif Counter(FIELD.findall(message)) != Counter(FIELD.findall(translation)):
        yield f"its fields should be {' '.join(FIELD.findall(message)) or 'none'}"
    words = WORDS.get(kind, str)(translation)
    if kind != "docstring":  # formulas and examples have a typography of their own
        for of, what, pattern in TYPOGRAPHY:
            if of == language and (found := re.search(pattern, words)):
                yield f"{what}: {words[max(0, found.start() - 12) : found.end() + 12]!r}"
    if language == "zh" and not re.search(f"[{WIDE}]", words):
        yield "no Chinese in it (if that is right, flag it `#, same`)"
    if len(left := ENGLISH.findall(words)) > 1:
        yield f"English words left: {', '.join(left)}"
    if "\n" in translation and kind != "docstring":
        yield "a line break"


def _literal(message: str, translation: str) -> Iterator[str]:
    ours, theirs = (re.split(rf"({CODE_FIELD.pattern})", text) for text in (message, translation))
    if sorted(ours[1::2]) != sorted(theirs[1::2]):
        yield f"its fields should be {' '.join(ours[1::2]) or 'none'}"
    elif any("" in ours[end] and ours[end] != theirs[end] for end in (slice(2), slice(-2, None))):
        yield "should begin and end with the field with which the English does"
    for mark in ("\\", "{", "}", '"', "'"):
        if message.count(mark) != translation.count(mark):
            yield f"should have as many {mark} as the English"


def _printed(message: str) -> str:
    """Return what a program prints as words: its fields are solid, its columns are lines."""
    gaps = r" +|\\n" if "  " in message.strip() else r"\\n"
    return re.sub(gaps, "\n", CODE_FIELD.sub(SOLID, message)).strip()


def _markup(message: str, translation: str) -> Iterator[str]:
    kept, found = _marks(message), _marks(translation)
    if lost := kept - found:
        yield f"lost: {', '.join(lost.elements())}"
    if more := found - kept:
        yield f"not in the English: {', '.join(more.elements())}"
    if literal := re.search(r"\*\*|(?<!\\)`|\$", _words(translation)):
        yield f"{literal[0]} shows as it is: closing or opening mark misplaced"
    if _shape(message) != _shape(translation):
        yield "would not be read as a paragraph"


def _shape(message: str) -> list[str]:
    return [token.type for token in parser().parse(message)]


def _marks(message: str) -> Counter[str]:
    """Count what must survive: roles, mathematics, code, targets, footnotes, bold."""
    footnotes = re.findall(r"\[\^[\w-]+\]", message)  # unknown to a message on its own
    return Counter([*filter(None, map(_mark, inline(message))), *footnotes])


def _mark(token: Token) -> str:
    match token.type:
        case "myst_role":
            name = token.meta["name"]
            target = re.search(r"<(.+)>$", token.content) if name in SHOWS_WORDS else None
            return f"{{{name}}}`{target[1] if target else token.content}`"
        case "math_inline" | "math_inline_double":
            return f"${token.content}$"
        case "code_inline":
            return f"`{token.content}`"
        case "link_open":
            return f"link to {token.attrs['href']}"
        case "image":
            return f"image {token.attrs['src']}"
        case "strong_open":
            return "**bold**"
        case "html_inline":
            return token.content
    return ""


def _words(message: str) -> str:
    """Return what a reader sees as words."""
    shown = ""
    for token in inline(message):
        if token.type == "text":
            shown += token.content
        elif token.type in {"math_inline", "code_inline"}:
            shown += SOLID
        elif token.type == "myst_role":
            shown += role_words(token) or SOLID
    return shown


WORDS = {"myst": _words, "printed": _printed}
