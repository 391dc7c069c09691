"""sound_walks.h in Python, the same sums in the same order: for kernels that run uncompiled."""

from typing import Any

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


def single_norm2(A: Singles, i: int, first: int, n: int) -> float:
    """‖A[i, first : first + n]‖²."""
    return single_window_dot(A[i], first, A[i, first:], n)


def power(x: Spectrum) -> Singles:
    return x.real * x.real + x.imag * x.imag


def covary(pair: Any, X: Spectrum, row: int, old: int, i: int, p: int) -> None:
    """Add partition p to the system [S between; conj(between) S'] of filter i: ½C times products of X[row] and X[old]."""
    x, o, half, between = X[row], X[old], np.float32(0.5) * pair.C[i, p], pair.between[i]
    pair.S[i] += power(x) * half
    pair.S[2 + i] += power(o) * half
    between.real += (x.real * o.real + x.imag * o.imag) * half
    between.imag += (x.imag * o.real - x.real * o.imag) * half


def answer(pair: Any, E: Spectrum, i: int) -> None:
    """Solve filter i's system for the errors of both frames, in their place."""
    e, older, b, one = E[i], E[2 + i], pair.between[i], np.float32(1)
    inverse = one / pair.S[2 + i]
    u, v = b.real * inverse, b.imag * inverse
    rest = pair.S[i] - (u * b.real + v * b.imag)
    rest = one / np.maximum(np.maximum(rest, pair.noise[i]), np.float32(pair.floor))
    real = (e.real - (u * older.real - v * older.imag)) * rest
    imaginary = (e.imag - (u * older.imag + v * older.real)) * rest
    e.real, e.imag = real, imaginary
    answered = (older.imag - (b.real * imaginary - b.imag * real)) * inverse
    older.real = (older.real - (b.real * real + b.imag * imaginary)) * inverse
    older.imag = answered


def gradient(pair: Any, X: Spectrum, row: int, old: int, E: Spectrum, i: int, p: int) -> None:
    """G = C·(conj(X)·z + conj(X')·z') for partition p of filter i."""
    x, o, e, older, g = X[row], X[old], E[i], E[2 + i], pair.G[i, p]
    g.real = (x.real * e.real + x.imag * e.imag + (o.real * older.real + o.imag * older.imag)) * pair.C[i, p]
    g.imag = (x.real * e.imag - x.imag * e.real + (o.real * older.imag - o.imag * older.real)) * pair.C[i, p]


def renew(pair: Any, X: Spectrum, row: int, i: int, p: int, share: float, keep2: float) -> None:
    """C ← A²(1 − β·½μ|X|²)C + (1 − A²)|W|² for partition p of filter i, at least its share of the prior."""
    c, one, kept = pair.C[i, p], np.float32(1), np.float32(keep2)
    shrink = one - pair.rate[i] * c * power(X[row])
    c[:] = np.maximum(kept * shrink * c + (one - kept) * power(pair.W[i, p]), np.float32(share) * pair.gain)
