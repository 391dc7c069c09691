"""Column layouts for coordinate steps: how a kernel reads one of a few gathered columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import kernel


class DenseColumns(NamedTuple):
    """One gathered column a row."""

    XT: Any
    reassociate = True

    def dot(self, k, r):
        total = 0.0
        for i in range(self.XT.shape[1]):
            total += self.XT[k, i] * r[i]
        return total

    def norm2(self, k):
        total = 0.0
        for i in range(self.XT.shape[1]):
            total += self.XT[k, i] * self.XT[k, i]
        return total

    def add(self, k, scale, r):
        for i in range(self.XT.shape[1]):
            r[i] += scale * self.XT[k, i]


class SparseColumns(NamedTuple):
    """Gathered columns in CSC form: only the stored entries are read.

    The casts tell the compiler that no index is negative, and the order of the sums is kept, since gathering four
    entries at once is slower.
    """

    data: Any
    indices: Any
    indptr: Any

    def dot(self, k, r):
        values = self.data[self.indptr[k] : self.indptr[k + 1]]
        rows = self.indices[self.indptr[k] : self.indptr[k + 1]]
        total = 0.0
        for entry in range(values.shape[0]):
            total += values[entry] * r[np.uint32(rows[entry])]
        return total

    def norm2(self, k):
        total = 0.0
        for entry in range(self.indptr[k], self.indptr[k + 1]):
            total += self.data[entry] * self.data[entry]
        return total

    def add(self, k, scale, r):
        values = self.data[self.indptr[k] : self.indptr[k + 1]]
        rows = self.indices[self.indptr[k] : self.indptr[k + 1]]
        for entry in range(values.shape[0]):
            r[np.uint32(rows[entry])] += scale * values[entry]


@kernel
def gather(data, indices, indptr, chosen, root, out, rows, starts):
    """Copy some CSC columns, each entry times the root of its row's weight."""
    at = 0
    for k in range(chosen.shape[0]):
        starts[k] = at
        for entry in range(indptr[chosen[k]], indptr[chosen[k] + 1]):
            out[at] = data[entry] * root[indices[entry]]
            rows[at] = indices[entry]
            at += 1
    starts[chosen.shape[0]] = at


@kernel
def add_columns(data, indices, indptr, chosen, v, out):
    """out += Σ v_j·x_j over some columns of a CSC matrix."""
    for k in range(chosen.shape[0]):
        j = chosen[k]
        values, rows = data[indptr[j] : indptr[j + 1]], indices[indptr[j] : indptr[j + 1]]
        for entry in range(values.shape[0]):
            out[np.uint32(rows[entry])] += v[j] * values[entry]


@kernel
def column_sums(columns, root, first, second):
    """Σ h·x and Σ h·x² of each gathered column."""
    for k in range(first.shape[0]):
        first[k] = columns.dot(k, root)
        second[k] = columns.norm2(k)
