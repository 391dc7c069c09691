"""Fitted numbers that a user may assign, as in scikit-learn: ``model.coef_ = v`` and ``model.coef_[:] = v`` are used.

The record of a fit holds what predicts; the estimator shows copies of its numbers as ``coef_``, ``intercept_``,
``components_`` … Whoever asks for the record gets one that agrees with what is shown. Once a shown number differs from
the fitted one, nothing is known about it: the record then has no certificate (None), and no tests or intervals.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np

from ..errors import DataError


class Shown:
    """Mixin: ``shown`` maps attributes to fields of the record, which ``_agreeing`` keeps in agreement."""

    shown: ClassVar[dict[str, str]] = {}

    def _agreeing(self) -> Any:
        """The record, with the numbers that the estimator shows now."""
        record = self.__dict__.get("_kept")
        if record is None:
            record = self.__dict__["_kept"] = self._from_shown()
        changed = {}
        for name, field in self.shown.items():
            if name not in self.__dict__:
                continue
            fitted, value = getattr(record, field), self.__dict__[name]
            if not np.array_equal(np.ravel(value), np.ravel(fitted)):
                changed[field] = _like(name, value, fitted)
        if changed:
            record = copy.copy(record)
            for field, value in changed.items():
                setattr(record, field, value)
            record.assigned()
            self.__dict__["_kept"] = record
        return record

    def _show(self, record: Any) -> None:
        """Hold the record of a fit, and show copies of its numbers."""
        self.__dict__["_kept"] = record
        for name, field in self.shown.items():
            value = getattr(record, field)
            self.__dict__[name] = np.array(value, dtype=float) if np.ndim(value) else np.float64(value)

    def _from_shown(self) -> Any:
        """A record made of nothing but assigned numbers; a class that cannot make one has not been fitted."""
        raise AttributeError(f"this {type(self).__name__} has not been fitted; call fit first")


def _like(name: str, value: Any, fitted: Any) -> Any:
    """An assigned value in the shape of the fitted one."""
    wanted = np.shape(fitted)
    try:
        numbers = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"{name} was assigned {value!r}; an array of numbers is accepted", where=name) from None
    if np.squeeze(numbers).shape != np.squeeze(np.zeros(wanted)).shape:
        raise DataError(
            f"{name} was assigned an array of shape {numbers.shape}; the fit has {wanted or 'one number'}", where=name
        )
    if not np.isfinite(numbers).all():
        raise DataError(f"{name} was assigned a number that is not finite; finite numbers are accepted", where=name)
    return numbers.reshape(wanted) if wanted else float(numbers.ravel()[0])
