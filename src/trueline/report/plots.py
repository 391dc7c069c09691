"""The report's pictures as matplotlib ``Display`` objects: ``from_estimator`` computes, ``.plot(ax)`` draws.

Each holds the plain arrays that it draws, so that one may be made from arrays of one's own as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from .regret import compared

BLUE, ORANGE, GREEN, GREY = "#1f5fae", "#c4561c", "#23825a", "#a9adb4"


@dataclasses.dataclass
class CoefficientDisplay:
    """Coefficients with their intervals, largest on top.

    >>> display = CoefficientDisplay(["a", "b"], np.array([1.0, -2.0]), np.array([0.5, -2.5]), np.array([1.5, -1.5]))
    >>> display.plot().ax_.get_xlabel()
    'coefficient'
    """

    terms: Sequence[str]
    estimate: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, level: float = 0.95, ax: Any = None) -> CoefficientDisplay:
        """From a fitted estimator; intervals where its summary has them."""
        estimate = np.ravel(_fitted(estimator, "coef_"))
        terms = list(getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(len(estimate))]))
        low = high = None
        if callable(getattr(estimator, "summary", None)):
            rows = {row["term"]: row for row in _summary_rows(estimator, level)}
            if all(term in rows and rows[term].get("low") is not None for term in terms):
                low, high = (np.array([rows[t][side] for t in terms]) for side in ("low", "high"))
        return cls(terms, estimate, low, high).plot(ax=ax)

    def plot(self, ax: Any = None) -> CoefficientDisplay:
        self.ax_ = ax = axes(ax, (6.4, 0.8 + 0.28 * min(40, len(self.estimate))))
        order = np.argsort(-np.abs(self.estimate), kind="stable")[:40]
        places = np.arange(len(order))[::-1]
        if self.low is not None and self.high is not None:
            clear = (self.low[order] > 0) | (self.high[order] < 0)
            ax.hlines(places, self.low[order], self.high[order], colors=np.where(clear, BLUE, GREY))
        else:
            clear = np.ones(len(order), dtype=bool)
        ax.scatter(self.estimate[order], places, c=np.where(clear, BLUE, GREY), zorder=3)
        ax.axvline(0.0, color="0.5", lw=0.8)
        ax.set_yticks(places, [str(self.terms[j]) for j in order])
        ax.set_xlabel("coefficient")
        return self


@dataclasses.dataclass
class FitDisplay:
    """Fitted against observed, residuals against fitted, or normal quantiles of the residuals, by ``kind``.

    >>> FitDisplay(np.arange(5.0), np.arange(5.0) + 0.1, "residuals").plot().ax_.get_ylabel()
    'residual'
    """

    fitted: np.ndarray
    observed: np.ndarray
    kind: str = "observed"

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, kind: str = "observed", ax: Any = None) -> FitDisplay:
        """From a fitted estimator and the rows to look at."""
        return cls(np.asarray(estimator.predict(X), float), np.asarray(y, float), kind).plot(ax=ax)

    def plot(self, ax: Any = None) -> FitDisplay:
        kinds = {"observed": self._observed, "residuals": self._residuals, "quantiles": self._quantiles}
        if self.kind not in kinds:
            raise UsageError(f"kind is one of {', '.join(kinds)}, not {self.kind!r}", where="kind")
        self.ax_ = ax = axes(ax, (5.0, 4.4))
        kinds[self.kind](ax)
        return self

    def _observed(self, ax: Any) -> None:
        _cloud(ax, self.fitted, self.observed)
        ends = [min(self.fitted.min(), self.observed.min()), max(self.fitted.max(), self.observed.max())]
        ax.plot(ends, ends, "--", color="0.5", lw=0.9)
        ax.set(xlabel="fitted", ylabel="observed")

    def _residuals(self, ax: Any) -> None:
        _cloud(ax, self.fitted, self.observed - self.fitted)
        ax.axhline(0.0, ls="--", color="0.5", lw=0.9)
        ax.set(xlabel="fitted", ylabel="residual")

    def _quantiles(self, ax: Any) -> None:
        from statistics import NormalDist

        residual = np.sort(self.observed - self.fitted)
        residual = (residual - residual.mean()) / (residual.std() or 1.0)
        at = (np.arange(len(residual)) + 0.5) / len(residual)
        normal = np.array([NormalDist().inv_cdf(p) for p in at])
        ax.plot(normal, normal, "--", color="0.5", lw=0.9)
        ax.scatter(normal, residual, s=9, color=BLUE)
        ax.set(xlabel="normal quantile", ylabel="residual quantile, standardised")


@dataclasses.dataclass
class PathDisplay:
    """Coefficients along the penalty, the chosen one marked; ``coefs`` has one row a penalty.

    >>> PathDisplay(np.array([1.0, 0.1]), np.array([[0.0], [1.0]]), ["x"], 0.1).plot().ax_.get_xscale()
    'log'
    """

    alphas: np.ndarray
    coefs: np.ndarray
    terms: Sequence[str]
    best: float | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> PathDisplay:
        """The lasso path of these rows, with the alpha of a fitted LassoCV or Lasso marked."""
        from importlib import import_module

        found = import_module("trueline").lasso_path(X, y)
        alphas, coefs = np.asarray(found[0]), np.asarray(found[1])
        coefs = coefs if coefs.shape[0] == len(alphas) else coefs.T
        terms = list(getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(coefs.shape[1])]))
        return cls(alphas, coefs, terms, getattr(estimator, "alpha_", getattr(estimator, "alpha", None))).plot(ax=ax)

    def plot(self, ax: Any = None) -> PathDisplay:
        self.ax_ = ax = axes(ax)
        for j in np.argsort(-np.abs(self.coefs).max(axis=0), kind="stable"):
            ax.plot(self.alphas, self.coefs[:, j], lw=1.6, label=str(self.terms[j]))
        if self.best:
            ax.axvline(self.best, ls="--", color="0.5", lw=0.9)
        ax.set_xscale("log")
        ax.invert_xaxis()
        ax.set(xlabel="alpha", ylabel="coefficient")
        if self.coefs.shape[1] <= 12:
            ax.legend(frameon=False, fontsize="small")
        return self


@dataclasses.dataclass
class LearningDisplay:
    """Average loss while learning, the average of what it is compared with, and the bound.

    >>> rows = [{"counter": 1, "weight": 1, "average_loss": 1.0, "best_fixed_loss": 0.5, "bound": 2.0}] * 2
    >>> LearningDisplay(rows).plot().ax_.get_ylabel()
    'average loss'
    """

    rows: Sequence[dict[str, Any]]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> LearningDisplay:
        """Learn these rows with a fresh copy of an online estimator, its certificate read at doubling counts."""
        from sklearn.base import clone

        learner, rows, start, X, y = clone(estimator), [], 0, np.asarray(X), np.asarray(y)
        extra = {"classes": np.unique(y)} if hasattr(learner, "classes") or hasattr(learner, "predict_proba") else {}
        for stop in [*(2**k for k in range(1, 63) if 2**k < len(y)), len(y)]:
            learner.partial_fit(X[start:stop], y[start:stop], **extra)
            start, proof = stop, learner.certificate_
            rows.append(
                {
                    "counter": stop, "weight": stop, "average_loss": proof.loss / stop,
                    "best_fixed_loss": proof.best_fixed_loss, "best_member_loss": proof.best_member_loss,
                    "bound": proof.bound,
                }
            )  # fmt: skip
        return cls(rows).plot(ax=ax)

    def plot(self, ax: Any = None) -> LearningDisplay:
        self.ax_ = ax = axes(ax)
        n = np.array([row["counter"] for row in self.rows], float)
        weight = np.array([row["weight"] for row in self.rows], float)
        average = np.array([row["average_loss"] for row in self.rows], float)
        key, name = compared(self.rows)
        best, bound = (
            np.array([np.nan if row.get(k) is None else row[k] for row in self.rows], float) / weight
            for k in (key, "bound")
        )
        ax.plot(n, average, color=BLUE, label="loss suffered")
        if np.isfinite(best).any():
            ax.plot(n, best, color=GREEN, label=name)
        ax.plot(n, np.where(bound > 30 * average.max(), np.nan, bound), "--", color=ORANGE, label="the theorem's bound")
        ax.fill_between(n, best, average, color=BLUE, alpha=0.12, lw=0)
        ax.set(xlabel="examples", ylabel="average loss", xscale="log")
        ax.legend(frameon=False, fontsize="small")
        return self


def _summary_rows(estimator: Any, level: float) -> list[dict[str, Any]]:
    found = estimator.summary(level=level)
    ends = zip(found.names, found.lower.tolist(), found.upper.tolist())
    return [{"term": name, "low": low, "high": high} for name, low, high in ends]


def _fitted(estimator: Any, name: str) -> Any:
    if not hasattr(estimator, name):
        raise UsageError(f"{type(estimator).__name__} is not fitted or has no {name}; fit it first", where=name)
    return getattr(estimator, name)


def _cloud(ax: Any, x: np.ndarray, y: np.ndarray) -> None:
    """Points while there are few, hexagons once there are many."""
    if len(x) <= 2000:
        ax.scatter(x, y, s=12, alpha=0.55, color=BLUE, lw=0)
    else:
        ax.hexbin(x, y, gridsize=45, cmap="Blues", mincnt=1, bins="log", lw=0)


def axes(ax: Any = None, size: tuple[float, float] = (6.4, 4.0)) -> Any:
    """The axes given, or new ones that notebooks and ``plt.show()`` show."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    made = plt.subplots(figsize=size, layout="constrained")[1]
    made.spines[["top", "right"]].set_visible(False)
    return made
