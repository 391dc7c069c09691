"""Any table, a block of rows at a time: ``open_source`` makes one kind of thing of files, frames, arrays and pipes.

A source is a sequence of pieces, each a lazy or eager Polars frame; ``derive`` and ``where`` (SQL expressions)
and the choice of columns become steps of the lazy plan, and the streaming engine hands out batches in order.
Memory is that of a few batches, whatever the length of the table.
"""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import DataError, TruelineError, UsageError
from . import files, streams
from .dates import already_read, parsed
from .refusals import explain, sql_error, unknown_column
from .rounding import Numerals
from .tables import BLOCK_BYTES, BLOCK_ROWS, is_columns, table_of

if TYPE_CHECKING:
    import polars as pl


class Source:
    """A table that is read in order, a batch of rows at a time.

    >>> source = open_source({"x": [1, 2, 3], "y": [1.0, 2.0, 4.0]}, where="x > 1")
    >>> source.names, [frame.height for frame in source.frames()]
    (['x', 'y'], [2])
    """

    def __init__(
        self,
        describe: str,
        pieces: Callable[[], Iterator[Any]],
        *,
        rereadable: bool = True,
        rows: int | None = None,
        paths: Sequence[str] = (),
        block_rows: int | None = None,
        formats: dict[str, str] | None = None,
        numerals: Numerals | None = None,
        notes: list[str] | None = None,
    ) -> None:
        self.describe = describe
        self.notes: list[str] = [] if notes is None else notes  # what was guessed of the format, in sentences
        self.formats: dict[str, str] = {} if formats is None else formats  # of dates whose order had to be settled
        self._numerals = Numerals() if numerals is None else numerals
        self.rereadable = rereadable
        self.rows = rows
        self.paths = list(paths)
        self._block_rows = block_rows
        self._steps: tuple[tuple[str, str, Any], ...] = ()
        iterator = iter(pieces())
        with self._refusals():
            first = next(iterator, None)
            if first is None:
                raise DataError(f"{describe} holds no table", where=describe)
            self._given: dict[str, Any] = dict(first.collect_schema())
        self.dtypes = dict(self._given)
        files.check_names(self.names, describe)
        if rereadable:
            self._pieces = pieces
        else:
            waiting: list[Iterator[Any]] = [itertools.chain([first], iterator)]
            self._pieces = lambda: waiting.pop() if waiting else self._exhausted()

    @property
    def names(self) -> list[str]:
        """The columns, in order."""
        return list(self.dtypes)

    def refine(
        self,
        *,
        derive: Mapping[str, str] | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        dates: Mapping[str, str] | None = None,
    ) -> Source:
        """The same source with dates read by these formats, derived columns, then a filter, then a choice of columns."""
        import polars as pl

        made = copy.copy(self)
        dates = {name: form for name, form in (dates or {}).items() if self.dtypes.get(name) == pl.String}
        settled = self.formats | dates
        known = {n for n, dtype in self.dtypes.items() if n in dates or dtype in (pl.Date, pl.Datetime)}
        derive = {
            name: text
            for name, text in (derive or {}).items()
            if not (name in known and already_read(name, text, settled.get(name)))
        }
        steps: list[tuple[str, str, Any]] = [("dates", name, form) for name, form in dates.items()]
        steps += [("derive", name, text) for name, text in derive.items()]
        made.formats = {n: form for n, form in settled.items() if n not in derive}
        if where is not None:
            steps.append(("where", "", where))
            made.rows = None
        if columns is not None:
            steps.append(("columns", "", list(columns)))
        # Resolved on a table of no rows, so that a wrong expression is refused before anything is read.
        lazy = pl.DataFrame(schema=self.dtypes).lazy()
        for step in steps:
            names = lazy.collect_schema().names()
            kind, name, what = step
            if kind == "columns":
                unknown = next((column for column in what if column not in names), None)
                if unknown is not None:
                    raise unknown_column(unknown, names, source=self.describe)
            try:
                lazy = _applied(lazy, step)
                lazy.collect_schema()
            except Exception as error:
                raise sql_error(error, str(what), f"{kind} {name}".strip(), names) from None
        made._steps = self._steps + tuple(steps)
        made.dtypes = dict(lazy.collect_schema())
        return made

    def frames(self, *, empty: bool = False) -> Iterator[pl.DataFrame]:
        """The rows, as eager frames in order; a source that is not rereadable gives them once.

        No rows at all are refused, unless ``empty`` says that there may be none.
        """
        rows = 0
        as_read = set(self._given) - {name for kind, name, _ in self._steps if kind == "derive"}
        for frame in self._streamed():
            rows += frame.height
            self._numerals.refuse(frame, [name for name in frame.columns if name in as_read], self.describe)
            if frame.height:
                yield frame
            del frame  # or there would be one more while the next is made
        if rows == 0 and not empty:
            raise self.no_rows()

    def no_rows(self) -> DataError:
        """The refusal of a source that gave no row."""
        where = " and ".join(what for kind, _, what in self._steps if kind == "where")
        if where:
            return DataError(f"no row of {self.describe} is left by where {where!r}", where="where")
        return DataError(f"{self.describe} has column names but no rows", where=self.describe)

    def _streamed(self) -> Iterator[pl.DataFrame]:
        for piece in self._piece_iterator():
            yield from self._batches(piece)

    def _planned(self, piece: Any) -> pl.LazyFrame:
        """A piece's plan: its columns in the source's order, then the steps."""
        found = piece.collect_schema().names()
        if found != list(self._given):
            missing = [name for name in self._given if name not in found]
            if missing:
                raise DataError(f"a later table of {self.describe} lacks column {missing[0]!r}", where=missing[0])
            piece = piece.select(list(self._given))
        lazy = piece.lazy()
        for step in self._steps:
            lazy = _applied(lazy, step)
        return lazy

    def _piece_iterator(self) -> Iterator[Any]:
        iterator = self._pieces()
        while True:
            with self._refusals():
                piece = next(iterator, None)
            if piece is None:
                return
            yield piece

    def _batches(self, piece: Any) -> Iterator[pl.DataFrame]:
        import polars as pl

        rows = self.block_rows
        with self._refusals():
            lazy = self._planned(piece)
            if isinstance(piece, pl.DataFrame) and piece.height <= rows:
                if piece.height == 1 and self._steps:
                    # Polars rounds some arithmetic of a single row otherwise than that of several, and its fold would tell.
                    # (A frame twice over would still be a row to it, column by column it is not.)
                    both = pl.DataFrame([pl.concat([column, column], rechunk=True) for column in piece])
                    twice = self._planned(both).collect(engine="in-memory")
                    batches = iter([twice.head(twice.height // 2)])
                else:
                    batches = iter([lazy.collect(engine="in-memory")])
            else:
                batches = iter(
                    lazy.collect_batches(chunk_size=rows, maintain_order=True, engine="streaming", lazy=True)
                )
        while True:
            with self._refusals():
                frame = next(batches, None)
            if frame is None:
                return
            yield frame

    @property
    def block_rows(self) -> int:
        """How many rows a batch has at most."""
        return self._block_rows or max(1024, min(BLOCK_ROWS, BLOCK_BYTES // (8 * max(1, len(self.dtypes)))))

    def _refusals(self) -> _Refusals:
        return _Refusals(self)

    def _exhausted(self) -> Iterator[Any]:
        raise UsageError(f"{self.describe} can be read only once, and was; give a file or a table", where=self.describe)


class _Refusals:
    """Errors of Polars become refusals that name the source."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None or isinstance(error, TruelineError):
            return
        # Polars' own, and those of compressed bytes that are cut short or damaged.
        foreign = type(error).__module__.partition(".")[0] in ("polars", "zlib", "zstandard")
        if not (foreign or isinstance(error, (OSError, EOFError))):
            return
        source = self.source
        raise explain(
            error, describe=source.describe, names=list(getattr(source, "_given", ())), paths=source.paths
        ) from None


def _applied(lazy: pl.LazyFrame, step: tuple[str, str, Any]) -> pl.LazyFrame:
    import polars as pl

    kind, name, what = step
    if kind == "columns":
        return lazy.select(what)
    if kind == "dates":
        return lazy.with_columns(parsed(name, what))
    expression = pl.sql_expr(what)
    return lazy.with_columns(expression.alias(name)) if kind == "derive" else lazy.filter(expression)


def open_source(
    source: Any,
    *,
    where: str | None = None,
    derive: Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
    block_rows: int | None = None,
    separator: str | None = None,
    decimal: str | None = None,
) -> Source:
    """A :class:`Source` of anything that holds rows.

    Parameters
    ----------
    source:
        A path, a glob pattern or a list of paths of CSV, TSV, Parquet, Arrow IPC or NDJSON files (also gzip and
        zstd); ``"-"`` for standard input; a pandas, Polars (eager or lazy) or PyArrow table; anything with the Arrow
        stream interface; a NumPy array (its columns are named x0, x1, …); a SciPy sparse matrix; a dictionary of
        columns; a list of row dictionaries; or an iterator of any of these.
    where, derive:
        SQL expressions: rows to keep, and columns to add (``{"log_distance": "ln(distance + 1)"}``); the filter
        sees the derived columns.
    columns:
        The columns to keep, in this order.
    block_rows:
        Rows per batch at most; by default a batch is about 16 MB of float64.
    separator:
        Of delimited text, where it is not the comma (CSV), the tab (TSV), or the semicolon or tab that a header shows.
    decimal:
        ``","`` where the numbers of delimited text have a decimal comma; their separator is then ``";"`` by default.

    >>> open_source({"fare": [3.0, 5.0]}, derive={"double": "2 * fare"}).names
    ['fare', 'double']
    """
    told = files.Delimited(separator, "." if decimal is None else decimal)
    opened = source if isinstance(source, Source) else _open(source, block_rows, told)
    if where is None and not derive and columns is None:
        return opened
    return opened.refine(derive=derive, where=where, columns=columns)


def _open(source: Any, block_rows: int | None, told: files.Delimited) -> Source:
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source), block_rows, told)
    if isinstance(source, (list, tuple)) and source and all(isinstance(item, (str, os.PathLike)) for item in source):
        paths = [found for item in source for found in files.resolve(os.fspath(item))]
        return _open_files(paths, block_rows, told)
    if isinstance(source, (list, tuple)) and not (
        source and isinstance(source[0], Mapping) and not is_columns(source[0])
    ):
        tables = list(source)
        if not tables:
            raise DataError("an empty list holds no table", where="source")
        return Source(
            f"the list of {len(tables)} tables",
            lambda: (piece for table in tables for piece in _pieces(table, block_rows, told)),
            block_rows=block_rows,
        )
    if hasattr(source, "read") and not hasattr(source, "__arrow_c_stream__"):
        return _open_stream(source, "the stream", block_rows, told)
    if isinstance(source, Iterator) and not hasattr(source, "__arrow_c_stream__"):
        return Source(
            "the iterator of tables",
            lambda: (piece for table in source for piece in _pieces(table, block_rows, told)),
            rereadable=False,
            block_rows=block_rows,
        )
    lazily, describe, rows, rereadable = table_of(source)
    _check_delimited(told, describe)
    return Source(describe, lazily, rereadable=rereadable, rows=rows, block_rows=block_rows)


def _check_delimited(told: files.Delimited, describe: str) -> None:
    """Refuse what is said of delimited text where there is none."""
    for option, value, unset in zip(told._fields, told, files.Delimited()):
        if value != unset:
            raise UsageError(
                f"{option} is for delimited text such as CSV, and {describe} is none; leave {option} out", where=option
            )


def _pieces(table: Any, block_rows: int | None, told: files.Delimited) -> Iterator[Any]:
    """The frames of one element of a list or iterator of tables."""
    inner = _open(table, block_rows, told)
    yield from inner._piece_iterator()


def _open_path(path: str, block_rows: int | None, told: files.Delimited) -> Source:
    if path == "-":
        return _open_stream(streams.standard_input(), "standard input", block_rows, told)
    if files.is_pipe(path):
        return _open_stream(open(path, "rb"), path, block_rows, told)
    return _open_files(files.resolve(path), block_rows, told)


def _open_stream(stream: Any, describe: str, block_rows: int | None, told: files.Delimited) -> Source:
    formats: dict[str, str] = {}
    notes: list[str] = []
    numerals = Numerals()
    return Source(
        describe,
        lambda: streams.read_stream(stream, describe, told, formats, numerals, notes),
        rereadable=False,
        block_rows=block_rows,
        formats=formats,
        numerals=numerals,
        notes=notes,
    )


def _open_files(paths: list[str], block_rows: int | None, told: files.Delimited) -> Source:
    kinds = [files.file_format(path) for path in paths]
    if not {*kinds} & files.DELIMITED:
        _check_delimited(told, paths[0])
    describe = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    groups = [
        (kind, [path for _, path in group])
        for kind, group in itertools.groupby(zip(kinds, paths), lambda pair: pair[0])
    ]

    formats: dict[str, str] = {}
    notes: list[str] = []
    numerals = Numerals()
    made: list[Any] = []  # types are found once

    def scans() -> Iterator[Any]:
        for k, (kind, members) in enumerate(groups):
            json = kind == "ndjson"
            if k == len(made):
                made.append(
                    files.json_types(members, formats)
                    if json
                    else files.scan_files(members, kind, told, formats, notes)
                )
            if not json:
                numerals.renew(made[k].as_text)
                yield made[k].lazy
                continue
            for path in members:
                with open(path, "rb") as file:
                    yield from streams.read_stream(file, path, told, formats, numerals, notes, made[k])

    opened = Source(
        describe, scans, paths=paths, block_rows=block_rows, formats=formats, numerals=numerals, notes=notes
    )
    if set(kinds) <= {"parquet", "ipc"}:
        import polars as pl

        with opened._refusals():
            opened.rows = sum(int(scan.select(pl.len()).collect().item()) for scan in scans())
    return opened
