"""Newton's method, Δ = −H⁻¹∇E damped by a line search, and the same step as reweighted least squares.

IRLS solves θ = (XᵀWX + Λ)⁻¹XᵀWz with W = diag(V″) and z = s − V′/V″; written as XᵀWz = Xᵀ(W s − V′) it needs no
division by a vanishing curvature. Up to a few thousand parameters H is formed by blocked BLAS and factored; beyond,
the system is solved by conjugate gradients. The Newton decrement is √(gᵀH⁻¹g).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..doubled import UNIT
from ..onepass.lasso_gap import summing_error
from .design import Design
from .duality import column_widths, conjugate_gradients, mean_square, solve_symmetric
from .gradient import Patience, along, backtrack, exact_step, full_gradient
from .risk import Point, Risk

LARGEST_MATRIX = 3000
SHARP = 1e-10  # a decrement whose square is rounding
SAMPLE_FROM = 20_000  # rows from which a sampled start repays itself


def newton(risk: Risk, start: np.ndarray, search: str = "backtracking", rate: float | None = None) -> Iterator[Point]:
    """Newton steps: damped by a line search, or a constant part of each (``rate``, 1 unless told otherwise)."""
    sampled = sampled_start(risk, start) if search == "backtracking" else start
    matrix_fits, long = risk.size <= LARGEST_MATRIX, risk.design.n >= SAMPLE_FROM
    point = risk.sweep(sampled, hessian=matrix_fits)
    # A start that is not yet the answer of a sample is far from the optimum: its dual point would be wasted work.
    point.passing = matrix_fits and long and search == "backtracking"
    patience = Patience(risk)
    matrix: np.ndarray | None = None
    weights, singular, before, expected = point.curvature, False, math.inf, math.inf
    while True:
        if matrix_fits and not long:
            risk.newton_direction(point)
            point.finished = point.decrement is not None and point.decrement <= SHARP
        yield point
        g = full_gradient(risk, point)
        if matrix_fits:
            # On long inputs a Hessian that still shrinks the decrement tenfold a step is worth keeping.
            if not long or matrix is None or point.direction is not None or not expected < 0.1 * before:
                direction = risk.newton_direction(point)
                matrix, weights, singular = risk.hessian(point), point.curvature, point.singular
            else:
                direction = -solve_symmetric(matrix, g)
        else:
            # An inexact step, tightened as the gradient falls, converges faster than linearly.
            accuracy = min(0.1, math.sqrt(float(np.linalg.norm(g))))
            held = point
            direction = conjugate_gradients(lambda v, at=held: risk.hessian_times(at, v), -g, accuracy, 200)
        slope = float(g @ direction)
        before = math.sqrt(max(0.0, -slope))
        if not slope < 0.0:
            return
        following: Point | None = None
        line = tangent(point, weights) if matrix is not None and type(risk) is Risk else None
        if long and matrix is not None and search == "backtracking":
            # The full step is nearly always taken here: look at it with all that the next iteration needs.
            following = risk.sweep(point.theta + direction, hessian=False)
            if not following.objective <= point.objective + 1e-4 * slope:
                following = None
        if following is None:
            if not len(point.scores):  # used up for the line
                point = risk.sweep(point.theta, hessian=False)
            following = searched(risk, point, direction, slope, search, rate)
        if following is None or patience.over(point, following):
            return
        if matrix is not None:
            if line is not None and not singular:  # what a singular matrix foretells is not what rows show
                linearise(risk, point, following, direction, weights, matrix, line)
            if long:
                # The old Hessian foretells the decrement of the new one, which would cost a pass that the end may not need.
                new = full_gradient(risk, following)
                expected = math.sqrt(max(0.0, float(new @ solve_symmetric(matrix, new))))
                following.finished = expected <= SHARP
        point = following


def searched(
    risk: Risk, point: Point, direction: np.ndarray, slope: float, search: str, rate: float | None
) -> Point | None:
    """The next point along a direction by the step rule; None where no step helps."""
    image = risk.image(direction)
    if search == "backtracking":
        return backtrack(risk, point, direction, image, slope)
    step = exact_step(risk, point, direction, image) if search == "exact" else 1.0 if rate is None else float(rate)
    following = along(risk, point, direction, image, step)
    return following if math.isfinite(following.objective) else None


def tangent(point: Point, weights: np.ndarray) -> np.ndarray:
    """a − h∘s: the slopes that the quadratic model foretells are this + h∘(scores).

    A point that nothing looks back at gives up its own vectors for it: on a long input they count.
    """
    if not point.passing:
        return np.asarray(point.slope - weights * point.scores)
    line, point.slope = point.slope, np.zeros(0)
    point.scores *= -1.0
    line += weights * point.scores
    point.scores = np.zeros(0)
    return line


def linearise(
    risk: Risk,
    point: Point,
    following: Point,
    direction: np.ndarray,
    weights: np.ndarray,
    matrix: np.ndarray,
    line: np.ndarray,
) -> None:
    """Give the point after a full step the dual variables a + h∘X̃Δ: slopes as the quadratic model foretold them.

    They balance by construction, X̃ᵀ(c∘a) + Λθ = 0, where slopes at the point itself leave a remainder that a weak
    penalty's conjugate magnifies; and they need no pass, since X̃Δ is the difference of the scores.
    """
    if np.array_equal(following.theta, point.theta + direction):
        line += weights * following.scores
        following.dual = line
        # Where columns nearly repeat others a step is long, and the product with the matrix rounds by its length.
        lost = UNIT * float(np.abs(direction) @ column_widths(risk.design)) * float(weights.sum())
        # The scores were taken off the slopes, and added again.
        lost += 2.0 * UNIT * float(weights @ np.abs(following.scores))
        if lost <= summing_error(len(line)) * math.sqrt(mean_square(line, risk.c)):
            following.dual_z = -(risk.gradient(point) + matrix @ direction - risk.penalty.l2 * direction)


def irls(risk: Risk, start: np.ndarray, search: str = "backtracking", rate: float | None = None) -> Iterator[Point]:
    """Iteratively reweighted least squares: the way to each weighted solution is searched as Newton's is."""
    point = risk.point(start)
    patience = Patience(risk)
    while True:
        linear = point.scores if risk.offset is None else point.scores - risk.offset
        right = risk.design.correlations(point.curvature * linear - point.slope)
        point.direction = solve_symmetric(risk.hessian(point), right) - point.theta
        slope = float(full_gradient(risk, point) @ point.direction)
        point.decrement = math.sqrt(max(0.0, -slope))
        point.finished = point.decrement <= SHARP
        yield point
        if not slope < 0.0:
            return
        following = searched(risk, point, point.direction, slope, search, rate)
        if following is None or patience.over(point, following):
            return
        point = following


def sampled_start(risk: Risk, start: np.ndarray) -> np.ndarray:
    """Newton's answer on a tenth of the rows: most of the way for a tenth of the reading."""
    n = risk.design.n
    if (
        type(risk) is not Risk
        or n < SAMPLE_FROM
        or risk.size > 500
        or risk.design.sparse
        or start[: risk.design.d].any()
    ):
        return start
    # Two sizes: the small one finds the neighbourhood, one step on the larger one its middle.
    for share, steps in ((31, 8), (5, 1)):
        if n // share > 20 * risk.size:
            start = _sampled(risk, start, share, steps)
    return start


def _sampled(risk: Risk, start: np.ndarray, share: int, steps: int) -> np.ndarray:
    """A few Newton steps on every share-th row, read in place."""
    c = np.ascontiguousarray(risk.c[::share])
    if not c.sum() > 0.0:
        return start
    design = Design(risk.design.X[::share], c, intercept=risk.design.intercept, standardise=False)
    design.shift, design.scale = risk.design.shift, risk.design.scale
    offset = None if risk.offset is None else np.ascontiguousarray(risk.offset[::share])
    y = np.ascontiguousarray(risk.y[::share])
    sample = Risk(design, y, c / c.sum(), risk.loss, risk.penalty, offset)
    theta, best = start, math.inf
    for _ in range(steps):
        point = sample.sweep(theta, hessian=True)
        if not point.objective < best:
            return start
        g = full_gradient(sample, point)
        direction = -solve_symmetric(sample.hessian(point), g)
        start, best, theta = point.theta, point.objective, point.theta + direction
        if -float(g @ direction) < 0.1 * risk.size / len(y):  # below the sample's own error
            return theta
    return theta
