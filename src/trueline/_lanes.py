"""Two walks along a dense row, a vector register at a time: x·w and w ← w + scale·x.

A compiler that meets ``for j in range(d)`` vectorises sixteen entries at a time and takes the rest one by one: with 30
columns nearly half of them, in one serial chain of additions, and a row that was written by ones is read by sixteens,
which the processor cannot forward from its store queue. Here the rest is taken by 16, 8, 4, 2 and 1, the same split
when reading and when writing. Arrays of another kind take the plain loop.
"""

from __future__ import annotations

from typing import Any

LANES = 4  # doubles a register: wider ones cross a cache line at every second read
UNROLLED = 4  # registers a round, so that additions need not wait for each other


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
            moved = builder.fmul(read(builder, x, place, lanes), scales[lanes], flags=flags)
            new = builder.fadd(read(builder, w, place, lanes), moved, flags=flags)
            builder.store(new, at(builder, w, place, lanes), align=8)

        split(builder, length, visit)
        return context.get_dummy_value()

    @intrinsic
    def dot_lanes(context: Any, X: Any, i: Any, w: Any) -> Any:
        return types.float64(X, types.intp, w), dot_code

    @intrinsic
    def add_lanes(context: Any, X: Any, i: Any, scale: Any, w: Any) -> Any:
        return types.void(X, types.intp, types.float64, w), add_code

    def fits(X: Any, w: Any) -> bool:
        return all(isinstance(a, types.Array) and a.dtype == types.float64 and a.layout == "C" for a in (X, w))

    options = {"error_model": "numpy", "fastmath": fastmath, "forceinline": True}

    @overload(row_dot, jit_options=options)
    def choose_dot(X, i, w):  # type: ignore[no-untyped-def]
        return (lambda X, i, w: dot_lanes(X, i, w)) if fits(X, w) else row_dot

    @overload(row_add, jit_options=options)
    def choose_add(X, i, scale, w):  # type: ignore[no-untyped-def]
        return (lambda X, i, scale, w: add_lanes(X, i, scale, w)) if fits(X, w) else row_add
