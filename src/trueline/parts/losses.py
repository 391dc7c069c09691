"""Losses: V(y, s) on scalars, once each. ``roles.Loss`` states what every method means.

Binary losses see y = ±1 and depend on the margin m = y·s. Conjugates are written in the slope a, or, for
binary losses, in c = a·y. Class attributes describe a loss to the doors: ``name``, ``targets``, ``smooth``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._jit import kernel
from .door import part


@kernel
def entropy_term(p: float) -> float:
    """p·ln p, 0 at 0."""
    return p * math.log(p) if p > 0.0 else 0.0


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
    corner = True  # a·(s − y), a at an end of slope_range: what interior point needs

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

    def mean(self, score):
        return score


class Quantile(NamedTuple):
    """The check function: quantile·(y − s) below the target, (1 − quantile)·(s − y) above it."""

    quantile: float = 0.5
    name = "quantile"
    targets = "real"
    smooth = False
    corner = True  # a·(s − y), a at an end of slope_range: what interior point needs

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

    def mean(self, score):
        return score


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
        return entropy_term(p) + entropy_term(1.0 - p) if 0.0 <= p <= 1.0 else math.inf

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
    corner = True  # a·(s − y), a at an end of slope_range: what interior point needs

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

    def mean(self, score):
        return score


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


LOSSES: dict[str, Any] = {
    cls.name: cls
    for cls in (
        Squared, Absolute, Huber, Quantile, EpsilonInsensitive, Power,
        Logistic, Hinge, SquaredHinge, Perceptron, Poisson, Gamma, Tweedie,
    )
}  # fmt: skip

# What the doors ask of a loss before anything compiles.
NEEDED = ("value", "slope")


def loss(given: Any, **fields: float) -> Any:
    """The loss of this name, or the given part itself, with float fields, ready for compiled code.

    >>> loss("huber", delta=2)
    Huber(delta=2.0)
    """
    return part(given, LOSSES, "loss", NEEDED, fields)
