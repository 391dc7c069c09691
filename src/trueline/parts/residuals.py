"""Losses of the residual s − y, for targets that are any real number. ``roles.Loss`` states what every method means.

``corners(y)`` tells interior point of a loss that is a sum of max a·(s − corner) over a in [low, high]: a
(corner, low, high) each, for targets as an array.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Squared(NamedTuple):
    """½(s − y)²."""

    unit: float = 1.0  # Numba needs a field
    name = "squared"
    targets = "real"
    smooth = True

    def value(self, score, y):
        return 0.5 * (score - y) * (score - y)

    def slope(self, score, y):
        return score - y

    def curvature(self, score, y):
        return 1.0

    def curvature_bound(self):
        return 1.0

    def conjugate(self, slope, y):
        return 0.5 * slope * slope + slope * y

    def slope_range(self, y):
        return -math.inf, math.inf

    def prox(self, score, y, step):
        return (score + step * y) / (1.0 + step)

    def mean(self, score):
        return score


class Absolute(NamedTuple):
    """|s − y|."""

    unit: float = 1.0
    name = "absolute"
    targets = "real"
    smooth = False

    def value(self, score, y):
        return abs(score - y)

    def slope(self, score, y):
        return 1.0 if score > y else (-1.0 if score < y else 0.0)

    def curvature(self, score, y):
        return 0.0

    def curvature_bound(self):
        return math.inf

    def conjugate(self, slope, y):
        return slope * y if abs(slope) <= 1.0 else math.inf

    def slope_range(self, y):
        return -1.0, 1.0

    def prox(self, score, y, step):
        return y + max(score - y - step, 0.0) + min(score - y + step, 0.0)

    def corners(self, y):
        return ((y, -1.0, 1.0),)

    def mean(self, score):
        return score


class Huber(NamedTuple):
    """½r² up to |r| = delta, then delta·(|r| − ½delta)."""

    delta: float = 1.35
    name = "huber"
    targets = "real"
    smooth = True

    def value(self, score, y):
        r = abs(score - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def slope(self, score, y):
        return max(-self.delta, min(self.delta, score - y))

    def curvature(self, score, y):
        return 1.0 if abs(score - y) <= self.delta else 0.0

    def curvature_bound(self):
        return 1.0

    def conjugate(self, slope, y):
        return 0.5 * slope * slope + slope * y if abs(slope) <= self.delta else math.inf

    def slope_range(self, y):
        return -self.delta, self.delta

    def corners(self, y):
        return ((y, -self.delta, self.delta),)  # rounded off by ½a²

    def mean(self, score):
        return score


class Quantile(NamedTuple):
    """The check function: quantile·(y − s) below the target, (1 − quantile)·(s − y) above it."""

    quantile: float = 0.5
    name = "quantile"
    targets = "real"
    smooth = False

    def value(self, score, y):
        return (1.0 - self.quantile) * (score - y) if score > y else self.quantile * (y - score)

    def slope(self, score, y):
        return 1.0 - self.quantile if score > y else (-self.quantile if score < y else 0.0)

    def curvature(self, score, y):
        return 0.0

    def curvature_bound(self):
        return math.inf

    def conjugate(self, slope, y):
        return slope * y if -self.quantile <= slope <= 1.0 - self.quantile else math.inf

    def slope_range(self, y):
        return -self.quantile, 1.0 - self.quantile

    def prox(self, score, y, step):
        above = max(score - y - step * (1.0 - self.quantile), 0.0)
        return y + above + min(score - y + step * self.quantile, 0.0)

    def corners(self, y):
        return ((y, -self.quantile, 1.0 - self.quantile),)

    def mean(self, score):
        return score


class EpsilonInsensitive(NamedTuple):
    """max(0, |s − y| − epsilon)."""

    epsilon: float = 0.1
    name = "epsilon_insensitive"
    targets = "real"
    smooth = False

    def value(self, score, y):
        return max(0.0, abs(score - y) - self.epsilon)

    def slope(self, score, y):
        r = score - y
        return 1.0 if r > self.epsilon else (-1.0 if r < -self.epsilon else 0.0)

    def curvature(self, score, y):
        return 0.0

    def curvature_bound(self):
        return math.inf

    def conjugate(self, slope, y):
        return slope * y + self.epsilon * abs(slope) if abs(slope) <= 1.0 else math.inf

    def slope_range(self, y):
        return -1.0, 1.0

    def prox(self, score, y, step):
        r = score - y
        if abs(r) <= self.epsilon:
            return score
        return y + math.copysign(max(self.epsilon, abs(r) - step), r)

    def corners(self, y):
        return (y + self.epsilon, 0.0, 1.0), (y - self.epsilon, -1.0, 0.0)

    def mean(self, score):
        return score


class Power(NamedTuple):
    """|s − y|^p / p for p ≥ 1: p = 1 absolute, 2 squared, 3 cubed."""

    p: float = 3.0
    name = "power"
    targets = "real"
    smooth = False  # the curvature vanishes at 0 for p > 2 and does not exist there for p < 2

    def value(self, score, y):
        return abs(score - y) ** self.p / self.p

    def slope(self, score, y):
        r = score - y
        if r == 0.0:
            return 0.0
        return math.copysign(abs(r) ** (self.p - 1.0), r)

    def curvature(self, score, y):
        r = abs(score - y)
        if r == 0.0 or self.p == 1.0:
            return 1.0 if self.p == 2.0 else 0.0
        return (self.p - 1.0) * r ** (self.p - 2.0)

    def curvature_bound(self):
        return 1.0 if self.p == 2.0 else math.inf

    def conjugate(self, slope, y):
        if self.p == 1.0:
            return slope * y if abs(slope) <= 1.0 else math.inf
        q = self.p / (self.p - 1.0)
        return slope * y + abs(slope) ** q / q

    def slope_range(self, y):
        if self.p == 1.0:
            return -1.0, 1.0
        return -math.inf, math.inf

    def corners(self, y):
        return ((y, -1.0, 1.0),) if self.p == 1.0 else ()

    def mean(self, score):
        return score
