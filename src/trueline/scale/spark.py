"""Spark's dataframes, classic or over Connect: ``mapInArrow`` makes one row of bytes a partition. No RDD is used.

Rows of bytes come to the driver and are merged there in the common tree. Where a thousand of them would not fit
comfortably on a driver, executors first merge groups of 32 (``applyInArrow``). Spark takes the rows of each task once,
whichever attempt finished first, so that a retried or speculative task never counts twice.

Handing rows to Python is most of a job. Where they are those of Parquet files the workers read these themselves
(``spark_files``). Elsewhere, as Spark writes an Arrow column at a time for each row, a table of doubles is handed over as one
array a row, which costs about half and arrives as a matrix, in batches that stay in the processor's cache.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import DataError, UsageError
from .spark_files import ELSEWHERE, Piece, Rows, parts_of
from .spark_workers import hastened
from .tables import Task, answer, merged, opened, plain_errors, tree

ANSWER = "number int, answer binary"
GROUP = 32
DRIVER_BYTES = 1 << 28  # a thousand answers may take this much of the driver's memory
BATCH_BYTES = 1 << 23  # Arrow batches are joined up to this size: Spark's own are small
ROWS_BYTES = 1 << 20  # and those of arrays up to this one: they are not made into tables
HANDED_BYTES = 1 << 19  # of a batch of arrays: what Spark writes it in stays in the cache


class SparkTable:
    """A Spark dataframe."""

    describe = "the Spark table"

    def __init__(self, source: Any) -> None:
        import polars as pl

        if type(source).__name__ != "DataFrame":
            raise UsageError(f"a Spark {type(source).__name__} is not a table; give a Spark dataframe", where="source")
        self.source = source
        empty: Any = pl.from_arrow(_arrow_schema(source.schema).empty_table())
        self.declared: dict[str, Any] = dict(empty.schema)
        self.types = {field.name: field.dataType.simpleString() for field in source.schema.fields}
        self.parts: list[list[Piece]] | None = None  # of files, where the workers read them
        self.jobs = 0

    def select(self, columns: Sequence[str]) -> SparkTable:
        table = copy.copy(self)  # Spark is told when it hands rows over: files are read by column anyhow
        table.declared = {name: self.declared[name] for name in columns}
        table.types = {name: self.types[name] for name in columns}
        return table

    def keep(self, options: dict[str, Any]) -> SparkTable:
        """Itself: to hand the encoded rows back, and over again at every job, costs more than to encode them again."""
        return self

    def combine(self, task: Task, size: int) -> bytes:
        with plain_errors("Spark"):
            if getattr(task, "in_order", False):  # it is the user who divides and orders such rows
                return opened(tree(task, self._handed_over(task, size)))
            if self.jobs == 0:
                self.parts = parts_of(self.source, self.types)
            self.jobs += 1
            found = None if self.parts is None else self._read(task, size, self.parts)
            if found is None:
                self.parts, found = None, self._handed_over(task, size)
            return opened(tree(task, found))

    def _read(self, task: Task, size: int, parts: list[list[Piece]]) -> list[bytes] | None:
        """The answers of workers that read the files; None where one of them does not see what was listed."""
        numbers = self.source.sparkSession.range(0, len(parts), 1, len(parts))
        found = _answers(numbers.mapInArrow(_Read(task, parts, self.types), ANSWER), task, size)
        if ELSEWHERE not in found:
            return found
        if self.jobs > 1:  # earlier jobs counted in other partitions, and perhaps other rows
            raise DataError(
                "the files of the Spark table changed during the fit, or a worker does not see them; fit again",
                where="source",
            )
        return None

    def _handed_over(self, task: Task, size: int) -> list[bytes]:
        """The answers of workers to which Spark gives its rows."""
        names, width = list(map(_quoted, self.declared)), 0
        if all(str(dtype) == "Float64" for dtype in self.declared.values()):
            names, width = [f"array({', '.join(names)}) AS row"], len(names)
        rows = self.source.selectExpr(*names)
        with _batches_of(rows.sparkSession, max(256, HANDED_BYTES // (8 * width)) if width else 0):
            return _answers(rows.mapInArrow(_Mapped(task, width), ANSWER), task, size)

    def head(self, rows: int) -> Any:
        import polars as pl

        with plain_errors("Spark"):
            return pl.from_arrow(self.source.limit(rows).toArrow())

    def predicted(self, predictor: Any) -> Any:
        """The frame with more columns; nothing runs until it is asked for."""
        from pyspark.sql.types import StructField, StructType

        made = predictor.columns
        for name in made:
            if name in self.declared:
                raise UsageError(f"the table has a column {name!r} already; rename or drop it", where=name)
        added = [StructField(name, _spark_type(dtype), True) for name, dtype in made.items()]
        schema = StructType([*self.source.schema.fields, *added])
        return self.source.mapInArrow(_Predicted(predictor), schema)


class _Mapped:
    """A partition's batches to one row with its answer."""

    def __init__(self, task: Task, width: int) -> None:
        self.task, self.width = task, width

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        number = _number()
        with hastened():
            pieces = _matrices(batches, self.width) if self.width else _tables(batches)
            yield _row(number, answer(self.task, number, pieces))


class _Read:
    """A partition's number to one row with the answer of the files' rows that it stands for."""

    def __init__(self, task: Task, parts: list[list[Piece]], types: dict[str, str]) -> None:
        self.task, self.parts, self.types = task, parts, types

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        number = _number()
        with hastened():
            for _ in batches:
                pass  # a worker that leaves rows unread is not used again
            rows = Rows(number, self.parts[number], self.types)
            raw = answer(self.task, number, rows)
            rows.check()
            yield _row(number, ELSEWHERE if rows.elsewhere else raw)


def _answers(answers: Any, task: Task, size: int) -> list[bytes]:
    """The rows of bytes in the order of their partitions; large ones merged by groups first."""
    if size * 1000 > DRIVER_BYTES:
        from pyspark.sql.functions import col, floor

        grouped = answers.groupBy(floor(col("number") / GROUP))
        answers = grouped.applyInArrow(_merger(task), ANSWER)
    found = answers.toArrow().sort_by("number")
    assert len(found.column("number").unique()) == len(found), "Spark gave the answer of a partition twice"
    return list(found.column("answer").to_pylist())


@contextlib.contextmanager
def _batches_of(session: Any, rows: int) -> Iterator[None]:
    """Arrow batches of at most this many rows, for one query; 0 leaves them as they are."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = int(session.conf.get(name)) if rows else 0
    if not rows or 0 < before <= rows:
        yield
        return
    session.conf.set(name, rows)
    try:
        yield
    finally:
        session.conf.set(name, before)


def _merger(task: Task) -> Callable[[Any], Any]:
    """A group's rows to one. Spark counts the arguments of a function, and would count an object's self as a key."""

    def merge(table: Any) -> Any:
        import pyarrow

        rows = table.sort_by("number")
        answers = rows.column("answer").to_pylist()
        made = ELSEWHERE if ELSEWHERE in answers else merged(task, answers)
        return pyarrow.Table.from_batches([_row(rows.column("number")[0].as_py(), made)])

    return merge


class _Predicted:
    """Batches with their predictions beside them."""

    def __init__(self, predictor: Any) -> None:
        self.predictor = predictor

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            found = self.predictor.values(batch.to_pandas(), _number())
            if found.dtype.kind in "USO":
                found = found.astype(str).astype(object)
            columns = [found] if found.ndim == 1 else list(found.T)
            yield pyarrow.RecordBatch.from_arrays(
                [*batch.columns, *(pyarrow.array(column) for column in columns)],
                names=[*batch.schema.names, *self.predictor.columns],
            )


def _number() -> int:
    """The partition that this task is about."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _row(number: int, raw: bytes) -> Any:
    import pyarrow

    columns = [pyarrow.array([number], pyarrow.int32()), pyarrow.array([raw], pyarrow.binary())]
    return pyarrow.RecordBatch.from_arrays(columns, names=["number", "answer"])


def _tables(batches: Iterator[Any]) -> Iterator[Any]:
    """Arrow batches as Polars frames of a useful size."""
    import polars as pl
    import pyarrow

    waiting: list[Any] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= BATCH_BYTES:
            yield pl.from_arrow(pyarrow.Table.from_batches(waiting))
            waiting, size = [], 0
    if waiting:
        yield pl.from_arrow(pyarrow.Table.from_batches(waiting))


def _matrices(batches: Iterator[Any], width: int) -> Iterator[np.ndarray]:
    """Arrow batches of arrays as matrices, NaN where an entry is null."""
    waiting: list[np.ndarray] = []
    size = 0
    for batch in batches:
        waiting.append(batch.column(0).flatten().to_numpy(zero_copy_only=False).reshape(-1, width))
        size += waiting[-1].nbytes
        if size >= ROWS_BYTES:
            yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
            waiting, size = [], 0
    if waiting:
        yield np.concatenate(waiting)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _arrow_schema(schema: Any) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema)


def _spark_type(dtype: np.dtype) -> Any:
    from pyspark.sql import types

    return {"f": types.DoubleType, "i": types.LongType, "u": types.LongType, "b": types.BooleanType}.get(
        dtype.kind, types.StringType
    )()
