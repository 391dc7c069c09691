"""sound_walks.h in Python, the same sums in the same order: for kernels that run uncompiled."""

import numpy as np
from numpy.typing import NDArray

from ..simd import Array, add, dot

Singles = NDArray[np.float32]


def window_dot(signal: Array, first: int, w: Array, n: int) -> float:
    """signal[first : first + n] · w."""
    return dot(signal[first:], w, n)


def window_add(signal: Array, first: int, scale: float, w: Array, n: int) -> None:
    """w += scale · signal[first : first + n]."""
    add(signal[first:], scale, w, n)


def windows_dot(signal: Array, first: int, other: int, n: int) -> float:
    """Two windows of one signal."""
    return dot(signal[first:], signal[other:], n)


def single_window_dot(signal: Singles, first: int, w: Singles, n: int) -> float:
    """The same in single precision: 32 lanes, the rest of a row to its lanes, joined by halves."""
    products = np.zeros(-(-n // 32) * 32, np.float32)
    products[:n] = signal[first : first + n] * w[:n]
    lanes = np.zeros(32, np.float32)
    for block in products.reshape(-1, 32):
        lanes += block
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return float(lanes[0])


def single_window_add(signal: Singles, first: int, scale: float, w: Singles, n: int) -> None:
    w[:n] += np.float32(scale) * signal[first : first + n]


def window_row_dot(P: Array, i: int, signal: Array, first: int, n: int) -> float:
    """P[i] · signal[first : first + n]."""
    return dot(P[i], signal[first:], n)


def shrink_row(v: Array, scale: float, grow: float, P: Array, i: int) -> None:
    """P[i] ← (P[i] − scale · v) · grow."""
    P[i] = (P[i] - scale * v) * grow
