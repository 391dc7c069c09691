"""Columns that never change, or always equal another, and a target that never changes: noticed while blocks pass.

A column is a candidate until a row speaks against it, and almost all are cleared by the first few rows, so that the
watch costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Watch:
    """Constant and duplicate columns of a stream of blocks, and the target's range."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}
        self._constant: set[str] = set()
        self._pairs: set[tuple[str, str]] = set()
        self._rows = 0
        self._low, self._high = np.inf, -np.inf

    def see(self, X: np.ndarray, terms: Sequence[str]) -> None:
        """Take notice of a block."""
        if not len(X):
            return
        place = {term: k for k, term in enumerate(terms)}
        fresh = [term for term in terms if term not in self._first]
        for term in fresh:  # a term that appears late was 0 before
            self._first[term] = 0.0 if self._rows else float(X[0, place[term]])
        self._constant |= set(fresh)
        for part in (X[:64], X[64:]):
            if len(part):
                self._constant = {t for t in self._constant if bool((part[:, place[t]] == self._first[t]).all())}
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
