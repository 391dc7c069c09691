"""The best fixed weights in hindsight for squared loss, from running moments: no row is kept.

Rows come as differences from the columns' shift and the first label; each group of 64 is centred and merged into the
total by C = C₁ + C₂ + (n₁n₂/n)·δδᵀ. Groups are counted from the first row on, so a row at a time and a block at a
time do the same arithmetic. Any weights' loss follows from the moments, so the loss reported is that of the weights
reported, whatever their solver did.
"""

from __future__ import annotations

import numpy as np

GROUP = 64
LARGEST = 2000  # columns up to which the moments are kept


class Hindsight:
    """Weighted moments of [u, y, ỹ]: columns, label, and the label as the learner used it."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.weight = 0.0
        self.mean = np.zeros(width + 2)
        self.products = np.zeros((width + 2, width + 2))
        self.waiting = np.zeros((GROUP, width + 3))
        self.count = 0

    def widen(self, width: int) -> None:
        """Room for columns that appear late; they were 0 until now."""
        old, add = self.width, width - self.width
        if add <= 0:
            return
        where = np.full(add, old)
        self.mean = np.insert(self.mean, where, 0.0)
        self.products = np.insert(np.insert(self.products, where, 0.0, axis=0), where, 0.0, axis=1)
        self.waiting = np.insert(self.waiting, where, 0.0, axis=1)
        self.width = width

    def add(self, rows: np.ndarray, y: np.ndarray, learned: np.ndarray, weights: np.ndarray) -> None:
        """Add rows (n, width), labels, labels learned from, weights."""
        at = 0
        while at < len(y):
            take = min(GROUP - self.count, len(y) - at)
            spot = self.waiting[self.count : self.count + take]
            spot[:, : self.width] = rows[at : at + take]
            spot[:, self.width] = y[at : at + take]
            spot[:, self.width + 1] = learned[at : at + take]
            spot[:, self.width + 2] = weights[at : at + take]
            self.count += take
            at += take
            if self.count == GROUP:
                self.weight, self.mean, self.products = self._merged()
                self.count = 0

    def _merged(self) -> tuple[float, np.ndarray, np.ndarray]:
        if self.count == 0:
            return self.weight, self.mean, self.products
        rows = self.waiting[: self.count, :-1]
        weights = self.waiting[: self.count, -1]
        own = float(weights.sum())
        mean = weights @ rows / own
        centred = rows - mean
        scaled = centred * weights[:, None]
        total = self.weight + own
        gap = mean - self.mean
        products = self.products + centred.T @ scaled + np.outer(gap, gap * (self.weight * own / total))
        return total, self.mean + gap * (own / total), products

    def best(self, ridge: np.ndarray | None = None, learned: bool = False) -> tuple[np.ndarray, float]:
        """((intercept, weights), loss + ridge) of the minimiser of Σc(y − w₀ − w·u)² + Σ ridge_j·w_j².

        ``ridge`` has the intercept first; ``learned`` takes the labels as the learner used them.
        """
        weight, mean, products = self._merged()
        d = self.width
        label = d + 1 if learned else d
        if weight == 0.0:
            return np.zeros(d + 1), 0.0
        # Moments of (1, u): uncentred only in the intercept's row, where the ridge makes it necessary.
        first = 0.0 if ridge is None else float(ridge[0])
        penalty = np.zeros(d) if ridge is None else ridge[1:]
        # Profile the intercept: with ridge r₀ it equals weight·(ȳ − w·ū)/(weight + r₀); what remains is a rank-one term.
        share = weight * first / (weight + first)
        G = products[:d, :d] + share * np.outer(mean[:d], mean[:d])
        b = products[:d, label] + share * mean[:d] * mean[label]
        square = products[label, label] + share * mean[label] ** 2
        w = _solve(G + np.diag(penalty), b)
        value = square - 2.0 * (b @ w) + w @ (G @ w) + penalty @ (w * w)
        intercept = weight * (mean[label] - w @ mean[:d]) / (weight + first)
        return np.concatenate([[intercept], w]), max(float(value), 0.0)

    def to_state(self) -> dict[str, np.ndarray]:
        return {
            "hindsight_mean": self.mean,
            "hindsight_products": self.products,
            "hindsight_waiting": self.waiting,
            "hindsight_counts": np.array([self.weight, self.count], dtype=float),
        }

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray]) -> Hindsight:
        made = cls(len(arrays["hindsight_mean"]) - 2)
        made.mean = arrays["hindsight_mean"].copy()
        made.products = arrays["hindsight_products"].copy()
        made.waiting = arrays["hindsight_waiting"].copy()
        made.weight = float(arrays["hindsight_counts"][0])
        made.count = int(arrays["hindsight_counts"][1])
        return made


def _solve(G: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A solution of Gw = b for a positive semidefinite G: scaled to unit diagonal, weak directions left out."""
    if not len(b):
        return b
    scale = np.sqrt(np.maximum(np.diag(G), 0.0))
    scale[scale == 0.0] = 1.0
    unit = G / scale / scale[:, None]
    try:
        if len(b) > 300 or np.linalg.cond(unit) < 1e10:
            return np.linalg.solve(unit + 1e-14 * np.eye(len(b)), b / scale) / scale
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(unit)
    kept = values > 1e-13 * values[-1]
    return (vectors[:, kept] @ ((vectors[:, kept].T @ (b / scale)) / values[kept])) / scale
