"""A seeded sample of rows for pictures: the rows whose hash is smallest, so that it depends on no partition.

The hash reads the bits of a few columns. Rows that repeat share a hash, so within a block the occurrence number
is mixed in: a table with three distinct rows still gets a fair sample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.copies import occurrences
from ..data.row_hash import stir

SEED = 0x9E3779B97F4A7C15
_COLUMNS = 8
_PROBE = 256


@dataclasses.dataclass(frozen=True)
class Sample:
    """At most ``keep`` rows of [x y], their weights and the priorities that chose them, in order of priority."""

    rows: np.ndarray
    weights: np.ndarray
    priority: np.ndarray
    keep: int

    @classmethod
    def empty(cls, width: int, keep: int) -> Sample:
        return cls(np.empty((0, width)), np.empty(0), np.empty(0, dtype=np.uint64), keep)

    def candidates(self, priority: np.ndarray) -> np.ndarray:
        """Which of some rows may belong to the sample, by their priorities."""
        if len(self.priority) == self.keep:
            return np.flatnonzero(priority < self.priority[-1])
        if len(priority) <= self.keep:
            return np.arange(len(priority))
        largest = np.partition(priority, self.keep - 1)[self.keep - 1]
        return np.flatnonzero(priority <= largest)

    def merged(self, *others: Sample) -> Sample:
        """The smallest priorities of all; equal ones in the order of their rows, so that no order of merging shows."""
        if not others:
            return self
        keep = max(sample.keep for sample in (self, *others))
        rows = np.concatenate([self.rows, *(other.rows for other in others)])
        weights = np.concatenate([self.weights, *(other.weights for other in others)])
        priority = np.concatenate([self.priority, *(other.priority for other in others)])
        order = np.argsort(priority, kind="stable")[:keep]
        return Sample(rows[order], weights[order], priority[order], keep)

    def placed(self, where: np.ndarray, width: int) -> Sample:
        """Among more columns, which were 0 in all rows."""
        rows = np.zeros((len(self.rows), width))
        rows[:, where] = self.rows
        return dataclasses.replace(self, rows=rows)

    def selected(self, where: np.ndarray) -> Sample:
        """Some of the columns."""
        return dataclasses.replace(self, rows=self.rows[:, where])

    def filled(self, places: Sequence[int], fills: Sequence[tuple[int, int, float]]) -> Sample:
        """Column ``places[k]`` plus m times column i, for each fill (k, i, m)."""
        rows = self.rows.copy()
        for k, i, m in fills:
            rows[:, places[k]] += m * rows[:, i]
        return dataclasses.replace(self, rows=rows)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {
            "sample.rows": self.rows,
            "sample.weights": self.weights,
            "sample.priority": self.priority.view(np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], keep: int) -> Sample:
        priority = np.ascontiguousarray(arrays["sample.priority"]).view(np.uint64)
        return cls(arrays["sample.rows"], arrays["sample.weights"], priority, keep)


def hashed_columns(width: int) -> list[int]:
    """The columns by whose values rows are chosen."""
    return list(range(width)) if width <= _COLUMNS else [*range(_COLUMNS - 1), width - 1]


def priorities(columns: Sequence[np.ndarray]) -> np.ndarray:
    """One pseudo-random 64-bit number a row, made from the values in its hashed columns."""
    h: Any = np.full(len(columns[0]), SEED, dtype=np.uint64)
    for column in columns:
        stir(h, np.ascontiguousarray(column).view(np.uint64))
    if len(np.unique(h[:_PROBE])) < min(len(h), _PROBE):
        h = h + occurrences(h).astype(np.uint64) * np.uint64(SEED)
    return _mixed(h)


def _mixed(h: np.ndarray) -> np.ndarray:
    """The finisher of splitmix64."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))
