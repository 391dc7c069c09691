"""Losses of the margin m = y·s, for targets y = ±1. Conjugates are written in c = a·y, a the slope."""

from __future__ import annotations

from typing import Any

import cython

from ..simd import Array
from .loss_interface import Loss

if not cython.compiled:  # compiled, these come from margin_losses.pxd
    from math import exp, fabs, log1p

    from .uncompiled_math import INFINITY, entropy_term


@cython.final
@cython.cclass
class Logistic(Loss):
    """ln(1 + exp(−y·s)), y = ±1."""

    name = "logistic"
    targets = "sign"
    smooth = True

    def value(self, score: float, y: float) -> float:
        m: cython.double = y * score
        return log1p(exp(-m)) if m > 0.0 else log1p(exp(m)) - m

    def slope(self, score: float, y: float) -> float:
        m: cython.double = y * score
        if m > 0.0:
            e: cython.double = exp(-m)
            return -y * e / (1.0 + e)
        return -y / (1.0 + exp(m))

    def curvature(self, score: float, y: float) -> float:
        e: cython.double = exp(-fabs(score))
        return e / ((1.0 + e) * (1.0 + e))

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
        i: cython.Py_ssize_t
        curved: cython.bint = curvature.shape[0] > 0
        total: cython.double = 0.0
        m: cython.double
        e: cython.double
        share: cython.double
        for i in range(start, stop):  # one exponential for all three
            m = y[i] * scores[i]
            e = exp(-fabs(m))
            share = 1.0 / (1.0 + e)
            if m > 0.0:
                total += c[i] * log1p(e)
                slope[i] = c[i] * (-y[i] * e * share)
            else:
                total += c[i] * (log1p(e) - m)
                slope[i] = c[i] * (-y[i] * share)
            if curved:
                curvature[i] = c[i] * (e * share * share)
        return total

    def curvature_bound(self) -> float:
        return 0.25

    def conjugate(self, slope: float, y: float) -> float:
        p: cython.double = -slope * y
        if not 0.0 <= p <= 1.0:
            return INFINITY
        # 1 − p would forget a p below 10⁻¹⁶, and with it the conjugate's own size.
        return entropy_term(p) + ((1.0 - p) * log1p(-p) if p < 1.0 else 0.0)

    def lowest_slope(self, y: float) -> float:
        return min(0.0, -y)

    def highest_slope(self, y: float) -> float:
        return max(0.0, -y)

    def mean(self, score: float) -> float:
        if score >= 0.0:
            return 1.0 / (1.0 + exp(-score))
        e: cython.double = exp(score)
        return e / (1.0 + e)

    def has(self, method: str) -> bool:
        return method != "prox"


@cython.final
@cython.cclass
class Hinge(Loss):
    """max(0, 1 − y·s), y = ±1."""

    name = "hinge"
    targets = "sign"
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
        return max(0.0, 1.0 - y * score)

    def slope(self, score: float, y: float) -> float:
        return -y if y * score < 1.0 else 0.0

    def curvature(self, score: float, y: float) -> float:
        return 0.0

    def conjugate(self, slope: float, y: float) -> float:
        c: cython.double = slope * y
        return c if -1.0 <= c <= 0.0 else INFINITY

    def lowest_slope(self, y: float) -> float:
        return min(0.0, -y)

    def highest_slope(self, y: float) -> float:
        return max(0.0, -y)

    def prox(self, score: float, y: float, step: float) -> float:
        m: cython.double = y * score
        return score if m >= 1.0 else y * min(1.0, m + step)

    def corners(self, y: Array) -> tuple[Any, ...]:
        return ((y, -0.5 * (1.0 + y), 0.5 * (1.0 - y)),)


@cython.final
@cython.cclass
class SquaredHinge(Loss):
    """max(0, 1 − y·s)², y = ±1."""

    name = "squared_hinge"
    targets = "sign"
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
        v: cython.double = max(0.0, 1.0 - y * score)
        return v * v

    def slope(self, score: float, y: float) -> float:
        return -2.0 * y * max(0.0, 1.0 - y * score)

    def curvature(self, score: float, y: float) -> float:
        return 2.0 if y * score < 1.0 else 0.0

    def curvature_bound(self) -> float:
        return 2.0

    def conjugate(self, slope: float, y: float) -> float:
        c: cython.double = slope * y
        return c + 0.25 * c * c if c <= 0.0 else INFINITY

    def lowest_slope(self, y: float) -> float:
        return -INFINITY if y > 0.0 else 0.0

    def highest_slope(self, y: float) -> float:
        return 0.0 if y > 0.0 else INFINITY

    def prox(self, score: float, y: float, step: float) -> float:
        m: cython.double = y * score
        return score if m >= 1.0 else y * (m + 2.0 * step) / (1.0 + 2.0 * step)


@cython.final
@cython.cclass
class Perceptron(Loss):
    """max(0, −y·s), y = ±1; a score of 0 counts as a mistake, so that w = 0 moves."""

    name = "perceptron"
    targets = "sign"
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
        return max(0.0, -y * score)

    def slope(self, score: float, y: float) -> float:
        return -y if y * score <= 0.0 else 0.0

    def curvature(self, score: float, y: float) -> float:
        return 0.0

    def conjugate(self, slope: float, y: float) -> float:
        return 0.0 if -1.0 <= slope * y <= 0.0 else INFINITY

    def lowest_slope(self, y: float) -> float:
        return min(0.0, -y)

    def highest_slope(self, y: float) -> float:
        return max(0.0, -y)

    def prox(self, score: float, y: float, step: float) -> float:
        m: cython.double = y * score
        return score if m >= 0.0 else y * min(0.0, m + step)

    def corners(self, y: Array) -> tuple[Any, ...]:
        return ((0.0 * y, -0.5 * (1.0 + y), 0.5 * (1.0 - y)),)


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
