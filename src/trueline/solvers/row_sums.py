"""Sums over the rows that no array function makes: conjugates of a loss at dual variables, and the multinomial loss."""

from __future__ import annotations

import cython
import numpy as np

from ..objective.loss_interface import Loss
from ..simd import Array, Places

if not cython.compiled:  # compiled, these come from row_sums.pxd
    from math import fabs, log

    from ..objective.uncompiled_math import INFINITY


def check_rows(*arrays: Array, start: cython.Py_ssize_t = 0, stop: cython.Py_ssize_t = 0) -> None:
    """Refuse arrays of different lengths, which loops without bounds would read beyond."""
    lengths = {len(array) for array in arrays}
    if len(lengths) > 1 or not 0 <= start <= stop <= min(lengths):
        raise IndexError(f"rows {start} to {stop} of arrays of {sorted(lengths)} rows")


def conjugate_sum(
    loss: Loss, ca: Array, y: Array, c: Array, offset: Array, start: cython.Py_ssize_t, stop: cython.Py_ssize_t
) -> tuple[float, float]:
    """(Σ c·[V*(a) − a·o], the sum of the sizes of what was added) over the rows of positive weight, a = ca/c.

    Infinite outside the domain. The terms inside a conjugate are no larger than it and the loss together.
    """
    check_rows(ca, y, c, offset if len(offset) else c, start=start, stop=stop)
    sums = np.zeros(2)
    sum_conjugates(loss, ca, y, c, offset, start, stop, sums)
    return float(sums[0]), float(sums[1])


def sum_conjugates(
    loss: Loss,
    ca: Array,
    y: Array,
    c: Array,
    offset: Array,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    sums: Array,
) -> int:
    """The same without the GIL, where the loss needs none."""
    i: cython.Py_ssize_t
    a: cython.double
    low: cython.double
    high: cython.double
    slack: cython.double
    shift: cython.double
    value: cython.double
    total: cython.double = 0.0
    size: cython.double = 0.0
    with cython.nogil:
        for i in range(start, stop):
            if c[i] > 0.0:
                a = ca[i] / c[i]
                low = loss.lowest_slope(y[i])
                high = loss.highest_slope(y[i])
                slack = 1e-12 * (1.0 + fabs(a))
                if a < low - slack or a > high + slack:
                    total = INFINITY
                    size = INFINITY
                    break
                a = min(max(a, low), high)
                shift = a * offset[i] if offset.shape[0] > 0 else 0.0
                value = loss.conjugate(a, y[i])
                total += c[i] * (value - shift)
                size += c[i] * (fabs(value) + fabs(shift))
    sums[0] = total
    sums[1] = size
    return 0


def beyond_range(loss: Loss, ca: Array, y: Array, c: Array) -> float:
    """Σ c·(a − b)², b the slope of the loss's range nearest to a = ca/c: ``conjugate_sum`` takes b in place of a."""
    check_rows(ca, y, c)
    return sum_beyond(loss, ca, y, c)


def sum_beyond(loss: Loss, ca: Array, y: Array, c: Array) -> float:
    """The same without the GIL, where the loss needs none."""
    i: cython.Py_ssize_t
    a: cython.double
    low: cython.double
    high: cython.double
    total: cython.double = 0.0
    with cython.nogil:
        for i in range(y.shape[0]):
            if c[i] > 0.0:
                a = ca[i] / c[i]
                low = loss.lowest_slope(y[i])
                high = loss.highest_slope(y[i])
                if a < low:
                    total += c[i] * (low - a) * (low - a)
                elif a > high:
                    total += c[i] * (a - high) * (a - high)
    return total


def upper_conjugate(loss: Loss, a: float, y: float, s: float) -> float:
    """An upper bound of V*(a) for a loss that has no conjugate of its own, near the score s.

    V'(low) ≤ a ≤ V'(high) is bracketed and bisected; the tangents of V at the two ends then bound
    a·s − V(s) from above between them, and its concavity does so outside.
    """
    low: cython.double = s
    high: cython.double = s
    width: cython.double = 1.0
    middle: cython.double
    while loss.slope(low, y) > a and width < 1e12:
        low -= width
        width *= 2.0
    width = 1.0
    while loss.slope(high, y) < a and width < 1e12:
        high += width
        width *= 2.0
    if loss.slope(low, y) > a or loss.slope(high, y) < a:
        return INFINITY
    for _ in range(100):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        if loss.slope(middle, y) <= a:
            low = middle
        else:
            high = middle
    at_low: cython.double = a * low - loss.value(low, y) + (a - loss.slope(low, y)) * (high - low)
    at_high: cython.double = a * high - loss.value(high, y) + (loss.slope(high, y) - a) * (high - low)
    return min(at_low, at_high)


def upper_conjugate_sum(loss: Loss, ca: Array, y: Array, c: Array, offset: Array, score: Array) -> tuple[float, float]:
    """``conjugate_sum`` for a loss that has no conjugate of its own; ``score`` is where the search for each begins."""
    check_rows(ca, y, c, offset if len(offset) else c, score)
    sums = np.zeros(2)
    sum_upper_conjugates(loss, ca, y, c, offset, score, sums)
    return float(sums[0]), float(sums[1])


def sum_upper_conjugates(loss: Loss, ca: Array, y: Array, c: Array, offset: Array, score: Array, sums: Array) -> int:
    """The same without the GIL, where the loss needs none."""
    i: cython.Py_ssize_t
    a: cython.double
    shift: cython.double
    value: cython.double
    total: cython.double = 0.0
    size: cython.double = 0.0
    with cython.nogil:
        for i in range(y.shape[0]):
            if c[i] > 0.0:
                a = ca[i] / c[i]
                shift = a * offset[i] if offset.shape[0] > 0 else 0.0
                value = upper_conjugate(loss, a, y[i], score[i])
                total += c[i] * (value - shift)
                size += c[i] * (fabs(value) + fabs(shift))
    sums[0] = total
    sums[1] = size
    return 0


def below_the_top(scores: Array, y: Places, below: Array, own: Array) -> None:
    """Fills each score minus the largest of its row, and that of the row's own class."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    top: cython.double
    with cython.nogil:
        for i in range(scores.shape[0]):
            top = scores[i, 0]
            for k in range(1, scores.shape[1]):
                top = max(top, scores[i, k])
            for k in range(scores.shape[1]):
                below[i, k] = scores[i, k] - top
            own[i] = below[i, y[i]]


def softmax_shares(p: Array, own: Array, y: Places, c: Array, slope: Array) -> float:
    """The mean loss; divides the exponentials in ``p`` by their sums and fills c∘(p − e_y)."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    total: cython.double
    rest: cython.double  # 1 − p of the own class, to its last digit where that is nearly 1
    loss: cython.double = 0.0
    with cython.nogil:
        for i in range(p.shape[0]):
            total = 0.0
            for k in range(p.shape[1]):
                total += p[i, k]
            rest = 0.0
            for k in range(p.shape[1]):
                p[i, k] /= total
                slope[i, k] = c[i] * p[i, k]
                if k != y[i]:
                    rest += p[i, k]
            slope[i, y[i]] = -c[i] * rest
            loss += c[i] * (log(total) - own[i])
    return loss


def negative_entropy(q: Array, c: Array) -> float:
    """Σ c·Σ q ln q, with 0 ln 0 = 0; what rounding left below 0 counts as 0."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    total: cython.double = 0.0
    with cython.nogil:
        for i in range(q.shape[0]):
            for k in range(q.shape[1]):
                if q[i, k] > 0.0:
                    total += c[i] * q[i, k] * log(q[i, k])
    return total
