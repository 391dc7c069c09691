"""Surfaces of a local regression: fits at the corners of cells or at knots, and what lies between, with its rounding.

One variable in cells: cubic Hermite between two values and slopes. Several: Σ λ_c·(f_c + ½∇f_c·(x − x_c)) with λ the
multilinear weights of the corners. Knots: straight lines. A cell's corners must be those of its box.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ModelError
from .agreement import EPS
from .local_fits import Fits, LocalRows, local_fits, reaching_fits
from .stated_claims import Rows


class Surface:
    """Where the surface is fitted, and how it is read."""

    def __init__(self, record: Any, rows: LocalRows) -> None:
        self.rows, self.kind, self.cells = rows, record.surface, record.cells
        if self.kind == "cells":
            _check_cells(self.cells, rows.Z.shape[1])
            self.places = np.asarray(self.cells.vertices, dtype=float)
        elif self.kind == "knots":
            self.knots = np.asarray(record.knots, dtype=float)
            if not rows.one_variable or not (len(self.knots) and (np.diff(self.knots) > 0.0).all()):
                raise ModelError("the knots of the local regression do not rise", where="model")
            self.first = np.searchsorted(rows.Z[:, 0], self.knots)
            if not np.isin(self.knots, rows.Z[:, 0]).all():
                raise ModelError("the knots of the local regression are not among its rows", where="model")
            self.places = self.knots[:, None]
        else:
            raise ModelError(f"{self.kind!r} is no surface of a local regression", where="model")

    def nodes(self, robust: Rows, robust_room: Rows | float = 0.0) -> Fits:
        """The fits at the places of the surface."""
        if self.kind == "cells":
            return reaching_fits(self.rows, self.places, robust, robust_room)
        found = local_fits(self.rows, self.places, robust, robust_room)
        lost = np.isnan(found.values[:, 0])  # all neighbours put aside: the knot's own row
        found.values[lost, 0], found.values[lost, 1:] = self.rows.y[self.first[lost]], 0.0
        found.room[lost] = np.where(np.isfinite(found.room[lost]), 0.0, np.inf)
        return found

    def holds(self, Z: Rows) -> Rows:
        """Which queries the surface reaches."""
        if self.kind == "knots":
            return np.asarray((Z[:, 0] >= self.knots[0]) & (Z[:, 0] <= self.knots[-1]))
        leaf = self._leaf(Z)
        return np.asarray(((self.cells.lower[leaf] <= Z) & (self.cells.upper[leaf] >= Z)).all(axis=1))

    def read(self, nodes: Fits, Z: Rows) -> Fits:
        """(value, leverage, Σ l²/w) between the places; queries are inside."""
        if self.kind == "knots":
            return self._lines(nodes, Z)
        leaf = self._leaf(Z)
        columns = [self._between(nodes, Z, leaf, c, c == 0 and self.rows.settings.degree > 0) for c in range(3)]
        return Fits(*(np.column_stack([column[part] for column in columns]) for part in (0, 1)))

    def _lines(self, nodes: Fits, Z: Rows) -> Fits:
        place = np.clip(np.searchsorted(self.knots, Z[:, 0], side="right") - 1, 0, max(len(self.knots) - 2, 0))
        after = np.minimum(place + 1, len(self.knots) - 1)
        length = self.knots[after] - self.knots[place]
        t = ((Z[:, 0] - self.knots[place]) / np.where(length > 0.0, length, 1.0))[:, None]
        low, high = nodes.values[place, :3], nodes.values[after, :3]
        # A knot that is hit takes its own value alone, whatever its neighbour's is.
        room = np.where(t < 1.0, (1.0 - t) * nodes.room[place, :3], 0.0) + np.where(
            t > 0.0, t * nodes.room[after, :3], 0.0
        )
        return Fits(low + t * (high - low), room + 8.0 * EPS * (np.abs(low) + np.abs(high)))

    def _leaf(self, Z: Rows) -> Rows:
        """The cell of each query; children stand behind their parents, so the descent ends."""
        tree, node, rows = self.cells, np.zeros(len(Z), dtype=np.int64), np.arange(len(Z))
        for _ in range(len(tree.side)):
            side = tree.side[node]
            if (side < 0).all():
                break
            over = (Z[rows, np.maximum(side, 0)] > tree.cut[node]).astype(np.int64)
            node = np.where(side < 0, node, tree.child[node, over])
        return np.asarray(tree.leaf[node])

    def _between(self, nodes: Fits, Z: Rows, leaf: Rows, c: int, sloped: bool) -> tuple[Rows, Rows]:
        """One column carried from the corners to the queries, and what rounding may do to it."""
        tree, p = self.cells, Z.shape[1]
        low, high, corner = tree.lower[leaf], tree.upper[leaf], tree.corner[leaf]
        s, length = (Z - low) / (high - low), high - low
        blur = 4.0 * EPS * (np.abs(Z) + np.abs(low)) / length  # of s, by cancellation
        values, room, size, steep = np.zeros(len(Z)), np.zeros(len(Z)), np.zeros(len(Z)), np.zeros(len(Z))
        for b in range(2**p):
            bits = np.array([b >> k & 1 for k in range(p)], dtype=bool)
            number = corner[:, b]
            f, f_room = nodes.values[number, c], nodes.room[number, c]
            slope, slope_room = nodes.values[number, 3 : 3 + p], nodes.room[number, 3 : 3 + p]
            away = Z - tree.vertices[number]
            if sloped and p == 1:  # Hermite's cubics of a value and of a slope, at the lower or the upper end
                t, width = (s[:, 0], length[:, 0]) if not bits[0] else (1.0 - s[:, 0], -length[:, 0])
                share, lean = (1.0 + 2.0 * t) * (1.0 - t) ** 2, t * (1.0 - t) ** 2 * width
                value, one = share * f + lean * slope[:, 0], share * f_room + np.abs(lean) * slope_room[:, 0]
                total = np.abs(f) + np.abs(width * slope[:, 0])
            else:
                share = np.where(bits, s, 1.0 - s).prod(axis=1)
                tilt = 0.5 * np.einsum("ij,ij->i", slope, away) if sloped else 0.0
                tilt_room = 0.5 * np.einsum("ij,ij->i", slope_room, np.abs(away)) if sloped else 0.0
                value, one = share * (f + tilt), np.abs(share) * (f_room + tilt_room)
                total = np.abs(f) + (0.5 * np.einsum("ij,ij->i", np.abs(slope), np.abs(away)) if sloped else 0.0)
            values, room, size = values + value, room + one, size + total
        steep = 4.0 * blur.sum(axis=1) * size
        return values, room + steep + 32.0 * (p + 1) * EPS * size


def _check_cells(tree: Any, p: int) -> None:
    """Each cell's corners are those of its box, of some length in every direction; the tree leads down."""
    if tree is None:
        raise ModelError("the surface of the local regression has no cells", where="model")
    bits = ((np.arange(2**p)[:, None] >> np.arange(p)) & 1).astype(bool)
    corners = np.where(bits[None], tree.upper[:, None, :], tree.lower[:, None, :])
    inner = tree.side >= 0
    down = (tree.child > np.arange(len(tree.side))[:, None]).all(axis=1)
    if not (
        np.array_equal(tree.vertices[tree.corner], corners)
        and bool((tree.upper > tree.lower).all())
        and bool(down[inner].all())
    ):
        raise ModelError("the cells of the local regression do not fit together", where="model")
