"""How compiled code reads a dict of numbers, and arrays by their address: what one example costs is mostly this.

A call from Python to compiled code pays for every array among its arguments, and turning a dict of 30 numbers into an
array through ``itemgetter`` and ``struct`` costs more than learning from it. Here the compiled function gets the
dict's own address and asks Python's C interface for the values, so an example costs one call.

Why this is safe. The caller holds a reference to the dict for the length of the call, checks that it is a ``dict`` and no
subclass, and holds references to the keys asked for. The code keeps the GIL (``holding``), so nobody else can run; the
only Python code that may run inside is a value's own ``__float__``, and a reference to that value is held meanwhile. That code may
change the dict: so nothing borrowed from the dict is used after it, but for a position, which ``PyDict_Next`` checks
anew. First the dict is walked in its own order, each key compared with the one expected there (the same object, or an
equal string: PyUnicode_Compare runs no Python code and refuses what is no string). At the first surprise, an order,
a key, a missing value, every value is looked up by its key instead, and what cannot be found or is no number gives
False with no exception left behind: the caller then goes the long way, which finds the words. No field of a dict is read
behind Python's back. Of a float the type and the value are read where CPython keeps them, if a trial on one float finds
them there; otherwise through the C interface.

``usable`` says whether all this holds: CPython, with its GIL, compiled (not NUMBA_DISABLE_JIT=1).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from . import _jit
from .data.rounding import EXACT


def usable() -> bool:
    """Whether compiled code may read dicts in this process."""
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    return not _jit.PLAIN and sys.implementation.name == "cpython" and locked


def floats_as_expected() -> bool:
    """Whether a float is, as in CPython so far, a count of references, its type's address and its value."""
    trial = 1.2345678
    if sys.getsizeof(trial) != 24 or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    kind = ctypes.c_void_p.from_address(id(trial) + 8).value
    return kind == id(float) and ctypes.c_double.from_address(id(trial) + 16).value == trial


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


def read_dict(features, keys, spots, values):  # type: ignore[no-untyped-def]
    """Whether the dict at this address has every key and only numbers; that of key k is then in ``values[spots[k]]``."""
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

    whole, size = ir.IntType(32), ir.IntType(64)
    direct_floats = floats_as_expected()

    def pointer_to(kind: Any) -> Any:
        @intrinsic
        def pointer(context: Any, address: Any) -> Any:
            def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

            return types.CPointer(kind)(types.intp), code

        return pointer

    to_double, to_word, to_index = (pointer_to(kind) for kind in (types.float64, types.uint64, types.uint32))

    def store_number(api: Any, builder: Any, value: Any, place: Any, refuse: Callable[[], None]) -> None:
        """The number in a borrowed value goes to ``place``; ``refuse`` where there is none."""

        def ask() -> None:
            api.incref(value)
            number = api.float_as_double(value)
            api.decref(value)
            minus_one = builder.fcmp_ordered("==", number, ir.Constant(number.type, -1.0))
            with (
                builder.if_then(minus_one, likely=False),
                builder.if_then(cgutils.is_not_null(builder, api.err_occurred()), likely=False),
            ):
                api.err_clear()
                refuse()
            # Whole numbers that float64 may have rounded are looked at where there are words for them.
            size_of = builder.select(
                builder.fcmp_ordered("<", number, ir.Constant(number.type, 0.0)), builder.fneg(number), number
            )
            with builder.if_then(
                builder.fcmp_ordered(">=", size_of, ir.Constant(number.type, float(EXACT))), likely=False
            ):
                refuse()
            builder.store(number, place)

        if not direct_floats:
            ask()
            return
        kind = builder.load(builder.gep(builder.bitcast(value, api.pyobj.as_pointer()), [size(1)]))
        plain = builder.icmp_unsigned("==", kind, api.get_c_object("PyFloat_Type"))
        with builder.if_else(plain, likely=True) as (a_float, another):
            with a_float:
                builder.store(
                    builder.load(builder.gep(builder.bitcast(value, ir.DoubleType().as_pointer()), [size(2)])), place
                )
            with another:
                ask()

    def reader(walk: Any) -> Any:
        """A compiled function over (dict, keys, spots, values); ``walk`` finds each value, or refuses."""

        @intrinsic
        def read_values(context: Any, features: Any, keys: Any, spots: Any, values: Any) -> Any:
            def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                api = context.get_python_api(builder)
                wanted, places, out = (
                    context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (1, 2, 3)
                )
                count = cgutils.unpack_tuple(builder, wanted.shape)[0]
                given = builder.inttoptr(arguments[0], api.pyobj)
                good = cgutils.alloca_once_value(builder, cgutils.true_bit)
                find = walk(api, builder, given)
                with cgutils.for_range(builder, count) as loop:

                    def refuse() -> None:
                        builder.store(cgutils.false_bit, good)
                        loop.do_break()

                    key = builder.inttoptr(builder.load(builder.gep(wanted.data, [loop.index])), api.pyobj)
                    value = find(key, refuse)
                    spot = builder.load(builder.gep(places.data, [loop.index]))
                    store_number(api, builder, value, builder.gep(out.data, [spot]), refuse)
                return builder.load(good)

            return types.boolean(types.intp, keys, spots, values), code

        return read_values

    def in_order(api: Any, builder: Any, given: Any) -> Any:
        slot = api.pyobj.as_pointer()
        advance = api._get_function(ir.FunctionType(whole, [api.pyobj, size.as_pointer(), slot, slot]), "PyDict_Next")
        compare = api._get_function(ir.FunctionType(whole, [api.pyobj, api.pyobj]), "PyUnicode_Compare")
        at = cgutils.alloca_once_value(builder, size(0))
        key_slot, value_slot = (cgutils.alloca_once(builder, api.pyobj) for _ in range(2))

        def find(wanted: Any, refuse: Callable[[], None]) -> Any:
            more = builder.call(advance, [given, at, key_slot, value_slot])
            with builder.if_then(cgutils.is_null(builder, more), likely=False):
                refuse()
            key = builder.load(key_slot)
            with builder.if_then(builder.icmp_unsigned("!=", key, wanted)):
                other = builder.call(compare, [key, wanted])
                with builder.if_then(cgutils.is_not_null(builder, other), likely=False):
                    api.err_clear()  # a key that is no string
                    refuse()
            return builder.load(value_slot)

        return find

    def by_key(api: Any, builder: Any, given: Any) -> Any:
        get = api._get_function(ir.FunctionType(api.pyobj, [api.pyobj, api.pyobj]), "PyDict_GetItemWithError")

        def find(wanted: Any, refuse: Callable[[], None]) -> Any:
            value = builder.call(get, [given, wanted])  # borrowed
            with builder.if_then(cgutils.is_null(builder, value), likely=False):
                api.err_clear()
                refuse()
            return value

        return find

    read_in_order, read_by_key = reader(in_order), reader(by_key)
    options = {"error_model": "numpy", "forceinline": True}

    @overload(read_dict, jit_options=options)
    def choose_read(features, keys, spots, values):  # type: ignore[no-untyped-def]
        return lambda features, keys, spots, values: (
            read_in_order(features, keys, spots, values) or read_by_key(features, keys, spots, values)
        )

    @overload(doubles, jit_options=options)
    def choose_doubles(address, rows, columns):  # type: ignore[no-untyped-def]
        return lambda address, rows, columns: carray(to_double(address), (rows, columns))

    @overload(words, jit_options=options)
    def choose_words(address, count):  # type: ignore[no-untyped-def]
        return lambda address, count: carray(to_word(address), (count,))

    @overload(indices, jit_options=options)
    def choose_indices(address, count):  # type: ignore[no-untyped-def]
        return lambda address, count: carray(to_index(address), (count,))
