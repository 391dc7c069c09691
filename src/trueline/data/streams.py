"""Tables that arrive as bytes, on standard input or a pipe: cut at line ends and read as they flow.

A pipe that pauses is not waited for: what has come so far is given out, so that a learner can follow a live source.
CSV and NDJSON come in pieces; Parquet and Arrow files have their index at the end and are held whole.
"""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from .dates import date_columns
from .files import (
    INFERENCE_ROWS,
    MISSING_MARKS,
    Delimited,
    blank_lines,
    check_header,
    check_line_ends,
    check_names,
    delimited,
    filled,
    guessed,
    has_blank_lines,
    no_text,
    refuse_sparse_text,
    sniff,
    text_numbers,
    widened,
)
from .jsonlines import bad_line, refuse_repeated_keys, whole_numbers
from .quotes import inner_quote, wrong_quotes
from .refusals import explain, header_cells
from .rounding import Numerals

if TYPE_CHECKING:
    import polars as pl

_PIECE_BYTES = 4 << 20
_PAUSE_SECONDS = 0.05
_LONGEST_ROW = 64 << 20  # bytes: 10,000 columns have a hundredth of it


def read_stream(
    stream: Any,
    describe: str,
    told: Delimited,
    formats: dict[str, str],
    numerals: Numerals,
    notes: list[str],
    types: Any = None,
) -> Iterator[pl.DataFrame]:
    """Frames from a byte stream of any format, as the bytes come.

    ``formats`` takes those of dates whose order was settled, ``numerals`` how a column of the last frame is read as text,
    ``notes`` what was guessed;
    ``types`` are the schema and the dates of JSON lines, where they are known.
    """
    import polars as pl

    separator, commas = delimited(told)
    pieces = arrivals(stream)
    head = next(pieces, b"")
    if head[:2] == b"\x1f\x8b" or head[:4] == b"\x28\xb5\x2f\xfd":
        pieces = _decompressed(head, pieces)
        head = next(pieces, b"")
    if not head.strip():
        raise DataError(f"{describe} is empty: a table needs a header and at least one row", where=describe)
    kind = "stream" if head[:4] == b"\xff\xff\xff\xff" else sniff(head)
    if kind in ("parquet", "ipc", "stream"):  # these have their index at the end, so they are held whole
        whole = io.BytesIO(b"".join([head, *pieces]))
        readers: dict[str, Any] = {"parquet": pl.read_parquet, "ipc": pl.read_ipc, "stream": pl.read_ipc_stream}
        try:
            yield readers[kind](whole)
        except Exception as error:
            raise explain(error, describe=describe) from None
        return
    if b"\0" in head[:4096]:
        raise no_text(head, describe)
    if kind != "ndjson":
        refuse_sparse_text(head[:4096], describe)
    yield from _text_frames(
        head, pieces, describe, separator, commas, kind == "ndjson", formats, numerals, notes, types
    )


def _text_frames(
    head: bytes,
    pieces: Iterator[bytes],
    describe: str,
    separator: str | None,
    commas: bool,
    ndjson: bool,
    formats: dict[str, str],
    numerals: Numerals,
    notes: list[str],
    types: Any,
) -> Iterator[pl.DataFrame]:
    import polars as pl

    schema, dates = types or (None, None)
    numbers: Any = ()
    chosen = separator or ","
    options: dict[str, Any] = {}
    line = 1
    rows = 0
    for text in _whole_lines(head, pieces, quoted=not ndjson):
        if not options and not ndjson:
            first, _, text = text.partition(b"\n")
            check_line_ends([first.decode("utf-8", "replace")], describe)
            names = header_cells(first, chosen)
            usual, chosen = chosen, check_header(names, chosen, describe, separator is not None)
            if chosen != usual:
                notes.append(guessed(chosen, describe))
            names = header_cells(first, chosen)
            check_names(names, describe)
            unclosed = wrong_quotes([first], chosen, describe)
            if unclosed is not None:
                raise unclosed
            line = 2
            options = {"separator": chosen, "null_values": MISSING_MARKS, "has_header": False, "new_columns": names}
            options["decimal_comma"] = commas
        if not ndjson and len(names) > 1:
            blank = blank_lines(text)
            line, text = line + text.count(b"\n", 0, blank), text[blank:]
        if not text or (not text.strip() and (ndjson or len(names) > 1)):
            continue
        try:
            if ndjson:
                schema = schema or widened(pl.read_ndjson(io.BytesIO(text), infer_schema_length=INFERENCE_ROWS).schema)
                frame = pl.read_ndjson(io.BytesIO(text), schema=schema)
                dates = date_columns(frame, formats) if dates is None else dates
                refuse_repeated_keys(text, frame, describe, line)
                frame = frame.with_columns(dates)
            else:
                if schema is None:
                    guess = pl.read_csv(text, infer_schema_length=INFERENCE_ROWS, **options)
                    schema = widened(guess.schema)
                    if len(guess.columns) != len(names):
                        raise DataError(
                            f"line 2 of {describe} has {len(guess.columns)} fields where the header names {len(names)}",
                            where=describe,
                        )
                    options.pop("new_columns")
                    numbers = text_numbers(guess) + date_columns(guess, formats)
                frame = pl.read_csv(text, schema=schema, **options).with_columns(numbers)
                if len(schema) > 1 and has_blank_lines(text):
                    frame = frame.filter(filled())
        except Exception as error:
            marks = None if ndjson else _marks(error, text, chosen, describe, line)
            if marks is not None:
                raise marks from None
            if isinstance(error, DataError):
                raise
            lines = enumerate(text.split(b"\n"), line) if ndjson else ()
            found = next((bad for number, one in lines if (bad := bad_line(one, describe, number))), None)
            if found is not None:
                raise found from None
            refusal = explain(
                error,
                describe=f"{describe} (between line {line} and {line + text.count(10)})",
                names=list(schema or ()),
            )
            raise refusal from None
        line += text.count(10)
        numerals.renew(functools.partial(_as_text, text, None if ndjson else schema, options), rows)
        rows += frame.height
        yield frame
    if schema is None:
        raise DataError(f"{describe} has a header but no rows", where=describe)


def _as_text(text: bytes, schema: Any, options: dict[str, Any], name: str) -> pl.LazyFrame:
    """One column of a piece as it stands there."""
    import polars as pl

    if schema is None:
        return pl.LazyFrame({name: whole_numbers(text, name)}, schema={name: pl.String})
    cells = pl.read_csv(text, schema=dict.fromkeys(schema, pl.String()), **options)
    return (cells.filter(filled()) if len(schema) > 1 and has_blank_lines(text) else cells).lazy()


def _marks(error: Exception, text: bytes, separator: str, describe: str, line: int) -> DataError | None:
    """The refusal of quotation marks that explain an error."""
    found = wrong_quotes(text.splitlines(), separator, describe, line)
    return inner_quote(text.splitlines(), describe, line) if found is None and "CSV malformed" in str(error) else found


def arrivals(stream: Any) -> Iterator[bytes]:
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
    """The plain bytes of gzip or zstd, of several members one after the other too, as ``cat`` makes them."""
    if head[:2] == b"\x1f\x8b":
        import zlib

        new: Callable[[], Any] = functools.partial(zlib.decompressobj, wbits=31)
    else:
        try:
            import zstandard
        except ImportError:
            raise DataError(
                "zstd of JSON lines or on standard input needs the package zstandard; unpack it first", where="-"
            ) from None
        new = zstandard.ZstdDecompressor().decompressobj
    engine: Any = None
    for piece in (p for part in ([head], pieces) for p in part):
        while piece and (engine is not None or piece.strip(b"\0")):  # gzip's tools fill up with zeros
            engine = engine or new()
            plain = engine.decompress(piece)
            if plain:
                yield plain
            piece, engine = (engine.unused_data, None) if engine.eof else (b"", engine)
    if engine is not None:
        raise EOFError("unexpected end of file")


def _whole_lines(head: bytes, pieces: Iterator[bytes], quoted: bool) -> Iterator[bytes]:
    """The same bytes, cut only at line ends; where text is quoted, only at those outside quotes."""
    rest = b""
    for piece in (p for part in ([head], pieces) for p in part):
        rest += piece
        cut = _last_end(rest) if quoted else rest.rfind(b"\n")
        if cut >= 0:
            yield rest[: cut + 1]
            rest = rest[cut + 1 :]
        elif quoted and len(rest) > _LONGEST_ROW:
            break  # a quote that is not closed: all that follows would be held for nothing
    if rest.strip():
        yield rest


def _last_end(text: bytes) -> int:
    """The last line end outside quotes: every other stretch between quotation marks is."""
    outside, end = text.count(b'"') % 2 == 0, len(text)
    while True:
        mark = text.rfind(b'"', 0, end)
        cut = text.rfind(b"\n", mark + 1, end) if outside else -1
        if cut >= 0 or mark < 0:
            return cut
        outside, end = not outside, mark


def standard_input() -> Any:
    """The byte stream behind standard input, without a buffer: Python could not end while a reader waits in its lock."""
    try:
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    except (OSError, AttributeError, io.UnsupportedOperation):  # no file behind it
        return getattr(sys.stdin, "buffer", sys.stdin)
