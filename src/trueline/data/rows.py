"""Row layouts: how a kernel reads example i in place. Dense, sparse and sliding live here and nowhere else."""

from __future__ import annotations

from typing import Any, NamedTuple


class Dense(NamedTuple):
    """Rows of a C-ordered float64 array."""

    X: Any
    reassociate = True

    def dot(self, i, w):
        total = 0.0
        for j in range(self.X.shape[1]):
            total += self.X[i, j] * w[j]
        return total

    def add(self, i, scale, w):
        for j in range(self.X.shape[1]):
            w[j] += scale * self.X[i, j]

    def norm2(self, i):
        total = 0.0
        for j in range(self.X.shape[1]):
            total += self.X[i, j] * self.X[i, j]
        return total


class Sparse(NamedTuple):
    """Rows of a CSR matrix: only the stored entries are read."""

    data: Any
    indices: Any
    indptr: Any
    reassociate = True

    def dot(self, i, w):
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += self.data[k] * w[self.indices[k]]
        return total

    def add(self, i, scale, w):
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += scale * self.data[k]

    def norm2(self, i):
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += self.data[k] * self.data[k]
        return total
