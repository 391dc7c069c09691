"""The error-free Gram matrix: cross-products of one block of rows at a chosen level of accuracy.

A block is shifted by c (about its mean, rounded to few bits), Z = X − c kept as hi + lo. Then, with columns
scaled so that |z| < 2^E:

  level 0   ZᵀZ in float64                                            unit 2⁻⁵³
  level 1   S = the leading bits of hi, so that SᵀS is exact in float64 BLAS for up to 8,192 rows;
            R = (hi − S) + lo, W = S + R/2, ZᵀZ = SᵀS + RᵀW + WᵀR      unit 2⁻⁷⁴
  level 2   a second slice T of hi: SᵀS, SᵀT, TᵀT exact, the rest as R  unit 2⁻⁹⁵

Exact products are summed with their errors; the tail's rounding is the unit. With weights the left factor is Z
and the right one w·Z, both exact pairs, each sliced on its own. NumPy's ``A.T @ A`` runs on all cores.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .doubled import SPLIT, two_prod, two_sum

BLOCK_ROWS = 4096
FINE_ROWS = 1024
UNITS = (2.0**-53, 2.0**-74, 2.0**-95)
LEVELS = len(UNITS)
# 2^20 units in a slice and 2^12 rows leave one bit to spare below 2^53.
_SLICE = 1.5 * 2.0**32
_SECOND = 2.0**-21


def shift_of(columns: np.ndarray) -> np.ndarray:
    """A shift per column near its mean, with at most 24 significant bits, so that x − c loses little."""
    with np.errstate(all="ignore"):
        return few_bits(columns.sum(axis=0) / len(columns))


def few_bits(values: np.ndarray) -> np.ndarray:
    """Values rounded to 24 bits; 0 where they are not finite."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    return np.ldexp(np.rint(mantissa * 2.0**24), exponent - 24)


def difference(X: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """X − c exactly, as hi + lo."""
    high = X - shift
    t = high - X
    return high, (X - (high - t)) - (shift + t)


def gram(high: np.ndarray, low: np.ndarray | None, weights: np.ndarray | None, level: int) -> tuple:
    """(sums hi, lo, products hi, lo) of Σ w z and Σ w z zᵀ for a block Z = hi + lo."""
    if level == 0:
        root = np.ones((len(high), 1)) if weights is None else np.sqrt(weights)[:, None]
        found = plain([(high if weights is None else high * root, root)])
        sums, products = found[-1, :-1], found[:-1, :-1]
        return sums, np.zeros_like(sums), products, np.zeros_like(products)
    assert low is not None
    if weights is None:
        return _unweighted(high, low, level)
    return _weighted(high, low, weights, level)


def plain(blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Σ [X r]ᵀ[X r] in float64 over a few blocks, X left where it lies: BLAS needs half the work for XᵀX."""
    blocks = iter(blocks)
    X, rest = next(blocks)
    square, side, corner = X.T @ X, X.T @ rest, rest.T @ rest
    for X, rest in blocks:
        square += X.T @ X
        side += X.T @ rest
        corner += rest.T @ rest
    return np.block([[square, side], [side.T, corner]])


def _sigma(high: np.ndarray) -> np.ndarray:
    """1.5·2^(E + 32) per column, where max|z| < 2^E: adding and subtracting it keeps 20 leading bits."""
    largest = np.maximum(high.max(axis=0), -high.min(axis=0))
    return np.ldexp(_SLICE, np.frexp(largest)[1])


def _sum_exactly(parts: list[np.ndarray], tail: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    high = parts[0]
    for part in parts[1:]:
        high, error = two_sum(high, part)
        tail = tail + error
    return two_sum(high, tail)


def _unweighted(high: np.ndarray, low: np.ndarray, level: int) -> tuple:
    sigma = _sigma(high)
    S = (high + sigma) - sigma
    R = high - S
    ones = np.ones(len(high))
    exact, sums = [S.T @ S], [ones @ S]
    first = S
    if level == 2:
        sigma = sigma * _SECOND
        T = (R + sigma) - sigma
        R = R - T
        cross = S.T @ T
        # Two exact products: their sum need not be exact, so they stay apart.
        exact += [cross, cross.T, T.T @ T]
        sums.append(ones @ T)
        first = S + T
    R += low
    P = R.T @ (first + 0.5 * R)
    return *_sum_exactly(sums, ones @ R), *_sum_exactly(exact, P + P.T)


def _slices(high: np.ndarray, low: np.ndarray, level: int) -> tuple[list[np.ndarray], np.ndarray]:
    sigma = _sigma(high)
    S = (high + sigma) - sigma
    R = high - S
    if level == 1:
        return [S], R + low
    sigma = sigma * _SECOND
    T = (R + sigma) - sigma
    return [S, T], (R - T) + low


def _weighted(high: np.ndarray, low: np.ndarray, weights: np.ndarray, level: int) -> tuple:
    w = weights[:, None]
    wide, error = two_prod(w, high)
    left, left_tail = _slices(high, low, level)
    right, right_tail = _slices(wide, error + w * low, level)
    exact = [a.T @ b for a in left for b in right]
    whole_left = left[0] if level == 1 else left[0] + left[1]
    tail = whole_left.T @ right_tail + left_tail.T @ (wide + error)
    h, e = _sum_exactly(exact, tail)
    ones = np.ones(len(high))
    sums = _sum_exactly([ones @ b for b in right], ones @ right_tail)
    # ZᵀWZ is symmetric though its slices are not.
    th, te = two_sum(h, h.T)
    te = te + (e + e.T)
    return *sums, *two_sum(0.5 * th, 0.5 * te)


def overflow_safe(columns: np.ndarray) -> bool:
    """Whether squares and splits of these numbers stay finite."""
    return bool(np.max(np.abs(columns), initial=0.0) * SPLIT < 1e150)
