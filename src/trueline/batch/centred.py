"""A table as the lasso sees it: rows scaled by the root of their weight, columns centred, and never copied whole.

With residuals that sum to zero (the intercept is at its optimum), the centred column's product with a residual is the
raw column's: x̃_j'r = x_j'(√w·r) − mean_j·Σ√w·r, and the last sum is only rounding. So the table is read in place, in
the order and precision in which it came; only the columns of the working set are written out, centred and scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import kernel
from ..threads import get_threads, spread

STRIP = 256  # columns whose sums stay in the first-level cache


@kernel(reassociate=True)
def dots_by_column(Xt, R, out, start, stop):
    """out[p, j] = Σ_i Xt[j, i]·R[p, i]: columns contiguous."""
    several = R.shape[0]
    n = R.shape[1]
    for j in range(start, stop):
        x = Xt[j]
        p = 0
        while p + 4 <= several:
            r0, r1, r2, r3 = R[p], R[p + 1], R[p + 2], R[p + 3]
            a = b = c = d = 0.0
            for i in range(n):
                v = x[i]
                a += v * r0[i]
                b += v * r1[i]
                c += v * r2[i]
                d += v * r3[i]
            out[p, j] = a
            out[p + 1, j] = b
            out[p + 2, j] = c
            out[p + 3, j] = d
            p += 4
        while p < several:
            r = R[p]
            total = 0.0
            for i in range(n):
                total += x[i] * r[i]
            out[p, j] = total
            p += 1


@kernel(reassociate=True)
def dots_by_row(X, R, out, start, stop):
    """The same where rows are contiguous: strips of columns, so that the sums stay in cache."""
    several = R.shape[0]
    for left in range(start, stop, STRIP):
        right = min(left + STRIP, stop)
        strip = out[:, left:right]
        strip[:, :] = 0.0
        for i in range(X.shape[0]):
            x = X[i, left:right]
            for p in range(several):
                weight = R[p, i]
                sums = strip[p]
                for j in range(x.shape[0]):
                    sums[j] += weight * x[j]


@kernel
def gather_columns(X, chosen, mean, root, out):
    """out[c, i] = root_i·(X[i, chosen_c] − mean): the working set's columns, written as rows."""
    for c in range(chosen.shape[0]):
        j = chosen[c]
        centre = mean[j]
        for i in range(X.shape[0]):
            out[c, i] = root[i] * (X[i, j] - centre)


@kernel(reassociate=True)
def dots_by_entry(data, indices, indptr, Rt, out, start, stop):
    """out[p, j] = Σ over the stored entries of column j of x_ij·Rt[i, p]: one cache line an entry."""
    several = Rt.shape[1]
    sums = np.empty(several)
    for j in range(start, stop):
        for p in range(several):
            sums[p] = 0.0
        for e in range(indptr[j], indptr[j + 1]):
            value = data[e]
            row = Rt[indices[e]]
            for p in range(several):
                sums[p] += value * row[p]
        for p in range(several):
            out[p, j] = sums[p]


def column_ranges(d: int) -> list[tuple[int, int]]:
    """The columns in as many contiguous parts as there are threads."""
    edges = np.linspace(0, d, get_threads() + 1).astype(int)
    return [(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a]


class Centred:
    """What dense and sparse tables share: weights, centring, the scaled target."""

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
        if self.intercept:
            centre = float(y.mean() if self.root is None else np.dot(self.root**2, y) / self.total)
        y = y - centre
        return (y if self.root is None else self.root * y), centre

    def correlate(self, R: np.ndarray) -> np.ndarray:
        """X̃'r for the residuals in the rows of R (each scaled by √w), a row each."""
        raw = R if self.root is None else R * self.root
        out = self._products(raw)
        if self.intercept:
            out -= raw.sum(axis=1)[:, None] * self.mean
        return out

    def _products(self, R: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class DenseTable(Centred):
    """A dense array, C or F order, float32 or float64, read in place."""

    def __init__(self, X: np.ndarray, weights: np.ndarray | None = None, intercept: bool = False) -> None:
        self.X = X if X.flags.c_contiguous or X.flags.f_contiguous else np.asfortranarray(X)
        super().__init__(self.X.shape, weights, intercept)

    def _products(self, R: np.ndarray) -> np.ndarray:
        R = np.ascontiguousarray(R)
        out = np.empty((R.shape[0], self.d))
        by_column = self.X.flags.f_contiguous
        read: Any = dots_by_column if by_column else dots_by_row
        source = self.X.T if by_column else self.X
        spread(lambda part: read(source, R, out, part[0], part[1]), column_ranges(self.d))
        return out

    def columns(self, chosen: np.ndarray, out: np.ndarray) -> None:
        """Write the centred, scaled columns as the rows of ``out``."""
        root = np.ones(self.n) if self.root is None else self.root
        gather_columns(self.X, chosen, self.mean, root, out)


class SparseTable(Centred):
    """A CSC matrix (made from CSR if need be); zeros stay implicit, centring too."""

    def __init__(self, X: Any, weights: np.ndarray | None = None, intercept: bool = False) -> None:
        self.X = X.tocsc()
        super().__init__(self.X.shape, weights, intercept)

    def _products(self, R: np.ndarray) -> np.ndarray:
        Rt = np.ascontiguousarray(R.T)
        out = np.empty((R.shape[0], self.d))
        X = self.X
        spread(
            lambda part: dots_by_entry(X.data, X.indices, X.indptr, Rt, out, part[0], part[1]), column_ranges(self.d)
        )
        return out
