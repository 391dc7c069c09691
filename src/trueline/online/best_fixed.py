"""The loss of the best fixed weights, stated only where the arithmetic proves it.

Moments of squared losses are sums with rounding: each entry of the moment matrix of columns with norms q is off by at
most γ·qᵢqⱼ. With v = (u, −1) the loss of u is then known to γ·(Σ|vᵢ|qᵢ)², and, since (Σ|vᵢ|qᵢ)² ≤ m·Σ(vᵢqᵢ)², no u
whatever loses less than the minimum of v'(G − γ·m·diag(q²))v: a proven lower end, wherever that matrix is positive
definite. Columns that nearly repeat others make the two ends part; the loss is then not stated.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .. import dense

UNIT = 2.0**-53  # the rounding of one operation
RELATIVE = 1e-6  # how far a stated loss may be from the least one, relative to itself …
OF_NULL = 1e-9  # … plus this share of the best constant's


class Least(NamedTuple):
    """Weights (intercept first), the best fixed loss or None, and what no fixed weights can lose less than or None."""

    weights: np.ndarray | None = None
    loss: float | None = None
    lower: float | None = None

    def times(self, unit: float) -> Least:
        """The same with another unit of the loss."""
        return Least(
            self.weights,
            None if self.loss is None else unit * self.loss,
            None if self.lower is None else unit * self.lower,
        )


def stated(weights: np.ndarray, value: float, lower: float, upper: float, null: float) -> Least:
    """The loss if its interval is narrow enough to be called exact, else its lower end alone."""
    lower = max(0.0, lower) if math.isfinite(lower) else 0.0
    below = lower if lower > 0.0 else None
    if not (math.isfinite(value) and math.isfinite(upper) and upper - lower <= RELATIVE * value + OF_NULL * null):
        return Least(None, None, below)
    return Least(weights, min(max(value, lower), upper), below)


def rounding(rows: int, group: int, merges: int = 1) -> float:
    """γ of sums of so many rows, added in groups: a group's own sum, then ``merges`` operations for each group."""
    return 1.01 * UNIT * (min(rows, group) + merges * math.ceil(rows / group) + 16)


class Interval(NamedTuple):
    """A quadratic at the weights found, and where its true minimum lies."""

    value: float
    lower: float
    upper: float


def least_squares(
    A: np.ndarray, b: np.ndarray, square: float, sizes: np.ndarray, size: float, gamma: float, weights: np.ndarray
) -> Interval:
    """The minimum of w'Aw − 2b'w + square over w, where every entry is off by γ times the sizes of its two columns.

    ``weights`` is the minimiser as far as it is known: the upper end is its own loss.
    """
    m = len(b) + 1
    value = max(0.0, square - 2.0 * float(b @ weights) + float(weights @ (A @ weights)))
    # 3·m·UNIT: what evaluating the quadratic itself rounds.
    upper = value + (gamma + 3.0 * m * UNIT) * (float(np.abs(weights) @ sizes) + size) ** 2
    used = np.flatnonzero(sizes > 0.0)
    if not (size > 0.0 and math.isfinite(upper)):
        return Interval(value, 0.0, upper)
    S = np.empty((len(used) + 1, len(used) + 1))
    scale = 1.0 / sizes[used]
    S[:-1, :-1] = A[np.ix_(used, used)] * scale * scale[:, None]
    S[:-1, -1] = S[-1, :-1] = b[used] * scale / size
    S[-1, -1] = square / size**2
    # Cholesky's own rounding, at most (m + 1)·UNIT an entry, is an error of the matrix like the others.
    S[np.diag_indices_from(S)] -= m * (gamma + 4.0 * (m + 1) * UNIT)
    try:
        lower = size**2 * float(dense.cholesky(S)[-1, -1]) ** 2
    except np.linalg.LinAlgError:
        lower = 0.0
    return Interval(value, lower, upper)
