"""Whole paths of penalised least squares from a Gram matrix: ridge by one eigendecomposition, lasso by coordinates.

Ridge: G = V Λ Vᵀ gives β(α) = V (Λ + α)⁻¹ Vᵀc for every α. Lasso and elastic net minimise

  P(w) = (1/2n)(yy − 2 w·c + wᵀGw) + α·ρ‖w‖₁ + ½α(1 − ρ)‖w‖²

by coordinate descent on G, warm along the path. The gap: with r = y − Xw, Xᵀr = c − Gw and
s = min(1, nαρ/‖Xᵀr − nα(1 − ρ)w‖∞), the point s·r is feasible in the dual (columns are centred, so Σr = 0), and

  n·gap = ½(1 + s²)(‖r‖² + nα(1 − ρ)‖w‖²) + nαρ‖w‖₁ − s·r·y.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._jit import kernel
from ..threads import spread
from .activeset import active_set_path
from .moments import Moments
from .parts import Part
from .solve import alone
from .squares import products_of

_PLAIN_BELOW = 13  # columns: below, plain Python is done before Numba would be imported
_ACTIVE_BELOW = 150  # columns: below, exact active sets in NumPy are done before Numba would be imported


class RidgePath:
    """β(α) and its figures for every penalty, from one eigendecomposition.

    ``scales`` per column put the penalty on another scale: α Σ (scale_j β_j)².
    """

    def __init__(self, part: Part, d: int, fit_intercept: bool, scales: np.ndarray | None = None) -> None:
        H = products_of(part, fit_intercept)[0]
        self.scales = np.ones(d) if scales is None else scales
        self.part, self.d, self.fit_intercept = part, d, fit_intercept
        self.gram = H[:d, :d]
        outer = self.scales[:, None] * self.scales
        with alone(d):
            self.values, self.vectors = np.linalg.eigh(self.gram / outer)
        self.values = np.maximum(self.values, 0.0)
        self.right = H[:d, d:] / self.scales[:, None]
        self.rotated = self.vectors.T @ self.right
        self.squares = np.diagonal(H)[d:].copy()

    def coef(self, alphas: np.ndarray) -> np.ndarray:
        """Coefficients, penalties × targets × terms."""
        alphas = np.atleast_1d(np.asarray(alphas, dtype=float))
        with np.errstate(divide="ignore", invalid="ignore"):
            shrink = 1.0 / (self.values[None, :] + alphas[:, None])
        shrink = np.where(np.isfinite(shrink), shrink, 0.0)
        inner = shrink[:, :, None] * self.rotated[None]
        return np.moveaxis(self.vectors @ inner, 1, 2) / self.scales

    def intercepts(self, coefs: np.ndarray) -> np.ndarray:
        """Intercepts, penalties × targets."""
        if not self.fit_intercept:
            return np.zeros(coefs.shape[:2])
        mean = self.part.mean[0]
        return mean[self.d :] - coefs @ mean[: self.d]

    def degrees(self, alphas: np.ndarray) -> np.ndarray:
        """Effective degrees of freedom Σ λ/(λ + α), the intercept included."""
        kept = self.values[None, :] / (self.values[None, :] + np.asarray(alphas, dtype=float)[:, None])
        return kept.sum(axis=1) + float(self.fit_intercept)

    def residual_squares(self, coefs: np.ndarray) -> np.ndarray:
        """RSS of coefficients, penalties × targets."""
        return held_out(self.part, coefs, self.intercepts(coefs), self.d)

    def generalised(self, alphas: np.ndarray) -> np.ndarray:
        """The generalised cross-validation score (RSS/n)/(1 − df/n)² per penalty and target."""
        n = self.part.n
        rss = self.residual_squares(self.coef(alphas))
        left = np.maximum(1 - self.degrees(alphas) / n, 0.0)[:, None]
        with np.errstate(divide="ignore"):
            return np.where(left > 0, rss / self.part.weight[0] / left**2, np.inf)


def held_out(part: Part, coefs: np.ndarray, intercepts: np.ndarray, d: int) -> np.ndarray:
    """Σ w (y − b − x·β)² over a part's rows, for coefficients … × targets × terms."""
    H, mean = part.products[0], part.mean[0]
    G, c = H[:d, :d], H[:d, d:]
    off = mean[d:] - intercepts - coefs @ mean[:d]
    inner = np.einsum("...kd,...kd->...k", coefs, coefs @ G) - 2 * np.einsum("...kd,dk->...k", coefs, c)
    return np.maximum(np.diagonal(H)[d:] + inner, 0.0) + part.weight[0] * off**2


def standard_scales(part: Part, d: int) -> np.ndarray:
    """The columns' standard deviations; 1 for constant ones."""
    spread_ = np.sqrt(np.maximum(np.diagonal(part.products[0])[:d], 0.0) / part.weight[0])
    return np.where(spread_ > 0, spread_, 1.0)


@kernel
def _descend(G, c, yy, w, q, l1, l2, positive, tolerance, sweeps):
    """Coordinate descent to a gap of at most ``tolerance``; w and q = Gw change in place. Returns (gap, sweeps)."""
    d = len(c)
    gap = np.inf
    done = 0
    inner = 0
    every = True
    while done < sweeps:
        done += 1
        largest_step = 0.0
        largest = 0.0
        for j in range(d):
            diagonal = G[j, j]
            if diagonal <= 0.0 or (not every and w[j] == 0.0):
                continue
            old = w[j]
            pull = c[j] - q[j] + diagonal * old
            if positive:
                new = max(pull - l1, 0.0) / (diagonal + l2)
            else:
                new = (max(pull - l1, 0.0) - max(-pull - l1, 0.0)) / (diagonal + l2)
            if new != old:
                step = new - old
                for i in range(d):
                    q[i] += step * G[i, j]
                w[j] = new
                largest_step = max(largest_step, abs(step) * np.sqrt(diagonal))
            largest = max(largest, abs(new) * np.sqrt(diagonal))
        inner += 1
        if not every:
            # Sweeps over the support alone, until they hardly move or are many.
            if largest_step > 1e-9 * largest and inner < 50:
                continue
            every = True
            inner = 0
            continue
        every = False
        inner = 0
        wGw = 0.0
        wc = 0.0
        norm1 = 0.0
        norm2 = 0.0
        dual = 0.0
        for j in range(d):
            wGw += w[j] * q[j]
            wc += w[j] * c[j]
            norm1 += abs(w[j])
            norm2 += w[j] * w[j]
            slope = c[j] - q[j] - l2 * w[j]
            dual = max(dual, slope if positive else abs(slope))
        residual = max(yy - 2.0 * wc + wGw, 0.0)
        s = min(1.0, l1 / dual) if dual > 0.0 else 1.0
        gap = 0.5 * (1.0 + s * s) * (residual + l2 * norm2) + l1 * norm1 - s * (yy - wc)
        if gap <= tolerance:
            break
        if largest_step <= 1e-16 * largest:
            break
    return gap, done


def gram_path(
    C: np.ndarray,
    c: np.ndarray,
    yy: float,
    n: float,
    alphas: Sequence[float] | np.ndarray,
    l1_ratio: float = 1.0,
    *,
    positive: bool = False,
    tol: float = 1e-8,
    max_iter: int = 100_000,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(coefficients, gaps) of the elastic net for each penalty, in the order given, each warm from the last.

    ``C`` = XᵀX and ``c`` = Xᵀy of centred (weighted) columns, ``yy`` = y·y, ``n`` the sum of weights. Gaps are
    absolute, of the objective (1/2n)‖y − Xw‖² + α·l1_ratio‖w‖₁ + ½α(1 − l1_ratio)‖w‖²; each solve stops at
    ``tol``·yy/n.
    """
    C = np.ascontiguousarray(C, dtype=float)
    c = np.ascontiguousarray(c, dtype=float)
    d = len(c)
    if d < _ACTIVE_BELOW and not positive and start is None and l1_ratio > 0.0:
        found = active_set_path(C, c, n, np.asarray(alphas, dtype=float), l1_ratio)
        if found is not None:
            return found, _gaps(C, c, yy, n, found, np.asarray(alphas, dtype=float), l1_ratio)
    # Columns of one length keep the steps comparable; the penalty is divided accordingly below, so G itself is used.
    w = np.zeros(d) if start is None else np.array(start, dtype=float)
    q = C @ w
    coefs, gaps = np.empty((len(alphas), d)), np.empty(len(alphas))
    run: Any = _descend if d >= _PLAIN_BELOW else _descend.__wrapped__  # type: ignore[attr-defined]
    for k, alpha in enumerate(alphas):
        l1, l2 = float(n * alpha * l1_ratio), float(n * alpha * (1.0 - l1_ratio))
        gap, _ = run(C, c, float(yy), w, q, l1, l2, bool(positive), float(tol * yy), int(max_iter))
        coefs[k], gaps[k] = w, max(gap, 0.0) / n
        q = C @ w  # fresh, so that rounding does not pile up along the path
    return coefs, gaps


def _gaps(
    C: np.ndarray, c: np.ndarray, yy: float, n: float, coefs: np.ndarray, alphas: np.ndarray, l1_ratio: float
) -> np.ndarray:
    """The gap of each row of coefficients, by the formula above."""
    l1, l2 = n * alphas * l1_ratio, n * alphas * (1.0 - l1_ratio)
    q = coefs @ C
    across = coefs @ c
    residual = np.maximum(yy - 2.0 * across + np.einsum("ij,ij->i", coefs, q), 0.0)
    dual = np.abs(c - q - l2[:, None] * coefs).max(axis=1, initial=0.0)
    s = np.minimum(1.0, l1 / np.maximum(dual, 1e-300))
    ridge = l2 * np.einsum("ij,ij->i", coefs, coefs)
    gap = 0.5 * (1.0 + s * s) * (residual + ridge) + l1 * np.abs(coefs).sum(axis=1) - s * (yy - across)
    return np.maximum(gap, 0.0) / n


def moment_gram(
    part: Part, d: int, fit_intercept: bool = True, target: int = 0
) -> tuple[np.ndarray, np.ndarray, float]:
    """(C, c, yy) of a part, for ``gram_path``."""
    H = products_of(part, fit_intercept)[0]
    return H[:d, :d], H[:d, d + target], float(H[d + target, d + target])


def penalty_grid(
    part: Part, d: int, *, l1_ratio: float = 1.0, eps: float = 1e-3, count: int = 100, fit_intercept: bool = True,
    positive: bool = False,
) -> np.ndarray:  # fmt: skip
    """Penalties from the smallest that leaves no coefficient down to ``eps`` of it, evenly in their logarithm."""
    _, c, _ = moment_gram(part, d, fit_intercept)
    top = float(max(0.0, c.max(initial=0.0)) if positive else np.abs(c).max(initial=0.0)) / (part.weight[0] * l1_ratio)
    resolution = np.finfo(float).resolution
    return np.full(count, resolution) if top <= resolution else np.geomspace(top, top * eps, num=count)


def cross_validate_paths(
    moments: Moments,
    alphas: Sequence[float] | np.ndarray,
    *,
    l1_ratio: float = 1.0,
    fit_intercept: bool = True,
    positive: bool = False,
    tol: float = 1e-8,
    scored: Moments | None = None,
) -> np.ndarray:
    """Mean squared error on each held-out fold, penalties × folds, with no further pass over the rows.

    ``scored`` may hold other moments of the same folds to score on (unweighted ones, for instance).
    """
    d = len(moments.terms)
    scored = moments if scored is None else scored

    def one(fold: int) -> np.ndarray:
        rest = moments.without(fold)
        C, c, yy = moment_gram(rest, d, fit_intercept)
        coefs, _ = gram_path(C, c, yy, rest.weight[0], alphas, l1_ratio, positive=positive, tol=tol)
        level = rest.mean[0][d] - coefs @ rest.mean[0][:d] if fit_intercept else np.zeros(len(coefs))
        part = scored.parts[fold]
        return held_out(part, coefs[:, None, :], level[:, None], d)[:, 0] / part.weight[0]

    return np.column_stack(spread(one, moments.parts))
