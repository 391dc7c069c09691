"""How many equal rows came before a row, by the rows' hashes: the copies of one row are to go to different folds.

A table with open addressing keeps the count of the first ``MOST`` different hashes, in the order of the rows, so that
cutting the rows into blocks otherwise changes nothing. Hashes beyond it are not counted.
"""

from __future__ import annotations

import numpy as np

MOST = 1 << 20  # different rows: 24 MB at the most
_FIRST = 1 << 12  # slots of a new table
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Copies:
    """Counts rows by their hashes; ``partition`` is the number of the part of a table whose rows these are.

    >>> Copies().before(np.array([7, 7, 5, 7], dtype=np.uint64)).tolist()
    [0, 1, 0, 2]
    """

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition
        self.repeated = 0  # rows that equal an earlier one
        self.uncounted = 0  # rows that found the table full
        self._size = 0
        self._keys = np.zeros(_FIRST, dtype=np.uint64)  # 0 is a free slot
        self._counts = np.zeros(_FIRST, dtype=np.int64)

    @property
    def crowded(self) -> bool:
        """Whether the table is full while rows repeat: copies that are not counted then share a fold."""
        return bool(self.uncounted and self.repeated)

    def before(self, hashes: np.ndarray) -> np.ndarray:
        """For each row, how many rows of the same hash came before it."""
        keys = np.maximum(hashes, np.uint64(1))
        slots = self._find(keys)
        fresh = slots < 0
        if self._size < MOST and fresh.any():
            self._insert(keys[fresh])
            slots = self._find(keys)
        found = slots >= 0
        counted = slots[found]
        number = np.zeros(len(keys), dtype=np.int64)
        number[found] = self._counts[counted] + occurrences(counted)
        # Of equal slots the last assignment stands, which is the largest.
        self._counts[counted] = number[found] + 1
        self.repeated += int(np.count_nonzero(number))
        self.uncounted += len(keys) - len(counted)
        return number

    def distinct(self, hashes: np.ndarray) -> np.ndarray:
        """The hashes with the number of the copy mixed in; a row that comes first keeps its own."""
        number = self.before(hashes)
        copies = number > 0
        if not copies.any():
            return hashes
        number += self.partition << 32
        return np.where(copies, hashes + number.astype(np.uint64) * _SPREAD, hashes)

    def _first_slots(self, keys: np.ndarray) -> np.ndarray:
        shift = np.uint64(65 - len(self._keys).bit_length())
        return ((keys * _SPREAD) >> shift).astype(np.int64)

    def _find(self, keys: np.ndarray) -> np.ndarray:
        """The slots of the keys, −1 where there is none."""
        slots = self._first_slots(keys)
        there = self._keys[slots]
        other = np.flatnonzero((there != keys) & (there != 0))
        while len(other):
            slots[other] = (slots[other] + 1) & (len(self._keys) - 1)
            there[other] = self._keys[slots[other]]
            other = other[(there[other] != keys[other]) & (there[other] != 0)]
        slots[there == 0] = -1
        return slots

    def _insert(self, keys: np.ndarray) -> None:
        """Put new keys in, the first ones where not all have room."""
        keys, given = np.unique(keys), keys
        if self._size + len(keys) > MOST:
            first = np.sort(np.unique(given, return_index=True)[1])
            keys = given[first[: MOST - self._size]]
        self._size += len(keys)
        if 2 * self._size > len(self._keys):
            old, counts = self._keys, self._counts
            slots = 1 << (2 * self._size - 1).bit_length() + 1
            self._keys, self._counts = np.zeros(slots, dtype=np.uint64), np.zeros(slots, dtype=np.int64)
            there = old != 0
            self._place(old[there])
            self._counts[self._find(old[there])] = counts[there]
        self._place(keys)

    def _place(self, keys: np.ndarray) -> None:
        slots = self._first_slots(keys)
        while len(keys):
            free = self._keys[slots] == 0
            self._keys[slots[free]] = keys[free]
            left = self._keys[slots] != keys  # taken before, or by another of these
            keys, slots = keys[left], (slots[left] + 1) & (len(self._keys) - 1)


def occurrences(values: np.ndarray) -> np.ndarray:
    """How often the same value stands before each value."""
    ordered = np.sort(values)
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))[: len(values)]
    if len(first) == len(values):  # all different, which sorting alone shows sooner
        return np.zeros(len(values), dtype=np.int64)
    order = np.argsort(values, kind="stable")
    counts = np.diff(np.append(first, len(values)))
    number = np.empty(len(values), dtype=np.int64)
    number[order] = np.arange(len(values)) - np.repeat(first, counts)
    return number
