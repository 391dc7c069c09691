"""Penalties on coefficients, separable: value, prox and conjugate of one coefficient, and their sums over many.

``GroupL1`` has the same methods on the *norm* of a group's coefficients, since its prox only shrinks that norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any

import cython

from ..errors import UsageError, nearest
from ..simd import Array
from .named_function import COMPILED, NamedFunction
from .user_functions import Functions, can_compile, float_fields, is_low_level, python_methods

if not cython.compiled:  # compiled, these come from penalties.pxd
    from math import fabs
    from math import isfinite as is_finite

    from .uncompiled_math import INFINITY, three_numbers, two_numbers

METHODS = ("value", "prox", "conjugate")
NUMBERS = {"value": 2, "prox": 3, "conjugate": 2}  # that a method takes


class Penalty(NamedFunction):
    """A convex penalty on one coefficient; ``weight`` scales it."""

    def value(self, w: float, weight: float) -> float:
        """The penalty of one coefficient."""
        raise NotImplementedError(f"{self!r} has no value")

    def prox(self, w: float, step: float, weight: float) -> float:
        """The v with the least ½(v − w)² + step·penalty(v)."""
        raise NotImplementedError(f"{self!r} has no prox")

    def conjugate(self, z: float, weight: float) -> float:
        """sup over w of z·w − penalty(w); infinite outside its domain."""
        raise NotImplementedError(f"{self!r} has no conjugate")

    def __getattr__(self, name: str) -> Any:
        if cython.compiled and name in METHODS:
            if self.has(name):
                return partial(single, self, METHODS.index(name))
            raise AttributeError(f"{self!r} has no method {name}")
        return NamedFunction.__getattr__(self, name)


@cython.final
@cython.cclass
class Nothing(Penalty):
    """No penalty."""

    name = "none"

    def value(self, w: float, weight: float) -> float:
        return 0.0

    def prox(self, w: float, step: float, weight: float) -> float:
        return w

    def conjugate(self, z: float, weight: float) -> float:
        return 0.0 if z == 0.0 else INFINITY


@cython.final
@cython.cclass
class L1(Penalty):
    """alpha·|w|: the lasso's, with true zeros."""

    name = "l1"
    _fields = ("alpha",)

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def value(self, w: float, weight: float) -> float:
        return self.alpha * weight * fabs(w)

    def prox(self, w: float, step: float, weight: float) -> float:
        return soft_threshold(w, step * self.alpha * weight)

    def conjugate(self, z: float, weight: float) -> float:
        return 0.0 if fabs(z) <= self.alpha * weight else INFINITY


@cython.final
@cython.cclass
class L2(Penalty):
    """½alpha·w²: ridge's."""

    name = "l2"
    _fields = ("alpha",)

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def value(self, w: float, weight: float) -> float:
        return 0.5 * self.alpha * weight * w * w

    def prox(self, w: float, step: float, weight: float) -> float:
        return w / (1.0 + step * self.alpha * weight)

    def conjugate(self, z: float, weight: float) -> float:
        strength: cython.double = self.alpha * weight
        if strength > 0.0:
            return 0.5 * z * z / strength
        return 0.0 if z == 0.0 else INFINITY


@cython.final
@cython.cclass
class ElasticNet(Penalty):
    """alpha·(l1_ratio·|w| + ½(1 − l1_ratio)·w²)."""

    name = "elastic_net"
    _fields = ("alpha", "l1_ratio")

    def __init__(self, alpha: float = 1.0, l1_ratio: float = 0.5) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio

    def value(self, w: float, weight: float) -> float:
        return self.alpha * weight * (self.l1_ratio * fabs(w) + 0.5 * (1.0 - self.l1_ratio) * w * w)

    def prox(self, w: float, step: float, weight: float) -> float:
        strength: cython.double = step * self.alpha * weight
        return soft_threshold(w, strength * self.l1_ratio) / (1.0 + strength * (1.0 - self.l1_ratio))

    def conjugate(self, z: float, weight: float) -> float:
        excess: cython.double = fabs(z) - self.alpha * weight * self.l1_ratio
        if excess <= 0.0:
            return 0.0
        strength: cython.double = self.alpha * weight * (1.0 - self.l1_ratio)
        return 0.5 * excess * excess / strength if strength > 0.0 else INFINITY


@cython.final
@cython.cclass
class NonNegative(Penalty):
    """alpha·w on w ≥ 0, infinite below."""

    name = "nonnegative"
    _fields = ("alpha",)

    def __init__(self, alpha: float = 0.0) -> None:
        self.alpha = alpha

    def value(self, w: float, weight: float) -> float:
        return self.alpha * weight * w if w >= 0.0 else INFINITY

    def prox(self, w: float, step: float, weight: float) -> float:
        return max(0.0, w - step * self.alpha * weight)

    def conjugate(self, z: float, weight: float) -> float:
        return 0.0 if z <= self.alpha * weight else INFINITY


@cython.final
@cython.cclass
class Box(Penalty):
    """0 on lower ≤ w ≤ upper, infinite outside."""

    name = "box"
    _fields = ("lower", "upper")

    def __init__(self, lower: float = -1.0, upper: float = 1.0) -> None:
        self.lower = lower
        self.upper = upper

    def value(self, w: float, weight: float) -> float:
        return 0.0 if self.lower <= w <= self.upper else INFINITY

    def prox(self, w: float, step: float, weight: float) -> float:
        return min(max(w, self.lower), self.upper)

    def conjugate(self, z: float, weight: float) -> float:
        return max(z * self.lower, z * self.upper)


@cython.final
@cython.cclass
class GroupL1(Penalty):
    """alpha·√size·‖w_g‖ of each group of columns: whole groups become zero. Its methods act on the norm."""

    name = "group_l1"
    _fields = ("alpha",)

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def value(self, w: float, weight: float) -> float:
        return self.alpha * weight * w

    def prox(self, w: float, step: float, weight: float) -> float:
        return max(0.0, w - step * self.alpha * weight)

    def conjugate(self, z: float, weight: float) -> float:
        return 0.0 if z <= self.alpha * weight else INFINITY


class UserPenalty(Penalty):
    """A user's own penalty, by C functions where ``find(method)`` gives their address, else in Python.

    A C function cannot raise. Where its result is not finite, the method is called again in Python, which raises what
    it raises; a result beyond the largest float is infinity.
    """

    def __init__(
        self, part: Any, methods: dict[str, Callable[..., float]], remake: Callable[[Any], Penalty], find: Any = None
    ) -> None:
        self.wrap(part, methods, remake)
        self.find = find
        self.look_for(None)

    def look_for(self, find: Callable[[str], int] | None) -> None:
        """Take the C functions there are."""
        self.value_at = two_numbers(find("value") if find else 0)
        self.prox_at = three_numbers(find("prox") if find else 0)
        self.conjugate_at = two_numbers(find("conjugate") if find else 0)

    def value(self, w: float, weight: float) -> float:
        if self.value_at:
            result: cython.double = self.value_at(w, weight)
            if is_finite(result):
                return result
        return self.in_python("value", w, weight)

    def prox(self, w: float, step: float, weight: float) -> float:
        if self.prox_at:
            result: cython.double = self.prox_at(w, step, weight)
            if is_finite(result):
                return result
        return self.in_python("prox", w, step, weight)

    def conjugate(self, z: float, weight: float) -> float:
        if self.conjugate_at:
            result: cython.double = self.conjugate_at(z, weight)
            if is_finite(result):
                return result
        return self.in_python("conjugate", z, weight)

    def in_python(self, method: str, *arguments: float) -> float:
        """A method as the user wrote it; at the first call the C functions are found, for those that follow."""
        if self.find is not None:
            find, self.find = self.find, None
            self.look_for(find)
        try:
            return float(self.methods[method](*arguments))
        except OverflowError:
            return INFINITY


def soft_threshold(w: float, threshold: float) -> float:
    """The prox of |·|, with true zeros."""
    if w > threshold:
        return w - threshold
    if w < -threshold:
        return w + threshold
    return 0.0


def single(penalty: Penalty, what: cython.int, first: float, second: float, third: float = 1.0) -> float:
    """A method, by its place in METHODS, at one place."""
    if what == 0:
        return penalty.value(first, second)
    return penalty.prox(first, second, third) if what == 1 else penalty.conjugate(first, second)


PENALTIES: dict[str, Any] = {cls.name: cls for cls in (Nothing, L1, L2, ElasticNet, NonNegative, Box, GroupL1)}

# What a parameter must be for the formula to be what its name says.
RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "alpha": (lambda v: 0.0 <= v < math.inf, "0 or more"),
    "l1_ratio": (lambda v: 0.0 <= v <= 1.0, "from 0 to 1"),
}
_made: dict[Any, Penalty] = {}


def resolve_penalty(given: Any, **fields: float) -> Penalty:
    """The penalty of this name, a penalty itself, or a user's own: an object with ``value`` and ``prox``.

    >>> resolve_penalty("l1", alpha=1)
    L1(alpha=1.0)
    """
    given = "none" if given is None else given
    if isinstance(given, str):
        if given not in PENALTIES:
            raise UsageError(f"there is no penalty named {given!r}{nearest(given, PENALTIES)}", where="penalty")
        given = PENALTIES[given]
    if given in PENALTIES.values():
        for name, value in fields.items():
            check_range(given, name, value)
        return given(**{name: float(value) for name, value in fields.items()})  # type: ignore[no-any-return]
    if isinstance(given, type) and issubclass(given, tuple):
        given = given(**fields)
    if isinstance(given, Penalty):
        for name, value in () if isinstance(given, UserPenalty) else given._asdict().items():
            check_range(type(given), name, value)
        return given
    known = PENALTIES.get(getattr(given, "name", ""))
    if known is not None and type(given).__module__ == "trueline.parts.penalties":  # until its last Numba user is gone
        return known(**{name: getattr(given, name) for name in known._fields})  # type: ignore[no-any-return]
    return user_penalty(given)


def check_range(cls: Any, name: str, value: Any) -> None:
    """Refuse a parameter of a penalty outside its range."""
    rule = RANGES.get(name) if cls.name != "nonnegative" else None
    if rule is not None and not (isinstance(value, Real) and rule[0](float(value))):
        raise UsageError(f"{name} must be {rule[1]}, not {value!r}", where=name)


def user_penalty(given: Any) -> Penalty:
    """A user's own penalty for the loops."""
    missing = [name for name in ("value", "prox") if name not in python_methods(given, NUMBERS)]
    if missing or isinstance(given, type):
        lack = f"it lacks {', '.join(missing)}" if missing else "it is a class; give an object of it"
        raise UsageError(
            f"{given!r} cannot serve as a penalty: {lack}; give one of {', '.join(PENALTIES)} or a NamedTuple with the "
            f"methods value, prox",
            where="penalty",
        )
    given = float_fields(given)
    try:
        key = type(given), given  # penalties of two classes with the same fields are equal as tuples
        if key in _made:
            return _made[key]
    except TypeError:  # no hash
        key = None
    low_level = any(is_low_level(getattr(given, name, None)) for name in NUMBERS)
    find = (
        Functions(given, "penalty", NUMBERS).find if low_level or (COMPILED and can_compile(given, "penalty")) else None
    )
    penalty = UserPenalty(given, python_methods(given, NUMBERS), user_penalty, find)
    if key is not None:
        _made[key] = penalty
    return penalty


def scaled_value(penalty: Penalty, theta: Array, scale: Array, weights: Array) -> float:
    """Σ penalty(θ/scale)."""
    j: cython.Py_ssize_t
    total: cython.double = 0.0
    for j in range(weights.shape[0]):
        total += penalty.value(theta[j] / scale[j], weights[j])
    return total


def scaled_prox(penalty: Penalty, theta: Array, step: float, scale: Array, weights: Array, out: Array) -> int:
    """The prox of θ ↦ penalty(θ/scale), which is scale·prox(θ/scale, step/scale²)."""
    j: cython.Py_ssize_t
    s: cython.double
    for j in range(weights.shape[0]):
        s = scale[j]
        out[j] = s * penalty.prox(theta[j] / s, step / (s * s), weights[j])
    return 0


def scaled_conjugate(penalty: Penalty, z: Array, scale: Array, weights: Array) -> float:
    """Σ of the conjugates of θ ↦ penalty(θ/scale)."""
    j: cython.Py_ssize_t
    total: cython.double = 0.0
    for j in range(weights.shape[0]):
        total += penalty.conjugate(z[j] * scale[j], weights[j])
    return total
