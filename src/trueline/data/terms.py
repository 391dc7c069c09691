"""The terms of a scan: first the columns of numbers, then what turns up on the way — levels and missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .refusals import same_term


class Terms:
    """Names of the design's columns so far, in the order in which they came; none is ever taken back."""

    def __init__(self, plain: Sequence[str], describe: str) -> None:
        self.plain = tuple(plain)
        self.names: list[str] = list(plain)
        self.place = {term: k for k, term in enumerate(plain)}
        self.describe = describe
        self._owners: dict[str, str] = {}  # of the terms that are not columns themselves

    def grow(self, terms: Sequence[str], owner: str) -> None:
        """Add those that are new; one that somebody else has is refused."""
        for term in terms:
            if term not in self.place:
                self.place[term] = len(self.names)
                self.names.append(term)
                self._owners[term] = owner
            elif self._owners.get(term) != owner:
                raise same_term(term, self._owners.get(term, "the column of that name"), owner, self.describe)

    def design(
        self,
        values: np.ndarray,
        found: Mapping[str, np.ndarray],
        levels: Mapping[str, Mapping[str, int]],
        lacking: Mapping[str, np.ndarray],
    ) -> np.ndarray:
        """Rows of all terms: numbers as they are, 1 for a row's level and for what it lacks."""
        if len(self.names) == len(self.plain):
            return values
        X = np.zeros((len(values), len(self.names)))
        X[:, : len(self.plain)] = values
        every = np.arange(len(values))
        for name, codes in found.items():
            place = np.array([self.place[f"{name}[{level}]"] for level in levels[name]] or [0])
            known = codes >= 0
            X[every[known], place[codes[known]]] = 1.0
        for name, gap in lacking.items():
            X[gap, self.place[f"{name}[missing]"]] = 1.0
        return X
