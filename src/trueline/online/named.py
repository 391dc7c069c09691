"""Rows of named features: a dict becomes a row of the engine without a loop in Python.

Layouts are remembered by their keys and ordered by column, whatever the order of the dict. ``learn_dict`` and
``score_dict`` read the dict itself (_dicts.py): one call an example. Whatever they cannot use (a key that is missing, a
value that is not a number, an overflow) they answer with NaN and an unchanged state; the long way then finds the words.
"""

from __future__ import annotations

import math
import struct
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from .._dicts import doubles, holding, indices, read_dict, words
from .._jit import PLAIN, direct, teach
from ..data.rows import Dense, Sparse
from ..errors import DataError
from . import state as s
from .engine import NO_ORDER, learn, scores

# Places in a frame: where a layout's buffers and a head's state lie, and how large they are.
SIZE, VALUES, KEYS, CELLS, COLUMNS, ENDS, TABLE, TABLE_WIDTH, NUMBERS, PLACES = range(10)


class DenseFrame(NamedTuple):
    """The dict has a value for every column."""

    unit: float = 1.0

    def rows(self, frame, values):
        return Dense(values)  # type: ignore[call-arg]


class SparseFrame(NamedTuple):
    """The dict has values for some columns."""

    unit: float = 1.0

    def rows(self, frame, values):
        return Sparse(values[0], indices(frame[COLUMNS], frame[SIZE]), words(frame[ENDS], 2))  # type: ignore[call-arg]


@holding
def learn_dict(
    features: int, place: int, target: float, kind: Any, share: Any, loss: Any, geometry: Any, general: Any
) -> float:
    """Learn the dict at this address: the score before the update, or NaN and nothing learned."""
    frame = words(place, PLACES)
    values = doubles(frame[VALUES], 1, frame[SIZE])
    if not read_dict(features, words(frame[KEYS], frame[SIZE]), values):
        return math.nan
    rows = kind.rows(frame, values)
    table = doubles(frame[TABLE], s.TABLE_ROWS, frame[TABLE_WIDTH])
    numbers = doubles(frame[NUMBERS], 1, s.NUMBERS)[0]
    cells = doubles(frame[CELLS], 2, 1)
    cells[0, 0] = target
    if learn(rows, cells[0], share, NO_ORDER, 0, 1, loss, geometry, general, table, numbers, cells[1]) == 0:
        return math.nan
    return cells[1, 0]


@holding
def score_dict(features: int, place: int, kind: Any, general: Any) -> float:
    """The score of the dict at this address, or NaN."""
    frame = words(place, PLACES)
    values = doubles(frame[VALUES], 1, frame[SIZE])
    if not read_dict(features, words(frame[KEYS], frame[SIZE]), values):
        return math.nan
    rows = kind.rows(frame, values)
    table = doubles(frame[TABLE], s.TABLE_ROWS, frame[TABLE_WIDTH])
    numbers = doubles(frame[NUMBERS], 1, s.NUMBERS)[0]
    out = doubles(frame[CELLS], 2, 1)[1]
    return out[0] if scores(rows, 0, 1, general, table, numbers, out) == 1 else math.nan


class Layout:
    """The buffers of one set of keys, in the order of their columns, and the compiled entries that read them."""

    def __init__(self, keys: list[str], columns: list[int], width: int) -> None:
        pairs = sorted(zip(columns, keys))
        self.keys = [key for _, key in pairs]
        self.columns = np.array([column for column, _ in pairs], dtype=np.int32)
        self.size = len(keys)
        self.y, self.c, self.out = np.zeros(1), np.ones(1), np.zeros(1)
        self.dense = self.columns.tolist() == list(range(width))
        self.values: Any = np.zeros(self.size)
        self.take: Any = itemgetter(*self.keys) if self.size > 1 else lambda row: tuple(row[key] for key in self.keys)
        self.pack = struct.Struct(f"{self.size}d").pack_into
        dense: Any = Dense
        sparse: Any = Sparse
        self.rows: Any = (
            dense(self.values.reshape(1, -1))
            if self.dense
            else sparse(self.values, self.columns.view(np.uint32), np.array([0, self.size], dtype=np.uint64))
        )
        teach(self.rows)
        self.cells = np.zeros(2)  # target and score
        self.key_places = np.array([id(key) for key in self.keys], dtype=np.uint64)
        self.frame = np.zeros(PLACES, dtype=np.uint64)
        self.place = self.frame.ctypes.data
        self.kind: Any = DenseFrame() if self.dense else SparseFrame()
        self.numbers: Any = None
        self.learn: Any = None
        self.score: Any = None
        self.learning: tuple[Any, ...] = ()
        self.scoring: tuple[Any, ...] = ()

    def bind(self, head: Any) -> None:
        """Write down where this head's state lies; layouts are dropped when it moves."""
        ends: Any = self.key_places if self.dense else self.rows.indptr
        self.held = (self.values, self.key_places, self.cells, self.columns, ends, head.table, head.numbers)
        self.numbers = head.numbers
        for at, array in zip((VALUES, KEYS, CELLS, COLUMNS, ENDS, TABLE, NUMBERS), self.held):
            self.frame[at] = array.ctypes.data
        self.frame[SIZE], self.frame[TABLE_WIDTH] = self.size, head.table.shape[1]
        teach(self.kind)

    def bind_learn(self, share: Any, loss: Any, geometry: Any, general: Any) -> None:
        """The compiled entry that learns; without a compiler every example goes the long way."""
        if not PLAIN:
            self.learning = (self.kind, share, loss, geometry, general)
            self.learn = direct(learn_dict, 0, self.place, 0.0, *self.learning)

    def bind_score(self, general: Any) -> None:
        """The compiled entry that predicts."""
        if not PLAIN:
            self.scoring = (self.kind, general)
            self.score = direct(score_dict, 0, self.place, *self.scoring)

    def fill(self, features: dict[str, Any]) -> None:
        """Write the values."""
        found = self.take(features)
        try:
            self.pack(self.values, 0, *found)
        except struct.error:
            for name, value in zip(self.keys, found):
                if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
                    raise DataError(
                        f"feature {name!r} is {value!r}, not a number; give numbers, or encode it first",
                        where=str(name),
                    ) from None
            self.values[:] = [float(value) for value in found]
