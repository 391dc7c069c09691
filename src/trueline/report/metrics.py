"""How good predictions are on rows with known answers, each figure with a bootstrap interval.

A resample is a vector of weights (how often each row was drawn), so every metric is written once, weighted, and the
rows are sorted once. Intervals are the 2.5 % and 97.5 % quantiles over resamples of whole rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

RESAMPLES = 500
MOST = 100_000  # rows for the resamples; the value itself is of all rows
Metric = Callable[[np.ndarray], float]


def regression_metrics(y: np.ndarray, fitted: np.ndarray, weights: np.ndarray | None = None) -> list[dict[str, Any]]:
    """RMSE, MAE and R²."""
    error = y - fitted

    def rmse(w: np.ndarray) -> float:
        return float(np.sqrt(w @ error[: len(w)] ** 2 / w.sum()))

    def mae(w: np.ndarray) -> float:
        return float(w @ np.abs(error[: len(w)]) / w.sum())

    def r_squared(w: np.ndarray) -> float:
        part = y[: len(w)]
        spread = w @ (part - w @ part / w.sum()) ** 2
        return float(1.0 - (w @ error[: len(w)] ** 2) / spread) if spread > 0 else float("nan")

    return _with_intervals({"rmse": rmse, "mae": mae, "r_squared": r_squared}, len(y), weights)


def binary_metrics(
    outcome: np.ndarray, probability: np.ndarray, weights: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """Log loss, AUC, accuracy, Brier score and calibration error; ``outcome`` is 0 or 1."""
    p = np.clip(probability, 1e-15, 1.0 - 1e-15)
    loss = -np.where(outcome == 1, np.log(p), np.log1p(-p))
    right = ((probability > 0.5) == (outcome == 1)).astype(float)

    def mean_of(values: np.ndarray) -> Metric:
        return lambda w: float(w @ values[: len(w)] / w.sum())

    sorts: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def auc(w: np.ndarray) -> float:
        if len(w) not in sorts:
            order = np.argsort(probability[: len(w)], kind="stable")
            sorts[len(w)] = order, _ties(probability[: len(w)][order])
        order, group = sorts[len(w)]
        return weighted_auc(outcome[: len(w)][order], w[order], group)

    def calibration(w: np.ndarray) -> float:
        return calibration_error(outcome[: len(w)], probability[: len(w)], w)

    return _with_intervals(
        {
            "log_loss": mean_of(loss),
            "auc": auc,
            "accuracy": mean_of(right),
            "brier": mean_of((probability - outcome) ** 2),
            "calibration_error": calibration,
        },
        len(outcome),
        weights,
    )


def class_metrics(
    codes: np.ndarray, probabilities: np.ndarray, weights: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """Log loss and accuracy of several classes."""
    own = np.clip(probabilities[np.arange(len(codes)), codes], 1e-15, 1.0)
    right = (probabilities.argmax(axis=1) == codes).astype(float)
    return _with_intervals(
        {
            "log_loss": lambda w: float(w @ -np.log(own[: len(w)]) / w.sum()),
            "accuracy": lambda w: float(w @ right[: len(w)] / w.sum()),
        },
        len(codes),
        weights,
    )


def weighted_auc(outcome: np.ndarray, weights: np.ndarray, group: np.ndarray) -> float:
    """The chance that a drawn positive scores above a drawn negative, ties counting half; rows sorted by score.

    >>> weighted_auc(np.array([0, 1, 0, 1]), np.ones(4), np.array([0, 1, 2, 3]))
    0.75
    """
    up, down = weights * (outcome == 1), weights * (outcome == 0)
    ups, downs = np.bincount(group, up), np.bincount(group, down)
    total = ups.sum() * downs.sum()
    below = np.cumsum(downs) - downs
    return float((ups @ (below + 0.5 * downs)) / total) if total > 0 else float("nan")


def calibration_error(outcome: np.ndarray, probability: np.ndarray, weights: np.ndarray, bins: int = 10) -> float:
    """Mean distance between the predicted and the observed share, over ten equal ranges of probability."""
    place = np.minimum((probability * bins).astype(int), bins - 1)
    size = np.bincount(place, weights, bins)
    gap = np.bincount(place, weights * (outcome - probability), bins)
    return float(np.abs(gap).sum() / size.sum())


def _ties(ordered: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.diff(ordered) != 0)]) if len(ordered) else np.zeros(0, int)


def _with_intervals(metrics: dict[str, Metric], n: int, weights: np.ndarray | None) -> list[dict[str, Any]]:
    own = np.ones(n) if weights is None else weights.astype(float)
    rng = np.random.default_rng(0)
    some = min(n, MOST)
    draws: dict[str, list[float]] = {name: [] for name in metrics}
    count = RESAMPLES if n > 1 else 0
    for _ in range(count):
        drawn = np.bincount(rng.integers(0, some, some), minlength=some) * own[:some]
        if drawn.sum() > 0:
            for name, metric in metrics.items():
                draws[name].append(metric(drawn))
    made = []
    for name, metric in metrics.items():
        finite = np.array([v for v in draws[name] if np.isfinite(v)])
        low, high = np.quantile(finite, [0.025, 0.975]) if len(finite) else (None, None)
        made.append(
            {
                "name": name,
                "value": metric(own),
                "low": None if low is None else float(low),
                "high": None if high is None else float(high),
            }
        )
    return made
