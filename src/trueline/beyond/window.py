"""Local fits in one variable: rows sorted by x, so that the neighbours of a query are a window.

Per query q: weights K(|x − q|/h) times the rows' own, sums of w·tᵃ and w·y·tᵃ with t = (x − q)/h, and a system of one to
three unknowns. The sums run over views of the window: an index that may be negative would keep them from vectorising.
Constants (0.999 h, 0.001 h, 0.001 of the range) are those of R's lowess, so that degree 1 gives its
numbers. Columns of ``out``: value, slope, leverage of a unit weight at q, Σ l²/w of the row l of the smoother.
"""

from __future__ import annotations

import math

import numpy as np

from .._jit import kernel

VALUE, SLOPE, UNIT, SQUARES = 0, 1, 2, 3
GAUSSIAN_REACH = 80.0  # exponents below −40 add nothing that a float64 sum would see


@kernel
def widths(x, case, queries, k, out):
    """h of each query: the smallest distance within which the rows weigh k or more (``case`` empty: rows count 1)."""
    n = x.size
    for i in range(queries.size):
        q = queries[i]
        if case.size == 0:
            count = min(n, int(k))
            low, high = 0, n - count
            while low < high:
                middle = (low + high) // 2
                if q - x[middle] <= x[middle + count] - q:
                    high = middle
                else:
                    low = middle + 1
            out[i] = max(q - x[low], x[low + count - 1] - q)
        else:
            right = np.searchsorted(x, q)
            left = right - 1
            mass, reach = 0.0, 0.0
            while mass < k * (1.0 - 1e-12) and (left >= 0 or right < n):
                if right >= n or (left >= 0 and q - x[left] <= x[right] - q):
                    reach = q - x[left]
                    mass += case[left]
                    left -= 1
                else:
                    reach = x[right] - q
                    mass += case[right]
                    right += 1
            out[i] = reach


@kernel
def window(x, q, reach):
    """The first and one past the last row with |x − q| ≤ reach."""
    low, high = np.searchsorted(x, q - reach), np.searchsorted(x, q + reach, side="right")
    while low > 0 and q - x[low - 1] <= reach:
        low -= 1
    while low < high and q - x[low] > reach:
        low += 1
    while high < x.size and x[high] - q <= reach:
        high += 1
    while high > low and x[high - 1] - q > reach:
        high -= 1
    return low, high


@kernel(reassociate=True)
def tricube(x, q, h, buffer):
    """(1 − (r/h)³)³."""
    inverse = 1.0 / h if h > 0.0 else 0.0
    near = 0.001 * h
    for j in range(x.size):
        r = abs(x[j] - q)
        t = r * inverse
        u = 1.0 - t * t * t
        buffer[j] = u * u * u if r > near else 1.0


@kernel
def gaussian(x, q, tau, nearest, buffer):
    """exp(−(r² − r_min²)/2τ²): relative to the nearest row, so that distant queries do not underflow."""
    for j in range(x.size):
        r = x[j] - q
        buffer[j] = math.exp(-0.5 * (r * r - nearest * nearest) / (tau * tau))


@kernel(reassociate=True)
def line_sums(x, y, g, q, inverse, buffer):
    """Σw, Σwt, Σwt², Σwy, Σwty."""
    s0, s1, s2, t0, t1 = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(x.size):
        w = buffer[j] * g[j]
        t = (x[j] - q) * inverse
        wt, wy = w * t, w * y[j]
        s0 += w
        s1 += wt
        s2 += wt * t
        t0 += wy
        t1 += wy * t
    return s0, s1, s2, t0, t1


@kernel(reassociate=True)
def square_sums(x, g, rw, q, inverse, buffer):
    """Σvtᵃ for a = 0…4 with v = (K·rw)·w: the squares of the smoother's row."""
    s0, s1, s2, s3, s4 = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(x.size):
        v = buffer[j] * buffer[j] * rw[j] * g[j]
        t = (x[j] - q) * inverse
        tt = t * t
        s0 += v
        s1 += v * t
        s2 += v * tt
        s3 += v * tt * t
        s4 += v * tt * tt
    return s0, s1, s2, s3, s4


@kernel(reassociate=True)
def curve_sums(x, y, g, q, inverse, buffer):
    """Σwt³, Σwt⁴, Σwyt²: what degree 2 needs more."""
    s3, s4, t2 = 0.0, 0.0, 0.0
    for j in range(x.size):
        w = buffer[j] * g[j]
        t = (x[j] - q) * inverse
        tt = t * t
        s3 += w * tt * t
        s4 += w * tt * tt
        t2 += w * tt * y[j]
    return s3, s4, t2


@kernel
def window_fits(x, y, g, rw, queries, h, degree, is_gaussian, full, out):
    """Fit at every query; NaN where no row has weight."""
    span = x[-1] - x[0]
    buffer = np.empty(x.size)
    for i in range(queries.size):
        q, width = queries[i], h[i]
        if is_gaussian:
            place = np.searchsorted(x, q)
            nearest = np.inf
            if place < x.size:
                nearest = x[place] - q
            if place > 0:
                nearest = min(nearest, q - x[place - 1])
            low, high = window(x, q, math.sqrt(nearest * nearest + GAUSSIAN_REACH * width * width))
            if width > 0.0:
                gaussian(x[low:high], q, width, nearest, buffer)
            else:
                tricube(x[low:high], q, 0.0, buffer)
        else:
            low, high = window(x, q, 0.999 * width)
            tricube(x[low:high], q, width, buffer)
        inverse = 1.0 / width if width > 0.0 else 0.0
        s0, s1, s2, t0, t1 = line_sums(x[low:high], y[low:high], g[low:high], q, inverse, buffer)
        if not s0 > 0.0:
            out[i, :] = np.nan
            continue
        a = s1 / s0
        c = s2 / s0 - a * a
        used = degree
        if used > 0 and not (c > 0.0 and math.sqrt(c) * width > 0.001 * span):
            used = 0
        v0, v1, v2, value, slope = 1.0 / s0, 0.0, 0.0, t0 / s0, 0.0
        if used >= 1:
            v1 = -a / (c * s0)
            v0 = (1.0 + a * a / c) / s0
            slope = (t1 / s0 - a * t0 / s0) / c
            value = t0 / s0 - a * slope
        if used == 2:
            s3, s4, t2 = curve_sums(x[low:high], y[low:high], g[low:high], q, inverse, buffer)
            # the square, made orthogonal to 1 and t, carries what the line left
            b1 = (s3 / s0 - a * s2 / s0) / c
            b0 = s2 / s0 - b1 * a
            d = s4 - b0 * s2 - b1 * s3
            if d > 1e-10 * s4:
                third = (t2 - b0 * t0 - b1 * t1) / d
                value -= third * b0
                slope -= third * b1
                v0 += b0 * b0 / d
                v1 += b0 * b1 / d
                v2 = -b0 / d
        out[i, 0], out[i, 1], out[i, 2] = value, slope * inverse, v0
        if full:
            z0, z1, z2, z3, z4 = square_sums(x[low:high], g[low:high], rw[low:high], q, inverse, buffer)
            out[i, 3] = (
                v0 * v0 * z0 + 2.0 * v0 * v1 * z1 + (v1 * v1 + 2.0 * v0 * v2) * z2 + 2.0 * v1 * v2 * z3 + v2 * v2 * z4
            )
