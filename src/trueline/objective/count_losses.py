"""Losses of a score that is the logarithm of the mean, for counts and amounts: Poisson, Gamma, Tweedie."""

from __future__ import annotations

from typing import Any

import cython

from ..simd import Array
from .loss_interface import Loss

if not cython.compiled:  # compiled, these come from count_losses.pxd
    from math import fabs, log

    from .uncompiled_math import INFINITY, entropy_term, exp


@cython.final
@cython.cclass
class Poisson(Loss):
    """exp(s) − y·s, y ≥ 0: the Poisson likelihood with a log link, less its constant."""

    name = "poisson"
    targets = "nonnegative"
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
        return exp(score) - y * score

    def slope(self, score: float, y: float) -> float:
        return exp(score) - y

    def curvature(self, score: float, y: float) -> float:
        return exp(score)

    def conjugate(self, slope: float, y: float) -> float:
        v: cython.double = slope + y
        return entropy_term(v) - v if v >= 0.0 else INFINITY

    def lowest_slope(self, y: float) -> float:
        return -y

    def highest_slope(self, y: float) -> float:
        return INFINITY

    def mean(self, score: float) -> float:
        return exp(score)

    def has(self, method: str) -> bool:
        return method != "prox"


@cython.final
@cython.cclass
class Gamma(Loss):
    """s + y·exp(−s), y > 0: the Gamma likelihood with a log link, less its constant."""

    name = "gamma"
    targets = "positive"
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
        return score + y * exp(-score)

    def slope(self, score: float, y: float) -> float:
        return 1.0 - y * exp(-score)

    def curvature(self, score: float, y: float) -> float:
        return y * exp(-score)

    def conjugate(self, slope: float, y: float) -> float:
        v: cython.double = 1.0 - slope
        return entropy_term(v) - v - v * log(y) if v >= 0.0 else INFINITY

    def lowest_slope(self, y: float) -> float:
        return -INFINITY

    def highest_slope(self, y: float) -> float:
        return 1.0

    def mean(self, score: float) -> float:
        return exp(score)

    def has(self, method: str) -> bool:
        return method != "prox"


@cython.final
@cython.cclass
class Tweedie(Loss):
    """exp((2 − p)s)/(2 − p) − y·exp((1 − p)s)/(1 − p) for 1 < p < 2, y ≥ 0, with a log link: sums of Gamma claims.

    The conjugate a·s − V(s) is taken where the slope is a: found by Newton's method inside a bracket.
    """

    name = "tweedie"
    targets = "nonnegative"
    smooth = True
    _fields = ("p",)

    def __init__(self, p: float = 1.5) -> None:
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
        return exp((2.0 - self.p) * score) / (2.0 - self.p) - y * exp((1.0 - self.p) * score) / (1.0 - self.p)

    def slope(self, score: float, y: float) -> float:
        return exp((2.0 - self.p) * score) - y * exp((1.0 - self.p) * score)

    def curvature(self, score: float, y: float) -> float:
        return (2.0 - self.p) * exp((2.0 - self.p) * score) - y * (1.0 - self.p) * exp((1.0 - self.p) * score)

    def conjugate(self, slope: float, y: float) -> float:
        if y <= 0.0:
            if slope <= 0.0:
                return 0.0 if slope == 0.0 else INFINITY
            return slope * (log(slope) - 1.0) / (2.0 - self.p)
        low: cython.double = log(y)
        high: cython.double = low
        width: cython.double = 1.0
        while self.slope(low, y) > slope:
            low -= width
            width *= 2.0
        width = 1.0
        while self.slope(high, y) < slope:
            high += width
            width *= 2.0
        score: cython.double = 0.5 * (low + high)
        new: cython.double
        excess: cython.double
        for _ in range(100):
            excess = self.slope(score, y) - slope
            if excess > 0.0:
                high = score
            else:
                low = score
            new = score - excess / self.curvature(score, y)
            if not low < new < high:
                new = 0.5 * (low + high)
            if fabs(new - score) <= 1e-13 * (1.0 + fabs(score)):
                break
            score = new
        return slope * score - self.value(score, y)

    def lowest_slope(self, y: float) -> float:
        return -INFINITY if y > 0.0 else 0.0

    def highest_slope(self, y: float) -> float:
        return INFINITY

    def mean(self, score: float) -> float:
        return exp(score)

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
