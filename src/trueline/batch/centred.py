"""A table as the lasso sees it: rows scaled by the root of their weight, columns centred, and never copied whole.

With residuals that sum to zero (the intercept is at its optimum), the centred column's product with a residual is the
raw column's: x̃_j'r = x_j'(√w·r) − mean_j·Σ√w·r, and the last sum is only rounding. So the table is read in place, in
the order and precision in which it came; only the columns of the working set are written out, centred and scaled.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..solvers.sparse_columns import SparseSlices
from ..threads import get_threads, spread

STRIP = 256  # columns of a float32 table that are widened together
NUMBERS = 2**17  # of a working set's columns that are written out at a time, so that they are still in the cache


def column_ranges(d: int) -> list[tuple[int, int]]:
    """The columns in as many contiguous parts as there are threads."""
    edges = np.linspace(0, d, get_threads() + 1).astype(int)
    return [(int(a), int(b)) for a, b in itertools.pairwise(edges) if b > a]


class Centred:
    """What dense and sparse tables share: weights, centring, the scaled target."""

    stored: int  # numbers that the table holds

    def __init__(self, shape: tuple[int, int], weights: np.ndarray | None, intercept: bool) -> None:
        self.n, self.d = shape
        self.intercept = intercept
        self.root = None if weights is None else np.sqrt(weights)
        self.total = float(self.n if weights is None else weights.sum())
        self.mean = np.zeros(self.d)
        if intercept:
            share = np.full(self.n, 1.0 / self.total) if weights is None else weights / self.total
            self.mean = self._products(share[None])[0]

    def target(self, y: np.ndarray) -> tuple[np.ndarray, float]:
        """(√w·(y − its weighted mean), that mean)."""
        y = np.asarray(y, dtype=np.float64)
        centre = 0.0
        for _ in range(2 * self.intercept):  # a far mean is known to its own rounding only; the rest of it is not far
            rest = float(y.mean() if self.root is None else np.dot(self.root**2, y) / self.total)
            y, centre = y - rest, centre + rest
        return (y if self.root is None else self.root * y), centre

    def balance(self, R: np.ndarray) -> np.ndarray:
        """The residuals with their weighted mean taken off, in place: a mean of columns is known to rounding only."""
        if self.intercept:
            root = np.ones(self.n) if self.root is None else self.root
            R -= (R @ root / self.total)[:, None] * root
        return R

    def correlate(self, R: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """X̃'r for the residuals in the rows of R (each scaled by √w), a row each, into ``out`` if it is given."""
        raw = R if self.root is None else R * self.root
        out = self._products(raw, out)
        if self.intercept:
            for row, total in zip(out, raw.sum(axis=1), strict=True):  # one at a time: no second array of this size
                row -= total * self.mean
        return out

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """√Σw·x_j² of each column as it came: what products with it round by."""
        return np.sqrt(self._squares())

    def _squares(self) -> np.ndarray:
        raise NotImplementedError

    def _products(self, R: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        raise NotImplementedError


class DenseTable(Centred):
    """A dense array, C or F order, float32 or float64, read in place."""

    def __init__(self, X: np.ndarray, weights: np.ndarray | None = None, intercept: bool = False) -> None:
        self.X = X if X.flags.c_contiguous or X.flags.f_contiguous else np.asfortranarray(X)
        self.stored = self.X.size
        self._room = np.empty(max(NUMBERS, 8 * self.X.shape[1]))  # of ``blocks``
        super().__init__(self.X.shape, weights, intercept)

    def _products(self, R: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        out = np.empty((R.shape[0], self.d)) if out is None else out
        if self.X.dtype == np.float64:
            return np.matmul(R, self.X, out=out)
        for start in range(0, self.d, STRIP):  # widened a strip at a time, never whole
            out[:, start : start + STRIP] = R @ self.X[:, start : start + STRIP].astype(np.float64)
        return out

    def _squares(self) -> np.ndarray:
        total = np.zeros(self.d)
        weights = np.ones(self.n) if self.root is None else self.root**2
        if self.X.flags.c_contiguous:
            step = max(16, NUMBERS // max(self.d, 1))
            for first in range(0, self.n, step):
                part = self.X[first : first + step].astype(np.float64)
                total += weights[first : first + step] @ np.square(part, out=part)
            return total
        for start in range(0, self.d, STRIP):
            part = self.X[:, start : start + STRIP].astype(np.float64)
            total[start : start + STRIP] = weights @ np.square(part, out=part)
        return total

    def blocks(self, chosen: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, these columns of them centred and scaled, a column a row), block by block, good until the next.

        The columns are never all written out. They are gathered again for each use, which takes less time than the
        first touch of the memory for a copy of them would.
        """
        root = np.ones(self.n) if self.root is None else self.root
        most = min(self.n, max(1, self._room.size // max(chosen.size, 1)))
        for first in range(0, self.n, most):
            last = min(first + most, self.n)
            made = self._room[: chosen.size * (last - first)].reshape(chosen.size, last - first)
            np.subtract(self.X.T[chosen, first:last], self.mean[chosen, None], out=made)
            made *= root[first:last]
            yield slice(first, last), made


class SparseTable(Centred):
    """A CSC matrix (made from CSR if need be) with rows scaled by √w; centring stays implicit: x̃_j = z_j − mean_j·√w."""

    def __init__(self, X: Any, weights: np.ndarray | None = None, intercept: bool = False) -> None:
        Z = X.tocsc()
        if weights is not None:
            scaled = Z.data * np.sqrt(weights)[Z.indices]
            Z = type(Z)((scaled, Z.indices, Z.indptr), shape=Z.shape)
        self.X = Z
        self.slices = SparseSlices(Z)
        self.stored = int(Z.nnz)
        super().__init__(Z.shape, weights, intercept)

    def _squares(self) -> np.ndarray:
        columns = np.repeat(np.arange(self.d), np.diff(self.X.indptr))
        return np.bincount(columns, self.X.data.astype(np.float64) ** 2, self.d)  # the rows are scaled by √w already

    def _products(self, R: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        # The rows were scaled once already: take back what the callers multiplied by.
        raw = R if self.root is None else np.divide(R, self.root, out=np.zeros_like(R), where=self.root > 0.0)
        Rt = np.ascontiguousarray(raw.T)
        made = np.empty((R.shape[0], self.d)) if out is None else out

        def products(part: tuple[int, int]) -> None:
            made[:, part[0] : part[1]] = (self._columns(*part).T @ Rt).T

        spread(products, column_ranges(self.d))
        return made

    def _columns(self, start: int, stop: int) -> Any:
        """Some neighbouring columns, not copied."""
        X, first, last = self.X, self.X.indptr[start], self.X.indptr[stop]
        stored = (X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first)
        return type(X)(stored, shape=(X.shape[0], stop - start), copy=False)
