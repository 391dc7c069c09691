"""Walks along a row in the processor's own terms: x·w and w ← w + scale·x of a dense row, x·w of a sparse one.

A compiler that meets ``for j in range(d)`` vectorises sixteen entries at a time and takes the rest one by one: with 30
columns nearly half of them, in one serial chain of additions, and a row that was written by ones is read by sixteens,
which the processor cannot forward from its store queue. Here the rest is taken by 8, 4, 2 and 1, the same split when
reading and when writing, and the last one to three entries are lanes of one more register, so that they lengthen no
chain. Arrays of another kind take the plain loop.

Where rows are narrow, what a row costs is not memory but waiting: score, slope and weights follow from each other, and
weights that are written and read again wait in the store queue. So up to NARROW weights are held in registers from row
to row, the intercept in a lane that is left over: ``held`` takes them there, ``held_score`` reads them, ``held_less`` moves
them, ``put_back`` and ``held_bias`` return them; ``read_anew`` keeps the numbers of parts out of their way. The sums are the same as those of the other walk, each product joined
to them by the same operation in the same order: not a bit differs.

Rows to come are asked for in advance, since the processor's own prefetcher stops at every page of 4 kB: not during
x·w, which waits for memory anyway and would only be slowed down, but while a row is added to the weights, when all that
is touched lies in the nearest cache and memory would stand idle. Only rows so SHORT that both walks overlap ask at once.

A sparse row is read one entry at a time: compilers choose the gather instruction, which processors with the mitigation
against leaking gathered data run several times slower than single reads.
"""

from __future__ import annotations

from typing import Any

LANES = 4  # doubles a register: wider ones cross a cache line at every second read
UNROLLED = 4  # registers a round, so that additions need not wait for each other
NARROW = 31  # columns: 4 + 2 + 1 registers and one of one to three lanes
SHORT = 64  # doubles
NEAR, FAR = 256, 512  # doubles to ask for in advance, by rows up to NEAR and by longer ones


def row_dot(X, i, w):  # type: ignore[no-untyped-def]
    """x_i · w."""
    total = 0.0
    for j in range(X.shape[1]):
        total += X[i, j] * w[j]
    return total


def row_add(X, i, scale, w):  # type: ignore[no-untyped-def]
    """w ← w + scale·x_i."""
    for j in range(X.shape[1]):
        w[j] += scale * X[i, j]


def row_score(rows, i, w, bias):  # type: ignore[no-untyped-def]
    """x_i · w + bias."""
    return rows.dot(i, w) + bias


def held(w, bias):  # type: ignore[no-untyped-def]
    """At most NARROW weights and the bias, in registers where there are any."""
    return w, bias


def held_score(X, i, lanes, fixed):  # type: ignore[no-untyped-def]
    """x_i · w + bias of weights that are held; ``fixed[LANES - 1]`` is the bias's entry in every row, 0 or 1."""
    w, bias = lanes
    return row_dot(X, i, w) + bias


def held_less(X, i, scale, lanes, fixed):  # type: ignore[no-untyped-def]
    """w − scale·x_i of weights that are held."""
    w, bias = lanes
    row_add(X, i, -scale, w)
    return w, bias - scale * fixed[LANES - 1]


def held_bias(lanes):  # type: ignore[no-untyped-def]
    """The bias that is held."""
    return lanes[1]


def put_back(lanes, w):  # type: ignore[no-untyped-def]
    """Write the weights that are held to where they were taken from."""


def read_anew(parts, fixed, first):  # type: ignore[no-untyped-def]
    """The same parts, their numbers read from ``fixed[first:]``, where ``numbers_of`` them lie."""
    return parts


def numbers_of(value: Any) -> list[float]:
    """The numbers in the fields of parts, one after the other."""
    if isinstance(value, tuple):
        return [number for field in value for number in numbers_of(field)]
    return [value] if isinstance(value, float) else []


def picked_dot(data, indices, first, last, w):  # type: ignore[no-untyped-def]
    """Σ data_k · w[indices_k] over first ≤ k < last."""
    total = 0.0
    for k in range(first, last):
        total += data[k] * w[indices[k]]
    return total


def register(fastmath: set[str]) -> None:
    """Teach Numba the vector forms; called once, before the first kernel is compiled."""
    from numba import njit, types
    from numba.extending import intrinsic, models, overload, register_model

    from . import _walks

    @intrinsic
    def dot_picked(context: Any, data: Any, indices: Any, first: Any, last: Any, w: Any) -> Any:
        return types.float64(data, indices, types.intp, types.intp, w), _walks.picked_code

    @intrinsic
    def dot_lanes(context: Any, X: Any, i: Any, w: Any, bias: Any) -> Any:
        return types.float64(X, types.intp, w, types.float64), _walks.dot_code

    @intrinsic
    def add_lanes(context: Any, X: Any, i: Any, scale: Any, w: Any) -> Any:
        return types.void(X, types.intp, types.float64, w), _walks.add_code

    class Held(types.Type):  # type: ignore[misc]
        """The weights of a narrow row in registers."""

        def __init__(self) -> None:
            super().__init__(name="Held")

    in_registers = Held()

    @register_model(Held)
    class HeldModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, _walks.held_kind)

    @intrinsic
    def take_lanes(context: Any, w: Any, bias: Any) -> Any:
        return in_registers(w, types.float64), _walks.take_code

    @intrinsic
    def put_lanes(context: Any, lanes: Any, w: Any) -> Any:
        return types.void(lanes, w), _walks.put_code

    @intrinsic
    def bias_held(context: Any, lanes: Any) -> Any:
        return types.float64(lanes), _walks.bias_code

    @intrinsic
    def dot_held(context: Any, X: Any, i: Any, lanes: Any, fixed: Any) -> Any:
        return types.float64(X, types.intp, lanes, fixed), _walks.held_dot_code

    @intrinsic
    def less_held(context: Any, X: Any, i: Any, scale: Any, lanes: Any, fixed: Any) -> Any:
        return in_registers(X, types.intp, types.float64, lanes, fixed), _walks.held_less_code

    @intrinsic
    def parts_anew(context: Any, parts: Any, fixed: Any, first: Any) -> Any:
        return parts(parts, fixed, types.intp), _walks.anew_code

    def fits(X: Any, w: Any) -> bool:
        return all(isinstance(a, types.Array) and a.dtype == types.float64 and a.layout == "C" for a in (X, w))

    def indexed(indices: Any) -> bool:
        unsigned = isinstance(indices, types.Array) and indices.dtype in (types.uint32, types.uint64)
        return unsigned and indices.layout == "C"

    options = {"error_model": "numpy", "forceinline": True}  # no fastmath: Numba would add it to what is written above
    loop_dot, loop_add, loop_picked = (
        njit(error_model="numpy", fastmath=fastmath, forceinline=True)(loop) for loop in (row_dot, row_add, picked_dot)
    )

    @overload(row_dot, jit_options=options)
    def choose_dot(X, i, w):  # type: ignore[no-untyped-def]
        return (lambda X, i, w: dot_lanes(X, i, w, 0.0)) if fits(X, w) else lambda X, i, w: loop_dot(X, i, w)

    @overload(row_score, jit_options=options)
    def choose_score(rows, i, w, bias):  # type: ignore[no-untyped-def]
        if getattr(rows, "fields", None) == ("X",) and fits(rows[0], w):
            return lambda rows, i, w, bias: dot_lanes(rows.X, i, w, bias)
        return lambda rows, i, w, bias: rows.dot(i, w) + bias

    @overload(row_add, jit_options=options)
    def choose_add(X, i, scale, w):  # type: ignore[no-untyped-def]
        if fits(X, w):
            return lambda X, i, scale, w: add_lanes(X, i, scale, w)
        return lambda X, i, scale, w: loop_add(X, i, scale, w)

    @overload(held, jit_options=options)
    def choose_held(w, bias):  # type: ignore[no-untyped-def]
        return lambda w, bias: take_lanes(w, bias)

    @overload(held_score, jit_options=options)
    def choose_held_score(X, i, lanes, fixed):  # type: ignore[no-untyped-def]
        return lambda X, i, lanes, fixed: dot_held(X, i, lanes, fixed)

    @overload(read_anew, jit_options=options)
    def choose_read_anew(parts, fixed, first):  # type: ignore[no-untyped-def]
        return lambda parts, fixed, first: parts_anew(parts, fixed, first)

    @overload(held_bias, jit_options=options)
    def choose_held_bias(lanes):  # type: ignore[no-untyped-def]
        return lambda lanes: bias_held(lanes)

    @overload(held_less, jit_options=options)
    def choose_held_less(X, i, scale, lanes, fixed):  # type: ignore[no-untyped-def]
        return lambda X, i, scale, lanes, fixed: less_held(X, i, scale, lanes, fixed)

    @overload(put_back, jit_options=options)
    def choose_put_back(lanes, w):  # type: ignore[no-untyped-def]
        return lambda lanes, w: put_lanes(lanes, w)

    @overload(picked_dot, jit_options=options)
    def choose_picked(data, indices, first, last, w):  # type: ignore[no-untyped-def]
        if fits(data, w) and indexed(indices):
            return lambda data, indices, first, last, w: dot_picked(data, indices, first, last, w)
        return lambda data, indices, first, last, w: loop_picked(data, indices, first, last, w)
