"""A user's own loss: checked at its first use, and called as a C function where there is one.

Every theorem and every duality gap rests on a slope that is the value's and on convexity. The check is numeric: a slope
must lie between the two difference quotients of the value, and must not fall as the score grows. It finds a forgotten
factor, sign or branch, not an error of a ten-thousandth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ..certificates.certificate import Assumption
from ..errors import UsageError
from .loss_interface import Loss, PointerLoss, PythonLoss
from .named_function import COMPILED
from .user_functions import Functions, can_compile, float_fields, is_low_level, python_methods

SIZES = (1.3e-3, 0.013, 0.11, 0.43, 0.97, 1.9, 3.7, 8.3, 27.0, 310.0)
TARGETS = {"sign": (-1.0, 1.0), "nonnegative": (0.0, 1.0, 3.0), "positive": (0.37, 1.0, 3.0)}
REAL = (-3.1, 0.0, 0.7, 26.0)
RELATIVE = 1e-4  # by how much of itself a slope may be off
EPS = 2.0**-52
NUMBERS = {
    "value": 2,
    "slope": 2,
    "curvature": 2,
    "conjugate": 2,
    "prox": 3,
    "mean": 1,
    "lowest_slope": 1,
    "highest_slope": 1,
}
PAIRS = {"lowest_slope": ("slope_range", 0), "highest_slope": ("slope_range", 1)}

WORDS = "the value and slope of your own loss are as you wrote them (yours to know)"

Method = Callable[..., float]

_made: dict[Any, Loss] = {}


def assumption_of(loss: Any) -> tuple[Assumption, ...]:
    """What every claim about a user's own loss rests on; nothing for trueline's losses."""
    own = isinstance(loss, PythonLoss) or not type(loss).__module__.startswith("trueline.")
    return (Assumption(WORDS, True),) if own else ()


def user_loss(given: Any, names: str = "a built-in loss's name") -> Loss:
    """A user's own loss for the loops."""
    methods = python_methods(given, NUMBERS)
    missing = [name for name in ("value", "slope") if name not in methods]
    if missing or isinstance(given, type):
        lack = f"it lacks {', '.join(missing)}" if missing else "it is a class; give an object of it"
        raise UsageError(
            f"{given!r} cannot serve as a loss: {lack}; give one of {names} or a NamedTuple with the methods value, slope",
            where="loss",
        )
    given = float_fields(given)
    try:
        key = type(given), given  # losses of two classes with the same fields are equal as tuples
        if key in _made:
            return _made[key]
    except TypeError:  # no hash
        key = None
    methods = python_methods(given, NUMBERS)
    loss = PythonLoss(given, methods, user_loss)
    check_user_loss(given, methods["value"], methods["slope"])
    if any(is_low_level(getattr(given, name, None)) for name in NUMBERS) or (COMPILED and can_compile(given, "loss")):
        loss = PointerLoss(given, methods, user_loss, Functions(given, "loss", NUMBERS, PAIRS).find)
    if key is not None:
        _made[key] = loss
    return loss


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
