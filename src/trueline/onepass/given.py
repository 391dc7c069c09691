"""Rows as they were given, dense or sparse, with their targets and weights: cut into pieces, never copied whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

Chosen = Any  # a slice of the rows, or their numbers
# More runs of equal fold numbers than one in so many rows: the rows are gathered by fold instead.
_RUN = 4096


class Given:
    """Rows of [x y]; those of weight 0 are passed over, and weights that are all 1 are none."""

    def __init__(self, X: Any, y: np.ndarray | None = None, weights: np.ndarray | None = None) -> None:
        self.sparse = hasattr(X, "tocsr")
        self.X = X.tocsr() if self.sparse else X
        self.Y = None if y is None else y[:, None] if y.ndim == 1 else y
        self.kept: np.ndarray | None = None
        if weights is not None and not weights.all():
            self.kept = np.flatnonzero(weights > 0)
        if weights is not None and bool((weights == 1.0 if self.kept is None else weights[self.kept] == 1.0).all()):
            weights = None
        self.weights = weights
        # BLAS can read these rows where they lie.
        self.direct = not self.sparse and self.X.dtype == np.float64 and self.X.dtype.isnative
        self.by_columns = not self.sparse and self.X.ndim == 2 and self.X.strides[0] < self.X.strides[1]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def features(self, chosen: Chosen) -> np.ndarray:
        """Rows of x: a view where they lie together."""
        if self.sparse:
            return self.X[chosen].toarray()
        if isinstance(chosen, slice):
            return self.X[chosen]
        # take() would first copy all rows that do not lie one after the other.
        return self.X.T[:, chosen].T if self.by_columns else self.X.take(chosen, axis=0)

    def block(self, chosen: Chosen) -> np.ndarray:
        """Rows of [x y], copied."""
        X = self.features(chosen)
        k = 0 if self.Y is None else self.Y.shape[1]
        Z = np.empty((len(X), X.shape[1] + k))
        Z[:, : X.shape[1]] = X
        if self.Y is not None:
            Z[:, X.shape[1] :] = self.Y[chosen]
        return Z

    def columns(self, chosen: Chosen, which: list[int]) -> np.ndarray:
        """Some columns of [x y]."""
        d = self.X.shape[1]
        if self.sparse:
            return self.block(chosen)[:, which]
        found = np.empty((count(chosen), len(which)), order="F")
        for place, j in enumerate(which):
            column = self.X[:, j] if j < d else self.Y[:, j - d]  # type: ignore[index]
            found[:, place] = column[chosen]
        return found

    def everything(self) -> Chosen:
        """All rows that count."""
        return slice(0, len(self)) if self.kept is None else self.kept

    def weights_of(self, chosen: Chosen) -> np.ndarray | None:
        return None if self.weights is None else self.weights[chosen]

    def pieces(self, folds: np.ndarray | None, most: int) -> Iterator[tuple[int, Chosen]]:
        """(fold, at most so many of its rows) until all rows have come, each fold's in their order."""
        if folds is not None and self.kept is not None:
            folds = folds[self.kept]
        size = len(self) if self.kept is None else len(self.kept)
        order = self.kept
        edges: Any = [0, size]
        if folds is not None and size:
            edges = np.concatenate([[0], np.flatnonzero(np.diff(folds)) + 1, [size]])
            if len(edges) > size // _RUN + 64:
                by_fold = np.argsort(folds, kind="stable")
                folds = folds[by_fold]
                order = by_fold if order is None else order[by_fold]
                edges = np.concatenate([[0], np.flatnonzero(np.diff(folds)) + 1, [size]])
        for a, b in pairwise(map(int, edges)):
            name = 0 if folds is None or a == b else int(folds[a])
            for start in range(a, b, most):
                some = slice(start, min(start + most, b))
                yield name, some if order is None else order[some]


def count(chosen: Chosen) -> int:
    """How many rows."""
    return chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen)


def cut(chosen: Chosen, start: int, stop: int) -> Chosen:
    """Some of the chosen rows."""
    if isinstance(chosen, slice):
        return slice(chosen.start + start, min(chosen.start + stop, chosen.stop))
    return chosen[start:stop]
