"""Densities of one column, for many groups at once, from sums that merge.

A ``Family`` keeps the sufficient statistics of a column for each of G groups (classes, customers) as arrays whose first
axis is the group. Everything that a probability model of streams needs is then arithmetic on those arrays: ``learn``
adds rows, ``+`` merges two streams, ``take`` picks groups (−1 is a group nobody has seen), ``scaled`` makes a
population worth m rows, so that a customer backed off to the population is ``customer + population.scaled(m / n)``.

    Bernoulli    p = (s + α)/(n + 2α)
    categorical  p_l = (n_l + α)/(n + α·levels)
    Poisson      rate = (s + α·r)/(n + α), r the rate of all groups together
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ..errors import DataError, UsageError
from ..modelfile import Array

TINY = 1e-12


def absent(values: np.ndarray) -> np.ndarray:
    """Which entries are missing: NaN in numbers, None (or NaN) among strings."""
    if values.dtype != object:
        return np.isnan(values)
    return np.array([v is None or v != v for v in values], dtype=bool)


class Family:
    """What the families share. ``additive`` names the statistics that sum when groups or streams merge."""

    name: ClassVar[str] = ""
    additive: ClassVar[tuple[str, ...]] = ("weight", "total")
    closed: ClassVar[bool] = True  # the maximum of the likelihood is a formula
    converged: bool = True  # of EM, where it is not: the climb ended before its last step

    def __init__(self, columns: tuple[int, ...], labels: tuple[str, ...], groups: int, alpha: float) -> None:
        self.columns, self.labels, self.alpha = columns, labels, alpha
        self.stats: dict[str, np.ndarray] = self.empty(groups)
        self._fitted: Any = None

    def empty(self, groups: int) -> dict[str, np.ndarray]:
        """Statistics of groups without rows."""
        return {name: np.zeros(groups) for name in self.additive}

    @property
    def groups(self) -> int:
        return len(self.stats["weight"])

    def like(self, stats: dict[str, np.ndarray]) -> Any:
        """The same family with other statistics."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.stats, made._fitted = stats, None
        return made

    def take(self, index: np.ndarray) -> Any:
        """The groups of ``index``, in its order; −1 gives an empty one."""
        index = np.asarray(index)
        if not self.groups:
            return self.like(self.empty(len(index)))
        return self.like(
            {k: np.where((index < 0).reshape(-1, *[1] * (v.ndim - 1)), 0, v[index]) for k, v in self.stats.items()}
        )

    def scaled(self, factor: Any) -> Any:
        """Each row counted ``factor`` times."""
        factor = np.asarray(factor, dtype=float)
        return self.like({
            k: v * factor.reshape(-1, *[1] * (v.ndim - 1)) if k in self.additive else v for k, v in self.stats.items()
        })  # fmt: skip

    def __add__(self, other: Any) -> Any:
        return self.like({k: self.stats[k] + other.stats[k] for k in self.stats})

    def pooled(self) -> Any:
        """All groups as one."""
        return self.like({k: v.sum(axis=0, keepdims=True) for k, v in self.stats.items()})

    def odd(self, values: np.ndarray) -> np.ndarray:
        """Which values the family cannot have."""
        return np.zeros(len(values), dtype=bool)

    def check(self, values: np.ndarray) -> None:
        """Refuse values that the family cannot have."""

    def refuse(self, values: np.ndarray, bad: np.ndarray, accepted: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                f"column {self.labels[0]!r} has {values[row]:g} in row {row}, which a {self.name} density cannot have; "
                f"{accepted} accepted, or another density for the column",
                where=self.labels[0],
            )

    def learn(self, values: np.ndarray, weights: np.ndarray, group: np.ndarray) -> None:
        """Add rows, which have been checked; ``group`` says whose each is."""
        seen = ~absent(values) & (weights > 0.0)  # a row of weight 0 must not even widen a range
        size, x, w, g = self.groups, values[seen], weights[seen], group[seen]
        self.stats["weight"] = self.stats["weight"] + np.bincount(g, w, size)
        self._learn(x, w, g, size)
        self._fitted = None

    def _learn(self, x: np.ndarray, w: np.ndarray, g: np.ndarray, size: int) -> None:
        self.stats["total"] = self.stats["total"] + np.bincount(g, w * x, size)

    def score(self, values: np.ndarray, g: Any, unknown: float = 0.0) -> np.ndarray:
        """Log-density of each value in group ``g`` (a number, or one for each row); 0 where it is missing."""
        self.check(values)
        gone = absent(values)
        return np.where(gone, 0.0, self._score(values, g, unknown, gone))

    def scores(self, values: np.ndarray, unknown: float = 0.0, relative: bool = False) -> np.ndarray:
        """Log-densities in every group, rows × groups; ``relative`` allows to leave out what all groups share."""
        return np.column_stack([self.score(values, c, unknown) for c in range(self.groups)])

    def _score(self, values: np.ndarray, g: Any, unknown: float, gone: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    @property
    def fitted(self) -> Any:
        """Parameters from the statistics, made once."""
        if self._fitted is None:
            self._fitted = self.estimate()
        return self._fitted

    def estimate(self) -> Any:
        raise NotImplementedError

    def sample(self, g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError

    def likelihoods(self) -> tuple[float, float]:
        """Log-likelihood of the rows learned, and its maximum over the family."""
        raise NotImplementedError

    def sufficient(self, values: np.ndarray) -> np.ndarray:
        """The statistics in which the log-odds of two groups are linear, one row each."""
        return values[:, None]

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return dict(self.stats), {
            "name": self.name, "columns": list(self.columns), "labels": list(self.labels), "alpha": self.alpha
        }  # fmt: skip

    @classmethod
    def declared(cls, meta: dict[str, Any], groups: int) -> dict[str, Array]:
        """What a file holds of these groups."""
        return {name: Array((groups,)) for name in cls.additive}

    def restore(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        self.stats = dict(arrays)


def _xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x·log y, 0 where x is 0."""
    from scipy.special import xlogy

    return xlogy(x, y)


class Bernoulli(Family):
    """0 or 1."""

    name = "bernoulli"

    def odd(self, values: np.ndarray) -> np.ndarray:
        return ~((values == 0) | (values == 1) | np.isnan(values))

    def check(self, values: np.ndarray) -> None:
        self.refuse(values, self.odd(values), "0 and 1 are")

    def estimate(self) -> np.ndarray:
        n, s = self.stats["weight"], self.stats["total"]
        with np.errstate(invalid="ignore"):
            p = np.where(n + self.alpha > 0, (s + self.alpha) / (n + 2 * self.alpha), 0.5)
        return np.clip(p, TINY, 1 - TINY)

    def _score(self, values: np.ndarray, g: Any, unknown: float, gone: np.ndarray) -> np.ndarray:
        p = self.fitted[g]
        return np.where(values == 1, np.log(p), np.log1p(-p))

    def sample(self, g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (rng.random(len(g)) < self.fitted[g]).astype(float)

    def likelihoods(self) -> tuple[float, float]:
        n, s, p = self.stats["weight"], self.stats["total"], self.fitted
        best = s / np.where(n > 0, n, 1)
        rest = np.maximum(n - s, 0.0)
        return (
            float((_xlogy(s, p) + _xlogy(rest, 1 - p)).sum()),
            float((_xlogy(s, best) + _xlogy(rest, 1 - best)).sum()),
        )


class Poisson(Family):
    """Counts 0, 1, 2, …; ``constant`` keeps Σ log x! so that likelihoods need no second look at the rows."""

    name = "poisson"
    additive = ("weight", "total", "constant")

    def odd(self, values: np.ndarray) -> np.ndarray:
        return (values < 0) | ((values % 1) != 0) & ~np.isnan(values)

    def check(self, values: np.ndarray) -> None:
        self.refuse(values, self.odd(values), "whole numbers from 0 are")

    def _learn(self, x: np.ndarray, w: np.ndarray, g: np.ndarray, size: int) -> None:
        from scipy.special import gammaln

        super()._learn(x, w, g, size)
        self.stats["constant"] = self.stats["constant"] + np.bincount(g, w * gammaln(x + 1), size)

    def estimate(self) -> np.ndarray:
        n, s = self.stats["weight"], self.stats["total"]
        everyone = s.sum() / n.sum() if n.sum() > 0 else 1.0
        rate = np.where(n + self.alpha > 0, (s + self.alpha * everyone) / np.maximum(n + self.alpha, TINY), everyone)
        return np.maximum(rate, TINY)

    def _score(self, values: np.ndarray, g: Any, unknown: float, gone: np.ndarray) -> np.ndarray:
        from scipy.special import gammaln

        x, rate = np.where(gone, 0.0, values), self.fitted[g]
        return x * np.log(rate) - rate - gammaln(x + 1)

    def sample(self, g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.poisson(self.fitted[g]).astype(float)

    def likelihoods(self) -> tuple[float, float]:
        n, s, rate = self.stats["weight"], self.stats["total"], self.fitted
        best, constant = s / np.where(n > 0, n, 1), self.stats["constant"]
        return (
            float((_xlogy(s, rate) - n * rate - constant).sum()),
            float((_xlogy(s, best) - n * best - constant).sum()),
        )


class Categorical(Family):
    """Strings or numbers as levels, found while learning. A level that no group has seen speaks for none of them."""

    name = "categorical"
    additive = ("weight", "counts")

    def __init__(self, columns: tuple[int, ...], labels: tuple[str, ...], groups: int, alpha: float) -> None:
        self.levels: list[Any] = []
        super().__init__(columns, labels, groups, alpha)

    def empty(self, groups: int) -> dict[str, np.ndarray]:
        return {"weight": np.zeros(groups), "counts": np.zeros((groups, len(self.levels)))}

    def codes(self, values: np.ndarray) -> np.ndarray:
        """The level's number; −1 where it is not known."""
        place = {level: k for k, level in enumerate(self.levels)}
        found, inverse = np.unique(values, return_inverse=True)
        return np.array([place.get(v, -1) for v in found.tolist()], dtype=np.int64)[inverse.reshape(-1)]

    def _learn(self, x: np.ndarray, w: np.ndarray, g: np.ndarray, size: int) -> None:
        known = set(self.levels)
        new = [v for v in (np.unique(x).tolist() if len(x) else []) if v not in known]
        self.levels = [*self.levels, *new]
        counts = np.pad(self.stats["counts"], ((0, 0), (0, len(new))))
        flat = np.bincount(g * len(self.levels) + self.codes(x), w, counts.size) if len(x) else 0.0
        self.stats["counts"] = counts + np.reshape(flat, counts.shape) if len(x) else counts

    def __add__(self, other: Any) -> Any:
        levels = [*self.levels, *(v for v in other.levels if v not in set(self.levels))]
        place = {level: k for k, level in enumerate(levels)}
        counts = np.zeros((self.groups, len(levels)))
        counts[:, : len(self.levels)] = self.stats["counts"]
        counts[:, [place[v] for v in other.levels]] += other.stats["counts"]
        made = self.like({"weight": self.stats["weight"] + other.stats["weight"], "counts": counts})
        made.levels = levels
        return made

    def estimate(self) -> np.ndarray:
        counts = self.stats["counts"] + self.alpha
        total = counts.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(total > 0, counts / total, 1.0 / max(len(self.levels), 1))

    def _score(self, values: np.ndarray, g: Any, unknown: float, gone: np.ndarray) -> np.ndarray:
        codes = np.full(len(values), -1)
        codes[~gone] = self.codes(values[~gone])
        if not self.levels:
            return np.full(len(values), unknown)
        with np.errstate(divide="ignore"):
            return np.where(codes >= 0, np.log(self.fitted[g, codes]), unknown)

    def sample(self, g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        ends = np.cumsum(self.fitted, axis=1)[g]
        drawn = np.minimum((rng.random(len(g))[:, None] >= ends).sum(axis=1), len(self.levels) - 1)
        return np.array(self.levels, dtype=object if any(isinstance(v, str) for v in self.levels) else float)[drawn]

    def likelihoods(self) -> tuple[float, float]:
        counts = self.stats["counts"]
        best = counts / np.maximum(self.stats["weight"], TINY)[:, None]
        return float(_xlogy(counts, self.fitted).sum()), float(_xlogy(counts, best).sum())

    def sufficient(self, values: np.ndarray) -> np.ndarray:
        gone = absent(values)
        codes = np.full(len(values), -1)
        codes[~gone] = self.codes(values[~gone])
        return (codes[:, None] == np.arange(len(self.levels))).astype(float)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, meta = super().to_state()
        return arrays, meta | {"levels": self.levels}

    @classmethod
    def declared(cls, meta: dict[str, Any], groups: int) -> dict[str, Array]:
        return {"weight": Array((groups,)), "counts": Array((groups, len(meta["levels"])))}

    def restore(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        super().restore(arrays, meta)
        self.levels = list(meta["levels"])


def refuse_different(mine: Any, others: Any) -> None:
    """Two streams merge only if each column has one kind of density in both."""
    if mine != others:
        raise UsageError(
            f"these models have different densities ({mine} and {others}); merge models made with the same density=",
            where="density",
        )
