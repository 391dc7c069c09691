"""What is noticed while blocks pass: columns that never change or equal another, a constant target, means.

A column is a candidate until a row speaks against it, and almost all are cleared by the first few rows, so that the
watch costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .blocks import Columns


class Watch:
    """Constant and duplicate columns of a stream of blocks, and the target's range."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}
        self._constant: set[str] = set()
        self._pairs: set[tuple[str, str]] = set()
        self._rows = 0
        self._low, self._high = np.inf, -np.inf

    def see(self, X: np.ndarray | Columns, terms: Sequence[str], weights: np.ndarray | None = None) -> None:
        """Take notice of a block, of its rows that count."""
        if weights is not None and not weights.all():
            X = X[weights > 0]  # in all others a column may change as it likes: no square knows of it
        if not len(X):
            return
        place = {term: k for k, term in enumerate(terms)}
        fresh = [term for term in terms if term not in self._first]
        for term in fresh:  # a term that appears late was 0 before
            self._first[term] = 0.0 if self._rows else float(X[0, place[term]])
        self._constant |= set(fresh)
        for rows in (slice(64), slice(64, None)):
            self._constant = {t for t in self._constant if bool((X[rows, place[t]] == self._first[t]).all())}
        if self._rows == 0:
            groups: dict[bytes, list[str]] = {}
            head = np.ascontiguousarray(X[:1024].T)
            for term in terms:
                groups.setdefault(head[place[term]].tobytes(), []).append(term)
            self._pairs = {(a, b) for same in groups.values() for k, b in enumerate(same) for a in same[:k]}
        self._pairs = {(a, b) for a, b in self._pairs if bool((X[:, place[a]] == X[:, place[b]]).all())}
        self._rows += len(X)

    def see_target(self, y: np.ndarray) -> None:
        """Take notice of targets."""
        if len(y):
            self._low, self._high = min(self._low, float(y.min())), max(self._high, float(y.max()))

    @property
    def target_is_constant(self) -> bool:
        return self._low == self._high

    @property
    def target_value(self) -> float:
        return self._low

    def constant(self, terms: Sequence[str]) -> tuple[str, ...]:
        """The terms with one value in all rows."""
        return tuple(term for term in terms if term in self._constant)

    def duplicates(self, terms: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Pairs of terms that are equal in all rows and not constant, in order."""
        order = {term: k for k, term in enumerate(terms)}
        pairs = [pair for pair in self._pairs if pair[0] not in self._constant]
        return tuple(sorted(pairs, key=lambda pair: (order[pair[0]], order[pair[1]])))


class Means:
    """Weighted sums over what is there, of each column and of each level, for missing="mean"."""

    def __init__(self) -> None:
        self._sums: dict[str, np.ndarray] = {}
        self._observed: dict[str, float] = {}

    def see_numbers(
        self, values: np.ndarray | Columns, gaps: np.ndarray | None, names: Sequence[str], w: np.ndarray
    ) -> None:
        """Take notice of columns of numbers, 0 where ``gaps`` says missing."""
        sums = w @ values if isinstance(values, np.ndarray) else [w @ column for column in values.columns]
        total = float(w.sum())
        absent = np.zeros(len(names)) if gaps is None else w @ gaps
        for j, name in enumerate(names):
            self._sums[name] = self._sums.get(name, np.zeros(1)) + sums[j]
            self._observed[name] = self.observed(name) + total - float(absent[j])

    def see_codes(self, codes: np.ndarray, levels: int, name: str, w: np.ndarray) -> None:
        """Take notice of a category's codes, −1 where missing."""
        known = codes >= 0
        counts = np.bincount(codes[known], weights=w[known], minlength=levels)
        before = self._sums.get(name, np.zeros(0))
        self._sums[name] = counts + np.pad(before, (0, len(counts) - len(before)))
        self._observed[name] = self.observed(name) + float(w[known].sum())

    def observed(self, name: str) -> float:
        """The weight of the rows where the column is there."""
        return self._observed.get(name, 0.0)

    def of(self, name: str, places: Sequence[int]) -> tuple[float, ...]:
        """The means at these places (a category: its codes); empty where nothing was seen."""
        sums, total = self._sums.get(name), self.observed(name)
        if sums is None or not total > 0:
            return ()
        return tuple(float(sums[k] / total) if k < len(sums) else 0.0 for k in places)
