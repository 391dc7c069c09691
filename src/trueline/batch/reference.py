"""What a gap is measured against: the objective of the best constant (null) and the least loss the targets allow.

``saturated`` is −Σ c·V*(0, y) = Σ c·min over s of V(y, s): 0 for losses of residuals and margins, the loss at a mean
equal to the target for counts. Of a user's loss without a conjugate the minimum of each row is bracketed by its slope
and bounded by tangents; where no slope of 0 is found the least loss is not known (−∞), and no gap is ever small
against it: such a result is never proven.

``null`` is the loss of the best constant score where some parameters give every row the same score (the intercept, a
column of ones, columns of 0 and 1 that sum to 1), and that of scores of 0 beside the offset where none do. No penalty is
counted in it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..objective.loss_interface import derivatives
from ..onepass.lasso_gap import summing_error
from ..solvers.row_sums import conjugate_sum, upper_conjugate_sum
from .duality import NO_OFFSET, has_conjugate, solve_symmetric

if TYPE_CHECKING:
    from .risk import Risk

LARGEST_SPAN = 500  # columns up to which any combination of them may be the constant; beyond, one column or their sum
CONSTANT = 1e-6  # how far from 1 the scores of a constant may be: the yardstick needs no more
LOG_MEAN = ("poisson", "gamma", "tweedie")


class Reference(NamedTuple):
    """``null`` and ``saturated`` of a problem; ``least`` is the latter with rounding subtracted, a dual value.

    ``theta`` are the parameters of the best constant.
    """

    null: float
    saturated: float
    least: float
    theta: np.ndarray


def value_and_slope(
    loss: Any, y: np.ndarray, c: np.ndarray, offset: np.ndarray, constant: float
) -> tuple[float, float]:
    """(Σ c·V, Σ c·V') where every score is a constant beside its offset, over rows of positive weight."""
    slope = np.empty(len(y))
    scores = constant + offset if len(offset) else np.full(len(y), constant)
    return derivatives(loss, scores, y, c, slope, np.zeros(0)), float(slope.sum())


def reference(risk: Risk) -> Reference:
    """The two values, and where the best constant lies."""
    saturated, least = saturated_loss(risk)
    offset = NO_OFFSET if risk.offset is None else np.ascontiguousarray(risk.offset, dtype=float)
    y, c = risk.y, risk.c
    if getattr(risk.loss, "targets", "") == "sign" and not len(offset):
        y, c = np.array([-1.0, 1.0]), np.array([c[y < 0.0].sum(), c[y > 0.0].sum()])
    elif not c.all():
        y, offset, c = y[c > 0.0], offset[c > 0.0] if len(offset) else offset, c[c > 0.0]
    direction = constant_direction(risk)
    if direction is None:
        value = float(value_and_slope(risk.loss, y, c, offset, 0.0)[0])
        return Reference(value, saturated, least, np.zeros(risk.size))
    found, value = best_constant(risk.loss, y, c, offset)
    return Reference(value, saturated, least, found * direction)


def saturated_loss(risk: Risk) -> tuple[float, float]:
    """(the least that the loss can be whatever the scores, the same less its rounding); −∞ where it is not known."""
    zero = np.zeros(len(risk.c))
    if has_conjugate(risk.loss):
        total, size = conjugate_sum(risk.loss, zero, risk.y, risk.c, NO_OFFSET, 0, len(zero))
    else:
        total, size = upper_conjugate_sum(risk.loss, zero, risk.y, risk.c, NO_OFFSET, zero)
    if not math.isfinite(total):
        return -math.inf, -math.inf
    return -float(total), -float(total) - summing_error(len(zero)) * float(size)


def constant_direction(risk: Risk) -> np.ndarray | None:
    """Parameters that give every row of positive weight a score of 1; None where none were found."""
    if risk.design.intercept:
        return np.append(np.zeros(risk.design.d), 1.0)
    for candidate in _candidates(risk):
        scores = risk.design.scores(candidate)
        if np.abs(scores - 1.0)[risk.c > 0.0].max(initial=0.0) <= CONSTANT:
            return candidate
    return None


def _candidates(risk: Risk) -> Any:
    """Parameters that may give a score of 1: of one column, of the columns' sum, of the best combination."""
    design, c = risk.design, risk.c
    means, lengths = design.correlations(c), design.lengths(c)
    alone = np.flatnonzero((means != 0.0) & (means**2 >= (1.0 - CONSTANT) * lengths**2))
    for j in alone[:1]:
        one = np.zeros(design.size)
        one[j] = 1.0 / means[j]
        yield one
    whole = design.join(np.ones(design.d), 0.0)
    mean = float(means @ whole)
    if mean != 0.0:
        yield whole / mean
    if design.size <= min(LARGEST_SPAN, design.n):
        yield solve_symmetric(design.hessian(c), means)


def best_constant(loss: Any, y: np.ndarray, c: np.ndarray, offset: np.ndarray) -> tuple[float, float]:
    """(the constant score with the least loss, that loss), by the sign of the slope.

    Where the slope never changes its sign (one class alone, counts of 0) the least value seen stands.
    """

    def at(t: float) -> tuple[float, float]:
        value, slope = value_and_slope(loss, y, c, offset, t)
        return (value, slope) if value == value and slope == slope else (math.inf, math.copysign(math.inf, t))

    best = _guess(loss, y, c, offset)
    value, slope = at(best)
    ends, slopes = [best, best], [slope, slope]
    side, width = int(slope < 0.0), max(1e-3 * abs(best), 1e-3)  # which end has still to be found, and how far off
    while slope != 0.0 and width < 1e30:
        new = ends[side] + (width if side else -width)
        here = at(new)
        best, value = (new, here[0]) if here[0] < value else (best, value)
        if (here[1] > 0.0) == bool(side) or here[1] == 0.0:
            ends[side], slopes[side] = new, here[1]
            break
        ends, slopes, width = [new, new], [here[1], here[1]], 4.0 * width
    for turn in range(100):
        (a, b), (falling, rising) = ends, slopes
        if not (falling < 0.0 < rising and b - a > 4e-16 * max(abs(a), abs(b))):
            break
        # Every other step halves, since chords alone may creep; by convexity nothing between is below the tangents.
        chord = (a * rising - b * falling) / (rising - falling)
        new = chord if turn % 2 and a < chord < b else 0.5 * (a + b)
        here = at(new)
        best, value = (new, here[0]) if here[0] < value else (best, value)
        if here[1] == 0.0 or min(abs(here[1]), rising, -falling) * (b - a) <= 1e-14 * abs(value):
            break
        side = int(here[1] > 0.0)
        ends[side], slopes[side] = new, here[1]
    return best, value


def _guess(loss: Any, y: np.ndarray, c: np.ndarray, offset: np.ndarray) -> float:
    """The best constant of a loss that has it in closed form, or a number near it."""
    name = getattr(loss, "name", "")
    if name in LOG_MEAN:
        mean = float(c @ y) / float(c @ np.exp(offset)) if len(offset) else float(c @ y)
        return math.log(mean) if 0.0 < mean < math.inf else 0.0
    if getattr(loss, "targets", "") == "sign":
        share = float(c[y > 0.0].sum())
        return math.log(share / (1.0 - share)) if name == "logistic" and 0.0 < share < 1.0 else 0.0
    left = y - offset if len(offset) else y
    if name in ("absolute", "quantile"):
        return weighted_quantile(left, c, getattr(loss, "quantile", 0.5))
    return float(c @ left)


def weighted_quantile(values: np.ndarray, c: np.ndarray, share: float) -> float:
    """The least value with this share of the weight at or below it."""
    order = np.argsort(values)
    below = np.cumsum(c[order])
    place = min(int(np.searchsorted(below, share * below[-1])), len(order) - 1)
    return float(values[order[place]])
