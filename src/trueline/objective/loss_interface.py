"""A loss V(s, y) of a score s and a target y, as compiled loops call it, and calls over arrays for everything else.

Compiled, the methods are C functions without a name in Python; `__getattr__` gives them one for single numbers, and
``evaluate`` takes arrays. A user's own loss is a ``PythonLoss``, or a ``PointerLoss`` where it has C functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import cython
import numpy as np

from ..simd import Array
from .named_function import NamedFunction

if not cython.compiled:  # compiled, these come from loss_interface.pxd
    from math import isfinite as is_finite

    from .uncompiled_math import INFINITY, one_number, three_numbers, two_numbers

METHODS = ("value", "slope", "curvature", "conjugate", "prox", "mean", "lowest_slope", "highest_slope")
_lock = threading.Lock()


class Loss(NamedFunction):
    """V(s, y), convex in s, with what solvers and certificates ask of it.

    Classes say what they are: ``name``, ``targets`` ("real", "sign", "nonnegative", "positive") and ``smooth``: Newton's
    method may use the curvature.
    """

    def value(self, score: float, y: float) -> float:
        """V(s, y)."""
        raise NotImplementedError(f"{self!r} has no value")

    def slope(self, score: float, y: float) -> float:
        """The derivative in s; at a corner one of the subgradients."""
        raise NotImplementedError(f"{self!r} has no slope")

    def curvature(self, score: float, y: float) -> float:
        """The second derivative in s."""
        raise NotImplementedError(f"{self!r} has no curvature")

    def conjugate(self, slope: float, y: float) -> float:
        """sup over s of slope·s − V(s, y)."""
        raise NotImplementedError(f"{self!r} has no conjugate")

    def prox(self, score: float, y: float, step: float) -> float:
        """The s with the least ½(s − score)² + step·V(s, y)."""
        raise NotImplementedError(f"{self!r} has no prox")

    def mean(self, score: float) -> float:
        """The expected target at a score."""
        return score

    def lowest_slope(self, y: float) -> float:
        """The infimum of the slopes."""
        raise NotImplementedError(f"{self!r} has no range of slopes")

    def highest_slope(self, y: float) -> float:
        """The supremum of the slopes."""
        raise NotImplementedError(f"{self!r} has no range of slopes")

    def curvature_bound(self) -> float:
        """The supremum of the curvature over all scores and targets."""
        return INFINITY

    def fill_derivatives(
        self,
        scores: Array,
        y: Array,
        c: Array,
        slope: Array,
        curvature: Array,
        start: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
    ) -> float:
        """Σ c·V over some rows; fills c·V' and, where there is room for it, c·V''."""
        i: cython.Py_ssize_t
        total: cython.double = 0.0
        if curvature.shape[0] == 0:
            for i in range(start, stop):
                total += c[i] * self.value(scores[i], y[i])
                slope[i] = c[i] * self.slope(scores[i], y[i])
        else:
            for i in range(start, stop):
                total += c[i] * self.value(scores[i], y[i])
                slope[i] = c[i] * self.slope(scores[i], y[i])
                curvature[i] = c[i] * self.curvature(scores[i], y[i])
        return total

    def slope_range(self, y: float) -> tuple[float, float]:
        """Infimum and supremum of the slopes."""
        return self.lowest_slope(y), self.highest_slope(y)

    def corners(self, y: Array) -> tuple[Any, ...]:
        """For an interior point: V as a sum of max a·(s − corner) over a in [low, high], a (corner, low, high) each."""
        return ()

    def __getattr__(self, name: str) -> Any:
        if cython.compiled and name in METHODS:
            if self.own is None or name in ("mean", "lowest_slope", "highest_slope") or self.has(name):
                return partial(single, self, METHODS.index(name))
            raise AttributeError(f"{self!r} has no method {name}")
        if cython.compiled and name == "curvature_bound":
            return partial(bound, self)
        return NamedFunction.__getattr__(self, name)


class PythonLoss(Loss):
    """A user's own loss, called in Python, row by row; its errors come out as themselves.

    A result beyond the largest float is infinity, as it is in a built-in loss.
    """

    def __init__(self, part: Any, methods: dict[str, Callable[..., float]], remake: Callable[[Any], Loss]) -> None:
        self.wrap(part, methods, remake)

    def value(self, score: float, y: float) -> float:
        try:
            return self.methods["value"](float(score), float(y))
        except OverflowError:
            return INFINITY

    def slope(self, score: float, y: float) -> float:
        try:
            return self.methods["slope"](float(score), float(y))
        except OverflowError:
            return INFINITY

    def curvature(self, score: float, y: float) -> float:
        try:
            return self.methods["curvature"](float(score), float(y))
        except OverflowError:
            return INFINITY

    def conjugate(self, slope: float, y: float) -> float:
        try:
            return self.methods["conjugate"](float(slope), float(y))
        except OverflowError:
            return INFINITY

    def prox(self, score: float, y: float, step: float) -> float:
        return self.methods["prox"](score, y, step)

    def mean(self, score: float) -> float:
        try:
            return self.methods["mean"](score) if "mean" in self.methods else score
        except OverflowError:
            return INFINITY

    def lowest_slope(self, y: float) -> float:
        return self.methods["lowest_slope"](y) if "lowest_slope" in self.methods else self.own.slope_range(y)[0]

    def highest_slope(self, y: float) -> float:
        return self.methods["highest_slope"](y) if "highest_slope" in self.methods else self.own.slope_range(y)[1]

    def curvature_bound(self) -> float:
        return self.own.curvature_bound() if self.has("curvature_bound") else INFINITY

    def corners(self, y: Array) -> tuple[Any, ...]:
        return self.own.corners(y) if self.has("corners") else ()


@cython.final
@cython.cclass
class PointerLoss(PythonLoss):
    """A user's own loss with C functions of doubles: ``find(method)`` gives the address of one, or 0.

    A C function cannot raise. Where its result is not finite, the method is called again in Python, which raises what
    it raises; so is a method for which there is no C function.
    """

    def __init__(
        self,
        part: Any,
        methods: dict[str, Callable[..., float]],
        remake: Callable[[Any], Loss],
        find: Callable[[str], int],
    ) -> None:
        self.wrap(part, methods, remake)
        self.keep: Any = (find, set())
        self.value_at = self.slope_at = self.curvature_at = self.conjugate_at = two_numbers(0)
        self.prox_at = three_numbers(0)
        self.mean_at = self.lowest_slope_at = self.highest_slope_at = one_number(0)

    def look_for(self, method: str) -> bool:
        """Whether there is a C function that was not called before."""
        find, seen = self.keep
        with _lock:
            if method in seen:
                return False
            address = find(method)
            if method == "value":
                self.value_at = two_numbers(address)
            elif method == "slope":
                self.slope_at = two_numbers(address)
            elif method == "curvature":
                self.curvature_at = two_numbers(address)
            elif method == "conjugate":
                self.conjugate_at = two_numbers(address)
            elif method == "prox":
                self.prox_at = three_numbers(address)
            elif method == "mean":
                self.mean_at = one_number(address)
            elif method == "lowest_slope":
                self.lowest_slope_at = one_number(address)
            else:
                self.highest_slope_at = one_number(address)
            seen.add(method)
            return bool(address)

    def value(self, score: float, y: float) -> float:
        if self.value_at:
            result: cython.double = self.value_at(score, y)
            if is_finite(result):
                return result
        return self.value_again(score, y)

    def slope(self, score: float, y: float) -> float:
        if self.slope_at:
            result: cython.double = self.slope_at(score, y)
            if is_finite(result):
                return result
        return self.slope_again(score, y)

    def curvature(self, score: float, y: float) -> float:
        if self.curvature_at:
            result: cython.double = self.curvature_at(score, y)
            if is_finite(result):
                return result
        return self.curvature_again(score, y)

    def conjugate(self, slope: float, y: float) -> float:
        if self.conjugate_at:
            result: cython.double = self.conjugate_at(slope, y)
            if result == result:  # infinite outside its domain
                return result
        return self.conjugate_again(slope, y)

    def prox(self, score: float, y: float, step: float) -> float:
        if self.prox_at:
            result: cython.double = self.prox_at(score, y, step)
            if is_finite(result):
                return result
        return self.prox_again(score, y, step)

    def mean(self, score: float) -> float:
        if self.mean_at:
            result: cython.double = self.mean_at(score)
            if is_finite(result):
                return result
        return self.mean_again(score)

    def lowest_slope(self, y: float) -> float:
        if self.lowest_slope_at:
            result: cython.double = self.lowest_slope_at(y)
            if result == result:  # may be infinite
                return result
        return self.lowest_slope_again(y)

    def highest_slope(self, y: float) -> float:
        if self.highest_slope_at:
            result: cython.double = self.highest_slope_at(y)
            if result == result:
                return result
        return self.highest_slope_again(y)

    def value_again(self, score: float, y: float) -> float:
        return self.value(score, y) if self.look_for("value") else PythonLoss.value(self, score, y)

    def slope_again(self, score: float, y: float) -> float:
        return self.slope(score, y) if self.look_for("slope") else PythonLoss.slope(self, score, y)

    def curvature_again(self, score: float, y: float) -> float:
        return self.curvature(score, y) if self.look_for("curvature") else PythonLoss.curvature(self, score, y)

    def conjugate_again(self, slope: float, y: float) -> float:
        return self.conjugate(slope, y) if self.look_for("conjugate") else PythonLoss.conjugate(self, slope, y)

    def prox_again(self, score: float, y: float, step: float) -> float:
        return self.prox(score, y, step) if self.look_for("prox") else PythonLoss.prox(self, score, y, step)

    def mean_again(self, score: float) -> float:
        return self.mean(score) if self.look_for("mean") else PythonLoss.mean(self, score)

    def lowest_slope_again(self, y: float) -> float:
        return self.lowest_slope(y) if self.look_for("lowest_slope") else PythonLoss.lowest_slope(self, y)

    def highest_slope_again(self, y: float) -> float:
        return self.highest_slope(y) if self.look_for("highest_slope") else PythonLoss.highest_slope(self, y)


def single(loss: Loss, what: cython.int, first: float, second: float = 0.0, third: float = 0.0) -> float:
    """A method, by its place in METHODS, at one place."""
    if what == 0:
        return loss.value(first, second)
    if what == 1:
        return loss.slope(first, second)
    if what == 2:
        return loss.curvature(first, second)
    if what == 3:
        return loss.conjugate(first, second)
    if what == 4:
        return loss.prox(first, second, third)
    if what == 5:
        return loss.mean(first)
    return loss.lowest_slope(first) if what == 6 else loss.highest_slope(first)


def bound(loss: Loss) -> float:
    """The supremum of the curvature."""
    return loss.curvature_bound()


def fill(loss: Loss, what: cython.int, first: Array, second: Array, third: Array, out: Array) -> int:
    """A method at every place."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(out.shape[0]):
            if what == 0:
                out[i] = loss.value(first[i], second[i])
            elif what == 1:
                out[i] = loss.slope(first[i], second[i])
            elif what == 2:
                out[i] = loss.curvature(first[i], second[i])
            elif what == 3:
                out[i] = loss.conjugate(first[i], second[i])
            elif what == 4:
                out[i] = loss.prox(first[i], second[i], third[i])
            elif what == 5:
                out[i] = loss.mean(first[i])
            elif what == 6:
                out[i] = loss.lowest_slope(first[i])
            else:
                out[i] = loss.highest_slope(first[i])
    return 0


def evaluate(loss: Loss, method: str, *arguments: Any) -> Array:
    """A method over arrays that broadcast: ``evaluate(loss, "prox", scores, y, step)``, ``evaluate(loss, "mean", scores)``."""
    arrays = [np.asarray(a, dtype=np.float64) for a in np.broadcast_arrays(*arguments)]
    flat = [np.ascontiguousarray(a).ravel() for a in arrays]
    flat += [flat[0], flat[0]]  # for methods of fewer numbers
    out = np.empty(arrays[0].shape)
    fill(loss, METHODS.index(method), flat[0], flat[1], flat[2], out.reshape(out.size))
    return out


def derivatives(
    loss: Loss, scores: Array, y: Array, c: Array, slope: Array, curvature: Array, start: int = 0, stop: int = -1
) -> float:
    """Σ c·V over the rows from start to stop; fills c·V' and, unless it is empty, c·V''. Holds no lock meanwhile."""
    last = stop if stop >= 0 else len(scores)
    if not 0 <= start <= last <= min(len(scores), len(y), len(c), len(slope), len(curvature) or last):
        raise IndexError(f"rows {start} to {last} of arrays of {len(scores)}, {len(y)}, {len(c)}, {len(slope)}")
    return derivatives_(loss, scores, y, c, slope, curvature, start, last)


def derivatives_(
    loss: Loss,
    scores: Array,
    y: Array,
    c: Array,
    slope: Array,
    curvature: Array,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
) -> float:
    total: cython.double
    with cython.nogil:
        total = loss.fill_derivatives(scores, y, c, slope, curvature, first, last)
    return total
