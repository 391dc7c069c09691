"""Sparse products on all threads, and the columns that coordinate steps read: nothing is transposed.

A *slice* is a row of CSR or a column of CSC. A product that wants one number a slice is a dot product each; one that
wants a number a place inside the slices adds every entry where it belongs, each thread into a vector of its own. Sums
run in four strands that are written out: one strand would wait for each addition.

Coordinate steps meet a column with the change v of the scores times the curvatures h. For sparse columns the two lie
side by side, so that an entry looks up both at once.
"""

from __future__ import annotations

import itertools
from typing import Any

import cython
import numpy as np

from .. import threads
from ..data.refusals import refuse_broken_sparse
from ..errors import DataError
from ..simd import Array, Indices, Places

if not cython.compiled:  # compiled, these come from sparse_columns.pxd
    from ..simd import row_add, row_dot, weighted_row_dot

LONG = 1_000_000  # entries from which a second thread repays its start and the wait for a core that sleeps


def sum_of_products(values: Any, places: Indices, first: cython.Py_ssize_t, last: cython.Py_ssize_t, v: Array) -> float:
    """Σ x·v over some entries."""
    e: cython.Py_ssize_t
    whole: cython.Py_ssize_t = last - (last - first) % 4
    one: float = 0.0
    two: float = 0.0
    three: float = 0.0
    four: float = 0.0
    for e in range(first, whole, 4):
        one += values[e] * v[places[e]]
        two += values[e + 1] * v[places[e + 1]]
        three += values[e + 2] * v[places[e + 2]]
        four += values[e + 3] * v[places[e + 3]]
    for e in range(whole, last):
        one += values[e] * v[places[e]]
    return (one + two) + (three + four)


def sum_of_weighted(
    values: Any, places: Indices, first: cython.Py_ssize_t, last: cython.Py_ssize_t, pair: Array
) -> float:
    """Σ x·v·h over some entries, pair = [v, h]."""
    e: cython.Py_ssize_t
    whole: cython.Py_ssize_t = last - (last - first) % 4
    one: float = 0.0
    two: float = 0.0
    three: float = 0.0
    four: float = 0.0
    for e in range(first, whole, 4):
        one += values[e] * pair[places[e], 0] * pair[places[e], 1]
        two += values[e + 1] * pair[places[e + 1], 0] * pair[places[e + 1], 1]
        three += values[e + 2] * pair[places[e + 2], 0] * pair[places[e + 2], 1]
        four += values[e + 3] * pair[places[e + 3], 0] * pair[places[e + 3], 1]
    for e in range(whole, last):
        one += values[e] * pair[places[e], 0] * pair[places[e], 1]
    return (one + two) + (three + four)


def add_products(
    values: Any, places: Indices, first: cython.Py_ssize_t, last: cython.Py_ssize_t, scale: float, v: Array
) -> None:
    """v += scale·x at the entries' places."""
    e: cython.Py_ssize_t
    for e in range(first, last):
        v[places[e]] += scale * values[e]


@cython.final
@cython.cclass
class SparseSlices:
    """A CSR or CSC matrix of float64 or float32, read where it lies; its indices are checked here, once for all loops."""

    def __init__(self, X: Any) -> None:
        refuse_broken_sparse(X)
        self.by_rows = X.format == "csr"
        self.shape = X.shape
        self.count, self.width = X.shape if self.by_rows else X.shape[::-1]
        self.single = X.data.dtype == np.float32
        self.singles = np.require(X.data if self.single else np.zeros(0), np.float32, ["C", "A", "E"])
        self.doubles = np.zeros(0) if self.single else np.require(X.data, np.float64, ["C", "A", "E"])
        self.places = np.require(X.indices, np.int32, ["C", "A", "E"])
        self.starts = np.require(X.indptr, np.int64, ["C", "A", "E"])

    def dot(self, k: cython.Py_ssize_t, v: Array) -> float:
        """Σ x·v over the entries of slice k."""
        if self.single:
            return sum_of_products(self.singles, self.places, self.starts[k], self.starts[k + 1], v)
        return sum_of_products(self.doubles, self.places, self.starts[k], self.starts[k + 1], v)

    def weighted_dot(self, k: cython.Py_ssize_t, pair: Array) -> float:
        """Σ x·v·h over the entries of slice k."""
        if self.single:
            return sum_of_weighted(self.singles, self.places, self.starts[k], self.starts[k + 1], pair)
        return sum_of_weighted(self.doubles, self.places, self.starts[k], self.starts[k + 1], pair)

    def square_dot(self, k: cython.Py_ssize_t, v: Array) -> float:
        """Σ x²·v over the entries of slice k."""
        e: cython.Py_ssize_t
        x: float
        total: float = 0.0
        for e in range(self.starts[k], self.starts[k + 1]):
            x = self.singles[e] if self.single else self.doubles[e]
            total += x * x * v[self.places[e]]
        return total

    def add(self, k: cython.Py_ssize_t, scale: float, v: Array) -> None:
        """v += scale·x over the entries of slice k."""
        if self.single:
            add_products(self.singles, self.places, self.starts[k], self.starts[k + 1], scale, v)
        else:
            add_products(self.doubles, self.places, self.starts[k], self.starts[k + 1], scale, v)

    def add_squares(self, k: cython.Py_ssize_t, scale: float, v: Array) -> None:
        """v += scale·x² over the entries of slice k."""
        e: cython.Py_ssize_t
        x: float
        for e in range(self.starts[k], self.starts[k + 1]):
            x = self.singles[e] if self.single else self.doubles[e]
            v[self.places[e]] += scale * x * x

    def add_beside(self, k: cython.Py_ssize_t, scale: float, pair: Array) -> None:
        """v += scale·x over the entries of slice k, pair = [v, h]."""
        e: cython.Py_ssize_t
        x: float
        for e in range(self.starts[k], self.starts[k + 1]):
            x = self.singles[e] if self.single else self.doubles[e]
            pair[self.places[e], 0] += scale * x

    def square_sum(self, k: cython.Py_ssize_t) -> float:
        """Σ x² over the entries of slice k."""
        e: cython.Py_ssize_t
        x: float
        total: float = 0.0
        for e in range(self.starts[k], self.starts[k + 1]):
            x = self.singles[e] if self.single else self.doubles[e]
            total += x * x
        return total

    def clear(self, k: cython.Py_ssize_t, v: Array) -> None:
        """v = 0 where slice k has entries."""
        e: cython.Py_ssize_t
        for e in range(self.starts[k], self.starts[k + 1]):
            v[self.places[e]] = 0.0

    # the same for a run of slices, without the GIL

    def dots(self, v: Array, out: Array, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> None:
        """out_k = Σ x·v over the entries of slice k."""
        k: cython.Py_ssize_t
        with cython.nogil:
            for k in range(start, stop):
                out[k] = self.dot(k, v)

    def square_dots(self, v: Array, out: Array, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> None:
        """out_k = Σ x²·v over the entries of slice k."""
        k: cython.Py_ssize_t
        with cython.nogil:
            for k in range(start, stop):
                out[k] = self.square_dot(k, v)

    def adds(self, v: Array, out: Array, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> None:
        """out += v_k·x for every entry of slice k."""
        k: cython.Py_ssize_t
        with cython.nogil:
            for k in range(start, stop):
                if v[k] != 0.0:
                    self.add(k, v[k], out)

    def square_adds(self, v: Array, out: Array, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> None:
        """out += v_k·x² for every entry of slice k."""
        k: cython.Py_ssize_t
        with cython.nogil:
            for k in range(start, stop):
                self.add_squares(k, v[k], out)

    def count_entries(self, out: Indices, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> None:
        """How many entries each place has in these slices."""
        e: cython.Py_ssize_t
        with cython.nogil:
            for e in range(self.starts[start], self.starts[stop]):
                out[self.places[e]] += 1

    def repeats(self, last: Indices, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> bool:
        """Whether one of these slices names a place twice; ``last`` is room for each place, and −1 at first."""
        k: cython.Py_ssize_t
        e: cython.Py_ssize_t
        found: cython.bint = False
        with cython.nogil:
            for k in range(start, stop):
                for e in range(self.starts[k], self.starts[k + 1]):
                    if last[self.places[e]] == k:
                        found = True
                    last[self.places[e]] = k
                if found:
                    break
        return found

    def pick(
        self,
        rooms: Indices,
        cursor: Places,
        values: Array,
        slices: Indices,
        start: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
    ) -> None:
        """Copy the entries whose place has a room (not negative) to where that room's cursor stands."""
        k: cython.Py_ssize_t
        e: cython.Py_ssize_t
        at: cython.Py_ssize_t
        room: cython.Py_ssize_t
        with cython.nogil:
            for k in range(start, stop):
                for e in range(self.starts[k], self.starts[k + 1]):
                    room = rooms[self.places[e]]
                    if room >= 0:
                        at = cursor[room]
                        values[at] = self.singles[e] if self.single else self.doubles[e]
                        slices[at] = k
                        cursor[room] = at + 1

    # products with the whole matrix, on all threads

    def parts(self) -> list[tuple[int, int]]:
        """The slices in runs of about as many entries each: as many as there are threads, if they are worth it."""
        entries = self.starts[self.count]
        if entries < LONG or threads.get_threads() == 1:
            return [(0, self.count)]
        pieces = min(threads.get_threads(), int(2 * entries // max(LONG, 1)))
        edges = np.searchsorted(self.starts, np.linspace(0, entries, pieces + 1)[1:pieces])
        runs = itertools.pairwise([0, *edges.tolist(), self.count])
        return [(start, stop) for start, stop in runs if stop > start]

    def times(self, v: Array) -> Array:
        """Xv."""
        v = fitting(v, self.shape[1])
        return each_slice(self, self.dots, v) if self.by_rows else each_place(self, self.adds, v)

    def transposed_times(self, g: Array) -> Array:
        """X'g."""
        g = fitting(g, self.shape[0])
        return each_place(self, self.adds, g) if self.by_rows else each_slice(self, self.dots, g)

    def square_sums(self, weights: Array) -> Array:
        """Σ_i weight_i·x_ij² of each column."""
        c = fitting(weights, self.shape[0])
        return each_place(self, self.square_adds, c) if self.by_rows else each_slice(self, self.square_dots, c)


def fitting(v: Any, size: int) -> Array:
    """The vector as loops read it."""
    made = np.require(v, np.float64, ["C", "A", "E"])
    if made.shape != (size,):
        raise DataError(f"a vector of shape {made.shape} does not fit a sparse matrix whose side is {size}", where="X")
    return made


def each_slice(X: SparseSlices, work: Any, v: Array) -> Array:
    """One number a slice: ``work`` is ``dots`` or its like."""
    out = np.empty(X.count)
    threads.spread(lambda part: work(v, out, *part), X.parts())
    return out


def each_place(X: SparseSlices, work: Any, v: Array) -> Array:
    """One number a place inside the slices: ``work`` is ``adds`` or its like."""

    def share(part: tuple[int, int]) -> Array:
        out = np.zeros(X.width)
        work(v, out, *part)
        return out

    first, *others = threads.spread(share, X.parts())
    for other in others:
        first += other
    return np.asarray(first)


def canonical(X: Any) -> Any:
    """X, or a copy whose entries are stored once each: squares of halves would not be squares of the whole.

    Entries need no order here, and a product of sparse matrices has none: sorting them would cost as much as a fit.
    """
    slices = SparseSlices(X)

    def twice(part: tuple[int, int]) -> bool:
        return bool(slices.repeats(np.full(slices.width, -1, dtype=np.int32), *part))

    if not X.has_canonical_format and any(threads.spread(twice, slices.parts())):
        X = X.copy()
        X.sum_duplicates()
    return X


@cython.cclass
class Columns:
    """Columns as coordinate steps read them, beside the change v of the scores and the curvatures h."""

    def __init__(self, n: int) -> None:
        self.n = n

    def products(self, rooms: Places, v: Array, out: Array) -> None:
        """x'v of each of these columns."""
        i: cython.Py_ssize_t
        with cython.nogil:
            for i in range(rooms.shape[0]):
                out[i] = self.dot(rooms[i], v)

    def sums(self, rooms: Places, h: Array, first: Array, second: Array) -> None:
        """Σ h·x and Σ h·x² of each of these columns."""
        i: cython.Py_ssize_t
        with cython.nogil:
            for i in range(rooms.shape[0]):
                first[i] = self.dot(rooms[i], h)
                second[i] = self.square_dot(rooms[i], h)

    def begin(self, h: Array) -> Array:
        """Curvatures h and a change of 0, which is handed out: steps change it."""
        raise NotImplementedError

    def dot(self, k: cython.Py_ssize_t, v: Array) -> float:
        """Σ x·v."""
        return 0.0

    def square_dot(self, k: cython.Py_ssize_t, v: Array) -> float:
        """Σ x²·v."""
        return 0.0

    def add(self, k: cython.Py_ssize_t, scale: float, v: Array) -> None:
        """v += scale·x."""

    def weighted_dot(self, k: cython.Py_ssize_t) -> float:
        """Σ x·v·h, of the change and the curvatures."""
        return 0.0

    def move(self, k: cython.Py_ssize_t, scale: float) -> None:
        """The change grows by scale·x."""


@cython.final
@cython.cclass
class DenseColumns(Columns):
    """One column a row."""

    def __init__(self, XT: Array) -> None:
        Columns.__init__(self, XT.shape[1])
        self.XT = XT

    def begin(self, h: Array) -> Array:
        self.curvature = h
        change = np.zeros(self.n)
        self.moved = change
        return change

    def dot(self, k: cython.Py_ssize_t, v: Array) -> float:
        return row_dot(self.XT, k, 0, v, self.n)

    def square_dot(self, k: cython.Py_ssize_t, v: Array) -> float:
        i: cython.Py_ssize_t
        total: float = 0.0
        for i in range(self.n):
            total += self.XT[k, i] * self.XT[k, i] * v[i]
        return total

    def add(self, k: cython.Py_ssize_t, scale: float, v: Array) -> None:
        row_add(self.XT, k, 0, scale, v, self.n)

    def weighted_dot(self, k: cython.Py_ssize_t) -> float:
        return weighted_row_dot(self.XT, k, self.moved, self.curvature, self.n)

    def move(self, k: cython.Py_ssize_t, scale: float) -> None:
        row_add(self.XT, k, 0, scale, self.moved, self.n)


@cython.final
@cython.cclass
class SparseColumns(Columns):
    """Columns of a CSC matrix, or of what ``ColumnStore`` gathers: only the stored entries are read."""

    def __init__(self, slices: SparseSlices) -> None:
        Columns.__init__(self, slices.width)
        self.slices = slices

    def begin(self, h: Array) -> Array:
        pair = np.zeros((self.n, 2))
        pair[:, 1] = h
        self.pair = pair
        return pair[:, 0]

    def dot(self, k: cython.Py_ssize_t, v: Array) -> float:
        return self.slices.dot(k, v)

    def square_dot(self, k: cython.Py_ssize_t, v: Array) -> float:
        return self.slices.square_dot(k, v)

    def add(self, k: cython.Py_ssize_t, scale: float, v: Array) -> None:
        self.slices.add(k, scale, v)

    def weighted_dot(self, k: cython.Py_ssize_t) -> float:
        return self.slices.weighted_dot(k, self.pair)

    def move(self, k: cython.Py_ssize_t, scale: float) -> None:
        self.slices.add_beside(k, scale, self.pair)


class Gathered:
    """CSC arrays that are filled as columns are asked for, in the form that ``SparseSlices`` reads."""

    format = "csc"

    def __init__(self, X: Any) -> None:
        self.shape = X.shape
        self.data = np.empty(len(X.data))  # memory is taken only where something is written
        self.indices = np.zeros(len(X.data), dtype=np.int32)
        self.indptr = np.zeros(X.shape[1] + 1, dtype=np.int64)


class ColumnStore:
    """Columns of a matrix, each copied when it is first asked for; CSC and Fortran order are read in place.

    The store of a CSR matrix is filled by reading the rows once for all columns that are wanted and not there yet, so the
    matrix is never transposed; its room is set aside for every entry, but memory is taken only where something was written.
    """

    def __init__(self, X: Any, slices: SparseSlices | None) -> None:
        self.X, self.slices = X, slices
        self.n, self.d = X.shape
        self.columns: Columns  # what loops read
        self.count = 0
        self.room_of = np.full(self.d, -1, dtype=np.int64)
        whole = True
        if slices is not None and not slices.by_rows:
            self.columns = SparseColumns(slices)
        elif slices is not None:
            self.made, whole = Gathered(X), False
            self.columns = SparseColumns(SparseSlices(self.made))
            self.parts = slices.parts()
            self.lengths: list[np.ndarray] = []  # entries of each column in each thread's rows
        elif X.flags.f_contiguous and X.dtype == np.float64:
            self.columns = DenseColumns(X.T)
        else:
            self.rows, whole = np.empty((self.d, self.n)), False
            self.columns = DenseColumns(self.rows)
        if whole:
            self.room_of = np.arange(self.d)

    def rooms(self, chosen: np.ndarray, along: np.ndarray) -> np.ndarray:
        """Where these columns are; ``along`` (which holds them) is copied where it is not there yet."""
        fresh = along[self.room_of[along] < 0]
        if len(fresh):
            last = self.count + len(fresh)
            self.room_of[fresh] = np.arange(self.count, last)
            if self.slices is not None:
                self._read_rows(self.slices, fresh, self.count, last)
            else:
                self.rows[self.count : last] = self.X[:, fresh].T
            self.count = last
        return self.room_of[chosen]

    def _read_rows(self, X: SparseSlices, fresh: np.ndarray, first: int, last: int) -> None:
        """One reading of the rows fills these columns' rooms; each thread writes behind those before it."""
        if not self.lengths:
            self.lengths = [np.zeros(self.d, dtype=np.int32) for _ in self.parts]
            jobs = list(zip(self.lengths, self.parts, strict=True))
            threads.spread(lambda job: X.count_entries(job[0], *job[1]), jobs)
        wanted = np.full(self.d, -1, dtype=np.int32)
        wanted[fresh] = np.arange(len(fresh))
        made = self.made
        made.indptr[first + 1 : last + 1] = made.indptr[first] + np.cumsum(sum(one[fresh] for one in self.lengths))
        at, places = made.indptr[first:last].copy(), []
        for lengths, part in zip(self.lengths, self.parts, strict=True):
            places.append((at.copy(), part))
            at += lengths[fresh]
        threads.spread(lambda job: X.pick(wanted, job[0], made.data, made.indices, *job[1]), places)
