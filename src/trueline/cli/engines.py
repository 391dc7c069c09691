"""What is looked at here before an engine reads files: that all have the same columns, and what embedded reading makes of them.

Dask's and Spark's readers take a file whose columns stand in another order, or whose rows are longer than its header,
without a word; what they would take for something else than ``trueline fit`` without an engine does is told to them.
"""

from __future__ import annotations

import csv
import glob
import gzip
import os
import re
from collections.abc import Sequence
from typing import Any

from ..data.files import MISSING_MARKS, check_header, check_names
from ..errors import DataError, UsageError

LOOKED_AT = 1000  # files at most: a look costs about a millisecond each

_DAYS = {  # as Polars takes dates, which is day before month
    r"\d{4}-\d{1,2}-\d{1,2}": "%Y-%m-%d",
    r"\d{4}/\d{1,2}/\d{1,2}": "%Y/%m/%d",
    r"\d{1,2}-\d{1,2}-\d{4}": "%d-%m-%Y",
    r"\d{1,2}/\d{1,2}/\d{4}": "%d/%m/%Y",
    r"\d{1,2}\.\d{1,2}\.\d{4}": "%d.%m.%Y",
}
_TIMES = {"": "", r"\d+:\d+": "%H:%M", r"\d+:\d+:\d+": "%H:%M:%S", r"\d+:\d+:\d+\.\d+": "%H:%M:%S.%f"}


def check_files(paths: Sequence[str], kind: str) -> None:
    """Refuse local files that differ in their columns."""
    here = [path for path in paths if os.path.isfile(path)][:LOOKED_AT]
    if kind != "parquet":
        _check_headers(here, kind)
        return
    for folder in (path for path in paths if os.path.isdir(path)):
        here.extend(sorted(glob.glob(os.path.join(glob.escape(folder), "**", "*.parquet"), recursive=True)))
    for path in here[1:LOOKED_AT]:
        wrong = differing(path, here[0], types=False)  # types are compared by every partition, with values to show
        if wrong:
            raise DataError(wrong, where=path)


def differing(path: str, first: str, types: bool = True) -> str:
    """What is wrong with a Parquet file, by itself or beside the first one; nothing if nothing is."""
    import polars as pl

    try:
        found, like = (dict(pl.read_parquet_schema(one)) for one in (path, first))
    except Exception as error:
        return f"{path} cannot be read: {str(error).splitlines()[0]}"
    for name in {**like, **found}:
        if name not in found or name not in like:
            lacking, having = (path, first) if name in like else (first, path)
            return f"{lacking} lacks column {name!r}, which {having} has; give all files the same columns"
        if types and found[name] != like[name]:
            return f"column {name!r} is {found[name]} in {path} and {like[name]} in {first}; give all files one type"
    return ""


def separator_of(kind: str) -> str:
    return "\t" if kind == "tsv" else ","


def _check_headers(paths: Sequence[str], kind: str) -> None:
    """Refuse delimited files with other headers than the first one, or with rows of another length."""
    first: list[str] = []
    for path in paths:
        lines = _first_lines(path, separator_of(kind))
        if not lines:
            continue
        names = [cell.strip() for cell in lines[0]]
        if not first:
            other = max(";\t|,", key=names[0].count)
            if len(names) == 1 and other in names[0]:
                shown = {"\t": "tab"}.get(other, other)
                raise DataError(
                    f"{path} looks separated by {shown!r}, which --engine does not take; convert it to CSV or Parquet",
                    where=path,
                )
            check_header(lines[0], separator_of(kind), path, True)
            first = names
        if names != first:
            check_names(names, path)
            lacking = [name for name in first if name not in names] + [name for name in names if name not in first]
            what = (
                f"other columns ({lacking[0]!r})" if lacking else f"columns in another order ({', '.join(names)[:80]})"
            )
            raise DataError(
                f"{path} has {what} than {paths[0]}; give all files the same columns in the same order", where=path
            )
        if len(lines) > 1 and len(lines[1]) != len(names):
            raise DataError(
                f"the first row of {path} has {len(lines[1])} values and its header {len(names)} names; give every value "
                "a name, and every name a value",
                where=path,
            )


def _first_lines(path: str, separator: str) -> list[list[str]]:
    """The header and the first row of a delimited file, blank lines left out."""
    found: list[list[str]] = []
    try:
        with _text(path) as text:
            for cells in csv.reader(text, delimiter=separator):
                if len(cells) > 1 or any(cell.strip() for cell in cells):
                    found.append(cells)
                if len(found) == 2:
                    break
    except (OSError, EOFError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}; check or copy it again", where=path) from None
    return found


def _text(path: str) -> Any:
    """A file of text, unpacked; what is not UTF-8 is the engine's to refuse."""
    options: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "replace", "newline": ""}
    if path.endswith(".gz"):
        return gzip.open(path, "rt", **options)
    if not path.endswith((".zst", ".zstd")):
        return open(path, **options)
    try:
        import zstandard
    except ImportError:
        raise UsageError(f"{path} needs pip install zstandard where an engine reads it", where=path) from None
    return zstandard.open(path, "rt", **options)


def pandas_options(paths: Sequence[str], kind: str) -> dict[str, Any]:
    """How pandas, which reads for Dask, takes delimited files for what embedded reading takes them."""
    options: dict[str, Any] = {
        "sep": separator_of(kind),
        "index_col": False,  # or the first field of longer rows would be an index
        "keep_default_na": False,
        "na_values": MISSING_MARKS,
        "enforce": True,  # files that are not here could not be compared
        "float_precision": "round_trip",  # the nearest number, as everywhere: a last bit would move a row to another fold
    }
    if any(path.endswith((".gz", ".zst", ".zstd")) for path in paths):
        options["blocksize"] = None
    first = next((path for path in paths if os.path.isfile(path)), None)
    if first is None:
        return {**options, "assume_missing": True}
    import polars as pl

    from ..data.read import open_source

    names = _first_lines(first, separator_of(kind))[0]  # as pandas knows them, with the blanks around them
    types: dict[str, Any] = {}
    dates: list[str] = []
    for name, dtype in zip(names, open_source(first).dtypes.values()):
        if dtype in (pl.Date, pl.Datetime):
            dates.append(name)
        else:
            # A column that begins with whole numbers may go on with fractions, and one of text with numbers.
            types[name] = "float64" if dtype.is_numeric() else "boolean" if dtype == pl.Boolean else "str"
    options["dtype"] = types
    if dates:
        options.update(parse_dates=dates, date_format=_formats(first, dates, names, kind))
    return options


def _formats(path: str, dates: Sequence[str], names: Sequence[str], kind: str) -> dict[str, str]:
    """How each column of dates is written, by its first value: pandas would take 03/04/2020 for the fourth of March."""
    import polars as pl

    rows = pl.read_csv(
        path, infer_schema=False, separator=separator_of(kind), n_rows=10_000, null_values=MISSING_MARKS, glob=False
    )
    found = {}
    for name in dates:
        texts = rows.to_series(list(names).index(name)).drop_nulls()
        found[name] = _format(texts[0].strip() if len(texts) else "")
    return found


def _format(text: str) -> str:
    for day, form in _DAYS.items():
        for time, rest in _TIMES.items():
            matched = re.fullmatch(f"{day}([ T]?){time}", text)
            if matched and form != "%Y-%m-%d":
                return form + matched[1] + rest
    return "ISO8601"
