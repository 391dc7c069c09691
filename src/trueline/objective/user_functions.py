"""The C functions of a user's own loss, penalty or geometry.

They come from SciPy's ``LowLevelCallable`` in place of a method, or from Numba's ``cfunc`` (the extra ``jit``), which
compiles the methods of a NamedTuple with its fields as constants. ``numbers`` says how many doubles a method takes.
"""

from __future__ import annotations

import builtins
import ctypes
import dis
import inspect
import math
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from numbers import Real
from typing import Any

from .._jit import _register
from ..errors import UsageError
from .named_function import COMPILED

Numbers = dict[str, int]
HARMLESS = (abs, min, max, float, bool, *(function for function in vars(math).values() if callable(function)))

_said: set[type] = set()


def float_fields(given: Any) -> Any:
    """A user's NamedTuple with whole numbers as floats; anything else as it is."""
    if not (isinstance(given, tuple) and hasattr(given, "_fields")):
        return given
    kind: Any = type(given)
    return kind(*(float(v) if isinstance(v, Real) else v for v in given))


def python_methods(given: Any, numbers: Numbers) -> dict[str, Callable[..., float]]:
    """The methods that there are, to be called in Python."""
    found = {name: getattr(given, name, None) for name in numbers}
    found = {name: c_twin(method, numbers[name]) if is_low_level(method) else method for name, method in found.items()}
    return {name: method for name, method in found.items() if callable(method)}


def can_compile(given: Any, role: str) -> bool:
    """Whether Numba is there and the part is a NamedTuple, whose fields it can take as constants; says once if not."""
    if isinstance(given, tuple) and hasattr(given, "_fields"):
        if find_spec("numba") is not None:
            return True
        say_slow(given, "pip install 'trueline[jit]' has it compiled", role)
    else:
        say_slow(given, "a NamedTuple is compiled where the extra jit is installed", role)
    return False


def say_slow(given: Any, remedy: str, role: str) -> None:
    """Warn once of a class that runs as plain Python."""
    if COMPILED and type(given) not in _said:
        _said.add(type(given))
        warnings.warn(
            f"the {role} {type(given).__name__} runs as plain Python, ten to fifty times slower: {remedy}", stacklevel=2
        )


class Functions:
    """The C functions of a user's own part: given as such, or compiled by Numba when they are first called."""

    def __init__(
        self, given: Any, role: str, numbers: Numbers, pairs: dict[str, tuple[str, int]] | None = None
    ) -> None:
        """``pairs`` names the methods whose result is one of the two of another: {"lowest_slope": ("slope_range", 0)}."""
        self.given, self.role, self.numbers, self.pairs = given, role, numbers, pairs or {}
        self.kept: list[Any] = []  # what owns their code

    def find(self, method: str) -> int:
        """The address of a method's C function, 0 without one."""
        given = getattr(self.given, method, None)
        if is_low_level(given):
            self.kept.append(given)
            return address_of(given, self.numbers[method])
        name, place = (method, None) if callable(given) else self.pairs.get(method, (method, None))
        known = callable(getattr(self.given, name, None)) and isinstance(self.given, tuple)
        if not COMPILED or not known or find_spec("numba") is None:
            return 0
        from numba import errors

        try:
            function = compile_method(self.given, name, self.numbers[method], place)
        except errors.NumbaError as error:
            say_slow(
                self.given,
                f"Numba cannot compile its method {name}: {str(error).strip().splitlines()[-1]}",
                self.role,
            )
            return 0
        self.kept.append(function)
        return int(function.address)


def compile_method(part: Any, name: str, takes: int, place: int | None = None) -> Any:
    """A method of a NamedTuple, or one of the numbers that it returns, as a C function of doubles; where it raises, NaN."""
    from numba import cfunc, njit

    for cls in {type(part), *(type(field) for field in part if hasattr(field, "_fields"))}:
        _register(cls)  # lets compiled methods call each other
    # Catching what it may raise doubles the time of a short method; most do arithmetic only, which gives NaN instead.
    quiet = is_arithmetic(getattr(type(part), name), type(part))
    method = njit(error_model="numpy" if quiet else "python")(getattr(type(part), name))
    if place is not None:
        whole = method
        method = njit(lambda part, a: whole(part, a)[place])

    def one(a):  # type: ignore[no-untyped-def]
        try:
            return float(method(part, a))
        except Exception:
            return math.nan

    def two(a, b):  # type: ignore[no-untyped-def]
        try:
            return float(method(part, a, b))
        except Exception:
            return math.nan

    def three(a, b, c):  # type: ignore[no-untyped-def]
        try:
            return float(method(part, a, b, c))
        except Exception:
            return math.nan

    body = quiet_body(method, part, takes) if quiet else (one, two, three)[takes - 1]
    return cfunc(f"float64({', '.join(['float64'] * takes)})")(body)


def quiet_body(method: Any, part: Any, takes: int) -> Callable[..., float]:
    """A compiled method as a function of the doubles alone."""
    bodies = (lambda a: method(part, a), lambda a, b: method(part, a, b), lambda a, b, c: method(part, a, b, c))
    return bodies[takes - 1]  # type: ignore[no-any-return]


def is_arithmetic(method: Any, cls: type, seen: tuple[Any, ...] = ()) -> bool:
    """Whether compiled code of a method cannot raise: no raise, assert or index, and calls of mathematics alone.

    What divides by zero is called again in Python where that leaves no finite result.
    """
    if not inspect.isfunction(method) or method.__code__.co_freevars:
        return False
    for step in dis.get_instructions(method):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            value = method.__globals__.get(step.argval, getattr(builtins, step.argval, None))
            if not (value is math or isinstance(value, (int, float)) or any(value is one for one in HARMLESS)):
                return False
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            called = getattr(cls, step.argval, None)
            if inspect.isfunction(called) and called not in seen and not is_arithmetic(called, cls, (*seen, method)):
                return False
        elif any(word in step.opname for word in ("RAISE", "SUBSCR", "IMPORT")) or step.argrepr == "[]":
            return False
    return True


def is_low_level(method: Any) -> bool:
    """Whether this is SciPy's wrapper of a C function."""
    return type(method).__name__ == "LowLevelCallable" and type(method).__module__.startswith("scipy.")


def address_of(method: Any, takes: int) -> int:
    """Where the C function of a LowLevelCallable is; refuses one that takes or returns something else than doubles."""
    wanted = f"double ({', '.join(['double'] * takes)})"
    if method.signature != wanted or method.user_data is not None:
        raise UsageError(f"this C function is to be {wanted} without user data, not {method.signature}")
    function = method.function
    if type(function).__name__ == "PyCapsule":
        look = ctypes.pythonapi
        look.PyCapsule_GetName.restype, look.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
        look.PyCapsule_GetPointer.restype = ctypes.c_void_p
        look.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        return int(look.PyCapsule_GetPointer(function, look.PyCapsule_GetName(function)))
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def c_twin(method: Any, takes: int) -> Any:
    """A C function that Python can call."""
    return ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * takes)(address_of(method, takes))
