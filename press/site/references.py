"""How works are cited: in no language in particular, since one bibliography serves all."""

from dataclasses import dataclass, field
from typing import Any

from pybtex.plugin import register_plugin as register_with_pybtex
from pybtex.style.formatting.plain import Style as Plain
from pybtex.style.template import field as of_entry
from pybtex.style.template import href, names, sentence
from sphinxcontrib.bibtex.plugin import register_plugin
from sphinxcontrib.bibtex.style.referencing import PersonStyle
from sphinxcontrib.bibtex.style.referencing.label import LabelReferenceStyle

BETWEEN: dict[str, Any] = {"sep": ", ", "sep2": " & ", "last_sep": " & "}


class Works(Plain):
    """The list of works: pybtex's plain style, without "and" and "URL:"."""

    def format_names(self, role: str, as_sentence: bool = True) -> Any:
        people = names(role, **BETWEEN)
        return sentence[people] if as_sentence else people

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
