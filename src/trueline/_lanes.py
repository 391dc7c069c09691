"""Walks along a row in the processor's own terms: x·w and w ← w + scale·x of a dense row, x·w of a sparse one.

A compiler that meets ``for j in range(d)`` vectorises sixteen entries at a time and takes the rest one by one: with 30
columns nearly half of them, in one serial chain of additions, and a row that was written by ones is read by sixteens,
which the processor cannot forward from its store queue. Here the rest is taken by 16, 8, 4, 2 and 1, the same split
when reading and when writing. Arrays of another kind take the plain loop.

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


def picked_dot(data, indices, first, last, w):  # type: ignore[no-untyped-def]
    """Σ data_k · w[indices_k] over first ≤ k < last."""
    total = 0.0
    for k in range(first, last):
        total += data[k] * w[indices[k]]
    return total


def register(fastmath: set[str]) -> None:
    """Teach Numba the vector forms; called once, before the first kernel is compiled."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.core.imputils import impl_ret_untracked
    from numba.extending import intrinsic, overload

    double = ir.DoubleType()
    flags = tuple(sorted(fastmath))

    def pointers(context: Any, builder: Any, signature: Any, X: Any, i: Any, w: Any) -> tuple[Any, Any, Any]:
        """Where row i starts, where w starts, and the row's length."""
        rows = context.make_array(signature.args[0])(context, builder, X)
        weights = context.make_array(signature.args[-1])(context, builder, w)
        length = cgutils.unpack_tuple(builder, rows.shape)[1]
        return builder.gep(rows.data, [builder.mul(i, length)]), weights.data, length

    def at(builder: Any, pointer: Any, place: Any, lanes: int) -> Any:
        """A pointer to ``lanes`` doubles."""
        single = builder.gep(pointer, [place])
        return single if lanes == 1 else builder.bitcast(single, ir.VectorType(double, lanes).as_pointer())

    def read(builder: Any, pointer: Any, place: Any, lanes: int) -> Any:
        return builder.load(at(builder, pointer, place, lanes), align=8)

    def split(builder: Any, length: Any, visit: Any) -> None:
        """Call ``visit(place, lanes, k)`` so that every entry is visited once, in the widest pieces first."""
        intp = length.type
        width = LANES * UNROLLED
        rounds = builder.udiv(length, intp(width))
        with cgutils.for_range(builder, rounds) as loop:
            first = builder.mul(loop.index, intp(width))
            for k in range(UNROLLED):
                visit(builder.add(first, intp(k * LANES)), LANES, k)
        done = builder.mul(rounds, intp(width))
        size = width // 2
        while size:
            with builder.if_then(cgutils.is_not_null(builder, builder.and_(length, intp(size)))):
                lanes = min(size, LANES)
                for k in range(size // lanes):
                    visit(builder.add(done, intp(k * lanes)), lanes, k)
            done = builder.add(done, builder.and_(length, intp(size)))
            size //= 2

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

    def dot_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, w, length = pointers(context, builder, signature, *arguments)
        sums: dict[tuple[int, int], Any] = {}
        lanes = LANES
        while lanes:
            for k in range(UNROLLED if lanes == LANES else 1):
                kind = double if lanes == 1 else ir.VectorType(double, lanes)
                sums[lanes, k] = cgutils.alloca_once(builder, kind)
                builder.store(ir.Constant(kind, 0.0 if lanes == 1 else [0.0] * lanes), sums[lanes, k])
            lanes //= 2

        def visit(place: Any, lanes: int, k: int) -> None:
            if lanes == LANES and k == 0:
                ask(builder, x, place, length, short=True)
            product = builder.fmul(read(builder, x, place, lanes), read(builder, w, place, lanes), flags=flags)
            builder.store(builder.fadd(builder.load(sums[lanes, k]), product, flags=flags), sums[lanes, k])

        split(builder, length, visit)
        found = [builder.load(sums[LANES, k]) for k in range(UNROLLED)]
        while len(found) > 1:
            found = [builder.fadd(a, b, flags=flags) for a, b in zip(found[::2], found[1::2])]
        total, lanes = found[0], LANES
        while lanes > 1:
            lanes //= 2
            if lanes == 1:
                halves = [builder.extract_element(total, ir.IntType(32)(k)) for k in range(2)]
            else:
                halves = [
                    builder.shuffle_vector(
                        total, total, ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(k, k + lanes)))
                    )
                    for k in (0, lanes)
                ]
            total = builder.fadd(builder.fadd(*halves, flags=flags), builder.load(sums[lanes, 0]), flags=flags)
        return impl_ret_untracked(context, builder, signature.return_type, total)

    def add_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        X, i, scale, w = arguments
        x, w, length = pointers(context, builder, signature, X, i, w)
        scales: dict[int, Any] = {1: scale}
        lanes = 2
        while lanes <= LANES:
            kind = ir.VectorType(double, lanes)
            one = builder.insert_element(ir.Constant(kind, ir.Undefined), scale, ir.IntType(32)(0))
            scales[lanes] = builder.shuffle_vector(
                one, one, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            )
            lanes *= 2

        def visit(place: Any, lanes: int, k: int) -> None:
            if lanes == LANES and k == 0:
                ask(builder, x, place, length, short=False)
            moved = builder.fmul(read(builder, x, place, lanes), scales[lanes], flags=flags)
            new = builder.fadd(read(builder, w, place, lanes), moved, flags=flags)
            builder.store(new, at(builder, w, place, lanes), align=8)

        split(builder, length, visit)
        return context.get_dummy_value()

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
            product = builder.fmul(builder.load(builder.gep(data, [place])), weight, flags=("contract",))
            builder.store(builder.fadd(builder.load(sums[k]), product, flags=("contract",)), sums[k])

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
    def dot_lanes(context: Any, X: Any, i: Any, w: Any) -> Any:
        return types.float64(X, types.intp, w), dot_code

    @intrinsic
    def add_lanes(context: Any, X: Any, i: Any, scale: Any, w: Any) -> Any:
        return types.void(X, types.intp, types.float64, w), add_code

    def fits(X: Any, w: Any) -> bool:
        return all(isinstance(a, types.Array) and a.dtype == types.float64 and a.layout == "C" for a in (X, w))

    def indexed(indices: Any) -> bool:
        unsigned = isinstance(indices, types.Array) and indices.dtype in (types.uint32, types.uint64)
        return unsigned and indices.layout == "C"

    options = {"error_model": "numpy", "fastmath": fastmath, "forceinline": True}

    @overload(row_dot, jit_options=options)
    def choose_dot(X, i, w):  # type: ignore[no-untyped-def]
        return (lambda X, i, w: dot_lanes(X, i, w)) if fits(X, w) else row_dot

    @overload(row_add, jit_options=options)
    def choose_add(X, i, scale, w):  # type: ignore[no-untyped-def]
        return (lambda X, i, scale, w: add_lanes(X, i, scale, w)) if fits(X, w) else row_add

    @overload(picked_dot, jit_options=options)
    def choose_picked(data, indices, first, last, w):  # type: ignore[no-untyped-def]
        if fits(data, w) and indexed(indices):
            return lambda data, indices, first, last, w: dot_picked(data, indices, first, last, w)
        return picked_dot
