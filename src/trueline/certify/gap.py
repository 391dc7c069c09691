"""The arithmetic of duality gaps: how an absolute gap becomes relative, and when it proves a result.

For a convex objective P and any feasible dual point with value D: D ≤ min P ≤ P(w), so P(w) − D bounds the
distance to the optimum. It is divided by |P(w)|, but never by less than a thousandth of the objective at zero
coefficients: an objective that vanishes at its optimum (data that are fitted exactly) has no relative accuracy.
"""

from __future__ import annotations

import math

from .records import GapCertificate, Status

FLOOR = 1e-3


def relative_gap(gap: float, primal: float, null: float) -> float:
    """The gap relative to the objective.

    >>> relative_gap(0.01, 0.5, null=1.0)
    0.02
    """
    scale = max(abs(primal), FLOOR * abs(null))
    return max(gap, 0.0) / scale if scale > 0.0 else (0.0 if gap <= 0.0 else math.inf)


def gap_certificate(
    primal: float,
    dual: float,
    null: float,
    tolerance: float,
    *,
    gradient_norm: float = math.nan,
    newton_decrement: float = math.nan,
    largest_step: float = math.nan,
    status: Status | None = None,
    advice: str = "",
) -> GapCertificate:
    """The certificate of these values; proven when the relative gap is within the tolerance.

    >>> print(gap_certificate(0.5, 0.4999999, null=1.0, tolerance=1e-6))
    proven: objective 0.5, relative duality gap 2e-07
    """
    gap = primal - dual if math.isfinite(primal) and math.isfinite(dual) else math.inf
    relative = relative_gap(gap, primal, null)
    if status is None:
        status = Status.PROVEN if relative <= tolerance else Status.NOT_PROVEN
    return GapCertificate(
        status=status,
        advice=advice,
        primal=primal,
        dual=dual,
        gap=gap,
        relative_gap=relative,
        gradient_norm=gradient_norm,
        newton_decrement=newton_decrement,
        largest_step=largest_step,
    )
