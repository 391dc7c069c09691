"""Which fold a row belongs to: a seeded hash of its values, the same on every engine and in any partitioning.

Row hash h = mix(Σ_j a_j·b_j mod 2⁶⁴), where b_j are the bits of column j's float64 value, their upper half also xored
into the lower (a category: a digest of its level's text), and a_j an odd number that depends on the seed and the
column's name alone: so neither the order of the columns nor that of the levels matters. The xor is needed: numbers
such as ±1 differ in their top bit only, which a product mod 2⁶⁴ would leave there, and rows of signs would share two
hashes. The sum is one integer product with the block; ``mix`` is splitmix64's finaliser, the fold ⌊K·h/2⁶⁴⌋. Of equal
rows the first has this fold; to the sum of the k-th copy k is added, times a large odd number (copies.py).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from .columns import codes, texts
from .copies import MOST, Copies
from .row_hash import add_column, add_rows

if TYPE_CHECKING:
    import polars as pl

MISSING = "\0missing"
_CACHED = 1 << 13  # rows whose sums stay in the cache
UNEQUAL = 1.5  # times its share of the rows: a fold that is larger is spoken of


def digest(text: str) -> int:
    """64 bits of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def multiplier(name: str, seed: int) -> np.uint64:
    """The odd number that a column's bits are multiplied by."""
    return np.uint64(digest(f"{seed}:{name}") | 1)


def number_hash(array: np.ndarray, names: Sequence[str], seed: int) -> np.ndarray:
    """The sum over the columns of a float64 array (which must not hold −0.0, nor NaN)."""
    factors = np.array([multiplier(name, seed) for name in names], dtype=np.uint64)
    total = np.zeros(len(array), dtype=np.uint64)
    add_rows(np.ascontiguousarray(array).view(np.uint64), factors, total)
    return total


def level_hash(codes: np.ndarray, levels: Sequence[str], name: str, seed: int) -> np.ndarray:
    """The contribution of a category; code −1 is a missing value."""
    table = np.array([digest(level) for level in [*levels, MISSING]], dtype=np.uint64)
    return table[codes] * multiplier(name, seed)


def fold_of(total: np.ndarray, folds: int) -> np.ndarray:
    """Folds 0 … K−1 of summed hashes.

    >>> fold_of(np.arange(6, dtype=np.uint64), 3).tolist()
    [0, 1, 2, 0, 2, 2]
    """
    h = total.astype(np.uint64, copy=True)
    h ^= h >> np.uint64(30)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(27)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(31)
    return (((h >> np.uint64(32)) * np.uint64(folds)) >> np.uint64(32)).astype(np.int64)


def hash_of_columns(columns: Sequence[np.ndarray], names: Sequence[str], seed: int) -> np.ndarray | None:
    """The sums for columns that lie apart; None if there is a NaN or an infinity.

    The sums stay in the cache while one column after another is read.
    """
    total = np.zeros(len(columns[0]), np.uint64)
    factors = [int(multiplier(name, seed)) for name in names]
    bits = [np.ascontiguousarray(column).view(np.uint64) for column in columns]
    for start in range(0, len(total), _CACHED):
        part = slice(start, start + _CACHED)
        if not all(add_column(column[part], factor, total[part]) for column, factor in zip(bits, factors)):
            return None
    return total


class FoldRule:
    """How rows go to K folds: by the hash of their values, of a group's name, or by their place in time."""

    def __init__(self, folds: Any, seed: int, group: str | None, blocks: bool | int) -> None:
        if isinstance(folds, bool) or not isinstance(folds, (int, np.integer)) or folds < 2:
            raise UsageError(f"folds must be a whole number of at least 2, not {folds!r}", where="folds")
        if not isinstance(blocks, (bool, int, np.integer)) or blocks < 0:
            raise UsageError(f"fold_blocks is True or a number of rows, not {blocks!r}", where="fold_blocks")
        self.count = int(folds)
        self.seed = seed
        self.group = group
        self.blocks = blocks

    def numbers(self, values: np.ndarray, gaps: np.ndarray | None, names: Sequence[str]) -> np.ndarray:
        """The hash of columns of numbers; a gap (where the value is 0) counts as missing."""
        total = number_hash(values, names, self.seed)
        if gaps is not None:
            for j in np.flatnonzero(gaps.any(axis=0)):
                total[gaps[:, j]] += level_hash(np.array([-1]), (), names[int(j)], self.seed)
        return total

    def levels(self, found: np.ndarray, levels: Sequence[str], name: str) -> np.ndarray:
        """The hash of a category."""
        return level_hash(found, levels, name, self.seed)

    def of(self, total: np.ndarray, copies: Copies | None = None) -> np.ndarray:
        """The folds of summed hashes, each copy of a row in one of its own."""
        return fold_of(total if copies is None else copies.distinct(total), self.count)

    def notes(self, sizes: Sequence[int], copies: Copies | None = None) -> list[str]:
        """What is wrong with folds of so many rows each, in sentences."""
        return fold_notes(self.count, sizes, self.group, copies is not None and copies.crowded)

    def by_group(self, series: pl.Series) -> np.ndarray:
        """One fold for all rows of a group."""
        levels: dict[str, int] = {}
        found = codes(texts(series).fill_null(MISSING), levels, grow=True)
        return self.of(self.levels(found, list(levels), str(self.group)))

    def by_place(self, start: int, rows: int, total: int | None, describe: str) -> np.ndarray:
        """K blocks in the order of the rows, or blocks of a stated number of rows that go round the folds."""
        place = np.arange(start, start + rows)
        if self.blocks is not True:
            return (place // int(self.blocks)) % self.count
        if total is None:
            raise UsageError(
                f"{describe} does not say how many rows it has; give the rows of a block as a number",
                where="fold_blocks",
            )
        return np.minimum(place * self.count // total, self.count - 1)


def fold_notes(folds: int, sizes: Sequence[int], group: str | None = None, crowded: bool = False) -> list[str]:
    """What is wrong with folds of so many rows each, in sentences; ``crowded`` as :class:`Copies` says it.

    >>> fold_notes(5, [20, 22, 18, 25, 15]), fold_notes(5, [60, 10, 10, 10, 10])[0][:47]
    ([], 'the largest of 5 folds has 60 of 100 rows, so t')
    """
    result = []
    n, largest = sum(sizes), max(sizes, default=0)
    chance = 3.0 * math.sqrt(n * (folds - 1)) / folds  # that hashing alone may add
    if largest > max(UNEQUAL * n / folds, n / folds + chance):
        cause = f"some value of {group!r} has many rows" if group else "rows are alike, or chance has it so"
        result.append(
            f"the largest of {folds} folds has {largest:,} of {n:,} rows, so that cross-validated errors may mislead: {cause}; "
            f"choose another number of folds{' or another group' if group else ''}"
        )
    if crowded:
        result.append(
            f"there are more than {MOST:,} different rows, and some repeat: copies of the others share a fold, so that "
            "cross-validated errors may mislead; scan fewer columns, or name a group column that decides the folds"
        )
    return result
