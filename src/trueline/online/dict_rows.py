"""One dict at a time: named features become a row, their places remembered for the next dict of the same names.

``DictRow`` knows where each value of a dict goes. It takes dicts that have the very names it was made for, in any order, and
only plain numbers; any other dict goes the long way (:class:`Intake`), which finds the words. Both ways run the same
loop on the same row: bit by bit the same.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..data import rounding
from . import intake, squared_totals
from .intake import Block

if not cython.compiled:  # compiled, it comes from dict_rows.pxd
    from math import nan as NAN

EXACT: cython.double = float(rounding.EXACT)  # beyond, float64 may have rounded a whole number
LIMIT: cython.double = intake.LIMIT
EXAMPLES: cython.Py_ssize_t = squared_totals.EXAMPLES  # both tasks count their examples there
NUMPY_FLOATS = np.floating
NUMPY_INTEGERS = np.integer


def plain(value: Any) -> float:
    """A plain number as it is; NaN for what must be looked at."""
    if type(value) is float:
        return value
    if type(value) is int or type(value) is bool or isinstance(value, NUMPY_INTEGERS):
        return float(value) if -EXACT <= value <= EXACT else NAN
    return float(value) if isinstance(value, NUMPY_FLOATS) else NAN


@cython.final
@cython.cclass
class DictRow:
    """The values of a dict in the order of their columns."""

    def __init__(self, keys: Any, columns: Any) -> None:
        order = np.argsort(columns, kind="stable")
        self.keys = list(keys)
        self.size = len(self.keys)
        self.columns = np.asarray(columns, dtype=np.int64)[order]
        self.numbers = np.zeros(self.size)
        self.values = self.numbers
        self.spots = np.argsort(order, kind="stable").astype(np.int64)

    def read(self, features: Any) -> bool:
        """Whether the dict has the very keys and only plain numbers; they are then in ``values``."""
        k: cython.Py_ssize_t = 0
        if type(features) is not dict or len(features) != self.size:
            return False
        row: dict[Any, Any] = features
        for key, value in row.items():
            if key is not self.keys[k]:
                return self.read_by_key(row)
            if not self.put(k, value):
                return False
            k += 1  # noqa: SIM113 - of a dict alone compiled code walks the entries
        return True

    def read_by_key(self, features: dict[Any, Any]) -> bool:
        """The same for keys in another order, or equal but not the same objects."""
        k: cython.Py_ssize_t
        for k in range(self.size):
            if self.keys[k] not in features or not self.put(k, features[self.keys[k]]):
                return False
        return True

    def put(self, k: cython.Py_ssize_t, value: Any) -> bool:
        """Write one value where it belongs; False if it must be looked at."""
        number: float = plain(value)
        self.values[self.spots[k]] = number
        return -LIMIT <= number <= LIMIT  # not NaN


@cython.final
@cython.cclass
class MixtureRow:
    """One dict after the other for a mixture, in rooms of one row; made anew whenever the model's arrays move.

    A label that must be refused and the rounds after which a record of progress is due go the long way too.
    """

    def __init__(self, model: Any, features: dict[Any, Any]) -> None:
        known = model.intake.known
        self.row = DictRow(features, [known[key] for key in features])
        self.classes = model.class_count
        self.label, self.weight, self.learned = np.zeros(1), np.ones(1), np.zeros(1)
        self.y = self.label
        flat = np.zeros(max(1, self.classes))
        self.out = flat
        out = flat.reshape(1, -1) if self.classes else flat
        self.totals = model.arrays["totals"]
        self.rows = Block(self.row.numbers, self.row.columns, np.array([0, self.row.size]), False, model.width)
        self.rounds = model.rounds()
        self.rounds.take(self.rows, self.label, self.weight, out, self.learned)
        self.busy = False

    def learn(self, model: Any, features: Any, label: Any) -> Any:
        """The prediction before the dict is learned, or None and nothing learned."""
        target: float = plain(label)
        before: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, self.totals[EXAMPLES])
        if self.classes == 0:
            if not -LIMIT <= target <= LIMIT:
                return None
        elif self.classes == 2:
            if target != 1.0 and target != -1.0:
                return None
            target = (target + 1.0) / 2.0
        elif not 0.0 <= target < self.classes or target != cython.cast(cython.Py_ssize_t, target):
            return None
        # Where the next count is a power of two a record is due.
        if before & (before + 1) == 0 or self.busy:
            return None
        self.busy = True
        try:
            if not self.row.read(features):
                return None
            self.y[0] = target
            self.rounds.walk(True)
            if model.hindsight is not None:
                model.hindsight.add(self.rows, self.label, self.learned, self.weight, model.born(), before)
            return self.prediction()
        finally:
            self.busy = False

    def predict(self, features: Any) -> Any:
        """The prediction for the dict, or None; another thread's dict, half read, is left alone."""
        if self.busy:
            return None
        self.busy = True
        try:
            if not self.row.read(features):
                return None
            self.rounds.walk(False)
            return self.prediction()
        finally:
            self.busy = False

    def prediction(self) -> Any:
        """As the caller sees it."""
        if self.classes == 0:
            return self.out[0]
        return self.out[1] if self.classes == 2 else np.array(self.out)


def remembered(model: Any, features: Any) -> MixtureRow | None:
    """The row for the names of two dicts one after the other; names that change from dict to dict are not worth one."""
    keys = tuple(features)
    if keys != model.asked:
        model.asked = keys
        return None
    known = model.intake.known
    if model.centred and not model.filters and len(keys) < model.width:
        return None  # the members want zeros for the columns that such dicts lack
    named = all(type(key) is str and key in known for key in keys)
    if not named or any(isinstance(value, str) for value in features.values()):
        return None
    return MixtureRow(model, dict(features))
