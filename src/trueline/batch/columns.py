"""Column layouts for coordinate steps: how a kernel reads column j in place, with a weight per row."""

from __future__ import annotations

from typing import Any, NamedTuple


class DenseColumns(NamedTuple):
    """Rows of the transpose: column j is contiguous."""

    XT: Any
    reassociate = True

    def weighted_dot(self, j, h, v):
        total = 0.0
        for i in range(self.XT.shape[1]):
            total += self.XT[j, i] * h[i] * v[i]
        return total

    def weighted_sums(self, j, h):
        first = 0.0
        second = 0.0
        for i in range(self.XT.shape[1]):
            hx = h[i] * self.XT[j, i]
            first += hx
            second += hx * self.XT[j, i]
        return first, second

    def add(self, j, scale, v):
        for i in range(self.XT.shape[1]):
            v[i] += scale * self.XT[j, i]


class SparseColumns(NamedTuple):
    """Columns of a CSC matrix: only the stored entries are read."""

    data: Any
    indices: Any
    indptr: Any
    reassociate = True

    def weighted_dot(self, j, h, v):
        total = 0.0
        for k in range(self.indptr[j], self.indptr[j + 1]):
            i = self.indices[k]
            total += self.data[k] * h[i] * v[i]
        return total

    def weighted_sums(self, j, h):
        first = 0.0
        second = 0.0
        for k in range(self.indptr[j], self.indptr[j + 1]):
            hx = h[self.indices[k]] * self.data[k]
            first += hx
            second += hx * self.data[k]
        return first, second

    def add(self, j, scale, v):
        for k in range(self.indptr[j], self.indptr[j + 1]):
            v[self.indices[k]] += scale * self.data[k]
