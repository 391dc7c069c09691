"""Spark's Arrow batches as the pieces that a partition's task reads: Polars frames, or matrices where all is doubles.

Doubles come as arrays, one of each column of vectors and one of all other columns, in batches that stay in the processor's
cache; they are joined to a useful size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError
from .vectors import Packed

BATCH_BYTES = 1 << 23  # Arrow batches are joined up to this size: Spark's own are small
ROWS_BYTES = 1 << 23, 1 << 26  # of arrays: this much, and up to that for the rows that a first look at columns wants
HANDED_BYTES = 1 << 19  # of a batch of arrays: what Spark writes it in stays in the cache


class Layout(NamedTuple):
    """Batches of arrays: the columns they stand for, how long each is, and which entries are taken (None: all)."""

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    taken: tuple[int, ...] | None = None

    @property
    def width(self) -> int:
        """The columns of a matrix."""
        return sum(self.widths) if self.taken is None else len(self.taken)

    def put(self, batch: Any, out: np.ndarray, describe: str, before: int) -> None:
        """A batch into rows of a matrix, NaN where an entry or a whole array is null; ``before`` are earlier rows."""
        place = 0
        whole = out if self.taken is None else np.empty((len(out), sum(self.widths)))
        for column, width, name in zip(batch.columns, self.widths, self.columns, strict=True):
            whole[:, place : place + width] = rows_of(column, width, name, describe, before)
            place += width
        if self.taken is not None:
            out[:] = whole[:, list(self.taken)]


def rows_of(column: Any, width: int, name: str, describe: str, before: int = 0) -> np.ndarray:
    """An Arrow array of lists as a matrix of this width, NaN where something is null; other lengths are refused."""
    lengths = np.diff(column.offsets.to_numpy())
    given = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else np.ones(len(column), dtype=bool)
    wrong = given & (lengths != width)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DataError(
            f"column {name!r} holds {lengths[k]} numbers in row {before + k + 1} of {describe} and {width} elsewhere; "
            "give vectors of one length",
            where=name,
        )
    values = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    if not column.null_count:
        return values
    rows = np.full((len(column), width), np.nan)
    rows[given] = values
    return rows


def renamed(batch: Any, names: list[str]) -> Any:
    """A batch with its columns called as they are in the user's table."""
    import pyarrow

    return pyarrow.RecordBatch.from_arrays(batch.columns, names=names)


def tables(batches: Iterator[Any], packed: list[Packed], describe: str) -> Iterator[Any]:
    """Arrow batches as Polars frames of a useful size."""
    waiting: list[Any] = []
    size = before = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= BATCH_BYTES:
            yield frame(waiting, packed, describe, before)
            before += sum(len(one) for one in waiting)
            waiting, size = [], 0
    if waiting:
        yield frame(waiting, packed, describe, before)


def frame(batches: Sequence[Any], packed: list[Packed], describe: str, before: int = 0) -> Any:
    """Arrow batches as one Polars frame, the entries of arrays as columns."""
    import polars as pl
    import pyarrow

    table = pyarrow.Table.from_batches(batches)
    made: list[Any] = []
    for one in packed:
        values = table.column(one.column).combine_chunks()
        matrix = rows_of(values, len(one.names), one.column, describe, before)
        made += [
            pl.Series(name, np.ascontiguousarray(column)) for name, column in zip(one.names, matrix.T, strict=True)
        ]
        table = table.drop_columns([one.column])
    if not table.num_columns:
        return pl.DataFrame(made)
    plain: Any = pl.from_arrow(table)
    return plain.with_columns(made) if made else plain


def layout_of(packed: list[Packed], plain: list[str], declared: list[str]) -> Layout:
    """How batches of arrays hold the declared columns: one array of each packed column, and one of all others."""
    held = [name for one in packed for name in one.names] + plain
    columns, widths = [one.column for one in packed], [len(one.names) for one in packed]
    if plain:
        columns, widths = [*columns, "row"], [*widths, len(plain)]
    place = {name: k for k, name in enumerate(held)}
    taken = None if held == declared else tuple(place[name] for name in declared)
    return Layout(tuple(columns), tuple(widths), taken)


def batch_rows(width: int) -> int:
    """The rows of a batch of arrays."""
    return max(256, HANDED_BYTES // (8 * width))


def _rows_together(width: int) -> int:
    """The rows of a matrix: a dozen a column, by which a task judges what products its columns need, as far as they fit."""
    usual, most = (size // (8 * width) for size in ROWS_BYTES)
    return max(1, usual, min(12 * width, most))


def matrices(batches: Iterator[Any], layout: Layout, describe: str) -> Iterator[np.ndarray]:
    """Arrow batches of arrays as matrices, NaN where an entry is null; the next takes the place of the one before."""
    room = np.empty((_rows_together(layout.width), layout.width))
    filled = before = 0
    for batch in batches:
        rows = batch.num_rows
        if filled and filled + rows > len(room):
            yield room[:filled]
            filled = 0
        if rows > len(room):
            room = np.empty((rows, layout.width))
        layout.put(batch, room[filled : filled + rows], describe, before)
        filled, before = filled + rows, before + rows
    if filled:
        yield room[:filled]
