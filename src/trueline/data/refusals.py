"""Polars' errors as one sentence each, naming the file, line and column.

Polars says what went wrong but seldom where. A file that failed is read again here, line by line, until the
first line that explains the failure: it costs nothing until something is wrong.
"""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..errors import DataError, TruelineError, UsageError, nearest
from .jsonlines import bad_line
from .quotes import inner_quote, wrong_quotes

# What Polars and the libraries of compression say of bytes that are not whole.
_DAMAGED = (
    "unexpected end of file", "corrupt gzip stream", "corrupt deflate stream", "incomplete frame", "Data corruption detected",
    "while decompressing data", "zstd decompressor error", "invalid gzip header",
)  # fmt: skip


def unknown_column(name: str, known: Sequence[str], *, what: str = "column", source: str = "") -> UsageError:
    """The call names a column that the source does not have."""
    place = f" in {source}" if source else ""
    return UsageError(f"there is no {what} {name!r}{place}{nearest(name, known)}", where=name)


def lacking_column(name: str, known: Sequence[str], source: str) -> DataError:
    """The data lack a column that a model needs; the call named none."""
    return DataError(f"{source} lacks column {name!r}{nearest(name, known)}", where=name)


def same_term(term: str, one: str, other: str, describe: str) -> DataError:
    """Two parts of the design that would have the same name, and so be taken for one."""
    return DataError(
        f"term {term!r} of {describe} would stand for {one} and for {other}; rename the column", where=term
    )


def explain(error: Exception, *, describe: str, names: Sequence[str] = (), paths: Sequence[str] = ()) -> TruelineError:
    """The refusal to raise in the place of an error of Polars."""
    text = str(error).strip().split("\n")[0]
    kind = type(error).__name__
    packed = [path for path in paths if re.search(r"\.(gz|zst|zstd)$", path.lower())]
    if any(mark in text for mark in _DAMAGED) and (packed or not paths):
        where = next((path for path in packed if _damaged(path)), packed[0] if len(packed) == 1 else describe)
        return DataError(
            f"{where} is compressed text that is cut short or damaged ({text[:80]}); copy it again", where=where
        )
    for path in paths:
        found = _bad_json(path) or _bad_line(path)
        if found is not None:
            return found
    if kind == "ColumnNotFoundError":
        missing = re.search(r'column "([^"]*)"|"([^"]*)" not found|^(\S+)$', text)
        name = next((group for group in missing.groups() if group), text) if missing else text
        return unknown_column(name, names, source=describe)
    parsed = re.search(
        r"could not parse [`'\"](.*?)[`'\"] as dtype [`'\"](\w+)[`'\"] at column [`'\"](.*?)[`'\"]", text
    )
    if parsed:
        value, dtype, column = parsed.groups()
        wanted = {"f64": "a number", "bool": "true or false", "date": "a date"}.get(dtype, dtype)
        place = _line_of(paths, column, value)
        return DataError(
            f"column {column!r} of {describe} holds {value!r}{place} where {wanted} was expected; "
            "correct the value, or leave the cell empty and say how missing values are to be treated",
            where=column,
        )
    converted = re.search(r"conversion from `str` to `(\w+).*?` failed in column '(.*?)' .*?: \[\"(.*?)\"", text)
    if converted:
        dtype, column, value = converted.groups()
        wanted = {"f64": "a number", "time": "a time of day"}.get(dtype, "a date written as the others are")
        place = _line_of(paths, column, value)
        return DataError(
            f"column {column!r} of {describe} holds {value!r}{place} where {wanted} was expected; correct the value",
            where=column,
        )
    if "utf-8" in text.lower() or "utf8" in text.lower():
        return DataError(f"{describe} is not UTF-8 text; convert it to UTF-8", where=describe)
    if "more fields than defined" in text or "schema length" in text:
        return DataError(
            f"{describe} has rows with differing numbers of fields: every row needs one per column", where=describe
        )
    if "CSV malformed" in text:  # Polars counts every mark, also one inside a value
        marked = (inner_quote(_lines(path), path) for path in paths if _is_delimited(path))
        found = next((refusal for refusal in marked if refusal is not None), None)
        if found is not None:
            return found
    # What a reader quotes of a file that is no table can be all of its first line.
    told = re.sub(r"`([^`]{30})[^`]+(`|$)", r"`\1…`", text)
    return DataError(f"{describe} cannot be read: {told[:200]}", where=describe)


def _line_of(paths: Sequence[str], column: str, value: str) -> str:
    """ " in line 7" where a value of a delimited file was found again, else nothing."""
    lines = ((path, line_with(path, column, value)) for path in paths)
    return next((f" in line {line}" + (f" of {path}" if len(paths) > 1 else "") for path, line in lines if line), "")


def sql_error(error: Exception, expression: str, place: str, names: Sequence[str]) -> TruelineError:
    """A ``where`` or ``derive`` that Polars' SQL does not accept."""
    text = str(error).strip().split("\n")[0]
    if type(error).__name__ == "ColumnNotFoundError":
        return explain(error, describe=place, names=names)
    return UsageError(f"{place} {expression!r} is not an SQL expression on these columns: {text[:160]}", where=place)


def _lines(path: str) -> Iterator[bytes]:
    opener: Any = open
    with open(path, "rb") as file:
        head = file.read(4)
    if head[:2] == b"\x1f\x8b":
        import gzip

        opener = gzip.open
    elif head == b"\x28\xb5\x2f\xfd":
        return
    try:
        with opener(path, "rb") as file:
            yield from file
    except (EOFError, OSError, zlib.error):  # compressed text that is cut short or damaged: its lines end here
        return


def _damaged(path: str) -> bool:
    """Whether a file of gzip is not whole."""
    import gzip

    try:
        with open(path, "rb") as file:
            if file.read(2) != b"\x1f\x8b":
                return False
        with gzip.open(path, "rb") as packed:
            while packed.read(1 << 20):
                pass
    except (EOFError, OSError, zlib.error):
        return True
    return False


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of a delimited file, its separator the one that names its header's columns."""
    text = (line.decode("utf-8", "replace") for line in _lines(path))
    reader = csv.reader(text, delimiter=_separator(path))
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error:
        return


def _separator(path: str) -> str:
    """The separator that names the most columns in a file's header, in the order of what is usual."""
    first = next(_lines(path), b"")
    if path.removesuffix(".gz").endswith((".tsv", ".tab")) or (b"," not in first and b"\t" in first):
        return "\t"
    return ";" if b"," not in first and b";" in first else ","


def _is_delimited(path: str) -> bool:
    return bool(re.search(r"\.(csv|tsv|tab|txt)(\.gz|\.zst)?$", path.lower())) and Path(path).is_file()


def _bad_line(path: str) -> DataError | None:
    """The first line that is not UTF-8, opens a mark that is not closed, or has another number of fields than the header."""
    if not _is_delimited(path):
        return None
    for number, line in enumerate(_lines(path), 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            return DataError(
                f"line {number} of {path} is not UTF-8 text (byte 0x{line[error.start]:02x}); convert the file to UTF-8",
                where=path,
            )
    return wrong_quotes(_lines(path), _separator(path), path) or ragged(path)


def _bad_json(path: str) -> DataError | None:
    """The first line of a file of JSON lines that is no object, or that names a key twice."""
    if not re.search(r"\.(ndjson|jsonl|json)(\.gz)?$", path.lower()) or not Path(path).is_file():
        return None
    refusals = (bad_line(line, path, number) for number, line in enumerate(_lines(path), 1))
    return next((refusal for refusal in refusals if refusal is not None), None)


def ragged(path: str) -> DataError | None:
    """The first line with another number of fields than the header, as a refusal."""
    if not _is_delimited(path):
        return None
    width = None
    for number, cells in _rows(path):
        if width is None:
            width = len(cells)
        elif cells and len(cells) != width:
            return DataError(
                f"line {number} of {path} has {len(cells)} fields where the header names {width}: "
                "every row needs one value per column (quote values that contain the separator)",
                where=f"{path}:{number}",
            )
    return None


def line_with(path: str, column: str, value: str) -> int | None:
    """The first line of a delimited file that holds this value in this column."""
    if not _is_delimited(path):
        return None
    place = None
    for number, cells in _rows(path):
        if place is None:
            names = [cell.strip() for cell in cells]
            place = names.index(column) if column in names else -1
        elif 0 <= place < len(cells) and cells[place] == value:
            return number
    return None


def header_cells(raw: bytes, separator: str) -> list[str]:
    """The names in a delimited text's first line, without the blanks around them."""
    text = io.StringIO(raw.decode("utf-8", "replace").lstrip("\ufeff"))
    return [name.strip() for name in next(csv.reader(text, delimiter=separator), [])]


def missing_value(
    name: str,
    gap: np.ndarray,
    row: int,
    describe: str,
    *,
    trained: bool = False,
    feature: bool = True,
    new: bool = False,
) -> DataError:
    """The refusal of missing values: how many, and the first; what is no feature is never made up.

    ``trained`` where the rows should be like those of training, which had none; ``new`` where rows are predicted.
    """
    count = int(gap.sum())
    first = row + int(np.argmax(gap)) + 1
    tail = 'remove them, or choose missing="drop"' + (', "mean" or "indicator"' if feature and not new else "")
    tail = "it had none in training" if trained else tail
    many = f"{count} missing values, the first" if count > 1 else "a missing value"
    shown = f"column {name!r}" if name else "the column without a name (do lines end in a separator?)"
    return DataError(f"{shown} of {describe} has {many} in row {first}; {tail}", where=name)


FILL = "give finite numbers: fill or drop what is missing first"


def unusable(what: str, count: int, place: str, where: str, remedy: str = FILL) -> DataError:
    """Entries of an array that no learner can use: how many, and the first of them."""
    return DataError(
        f"{what} has {count:,} unusable entr{'y' if count == 1 else 'ies'}: {place}; {remedy}", where=where
    )


def in_words(value: float) -> str:
    """An unusable number in words."""
    if np.isnan(value):
        return "NaN"
    return "infinity" if np.isinf(value) else f"{value:g} (too large: its square overflows)"


def refuse_values(X: Any, names: Sequence[str] = (), largest: float = np.finfo(np.float64).max) -> None:
    """Raise for the first entry of an array or sparse matrix that is NaN or beyond ``largest``; return if there is none."""
    values = X.data if hasattr(X, "indptr") else X
    bad = ~(np.abs(values) <= largest)
    if not bad.any():
        return
    if hasattr(X, "indptr"):
        X = X.tocsr()
        at = int(np.argmax(~(np.abs(X.data) <= largest)))
        row, column, value = int(np.searchsorted(X.indptr, at, "right") - 1), int(X.indices[at]), X.data[at]
    else:
        row, column = divmod(int(np.argmax(bad)), X.shape[1])
        value = X[row, column]
    name = str(names[column]) if column < len(names) else f"x{column}"
    raise unusable("X", int(bad.sum()), f"column {name!r} has {in_words(value)} in row {row}", name)


def refuse_broken_sparse(X: Any) -> None:
    """Raise for a sparse matrix whose indices point outside it: SciPy's loops and ours would follow them."""
    kind = getattr(X, "format", None)
    if kind == "coo":
        if min(len(X.row), len(X.col)) < len(X.data):
            _refuse_broken(f"its coordinates are fewer than its {len(X.data)} entries")
        _refuse_outside(X.row, "row", X.shape[0])
        _refuse_outside(X.col, "column", X.shape[1])
    if kind not in ("csr", "csc", "bsr"):
        return
    sides = [side // size for side, size in zip(X.shape, X.blocksize if kind == "bsr" else (1, 1), strict=True)]
    slices, width = sides[::-1] if kind == "csc" else sides
    starts, entries = np.asarray(X.indptr), min(len(X.indices), len(X.data))
    if starts.shape != (slices + 1,) or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        _refuse_broken(f"its indptr is not {slices + 1} numbers that rise from 0")
    if starts[slices] > entries:
        _refuse_broken(f"its indptr ends at {starts[slices]}, but it stores {entries} entries")
    _refuse_outside(X.indices, "row" if kind == "csc" else "column", width)


def _refuse_outside(places: Any, what: str, width: int) -> None:
    places = np.asarray(places)
    if len(places) and not (places.min() >= 0 and places.max() < width):
        _refuse_broken(f"it stores an entry of {what} {places[(places < 0) | (places >= width)][0]}, but has {width}")


def _refuse_broken(fault: str) -> NoReturn:
    raise DataError(
        f"the sparse matrix X is broken: {fault}; build it anew, as scipy.sparse.csr_matrix((values, (rows, columns)))",
        where="X",
    )


def refuse_infinite(X: np.ndarray, names: Sequence[str], row: int, describe: str) -> bool:
    """Refuse infinite values by column, count and first row; whether there is no NaN (a missing value) either."""
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(X.sum()):
            return True
    bad = np.isinf(X)
    if bad.any():
        j = int(np.argmax(bad.any(axis=0)))
        count = int(bad[:, j].sum())
        first = row + int(np.argmax(bad[:, j])) + 1
        many = f"{count} infinite values, the first" if count > 1 else "an infinite value"
        raise DataError(
            f"column {names[j]!r} of {describe} has {many} in row {first}; give finite numbers", where=names[j]
        )
    return not bool(np.isnan(X).any())


def refuse_undefined(X: np.ndarray, terms: Sequence[str], row: int, describe: str) -> None:
    """Refuse terms of a formula that are not finite, such as the logarithm of a negative number."""
    if np.isfinite(X.sum()):
        return
    bad = ~np.isfinite(X)
    if bad.any():
        j = int(np.argmax(bad.any(axis=0)))
        first = row + int(np.argmax(bad[:, j])) + 1
        raise DataError(
            f"term {terms[j]!r} is not a finite number in row {first} of {describe} ({int(bad[:, j].sum())} such rows); "
            "leave those rows out with where, or change the term",
            where=terms[j],
        )
