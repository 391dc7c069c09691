"""The one error that ``fit`` and ``compare`` tell of rows left out of the fit, its standard error, and who ties with whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def mean_over_rows(errors: Any, sizes: Any) -> tuple[np.ndarray, np.ndarray]:
    """(mean over all rows that were left out, its standard error) of mean errors by fold, along the last axis.

    ``sizes`` are the rows of each fold, or their weight. Folds are the clusters of a ratio estimator (Cochran, Sampling
    Techniques, section 6.3): √(K/(K−1)·Σ (nₖ/n)²·(mₖ − m)²), which is the usual s/√K where folds are equal.

    >>> mean, error = mean_over_rows([4.0, 1.0], [30, 10])
    >>> float(mean), round(float(error), 4)
    (3.25, 1.125)
    """
    errors, share = np.asarray(errors, dtype=float), np.asarray(sizes, dtype=float) / np.sum(sizes)
    mean = errors @ share
    folds = errors.shape[-1]
    if folds < 2:
        return mean, np.full(mean.shape, np.nan)
    apart = (errors - mean[..., None]) ** 2 @ share**2
    return mean, np.sqrt(folds / (folds - 1) * apart)


def rooted(mean: Any, error: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same of mean squares: the root of the mean, and the root's standard error to first order."""
    root = np.sqrt(mean)
    return root, np.where(root > 0.0, np.asarray(error) / np.where(root > 0.0, 2.0 * root, 1.0), 0.0)


def tied(errors: Sequence[float | None], std_error: float | None) -> list[bool]:
    """Which errors, smallest first, lie within one standard error of the smallest.

    >>> tied([10.0, 10.4, 11.5, None], 0.5)
    [True, True, False, False]
    """
    best = next((error for error in errors if error is not None), 0.0)
    return [error is not None and error <= best + (std_error or 0.0) for error in errors]
