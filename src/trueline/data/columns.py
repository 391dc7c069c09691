"""One column of a table as numbers: numbers, booleans and dates as they are, categories as codes of their levels.

A date is its number of days since 1970-01-01, a time of day or a duration its fraction of a day. Missing means
null or NaN, and stays NaN (or code −1) here; what is done about it is the schema's business.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .rounding import refuse_rounded

if TYPE_CHECKING:
    import polars as pl

LEVEL_LIMIT = 1_000
_IDENTIFIER = 20  # levels: fewer may well be one a row
# Of a day, a microsecond. Polars divides a single row by a number and multiplies several by its reciprocal, so that the last bit,
# and with it a row's fold, would depend on how many rows come together.
_SHARE = 1.0 / 86_400_000_000
_NARROW, _TILE = 256, 4096  # columns and rows whose transposition stays in the cache
WITH_COMMA = r"^\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*$"
_COMMA = re.compile(r"\s*[-+]?(\d+(,\d+)?|,\d+)([eE][-+]?\d+)?\s*")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")


def kind_of(name: str, dtype: Any, *, describe: str = "the table") -> str:
    """ "number", "boolean", "date" or "category": how a column of this Polars type is used."""
    import polars as pl

    if dtype.is_numeric() or dtype == pl.Null:
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype.is_temporal():
        return "date"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "category"
    raise DataError(
        f"column {name!r} of {describe} has type {dtype}, which is neither number, boolean, date nor text; derive a "
        "column of numbers from it, or leave it out",
        where=name,
    )


def numbers(frame: pl.DataFrame, names: Sequence[str], kinds: Sequence[str], describe: str, row: int = 0) -> np.ndarray:
    """The columns as one C-ordered float64 array; null becomes NaN. ``row`` is the number of the first row."""
    if not names:
        return np.empty((frame.height, 0))
    made = as_numbers(frame, names, kinds, describe, row)
    if len(names) > _NARROW:
        if made.n_chunks() > 1:  # of text: Polars would put each column together first, at twice the cost of this
            return np.ascontiguousarray(np.array([column.to_numpy() for column in made], dtype=np.float64).T)
        return np.ascontiguousarray(made.to_numpy(order="c", writable=True), dtype=np.float64)
    # Polars would do this in its pool, behind the decoding of the next rows, and at twice the cost.
    columns, X = [column.to_numpy() for column in made], np.empty((made.height, len(names)))
    for start in range(0, len(X), _TILE):
        rows = slice(start, start + _TILE)
        for j, column in enumerate(columns):
            X[rows, j] = column[rows]
    return X


def as_numbers(
    frame: pl.DataFrame, names: Sequence[str], kinds: Sequence[str], describe: str, row: int = 0
) -> pl.DataFrame:
    """These columns, all float64; whole numbers that would be rounded are refused."""
    import polars as pl

    schema = frame.schema
    for name in names:
        if schema[name] in (pl.Int64, pl.UInt64, pl.Int128):
            refuse_rounded(frame.get_column(name), row, describe)
    if any(schema[name] != pl.Float64 for name in names):
        return frame.select(_number(frame, schema[name], name, kind, describe, row) for name, kind in zip(names, kinds))
    return frame if list(schema) == list(names) else frame.select(names)


def _number(frame: pl.DataFrame, dtype: Any, name: str, kind: str, describe: str, row: int) -> pl.Expr:
    import polars as pl

    column = pl.col(name)
    found = kind_of(name, dtype, describe=describe)
    if found == "category":
        text = frame.get_column(name).cast(pl.String)
        parsed = text.str.strip_chars().cast(pl.Float64, strict=False)
        bad = (parsed.is_null() & text.is_not_null()).arg_max() or 0
        wanted = {"number": "numbers", "boolean": "true or false", "date": "dates"}[kind]
        value = text[int(bad)]
        comma = kind == "number" and value is not None and _COMMA.fullmatch(value)
        remedy = "; its commas seem to begin decimals (--decimal , on the command line)" if comma else ""
        raise DataError(
            f"column {name!r} of {describe} is text ({value!r} in row {row + int(bad) + 1}) where {wanted} are expected{remedy}",
            where=name,
        )
    if found != "date":
        return column if dtype == pl.Float64 else column.cast(pl.Float64)
    if dtype == pl.Date:
        return column.cast(pl.Int32).cast(pl.Float64)
    if dtype == pl.Time:
        return column.cast(pl.Int64) * (_SHARE / 1000)
    if dtype == pl.Duration:
        return column.dt.total_microseconds() * _SHARE
    return column.dt.epoch("us") * _SHARE


def texts(series: pl.Series) -> pl.Series:
    """A category's values as text; whole numbers without a decimal point, so that 1 and 1.0 are one level."""
    import polars as pl

    if series.dtype == pl.String:
        return series
    if not series.dtype.is_float():
        return series.cast(pl.String)
    # Value by value: what other rows hold, which may come in another block or partition, must not change a level's name.
    whole = ((series % 1 == 0) & (series.abs() < 2.0**63)).fill_null(False)
    numbers = series.zip_with(whole | series.is_null(), pl.Series([0.0], dtype=series.dtype)).cast(pl.Int64)
    return numbers.cast(pl.String).zip_with(whole, series.cast(pl.String))


def codes(series: pl.Series, levels: dict[str, int], *, grow: bool) -> np.ndarray:
    """The level's number per row: −1 where missing, −2 where unknown; ``grow`` adds new levels to ``levels``."""
    import polars as pl

    values = texts(series)
    present = values.unique().drop_nulls()
    fresh = [level for level in present.to_list() if level not in levels]
    if grow:
        for level in sorted(fresh):
            levels[level] = len(levels)
        fresh = []
    known = [level for level in present.to_list() if level in levels]
    if not known:
        mapped = values.is_null().cast(pl.Int64) - 2
    else:
        mapped = values.replace_strict(known, [levels[level] for level in known], default=-2, return_dtype=pl.Int64)
        if values.null_count():
            mapped = mapped.zip_with(values.is_not_null(), pl.repeat(-1, len(values), dtype=pl.Int64, eager=True))
    return mapped.to_numpy()


def check_levels(name: str, levels: Sequence[str], describe: str) -> None:
    """Refuse a category that is really a column of numbers with a stray word, or an identifier."""
    if len(levels) > 20:
        commas = [level for level in levels if "," in level and _COMMA.fullmatch(level)]
        if 2 * len(commas) >= len(levels) and sum(_COMMA.fullmatch(v) is not None for v in levels) >= 0.8 * len(levels):
            raise with_commas(name, commas[0], describe)
        words = [level for level in levels if not _NUMBER.fullmatch(level)]
        if words and len(words) <= len(levels) / 5:
            raise DataError(
                f"column {name!r} of {describe} is text because of values such as {words[0]!r}, but most of its values "
                "are numbers; correct them, or leave those cells empty and say how missing values are to be treated",
                where=name,
            )
    if len(levels) > LEVEL_LIMIT:
        raise DataError(
            f"column {name!r} of {describe} has more than {LEVEL_LIMIT} levels ({levels[0]!r}, {levels[1]!r}, …): leave "
            "it out by naming the others in features= (--features), or derive a coarser column from it",
            where=name,
        )


def with_commas(name: str, value: str, describe: str) -> DataError:
    """The refusal of numbers that are written with commas."""
    return DataError(
        f"column {name!r} of {describe} holds numbers with commas, such as {value!r}; if they begin decimals give decimal=',' "
        f"(--decimal ,), if they mark thousands take them out, and if these are codes say so: C({name}) in a formula "
        "(categories= in Python)",
        where=name,
    )


def refuse_identifier(name: str, levels: Sequence[str], rows: int, describe: str) -> None:
    """Refuse a category that has almost a level of its own for each row."""
    if len(levels) >= _IDENTIFIER and 10 * len(levels) >= 9 * rows:
        raise DataError(
            f"column {name!r} of {describe} has {len(levels)} levels ({levels[0]!r}, {levels[1]!r}, …) in {rows} rows: it "
            "names the rows and tells nothing about others; leave it out by naming the others in features= (--features), "
            "or derive a coarser column from it",
            where=name,
        )


def days(value: Any) -> float:
    """A date in a JSON row as its number of days.

    >>> days("1970-01-02T12:00:00")
    1.5
    """
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    elif isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return (value - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1)
