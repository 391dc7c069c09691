"""Losses V(y, s) by name: ``residuals.py``, ``margins.py`` and ``counts.py`` hold the formulas, once each.

``roles.Loss`` states what every method means. Class attributes describe a loss to the doors: ``name``, ``targets``,
``smooth``.
"""

from __future__ import annotations

from typing import Any

from .._jit import teach
from ..objective.named_function import NamedFunction
from .counts import Gamma, Poisson, Tweedie
from .door import part
from .margins import Hinge, Logistic, Perceptron, SquaredHinge
from .own_loss import check_own_loss, is_own
from .residuals import Absolute, EpsilonInsensitive, Huber, Power, Quantile, Squared

LOSSES: dict[str, Any] = {
    cls.name: cls
    for cls in (
        Squared, Absolute, Huber, Quantile, EpsilonInsensitive, Power,
        Logistic, Hinge, SquaredHinge, Perceptron, Poisson, Gamma, Tweedie,
    )
}  # fmt: skip

for _cls in LOSSES.values():
    _cls.__module__ = __name__  # the name that model files hold, wherever the formula is written

# What the doors ask of a loss before anything compiles.
NEEDED = ("value", "slope")


def as_tuple(loss: Any) -> Any:
    """The NamedTuple of a loss, for the kernels that Numba still compiles."""
    if not isinstance(loss, NamedFunction):
        return loss
    made = LOSSES[loss.name](*loss) if loss.own is None else loss.own
    teach(made)
    return made


def loss(given: Any, **fields: float) -> Any:
    """The loss of this name, or the given part itself, with float fields, ready for compiled code.

    A user's own loss is checked at its first use (own_loss.py).

    >>> loss("huber", delta=2)
    Huber(delta=2.0)
    """
    made = part(as_tuple(given), LOSSES, "loss", NEEDED, fields)
    if is_own(made, LOSSES):
        check_own_loss(made)
    return made
