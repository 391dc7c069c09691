"""The best decision stump of every column under weights of the rows, their multiplicative update, and votes of stumps.

Every column is sorted once; a scan in its order costs one addition a row and finds the best of all thresholds.
"""

from __future__ import annotations

import cython
import numpy as np

from ..errors import DataError
from ..simd import Array, Indices, Places

if not cython.compiled:  # compiled, this comes from boosted_stumps.pxd
    from math import exp

TIE: cython.double = 1e-12  # errors closer than this are equal, and the first stump wins: rounding must not choose


def add_votes(
    X: Array,
    features: Places,
    thresholds: Array,
    votes: Array,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    out: Array,
) -> None:
    """f(x) = Σ votes·sign(x_j > threshold) for rows start … stop − 1."""
    i: cython.Py_ssize_t
    t: cython.Py_ssize_t
    score: float
    with cython.nogil:
        for i in range(start, stop):
            score = 0.0
            for t in range(votes.shape[0]):
                score += votes[t] if X[i, features[t]] > thresholds[t] else -votes[t]
            out[i] = score


@cython.final
@cython.cclass
class SortedColumns:
    """Columns as rows with the order of each, targets ±1 and the rows' weights D, which add up to 1."""

    def __init__(self, columns: Array, order: Indices, y: Array, D: Array) -> None:
        d, n = columns.shape
        if order.shape != (d, n) or not n == len(y) == len(D) or (order < 0).any() or (order >= n).any():
            raise DataError("columns, their orders, targets and weights do not fit together", where="X")
        self.columns, self.order, self.y, self.D = columns, order, y, D.copy()
        self.signed_, self.errors, self.places = D * y, np.empty(d), np.empty(d, dtype=np.int64)
        self.base = D[y < 0.0].sum()

    def best(self) -> tuple[int, int, float]:
        """The first column with the least error that ``scan`` found, the place of its stump, and that error."""
        errors = np.asarray(self.errors)
        j = int(np.argmax(errors <= errors.min() + TIE))
        return j, int(self.places[j]), float(errors[j])

    def scan(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> None:
        """Find the best stumps of columns start … stop − 1."""
        j: cython.Py_ssize_t
        with cython.nogil:
            for j in range(start, stop):
                self.scan_column(j)

    def scan_column(self, j: cython.Py_ssize_t) -> None:
        """The error of the best stump "+1 above the threshold" or its negation.

        A place p is a threshold below the p-th row of the order (p = 0: all rows +1); −p − 1 stands for the negation.
        """
        p: cython.Py_ssize_t
        row: cython.Py_ssize_t
        then: cython.Py_ssize_t = self.order[j, 0]
        at: cython.Py_ssize_t = 0
        error: float = self.base
        least: float = error
        if 1.0 - error < least - TIE:
            least = 1.0 - error
            at = -1
        for p in range(self.y.shape[0] - 1):
            row = then
            then = self.order[j, p + 1]
            error += self.signed_[row]
            if self.columns[j, then] > self.columns[j, row]:
                if error < least - TIE:
                    least = error
                    at = p + 1
                if 1.0 - error < least - TIE:
                    least = 1.0 - error
                    at = -(p + 1) - 1
        self.errors[j] = least
        self.places[j] = at

    def reweigh(self, j: cython.Py_ssize_t, threshold: float, sign: float, alpha: float) -> float:
        """D ← D·exp(−α y h)/Z; the exact weighted error of the stump before the update comes back."""
        i: cython.Py_ssize_t
        h: float
        up: float = exp(alpha)
        down: float = exp(-alpha)
        total: float = 0.0
        wrong: float = 0.0
        base: float = 0.0
        with cython.nogil:
            for i in range(self.y.shape[0]):
                h = sign if self.columns[j, i] > threshold else -sign
                if h * self.y[i] < 0.0:
                    wrong += self.D[i]
                    self.D[i] *= up
                else:
                    self.D[i] *= down
                total += self.D[i]
            for i in range(self.y.shape[0]):
                self.D[i] /= total
                self.signed_[i] = self.D[i] * self.y[i]
                if self.y[i] < 0.0:
                    base += self.D[i]
        self.base = base
        return wrong
