"""Sums over rows of numbers, some at a time while they are in the cache.

A tile is [x − shift, 1] of a few thousand rows. Columns that lie apart are gathered, so that a tile has one line a column;
rows that lie together stay rows; BLAS takes both as they are. Where no column is far from its origin, a tile is x itself,
where it lies: nothing is copied, and the shift is taken from the products.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..data.blocks import Columns
from ..objective.loss_interface import derivatives

ENTRIES = 1 << 18  # numbers of a tile: of columns that lie apart, long enough stretches for memory to keep up
CLOSE = 1.0  # spreads: as FAR, of products of two columns
Rows = Sequence[tuple[Any, np.ndarray, np.ndarray]]  # blocks of (X, targets, weights)
_spaces = threading.local()


def space(name: str, size: int) -> np.ndarray:
    """Room for numbers, of which this thread has one of each name.

    Dask's workers give memory back at once (MALLOC_TRIM_THRESHOLD_), and the pages of new arrays cost more than the sums.
    """
    kept = _spaces.__dict__
    if name not in kept or len(kept[name]) < size:
        kept[name] = np.empty(max(size, ENTRIES))
    return kept[name][:size]  # type: ignore[no-any-return]


def tiles(X: Any, shift: np.ndarray, intercept: bool, lying: bool = False) -> Iterator[tuple[slice, np.ndarray]]:
    """(which rows, their tile) one after the other; the next takes the place of the one before. ``lying``: x itself will do."""
    n, d = X.shape
    size = d + int(intercept)
    step = max(512, ENTRIES // size)
    there = _there(X)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        if lying and there is not None:
            yield rows, there[rows]
            continue
        count = rows.stop - start
        own = space("tile", size * count)
        if not isinstance(X, Columns):
            tile = own.reshape(count, size)
            np.subtract(X[rows], shift, out=tile[:, :d])
            tile[:, d:] = 1.0
            yield rows, tile
            continue
        lines = own.reshape(size, count)
        if there is not None:
            np.subtract(there[rows].T, shift[:, None], out=lines[:d])
        else:
            for line, column, about in zip(lines, X.columns, shift.tolist(), strict=False):
                np.subtract(column[rows], about, out=line)
        lines[d:] = 1.0
        yield rows, lines.T


def _there(X: Any) -> np.ndarray | None:
    """A view of all of X as one matrix; None where its columns do not follow each other at one distance."""
    if not isinstance(X, Columns):
        return X  # type: ignore[no-any-return]
    first = X.columns[0]
    if any(column.strides != first.strides for column in X.columns):
        return None
    places = [column.__array_interface__["data"][0] for column in X.columns]
    distance = places[1] - places[0] if len(places) > 1 else 0
    if places != [places[0] + k * distance for k in range(len(places))]:
        return None
    # Line k is the memory of column k, which X keeps.
    return np.lib.stride_tricks.as_strided(first, X.shape, (*first.strides, distance), writeable=False)


def times(tile: np.ndarray, theta: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The scores of a tile: [x − shift, 1]·θ."""
    d = len(shift)
    if tile.shape[1] == len(theta):
        return np.asarray(tile @ theta)
    return np.asarray(tile @ theta[:d] + (theta[d] - shift @ theta[:d]))


def weighed(v: np.ndarray, tile: np.ndarray, shift: np.ndarray, size: int) -> np.ndarray:
    """Σ v·[x − shift, 1] over a tile's rows."""
    found = v @ tile
    if len(found) == size:
        return np.asarray(found)
    total = v.sum()
    return np.append(found - shift * total, total)


class Squares:
    """Σ h·zzᵀ over tiles of z = [x − shift, 1], h ≥ 0: BLAS adds to one triangle in place.

    Of tiles that are x itself the shift is taken from the sums. ``rough`` products are float32's, about six digits, in half
    the time; those with the 1 are float64's all the same.
    """

    def __init__(self, shift: np.ndarray, intercept: bool, rough: bool = False) -> None:
        self._shift, self._intercept, self._rough = shift, intercept, rough
        self._sum = np.zeros((0, 0))
        self._side = np.zeros(0)  # Σ h·z, or Σ h·[x, 1]

    def add(self, tile: np.ndarray, h: np.ndarray) -> None:
        from scipy.linalg.blas import dsyrk, ssyrk

        width, lines = tile.shape[1], not tile.flags.c_contiguous
        own = space("squares", tile.size)
        own = (own.view(np.float32)[: tile.size] if self._rough else own).reshape(
            tile.shape[::-1] if lines else tile.shape
        )
        root = np.sqrt(h)
        if self._rough:  # to convert and then to multiply is quicker than both at once
            own[...] = tile.T if lines else tile
            root = root.astype(np.float32)
        np.multiply(own if self._rough else tile.T if lines else tile, root if lines else root[:, None], out=own)
        if not len(self._sum):
            self._sum, self._side = np.zeros((width, width), order="F"), np.zeros(len(self._shift) + 1)
        if self._rough:
            self._sum += ssyrk(1.0, own.T, trans=int(lines))
        else:
            self._sum = dsyrk(1.0, own.T, 1.0, self._sum, trans=int(lines), overwrite_c=1)
        if self._intercept and (self._rough or width == len(self._shift)):
            self._side[:width] += h @ tile
            self._side[width:] += h.sum()

    @property
    def total(self) -> np.ndarray:
        d = len(self._shift)
        size = d + int(self._intercept)
        if not len(self._sum):
            return np.zeros((size, size))
        upper = np.triu(self._sum)
        found = upper + np.triu(upper, 1).T
        if len(found) < size:
            s, (side, weight) = self._shift, (self._side[:d], self._side[d])
            moved = np.outer(s, side - 0.5 * weight * s)
            whole = np.empty((size, size))
            whole[:d, :d] = found - (moved + moved.T)
            whole[d, :d] = whole[:d, d] = side - weight * s
            whole[d, d] = weight
            return whole
        if self._rough and self._intercept:
            found[d] = found[:, d] = self._side
        return found


def summed(
    loss: Any,
    rows: Rows,
    shift: np.ndarray,
    theta: np.ndarray,
    *,
    intercept: bool,
    hessian: bool,
    near: bool = False,
    rough: bool = False,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Σ c·V, Σ c·V'·z and, if asked for, Σ c·V''·zzᵀ at parameters of z = [x − shift, 1].

    ``near``: no column is far; ``rough``: six digits of the Hessian will do.
    """
    value, gradient = 0.0, np.zeros(len(theta))
    squares = Squares(shift, intercept, rough)
    with np.errstate(over="ignore", invalid="ignore"):
        for X, y, c in rows:
            for some, tile in tiles(X, shift, intercept, near and not hessian):
                score = times(tile, theta, shift)
                slope, curvature = space("vectors", 2 * len(score)).reshape(2, -1)
                value += derivatives(loss, score, y[some], c[some], slope, curvature)
                gradient += weighed(slope, tile, shift, len(theta))
                if hessian:
                    squares.add(tile, curvature)
        return value, gradient, squares.total
