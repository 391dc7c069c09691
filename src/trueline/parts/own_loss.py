"""A user's own loss, checked at its first use: its slope against its value, and that it is convex in the score.

Every theorem and every duality gap rests on both. The check is numeric: a slope must lie between the two difference
quotients of the value, and must not fall as the score grows. It finds a forgotten factor, sign or branch, not an error
of a ten-thousandth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..certificates.certificate import Assumption
from ..errors import UsageError

SIZES = (1.3e-3, 0.013, 0.11, 0.43, 0.97, 1.9, 3.7, 8.3, 27.0, 310.0)
TARGETS = {"sign": (-1.0, 1.0), "nonnegative": (0.0, 1.0, 3.0), "positive": (0.37, 1.0, 3.0)}
REAL = (-3.1, 0.0, 0.7, 26.0)
RELATIVE = 1e-4  # by how much of itself a slope may be off
EPS = 2.0**-52

WORDS = "the value and slope of your own loss are as you wrote them (yours to know)"

_checked: set[Any] = set()


def is_own(loss: Any, known: dict[str, Any]) -> bool:
    """Whether a loss is a user's, not one of trueline's."""
    return type(loss) not in known.values() and not type(loss).__module__.startswith("trueline.")


def assumption_of(loss: Any, known: dict[str, Any]) -> tuple[Assumption, ...]:
    """What every claim about a user's own loss rests on; nothing for trueline's losses."""
    return (Assumption(WORDS, True),) if is_own(loss, known) else ()


def check_own_loss(loss: Any) -> None:
    """Refuse a loss whose slope is not its value's, or that is not convex, with the two numbers that show it."""
    if (type(loss), loss) in _checked:  # losses of two classes with the same fields are equal as tuples
        return
    name = type(loss).__name__
    for y in TARGETS.get(getattr(loss, "targets", "real"), REAL):
        before: tuple[float, float] | None = None
        for score, low, high, slope, off in _quotients(loss, y):
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
    _checked.add((type(loss), loss))


def _quotients(loss: Any, y: float) -> Iterator[tuple[float, float, float, float, float]]:
    """(score, left and right difference quotient, slope, how far rounding and the step leave them) where all are finite."""
    for score in sorted({y + sign * size for size in SIZES for sign in (-1.0, 1.0)}):
        step = 1e-4 * max(0.01, abs(score - y))
        try:
            values = [float(loss.value(s, y)) for s in (score - step, score, score + step)]
            slope = float(loss.slope(score, y))
        except ArithmeticError:  # beyond what it can be evaluated for
            continue
        if not all(map(math.isfinite, (*values, slope))):
            continue
        low, high = (values[1] - values[0]) / step, (values[2] - values[1]) / step
        size = max(map(abs, values)) + abs(slope) * (abs(score) + abs(y))
        yield score, low, high, slope, RELATIVE * max(abs(low), abs(high), abs(slope)) + 16.0 * EPS * size / step
