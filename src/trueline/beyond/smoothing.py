"""Fitting a locally weighted regression: robust iterations, the surface, its figures, the choice of a width.

Robust iterations weigh rows by the bisquare of their residuals over six medians and fit again, as R's lowess does. The
fit is linear in y, ŷ = Ly, so that tr L (effective degrees of freedom), leave-one-out errors r/(1 − l_ii), and standard
errors σ‖l(q)‖ come with it; σ² = RSS/(n − 2 tr L + tr LLᵀ), or after robust iterations the MAD with the same correction.

Small tables are fitted at every row; large ones at the corners of k-d cells (``loess_nd``), or with R's ``delta`` at rows
that far apart and by straight lines between. What that costs in accuracy is measured on a sample of rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..certificates.certificate import Assumption, Status
from ..certificates.likelihood import MonotoneCertificate, local_status
from ..errors import UsageError
from ..nonlinear.loess_nd import Cells
from .highbreakdown import mad, weighted_median
from .local import LocalModel, Settings

KERNELS = ("tricube", "gaussian")
SURFACES = ("auto", "exact", "interpolate")
RULES = ("gcv", "cv")
# Beyond this many weighings a fit at every row takes minutes, and "auto" turns to cells.
MOST_SORTED, MOST_SCATTERED = 2e10, 4e8
MOST_VARIABLES = 4  # a cell has 2^p corners
SHARES = (64, 8)  # rows of a cell: the neighbourhood's over this, in one and in several variables
CHECKED = 200


def lowess_knots(x: np.ndarray, delta: float) -> np.ndarray:
    """The rows at which R's lowess fits: never more than ``delta`` apart where rows allow it.

    >>> lowess_knots(np.array([0.0, 0.4, 0.9, 1.3, 3.0]), 1.0)
    array([0, 2, 3, 4])
    """
    n, i = len(x), 0
    found = []
    while True:
        found.append(i)
        last = int(np.searchsorted(x, x[i], side="right")) - 1
        if last >= n - 1:
            return np.array(found)
        i = max(last + 1, int(np.searchsorted(x, x[last] + delta, side="right")) - 1)


def robustness(residual: np.ndarray, case: np.ndarray, rounding: float) -> np.ndarray | None:
    """Bisquare weights over six medians, with lowess's constants; None where residuals are only rounding."""
    size = np.abs(residual)
    weights = case if case.size else None
    limit = 6.0 * weighted_median(size, weights)
    if limit < 1e-7 * float(np.average(size, weights=weights)) or limit <= rounding:
        return None
    inside = np.where(size <= 0.001 * limit, 1.0, (1.0 - (size / limit) ** 2) ** 2)
    return np.where(size <= 0.999 * limit, inside, 0.0)


def fit_local(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, settings: Settings, terms: tuple[str, ...]
) -> LocalModel:
    """The smoother with its robust iterations, surface, degrees of freedom and σ; rows keep their order in ``fitted``."""
    n, p = X.shape
    unit = np.ones(p)
    if settings.bandwidth is None and p > 1:
        centre = np.average(X, axis=0, weights=weights)
        unit = np.sqrt(np.average((X - centre) ** 2, axis=0, weights=weights))
        unit[~(unit > 0.0)] = 1.0
    order = np.argsort(X[:, 0], kind="stable") if p == 1 else np.arange(n)
    model = LocalModel(
        settings,
        np.ascontiguousarray((X / unit)[order]),
        np.ascontiguousarray(y[order]),
        np.zeros(0) if weights is None else np.ascontiguousarray(weights[order]),
        np.ones(n),
        unit,
        terms,
        np.zeros(n),
    )
    read = _surface(model)
    for _ in range(settings.robust_iterations):
        rough = _own_where_lost(model, read(False))
        new = robustness(model.y - rough[:, 0], model.case, 1e-12 * float(np.abs(model.y).max()))
        if new is None:
            break
        model.robust = new
    found = _own_where_lost(model, read(True))
    _figures(model, found)
    model.fitted = np.empty(n)
    model.fitted[order] = found[:, 0]
    model.robustness = np.empty(n)
    model.robustness[order] = model.robust
    return model


def _own_where_lost(model: LocalModel, found: np.ndarray) -> np.ndarray:
    """A row without a neighbour of any weight is fitted by itself; rows of one x, as in R's lowess, by their first."""
    lost = np.flatnonzero(np.isnan(found[:, 0]))
    if lost.size:
        first = np.searchsorted(model.Z[:, 0], model.Z[lost, 0]) if model.sorted else lost
        found[lost, 0] = model.y[first]
        found[lost, 1:] = 1.0
    return found


def _surface(model: LocalModel) -> Any:
    """How the model is evaluated at its own rows: a function of whether the smoother's squares are wanted."""
    s, Z = model.settings, model.Z
    n, p = Z.shape
    passes = s.robust_iterations + 1
    share = 1.0 if s.fraction is None else min(s.fraction, 1.0)
    heavy = n * n * share * passes > MOST_SORTED if p == 1 else n * n * passes > MOST_SCATTERED
    if s.delta > 0.0:
        if p > 1:
            raise UsageError(f"delta is for one variable, and X has {p}; use surface='interpolate'", where="delta")
        model.surface = "knots"
        rows = lowess_knots(Z[:, 0], s.delta)
        model.knots = Z[rows, 0]
        h = model.spans(Z[rows])

        def at_knots(full: bool) -> np.ndarray:
            model.nodes = model.direct(Z[rows], h, full)
            lost = np.isnan(model.nodes[:, 0])
            model.nodes[lost, 0] = model.y[rows[lost]]
            model.nodes[lost, 1:] = 0.0
            return model.from_knots(Z)

        return at_knots
    if s.surface == "interpolate" and p > MOST_VARIABLES:
        raise UsageError(
            f"surface='interpolate' takes up to {MOST_VARIABLES} variables, and X has {p}; use surface='exact'",
            where="surface",
        )
    if p <= MOST_VARIABLES and n > 2 and (s.surface == "interpolate" or (s.surface == "auto" and heavy)):
        model.surface = "cells"
        near = n * share if s.fraction is not None else n / 10
        model.cells = Cells.build(Z, max(1, int(near / SHARES[p > 1])))
        leaf = model.cells.locate(Z)
        h = model.spans(model.cells.vertices)

        def at_corners(full: bool) -> np.ndarray:
            assert model.cells is not None
            model.nodes = model.reaching(model.cells.vertices, h, full)
            return model.from_cells(Z, leaf, full)

        return at_corners
    places, back = (Z, np.arange(n)) if p > 1 else _distinct(Z)
    h = model.spans(places)
    return lambda full: model.direct(places, h, full)[back, :3]


def _distinct(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, back = np.unique(Z[:, 0], return_inverse=True)
    return x[:, None], np.ravel(back)


def _figures(model: LocalModel, found: np.ndarray) -> None:
    """tr L, σ, the scores of the choice of width, and the certificate."""
    error = _interpolation_error(model, found) if model.surface != "exact" else math.nan
    residual = model.y - found[:, 0]
    case = model.case if model.case.size else np.ones(len(residual))
    own = np.clip(found[:, 1] * model.robust * case, 0.0, 1.0)
    W = model.total
    model.trace = float(own.sum())
    model.left = W - 2.0 * model.trace + float(case @ found[:, 2])
    model.left = model.left if model.left > 1e-9 * W else 0.0  # rounding is no freedom
    if model.settings.robust_iterations > 0 and model.left > 0.0:
        model.sigma = mad(residual, case if model.case.size else None) * math.sqrt(W / model.left)
    else:
        model.sigma = math.sqrt(float(case @ residual**2) / model.left) if model.left > 0.0 else math.nan
    counted = case * model.robust
    share = float(counted @ residual**2) / float(counted.sum())
    model.gcv = share / (1.0 - model.trace / W) ** 2 if model.trace < W else math.inf
    kept = own < 1.0 - 1e-12
    without = np.divide(residual, 1.0 - own / np.maximum(case, 1e-300), out=np.full_like(residual, np.inf), where=kept)
    model.left_out = without
    model.cv = float(counted @ without**2) / float(counted.sum()) if kept.all() else math.inf
    exact = model.surface == "exact"
    none_left = (
        "the curve passes through its rows, so that nothing is known about its errors; give more rows or a wider window"
    )
    status = local_status(exact, model.left > 0.0)
    model.certificate = MonotoneCertificate(
        status=status,
        advice=none_left
        if status is Status.DEGENERATE
        else ""
        if exact
        else f"the error is the largest seen at {min(CHECKED, len(residual))} rows; surface='exact' fits at every row",
        assumptions=(
            Assumption(
                "the residuals have some degrees of freedom left",
                model.left > 0.0,
                model.left,
                0.0,
                "take a wider fraction or bandwidth",
            ),
        ),
        objective=float(counted @ residual**2),
        degrees_of_freedom=model.trace,
        breakdown=0.0,
        note=f"{model.settings.robust_iterations} robust iterations; a window whose rows are mostly outliers follows them"
        if model.settings.robust_iterations
        else "least squares in every window: a single outlier moves the fit around it",
        interpolation_error=error,
    )


def _interpolation_error(model: LocalModel, found: np.ndarray) -> float:
    """The largest |interpolated − fitted| over a sample of rows, with the same robustness weights.

    Leverages peak at the corners of cells; their level between is set by the same sample. Rows are drawn evenly along
    the sum of their interpolated leverages, so that the few of high leverage, which carry much of tr L and where the
    surface bends most, are seen; each then counts with the inverse of its chance.
    """
    own = model.robust * model.case if model.case.size else model.robust
    found[:, 1] = np.minimum(
        found[:, 1], 1.0 / np.maximum(own, 1e-300)
    )  # corners without rows have more than is possible
    chance = np.maximum(found[:, 1], 1e-3 * max(float(found[:, 1].mean()), 1e-300))
    order = np.argsort(chance, kind="stable")
    along = np.cumsum(chance[order])
    many = CHECKED if model.sorted else CHECKED // 2
    places = (np.arange(many) + 0.5) / many * along[-1]
    rows = order[np.minimum(np.searchsorted(along, places), len(order) - 1)]
    direct = model.direct(model.Z[rows], model.spans(model.Z[rows]))
    sound = np.isfinite(direct[:, 0])
    if not sound.any():
        return math.inf
    rows, direct = rows[sound], direct[sound]
    for c in (1, 2) if model.surface == "cells" else ():
        level = float((direct[:, c] / chance[rows]).sum() / (found[rows, c] / chance[rows]).sum())
        found[:, c] *= level
        model.nodes[:, c] *= level
    return float(np.abs(direct[:, 0] - found[rows, 0]).max())


def candidates(X: np.ndarray, settings: Settings, by: str) -> np.ndarray:
    """Widths to try: fractions of the rows, or bandwidths around the data's spread."""
    n, p = X.shape
    few = (1, 1 + p, 1 + p + p * (p + 1) // 2)[settings.degree] + 2
    if by == "fraction":
        return np.geomspace(min(max(0.03, few / n), 1.0), 1.0, 14)
    spread_out = float(np.sqrt(np.mean(np.var(X, axis=0)))) or 1.0
    return spread_out * np.geomspace(0.03, 3.0, 16) * (1.0 if settings.kernel == "gaussian" else 2.5)


def choose(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None,
    settings: Settings,
    terms: tuple[str, ...],
    by: str,
    rule: str,
) -> LocalModel:
    """The model of least score, with the widths tried and their scores, by generalised or leave-one-out cross-validation.

    With robust iterations both rules take the leave-one-out errors, clipped at three times their smallest MAD.
    """
    grid = candidates(X, settings, by)
    models = [fit_local(X, y, weights, Settings(**(vars(settings) | {by: float(width)})), terms) for width in grid]
    if settings.robust_iterations == 0:
        scores = np.array([model.gcv if rule == "gcv" else model.cv for model in models])
    else:  # rows may not vote themselves out of the score: all count, clipped at one scale for all widths
        case = models[0].case if models[0].case.size else None
        limit = 3.0 * min(mad(model.left_out, case) for model in models)
        scores = np.array([np.average(np.minimum(model.left_out**2, limit**2), weights=case) for model in models])
    best = models[int(np.nanargmin(np.where(np.isfinite(scores), scores, np.inf)))]
    best.tried, best.scores = grid, scores
    return best
