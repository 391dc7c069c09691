"""Files and standard input as lazy Polars frames: formats, separators, compression, and what is wrong with them.

The suffix names the format, the first bytes confirm it. Files are scanned by Polars' streaming engine (gzip
and zstd included); standard input is cut into pieces at line ends, so a pipe that never ends is learned from
as it flows. Integers of text formats are read as float64: a column that begins with whole numbers may go on
with fractions.
"""

from __future__ import annotations

import glob
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError, nearest
from .refusals import explain, header_cells

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
_PIECE_BYTES = 4 << 20
_PAUSE_SECONDS = 0.05


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


def file_format(path: str) -> str:
    """One of csv, tsv, text, parquet, ipc, ndjson; by suffix, otherwise by the first bytes."""
    bare = re.sub(r"\.(gz|zst|zstd)$", "", path.lower())
    suffix = bare.rpartition(".")[2] if "." in Path(bare).name else ""
    if suffix in SPARSE_TEXT:
        raise UsageError(
            f"{path} is {SPARSE_TEXT[suffix]} text, which only `trueline stream` reads; give a CSV, Parquet, "
            "Arrow or NDJSON table",
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
        raise DataError(f"cannot read {path}: {error.strerror}", where=path) from None
    if size == 0:
        raise DataError(f"{path} is empty: a table needs a header and at least one row", where=path)
    found = FORMATS.get(suffix) or _sniff(head)
    if found == "parquet":
        _check_parquet(path, head, size)
    elif found != "ipc" and bare == path.lower():
        if b"\0" in head:
            raise DataError(
                f"{path} is not text: its first bytes are binary; give a CSV, Parquet, Arrow or NDJSON table",
                where=path,
            )
        if not head.strip():
            raise DataError(f"{path} is empty: a table needs a header and at least one row", where=path)
        if found == "ndjson" and head.lstrip()[:1] == b"[":
            raise DataError(f"{path} is a JSON array; give one JSON object a line (NDJSON)", where=path)
    return found


def _sniff(head: bytes) -> str:
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:6] == b"ARROW1":
        return "ipc"
    return "ndjson" if head.lstrip()[:1] == b"{" else "text"


def _check_parquet(path: str, head: bytes, size: int) -> None:
    with open(path, "rb") as file:
        file.seek(max(0, size - 4))
        tail = file.read(4)
    if head[:4] != b"PAR1":
        raise DataError(f"{path} is not a Parquet file: it does not begin with PAR1", where=path)
    if size < 12 or tail not in (b"PAR1", b"PARE"):
        raise DataError(f"{path} is a Parquet file that is cut short: its footer is missing; copy it again", where=path)


def row_groups(paths: Sequence[str], limit: int) -> list[tuple[str, int, int]]:
    """(path, first row, rows) of Parquet row groups, small ones together, none of them above ``limit`` bytes.

    Empty where that is not known, or a single group is larger.
    """
    try:
        from pyarrow.parquet import read_metadata
    except ImportError:
        return []
    found: list[tuple[str, int, int]] = []
    for path in paths:
        try:
            meta = read_metadata(path)
        except (OSError, ValueError):  # remote, or a variant that only Polars reads
            return []
        start = 0
        for k in range(meta.num_row_groups):
            rows = meta.row_group(k).num_rows
            if rows * meta.num_columns * 8 > limit:
                return []
            if found and found[-1][0] == path and (found[-1][2] + rows) * meta.num_columns * 16 <= limit:
                found[-1] = (path, found[-1][1], found[-1][2] + rows)
            else:
                found.append((path, start, rows))
            start += rows
    return found


def scan_files(paths: Sequence[str], kind: str, separator: str | None) -> pl.LazyFrame:
    """One lazy frame over files of one format."""
    import polars as pl

    if kind == "parquet":
        return pl.scan_parquet(list(paths), glob=False)
    if kind == "ipc":
        return pl.scan_ipc(list(paths), glob=False) if _is_ipc_file(paths[0]) else pl.read_ipc_stream(paths[0]).lazy()
    if kind == "ndjson":
        lazy = pl.scan_ndjson(list(paths), infer_schema_length=INFERENCE_ROWS)
        return pl.scan_ndjson(list(paths), schema=_widened(lazy.collect_schema()))
    first = str(paths[0])
    chosen = separator or ("\t" if kind == "tsv" else ",")
    header = pl.read_csv(
        first, has_header=False, n_rows=1, infer_schema=False, separator=chosen, truncate_ragged_lines=True, glob=False
    ).row(0)
    chosen = check_header([cell or "" for cell in header], chosen, first, separator is not None, kind == "text")
    options: dict[str, Any] = {
        "separator": chosen,
        "try_parse_dates": True,
        "null_values": MISSING_MARKS,
        "glob": False,
    }
    schema = pl.scan_csv(list(paths), infer_schema_length=INFERENCE_ROWS, **options).collect_schema()
    made = pl.scan_csv(list(paths), schema=_widened(schema), **options)
    if all(dtype == pl.String for dtype in schema.values()) and not made.head(1).collect().height:
        raise DataError(f"{first} has a header but no rows", where=first)
    return made


def _is_ipc_file(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(6) == b"ARROW1"


def _widened(schema: Any) -> Any:
    """Whole numbers as float64, and columns empty so far too."""
    import polars as pl

    return pl.Schema({n: pl.Float64() if t.is_integer() or t == pl.Null else t for n, t in schema.items()})


def check_header(cells: Sequence[str], separator: str, describe: str, told: bool, guess: bool = False) -> str:
    """The separator to use; refuses a header that shows another one, repeats a name or holds numbers."""
    if len(cells) == 1 and not told:
        other = max(";\t|", key=cells[0].count)
        if cells[0].count(other):
            if guess and other != "|":
                return other
            shown = {"\t": "tab"}.get(other, other)
            raise DataError(
                f"{describe} has one column, {cells[0][:60]!r}: it looks separated by {shown!r}, not {separator!r}; "
                f"give separator={other!r}",
                where=describe,
            )
    check_names(cells, describe)
    if cells and all(re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", cell) for cell in cells):
        raise DataError(
            f"{describe} has no header: its first line holds numbers; put the column names there", where=describe
        )
    return separator


def check_names(names: Sequence[str], describe: str) -> None:
    """Refuse a repeated column name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{describe} names column {name!r} twice; every column needs a name of its own", where=name)
        seen.add(name)


def read_stream(stream: Any, describe: str, separator: str | None) -> Iterator[pl.DataFrame]:
    """Frames from a byte stream of any format, as the bytes come."""
    import polars as pl

    pieces = _pieces(stream)
    head = next(pieces, b"")
    if head[:2] == b"\x1f\x8b" or head[:4] == b"\x28\xb5\x2f\xfd":
        pieces = _decompressed(head, pieces)
        head = next(pieces, b"")
    if not head.strip():
        raise DataError(f"{describe} is empty: a table needs a header and at least one row", where=describe)
    kind = "stream" if head[:4] == b"\xff\xff\xff\xff" else _sniff(head)
    if kind in ("parquet", "ipc", "stream"):  # these have their index at the end, so they are held whole
        whole = io.BytesIO(b"".join([head, *pieces]))
        readers: dict[str, Any] = {"parquet": pl.read_parquet, "ipc": pl.read_ipc, "stream": pl.read_ipc_stream}
        try:
            yield readers[kind](whole)
        except Exception as error:
            raise explain(error, describe=describe) from None
        return
    if b"\0" in head[:4096]:
        raise DataError(f"{describe} is not text: its first bytes are binary", where=describe)
    yield from _text_frames(head, pieces, describe, separator, kind == "ndjson")


def _text_frames(
    head: bytes, pieces: Iterator[bytes], describe: str, separator: str | None, ndjson: bool
) -> Iterator[pl.DataFrame]:
    import polars as pl

    schema: Any = None
    chosen = separator or ","
    options: dict[str, Any] = {}
    line = 1
    for text in _whole_lines(head, pieces):
        if schema is None and not ndjson:
            first, _, text = text.partition(b"\n")
            names = header_cells(first, chosen)
            chosen = check_header(names, chosen, describe, separator is not None, guess=True)
            names = header_cells(first, chosen)
            check_names(names, describe)
            line = 2
            options = {"separator": chosen, "null_values": MISSING_MARKS, "has_header": False, "new_columns": names}
            if not text.strip():
                continue
        try:
            if ndjson:
                schema = schema or _widened(pl.read_ndjson(io.BytesIO(text), infer_schema_length=INFERENCE_ROWS).schema)
                frame = pl.read_ndjson(io.BytesIO(text), schema=schema)
            else:
                if schema is None:
                    guess = pl.read_csv(text, infer_schema_length=INFERENCE_ROWS, try_parse_dates=True, **options)
                    schema = _widened(guess.schema)
                    if len(guess.columns) != len(names):
                        raise DataError(
                            f"line 2 of {describe} has {len(guess.columns)} fields where the header names {len(names)}",
                            where=describe,
                        )
                    options.pop("new_columns")
                frame = pl.read_csv(text, schema=schema, **options)
        except DataError:
            raise
        except Exception as error:
            refusal = explain(
                error,
                describe=f"{describe} (between line {line} and {line + text.count(10)})",
                names=list(schema or ()),
            )
            raise refusal from None
        line += text.count(10)
        yield frame
    if schema is None:
        raise DataError(f"{describe} has a header but no rows", where=describe)


def _pieces(stream: Any) -> Iterator[bytes]:
    """What has come so far, at most a piece at a time: a slow pipe is not waited for."""
    import select

    read = getattr(stream, "read1", stream.read)
    try:
        number = stream.fileno()
    except (OSError, AttributeError, io.UnsupportedOperation):
        number = None
    parts: list[bytes] = []
    size = 0
    while True:
        waits = parts and number is not None and not select.select([number], [], [], _PAUSE_SECONDS)[0]
        part = b"" if waits else read(1 << 20)
        if part:
            parts.append(part)
            size += len(part)
        if parts and (not part or size >= _PIECE_BYTES):
            yield b"".join(parts)
            parts, size = [], 0
        if not part and not waits:
            return


def _decompressed(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    if head[:2] == b"\x1f\x8b":
        import zlib

        engine: Any = zlib.decompressobj(wbits=47)
    else:
        try:
            import zstandard
        except ImportError:
            raise DataError(
                "zstd on standard input needs the package zstandard; give the file itself", where="-"
            ) from None
        engine = zstandard.ZstdDecompressor().decompressobj()
    for piece in (p for part in ([head], pieces) for p in part):
        plain = engine.decompress(piece)
        if plain:
            yield plain


def _whole_lines(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, cut only at line ends outside quotes."""
    rest = b""
    for piece in (p for part in ([head], pieces) for p in part):
        rest += piece
        cut = len(rest)
        while (cut := rest.rfind(b"\n", 0, cut)) >= 0:
            if rest.count(b'"', 0, cut) % 2 == 0:
                yield rest[: cut + 1]
                rest = rest[cut + 1 :]
                break
    if rest.strip():
        yield rest


def standard_input() -> Any:
    """The byte stream behind standard input."""
    return getattr(sys.stdin, "buffer", sys.stdin)
