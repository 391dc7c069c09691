"""The row groups of a Parquet file, from its footer alone: without them Polars holds several at once.

The file ends with metadata in Thrift's compact protocol, their length in four bytes and the mark PAR1. Of the
metadata only two fields matter here: 4, the list of row groups, and in each of these 3, its number of rows. Everything
else is passed over by its type.
"""

from __future__ import annotations

from collections.abc import Sequence

_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
_FOOTER = 8  # bytes: the length of the metadata and the mark
_ROW_GROUPS, _ROWS = 4, 3  # numbers of fields


class _Compact:
    """Reads along Thrift's compact protocol."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0

    def number(self) -> int:
        """An unsigned number, seven bits a byte."""
        value = shift = 0
        while True:
            byte = self.raw[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def signed(self) -> int:
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def elements(self) -> tuple[int, int]:
        """(type, how many) of a list that begins here."""
        head = self.raw[self.at]
        self.at += 1
        return head & 15, head >> 4 if head >> 4 < 15 else self.number()

    def field(self, last: int) -> tuple[int, int]:
        """(type, number) of the next field of a struct; type 0 ends it."""
        head = self.raw[self.at]
        self.at += 1
        if head == _STOP:
            return _STOP, last
        return head & 15, last + (head >> 4) if head >> 4 else self.signed()

    def skip(self, kind: int) -> None:
        """Pass over a value of this type."""
        if kind in (_TRUE, _FALSE):
            return
        if kind == _BYTE:
            self.at += 1
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self.number()
            self.at += length
        elif kind in (_LIST, _SET):
            inner, count = self.elements()
            for _ in range(count):
                self.skip_element(inner)
        elif kind == _MAP:
            count = self.number()
            kinds = self.raw[self.at] if count else 0
            self.at += bool(count)
            for _ in range(count):
                self.skip_element(kinds >> 4)
                self.skip_element(kinds & 15)
        elif kind == _STRUCT:
            inner, last = self.field(0)
            while inner != _STOP:
                self.skip(inner)
                inner, last = self.field(last)
        else:
            self.number()

    def skip_element(self, kind: int) -> None:
        """In a list a boolean takes a byte; as a field its type says it."""
        self.skip(_BYTE if kind in (_TRUE, _FALSE) else kind)


def group_sizes(path: str) -> list[int]:
    """Rows of each row group."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(size - _FOOTER)
        length = int.from_bytes(file.read(4), "little")
        file.seek(size - _FOOTER - length)
        reader = _Compact(file.read(length))
    kind, number = reader.field(0)
    while kind != _STOP:
        if number == _ROW_GROUPS and kind == _LIST:
            _, count = reader.elements()
            return [_rows(reader) for _ in range(count)]
        reader.skip(kind)
        kind, number = reader.field(number)
    return []


def _rows(reader: _Compact) -> int:
    """Rows of the group that begins here; what follows them in it is passed over."""
    rows = 0
    kind, number = reader.field(0)
    while kind != _STOP:
        if number == _ROWS:
            rows = reader.signed()
        else:
            reader.skip(kind)
        kind, number = reader.field(number)
    return rows


def slices(paths: Sequence[str], limit: int) -> list[tuple[str, int, int]]:
    """(path, first row, rows) of row groups, small ones together; empty if unknown or one exceeds ``limit`` rows."""
    found: list[tuple[str, int, int]] = []
    for path in paths:
        try:
            sizes = group_sizes(path)
        except (OSError, IndexError):  # remote, or encrypted
            return []
        start = 0
        for rows in sizes:
            if rows > limit:
                return []
            if found and found[-1][0] == path and 2 * (found[-1][2] + rows) <= limit:
                found[-1] = (path, found[-1][1], found[-1][2] + rows)
            else:
                found.append((path, start, rows))
            start += rows
    return found
