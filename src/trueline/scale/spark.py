"""Spark's dataframes, classic or over Connect: ``mapInArrow`` makes one row of bytes a partition. No RDD is used.

Rows of bytes come to the driver and are merged there in the common tree. Where they would not fit comfortably on a driver
(those of a thousand partitions, where it is not known how many there are), executors first merge groups of 32 (``applyInArrow``). Spark takes the rows of each task once,
whichever attempt finished first, so that a retried or speculative task never counts twice.

Handing rows to Python is most of a job. As Spark writes an Arrow column at a time for each row, a table of doubles is
handed over as one array per row, which costs about half and arrives as a matrix, in batches that stay in the processor's
cache. Columns of vectors or arrays (``vectors``) are such arrays already.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from .spark_batches import Layout, batch_rows, frame, layout_of, matrices, renamed, rows_of, tables
from .tables import Task, answer, label_type, merged, opened, plain_errors, tree
from .vectors import Packed, found_in, joined, quoted
from .vectors import opened as unpacked_column

ANSWER = "number int, answer binary"
GROUP = 32
DRIVER_BYTES = 1 << 28  # all answers may take this much of the driver's memory
MANY = 1000  # partitions of a table of which it is not known


class SparkTable:
    """A Spark dataframe."""

    describe = "the Spark table"

    def __init__(self, source: Any) -> None:
        import polars as pl

        if type(source).__name__ != "DataFrame":
            raise UsageError(f"a Spark {type(source).__name__} is not a table; give a Spark dataframe", where="source")
        self.source = source
        _check_names(source)
        plain, self.stuck = _movable(source.schema)
        empty: Any = pl.from_arrow(_arrow_schema(plain).empty_table())
        self.declared: dict[str, Any] = {
            name: pl.Object() if name in self.stuck else empty.schema[name] for name in source.columns
        }
        self.types = {field.name: field.dataType.simpleString() for field in source.schema.fields}
        self.packed: list[Packed] = []  # columns of vectors whose entries are declared
        self.partitions = 0  # known after the first job

    def unpacked(self, options: dict[str, Any]) -> tuple[SparkTable, dict[str, Any]]:
        """With the entries of vectors as columns: of those that the features name, or of all."""
        able, features = found_in(self.source), options.get("features")
        if isinstance(features, str):
            features = [features]
        used = [options.get(name) for name in ("target", "weights", "group")]
        wanted = [name for name in able if (name not in used if features is None else name in features)]
        if not wanted:
            return self, options
        with plain_errors("Spark"):
            packed = [unpacked_column(self.source, name, able[name]) for name in wanted]
        everything = features is None and options.get("formula") is None
        strict = [*self.declared] if everything else [*used, *(features or ())]
        entries = {one.column: one.names for one in packed}
        if features is not None:
            options = options | {"features": [entry for name in features for entry in entries.get(name, (name,))]}
        return self._with(packed, [name for name in strict if name is not None]), options

    def readable(self, names: Sequence[str] | None) -> SparkTable:
        """With these columns, where they are entries of vectors."""
        lacking = set(names or ()) - self.declared.keys()
        if not lacking:
            return self
        with plain_errors("Spark"):
            able = found_in(self.source)
            packed = [unpacked_column(self.source, name, vector, lacking) for name, vector in able.items()]
        return self._with([one for one in packed if not lacking.isdisjoint(one.names)], [])

    def _with(self, packed: list[Packed], strict: list[str]) -> SparkTable:
        table = copy.copy(self)
        table.packed, table.declared = packed, joined(self.declared, packed, strict)
        table.types = {name: self.types.get(name, "packed") for name in table.declared}
        table.types |= dict.fromkeys((name for one in packed for name in one.names), "packed")
        return table

    def select(self, columns: Sequence[str]) -> SparkTable:
        table = copy.copy(self)  # Spark is told when it hands rows over: files are read by column anyhow
        table.declared = {name: self.declared[name] for name in columns}
        table.types = {name: self.types[name] for name in columns}
        table.packed = [one for one in self.packed if not table.declared.keys().isdisjoint(one.names)]
        return table

    def keep(self, options: dict[str, Any]) -> SparkTable:
        """Itself: to hand the encoded rows back, and over again at every job, costs more than to encode them again."""
        return self

    def combine(self, task: Task, size: int) -> bytes:
        with plain_errors("Spark"):
            return opened(tree(task, self._handed_over(task, size)))

    def _handed_over(self, task: Task, size: int) -> list[bytes]:
        """The answers of workers to which Spark gives its rows."""
        from pyspark.sql.functions import array, col

        apart = {name for one in self.packed for name in one.names}
        plain = [name for name in self.declared if name not in apart]
        # Spark finds its columns again by their names, in which a dot or a backtick would mislead it.
        columns = [one.values(f"_array_{k}") for k, one in enumerate(self.packed)]
        layout = None
        if all(str(dtype) == "Float64" for dtype in self.declared.values()):
            layout = layout_of(self.packed, plain, list(self.declared))
            columns += [array(*(col(quoted(name)) for name in plain)).alias("row")] if plain else []
        else:
            columns += [col(quoted(name)).alias(f"_{k}") for k, name in enumerate(plain)]
        rows = self.source.select(*columns)
        with _batches_of(rows.sparkSession, batch_rows(sum(layout.widths)) if layout else 0):
            mapped = rows.mapInArrow(_Mapped(task, layout, self.packed, plain), ANSWER)
            return self._answers(mapped, task, size, self.partitions or MANY)

    def _answers(self, answers: Any, task: Task, size: int, partitions: int) -> list[bytes]:
        """The rows of bytes in the order of their partitions; where all together are large, merged by groups first."""
        large = size * partitions > DRIVER_BYTES
        if large:
            from pyspark.sql.functions import col, floor

            grouped = answers.groupBy(floor(col("number") / GROUP))
            answers = grouped.applyInArrow(_merger(task), ANSWER)
        found = answers.toArrow().sort_by("number")
        numbers = found.column("number").to_pylist()
        assert len(set(numbers)) == len(numbers), "Spark gave the answer of a partition twice"
        self.partitions = max(numbers, default=0) + (GROUP if large else 1)
        return list(found.column("answer").to_pylist())

    def label_type(self, target: str) -> type:
        return label_type(self.declared[target])

    def head(self, rows: int) -> Any:
        import polars as pl

        held = {*self.stuck, *(one.column for one in self.packed)}
        columns = [quoted(name) for name in self.source.columns if name not in held]
        values = [one.values(one.column) for one in self.packed]
        with plain_errors("Spark"):
            found = self.source.limit(rows).select(*columns, *values).toArrow()
            batches = found.combine_chunks().to_batches()
            return frame(batches, self.packed, "the first rows") if batches else pl.from_arrow(found)

    def predicted(self, predictor: Any) -> Any:
        """The frame with more columns; nothing runs until it is asked for."""
        from pyspark.sql.functions import col
        from pyspark.sql.types import StructField, StructType

        made = predictor.columns
        _check_names(self.source, tuple(made))
        if self.stuck:
            name = self.stuck[0]
            raise UsageError(
                f"column {name!r} has type {self.types[name]}, which Spark does not hand over to Python; drop it",
                where=name,
            )
        added = [StructField(name, _spark_type(dtype), True) for name, dtype in made.items()]
        schema = StructType([*self.source.schema.fields, *added])
        source = self.source
        for k, one in enumerate(self.packed):  # its entries come last, and go no further
            source = source.withColumn(f"_entries_{k}", one.values(f"_entries_{k}"))
        names = list(source.columns)
        plain = source.select(*(col(quoted(name)).alias(f"_{k}") for k, name in enumerate(names)))
        return plain.mapInArrow(_Predicted(predictor, self.packed, names), schema)


def _movable(schema: Any) -> tuple[Any, list[str]]:
    """(the columns that Arrow has types for, the names of the others)"""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.types import StructType

    try:
        _arrow_schema(schema)
        return schema, []
    except PySparkTypeError:
        pass
    plain, stuck = [], []
    for field in schema.fields:
        try:
            _arrow_schema(StructType([field]))
            plain.append(field)
        except PySparkTypeError:
            stuck.append(field.name)
    return StructType(plain), stuck


def _check_names(source: Any, made: Sequence[str] = ()) -> None:
    """Refuse columns that Spark cannot tell apart by their names, or from those to be ``made``."""
    exact = str(source.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    seen: dict[str, str] = {}
    new = {name if exact else name.lower() for name in made}
    for name in source.columns:
        if not name:
            raise UsageError("the Spark table has a column without a name; give it one", where="source")
        if (name if exact else name.lower()) in new:
            raise UsageError(f"the table has a column {name!r} already; rename or drop it", where=name)
        before = seen.setdefault(name if exact else name.lower(), "")
        if before:
            told = (
                f"two columns named {name!r}"
                if before == name
                else f"columns {before!r} and {name!r}, one name to Spark"
            )
            raise UsageError(f"the Spark table has {told}; rename or drop one of them", where=name)
        seen[name if exact else name.lower()] = name


class _Mapped:
    """A partition's batches to one row with its answer."""

    def __init__(self, task: Task, layout: Layout | None, packed: list[Packed], plain: list[str]) -> None:
        self.task, self.layout, self.packed, self.plain = task, layout, packed, plain

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        number = _number()
        described = f"partition {number}"
        if self.layout is not None:
            pieces = matrices(batches, self.layout, described)
        else:
            names = [*(one.column for one in self.packed), *self.plain]
            pieces = tables((renamed(batch, names) for batch in batches), self.packed, described)
        yield _row(number, answer(self.task, number, pieces))


@contextlib.contextmanager
def _batches_of(session: Any, rows: int) -> Iterator[None]:
    """Arrow batches of at most this many rows, for one query; 0 leaves them as they are.

    They are then small enough. A limit in bytes, which recent releases have, would cost them as much again: Spark adds up
    the size of a batch before every row.
    """
    name, limit = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"
    if not rows or 0 < int(session.conf.get(name)) <= rows:
        yield
        return
    before = {key: session.conf.get(key, None) for key in (name, limit)}
    try:
        session.conf.set(name, rows)
        session.conf.set(limit, 2**31 - 1)
        yield
    finally:
        for key, value in before.items():
            session.conf.unset(key) if value is None else session.conf.set(key, value)


def _merger(task: Task) -> Callable[[Any], Any]:
    """A group's rows to one. Spark counts the arguments of a function, and would count an object's self as a key."""

    def merge(table: Any) -> Any:
        import pyarrow

        rows = table.sort_by("number")
        answers = rows.column("answer").to_pylist()
        return pyarrow.Table.from_batches([_row(rows.column("number")[0].as_py(), merged(task, answers))])

    return merge


class _Predicted:
    """Batches with their predictions beside them."""

    def __init__(self, predictor: Any, packed: list[Packed], names: list[str]) -> None:
        self.predictor, self.packed, self.names = predictor, packed, names

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            rows, batch = self._rows(renamed(batch, self.names))
            found = self.predictor.values(rows, _number())
            if found.dtype.kind in "USO":
                found = found.astype(str).astype(object)
            columns = [found] if found.ndim == 1 else list(found.T)
            yield pyarrow.RecordBatch.from_arrays(
                [*batch.columns, *(pyarrow.array(column) for column in columns)],
                names=[*batch.schema.names, *self.predictor.columns],
            )

    def _rows(self, batch: Any) -> tuple[Any, Any]:
        """(what the model reads as a pandas frame, the batch as Spark has it)"""
        if not self.packed:
            return batch.to_pandas(), batch
        import pandas

        whole = len(batch.columns) - len(self.packed)
        held = {one.column for one in self.packed} | {name for one in self.packed for name in one.names}
        plain = [name for name in batch.schema.names[:whole] if name not in held]
        frames = [batch.select(plain).to_pandas()] if plain else []
        for one, values in zip(self.packed, batch.columns[whole:], strict=True):
            matrix = rows_of(values, len(one.names), one.column, f"partition {_number()}")
            frames.append(pandas.DataFrame(matrix, columns=list(one.names)))
        return pandas.concat(frames, axis=1), batch.select(batch.schema.names[:whole])


def _number() -> int:
    """The partition that this task is about."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _row(number: int, raw: bytes) -> Any:
    import pyarrow

    columns = [pyarrow.array([number], pyarrow.int32()), pyarrow.array([raw], pyarrow.binary())]
    return pyarrow.RecordBatch.from_arrays(columns, names=["number", "answer"])


def _arrow_schema(schema: Any) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")  # one must be given where there are timestamps


def _spark_type(dtype: np.dtype) -> Any:
    from pyspark.sql import types

    return {"f": types.DoubleType, "i": types.LongType, "u": types.LongType, "b": types.BooleanType}.get(
        dtype.kind, types.StringType
    )()
