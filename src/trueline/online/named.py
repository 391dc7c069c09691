"""Rows of named features: a dict becomes a row of the engine without a loop in Python.

The order of a dict's keys decides its layout, so layouts are remembered by their keys; then a row costs one
``struct`` call that writes its values into the buffer that the compiled code reads.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from .._jit import teach
from ..data.rows import Dense, Sparse
from ..errors import DataError


class Layout:
    """The buffers of one tuple of keys, and the compiled entries that read them."""

    def __init__(self, keys: tuple[str, ...], columns: list[int], width: int) -> None:
        self.keys = keys
        self.columns = np.array(columns, dtype=np.int32)
        self.y, self.c, self.out = np.zeros(1), np.ones(1), np.zeros(1)
        self.dense = columns == list(range(width))
        self.values: Any = np.zeros(len(keys))
        self.packer = struct.Struct(f"{len(keys)}d")
        dense: Any = Dense
        sparse: Any = Sparse
        self.rows: Any = (
            dense(self.values.reshape(1, -1))
            if self.dense
            else sparse(self.values, self.columns, np.array([0, len(keys)], dtype=np.int64))
        )
        teach(self.rows)
        self.learn: Any = None
        self.scores: Any = None

    def fill(self, features: dict[str, Any]) -> None:
        """Write the values."""
        try:
            self.packer.pack_into(self.values, 0, *features.values())
        except struct.error:
            for name, value in features.items():
                if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
                    raise DataError(
                        f"feature {name!r} is {value!r}, not a number; give numbers, or encode it first",
                        where=str(name),
                    ) from None
            self.values[:] = [float(value) for value in features.values()]
