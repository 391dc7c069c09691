"""Gradient descent, θ ← θ − η∇E(θ): constant step, exact line search or backtracking.

On a quadratic a constant step converges exactly when 0 < η < 2/λ_max, and 1/λ_max does so on every convex loss whose
curvature is bounded. The exact search is closed for quadratics and a safeguarded Newton iteration in one variable otherwise: both are the same
iteration, which on a quadratic ends after one step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real

import numpy as np

from ..errors import UsageError, nearest
from .risk import Point, Risk

FLAT = 1e-14  # of a standardised column: a curvature of rounding
SEARCHES = ("backtracking", "exact", "constant")


def full_gradient(risk: Risk, point: Point) -> np.ndarray:
    """∇E where the penalty is smooth."""
    return risk.gradient(point) + risk.penalty.l2 * point.theta


def along(risk: Risk, point: Point, direction: np.ndarray, image: np.ndarray, step: float) -> Point:
    """The point at θ + step·direction; ``image`` is X̃·direction, so this reads no row."""
    return risk.point(point.theta + step * direction, point.scores + step * image)


def exact_step(risk: Risk, point: Point, direction: np.ndarray, image: np.ndarray) -> float:
    """argmin over t ≥ 0 of E(θ + t·direction), by Newton's method inside a bracket."""
    l2 = risk.penalty.l2
    low, high, step = 0.0, math.inf, 0.0
    current = point
    for _ in range(60):
        slope = float(current.slope @ image + (l2 * current.theta) @ direction)
        curve = float(current.curvature @ image**2 + (l2 * direction) @ direction)
        low, high = (step, high) if slope < 0.0 else (low, step)
        proposed = step - slope / curve if curve > 0.0 else math.inf
        if not low < proposed < high:
            proposed = 0.5 * (low + high) if math.isfinite(high) else max(1.0, 2.0 * low)
        if abs(proposed - step) <= 1e-12 * proposed or proposed == 0.0:
            return proposed
        step = proposed
        current = along(risk, point, direction, image, step)
        if not math.isfinite(current.objective):
            high = step
            step = 0.5 * (low + high)
            current = along(risk, point, direction, image, step)
    return step


def backtrack(
    risk: Risk, point: Point, direction: np.ndarray, image: np.ndarray, slope: float, step: float = 1.0
) -> Point | None:
    """The first of step, step/2, … with a sufficient decrease; None when rounding hides any."""
    while step > 1e-14:
        trial = along(risk, point, direction, image, step)
        # Near the optimum the decrease is below what the sum of the losses can show: there the slopes tell.
        hidden = 4e-16 * math.sqrt(len(trial.scores)) * (abs(point.loss) + abs(point.penalty))
        if abs(trial.objective - point.objective) <= hidden:
            if foreseen(risk, point, trial, image, step, slope):
                return trial
        elif trial.objective <= point.objective + 1e-4 * step * slope:
            return trial
        step *= 0.5
    return None


def curved(risk: Risk, H: np.ndarray) -> np.ndarray:
    """H with the largest curvature of the loss along columns on which no row curves, as beyond the delta of Huber's.

    A model that is flat there has no least value, and its steps would leave such a column where it is.
    """
    flat = np.flatnonzero(np.diagonal(H) <= FLAT)
    if type(risk) is Risk and flat.size and math.isfinite(risk.curvature_bound):
        H[flat, flat] += risk.curvature_bound * np.append(risk.design.lengths(risk.c) ** 2, 1.0)[flat]
    return H


def descend_to(
    risk: Risk, point: Point, theta: np.ndarray, image: np.ndarray, gradient: np.ndarray | None = None
) -> Point | None:
    """The point towards theta with a sufficient decrease of loss and penalty together.

    ``gradient`` saves a pass where that of the parameters that move is known.
    """
    direction = theta - point.theta
    g = risk.gradient(point) if gradient is None else gradient
    promised = float((g * direction).sum()) + risk.penalty.value(theta) - point.penalty
    if promised > rounding(point):
        return None
    return backtrack(risk, point, direction, image, min(promised, 0.0))


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


def foreseen(risk: Risk, point: Point, trial: Point, image: np.ndarray, step: float, slope: float) -> bool:
    """Whether slopes show a decrease that the rounding of a long sum of losses hides.

    E(θ) − E(θ + tΔ) is about Ω(θ) − Ω(θ + tΔ) less t times the mean of ∇f·Δ at both ends, exactly so on a quadratic; a
    tenth of what the slope promises is enough. Without this full steps near the optimum are halved for nothing, and steps that
    are too long are taken.
    """
    terms = trial.slope * image
    noise = 4e-16 * float(np.abs(terms).sum())
    mean = 0.5 * float(terms.sum() + (point.slope * image).sum())
    fall = risk.penalty.difference(point.theta, trial.theta) - step * mean
    return fall >= -0.1 * step * slope - step * noise


def rounding(point: Point) -> float:
    """What rounding may add to an objective."""
    return 4e-16 * (abs(point.loss) + abs(point.penalty))


class Patience:
    """Says when a descent has ended: after a few steps in a row that lower neither the objective nor its gradient.

    Near the optimum the objective is constant to rounding long before its gradient is: the gradient then tells.
    """

    def __init__(self, risk: Risk, steps: int = 4) -> None:
        self.risk, self.steps, self.left, self.least = risk, steps, steps, math.inf

    def over(self, before: Point, after: Point | None) -> bool:
        if after is None or np.array_equal(after.theta, before.theta):
            return True
        lower = after.objective < before.objective - rounding(before)
        if not lower:
            norm = self.risk.norm(after)
            lower, self.least = norm < self.least, min(norm, self.least)
        self.left = self.steps if lower else self.left - 1
        return self.left <= 0


def check_search(search: str, rate: float | None) -> None:
    """Refuse a step rule that does not exist, and a rate without its rule."""
    if search not in SEARCHES:
        raise UsageError(f"there is no step rule named {search!r}{nearest(str(search), SEARCHES)}", where="step")
    if rate is not None and search != "constant":
        raise UsageError(f"rate goes with step='constant', not with step={search!r}", where="rate")
    if rate is not None and not (isinstance(rate, Real) and 0.0 < float(rate) < math.inf):
        raise UsageError(f"rate is {rate!r}; a positive number is accepted", where="rate")


def gradient(risk: Risk, start: np.ndarray, search: str = "backtracking", rate: float | None = None) -> Iterator[Point]:
    """Gradient descent; ``rate`` is the constant step (default 1/λ_max).

    Where nothing bounds the curvature the default step is that of the start, halved for good whenever it is too long.
    """
    point = risk.point(start)
    step, free = 1.0, search == "backtracking"
    largest = risk.largest_curvature()  # known afterwards, so that the certificate can state 2/λ_max
    if search == "constant":
        if rate is not None:
            step = float(rate)
        elif largest is not None and largest > 0.0:
            step = 1.0 / largest
        else:
            search = "backtracking"
            at = risk.lipschitz(point) + float(risk.penalty.l2.max(initial=0.0))
            step = 1.0 / at if 0.0 < at < math.inf else 1.0
    patience = Patience(risk, 50)  # the norm rises now and then, as steps are tried
    while True:
        descent = -full_gradient(risk, point)
        yield point
        slope = -float(descent @ descent)
        if slope == 0.0:
            return
        if search == "constant":
            point = risk.point(point.theta + step * descent)
            if not math.isfinite(point.objective):
                return
            continue
        image = risk.image(descent)
        if search == "exact":
            step = exact_step(risk, point, descent, image)
            following: Point | None = along(risk, point, descent, image, step)
        else:
            following = backtrack(risk, point, descent, image, slope, 2.0 * step if free else step)
            step = 1.0 if following is None else _taken(point, following, descent)
        if following is None or patience.over(point, following):
            return
        point = following


def _taken(point: Point, following: Point, direction: np.ndarray) -> float:
    j = int(np.argmax(np.abs(direction)))
    return float((following.theta[j] - point.theta[j]) / direction[j])
