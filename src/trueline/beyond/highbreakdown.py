"""A start that half of the rows cannot spoil: an S-estimate by resampling and concentration.

The S-estimate minimises a scale s of the residuals, the solution of Σρ(r/s)/(n − p) = ½ρ(∞) with Tukey's ρ at
c = 1.548 (breakdown one half). Planes through few random rows are candidates, least squares among them; the promising
ones are concentrated by two reweighted fits, the best few by many more. Large tables are searched on a sample of their rows; the last refinements see every row.
"""

from __future__ import annotations

import numpy as np

from .. import dense
from .psi import Bisquare, Huber

HALF = Bisquare(1.548)
TARGET = 0.5 * HALF.c**2 / 6.0
NORMAL_MAD = 0.6744897501960817


def weighted_median(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The median, the mean of the two middle ones where there are two; whole weights count as repetitions.

    >>> weighted_median(np.array([3.0, 1.0, 9.0]), np.array([1.0, 2.0, 1.0]))
    2.0
    """
    if weights is None:
        return float(np.median(values))
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    half = 0.5 * total[-1]
    low = int(np.searchsorted(total, half * (1.0 - 1e-14)))
    high = int(np.searchsorted(total, half * (1.0 + 1e-14), side="right"))
    return 0.5 * float(values[order[low]] + values[order[min(high, len(values) - 1)]])


def mad(residual: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Median of |r| about 0, in units of a normal's standard deviation."""
    return weighted_median(np.abs(residual), weights) / NORMAL_MAD


def rough_mad(residual: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The same with R's rounded constant, whose path ``rlm`` follows."""
    return weighted_median(np.abs(residual), weights) / 0.6745


def s_scale(
    residual: np.ndarray, start: float, weights: np.ndarray | None, n: int, parameters: int, rounds: int = 60
) -> float:
    """s with Σρ(r/s)/(n − p) = ½ρ(∞), by its fixed-point iteration."""
    scale = start
    count = float(n if weights is None else weights.sum())
    left = max(count - parameters, 0.5 * count)
    for _ in range(rounds):
        if not scale > 0.0:
            return 0.0
        values = HALF.rho(residual / scale)
        total = float(values.sum() if weights is None else values @ weights)
        new = scale * np.sqrt(total / (left * TARGET))
        if abs(new - scale) <= 1e-8 * scale:
            return float(new)
        scale = float(new)
    return scale


def solved(G: np.ndarray, c: np.ndarray) -> np.ndarray:
    """G⁻¹c for scaled normal equations; the least-norm solution where columns depend on each other."""
    return dense.lstsq(G, c, rcond=1e-12)[0]


def reweighted(A: np.ndarray, y: np.ndarray, row_weights: np.ndarray) -> np.ndarray:
    """Weighted least squares with columns scaled to one length."""
    B = A * row_weights[:, None]
    G = B.T @ A
    unit = np.sqrt(np.maximum(np.diagonal(G), 1e-300))
    return solved(G / unit / unit[:, None], (B.T @ y) / unit) / unit


def refine(A: np.ndarray, y: np.ndarray, theta: np.ndarray, weights: np.ndarray | None, rounds: int) -> tuple:
    """Concentration: fit with the weights of the present residuals, again and again; (scale, θ)."""
    scale = mad(y - A @ theta, weights)
    for k in range(rounds):
        r = y - A @ theta
        scale = s_scale(r, scale, weights, len(y), A.shape[1], 1 if k < 2 else 60)
        if not scale > 0.0:
            return 0.0, theta
        w = HALF.weight(r / scale)
        new = reweighted(A, y, w if weights is None else w * weights)
        small = np.abs(new - theta).max() <= 1e-8 * np.abs(theta).max()
        theta = new
        if small and k > 2:
            break
    r = y - A @ theta
    return s_scale(r, mad(r, weights) or scale, weights, len(y), A.shape[1]), theta


def robust_start(
    A: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, *, tries: int = 500, seed: int = 0
) -> tuple[float, np.ndarray]:
    """(scale, θ) of an S-estimate of y ≈ Aθ."""
    rng = np.random.default_rng(seed)
    n, d = A.shape
    most = max(1000, 20 * d)
    if n > most:
        rows = np.sort(rng.choice(n, most, replace=False))
        S, t, w = A[rows], y[rows], None if weights is None else weights[rows]
    else:
        S, t, w = A, y, weights
    m = len(t)
    tries = min(tries, max(50, int(1e8 / (m * d * d))))
    ones = np.ones(m) if w is None else w
    whole = reweighted(S, t, ones)
    candidates = [whole, reweighted(S, t, ones * Huber().weight((t - S @ whole) / (mad(t - S @ whole, w) or 1.0)))]
    chance = None if w is None else w / w.sum()
    possible = m if w is None else int(np.count_nonzero(w))
    for _ in range(tries if possible > d else 0):
        few = rng.choice(m, d, replace=False, p=chance)
        candidates.append(dense.lstsq(S[few], t[few], rcond=1e-12)[0])
    first = np.median(np.abs(t[:, None] - S @ np.array(candidates).T), axis=0)
    promising = np.argsort(first)[: max(10, len(candidates) // 5)]
    # Concentration on few different rows can lose the plane that it began with: the first two stand for themselves too.
    tried = [refine(S, t, theta, w, 0) for theta in candidates[:2]]
    tried += [refine(S, t, candidates[k], w, 2) for k in sorted({0, 1, *promising.tolist()})]
    best = sorted(tried, key=lambda found: found[0])[:5]
    found = min((*best, *(refine(S, t, theta, w, 50) for _, theta in best)), key=lambda one: one[0])
    if m == n:
        return found
    r = y - A @ found[1]  # the sample's fit is good to one in √m: one step over all rows, then their scale
    scale = s_scale(r, found[0] or mad(r, weights), weights, n, d, 20)
    if not scale > 0.0:  # half of all rows lie on this plane
        return 0.0, found[1]
    w = HALF.weight(r / scale)
    theta = reweighted(A, y, w if weights is None else w * weights)
    return s_scale(y - A @ theta, scale, weights, n, d, 20), theta
