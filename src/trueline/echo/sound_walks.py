"""sound_walks.h in Python, the same sums in the same order: for kernels that run uncompiled."""

import numpy as np
from numpy.typing import NDArray

from ..simd import Array, add, dot

Singles = NDArray[np.float32]
Spectrum = NDArray[np.complex64]


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


def product_add(X: Spectrum, row: int, W: Spectrum, i: int, p: int, Y: Spectrum, j: int) -> None:
    """Y[j] += X[row] · W[i, p], by parts: NumPy's own product of complex numbers may round less."""
    x, w, y = X[row], W[i, p], Y[j]
    y.real += x.real * w.real - x.imag * w.imag
    y.imag += x.real * w.imag + x.imag * w.real


def power_add(X: Spectrum, row: int, power: Singles) -> None:
    """power += ½|X[row]|²."""
    power += np.float32(0.5) * (X[row].real * X[row].real + X[row].imag * X[row].imag)


def turned(X: Spectrum, row: int, E: Spectrum, G: Spectrum, p: int) -> None:
    """G[0, p] = conj(X[row]) · E."""
    x, g = X[row], G[0, p]
    g.real = x.real * E.real + x.imag * E.imag
    g.imag = x.real * E.imag - x.imag * E.real
