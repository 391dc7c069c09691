"""OWL-QN: limited-memory BFGS within the orthant where |θ| is smooth.

The pseudo-gradient is the smallest subgradient; the quasi-Newton direction loses the entries that disagree with it;
each trial point is projected back onto the orthant that the step started in, which is what makes true zeros.
Without an L1 term it is plain L-BFGS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from .gradient import Patience, rounding
from .risk import Point, Risk


def two_loop(pairs: deque[tuple[np.ndarray, np.ndarray]], g: np.ndarray, first: Any = None) -> np.ndarray:
    """The inverse-Hessian product of the last pairs of (step, change of gradient), from ``first`` or the unit matrix."""
    q, weights = g.copy(), []
    for s, y in reversed(pairs):
        weight = float(s @ q) / float(s @ y)
        weights.append(weight)
        q -= weight * y
    changed = pairs[-1][1] if pairs else q
    if first is not None:
        q, changed = first(q), first(changed) if pairs else q
    if pairs:
        s, y = pairs[-1]
        q *= float(s @ y) / float(y @ changed)
    for (s, y), weight in zip(pairs, reversed(weights), strict=True):
        q += s * (weight - float(y @ q) / float(s @ y))
    return q


def owlqn(risk: Risk, start: np.ndarray, memory: int = 10) -> Iterator[Point]:
    """Orthant-wise limited-memory quasi-Newton; without corners the first matrix may be a bound of the Hessian."""
    penalty = risk.penalty
    point = risk.point(start)
    first = risk.preconditioner() if penalty.smooth else None
    pairs: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=memory)
    patience = Patience(risk)
    while True:
        smooth = risk.gradient(point) + penalty.l2 * point.theta
        yield point
        pseudo = penalty.stationarity(point.theta, risk.gradient(point))
        if not pseudo.any():
            return
        held = penalty.l1 > 0.0
        direction = -two_loop(pairs, pseudo, first)
        direction[held & (direction * pseudo >= 0.0)] = 0.0
        if not float(direction @ pseudo) < 0.0:
            pairs.clear()
            direction = -pseudo
        orthant = np.where(point.theta != 0.0, np.sign(point.theta), -np.sign(pseudo))
        step = 1.0 if pairs or first is not None else min(1.0, 1.0 / float(np.linalg.norm(pseudo)))
        following = None
        while step > 1e-14:
            theta = point.theta + step * direction
            theta[held & (theta * orthant < 0.0)] = 0.0
            trial = risk.point(theta)
            if trial.objective <= point.objective + 1e-4 * float(pseudo @ (theta - point.theta)) + rounding(point):
                following = trial
                break
            step *= 0.5
        if following is None or patience.over(point, following):
            if not pairs:
                return
            pairs.clear()
            patience = Patience(risk)
            continue
        s = following.theta - point.theta
        y = risk.gradient(following) + penalty.l2 * following.theta - smooth
        if float(s @ y) > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            pairs.append((s, y))
        elif not s.any():
            return
        point = following
