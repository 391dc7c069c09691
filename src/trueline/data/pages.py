"""Parquet of plain numbers, page by page into rows: no library is imported for it, and each number is touched three times.

A page is undone where all columns' pages of the same rows are, several columns at once on several threads; then these
rows are put together. What is not the usual (nulls, an encoding or a codec that is not known here, numbers that are not
finite, damage of any kind) ends the reading: the caller takes the table's usual reader for it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..threads import spread
from .parquet import Chunk, Leaf
from .thrift import varint
from .unpacking import ABSENT, FIELDS, headers, looked_up, rows_of, unsnapped

_PLAIN, _SNAPPY, _ZSTD = 0, 1, 6  # codecs
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3  # kinds of pages
_ENTRIES = (2, 8)  # encodings by a dictionary, in the first version's name and in the second's
_LEVELS = 3  # runs, as the encoding of levels
_TABLE = 64  # pages of a chunk, to begin with
_AHEAD = 1 << 24  # bytes of numbers made at once, if pages are that small: they stay in the cache until they are rows
_BLOCK = 1 << 22  # bytes of the rows given out at once
_MOST = 1 << 29  # bytes of numbers that may have to be held
_ODD = 72  # bytes: columns at a distance of whole pages of memory would push each other out of the cache

Rows = tuple[np.ndarray, np.ndarray]


class Odd(ValueError):
    """What is not for here."""


class Page(NamedTuple):
    """A page as its header tells of it."""

    kind: int
    start: int
    packed: int
    size: int
    values: int
    encoding: int
    levels: int  # bytes of levels before what is packed, or -1 where they are within
    codec: int


class Column:
    """The values of one column that are made and not yet used: ``start`` to ``stop`` of its place in the room."""

    def __init__(self, file: np.ndarray, leaf: Leaf, chunks: Sequence[Chunk]) -> None:
        self.kind, self.stored, self.optional = np.dtype(leaf.kind), np.dtype(leaf.stored), leaf.optional
        self.start = self.stop = 0
        self.todo: list[Page] = []
        self.entries = np.empty(0)
        self._pages = (page for chunk in chunks for page in _pages(file, chunk))

    @property
    def ready(self) -> int:
        return self.stop - self.start

    def plan(self, rows: int) -> int:
        """Take up pages until there are so many rows, or no more; how many there will be."""
        found = self.ready
        while found < rows and (page := next(self._pages, None)) is not None:
            self.todo.append(page)
            found += page.values if page.kind != _DICTIONARY else 0
        return found


class Tools:
    """What a thread needs to undo pages."""

    def __init__(self) -> None:
        self.room = np.empty(0, np.uint8)
        self.context: Any = None

    def unpacked(self, data: np.ndarray, codec: int, size: int) -> np.ndarray:
        """The bytes of a page."""
        if codec == _PLAIN:
            if len(data) != size:
                raise Odd
            return data
        if len(self.room) < size:
            self.room = np.empty(size, np.uint8)
        out = self.room[:size]
        if codec == _SNAPPY:
            if not unsnapped(data, out):
                raise Odd
        elif codec == _ZSTD:
            library = zstd()
            self.context = self.context or library.ZSTD_createDCtx()
            made = library.ZSTD_decompressDCtx(self.context, out.ctypes.data, size, data.ctypes.data, len(data))
            if made != size:
                raise Odd
        else:
            raise Odd
        out.flags.writeable = False  # as bytes of the file are: one compiled loop serves both
        return out

    def close(self) -> None:
        if self.context:
            zstd().ZSTD_freeDCtx(self.context)


_libraries: list[Any] = []


def zstd() -> Any:
    """The system's own library, which takes a hundredth of the time to load of any that has a copy in it."""
    if not _libraries:
        for name in ("libzstd.so.1", "libzstd.1.dylib"):
            try:
                library = ctypes.CDLL(name)
            except OSError:
                continue
            library.ZSTD_createDCtx.restype = ctypes.c_void_p
            library.ZSTD_freeDCtx.argtypes = [ctypes.c_void_p]
            library.ZSTD_decompressDCtx.restype = ctypes.c_size_t
            pointer, size = ctypes.c_void_p, ctypes.c_size_t
            library.ZSTD_decompressDCtx.argtypes = [pointer, pointer, size, pointer, size]
            _libraries.append(library)
            break
        else:
            raise Odd
    return _libraries[0]


def _pages(file: np.ndarray, chunk: Chunk) -> Iterator[Page]:
    """The pages of a chunk: a dictionary, if it has one, before the values."""
    if chunk.values == 0:
        return
    size, count = _TABLE, -1
    while count < 0 and size <= chunk.stop - chunk.start:
        table = np.empty((size, FIELDS), np.int64)
        count = headers(file, chunk.start, chunk.stop, chunk.values, table)
        size *= 8
    if count < 0:
        raise Odd
    for kind, size, packed, crc, *about, body in table[:count].tolist():
        levels, codec, encoding = -1, chunk.codec, about[1]
        if kind == _DATA_2:
            levels, encoding = about[4], about[3]
            codec = _PLAIN if about[6] == 0 else chunk.codec
            if about[1] or about[5] or not 0 <= levels <= packed:
                raise Odd
        elif kind not in (_DATA, _DICTIONARY) or (kind == _DATA and about[2] != _LEVELS):
            raise Odd
        if size < 0 or (crc != ABSENT and zlib.crc32(file[body : body + packed].data) != crc & 0xFFFFFFFF):
            raise Odd
        yield Page(kind, body, packed, size, about[0], encoding, levels, codec)


def _all_there(levels: bytes, values: int) -> bool:
    """Whether the levels of so many values are all 1: no value is null."""
    at = seen = 0
    while seen < values:
        head, at = varint(levels, at)
        count = head >> 1
        if head & 1:  # groups of eight bits
            seen += 8 * count
            last = (1 << max(0, 8 - max(0, seen - values))) - 1
            if levels[at : at + count - 1].strip(b"\xff") or levels[at + count - 1] & last != last:
                return False
            at += count
        else:
            if levels[at] != 1 or not count:
                return False
            seen += count
            at += 1
    return True


class Numbers:
    """The rows of these columns of a file, the last one apart."""

    def __init__(self, path: str, leaves: Sequence[Leaf], chunks: Sequence[Sequence[Chunk]]) -> None:
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size, access=mmap.ACCESS_READ)
        self._data = np.frombuffer(mapped, np.uint8)
        self._columns = [Column(self._data, *each) for each in zip(leaves, chunks)]
        self._room = np.empty((len(leaves), 0))
        self._tools: list[Tools] = []
        self._blocks: list[np.ndarray] = []

    def __iter__(self) -> Iterator[Rows]:
        d = len(self._columns) - 1
        step = max(1024, _BLOCK // (8 * len(self._columns)))
        try:
            while True:
                self._make_room(max([column.plan(max(1024, _AHEAD // (8 * (d + 1)))) for column in self._columns]))
                spread(self._fill, range(d + 1))
                n = min(column.ready for column in self._columns)
                if n == 0:
                    break
                for first in range(0, n, step):
                    rows = min(step, n - first)
                    X, y = self._block(step, rows, d)
                    starts = np.array([column.start for column in self._columns])
                    if not rows_of(self._room, starts, X, y):
                        raise Odd
                    for column in self._columns:
                        column.start += rows
                    yield X, y
            if any(column.ready for column in self._columns):
                raise Odd
        finally:
            for tools in self._tools:
                tools.close()

    def _block(self, most: int, rows: int, d: int) -> Rows:
        """Room for a block, where one was that nobody has any more: fresh memory takes as long as filling it."""
        for k in range(len(self._blocks)):
            if sys.getrefcount(self._blocks[k]) == 2:
                flat = self._blocks[k]
                break
        else:
            flat = np.empty(most * (d + 1))
            self._blocks.append(flat)
        return flat[: rows * d].reshape(rows, d), flat[rows * d : rows * (d + 1)]

    def _make_room(self, rows: int) -> None:
        """Room for so many rows, what is left of the last ones at its beginning."""
        old = self._room
        if old.shape[1] < rows:
            if 8 * rows * len(old) > _MOST:
                raise Odd
            self._room = np.empty((len(old), rows + -rows % 512 + _ODD // 8))
        for k, column in enumerate(self._columns):
            if column.start or old is not self._room:
                left = column.ready
                self._room[k, :left] = old[k, column.start : column.stop]
                column.start, column.stop = 0, left

    def _fill(self, k: int) -> None:
        column = self._columns[k]
        tools = self._tools.pop() if self._tools else Tools()
        try:
            for page in column.todo:
                self._undo(column, self._room[k], page, tools)
            column.todo.clear()
        finally:
            self._tools.append(tools)

    def _undo(self, column: Column, room: np.ndarray, page: Page, tools: Tools) -> None:
        """Put the values of a page, or of a dictionary, behind those that are there."""
        data = self._data[page.start : page.start + page.packed]
        apart = max(0, page.levels)
        body = tools.unpacked(data[apart:], page.codec, page.size - apart)
        if page.kind == _DICTIONARY:
            if page.encoding not in (0, 2) or len(body) != page.values * column.stored.itemsize:
                raise Odd
            column.entries = _numbers(body, column, np.empty(page.values))
            return
        if column.optional:
            size = int.from_bytes(body[:4].tobytes(), "little") if page.levels < 0 else apart
            levels, begin = (body[4 : 4 + size], 4 + size) if page.levels < 0 else (data[:apart], 0)
            if not _all_there(levels.tobytes(), page.values):
                raise Odd
            body = body[begin:]
        elif apart:
            raise Odd
        out = room[column.stop : column.stop + page.values]
        if page.encoding == _PLAIN and len(body) == page.values * column.stored.itemsize:
            _numbers(body, column, out)
        elif page.encoding not in _ENTRIES or not looked_up(body[1:], int(body[0]), column.entries, out):
            raise Odd
        column.stop += page.values


def _numbers(body: np.ndarray, column: Column, out: np.ndarray) -> np.ndarray:
    """Numbers as they are stored, as doubles."""
    if column.kind == np.float64:
        out.view(np.uint8)[:] = body
    else:
        out[:] = body.view(column.stored).astype(column.kind, copy=False)
    return out
