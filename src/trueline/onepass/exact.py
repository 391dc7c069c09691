"""The error-free Gram matrix: cross-products of one block of rows at a chosen level of accuracy.

A block is shifted by c (about its mean, rounded to few bits), Z = X − c kept as hi + lo. Then, with columns
scaled so that |z| < 2^E:

  level 0   ZᵀZ in float64                                            unit 2⁻⁵³
  level 1   S = the leading bits of hi, so that SᵀS is exact in float64 BLAS for up to 8,192 rows;
            R = (hi − S) + lo, W = S + R/2, ZᵀZ = SᵀS + RᵀW + WᵀR      unit 2⁻⁷⁴
  level 2   a second slice T of hi: SᵀS, SᵀT, TᵀT exact, the rest as R  unit 2⁻⁹⁵

Exact products are summed with their errors; the tail's rounding is the unit. With weights the left factor is Z
and the right one w·Z, both exact pairs, each sliced on its own. Blocks come with one line a column, so that shifts and
slices run along the memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np

from ..doubled import SPLIT, two_prod, two_sum

BLOCK_ROWS = 4096
FINE_ROWS = 1024
_NARROW = 16  # columns: up to so many, 4,096 rows stay in the cache as well
UNITS = (2.0**-53, 2.0**-74, 2.0**-95)
LEVELS = len(UNITS)
HIGHEST = LEVELS - 1
# 2^20 units in a slice and 2^12 rows leave one bit to spare below 2^53.
_SLICE = 1.5 * 2.0**32
_SECOND = 2.0**-21
_KEPT = 2**19  # numbers: larger arrays are made anew each time
_spaces = threading.local()


def fine_rows(width: int) -> int:
    """Rows of a block above level 0."""
    return BLOCK_ROWS if width <= _NARROW else FINE_ROWS


def _space(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array to work in, of which this thread has one under this name: the pages of new ones cost more than the sums."""
    size = shape[0] * shape[1]
    if size > _KEPT:
        return np.empty(shape)
    kept = _spaces.__dict__
    if name not in kept or kept[name].size < size:
        kept[name] = np.empty(size)
    return kept[name][:size].reshape(shape)


def shift_of(columns: np.ndarray) -> np.ndarray:
    """A shift per column near its mean, with at most 24 significant bits, so that x − c loses little."""
    with np.errstate(all="ignore"):
        return few_bits(columns.sum(axis=1) / columns.shape[1])


def few_bits(values: np.ndarray) -> np.ndarray:
    """Values rounded to 24 bits; 0 where they are not finite."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    return np.ldexp(np.rint(mantissa * 2.0**24), exponent - 24)


def difference(columns: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """z − c exactly, as hi + lo, in arrays that the next call on this thread may use again."""
    c, shape = shift[:, None], columns.shape
    high = np.subtract(columns, c, out=_space("high", shape))
    t = np.subtract(high, columns, out=_space("tail", shape))
    low = np.subtract(high, t, out=_space("low", shape))
    np.subtract(columns, low, out=low)
    t += c
    low -= t
    return high, low


def gram(high: np.ndarray, low: np.ndarray | None, weights: np.ndarray | None, level: int) -> tuple:
    """(sums hi, lo, products hi, lo) of Σ w z and Σ w z zᵀ for a block Z = hi + lo, one line a column."""
    if level == 0:
        root = np.ones((high.shape[1], 1)) if weights is None else np.sqrt(weights)[:, None]
        found = plain([(high.T if weights is None else high.T * root, root)])
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
    square, side, corner = X.T @ X, _beside(X, rest), rest.T @ rest
    for X, rest in blocks:
        square += X.T @ X
        side += _beside(X, rest)
        corner += rest.T @ rest
    return np.block([[square, side], [side.T, corner]])


def _beside(X: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """XᵀR; for two or three columns BLAS's product with a vector is faster than that of matrices."""
    return X.T @ rest if rest.shape[1] > 3 else np.array([column @ X for column in rest.T]).T


def _sigma(high: np.ndarray) -> np.ndarray:
    """1.5·2^(E + 32) per column, where max|z| < 2^E: adding and subtracting it keeps 20 leading bits."""
    largest = np.maximum(high.max(axis=1), -high.min(axis=1))
    return np.ldexp(_SLICE, np.frexp(largest)[1])[:, None]


def _sum_exactly(parts: list[np.ndarray], tail: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    high = parts[0]
    for part in parts[1:]:
        high, error = two_sum(high, part)
        tail = tail + error
    return two_sum(high, tail)


def _unweighted(high: np.ndarray, low: np.ndarray, level: int) -> tuple:
    (w, n), sigma = high.shape, _sigma(high)
    lines = _space("lines", (2 * w + 1, n))  # 1, S and T: products with 1 are the sums
    lines[0] = 1.0
    S, T = lines[1 : w + 1], lines[w + 1 :]
    np.add(high, sigma, out=S)
    S -= sigma
    R = np.subtract(high, S, out=_space("tail", (w, n)))
    if level == 2:
        sigma = sigma * _SECOND
        np.add(R, sigma, out=T)
        T -= sigma
        R -= T
        made = lines @ lines.T  # all of it exact, and half the work for BLAS
        # Exact products: the sum of two need not be exact, so that its error is kept.
        sums, tail = two_sum(made[1 : w + 1, : w + 1], made[w + 1 :, : w + 1])
        for more in (made[1 : w + 1, w + 1 :], made[w + 1 :, w + 1 :]):
            sums[:, 1:], error = two_sum(sums[:, 1:], more)
            tail[:, 1:] += error
        S += T
    else:
        made = lines[: w + 1] @ lines[: w + 1].T
        sums, tail = made[1:], 0.0
    R += low
    np.multiply(R, 0.5, out=T)
    S += T
    P = R @ lines[: w + 1].T
    P[:, 1:] += P[:, 1:].T.copy()
    h, e = two_sum(sums, tail + P)
    return h[:, 0], e[:, 0], h[:, 1:], e[:, 1:]


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
    wide, error = two_prod(weights, high)
    left, left_tail = _slices(high, low, level)
    right, right_tail = _slices(wide, error + weights * low, level)
    exact = [a @ b.T for a in left for b in right]
    whole_left = left[0] if level == 1 else left[0] + left[1]
    tail = whole_left @ right_tail.T + left_tail @ (wide + error).T
    h, e = _sum_exactly(exact, tail)
    ones = np.ones(len(weights))
    sums = _sum_exactly([b @ ones for b in right], right_tail @ ones)
    # ZᵀWZ is symmetric though its slices are not.
    th, te = two_sum(h, h.T)
    te = te + (e + e.T)
    return *sums, *two_sum(0.5 * th, 0.5 * te)


def overflow_safe(columns: np.ndarray) -> bool:
    """Whether squares and splits of these numbers stay finite."""
    return bool(np.max(np.abs(columns), initial=0.0) * SPLIT < 1e150)
