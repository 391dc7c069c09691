"""Penalties on coefficients, separable: value, prox and conjugate of one coefficient. See ``roles.Penalty``.

``GroupL1`` has the same methods on the *norm* of a group's coefficients, since its prox only shrinks that norm.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._jit import kernel
from .door import part


@kernel
def soft(w: float, threshold: float) -> float:
    """Soft threshold: the prox of |·|, with true zeros."""
    if w > threshold:
        return w - threshold
    if w < -threshold:
        return w + threshold
    return 0.0


class Nothing(NamedTuple):
    """No penalty."""

    unit: float = 1.0
    name = "none"

    def value(self, w, weight):
        return 0.0

    def prox(self, w, step, weight):
        return w

    def conjugate(self, z, weight):
        return 0.0 if z == 0.0 else math.inf


class L1(NamedTuple):
    """alpha·|w|: the lasso's, with true zeros."""

    alpha: float = 1.0
    name = "l1"

    def value(self, w, weight):
        return self.alpha * weight * abs(w)

    def prox(self, w, step, weight):
        return soft(w, step * self.alpha * weight)

    def conjugate(self, z, weight):
        return 0.0 if abs(z) <= self.alpha * weight else math.inf


class L2(NamedTuple):
    """½alpha·w²: ridge's."""

    alpha: float = 1.0
    name = "l2"

    def value(self, w, weight):
        return 0.5 * self.alpha * weight * w * w

    def prox(self, w, step, weight):
        return w / (1.0 + step * self.alpha * weight)

    def conjugate(self, z, weight):
        strength = self.alpha * weight
        if strength > 0.0:
            return 0.5 * z * z / strength
        return 0.0 if z == 0.0 else math.inf


class ElasticNet(NamedTuple):
    """alpha·(l1_ratio·|w| + ½(1 − l1_ratio)·w²)."""

    alpha: float = 1.0
    l1_ratio: float = 0.5
    name = "elastic_net"

    def value(self, w, weight):
        return self.alpha * weight * (self.l1_ratio * abs(w) + 0.5 * (1.0 - self.l1_ratio) * w * w)

    def prox(self, w, step, weight):
        strength = step * self.alpha * weight
        return soft(w, strength * self.l1_ratio) / (1.0 + strength * (1.0 - self.l1_ratio))

    def conjugate(self, z, weight):
        excess = abs(z) - self.alpha * weight * self.l1_ratio
        if excess <= 0.0:
            return 0.0
        strength = self.alpha * weight * (1.0 - self.l1_ratio)
        return 0.5 * excess * excess / strength if strength > 0.0 else math.inf


class NonNegative(NamedTuple):
    """alpha·w on w ≥ 0, infinite below."""

    alpha: float = 0.0
    name = "nonnegative"

    def value(self, w, weight):
        return self.alpha * weight * w if w >= 0.0 else math.inf

    def prox(self, w, step, weight):
        return max(0.0, w - step * self.alpha * weight)

    def conjugate(self, z, weight):
        return 0.0 if z <= self.alpha * weight else math.inf


class Box(NamedTuple):
    """0 on lower ≤ w ≤ upper, infinite outside."""

    lower: float = -1.0
    upper: float = 1.0
    name = "box"

    def value(self, w, weight):
        return 0.0 if self.lower <= w <= self.upper else math.inf

    def prox(self, w, step, weight):
        return min(max(w, self.lower), self.upper)

    def conjugate(self, z, weight):
        return max(z * self.lower, z * self.upper)


class GroupL1(NamedTuple):
    """alpha·√size·‖w_g‖ of each group of columns: whole groups become zero. Its methods act on the norm."""

    alpha: float = 1.0
    name = "group_l1"

    def value(self, w, weight):
        return self.alpha * weight * w

    def prox(self, w, step, weight):
        return max(0.0, w - step * self.alpha * weight)

    def conjugate(self, z, weight):
        return 0.0 if z <= self.alpha * weight else math.inf


PENALTIES: dict[str, Any] = {cls.name: cls for cls in (Nothing, L1, L2, ElasticNet, NonNegative, Box, GroupL1)}
NEEDED = ("value", "prox")


def penalty(given: Any, **fields: float) -> Any:
    """The penalty of this name, or the given part itself, ready for compiled code.

    >>> penalty("l1", alpha=1)
    L1(alpha=1.0)
    """
    return part("none" if given is None else given, PENALTIES, "penalty", NEEDED, fields)
