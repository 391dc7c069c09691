"""The walks of _lanes.py as LLVM code: each ``…_code`` writes one for Numba. Imported with Numba, not before it."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import impl_ret_untracked

from ._lanes import FAR, LANES, UNROLLED
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
)


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


# Narrow rows: 2·UNROLLED registers of weights, the last of them one to three weights and the bias.

LAST = 2 * UNROLLED - 1
held_kind = ir.ArrayType(vector, LAST + 1)


def pieces(builder: Any, length: Any, visit: Any) -> None:
    """Call ``visit(place, k, register)`` for each register of a narrow row that is full."""
    intp, width = length.type, LANES * UNROLLED
    with builder.if_then(has(builder, length, width), likely=True):
        for k in range(UNROLLED):
            visit(intp(k * LANES), k, k)
    done = builder.and_(length, intp(width))
    rest(builder, length, done, lambda place, lanes, k: visit(place, k, UNROLLED + k) if lanes else None, likely=True)


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
    last = builder.insert_element(last_piece(builder, weights.data, length), arguments[1], ir.IntType(32)(LANES - 1))
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


# Sparse rows.


def picked_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    data, indices, w = (start_of(context, builder, signature.args[k], arguments[k]) for k in (0, 1, 4))
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
    begun = builder.add(first, builder.mul(rounds, intp(width)))
    with cgutils.for_range_slice(builder, begun, last, intp(1), intp) as (place, _):
        visit(place, 0)
    found = [builder.load(total) for total in sums]
    while len(found) > 1:
        found = [builder.fadd(a, b) for a, b in zip(found[::2], found[1::2])]
    return impl_ret_untracked(context, builder, signature.return_type, found[0])
