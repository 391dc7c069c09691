"""Rows as the compiled loops read them, in place: dense ones, and the stored entries of CSR ones.

What enters is checked here, once: loops ask no more. ``begin``, ``end`` and ``column`` walk the entries of a row;
``row_dot``, ``row_add`` and ``row_norm2`` take all of them, against weights that start at ``first`` of their array.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..errors import DataError
from ..simd import Array

if not cython.compiled:  # compiled, these stand in row_access.pxd
    from ..simd import dot, gathered_dot

    def begin(rows: Rows, i: int) -> int:
        """The place of row i's first entry."""
        return i * rows.width if rows.dense else int(rows.starts[i])

    def end(rows: Rows, i: int) -> int:
        """The place after its last one."""
        return (i + 1) * rows.width if rows.dense else int(rows.starts[i + 1])

    def column(rows: Rows, i: int, k: int) -> int:
        """The column of the entry at place k of row i."""
        return k - i * rows.width if rows.dense else int(rows.indices[k])

    def row_dot(rows: Rows, i: int, w: Array, first: int) -> float:
        """x_i · w."""
        k, stop = begin(rows, i), end(rows, i)
        if rows.dense:
            return dot(rows.values[k:stop], w[first:], stop - k)
        return gathered_dot(rows.values, rows.indices, k, stop, w[first:])

    def row_add(rows: Rows, i: int, scale: float, w: Array, first: int) -> None:
        """w += scale · x_i."""
        k, stop = begin(rows, i), end(rows, i)
        places: Any = slice(first, first + rows.width) if rows.dense else first + rows.indices[k:stop]
        np.add.at(w, places, scale * rows.values[k:stop])

    def row_norm2(rows: Rows, i: int) -> float:
        """‖x_i‖²."""
        part = rows.values[begin(rows, i) : end(rows, i)]
        return dot(part, part, len(part))


@cython.final
@cython.cclass
class Rows:
    """So many rows of so many columns: the entries of all rows in one array, with ``indices`` and ``starts`` as in CSR.

    >>> rows = Rows(np.ones(6), (3, 2))
    >>> rows.count, rows.width, rows.dense
    (3, 2, True)
    """

    def __init__(self, values: Array, shape: tuple[int, int], indices: Any = None, starts: Any = None) -> None:
        self.count, self.width = shape
        self.dense = indices is None
        self.values = np.ascontiguousarray(values, dtype=np.float64)
        if self.dense:
            if self.values.shape[0] != self.count * self.width:
                raise DataError(f"{self.values.shape[0]} entries are not {shape[0]} rows of {shape[1]}", where="X")
            indices, starts = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
        else:
            indices, starts = checked_indices(indices, starts, shape, self.values.shape[0])
        self.indices, self.starts = indices, starts


def rows_of(X: Any) -> Rows:
    """The rows of a C-ordered float64 array, or of a SciPy sparse matrix."""
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        return Rows(X.data, X.shape, X.indices, X.indptr)
    X = np.ascontiguousarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise DataError(f"X has {X.ndim} dimension(s); give a table of rows and columns", where="X")
    return Rows(X.reshape(-1), X.shape)


def checked_indices(indices: Any, starts: Any, shape: tuple[int, int], size: int) -> tuple[Any, Any]:
    """The columns and starts of CSR rows, each column within the matrix and each row within the entries."""
    if shape[1] > np.iinfo(np.int32).max:
        raise DataError(f"X has {shape[1]:,} columns; give at most {np.iinfo(np.int32).max:,}", where="X")
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    stop = int(starts[len(starts) - 1]) if len(starts) else 0
    whole = len(starts) == shape[0] + 1 and starts[0] == 0 and stop <= min(size, len(indices))
    if not whole or (np.diff(starts) < 0).any():
        raise DataError("the rows of the sparse matrix do not lie within its entries; build it anew", where="X")
    used = indices[:stop]
    if len(used) and not (used.min() >= 0 and used.max() < shape[1]):
        raise DataError("the sparse matrix has entries outside its columns; build it anew", where="X")
    return np.ascontiguousarray(indices, dtype=np.int32), starts
