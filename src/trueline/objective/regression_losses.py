"""Losses of the residual s − y, for targets that are any real number. ``Loss`` states what every method means."""

from __future__ import annotations

from typing import Any

import cython

from ..simd import Array
from .loss_interface import Loss

if not cython.compiled:  # compiled, these come from regression_losses.pxd
    from math import copysign, fabs

    from .uncompiled_math import INFINITY, pow


@cython.final
@cython.cclass
class Squared(Loss):
    """½(s − y)²."""

    name = "squared"
    targets = "real"
    smooth = True

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
        return fill_loop(self, scores, y, c, slope, curvature, start, stop)

    def value(self, score: float, y: float) -> float:
        return 0.5 * (score - y) * (score - y)

    def slope(self, score: float, y: float) -> float:
        return score - y

    def curvature(self, score: float, y: float) -> float:
        return 1.0

    def curvature_bound(self) -> float:
        return 1.0

    def conjugate(self, slope: float, y: float) -> float:
        return 0.5 * slope * slope + slope * y

    def lowest_slope(self, y: float) -> float:
        return -INFINITY

    def highest_slope(self, y: float) -> float:
        return INFINITY

    def prox(self, score: float, y: float, step: float) -> float:
        return (score + step * y) / (1.0 + step)


@cython.final
@cython.cclass
class Absolute(Loss):
    """|s − y|."""

    name = "absolute"
    targets = "real"
    smooth = False

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
        return fill_loop(self, scores, y, c, slope, curvature, start, stop)

    def value(self, score: float, y: float) -> float:
        return fabs(score - y)

    def slope(self, score: float, y: float) -> float:
        return 1.0 if score > y else (-1.0 if score < y else 0.0)

    def curvature(self, score: float, y: float) -> float:
        return 0.0

    def conjugate(self, slope: float, y: float) -> float:
        return slope * y if fabs(slope) <= 1.0 else INFINITY

    def lowest_slope(self, y: float) -> float:
        return -1.0

    def highest_slope(self, y: float) -> float:
        return 1.0

    def prox(self, score: float, y: float, step: float) -> float:
        return y + max(score - y - step, 0.0) + min(score - y + step, 0.0)

    def corners(self, y: Array) -> tuple[Any, ...]:
        return ((y, -1.0, 1.0),)


@cython.final
@cython.cclass
class Huber(Loss):
    """½r² up to |r| = delta, then delta·(|r| − ½delta)."""

    name = "huber"
    targets = "real"
    smooth = True
    _fields = ("delta",)

    def __init__(self, delta: float = 1.35) -> None:
        self.delta = delta

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
        return fill_loop(self, scores, y, c, slope, curvature, start, stop)

    def value(self, score: float, y: float) -> float:
        r: cython.double = fabs(score - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def slope(self, score: float, y: float) -> float:
        return max(-self.delta, min(self.delta, score - y))

    def curvature(self, score: float, y: float) -> float:
        return 1.0 if fabs(score - y) <= self.delta else 0.0

    def curvature_bound(self) -> float:
        return 1.0

    def conjugate(self, slope: float, y: float) -> float:
        return 0.5 * slope * slope + slope * y if fabs(slope) <= self.delta else INFINITY

    def lowest_slope(self, y: float) -> float:
        return -self.delta

    def highest_slope(self, y: float) -> float:
        return self.delta

    def prox(self, score: float, y: float, step: float) -> float:
        r: cython.double = score - y
        if fabs(r) <= self.delta * (1.0 + step):
            return y + r / (1.0 + step)
        return score - step * copysign(self.delta, r)

    def corners(self, y: Array) -> tuple[Any, ...]:
        return ((y, -self.delta, self.delta),)  # rounded off by ½a²


@cython.final
@cython.cclass
class Quantile(Loss):
    """The check function: quantile·(y − s) below the target, (1 − quantile)·(s − y) above it."""

    name = "quantile"
    targets = "real"
    smooth = False
    _fields = ("quantile",)

    def __init__(self, quantile: float = 0.5) -> None:
        self.quantile = quantile

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
        return fill_loop(self, scores, y, c, slope, curvature, start, stop)

    def value(self, score: float, y: float) -> float:
        return (1.0 - self.quantile) * (score - y) if score > y else self.quantile * (y - score)

    def slope(self, score: float, y: float) -> float:
        return 1.0 - self.quantile if score > y else (-self.quantile if score < y else 0.0)

    def curvature(self, score: float, y: float) -> float:
        return 0.0

    def conjugate(self, slope: float, y: float) -> float:
        return slope * y if -self.quantile <= slope <= 1.0 - self.quantile else INFINITY

    def lowest_slope(self, y: float) -> float:
        return -self.quantile

    def highest_slope(self, y: float) -> float:
        return 1.0 - self.quantile

    def prox(self, score: float, y: float, step: float) -> float:
        above: cython.double = max(score - y - step * (1.0 - self.quantile), 0.0)
        return y + above + min(score - y + step * self.quantile, 0.0)

    def corners(self, y: Array) -> tuple[Any, ...]:
        return ((y, -self.quantile, 1.0 - self.quantile),)


@cython.final
@cython.cclass
class EpsilonInsensitive(Loss):
    """max(0, |s − y| − epsilon)."""

    name = "epsilon_insensitive"
    targets = "real"
    smooth = False
    _fields = ("epsilon",)

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

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
        return fill_loop(self, scores, y, c, slope, curvature, start, stop)

    def value(self, score: float, y: float) -> float:
        return max(0.0, fabs(score - y) - self.epsilon)

    def slope(self, score: float, y: float) -> float:
        r: cython.double = score - y
        return 1.0 if r > self.epsilon else (-1.0 if r < -self.epsilon else 0.0)

    def curvature(self, score: float, y: float) -> float:
        return 0.0

    def conjugate(self, slope: float, y: float) -> float:
        return slope * y + self.epsilon * fabs(slope) if fabs(slope) <= 1.0 else INFINITY

    def lowest_slope(self, y: float) -> float:
        return -1.0

    def highest_slope(self, y: float) -> float:
        return 1.0

    def prox(self, score: float, y: float, step: float) -> float:
        r: cython.double = score - y
        if fabs(r) <= self.epsilon:
            return score
        return y + copysign(max(self.epsilon, fabs(r) - step), r)

    def corners(self, y: Array) -> tuple[Any, ...]:
        return (y + self.epsilon, 0.0, 1.0), (y - self.epsilon, -1.0, 0.0)


@cython.final
@cython.cclass
class Power(Loss):
    """|s − y|^p / p for p ≥ 1: p = 1 absolute, 2 squared, 3 cubed."""

    name = "power"
    targets = "real"
    smooth = False  # the curvature vanishes at 0 for p > 2 and does not exist there for p < 2
    _fields = ("p",)

    def __init__(self, p: float = 3.0) -> None:
        self.p = p

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
        return fill_loop(self, scores, y, c, slope, curvature, start, stop)

    def value(self, score: float, y: float) -> float:
        return pow(fabs(score - y), self.p) / self.p

    def slope(self, score: float, y: float) -> float:
        r: cython.double = score - y
        if r == 0.0:
            return 0.0
        return copysign(pow(fabs(r), self.p - 1.0), r)

    def curvature(self, score: float, y: float) -> float:
        r: cython.double = fabs(score - y)
        if r == 0.0 or self.p == 1.0:
            return 1.0 if self.p == 2.0 else 0.0
        return (self.p - 1.0) * pow(r, self.p - 2.0)

    def curvature_bound(self) -> float:
        return 1.0 if self.p == 2.0 else INFINITY

    def conjugate(self, slope: float, y: float) -> float:
        if self.p == 1.0:
            return slope * y if fabs(slope) <= 1.0 else INFINITY
        q: cython.double = self.p / (self.p - 1.0)
        return slope * y + pow(fabs(slope), q) / q

    def lowest_slope(self, y: float) -> float:
        return -1.0 if self.p == 1.0 else -INFINITY

    def highest_slope(self, y: float) -> float:
        return 1.0 if self.p == 1.0 else INFINITY

    def corners(self, y: Array) -> tuple[Any, ...]:
        return ((y, -1.0, 1.0),) if self.p == 1.0 else ()

    def has(self, method: str) -> bool:
        return method != "prox"


def fill_loop(
    loss: Any,
    scores: Array,
    y: Array,
    c: Array,
    slope: Array,
    curvature: Array,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
) -> float:
    """``Loss.fill_derivatives``, compiled for every class, so that its methods become part of the loop."""
    i: cython.Py_ssize_t
    total: cython.double = 0.0
    if curvature.shape[0] == 0:
        for i in range(start, stop):
            total += c[i] * loss.value(scores[i], y[i])
            slope[i] = c[i] * loss.slope(scores[i], y[i])
    else:
        for i in range(start, stop):
            total += c[i] * loss.value(scores[i], y[i])
            slope[i] = c[i] * loss.slope(scores[i], y[i])
            curvature[i] = c[i] * loss.curvature(scores[i], y[i])
    return total
