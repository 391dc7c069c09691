"""A Spark dataframe that is nothing but Parquet files: Python workers read these themselves, past the JVM.

To hand a row over to Python costs Spark more than all that is done with it there. Where the plan shows that the rows are
those of listed files and no others, a job carries the list instead. Every condition is checked: the plan by its classes
(plain columns of one Parquet relation, no filter, no partition columns, no catalogue, no options), a cache by the listing
that it was made from, each file by the worker that reads it: size and time of change as Spark listed them, before and
after, and columns of exactly the declared types. Where anything differs a worker answers ``ELSEWHERE``, and Spark hands the
rows over as it does those of any other plan.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data.blocks import Columns

SETTING = "spark.trueline.files"  # of the session; "false" lets Spark hand over every row
ELSEWHERE = b"?"  # the answer of a worker that does not see the rows that were listed
PART_BYTES = 1 << 26  # of files that a task reads at most, as long as there are fewer than the most tasks
MOST_PARTS = 1 << 13
BATCH_BYTES = 1 << 26  # of rows that are decoded at a time

_PLANS = "org.apache.spark.sql.catalyst.plans.logical."
_SOURCES = "org.apache.spark.sql.execution.datasources."
_LISTED = re.compile(
    r"FileStatusWithMetadata\(LocatedFileStatus\{path=file:(/(?!/).+); isDirectory=false; length=([1-9]\d*); "
    r"replication=\d+; blocksize=\d+; modification_time=(\d+); [^{}]*\},Map\(\)\)"
)
# Spark's name of a type: what Parquet calls it (physical type, and the width of a signed integer), Arrow's name of it.
_TYPES = {
    "double": ("DOUBLE", 0, "double"), "float": ("FLOAT", 0, "float"), "bigint": ("INT64", 64, "int64"),
    "int": ("INT32", 32, "int32"), "smallint": ("INT32", 16, "int16"), "tinyint": ("INT32", 8, "int8"),
}  # fmt: skip


class Piece(NamedTuple):
    """One of several equal shares of a file's row groups, and the file as it was listed."""

    path: str
    size: int
    changed: int  # milliseconds
    share: int
    shares: int


def parts_of(frame: Any, types: dict[str, str]) -> list[list[Piece]] | None:
    """What each task reads; None where the rows of a dataframe are not provably those of Parquet files alone.

    ``types`` are its columns and Spark's names of their types.
    """
    if not types or not set(types.values()) <= set(_TYPES) or not hasattr(frame, "_jdf"):
        return None  # over Connect there is no plan to look at
    from py4j.protocol import Py4JError

    session = frame.sparkSession
    if session.conf.get(SETTING, "true").lower() != "true" or _by_number(session):
        return None
    try:
        listing = _listing(session, frame)
    except Py4JError:
        return None  # another Spark, whose plans are made otherwise
    files = None if listing is None else _files(listing)
    return None if files is None else _shared_out(files)


def _by_number(session: Any) -> bool:
    """Whether columns of Parquet are found by their numbers instead of their names."""
    return str(session.conf.get("spark.sql.parquet.fieldId.read.enabled", "false")).lower() != "false"


def _listing(session: Any, frame: Any) -> str | None:
    """The files, as Spark's own text; the plan that would run must lead to the same ones as the user's."""
    query = frame.select("*")._jdf.queryExecution()  # a new one, for an old one does not know of a later cache
    given, optimized = _files_behind(session, query.analyzed()), _below(query.optimizedPlan())
    if given is None or optimized is None:
        return None
    if _class(optimized) == "org.apache.spark.sql.execution.columnar.InMemoryRelation":
        # Its rows may have been read from an earlier state of the same folder.
        optimized = optimized.cacheBuilder().logicalPlan()
    return given if _files_behind(session, optimized) == given else None


def _files_behind(session: Any, plan: Any) -> str | None:
    node = _below(plan)
    if node is None or _class(node) != _SOURCES + "LogicalRelation":
        return None
    relation = node.relation()
    if _class(relation) != _SOURCES + "HadoopFsRelation" or not node.catalogTable().isEmpty() or node.isStreaming():
        return None
    location = relation.location()
    plain = (
        _class(relation.fileFormat()) == _SOURCES + "parquet.ParquetFileFormat"
        and _class(location) == _SOURCES + "InMemoryFileIndex"
        and relation.partitionSchema().length() == 0
        and location.partitionSchema().length() == 0
        and relation.bucketSpec().isEmpty()
        and set(relation.options().keySet().mkString("\n").split("\n")) <= {"", "path", "paths"}
    )
    if not plain:
        return None
    java = session._jvm
    nothing = java.org.apache.spark.api.python.PythonUtils.toSeq(java.java.util.ArrayList())
    folders = location.listFiles(nothing, nothing)
    return str(folders.apply(0).files().mkString("\n")) if folders.length() == 1 else None


def _below(plan: Any) -> Any:
    """What lies below a choice of columns; None where one of them is more than a column."""
    while _class(plan) == _PLANS + "Project":
        # An expression has an identity of its own, and a renamed one says AS.
        if not plan.outputSet().subsetOf(plan.child().outputSet()) or " AS " in plan.projectList().mkString("\n"):
            return None
        plan = plan.child()
    return plan


def _class(thing: Any) -> str:
    return str(thing.getClass().getName())


def _files(listing: str) -> list[tuple[str, int, int]] | None:
    """(path, size, milliseconds of the last change) of every file, by path; None where one is not local."""
    found = [_LISTED.fullmatch(line) for line in listing.split("\n")]
    files = sorted((match[1], int(match[2]), int(match[3])) for match in found if match is not None)
    return files if files and len({path for path, _, _ in files}) == len(found) else None


def _shared_out(files: Sequence[tuple[str, int, int]]) -> list[list[Piece]]:
    """Tasks of about the same size, which depend on the files alone: so do the bits of what comes of them.

    Their number is a power of two, as that of a cluster's processors mostly is: none of these waits for a last task.
    """
    total = sum(size for _, size, _ in files)
    number = 1
    while number < MOST_PARTS and number * PART_BYTES < total:
        number *= 2
    parts: list[list[Piece]] = [[] for _ in range(number)]
    before = 0.0
    for path, size, changed in files:
        shares = max(1, round(size * number / total))
        for share in range(shares):
            middle = before + size / shares / 2
            parts[int(number * middle / total)].append(Piece(path, size, changed, share, shares))
            before += size / shares
    return [part for part in parts if part]


class Rows:
    """The rows of a task's pieces, as a partition's tables; ``elsewhere`` says that they are not what was listed."""

    def __init__(self, number: int, pieces: Sequence[Piece], types: dict[str, str]) -> None:
        self.pieces, self.types = pieces, types
        self.elsewhere = False
        names = [os.path.basename(piece.path) for piece in pieces]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self.describe = f"partition {number} ({names[0]}{more})"

    def __iter__(self) -> Iterator[Any]:
        try:
            for piece in self.pieces:
                yield from self._read(piece)
        except Exception:  # whatever is wrong with a file is said by Spark, as ever
            self.elsewhere = True

    def check(self) -> None:
        """Look at the files once more, after they were read."""
        self.elsewhere = self.elsewhere or not all(map(_as_listed, self.pieces))

    def _read(self, piece: Piece) -> Iterator[Any]:
        import pyarrow.parquet as pq

        if not _as_listed(piece):
            self.elsewhere = True
            return
        with pq.ParquetFile(piece.path, pre_buffer=False) as file:
            if not _typed(file, self.types):
                self.elsewhere = True
                return
            groups = file.num_row_groups
            some = range(groups * piece.share // piece.shares, groups * (piece.share + 1) // piece.shares)
            if not some:
                return
            step = max(1024, BATCH_BYTES // (8 * len(self.types)))
            for batch in file.iter_batches(step, row_groups=list(some), columns=list(self.types), use_threads=False):
                yield self._piece(batch)

    def _piece(self, batch: Any) -> Any:
        import polars as pl
        import pyarrow

        columns = [batch.column(name) for name in self.types]
        if any(str(column.type) != _TYPES[kind][2] for column, kind in zip(columns, self.types.values(), strict=True)):
            raise TypeError("a column is not what it was declared to be")
        if set(self.types.values()) != {"double"}:
            return pl.from_arrow(pyarrow.Table.from_arrays(columns, names=list(self.types)))
        return Columns([_doubles(column) for column in columns])


def _doubles(column: Any) -> np.ndarray:
    """A column as it lies, or copied with NaN where an entry is null."""
    if column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=float)
    return np.frombuffer(column.buffers()[1], np.float64, len(column), 8 * column.offset)


def _as_listed(piece: Piece) -> bool:
    try:
        found = os.stat(piece.path)
    except OSError:
        return False
    return (found.st_size, found.st_mtime_ns // 1_000_000) == (piece.size, piece.changed)


def _typed(file: Any, types: dict[str, str]) -> bool:
    """Whether a file is flat and has these columns, of exactly these types; names that differ by case alone are not."""
    columns = [file.metadata.schema.column(k) for k in range(file.metadata.num_columns)]
    if len({column.path.lower() for column in columns}) < len(columns) or len(columns) != len(file.schema_arrow):
        return False
    found = {column.path: column for column in columns}
    for name, kind in types.items():
        column = found.get(name)
        if column is None or column.max_repetition_level or column.max_definition_level > 1:
            return False
        physical, bits, _ = _TYPES[kind]
        logical = str(column.logical_type)
        signed = f"Int(bitWidth={bits}, isSigned=true)"
        plain = logical == "None" and bits in (0, 32, 64)
        if column.physical_type != physical or not (plain or (bits and logical == signed)):
            return False
    return True
