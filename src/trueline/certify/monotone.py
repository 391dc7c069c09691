"""Certificates of fits by reweighting: each step may only improve, and what the improvement was is on record.

``before`` and ``after`` hold the objective around every step at that step's own scale (robust regression: Σρ(r/s)
with s fixed during the step, to be made small; mixtures: the log-likelihood, to be made large). ``monotone`` compares
them, with room for rounding only.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from .records import Certificate

ROUNDING = 1e-10


@dataclasses.dataclass(frozen=True, kw_only=True)
class MonotoneCertificate(Certificate):
    """A fit by repeated reweighting, or by one weighted least squares per query."""

    kind: ClassVar[str] = "monotone"
    objective: float = float("nan")
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()
    rising: bool = False  # True where the objective is a likelihood
    stationarity: float = float("nan")
    degrees_of_freedom: float = float("nan")
    breakdown: float = float("nan")
    note: str = ""
    interpolation_error: float = float("nan")

    @property
    def iterations(self) -> int:
        return len(self.after)

    @property
    def monotone(self) -> bool:
        """No step made the objective worse."""
        return monotone(self.before, self.after, self.rising)

    def claim(self) -> str:
        parts = []
        if self.after:
            way = "never fell" if self.rising else "never rose"
            parts.append(f"objective {self.objective:.10g} {way if self.monotone else 'was not monotone'}")
            parts.append(f"in {self.iterations} steps")
        if np.isfinite(self.stationarity):
            parts.append(f"stationary to {self.stationarity:.2g}")
        if np.isfinite(self.degrees_of_freedom):
            parts.append(f"{self.degrees_of_freedom:.4g} effective degrees of freedom")
        if np.isfinite(self.interpolation_error):
            parts.append(f"interpolation error {self.interpolation_error:.2g} seen")
        return ", ".join(parts)


def monotone(before: tuple[float, ...], after: tuple[float, ...], rising: bool) -> bool:
    """Whether each step kept or improved the objective.

    >>> monotone((3.0, 2.0), (2.0, 2.0), rising=False), monotone((3.0,), (2.0,), rising=True)
    (True, False)
    """
    first, last = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    room = ROUNDING * (1.0 + np.abs(first))
    return bool((last >= first - room).all() if rising else (last <= first + room).all())
