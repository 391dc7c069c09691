"""Columns that are exactly combinations of others in every row of a stream: copies, and complete sets of indicators.

Moments cannot tell an exact copy from one that differs in the tenth digit, and the best fixed loss depends on which it
is. So the rows are asked while they are at hand: the first block proposes, every later one may object. A dependence
that this does not find costs a number (the best fixed loss is then not stated), never a wrong one.
"""

from __future__ import annotations

import re

import numpy as np

from ..modelfile import Array, whole_numbers

NONE = -1


class RedundantColumns:
    """Which column repeats which earlier one, and which columns together are 1 in every row.

    >>> rows = np.array([[1.0, 0.0, 5.0, 5.0], [0.0, 1.0, 7.0, 7.0], [1.0, 0.0, 8.0, 8.0]])
    >>> RedundantColumns.of(rows, np.ones(3)).mask(intercept=True).tolist()
    [False, True, False, True]
    """

    def __init__(self, width: int) -> None:
        self.copy_of = np.full(width, NONE)
        self.group = np.full(width, NONE)

    @classmethod
    def of(cls, rows: np.ndarray, one: np.ndarray) -> RedundantColumns:
        """What holds in these rows; ``one`` is the constant as each row has it (√weight where rows are scaled)."""
        made = cls(rows.shape[1])
        if not len(rows):
            return made
        first: dict[bytes, int] = {}
        for j, column in enumerate(np.ascontiguousarray(rows.T)):
            made.copy_of[j] = first.setdefault(column.tobytes(), j)
        made.copy_of[made.copy_of == np.arange(len(made.copy_of))] = NONE
        ones = rows == one[:, None]
        indicators = np.flatnonzero((ones | (rows == 0.0)).all(axis=0) & ones.any(axis=0) & (made.copy_of == NONE))
        taken: list[np.ndarray] = []
        for j in indicators.tolist():
            at = next((g for g, rows_taken in enumerate(taken) if not (rows_taken & ones[:, j]).any()), len(taken))
            if at == len(taken):
                taken.append(np.zeros(len(rows), dtype=bool))
            taken[at] |= ones[:, j]
            made.group[j] = at
        made.check(rows, one)
        return made

    def check(self, rows: np.ndarray, one: np.ndarray) -> None:
        """Forget what does not hold in these rows."""
        copies = np.flatnonzero(self.copy_of != NONE)
        differ = (rows[:, copies] != rows[:, self.copy_of[copies]]).any(axis=0)
        self.copy_of[copies[differ]] = NONE
        for g in np.unique(self.group[self.group != NONE]):
            members = rows[:, self.group == g]
            ones = members == one[:, None]
            if not ((ones.sum(axis=1) == 1).all() and (ones | (members == 0.0)).all()):
                self.group[self.group == g] = NONE

    def widen(self, width: int) -> None:
        """More columns, which were 0 in every row so far."""
        more = np.full(max(0, width - len(self.group)), NONE)
        self.copy_of, self.group = np.append(self.copy_of, more), np.append(self.group, more)

    def name(self, names: list[str], since: int) -> None:
        """New levels join the set of their category, which their names tell: ``c=red`` or ``c[red]``."""
        heads: dict[str, set[int]] = {}
        for name, g in zip(names[:since], self.group[:since].tolist(), strict=True):
            heads.setdefault(_category(name), set()).add(g)
        for j in range(since, len(names)):
            groups = heads.get(_category(names[j]), set())
            if _category(names[j]) and len(groups) == 1:
                self.group[j] = next(iter(groups))

    def mask(self, intercept: bool) -> np.ndarray:
        """The columns without which the others, and the constant, still span everything."""
        redundant = self.copy_of != NONE
        if intercept:
            for g in np.unique(self.group[self.group != NONE]):
                redundant[np.flatnonzero(self.group == g)[-1]] = True
        return np.asarray(redundant)

    def copy(self) -> RedundantColumns:
        twin = RedundantColumns(0)
        twin.copy_of, twin.group = self.copy_of.copy(), self.group.copy()
        return twin

    def to_array(self) -> np.ndarray:
        """As a model file holds it."""
        return np.array([self.copy_of, self.group], dtype=np.float64)

    @staticmethod
    def declared(width: int, optional: str) -> Array:
        """What a file holds of so many columns; files of 0.1 have none."""
        return Array((2, width), optional=optional, holds=whole_numbers(NONE, max(0, width - 1)))

    @classmethod
    def from_array(cls, array: np.ndarray | None, width: int) -> RedundantColumns:
        """What ``to_array`` made; nothing is known where it is missing."""
        made = cls(width)
        if array is not None:
            made.copy_of, made.group = array.astype(np.int64)
        return made


def _category(name: str) -> str:
    found = re.match(r"(.+?)[=\[]", str(name))
    return found.group(1) if found else ""
