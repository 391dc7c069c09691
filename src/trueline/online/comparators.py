"""Searching comparators: weights on a simplex from moments, and any loss by a second pass over the rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dense
from ..data.row_access import rows_of
from ..threads import one_blas_thread
from . import best_fixed, certified_newton
from .best_fixed import Least
from .learning_loop import Examples, risk

READING = 4e9  # entries that a search may read in all: seconds, whatever the size of the data


def entropic_best(G: np.ndarray, intercept: bool, radius: float, entropy: float) -> np.ndarray:
    """The u (intercept first) of least L_u + entropy·RE(u‖w₁), on the simplex, or on (Ux, −Ux) when radius = U > 0.

    Without the entropy an active set finds it exactly. With it, multiplicative steps with backtracking: any u is valid, so
    a search that stops early costs tightness, not truth.
    """
    first = 0 if intercept else 1
    A, b = G[first:-1, first:-1], G[first:-1, -1]
    d = len(b)
    signed = radius > 0.0
    u = np.zeros(len(G) - 1)
    if d == 0:
        return u

    def point(v: np.ndarray) -> np.ndarray:
        return radius * (v[:d] - v[d:]) if signed else v

    def value(v: np.ndarray) -> float:
        w = point(v)
        inside = v[v > 0.0]
        return float(w @ A @ w - 2.0 * b @ w) + entropy * float(np.sum(inside * np.log(inside)))

    if entropy == 0.0:
        if signed:
            A, b = radius**2 * np.block([[A, -A], [-A, A]]), radius * np.concatenate([b, -b])
        v = simplex_best(A, b)
        u[first:] = radius * (v[:d] - v[d:]) if signed else v
        return u
    v = np.full(2 * d if signed else d, 1.0 / (2 * d if signed else d))
    now = value(v)
    step = 1.0 / max(1e-300, 2.0 * float(np.abs(A).max(initial=0.0)) * max(1.0, radius) ** 2 + entropy)
    for _ in range(300):
        pull = 2.0 * (A @ point(v) - b)
        gradient = np.concatenate([radius * pull, -radius * pull]) if signed else pull
        gradient = gradient + entropy * np.log(np.maximum(v, 1e-300))
        # From the least of those alive, so that some part of the trial always is; what underflowed to 0 stays there.
        gradient = np.maximum(gradient - gradient[v > 0.0].min(), 0.0)
        while True:
            trial = v * np.exp(-step * gradient)
            trial /= trial.sum()
            then = value(trial)
            if then <= now or step < 1e-300:
                break
            step *= 0.5
        done = now - then <= 1e-9 * abs(now)
        v, now = trial, min(now, then)
        step *= 2.0
        if done and _ > 20:
            break
    u[first:] = point(v)
    return u


def simplex_loss(G: np.ndarray, u: np.ndarray, intercept: bool, radius: float, gamma: float) -> Least:
    """u on the simplex (or of ‖u‖₁ ≤ radius) as the best of it, if Frank and Wolfe's gap says so.

    No u of the set has more than ∇·u − min ∇ to gain, and on all of it the moments' rounding is bounded: a column that
    nearly repeats another does no harm here.
    """
    first = 0 if intercept else 1
    A, b, square = G[first:-1, first:-1], G[first:-1, -1], float(G[-1, -1])
    w = u[first:]
    if not len(w):
        return Least(u, square, square if square > 0.0 else None)
    slope = A @ w - b
    gap = 2.0 * float(slope @ w + radius * np.abs(slope).max() if radius > 0.0 else slope @ w - slope.min())
    size = max(1.0, radius) * float(np.sqrt(A.diagonal().max())) + math.sqrt(square)
    slack = (gamma + 6.0 * (len(w) + 1) * best_fixed.UNIT) * size * size
    value = max(0.0, float(w @ A @ w - 2.0 * b @ w) + square)
    null = max(0.0, square - float(G[0, -1]) ** 2 / float(G[0, 0])) if G[0, 0] > 0.0 else square
    return best_fixed.stated(u, value, value - max(0.0, gap) - slack, value + slack, null)


def simplex_best(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """argmin of v'Av − 2b'v over v ≥ 0, Σv = 1, by an active set (Wolfe's for the nearest point, 1976).

    On the support the conditions are linear; the way to their solution ends where the first weight would turn negative,
    which leaves the support; the weight of the steepest slope enters. It ends when no slope is below the mean of those
    in use: g·v − min g, which bounds twice the distance to the optimum, is then rounding.
    """
    unit = max(float(np.abs(A).max(initial=0.0)), float(np.abs(b).max(initial=0.0)), 1e-300)
    A, b = A / unit, b / unit
    v = np.zeros(len(b))
    support = [int(np.argmin(np.diagonal(A) - 2.0 * b))]
    v[support] = 1.0
    best, least = v.copy(), math.inf
    for _ in range(10 * len(b) + 50):
        slope = A @ v - b
        gap = float(slope @ v - slope.min())
        if gap < least:
            best, least = v.copy(), gap
        entering = int(np.argmin(slope))
        if gap <= 1e-15 * max(1.0, float(np.abs(slope).max())) or entering in support:
            break
        support.append(entering)
        while True:
            k = len(support)
            system = np.ones((k + 1, k + 1))
            system[:k, :k], system[k, k] = A[np.ix_(support, support)], 0.0
            new = dense.lstsq(system, np.append(b[support], 1.0), rcond=1e-13)[0][:k]
            old = v[support]
            if (new > 0.0).all():
                v[support] = new / new.sum()
                break
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = np.where(new <= 0.0, old / (old - new), np.inf)
            step = min(1.0, float(np.nanmin(reach)))
            moved = np.maximum(old + step * (new - old), 0.0)
            moved[int(np.nanargmin(reach))] = 0.0
            v[support] = moved / moved.sum()
            support = [j for j in support if v[j] > 0.0]
    return best


def search(
    examples: Examples, entries: int, loss: Any, intercept: bool, ridges: tuple[float, ...], starts: list[np.ndarray]
) -> list[tuple[np.ndarray, float]]:  # fmt: skip
    """(u, Σ c·V(y, u·x)) for minimisers of the loss plus ½ridge·‖u‖², each ridge in turn; exact losses, good u."""
    from scipy.optimize import minimize

    gradient = np.zeros(len(starts[0]))
    found: list[tuple[np.ndarray, float]] = [(u, risk(examples, loss, u, gradient)) for u in starts]

    def objective(u: np.ndarray, ridge: float) -> tuple[float, np.ndarray]:
        value = risk(examples, loss, u, gradient)
        slope = gradient + ridge * u
        if not intercept:
            slope[0] = 0.0
        total = value + 0.5 * ridge * float(u @ u)
        return (total, slope) if math.isfinite(total) else (1e300, np.zeros_like(slope))

    turns = int(min(200.0, max(10.0, READING / (1.0 + entries * len(ridges)))))
    for ridge in ridges:
        start = min(found, key=lambda pair: pair[1] + 0.5 * ridge * float(pair[0] @ pair[0]))[0]
        with one_blas_thread():
            u = minimize(objective, start, args=(ridge,), jac=True, method="L-BFGS-B", options={"maxiter": turns}).x
        found.append((u, risk(examples, loss, u, gradient)))
    return [pair for pair in found if math.isfinite(pair[1])]


def look_back(
    model: Any, X: Any, y: np.ndarray, weights: np.ndarray, h: int, repeats: int, strengths: tuple[float, ...]
) -> tuple[list[Any], Least]:
    """Comparators that suit the learner's geometry, each with its exact loss over the rows (times ``repeats``), and the
    best fixed weights where they can be proven to be the best.

    ``strengths`` are the ridges, over all rounds, at which the bound wants a short u.
    """
    width, geometry = model.width, model.geometry
    examples = Examples(rows_of(X), y, weights if len(weights) else None)
    now = model.weights(h)
    gradient = np.zeros(width + 1)
    if geometry.name in ("multiplicative", "signed"):
        start = model.heads[h].array("start").copy()
        trials = [start, now, *entropic_path(model, examples, start)]
        found = [(u, risk(examples, model.loss, u, gradient)) for u in trials]
        least = frank_wolfe(model, examples, len(y), min(found, key=lambda pair: pair[1])[0])
    else:
        ridges = tuple(strength / repeats for strength in strengths)
        starts = [np.zeros(width + 1), now]
        least = certified_newton.best_fixed_loss(X, y, weights, model.loss, model.fit_intercept)
        if least.weights is not None:
            starts.append(least.weights)
        entries = X.nnz if hasattr(X, "nnz") else X.size
        found = search(examples, entries, model.loss, model.fit_intercept, ridges, starts)
    return [(u, repeats * value) for u, value in found if math.isfinite(value)], least.times(repeats)


def frank_wolfe(model: Any, examples: Examples, rows: int, u: np.ndarray) -> Least:
    """u as the best of the simplex, or of its two-signed form, if the gap ∇·u − min ∇ says so."""
    first = 0 if model.fit_intercept else 1
    radius = float(getattr(model.geometry, "radius", 0.0))
    gradient = np.zeros(len(u))
    null = risk(examples, model.loss, np.zeros(len(u)), gradient)
    value = risk(examples, model.loss, u, gradient)
    pull = gradient[first:]
    if not (len(pull) and math.isfinite(value)):
        return Least()
    gap = float(pull @ u[first:] + (radius * np.abs(pull).max() if radius > 0.0 else -pull.min()))
    slack = 4.0 * (rows + len(u)) * best_fixed.UNIT * (abs(value) + abs(null))
    lower = value - max(0.0, gap) - slack
    exact = value + slack - lower <= best_fixed.RELATIVE * abs(value) + best_fixed.OF_NULL * abs(null)
    return Least(u, value, lower) if exact else Least(None, None, lower if lower > 0.0 else None)


def entropic_path(model: Any, examples: Examples, start: np.ndarray) -> list[np.ndarray]:
    """Comparators on the simplex (or of both signs): multiplicative descent, a few points of its path."""
    first = 0 if model.fit_intercept else 1
    radius = getattr(model.geometry, "radius", 0.0)
    d = len(start) - first
    v = np.full(2 * d if radius else d, 1.0 / (2 * d if radius else d))
    gradient, u, path = np.zeros(len(start)), start.copy(), []
    step = None
    now = risk(examples, model.loss, u, gradient)
    for turn in range(60):
        pull = gradient[first:]
        slope = radius * np.concatenate([pull, -pull]) if radius else pull.copy()
        spread = float(slope.max() - slope.min())
        if spread <= 0.0:
            break
        step = 1.0 / spread if step is None else 2.0 * step
        for _ in range(30):
            trial = np.maximum(v, 1e-300) * np.exp(-step * (slope - slope.min()))
            trial /= trial.sum()
            point = np.zeros(len(start))
            point[first:] = radius * (trial[:d] - trial[d:]) if radius else trial
            then = risk(examples, model.loss, point, gradient)
            if then <= now:
                break
            step *= 0.5
        v, u, now = trial, point, then
        if turn % 10 == 9 or turn < 4:
            path.append(u)
    return path
