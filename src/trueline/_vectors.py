"""How vector code is written for LLVM: reading a row in pieces, adding products, asking memory for what comes next.

What _lanes.py builds its walks from; imported with Numba, not before it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features, get_process_triple
from numba.core import cgutils

from ._lanes import FAR, LANES, NEAR, SHORT, UNROLLED

double = ir.DoubleType()
vector = ir.VectorType(double, LANES)
zeros = ir.Constant(vector, [0.0] * LANES)
fused = "fma" in get_host_cpu_features().flatten() or "x86" not in get_process_triple()


def row(context: Any, builder: Any, kind: Any, X: Any, i: Any) -> tuple[Any, Any]:
    """Where row i starts, and its length."""
    rows = context.make_array(kind)(context, builder, X)
    length = cgutils.unpack_tuple(builder, rows.shape)[1]
    return builder.gep(rows.data, [builder.mul(i, length)]), length


def start_of(context: Any, builder: Any, kind: Any, w: Any) -> Any:
    return context.make_array(kind)(context, builder, w).data


def at(builder: Any, pointer: Any, place: Any, lanes: int) -> Any:
    """A pointer to ``lanes`` doubles."""
    single = builder.gep(pointer, [place])
    return single if lanes == 1 else builder.bitcast(single, ir.VectorType(double, lanes).as_pointer())


def read(builder: Any, pointer: Any, place: Any, lanes: int) -> Any:
    return builder.load(at(builder, pointer, place, lanes), align=8)


def chosen(first: Any, second: Any, places: list[int], builder: Any) -> Any:
    """These lanes of two registers, counted through."""
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places))


def has(builder: Any, length: Any, size: int) -> Any:
    return cgutils.is_not_null(builder, builder.and_(length, length.type(size)))


def read_rest(builder: Any, pointer: Any, place: Any, length: Any) -> Any:
    """The last one to three entries and zeros, read in the pieces in which they are written."""
    spot = cgutils.alloca_once(builder, vector)
    with builder.if_else(has(builder, length, 2)) as (two, one):
        with two:
            pair = chosen(
                read(builder, pointer, place, 2),
                ir.Constant(ir.VectorType(double, 2), [0.0, 0.0]),
                [0, 1, 2, 3],
                builder,
            )
            builder.store(pair, spot)
            with builder.if_then(has(builder, length, 1)):
                third = read(builder, pointer, builder.add(place, length.type(2)), 1)
                builder.store(builder.insert_element(pair, third, ir.IntType(32)(2)), spot)
        with one:
            first = read(builder, pointer, place, 1)
            builder.store(builder.insert_element(zeros, first, ir.IntType(32)(0)), spot)
    return builder.load(spot)


def rest(builder: Any, length: Any, done: Any, visit: Any, likely: bool | None = None) -> None:
    """Call ``visit(place, lanes, k)`` for what whole rounds leave over, in the widest pieces first; one to three
    entries are one visit with ``lanes`` 0. ``k`` counts pieces from 0 to UNROLLED, so that no sum gets two."""
    size, k = LANES * UNROLLED // 2, 0
    while size >= LANES:
        with builder.if_then(has(builder, length, size), likely=likely):
            for piece in range(size // LANES):
                visit(builder.add(done, length.type(piece * LANES)), LANES, k + piece)
        done = builder.add(done, builder.and_(length, length.type(size)))
        k += size // LANES
        size //= 2
    with builder.if_then(has(builder, length, LANES - 1)):
        visit(done, 0, k)


def split(builder: Any, length: Any, visit: Any) -> None:
    """Call ``visit(place, lanes, k)`` so that every entry is visited once, in the widest pieces first."""
    intp = length.type
    width = LANES * UNROLLED
    rounds = builder.udiv(length, intp(width))
    with cgutils.for_range(builder, rounds) as loop:
        first = builder.mul(loop.index, intp(width))
        for k in range(UNROLLED):
            visit(builder.add(first, intp(k * LANES)), LANES, k)
    rest(builder, length, builder.mul(rounds, intp(width)), visit)


def prefetch(builder: Any, pointer: Any, place: Any, ahead: Any) -> None:
    """Ask for what lies ``ahead`` entries further on; beyond the end of an array that asks for nothing."""
    whole, byte = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    far = builder.gep(pointer, [builder.add(place, ahead)])
    builder.call(fetch, [builder.bitcast(far, byte), whole(0), whole(3), whole(1)])


def ask(builder: Any, x: Any, place: Any, length: Any, short: bool) -> None:
    """Ask for the two cache lines that a round takes, some rounds in advance, if rows of this length ask here."""
    here = builder.icmp_unsigned("<=" if short else ">", length, length.type(SHORT))
    with builder.if_then(here):
        near = builder.icmp_unsigned("<=", length, length.type(NEAR))
        ahead = length.type(FAR) if short else builder.select(near, length.type(NEAR), length.type(FAR))
        for line in (0, 8):
            prefetch(builder, x, builder.add(place, length.type(line)), ahead)


def plus(builder: Any, total: Any, a: Any, b: Any) -> Any:
    """total + a·b, rounded once where the processor can."""
    if not fused:
        return builder.fadd(total, builder.fmul(a, b))
    name = "f64" if total.type == double else f"v{total.type.count}f64"
    kind = ir.FunctionType(total.type, [total.type] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.{name}"), [a, b, total])


def summed(builder: Any, sums: list[Any]) -> Any:
    """The sum of all lanes."""
    while len(sums) > 1:
        sums = [builder.fadd(a, b) for a, b in zip(sums[::2], sums[1::2])]
    pair = builder.fadd(*(chosen(sums[0], sums[0], places, builder) for places in ([0, 1], [2, 3])))
    return builder.fadd(*(builder.extract_element(pair, ir.IntType(32)(k)) for k in range(2)))


def everywhere(builder: Any, scale: Any, lanes: int) -> Any:
    """One number in every lane."""
    kind = ir.VectorType(double, lanes)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), scale, ir.IntType(32)(0))
    return chosen(one, one, [0] * lanes, builder)


def piece(builder: Any, pointer: Any, place: Any, lanes: int, length: Any) -> Any:
    return read(builder, pointer, place, lanes) if lanes else read_rest(builder, pointer, place, length)


def joined(builder: Any, a: Any, b: Any) -> Any:
    """Two registers of which one is zero in every lane where the other is not."""
    bits = ir.VectorType(ir.IntType(64), LANES)
    return builder.bitcast(builder.or_(builder.bitcast(a, bits), builder.bitcast(b, bits)), vector)
