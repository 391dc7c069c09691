"""The best fixed weights in hindsight for squared loss, from running moments: no row is kept.

Rows are taken as differences from the columns' shift and the first label; each group of 256 is centred and merged into the
total by C = C₁ + C₂ + (n₁n₂/n)·δδᵀ. Groups are counted from the first row on, so a row at a time and a block at a
time do the same arithmetic. Any weights' loss follows from the moments, so the loss reported is that of the weights
reported, whatever their solver did.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import kernel
from ..modelfile import Array
from .sums import WIDEST, solve

GROUP = 256


@kernel
def wait(
    values: Any, indices: Any, starts: Any, dense: bool, width: int, y: Any, learned: Any, weights: Any, start: int,
    shift: Any, born: Any, origin: float, waiting: Any, counts: Any,
) -> int:  # fmt: skip
    """Put rows from ``start`` on, less their shift, among those that wait, until the group is full; the next row.

    ``born`` is the example at which a column first varied, 0 before: until then it counts as 0. ``counts`` are the rows
    that wait and the examples so far.
    """
    i = start
    while i < y.size and counts[0] < GROUP:
        if weights[i] > 0.0:
            spot = waiting[counts[0]]
            counts[0] += 1
            counts[1] += 1
            spot[0] = weights[i]
            spot[1] = y[i] - origin
            spot[2] = learned[i] - origin
            for j in range(width):
                spot[3 + j] = 0.0 - shift[j]
            for k in range(starts[i], starts[i + 1]):
                j = indices[k - starts[i]] if dense else indices[k]
                spot[3 + j] = values[k] - shift[j]
            for j in range(width):
                if born[j] == 0.0 or counts[1] < born[j]:
                    spot[3 + j] = 0.0
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

    @property
    def width(self) -> int:
        return len(self.shift)

    def widen(self, width: int) -> None:
        """Columns that appear late; they were 0 until now."""
        if width <= self.width:
            return
        self.shift = np.concatenate([self.shift, np.zeros(width - self.width)])
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
        counts = np.array([self.count, before])
        while at < len(y):
            at = wait(
                rows.values, rows.indices, rows.starts, rows.dense, self.width, y, learned, weights, at, self.shift, born,
                self.origin, self.waiting, counts,
            )  # fmt: skip
            self.count = int(counts[0])
            if self.count == GROUP:
                used = self.width + 2
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

    def best(self, ridge: np.ndarray | None = None, learned: bool = False) -> tuple[np.ndarray, float]:
        """((intercept, weights), loss + ridge) of the minimiser of Σc(y − w₀ − w·u)² + Σ ridge_j·w_j².

        ``ridge`` has the intercept first; ``learned`` takes the labels as the learner used them.
        """
        weight, mean, products = self._merged()
        d = self.width
        label = 1 if learned else 0
        if weight == 0.0:
            return np.zeros(d + 1), 0.0
        # Moments of (1, u): uncentred only in the intercept's row, where the ridge makes it necessary.
        first = 0.0 if ridge is None else float(ridge[0])
        penalty = np.zeros(d) if ridge is None else ridge[1:]
        # Profile the intercept: with ridge r₀ it equals weight·(ȳ − w·ū)/(weight + r₀); what remains is a rank-one term.
        share = weight * first / (weight + first)
        centre = mean[2:]
        G = products[2:, 2:] + share * np.outer(centre, centre)
        b = products[2:, label] + share * centre * mean[label]
        square = products[label, label] + share * mean[label] ** 2
        w = solve(G + np.diag(penalty), b)
        value = square - 2.0 * (b @ w) + w @ (G @ w) + penalty @ (w * w)
        intercept = weight * (mean[label] - w @ centre) / (weight + first)
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
        return made | {"hindsight_counts": counted}

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray]) -> Hindsight:
        origin, weight, count = arrays["hindsight_counts"]
        made = cls(arrays["hindsight_shift"], origin)
        used = made.width + 2
        made.mean = arrays["hindsight_mean"][:used].copy()
        made.products = arrays["hindsight_products"][:used, :used].copy()
        made.waiting = arrays["hindsight_waiting"][:, : used + 1].copy()
        made.weight, made.count = float(weight), int(count)
        return made
