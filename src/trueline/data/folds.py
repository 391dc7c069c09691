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
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._jit import PLAIN, kernel
from ..errors import UsageError
from .columns import codes, texts
from .copies import MOST, Copies

if TYPE_CHECKING:
    import polars as pl

MISSING = "\0missing"
_HALF = np.uint64(32)
_CACHED = 1 << 16  # numbers whose scratch copy stays in the cache
_SCRATCH = 1 << 12  # numbers of one column of which a few copies do
_REPAID = 1 << 28  # numbers whose hashing takes longer than loading Numba
_LOADED = 1 << 24  # … than loading what was compiled before
UNEQUAL = 1.5  # times its share of the rows: a fold that is larger is spoken of
_compiled = False


def digest(text: str) -> int:
    """64 bits of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def multiplier(name: str, seed: int) -> np.uint64:
    """The odd number that a column's bits are multiplied by."""
    return np.uint64(digest(f"{seed}:{name}") | 1)


def number_hash(array: np.ndarray, names: Sequence[str], seed: int) -> np.ndarray:
    """The sum over the columns of a float64 array (which must not hold −0.0, nor NaN)."""
    factors = np.array([multiplier(name, seed) for name in names], dtype=np.uint64)
    bits = array.view(np.uint64)
    total = np.zeros(len(array), dtype=np.uint64)
    if "numba" in sys.modules and not PLAIN and array.size > _CACHED:
        _row_sums(bits, factors, total)
        return total
    step = max(64, _CACHED // max(1, len(factors)))
    for start in range(0, len(array) if len(factors) else 0, step):
        part = bits[start : start + step]
        folded = part >> _HALF
        folded ^= part
        np.matmul(folded, factors, out=total[start : start + step])
    return total


@kernel
def _row_sums(bits: np.ndarray, factors: np.ndarray, total: np.ndarray) -> None:
    for i in range(bits.shape[0]):
        row = np.uint64(0)
        for j in range(bits.shape[1]):
            b = bits[i, j]
            row += (b ^ (b >> np.uint64(32))) * factors[j]
        total[i] = row


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


def compiled() -> bool:
    """Whether compiled code can be had for nothing: Numba itself costs half a second and 100 MB."""
    return not PLAIN and (_compiled or "numba" in sys.modules)


def compile_for(numbers: int) -> None:
    """Have compiled code where so many numbers repay it: what an earlier process left, or else Numba's."""
    global _compiled
    if PLAIN or numbers < _LOADED or compiled():
        return
    few, total = bits_of(np.zeros(1)), np.zeros(1, np.uint64)
    calls: list[tuple[Any, ...]] = [
        (_add_columns, few, few, few, few, np.zeros(4, np.uint64), 0, total),
        (stir, total, few),
    ]
    # Both are looked for before Numba is there: what was looked for is left for the next process.
    ready = [item.ready(*arguments) is not None for item, *arguments in calls]
    if numbers >= _REPAID or all(ready):
        for item, *arguments in calls:
            item(*arguments)
        _compiled = True


def bits_of(column: np.ndarray) -> np.ndarray:
    """Of float64 numbers; never to be written to, so that one compiled kernel serves all."""
    made = column.view(np.uint64)
    made.flags.writeable = False
    return made


@kernel(light=True)
def _add_columns(a, b, c, d, factors, first, total):
    """Add four columns' shares of the hash; how many of their numbers are not finite."""
    odd = 0
    for i in range(len(total)):
        odd += _odd(a[i]) + _odd(b[i]) + _odd(c[i]) + _odd(d[i])
        total[i] += (
            _folded(a[i]) * factors[first]
            + _folded(b[i]) * factors[first + 1]
            + _folded(c[i]) * factors[first + 2]
            + _folded(d[i]) * factors[first + 3]
        )
    return odd


@kernel(light=True)
def stir(h, bits):
    """Mix a column's bits into the rows' hashes, in their order."""
    for i in range(len(h)):
        b = np.uint64(0) if bits[i] == np.uint64(0x8000000000000000) else bits[i]  # −0.0 and 0.0 are one value
        mixed = (h[i] ^ b) * np.uint64(0xBF58476D1CE4E5B9)
        h[i] = mixed ^ (mixed >> np.uint64(29))


@kernel
def _odd(b):
    """1 for the bits of a NaN or an infinity."""
    return 1 if (b & np.uint64(0x7FF0000000000000)) == np.uint64(0x7FF0000000000000) else 0


@kernel
def _folded(b):
    """The upper half xored into the lower; −0.0 and 0.0 are one value."""
    b = np.uint64(0) if b == np.uint64(0x8000000000000000) else b
    return b ^ (b >> np.uint64(32))


def _add_column_arrays(bits: np.ndarray, factor: np.uint64, total: np.ndarray) -> bool:
    plain = bits.view(np.float64) + 0.0  # −0.0 becomes 0.0
    if not np.isfinite(plain.sum()):
        return False
    bits = plain.view(np.uint64)
    folded = bits >> _HALF
    folded ^= bits
    folded *= factor
    total += folded
    return True


def hash_of_columns(columns: Sequence[np.ndarray], names: Sequence[str], seed: int) -> np.ndarray | None:
    """The sums for columns that lie apart; None if there is a NaN, infinity or overflow.

    The sums stay in the cache while one column after another is read.
    """
    total = np.zeros(len(columns[0]), np.uint64)
    factors = [multiplier(name, seed) for name in names]
    if compiled():
        bits = [bits_of(column) for column in columns]
        bits += bits[:1] * (-len(bits) % 4)  # times 0
        multipliers = np.zeros(len(bits), np.uint64)
        multipliers[: len(factors)] = factors
        # Four at once, so that the sums are fetched and stored less often.
        fours = (bits[k : k + 4] for k in range(0, len(bits), 4))
        odd = [_add_columns(a, b, c, d, multipliers, 4 * k, total) for k, (a, b, c, d) in enumerate(fours)]
        return None if any(odd) else total
    for start in range(0, len(total), _SCRATCH):
        part = slice(start, start + _SCRATCH)
        for column, factor in zip(columns, factors):
            if not _add_column_arrays(column[part].view(np.uint64), factor, total[part]):
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
