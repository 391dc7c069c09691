"""The block of numbers that flows from the readers to every learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Columns:
    """Columns of float64 numbers that lie apart, as in an Arrow table: rows are put together only where they are used.

    It is read like an array of two dimensions: ``[rows]`` copies rows, ``[rows, j]`` is a part of a column.

    >>> table = Columns([np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])])
    >>> table.shape, table[1:].tolist(), table[:2, 1].tolist()
    ((3, 2), [[2.0, 5.0], [3.0, 6.0]], [4.0, 5.0])
    """

    dtype = np.dtype(np.float64)

    def __init__(self, columns: Sequence[np.ndarray]) -> None:
        self.columns = tuple(columns)
        self.shape = (len(self.columns[0]), len(self.columns))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, place: Any) -> np.ndarray:
        if isinstance(place, tuple):
            rows, j = place
            return self.columns[j][rows]
        return np.array([column[place] for column in self.columns]).T

    def gather(self, rows: Any, out: np.ndarray) -> None:
        """Column j of these rows (a slice or their numbers) into ``out[j]``."""
        for column, line in zip(self.columns, out):
            if isinstance(rows, slice):
                line[:] = column[rows]
            else:
                column.take(rows, out=line, mode="clip")


class Block(NamedTuple):
    """Some rows of the design: ``X`` float64, C-ordered, one column a term; the rest only where it is known.

    ``terms`` names the columns of X and may grow from block to block (a new categorical level): a term that an
    earlier block lacks was 0 in all of its rows. On request X may be :class:`Columns`, where nothing had to be done
    to them.
    """

    terms: tuple[str, ...]
    X: Any
    y: np.ndarray | None = None
    weights: np.ndarray | None = None
    folds: np.ndarray | None = None
