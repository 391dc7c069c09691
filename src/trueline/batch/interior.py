"""Interior point for losses that are sums of max a·(s − corner) − ½ρa² over a in [low, high].

With ρ = 0 these are the losses with corners (absolute, quantile, hinge, the insensitive tube): with no penalty or L1 a
linear program, with L2 a quadratic one. With ρ = 1 it is Huber's, whose own curvature vanishes beyond delta and tells
Newton's method nothing there. With p, q ≥ 0 the parts of s − corner − ρa above and below zero, the central path is
    p(high − a) = μ,  q(a − low) = μ,  s − corner − ρa = p − q,  X̃ᵀ(c∘a) + Λθ = 0,
and a Newton step needs one matrix X̃ᵀ diag(c/D) X̃ + Λ, D = ρ + p/(high − a) + q/(a − low). The dual variables a are part of
the iteration, so each point carries its own certificate. An L1 term is a further row, |θ_j|, with its corner at 0; a bound
is one whose slopes are free on one side. A group's norm ‖θ_g‖ has a dual vector u, ‖u‖ ≤ λ, with u·√(‖θ_g‖² + ε²) = λθ_g
(Chan, Golub and Mulet), ε falling with μ. Each step first aims at μ = 0 and then corrects for what that revealed
(Mehrotra).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .duality import solve_symmetric
from .risk import Point, Risk
from .vertex import clean

CLEANED = 1e-3  # part of the first μ below which it is worth asking which rows and coefficients lie on their corners


def rounded(loss: Any) -> bool:
    """Whether the loss is a corner rounded off by ½a², as Huber's is."""
    return getattr(loss, "name", "") == "huber"


def fits(loss: Any) -> bool:
    """Whether the loss has the form that this module solves."""
    corners = getattr(loss, "corners", None)
    return callable(corners) and len(corners(np.ones(1))) > 0


class Program:
    """The rows of the problem: the examples once for each corner of their loss, then |θ_j|, then bounds."""

    def __init__(self, risk: Risk) -> None:
        self.risk, self.design, self.penalty, n = risk, risk.design, risk.penalty, risk.design.n
        pieces = risk.loss.corners(risk.y)
        self.copies = len(pieces)
        self.sharp = np.flatnonzero(self.penalty.l1)
        self.least = np.flatnonzero(np.isfinite(self.penalty.lower))
        self.most = np.flatnonzero(np.isfinite(self.penalty.upper))
        self.single = np.concatenate(
            [self.sharp, self.least, self.most]
        )  # the parameter of each row after the examples
        counts = len(self.sharp), len(self.least), len(self.most)
        shift = np.zeros(n) if risk.offset is None else risk.offset
        self.corner = np.concatenate(
            [corner - shift for corner, _, _ in pieces]
            + [np.zeros(counts[0]), self.penalty.lower[self.least], self.penalty.upper[self.most]]
        )
        ends = [(-1.0, 1.0), (-np.inf, 0.0), (0.0, np.inf)]
        self.low, self.high = (
            np.concatenate(
                [np.broadcast_to(piece[1 + side], n) for piece in pieces]
                + [np.full(count, end[side]) for count, end in zip(counts, ends, strict=True)]
            )
            for side in (0, 1)
        )
        self.c = np.concatenate([risk.c] * self.copies + [self.penalty.l1[self.sharp], np.ones(counts[1] + counts[2])])
        self.examples = self.copies * n
        self.rho = np.zeros(len(self.c))
        self.rho[: self.examples] = float(rounded(risk.loss))
        self.on, self.up, self.down = self.c > 0.0, np.isfinite(self.high), np.isfinite(self.low)

    def image(self, theta: np.ndarray) -> np.ndarray:
        """The scores of every row."""
        return np.concatenate([self.design.scores(theta)] * self.copies + [theta[self.single]])

    def summed(self, v: np.ndarray) -> np.ndarray:
        """One number an example from one a row."""
        return np.asarray(v[: self.examples].reshape(self.copies, -1).sum(axis=0))

    def back(self, v: np.ndarray) -> np.ndarray:
        """The transpose of ``image``."""
        out = self.design.correlations(self.summed(v))
        np.add.at(out, self.single, v[self.examples :])
        return out

    def matrix(self, weights: np.ndarray) -> np.ndarray:
        out = self.design.hessian(self.summed(weights))
        out[np.diag_indices(len(out))] += self.penalty.l2
        np.add.at(out, (self.single, self.single), weights[self.examples :])
        return out


class Norms:
    """The dual vectors of the groups' norms."""

    def __init__(self, program: Program, theta: np.ndarray) -> None:
        self.groups = list(zip(program.penalty.groups, program.penalty.strengths, strict=True))
        self.u, self.epsilon = np.zeros(len(theta)), 1.0

    def radius(self, part: np.ndarray) -> float:
        return float(np.sqrt(part @ part + self.epsilon**2))

    def lag(self, theta: np.ndarray) -> float:
        """How far u is from where θ puts it, on the average."""
        if not self.groups:
            return 0.0
        apart = [
            float(np.linalg.norm(theta[members] - self.u[members] * self.radius(theta[members]) / strength))
            for members, strength in self.groups
            if strength > 0.0
        ]
        return float(np.mean(apart)) if apart else 0.0

    def pull(self, theta: np.ndarray) -> np.ndarray:
        """λθ/√(‖θ‖² + ε²)."""
        out = np.zeros(len(theta))
        for members, strength in self.groups:
            out[members] = strength * theta[members] / self.radius(theta[members])
        return out

    def stiffen(self, H: np.ndarray, theta: np.ndarray) -> None:
        for members, strength in self.groups:
            part, r = theta[members], self.radius(theta[members])
            cross = np.outer(self.u[members], part) / r
            H[np.ix_(members, members)] += (strength * np.eye(len(members)) - 0.5 * (cross + cross.T)) / r

    def follow(self, theta: np.ndarray, dtheta: np.ndarray, step: float) -> None:
        """u after a step from θ; never beyond its ball."""
        for members, strength in self.groups:
            part, r = theta[members], self.radius(theta[members])
            own = self.u[members]
            change = (strength * dtheta[members] - own * (part @ dtheta[members]) / r + strength * part) / r - own
            own = own + step * change
            size = float(np.linalg.norm(own))
            self.u[members] = own * min(1.0, strength / size) if size > 0.0 else own


def interior(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Primal–dual path following."""
    program, penalty, n = Program(risk), risk.penalty, risk.design.n
    low, high, c, on, corner, rho = program.low, program.high, program.c, program.on, program.corner, program.rho
    has_up, has_down = program.up, program.down
    theta = start.copy()
    s = program.image(theta)
    a = np.where(has_up & has_down, 0.5 * (np.where(has_up, high, 0.0) + np.where(has_down, low, 0.0)), 0.0)
    a = np.where(has_up & ~has_down, high - 1.0, np.where(has_down & ~has_up, low + 1.0, a))
    spread = float(np.average(np.abs(s - corner), weights=c)) + 1e-12
    p = np.where(has_up, np.maximum(s - corner, 0.0) + spread, 0.0)
    q = np.where(has_down, np.maximum(corner - s, 0.0) + spread, 0.0)
    norms = Norms(program, theta)
    first, sides = 0.0, float(c @ (has_up.astype(float) + has_down))
    together = penalty.l2.any() or rho.any() or bool(norms.groups)  # θ and a share an equation, so they take one step
    while True:
        # A side that a row does not have stays at p = 0, and its slack at 1.
        up = np.maximum(np.where(has_up, high - a, 1.0), 1e-100)
        down = np.maximum(np.where(has_down, a - low, 1.0), 1e-100)
        D = rho + p / up + q / down
        weights = np.where(on, c / np.where(D > 0.0, D, 1.0), 0.0)
        mu = float(c @ (p * up + q * down) / sides)
        first = max(first, mu)
        inside = np.clip(theta, penalty.lower, penalty.upper)
        scores = s[:n] if np.array_equal(inside, theta) else risk.design.scores(inside)
        point = risk.point(inside, scores if risk.offset is None else scores + risk.offset)
        point.dual, point.curvature = program.summed(c * a), program.summed(weights)
        if mu <= CLEANED * first:
            point = clean(program, point, theta, a, (p, q, up, down))
        yield point
        if not mu > 1e-30 * first:  # nothing but rounding is left
            return
        lag = norms.lag(theta)
        norms.epsilon = max(mu, 0.3 * lag, 1e-300)
        H = program.matrix(weights)
        norms.stiffen(H, theta)
        gradient = program.back(c * a) + penalty.l2 * theta + norms.pull(theta)

        def direction(aim_up: np.ndarray | float, aim_down: np.ndarray | float) -> tuple[np.ndarray, ...]:
            aim_up, aim_down = has_up * aim_up, has_down * aim_down
            v = s - corner - rho * a - aim_up / up + aim_down / down  # noqa: B023 (called at once)
            dtheta = solve_symmetric(H, -(gradient + program.back(weights * v)))  # noqa: B023
            ds = program.image(dtheta)
            da = np.where(on, (ds + v) / np.where(D > 0.0, D, 1.0), 0.0)  # noqa: B023
            dp = has_up * ((aim_up + p * da) / up - p)  # noqa: B023
            dq = has_down * ((aim_down - q * da) / down - q)  # noqa: B023
            return dtheta, ds, da, dp, dq

        def longest(dp: np.ndarray, dq: np.ndarray, da: np.ndarray) -> tuple[float, float]:
            primal = min(_longest(p, dp, on & has_up), _longest(q, dq, on & has_down))  # noqa: B023
            dual = min(_longest(up, -da, on & has_up), _longest(down, da, on & has_down))  # noqa: B023
            return primal, dual

        dtheta, ds, da, dp, dq = direction(0.0, 0.0)
        primal, dual = longest(dp, dq, da)
        ahead = (p + primal * dp) * (up - dual * da) * has_up + (q + primal * dq) * (down + dual * da) * has_down
        aim = mu * min(1.0, (float(c @ ahead / sides) / mu)) ** 3 if mu > 0.0 else 0.0
        if norms.groups:  # nothing is gained by running ahead of them
            aim = max(aim, 0.1 * mu, min(mu, lag))
        dtheta, ds, da, dp, dq = direction(aim + dp * da, aim - dq * da)
        primal, dual = (min(1.0, 0.999 * step) for step in longest(dp, dq, da))
        if together:
            primal = dual = min(primal, dual)
        if not (np.isfinite(dtheta).all() and max(primal, dual) > 1e-12):
            return
        norms.follow(theta, dtheta, primal)
        theta, s = theta + primal * dtheta, s + primal * ds
        p, q, a = p + primal * dp, q + primal * dq, a + dual * da


def _longest(x: np.ndarray, dx: np.ndarray, on: np.ndarray) -> float:
    """The longest step that keeps x positive."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return float(min(np.where(on & (dx < 0.0), -x / dx, np.inf).min(initial=np.inf), 1.0 / 0.999))
