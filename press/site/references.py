"""How works are cited: in no language in particular, since one bibliography serves all."""

from dataclasses import dataclass, field
from typing import Any

from pybtex.plugin import register_plugin as register_with_pybtex
from pybtex.style.formatting.plain import Style as Plain
from pybtex.style.template import FieldIsMissing, href, join, node, sentence
from pybtex.style.template import field as of_entry
from sphinxcontrib.bibtex.plugin import register_plugin
from sphinxcontrib.bibtex.style.referencing import PersonStyle
from sphinxcontrib.bibtex.style.referencing.label import LabelReferenceStyle

BETWEEN: dict[str, Any] = {"sep": ", ", "sep2": " & ", "last_sep": " & "}


@node
def people(_children: Any, context: Any, role: str) -> Any:
    """The names of an entry; BibTeX's "others" are "et al.", as in the citations."""
    style, entry = context["style"], context["entry"]
    if role not in entry.persons:
        raise FieldIsMissing(role, entry)
    persons = entry.persons[role]
    named = [person for person in persons if str(person) != "others"]
    told = [style.format_name(person, style.abbreviate_names) for person in named]
    if named != persons:
        return join(sep=", ")[[*told, "et al."]].format_data(context)
    return join(**BETWEEN)[told].format_data(context)


class Works(Plain):
    """The list of works: pybtex's plain style, without "and" and "URL:"."""

    def format_names(self, role: str, as_sentence: bool = True) -> Any:
        told = people(role)
        return sentence[told] if as_sentence else told

    def format_url(self, entry: Any) -> Any:
        url = of_entry("url", raw=True)
        return href(url)[url]


@dataclass
class Citations(LabelReferenceStyle):
    """Citations in the text: "Ioffe & Szegedy [3]"."""

    person: PersonStyle = field(default_factory=lambda: PersonStyle(**BETWEEN))


def register() -> None:
    """Let sphinxcontrib-bibtex know both styles as "neutral"."""
    register_with_pybtex("pybtex.style.formatting", "neutral", Works)
    register_plugin("sphinxcontrib.bibtex.style.referencing", "neutral", Citations)
