"""Whole paths of penalised least squares from a Gram matrix: ridge by one eigendecomposition, lasso by active sets.

Ridge: G = V Λ Vᵀ gives β(α) = V (Λ + α)⁻¹ Vᵀc for every α. Lasso and elastic net minimise

  P(w) = (1/2n)(yy − 2 w·c + wᵀGw) + α·ρ‖w‖₁ + ½α(1 − ρ)‖w‖²

by active sets, exactly, warm along the path. Columns are centred, so Σr = 0 and the gap (lasso_gap.py) follows from
‖r‖² = yy − 2w·c + wᵀGw, r·y = yy − w·c and Xᵀr = c − Gw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import fsum

import numpy as np

from .. import dense
from ..doubled import UNIT, UNIT_DOUBLED, two_prod
from ..moments.active_set_newton import ActiveSet
from ..onepass.lasso_gap import LassoGaps, Sums, elastic_gaps, summing_error
from ..threads import spread
from .digits import rounding_squares
from .moments import Moments
from .parts import Part
from .solve import factored, quadratic, residual
from .squares import Solution, products_of, solve_part

_COARSE = 1e-11  # of the largest eigenvalue: what float64's eigenvalues know of smaller penalties is mostly rounding
_CANCELLED = 1e-8  # of a sum of squared errors: where rounding may have cost more it is summed again


class RidgePath:
    """β(α) and its figures for every penalty, from one eigendecomposition.

    ``scales`` per column put the penalty on another scale: α Σ (scale_j β_j)². ``integer`` marks the columns of [x y]
    that hold whole numbers. Directions that the rank rule of least squares drops have no share in any coefficient, and
    penalties so small that float64's eigenvalues say nothing about them are solved as least squares is.
    """

    def __init__(
        self,
        part: Part,
        d: int,
        fit_intercept: bool,
        scales: np.ndarray | None = None,
        integer: np.ndarray | None = None,
    ) -> None:
        H, E = products_of(part, fit_intercept)
        self.scales = np.ones(d) if scales is None else scales
        self.part, self.d, self.fit_intercept = part, d, fit_intercept
        self.integer = np.zeros(len(H), dtype=bool) if integer is None else integer
        self.gram = H[:d, :d]
        self.most = part.n - fit_intercept  # no more columns can be independent
        basis = self._basis((self.gram, E[:d, :d]))
        gram = self.gram / (self.scales[:, None] * self.scales)
        values, vectors = dense.eigh(gram if basis is None else basis.T @ gram @ basis)
        rank = min(self.most, len(values))
        if d > self.most:
            rank = min(rank, int((values > d * np.finfo(float).eps * values.max(initial=0.0)).sum()))
        self.values, self.vectors = np.zeros(d), np.zeros((d, d))
        self.values[d - rank :] = np.maximum(values[len(values) - rank :], 0.0)
        self.vectors[:, d - rank :] = (vectors if basis is None else basis @ vectors)[:, len(values) - rank :]
        self.right = H[:d, d:] / self.scales[:, None]
        self.rotated = self.vectors.T @ self.right
        self.squares = np.diagonal(H)[d:].copy()
        self._solved: dict[float, Solution] = {}

    def _basis(self, gram: tuple[np.ndarray, np.ndarray]) -> np.ndarray | None:
        """An orthonormal basis of what is orthogonal to the null vectors, scaled; None where there are none."""
        d = self.d
        if d > self.most or d == 0:
            return None  # their number alone says it: the largest eigenvalues are those of the rows
        rounding = rounding_squares(self.part.raw_squares(), self.integer)[:d]
        factor = factored(gram, rounding, self.part.noise[:d], condition=False)
        if not factor.combinations:
            return None
        null = factor.null_vectors() * self.scales[:, None]
        null /= np.linalg.norm(null, axis=0)
        return dense.qr(null, mode="complete")[0][:, null.shape[1] :]

    def _exact(self, alpha: float) -> Solution:
        """Least squares, of least norm, or with a penalty that float64 could not tell from none."""
        if alpha not in self._solved:
            penalty = alpha * self.scales**2 if alpha > 0 else None
            terms = [f"column {j}" for j in range(self.d)]
            self._solved[alpha] = solve_part(
                self.part, terms, self.integer, fit_intercept=self.fit_intercept, penalty=penalty, condition=False
            )
        return self._solved[alpha]

    def _small(self, alphas: np.ndarray) -> list[int]:
        """Which penalties eigenvalues are too coarse for."""
        if self.d > self.most:
            return []
        return [int(k) for k in np.flatnonzero(alphas <= _COARSE * self.values.max(initial=0.0))]

    def coef(self, alphas: np.ndarray) -> np.ndarray:
        """Coefficients, penalties × targets × terms."""
        alphas = np.atleast_1d(np.asarray(alphas, dtype=float))
        with np.errstate(divide="ignore", invalid="ignore"):
            shrink = 1.0 / (self.values[None, :] + alphas[:, None])
        shrink = np.where(np.isfinite(shrink), shrink, 0.0)
        inner = shrink[:, :, None] * self.rotated[None]
        coefs = np.moveaxis(self.vectors @ inner, 1, 2) / self.scales
        for k in self._small(alphas):
            coefs[k] = self._exact(float(alphas[k])).coef
        return coefs

    def intercepts(self, coefs: np.ndarray) -> np.ndarray:
        """Intercepts, penalties × targets."""
        if not self.fit_intercept:
            return np.zeros(coefs.shape[:2])
        mean = self.part.mean[0]
        return mean[self.d :] - coefs @ mean[: self.d]

    def degrees(self, alphas: np.ndarray) -> np.ndarray:
        """Effective degrees of freedom Σ λ/(λ + α), the intercept included."""
        alphas = np.atleast_1d(np.asarray(alphas, dtype=float))
        with np.errstate(invalid="ignore"):
            share = self.values[None, :] / (self.values[None, :] + alphas[:, None])
        degrees = np.where(self.values > 0, share, 0.0).sum(axis=1)
        for k in self._small(alphas):
            factor = self._exact(float(alphas[k])).factor
            assert factor is not None
            penalised = 0.0 if alphas[k] == 0 else alphas[k] * float(np.diagonal(factor.inverse) @ self.scales**2)
            degrees[k] = factor.rank - min(penalised, float(factor.rank))
        return degrees + float(self.fit_intercept)

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
    H, mean, W = part.products[0], part.mean[0], part.weight[0]
    G, c, yy = H[:d, :d], H[:d, d:], np.diagonal(H)[d:]
    off = mean[d:] - intercepts - coefs @ mean[:d]
    inner = np.einsum("...kd,...kd->...k", coefs, coefs @ G) - 2 * np.einsum("...kd,dk->...k", coefs, c)
    result = np.maximum(yy + inner, 0.0) + W * off**2
    # What rounding may have cost: large coefficients of nearly equal columns cancel.
    size = np.sqrt(yy) + np.abs(coefs) @ np.sqrt(np.maximum(np.diagonal(G), 0.0))
    level = UNIT * (np.abs(mean[d:]) + np.abs(intercepts) + np.abs(coefs) @ np.abs(mean[:d]))
    lost = UNIT * size**2 + W * level * (2 * np.abs(off) + level)
    for at in zip(*np.nonzero(lost > _CANCELLED * result)):
        result[at] = _squared_errors(part, coefs[at], intercepts[at], d, int(at[-1]))
    return result


def _squared_errors(part: Part, coef: np.ndarray, intercept: float, d: int, target: int) -> float:
    """As ``held_out`` for one vector of coefficients, in double-double."""
    (H, E), (mh, ml), t = part.products, part.mean, d + target
    beta, right = (coef[:, None], 0.0 * coef[:, None]), (H[:d, t : t + 1], E[:d, t : t + 1])
    left = residual((H[:d, :d], E[:d, :d]), beta, right)
    square = quadratic(beta, right, left, (H[t : t + 1, t], E[t : t + 1, t]))[0]
    P, Q = two_prod(-coef, mh[:d])
    off = fsum([mh[t], ml[t], -float(intercept), *P.tolist(), *Q.tolist(), *(-coef * ml[:d]).tolist()])
    return float(max(square, 0.0) + part.weight[0] * off**2)


def standard_scales(part: Part, d: int) -> np.ndarray:
    """The columns' standard deviations; 1 for constant ones."""
    spread_ = np.sqrt(np.maximum(np.diagonal(part.products[0])[:d], 0.0) / part.weight[0])
    return np.where(spread_ > 0, spread_, 1.0)


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
    errors: np.ndarray | None = None,
) -> tuple[np.ndarray, LassoGaps]:
    """(coefficients, gaps) of the elastic net for each penalty, in the order given, each warm from the last.

    ``C`` = XᵀX and ``c`` = Xᵀy of centred (weighted) columns, ``yy`` = y·y, ``n`` the sum of weights.
    ``errors`` as in ``gram_gaps``.
    """
    C, c = np.ascontiguousarray(C, dtype=float), np.ascontiguousarray(c, dtype=float)
    penalties, l1_ratio = np.asarray(alphas, dtype=float), max(float(l1_ratio), 1e-9)  # no L1 part: solved next to it
    # A first penalty far below the largest is reached by steps: all columns at once would be one singular guess.
    top = float(np.max(c if positive else np.abs(c), initial=0.0)) / (n * l1_ratio)
    far = 0 if not penalties.size or not 0.0 < penalties[0] < 0.5 * top else int(np.log2(top / penalties[0])) + 1
    grid = np.concatenate([np.geomspace(top, penalties[0], far + 1)[1:-1], penalties]) if far else penalties
    solver = ActiveSet(len(c), C, c)
    coefs = solver.solve(n * grid * l1_ratio, n * grid * (1.0 - l1_ratio), tol, positive)[grid.size - penalties.size :]
    return coefs, gram_gaps(C, c, yy, n, coefs, penalties, l1_ratio, positive, errors)


def gram_gaps(
    C: np.ndarray, c: np.ndarray, yy: float, n: float, coefs: np.ndarray, alphas: np.ndarray, l1_ratio: float,
    positive: bool = False, errors: np.ndarray | None = None,
) -> LassoGaps:  # fmt: skip
    """The gap of each row of coefficients, whatever they are.

    The products of columns i and j, the target the last of them, may be wrong by errors_i·errors_j; None stands for
    products that are right to float64.
    """
    h, fitted = c - coefs @ C, coefs @ c
    left = np.maximum(yy - fitted - np.einsum("pj,pj->p", coefs, h), 0.0)  # yy − 2c·w + wᵀCw = yy − c·w − w·h
    sizes = math.sqrt(UNIT + summing_error(len(c))) * np.sqrt(np.maximum(np.append(np.diagonal(C), yy), 0.0))
    if errors is not None:
        sizes = sizes + errors
    return _gaps(left, yy - fitted, h, sizes[:-1], float(sizes[-1]), n, coefs, alphas, l1_ratio, positive)


def moment_gaps(
    part: Part, d: int, coefs: np.ndarray, alphas: np.ndarray, l1_ratio: float, *, fit_intercept: bool, positive: bool,
    target: int = 0,
) -> LassoGaps:  # fmt: skip
    """The same in double-double, as the moments are: what is left uncertain is the noise of the moments themselves."""
    H, E = products_of(part, fit_intercept)
    G, at = (H[:d, :d], E[:d, :d]), d + target
    beta = np.ascontiguousarray(coefs.T), np.zeros((d, len(coefs)))
    right = tuple(np.repeat(v[:d, at : at + 1], len(coefs), axis=1) for v in (H, E))
    h = residual(G, beta, (right[0], right[1]))
    square = np.full(len(coefs), H[at, at]), np.full(len(coefs), E[at, at])
    left = np.maximum(quadratic(beta, (right[0], right[1]), h, square), 0.0)
    dots = quadratic(beta, (right[0], right[1]), np.zeros_like(h), square)  # yy − w·c
    noise = np.sqrt(part.noise + UNIT_DOUBLED * np.diagonal(H))
    return _gaps(
        left, dots, h.T, noise[:d], float(noise[at]), part.weight[0], coefs, alphas, l1_ratio, positive
    )  # fmt: skip


def _gaps(
    left: np.ndarray, dots: np.ndarray, h: np.ndarray, sizes: np.ndarray, target_size: float, n: float,
    coefs: np.ndarray, alphas: np.ndarray, l1_ratio: float, positive: bool,
) -> LassoGaps:  # fmt: skip
    """Gaps from ‖r‖², y'r and X'r, where a product of columns i and j may be wrong by sizes_i·sizes_j."""
    taus, mus = n * alphas * l1_ratio, n * alphas * (1.0 - l1_ratio)
    reach = target_size + np.abs(coefs) @ sizes
    unsure = reach[:, None] * sizes + 4.0 * UNIT * (np.abs(h) + np.abs(mus[:, None] * coefs))
    sums = Sums(left, dots, reach * reach + 4.0 * UNIT * left, target_size * reach + 4.0 * UNIT * np.abs(dots))
    return elastic_gaps(sums, coefs, h, unsure, taus, mus, n, positive)


def null_of_moments(part: Part, d: int, fit_intercept: bool, target: int = 0) -> float:
    """Half the mean square of the target, about its mean where an intercept or a constant column reaches that."""
    centred, mean = part.products[0], part.mean[0]
    about_mean = fit_intercept or bool(((np.diagonal(centred)[:d] == 0.0) & (mean[:d] != 0.0)).any())
    return 0.5 * float(products_of(part, about_mean)[0][d + target, d + target]) / float(part.weight[0])


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
