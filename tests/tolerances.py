"""How far two right answers may lie apart: derived from the size of the sums, or from what their certificates claim."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

EPS = float(np.finfo(float).eps)


def rounding(X: Any, coef: Any, intercept: Any = 0.0) -> np.ndarray:
    """What two orders of the sum Σ x_j·w_j + b can differ by, row by row.

    Each lies within d·EPS/2 · Σ|x_j·w_j| of the true sum (Higham, Accuracy and Stability of Numerical Algorithms,
    section 3.1); BLAS chooses the order by the processor, the threads and the shape of the block.
    """
    X, coef = np.abs(np.asarray(X, dtype=float)), np.abs(np.asarray(coef, dtype=float))
    return (X.shape[1] + 2) * EPS * (X @ coef.T + np.abs(intercept))


def assert_same_fit(left: Any, right: Any) -> None:
    """Coefficients and intercepts agree to the digits that the certificates of both claim for their arithmetic."""
    digits = min(left.certificate_.arithmetic_digits, right.certificate_.arithmetic_digits)
    for name in ("coef_", "intercept_"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=2 * 10.0**-digits, err_msg=name)
    assert left.certificate_.rank == right.certificate_.rank
    assert left.certificate_.dropped == right.certificate_.dropped


def correct_digits(found: Any, truth: Any) -> float:
    """Correct digits of the worst entry, at most 15."""
    worst = 15.0
    for a, b in zip(found, truth, strict=True):
        a = mpmath.mpf(float(a))
        if a != b:
            worst = min(worst, float(-mpmath.log10(abs(a - b) / (abs(b) if b else 1))))
    return max(worst, 0.0)


def with_condition(rng: np.random.Generator, n: int, d: int, condition: float) -> np.ndarray:
    """A random matrix whose singular values fall evenly from 1 to 1/condition."""
    U, _ = np.linalg.qr(rng.normal(size=(n, d)))
    V, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return (U * np.geomspace(1, 1 / condition, d)) @ V.T
