"""Certificates of online runs that need more than a regret: a stream whose rows are gone."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from .records import RegretCertificate


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
            f"loss {self.loss:.6g} over {self.examples} examples, at most {self.bound:.6g}; regret at most "
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
            f"{self.examples} examples)"
        )
