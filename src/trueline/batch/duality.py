"""Dual points and their values: lower bounds on the optimum, from any point of any method.

For E(θ) = Σ c_i V(y_i, x_i·θ + o_i) + Ω(θ) and any slopes a_i,
    D(a) = −Σ c_i [V*(a_i, y_i) − a_i·o_i] − Ω*(−X̃ᵀ(c∘a))  ≤  min E.
Slopes of the current scores are the natural a. Two conditions make D finite: parameters that nothing holds
(the intercept, above all) need X̃_Uᵀ(c∘a) = 0, and the others must lie in the domain of Ω*. The first is met
by moving a along h∘X̃_U, h the curvature: the step Newton's method would take, seen from the dual side, which
stays inside the slope's range where a plain projection leaves it. The second by scaling a towards 0, which is
always in the range.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dense, threads
from .._jit import kernel
from .design import row_chunks

if TYPE_CHECKING:
    from .risk import Point, Risk

NO_OFFSET = np.zeros(0)
LARGEST_PROJECTION = 1500  # free parameters that are projected by a factored Hessian; beyond, conjugate gradients


@kernel
def conjugate_sum(loss, ca, y, c, offset, start, stop):
    """Σ c·[V*(a) − a·o] over the rows of positive weight, a = ca/c; infinite outside the domain."""
    total = 0.0
    for i in range(start, stop):
        if c[i] > 0.0:
            a = ca[i] / c[i]
            low, high = loss.slope_range(y[i])
            slack = 1e-12 * (1.0 + abs(a))
            if a < low - slack or a > high + slack:
                return math.inf
            a = min(max(a, low), high)
            total += c[i] * (loss.conjugate(a, y[i]) - (a * offset[i] if offset.shape[0] > 0 else 0.0))
    return total


@kernel
def absolute_sum(values):
    """Σ|v|, without a vector of the absolute values."""
    total = 0.0
    for i in range(values.shape[0]):
        total += abs(values[i])
    return total


@kernel
def upper_conjugate(loss, a, y, s):
    """An upper bound of V*(a) for a loss that has no conjugate of its own, near the score s.

    V'(low) ≤ a ≤ V'(high) is bracketed and bisected; the tangents of V at the two ends then bound
    a·s − V(s) from above between them, and its concavity does so outside.
    """
    low, high, width = s, s, 1.0
    while loss.slope(low, y) > a and width < 1e12:
        low -= width
        width *= 2.0
    width = 1.0
    while loss.slope(high, y) < a and width < 1e12:
        high += width
        width *= 2.0
    if loss.slope(low, y) > a or loss.slope(high, y) < a:
        return math.inf
    for _ in range(100):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        if loss.slope(middle, y) <= a:
            low = middle
        else:
            high = middle
    at_low = a * low - loss.value(low, y) + (a - loss.slope(low, y)) * (high - low)
    at_high = a * high - loss.value(high, y) + (loss.slope(high, y) - a) * (high - low)
    return min(at_low, at_high)


@kernel
def upper_conjugate_sum(loss, ca, y, c, offset, score):
    total = 0.0
    for i in range(y.shape[0]):
        if c[i] > 0.0:
            a = ca[i] / c[i]
            total += c[i] * (upper_conjugate(loss, a, y[i], score[i]) - (a * offset[i] if offset.shape[0] > 0 else 0.0))
    return total


def floor_value(risk: Risk) -> float:
    """The value of the dual point a = 0, which holds whatever the penalty; −∞ where it is not known.

    Losses with corners reach it; of a smooth loss the slopes themselves are a better dual point.
    """
    if getattr(risk.loss, "smooth", False) or not (
        hasattr(risk.loss, "conjugate") and hasattr(risk.loss, "slope_range")
    ):
        return -math.inf
    zero = np.zeros(len(risk.c))
    value = -float(conjugate_sum(risk.loss, zero, risk.y, risk.c, NO_OFFSET, 0, len(zero)))
    return value if math.isfinite(value) else -math.inf


def dual_value(risk: Risk, point: Point) -> tuple[float, np.ndarray | None]:
    """(value, −X̃ᵀ(c∘a)) of the dual point that belongs to this point; −∞ if none was found."""
    if point.dual is not None and point.dual_z is not None:
        foretold = _finished(risk, point, point.dual, point.dual_z.copy())
        if math.isfinite(foretold[0]):
            return foretold
    own = point.dual if point.dual is not None and point.dual_z is None else point.slope
    return _finished(risk, point, *_balanced(risk, point, own))


def _finished(risk: Risk, point: Point, ca: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray | None]:
    """The value of a dual point whose free parameters balance; −∞ if they do not."""
    zero = risk.penalty.free | risk.penalty.unbalanced(point.theta, z)
    left = float(np.abs(z[zero]).max(initial=0.0))
    # Slopes carry rounding of the size of what they are differences of, which the curvatures show.
    if left > 1e-11 * absolute_sum(ca) + 1e-14 * float(point.curvature.sum()) + 1e-300:
        return -math.inf, None
    z[zero] = 0.0
    factor = risk.penalty.shrink(z)
    if factor < 1.0:
        ca, z = ca * factor, z * factor
    held = risk.penalty.conjugate(z)
    if not math.isfinite(held):
        return -math.inf, None
    return -_conjugates(risk, point, ca) - held, z


def _conjugates(risk: Risk, point: Point, ca: np.ndarray) -> float:
    offset = NO_OFFSET if risk.offset is None else risk.offset
    if hasattr(risk.loss, "conjugate") and hasattr(risk.loss, "slope_range"):
        fixed = np.ascontiguousarray(offset, dtype=float)
        return float(
            sum(
                threads.spread(
                    lambda rows: conjugate_sum(risk.loss, ca, risk.y, risk.c, fixed, *rows), row_chunks(len(ca))
                )
            )
        )
    return float(
        upper_conjugate_sum(risk.loss, ca, risk.y, risk.c, np.ascontiguousarray(offset, dtype=float), point.scores)
    )


def _balanced(risk: Risk, point: Point, ca: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(c∘a, −X̃ᵀ(c∘a)) with the correlations of the free parameters brought to 0."""
    design = risk.design
    gradient = risk.gradient(point) if ca is point.slope else design.correlations(ca)
    must = risk.penalty.free
    z = -gradient
    for _ in range(4):
        zero = must | risk.penalty.unbalanced(point.theta, z)
        free = np.flatnonzero(zero)
        size = float(np.abs(ca).sum())
        if not len(free) or not np.abs(z[free]).max() > 1e-15 * size:
            break
        metric = point.curvature if len(point.curvature) and point.curvature.any() else risk.c
        move = _solve(risk, point, metric, free, z[free])
        shift = design.dense_columns(free) @ move if len(free) <= 8 and design.sparse else None
        if shift is None:
            full = np.zeros(design.size)
            full[free] = move
            shift = design.scores(full)
        # In the last digits a step can only hurt; before that it removes all but rounding.
        ca = ca + metric * shift
        z = -design.correlations(ca)
    return ca, z


def _solve(risk: Risk, point: Point, metric: np.ndarray, free: np.ndarray, right: np.ndarray) -> np.ndarray:
    """δ with X̃_Uᵀ diag(metric) X̃_U δ = right, of least norm where that is singular."""
    if len(free) > LARGEST_PROJECTION:
        return _conjugate_gradients(risk, metric, free, right)
    if point.hessian is not None and metric is point.curvature:
        matrix = point.hessian[np.ix_(free, free)]
    elif len(free) == 1 and free[0] == risk.design.d:
        matrix = np.array([[metric.sum()]])
    else:
        matrix = risk.design.hessian(metric, free)
    return solve_symmetric(matrix, right)


def solve_symmetric(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The least-norm solution of a positive semidefinite system: Cholesky, or eigenvectors where it fails."""
    diagonal = np.diag(matrix)
    try:
        factor = dense.cho_factor(matrix, check_finite=False)
        if np.min(np.abs(np.diag(factor[0])) ** 2 / np.maximum(diagonal, 1e-300)) > 1e-12:
            return dense.cho_solve(factor, right, check_finite=False)
    except np.linalg.LinAlgError:
        pass
    values, vectors = dense.eigh(matrix)
    keep = values > 1e-12 * max(values[-1], 1e-300)
    return np.asarray(vectors[:, keep] @ ((vectors[:, keep].T @ right) / values[keep]))


def _conjugate_gradients(risk: Risk, metric: np.ndarray, free: np.ndarray, right: np.ndarray) -> np.ndarray:
    def times(v: np.ndarray) -> np.ndarray:
        full = np.zeros(risk.design.size)
        full[free] = v
        return risk.design.correlations(metric * risk.design.scores(full))[free]

    return conjugate_gradients(times, right, 1e-12, 500)


def conjugate_gradients(times: Any, right: np.ndarray, tolerance: float, most: int) -> np.ndarray:
    """Conjugate gradients from 0 on a positive semidefinite operator."""
    x = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    size = first = float(residual @ residual)
    for _ in range(most):
        if size <= tolerance**2 * first or size == 0.0:
            break
        image = times(direction)
        curve = float(direction @ image)
        if not curve > 0.0:
            break
        x += (size / curve) * direction
        residual -= (size / curve) * image
        before, size = size, float(residual @ residual)
        direction = residual + (size / before) * direction
    return x
