"""Losses of the margin m = y·s, for targets y = ±1. Conjugates are written in c = a·y, a the slope."""

from __future__ import annotations

import math
from typing import NamedTuple

from .entropy import entropy_term


class Logistic(NamedTuple):
    """ln(1 + exp(−y·s)), y = ±1."""

    unit: float = 1.0
    name = "logistic"
    targets = "sign"
    smooth = True

    def value(self, score, y):
        m = y * score
        return math.log1p(math.exp(-m)) if m > 0.0 else math.log1p(math.exp(m)) - m

    def slope(self, score, y):
        m = y * score
        if m > 0.0:
            e = math.exp(-m)
            return -y * e / (1.0 + e)
        return -y / (1.0 + math.exp(m))

    def curvature(self, score, y):
        e = math.exp(-abs(score))
        return e / ((1.0 + e) * (1.0 + e))

    def together(self, score, y):
        """(value, slope, curvature) from one exponential."""
        m = y * score
        e = math.exp(-abs(m))
        share = 1.0 / (1.0 + e)
        if m > 0.0:
            return math.log1p(e), -y * e * share, e * share * share
        return math.log1p(e) - m, -y * share, e * share * share

    def curvature_bound(self):
        return 0.25

    def conjugate(self, slope, y):
        p = -slope * y
        if not 0.0 <= p <= 1.0:
            return math.inf
        # 1 − p would forget a p below 10⁻¹⁶, and with it the conjugate's own size.
        return entropy_term(p) + ((1.0 - p) * math.log1p(-p) if p < 1.0 else 0.0)

    def slope_range(self, y):
        return min(0.0, -y), max(0.0, -y)

    def mean(self, score):
        if score >= 0.0:
            return 1.0 / (1.0 + math.exp(-score))
        e = math.exp(score)
        return e / (1.0 + e)


class Hinge(NamedTuple):
    """max(0, 1 − y·s), y = ±1."""

    unit: float = 1.0
    name = "hinge"
    targets = "sign"
    smooth = False

    def value(self, score, y):
        return max(0.0, 1.0 - y * score)

    def slope(self, score, y):
        return -y if y * score < 1.0 else 0.0

    def curvature(self, score, y):
        return 0.0

    def curvature_bound(self):
        return math.inf

    def conjugate(self, slope, y):
        c = slope * y
        return c if -1.0 <= c <= 0.0 else math.inf

    def slope_range(self, y):
        return min(0.0, -y), max(0.0, -y)

    def prox(self, score, y, step):
        m = y * score
        return score if m >= 1.0 else y * min(1.0, m + step)

    def corners(self, y):
        return ((y, -0.5 * (1.0 + y), 0.5 * (1.0 - y)),)

    def mean(self, score):
        return score


class SquaredHinge(NamedTuple):
    """max(0, 1 − y·s)², y = ±1."""

    unit: float = 1.0
    name = "squared_hinge"
    targets = "sign"
    smooth = True

    def value(self, score, y):
        v = max(0.0, 1.0 - y * score)
        return v * v

    def slope(self, score, y):
        return -2.0 * y * max(0.0, 1.0 - y * score)

    def curvature(self, score, y):
        return 2.0 if y * score < 1.0 else 0.0

    def curvature_bound(self):
        return 2.0

    def conjugate(self, slope, y):
        c = slope * y
        return c + 0.25 * c * c if c <= 0.0 else math.inf

    def slope_range(self, y):
        return (-math.inf, 0.0) if y > 0.0 else (0.0, math.inf)

    def prox(self, score, y, step):
        m = y * score
        return score if m >= 1.0 else y * (m + 2.0 * step) / (1.0 + 2.0 * step)

    def mean(self, score):
        return score


class Perceptron(NamedTuple):
    """max(0, −y·s), y = ±1; a score of 0 counts as a mistake, so that w = 0 moves."""

    unit: float = 1.0
    name = "perceptron"
    targets = "sign"
    smooth = False

    def value(self, score, y):
        return max(0.0, -y * score)

    def slope(self, score, y):
        return -y if y * score <= 0.0 else 0.0

    def curvature(self, score, y):
        return 0.0

    def curvature_bound(self):
        return math.inf

    def conjugate(self, slope, y):
        return 0.0 if -1.0 <= slope * y <= 0.0 else math.inf

    def slope_range(self, y):
        return min(0.0, -y), max(0.0, -y)

    def prox(self, score, y, step):
        m = y * score
        return score if m >= 0.0 else y * min(0.0, m + step)

    def corners(self, y):
        return ((0.0 * y, -0.5 * (1.0 + y), 0.5 * (1.0 - y)),)

    def mean(self, score):
        return score
