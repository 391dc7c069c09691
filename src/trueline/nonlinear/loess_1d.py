"""Local fits in one variable: rows sorted by x, so that the neighbours of a query are a window.

Per query q: weights K(|x − q|/h) times the rows' own, sums of w·tᵃ and w·y·tᵃ with t = (x − q)/h, and a system of one to
three unknowns. Constants (0.999 h, 0.001 h, 0.001 of the range) are those of R's lowess, so that degree 1 gives its
numbers. Columns of ``out``: value, slope, leverage of a unit weight at q, Σ l²/w of the row l of the smoother.
"""

from __future__ import annotations

import cython
import numpy as np

from ..errors import DataError
from ..simd import Array

if not cython.compiled:  # compiled, these come from loess_1d.pxd
    from math import exp, sqrt
    from math import nan as NAN

    from ..simd import curve_sums, line_sums, tricube_sums

GAUSSIAN_REACH: cython.double = 80.0  # exponents below −40 add nothing that a float64 sum would see


def first_within(x: Array, q: float, reach: float) -> int:
    """The first row with q − x ≤ reach."""
    low: cython.Py_ssize_t = 0
    left: cython.Py_ssize_t = x.shape[0]
    half: cython.Py_ssize_t
    while left > 0:  # without branches: which half it is cannot be foreseen
        half = left >> 1
        low = low if q - x[low + half] <= reach else low + left - half
        left = half
    return low


def past_within(x: Array, q: float, reach: float) -> int:
    """One past the last row with x − q ≤ reach."""
    low: cython.Py_ssize_t = 0
    left: cython.Py_ssize_t = x.shape[0]
    half: cython.Py_ssize_t
    while left > 0:
        half = left >> 1
        low = low + left - half if x[low + half] - q <= reach else low
        left = half
    return low


def square_weights(w: Array, case: Array, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> None:
    """w ← w²/case; ``case`` empty: all 1."""
    j: cython.Py_ssize_t
    if case.shape[0] == 0:
        for j in range(first, last):
            w[j] *= w[j]
    else:
        for j in range(first, last):
            w[j] *= w[j] / case[j]


def counted_width(x: Array, q: float, count: cython.Py_ssize_t) -> float:
    """The distance from q to the last of its ``count`` nearest rows."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = x.shape[0] - count
    middle: cython.Py_ssize_t
    while low < high:
        middle = (low + high) // 2
        if q - x[middle] <= x[middle + count] - q:
            high = middle
        else:
            low = middle + 1
    return max(q - x[low], x[low + count - 1] - q)


def weighed_width(x: Array, case: Array, q: float, k: float) -> float:
    """The smallest distance from q within which the rows weigh k or more."""
    n: cython.Py_ssize_t = x.shape[0]
    right: cython.Py_ssize_t = first_within(x, q, 0.0)
    left: cython.Py_ssize_t = right - 1
    mass: float = 0.0
    reach: float = 0.0
    while mass < k * (1.0 - 1e-12) and (left >= 0 or right < n):
        if right >= n or (left >= 0 and q - x[left] <= x[right] - q):
            reach = q - x[left]
            mass += case[left]
            left -= 1
        else:
            reach = x[right] - q
            mass += case[right]
            right += 1
    return reach


def gaussian_weights(
    x: Array,
    g: Array,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    q: float,
    nearest: float,
    factor: float,
    w: Array,
) -> None:
    """w ← g·exp(factor·(r² − nearest)): relative to the nearest row, so that distant queries do not underflow."""
    j: cython.Py_ssize_t
    for j in range(first, last):
        w[j] = exp(factor * ((x[j] - q) * (x[j] - q) - nearest)) * g[j]


def neighbour_widths(x: Array, case: Array, queries: Array, k: float, out: Array) -> None:
    """h of each query: the smallest distance within which the rows weigh k or more (``case`` empty: rows count 1)."""
    i: cython.Py_ssize_t
    count: cython.Py_ssize_t = max(1, min(x.shape[0], int(k)))
    with cython.nogil:
        for i in range(queries.shape[0]):
            if case.shape[0] == 0:
                out[i] = counted_width(x, queries[i], count)
            else:
                out[i] = weighed_width(x, case, queries[i], k)


@cython.final
@cython.cclass
class SortedRows:
    """Rows in the order of x, their weights g, the part of g that repeats rows (``case``, empty: 1), and what to fit.

    ``full`` asks for the last column of ``out`` too.
    """

    def __init__(self, x: Array, y: Array, g: Array, case: Array, degree: int, gaussian: bool, full: bool) -> None:
        if not 0 < len(x) == len(y) == len(g) or len(case) not in (0, len(x)):
            raise DataError("x, y and weights have different lengths; give one of each for every row", where="x")
        self.x, self.y, self.g, self.case = x, y, g, case
        self.degree, self.gaussian, self.full = degree, gaussian, full
        self.span = x[len(x) - 1] - x[0]

    def fit(self, queries: Array, h: Array, out: Array) -> None:
        """Fit at every query, with a width each; NaN where no row has weight."""
        if not len(queries) == len(h) == len(out) or out.shape[1] != 4:
            raise DataError("every query needs a width and four places for its fit", where="out")
        self.fit_all(queries, h, np.empty(self.x.shape[0]), np.empty(6), out)

    def fit_all(self, queries: Array, h: Array, w: Array, sums: Array, out: Array) -> None:
        """The same, in rooms for the weights and their sums."""
        i: cython.Py_ssize_t
        with cython.nogil:
            for i in range(queries.shape[0]):
                self.fit_one(i, queries[i], h[i], w, sums, out)

    def fit_one(self, i: cython.Py_ssize_t, q: float, h: float, w: Array, sums: Array, out: Array) -> None:
        """Row i of ``out``: the fit at q."""
        j: cython.Py_ssize_t
        first: cython.Py_ssize_t
        last: cython.Py_ssize_t
        reach: float = 0.999 * h
        nearest: float = 0.0
        if self.gaussian:
            nearest = self.nearest(q)
            reach = sqrt(nearest * nearest + GAUSSIAN_REACH * h * h)
        first = first_within(self.x, q, reach)
        last = past_within(self.x, q, reach)
        inverse: float = 1.0 / h if h > 0.0 else 0.0
        sums[0] = 0.0
        if last > first and self.gaussian and h > 0.0:
            gaussian_weights(self.x, self.g, first, last, q, nearest * nearest, -0.5 / (h * h), w)
            line_sums(self.x, self.y, w, first, last, q, inverse, sums)
        elif last > first:
            tricube_sums(self.x, self.y, self.g, first, last, q, h, w, sums)
        if not sums[0] > 0.0:
            for j in range(4):
                out[i, j] = NAN
            return
        s0: float = sums[0]
        s2: float = sums[2] / s0
        t0: float = sums[3] / s0
        t1: float = sums[4]
        a: float = sums[1] / s0
        c: float = s2 - a * a
        v0: float = 1.0 / s0
        v1: float = 0.0
        v2: float = 0.0
        value: float = t0
        slope: float = 0.0
        b0: float
        b1: float
        d: float
        third: float
        if self.degree > 0 and self.span > 0.0 and c > 0.0 and sqrt(c) * h > 0.001 * self.span:
            v1 = -a / (c * s0)
            v0 = (1.0 + a * a / c) / s0
            slope = (t1 / s0 - a * t0) / c
            value = t0 - a * slope
            if self.degree == 2:
                curve_sums(self.x, self.y, w, first, last, q, inverse, sums)
                # the square, made orthogonal to 1 and t, carries what the line left
                b1 = (sums[3] / s0 - a * s2) / c
                b0 = s2 - b1 * a
                d = sums[4] - b0 * sums[2] - b1 * sums[3]
                if d > 1e-10 * sums[4]:
                    third = (sums[5] - b0 * t0 * s0 - b1 * t1) / d
                    value -= third * b0
                    slope -= third * b1
                    v0 += b0 * b0 / d
                    v1 += b0 * b1 / d
                    v2 = -b0 / d
        out[i, 0] = value
        out[i, 1] = slope * inverse
        out[i, 2] = v0
        if self.full:
            square_weights(w, self.case, first, last)
            if v2 == 0.0:
                line_sums(self.x, self.y, w, first, last, q, inverse, sums)
            else:
                curve_sums(self.x, self.y, w, first, last, q, inverse, sums)
            total: float = v0 * v0 * sums[0] + 2.0 * v0 * v1 * sums[1] + (v1 * v1 + 2.0 * v0 * v2) * sums[2]
            if v2 != 0.0:
                total += 2.0 * v1 * v2 * sums[3] + v2 * v2 * sums[4]
            out[i, 3] = total

    def nearest(self, q: float) -> float:
        """The distance from q to the row nearest to it."""
        n: cython.Py_ssize_t = self.x.shape[0]
        place: cython.Py_ssize_t = first_within(self.x, q, 0.0)
        if place == n:
            return q - self.x[n - 1]
        if place == 0:
            return self.x[0] - q
        return min(self.x[place] - q, q - self.x[place - 1])
