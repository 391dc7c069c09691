"""Row layouts: how a kernel reads example i in place. Dense and sparse live here and nowhere else.

A kernel that needs single entries walks ``for k in range(rows.begin(i), rows.end(i))`` and asks for
``rows.column(k)`` and ``rows.entry(i, k)``; the whole-row methods are the same walks, vectorised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import teach
from .._lanes import picked_dot, row_add, row_dot


class Dense(NamedTuple):
    """Rows of a C-ordered float64 array."""

    X: Any
    reassociate = True

    def dot(self, i, w):
        return row_dot(self.X, i, w)

    def add(self, i, scale, w):
        row_add(self.X, i, scale, w)

    def norm2(self, i):
        return row_dot(self.X, i, self.X[i])

    def begin(self, i):
        return 0

    def end(self, i):
        return self.X.shape[1]

    def column(self, k):
        return k

    def entry(self, i, k):
        return self.X[i, k]


class Sparse(NamedTuple):
    """Rows of a CSR matrix: only the stored entries are read."""

    data: Any
    indices: Any
    indptr: Any
    reassociate = True

    def dot(self, i, w):
        return picked_dot(self.data, self.indices, self.indptr[i], self.indptr[i + 1], w)

    def add(self, i, scale, w):
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[self.indices[k]] += scale * self.data[k]

    def norm2(self, i):
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += self.data[k] * self.data[k]
        return total

    def begin(self, i):
        return self.indptr[i]

    def end(self, i):
        return self.indptr[i + 1]

    def column(self, k):
        return self.indices[k]

    def entry(self, i, k):
        return self.data[k]


def rows_of(X: Any) -> Any:
    """The layout of a C-ordered float64 array or a SciPy CSR matrix, ready for compiled code.

    Indices are unsigned: compiled code then need not ask whether each of them counts from the end.
    """
    if hasattr(X, "indptr"):
        layout: Any = Sparse(
            np.ascontiguousarray(X.data, dtype=np.float64),
            np.ascontiguousarray(X.indices, dtype=np.int32 if X.shape[1] < 2**31 else np.int64).view(
                np.uint32 if X.shape[1] < 2**31 else np.uint64
            ),
            np.ascontiguousarray(X.indptr, dtype=np.int64).view(np.uint64),
        )
    else:
        layout = Dense(np.ascontiguousarray(X, dtype=np.float64))
    teach(layout)
    return layout
