"""Activations h(a) of a network's units, with their slopes written in h itself.

Sigmoid and tanh use an exponential made of products alone, exp(x) = p(x/256)^256 with p Taylor's polynomial of degree
10, which a compiler can run on several numbers at once; on [−40, 0] it is right to 13 digits, and beyond −40 the unit
is flat to double precision anyway.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .._jit import kernel
from .door import part


@kernel(reassociate=True)
def falling_exponential(x: float) -> float:
    """exp(x) for x ≤ 0, exp(−40) from there on."""
    z = max(x, -40.0) * 0.00390625
    p = 1.0 + z * (1.0 / 9.0) * (1.0 + z * 0.1)
    p = 1.0 + z * (1.0 / 6.0) * (1.0 + z * (1.0 / 7.0) * (1.0 + z * 0.125 * p))
    p = 1.0 + z * (1.0 + z * 0.5 * (1.0 + z * (1.0 / 3.0) * (1.0 + z * 0.25 * (1.0 + z * 0.2 * p))))
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    return p


class Sigmoid(NamedTuple):
    """1/(1 + exp(−a))."""

    unit: float = 1.0  # Numba needs a field
    name = "sigmoid"
    gain = 2.0  # of the first weights' spread √(gain/(inputs + outputs))
    reassociate = True

    def value(self, a):
        e = falling_exponential(-abs(a))
        return (1.0 if a >= 0.0 else e) / (1.0 + e)

    def slope(self, h):
        return h * (1.0 - h)


class Tanh(NamedTuple):
    """(exp(a) − exp(−a))/(exp(a) + exp(−a))."""

    unit: float = 1.0
    name = "tanh"
    gain = 6.0
    reassociate = True

    def value(self, a):
        e = falling_exponential(-2.0 * abs(a))
        h = (1.0 - e) / (1.0 + e)
        return h if a >= 0.0 else -h

    def slope(self, h):
        return 1.0 - h * h


class Relu(NamedTuple):
    """max(0, a); its slope at 0 is 0."""

    unit: float = 1.0
    name = "relu"
    gain = 6.0
    reassociate = True

    def value(self, a):
        return max(0.0, a)

    def slope(self, h):
        return 1.0 if h > 0.0 else 0.0


ACTIVATIONS: dict[str, Any] = {cls.name: cls for cls in (Sigmoid, Tanh, Relu)}


def activation(given: Any) -> Any:
    """The activation of this name, or the given part itself.

    >>> activation("tanh")
    Tanh(unit=1.0)
    """
    return part(given, ACTIVATIONS, "activation", ("value", "slope"), {})
