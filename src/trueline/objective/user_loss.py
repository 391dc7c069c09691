"""A user's own loss: checked at its first use, and called as a C function where there is one.

Every theorem and every duality gap rests on a slope that is the value's and on convexity. The check is numeric: a slope
must lie between the two difference quotients of the value, and must not fall as the score grows. It finds a forgotten
factor, sign or branch, not an error of a ten-thousandth.

C functions come from SciPy's ``LowLevelCallable`` in place of a method, or from Numba's ``cfunc`` (the extra ``jit``),
which compiles the methods of a NamedTuple with its fields as constants.
"""

from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from numbers import Real
from typing import Any

from .._jit import _register
from ..certificates.certificate import Assumption
from ..errors import UsageError
from .loss_interface import COMPILED, Loss, PointerLoss, PythonLoss

SIZES = (1.3e-3, 0.013, 0.11, 0.43, 0.97, 1.9, 3.7, 8.3, 27.0, 310.0)
TARGETS = {"sign": (-1.0, 1.0), "nonnegative": (0.0, 1.0, 3.0), "positive": (0.37, 1.0, 3.0)}
REAL = (-3.1, 0.0, 0.7, 26.0)
RELATIVE = 1e-4  # by how much of itself a slope may be off
EPS = 2.0**-52
NUMBERS = {"value": 2, "slope": 2, "curvature": 2, "conjugate": 2, "prox": 3, "mean": 1}  # that a method takes

WORDS = "the value and slope of your own loss are as you wrote them (yours to know)"

Method = Callable[..., float]

_made: dict[Any, Loss] = {}
_said: set[type] = set()


def assumption_of(loss: Any) -> tuple[Assumption, ...]:
    """What every claim about a user's own loss rests on; nothing for trueline's losses."""
    own = isinstance(loss, PythonLoss) or not type(loss).__module__.startswith("trueline.")
    return (Assumption(WORDS, True),) if own else ()


def user_loss(given: Any, names: str = "a built-in loss's name") -> Loss:
    """A user's own loss for the loops."""
    methods = {name: c_twin(getattr(given, name, None), name) for name in NUMBERS}
    missing = [name for name in ("value", "slope") if not callable(methods[name])]
    if missing or isinstance(given, type):
        lack = f"it lacks {', '.join(missing)}" if missing else "it is a class; give an object of it"
        raise UsageError(
            f"{given!r} cannot serve as a loss: {lack}; give one of {names} or a NamedTuple with the methods value, slope",
            where="loss",
        )
    if isinstance(given, tuple) and hasattr(given, "_fields"):
        kind: Any = type(given)
        given = kind(*(float(v) if isinstance(v, Real) else v for v in given))
    try:
        key = type(given), given  # losses of two classes with the same fields are equal as tuples
        if key in _made:
            return _made[key]
    except TypeError:  # no hash
        key = None
    methods = {name: method for name, method in methods.items() if callable(method)}
    loss = PythonLoss(given, methods, user_loss)
    check_user_loss(given, methods["value"], methods["slope"])
    if any(is_low_level(getattr(given, name, None)) for name in NUMBERS) or (COMPILED and can_compile(given)):
        loss = PointerLoss(given, methods, user_loss, Functions(given).find)
    if key is not None:
        _made[key] = loss
    return loss


def can_compile(given: Any, role: str = "loss") -> bool:
    """Whether Numba is there and the part is a NamedTuple, whose fields it can take as constants; says once if not."""
    if isinstance(given, tuple) and hasattr(given, "_fields"):
        if find_spec("numba") is not None:
            return True
        say_slow(given, "pip install 'trueline[jit]' has it compiled", role)
    else:
        say_slow(given, "a NamedTuple is compiled where the extra jit is installed", role)
    return False


def say_slow(given: Any, remedy: str, role: str = "loss") -> None:
    """Warn once of a class that runs as plain Python."""
    if COMPILED and type(given) not in _said:
        _said.add(type(given))
        warnings.warn(
            f"the {role} {type(given).__name__} runs as plain Python, ten to fifty times slower: {remedy}", stacklevel=2
        )


class Functions:
    """The C functions of a user's own part: given as such, or compiled by Numba when they are first called."""

    def __init__(self, given: Any, role: str = "loss", numbers: dict[str, int] = NUMBERS) -> None:
        self.given, self.role, self.numbers = given, role, numbers
        self.kept: list[Any] = []  # what owns their code

    def find(self, method: str) -> int:
        """The address of a method's C function, 0 without one."""
        given = getattr(self.given, method, None)
        if is_low_level(given):
            self.kept.append(given)
            return address_of(given, method)
        if not COMPILED or not callable(given) or find_spec("numba") is None or not isinstance(self.given, tuple):
            return 0
        from numba import errors

        try:
            function = compile_method(self.given, method, self.numbers[method])
        except errors.NumbaError as error:
            say_slow(self.given, f"Numba cannot compile its method {method}: {str(error).strip().splitlines()[-1]}", self.role)
            return 0
        self.kept.append(function)
        return int(function.address)


def compile_method(part: Any, name: str, takes: int) -> Any:
    """A method of a NamedTuple as a C function of doubles; where it raises, NaN."""
    from numba import cfunc, njit

    for cls in {type(part), *(type(field) for field in part if hasattr(field, "_fields"))}:
        _register(cls)  # lets compiled methods call each other
    method = njit(getattr(type(part), name))

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

    return cfunc(f"float64({', '.join(['float64'] * takes)})")((one, two, three)[takes - 1])


def is_low_level(method: Any) -> bool:
    """Whether this is SciPy's wrapper of a C function."""
    return type(method).__name__ == "LowLevelCallable" and type(method).__module__.startswith("scipy.")


def address_of(method: Any, name: str) -> int:
    """Where the C function of a LowLevelCallable is; refuses one that takes or returns something else than doubles."""
    wanted = f"double ({', '.join(['double'] * NUMBERS[name])})"
    if method.signature != wanted or method.user_data is not None:
        raise UsageError(
            f"the C function {name} of a loss is {wanted} without user data, not {method.signature}", where="loss"
        )
    function = method.function
    if type(function).__name__ == "PyCapsule":
        look = ctypes.pythonapi
        look.PyCapsule_GetName.restype, look.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
        look.PyCapsule_GetPointer.restype = ctypes.c_void_p
        look.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        return int(look.PyCapsule_GetPointer(function, look.PyCapsule_GetName(function)))
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def c_twin(method: Any, name: str) -> Any:
    """A method that Python can call."""
    if not is_low_level(method):
        return method
    return ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * NUMBERS[name])(address_of(method, name))


def check_user_loss(loss: Any, value: Method, slope_of: Method) -> None:
    """Refuse a loss whose slope is not its value's, or that is not convex, with the two numbers that show it."""
    name = type(loss).__name__
    for y in TARGETS.get(getattr(loss, "targets", "real"), REAL):
        before: tuple[float, float] | None = None
        for score, low, high, slope, off in difference_quotients(value, slope_of, y):
            here = f"at score {score:g} and target {y:g}"
            if low > high + off:
                raise UsageError(
                    f"the loss {name} is not convex {here}: its value rises by {low:g} a unit before it and by {high:g} "
                    f"after it; give a convex loss",
                    where="loss",
                )
            if not low - off <= slope <= high + off:
                raise UsageError(
                    f"the slope of the loss {name} {here} is {slope:g}, but its value rises by {0.5 * (low + high):g} a "
                    f"unit there; make slope the derivative of value in the score",
                    where="loss",
                )
            if before is not None and slope < before[1] - off:
                raise UsageError(
                    f"the loss {name} is not convex: its slope falls from {before[1]:g} at score {before[0]:g} to "
                    f"{slope:g} {here}; give a convex loss",
                    where="loss",
                )
            before = score, slope


def difference_quotients(value: Method, slope_of: Method, y: float) -> Iterator[tuple[float, ...]]:
    """(score, left and right difference quotient, slope, how far rounding and the step leave them) where all are finite."""
    for score in sorted({y + sign * size for size in SIZES for sign in (-1.0, 1.0)}):
        step = 1e-4 * max(0.01, abs(score - y))
        try:
            values = [float(value(s, y)) for s in (score - step, score, score + step)]
            slope = float(slope_of(score, y))
        except ArithmeticError:  # beyond what it can be evaluated for
            continue
        if not all(map(math.isfinite, (*values, slope))):
            continue
        low, high = (values[1] - values[0]) / step, (values[2] - values[1]) / step
        size = max(map(abs, values)) + abs(slope) * (abs(score) + abs(y))
        yield score, low, high, slope, RELATIVE * max(abs(low), abs(high), abs(slope)) + 16.0 * EPS * size / step
