"""simd.h in Python, the same sums in the same order: for kernels that run uncompiled. simd.pxd has the C functions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int32]
Places = NDArray[np.int64]


def dot(x: Array, w: Array, n: int) -> float:
    """x · w over the first n entries: sixteen lanes, joined by halves."""
    products = x[:n] * w[:n]
    whole = n - n % 16
    lanes = np.zeros(16)
    for block in products[:whole].reshape(-1, 16):
        lanes += block
    at = whole
    if n & 8:
        lanes[:8] += products[at : at + 8]
        at += 8
    for size in (8, 4, 2, 1):
        lanes = lanes[:size] + lanes[size : 2 * size]
        if size < 8 and n & size:
            lanes += products[at : at + size]
            at += size
    return float(lanes[0])


def add(x: Array, scale: float, w: Array, n: int) -> None:
    """w += scale · x over the first n entries."""
    w[:n] += scale * x[:n]


def gathered_dot(values: Array, indices: Any, first: int, last: int, w: Array) -> float:
    """Σ values_k · w[indices_k] for k from first to last − 1, in four strands."""
    products = values[first:last] * w[indices[first:last]]
    whole = len(products) - len(products) % 4
    strands = np.zeros(4)
    for block in products[:whole].reshape(-1, 4):
        strands += block
    for product in products[whole:]:
        strands[0] += product
    return float((strands[0] + strands[1]) + (strands[2] + strands[3]))


def row_dot(A: Array, i: int, first: int, w: Array, n: int) -> float:
    """A[i, first : first + n] · w[first : first + n]."""
    return dot(A[i, first:], w[first:], max(n, 0))


def row_add(A: Array, i: int, first: int, scale: float, w: Array, n: int) -> None:
    """w[first : first + n] += scale · A[i, first : first + n]."""
    add(A[i, first:], scale, w[first:], max(n, 0))


def rows_dot(A: Array, i: int, B: Array, j: int, first: int, n: int) -> float:
    """A[i, first : first + n] · B[j, first : first + n]."""
    return dot(A[i, first:], B[j, first:], max(n, 0))


def rows_add(A: Array, i: int, scale: float, B: Array, j: int, first: int, n: int) -> None:
    """B[j, first : first + n] += scale · A[i, first : first + n]."""
    add(A[i, first:], scale, B[j, first:], max(n, 0))
