"""How compiled code reads a dict of numbers, and arrays by their address: what one example costs is mostly this.

A call from Python to compiled code pays for every array among its arguments, and turning a dict of 30 numbers into an
array through ``itemgetter`` and ``struct`` costs more than learning from it. Here the compiled function gets the
dict's own address and asks Python's C interface for each value, so an example costs one call. Only code that holds
the GIL may do so (``holding``); with NUMBA_DISABLE_JIT=1 nothing here is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from . import _jit


class Holding(_jit.Kernel):
    """A kernel that keeps the GIL, so that it may ask Python for values."""

    @property
    def dispatcher(self) -> Callable[..., Any]:
        with _jit._lock:
            if self._dispatcher is None and not _jit.PLAIN:
                register()
                made: Any = super().dispatcher
                made.targetoptions["nogil"] = False
                return made  # type: ignore[no-any-return]
            return super().dispatcher


def holding(function: Callable[..., Any]) -> Holding:
    """Mark a kernel that holds the GIL."""
    return Holding(function, {})


def read_dict(features, keys, values):  # type: ignore[no-untyped-def]
    """Whether the dict at this address has every key and only numbers; they are then in ``values``."""
    raise NotImplementedError("only compiled code can read a dict by its address")


def doubles(address, rows, columns):  # type: ignore[no-untyped-def]
    """The float64 table that lies there."""
    raise NotImplementedError("only compiled code can read an array by its address")


def indices(address, count):  # type: ignore[no-untyped-def]
    """The uint32 numbers that lie there."""
    raise NotImplementedError("only compiled code can read an array by its address")


def words(address, count):  # type: ignore[no-untyped-def]
    """The uint64 numbers that lie there."""
    raise NotImplementedError("only compiled code can read an array by its address")


@cache
def register() -> None:
    """Teach Numba the compiled forms; called once, before the first kernel is compiled."""
    from llvmlite import ir
    from numba import carray, types
    from numba.core import cgutils
    from numba.extending import intrinsic, overload

    def pointer_to(kind: Any) -> Any:
        @intrinsic
        def pointer(context: Any, address: Any) -> Any:
            def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

            return types.CPointer(kind)(types.intp), code

        return pointer

    to_double, to_word, to_index = (pointer_to(kind) for kind in (types.float64, types.uint64, types.uint32))

    @intrinsic
    def read_values(context: Any, features: Any, keys: Any, values: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            api = context.get_python_api(builder)
            found = context.make_array(signature.args[1])(context, builder, arguments[1])
            out = context.make_array(signature.args[2])(context, builder, arguments[2])
            count = cgutils.unpack_tuple(builder, out.shape)[-1]
            features = builder.inttoptr(arguments[0], api.pyobj)
            get = api._get_function(ir.FunctionType(api.pyobj, [api.pyobj, api.pyobj]), "PyDict_GetItem")
            good = cgutils.alloca_once_value(builder, cgutils.true_bit)
            with cgutils.for_range(builder, count) as loop:
                key = builder.inttoptr(builder.load(builder.gep(found.data, [loop.index])), api.pyobj)
                value = builder.call(get, [features, key])  # borrowed
                with builder.if_then(cgutils.is_null(builder, value), likely=False):
                    builder.store(cgutils.false_bit, good)
                    loop.do_break()
                api.incref(value)  # a number's own __float__ may change the dict
                number = api.float_as_double(value)
                api.decref(value)
                minus_one = builder.fcmp_ordered("==", number, ir.Constant(number.type, -1.0))
                with (
                    builder.if_then(minus_one, likely=False),
                    builder.if_then(cgutils.is_not_null(builder, api.err_occurred()), likely=False),
                ):
                    api.err_clear()
                    builder.store(cgutils.false_bit, good)
                    loop.do_break()
                builder.store(number, builder.gep(out.data, [loop.index]))
            return builder.load(good)

        return types.boolean(types.intp, keys, values), code

    options = {"error_model": "numpy", "forceinline": True}

    @overload(read_dict, jit_options=options)
    def choose_read(features, keys, values):  # type: ignore[no-untyped-def]
        return lambda features, keys, values: read_values(features, keys, values)

    @overload(doubles, jit_options=options)
    def choose_doubles(address, rows, columns):  # type: ignore[no-untyped-def]
        return lambda address, rows, columns: carray(to_double(address), (rows, columns))

    @overload(words, jit_options=options)
    def choose_words(address, count):  # type: ignore[no-untyped-def]
        return lambda address, count: carray(to_word(address), (count,))

    @overload(indices, jit_options=options)
    def choose_indices(address, count):  # type: ignore[no-untyped-def]
        return lambda address, count: carray(to_index(address), (count,))
