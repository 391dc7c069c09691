"""Files as lazy Polars frames: formats, separators, compression, and what is wrong with them.

The suffix names the format, the first bytes confirm it. Files are scanned by Polars' streaming engine, gzip and
zstd included. Whole numbers of text formats are read as float64: a column that begins with them may go on with
fractions.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import DataError, UsageError, nearest
from .dates import date_columns

if TYPE_CHECKING:
    import polars as pl

MISSING_MARKS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]
INFERENCE_ROWS = 10_000
FORMATS = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "txt": "text", "parquet": "parquet", "pq": "parquet", "arrow": "ipc",
    "ipc": "ipc", "feather": "ipc", "ndjson": "ndjson", "jsonl": "ndjson", "json": "ndjson",
}  # fmt: skip
SPARSE_TEXT = {"svm": "svmlight", "svmlight": "svmlight", "libsvm": "svmlight", "vw": "Vowpal Wabbit"}
_REMOTE = re.compile(r"^[a-z][a-z0-9+]*://")


def resolve(path: str) -> list[str]:
    """The files that a path or pattern names, in sorted order."""
    if _REMOTE.match(path):
        return [path]
    place = Path(path)
    if place.is_dir():
        raise DataError(
            f"{path} is a directory; give a file, or a pattern such as {path.rstrip('/')}/*.parquet", where=path
        )
    if place.exists():
        return [path]
    if any(mark in path for mark in "*?["):
        found = sorted(name for name in glob.glob(path, recursive=True) if Path(name).is_file())
        if not found:
            raise DataError(f"no file matches {path}", where=path)
        return found
    folder = place.parent
    siblings = sorted(item.name for item in folder.iterdir()) if folder.is_dir() else []
    hint = nearest(place.name, siblings) if siblings else ""
    raise DataError(
        f"there is no file {path}{hint if 'did you mean' in hint else '; give the path of a table'}", where=path
    )


def is_pipe(path: str) -> bool:
    """Whether a path is a pipe, such as the shell's ``<(command)``: it can be read once and not sought in."""
    return not _REMOTE.match(path) and Path(path).is_fifo()


def file_format(path: str) -> str:
    """One of csv, tsv, text, parquet, ipc, ndjson; by suffix, otherwise by the first bytes."""
    bare = re.sub(r"\.(gz|zst|zstd)$", "", path.lower())
    suffix = bare.rpartition(".")[2] if "." in Path(bare).name else ""
    if suffix in SPARSE_TEXT:
        raise UsageError(
            f"{path} is {SPARSE_TEXT[suffix]} text, which `trueline stream` learns from, and which only its models predict "
            "and evaluate; give a CSV, Parquet, Arrow or NDJSON table",
            where=path,
        )
    if _REMOTE.match(path):
        return FORMATS.get(suffix, "parquet")
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
            file.seek(0, os.SEEK_END)
            size = file.tell()
    except OSError as error:
        told = error.strerror or "it is a pipe, which is read only alone or as '-', standard input"
        raise DataError(f"cannot read {path}: {told}", where=path) from None
    if size == 0:
        raise DataError(f"{path} is empty: a table needs a header and at least one row", where=path)
    found = FORMATS.get(suffix) or sniff(head)
    if found == "parquet":
        _check_parquet(path, head, size)
    elif found != "ipc" and bare == path.lower():
        if b"\0" in head or head[:2] == b"\x1f\x8b":
            raise no_text(head, path)
        if not head.strip():
            raise DataError(f"{path} is empty: a table needs a header and at least one row", where=path)
        if found != "ndjson":
            refuse_sparse_text(head, path)
        if found == "ndjson" and head.lstrip()[:1] == b"[":
            raise DataError(f"{path} is a JSON array; give one JSON object a line (NDJSON)", where=path)
    return found


def no_text(head: bytes, describe: str) -> DataError:
    """The refusal of bytes that are no text, by what they seem to be."""
    kinds = {
        b"\xff\xfe": "UTF-16 text; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)",
        b"\xfe\xff": "UTF-16 text; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)",
        b"PK": "a ZIP archive or a spreadsheet; unpack it, or save the sheet as CSV",
        b"\xd0\xcf": "a spreadsheet of an old kind; save the sheet as CSV",
        b"\x1f\x8b": "compressed by gzip; end its name in .gz",
    }
    told = kinds.get(head[:2], "not text: its first bytes are binary; give a CSV, Parquet, Arrow or NDJSON table")
    return DataError(f"{describe} is {told}", where=describe)


def sniff(head: bytes) -> str:
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:6] == b"ARROW1":
        return "ipc"
    return "ndjson" if head.lstrip()[:1] == b"{" else "text"


_VOWPAL = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?( +[^ ,;|]+)* +[^ ,;|]*\||\|[^|,;]*$")
_SVMLIGHT = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?( qid:\d+)?( \d+:[-+.\deE]+)+\s*(#.*)?$")


def looks_like(head: bytes) -> str | None:
    """ "vw" or "svmlight" where the first line of a text looks so, or None.

    >>> looks_like(b"1 0.5 'a|size height:1.5\\n"), looks_like(b"-1 3:0.5 7:1\\n"), looks_like(b"a|b|c\\n1|2|3\\n")
    ('vw', 'svmlight', None)
    """
    first = head.strip().partition(b"\n")[0].rstrip()
    return "vw" if _VOWPAL.match(first) else "svmlight" if _SVMLIGHT.match(first) else None


def refuse_sparse_text(head: bytes, describe: str) -> None:
    """Refuse text that is plainly no table, with the option that reads it."""
    form = looks_like(head)
    if form is not None:
        name = {"vw": "Vowpal Wabbit", "svmlight": "svmlight"}[form]
        raise UsageError(
            f"{describe} looks like {name} text: `trueline stream --format {form}` learns from it", where=describe
        )


def _check_parquet(path: str, head: bytes, size: int) -> None:
    with open(path, "rb") as file:
        file.seek(max(0, size - 4))
        tail = file.read(4)
    if head[:4] != b"PAR1":
        raise DataError(f"{path} is not a Parquet file: it does not begin with PAR1", where=path)
    if size < 12 or tail not in (b"PAR1", b"PARE"):
        raise DataError(f"{path} is a Parquet file that is cut short: its footer is missing; copy it again", where=path)


DELIMITED = frozenset(("csv", "tsv", "text"))


class Delimited(NamedTuple):
    """What was told of delimited text: its separator, and the mark before a number's decimals."""

    separator: str | None = None
    decimal: str = "."


def delimited(told: Delimited) -> tuple[str | None, bool]:
    """(the separator if it was told, whether decimals follow a comma)."""
    if told.decimal not in (".", ","):
        raise UsageError(f"decimals follow a point or a comma, not {told.decimal!r}", where="decimal")
    commas = told.decimal == ","
    if commas and told.separator == ",":
        raise UsageError("a comma cannot both separate values and begin decimals", where="decimal")
    return told.separator or (";" if commas else None), commas


class Scan(NamedTuple):
    """Files as a lazy frame, and for text formats how a column is read as it stands."""

    lazy: pl.LazyFrame
    as_text: Callable[[str], pl.LazyFrame] | None = None


def json_types(paths: Sequence[str], formats: dict[str, str]) -> tuple[Any, list[pl.Expr]]:
    """The schema of files of JSON lines, and what makes dates of their text."""
    import polars as pl

    schema = widened(pl.scan_ndjson(list(paths), infer_schema_length=INFERENCE_ROWS).collect_schema())
    made = pl.scan_ndjson(list(paths), schema=schema)
    return schema, date_columns(made.head(INFERENCE_ROWS).collect(), formats, made)


def scan_files(paths: Sequence[str], kind: str, told: Delimited, formats: dict[str, str], notes: list[str]) -> Scan:
    """Files of one format; ``formats`` takes those of dates whose order was settled, ``notes`` what was guessed."""
    import polars as pl

    separator, commas = delimited(told)
    if kind == "parquet":
        return Scan(pl.scan_parquet(list(paths), glob=False))
    if kind == "ipc":
        indexed = _is_ipc_file(paths[0])
        return Scan(pl.scan_ipc(list(paths), glob=False) if indexed else pl.read_ipc_stream(paths[0]).lazy())
    first = str(paths[0])
    usual = separator or ("\t" if kind == "tsv" else ",")
    header = pl.read_csv(
        first, has_header=False, n_rows=1, infer_schema=False, separator=usual, truncate_ragged_lines=True, glob=False
    ).row(0)
    chosen = check_header([cell or "" for cell in header], usual, first, separator is not None)
    if chosen != usual:
        notes.append(guessed(chosen, first))
    options: dict[str, Any] = {
        "separator": chosen,
        "null_values": MISSING_MARKS,
        "glob": False,
        "decimal_comma": commas,
    }
    schema = pl.scan_csv(list(paths), infer_schema_length=INFERENCE_ROWS, **options).collect_schema()
    made = pl.scan_csv(list(paths), schema=widened(schema), **options)
    # Polars leaves doubled quotation marks and blanks around a name as they are.
    meant = {name: name.replace('""', '"').strip() for name in schema}
    made = made.rename({a: b for a, b in meant.items() if a != b}) if [*meant] != [*meant.values()] else made
    text = [meant[name] for name, dtype in schema.items() if dtype == pl.String]
    if text:
        head = made.select(text).head(INFERENCE_ROWS).collect()
        made = made.with_columns(text_numbers(head) + date_columns(head, formats, made))
    gaps = len(schema) > 1 and any(map(_has_blank_lines, paths))
    if gaps:
        made = made.filter(filled())

    def as_text(name: str) -> pl.LazyFrame:
        cells = pl.scan_csv(list(paths), schema=dict.fromkeys(schema, pl.String()), **options).rename(meant)
        return (cells.filter(filled()) if gaps else cells).select(name)

    if all(dtype == pl.String for dtype in schema.values()) and not made.head(1).collect().height:
        raise DataError(f"{first} has a header but no rows", where=first)
    return Scan(made, as_text)


_BLANK = re.compile(rb"(?:^|\n)[ \t]*\r?\n")


def has_blank_lines(text: bytes) -> bool:
    """Whether there seems to be a line without anything in it, which Polars takes for a row of missing values."""
    return _BLANK.search(text) is not None


def blank_lines(text: bytes) -> int:
    """How many bytes of blank lines a text begins with."""
    found = re.match(rb"(?:[ \t]*\r?\n)*", text)
    return found.end() if found else 0


def _has_blank_lines(path: str) -> bool:
    """The same of the beginning and the end of a local file."""
    if _REMOTE.match(str(path)):
        return False
    with open(path, "rb") as file:
        if has_blank_lines(file.read(1 << 16)):
            return True
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        return has_blank_lines(b"-" + file.read())


def filled() -> pl.Expr:
    """Rows that have any value at all."""
    import polars as pl

    return pl.any_horizontal(pl.all().is_not_null())


def _is_ipc_file(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(6) == b"ARROW1"


def text_numbers(frame: pl.DataFrame) -> list[pl.Expr]:
    """Columns of text that hold numbers in all of these rows: with blanks around them, as ``+1``, or as ``7.e5``."""
    import polars as pl

    def number(name: str) -> pl.Expr:
        bare = pl.col(name).str.strip_chars()
        return pl.when(bare.is_in(MISSING_MARKS)).then(None).otherwise(bare).cast(pl.Float64).alias(name)

    found = []
    for name, dtype in frame.schema.items():
        text = frame.get_column(name).drop_nulls() if dtype == pl.String else None
        if text is None or not len(text):
            continue
        with contextlib.suppress(pl.exceptions.PolarsError):
            if frame.select(number(name)).to_series().count():
                found.append(number(name))
    return found


def widened(schema: Any) -> Any:
    """Whole numbers as float64, and columns empty so far too."""
    import polars as pl

    return pl.Schema({n: pl.Float64() if t.is_integer() or t == pl.Null else t for n, t in schema.items()})


def check_header(cells: Sequence[str], separator: str, describe: str, told: bool) -> str:
    """The separator to use: where it was not told, the semicolon or tab that a header of one cell shows.

    Refuses a header that is separated by a bar, repeats a name or holds numbers.
    """
    check_line_ends(cells, describe)
    if cells and cells[0].lower().startswith("sep=") and len(cells) <= 2:
        raise DataError(
            f"{describe} begins with {cells[0]!r}, a line for spreadsheets alone; remove it and give --separator",
            where=describe,
        )
    if len(cells) == 1 and not told:
        other = max(";\t|", key=cells[0].count)
        if cells[0].count(other):
            if other != "|":
                return other
            raise DataError(
                f"{describe} has one column, {cells[0][:60]!r}: it looks separated by '|', not {separator!r}; "
                "give separator='|' (--separator '|')",
                where=describe,
            )
    check_names([cell.strip() for cell in cells], describe)
    if cells and all(re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", cell) for cell in cells):
        raise DataError(
            f"{describe} has no header: its first line holds numbers; put the column names there", where=describe
        )
    return separator


def guessed(separator: str, describe: str) -> str:
    """The sentence that reports a separator taken from the header."""
    shown = {"\t": "tabs", ";": "semicolons"}[separator]
    return f"the values of {describe} are separated by {shown}, as its header shows"


def check_line_ends(cells: Sequence[str], describe: str) -> None:
    """Refuse lines that end in a carriage return alone, as on old machines: all of them would be one."""
    if any("\r" in cell.rstrip("\r") for cell in cells):
        raise DataError(
            f"the lines of {describe} end in a carriage return alone; convert it, for example by tr '\\r' '\\n'",
            where=describe,
        )


def check_names(names: Sequence[str], describe: str) -> None:
    """Refuse a repeated column name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{describe} names column {name!r} twice; every column needs a name of its own", where=name)
        seen.add(name)
