"""Coordinate descent on successive quadratic models of the loss (for squared loss the model is the loss).

At a point with slopes and curvatures h, the model gᵀδ + ½δᵀHδ + Ω(θ + δ) is minimised one coordinate at a time:
θ_j ← prox(θ_j − q_j/H_jj, 1/H_jj), q the model's gradient; then a line search. Two routes to q_j:
- few parameters: H is formed once by BLAS and q kept up to date (a column of H a step);
- many: only a working set moves, q_j comes from its column and the scores' change, and the intercept, whose optimum
  given the rest is a ratio of two numbers, is profiled out at every single step.
Columns whose optimal coefficient is proven to be zero are screened: the dual point is within √(2M·gap) of the
optimal one (M the largest curvature), so |z_j| + ‖x_j‖·√(2M·gap) < l1_j settles column j for good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .._jit import kernel
from .columns import column_sums
from .gradient import Patience, backtrack, rounding
from .risk import Point, Risk

GRAM_UP_TO = 1000  # parameters up to which the model's matrix is formed, when rows outnumber them


@kernel
def shrunk(u, step, l1, l2, lower, upper):
    """prox of step·(l1|·| + ½l2(·)²) on [lower, upper] at u."""
    threshold = step * l1
    if u > threshold:
        v = (u - threshold) / (1.0 + step * l2)
    elif u < -threshold:
        v = (u + threshold) / (1.0 + step * l2)
    else:
        v = 0.0
    return min(max(v, lower), upper)


@kernel
def descend_gram(H, q, theta, l1, l2, lower, upper, epochs, tolerance):
    """Coordinate epochs on a formed model; q and theta are updated in place. Returns the epochs used."""
    size = theta.shape[0]
    first = 0.0
    for epoch in range(epochs):
        largest = 0.0
        for j in range(size):
            curve = H[j, j]
            if curve <= 0.0:
                continue
            new = shrunk(theta[j] - q[j] / curve, 1.0 / curve, l1[j], l2[j], lower[j], upper[j])
            move = new - theta[j]
            if move != 0.0:
                theta[j] = new
                for k in range(size):
                    q[k] += move * H[j, k]
                largest = max(largest, curve * move * move)
        first = max(first, largest)
        if largest <= tolerance * first:
            return epoch + 1
    return epochs


@kernel
def descend_columns(
    columns, chosen, theta, g, r, l1, l2, lower, upper, shift, scale, curve, hx, intercept, slope_b, weight, epochs,
    tolerance,
):  # fmt: skip
    """Coordinate epochs on gathered columns; r is √h times the change of the scores without its constant part.

    Every epoch over all columns is followed by some over those that are not zero, where most of the work is.
    Returns (constant part of the change, epochs in units of all columns); theta is updated in place.
    """
    base = 0.0  # constant part of the scores' change
    total = 0.0  # Σ h·(whole change)
    first = 0.0
    work = 0.0
    count = chosen.shape[0]
    if intercept and weight > 0.0:
        base = -slope_b / weight
        total = base * weight
    for epoch in range(epochs):
        whole = epoch % 6 == 0
        largest = 0.0
        for k in range(count):
            j = chosen[k]
            if curve[k] <= 0.0 or (not whole and theta[j] == 0.0):
                continue
            work += 1.0
            q = g[j] + (columns.dot(k, r) + base * hx[k] - shift[j] * total) / scale[j]
            new = shrunk(theta[j] - q / curve[k], 1.0 / curve[k], l1[j], l2[j], lower[j], upper[j])
            move = new - theta[j]
            if move != 0.0:
                theta[j] = new
                columns.add(k, move / scale[j], r)
                base -= move * shift[j] / scale[j]
                total += move * (hx[k] - shift[j] * weight) / scale[j]
                if intercept and weight > 0.0:
                    profile = -(slope_b + total) / weight
                    base += profile
                    total = -slope_b
                largest = max(largest, curve[k] * move * move)
        first = max(first, largest)
        if whole and largest <= tolerance * first:
            break
    return base, work


def coordinate(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Coordinate descent with the route that suits the shape."""
    if type(risk) is not Risk or (risk.size <= GRAM_UP_TO and risk.size <= risk.design.n):
        return by_gram(risk, start)
    return by_columns(risk, start)


def descend_to(risk: Risk, point: Point, theta: np.ndarray, image: np.ndarray) -> Point | None:
    """The point towards theta with a sufficient decrease of loss and penalty together."""
    direction = theta - point.theta
    promised = float((risk.gradient(point) * direction).sum()) + risk.penalty.value(theta) - point.penalty
    if promised > rounding(point):
        return None
    return backtrack(risk, point, direction, image, min(promised, 0.0))


def by_gram(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Every parameter on the formed model."""
    penalty, quadratic = risk.penalty, getattr(risk.loss, "name", "") == "squared"
    point = risk.point(penalty.prox(start, 0.0))
    H = None
    if quadratic:
        H = risk.loss_hessian(point)
        risk._lipschitz = float(np.linalg.norm(H, 2))
    patience = Patience()
    while True:
        yield point
        if H is None or not quadratic:
            H = risk.loss_hessian(point)
        theta, q = point.theta.copy(), risk.gradient(point).copy()
        descend_gram(H, q, theta, penalty.l1, penalty.l2, penalty.lower, penalty.upper, 1000, 1e-12)
        following = descend_to(risk, point, theta, risk.image(theta - point.theta))
        if following is None or patience.over(point, following):
            return
        point = following


def by_columns(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """A growing working set of columns; the driver's certificate of each point screens the others."""
    penalty, design, d = risk.penalty, risk.design, risk.design.d
    shift, scale = design.shift, design.scale
    norms = design.lengths(risk.c)
    bound = float(risk.loss.curvature_bound()) if hasattr(risk.loss, "curvature_bound") else math.inf
    alive = np.ones(d, dtype=bool)
    point = profile_intercept(risk, risk.point(penalty.prox(start, 0.0)))
    size, accuracy, patience = 0, 1e-1, Patience()
    while True:
        yield point
        alive &= ~settled(risk, point, norms, bound)
        g = risk.gradient(point)
        chosen, size = working_set(risk, point, g, alive, size)
        if not len(chosen) and not design.intercept:
            return
        root = np.sqrt(point.curvature)
        weight = float(point.curvature.sum())
        columns = design.gathered(chosen, root)
        hx, second = np.empty(len(chosen)), np.empty(len(chosen))
        column_sums(columns, root, hx, second)
        m = shift[chosen]
        curve = (second - 2.0 * m * hx + m * m * weight) / scale[chosen] ** 2
        if design.intercept and weight > 0.0:  # the intercept follows each step, so it takes its share of curvature
            curve -= ((hx - m * weight) / scale[chosen]) ** 2 / weight
        curve = np.where(curve > 1e-12 * second / scale[chosen] ** 2, curve, 0.0)
        theta, r = point.theta.copy(), np.zeros(design.n)
        # Far from the optimum the set itself is wrong, and solving on it exactly would be wasted.
        epochs = 6 if point.gap > 0.02 * abs(point.objective) else 300
        base, work = descend_columns(
            columns, chosen, theta, g, r, penalty.l1, penalty.l2, penalty.lower, penalty.upper, shift, scale, curve, hx,
            design.intercept, float(g[d]) if design.intercept else 0.0, weight, epochs, accuracy * accuracy,
        )  # fmt: skip
        design.passes += work / max(1, d)
        if design.intercept:
            theta[d] += base + float(m @ ((theta - point.theta)[chosen] / scale[chosen]))
        following = descend_to(risk, point, theta, risk.image(theta - point.theta))
        if following is None:
            if accuracy < 1e-7:
                return
            accuracy *= 1e-2
            continue
        following = profile_intercept(risk, following)
        if patience.over(point, following):
            return
        if point.objective - following.objective < 1e-2 * max(point.gap, 0.0):
            accuracy = max(0.3 * accuracy, 1e-8)
        point = following


def settled(risk: Risk, point: Point, norms: np.ndarray, bound: float) -> np.ndarray:
    """The columns whose optimal coefficient this point's dual proves to be zero."""
    d, penalty = risk.design.d, risk.penalty
    if point.z is None or not math.isfinite(bound) or not math.isfinite(point.gap):
        return np.zeros(d, dtype=bool)
    radius = norms * math.sqrt(2.0 * bound * (max(point.gap, 0.0) + 1e-15 * abs(point.objective)))
    inside = (penalty.lower[:d] <= 0.0) & (penalty.upper[:d] >= 0.0)
    return inside & (np.abs(point.z[:d]) + radius < penalty.l1[:d])


def working_set(risk: Risk, point: Point, g: np.ndarray, alive: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """(columns to move now, size to start from next time): the support and the worst offenders."""
    d = risk.design.d
    violation = np.abs(risk.penalty.stationarity(point.theta, g))[:d]
    support = (point.theta[:d] != 0.0) & alive
    violation[~alive] = -1.0
    offenders = int((violation > 0.0).sum())
    size = max(size, 100, 2 * int(support.sum()), min(offenders // 2, 8000))
    violation[support] = np.inf
    count = min(size, int((violation > 0.0).sum()))
    chosen = np.argpartition(-violation, count - 1)[:count] if 0 < count < d else np.flatnonzero(violation > 0.0)
    return np.sort(chosen), size


def profile_intercept(risk: Risk, point: Point) -> Point:
    """The point with its intercept at the optimum given the rest: then its slopes sum to 0 without another pass."""
    if not risk.design.intercept or not risk.penalty.free[-1]:
        return point
    for _ in range(20):
        slope, weight = float(point.slope.sum()), float(point.curvature.sum())
        if abs(slope) <= 1e-15 * float(np.abs(point.slope).sum()) or not weight > 0.0:
            return point
        direction = np.zeros(risk.size)
        direction[-1] = -slope / weight
        following = backtrack(risk, point, direction, np.full(risk.design.n, direction[-1]), -slope * slope / weight)
        if following is None or following.objective > point.objective:
            return point
        point = following
    return point
