"""One step of L D Lᵀ in double-double: the pivot's row is taken off the rows below it, in the upper triangle.

The formula is ``doubled.subtract_product``; the loop is compiled, since NumPy would walk the block twenty times.
"""

from __future__ import annotations

import cython

from ..simd import Array

if not cython.compiled:  # compiled, this comes from double_elimination.pxd
    SPLIT = 134217729.0  # 2^27 + 1


def subtract_outer(H: Array, E: Array, pivot: cython.Py_ssize_t, ch: Array, cl: Array) -> None:
    """(H + E)[i, j] −= (ch + cl)[i] · (H + E)[pivot, j] for pivot < i ≤ j; ch and cl begin at the pivot."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    d: cython.Py_ssize_t = H.shape[0]
    a: float
    a_high: float
    a_low: float
    rest: float
    b: float
    b_high: float
    b_low: float
    p: float
    e: float
    h: float
    s: float
    t: float
    with cython.nogil:
        for i in range(pivot + 1, d):
            a = ch[i - pivot]
            rest = cl[i - pivot]
            t = SPLIT * a
            a_high = t - (t - a)
            a_low = a - a_high
            for j in range(i, d):
                b = H[pivot, j]
                p = a * b
                t = SPLIT * b
                b_high = t - (t - b)
                b_low = b - b_high
                e = ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low
                e = e + (a * E[pivot, j] + rest * b)
                h = H[i, j]
                s = h - p
                t = s - h
                e = ((h - (s - t)) + (-p - t)) + (E[i, j] - e)
                h = s + e
                H[i, j] = h
                E[i, j] = e - (h - s)
