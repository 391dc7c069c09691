"""Fits over rows in memory: logistic regression and the other losses, penalised or not, alpha by cross-validation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dense
from ..errors import UsageError
from .heldout import mean_over_rows

GRID, DEPTH = 15, 1e-4  # penalties tried by cross-validation, evenly in the logarithm, and how far down they go
MOST = 40  # penalties at most, where columns of very different size ask for more


def fit_rows(
    asked: Any, loss: str, X: np.ndarray, y: np.ndarray, weights: Any, folds: np.ndarray | None, schema: Any
) -> tuple[Any, float | None, list[dict[str, Any]], list[dict[str, Any]]]:
    """(record, alpha, cross-validation rows, curves)."""
    if asked.penalty == "none":
        return one_fit(asked, loss, X, y, weights, schema, 0.0), None, [], []
    if asked.alpha != "cv":
        return one_fit(asked, loss, X, y, weights, schema, float(asked.alpha)), float(asked.alpha), [], []
    from .console import progress

    alphas = grid(loss, X, y, asked.penalty, schema.intercept)
    part = scored_by(loss, X, y, schema.intercept)
    scores = np.full((asked.folds, len(alphas)), np.nan)
    assert folds is not None
    known = set(np.unique(y).tolist()) if loss_is_sign(loss) else set()
    used = [k for k in range(asked.folds) if 0 < (folds == k).sum() < len(y) and known <= {*y[folds != k].tolist()}]
    pairs = [(k, j) for k in used for j in range(len(alphas))]
    for k, j in progress(pairs, "cross-validating", total=len(pairs)):
        out = folds == k
        own, other = (None, None) if weights is None else (weights[~out], weights[out])
        fitted = one_fit(asked, loss, X[~out], y[~out], own, schema, float(alphas[j]))
        scores[k, j] = mean_loss(part, fitted, X[out], y[out], other)
    usable = np.isfinite(scores).all(axis=1)
    if not usable.any():
        raise UsageError("the folds are too small to choose alpha by; give it as a number", where="alpha")
    sizes = np.bincount(folds, weights, asked.folds)[usable]
    mean, error = mean_over_rows(scores[usable].T, sizes)
    error = np.where(np.isfinite(error), error, 0.0)
    best = int(np.argmin(mean))
    record = one_fit(asked, loss, X, y, weights, schema, float(alphas[best]))
    row = {
        "method": asked.penalty, "alpha": float(alphas[best]), "error": float(mean[best]),
        "std_error": float(error[best]), "nonzero": int(np.count_nonzero(record.coef)),
    }  # fmt: skip
    return (
        record,
        float(alphas[best]),
        [row],
        [{"name": asked.penalty, "alphas": alphas, "mean": mean, "error": error, "level": None}],
    )


def loss_is_sign(loss: str) -> bool:
    from .fitting import SIGNS

    return loss in SIGNS


def grid(loss: str, X: np.ndarray, y: np.ndarray, penalty: str = "lasso", intercept: bool = True) -> np.ndarray:
    """Penalties from the one that silences every column down to one that leaves the smallest column free."""
    t = np.where(y == np.unique(y)[-1], 0.5, -0.5) if loss_is_sign(loss) else y.astype(float)
    t, centred = (t - t.mean(), X - X.mean(axis=0)) if intercept else (t, X)
    top = max(float(np.abs(centred.T @ t).max(initial=0.0)) / len(y), 1e-12)
    spread = np.sqrt((centred**2).mean(axis=0))
    least = float(np.min(spread[spread > 0], initial=math.inf))
    small = top * least / float(spread.max(initial=1e-300)) if penalty == "lasso" else least**2
    low = max(DEPTH * min(top, small), 1e-14 * top)
    count = min(MOST, round(GRID * math.log(low / top) / math.log(DEPTH)))
    return np.geomspace(top, low, max(GRID, count))


def one_fit(asked: Any, loss: str, X: np.ndarray, y: np.ndarray, weights: Any, schema: Any, alpha: float) -> Any:
    """The record of one penalty."""
    ratio = {"none": 0.0, "ridge": 0.0, "lasso": 1.0, "elastic": asked.l1_ratio}[asked.penalty]
    if loss == "logistic":
        from ..model.iterated import fit_logistic

        total = float(len(X) if weights is None else np.sum(weights))
        strength = math.inf if alpha == 0.0 else 1.0 / (alpha * total)
        return fit_logistic(
            X,
            y,
            C=strength,
            l1_ratio=ratio,
            fit_intercept=schema.intercept,
            sample_weight=weights,
            terms=schema.terms,
            target=asked.target,
            schema=schema,
        )
    from ..model.iterated import fit_generalized, penalty_of
    from ..objective.losses import resolve_loss

    part, penalty, start = resolve_loss(loss), penalty_of(alpha, ratio), None
    if loss == "huber":
        start, delta = least_squares_start(X, y, schema.intercept)
        part = resolve_loss("huber", delta=delta)
    if loss_is_sign(loss):
        return _margin_fit(asked, loss, X, y, weights, schema, (part, penalty))
    return fit_generalized(
        X,
        y,
        loss=part,
        penalty=penalty,
        fit_intercept=schema.intercept,
        sample_weight=weights,
        start=start,
        terms=schema.terms,
        target=asked.target,
        schema=schema,
    )


def _margin_fit(
    asked: Any, loss: str, X: np.ndarray, y: np.ndarray, weights: Any, schema: Any, terms: tuple[Any, Any]
) -> Any:
    """The record of a loss of signs, for two classes: ``terms`` are the loss and the penalty."""
    from ..estimators.minimize import minimize
    from ..model.iterated import objective_of
    from ..model.linear import LinearModel

    if len(np.unique(y)) > 2:
        raise UsageError(
            f"the {loss} loss takes two classes, and {asked.target!r} has {len(np.unique(y))}; the logistic loss takes them",
            where="loss",
        )
    part, penalty = terms
    solution = minimize(X, y, loss=part, penalty=penalty, intercept=schema.intercept, sample_weight=weights)
    statistics = {
        "family": loss, "n": len(X), "fit_intercept": schema.intercept, "method": solution.method, "iterations": len(solution.trace) - 1,
        "objective": objective_of(part, penalty, fit_intercept=schema.intercept),
    }  # fmt: skip
    return LinearModel(
        schema.terms,
        solution.coef,
        solution.intercept,
        (asked.target,),
        schema,
        "sign",
        tuple(solution.classes.tolist()),
        solution.certificate,
        statistics,
    )


def least_squares_start(X: np.ndarray, y: np.ndarray, intercept: bool) -> tuple[tuple[np.ndarray, float], float]:
    """((coefficients, intercept), delta): where Huber's loss starts, and 1.345 robust deviations of the residuals."""
    centre, level = (X.mean(axis=0), float(y.mean())) if intercept else (np.zeros(X.shape[1]), 0.0)
    coef = dense.lstsq(X - centre, y - level, rcond=None)[0]
    residual = y - level - (X - centre) @ coef
    scale = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    return (coef, level - float(centre @ coef)), 1.345 * scale or 1.345


def scored_by(loss: str, X: np.ndarray, y: np.ndarray, intercept: bool = True) -> Any:
    """The loss that rows left out are scored by: one and the same for every fold."""
    from ..objective.losses import resolve_loss

    return (
        resolve_loss("huber", delta=least_squares_start(X, y, intercept)[1]) if loss == "huber" else resolve_loss(loss)
    )


def mean_loss(part: Any, record: Any, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The mean loss of a record on other rows; not a number where they have no weight."""
    from ..objective.loss_interface import derivatives

    share = np.full(len(y), 1.0) if weights is None else weights
    if not share.sum() > 0:
        return math.nan
    share = share / share.sum()
    if record.link == "softmax":
        place = np.searchsorted(np.asarray(record.classes), y)
        return float(-np.log(np.maximum(record.probabilities(X)[np.arange(len(y)), place], 1e-300)) @ share)
    t = np.where(y == record.classes[-1], 1.0, -1.0) if record.classes else y.astype(float)
    score = np.ascontiguousarray(np.ravel(record.score(X)), dtype=float)
    return derivatives(part, score, t, share, np.empty(len(t)), np.empty(0))
