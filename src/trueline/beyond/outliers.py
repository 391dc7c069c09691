"""A line among outliers, by likelihood: with probability p a row is y ~ N(θ·x, σ²), otherwise y ~ N(μ, σ_huge²).

EM: each row's probability g of lying on the line, then weighted maximum likelihood, which is weighted least squares
for θ and weighted means for the rest; the log-likelihood never falls. It is unbounded (a line through few rows,
σ → 0), so σ is kept above 10⁻³ of the residuals' MAD and σ_huge above σ; both bounds are part of the maximisation (where
they cross, one common variance is the constrained maximum), which keeps the monotony. A start that ends at the floor,
or on a line that holds hardly more rows than it has parameters, is degenerate and is chosen only if all are.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from .. import dense
from ..certificates.certificate import Assumption, Status
from ..certificates.likelihood import MonotoneCertificate, line_status, monotone
from ..threads import one_blas_thread
from .highbreakdown import mad
from .robust import Table

FLOOR = 1e-3


@dataclasses.dataclass
class MixtureFit:
    """The parameters, each row's probability of being an outlier, and the likelihood after each step."""

    theta: np.ndarray
    probability: float
    sigma: float
    mu: float
    sigma_huge: float
    outlier: np.ndarray
    trace: tuple[float, ...]
    converged: bool
    degenerate: bool
    certificate: MonotoneCertificate | None = None

    @property
    def log_likelihood(self) -> float:
        return self.trace[-1]


def log_normal(values: np.ndarray, sigma: float) -> np.ndarray:
    """log N(values; 0, σ²)."""
    return -0.5 * (values / sigma) ** 2 - math.log(sigma * math.sqrt(2.0 * math.pi))


def posterior(
    residual: np.ndarray, off: np.ndarray, p: float, sigma: float, sigma_huge: float
) -> tuple[np.ndarray, np.ndarray]:
    """(each row's log-density, its probability of being an outlier) from y − θ·x and y − μ."""
    with np.errstate(divide="ignore"):
        line = np.log(p) + log_normal(residual, sigma)
        wide = np.log(1.0 - p) + log_normal(off, sigma_huge)
    density = np.logaddexp(line, wide)
    return density, np.exp(wide - density)


def fit_mixture(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    fit_intercept: bool = True,
    starts: int = 10,
    tol: float = 1e-9,
    max_iter: int = 1000,
    seed: int = 0,
) -> tuple[MixtureFit, list[MixtureFit]]:
    """(the best start's fit, all fits): highest likelihood among those that are not degenerate."""
    with one_blas_thread():
        table = Table(X, fit_intercept, weights)
        _, robust = table.search_start(y, seed)
        floor = FLOOR * mad(y - table.scores(robust), weights)
        floor = max(floor, 1e-10 * float(np.abs(y).max()), 1e-150)
        lines = [robust, table.step(y)]
        rng = np.random.default_rng(seed)
        chance = None if weights is None else weights / weights.sum()
        size = table.parameters + 1
        rows = len(y) if weights is None else int(np.count_nonzero(weights))
        while len(lines) < starts and rows >= size:
            chosen = rng.choice(len(y), size, replace=False, p=chance)
            lines.append(table.uncentred(dense.lstsq(table.rows(chosen), y[chosen], rcond=1e-12)[0]))
        fits = [_climb(table, y, weights, theta, floor, tol, max_iter) for theta in lines[: max(starts, 1)]]
    best = max(fits, key=lambda fit: (not fit.degenerate, fit.log_likelihood))
    best.certificate = _certificate(best, fits, table, y)
    return best, fits


def _climb(
    table: Table, y: np.ndarray, weights: np.ndarray | None, theta: np.ndarray, floor: float, tol: float, max_iter: int
) -> MixtureFit:
    """EM from one line."""
    w = np.ones(len(y)) if weights is None else weights
    total = float(w.sum())
    mu = float(w @ y) / total
    residual = y - table.scores(theta)
    sigma = max(mad(residual, weights), floor)
    sigma_huge = max(3.0 * math.sqrt(float(w @ (y - mu) ** 2) / total), sigma, floor)
    p = 0.7
    trace: list[float] = []
    converged = False
    outlier = np.zeros(len(y))
    for _ in range(max_iter):
        density, outlier = posterior(residual, y - mu, p, sigma, sigma_huge)
        trace.append(float(w @ density))
        if len(trace) > 1 and trace[-1] - trace[-2] <= tol * (1.0 + abs(trace[-1])):
            converged = True
            break
        inlier = 1.0 - outlier
        on, off = float(w @ inlier), float(w @ outlier)
        p = on / total
        if on > 1e-8 * total:
            theta = theta + table.reweighted(residual, inlier)
            residual = y - table.scores(theta)
        if off > 1e-12 * total:
            mu = float((w * outlier) @ y) / off
        line, wide = float((w * inlier) @ residual**2), float((w * outlier) @ (y - mu) ** 2)
        sigma = max(math.sqrt(line / on), floor) if on > 0.0 else sigma
        sigma_huge = max(math.sqrt(wide / off), floor) if off > 1e-12 * total else sigma_huge
        if sigma_huge < sigma:
            sigma = sigma_huge = max(math.sqrt((line + wide) / total), floor)
    else:  # what is told of the rows belongs to the last parameters
        density, outlier = posterior(residual, y - mu, p, sigma, sigma_huge)
        trace.append(float(w @ density))
    few = float(w @ (1.0 - outlier)) < 2.0 * table.rank * total / max(float(np.count_nonzero(w)), 1.0)
    degenerate = sigma <= floor * (1.0 + 1e-9) or few
    return MixtureFit(theta, p, sigma, mu, sigma_huge, outlier, tuple(trace), converged, degenerate)


def steepest(fit: MixtureFit, table: Table, y: np.ndarray) -> float:
    """The largest derivative of a row's mean log-likelihood, each parameter in units of its own: 0 at a stationary point.

    θ_j is measured in σ over the column's root mean square, μ and both σ in σ of their part, p as its log-odds. Where
    both σ are equal only a common change is free.
    """
    w = np.ones(len(y)) if table.weights is None else table.weights
    on, off = w * (1.0 - fit.outlier) / w.sum(), w * fit.outlier / w.sum()
    u, v = (y - table.scores(fit.theta)) / fit.sigma, (y - fit.mu) / fit.sigma_huge
    centred = table.rows(slice(None))
    length = np.sqrt(np.maximum(w @ centred**2 / w.sum(), 1e-300))
    spreads = [float(on @ (u * u - 1.0)), float(off @ (v * v - 1.0))]
    if not fit.sigma_huge > fit.sigma:
        spreads = [sum(spreads)]
    slopes = [*((on * u) @ centred / length).tolist(), float(off @ v), *spreads, float(on.sum() - fit.probability)]
    return float(np.abs(slopes).max())


def _certificate(best: MixtureFit, fits: list[MixtureFit], table: Table, y: np.ndarray) -> MonotoneCertificate:
    before, after = best.trace[:-1], best.trace[1:]
    stationarity = steepest(best, table, y)
    climbed = best.converged and monotone(before, after, rising=True)
    status = line_status(False, best.log_likelihood, math.nan, stationarity, 0.0) if climbed else Status.NOT_PROVEN
    advice = "" if best.converged else "the likelihood still rises; raise max_iter or tol"
    if best.converged and status is Status.NOT_PROVEN:
        advice = "the steps ended before the likelihood was flat; lower tol"
    if best.degenerate:
        status, advice = Status.DEGENERATE, "every start ended on a line through few rows, or with rows exactly on it"
    healthy = [fit for fit in fits if not fit.degenerate]
    near = sum(abs(fit.log_likelihood - best.log_likelihood) <= 1e-6 * (1 + abs(best.log_likelihood)) for fit in fits)
    return MonotoneCertificate(
        status=status,
        advice=advice,
        assumptions=(
            Assumption(
                "the best likelihood was reached from more than one start",
                near > 1,
                float(near),
                2.0,
                "raise n_starts: the likelihood has several maxima",
            ),
        ),
        objective=best.log_likelihood,
        before=before,
        after=after,
        rising=True,
        stationarity=stationarity,
        degrees_of_freedom=float(table.rank + 4),
        note=f"{near} of {len(fits)} starts reached this maximum, {len(fits) - len(healthy)} were degenerate; a maximum "
        "over several starts need not be the highest",
    )


def outlier_probability(fit: Any, residual: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The probability that rows with these residuals and targets are outliers."""
    return posterior(residual, y - fit["mu"], fit["probability"], fit["sigma"], fit["sigma_huge"])[1]
