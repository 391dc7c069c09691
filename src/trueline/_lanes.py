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
    from llvmlite import ir
    from numba import njit, types
    from numba.core import cgutils
    from numba.core.imputils import impl_ret_untracked
    from numba.extending import intrinsic, models, overload, register_model

    from ._vectors import (
        ask,
        at,
        double,
        everywhere,
        has,
        joined,
        piece,
        plus,
        prefetch,
        read,
        read_rest,
        rest,
        row,
        split,
        start_of,
        summed,
        vector,
        zeros,
    )  # fmt: skip

    def dot_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, length = row(context, builder, signature.args[0], *arguments[:2])
        w, bias = start_of(context, builder, signature.args[2], arguments[2]), arguments[3]
        sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(UNROLLED)]

        def visit(place: Any, lanes: int, k: int) -> None:
            if lanes == LANES and k == 0:
                ask(builder, x, place, length, short=True)
            a, b = (piece(builder, pointer, place, lanes, length) for pointer in (x, w))
            builder.store(plus(builder, builder.load(sums[k]), a, b), sums[k])

        split(builder, length, visit)
        found = [builder.load(spot) for spot in sums]
        found[-1] = builder.fadd(found[-1], builder.insert_element(zeros, bias, ir.IntType(32)(LANES - 1)))
        return summed(builder, found)

    def add_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        X, i, scale, w = arguments
        x, length = row(context, builder, signature.args[0], X, i)
        w = start_of(context, builder, signature.args[3], w)
        scales = {1: scale, 2: everywhere(builder, scale, 2), LANES: everywhere(builder, scale, LANES)}

        def move(place: Any, lanes: int) -> None:
            old, moved = (read(builder, pointer, place, lanes) for pointer in (w, x))
            builder.store(plus(builder, old, moved, scales[lanes]), at(builder, w, place, lanes), align=8)

        def visit(place: Any, lanes: int, k: int) -> None:
            if lanes == LANES and k == 0:
                ask(builder, x, place, length, short=False)
            if lanes:
                move(place, lanes)
                return
            with builder.if_then(has(builder, length, 2)):
                move(place, 2)
            with builder.if_then(has(builder, length, 1)):
                move(builder.add(place, builder.and_(length, length.type(2))), 1)

        split(builder, length, visit)
        return context.get_dummy_value()

    # Narrow rows: 2·UNROLLED registers of weights, the last of them one to three weights and the bias; and the constant.

    LAST = 2 * UNROLLED - 1

    def pieces(builder: Any, length: Any, visit: Any) -> None:
        """Call ``visit(place, k, register)`` for each register of a narrow row that is full."""
        intp, width = length.type, LANES * UNROLLED
        with builder.if_then(has(builder, length, width), likely=True):
            for k in range(UNROLLED):
                visit(intp(k * LANES), k, k)
        done = builder.and_(length, intp(width))
        rest(
            builder, length, done, lambda place, lanes, k: visit(place, k, UNROLLED + k) if lanes else None, likely=True
        )

    def last_piece(builder: Any, pointer: Any, length: Any) -> Any:
        """The entries of the last register, if there are any, and zeros."""
        spot = cgutils.alloca_once_value(builder, zeros)
        with builder.if_then(has(builder, length, LANES - 1)):
            place = builder.and_(length, length.type(-LANES))
            builder.store(read_rest(builder, pointer, place, length), spot)
        return builder.load(spot)

    def take_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        weights = context.make_array(signature.args[0])(context, builder, arguments[0])
        length = cgutils.unpack_tuple(builder, weights.shape)[0]
        spots = [cgutils.alloca_once_value(builder, zeros) for _ in range(LAST)]
        pieces(
            builder,
            length,
            lambda place, k, register: builder.store(read(builder, weights.data, place, LANES), spots[register]),
        )
        last = builder.insert_element(
            last_piece(builder, weights.data, length), arguments[1], ir.IntType(32)(LANES - 1)
        )
        lanes = ir.Constant(held_kind, ir.Undefined)
        for k, value in enumerate([*(builder.load(spot) for spot in spots), last]):
            lanes = builder.insert_value(lanes, value, k)
        return lanes

    def put_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        weights = context.make_array(signature.args[1])(context, builder, arguments[1])
        length = cgutils.unpack_tuple(builder, weights.shape)[0]

        def visit(place: Any, k: int, register: int) -> None:
            value = builder.extract_value(arguments[0], register)
            builder.store(value, at(builder, weights.data, place, LANES), align=8)

        pieces(builder, length, visit)
        place, over = builder.and_(length, length.type(-LANES)), builder.and_(length, length.type(LANES - 1))
        for lane in range(LANES - 1):
            with builder.if_then(builder.icmp_unsigned(">", over, length.type(lane))):
                single = builder.extract_element(builder.extract_value(arguments[0], LAST), ir.IntType(32)(lane))
                builder.store(single, builder.gep(weights.data, [builder.add(place, length.type(lane))]))
        return context.get_dummy_value()

    def bias_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_element(builder.extract_value(arguments[0], LAST), ir.IntType(32)(LANES - 1))

    def held_dot_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, length = row(context, builder, signature.args[0], *arguments[:2])
        sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(UNROLLED)]

        def visit(place: Any, k: int, register: int) -> None:
            if register % 2 == 0:  # a cache line every second register
                prefetch(builder, x, place, length.type(FAR))
            w = builder.extract_value(arguments[2], register)
            builder.store(plus(builder, builder.load(sums[k]), read(builder, x, place, LANES), w), sums[k])

        pieces(builder, length, visit)
        found = [builder.load(spot) for spot in sums]
        constant = read(builder, start_of(context, builder, signature.args[3], arguments[3]), length.type(0), LANES)
        moved = joined(builder, last_piece(builder, x, length), constant)
        found[-1] = plus(builder, found[-1], moved, builder.extract_value(arguments[2], LAST))
        return summed(builder, found)

    def held_less_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        X, i, scale, lanes, fixed = arguments
        x, length = row(context, builder, signature.args[0], X, i)
        factor = everywhere(builder, scale, LANES)
        spots = [cgutils.alloca_once_value(builder, builder.extract_value(lanes, k)) for k in range(LAST)]

        def visit(place: Any, k: int, register: int) -> None:
            moved = builder.fneg(read(builder, x, place, LANES))
            builder.store(plus(builder, builder.load(spots[register]), moved, factor), spots[register])

        pieces(builder, length, visit)
        constant = read(builder, start_of(context, builder, signature.args[4], fixed), length.type(0), LANES)
        moved = builder.fneg(joined(builder, last_piece(builder, x, length), constant))
        last = plus(builder, builder.extract_value(lanes, LAST), moved, factor)
        for k, spot in enumerate(spots):
            lanes = builder.insert_value(lanes, builder.load(spot), k)
        return builder.insert_value(lanes, last, LAST)

    def anew_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        fixed = start_of(context, builder, signature.args[1], arguments[1])
        place = [arguments[2]]

        def read_in(kind: Any, value: Any) -> Any:
            if kind == types.float64:
                number = read(builder, fixed, place[0], 1)
                place[0] = builder.add(place[0], place[0].type(1))
                return number
            if isinstance(kind, types.BaseTuple):
                for k, member in enumerate(kind.types):
                    value = builder.insert_value(value, read_in(member, builder.extract_value(value, k)), k)
            return value

        return read_in(signature.args[0], arguments[0])

    def picked_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, indices, w = (
            context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in (0, 1, 4)
        )
        first, last = arguments[2:4]
        intp = first.type
        sums = [cgutils.alloca_once_value(builder, ir.Constant(double, 0.0)) for _ in range(UNROLLED)]

        def visit(place: Any, k: int) -> None:
            column = builder.zext(builder.load(builder.gep(indices, [place])), intp)
            # An ordered read cannot become part of a gather.
            weight = builder.load_atomic(builder.gep(w, [column]), "monotonic", 8)
            total = plus(builder, builder.load(sums[k]), builder.load(builder.gep(data, [place])), weight)
            builder.store(total, sums[k])

        width = 2 * UNROLLED  # a cache line of data
        rounds = builder.udiv(builder.sub(last, first), intp(width))
        with cgutils.for_range(builder, rounds) as loop:
            start = builder.add(first, builder.mul(loop.index, intp(width)))
            prefetch(builder, data, start, intp(FAR))
            prefetch(builder, indices, start, intp(FAR))
            for k in range(width):
                visit(builder.add(start, intp(k)), k % UNROLLED)
        with cgutils.for_range_slice(
            builder, builder.add(first, builder.mul(rounds, intp(width))), last, intp(1), intp
        ) as (place, _):
            visit(place, 0)
        found = [builder.load(total) for total in sums]
        while len(found) > 1:
            found = [builder.fadd(a, b) for a, b in zip(found[::2], found[1::2])]
        return impl_ret_untracked(context, builder, signature.return_type, found[0])

    @intrinsic
    def dot_picked(context: Any, data: Any, indices: Any, first: Any, last: Any, w: Any) -> Any:
        return types.float64(data, indices, types.intp, types.intp, w), picked_code

    @intrinsic
    def dot_lanes(context: Any, X: Any, i: Any, w: Any, bias: Any) -> Any:
        return types.float64(X, types.intp, w, types.float64), dot_code

    @intrinsic
    def add_lanes(context: Any, X: Any, i: Any, scale: Any, w: Any) -> Any:
        return types.void(X, types.intp, types.float64, w), add_code

    class Held(types.Type):  # type: ignore[misc]
        """The weights of a narrow row in registers."""

        def __init__(self) -> None:
            super().__init__(name="Held")

    in_registers = Held()
    held_kind = ir.ArrayType(vector, 2 * UNROLLED)

    @register_model(Held)
    class HeldModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, held_kind)

    @intrinsic
    def take_lanes(context: Any, w: Any, bias: Any) -> Any:
        return in_registers(w, types.float64), take_code

    @intrinsic
    def put_lanes(context: Any, lanes: Any, w: Any) -> Any:
        return types.void(lanes, w), put_code

    @intrinsic
    def bias_held(context: Any, lanes: Any) -> Any:
        return types.float64(lanes), bias_code

    @intrinsic
    def dot_held(context: Any, X: Any, i: Any, lanes: Any, fixed: Any) -> Any:
        return types.float64(X, types.intp, lanes, fixed), held_dot_code

    @intrinsic
    def less_held(context: Any, X: Any, i: Any, scale: Any, lanes: Any, fixed: Any) -> Any:
        return in_registers(X, types.intp, types.float64, lanes, fixed), held_less_code

    @intrinsic
    def parts_anew(context: Any, parts: Any, fixed: Any, first: Any) -> Any:
        return parts(parts, fixed, types.intp), anew_code

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
