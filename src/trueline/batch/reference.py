"""What a gap is measured against: the objective of the best constant (null) and the least loss the targets allow.

``saturated`` is −Σ c·V*(0, y) = Σ c·min over s of V(y, s): 0 for losses of residuals and margins, the loss at a mean
equal to the target for counts. Of a user's loss without a conjugate the minimum of each row is bracketed by its slope
and bounded by tangents; where no slope of 0 is found the least loss is not known (−∞), and no gap is ever small
against it: such a result is never proven.

``null`` lets only one direction move: parameters that give every row the same score (the intercept, a column of ones,
columns of 0 and 1 that sum to 1). Where there is no such direction it is the objective at zero parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._jit import kernel
from .duality import NO_OFFSET, conjugate_sum, growth, has_conjugate, solve_symmetric, upper_conjugate_sum

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


@kernel
def value_and_slope(loss, y, c, offset, constant):
    """(Σ c·V, Σ c·V') where every score is a constant beside its offset."""
    value = slope = 0.0
    for i in range(y.shape[0]):
        if c[i] > 0.0:
            score = constant + offset[i] if offset.shape[0] > 0 else constant
            value += c[i] * loss.value(score, y[i])
            slope += c[i] * loss.slope(score, y[i])
    return value, slope


def reference(risk: Risk) -> Reference:
    """The two values, and where the best constant lies."""
    saturated, least = saturated_loss(risk)
    base = np.clip(np.zeros(risk.size), risk.penalty.lower, risk.penalty.upper)
    direction = None if base.any() else constant_direction(risk)
    offset = NO_OFFSET if risk.offset is None else np.ascontiguousarray(risk.offset, dtype=float)
    if direction is None:
        scores = None if base.any() else (np.zeros(risk.design.n) if risk.offset is None else risk.offset.copy())
        return Reference(risk.point(base, scores).objective, saturated, least, base)
    low, high = _room(direction, risk.penalty.lower, risk.penalty.upper)
    y, c = risk.y, risk.c
    if getattr(risk.loss, "targets", "") == "sign" and not len(offset):
        y, c = np.array([-1.0, 1.0]), np.array([c[y < 0.0].sum(), c[y > 0.0].sum()])
    found, value = best_constant(risk.loss, y, c, offset, risk.penalty, direction, low, high)
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
    return -float(total), -float(total) - growth(len(zero)) * float(size)


def constant_direction(risk: Risk) -> np.ndarray | None:
    """Parameters that give every row of positive weight a score of 1; None where none were found."""
    design, penalty = risk.design, risk.penalty
    direction = np.zeros(design.size)
    if design.intercept:
        direction[-1] = 1.0
        return direction
    for candidate in _candidates(risk):
        held = candidate != 0.0
        if any(held[group].any() for group in penalty.groups) or (penalty.part is not None and held.any()):
            continue
        scores = design.scores(candidate)
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


def _room(direction: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[float, float]:
    """The factors of a direction that bounds leave."""
    low, high = -math.inf, math.inf
    for d, least, most in zip(*(v[direction != 0.0] for v in (direction, lower, upper)), strict=True):
        ends = sorted((float(least / d), float(most / d)))
        low, high = max(low, ends[0]), min(high, ends[1])
    return low, high


def best_constant(
    loss: Any, y: np.ndarray, c: np.ndarray, offset: np.ndarray, penalty: Any, direction: np.ndarray,
    low: float = -math.inf, high: float = math.inf,
) -> tuple[float, float]:  # fmt: skip
    """(the factor of ``direction`` with the least objective, that objective), by the sign of the slope.

    Where the slope never changes its sign (one class alone, counts of 0) the least value seen stands.
    """
    l1, l2 = float(penalty.l1 @ np.abs(direction)), float(penalty.l2 @ direction**2)

    def at(t: float) -> tuple[float, float]:
        try:
            value, slope = value_and_slope(loss, y, c, offset, t)
        except OverflowError:  # a user's loss that is not compiled
            value, slope = math.inf, math.copysign(math.inf, t)
        value, slope = value + l1 * abs(t) + 0.5 * l2 * t * t, slope + l1 * np.sign(t) + l2 * t
        return (float(value), float(slope)) if value == value else (math.inf, math.copysign(math.inf, t))

    start = min(max(_guess(loss, y, c, offset), low), high)
    best, (value, slope) = start, at(start)
    if slope == 0.0 or (l1 > 0.0 and start == 0.0 and abs(slope) <= l1):
        return best, value
    ends, slopes, width = [start, start], [slope, slope], max(1e-3 * abs(start), 1e-3)
    side = int(slope < 0.0)  # the end that still has to be found
    for _ in range(80):
        new = min(max(start + (width if side else -width), low), high)
        here = at(new)
        best, value = (new, here[0]) if here[0] < value else (best, value)
        ends[side], slopes[side] = new, here[1]
        if here[1] == 0.0 or (here[1] > 0.0) == bool(side) or new in (low, high):
            break
        ends[1 - side], slopes[1 - side] = new, here[1]
        width *= 4.0
        if width > 1e30:
            return best, value
    previous = math.inf
    for _ in range(200):
        a, b = ends
        # By convexity nothing between the ends is lower than where their tangents meet.
        if not b - a > 4e-16 * max(abs(a), abs(b)) or slopes[0] >= 0.0 or slopes[1] <= 0.0:
            break
        secant = a - slopes[0] * (b - a) / (slopes[1] - slopes[0]) if math.isfinite(slopes[1] - slopes[0]) else math.nan
        new = secant if a < secant < b and b - a < 0.5 * previous else 0.5 * (a + b)
        previous = b - a
        here = at(new)
        best, value = (new, here[0]) if here[0] < value else (best, value)
        if here[1] == 0.0 or min(abs(here[1]), max(-slopes[0], slopes[1])) * (b - a) <= 1e-15 * abs(value):
            break
        side = int(here[1] > 0.0)
        ends[side], slopes[side] = new, here[1]
    if low <= 0.0 <= high and (zero := at(0.0)[0]) <= value:
        best, value = 0.0, zero
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
