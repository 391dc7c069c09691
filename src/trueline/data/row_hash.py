"""Sums and mixtures of the bits of float64 columns, modulo 2⁶⁴: what folds and samples of rows are made from.

Columns come as their bits, ``column.view(np.uint64)``; −0.0 and 0.0 are one value.
"""

from __future__ import annotations

import cython
import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]

if not cython.compiled:  # compiled, these come from row_hash.pxd
    SIGN, EXPONENT, STIRRER, WHOLE = 1 << 63, 0x7FF << 52, 0xBF58476D1CE4E5B9, (1 << 64) - 1
    whole = int  # a number that does not end at 64 bits


def add_column(bits: Bits, factor: cython.ulonglong, total: Bits) -> bool:
    """Add factor·(b, its upper half xored into the lower) to each row; False if a number is not finite."""
    i: cython.Py_ssize_t
    b: cython.ulonglong
    odd: cython.ulonglong = 0
    with cython.nogil:
        for i in range(total.shape[0]):
            b = whole(bits[i])
            odd += (b & EXPONENT) == EXPONENT
            b = b if b != SIGN else 0
            total[i] = (whole(total[i]) + (b ^ (b >> 32)) * factor) & WHOLE
    return odd == 0


def add_rows(bits: Bits, factors: Bits, total: Bits) -> None:
    """The same for a table by rows, whose numbers are finite and never −0.0."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    b: cython.ulonglong
    row: cython.ulonglong
    with cython.nogil:
        for i in range(bits.shape[0]):
            row = whole(total[i])
            for j in range(bits.shape[1]):
                b = whole(bits[i, j])
                row = (row + (b ^ (b >> 32)) * whole(factors[j])) & WHOLE
            total[i] = row


def stir(h: Bits, bits: Bits) -> None:
    """Mix a column's bits into the rows' hashes, so that the order of the columns counts."""
    i: cython.Py_ssize_t
    b: cython.ulonglong
    with cython.nogil:
        for i in range(h.shape[0]):
            b = whole(bits[i])
            b = b if b != SIGN else 0
            b = ((whole(h[i]) ^ b) * STIRRER) & WHOLE
            h[i] = b ^ (b >> 29)
