"""The best fixed weights of logistic, Poisson, gamma and Tweedie losses on rows that can be read again, with a proof.

Their curvature changes by at most a factor e^|t| where a score moves by t (|φ'''| ≤ φ'': Bach, Self-concordant analysis
for logistic regression, 2010). So with gradient g, Hessian H, ν² = g'H⁻¹g and R² = max x'H⁻¹x over the rows, every step
Δ of length r = √(Δ'HΔ) changes the total loss f by at least −νr + ½κ(Rr)·r², κ(t) = 2(e⁻ᵗ + t − 1)/t². If 4νR ≤ 1 that is
positive at r = 4ν, since κ(1) > 0.73 > ½; f is convex, so its minimum lies within, and f* ≥ f − ν²/(2·0.73).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dense
from ..objective.loss_interface import evaluate
from ..objective.losses import resolve_loss
from .best_fixed import OF_NULL, RELATIVE, UNIT, Least
from .redundant_columns import RedundantColumns

LOSSES = ("logistic", "poisson", "gamma", "tweedie")
STEPS = 60
WORK = 2e8  # rows × columns² up to which a few dozen Hessians take seconds
KAPPA = 0.73


def best_fixed_loss(X: Any, y: np.ndarray, weights: np.ndarray, loss: Any, intercept: bool) -> Least:
    """The best fixed weights (intercept first) and their loss; nothing where it cannot be proven."""
    n, d = X.shape
    if getattr(loss, "name", "") not in LOSSES or n * (d + 1.0) ** 2 > WORK:
        return Least()
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=np.float64)
    c = weights if len(weights) else np.ones(n)
    X, y, c = X[c > 0.0], np.ascontiguousarray(y[c > 0.0], dtype=np.float64), c[c > 0.0]
    needed = np.flatnonzero(~RedundantColumns.of(X, np.ones(len(X))).mask(intercept))
    centre = X[:, needed].mean(axis=0) if intercept and len(X) else np.zeros(len(needed))
    Z = X[:, needed] - centre
    Z = np.column_stack([np.ones(len(Z)), Z]) if intercept else Z
    norms = np.sqrt(np.einsum("ij,ij->j", Z, Z))
    used = norms > 0.0
    Z, norms = Z[:, used] / norms[used], norms[used]
    problem = _Problem(Z, y, c, resolve_loss(loss))
    with np.errstate(all="ignore"):
        point = problem.minimised()
        found = None if point is None else problem.proven(point)
    if point is None or found is None:
        return Least()
    w = np.zeros(len(used))
    w[used] = point / norms
    u = np.zeros(d + 1)
    u[needed + 1] = w[1:] if intercept else w
    u[0] = w[0] - w[1:] @ centre if intercept else 0.0
    return Least(u, *found)


class _Problem:
    """Σ c·V(y, Zw) with columns of length 1."""

    def __init__(self, Z: np.ndarray, y: np.ndarray, c: np.ndarray, loss: Any) -> None:
        self.Z, self.y, self.c, self.loss = Z, y, c, loss

    def at(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Value, slope and curvature in every row."""
        scores = self.Z @ w
        value, slope, curvature = (
            evaluate(self.loss, what, scores, self.y) for what in ("value", "slope", "curvature")
        )
        return value, slope, curvature

    def minimised(self) -> np.ndarray | None:
        """Newton's steps, halved until the loss falls; None where they come to no end."""
        w = np.zeros(self.Z.shape[1])
        value, slope, curvature = self.at(w)
        now = float(self.c @ value)
        for _ in range(STEPS):
            gradient = self.Z.T @ (self.c * slope)
            H = self.Z.T @ (self.Z * (self.c * curvature)[:, None])
            try:
                step = dense.solve(H, gradient)
            except np.linalg.LinAlgError:
                return None
            decrement = float(gradient @ step)
            if not (math.isfinite(decrement) and decrement > 0.0):
                return w if decrement == 0.0 else None
            share = 1.0
            while share > 1e-10:
                trial = self.at(w - share * step)
                then = float(self.c @ trial[0])
                if then <= now:
                    break
                share *= 0.5
            else:
                return w  # no step lowers the loss any more: rounding
            w, now, (value, slope, curvature) = w - share * step, then, trial
            if decrement <= 1e-24 * max(abs(now), float(self.c.sum())):
                return w
        return None

    def proven(self, w: np.ndarray) -> tuple[float, float] | None:
        """(loss, lower bound) at w, if the bound is close enough for the loss to be called the least."""
        value, slope, curvature = self.at(w)
        Z, c, n = self.Z, self.c, len(self.y)
        H = Z.T @ (Z * (c * curvature)[:, None])
        size = np.sqrt(H.diagonal())
        if not (size > 0.0).all():
            return None
        try:
            factor = dense.cholesky(H / size / size[:, None]) if len(H) else np.zeros((0, 0))
        except np.linalg.LinAlgError:
            return None
        if len(H) and factor.diagonal().min() < 1e-4:
            return None
        inverse = dense.inv(factor) if len(H) else factor
        gradient = inverse @ (Z.T @ (c * slope) / size)
        # What rounding leaves of the gradient: of its own sum, and of the scores from which each slope came.
        scores_off = 2.0 * (len(w) + 2) * UNIT * (np.abs(Z) @ np.abs(w) + 1.0)
        off = np.abs(Z).T @ (c * ((n + 8) * UNIT * np.abs(slope) + curvature * scores_off)) / size
        nu = float(np.linalg.norm(gradient)) + float(np.linalg.norm(np.abs(inverse) @ off))
        leverages = np.sum(((Z / size) @ inverse.T) ** 2, axis=1)
        reach = math.sqrt(float(leverages.max(initial=0.0)))
        if not 4.04 * nu * reach <= 1.0:
            return None
        total = math.fsum(c * value)
        gap = 1.01 * nu * nu / (2.0 * KAPPA)
        slack = 4.0 * UNIT * float(c @ np.abs(value)) + float(c @ (np.abs(slope) * scores_off))
        start, _, _ = self.at(np.zeros(len(w)))
        if gap + 2.0 * slack > RELATIVE * abs(total) + OF_NULL * float(c @ np.abs(start)):
            return None
        return total, total - gap - slack
