"""Thrift's compact protocol, in which Parquet keeps all that is not numbers: a struct as a dict of its fields by number."""

from __future__ import annotations

import struct
from typing import Any

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_SHORT = 15  # lists of fewer have their length beside the type


def fields(raw: bytes, at: int) -> tuple[dict[int, Any], int]:
    """(the struct that begins here, where it ends); an IndexError or a ValueError where there is none."""
    found: dict[int, Any] = {}
    number = 0
    while head := raw[at]:
        kind = head & 15
        at += 1
        if head > 15:
            number += head >> 4
        else:
            number, at = _signed(raw, at)
        if 3 < kind < 7:  # whole numbers of any size: almost all that there is
            value = raw[at]
            at += 1
            if value > 127:
                value, at = varint(raw, at - 1)
            found[number] = (value >> 1) ^ -(value & 1)
        elif kind == _BINARY:
            size, at = varint(raw, at)
            found[number] = raw[at : at + size]
            at += size
        elif kind <= _FALSE:
            found[number] = kind == _TRUE
        else:
            found[number], at = _value(raw, at, kind)
    return found, at + 1


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """(an unsigned number of seven bits a byte, where it ends)."""
    value = shift = 0
    while raw[at] > 127:
        value |= (raw[at] & 127) << shift
        shift += 7
        at += 1
    return value | raw[at] << shift, at + 1


def _signed(raw: bytes, at: int) -> tuple[int, int]:
    value, at = varint(raw, at)
    return (value >> 1) ^ -(value & 1), at


def _value(raw: bytes, at: int, kind: int) -> tuple[Any, int]:
    """(a value of this type that begins here, where it ends); in a list a boolean takes a byte."""
    if kind == _STRUCT:
        return fields(raw, at)
    if kind in (_TRUE, _FALSE):
        return raw[at] == _TRUE, at + 1
    if kind == _BYTE:
        return raw[at], at + 1
    if kind == _DOUBLE:
        return struct.unpack("<d", raw[at : at + 8])[0] if at + 8 <= len(raw) else raw[len(raw)], at + 8
    if kind == _BINARY:
        size, at = varint(raw, at)
        return raw[at : at + size], at + size
    if kind in (_LIST, _SET):
        inner, count = raw[at] & 15, raw[at] >> 4
        count, at = varint(raw, at + 1) if count == _SHORT else (count, at + 1)
        found = []
        for _ in range(count):
            value, at = _value(raw, at, inner)
            found.append(value)
        return found, at
    if kind == _MAP:
        count, at = varint(raw, at)
        kinds = raw[at] if count else 0
        at += bool(count)
        pairs = []
        for _ in range(count):
            key, at = _value(raw, at, kinds >> 4)
            value, at = _value(raw, at, kinds & 15)
            pairs.append((key, value))
        return pairs, at
    if kind > _STRUCT:
        raise ValueError(f"there is no Thrift type {kind}")
    return _signed(raw, at)
