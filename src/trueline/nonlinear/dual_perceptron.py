"""The perceptron in dual form, f(x) = Σ y_i (K(x_i, x) + extra) over the rounds of mistakes: the loop over rows.

A Gaussian kernel is made of the squares of differences, which lose no digits far from 0.
"""

from __future__ import annotations

import cython

from ..errors import DataError
from ..simd import Array

if not cython.compiled:  # compiled, these come from dual_perceptron.pxd
    from math import exp

    from ..simd import rows_dot

LINEAR: cython.int = 0
POLYNOMIAL: cython.int = 1
GAUSSIAN: cython.int = 2
KINDS = {"linear": 0, "polynomial": 1, "gaussian": 2}  # kernels that this file knows; any other is Python's


def gaussian_score(
    rows: Array, signs: Array, size: cython.Py_ssize_t, gamma: float, extra: float, X: Array, i: cython.Py_ssize_t
) -> float:
    """Σ sign·(exp(−gamma‖row − X_i‖²) + extra) over the first ``size`` rows, squares in four strands."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = X.shape[1]
    whole: cython.Py_ssize_t = n - n % 4
    total: float = 0.0
    s0: float
    s1: float
    s2: float
    s3: float
    for j in range(size):
        s0 = s1 = s2 = s3 = 0.0
        for k in range(0, whole, 4):
            s0 += (rows[j, k] - X[i, k]) * (rows[j, k] - X[i, k])
            s1 += (rows[j, k + 1] - X[i, k + 1]) * (rows[j, k + 1] - X[i, k + 1])
            s2 += (rows[j, k + 2] - X[i, k + 2]) * (rows[j, k + 2] - X[i, k + 2])
            s3 += (rows[j, k + 3] - X[i, k + 3]) * (rows[j, k + 3] - X[i, k + 3])
        for k in range(whole, n):
            s0 += (rows[j, k] - X[i, k]) * (rows[j, k] - X[i, k])
        total += signs[j] * (exp(-gamma * ((s0 + s1) + (s2 + s3))) + extra)
    return total


@cython.final
@cython.cclass
class Expansion:
    """The rows of mistakes with their signs and squared norms, in rooms of the caller; ``budget`` 0 has none.

    ``kernel`` is a part of KINDS; counts are (size, oldest, mistakes).
    """

    def __init__(
        self,
        kernel: object,
        extra: float,
        rows: Array,
        signs: Array,
        norms: Array,
        budget: int,
        counts: tuple[int, int, int],
    ) -> None:
        self.kind = KINDS[getattr(kernel, "name")]  # noqa: B009
        self.gamma, self.coef0 = getattr(kernel, "gamma", 1.0), getattr(kernel, "coef0", 0.0)
        self.degree, self.extra = getattr(kernel, "degree", 1.0), extra
        self.size, self.oldest, self.mistakes = counts
        self.budget = budget
        room = len(rows)
        if not room == len(signs) == len(norms) or not self.size <= room or not (self.oldest < room and budget <= room):
            raise DataError("the expansion has more rows than room; use an intact copy", where="rows")
        self.rows, self.signs, self.norms = rows, signs, norms

    def learn(self, X: Array, y: Array, start: int, out: Array) -> int:
        """Learn rows in order until the end or until the room is full: the next row. ``out`` has the scores before."""
        if X.shape[1] != self.rows.shape[1] or not len(X) == len(y) == len(out):
            raise DataError("rows, targets and scores do not fit together", where="X")
        return self.learn_rows(X, y, start, out)

    def scores(self, X: Array, start: int, stop: int, out: Array) -> None:
        """Scores of rows start … stop − 1: the same sums as in learning."""
        if X.shape[1] != self.rows.shape[1] or not (0 <= start <= stop <= len(X) == len(out)):
            raise DataError("rows and scores do not fit together", where="X")
        self.score_rows(X, start, stop, out)

    def learn_rows(self, X: Array, y: Array, start: cython.Py_ssize_t, out: Array) -> int:
        i: cython.Py_ssize_t = start
        with cython.nogil:
            while i < X.shape[0] and (self.budget > 0 or self.size < self.rows.shape[0]):
                out[i] = self.score(X, i)
                if y[i] * out[i] <= 0.0:
                    self.add(X, i, y[i])
                i += 1
        return i

    def score_rows(self, X: Array, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, out: Array) -> None:
        i: cython.Py_ssize_t
        with cython.nogil:
            for i in range(start, stop):
                out[i] = self.score(X, i)

    def score(self, X: Array, i: cython.Py_ssize_t) -> float:
        """Σ sign·(K(x_j, x) + extra) over the expansion."""
        j: cython.Py_ssize_t
        n: cython.Py_ssize_t = X.shape[1]
        total: float = 0.0
        if self.kind == GAUSSIAN:
            total = gaussian_score(self.rows, self.signs, self.size, self.gamma, self.extra, X, i)
        elif self.kind == POLYNOMIAL:
            for j in range(self.size):
                total += self.signs[j] * (
                    pow(self.gamma * rows_dot(self.rows, j, X, i, 0, n) + self.coef0, self.degree) + self.extra
                )
        else:
            for j in range(self.size):
                total += self.signs[j] * (rows_dot(self.rows, j, X, i, 0, n) + self.extra)
        return total

    def add(self, X: Array, i: cython.Py_ssize_t, sign: float) -> None:
        """A mistake enters, in the place of the oldest if the budget is full."""
        k: cython.Py_ssize_t
        place: cython.Py_ssize_t = self.size
        self.mistakes += 1
        if self.budget > 0 and self.size == self.budget:
            place = self.oldest
            self.oldest = (self.oldest + 1) % self.budget
        else:
            self.size += 1
        for k in range(X.shape[1]):
            self.rows[place, k] = X[i, k]
        self.signs[place] = sign
        self.norms[place] = rows_dot(X, i, X, i, 0, X.shape[1])
