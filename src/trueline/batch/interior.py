"""Interior point for losses that are the largest of a·(s − y) − ½ρa² over a in [low, high].

With ρ = 0 these are the losses with one corner (absolute, quantile, hinge): with no penalty or L1 a linear program, with
L2 a quadratic one. With ρ = 1 it is Huber's, whose own curvature vanishes beyond delta and tells Newton's method
nothing there. With p, q ≥ 0 the parts of s − y − ρa above and below zero, the central path is
    p(high − a) = μ,  q(a − low) = μ,  s − y − ρa = p − q,  X̃ᵀ(c∘a) + Λθ = 0,
and a Newton step needs one matrix X̃ᵀ diag(c/D) X̃ + Λ, D = ρ + p/(high − a) + q/(a − low). The dual variables a are part of
the iteration, so each point carries its own certificate. An L1 term is a further row, |θ_j|, with its corner at 0.
Each step first aims at μ = 0 and then corrects for what that revealed (Mehrotra).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._jit import kernel
from .duality import solve_symmetric
from .risk import Point, Risk


@kernel
def slope_ranges(loss, y, low, high):
    for i in range(y.shape[0]):
        low[i], high[i] = loss.slope_range(y[i])


def rounded(loss: Any) -> bool:
    """Whether the loss is a corner rounded off by ½a², as Huber's is."""
    return getattr(loss, "name", "") == "huber"


def fits(loss: Any) -> bool:
    """Whether the loss has the form that this module solves."""
    return bool(getattr(loss, "corner", False)) or rounded(loss)


def interior(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Primal–dual path following."""
    design, penalty, n = risk.design, risk.penalty, risk.design.n
    low, high = np.empty(n), np.empty(n)
    slope_ranges(risk.loss, risk.y, low, high)
    sharp = np.flatnonzero(penalty.l1)
    # Rows of the problem: the examples, then one for each |θ_j|.
    low, high = np.append(low, np.full(len(sharp), -1.0)), np.append(high, np.ones(len(sharp)))
    c = np.append(risk.c, penalty.l1[sharp])
    corner = np.append(risk.y if risk.offset is None else risk.y - risk.offset, np.zeros(len(sharp)))
    on = c > 0.0
    rounding = np.append(np.full(n, float(rounded(risk.loss))), np.zeros(len(sharp)))  # ρ of each row

    def image(theta: np.ndarray) -> np.ndarray:
        return np.append(design.scores(theta), theta[sharp])

    def back(v: np.ndarray) -> np.ndarray:
        out = design.correlations(v[:n])
        out[sharp] += v[n:]
        return out

    def matrix(weights: np.ndarray) -> np.ndarray:
        out = design.hessian(weights[:n])
        out[np.diag_indices(risk.size)] += penalty.l2
        out[sharp, sharp] += weights[n:]
        return out

    theta = start.copy()
    s = image(theta)
    a = 0.5 * (low + high)
    spread = float(np.average(np.abs(s - corner), weights=c)) + 1e-12
    p, q = np.maximum(s - corner, 0.0) + spread, np.maximum(corner - s, 0.0) + spread
    while True:
        point = risk.point(theta, s[:n] if risk.offset is None else s[:n] + risk.offset)
        point.dual = (c * a)[:n]
        up, down = high - a, a - low
        D = rounding + p / up + q / down
        weights = np.where(on, c / D, 0.0)
        point.curvature = weights[:n]
        yield point
        mu = float(c @ (p * up + q * down) / (2.0 * c.sum()))
        H = matrix(weights)
        gradient = back(c * a) + penalty.l2 * theta

        def direction(aim_up: np.ndarray | float, aim_down: np.ndarray | float) -> tuple[np.ndarray, ...]:
            v = s - corner - rounding * a - aim_up / up + aim_down / down  # noqa: B023 (called at once)
            dtheta = solve_symmetric(H, -(gradient + back(weights * v)))  # noqa: B023
            ds = image(dtheta)
            da = (ds + v) / D  # noqa: B023
            dp = (aim_up + p * da) / up - p  # noqa: B023
            dq = (aim_down - q * da) / down - q  # noqa: B023
            return dtheta, ds, da, dp, dq

        dtheta, ds, da, dp, dq = direction(0.0, 0.0)
        primal, dual = _longest(p, dp, q, dq, on), _longest(up, -da, down, da, on)
        ahead = (p + primal * dp) * (up - dual * da) + (q + primal * dq) * (down + dual * da)
        aim = mu * min(1.0, (float(c @ ahead / (2.0 * c.sum())) / mu)) ** 3 if mu > 0.0 else 0.0
        dtheta, ds, da, dp, dq = direction(aim + dp * da, aim - dq * da)
        primal, dual = 0.999 * _longest(p, dp, q, dq, on), 0.999 * _longest(up, -da, down, da, on)
        if penalty.l2.any() or rounding.any():  # θ and a share an equation, so they take one step
            primal = dual = min(primal, dual)
        primal, dual = min(1.0, primal), min(1.0, dual)
        if not (np.isfinite(dtheta).all() and max(primal, dual) > 1e-12):
            return
        theta, s = theta + primal * dtheta, s + primal * ds
        p, q, a = p + primal * dp, q + primal * dq, a + dual * da


def _longest(x: np.ndarray, dx: np.ndarray, z: np.ndarray, dz: np.ndarray, on: np.ndarray) -> float:
    """The longest step that keeps both positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(on & (dx < 0.0), -x / dx, np.inf).min(initial=np.inf)
        second = np.where(on & (dz < 0.0), -z / dz, np.inf).min(initial=np.inf)
    return float(min(first, second, 1.0 / 0.999))
