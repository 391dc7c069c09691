"""What every certificate has: a frozen record of numbers that anyone can check.

Each kind says its claim in one line (``claim``), explains itself in sentences (``explain``) and names the fields that
the verifier recomputes (``checked``); all other fields are *stated*: ``verify`` prints them as not checked. A number
that is not known is None, never NaN. Nothing is rounded on the way.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any, ClassVar

import numpy as np

from ..errors import ModelError


class Status(enum.Enum):
    """How far a result can be trusted; ``str()`` of it says what to do."""

    PROVEN = "proven"
    NOT_PROVEN = "not_proven"
    STATIONARY = "stationary"
    VOID = "void"
    INTERRUPTED = "interrupted"
    DEGENERATE = "degenerate"

    def __str__(self) -> str:
        return _ADVICE[self]

    @property
    def verdict(self) -> str:
        """A few words for a heading."""
        return _VERDICT[self]


_ADVICE = {
    Status.PROVEN: "proven: the stated number holds",
    Status.NOT_PROVEN: "not proven: the tolerance was not reached; allow more iterations or loosen the tolerance",
    Status.STATIONARY: "stationary: no small change improves the objective, but another start may end at a better one",
    Status.VOID: "void: an assumption of the bound failed on these data; see which one and its remedy",
    Status.INTERRUPTED: "interrupted: this is the last iterate that was certified; continue from it to get further",
    Status.DEGENERATE: "degenerate: the problem has no finite or no unique answer; add a penalty or remove columns",
}
_VERDICT = {
    Status.PROVEN: "Proven",
    Status.NOT_PROVEN: "Not proven",
    Status.STATIONARY: "Stationary: a local optimum, as far as is known",
    Status.VOID: "Void: an assumption failed",
    Status.INTERRUPTED: "Interrupted",
    Status.DEGENERATE: "Degenerate: no unique or no finite answer",
}


YOURS = " (yours to know)"  # how the name of an assumption ends that no arithmetic can check


@dataclasses.dataclass(frozen=True)
class Assumption:
    """One assumption of a theorem, the worst value seen, and whether it held."""

    name: str
    held: bool
    worst: float | None = None
    limit: float | None = None
    remedy: str = ""

    def explain(self) -> str:
        """A sentence for an assumption that did not hold."""
        seen = "" if self.worst is None else f"worst seen {number(self.worst)}"
        limit = "" if self.limit is None else f"limit {number(self.limit)}"
        values = ", ".join(part for part in (seen, limit) if part)
        remedy = f" {self.remedy}." if self.remedy else ""
        return f"An assumption did not hold: {self.name}{f' ({values})' if values else ''}.{remedy}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """The fields that every kind has."""

    kind: ClassVar[str] = "none"
    checked: ClassVar[tuple[str, ...]] = ("status", "assumptions")
    status: Status = Status.NOT_PROVEN
    assumptions: tuple[Assumption, ...] = ()
    advice: str = ""

    @property
    def proven(self) -> bool:
        return self.status is Status.PROVEN

    @property
    def rests_on(self) -> tuple[Assumption, ...]:
        """The assumptions without which nothing is proven."""
        return self.assumptions

    @classmethod
    def stated(cls) -> tuple[str, ...]:
        """The fields that nothing recomputes."""
        return tuple(field.name for field in dataclasses.fields(cls) if field.name not in cls.checked)

    def claim(self) -> str:
        """What is claimed, in one line of numbers."""
        return ""

    def paragraphs(self) -> list[str]:
        """What is claimed and why it holds, in sentences; each kind has its own."""
        numbers = [
            f"{field.name.replace('_', ' ')} {number(value)}"
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), (int, float)) and not isinstance(value, bool)
        ]
        return [f"{', '.join(numbers)}." if numbers else "This result carries no number that could be checked."]

    def explain(self) -> list[str]:
        """What is claimed, why it holds, which assumptions did not hold, and what to do then."""
        failed = [assumption.explain() for assumption in self.assumptions if not assumption.held]
        yours = [item.name.removesuffix(YOURS) for item in self.assumptions if item.held and item.name.endswith(YOURS)]
        rests = [f"This rests on what only you can know: {name}." for name in yours]
        return [*self.paragraphs(), *rests, *failed, *([f"Advice: {self.advice}."] if self.advice else [])]

    def __str__(self) -> str:
        claim = f": {self.claim()}" if self.claim() else ""
        return f"{self.status.value.replace('_', ' ')}{claim}{f' — {self.advice}' if self.advice else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, with ``kind``, ``status`` and ``proven``."""
        values = {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return {"kind": self.kind, "proven": self.proven} | values


def few(names: tuple[str, ...], most: int = 6) -> str:
    """Names in a line; of many the first ones and how many more there are.

    >>> few(("a", "b")), few(tuple("abcdefghi"), 3)
    ('a, b', 'a, b, c and 6 more')
    """
    more = len(names) - most
    return ", ".join(map(str, names)) if more <= 1 else f"{', '.join(map(str, names[:most]))} and {more:,} more"


def number(value: Any, digits: int = 5) -> str:
    """A number inside a sentence; – where it is not known.

    >>> number(1234.5678), number(3.2e-9, 3), number(12), number(None)
    ('1234.6', '3.2e-09', '12', '–')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.0f}" if 10**digits <= abs(value) < 1e9 else f"{value:.{digits}g}"


# Files of version 0.1 name kinds and fields otherwise.
_KINDS_OF_0_1 = {"batch": "gap", "online": "regret", "perceptron": "mistakes"}
# Their comparator_loss was at times a member's or that of zero weights: it says nothing that can be stated now.
_GONE_SINCE_0_1 = ("comparator_loss", "comparator", "regret")


def _subclasses(cls: type[Certificate]) -> list[type[Certificate]]:
    return [cls, *(deeper for sub in cls.__subclasses__() for deeper in _subclasses(sub))]


def from_dict(values: dict[str, Any]) -> Certificate:
    """The certificate that ``to_dict`` wrote.

    >>> from_dict({"kind": "exact", "status": "proven", "arithmetic_digits": 14.0, "data_digits": 13.0}).digits
    13.0
    """
    from . import likelihood, optimality, regret  # noqa: F401  the kinds register by being defined

    kind = _KINDS_OF_0_1.get(values["kind"], values["kind"])
    owner = next((cls for cls in _subclasses(Certificate) if cls.kind == kind), None)
    if owner is None:
        raise ModelError(f"there is no certificate of kind {kind!r}", where="certificate")
    if "comparator_loss" in values:
        values = {name: value for name, value in values.items() if name not in _GONE_SINCE_0_1}
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(owner):
        if field.name not in values:
            continue
        value = values[field.name]
        if field.name == "status":
            value = Status(value)
        elif field.name == "assumptions":
            value = tuple(Assumption(**item) for item in value)
        elif isinstance(value, list):
            value = tuple(value) if "tuple" in str(field.type) else np.asarray(value, dtype=float)
        elif isinstance(value, float) and math.isnan(value) and "None" in str(field.type):
            value = None  # as 0.1 wrote a number that is not known
        fields[field.name] = value
    return owner(**fields)


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value
