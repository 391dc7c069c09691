"""Rows of named features: a dict becomes a row of the engine without a loop in Python.

Layouts are remembered by their keys and ordered by column, whatever the order of the dict. ``learn_dict`` and
``score_dict`` read the dict itself (_dicts.py): one call an example. Whatever they cannot use (a key that is missing, a
value that is not a number, an overflow, a round after which a record of progress is due) they answer with NaN and an
unchanged state; the long way then does it, or finds the words.
"""

from __future__ import annotations

import math
import struct
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from .._dicts import doubles, holding, indices, read_dict, usable, words
from .._jit import direct, teach
from ..data.rounding import EXACT, refuse_rounded_fields
from ..data.rows import Dense, Sparse
from ..errors import DataError
from . import state as s
from .engine import NO_ORDER, learn, scores
from .inputs import refuse_bad_rows

# Places in a frame: where a layout's buffers and a head's state lie, and how large they are.
SIZE, VALUES, KEYS, SPOTS, CELLS, COLUMNS, ENDS, TABLE, TABLE_WIDTH, NUMBERS, DUE, PLACES = range(12)


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
    if not read_dict(features, words(frame[KEYS], frame[SIZE]), words(frame[SPOTS], frame[SIZE]), values):
        return math.nan
    rows = kind.rows(frame, values)
    table = doubles(frame[TABLE], s.TABLE_ROWS, frame[TABLE_WIDTH])
    numbers = doubles(frame[NUMBERS], 1, s.NUMBERS)[0]
    if numbers[s.ROUNDS] + 1.0 >= doubles(frame[DUE], 1, 1)[0, 0]:
        return math.nan
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
    if not read_dict(features, words(frame[KEYS], frame[SIZE]), words(frame[SPOTS], frame[SIZE]), values):
        return math.nan
    rows = kind.rows(frame, values)
    table = doubles(frame[TABLE], s.TABLE_ROWS, frame[TABLE_WIDTH])
    numbers = doubles(frame[NUMBERS], 1, s.NUMBERS)[0]
    out = doubles(frame[CELLS], 2, 1)[1]
    return out[0] if scores(rows, 0, 1, general, table, numbers, out) == 1 else math.nan


def filled(features: Any) -> np.ndarray:
    """The values of an example in its own order, each a finite number."""
    layout = Layout(list(features), list(range(len(features))), len(features))
    layout.fill(features)
    refuse_bad_rows(layout.values[None, :], layout.keys)
    return layout.values  # type: ignore[no-any-return]


class Layout:
    """The buffers of one set of keys, in the order of their columns, and the compiled entries that read them."""

    __slots__ = (
        "c", "cells", "columns", "dense", "frame", "given", "held", "key_places", "keys", "kind", "learn", "out", "pack",
        "place", "quick_learn", "quick_score", "rows", "score", "share", "size", "spots", "take", "values", "y",
    )  # fmt: skip

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
        # For compiled code: the keys in the order of the dict, and the place of each in the order of the columns.
        self.given = list(keys)
        self.key_places = np.array([id(key) for key in self.given], dtype=np.uint64)
        self.spots = np.argsort(np.argsort(columns, kind="stable"), kind="stable").astype(np.uint64)
        self.frame = np.zeros(PLACES, dtype=np.uint64)
        self.place = self.frame.ctypes.data
        self.kind: Any = DenseFrame() if self.dense else SparseFrame()
        self.share: Any = None
        self.learn: Any = None
        self.score: Any = None
        # Entry, size and arguments in one tuple: an example then pays for one look, not for eight.
        self.quick_learn: tuple[Any, ...] | None = None
        self.quick_score: tuple[Any, ...] | None = None

    def bind(self, head: Any, due: np.ndarray) -> None:
        """Write down where this head's state lies, and the round after which a record is due; layouts are dropped when
        it moves."""
        ends: Any = self.key_places if self.dense else self.rows.indptr
        self.held = (
            self.values, self.key_places, self.spots, self.cells, self.columns, ends, head.table, head.numbers, due,
        )  # fmt: skip
        for at, array in zip((VALUES, KEYS, SPOTS, CELLS, COLUMNS, ENDS, TABLE, NUMBERS, DUE), self.held):
            self.frame[at] = array.ctypes.data
        self.frame[SIZE], self.frame[TABLE_WIDTH] = self.size, head.table.shape[1]
        teach(self.kind)

    def bind_learn(self, share: Any, loss: Any, geometry: Any, general: Any) -> None:
        """The compiled entry that learns; where dicts cannot be read every example goes the long way."""
        if usable():
            self.share = share
            self.learn = direct(learn_dict, 0, self.place, 0.0, self.kind, share, loss, geometry, general)
            self.quick_learn = (self.learn, self.size, self.place, self.kind, share, loss, geometry, general)

    def bind_score(self, general: Any) -> None:
        """The compiled entry that predicts."""
        if usable():
            self.score = direct(score_dict, 0, self.place, self.kind, general)
            self.quick_score = (self.score, self.size, self.place, self.kind, general)

    def fill(self, features: dict[str, Any]) -> None:
        """Write the values."""
        found = self.take(features)
        try:
            self.pack(self.values, 0, *found)
        except (struct.error, OverflowError):
            for k, (name, value) in enumerate(zip(self.keys, found)):
                if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
                    raise DataError(
                        f"feature {name!r} is {value!r}, not a number; give numbers, or encode it first",
                        where=str(name),
                    ) from None
                try:
                    self.values[k] = float(value)
                except OverflowError:
                    raise DataError(
                        f"feature {name!r} is too large for a float; give finite numbers", where=str(name)
                    ) from None
        if np.abs(self.values).max(initial=0.0) >= EXACT:
            refuse_rounded_fields(features)
