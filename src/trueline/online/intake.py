"""The mixture's door: arrays, sparse matrices and dicts become rows that the loops read, or are refused whole.

One layout serves all: values, the columns they belong to, and where each row starts. Dense rows share one list of
columns (``dense``), so nothing is copied.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ..data.refusals import in_words, refuse_broken_sparse, unusable
from ..data.rounding import EXACT, refuse_rounded_fields
from ..errors import DataError
from .inputs import check_width, codes, matrix, named, targets, weights

_NUMBERS = {float, int, bool, np.float64}
LIMIT = 1e100  # beyond, squares and their sums leave the range of float64


@dataclasses.dataclass
class Block:
    """Rows as the loops read them; ``new`` are names that the row brings."""

    values: np.ndarray
    indices: np.ndarray
    starts: np.ndarray
    dense: bool
    width: int
    new: tuple[str, ...] = ()

    def part(self, start: int, stop: int) -> Block:
        """Rows start … stop − 1."""
        if start == 0 and stop == len(self.starts) - 1:
            return self
        return dataclasses.replace(self, starts=self.starts[start : stop + 1])

    def whole(self) -> Block:
        """The same rows with the columns that they lack, as zeros."""
        if self.dense:
            return self
        n, d = len(self.starts) - 1, self.width
        X = np.zeros((n, d))
        X[np.repeat(np.arange(n), np.diff(self.starts)), self.indices] = self.values
        return Block(X.reshape(-1), np.arange(d), np.arange(n + 1) * d, True, d, self.new)


def block_of(X: Any) -> Block:
    """A C-ordered float64 array, or a SciPy sparse matrix, as the loops read it; repeated entries of one place are added."""
    if not hasattr(X, "tocsr"):
        n, d = X.shape
        return Block(X.reshape(-1), np.arange(d), np.arange(n + 1) * d, True, d)
    refuse_broken_sparse(X)
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    values = np.ascontiguousarray(X.data, dtype=np.float64)
    return Block(values, X.indices.astype(np.int64), X.indptr.astype(np.int64), False, X.shape[1])


class Intake:
    """Which columns there are, and the rules for rows."""

    def __init__(self, names: list[str] | None = None, width: int | None = None) -> None:
        self.names = None if names is None else list(names)
        self.known = {} if names is None else {name: j for j, name in enumerate(names)}
        self.width = 0 if width is None else width
        self.settled = width is not None

    def rows(self, X: Any) -> Block:
        """A block from a two-dimensional array or a SciPy sparse matrix."""
        if not hasattr(X, "tocsr"):
            X = matrix(X)
        block = block_of(X)
        if self.settled and block.width != self.width:
            check_width(X, self.width)
        self._check(block)
        return block

    def row(self, features: dict[str, Any], grow: bool) -> Block:
        """A block of one row from a dict; with ``grow``, names not known yet get columns (once accepted)."""
        if self.settled and self.names is None and self.width:
            raise DataError(
                "this model learned from arrays, whose columns have no names; give arrays, or start with dicts"
            )
        features = named(features)
        fast = self._plain_row(features)
        if fast is not None:
            return fast
        refuse_rounded_fields(features)
        indices: list[int] = []
        values: list[float] = []
        new: dict[str, int] = {}
        for name, value in features.items():
            if isinstance(value, str):
                name, value = f"{name}={value}", 1.0
            else:
                try:
                    value = float(value)
                except (TypeError, ValueError, OverflowError):
                    raise DataError(
                        f"feature {name!r} is {value!r}; give a number, a boolean or a string", where=str(name)
                    ) from None
                if not abs(value) <= LIMIT:
                    raise DataError(
                        f"feature {name!r} is {value!r}; give a finite number no larger than {LIMIT:g}", where=str(name)
                    )
            place = self.known.get(name, new.get(name))
            if place is None:
                if not grow:
                    continue
                place = new[name] = self.width + len(new)
            indices.append(place)
            values.append(value)
        return _row(values, indices, self.width + len(new), tuple(new))

    def _plain_row(self, features: dict[str, Any]) -> Block | None:
        """The usual row, all names known and all values good numbers, without a Python loop over its rules."""
        if not _NUMBERS.issuperset(map(type, features.values())):
            return None
        try:
            indices = [self.known[name] for name in features]
        except KeyError:
            return None
        try:
            values = np.array(list(features.values()), dtype=np.float64)
        except OverflowError:
            return None
        largest = np.abs(values).max(initial=0.0)
        if not largest <= LIMIT:
            return None
        if largest >= EXACT:
            refuse_rounded_fields(features)
        return _row(values, indices, self.width)

    def accept(self, block: Block) -> None:
        """The block will be learned: its columns are the model's from now on."""
        self.settled = True
        if block.new or (self.names is None and not block.dense and self.width == 0 and block.width == 0):
            self.names = self.names or []
            for name in block.new:
                self.known[name] = len(self.names)
                self.names.append(name)
        self.width = max(self.width, block.width)

    def _check(self, block: Block) -> None:
        bad = ~(np.abs(block.values) <= LIMIT)
        if bad.any():
            k = int(np.argmax(bad))
            row = int(np.searchsorted(block.starts, k, side="right")) - 1
            column = int(block.indices[k - block.starts[row]] if block.dense else block.indices[k])
            name = self.names[column] if self.names is not None and column < len(self.names) else f"x{column}"
            place = f"column {name!r} has {in_words(block.values[k])} in row {row}"
            raise unusable("X", int(bad.sum()), place, name)


def _row(values: Any, indices: list[int], width: int, new: tuple[str, ...] = ()) -> Block:
    """One row in the order of its columns, so that the order of a dict changes no bit."""
    places, numbers = np.array(indices, dtype=np.int64), np.array(values, dtype=np.float64)
    if (np.diff(places) < 0).any():
        order = np.argsort(places)
        places, numbers = places[order], numbers[order]
    return Block(numbers, places, np.array([0, len(numbers)]), False, width, new)


def check_targets(y: Any, n: int, task: str, classes: int) -> np.ndarray:
    """Labels as the loops want them: numbers, or class numbers 0 … K − 1."""
    if task == "regression":
        return targets(y, n, "real")
    return (targets(y, n, "sign") + 1.0) / 2.0 if task == "binary" else codes(y, n, classes)


def check_weights(given: Any, n: int) -> np.ndarray:
    """Importance weights: finite and not negative; 1 each when absent."""
    if given is None:
        return np.ones(n)
    c = weights(given, n)
    if not math.isfinite(float(c.sum())):
        raise DataError("sample_weight does not have a finite sum; scale the weights down", where="sample_weight")
    return c
