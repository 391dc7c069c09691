"""simd.h in Python, the same sums in the same order: for kernels that run uncompiled. simd.pxd has the C functions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int32]
Places = NDArray[np.int64]


def dot(x: Array, w: Array, n: int) -> float:
    """x · w over the first n entries."""
    return in_lanes(x[:n] * w[:n])


def in_lanes(products: Array) -> float:
    """A sum in sixteen lanes, joined by halves."""
    n = len(products)
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


def weighted_row_dot(A: Array, i: int, w: Array, h: Array, n: int) -> float:
    """Σ A[i, k] · w_k · h_k over the first n entries."""
    return in_lanes(A[i, :n] * w[:n] * h[:n])


def row_add(A: Array, i: int, first: int, scale: float, w: Array, n: int) -> None:
    """w[first : first + n] += scale · A[i, first : first + n]."""
    add(A[i, first:], scale, w[first:], max(n, 0))


def rows_dot(A: Array, i: int, B: Array, j: int, first: int, n: int) -> float:
    """A[i, first : first + n] · B[j, first : first + n]."""
    return dot(A[i, first:], B[j, first:], max(n, 0))


def rows_add(A: Array, i: int, scale: float, B: Array, j: int, first: int, n: int) -> None:
    """B[j, first : first + n] += scale · A[i, first : first + n]."""
    add(A[i, first:], scale, B[j, first:], max(n, 0))


def symmetric_product(A: Array, k: int, u: Array, out: Array, n: int) -> float:
    """out_k ← A_k u of a symmetric n × n matrix, of which the upper triangle is there; u · out_k."""
    out[k, :n] = 0.0
    for i in range(n):
        out[k, i] += dot(A[k, i, i:], u[i:], n - i)
        out[k, i + 1 : n] += u[i] * A[k, i, i + 1 : n]
    return dot(out[k], u, n)


def rank_one(A: Array, k: int, v: Array, scale: float, inflate: float, n: int) -> None:
    """A_k ← (A_k − scale·v_k v_kᵀ)·inflate, the upper triangle of n × n."""
    for i in range(n):
        A[k, i, i:n] = (A[k, i, i:n] - scale * v[k, i] * v[k, i:n]) * inflate


def tricube_sums(
    x: Array, y: Array, g: Array, first: int, last: int, q: float, h: float, w: Array, sums: Array
) -> None:
    """w ← g·(1 − (r/h)³)³ for rows first … last − 1 at distance r from q, g alone within 0.001 h; then ``line_sums``."""
    inverse = 1.0 / h if h > 0.0 else 0.0
    gone = x[first:last] - q
    t = gone * inverse
    left = 1.0 - np.where(np.abs(gone) > 0.001 * h, np.abs(t), 0.0) * (t * t)
    w[first:last] = left * left * left * g[first:last]
    line_sums(x, y, w, first, last, q, inverse, sums)


def in_strands(terms: Array) -> float:
    """A sum in four strands that are joined in pairs."""
    whole = np.append(terms, np.zeros(-len(terms) % 4)).reshape(-1, 4)
    strand = np.zeros(4) if not len(whole) else (0.0 + whole).cumsum(axis=0)[-1]
    return float((strand[0] + strand[1]) + (strand[2] + strand[3]))


def line_sums(x: Array, y: Array, w: Array, first: int, last: int, q: float, inverse: float, sums: Array) -> None:
    """With t = (x − q)·inverse over rows first … last − 1: Σw, Σwt, Σwt², Σwy, Σwyt."""
    t, v, z = (x[first:last] - q) * inverse, w[first:last], y[first:last]
    sums[:5] = [in_strands(terms) for terms in (v, v * t, v * t * t, v * z, v * z * t)]


def curve_sums(x: Array, y: Array, w: Array, first: int, last: int, q: float, inverse: float, sums: Array) -> None:
    """With t = (x − q)·inverse over rows first … last − 1: Σw, Σwt, Σwt², Σwt³, Σwt⁴, Σwyt²."""
    t, v, z = (x[first:last] - q) * inverse, w[first:last], y[first:last]
    c = t * t
    sums[:6] = [in_strands(terms) for terms in (v, v * t, v * c, v * c * t, v * c * c, v * c * z)]
