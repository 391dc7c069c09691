"""Robust M-estimation of a line: Σρ((y − θ·x)/s) made small, the scale s re-estimated from the residuals.

A step is least squares with the weights ψ(u)/u of the present residuals u = r/s; at this s it never raises Σρ. The
path, the scale, the stopping rule (``tol`` on the relative change of the residuals) and the standard errors are those of R's
``rlm``: s is the median of |r| over 0.6745, or Huber's proposal 2; Var θ = [Σψ²s²/(n − p)]·(κ/mean ψ')²·(AᵀA)⁻¹ with
κ = 1 + p·var(ψ')/(n·(mean ψ')²). AᵀA is formed once; a step subtracts from it only the rows whose weight is below 1.

Beyond R's rule the iteration goes on until the scale is that of the residuals to ``SCALE_ERROR``: among large outliers
R's, which measures changes against all residuals, stops while the scale is still twice its final size.

Huber's ρ is convex: a dual point shows how far Σρ is above its least value at the final scale, and the fit is proven.
Redescending ψ have local minima, so that the start matters, and are called stationary. The high-breakdown fit starts at an S-estimate and keeps
its scale (an MM-estimate). "auto" keeps the fit from least squares, R's default, unless the S-estimate finds a scale
under half of that fit's: then something sits where least squares went.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from .. import dense
from ..certificates.certificate import Assumption, Status
from ..certificates.likelihood import SCALE_ERROR, MonotoneCertificate, line_status, monotone
from ..certificates.optimality import PROVEN_GAP
from ..errors import DataError
from ..threads import get_threads, one_blas_thread, spread
from .highbreakdown import HALF, TARGET, mad, robust_start, rough_mad, s_scale, solved
from .psi import psi_named

SCALES = ("mad", "huber")
STARTS = ("auto", "least-squares", "high-breakdown")
PROPOSAL = 1.345
KEPT = 0.5
FAR = 1e3  # standard deviations
BLOCK = 2048
EPS = float(np.finfo(float).eps)
DUAL_STEPS = 50  # further steps, at most, for a dual point


@dataclasses.dataclass
class RobustFit:
    """θ with the intercept last (if there is one), the scale, each row's weight, and the figures for inference."""

    theta: np.ndarray
    scale: float
    weights: np.ndarray
    covariance: np.ndarray
    certificate: MonotoneCertificate
    iterations: int
    start: str


def proposal_two(residual: np.ndarray, scale: float, weights: np.ndarray | None, left: float) -> float:
    """One step of Huber's proposal 2: s² = Σ min(r², k²s²)/((n − p)·γ), γ = E min(z², k²)."""
    inside = math.erf(PROPOSAL / math.sqrt(2.0))
    density = math.exp(-0.5 * PROPOSAL**2) / math.sqrt(2.0 * math.pi)
    gamma = inside + PROPOSAL**2 * (1.0 - inside) - 2.0 * PROPOSAL * density
    clipped = np.minimum(residual * residual, (PROPOSAL * scale) ** 2)
    return math.sqrt(float(clipped.sum() if weights is None else clipped @ weights) / (left * gamma))


def _lengths(gram: np.ndarray) -> np.ndarray:
    """The length of each column by its square; infinite where it is 0, so that such a column counts for nothing."""
    squares = np.diagonal(gram)
    return np.where(squares > 0.0, np.sqrt(np.maximum(squares, 0.0)), np.inf)


class Table:
    """The rows with an intercept column that is never stored: centred products, and weighted least squares."""

    def __init__(self, X: np.ndarray, fit_intercept: bool, weights: np.ndarray | None) -> None:
        self.X, self.fit_intercept, self.weights = X, fit_intercept, weights
        self.count = float(len(X) if weights is None else weights.sum())
        self.mean = np.average(X, axis=0, weights=weights) if fit_intercept else np.zeros(X.shape[1])
        # The mean of a constant column is known to its rounding: what is left of the column without it is nothing else.
        ends = np.array([X.min(axis=0), X.max(axis=0)])
        limit = 4.0 * EPS * np.abs(ends).max(axis=0, initial=0.0) * fit_intercept
        self.varies = 1.0 * (np.abs(ends - self.mean).max(axis=0, initial=0.0) > limit)
        self.gram = self._gram(None, weights)
        unit = _lengths(self.gram)
        values, vectors = dense.eigh(self.gram / unit / unit[:, None])
        kept = values > 1e-13 * values[-1]
        self.weak = not values[0] > 1e-8 * values[-1]  # squares of columns tell less than half of their digits
        self.rank = int(kept.sum())
        self.inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T / unit / unit[:, None]

    @property
    def parameters(self) -> int:
        return self.X.shape[1] + int(self.fit_intercept)

    def rows(self, which: Any) -> np.ndarray:
        """Centred rows, with the intercept's column last."""
        B = (self.X[which] - self.mean) * self.varies
        return np.column_stack([B, np.ones(len(B))]) if self.fit_intercept else B

    def _gram(self, which: np.ndarray | None, weights: np.ndarray | None) -> np.ndarray:
        """Σ w·a·aᵀ over rows, by blocks that fit in the cache, spread over threads."""

        def part(bounds: tuple[int, int]) -> np.ndarray:
            G = np.zeros((self.parameters, self.parameters))
            for a in range(bounds[0], bounds[1], BLOCK):
                b = min(a + BLOCK, bounds[1])
                B = self.rows(slice(a, b) if which is None else which[a:b])
                G += B.T @ B if weights is None else (B * weights[a:b, None]).T @ B
            return G

        count = len(self.X) if which is None else len(which)
        step = max(BLOCK, -(-count // (get_threads() or 1)))
        pieces = [(a, min(a + step, count)) for a in range(0, count, step)]
        return sum(spread(part, pieces), np.zeros((self.parameters, self.parameters)))

    def scores(self, theta: np.ndarray) -> np.ndarray:
        d = self.X.shape[1]
        out = self.X @ theta[:d]
        return out + theta[d] if self.fit_intercept else out

    def uncentred(self, found: np.ndarray) -> np.ndarray:
        """θ of the rows themselves from θ of ``rows``."""
        if self.fit_intercept:
            found = found.copy()
            found[-1] -= self.mean @ found[:-1]
        return found

    def _correlation(self, values: np.ndarray) -> np.ndarray:
        total = float(values.sum())
        slopes = (self.X.T @ values - self.mean * total) * self.varies
        return np.append(slopes, total) if self.fit_intercept else slopes

    def step(self, residual: np.ndarray) -> np.ndarray:
        """(AᵀA)⁻¹Aᵀ·residual."""
        weighed = residual if self.weights is None else residual * self.weights
        return self.uncentred(self.inverse @ self._correlation(weighed))

    def reweighted(self, residual: np.ndarray, row_weights: np.ndarray) -> np.ndarray:
        """(AᵀWA)⁻¹AᵀW·residual: how far θ moves when rows weigh this much (times their own weight)."""
        w = row_weights if self.weights is None else row_weights * self.weights
        lower = np.flatnonzero(row_weights < 1.0)
        if len(lower) < 0.5 * len(w):
            lost = 1.0 - row_weights[lower]
            G = self.gram - self._gram(lower, lost if self.weights is None else lost * self.weights[lower])
        else:
            G = self._gram(None, w)
        unit = _lengths(G)
        return self.uncentred(solved(G / unit / unit[:, None], self._correlation(w * residual) / unit) / unit)

    def orthogonal(self, values: np.ndarray) -> np.ndarray:
        """``values`` less their projection on the columns, twice, so that rounding does not stay.

        No direction is left out but what is none at all in these numbers: a point that is orthogonal to the columns that
        a fit keeps, and not to one that it gave up, bounds nothing.
        """
        if not self.weak:
            for _ in range(2):
                values = values - self.scores(self.step(values))
            return values
        root = np.ones(len(self.X)) if self.weights is None else np.sqrt(self.weights)
        B = self.rows(slice(None)) / _lengths(self.gram)
        for _ in range(2):
            found = dense.lstsq(B * root[:, None], values * root, rcond=max(B.shape) * EPS)[0]
            values = values - B @ found
        return values

    def stationarity(self, psi: np.ndarray) -> float:
        """The largest correlation of a column with ψ(r/s): 0 at a solution."""
        weighed = psi if self.weights is None else psi * self.weights
        size = np.sqrt(np.diagonal(self.gram) * max(float(weighed @ psi), 1e-300))
        return float(np.max(np.abs(self._correlation(weighed)) / np.where(size > 0.0, size, 1.0)))

    def search_start(self, y: np.ndarray, seed: int) -> tuple[float, np.ndarray]:
        """(scale, θ) of an S-estimate. Columns far from zero are centred for it: its small systems would lose them."""
        B = self.rows(slice(None))
        if not self.fit_intercept or (np.abs(self.mean) <= FAR * np.sqrt(np.mean(B[:, :-1] ** 2, axis=0))).all():
            return robust_start(np.column_stack([self.X, *B.T[self.X.shape[1] :]]), y, self.weights, seed=seed)
        scale, theta = robust_start(B, y, self.weights, seed=seed)
        return scale, self.uncentred(theta)

    def unscaled(self) -> np.ndarray:
        """(AᵀA)⁻¹ with the intercept first."""
        if not self.fit_intercept:
            return self.inverse
        d = self.X.shape[1]
        change = np.eye(d + 1)
        change[d, :d] = -self.mean
        order = [d, *range(d)]
        return (change @ self.inverse @ change.T)[np.ix_(order, order)]


def fit_robust(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    psi: Any = "huber",
    tuning: Any = None,
    scale: str = "mad",
    start: str = "auto",
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 100,
    seed: int = 0,
) -> RobustFit:
    """Reweighting from least squares with a moving scale, or from an S-estimate with its scale kept."""
    with one_blas_thread():
        return _fit(X, y, weights, psi, tuning, scale, start, fit_intercept, tol, max_iter, seed)


def _fit(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, psi: Any, tuning: Any, scale: str, start: str,
    fit_intercept: bool, tol: float, max_iter: int, seed: int,
) -> RobustFit:  # fmt: skip
    part = psi_named(psi, tuning)
    table = Table(X, fit_intercept, weights)
    left = table.count - table.rank
    if left <= 0:
        raise DataError(
            f"{table.count:g} rows cannot judge {table.parameters} parameters and a scale: n_samples={len(y)}, and robust "
            "regression needs more rows than parameters",
            where="X",
        )
    plain = (
        None if start == "high-breakdown" else _Run(table, y, part, scale, left).go(table.step(y), None, tol, max_iter)
    )
    chosen = plain
    if start == "high-breakdown" or (start == "auto" and part.redescending):
        s, theta = table.search_start(y, seed)
        if plain is None or s < KEPT * s_scale(plain.residual, plain.scale or s, weights, len(y), table.rank):
            chosen = _Run(table, y, part, scale, left).go(theta, s, tol, max_iter)
    assert chosen is not None
    return chosen.result(psi, tol)


class _Run:
    """One descent: the present point, and the objective around every step."""

    def __init__(self, table: Table, y: np.ndarray, part: Any, scale: str, left: float) -> None:
        self.table, self.y, self.part, self.kind, self.left = table, y, part, scale, left
        self.before: list[float] = []
        self.after: list[float] = []
        self.change = self.scale_error = math.inf
        self.high = False
        self.widest = np.abs(table.X).max(axis=0, initial=0.0)
        self.floor = 0.0

    def total(self, values: np.ndarray) -> float:
        return float(values.sum() if self.table.weights is None else values @ self.table.weights)

    def go(self, theta: np.ndarray, fixed: float | None, tol: float, max_iter: int) -> _Run:
        table, part, y = self.table, self.part, self.y
        self.high = fixed is not None
        self.theta, self.residual = theta, y - table.scores(theta)
        self.floor = self.rounding()
        self.scale = mad(self.residual, table.weights) if fixed is None else fixed
        for _ in range(max_iter):
            self.scale = self.scale_of_residuals() if fixed is None else fixed
            if not self.scale > self.floor:
                break
            u = self.residual / self.scale
            self.before.append(self.total(part.rho(u)))
            self.theta = self.theta + table.reweighted(self.residual, part.weight(u))
            new = y - table.scores(self.theta)
            self.after.append(self.total(part.rho(new / self.scale)))
            moved = self.total((new - self.residual) ** 2) / max(1e-20, self.total(self.residual**2))
            self.residual, self.change = new, math.sqrt(moved)
            self.floor = self.rounding()
            self.scale_error = abs(self.scale_of_residuals() - self.scale) / self.scale if fixed is None else 0.0
            if self.change <= tol and self.scale_error <= SCALE_ERROR:
                break
        return self

    def not_an_s_estimate(self, objective: float, exact: bool) -> bool:
        """Whether a kept scale is none of an S-estimate: too small, or twice as large as this line's own.

        Σρ(r/s) ≤ ½ρ(∞)(n − p) holds from the start on, where ρ is bounded; and no line may have a smaller scale.
        """
        if not self.high or exact:
            return False
        top = float(self.part.rho(np.array([1e9]))[0])
        left = max(self.table.count - self.table.parameters, 0.5 * self.table.count)
        bounded = type(self.part).__name__ not in ("Huber", "Cauchy")
        own = self.total(HALF.rho(self.residual / (0.5 * self.scale)))
        return (bounded and objective > 0.5 * top * left * (1.0 + 1e-6)) or own < TARGET * left * (1.0 - 1e-6)

    def rounding(self) -> float:
        """A scale of this size is the rounding of y − θ·x, not noise."""
        terms = np.abs(self.theta[: len(self.widest)]) * self.widest
        return 1e-13 * max(float(np.abs(self.y).max()), float(terms.max(initial=0.0)), 1e-300)

    def scale_of_residuals(self) -> float:
        if self.kind == "mad":
            return rough_mad(self.residual, self.table.weights)
        return proposal_two(self.residual, self.scale, self.table.weights, self.left)

    def gap(self, s: float) -> float:
        """How far Huber's Σρ(r/s) is above its least value, at most, by Fenchel's inequality.

        Any v in [−k, k] that is orthogonal to the columns gives ρ(u) + ½v² − uv ≥ 0 a row, and their sum is the gap.
        The residuals of a further point, nearer to the minimum, give v.
        """
        u, k, theta, best = self.residual / s, self.part.k, self.theta, math.inf
        here, residual = self.part.rho(u), self.residual
        for _ in range(DUAL_STEPS):
            v = self.table.orthogonal(self.part.psi(residual / s))
            v = v * min(1.0, k / max(float(np.abs(v).max()), 1e-300))
            best = min(best, self.total(here + 0.5 * v * v - u * v))
            if best <= 0.01 * PROVEN_GAP * self.total(here):
                break
            theta = theta + self.table.reweighted(residual, self.part.weight(residual / s))
            residual = self.y - self.table.scores(theta)
        return max(best, 0.0)

    def result(self, name: str, tol: float) -> RobustFit:
        table, part, s = self.table, self.part, self.scale
        exact = not s > self.floor
        if exact:  # at least half of the rows lie on one plane: only they count
            row_weights = (np.abs(self.residual) <= 1e3 * self.floor).astype(float)
            covariance, stationarity, objective = np.zeros((table.parameters,) * 2), 0.0, 0.0
            self.scale_error, gap = 0.0, math.nan
        else:
            u = self.residual / s
            row_weights = part.weight(u)
            covariance = rlm_covariance(table, part, u, s, self.left, self.total)
            stationarity, objective = table.stationarity(part.psi(u)), self.total(part.rho(u))
            gap = math.nan if part.redescending else self.gap(s)
        return RobustFit(
            self.theta,
            float(s),
            row_weights,
            covariance,
            _certificate(self, name, exact, tol, objective, gap, stationarity),
            len(self.after),
            "high-breakdown" if self.high else "least-squares",
        )


def rlm_covariance(table: Table, part: Any, u: np.ndarray, s: float, left: float, total: Any) -> np.ndarray:
    """Huber's first asymptotic form, intercept first."""
    slope = part.slope(u)
    mean = total(slope) / table.count
    if not mean > 0.0:
        return np.full((table.parameters,) * 2, np.nan)
    variance = total((slope - mean) ** 2) / max(table.count - 1.0, 1.0)
    kappa = 1.0 + table.parameters * variance / (table.count * mean * mean)
    spread = total((s * part.psi(u)) ** 2) / left
    return spread * (kappa / mean) ** 2 * table.unscaled()


def _certificate(
    run: _Run, name: str, exact: bool, tol: float, objective: float, gap: float, stationarity: float
) -> MonotoneCertificate:
    before, after = tuple(run.before), tuple(run.after)
    converged = exact or (run.change <= tol and monotone(before, after, rising=False))
    status = line_status(not (run.part.redescending or exact), objective, gap, stationarity, run.scale_error)
    status = status if converged else Status.NOT_PROVEN
    advice = ""
    if run.not_an_s_estimate(objective, exact):
        status, advice = Status.NOT_PROVEN, "too few rows for the scale of a high-breakdown start; use 'least-squares'"
    elif not converged:
        advice = f"the last step changed the residuals by {run.change:.2g}; raise max_iter or tol"
    elif status is Status.NOT_PROVEN and not run.scale_error <= SCALE_ERROR:
        advice = f"the scale differs from that of the residuals by {run.scale_error:.2g} of itself; raise max_iter"
    elif status is Status.NOT_PROVEN:
        advice = "the steps ended before the objective was flat; lower tol"
    note = {
        "huber": "bounded pull in y, but a single row far out in x can carry the fit away",
        "cauchy": "pull falls with distance but never ends",
    }.get(name, "rows beyond the last constant do not pull")
    if run.high:
        note += "; started where fewer than half of the rows cannot move it"
    elif run.part.redescending:
        note += "; started at least squares, whose scale the high-breakdown start did not undercut"
    if run.table.rank < run.table.parameters:  # the least value is the same, and not reached by one θ alone
        note += "; columns depend on others, so that other coefficients fit as well"
    return MonotoneCertificate(
        status=status,
        advice=advice,
        assumptions=(
            Assumption(
                "the objective is convex at the final scale",
                not run.part.redescending,
                remedy="psi='huber' has no local minima",
            ),
        ),
        objective=objective,
        gap=gap if status is Status.PROVEN else math.nan,
        before=before,
        after=after,
        stationarity=stationarity,
        scale_error=run.scale_error,
        degrees_of_freedom=float(run.table.rank),
        breakdown=0.5 if run.high and name in ("bisquare", "hampel", "andrews") else 0.0,
        note="at least half of the rows lie exactly on the fit" if exact else note,
    )
