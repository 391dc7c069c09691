"""What densities, fits by reweighting and boosting prove.

A density's log-likelihood and the family's maximum come from the sufficient statistics, so no row is read again. For
exponential families the maximum is known in closed form, and ``gap = maximum − log_likelihood`` is what smoothing
costs on the training rows; a mixture's or a Gaussian's with missing values is a stationary point of EM. A column that is
constant, or a combination of others, has a density without a maximum: the result is degenerate.

A fit by reweighting may only improve at each step: ``before`` and ``after`` hold the objective around every step at
that step's own scale (robust regression: Σρ(r/s) with s fixed during the step, to be made small; mixtures: the
log-likelihood, to be made large). A convex ρ has one optimum at a given scale, and a dual value shows how near the fit
is; of a redescending ρ and of a mixture nothing more than "stationary" can be said. ``line_status`` is the rule.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from .certificate import Certificate, Status
from .optimality import PROVEN_GAP, relative_gap

ROUNDING = 1e-10
STATIONARY = 1e-2  # the steepest slope, as a correlation or a part of a row's log-likelihood, that is called none
FLAT = 1e-14  # a standard deviation of this part of the largest value is rounding: the column is constant
CORRELATED = 1e-13  # a correlation matrix whose least eigenvalue is no larger is singular
SCALE_ERROR = 1e-2  # how far a scale may be from that of the residuals it is said to be of


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelihoodCertificate(Certificate):
    """Sums over the training rows, natural logarithms; ``effective_counts`` are the weights of each class."""

    kind: ClassVar[str] = "likelihood"
    checked: ClassVar[tuple[str, ...]] = (
        "status", "assumptions", "rows", "log_likelihood", "maximum", "gap", "effective_counts",
    )  # fmt: skip
    rows: float = 0.0
    log_likelihood: float = float("nan")
    maximum: float = float("nan")
    gap: float = float("nan")
    effective_counts: tuple[float, ...] = ()
    iterations: int = 0
    monotone: bool = True

    @property
    def per_row(self) -> float:
        """Log-likelihood of a row, on average."""
        return self.log_likelihood / self.rows if self.rows else float("nan")

    def claim(self) -> str:
        claim = f"log-likelihood {self.log_likelihood:.10g} ({self.per_row:.5g} a row)"
        if self.iterations:
            return claim + f", EM {'never fell' if self.monotone else 'was not monotone'} in {self.iterations} steps"
        return claim + f", at most {self.gap:.2g} below the family's maximum"


def likelihood_status(
    gap: float, size: float, *, flat: bool = False, closed: bool = True, climbed: bool = True
) -> Status:
    """Of densities: proven where the maximum is known in closed form and not exceeded, but for the rounding of sums of this
    size; stationary after an EM that only climbed; degenerate where there is no maximum.

    >>> likelihood_status(0.1, 50.0), likelihood_status(-0.1, 50.0), likelihood_status(0.0, 50.0, closed=False)
    (<Status.PROVEN: 'proven'>, <Status.NOT_PROVEN: 'not_proven'>, <Status.STATIONARY: 'stationary'>)
    """
    if flat:
        return Status.DEGENERATE
    if not closed:
        return Status.STATIONARY if climbed else Status.NOT_PROVEN
    return Status.PROVEN if gap >= -ROUNDING * (1.0 + abs(size)) else Status.NOT_PROVEN


@dataclasses.dataclass(frozen=True, kw_only=True)
class MonotoneCertificate(Certificate):
    """A fit by repeated reweighting, or by one weighted least squares per query.

    ``stationarity`` is the steepest slope of the objective, free of units: the largest correlation of a column with
    ψ(r/s), or of a mixture the largest derivative of a row's mean log-likelihood. ``gap`` bounds how far the objective
    is above its least value at this scale, where it is convex. ``scale_error`` is the part by which the scale differs
    from that of the residuals; a scale that a high-breakdown start found and kept has none.
    """

    kind: ClassVar[str] = "monotone"
    checked: ClassVar[tuple[str, ...]] = (
        "status", "assumptions", "objective", "gap", "stationarity", "scale_error", "degrees_of_freedom",
        "interpolation_error",
    )  # fmt: skip
    objective: float = float("nan")
    gap: float = float("nan")
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()
    rising: bool = False  # True where the objective is a likelihood
    stationarity: float = float("nan")
    scale_error: float = float("nan")
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
        if np.isfinite(self.gap):
            parts.append(f"within {self.gap:.2g} of the least at this scale")
        if np.isfinite(self.stationarity):
            parts.append(f"stationary to {self.stationarity:.2g}")
        if np.isfinite(self.degrees_of_freedom):
            parts.append(f"{self.degrees_of_freedom:.4g} effective degrees of freedom")
        if np.isfinite(self.interpolation_error):
            parts.append(f"interpolation error {self.interpolation_error:.2g} seen")
        return ", ".join(parts)


def line_status(convex: bool, objective: float, gap: float, stationarity: float, scale_error: float) -> Status:
    """What these numbers make of a robust line: proven only where ρ is convex and the gap at this scale is small.

    >>> line_status(True, 80.0, 1e-6, 1e-4, 0.0), line_status(False, 80.0, float("nan"), 1e-4, 0.0)
    (<Status.PROVEN: 'proven'>, <Status.STATIONARY: 'stationary'>)
    """
    if not scale_error <= SCALE_ERROR or not stationarity <= STATIONARY:
        return Status.NOT_PROVEN
    if not convex:
        return Status.STATIONARY
    near = gap >= 0.0 and relative_gap(gap, objective, objective, 0.0) <= PROVEN_GAP
    return Status.PROVEN if near else Status.NOT_PROVEN


def local_status(exact: bool, freedom: bool) -> Status:
    """Of local fits: proven where every row has its own fit, degenerate where the residuals have no freedom left."""
    if not freedom:
        return Status.DEGENERATE
    return Status.PROVEN if exact else Status.NOT_PROVEN


def monotone(before: tuple[float, ...], after: tuple[float, ...], rising: bool) -> bool:
    """Whether each step left the objective as it was or improved it.

    >>> monotone((3.0, 2.0), (2.0, 2.0), rising=False), monotone((3.0,), (2.0,), rising=True)
    (True, False)
    """
    first, last = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    room = ROUNDING * (1.0 + np.abs(first))
    return bool((last >= first - room).all() if rising else (last <= first + room).all())


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoostingCertificate(Certificate):
    """Weighted training error ≤ Π Z_t, and the part of rows with margin ≤ θ is at most ``margin_bound``.

    A margin is y·f(x)/Σ|α| in [−1, 1]. ``edge`` is the least edge ½ − ε_t of a round: with all edges at least γ the
    product is at most exp(−2γ²T).
    """

    kind: ClassVar[str] = "boosting"
    checked: ClassVar[tuple[str, ...]] = (
        "status", "assumptions", "rounds", "training_error", "bound", "edge", "smallest_margin", "median_margin",
        "below_theta", "margin_bound",
    )  # fmt: skip
    rounds: int = 0
    training_error: float = float("nan")
    bound: float = float("inf")
    edge: float = float("nan")
    smallest_margin: float = float("nan")
    median_margin: float = float("nan")
    theta: float = 0.1
    below_theta: float = float("nan")
    margin_bound: float = float("inf")

    def claim(self) -> str:
        return (
            f"training error {self.training_error:.6g}, at most {self.bound:.6g} after {self.rounds} rounds; smallest "
            f"margin {self.smallest_margin:.3g}, median {self.median_margin:.3g}"
        )
