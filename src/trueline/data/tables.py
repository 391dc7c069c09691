"""Tables in memory as Polars frames: dictionaries, rows, pandas, PyArrow, arrays, and Arrow streams by batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, TruelineError, UsageError
from .files import check_names
from .refusals import refuse_broken_sparse
from .rounding import refuse_integers, refuse_masked

if TYPE_CHECKING:
    import polars as pl

BLOCK_BYTES = 1 << 24  # of one batch as float64: enough for BLAS, little beside the memory of any machine
BLOCK_ROWS = 131_072
_NUMBERS = (int, float, np.integer, np.floating)


def is_columns(mapping: Mapping[Any, Any]) -> bool:
    """Whether a dictionary holds columns, not one row."""
    return any(
        isinstance(value, (list, tuple, np.ndarray)) or hasattr(value, "__array__") for value in mapping.values()
    )


def table_of(source: Any) -> tuple[Callable[[], Iterator[Any]], str, int | None, bool]:
    """(pieces, description, rows, rereadable) of an object that is itself one table."""
    import polars as pl

    owner = type(source).__module__.partition(".")[0]
    if isinstance(source, pl.LazyFrame):
        return (lambda: iter([source])), "the lazy frame", None, True
    if isinstance(source, pl.DataFrame):
        return (lambda: iter([source])), "the Polars frame", source.height, True
    if isinstance(source, np.ndarray):
        refuse_masked(source, "the array")
        return _array(source)
    if owner == "scipy" and hasattr(source, "tocsr"):
        return _sparse(source)
    try:
        if owner == "pandas":
            frame = _from_pandas(source)
            return (lambda: iter([frame])), "the pandas frame", frame.height, True
        if isinstance(source, Mapping):
            frame = pl.DataFrame({str(name): _plain_column(str(name), values) for name, values in source.items()})
            return (lambda: iter([frame])), "the dictionary of columns", frame.height, True
        if isinstance(source, (list, tuple)):
            _refuse_rounded_rows(source)
            frame = pl.DataFrame(source, infer_schema_length=None)
            return (lambda: iter([frame])), "the list of rows", frame.height, True
        if owner == "pyarrow" and hasattr(source, "to_batches") and hasattr(source, "num_rows"):
            check_names(list(source.schema.names), "the PyArrow table")
            made: Any = pl.from_arrow(source)
            return (lambda: iter([made])), "the PyArrow table", made.height, True
    except TruelineError:
        raise
    except Exception as error:
        raise DataError(
            f"the {type(source).__name__} is not a table: {str(error).splitlines()[0][:160]}", where="source"
        ) from None
    if hasattr(source, "__arrow_c_stream__"):
        return (lambda: _arrow_batches(source)), "the Arrow stream", None, False
    if isinstance(source, Iterable):
        raise UsageError(
            f"a {type(source).__name__} is not a table; give iter(…) of it if it holds tables", where="source"
        )
    raise UsageError(
        f"a source is a path, a table, an array or an iterator of these, not {type(source).__name__}", where="source"
    )


def _refuse_rounded_rows(rows: Any) -> None:
    """Refuse whole numbers of columns that Polars would make one of decimals."""
    for name in rows[0] if rows and isinstance(rows[0], Mapping) else ():
        _refuse_mixed(str(name), [row.get(name) for row in rows if isinstance(row, Mapping)], "the list of rows")


def _refuse_mixed(name: str, values: Any, describe: str) -> set[type]:
    """The types of the values; refuse whole numbers that would be rounded beside decimals, or that no integer holds."""
    kinds = {type(value) for value in values} - {type(None)}
    large = int in kinds and any(type(value) is int and not -(2**63) <= value < 2**63 for value in values)
    if large or len(kinds) > 1:
        refuse_integers(values, [name], describe)
    return kinds


def _plain_column(name: str, values: Any) -> Any:
    """A column as Polars takes it: it would refuse a list in which whole numbers and others are mixed."""
    refuse_masked(values, f"column {name!r}")
    if not hasattr(values, "__len__") or isinstance(values, str):
        return [values]
    kinds = _refuse_mixed(name, values, "the dictionary of columns") if isinstance(values, (list, tuple)) else set()
    if len(kinds) > 1 and all(issubclass(kind, _NUMBERS) and kind is not bool for kind in kinds):
        return [None if value is None else float(value) for value in values]
    return values


def _from_pandas(frame: Any) -> pl.DataFrame:
    import polars as pl

    if not hasattr(frame, "columns"):
        frame = frame.to_frame()
    names = [str(name) for name in frame.columns]
    check_names(names, "the pandas frame")
    columns: dict[str, Any] = {}
    for place, name in enumerate(names):
        values = frame.iloc[:, place]
        if isinstance(values.dtype, np.dtype) and values.dtype.kind in "fiub":  # without PyArrow, and without a copy
            columns[name] = pl.Series(name, values.to_numpy())
        else:
            columns[name] = pl.from_pandas(values)
    return pl.DataFrame(columns)


def _array(array: np.ndarray) -> tuple[Callable[[], Iterator[Any]], str, int | None, bool]:
    import polars as pl

    if array.dtype.names:  # a structured array has its own names
        frame = pl.DataFrame({name: array[name] for name in array.dtype.names})
        return (lambda: iter([frame])), "the structured array", frame.height, True
    if array.ndim not in (1, 2):
        raise DataError(f"an array of {array.ndim} dimensions is not a table; give rows by columns", where="source")
    table = array.reshape(len(array), -1)
    if table.dtype.kind not in "fiubO" and table.dtype.kind not in "US":
        raise DataError(f"an array of {table.dtype} is not a table of numbers", where="source")
    names = [f"x{j}" for j in range(table.shape[1])]
    step = max(1024, min(BLOCK_ROWS, BLOCK_BYTES // (8 * max(1, table.shape[1]))))

    def slices() -> Iterator[Any]:
        for start in range(0, max(1, len(table)), step):
            part = table[start : start + step]
            yield pl.DataFrame({name: np.ascontiguousarray(part[:, j]) for j, name in enumerate(names)})

    return slices, f"the array of shape {array.shape}", len(table), True


def _sparse(matrix: Any) -> tuple[Callable[[], Iterator[Any]], str, int | None, bool]:
    refuse_broken_sparse(matrix)
    rows = matrix.tocsr()
    step = max(256, min(BLOCK_ROWS, BLOCK_BYTES // (8 * max(1, rows.shape[1]))))

    def slices() -> Iterator[Any]:
        for start in range(0, max(1, rows.shape[0]), step):
            pieces, _, _, _ = _array(rows[start : start + step].toarray().astype(float))
            yield from pieces()

    return slices, f"the sparse matrix of shape {rows.shape}", rows.shape[0], True


def _arrow_batches(source: Any) -> Iterator[Any]:
    import polars as pl

    try:
        import pyarrow
    except ImportError:  # Polars takes the whole stream at once; PyArrow gives it by batches
        yield pl.DataFrame(source)
        return
    reader = pyarrow.RecordBatchReader.from_stream(source)
    check_names(list(reader.schema.names), "the Arrow stream")
    empty: Any = pl.from_arrow(reader.schema.empty_table())
    yield empty
    for batch in reader:
        yield pl.from_arrow(batch)
