"""Sums and products of some rows about a shift, not yet centred: what threads make of a piece of rows.

At level 0 the products are BLAS's alone. Rows that lie ready are multiplied where they are, as many at a time as stay in
the cache for the products with y and 1; of columns that lie apart [x y 1] is gathered by tiles, sorted by fold, in a
buffer that its thread keeps, and each fold's stretch of the tile is multiplied by itself. Above level 0 every block is
shifted exactly and sliced (exact.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from math import fsum
from typing import Any

import numpy as np

from ..doubled import add, add_single, divide, subtract_product, two_sum
from . import exact
from .given import Chosen, Given, Piece, count, cut, joined, tiles
from .parts import Part, symmetric

_PLAIN_ROWS, _PLAIN_NUMBERS = 8192, 2**19  # of a block at level 0
_buffers = threading.local()


class Open:
    """Sums about one shift, not yet centred."""

    def __init__(self, shift: np.ndarray) -> None:
        self.shift = shift
        width = len(shift)
        self.n = 0
        self.weight = (0.0, 0.0)
        self.sums = (np.zeros(width), np.zeros(width))
        self.products: tuple[np.ndarray, np.ndarray] | None = None
        self.noise = np.zeros(width)
        self.log_weight = 0.0
        self.tried_zero = False

    def add(self, n: int, weight: tuple[float, float], sums: Any, products: Any, noise: np.ndarray) -> None:
        self.weight = add(*self.weight, *weight) if self.n else weight
        self.sums = add(*self.sums, *sums) if self.n else sums
        if self.products is not None:
            high, error = two_sum(self.products[0], products[0])
            error += self.products[1]
            error += products[1]
            self.products = (high, error)
        else:
            self.products = products
        self.n += n
        self.noise = self.noise + noise

    def take(self, other: Open) -> None:
        """Other rows' sums about the same shift."""
        self.add(other.n, other.weight, other.sums, other.products, other.noise)
        self.log_weight += other.log_weight

    @property
    def squares(self) -> np.ndarray:
        """Σ w (z − c)² per column."""
        assert self.products is not None
        return np.diagonal(self.products[0]).copy()

    def closed(self) -> Part:
        assert self.products is not None
        wh, wl = self.weight
        sh, sl = self.sums
        mh, ml = divide(sh, sl, wh, wl)
        H, E = self.products

        def centred(i: slice, j: slice) -> tuple[np.ndarray, np.ndarray]:
            gh, gl = two_sum(H[i, j], E[i, j])
            return subtract_product(gh, gl, sh[i, None], sl[i, None], mh[None, j], ml[None, j])

        mean = add_single(mh, ml, self.shift)
        return Part(self.n, self.weight, mean, symmetric(centred, len(mh)), self.noise, self.log_weight)


class Fold:
    """A part that is still growing."""

    def __init__(self) -> None:
        self.done: Part | None = None
        self.open: Open | None = None

    def close(self) -> None:
        if self.open is not None and self.open.n:
            part = self.open.closed()
            self.done = part if self.done is None else self.done.merged(part)
        self.open = None

    def part(self) -> Part | None:
        part = self.open.closed() if self.open is not None and self.open.n else None
        if part is None or self.done is None:
            return part or self.done
        return self.done.merged(part)


def multiplied(rows: Given, piece: Piece, shifts: dict[int, np.ndarray], level: int) -> list[Open]:
    """The sums of each run of a piece about its fold's shift."""
    runs = [(cut(piece.rows, a, b), shifts[name]) for name, a, b in piece.runs]
    with np.errstate(all="ignore"):
        if level:
            return [_finely(rows, chosen, shift, level) for chosen, shift in runs]
        if rows.apart:
            products = _by_tiles(rows, piece, shifts)
        else:
            products = [exact.plain(_plainly(rows, chosen, shift)) for chosen, shift in runs]
        return [_open_of(rows, chosen, shift, made) for (chosen, shift), made in zip(runs, products, strict=True)]


def _by_tiles(rows: Given, piece: Piece, shifts: dict[int, np.ndarray]) -> list[np.ndarray]:
    """Products of each run, of columns that lie apart: they are gathered once, from and into the cache."""
    width = len(shifts[piece.runs[0][0]]) + 1
    products = [np.zeros((width, width)) for _ in piece.runs]
    for parts in tiles(piece, width):
        tile = _tile(rows, joined([cut(piece.rows, a, b) for _, a, b in parts]), width)
        start = 0
        for k, a, b in parts:
            part, shift = tile[:, start : start + b - a], shifts[piece.runs[k][0]]
            for j in np.flatnonzero(shift):
                part[j] -= shift[j] * part[-1]
            products[k] += part @ part.T
            start += b - a
    return products


def _tile(rows: Given, chosen: Chosen, width: int) -> np.ndarray:
    """√w·[x y 1] of columns that lie apart, one column after the other."""
    n = count(chosen)
    buffer = getattr(_buffers, "tile", None)
    if buffer is None or buffer.shape[0] != width or buffer.shape[1] < n:
        # A length that is a power of two would have all columns share the same cache lines.
        buffer = _buffers.tile = np.empty((width, n + 8))
    tile = rows.gathered(chosen, buffer)
    tile[-1] = 1.0
    weights = rows.weights_of(chosen)
    if weights is not None:
        tile *= np.sqrt(weights)
    return tile


def _open_of(rows: Given, chosen: Chosen, shift: np.ndarray, made: np.ndarray) -> Open:
    """The sums of some rows, of their products [x y 1]ᵀ[x y 1] in float64."""
    found = Open(shift)
    lows = np.zeros_like(made)
    found.add(count(chosen), (0.0, 0.0), (made[-1, :-1], lows[-1, :-1]), (made[:-1, :-1], lows[:-1, :-1]), found.noise)
    return _weighed(found, rows.weights_of(chosen), 0)


def _finely(rows: Given, chosen: Chosen, shift: np.ndarray, level: int) -> Open:
    """The sums of some rows about a shift at a level above 0, block by block."""
    found = Open(shift)
    step = exact.fine_rows(len(shift))
    for start in range(0, count(chosen), step):
        some = cut(chosen, start, start + step)
        high, low = exact.difference(rows.lines(some), shift)
        result = exact.gram(high, low, rows.weights_of(some), level)
        found.add(high.shape[1], (0.0, 0.0), result[:2], result[2:], found.noise)
    return _weighed(found, rows.weights_of(chosen), level)


def _weighed(found: Open, weights: np.ndarray | None, level: int) -> Open:
    """With the weight of the rows and the noise of the level."""
    found.weight = (float(found.n), 0.0) if weights is None else sum_of(weights)
    found.noise = 4 * exact.UNITS[level] * found.squares
    if weights is not None:
        found.log_weight = float(np.log(weights).sum())
    return found


def _plainly(rows: Given, chosen: Chosen, shift: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """√w·(x − c) and √w·[y − c, 1] block by block; x is not copied where it lies ready and its shift is 0."""
    d = rows.X.shape[1]
    ready = rows.direct and rows.weights is None and not shift[:d].any()
    step = max(2 * exact.FINE_ROWS, min(_PLAIN_ROWS, _PLAIN_NUMBERS // len(shift)))
    buffer = None if ready else np.empty((step, d), order="F" if rows.by_columns else "C")
    rest = np.ones((step, len(shift) - d + 1), order="F")
    for start in range(0, count(chosen), step):
        some = cut(chosen, start, start + step)
        X = rows.features(some)
        right = rest[: len(X)]
        if rows.Y is not None:
            np.subtract(rows.Y[some], shift[d:], out=right[:, :-1])
        if buffer is not None:
            X = np.subtract(X, shift[:d], out=buffer[: len(X)])
        weights = rows.weights_of(some)
        if weights is not None:
            root = np.sqrt(weights)[:, None]
            X *= root
            right[:, -1] = 1.0
            right *= root
        yield X, right


def whole(rows: Given, chosen: Chosen, candidates: np.ndarray) -> np.ndarray:
    """Which of these columns hold whole numbers only."""
    found = np.ones(len(candidates), dtype=bool)
    for start in range(0, count(chosen) if len(candidates) else 0, exact.FINE_ROWS):
        which = np.flatnonzero(found)
        some = rows.columns(cut(chosen, start, start + exact.FINE_ROWS), candidates[which].tolist())
        found[which] = [bool((np.rint(column) == column).all()) for column in some]
    return found


def sum_of(weights: np.ndarray) -> tuple[float, float]:
    high = fsum(weights)
    return high, fsum([*weights.tolist(), -high])
