"""Rows of named features: a dict becomes a row of the loop.

Layouts are remembered by their keys and ordered by column, whatever the order of the dict. ``read`` takes plain numbers
under the very keys; what it cannot use (a key that is missing, a value that is not a number) goes through ``fill``,
which finds the words.
"""

from __future__ import annotations

import struct
from operator import itemgetter
from typing import Any

import numpy as np

from ..data.rounding import EXACT, refuse_rounded_fields
from ..data.row_access import Rows
from ..errors import DataError
from .inputs import refuse_bad_rows
from .learning_loop import Examples


def filled(features: Any) -> np.ndarray:
    """The values of an example in its own order, each a finite number."""
    layout = Layout(list(features), list(range(len(features))), len(features))
    layout.fill(features)
    refuse_bad_rows(layout.values[None, :], layout.keys)
    return layout.values


class Layout:
    """The buffers of one set of keys, in the order of their columns."""

    __slots__ = (
        "columns",
        "dense",
        "example",
        "keys",
        "out",
        "pack",
        "rows",
        "share",
        "size",
        "take",
        "values",
        "weighted",
        "y",
    )

    def __init__(self, keys: list[str], columns: list[int], width: int) -> None:
        pairs = sorted(zip(columns, keys))
        self.keys = [key for _, key in pairs]
        self.columns = np.array([column for column, _ in pairs], dtype=np.int32)
        self.size = len(keys)
        self.dense = self.columns.tolist() == list(range(width))
        self.values: Any = np.zeros(self.size)
        self.take: Any = itemgetter(*self.keys) if self.size > 1 else lambda row: tuple(row[key] for key in self.keys)
        self.pack = struct.Struct(f"{self.size}d").pack_into
        shape = 1, width
        self.rows = Rows(self.values, shape) if self.dense else Rows(self.values, shape, self.columns, [0, self.size])
        # These arrays are the very memory that the loop reads.
        self.y, self.share, self.out = np.zeros(1), np.ones(1), np.zeros(1)
        self.example, self.weighted = Examples(self.rows, self.y), Examples(self.rows, self.y, self.share)

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
