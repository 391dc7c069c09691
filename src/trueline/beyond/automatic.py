"""Columns of numbers whose density is chosen by their values: what is kept so that the choice may change with more rows.

A stream shows 0 and 1 first and 0.5 later. Kept for every group are the weight, mean and scatter of each column and
Σ log x!, from which the statistics of each family that "auto" can choose follow; so learning row by row chooses, and
ends with, the same as learning all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..modelfile import Array
from .gaussians import Gaussian


def kind_by(weight: float, mean: float, scatter: float, whole: bool, binary: bool) -> str:
    """0 and 1 are a Bernoulli, counts whose variance is within a factor of two of their mean a Poisson, others Gaussian.

    >>> kind_by(4.0, 0.5, 1.0, True, True), kind_by(4.0, 2.0, 8.0, True, False), kind_by(4.0, 2.5, 8.0, False, False)
    ('bernoulli', 'poisson', 'gaussian')
    """
    if not weight > 0.0 or not whole:
        return "gaussian"
    if binary:
        return "bernoulli"
    return "poisson" if mean / 2 <= scatter / weight <= 2 * mean else "gaussian"


class Automatic:
    """The statistics of the columns that have no density by name, for many groups."""

    def __init__(self, columns: tuple[int, ...], labels: tuple[str, ...], groups: int) -> None:
        self.columns, self.labels = columns, labels
        self.moments: Any = Gaussian(columns, labels, groups, 0.0)
        self.logs = np.zeros((groups, len(columns)))  # Σ w·log x! of counts
        self.whole = np.ones(len(columns), dtype=bool)  # only 0, 1, 2, … so far
        self.binary = np.ones(len(columns), dtype=bool)  # only 0 and 1 so far

    def _with(self, moments: Any, logs: np.ndarray, whole: np.ndarray, binary: np.ndarray) -> Automatic:
        made = Automatic(self.columns, self.labels, 0)
        made.moments, made.logs, made.whole, made.binary = moments, logs, whole, binary
        return made

    def learned(self, table: Sequence[np.ndarray], weights: np.ndarray, group: np.ndarray) -> Automatic:
        """The same with these rows added; this one does not change."""
        from scipy.special import gammaln

        values = np.column_stack([table[j] for j in self.columns])
        moments = self.moments.take(np.arange(self.moments.groups))
        moments.learn(values, weights, group)
        odd = np.isnan(values) | (weights <= 0.0)[:, None]
        count = (values >= 0) & (values % 1 == 0)
        logs = np.where(odd | ~count, 0.0, gammaln(np.where(count, values, 0.0) + 1.0)) * weights[:, None]
        total = self.logs.copy()
        np.add.at(total, group, logs)
        return self._with(
            moments,
            total,
            self.whole & (odd | count).all(axis=0),
            self.binary & (odd | (values == 0) | (values == 1)).all(axis=0),
        )

    def kinds(self) -> dict[int, str]:
        """The density of each of the columns by the rows of all groups."""
        if not self.moments.groups:
            return dict.fromkeys(self.columns, "gaussian")
        stats = self.moments.pooled().stats
        weight, mean, scatter = (stats[name][0].tolist() for name in ("weight", "mean", "scatter"))
        return {
            j: kind_by(weight[k], mean[k], scatter[k], bool(self.whole[k]), bool(self.binary[k]))
            for k, j in enumerate(self.columns)
        }

    def stats(self, column: int, kind: str) -> dict[str, np.ndarray]:
        """What a family of one column would have counted."""
        k = self.columns.index(column)
        own = {name: np.array(value[:, k]) for name, value in self.moments.stats.items()}
        if kind == "gaussian":
            return {name: value[:, None] for name, value in own.items()}
        counted = {"weight": own["weight"], "total": own["weight"] * own["mean"]}
        return counted | ({"constant": self.logs[:, k].copy()} if kind == "poisson" else {})

    def take(self, index: np.ndarray) -> Automatic:
        index = np.asarray(index, dtype=np.int64)
        rows = self.logs[index] if len(self.logs) else np.zeros((len(index), len(self.columns)))
        logs = np.where((index < 0)[:, None], 0.0, rows)
        return self._with(self.moments.take(index), logs, self.whole, self.binary)

    def scaled(self, factor: np.ndarray) -> Automatic:
        return self._with(self.moments.scaled(factor), self.logs * factor[:, None], self.whole, self.binary)

    def pooled(self) -> Automatic:
        return self._with(self.moments.pooled(), self.logs.sum(axis=0, keepdims=True), self.whole, self.binary)

    def __add__(self, other: Automatic) -> Automatic:
        return self._with(
            self.moments + other.moments, self.logs + other.logs, self.whole & other.whole, self.binary & other.binary
        )

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {f"auto.{name}": value for name, value in self.moments.stats.items()} | {"auto.logs": self.logs}
        meta = {"columns": list(self.columns), "labels": list(self.labels)}
        return arrays, meta | {"whole": self.whole.tolist(), "binary": self.binary.tolist()}

    @staticmethod
    def declared(meta: dict[str, Any], groups: int) -> dict[str, Array]:
        """What a file holds of these groups."""
        shape = (groups, len(meta["columns"]))
        return {f"auto.{name}": Array(shape) for name in ("weight", "mean", "scatter", "logs")}

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Automatic:
        made = cls(tuple(meta["columns"]), tuple(meta["labels"]), 0)
        made.moments.stats = {name: np.array(arrays[f"auto.{name}"]) for name in ("weight", "mean", "scatter")}
        made.logs = np.array(arrays["auto.logs"])
        made.whole, made.binary = np.array(meta["whole"], dtype=bool), np.array(meta["binary"], dtype=bool)
        return made
