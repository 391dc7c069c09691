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


def group_sizes(path: str) -> list[int]:
    """Rows of each row group."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(size - _FOOTER)
        length = int.from_bytes(file.read(4), "little")
        file.seek(size - _FOOTER - length)
        raw = file.read(length)
    at = number = 0
    while True:
        kind, number, at = _field(raw, at, number)
        if kind == _STOP:
            return []
        if number == _ROW_GROUPS and kind == _LIST:
            _, count, at = _elements(raw, at)
            found = []
            for _ in range(count):
                rows, at = _rows(raw, at)
                found.append(rows)
            return found
        at = _past(raw, at, kind)


def _rows(raw: bytes, at: int) -> tuple[int, int]:
    """(rows of the group that begins here, where it ends)."""
    rows = number = 0
    while True:
        kind, number, at = _field(raw, at, number)
        if kind == _STOP:
            return rows, at
        if number == _ROWS:
            rows, at = _signed(raw, at)
        else:
            at = _past(raw, at, kind)


def _number(raw: bytes, at: int) -> tuple[int, int]:
    """(an unsigned number of seven bits a byte, where it ends)."""
    value = shift = 0
    while raw[at] > 127:
        value |= (raw[at] & 127) << shift
        shift += 7
        at += 1
    return value | raw[at] << shift, at + 1


def _signed(raw: bytes, at: int) -> tuple[int, int]:
    value, at = _number(raw, at)
    return (value >> 1) ^ -(value & 1), at


def _elements(raw: bytes, at: int) -> tuple[int, int, int]:
    """(type, how many, where the first is) of a list that begins here."""
    kind, count = raw[at] & 15, raw[at] >> 4
    return (kind, count, at + 1) if count < 15 else (kind, *_number(raw, at + 1))


def _field(raw: bytes, at: int, last: int) -> tuple[int, int, int]:
    """(type, number, where its value is) of the next field of a struct; type 0 ends it."""
    kind, step = raw[at] & 15, raw[at] >> 4
    return (kind, last + step, at + 1) if step or kind == _STOP else (kind, *_signed(raw, at + 1))


def _past(raw: bytes, at: int, kind: int) -> int:
    """Where a value of this type ends."""
    if kind == _STRUCT:
        # A footer is almost all structs, some forty fields for each column of each row group.
        while raw[at]:
            inner = raw[at] & 15
            at += 1
            if raw[at - 1] < 16:  # the field's number is written out
                _, at = _number(raw, at)
            if inner == _BINARY and raw[at] < 128:
                at += 1 + raw[at]
            elif _DOUBLE > inner > _BYTE:
                while raw[at] > 127:
                    at += 1
                at += 1
            else:
                at = _past(raw, at, inner)
        return at + 1
    if kind in (_TRUE, _FALSE):
        return at
    if kind == _BYTE:
        return at + 1
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        length, at = _number(raw, at)
        return at + length
    if kind in (_LIST, _SET):
        inner, count, at = _elements(raw, at)
        for _ in range(count):
            at = _past_element(raw, at, inner)
        return at
    if kind == _MAP:
        count, at = _number(raw, at)
        kinds = raw[at] if count else 0
        at += bool(count)
        for _ in range(count):
            at = _past_element(raw, _past_element(raw, at, kinds >> 4), kinds & 15)
        return at
    return _number(raw, at)[1]


def _past_element(raw: bytes, at: int, kind: int) -> int:
    """In a list a boolean takes a byte; as a field its type says it."""
    return _past(raw, at, _BYTE if kind in (_TRUE, _FALSE) else kind)


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
