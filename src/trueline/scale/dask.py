"""Dask's frames and arrays: one delayed task a partition, then a tree of merges, on whatever scheduler is in force.

A frame that the user persisted is read where it lies: no task of Dask's own copies its columns out first, and what
several jobs read is encoded once and kept beside it until the last of them is done.
"""

from __future__ import annotations

import copy
import functools
import math
import sys
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle
import dask
import numpy as np
from dask.dataframe.dispatch import make_meta, meta_nonempty
from dask.delayed import Delayed
from dask.task_spec import Alias, DataNode, GraphNode, TaskRef
from dask.task_spec import Task as Node

from .. import __version__
from ..data.blocks import Columns
from ..data.rounding import as_floats
from ..data.tables import table_of
from ..errors import DataError, TruelineError, UsageError
from ..model.linear import Interval
from . import statistic
from .numbers import Encoded, as_table, plain
from .tables import (
    BRANCHES,
    Task,
    answer,
    known,
    label_type,
    lacking,
    merged,
    one_thread,
    opened,
    plain_errors,
    refusal,
    unreachable,
)

CHECKED_SECONDS = 0.5  # after a look at the workers: the jobs of one fit follow each other
EMBEDDED_BYTES = 1 << 23  # of all tasks of a job together, what they are given by the graph itself


class DaskTable:
    """A Dask dataframe, or an array with columns x0, x1, … (and y, where targets come as another array)."""

    describe = "the Dask table"

    def __init__(self, source: Any, y: Any = None) -> None:
        import polars as pl

        self.source, self.y = source, y
        self.kept: list[Any] = []
        self.chosen = False  # whether partitions may have more columns than are declared
        kind = type(source).__name__
        self.frame = kind == "DataFrame"
        if self.frame and not all(isinstance(name, str) for name in source.columns):
            source = self.source = source.rename(columns={name: str(name) for name in source.columns})
        if self.frame:
            if y is not None:
                raise UsageError(
                    "a Dask dataframe holds its target: give target= the name of its column", where="target"
                )
            names, floats = list(source.columns), all(dtype == np.float64 for dtype in source.dtypes.tolist())
            self.declared: dict[str, Any] = {}
            if floats and len(set(names)) == len(names):
                self.declared = dict.fromkeys(names, pl.Float64())
            else:
                (piece,) = table_of(meta_nonempty(make_meta(source)).iloc[:1])[0]()
                self.declared = dict(piece.schema)
        elif kind == "Array":
            if source.ndim != 2:
                raise UsageError(
                    f"a Dask array of {source.ndim} dimensions is not a table; give rows by columns", where="source"
                )
            _check_numbers("the rows", source)
            if source.shape[1] != source.shape[1]:
                raise UsageError(
                    "the Dask array does not know how many columns it has; compute its chunk sizes first",
                    where="source",
                )
            self.declared = {f"x{j}": pl.Float64() for j in range(source.shape[1])}
            if y is not None:
                _check_targets(source, y)
                self.declared["y"] = pl.Float64()
        else:
            raise UsageError(f"a Dask {kind} is not a table; give a Dask dataframe or array", where="source")

    def unpacked(self, options: dict[str, Any]) -> tuple[DaskTable, dict[str, Any]]:
        return self, options  # no column of Dask's holds several numbers

    def readable(self, names: Sequence[str] | None) -> DaskTable:
        return self

    def select(self, columns: Sequence[str]) -> DaskTable:
        if not self.frame:
            return self
        table = copy.copy(self)
        table.declared = {name: self.declared[name] for name in columns}
        # Readers of files take the choice over; elsewhere it would be a task that copies, and ours can do without.
        if type(self.source.expr).__name__ != "FromGraph":  # what is persisted reads nothing
            chosen = self.source[list(columns)]
            if type(chosen.expr.simplify()).__name__ != "Projection":
                table.source = chosen
                return table
        table.chosen = True
        return table

    def keep(self, options: dict[str, Any]) -> DaskTable:
        """This table with its partitions encoded on the workers, if the user keeps it there too.

        Columns of float64 are read where they lie, by every job.
        """
        if (self.frame and plain(self.declared, options)) or not _persisted(self.source):
            return self
        with plain_errors("Dask"):
            check_workers()
            encode, shared = dask.delayed(_encoded, pure=False), dask.delayed((self.declared, options), traverse=False)
            parts = [encode(shared, number, part, self.chosen) for number, part in enumerate(self.partitions())]
            table = copy.copy(self)
            table.kept = list(dask.persist(*parts))
            return table

    def partitions(self) -> list[Any]:
        """The partitions as delayed tables."""
        if self.kept:
            return self.kept
        if self.frame:
            parts = list(self.source.to_delayed())
            graph = dict(parts[0].dask)
            return [Delayed(_behind(graph, part.key), graph) for part in parts]
        rows = self.source.rechunk({1: -1})
        blocks = list(rows.to_delayed().ravel())
        if self.y is None:
            return blocks
        ours, theirs = rows.chunks[0], self.y.chunks[0]
        alike = ours == theirs or (len(ours) == len(theirs) and any(size != size for size in (*ours, *theirs)))
        if not alike and any(size != size for size in (*ours, *theirs)):
            raise UsageError(
                "y is divided otherwise than the rows, and not all of their lengths are known; compute the chunk sizes first",
                where="y",
            )
        y = self.y if alike else self.y.rechunk((ours,))
        joined = dask.delayed(_joined, pure=True)
        return [joined(block, part) for block, part in zip(blocks, y.to_delayed().ravel(), strict=True)]

    def combine(self, task: Task, size: int) -> bytes:
        with plain_errors("Dask"):
            check_workers()
            parts, job = self.partitions(), uuid.uuid4().hex
            # The graph is written out, for delayed calls would go through all of it again for every partition.
            graph: dict[Any, Any] = {}
            for known in {id(part.dask): part.dask for part in parts}.values():
                graph.update(known)
            shared: Any = cloudpickle.dumps((task, list(self.declared), self.chosen), protocol=5)
            if (
                len(shared) * len(parts) > EMBEDDED_BYTES
            ):  # otherwise a task of its own, and a transfer, would cost more
                name = f"trueline-task-{job}"
                graph[name], shared = DataNode(name, shared), TaskRef(name)
            level: list[Any] = []
            for number, part in enumerate(parts):
                level.append((f"{type(task).__name__.lower()}-{job}", number))
                graph[level[-1]] = Node(level[-1], _run, shared, number, TaskRef(part.key))
            height = 0
            while len(level) > 1:
                below, level, height = level, [], height + 1
                for k in range(0, len(below), BRANCHES):
                    level.append((f"merge-{job}", height, k))
                    some = (TaskRef(key) for key in below[k : k + BRANCHES])
                    graph[level[-1]] = Node(level[-1], _merged, shared, *some)
            try:
                raw = Delayed(level[0], graph).compute()
            except Exception as error:
                raise _unmade(parts, error) from error
            return opened(raw)

    def head(self, rows: int) -> Any:
        import polars as pl

        found: list[Any] = []
        with plain_errors("Dask"):
            for part in self.partitions():
                if sum(one.height for one in found) >= rows:
                    break
                pieces = _tables(part.compute(), list(self.declared), self.chosen)
                found += [one if hasattr(one, "height") else as_table(one, self.declared) for one in pieces]
        found = [one for one in found if one.height]
        return pl.concat(found, how="vertical_relaxed").head(rows) if found else pl.DataFrame(schema=self.declared)

    def label_type(self, target: str) -> type:
        if self.y is not None and target == "y":
            return {"b": bool, "i": int, "u": int}.get(self.y.dtype.kind, float)
        return label_type(self.declared[target])

    def predicted(self, predictor: Any) -> Any:
        """A lazy Series or frame (of a frame, its index kept), or a lazy array: three of them for an interval."""
        made = predictor.columns
        if self.frame:
            meta = predictor.frame(make_meta(self.source).iloc[:0])
            return self.source.map_partitions(predictor.frame, meta=meta)
        rows, dtype = self.source.rechunk({1: -1}), next(iter(made.values()))
        if len(made) == 1:
            return rows.map_blocks(predictor.array, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype=dtype))
        chunks = (rows.chunks[0], (len(made),))
        found = rows.map_blocks(predictor.array, dtype=dtype, chunks=chunks, meta=np.empty((0, 0), dtype=dtype))
        return Interval(*(found[:, k] for k in range(3))) if "low" in made else found


def _check_numbers(what: str, array: Any) -> None:
    """Refuse arrays of anything but numbers and truth values."""
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{what} are a Dask array of type {array.dtype}, and numbers are taken; give a Dask dataframe for text and dates",
            where="source",
        )


def _check_targets(rows: Any, y: Any) -> None:
    """Refuse targets that are not one for each row of an array."""
    if type(y).__name__ != "Array":
        raise UsageError(f"rows of a Dask array take a Dask array as y, not {type(y).__name__}", where="y")
    _check_numbers("the targets", y)
    n, k = rows.shape[0], y.shape[0] if y.ndim == 1 else f"{y.shape}"
    if y.ndim != 1 or (n == n and k == k and n != k):  # a length that is not known is not a number
        raise UsageError(
            f"y has shape {tuple(y.shape)} and the rows {tuple(rows.shape)}; give one target a row", where="y"
        )


def _unmade(parts: Sequence[Any], error: Exception) -> Exception:
    """The sentence for a partition that Dask could not make, with its number; the error itself where it is another."""
    if isinstance(error, TruelineError) or known(error):
        return error
    if "asynchronous Client" in str(error):
        return UsageError(
            "an asynchronous client of Dask is not taken; make a Client without asynchronous=True", where="Dask"
        )
    for number, part in enumerate(parts):
        try:
            dask.delayed(_made)(part).compute()
        except Exception as why:
            told = " ".join(str(why).split())[:200].rstrip(".")
            return DataError(
                f"partition {number} of the Dask table cannot be made ({type(why).__name__}: {told}); check what it is read "
                "from, and that all partitions have the same columns",
                where=f"partition {number}",
            )
    return error


def _made(part: Any) -> None:
    """Nothing but to have had the partition."""


def check_workers() -> None:
    """Refuse a cluster that cannot do the work: a worker that cannot read a task stops, and Dask would wait for ever."""
    if "distributed" not in sys.modules:
        return
    try:
        client = sys.modules["distributed"].default_client()
    except ValueError:  # there is none
        return
    if client.asynchronous:
        return
    if client.status != "running":
        raise UsageError(unreachable("Dask"), where="Dask")
    known, since = _checked.get(client, (set(), -math.inf))
    if time.monotonic() - since < CHECKED_SECONDS:
        return
    workers = set(client.scheduler_info(n_workers=-1)["workers"])
    if workers and workers == known:
        _checked[client] = workers, time.monotonic()
        return
    # Only what every Python has may travel here.
    found = client.run(eval, "__import__('trueline').__version__", on_error="return")
    for address, version in sorted(found.items()):
        if isinstance(version, ModuleNotFoundError):
            raise UsageError(lacking("Dask", address), where="Dask")
        if version != __version__:
            raise UsageError(
                f"the worker {address} of Dask has trueline {version}, and here is {__version__}; install the same version "
                "on every worker",
                where="Dask",
            )
    _checked[client] = workers, time.monotonic()


_checked: weakref.WeakKeyDictionary[Any, tuple[set[str], float]] = weakref.WeakKeyDictionary()


def _persisted(source: Any) -> bool:
    """Whether the workers hold the partitions: nothing is left to do in the graph but to name them."""
    values = dict(source.__dask_graph__()).values()
    return not any(isinstance(value, GraphNode | tuple) and not isinstance(value, Alias | DataNode) for value in values)


def _behind(graph: dict[Any, Any], key: Any) -> Any:
    """What a name of a partition stands for: as a task of its own, the name would be measured and kept once more."""
    while isinstance(graph.get(key), Alias):
        key = graph.pop(key).target
    return key


def _run(shared: bytes, number: int, part: Any) -> bytes:
    if isinstance(part, bytes):
        return part  # it was refused when it was encoded
    task, names, chosen = _shared(shared)
    return answer(task, number, part if isinstance(part, Encoded) else _tables(part, names, chosen))


def _merged(shared: bytes, *answers: bytes) -> bytes:
    return merged(_shared(shared)[0], answers)


@functools.lru_cache(2)
def _shared(raw: bytes) -> tuple[Task, list[str], bool]:
    """What all tasks of a job are given; a class that came with it is made once."""
    return cloudpickle.loads(raw)  # type: ignore[no-any-return]


def _encoded(shared: tuple[dict[str, Any], dict[str, Any]], number: int, part: Any, chosen: bool) -> Any:
    """A partition encoded for several jobs, or its refusal; an empty one has no pieces."""
    declared, options = shared
    with one_thread():
        try:
            encoder = statistic.encoder_of(number, _tables(part, list(declared), chosen), declared, options, apart=True)
            return part[:0] if encoder is None else Encoded(encoder)
        except TruelineError as error:
            return refusal(number, error)


def _tables(part: Any, names: list[str], chosen: bool) -> Iterator[Any]:
    """A partition's columns of these names, of more if ``chosen``: where they lie if all are float64, else Polars frames."""
    if not hasattr(part, "columns"):
        block = as_floats(part, "a block of X")
        if block.ndim != 2 or block.shape[1] != len(names):
            raise DataError(
                f"a block of the Dask array has shape {block.shape} where {len(names)} columns are declared",
                where="source",
            )
        yield block
        return
    present = list(part.columns)
    if chosen and present != names:
        present = [name for name in names if name in part.columns]
    floats = {name for name, dtype in zip(part.columns, part.dtypes.tolist(), strict=True) if dtype == np.float64}
    if present == names and floats.issuperset(names):
        yield Columns([np.ascontiguousarray(part[name].to_numpy()) for name in names])
        return
    yield from table_of(part if present == list(part.columns) else part[present])[0]()


def _joined(X: Any, y: Any) -> np.ndarray:
    return np.column_stack([as_floats(X, "a block of X"), as_floats(y, "a block of y", ["y"])])
