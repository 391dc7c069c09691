"""The design matrix as the solvers see it: standardised, without a copy.

Column j counts as (x_j − shift_j)/scale_j and a column of ones comes last when there is an intercept, so the
scale of a column never decides convergence. X itself stays as it came (dense in either order, CSR or CSC,
float64 or float32); shift and scale are applied to vectors of length d, and block by block inside the Hessian and of
columns that lie far from 0, where subtracting afterwards would lose digits. Sparse columns are scaled but not shifted: shifting fills them.
The shift of a wide margin of rows is as good a preconditioner as the exact one, so long inputs are sampled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import threads
from ..doubled import two_prod
from ..solvers.sparse_columns import SparseSlices

BLOCK = 4096
EXACT_UP_TO = 65_536  # rows; beyond, shift and scale come from a sample
FAR = 100.0  # spreads: beside a column whose mean is further from 0 all are shifted before they are multiplied


def standardised_block(
    X: np.ndarray, start: int, stop: int, shift: np.ndarray, root: np.ndarray, out: np.ndarray
) -> None:
    """out = [(X − shift)·root, root] for some rows; the last column is the intercept's, if out has one."""
    d, roots = X.shape[1], root[start:stop, None]
    np.subtract(X[start:stop], shift[:d], out=out[:, :d])
    out[:, :d] *= roots
    out[:, d:] = roots


def is_sparse(X: Any) -> bool:
    """Whether X is one of SciPy's sparse matrices or arrays (without importing SciPy to find out)."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def spread_rows(n: int, rows: int) -> np.ndarray:
    """About ``rows`` of n rows, in runs of 64 spread evenly, so that sorted files are sampled fairly."""
    run = 64
    if rows >= n:
        return np.arange(n)
    starts = np.linspace(0, n - run, max(1, rows // run)).astype(np.int64)
    return np.unique((starts[:, None] + np.arange(run)).ravel())


def still_columns(X: Any, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(columns of X that have one value in every row that counts, their values); of sparse ones those all 0 or without a 0.

    >>> still_columns(np.array([[1.0, 2.0, 0.0], [1.0, 3.0, 0.0]]), np.full(2, 0.5))
    (array([0, 2]), array([1., 0.]))
    """
    if is_sparse(X):
        held = np.diff(X.indptr) if X.format == "csc" else np.bincount(X.indices, minlength=X.shape[1])
        ends = np.flatnonzero((held == X.shape[0]) | (held == 0))
        places, values = still_columns(X[:, ends].toarray(), weights) if ends.size else (ends, np.zeros(0))
        return ends[places], values
    counted, found, start, rows = weights > 0.0, np.arange(X.shape[1]), 0, 64
    first = X[int(np.argmax(counted))]
    while start < len(X) and found.size:
        some = slice(start, start + rows)
        same = (X[some, found] == first[found]) | ~counted[some, None]
        found, start, rows = found[same.all(axis=0)], start + rows, min(2 * rows, BLOCK)
    return found, first[found].astype(float)


class Design:
    """X with implicit standardisation; ``passes`` counts how often X was read."""

    def __init__(
        self,
        X: Any,
        weights: np.ndarray,
        *,
        intercept: bool = True,
        centre: bool = True,
        standardise: bool = True,
        groups: np.ndarray | None = None,
    ) -> None:
        self.sparse = is_sparse(X)
        self.X = X
        self.slices = SparseSlices(X) if self.sparse else None
        self.n, self.d = X.shape
        self.intercept = intercept
        self.size = self.d + int(intercept)
        self.passes = 0.0
        self.shift = np.zeros(self.d)
        self.scale = np.ones(self.d)
        self.level = 0.0  # the intercept's origin: a constant that was taken off the targets
        self._root_mean_square: np.ndarray | None = None
        self.still, self._still_values = np.zeros(0, dtype=np.int64), np.zeros(0)
        if standardise:
            self._measure(weights, centre and intercept and not self.sparse)
            if groups is not None:  # one scale a group keeps its norm a norm
                for label in np.unique(groups):
                    inside = groups == label
                    self.scale[inside] = np.sqrt(np.mean(self.scale[inside] ** 2))

    def _measure(self, weights: np.ndarray, centre: bool) -> None:
        if self.slices is not None:
            # Sparse columns are not shifted, so their scale is the root mean square.
            self.scale = self._root_mean_square = np.sqrt(self.slices.square_sums(weights))
        else:
            rows = slice(None) if self.n <= EXACT_UP_TO else spread_rows(self.n, 16_384)
            sample, c = self.X[rows], weights[rows]
            total = c.sum()
            if not total > 0.0:
                sample, c, total = self.X, weights, weights.sum()
            c = c / total
            mean = c @ sample
            deviation = np.empty(self.d)
            for start in range(0, self.d, 64):  # a few columns at a time: no second copy of a long sample
                part = sample[:, start : start + 64] - (mean[start : start + 64] if centre else 0.0)
                np.square(part, out=part)
                deviation[start : start + 64] = c @ part
            constant = deviation <= (1e-13 * np.abs(mean)) ** 2
            self.scale = np.sqrt(deviation)
            if centre:
                self.shift = np.asarray(mean, dtype=float)
            for j in np.flatnonzero(constant & (len(c) < self.n)):
                column = self.X[:, j] - self.shift[j]
                self.scale[j] = np.sqrt(weights @ column**2)
            flat = self.scale <= 1e-13 * np.abs(mean)
            self.scale[flat] = 0.0
            if centre:  # a constant column counts as exact zeros; its rounded mean would leave a curvature of rounding
                self.shift[flat] = self.X[int(np.argmax(weights > 0.0)), flat]
        self.scale = np.where((self.scale > 0.0) & np.isfinite(self.scale), self.scale, 1.0)

    def stiffen(self, l2: np.ndarray | None, curvature: float) -> None:
        """Let the scale count an L2 penalty's curvature too: where it outweighs the data's, it sets the scale."""
        if l2 is not None:
            self.scale = np.sqrt(self.scale**2 + l2 / (curvature if np.isfinite(curvature) else 1.0))

    @property
    def far(self) -> bool:
        """Whether products with the columns as they came would lose digits to their shifts."""
        return bool((np.abs(self.shift) > FAR * self.scale).any())

    def find_still(self, weights: np.ndarray, free: bool) -> None:
        """Look for columns that never vary; ``free`` says that nothing holds the intercept, which then has their part."""
        self.still, self._still_values = still_columns(self.X, weights)
        if not free:  # there only a column of zeros adds nothing
            self.still, self._still_values = self.still[self._still_values == 0.0], np.zeros(0)

    def without_still(self, theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The same function with these weights on the columns that never vary; ``theta`` has a row a class.

        A weight of such a column and the intercept are one number, of which the penalty likes the intercept best.
        """
        out = theta.copy()
        if self._still_values.any():
            at = (self._still_values - self.shift[self.still]) / self.scale[self.still]
            out[:, self.d] += (theta[:, self.still] - weights) @ at
        out[:, self.still] = weights
        return out

    # from standardised parameters to the user's, and back

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """(coefficients, intercept) in the user's units."""
        coef, constant = self.own_units(theta)
        if self.far:
            return coef, self._beside_shifts([theta[self.d], self.level], -coef)
        return coef, self.level + constant

    def own_units(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """(coefficients, intercept) for X as it is and targets without their level."""
        coef = theta[: self.d] / self.scale
        return coef, float(theta[self.d] - self.shift @ coef) if self.intercept else 0.0

    def join(self, coef: np.ndarray, intercept: float) -> np.ndarray:
        """The standardised parameters of the user's coefficients."""
        theta = np.zeros(self.size)
        theta[: self.d] = coef * self.scale
        if self.far:
            theta[self.d] = self._beside_shifts([intercept, -self.level], coef)
        elif self.intercept:
            theta[self.d] = (intercept - self.level) + self.shift @ coef
        return theta

    def _beside_shifts(self, terms: list[float], coef: np.ndarray) -> float:
        """The sum of the terms and shift·coef, rounded once."""
        high, low = two_prod(self.shift, coef)
        if not np.isfinite(high + low).all():
            return float(sum(terms) + self.shift @ coef)
        return math.fsum([*terms, *high.tolist(), *low.tolist()])

    # products with the standardised matrix

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """X̃θ."""
        self.passes += 1.0
        if self.far:
            out, coef = np.empty(self.n), theta[: self.d] / self.scale
            for start, part in self.shifted_blocks():
                np.dot(part, coef, out=out[start : start + len(part)])
            out += theta[self.d]
            return out
        coef, intercept = self.own_units(theta)
        out = self._times(coef)
        out += intercept if self.intercept else 0.0
        return out

    def correlations(self, g: np.ndarray) -> np.ndarray:
        """X̃ᵀg."""
        self.passes += 1.0
        if self.far:
            sums = np.zeros(self.d)
            for start, part in self.shifted_blocks():
                sums += g[start : start + len(part)] @ part
            return self.standardised_gradient(sums, float(g.sum()), np.zeros(self.d))
        return self.standardised_gradient(self._transposed_times(g), float(g.sum()), self.shift)

    def shifted_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """(the first row, X − shift) block by block, good until the next; only dense columns have a shift."""
        room = np.empty((min(BLOCK, self.n), self.d))
        for start in range(0, self.n, BLOCK):
            stop = min(self.n, start + BLOCK)
            yield start, np.subtract(self.X[start:stop], self.shift, out=room[: stop - start])

    def standardised_gradient(self, raw: np.ndarray, total: float, shift: np.ndarray) -> np.ndarray:
        """X̃ᵀg from Xᵀg and Σg; ``shift`` is what is still to be taken off the columns."""
        out = np.empty(self.size)
        out[: self.d] = (raw - shift * total) / self.scale
        if self.intercept:
            out[self.d] = total
        return out

    def unscaled(self, matrix: np.ndarray) -> np.ndarray:
        """A matrix of shifted columns with their scales divided out."""
        scale = np.append(self.scale, 1.0) if self.intercept else self.scale
        return matrix / scale / scale[:, None]

    def hessian(self, h: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """X̃ᵀ diag(h) X̃, of all parameters or of a few, h ≥ 0."""
        self.passes += 1.0
        if columns is not None and (self.sparse or len(columns) < self.size):
            return self._small_hessian(h, columns)
        if self.sparse:
            return self._sparse_hessian(h)
        total = np.zeros((self.size, self.size))
        root = np.sqrt(h)
        shift = self.shift
        for start in range(0, self.n, BLOCK):
            stop = min(self.n, start + BLOCK)
            block = np.empty((stop - start, self.size))
            standardised_block(self.X, start, stop, shift, root, block)
            total += block.T @ block
        return self.unscaled(total)

    def lengths(self, c: np.ndarray) -> np.ndarray:
        """‖x̃_j‖ of each column in the rows' weights, exactly."""
        if self._root_mean_square is not None:
            return self._root_mean_square / self.scale
        if self.slices is not None:
            return np.sqrt(self.slices.square_sums(c)) / self.scale
        second = np.zeros(self.d)
        step = max(16, 1_000_000 // self.d)
        for start in range(0, self.n, step):
            part = self.X[start : start + step] - self.shift
            second += c[start : start + step] @ (part * part)
        return np.sqrt(second) / self.scale

    def dense_columns(self, indices: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
        """Some standardised columns (n × k), as an array; index d is the intercept's.

        With weights of the rows in ``centre`` each is shifted by its mean, sparse ones too.
        """
        out = np.ones((self.n, len(indices)), order="F")
        for k, j in enumerate(indices):
            if j < self.d:
                column = self.X[:, [j]].toarray().ravel() if self.sparse else self.X[:, j]
                out[:, k] = (column - (self.shift[j] if centre is None else centre @ column)) / self.scale[j]
        return out

    def _times(self, v: np.ndarray) -> np.ndarray:
        if self.slices is not None:
            return self.slices.times(v) if v.any() else np.zeros(self.n)
        if self.X.dtype == np.float64:
            return np.asarray(self.X @ v, dtype=float)
        out = np.empty(self.n)
        for start in range(0, self.n, BLOCK):  # float32: widened block by block, never as a whole
            out[start : start + BLOCK] = self.X[start : start + BLOCK].astype(float) @ v
        return out

    def _transposed_times(self, g: np.ndarray) -> np.ndarray:
        if self.slices is not None:
            return self.slices.transposed_times(g)
        if self.X.dtype == np.float64:
            return g @ self.X
        out = np.zeros(self.d)
        for start in range(0, self.n, BLOCK):
            out += g[start : start + BLOCK] @ self.X[start : start + BLOCK].astype(float)
        return out

    def _small_hessian(self, h: np.ndarray, columns: np.ndarray) -> np.ndarray:
        total = np.zeros((len(columns), len(columns)))
        if self.sparse:
            part = self.dense_columns(columns)
            return part.T @ (part * h[:, None])
        inside = columns[columns < self.d]
        root = np.sqrt(h)
        scale = np.append(self.scale[inside], np.ones(len(columns) - len(inside)))
        for start in range(0, self.n, BLOCK):
            stop = min(self.n, start + BLOCK)
            block = np.empty((stop - start, len(columns)))
            standardised_block(
                np.ascontiguousarray(self.X[start:stop][:, inside]), 0, stop - start, self.shift[inside],
                root[start:stop], block,
            )  # fmt: skip
            total += block.T @ block
        return total / scale / scale[:, None]

    def _sparse_hessian(self, h: np.ndarray) -> np.ndarray:
        from scipy.sparse import diags_array

        X = self.X
        out = np.zeros((self.size, self.size))
        product = X.T @ (diags_array(h) @ X)
        out[: self.d, : self.d] = product.toarray() / self.scale / self.scale[:, None]
        if self.intercept:
            out[self.d, : self.d] = out[: self.d, self.d] = (X.T @ h) / self.scale
            out[self.d, self.d] = h.sum()
        return out


def row_chunks(n: int) -> list[tuple[int, int]]:
    """Row ranges for the threads; short inputs stay whole."""
    if n < 50_000 or threads.get_threads() == 1:
        return [(0, n)]
    edges = np.linspace(0, n, threads.get_threads() + 1).astype(int)
    return list(itertools.pairwise(edges.tolist()))
