"""The two families side by side: additive (L2/L2) against multiplicative (L∞/L1), on the data that suit each.

With X₂ = max‖x‖₂, X∞ = max‖x‖∞ and a target u of margin γ, the theorems say beforehand:

    gradient descent        L ≤ (√L_u + X₂‖u‖₂)²                   perceptron   N ≤ (X₂‖u‖₂/γ)²
    exponentiated gradient  L ≤ (√L_u + X∞‖u‖₁·√(2 ln 2d))²        Winnow       N ≤ 2 ln(2d)·(X∞‖u‖₁/γ)²

each at its best constant rate (κ = D/(√L_u + D), D the second term). A sparse target with dense inputs has a small
X∞‖u‖₁ and a large X₂‖u‖₂; a dense target with sparse inputs the other way round. LinearSVC and AdaBoost are the batch
twins: one maximises the margin under ‖u‖₂, the other under ‖u‖₁; the same two numbers govern them.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..errors import UsageError, named_options
from .boosting import AdaBoost
from .classics import Perceptron, Winnow
from .margin import LinearSVC
from .online import OnlineRegressor

WORLDS = ("sparse target, dense inputs", "dense target, sparse inputs")
FAMILIES = ("additive", "multiplicative")


@dataclasses.dataclass(frozen=True)
class Contest:
    """One pair on one kind of data: (additive, multiplicative) figures and what the bounds said beforehand.

    For "test error" the bounds are the sizes (X‖u‖/γ)² that govern margin bounds, not errors themselves.
    """

    world: str
    figure: str
    learners: tuple[str, str]
    bounds: tuple[float, float]
    measured: tuple[float, float]

    @property
    def foretold(self) -> str:
        """The family with the smaller bound."""
        return FAMILIES[int(self.bounds[1] < self.bounds[0])]

    @property
    def winner(self) -> str:
        """The family that did better."""
        if self.measured[0] == self.measured[1]:
            return "neither"
        return FAMILIES[int(self.measured[1] < self.measured[0])]


@dataclasses.dataclass(frozen=True)
class GeometryComparison:
    """What ``compare_geometries`` found: contests, and the cumulative losses of the two online regressions."""

    dimensions: int
    examples: int
    relevant: int
    noise: float
    contests: tuple[Contest, ...]
    curves: dict[str, tuple[np.ndarray, np.ndarray]]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings (without the curves)."""
        settings = {f: getattr(self, f) for f in ("dimensions", "examples", "relevant", "noise")}
        found = [dataclasses.asdict(c) | {"foretold": c.foretold, "winner": c.winner} for c in self.contests]
        return settings | {"contests": found}

    def __str__(self) -> str:
        lines = []
        for world in WORLDS:
            lines.append(world)
            for c in self.contests:
                if c.world == world:
                    for k in (0, 1):
                        mark = "*" if FAMILIES[k] == c.winner else " "
                        told = "bound" if c.figure != "test error" else "margin bound's size"
                        line = f"  {c.learners[k]:24s}{c.figure:14s}{c.measured[k]:10,.4g} {mark} {told} {c.bounds[k]:,.0f}"
                        lines.append(line)
        return "\n".join(lines)

    def plot(self, axes: Any = None) -> Any:
        """Cumulative squared loss of gradient descent and exponentiated gradient, with their bounds; two axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(9.0, 3.8), layout="constrained").subplots(1, 2)
        for ax, world in zip(axes, WORLDS):
            contest = next(c for c in self.contests if c.world == world)
            for k, colour in enumerate(("tab:blue", "tab:orange")):
                ax.plot(self.curves[world][k], color=colour, label=contest.learners[k])
                ax.axhline(contest.bounds[k], color=colour, linestyle="--", linewidth=1.0)
            ax.set_yscale("log")
            ax.set_title(world)
            ax.set_xlabel("examples")
        axes[0].set_ylabel("squared loss so far (dashed: its bound)")
        axes[0].legend()
        return axes


@named_options
def compare_geometries(
    dimensions: int = 200, examples: int = 2000, *, relevant: int = 3, noise: float = 0.1, random_state: Any = 0
) -> GeometryComparison:
    """Draw both kinds of data, state the bounds, run both families and say who won.

    Parameters
    ----------
    dimensions, examples : columns and rows of each kind of data.
    relevant : how many coordinates of the sparse side are not 0 (odd, so that no score is 0).
    noise : standard deviation of the regression's noise.
    random_state : draws the data.

    Examples
    --------
    >>> import trueline as tl
    >>> found = tl.compare_geometries(dimensions=100, examples=500)
    >>> [(c.foretold, c.winner) for c in found.contests if c.figure == "squared loss"]
    [('multiplicative', 'multiplicative'), ('additive', 'additive')]
    """
    for name, value, least in (("dimensions", dimensions, 2), ("examples", examples, 2), ("relevant", relevant, 1)):
        if isinstance(value, bool) or not float(value).is_integer() or value < least:
            raise UsageError(f"{name} is {value!r}; a whole number of at least {least} is accepted", where=name)
    if relevant % 2 == 0 or relevant > dimensions:
        raise UsageError(f"relevant is {relevant}; an odd number of at most {dimensions} is accepted", where="relevant")
    if not 0.0 <= noise < math.inf:
        raise UsageError(f"noise is {noise!r}; a number of at least 0 is accepted", where="noise")
    rng = check_random_state(random_state)
    contests: list[Contest] = []
    curves: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for world in WORLDS:
        X, u = _drawn(world, 2 * examples, dimensions, relevant, rng)
        rows, fresh = X[:examples], X[examples:]
        y = rows @ u + noise * rng.normal(size=examples)
        labels, later = rows @ u > 0.0, fresh @ u > 0.0
        if len(np.unique(labels)) < 2:
            raise UsageError(f"{examples} examples show one class only; draw more", where="examples")
        additive = float(np.sqrt((rows**2).sum(axis=1)).max() * np.linalg.norm(u))
        multiplicative = float(np.abs(rows).max() * np.abs(u).sum() * math.sqrt(2.0 * math.log(2.0 * dimensions)))
        found, curves[world] = _regression(world, rows, y, u, (additive, multiplicative), noise)
        contests += [found, *_classification(world, rows, labels, fresh, later, u, (additive, multiplicative))]
    return GeometryComparison(dimensions, examples, relevant, noise, tuple(contests), curves)


def _drawn(world: str, n: int, d: int, k: int, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Rows and target: signs, with all but k coordinates of one side set to 0."""
    if world == WORLDS[0]:
        u = np.zeros(d)
        u[rng.choice(d, k, replace=False)] = rng.choice([-1.0, 1.0], k)
        return rng.choice([-1.0, 1.0], size=(n, d)), u
    X = np.zeros((n, d))
    places = np.argsort(rng.uniform(size=(n, d)), axis=1)[:, :k]
    np.put_along_axis(X, places, rng.choice([-1.0, 1.0], size=(n, k)), axis=1)
    return X, rng.choice([-1.0, 1.0], d)


def _regression(
    world: str, X: np.ndarray, y: np.ndarray, u: np.ndarray, sizes: tuple[float, float], noise: float
) -> tuple[Contest, tuple[np.ndarray, np.ndarray]]:
    """Gradient descent against exponentiated gradient, each at the rate that its own bound likes best."""
    root = noise * math.sqrt(len(y))  # √L_u as it can be known beforehand
    kappa = [size / (root + size) for size in sizes]
    radius, largest = float(np.abs(u).sum()), float(np.abs(X).max())
    longest = float((X**2).sum(axis=1).max())
    learners = (
        OnlineRegressor(geometry="additive", rate=kappa[0] / longest, fit_intercept=False, certificate=False),
        OnlineRegressor(
            geometry="signed", radius=radius, rate=kappa[1] / (radius * largest) ** 2, fit_intercept=False,
            certificate=False,
        ),
    )  # fmt: skip
    losses = []
    for learner in learners:
        learner._start(X.shape[1])
        losses.append(np.cumsum((learner.record_.learn(X, y) - y) ** 2))
    best = float(((X @ u - y) ** 2).sum())
    bounds = tuple(_limit(best, k, size) for k, size in zip(kappa, sizes))
    names = ("gradient descent", "exponentiated gradient")
    contest = Contest(world, "squared loss", names, bounds, (float(losses[0][-1]), float(losses[1][-1])))  # type: ignore[arg-type]
    return contest, (losses[0], losses[1])


def _limit(best: float, kappa: float, size: float) -> float:
    """L_u/(1 − κ) + D²/κ at the rate chosen; with L_u = 0 and κ → 1 this is D²."""
    return (best / (1.0 - kappa) if best > 0.0 else 0.0) + size**2 / kappa


def _classification(
    world: str, X: np.ndarray, y: np.ndarray, fresh: np.ndarray, later: np.ndarray, u: np.ndarray,
    sizes: tuple[float, float],
) -> list[Contest]:  # fmt: skip
    """Perceptron against Winnow by mistakes; LinearSVC against AdaBoost, from few rows, by errors on fresh ones."""
    margin = float(np.abs(X @ u).min())
    bounds = ((sizes[0] / margin) ** 2, (sizes[1] / margin) ** 2)
    rate = margin / float(np.abs(u).sum()) / float(np.abs(X).max()) ** 2
    online = (Perceptron(fit_intercept=False, certificate=False), Winnow(rate, fit_intercept=False, certificate=False))
    mistakes = []
    for learner in online:
        learner.classes_ = np.array([False, True])
        learner._start(X.shape[1])
        signs = np.where(y, 1.0, -1.0)
        mistakes.append(float((learner.record_.learn(X, signs) * signs <= 0.0).sum()))
    few = slice(2 * X.shape[1])  # with many more rows than columns every batch learner finds u
    batch = (LinearSVC(C=1.0, tol=1e-4).fit(X[few], y[few]), AdaBoost(rounds=4 * X.shape[1]).fit(X[few], y[few]))
    errors = tuple(float((model.predict(fresh) != later).mean()) for model in batch)
    return [
        Contest(world, "mistakes", ("perceptron", "Winnow"), bounds, (mistakes[0], mistakes[1])),
        Contest(world, "test error", ("LinearSVC", "AdaBoost"), bounds, (errors[0], errors[1])),
    ]


__all__ = ["Contest", "GeometryComparison", "compare_geometries"]
