"""Files of nothing but numbers, without Polars: a command that reads one is done before Polars would be imported.

CSV is read by one compiled loop on several threads, Parquet page by page (pages.py). Neither knows more than finite
numbers: a file that shows anything else at its beginning is not for here, and where that turns up later ``whole`` stays
False, for the usual reader to go on behind the rows that were given out. Rows and schema are the usual reader's, bit for
bit.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._jit import PLAIN
from ..errors import TruelineError
from ..threads import abreast
from . import pages, parquet
from .files import INFERENCE_ROWS, check_header, file_format
from .numerals import lines, numerals, powers
from .refusals import header_cells
from .schema import Column, Schema
from .unpacking_footer import sound
from .watch import Watch

_CHUNK = 1 << 22  # bytes of text: its rows stay in the cache until they are learned
_PIECE = 1 << 16
_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
Rows = tuple[np.ndarray, np.ndarray]


class Swift:
    """The rows of a file of numbers, and their schema so far; ``whole`` says at the end whether that was all of it."""

    def __init__(
        self,
        rows: Callable[[], Iterator[Rows | None]],
        features: Sequence[str],
        target: str,
        missing: str,
        part: bool = False,
    ) -> None:
        self._rows, self._part = rows, part
        self._columns = tuple(Column(name, "number") for name in features)
        self.terms = list(features)
        self._target, self._missing = target, missing
        self._watch = Watch()
        self.given = 0
        self.whole = False

    def __iter__(self) -> Iterator[Rows]:
        for rows in self._rows():
            if rows is None:
                return
            X, y = rows
            self.given += len(y)
            self._watch.see(X, self.terms)
            self._watch.see_target(y)
            yield X, y
        # A refusal is the usual reader's.
        self.whole = self.given > 0 and (self._part or not self._watch.target_is_constant)

    @property
    def schema(self) -> Schema:
        return Schema(
            columns=self._columns,
            target=self._target,
            missing=self._missing,
            rows=self.given,
            constant=self._watch.constant(self.terms),
            duplicates=self._watch.duplicates(self.terms),
        )


def swiftly(source: Any, target: str, features: Sequence[str] | None, missing: str, part: bool = False) -> Swift | None:
    """A reader of numbers for one local file of CSV, TSV or Parquet; None where only the usual reader will do.

    ``part`` says that the file is one part of the rows, so that its target may be constant.
    """
    path = os.fspath(source) if isinstance(source, (str, os.PathLike)) else ""
    if PLAIN or missing not in ("refuse", "drop") or not path.lower().endswith(_SUFFIXES) or not Path(path).is_file():
        return None
    try:
        kind = file_format(path)
        opened = _parquet(path) if kind == "parquet" else _text(path, "\t" if kind == "tsv" else ",")
    except (TruelineError, OSError, ImportError, ValueError, csv.Error):
        return None  # a refusal is the usual reader's
    if opened is None:
        return None
    names, rows = opened
    chosen = [name for name in names if name != target] if features is None else list(features)
    known = set(chosen) <= set(names) and target in names and target not in chosen
    if (
        not known
        or not chosen
        or len(set(chosen)) < len(chosen)
        or any(name.lower() == "(intercept)" for name in chosen)
    ):
        return None
    return Swift(lambda: rows(chosen, target), chosen, target, missing, part)


# ---- delimited text
def _text(path: str, separator: str) -> Any:
    with open(path, "rb") as file:
        first = file.readline(_PIECE)
    first.decode()
    names = header_cells(first, separator)
    if first[:1] == b"\xef" or b'"' in first or not first.endswith(b"\n") or not all(names):
        return None
    check_header(names, separator, path, True)

    def rows(chosen: list[str], target: str) -> Iterator[Rows | None]:
        place = np.full(len(names), -2)
        for k, name in enumerate(chosen):
            place[names.index(name)] = k
        place[names.index(target)] = -1
        return _held(_chunks(path, len(first), separator, place, len(chosen)))

    return names, rows


def _chunks(path: str, start: int, separator: str, place: np.ndarray, d: int) -> Iterator[Rows | None]:
    """The rows chunk by chunk; None where one is not plain."""
    tens, mark = powers(), ord(separator)
    file = os.open(path, os.O_RDONLY)
    size = os.fstat(file).st_size

    def begin(k: int) -> int:
        """Where the first line begins that begins in chunk k or later."""
        at = start + k * _CHUNK - 1
        while start <= at < size:
            piece = os.pread(file, _PIECE, at)
            cut = piece.find(b"\n")
            if cut >= 0:
                return at + cut + 1
            at += len(piece)
        return min(max(at, start), size)

    def read(k: int) -> tuple[np.ndarray, np.ndarray, bool]:
        at, end = begin(k), begin(k + 1)
        text: Any = np.empty(end - at + 1, np.uint8)
        got = 0
        while got < end - at:
            got += os.preadv(file, [text[got:-1]], at + got)
        text[-1] = 10  # the last line may lack its end
        text = text if end == size and end > at and text[-2] != 10 else text[:-1]
        n = lines(text)
        X, y = np.empty((n, d)), np.empty(n)
        made = numerals(text, mark, place, tens, X, y)
        return X[:made], y[:made], made == n

    try:
        for X, y, plain in abreast(read, -(-(size - start) // _CHUNK)):
            if len(y):
                yield X, y
            if not plain:
                yield None
    finally:
        os.close(file)


def _held(chunks: Iterator[Rows | None]) -> Iterator[Rows | None]:
    """The chunks, none before all that the usual reader would look at to tell numbers from words has been seen."""
    held: list[Rows] = []
    seen = 0
    for rows in chunks:
        if rows is None:
            yield from held if seen >= INFERENCE_ROWS else ()
            yield None
            return
        held.append(rows)
        seen += len(rows[1])
        if seen >= INFERENCE_ROWS:
            yield from held
            held = []
    yield from held


# ---- Parquet
def _parquet(path: str) -> Any:
    try:
        told = parquet.footer(path)
        if not sound(told):
            return None
        leaves = {leaf.name: (leaf, place) for place, leaf in enumerate(parquet.leaves(told))}
    except Exception:  # whatever a damaged footer amounts to
        return None
    if len(leaves) != len(told[parquet.SCHEMA]) - 1 or not all(leaves):
        return None

    def rows(chosen: list[str], target: str) -> Iterator[Rows | None]:
        needed = [leaves[name] for name in (*chosen, target)]
        try:
            if not all(leaf.kind for leaf, _ in needed):
                raise pages.Odd
            yield from pages.Numbers(path, [leaf for leaf, _ in needed], [parquet.chunks(told, k) for _, k in needed])
        except Exception:  # what is odd, or whatever a damaged file amounts to
            yield None

    return list(leaves), rows
