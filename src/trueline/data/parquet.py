"""What the footer of a Parquet file says: its columns, and where the pages of each row group lie.

The file ends with metadata in Thrift's compact protocol, their length in four bytes and the mark PAR1. Arrow's own
schema, which most writers put beside Parquet's, can say that what looks like a number is none (a duration, a category).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from .thrift import fields

_FOOTER = 8  # bytes: the length of the metadata and the mark
# Numbers of fields: of the file, of an element of its schema, of a row group, of a chunk, and of the chunk's metadata.
SCHEMA, _ROW_GROUPS, _PAIRS, _ENCRYPTED = 2, 4, 5, 8
_TYPE, _REPEATED, _NAME, _CHILDREN, _CONVERTED, _LOGICAL = 1, 3, 4, 5, 6, 10
_CHUNKS, _ROWS = 1, 3
_ELSEWHERE, _METADATA = 1, 3
_CODEC, _VALUES, _SIZE, _DATA, _DICTIONARY = 4, 5, 7, 9, 11
_INTEGER = 10  # among logical types
STORED = {1: "i4", 2: "i8", 4: "f4", 5: "f8"}  # physical types that are numbers
_WHOLE = {11 + k: f"{sign}{1 << k % 4}" for k, sign in enumerate("uuuuiiii")}  # converted types that are
_SCHEMA, _INT, _FLOAT = 1, 2, 3  # of Arrow's messages, and of its types


class Chunk(NamedTuple):
    """The pages of one column in one row group: where they lie, how they are packed, how many values they have."""

    start: int
    stop: int
    codec: int
    values: int


class Leaf(NamedTuple):
    """A column: its name, the type of its numbers ("" if they are none) and how they are stored; whether it may be null."""

    name: str
    kind: str
    stored: str
    optional: bool


def footer(path: str) -> dict[int, Any]:
    """All that the footer says."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(size - _FOOTER)
        length = int.from_bytes(file.read(4), "little")
        file.seek(size - _FOOTER - length)
        told, end = fields(file.read(length), 0)
    if end != length:
        raise ValueError("the footer does not end where it says")
    return told


def group_sizes(path: str) -> list[int]:
    """Rows of each row group."""
    return [group[_ROWS] for group in footer(path).get(_ROW_GROUPS, ())]


def leaves(told: dict[int, Any]) -> list[Leaf]:
    """The columns of a flat table; none if it is not flat, or not for everyone to read."""
    root, *elements = told[SCHEMA]
    nested = len(elements) != root[_CHILDREN] or any(e.get(_CHILDREN) or e.get(_REPEATED, 0) > 1 for e in elements)
    if nested or _ENCRYPTED in told:
        return []
    kinds = [_kind(element) for element in elements]
    for pair in told.get(_PAIRS, ()):
        if pair.get(1) == b"ARROW:schema":
            arrow = arrow_kinds(pair[2])
            named = [(element[_NAME], kind) for element, kind in zip(elements, kinds)]
            same = len(arrow) == len(kinds) and [name for name, _ in arrow] == [name for name, _ in named]
            kinds = [a[1] if a == b else "" for a, b in zip(arrow, named)] if same else [""] * len(kinds)
    return [
        Leaf(element[_NAME].decode(), kind, STORED.get(element[_TYPE], ""), element.get(_REPEATED, 0) == 1)
        for element, kind in zip(elements, kinds)
    ]


def _kind(element: dict[int, Any]) -> str:
    """The type of the numbers of a column, as NumPy names it, or ""."""
    stored = STORED.get(element[_TYPE], "")
    if _CONVERTED not in element and _LOGICAL not in element:
        return stored
    whole = element.get(_LOGICAL, {}).get(_INTEGER)
    made = f"{'i' if whole[2] else 'u'}{whole[1] // 8}" if whole else _WHOLE.get(element.get(_CONVERTED, 0), "")
    return made if stored == ("i8" if made[1:] == "8" else "i4") else ""


def chunks(told: dict[int, Any], place: int) -> list[Chunk]:
    """The column at this place in every row group, in order."""
    found = []
    for group in told[_ROW_GROUPS]:
        chunk = group[_CHUNKS][place]
        about = chunk[_METADATA]
        start = min(about[_DATA], about.get(_DICTIONARY) or about[_DATA])
        if _ELSEWHERE in chunk or about[_VALUES] != group[_ROWS]:
            raise ValueError("the column is kept elsewhere")
        found.append(Chunk(start, start + about[_SIZE], about[_CODEC], about[_VALUES]))
    return found


def slices(paths: Sequence[str], limit: int) -> list[tuple[str, int, int]]:
    """(path, first row, rows) of row groups, small ones together; empty if unknown or one exceeds ``limit`` rows."""
    found: list[tuple[str, int, int]] = []
    for path in paths:
        try:
            sizes = group_sizes(path)
        except (OSError, LookupError, ValueError, RecursionError):  # remote, or encrypted
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


# ---- Arrow's schema: a message of FlatBuffers, in which a table points to a list of where its fields are
def arrow_kinds(text: bytes) -> list[tuple[bytes, str]]:
    """The columns in Arrow's schema, and their types as NumPy names them, "" for what is no plain number."""
    import base64

    raw = base64.b64decode(text, validate=True)
    start = 8 if raw[:4] == b"\xff\xff\xff\xff" else 4
    message = _follow(raw, start)
    kind = _slot(raw, message, 1)
    if b"ARROW:extension" in raw or not kind or raw[kind] != _SCHEMA:
        return []
    schema = _follow(raw, _slot(raw, message, 2))
    order = _slot(raw, schema, 0)
    if order and raw[order : order + 2] != b"\0\0":  # the least byte first, or not for here
        return []
    listed = _follow(raw, _slot(raw, schema, 1))
    (count,) = struct.unpack_from("<I", raw, listed)
    found = [_follow(raw, listed + 4 + 4 * k) for k in range(count)]
    return [(_text(raw, _follow(raw, _slot(raw, field, 0))), _arrow_kind(raw, field)) for field in found]


def _text(raw: bytes, at: int) -> bytes:
    (size,) = struct.unpack_from("<I", raw, at)
    return raw[at + 4 : at + 4 + size]


def _arrow_kind(raw: bytes, field: int) -> str:
    kind, dictionary = _slot(raw, field, 2), _slot(raw, field, 4)
    if dictionary or not kind or raw[kind] not in (_INT, _FLOAT):
        return ""
    table = _follow(raw, _slot(raw, field, 3))
    size, sign = _slot(raw, table, 0), _slot(raw, table, 1)
    if raw[kind] == _FLOAT:
        return {1: "f4", 2: "f8"}.get(struct.unpack_from("<h", raw, size)[0] if size else 0, "")
    bits = struct.unpack_from("<i", raw, size)[0] if size else 0
    return f"{'i' if sign and raw[sign] else 'u'}{bits // 8}" if bits in (8, 16, 32, 64) else ""


def _slot(raw: bytes, table: int, field: int) -> int:
    """Where a field of a table is; 0 where it has its default."""
    listed = table - struct.unpack_from("<i", raw, table)[0]
    (size,) = struct.unpack_from("<H", raw, listed)
    (offset,) = struct.unpack_from("<H", raw, listed + 4 + 2 * field) if 4 + 2 * field < size else (0,)
    return table + offset if offset else 0


def _follow(raw: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", raw, at)[0])
