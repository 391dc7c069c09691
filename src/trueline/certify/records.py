"""Certificates: frozen records of numbers that anyone can check.

Every kind has ``kind``, ``status``, ``proven``, ``assumptions``, ``advice`` and ``to_dict()``; ``str()`` of a
certificate is one plain line. A result that is not proven says so here; nothing is rounded on the way.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, ClassVar

import numpy as np


class Status(enum.Enum):
    """How far a result can be trusted; ``str()`` of it says what to do."""

    PROVEN = "proven"
    NOT_PROVEN = "not_proven"
    VOID = "void"
    INTERRUPTED = "interrupted"
    DEGENERATE = "degenerate"

    def __str__(self) -> str:
        return _ADVICE[self]


_ADVICE = {
    Status.PROVEN: "proven: the stated number holds",
    Status.NOT_PROVEN: "not proven: the tolerance was not reached; allow more iterations or loosen the tolerance",
    Status.VOID: "void: an assumption of the bound failed on these data; see which one and its remedy",
    Status.INTERRUPTED: "interrupted: this is the last iterate that was certified; continue from it to get further",
    Status.DEGENERATE: "degenerate: the problem has no finite or no unique answer; add a penalty or remove columns",
}


def few(names: tuple[str, ...], most: int = 6) -> str:
    """Names in a line; of many the first ones and how many more there are.

    >>> few(("a", "b")), few(tuple("abcdefghi"), 3)
    ('a, b', 'a, b, c and 6 more')
    """
    more = len(names) - most
    return ", ".join(map(str, names)) if more <= 1 else f"{', '.join(map(str, names[:most]))} and {more:,} more"


@dataclasses.dataclass(frozen=True)
class Assumption:
    """One assumption of a theorem, the worst value seen, and whether it held."""

    name: str
    held: bool
    worst: float | None = None
    limit: float | None = None
    remedy: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """The fields that every kind has."""

    kind: ClassVar[str] = "none"
    status: Status = Status.NOT_PROVEN
    assumptions: tuple[Assumption, ...] = ()
    advice: str = ""

    @property
    def proven(self) -> bool:
        return self.status is Status.PROVEN

    def claim(self) -> str:
        """What is claimed, in a few words and numbers."""
        return ""

    def __str__(self) -> str:
        tail = f" — {self.advice}" if self.advice else ""
        claim = f": {self.claim()}" if self.claim() else ""
        return f"{self.status.value.replace('_', ' ')}{claim}{tail}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, with ``kind``, ``status`` and ``proven``."""
        values = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"kind": self.kind, "status": self.status.value, "proven": self.proven} | {
            name: value for name, value in values.items() if name != "status"
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactCertificate(Certificate):
    """Closed-form least squares: how many digits hold, and what the data themselves allow."""

    kind = "exact"
    arithmetic_digits: float = 0.0
    data_digits: float = 0.0
    condition_number: float = float("nan")
    rank: int = 0
    dropped: tuple[str, ...] = ()
    orthogonality: float = float("nan")

    @property
    def digits(self) -> float:
        return min(self.arithmetic_digits, self.data_digits)

    def claim(self) -> str:
        return (
            f"{self.digits:.1f} digits (arithmetic {self.arithmetic_digits:.1f}, data allow {self.data_digits:.1f}), "
            f"condition number {self.condition_number:.3g}, rank {self.rank}"
            + (f", dependent columns {few(self.dropped)}" if self.dropped else "")
        )

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"digits": self.digits}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GapCertificate(Certificate):
    """A minimised objective: the primal value, a dual value below the optimum, and their distance."""

    kind = "batch"
    primal: float = float("nan")
    dual: float = float("nan")
    gap: float = float("inf")
    relative_gap: float = float("inf")
    gradient_norm: float = float("nan")
    newton_decrement: float = float("nan")
    largest_step: float = float("nan")  # constant steps below 2/λ_max of the Hessian converge

    def claim(self) -> str:
        return f"objective {self.primal:.12g}, relative duality gap {self.relative_gap:.2g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegretCertificate(Certificate):
    """An online run: loss suffered, the best fixed comparator's loss, and the theorem's bound.

    Sums over the stream; squared loss without the half. ``comparator`` minimises the comparator's loss and gives
    ``regret``; ``bound_comparator`` makes the bound smallest. ``loss ≤ bound`` whenever ``proven``.
    """

    kind = "online"
    examples: int = 0
    loss: float = 0.0
    comparator_loss: float = float("nan")
    regret: float = float("nan")
    bound: float = float("inf")
    comparator: np.ndarray | None = dataclasses.field(default=None, compare=False)
    bound_comparator: np.ndarray | None = dataclasses.field(default=None, compare=False)
    theorem: str = ""

    def claim(self) -> str:
        return (
            f"loss {self.loss:.6g} over {self.examples:,} examples, best fixed {self.comparator_loss:.6g}, "
            f"regret {self.regret:.6g}, bound {self.bound:.6g}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MistakeCertificate(Certificate):
    """Perceptron and Winnow: mistakes made, and the most that the margin or slack found allows."""

    kind = "perceptron"
    examples: int = 0
    mistakes: int = 0
    radius: float = 0.0
    margin: float = float("nan")
    slack: float = float("nan")
    bound: float = float("inf")
    comparator: np.ndarray | None = dataclasses.field(default=None, compare=False)
    theorem: str = ""

    def claim(self) -> str:
        return f"{self.mistakes:,} mistakes in {self.examples:,} rounds, at most {self.bound:.6g} possible"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RiskCertificate(Certificate):
    """Online to batch: the averaged weights' risk, bounded at a stated confidence."""

    kind = "risk"
    examples: int = 0
    mean_loss: float = float("nan")
    risk_bound: float = float("inf")
    confidence: float = 0.95
    loss_range: float | None = None

    def claim(self) -> str:
        return (
            f"risk at most {self.risk_bound:.6g} with probability {self.confidence:g} (mean loss {self.mean_loss:.6g})"
        )


def _subclasses(cls: type[Certificate]) -> list[type[Certificate]]:
    return [cls, *(deeper for sub in cls.__subclasses__() for deeper in _subclasses(sub))]


def from_dict(values: dict[str, Any]) -> Certificate:
    """The certificate that ``to_dict`` wrote.

    >>> from_dict(ExactCertificate(status=Status.PROVEN, arithmetic_digits=14.0, data_digits=13.0).to_dict()).digits
    13.0
    """
    owner = next(cls for cls in _subclasses(Certificate) if cls.kind == values["kind"])
    given: dict[str, Any] = {}
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
        given[field.name] = value
    return owner(**given)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value
