"""Rows of named features: a dict becomes a row of the engine without a loop in Python.

Layouts are remembered by their keys and ordered by column, whatever the order of the dict; then a row costs one
``itemgetter`` and one ``struct`` call, which writes its values into the buffer that the compiled code reads.
"""

from __future__ import annotations

import struct
from operator import itemgetter
from typing import Any

import numpy as np

from .._jit import teach
from ..data.rows import Dense, Sparse
from ..errors import DataError


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
        self.learn: Any = None
        self.scores: Any = None

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
