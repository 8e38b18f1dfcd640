"""What a check-up answers: the norms, the findings, what could not be measured."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field

ERROR, WARNING, NOTE = LEVELS = ("error", "warning", "note")

Number = float | int


@dataclass(frozen=True)
class Norm:
    """A norm of the model, described by what it was measured to do; None where it was not."""

    path: str
    class_name: str
    kind: str | None
    axes: tuple[int, ...] | None
    count: int | None  # values that share a mean or mean square
    eps: float | None
    momentum: float | None
    affine: bool
    parameters: int
    dtype: str | None
    place: str | None
    calls: int


@dataclass(frozen=True)
class Finding:
    """What was found, by name; where; the numbers measured; the place of the book that explains."""

    name: str
    level: str
    paths: tuple[str, ...]
    values: dict[str, Number]  # of the worst of them
    heading: str
    consequences: tuple["Finding", ...] = ()


def every(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings, and what is folded under them."""
    for finding in findings:
        yield finding
        yield from every(finding.consequences)


@dataclass(frozen=True)
class Skipped:
    """A measurement that could not be made, and why."""

    what: str
    why: str


@dataclass(frozen=True)
class Report:
    """The answer of `normkit.examine`: shown as text, as tables in a notebook, or as JSON."""

    model: str
    norms: list[Norm]
    findings: list[Finding]
    skipped: list[Skipped] = field(default_factory=list)
    parameters: int = 0
    seconds: float = 0.0
    is_noise: bool = False  # the batch has mean 0 and deviation 1

    @property
    def level(self) -> str | None:
        """The worst level among the findings and their consequences; None where there are none."""
        found = {finding.level for finding in every(self.findings)}
        return next((level for level in LEVELS if level in found), None)

    def to_json(self) -> str:
        """Names and numbers, no sentence: the same in every language."""
        answer = {
            "model": self.model,
            "parameters": self.parameters,
            "is_noise": self.is_noise,
            "norms": [_plain(asdict(norm)) for norm in self.norms],
            "findings": [asdict(finding) for finding in self.findings],
            "skipped": [asdict(each) for each in self.skipped],
        }
        return json.dumps(_finite(answer), indent=1)

    def __str__(self) -> str:
        from normkit.examining.wording import text

        return text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from normkit.examining.wording import html

        return html(self)


def _plain(norm: dict) -> dict:
    """A norm under the names of JSON: `class` is a word of Python's."""
    return {("class" if key == "class_name" else key): value for key, value in norm.items()}


def _finite(value: object) -> object:
    """JSON has no nan and no infinity: they become words."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return str(value)
    return value
