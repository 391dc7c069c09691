"""Dask's frames and arrays: one delayed task a partition, then a tree of merges, on whatever scheduler is in force."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import dask
import numpy as np

from .. import __version__
from ..data.tables import table_of
from ..errors import UsageError
from ..model.linear import Interval
from .tables import BRANCHES, Task, answer, lacking, merged, opened, plain_errors, unreachable


class DaskTable:
    """A Dask dataframe, or an array with columns x0, x1, … (and y, where targets come as another array)."""

    describe = "the Dask table"

    def __init__(self, source: Any, y: Any = None) -> None:
        import polars as pl

        self.source, self.y = source, y
        kind = type(source).__name__
        self.frame = kind == "DataFrame"
        if self.frame:
            if y is not None:
                raise UsageError(
                    "a Dask dataframe holds its target: give target= the name of its column", where="target"
                )
            (piece,) = table_of(source._meta_nonempty.iloc[:1])[0]()
            self.declared: dict[str, Any] = dict(piece.schema)
        elif kind == "Array":
            if source.ndim != 2:
                raise UsageError(
                    f"a Dask array of {source.ndim} dimensions is not a table; give rows by columns", where="source"
                )
            self.declared = {f"x{j}": pl.Float64() for j in range(source.shape[1])}
            if y is not None:
                self.declared["y"] = pl.Float64()
        else:
            raise UsageError(f"a Dask {kind} is not a table; give a Dask dataframe or array", where="source")

    def select(self, columns: Sequence[str]) -> DaskTable:
        return DaskTable(self.source[list(columns)]) if self.frame else self

    def partitions(self) -> list[Any]:
        """The partitions as delayed tables."""
        if self.frame:
            return list(self.source.to_delayed())
        rows = self.source.rechunk({1: -1})
        blocks = list(rows.to_delayed().ravel())
        if self.y is None:
            return blocks
        y = self.y if self.y.numblocks[0] == rows.numblocks[0] else self.y.rechunk((rows.chunks[0],))
        joined = dask.delayed(_joined, pure=True)
        return [joined(block, part) for block, part in zip(blocks, y.to_delayed().ravel(), strict=True)]

    def combine(self, task: Task, size: int) -> bytes:
        with plain_errors("Dask"):
            check_workers()
            shared = dask.delayed(task, traverse=False)
            run, merge = dask.delayed(_run, pure=False), dask.delayed(merged, pure=False)
            names = None if self.frame else list(self.declared)
            level = [run(shared, number, part, names) for number, part in enumerate(self.partitions())]
            while len(level) > 1:
                level = [merge(shared, level[k : k + BRANCHES]) for k in range(0, len(level), BRANCHES)]
            return opened(level[0].compute())

    def head(self, rows: int) -> Any:
        import polars as pl

        with plain_errors("Dask"):
            for part in self.partitions():
                found = pl.concat(_tables(part.compute(), None if self.frame else list(self.declared)))
                if found.height:
                    return found.head(rows)
        return pl.DataFrame(schema=self.declared)

    def predicted(self, predictor: Any) -> Any:
        """A lazy Series or frame (of a frame, its index kept), or a lazy array: three of them for an interval."""
        made = predictor.columns
        if self.frame:
            meta = predictor.frame(self.source._meta.iloc[:0])
            return self.source.map_partitions(predictor.frame, meta=meta)
        rows, dtype = self.source.rechunk({1: -1}), next(iter(made.values()))
        if len(made) == 1:
            return rows.map_blocks(predictor.array, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype=dtype))
        chunks = (rows.chunks[0], (len(made),))
        found = rows.map_blocks(predictor.array, dtype=dtype, chunks=chunks, meta=np.empty((0, 0), dtype=dtype))
        return Interval(*(found[:, k] for k in range(3))) if "low" in made else found


def check_workers() -> None:
    """Refuse a cluster that cannot do the work: a worker that cannot read a task stops, and Dask would wait for ever."""
    client = sys.modules["distributed"].client._get_global_client() if "distributed" in sys.modules else None
    if client is None or client.asynchronous:
        return
    if client.status != "running":
        raise UsageError(unreachable("Dask"), where="Dask")
    workers = set(client.scheduler_info(n_workers=-1)["workers"])
    if workers and workers == _checked.get(client):
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
    _checked[client] = workers


_checked: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def _run(task: Task, number: int, part: Any, names: list[str] | None) -> bytes:
    return answer(task, number, _tables(part, names))


def _tables(part: Any, names: list[str] | None) -> Iterator[Any]:
    """A partition as Polars frames, an array's columns by these names."""
    if names is None:
        yield from table_of(part)[0]()
        return
    rows = np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=float)
    for piece in table_of(rows)[0]():
        yield piece.rename(dict(zip(piece.columns, names, strict=True)))


def _joined(X: Any, y: Any) -> np.ndarray:
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
    return np.column_stack([X, np.asarray(y, dtype=float)])
