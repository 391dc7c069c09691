"""Rows of named features: a dict becomes a row of the loop.

Rows are remembered by their keys and ordered by column, whatever the order of the dict. A dict that has the very keys and
plain numbers is learned or predicted by compiled code alone; what that cannot use goes the long way, which finds the words.
Both ways run the same loop on the same row: bit by bit the same.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..data.rounding import EXACT, refuse_rounded_fields
from ..data.row_access import Rows
from ..errors import DataError
from .inputs import refuse_bad_rows
from .learning_loop import HUGE, Examples
from .sums import shares_of

if not cython.compiled:  # compiled, these come from named.pxd
    from math import sqrt

    from .dict_rows import DictRow, plain
    from .learner_state import LearnerState
    from .learning_loop import Rule, run

LIMIT: cython.double = HUGE
SIGNS = {"sign": 1, "nonnegative": 2, "positive": 3}


def filled(features: Any) -> np.ndarray:
    """The values of an example in its own order, each a finite number."""
    row = NamedRow(list(features), range(len(features)), len(features))
    row.fill(features)
    refuse_bad_rows(row.values[None, :], row.keys)
    return row.values  # type: ignore[no-any-return]


@cython.final
@cython.cclass
class NamedRow:
    """The row of one set of keys, in the order of their columns, in the very memory that the loop reads."""

    def __init__(self, keys: list[str], columns: Any, width: int) -> None:
        self.reader = DictRow(keys, columns)
        self.keys = [key for _, key in sorted(zip(columns, keys))]
        self.values, self.columns = self.reader.numbers, self.reader.columns.astype(np.int32)
        self.dense = self.columns.tolist() == list(range(width))
        places = () if self.dense else (self.columns, [0, len(keys)])
        self.rows = Rows(self.values, (1, width), *places)
        self.y, self.share, self.out = np.zeros(1), np.ones(1), np.zeros(1)
        self.target, self.score = self.y, self.out
        self.example, self.weighted = Examples(self.rows, self.y), Examples(self.rows, self.y, self.share)
        nobody: Any = None
        self.rule = self.state = self.waiting_of = nobody
        self.identity, self.sign = False, 0

    def serve(self, rule: Rule, state: LearnerState) -> None:
        """The learner of one weight vector whose dicts ``learn`` and ``predict`` take."""
        self.rule, self.state = rule, state
        self.identity = rule.loss.mean(0.3) == 0.3
        self.sign = SIGNS.get(rule.loss.targets, 0)

    def fill(self, features: Any) -> None:
        """Write the values."""
        if self.reader.read(features):
            return
        found = [features[key] for key in self.keys]
        for k, (name, value) in enumerate(zip(self.keys, found)):
            if isinstance(value, (str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
                raise DataError(
                    f"feature {name!r} is {value!r}, not a number; give numbers, or encode it first", where=str(name)
                )
            try:
                self.values[k] = float(value)
            except OverflowError:
                raise DataError(
                    f"feature {name!r} is too large for a float; give finite numbers", where=str(name)
                ) from None
        if np.abs(self.values).max(initial=0.0) >= EXACT:
            refuse_rounded_fields(features)

    def learn(self, model: Any, features: Any, label: Any) -> Any:
        """The prediction made before the dict is learned, or None and nothing learned."""
        y: float = plain(label)
        if self.sign == 1 and y == 0.0:
            y = -1.0
        if not -LIMIT <= y <= LIMIT or (self.sign == 1 and y * y != 1.0):
            return None
        if self.sign > 1 and (y < 0.0 or (self.sign == 3 and y == 0.0)):
            return None
        if self.rule is None or self.rows.width != self.state.width or not self.rule.fits(self.state):
            return None
        if not self.reader.read(features):
            return None
        self.target[0] = y
        if run(self.example, 0, 1, self.rule, self.state, self.score) == 0:
            return None
        score: float = self.score[0]
        sums = model.sums
        if sums is not None:
            self.count(sums, y, 1.0, shares_of(model))
        if model.kept is not None and score * y <= 0.0:
            model._keep_one(self, np.array([[y]]), np.array([[score]]))
        if self.state.rounds >= model._next_record:
            model._record(label, np.array([score]))
        return score if self.identity else self.rule.loss.mean(score)

    def predict(self, features: Any) -> Any:
        """The prediction for the dict, or None."""
        if self.rule is None or self.rule.average or self.rows.width != self.state.width:
            return None
        if not (self.rule.fits(self.state) and self.reader.read(features)):
            return None
        score: float = self.rule.geometry.score(self.rows, 0, self.state)
        if not -LIMIT <= score <= LIMIT:
            return None
        return score if self.identity else self.rule.loss.mean(score)

    def count(self, sums: Any, y: float, weight: float, shares: Any) -> None:
        """Write the row where the moments' rows wait; ``shares(row)`` divides its weight."""
        at: cython.Py_ssize_t = sums.count
        j: cython.Py_ssize_t
        width: cython.Py_ssize_t = self.rows.width
        if sums.waiting is not self.waiting_of:
            self.waiting_of = self.waiting = sums.waiting
        if at >= self.waiting.shape[0] or self.waiting.shape[1] != width + 2:
            raise ValueError("the row and the moments differ in width")
        for j in range(1, width + 1):
            self.waiting[at, j] = 0.0
        for j in range(self.reader.size):
            self.waiting[at, 1 + self.rows.indices[j] if not self.dense else 1 + j] = self.reader.values[j]
        self.waiting[at, 0], self.waiting[at, width + 1] = 1.0, y
        if shares is not None:
            weight = weight / shares(self.waiting_of[at : at + 1, 1:-1])[0]
        if weight != 1.0:
            weight = sqrt(weight)
            for j in range(width + 2):
                self.waiting[at, j] *= weight
        sums.one_more()
