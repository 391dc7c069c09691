"""C's mathematics in Python, for losses that run uncompiled: infinity where Python's functions raise."""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_double
from typing import Any

INFINITY = math.inf


def exp(x: float) -> float:
    """e^x, infinite beyond the largest float."""
    try:
        return math.exp(x)
    except OverflowError:
        return INFINITY


def pow(x: float, p: float) -> float:
    """x^p for x ≥ 0, infinite beyond the largest float."""
    try:
        return math.pow(x, p)
    except (OverflowError, ValueError):  # the second is 0 to a negative power
        return INFINITY


def entropy_term(p: float) -> float:
    """p·ln p, 0 at 0."""
    return p * math.log(p) if p > 0.0 else 0.0


def c_function(numbers: int) -> Callable[[int], Any]:
    """Turns the address of a C function of this many doubles into something to call, 0 into None."""
    kind = CFUNCTYPE(c_double, *[c_double] * numbers)
    return lambda address: kind(address) if address else None


one_number, two_numbers, three_numbers = c_function(1), c_function(2), c_function(3)
