"""Rows as they were given, dense or sparse, with their targets and weights: cut into pieces, never copied whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..data.blocks import Columns

Chosen = Any  # a slice of the rows, or their numbers
# More runs of equal fold numbers than one in so many rows: the rows are gathered by fold instead.
_RUN = 4096
# Of columns that lie apart a piece has so many rows or more, enough of each fold; they are put together by tiles.
_NEAR_ROWS = 32768
_FOLD_ROWS = 2048
_TILE_ROWS = 16384
_TILE_NUMBERS = 2**20


class Piece(NamedTuple):
    """Some rows that are multiplied together, sorted by fold: each run is (fold, first, last + 1) among them."""

    rows: Chosen
    runs: list[tuple[int, int, int]]


class Given:
    """Rows of [x y]; those of weight 0 are passed over, and weights that are all 1 are none."""

    def __init__(self, X: Any, y: np.ndarray | None = None, weights: np.ndarray | None = None) -> None:
        self.sparse = hasattr(X, "tocsr")
        self.apart = isinstance(X, Columns)
        self.X = X.tocsr() if self.sparse else X
        self.Y = None if y is None else y[:, None] if y.ndim == 1 else y
        self.kept: np.ndarray | None = None
        if weights is not None and not weights.all():
            self.kept = np.flatnonzero(weights > 0)
        if weights is not None and bool((weights == 1.0 if self.kept is None else weights[self.kept] == 1.0).all()):
            weights = None
        self.weights = weights
        # These rows need no conversion: BLAS can read them where they lie, or where they were gathered.
        self.direct = not self.sparse and self.X.dtype == np.float64 and self.X.dtype.isnative
        self.by_columns = isinstance(X, np.ndarray) and X.ndim == 2 and X.strides[0] < X.strides[1]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def features(self, chosen: Chosen) -> np.ndarray:
        """Rows of x: a view where they lie together."""
        if self.sparse:
            return self.X[chosen].toarray()
        if self.apart or isinstance(chosen, slice):
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

    def lines(self, chosen: Chosen) -> np.ndarray:
        """Rows of [x y], copied, one line a column."""
        d, k = self.X.shape[1], 0 if self.Y is None else self.Y.shape[1]
        Z = np.empty((d + k, count(chosen)))
        if self.apart:
            return self.gathered(chosen, Z)
        Z[:d] = self.features(chosen).T
        if self.Y is not None:
            Z[d:] = self.Y[chosen].T
        return Z

    def columns(self, chosen: Chosen, which: list[int]) -> list[np.ndarray]:
        """Some columns of [x y], each in one stretch of memory."""
        d = self.X.shape[1]
        if self.sparse:
            return list(self.block(chosen)[:, which].T.copy())
        found = [self.X[:, j] if j < d else self.Y[:, j - d] for j in which]  # type: ignore[index]
        return [np.ascontiguousarray(column[chosen], dtype=np.float64) for column in found]

    def everything(self) -> Chosen:
        """All rows that count."""
        return slice(0, len(self)) if self.kept is None else self.kept

    def weights_of(self, chosen: Chosen) -> np.ndarray | None:
        return None if self.weights is None else self.weights[chosen]

    def gathered(self, chosen: Chosen, out: np.ndarray) -> np.ndarray:
        """Of columns that lie apart, [x y] of these rows, one column after the other in ``out``."""
        n, d = count(chosen), self.X.shape[1]
        self.X.gather(chosen, out[:d, :n])
        if self.Y is not None:
            Columns(list(self.Y.T)).gather(chosen, out[d : d + self.Y.shape[1], :n])
        return out[:, :n]

    def pieces(self, folds: np.ndarray | None, most: int) -> Iterator[Piece]:
        """Pieces until all rows have come, each fold's in their order, at most so many rows of a fold in one."""
        if folds is not None and self.kept is not None:
            folds = folds[self.kept]
        size = len(self) if self.kept is None else len(self.kept)
        if self.apart and folds is not None and size:
            yield from self._near(folds)
            return
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
                yield Piece(some if order is None else order[some], [(name, 0, some.stop - start)])

    def _near(self, folds: np.ndarray) -> Iterator[Piece]:
        """Rows that lie near each other, sorted by fold."""
        last = int(folds.max())
        small = folds.astype(np.uint16) if last < 1 << 16 else folds  # sixteen bits are sorted by counting
        step = max(_NEAR_ROWS, _FOLD_ROWS * (last + 1))
        for start in range(0, len(folds), step):
            part = small[start : start + step]
            order = np.argsort(part, kind="stable")
            names = part[order]
            edges = [0, *(np.flatnonzero(np.diff(names)) + 1).tolist(), len(names)]
            rows = order + start if self.kept is None else self.kept[order + start]
            yield Piece(rows, [(int(names[a]), a, b) for a, b in pairwise(edges)])


def count(chosen: Chosen) -> int:
    """How many rows."""
    return chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen)


def cut(chosen: Chosen, start: int, stop: int) -> Chosen:
    """Some of the chosen rows."""
    if isinstance(chosen, slice):
        return slice(chosen.start + start, min(chosen.start + stop, chosen.stop))
    return chosen[start:stop]


def joined(parts: list[Chosen]) -> Chosen:
    """Rows chosen in several parts."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def tiles(piece: Piece, width: int) -> Iterator[list[tuple[int, int, int]]]:
    """A piece's runs cut where its rows pass on to the next tile: (number of the run, first, last + 1) for each tile."""
    step = max(1024, min(_TILE_ROWS, _TILE_NUMBERS // width))
    if isinstance(piece.rows, slice) or len(piece.runs) == 1:
        for k, (_, start, stop) in enumerate(piece.runs):
            for a in range(start, stop, step):
                yield [(k, a, min(a + step, stop))]
        return
    low, high = int(piece.rows.min()), int(piece.rows.max()) + 1
    edges = np.append(np.arange(low, high, step), high)
    places = [start + np.searchsorted(piece.rows[start:stop], edges) for _, start, stop in piece.runs]
    for t in range(len(edges) - 1):
        yield [(k, int(at[t]), int(at[t + 1])) for k, at in enumerate(places) if at[t] < at[t + 1]]
