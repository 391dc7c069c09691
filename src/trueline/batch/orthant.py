"""OWL-QN: limited-memory BFGS within the orthant where |θ| is smooth.

The pseudo-gradient is the smallest subgradient; the quasi-Newton direction loses the entries that disagree with it;
each trial point is projected back onto the orthant that the step started in, which is what makes true zeros.
Without an L1 term it is plain L-BFGS.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .gradient import Patience, rounding
from .risk import Point, Risk


class Pairs:
    """The last pairs of (step, change of gradient), and the product of the inverse Hessian that they describe."""

    def __init__(self, memory: int, size: int, first: Any = None) -> None:
        self.steps, self.changes = np.empty((memory, size)), np.empty((memory, size))
        self.curves = np.empty(memory)  # step · change of gradient
        self.first = first  # g ↦ B⁻¹g of a first matrix B; None is the unit matrix
        self.begin = self.count = 0
        self.scale = 1.0

    def clear(self) -> None:
        self.begin = self.count = 0
        self.scale = 1.0

    def add(self, step: np.ndarray, change: np.ndarray) -> bool:
        """Take a pair in, for the oldest where there is no room; refuse one that shows no curvature."""
        curve = float(step @ change)
        if not curve > 1e-12 * math.sqrt(float(step @ step)) * math.sqrt(float(change @ change)):
            return False
        memory = len(self.curves)
        at = (self.begin + self.count) % memory
        if self.count == memory:
            self.begin = (self.begin + 1) % memory
        else:
            self.count += 1
        self.steps[at], self.changes[at], self.curves[at] = step, change, curve
        image = change if self.first is None else self.first(change)
        self.scale = curve / float(change @ image)
        return True

    def times(self, g: np.ndarray) -> np.ndarray:
        """H⁻¹g by Nocedal's two loops."""
        q, weights = g.copy(), np.empty(len(self.curves))
        order = [(self.begin + k) % len(self.curves) for k in range(self.count)]
        for at in reversed(order):
            weights[at] = self.steps[at] @ q / self.curves[at]
            q -= weights[at] * self.changes[at]
        if self.first is not None:
            q = self.first(q)
        q *= self.scale
        for at in order:
            q += (weights[at] - self.changes[at] @ q / self.curves[at]) * self.steps[at]
        return q


def owlqn(risk: Risk, start: np.ndarray, memory: int = 10) -> Iterator[Point]:
    """Orthant-wise limited-memory quasi-Newton; without corners the first matrix may be a bound of the Hessian."""
    penalty = risk.penalty
    point = risk.point(start)
    first = risk.preconditioner() if penalty.smooth else None
    pairs = Pairs(memory, len(start), first)
    patience = Patience(risk)
    corners = np.flatnonzero(penalty.l1 > 0.0)
    while True:
        smooth = risk.gradient(point) + penalty.l2 * point.theta
        yield point
        pseudo = risk.stationarity(point)
        if not pseudo.any():
            return
        direction = -pairs.times(pseudo)
        if len(corners):
            direction[corners[direction[corners] * pseudo[corners] >= 0.0]] = 0.0
        if not float(direction @ pseudo) < 0.0:
            pairs.clear()
            direction = -pseudo
        step = 1.0 if pairs.count or first is not None else min(1.0, 1.0 / risk.norm(point))
        following = None
        while step > 1e-14:
            theta = point.theta + step * direction
            if len(corners):
                here = point.theta[corners]
                orthant = np.where(here != 0.0, np.sign(here), -np.sign(pseudo[corners]))
                theta[corners[theta[corners] * orthant < 0.0]] = 0.0
            trial = risk.point(theta)
            if trial.objective <= point.objective + 1e-4 * float(pseudo @ (theta - point.theta)) + rounding(point):
                following = trial
                break
            step *= 0.5
        if following is None or patience.over(point, following):
            if not pairs.count:
                return
            pairs.clear()
            patience = Patience(risk)
            continue
        s = following.theta - point.theta
        y = risk.gradient(following) + penalty.l2 * following.theta - smooth
        if not pairs.add(s, y) and not s.any():
            return
        point = following
