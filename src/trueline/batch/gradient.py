"""Gradient descent, θ ← θ − η∇E(θ): constant step, exact line search or backtracking.

On a quadratic a constant step converges exactly when 0 < η < 2/λ_max; the best is 2/(λ_max + λ_min). The exact
search is closed for quadratics and a safeguarded Newton iteration in one variable otherwise: both are the same
iteration, which on a quadratic ends after one step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .. import dense
from ..errors import UsageError, nearest
from .risk import Point, Risk, largest_eigenvalue

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
    slack = rounding(point)  # near the optimum the decrease is below what the sum of the losses can show
    while step > 1e-14:
        trial = along(risk, point, direction, image, step)
        if trial.objective <= point.objective + 1e-4 * step * slope + slack:
            return trial
        if foreseen(point, trial, image, step, slope):
            return trial
        step *= 0.5
    return None


def foreseen(point: Point, trial: Point, image: np.ndarray, step: float, slope: float) -> bool:
    """Whether slopes show a decrease that the rounding of a long sum of losses hides.

    By convexity E(θ) − E(θ + tΔ) ≥ −t·∇f(θ + tΔ)·Δ + Ω(θ) − Ω(θ + tΔ), and on a quadratic 0.8·t·slope of it is enough
    for a tenth of the decrease promised. Without this full steps near the optimum are halved for nothing.
    """
    hidden = 4e-16 * math.sqrt(len(trial.scores)) * (abs(point.loss) + abs(point.penalty))
    if not abs(trial.objective - point.objective) <= hidden:
        return False
    return point.penalty - trial.penalty - step * float((trial.slope * image).sum()) >= 0.8 * step * slope


def rounding(point: Point) -> float:
    """What rounding may add to an objective."""
    return 4e-16 * (abs(point.loss) + abs(point.penalty))


class Patience:
    """Says when a descent has ended: after a few steps in a row that no longer lower the objective."""

    def __init__(self, steps: int = 4) -> None:
        self.steps = self.left = steps

    def over(self, before: Point, after: Point | None) -> bool:
        if after is None or np.array_equal(after.theta, before.theta):
            return True
        self.left = self.steps if after.objective < before.objective - rounding(before) else self.left - 1
        return self.left <= 0


def gradient(risk: Risk, start: np.ndarray, search: str = "backtracking", rate: float | None = None) -> Iterator[Point]:
    """Gradient descent; ``rate`` is the constant step (default 2/(λ_max + λ_min))."""
    if search not in SEARCHES:
        raise UsageError(f"there is no step rule named {search!r}{nearest(search, SEARCHES)}", where="step")
    point = risk.point(start)
    step = 1.0
    if search == "constant":
        largest = risk.lipschitz(point)
        if not math.isfinite(largest):
            raise UsageError("a constant step needs a loss with a curvature; choose step='backtracking'", where="step")
        largest += float(risk.penalty.l2.max(initial=0.0))
        smallest = float(risk.penalty.l2.min(initial=0.0))
        if risk.size <= 256 and getattr(risk.loss, "name", "") == "squared":
            smallest += max(0.0, float(dense.eigvalsh(risk.design.hessian(risk.c))[0]))
        step = 2.0 / (largest + smallest) if rate is None else float(rate)
    else:
        risk.lipschitz()  # known afterwards, so that the certificate can state 2/λ_max
    patience = Patience()
    while True:
        yield point
        descent = -full_gradient(risk, point)
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
            following = backtrack(risk, point, descent, image, slope, 2.0 * step)
            step = 1.0 if following is None else _taken(point, following, descent)
        if following is None or patience.over(point, following):
            return
        point = following


def _taken(point: Point, following: Point, direction: np.ndarray) -> float:
    j = int(np.argmax(np.abs(direction)))
    return float((following.theta[j] - point.theta[j]) / direction[j])


def smallest_curvature(risk: Risk) -> float:
    """μ of the strong convexity that the penalty guarantees: E − E* ≤ ‖∇E‖²/(2μ)."""
    return float(risk.penalty.l2.min(initial=math.inf))


def admissible_step(risk: Risk) -> float:
    """2/λ_max of the Hessian, the edge of the constant steps that converge."""
    bound = risk.lipschitz()
    if not math.isfinite(bound):
        return math.nan
    return 2.0 / (bound + float(risk.penalty.l2.max(initial=0.0)))


__all__ = ["admissible_step", "backtrack", "exact_step", "full_gradient", "gradient", "largest_eigenvalue"]
