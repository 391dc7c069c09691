"""Columns copied together for coordinate steps: how a kernel reads one of them, and the store that copies each once.

Coordinate steps meet a column with the change v of the scores times the curvatures h. The two are one array of n rows
[v, h]: stored row by row where entries are looked up here and there, column by column where all are read in order.

The store of a CSR matrix is filled by reading the rows once for all columns that are wanted and not there yet, so the
matrix is never transposed; its room is set aside for every entry, but memory is taken only where something was written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import threads
from .._jit import kernel, teach
from .products import (
    count_entries,
    parts_of,
    pick_entries,
    picked_add,
    picked_pair_add,
    picked_pair_sum,
    picked_sum,
)


class DenseColumns(NamedTuple):
    """One column a row."""

    XT: Any
    reassociate = True
    order = "F"  # of the array [v, h]

    def dot(self, k, pair):
        """Σ x·v·h."""
        total = 0.0
        for i in range(self.XT.shape[1]):
            total += self.XT[k, i] * pair[i, 0] * pair[i, 1]
        return total

    def move(self, k, scale, pair):
        """v += scale·x."""
        for i in range(self.XT.shape[1]):
            pair[i, 0] += scale * self.XT[k, i]

    def product(self, k, v):
        """Σ x·v."""
        total = 0.0
        for i in range(self.XT.shape[1]):
            total += self.XT[k, i] * v[i]
        return total

    def sums(self, k, h):
        """Σ h·x and Σ h·x²."""
        first, second = 0.0, 0.0
        for i in range(self.XT.shape[1]):
            first += h[i] * self.XT[k, i]
            second += h[i] * self.XT[k, i] * self.XT[k, i]
        return first, second

    def add(self, k, scale, v):
        """v += scale·x."""
        for i in range(self.XT.shape[1]):
            v[i] += scale * self.XT[k, i]


class SparseColumns(NamedTuple):
    """Columns in CSC form: only the stored entries are read."""

    data: Any
    indices: Any
    indptr: Any
    order = "C"

    def dot(self, k, pair):
        start, stop = self.indptr[k], self.indptr[k + 1]
        return picked_pair_sum(self.data[start:stop], self.indices[start:stop], pair)

    def move(self, k, scale, pair):
        start, stop = self.indptr[k], self.indptr[k + 1]
        picked_pair_add(self.data[start:stop], self.indices[start:stop], scale, pair)

    def product(self, k, v):
        start, stop = self.indptr[k], self.indptr[k + 1]
        return picked_sum(self.data[start:stop], self.indices[start:stop], v)

    def sums(self, k, h):
        first, second = 0.0, 0.0
        for entry in range(self.indptr[k], self.indptr[k + 1]):
            part = self.data[entry] * h[np.uint32(self.indices[entry])]
            first += part
            second += part * self.data[entry]
        return first, second

    def add(self, k, scale, v):
        start, stop = self.indptr[k], self.indptr[k + 1]
        picked_add(self.data[start:stop], self.indices[start:stop], scale, v)


@kernel
def column_sums(columns, rooms, h, first, second):
    """Σ h·x and Σ h·x² of each of these columns."""
    for k in range(rooms.shape[0]):
        first[k], second[k] = columns.sums(rooms[k], h)


@kernel
def column_products(columns, rooms, v, out):
    """x'v of each of these columns."""
    for k in range(rooms.shape[0]):
        out[k] = columns.product(rooms[k], v)


class ColumnStore:
    """Columns of a matrix, each copied when it is first asked for; CSC and Fortran order are read in place."""

    def __init__(self, X: Any, sparse: bool) -> None:
        self.X, self.sparse = X, sparse
        self.n, self.d = X.shape
        self.columns: Any  # what kernels read
        self.count = 0
        self.room_of = np.full(self.d, -1, dtype=np.int64)
        if sparse and X.format == "csc":
            self.columns = SparseColumns(X.data, X.indices, X.indptr)  # type: ignore[call-arg]
        elif sparse:
            self.starts = np.zeros(self.d + 1, dtype=X.indptr.dtype)
            self.columns = SparseColumns(np.empty(len(X.data)), np.empty(len(X.data), X.indices.dtype), self.starts)  # type: ignore[call-arg]
            self.parts = parts_of(X)
            self.lengths: list[np.ndarray] = []  # entries of each column in each thread's rows
        elif X.flags.f_contiguous and X.dtype == np.float64:
            self.columns = DenseColumns(X.T)  # type: ignore[call-arg]
        else:
            self.columns = DenseColumns(np.empty((self.d, self.n)))  # type: ignore[call-arg]
        self.whole = (sparse and X.format == "csc") or (not sparse and self.columns.XT.base is not None)
        if self.whole:
            self.room_of = np.arange(self.d)
        teach(self.columns)

    def rooms(self, chosen: np.ndarray, along: np.ndarray) -> np.ndarray:
        """Where these columns are; ``along`` (which holds them) is copied where it is not there yet."""
        fresh = along[self.room_of[along] < 0]
        if len(fresh):
            last = self.count + len(fresh)
            self.room_of[fresh] = np.arange(self.count, last)
            if self.sparse:
                self._read_rows(fresh, self.count, last)
            else:
                self.columns.XT[self.count : last] = self.X[:, fresh].T
            self.count = last
        return self.room_of[chosen]

    def _read_rows(self, fresh: np.ndarray, first: int, last: int) -> None:
        """One reading of the rows fills these columns' rooms; each thread writes behind those before it."""
        X = self.X
        if not self.lengths:
            self.lengths = [np.zeros(self.d, dtype=np.int32) for _ in self.parts]
            threads.spread(
                lambda job: count_entries(X.indices, X.indptr, job[0], *job[1]),
                list(zip(self.lengths, self.parts, strict=True)),
            )
        wanted = np.full(self.d, -1, dtype=np.int32)
        wanted[fresh] = np.arange(len(fresh))
        self.starts[first + 1 : last + 1] = self.starts[first] + np.cumsum(sum(one[fresh] for one in self.lengths))
        jobs, at = [], self.starts[first:last].astype(np.int64)
        for lengths, part in zip(self.lengths, self.parts, strict=True):
            jobs.append((at.copy(), part))
            at += lengths[fresh]
        made = self.columns
        threads.spread(
            lambda job: pick_entries(X.data, X.indices, X.indptr, wanted, job[0], made.data, made.indices, *job[1]),
            jobs,
        )
