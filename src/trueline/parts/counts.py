"""Losses of a score that is the logarithm of the mean, for counts and amounts: Poisson, Gamma, Tweedie."""

from __future__ import annotations

import math
from typing import NamedTuple

from .entropy import entropy_term


class Poisson(NamedTuple):
    """exp(s) − y·s, y ≥ 0: the Poisson likelihood with a log link, less its constant."""

    unit: float = 1.0
    name = "poisson"
    targets = "nonnegative"
    smooth = True

    def value(self, score, y):
        return math.exp(score) - y * score

    def slope(self, score, y):
        return math.exp(score) - y

    def curvature(self, score, y):
        return math.exp(score)

    def curvature_bound(self):
        return math.inf

    def conjugate(self, slope, y):
        v = slope + y
        return entropy_term(v) - v if v >= 0.0 else math.inf

    def slope_range(self, y):
        return -y, math.inf

    def mean(self, score):
        return math.exp(score)


class Gamma(NamedTuple):
    """s + y·exp(−s), y > 0: the Gamma likelihood with a log link, less its constant."""

    unit: float = 1.0
    name = "gamma"
    targets = "positive"
    smooth = True

    def value(self, score, y):
        return score + y * math.exp(-score)

    def slope(self, score, y):
        return 1.0 - y * math.exp(-score)

    def curvature(self, score, y):
        return y * math.exp(-score)

    def curvature_bound(self):
        return math.inf

    def conjugate(self, slope, y):
        v = 1.0 - slope
        return entropy_term(v) - v - v * math.log(y) if v >= 0.0 else math.inf

    def slope_range(self, y):
        return -math.inf, 1.0

    def mean(self, score):
        return math.exp(score)


class Tweedie(NamedTuple):
    """exp((2 − p)s)/(2 − p) − y·exp((1 − p)s)/(1 − p) for 1 < p < 2, y ≥ 0, with a log link: sums of Gamma claims.

    The conjugate a·s − V(s) is taken where the slope is a: found by Newton's method inside a bracket.
    """

    p: float = 1.5
    name = "tweedie"
    targets = "nonnegative"
    smooth = True

    def value(self, score, y):
        return math.exp((2.0 - self.p) * score) / (2.0 - self.p) - y * math.exp((1.0 - self.p) * score) / (1.0 - self.p)

    def slope(self, score, y):
        return math.exp((2.0 - self.p) * score) - y * math.exp((1.0 - self.p) * score)

    def curvature(self, score, y):
        return (2.0 - self.p) * math.exp((2.0 - self.p) * score) - y * (1.0 - self.p) * math.exp((1.0 - self.p) * score)

    def curvature_bound(self):
        return math.inf

    def conjugate(self, slope, y):
        if y <= 0.0:
            if slope <= 0.0:
                return 0.0 if slope == 0.0 else math.inf
            return slope * (math.log(slope) - 1.0) / (2.0 - self.p)
        low = high = math.log(y)
        width = 1.0
        while self.slope(low, y) > slope:
            low -= width
            width *= 2.0
        width = 1.0
        while self.slope(high, y) < slope:
            high += width
            width *= 2.0
        score = 0.5 * (low + high)
        for _ in range(100):
            excess = self.slope(score, y) - slope
            if excess > 0.0:
                high = score
            else:
                low = score
            new = score - excess / self.curvature(score, y)
            if not low < new < high:
                new = 0.5 * (low + high)
            if abs(new - score) <= 1e-13 * (1.0 + abs(score)):
                break
            score = new
        return slope * score - self.value(score, y)

    def slope_range(self, y):
        return (-math.inf, math.inf) if y > 0.0 else (0.0, math.inf)

    def mean(self, score):
        return math.exp(score)
