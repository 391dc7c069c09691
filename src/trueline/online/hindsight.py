"""The best fixed weights in hindsight for squared loss, from running moments: no row is kept.

Rows are taken as differences from the columns' shift and the first label; each group of 256 is centred and merged into the
total by C = C₁ + C₂ + (n₁n₂/n)·δδᵀ. Groups are counted from the first row on, so a row at a time and a block at a
time do the same arithmetic. Any weights' loss follows from the moments, so the loss reported is that of the weights
reported, whatever their solver did.
"""

from __future__ import annotations

import math
from typing import Any

import cython
import numpy as np

from ..modelfile import Array, whole_numbers
from . import best_fixed
from .redundant_columns import RedundantColumns
from .sums import WIDEST, solve

GROUP = 256
FULL: cython.Py_ssize_t = GROUP


@cython.final
@cython.cclass
class Arriving:
    """Rows with their labels, as they are and as the learner used them, on their way into the moments.

    ``born`` is the example at which a column first varied, 0 before: until then it counts as 0.
    """

    def __init__(self, rows: Any, y: Any, learned: Any, weights: Any, born: Any) -> None:
        self.values, self.indices, self.starts, self.dense = rows.values, rows.indices, rows.starts, rows.dense
        self.y, self.learned, self.weights, self.born = y, learned, weights, born

    def wait(self, start: cython.Py_ssize_t, moments: Any, counts: Any) -> int:
        """Put rows from ``start`` on, less their shift, among those that wait, until the group is full; the next row.

        ``counts`` are the rows that wait, the examples so far, and the numbers that counted as 0 and were none: a change
        too small for the learner.
        """
        waiting, shift, origin, width = moments.waiting, moments.shift, moments.origin, len(moments.shift)
        i = start
        while i < self.y.shape[0] and counts[0] < FULL:
            if self.weights[i] > 0.0:
                at = counts[0]
                counts[0] += 1
                counts[1] += 1
                waiting[at, 0] = self.weights[i]
                waiting[at, 1] = self.y[i] - origin
                waiting[at, 2] = self.learned[i] - origin
                for j in range(width):
                    waiting[at, 3 + j] = 0.0 - shift[j]
                first = self.starts[i]
                for k in range(first, self.starts[i + 1]):
                    j = self.indices[k - first] if self.dense else self.indices[k]
                    waiting[at, 3 + j] = self.values[k] - shift[j]
                for j in range(width):
                    if self.born[j] == 0.0 or counts[1] < self.born[j]:
                        if waiting[at, 3 + j] != 0.0:
                            counts[2] += 1
                        waiting[at, 3 + j] = 0.0
            i += 1
        return i


class Hindsight:
    """Weighted moments of [y, ỹ, u]: label, label as the learner used it, columns less their shift."""

    def __init__(self, shift: np.ndarray, origin: float) -> None:
        self.shift = np.array(shift, dtype=np.float64)
        self.origin = float(origin)
        self.weight = 0.0
        room = len(self.shift) + 2
        self.mean = np.zeros(room)
        self.products = np.zeros((room, room))
        self.waiting = np.zeros((GROUP, room + 1))  # weights first
        self.count = 0
        self.groups = 0  # that were merged
        self.ignored = 0  # numbers that the moments do not have
        self.seen = RedundantColumns(len(self.shift))  # of the groups that were merged

    @property
    def width(self) -> int:
        return len(self.shift)

    def widen(self, width: int) -> None:
        """Columns that appear late; they were 0 until now."""
        if width <= self.width:
            return
        self.shift = np.concatenate([self.shift, np.zeros(width - self.width)])
        self.seen.widen(width)
        room = len(self.mean)
        if width + 2 > room:
            more = max(width + 2, min(2 * room, WIDEST + 2)) - room
            self.mean = np.pad(self.mean, (0, more))
            self.products = np.pad(self.products, ((0, more), (0, more)))
            self.waiting = np.pad(self.waiting, ((0, 0), (0, more)))

    def add(
        self, rows: Any, y: np.ndarray, learned: np.ndarray, weights: np.ndarray, born: np.ndarray, before: int
    ) -> None:
        """Add a block of rows, labels, labels learned from, weights; ``before`` it so many examples were learned."""
        at = 0
        arriving = Arriving(rows, y, learned, weights, born)
        counts = np.array([self.count, before, self.ignored])
        while at < len(y):
            at = arriving.wait(at, self, counts)
            self.count, self.ignored = int(counts[0]), int(counts[2])
            if self.count == GROUP:
                used = self.width + 2
                self.seen = self.redundant()
                self.groups += 1
                self.weight, self.mean[:used], self.products[:used, :used] = self._merged()
                self.waiting[:] = 0.0
                self.count = counts[0] = 0

    def _merged(self) -> tuple[float, np.ndarray, np.ndarray]:
        used = self.width + 2
        old_mean, old_products = self.mean[:used], self.products[:used, :used]
        if self.count == 0:
            return self.weight, old_mean, old_products
        weights = self.waiting[: self.count, 0].copy()
        rows = self.waiting[: self.count, 1 : used + 1]
        own = float(weights.sum())
        mean = weights @ rows / own
        centred = rows - mean
        scaled = centred * weights[:, None]
        total = self.weight + own
        gap = mean - old_mean
        products = old_products + centred.T @ scaled + np.outer(gap, gap * (self.weight * own / total))
        return total, old_mean + gap * (own / total), products

    def redundant(self) -> RedundantColumns:
        """Columns that are exactly combinations of others in all rows, the waiting ones included."""
        rows = self.waiting[: self.count, 3 : self.width + 3] + self.shift
        one = np.ones(len(rows))
        if not self.groups:
            return RedundantColumns.of(rows, one)
        made = self.seen.copy()
        made.check(rows, one)
        return made

    def _sizes(self, weight: float, mean: np.ndarray, products: np.ndarray) -> np.ndarray:
        """Norms of label and columns about where they began: what the moments' rounding is measured against."""
        return np.asarray(np.sqrt(np.maximum(products.diagonal() + weight * mean**2, 0.0)))

    def rounding(self) -> float:
        """γ of the moments: a group's sums, and some operations for each merge of means and products."""
        return best_fixed.rounding(GROUP * self.groups + self.count, GROUP, merges=16)

    def best_fixed_loss(self) -> best_fixed.Least:
        """The best fixed weights (on columns and labels as given) and their loss, as far as the moments tell."""
        if self.ignored:  # weights of a column that the moments do not have might lose less
            return best_fixed.Least()
        weight, mean, products = self._merged()
        if weight == 0.0:
            return best_fixed.Least(np.zeros(self.width + 1), 0.0)
        needed = np.flatnonzero(~self.redundant().mask(intercept=True))
        A, b, square = products[np.ix_(needed + 2, needed + 2)], products[needed + 2, 0], float(products[0, 0])
        w = np.zeros(self.width)
        w[needed] = solve(A, b)
        sizes = self._sizes(weight, mean, products)
        # A column that never moved has no weight to give; its rounding must not count as size.
        sizes[2:][products.diagonal()[2:] <= 0.0] = 0.0
        found = best_fixed.least_squares(A, b, square, sizes[needed + 2], float(sizes[0]), self.rounding(), w[needed])
        inside = np.concatenate([[mean[0] - w @ mean[2:]], w])
        return best_fixed.stated(self.outside(inside), *found, square)

    def best(self, ridge: np.ndarray) -> tuple[np.ndarray, float]:
        """((intercept, weights), loss + ridge) of the minimiser of Σc(ỹ − w₀ − w·u)² + Σ ridge_j·w_j², rounded up.

        ``ridge`` has the intercept first; the labels are those that the learner used.
        """
        weight, mean, products = self._merged()
        d = self.width
        if weight == 0.0:
            return np.zeros(d + 1), 0.0
        # Profile the intercept: with ridge r₀ it equals weight·(ȳ − w·ū)/(weight + r₀); what remains is a rank-one term.
        first, penalty = float(ridge[0]), ridge[1:]
        share = weight * first / (weight + first)
        centre = mean[2:]
        G = products[2:, 2:] + share * np.outer(centre, centre)
        b = products[2:, 1] + share * centre * mean[1]
        square = products[1, 1] + share * mean[1] ** 2
        w = solve(G + np.diag(penalty), b)
        value = square - 2.0 * (b @ w) + w @ (G @ w) + penalty @ (w * w)
        sizes = self._sizes(weight, mean, products)
        size = float(np.abs(w) @ sizes[2:] + sizes[1])
        value += (self.rounding() + 4.0 * (d + 2) * best_fixed.UNIT) * size * size
        intercept = weight * (mean[1] - w @ centre) / (weight + first)
        return np.concatenate([[intercept], w]), max(float(value), 0.0)

    def outside(self, weights: np.ndarray) -> np.ndarray:
        """(intercept, weights) on the columns and labels as given."""
        out = weights.copy()
        out[0] += self.origin - weights[1:] @ self.shift
        return out

    def scale(self) -> float:
        """The labels' sum of squares about their mean: what rounding errors are measured against."""
        return float(self._merged()[2][1, 1])

    def to_state(self) -> dict[str, np.ndarray]:
        used = self.width + 2  # what was made ready for more columns is left out
        return {
            "hindsight_shift": self.shift.copy(),
            "hindsight_mean": self.mean[:used].copy(),
            "hindsight_products": self.products[:used, :used].copy(),
            "hindsight_waiting": self.waiting[:, : used + 1].copy(),
            "hindsight_counts": np.array([self.origin, self.weight, self.count], dtype=float),
            "hindsight_redundant": self.seen.to_array(),
            "hindsight_groups": np.array([self.groups, self.ignored], dtype=float),
        }

    @staticmethod
    def declared(width: int) -> dict[str, Array]:
        """What a file holds of so many columns; earlier versions kept the room made ready for more."""
        room = range(width + 2, 2**31)
        shapes: dict[str, tuple[int | range, ...]] = {
            "shift": (width,), "mean": (room,), "products": (room, room), "waiting": (GROUP, range(width + 3, 2**31)),
        }  # fmt: skip
        made = {f"hindsight_{name}": Array(shape, optional="hindsight") for name, shape in shapes.items()}
        counted = Array((3,), optional="hindsight", holds=lambda counts: bool(0 <= counts[2] <= GROUP))
        return made | {
            "hindsight_counts": counted,
            "hindsight_redundant": RedundantColumns.declared(width, "hindsight_redundant"),
            "hindsight_groups": Array((2,), optional="hindsight_redundant", holds=whole_numbers(0, 2**53)),
        }

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray]) -> Hindsight:
        origin, weight, count = arrays["hindsight_counts"]
        made = cls(arrays["hindsight_shift"], origin)
        used = made.width + 2
        made.mean = arrays["hindsight_mean"][:used].copy()
        made.products = arrays["hindsight_products"][:used, :used].copy()
        made.waiting = arrays["hindsight_waiting"][:, : used + 1].copy()
        made.weight, made.count = float(weight), int(count)
        made.seen = RedundantColumns.from_array(arrays.get("hindsight_redundant"), made.width)
        if "hindsight_groups" in arrays:
            made.groups, made.ignored = map(int, arrays["hindsight_groups"])
        else:  # files of 0.1 do not say how many groups there were
            made.groups = math.ceil(weight / GROUP)
        return made
