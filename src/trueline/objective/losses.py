"""The losses by name. ``regression_losses``, ``margin_losses`` and ``count_losses`` hold the formulas, once each."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from ..errors import UsageError, nearest
from .count_losses import Gamma, Poisson, Tweedie
from .loss_interface import Loss, PythonLoss
from .margin_losses import Hinge, Logistic, Perceptron, SquaredHinge
from .regression_losses import Absolute, EpsilonInsensitive, Huber, Power, Quantile, Squared
from .user_loss import user_loss

LOSSES: dict[str, Any] = {
    cls.name: cls
    for cls in (
        Squared, Absolute, Huber, Quantile, EpsilonInsensitive, Power,
        Logistic, Hinge, SquaredHinge, Perceptron, Poisson, Gamma, Tweedie,
    )
}  # fmt: skip

# What a parameter must be for the formula to be what its name says.
RANGES: dict[tuple[str, str], tuple[Callable[[float], bool], str]] = {
    ("huber", "delta"): (lambda v: 0.0 < v < math.inf, "above 0"),
    ("quantile", "quantile"): (lambda v: 0.0 < v < 1.0, "between 0 and 1"),
    ("epsilon_insensitive", "epsilon"): (lambda v: 0.0 <= v < math.inf, "0 or more"),
    ("power", "p"): (lambda v: 1.0 <= v < math.inf, "1 or more"),
    ("tweedie", "p"): (lambda v: 1.0 < v < 2.0, "between 1 and 2"),
}


def resolve_loss(given: Any, **fields: float) -> Loss:
    """The loss of this name, a loss itself, or a user's own: an object with ``value`` and ``slope``, checked at first use.

    >>> resolve_loss("huber", delta=2)
    Huber(delta=2.0)
    """
    if isinstance(given, str):
        if given not in LOSSES:
            raise UsageError(f"there is no loss named {given!r}{nearest(given, LOSSES)}", where="loss")
        given = LOSSES[given]
    if given in LOSSES.values():
        for name, value in fields.items():
            check_range(given, name, value)
        return given(**{name: float(value) for name, value in fields.items()})
    if isinstance(given, type) and hasattr(given, "value") and hasattr(given, "slope"):
        given = given(**fields)
    if isinstance(given, Loss):
        for name, value in () if isinstance(given, PythonLoss) else given._asdict().items():
            check_range(type(given), name, value)
        return given
    known = LOSSES.get(getattr(given, "name", ""))
    if known is not None and type(given).__module__ == "trueline.parts.losses":  # until its last Numba user is gone
        return known(**{name: getattr(given, name) for name in known._fields})
    return user_loss(given, ", ".join(LOSSES))


def check_range(cls: Any, name: str, value: Any) -> None:
    """Refuse a parameter of a loss outside its range."""
    rule = RANGES.get((cls.name, name))
    if rule is not None and not (isinstance(value, Real) and rule[0](float(value))):
        raise UsageError(f"{name} must be {rule[1]}, not {value!r}", where=name)
