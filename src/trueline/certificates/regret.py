"""What online runs prove: the loss suffered, what fixed weights would have lost, and a theorem's bound.

Sums over the stream; squared loss without the half. A regret names what it is against (``regret_to``), and
``best_fixed_loss`` is the loss of the best fixed weights or None: never that of a member, of zero weights or of a
candidate. The rule by which a bound is called proven stands here (``bound_status``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .certificate import Assumption, Certificate, Status, number

BEST_FIXED = "the best fixed weights"
BEST_MEMBER = "the best member"


def bound_status(value: float, bound: float | None, assumptions: Sequence[Assumption]) -> Status:
    """Proven when every assumption held, and the value suffered is a number that does not exceed a finite bound.

    >>> bound_status(3.0, 4.0, ()), bound_status(5.0, 4.0, ())
    (<Status.PROVEN: 'proven'>, <Status.VOID: 'void'>)
    """
    if bound is None or not math.isfinite(value) or not math.isfinite(bound) or value > bound:
        return Status.VOID
    return Status.PROVEN if all(assumption.held for assumption in assumptions) else Status.VOID


def rounded_up(bound: float, examples: int) -> float:
    """A bound with what its sums, and that of the loss, over so many examples may be off: it stays a bound.

    >>> rounded_up(1.0, 10) > 1.0, rounded_up(float("inf"), 10)
    (True, inf)
    """
    return bound + 4.0 * (examples + 64) * 2.0**-53 * abs(bound)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegretCertificate(Certificate):
    """An online run: loss suffered, the loss of the best fixed weights where it is known, and the theorem's bound.

    ``best_fixed_loss`` is exact or None; ``best_fixed_lower_bound`` is proven to lie below the loss of every fixed
    weights; ``best_member_loss`` is that of the best member of a mixture. ``comparator`` are the best fixed weights,
    ``bound_comparator`` those at which the theorem gives ``bound``, which is rounded up by what the sums behind it may be
    off: never below the theorem's own value. ``loss ≤ bound`` whenever ``proven``.
    """

    kind: ClassVar[str] = "regret"
    checked: ClassVar[tuple[str, ...]] = (
        "status", "assumptions", "examples", "loss", "best_fixed_loss", "best_fixed_lower_bound", "best_member_loss",
        "regret", "regret_to", "bound", "comparator", "bound_comparator",
    )  # fmt: skip
    examples: int = 0
    loss: float = 0.0
    best_fixed_loss: float | None = None
    best_fixed_lower_bound: float | None = None
    best_member_loss: float | None = None
    regret: float | None = None
    regret_to: str | None = None
    bound: float = float("inf")
    comparator: np.ndarray | None = dataclasses.field(default=None, compare=False)
    bound_comparator: np.ndarray | None = dataclasses.field(default=None, compare=False)
    theorem: str = ""

    def claim(self) -> str:
        parts = [f"loss {self.loss:.6g} over {self.examples:,} examples"]
        if self.best_fixed_loss is not None:
            parts.append(f"best fixed {self.best_fixed_loss:.6g}")
        elif self.best_fixed_lower_bound is not None:
            parts.append(f"best fixed at least {self.best_fixed_lower_bound:.6g}")
        if self.best_member_loss is not None:
            parts.append(f"best member {self.best_member_loss:.6g}")
        if self.regret is not None:
            parts.append(f"regret to {self.regret_to} {self.regret:.6g}")
        return ", ".join([*parts, f"bound {self.bound:.6g}"])

    def paragraphs(self) -> list[str]:
        first = (
            f"Over {self.examples:,} examples, each predicted before its label was seen, the total loss was "
            f"{number(self.loss)}."
        )
        if self.best_fixed_loss is not None:
            first += f" The best fixed weights in hindsight would have lost {number(self.best_fixed_loss)}."
        elif self.best_fixed_lower_bound is not None:
            first += (
                f" No fixed weights that it could take would have lost less than {number(self.best_fixed_lower_bound)}."
            )
        else:
            first += " What the best fixed weights would have lost is not known."
        if self.best_member_loss is not None:
            first += f" The best of its members lost {number(self.best_member_loss)}."
        if self.regret is not None:
            first += f" The regret to {self.regret_to}, the price of learning on the way, is {number(self.regret)}."
        sentences = [first]
        if math.isfinite(self.bound):
            theorem = f" ({self.theorem})" if self.theorem else ""
            sentences.append(
                f"The theorem promises a loss of at most {number(self.bound)}, whatever the order of the rows and with no "
                f"assumption about where they came from{theorem}."
            )
        return sentences


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamCertificate(RegretCertificate):
    """A run over rows that cannot be read again.

    Against *every* comparator of size at most ``radius`` the regret is at most ``regret_bound``. ``bound`` is that of the
    weights before the first example (``bound_comparator``), the only ones whose loss is known; ``candidates`` are weights frozen at a doubling count,
    each as (frozen at, own loss since, candidate's loss since, bound on the own loss since).
    """

    kind: ClassVar[str] = "stream"
    checked: ClassVar[tuple[str, ...]] = (*RegretCertificate.checked, "radius", "regret_bound", "candidates")
    radius: float | None = None
    regret_bound: float = float("inf")
    candidates: tuple[tuple[float, float, float, float], ...] = ()

    def claim(self) -> str:
        return (
            f"loss {self.loss:.6g} over {self.examples:,} examples, at most {self.bound:.6g}; regret at most "
            f"{self.regret_bound:.6g} against every comparator of size {number(self.radius, 3)}"
        )


RISK_ASSUMPTIONS = (
    "losses lie in [0, B], B declared beforehand",
    "one pass over the rows",
    "rows have weight 1",
    "rows are independent draws (yours to know)",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AveragedCertificate(RegretCertificate):
    """Online to batch: the mean of the weights before each update, with its risk bounded at a stated confidence.

    risk ≤ mean loss + B·√(ln(1/δ)/(2m)) for independent rows read once, losses in [0, B], B declared beforehand.
    """

    kind: ClassVar[str] = "averaged"
    checked: ClassVar[tuple[str, ...]] = (*RegretCertificate.checked, "mean_loss", "risk_bound")
    mean_loss: float | None = None
    risk_bound: float = float("inf")
    confidence: float = 0.95
    loss_range: float | None = None

    @property
    def rests_on(self) -> tuple[Assumption, ...]:
        """The risk bound needs no theorem about the run's regret, so the run's own assumptions may fail."""
        return tuple(item for item in self.assumptions if item.name in RISK_ASSUMPTIONS)

    def claim(self) -> str:
        return (
            f"risk at most {self.risk_bound:.6g} with probability {self.confidence:g} (mean loss {number(self.mean_loss, 6)} over "
            f"{self.examples:,} examples)"
        )

    def paragraphs(self) -> list[str]:
        return [
            f"With probability {self.confidence:.0%} over the draw of the rows, the expected loss of the averaged weights "
            f"on a new row is at most {number(self.risk_bound)}; the mean loss while learning was "
            f"{number(self.mean_loss)}. This needs independent rows.",
            *super().paragraphs(),
        ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MistakeCertificate(Certificate):
    """Perceptron and Winnow: mistakes made, and the most that the margin or slack found allows."""

    kind: ClassVar[str] = "mistakes"
    checked: ClassVar[tuple[str, ...]] = (
        "status", "assumptions", "examples", "mistakes", "radius", "margin", "slack", "bound", "comparator",
    )  # fmt: skip
    examples: int = 0
    mistakes: int = 0
    radius: float = 0.0
    margin: float | None = None
    slack: float | None = None
    bound: float = float("inf")
    comparator: np.ndarray | None = dataclasses.field(default=None, compare=False)
    theorem: str = ""

    def claim(self) -> str:
        return f"{self.mistakes:,} mistakes in {self.examples:,} rounds, at most {self.bound:.6g} possible"

    def paragraphs(self) -> list[str]:
        return [
            f"{self.mistakes:,} mistakes were made in {self.examples:,} rounds. With rows no longer than "
            f"{number(self.radius)} and the margin {number(self.margin)} or slack {number(self.slack)} found, no order of "
            f"these rows allows more than {number(self.bound)}."
        ]


def averaged(
    run: RegretCertificate,
    *,
    examples: int,
    mean_loss: float,
    largest: float,
    loss_range: float | None,
    confidence: float,
    heads: int,
    epochs: int,
    weight: float,
) -> AveragedCertificate:
    """The risk bound of mean weights, beside the regret of the run, or runs, that made them.

    Several learners, one a partition, count as one run of m = Σ m_p rounds: each weight depends on earlier rows alone,
    so the m differences of risk and loss are a martingale's (Azuma), and the risk of the mean of all m weights is at
    most the mean of their risks (Jensen).
    """
    unweighted = abs(weight - examples) < 1e-9 * max(1, examples)
    assumptions = (
        Assumption(RISK_ASSUMPTIONS[0], loss_range is not None and largest <= loss_range,
                   largest, loss_range, "give loss_range=B, the largest loss that can occur"),
        Assumption(RISK_ASSUMPTIONS[1], epochs <= 1, float(epochs), 1.0, "fit with epochs=1"),
        Assumption(RISK_ASSUMPTIONS[2], bool(unweighted), None, None, "fit without sample_weight"),
        Assumption(RISK_ASSUMPTIONS[3], True),
    )  # fmt: skip
    held = all(assumption.held for assumption in assumptions)
    failed = next((assumption.remedy for assumption in assumptions if not assumption.held), "")
    B = loss_range if loss_range is not None else largest
    width = heads * B * math.sqrt(math.log(1.0 / (1.0 - confidence)) / (2.0 * max(1, examples)))
    bound = mean_loss + width
    status = Status.NOT_PROVEN if loss_range is None else bound_status(mean_loss, bound, assumptions)
    shared = {field.name: getattr(run, field.name) for field in dataclasses.fields(RegretCertificate)}
    return AveragedCertificate(**shared | {
        "status": status, "assumptions": (*run.assumptions, *assumptions), "examples": examples,
        "advice": "" if held else f"the risk bound is not proven: {failed}",
        "mean_loss": mean_loss, "risk_bound": bound, "confidence": confidence, "loss_range": loss_range,
    })  # fmt: skip
