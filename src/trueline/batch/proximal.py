"""Proximal gradient methods: FISTA with restart, and SpaRSA.

Both repeat θ ← prox_{Ω/L}(v − ∇F(v)/L). FISTA takes v beyond θ along the last step and restarts when that step
points uphill; L grows by backtracking where the loss has no curvature bound. SpaRSA takes v = θ and L from the last
step's own curvature (Barzilai and Borwein), accepting a rise as long as the worst of ten values falls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .gradient import rounding
from .risk import Point, Risk


def _model(risk: Risk, at: Point, to: np.ndarray, lipschitz: float) -> float:
    move = to - at.theta
    return at.loss + float(risk.gradient(at) @ move) + 0.5 * lipschitz * float(move @ move)


def fista(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Accelerated proximal gradient with restart."""
    point = risk.point(risk.penalty.prox(start, 0.0))
    lipschitz = risk.lipschitz(point)
    known = math.isfinite(risk.curvature_bound)
    if not math.isfinite(lipschitz) or lipschitz <= 0.0:
        lipschitz = 1.0
    ahead, momentum = point, 1.0
    while True:
        yield point
        g = risk.gradient(ahead)
        while True:
            theta = risk.penalty.prox(ahead.theta - g / lipschitz, 1.0 / lipschitz)
            following = risk.point(theta)
            slack = 1e-13 * abs(ahead.loss)
            if known or following.loss <= _model(risk, ahead, theta, lipschitz) + slack or lipschitz > 1e15:
                break
            lipschitz *= 2.0
        if not known:
            lipschitz *= 0.95  # let it fall again where the curvature does
        step = theta - point.theta
        if float((ahead.theta - theta) @ step) > 0.0:
            momentum = 1.0
        following_momentum = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        beta = (momentum - 1.0) / following_momentum
        # Scores are linear in θ, so the point ahead costs no pass.
        scores = following.scores + beta * (following.scores - point.scores)
        at = theta + beta * step
        if (risk.penalty.bounded or not known) and not math.isfinite(risk.point(at, scores).loss):
            at, scores = theta, following.scores
        ahead = risk.point(at, scores)
        if not step.any() and ahead.theta is theta:
            return
        momentum, point = following_momentum, following


def sparsa(risk: Risk, start: np.ndarray, memory: int = 10) -> Iterator[Point]:
    """Proximal gradient with Barzilai–Borwein steps and a non-monotone acceptance."""
    point = risk.point(risk.penalty.prox(start, 0.0))
    rate, history = 1.0, [point.objective]
    while True:
        g = risk.gradient(point)
        yield point
        while True:
            theta = risk.penalty.prox(point.theta - g / rate, 1.0 / rate)
            move = theta - point.theta
            size = float(move @ move)
            if size == 0.0:
                return
            following = risk.point(theta)
            if following.objective <= max(history[-memory:]) - 1e-4 * rate * size + rounding(point) or rate > 1e15:
                break
            rate *= 2.0
        if rate > 1e15:
            return
        history.append(following.objective)
        change = float(move @ (risk.gradient(following) - g))
        rate = min(1e10, max(1e-10, change / size)) if change > 0.0 else 1e-3
        point = following


def start_inside(risk: Risk, start: np.ndarray) -> np.ndarray:
    """The start moved into the penalty's bounds."""
    return np.clip(start, risk.penalty.lower, risk.penalty.upper)
