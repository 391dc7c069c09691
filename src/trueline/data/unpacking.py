"""Compiled loops of the reader of Parquet: headers of pages, Snappy's bytes, entries of a dictionary, columns to rows.

Nothing here trusts its input: every length is looked at before it is used, and what does not fit ends the loop with 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import kernel

_TILE = 64  # rows that stay in the nearest cache until every column has been put there
_wide: Any = np.int64  # what Numba makes of int() of a byte has no sign

# Where a header's fields are in a row of their table: the page's own by their number, and those of its values from ABOUT on.
ABOUT, FIELDS = 4, 12
ABSENT = -(1 << 62)
_TRUE, _FALSE, _INT, _LONG, _BINARY, _STRUCT = 1, 2, 5, 6, 8, 12  # types of Thrift's compact protocol
_VALUES, _DICTIONARY, _VALUES_2 = 5, 7, 8  # numbers of a header's fields that tell of its values, by the kind of page


@kernel(inlined=True)
def _little(data: np.ndarray, i: int, count: int) -> int:
    """The number whose bytes begin here, the least first."""
    value = 0
    for k in range(count):
        value |= _wide(data[i + k]) << 8 * k
    return value


@kernel(inlined=True)
def _usual(kind: int, depth: int, outer: int, inner: int, deep: int) -> bool:
    """Whether a header has a field of this type here: the page's own, those of its values, and of their statistics."""
    if depth == 0:
        return kind == _INT if outer <= ABOUT else kind == _STRUCT and outer <= _VALUES_2
    whole = 4 if outer == _VALUES else 2 if outer == _DICTIONARY else 6  # so many numbers, then whether and statistics
    if depth == 1:
        if inner <= whole:
            return kind == _INT
        if outer != _VALUES and inner == whole + 1:
            return kind <= _FALSE
        return kind == _STRUCT and outer != _DICTIONARY and inner == (5 if outer == _VALUES else 8)
    if deep == 3 or deep == 4:
        return kind == _LONG
    return depth == 2 and ((kind <= _FALSE and 7 <= deep <= 8) or (kind == _BINARY and deep < 7))


@kernel
def headers(file: np.ndarray, at: int, stop: int, values: int, table: np.ndarray) -> int:
    """The fields of the headers of pages that begin here, and where each ends, until so many values; how many there are.

    -1 where they do not fit the table, or this place in the file, or have fields that are not the usual ones.
    """
    for page in range(len(table)):
        row = table[page]
        row[:] = ABSENT
        depth, outer, inner, deep, told = 0, 0, 0, 0, 0
        while True:
            if at < 0 or at + 16 > len(file):  # the footer is longer than that
                return -1
            head = _wide(file[at])
            at += 1
            if head == 0:
                if depth == 0:
                    break
                depth -= 1
                continue
            kind, number = head & 15, head >> 4
            if number == 0:
                return -1  # no header has so many fields
            if depth == 0:
                outer, inner = outer + number, 0
            elif depth == 1:
                inner, deep = inner + number, 0
            else:
                deep += number
            if not _usual(kind, depth, outer, inner, deep):
                return -1
            value = _wide(1 if kind == _TRUE else 0)
            if kind > _FALSE and kind != _STRUCT:
                value, shift = 0, 0
                while file[at] > 127 and shift < 35:
                    value |= (_wide(file[at]) & 127) << shift
                    shift += 7
                    at += 1
                value |= _wide(file[at]) << shift
                at += 1
            if kind == _BINARY:
                at += value
            elif kind == _STRUCT:
                told = outer if depth == 0 else told
                depth += 1
            else:
                if kind > _FALSE:
                    value = (value >> 1) ^ -(value & 1)
                if kind == _INT and (value > 0x7FFFFFFF or value < -0x80000000):
                    return -1
                if depth == 0:
                    row[outer - 1] = value
                elif depth == 1:
                    row[ABOUT + inner - 1] = value
        row[FIELDS - 1] = at
        if row[2] < 0 or row[ABOUT] < 0 or told != row[0] + _VALUES:
            return -1
        at += row[2]
        if row[0] != 2:
            values -= row[ABOUT]
        if values <= 0:
            return page + 1 if values == 0 and at <= stop else -1
    return -1


@kernel
def unsnapped(packed: np.ndarray, out: np.ndarray) -> int:
    """Snappy's bytes undone; whether they were just as many as there is room for."""
    i, o, n, room = 0, 0, len(packed), len(out)
    size, shift = 0, 0
    while i < n and packed[i] > 127 and shift < 28:
        size |= (_wide(packed[i]) & 127) << shift
        shift += 7
        i += 1
    if i >= n or size | _wide(packed[i]) << shift != room:
        return 0
    i += 1
    while i < n:
        tag = _wide(packed[i])
        i += 1
        if tag & 3 == 0:  # bytes as they are
            length = tag >> 2
            if length > 59:
                more = length - 59
                if i + more > n:
                    return 0
                length = _little(packed, i, more)
                i += more
            length += 1
            if i + length > n or o + length > room:
                return 0
            source, place = packed[i : i + length], out[o : o + length]  # so that no index has to be looked at
            for k in range(length):
                place[k] = source[k]
            i += length
        else:  # bytes that were there before
            more = 1 if tag & 3 == 1 else 2 if tag & 3 == 2 else 4
            if i + more > n:
                return 0
            back = _little(packed, i, more)
            i += more
            length = (tag >> 2) + 1
            if more == 1:
                length = (tag >> 2 & 7) + 4
                back |= tag >> 5 << 8
            if back == 0 or back > o or o + length > room:
                return 0
            source, place = out[o - back : o - back + length], out[o : o + length]
            for k in range(length):
                place[k] = source[k]
        o += length
    return 1 if o == room else 0


@kernel
def looked_up(runs: np.ndarray, bits: int, entries: np.ndarray, out: np.ndarray) -> int:
    """Entries of a dictionary by their numbers, which are runs of one number or groups of eight of so many bits."""
    i, o, n, room = 0, 0, len(runs), len(out)
    if bits < 0 or bits > 32:
        return 0
    mask = (1 << bits) - 1
    while o < room:
        head, shift = 0, 0
        while i < n and runs[i] > 127 and shift < 28:
            head |= (_wide(runs[i]) & 127) << shift
            shift += 7
            i += 1
        if i >= n:
            return 0
        head |= _wide(runs[i]) << shift
        i += 1
        count = head >> 1
        if head & 1:
            if i + count * bits > n:
                return 0
            have, held, at = 0, 0, 0
            group = runs[i : i + count * bits]
            place = out[o : o + 8 * count]
            for k in range(len(place)):
                while have < bits:
                    held |= _wide(group[at]) << have
                    at += 1
                    have += 8
                entry = held & mask
                held >>= bits
                have -= bits
                if entry >= len(entries):
                    return 0
                place[k] = entries[entry]
            i += count * bits
            o += len(place)
        else:
            size = (bits + 7) // 8
            if i + size > n:
                return 0
            entry = _little(runs, i, size)
            i += size
            if entry >= len(entries) or count == 0:
                return 0
            stop = min(room, o + count)
            for k in range(o, stop):
                out[k] = entries[entry]
            o = stop
    return 1


@kernel
def rows_of(columns: np.ndarray, starts: np.ndarray, X: np.ndarray, y: np.ndarray) -> int:
    """Rows of the columns from their starts on, −0.0 as 0.0; the last column is y. Whether all of them are finite."""
    n, d = X.shape
    fine = True
    for first in range(0, n, _TILE):
        tile = X[first : first + _TILE]
        for j in range(d):
            column = columns[j, starts[j] + first : starts[j] + first + len(tile)]
            for r in range(len(column)):
                value = column[r] + 0.0
                fine &= abs(value) < np.inf
                tile[r, j] = value
    column = columns[d, starts[d] : starts[d] + n]
    for r in range(len(column)):
        value = column[r] + 0.0
        fine &= abs(value) < np.inf
        y[r] = value
    return 1 if fine else 0
