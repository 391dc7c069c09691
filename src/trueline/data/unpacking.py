"""Compiled loops of the reader of Parquet: Snappy's bytes, the numbers of a dictionary's entries, columns to rows.

Nothing here trusts its input: every length is looked at before it is used, and what does not fit ends the loop with 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import kernel

_TILE = 64  # rows that stay in the nearest cache until every column has been put there
_wide: Any = np.int64  # what Numba makes of int() of a byte has no sign


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
                length = 0
                for k in range(more):
                    length |= _wide(packed[i + k]) << 8 * k
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
            back = 0
            for k in range(more):
                back |= _wide(packed[i + k]) << 8 * k
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
            entry = 0
            for k in range(size):
                entry |= _wide(runs[i + k]) << 8 * k
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
