"""How far two right answers may lie apart: derived from the size of the sums, or from what their certificates claim."""

from __future__ import annotations

from typing import Any

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
