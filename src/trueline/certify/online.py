"""Certificates of online runs that need more than a regret: a stream whose rows are gone."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from .records import Assumption, RegretCertificate, Status


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamCertificate(RegretCertificate):
    """A run over rows that cannot be read again.

    Against *every* comparator of size at most ``radius`` the regret is at most ``regret_bound``. The comparator whose
    loss is known is the one in force before the first example; ``candidates`` are weights frozen at a doubling count,
    each as (frozen at, own loss since, candidate's loss since, bound on the own loss since).
    """

    kind: ClassVar[str] = "stream"
    radius: float = float("nan")
    regret_bound: float = float("inf")
    candidates: tuple[tuple[float, float, float, float], ...] = ()

    def claim(self) -> str:
        return (
            f"loss {self.loss:.6g} over {self.examples:,} examples, at most {self.bound:.6g}; regret at most "
            f"{self.regret_bound:.6g} against every comparator of size {self.radius:.3g}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AveragedCertificate(RegretCertificate):
    """Online to batch: the mean of the weights before each update, with its risk bounded at a stated confidence.

    risk ≤ mean loss + B·√(ln(1/δ)/(2m)) for independent rows read once, losses in [0, B], B declared beforehand.
    """

    kind: ClassVar[str] = "averaged"
    mean_loss: float = float("nan")
    risk_bound: float = float("inf")
    confidence: float = 0.95
    loss_range: float | None = None

    def claim(self) -> str:
        return (
            f"risk at most {self.risk_bound:.6g} with probability {self.confidence:g} (mean loss {self.mean_loss:.6g} over "
            f"{self.examples:,} examples)"
        )


def averaged(
    proof: RegretCertificate,
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
        Assumption("losses lie in [0, B], B declared beforehand", loss_range is not None and largest <= loss_range,
                   largest, loss_range, "give loss_range=B, the largest loss that can occur"),
        Assumption("one pass over the rows", epochs <= 1, float(epochs), 1.0, "fit with epochs=1"),
        Assumption("rows have weight 1", bool(unweighted), None, None, "fit without sample_weight"),
        Assumption("rows are independent draws (yours to know)", True),
    )  # fmt: skip
    held = all(item.held for item in assumptions)
    failed = next((item.remedy for item in assumptions if not item.held), "")
    B = loss_range if loss_range is not None else largest
    width = heads * B * math.sqrt(math.log(1.0 / (1.0 - confidence)) / (2.0 * max(1, examples)))
    status = Status.PROVEN if held else Status.NOT_PROVEN if loss_range is None else Status.VOID
    return AveragedCertificate(
        status=status, assumptions=(*proof.assumptions, *assumptions),
        advice="" if held else f"the risk bound is not proven: {failed}",
        examples=examples, loss=proof.loss, comparator_loss=proof.comparator_loss, regret=proof.regret,
        bound=proof.bound, comparator=proof.comparator, bound_comparator=proof.bound_comparator, theorem=proof.theorem,
        mean_loss=mean_loss, risk_bound=mean_loss + width, confidence=confidence, loss_range=loss_range,
    )  # fmt: skip
