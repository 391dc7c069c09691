"""Products with a sparse matrix as it came, CSR or CSC, on all threads: nothing is transposed, nothing copied.

A *slice* is a row of CSR or a column of CSC. A product that wants one number a slice is a dot product each; one that
wants a number a place inside the slices adds every entry where it belongs, each thread into a vector of its own.
The casts in the loops tell the compiler that no index is negative. Sums run in four strands that are written out:
one strand would wait for each addition, and a compiler free to reorder would gather four entries at once, which is slower.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import threads
from .._jit import kernel

LONG = 1_000_000  # entries from which a second thread repays its start and the wait for a core that sleeps


@kernel
def picked_sum(values, places, v):
    """Σ x·v over some entries."""
    whole = values.shape[0] - values.shape[0] % 4
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    for e in range(0, whole, 4):
        one += values[e] * v[np.uint32(places[e])]
        two += values[e + 1] * v[np.uint32(places[e + 1])]
        three += values[e + 2] * v[np.uint32(places[e + 2])]
        four += values[e + 3] * v[np.uint32(places[e + 3])]
    for e in range(whole, values.shape[0]):
        one += values[e] * v[np.uint32(places[e])]
    return (one + two) + (three + four)


@kernel
def picked_pair_sum(values, places, pair):
    """Σ x·v·h over some entries, pair = [v, h]: side by side both are one look at memory."""
    whole = values.shape[0] - values.shape[0] % 4
    one, two, three, four = 0.0, 0.0, 0.0, 0.0
    for e in range(0, whole, 4):
        i, j, k, m = np.uint32(places[e]), np.uint32(places[e + 1]), np.uint32(places[e + 2]), np.uint32(places[e + 3])
        one += values[e] * pair[i, 0] * pair[i, 1]
        two += values[e + 1] * pair[j, 0] * pair[j, 1]
        three += values[e + 2] * pair[k, 0] * pair[k, 1]
        four += values[e + 3] * pair[m, 0] * pair[m, 1]
    for e in range(whole, values.shape[0]):
        i = np.uint32(places[e])
        one += values[e] * pair[i, 0] * pair[i, 1]
    return (one + two) + (three + four)


@kernel
def picked_pair_add(values, places, scale, pair):
    """v += scale·x at the entries' places."""
    for e in range(values.shape[0]):
        pair[np.uint32(places[e]), 0] += scale * values[e]


@kernel
def picked_add(values, places, scale, v):
    """v += scale·x at the entries' places."""
    for e in range(values.shape[0]):
        v[np.uint32(places[e])] += scale * values[e]


@kernel
def slice_dots(data, indices, indptr, v, out, start, stop):
    """out_k = Σ x·v over the entries of slice k."""
    for k in range(start, stop):
        out[k] = picked_sum(data[indptr[k] : indptr[k + 1]], indices[indptr[k] : indptr[k + 1]], v)


@kernel
def slice_adds(data, indices, indptr, v, out, start, stop):
    """out += v_k·x for every entry of slice k."""
    for k in range(start, stop):
        if v[k] != 0.0:
            picked_add(data[indptr[k] : indptr[k + 1]], indices[indptr[k] : indptr[k + 1]], v[k], out)


@kernel
def slice_square_dots(data, indices, indptr, v, out, start, stop):
    for k in range(start, stop):
        total = 0.0
        for e in range(indptr[k], indptr[k + 1]):
            total += data[e] * data[e] * v[np.uint32(indices[e])]
        out[k] = total


@kernel
def slice_square_adds(data, indices, indptr, v, out, start, stop):
    for k in range(start, stop):
        scale = v[k]
        for e in range(indptr[k], indptr[k + 1]):
            out[np.uint32(indices[e])] += scale * data[e] * data[e]


@kernel
def count_entries(indices, indptr, out, start, stop):
    """How many entries each place has in these slices."""
    for e in range(indptr[start], indptr[stop]):
        out[np.uint32(indices[e])] += 1


@kernel
def pick_entries(data, indices, indptr, room_of, cursor, values, slices, start, stop):
    """Copy the entries whose place has a room (not negative) to where that room's cursor stands."""
    for k in range(start, stop):
        for e in range(indptr[k], indptr[k + 1]):
            room = room_of[np.uint32(indices[e])]
            if room >= 0:
                at = cursor[room]
                values[at] = data[e]
                slices[at] = k
                cursor[room] = at + 1


@kernel
def repeats(indices, indptr, last, start, stop):
    """Whether one of these slices names a place twice; ``last`` is room for each place, and −1 at first."""
    for k in range(start, stop):
        for e in range(indptr[k], indptr[k + 1]):
            place = np.uint32(indices[e])
            if last[place] == k:
                return True
            last[place] = k
    return False


def canonical(X: Any) -> Any:
    """X, or a copy whose entries are stored once each: squares of halves would not be squares of the whole.

    Entries need no order here, and a product of sparse matrices has none: sorting them would cost as much as a fit.
    """

    def twice(part: tuple[int, int]) -> bool:
        last = np.full(X.shape[int(X.format == "csr")], -1, dtype=np.int32)
        return bool(repeats(X.indices, X.indptr, last, *part))

    if not X.has_canonical_format and any(threads.spread(twice, parts_of(X))):
        X = X.copy()
        X.sum_duplicates()
    return X


def parts_of(X: Any) -> list[tuple[int, int]]:
    """The slices in runs of about as many entries each: as many as there are threads, if they are worth it."""
    slices = len(X.indptr) - 1
    if X.indptr[-1] < LONG or threads.get_threads() == 1:
        return [(0, slices)]
    pieces = min(threads.get_threads(), int(2 * X.indptr[-1] // max(LONG, 1)))
    edges = np.searchsorted(X.indptr, np.linspace(0, X.indptr[-1], pieces + 1)[1:-1])
    runs = itertools.pairwise([0, *edges.tolist(), slices])
    return [(start, stop) for start, stop in runs if stop > start]


def each_slice(work: Any, X: Any, v: np.ndarray) -> np.ndarray:
    """One number a slice: ``work`` is ``slice_dots`` or its like."""
    out = np.empty(len(X.indptr) - 1)
    threads.spread(lambda part: work(X.data, X.indices, X.indptr, v, out, *part), parts_of(X))
    return out


def each_place(work: Any, X: Any, v: np.ndarray, places: int) -> np.ndarray:
    """One number a place inside the slices: ``work`` is ``slice_adds`` or its like."""

    def share(part: tuple[int, int]) -> np.ndarray:
        out = np.zeros(places)
        work(X.data, X.indices, X.indptr, v, out, *part)
        return out

    first, *others = threads.spread(share, parts_of(X))
    for other in others:
        first += other
    return np.asarray(first)


def times(X: Any, v: np.ndarray) -> np.ndarray:
    """Xv."""
    v = np.ascontiguousarray(v, dtype=np.float64)
    return each_slice(slice_dots, X, v) if X.format == "csr" else each_place(slice_adds, X, v, X.shape[0])


def transposed_times(X: Any, g: np.ndarray) -> np.ndarray:
    """X'g."""
    g = np.ascontiguousarray(g, dtype=np.float64)
    return each_place(slice_adds, X, g, X.shape[1]) if X.format == "csr" else each_slice(slice_dots, X, g)


def square_sums(X: Any, weights: np.ndarray) -> np.ndarray:
    """Σ_i weight_i·x_ij² of each column."""
    c = np.ascontiguousarray(weights, dtype=np.float64)
    if X.format == "csr":
        return each_place(slice_square_adds, X, c, X.shape[1])
    return each_slice(slice_square_dots, X, c)
