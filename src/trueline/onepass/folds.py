"""Choosing a penalty from per-fold moments: scores on each held-out fold, the best one, or one standard error off.

Leaving a fold out *adds* the other folds' moments, so nothing is lost to cancellation. Scores are larger-is-better.
"""

from __future__ import annotations

import numpy as np

from ..errors import DataError, UsageError
from ..threads import spread
from .moments import Moments
from .paths import RidgePath, held_out, standard_scales

SCORES = ("r2", "neg_mean_squared_error", "neg_root_mean_squared_error")
CHOICES = ("best", "one-standard-error")


def ridge_scores(
    moments: Moments,
    alphas: np.ndarray,
    *,
    fit_intercept: bool = True,
    standardize: bool = False,
    scoring: str = "r2",
    scored: Moments | None = None,
) -> np.ndarray:
    """Scores of ridge, penalties × folds; targets are averaged. ``scored``: other moments of the same folds."""
    need_folds(moments)
    d = len(moments.terms)
    scored = moments if scored is None else scored
    if scoring == "r2" and one_row_folds(scored):
        raise UsageError(
            "R² has no meaning in a fold of one row; give scoring='neg_mean_squared_error', or fewer folds",
            where="scoring",
        )

    def one(fold: int) -> np.ndarray:
        rest = moments.without(fold)
        path = RidgePath(rest, d, fit_intercept, standard_scales(rest, d) if standardize else None, moments.integer)
        coefs = path.coef(alphas)
        part = scored.parts[fold]
        squares = held_out(part, coefs, path.intercepts(coefs), d)
        spread_of_target = np.diagonal(part.products[0])[d:]
        # What is left of equal targets is rounding, and no spread to measure errors by.
        equal = spread_of_target <= 1e-28 * (part.weight[0] * part.mean[0][d:] ** 2 + spread_of_target)
        return score_of(scoring, squares, np.where(equal, 0.0, spread_of_target), part.weight[0]).mean(axis=1)

    return np.column_stack(spread(one, moments.parts))


def one_row_folds(moments: Moments) -> bool:
    """Whether some fold has a single row, in which a target has no spread."""
    return any(part.n < 2 for part in moments.parts.values())


def score_of(scoring: str, squares: np.ndarray, spread_of_target: np.ndarray, weight: float) -> np.ndarray:
    """A score from the sum of squared errors and the target's own spread."""
    if scoring == "r2":
        with np.errstate(divide="ignore", invalid="ignore"):
            found = 1 - squares / spread_of_target
        return np.where(spread_of_target > 0, found, np.where(squares > 0, 0.0, 1.0))
    if scoring == "neg_mean_squared_error":
        return -squares / weight
    if scoring == "neg_root_mean_squared_error":
        return -np.sqrt(squares / weight)
    raise UsageError(f"from moments the scoring is one of {', '.join(SCORES)}, not {scoring!r}", where="scoring")


def choose(scores: np.ndarray, alphas: np.ndarray, choice: str = "best") -> int:
    """The place of the chosen penalty: the best mean score (the first of equals), or the largest penalty whose mean
    is within one standard error of it."""
    if choice not in CHOICES:
        raise UsageError(f"choice must be one of {', '.join(CHOICES)}, not {choice!r}", where="choice")
    mean = scores.mean(axis=1)
    best = int(np.argmax(mean))
    if choice == "best":
        return best
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    within = np.flatnonzero(mean >= mean[best] - error)
    return int(within[np.argmax(np.asarray(alphas)[within])])


def need_folds(moments: Moments) -> None:
    """Cross-validation needs at least two folds with rows."""
    if len(moments.parts) < 2:
        raise DataError(
            "the moments hold one fold only; scan with folds=5 (or more), or choose by generalised cross-validation "
            'with cv="gcv"',
            where="folds",
        )
