"""Gaussian columns of many groups without covariances between them.

Each column keeps its own n, mean and sum of squares about it, merged by Chan's formula, so that a missing entry is left
out, which is the maximum of the likelihood.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..certificates.likelihood import FLAT
from ..modelfile import Array
from ..threads import get_threads, one_blas_thread, spread
from .families import Family

BLOCK = 4096
SCORED = 1024  # rows scored at a time: they and what is made of them stay in the cache
FEW = 32
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


def indicators(group: np.ndarray, weights: np.ndarray, present: int) -> np.ndarray:
    """Groups × rows, each row's weight in its own group: sums over groups are then products of matrices."""
    made = np.zeros((present, len(group)))
    made[group, np.arange(len(group))] = weights
    return made


def by_blocks(values: np.ndarray, groups: int, fill: Any) -> np.ndarray:
    """Rows × groups (column-major), filled by ``fill(rows, room, out)`` a block at a time, on all threads."""
    found = np.empty((len(values), groups), order="F")

    def some(part: range) -> None:
        room = np.empty((SCORED, values.shape[1]))
        for start in part:
            x = values[start : start + SCORED]
            fill(x, room[: len(x)], found[start : start + SCORED])

    starts = range(0, len(values), SCORED)
    if len(starts) < 8:
        some(starts)
    else:
        step = -(-len(starts) // (4 * get_threads()))
        with one_blas_thread():
            spread(some, [starts[k : k + step] for k in range(0, len(starts), step)])
    return found


def divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


class Gaussian(Family):
    """Gaussian columns without covariances between them, all columns in one array."""

    name = "gaussian"
    additive = ("weight", "scatter")

    def __init__(
        self, columns: tuple[int, ...], labels: tuple[str, ...], groups: int, alpha: float,
        smoothing: float = 1e-9, correction: float = 0.0,
    ) -> None:  # fmt: skip
        self.smoothing, self.correction = smoothing, correction
        super().__init__(columns, labels, groups, alpha)

    def empty(self, groups: int) -> dict[str, np.ndarray]:
        return {name: np.zeros((groups, len(self.columns))) for name in ("weight", "mean", "scatter")}

    def learn(self, values: np.ndarray, weights: np.ndarray, group: np.ndarray) -> None:
        whole = not np.isnan(values.sum())
        for rows in self._runs(group):
            x, w, g = values[rows], weights[rows], group[rows]
            present = np.arange(self.groups)
            if self.groups > FEW:
                present, g = np.unique(g, return_inverse=True)
            share = indicators(g, w, len(present))
            if whole:
                n = np.broadcast_to(share.sum(axis=1)[:, None], (len(present), x.shape[1]))
            else:
                gone = np.isnan(x)
                x = np.where(gone, 0.0, x)
                n = share @ ~gone
            mean = divided(share @ x, n)
            apart = x - mean[g]
            if not whole:
                apart[gone] = 0.0
            apart *= apart
            part = self.like({"weight": n, "mean": mean, "scatter": share @ apart})
            mine = self.like({k: v[present] for k, v in self.stats.items()})
            for k, v in (mine + part).stats.items():
                self.stats[k][present] = v
        self._fitted = None

    def _runs(self, group: np.ndarray) -> Any:
        """Rows of blocks that fit the cache; where groups are many, rows of one group together and few groups in each."""
        if self.groups <= FEW:
            yield from (slice(start, start + BLOCK) for start in range(0, len(group), BLOCK))
            return
        order = np.argsort(group, kind="stable")
        ends = np.flatnonzero(np.diff(group[order])) + 1
        start = 0
        for cut in [*ends[FEW - 1 :: FEW].tolist(), len(group)]:
            yield from (order[k : min(k + BLOCK, cut)] for k in range(start, cut, BLOCK))
            start = cut

    def __add__(self, other: Any) -> Any:
        a, b = self.stats, other.stats
        n = a["weight"] + b["weight"]
        step = b["mean"] - a["mean"]
        share = divided(b["weight"], n)
        return self.like({
            "weight": n,
            "mean": np.where(share >= 1.0, b["mean"], a["mean"] + share * step),
            "scatter": a["scatter"] + b["scatter"] + a["weight"] * share * step * step,
        })  # fmt: skip

    def pooled(self) -> Any:
        made = self.take(np.array([0]))
        for k in range(1, self.groups):
            made = made + self.take(np.array([k]))
        return made

    def take(self, index: np.ndarray) -> Any:
        made = super().take(index)
        made.stats = {k: np.array(v) for k, v in made.stats.items()}  # learn writes in place
        return made

    def everyone(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of all groups together."""
        n, mean = self.stats["weight"], self.stats["mean"]
        total = n.sum(axis=0)
        middle = divided((n * mean).sum(axis=0), total)
        return middle, divided((self.stats["scatter"] + n * (mean - middle) ** 2).sum(axis=0), total)

    def floor(self, variance: np.ndarray) -> float:
        largest = float(variance.max(initial=0.0))
        return self.smoothing * largest if largest > 0 and self.smoothing > 0 else (self.smoothing or 1e-300)

    def estimate(self) -> tuple[np.ndarray, np.ndarray]:
        n = self.stats["weight"]
        middle, spread = self.everyone()
        variance = divided(self.stats["scatter"], np.maximum(n - self.correction, np.where(n > 0, 1e-9, 0)))
        mean = np.where(n > 0, self.stats["mean"], middle)
        return mean, np.where(n > 0, variance, spread) + self.floor(spread)

    def scores(self, values: np.ndarray, unknown: float = 0.0, relative: bool = False) -> np.ndarray:
        mean, variance = self.fitted
        inverse, constant = 1.0 / variance, -0.5 * np.log(2 * np.pi * variance).sum(axis=1)

        def fill(x: np.ndarray, room: np.ndarray, out: np.ndarray) -> None:
            for c in range(self.groups):
                np.subtract(x, mean[c], out=room)
                np.multiply(room, room, out=room)
                out[:, c] = constant[c] - 0.5 * (room @ inverse[c])

        return self.mended(by_blocks(values, self.groups, fill), values)

    def mended(self, found: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Rows that came out as NaN have missing values: they are scored by the columns that they have."""
        lost = np.flatnonzero(np.isnan(found.sum(axis=1)))
        if len(lost):
            found[lost] = np.column_stack([self.score(values[lost], c) for c in range(self.groups)])
        return found

    def score(self, values: np.ndarray, g: Any, unknown: float = 0.0) -> np.ndarray:
        mean, variance = self.fitted[0][g], self.fitted[1][g]
        if np.isnan(values.sum()):
            terms = -0.5 * (np.log(variance) + (values - mean) ** 2 / variance) - HALF_LOG_2PI
            return np.nansum(terms, axis=1)
        apart = values - mean
        apart *= apart
        if np.ndim(g) == 0:
            return -0.5 * (apart @ (1 / variance) + np.log(variance).sum()) - HALF_LOG_2PI * values.shape[1]
        apart /= variance
        return -0.5 * (apart.sum(axis=1) + np.log(variance).sum(axis=1)) - HALF_LOG_2PI * values.shape[1]

    def sample(self, g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mean, variance = self.fitted
        return mean[g] + np.sqrt(variance[g]) * rng.standard_normal((len(g), len(self.columns)))

    def likelihoods(self) -> tuple[float, float]:
        n, scatter, variance = self.stats["weight"], self.stats["scatter"], self.fitted[1]
        best = divided(scatter, n)
        best = np.where(best <= FLAT**2 * (self.stats["mean"] ** 2 + best), 0.0, best)
        with np.errstate(divide="ignore", invalid="ignore"):
            here = np.where(n > 0, -0.5 * (n * np.log(2 * np.pi * variance) + scatter / variance), 0.0)
            top = np.where(n > 0, -0.5 * n * (np.log(2 * np.pi * best) + 1), 0.0)
        return float(here.sum()), float(top.sum())

    def sufficient(self, values: np.ndarray) -> np.ndarray:
        return np.hstack([values, values**2])

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, meta = super().to_state()
        return arrays, meta | {"smoothing": self.smoothing, "correction": self.correction}

    @classmethod
    def declared(cls, meta: dict[str, Any], groups: int) -> dict[str, Array]:
        return {name: Array((groups, len(meta["columns"]))) for name in ("weight", "mean", "scatter")}

    def restore(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        super().restore(arrays, meta)
        self.smoothing, self.correction = meta["smoothing"], meta["correction"]
