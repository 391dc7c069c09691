"""Files that a command writes: whole or not at all, in the format that their name asks for."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TruelineError, UsageError

if TYPE_CHECKING:
    import polars as pl

FORMATS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc",
           ".ndjson": "ndjson", ".jsonl": "ndjson"}  # fmt: skip


PICTURES = (".png", ".svg", ".pdf")


def file_format(path: str) -> str:
    """The format of an output file, by its ending."""
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise UsageError(f"cannot tell the format of {path}; end its name in {', '.join(FORMATS)}", where="output")
    return FORMATS[ending]


def check_place(path: str | None) -> None:
    """Refuse a place that cannot be written to before any work is done."""
    if path is None:
        return
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise TruelineError(f"cannot write {path}: there is no folder {folder}", where=path)
    if Path(path).is_dir():
        raise TruelineError(f"cannot write {path}: it is a folder; give the name of a file", where=path)
    if not os.access(path if os.path.exists(path) and not Path(path).is_file() else folder, os.W_OK):
        raise TruelineError(f"cannot write {path}: the folder is not writable; choose another place", where=path)


def check_picture(path: str | None) -> None:
    """Refuse a picture that could not be written, before anything is computed."""
    import importlib.util

    check_place(path)
    if path is not None and not path.lower().endswith(PICTURES):
        raise UsageError(f"cannot draw {path}: its name must end in {', '.join(PICTURES)}", where="plot")
    if path is not None and importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs pip install 'trueline[cli]' (matplotlib)", where="plot")


def write_picture(path: str, figure: Any) -> None:
    """A matplotlib figure, of the kind that its name says."""
    with whole(path) as scratch:
        figure.savefig(scratch, dpi=110, format=path.lower().rpartition(".")[2])


def check_apart(written: Iterable[str | None], read: Iterable[str | None]) -> None:
    """Refuse, before any work, an output that would replace an input or another output."""
    inputs = {_file(name) for path in read if path is not None for name in _named(path)} - {None}
    taken: set[object] = set()
    for path in written:
        place = None if path in (None, "-") else _file(str(path))
        if place is None:
            continue
        if place in inputs:
            raise UsageError(f"{path} is read, and would be written over; name another file to write", where=path)
        if place in taken:
            raise UsageError(f"{path} is named for two outputs; give each a file of its own", where=path)
        taken.add(place)


def _named(path: str) -> list[str]:
    """The files that an argument names: itself, or those that match the pattern."""
    if path == "-":
        return []
    if any(mark in path for mark in "*?[") and not os.path.exists(path):
        import glob

        return glob.glob(path, recursive=True)
    return [path]


def _file(path: str) -> object:
    """What is the same for two names of one file, also through links; None for a device or a pipe."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path)
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


@contextlib.contextmanager
def whole(path: str) -> Iterator[Path]:
    """A scratch path that becomes the file when the block ends well, and vanishes otherwise.

    A link stays, and what it names is replaced; a device or a pipe is written into.
    """
    from ..modelfile import is_special

    special = is_special(path)
    target = Path(path) if special else Path(os.path.realpath(path))
    folder = Path(tempfile.gettempdir()) if special else target.parent
    scratch = folder / f".{target.name}.{os.getpid()}.part"
    try:
        yield scratch
        if special:
            with open(scratch, "rb") as made, open(target, "wb") as file:
                shutil.copyfileobj(made, file)
            return
        with open(scratch, "rb+") as file:
            os.fsync(file.fileno())
        scratch.replace(target)
    except OSError as error:
        raise TruelineError(
            f"cannot write {path}: {error.strerror or error}; choose another place or free some space", where=path
        ) from None
    except Exception as error:
        if type(error).__module__.startswith("polars") and "os error" in str(error):
            reason = str(error).rpartition(": ")[2].partition(" (os error")[0]
            raise TruelineError(
                f"cannot write {path}: {reason}; choose another place or free some space", where=path
            ) from None
        raise
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink()


def write_text(path: str, text: str) -> None:
    """Text to a file, whole or not at all."""
    with whole(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def write_frames(frames: Iterator[pl.DataFrame], path: str | None, *, json: bool = False) -> int:
    """Frames to a file, or to standard output as CSV or JSON lines, a batch at a time; the number of rows."""
    if path is None or path == "-":
        return _print_frames(frames, json)
    kind = file_format(path)
    rows = 0
    import polars as pl

    first = next(frames, None)
    if first is None:
        return 0
    if kind in ("csv", "tsv", "ndjson"):
        with whole(path) as scratch, open(scratch, "wb") as file:
            for at, frame in enumerate(_chain(first, frames)):
                _write_text_frame(frame, file, kind, at == 0)
                rows += frame.height
        return rows
    from polars.io.plugins import register_io_source

    def source(columns: Any, predicate: Any, limit: Any, size: Any) -> Iterator[pl.DataFrame]:
        nonlocal rows
        for frame in _chain(first, frames):
            rows += frame.height
            yield frame if columns is None else frame.select(columns)

    lazy = register_io_source(source, schema=pl.Schema(first.schema))
    with whole(path) as scratch:
        lazy.sink_parquet(scratch) if kind == "parquet" else lazy.sink_ipc(scratch)
    return rows


def _chain(first: pl.DataFrame, rest: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    yield first
    yield from rest


def _print_frames(frames: Iterator[pl.DataFrame], json: bool) -> int:
    from .console import show

    rows = 0
    for at, frame in enumerate(frames):
        text = frame.write_ndjson() if json else frame.write_csv(include_header=at == 0, null_value=absent(frame))
        if sys.stdout.isatty():
            show(text, end="")
        else:  # data for another program, to the byte
            sys.stdout.write(text)
        rows += frame.height
    sys.stdout.flush()
    return rows


def _write_text_frame(frame: pl.DataFrame, file: Any, kind: str, first: bool) -> None:
    if kind == "ndjson":
        frame.write_ndjson(file)
    else:
        separator = "\t" if kind == "tsv" else ","
        frame.write_csv(file, include_header=first, separator=separator, null_value=absent(frame))


def absent(frame: pl.DataFrame) -> str:
    """What delimited text has for a value that is not there: nothing, but NaN where the line would be empty.

    Readers skip empty lines, and all rows after one would then belong to the row before.
    """
    return "NaN" if frame.width == 1 else ""
