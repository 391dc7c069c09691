"""The pictures of docs/lasso.md: a path with its gaps, the two rules of cross-validation, growth in n, d and density.

``draw(folder)`` makes them from code with trueline's own estimators on data generated with fixed seeds.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import trueline as tl

from .drawing import INK, LINE, SOFT, WARN, drawn


def draw(folder: str | pathlib.Path) -> list[pathlib.Path]:
    """All pictures of the page."""
    return drawn(folder, "lasso", path, choice, growth)


def problem(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.asfortranarray(rng.standard_normal((n, d)))
    signal = X[:, :10] @ np.linspace(3.0, 0.5, 10)
    return X, signal + 3.0 * rng.standard_normal(n)


def path(plt: Any) -> Any:
    """Coefficients along the path, and under them the relative gap of each penalty."""
    X, y = problem(200, 1000)
    y = y - y.mean()
    alphas, coefs, gaps = tl.lasso_path(X, y, n_alphas=100, eps=0.01)
    residual = y[:, None] - X @ coefs
    objective = (residual**2).sum(axis=0) / (2 * len(y)) + alphas * np.abs(coefs).sum(axis=0)
    figure, (above, below) = plt.subplots(2, 1, figsize=(6.4, 4.6), sharex=True, height_ratios=(3, 1))
    above.plot(alphas, coefs[10:].T, color=SOFT, lw=0.5)
    above.plot(alphas, coefs[:10].T, color=LINE, lw=1.4)
    above.set(ylabel="coefficient", title="200 rows, 1,000 columns: ten that matter (blue)")
    below.loglog(alphas, np.maximum(gaps / objective, 1e-17), color=INK, lw=1.2)
    below.axhline(1e-6, color=WARN, lw=1, ls="--")
    below.text(alphas[0], 1.6e-6, "tol", color=WARN, va="bottom", ha="left")
    below.set(xlabel="penalty α", ylabel="relative gap", ylim=(1e-18, 1e-4))
    below.invert_xaxis()
    return figure


def choice(plt: Any) -> Any:
    """Errors of the folds, the penalty of least mean error, and the one within a standard error."""
    X, y = problem(300, 60, seed=1)
    least = tl.LassoCV(cv=5, eps=0.005).fit(X, y)
    sparse = tl.LassoCV(cv=5, eps=0.005, selection_rule="1se").fit(X, y)
    mean = least.mse_path_.mean(axis=1)
    error = least.mse_path_.std(axis=1, ddof=1) / np.sqrt(5)
    figure, axes = plt.subplots(figsize=(6.4, 3.2))
    axes.plot(least.alphas_, least.mse_path_, color=SOFT, lw=0.8)
    axes.fill_between(least.alphas_, mean - error, mean + error, color=LINE, alpha=0.15, lw=0)
    axes.plot(least.alphas_, mean, color=LINE, lw=1.6)
    for model, word, side in ((least, "min", "left"), (sparse, "1se", "right")):
        count = np.count_nonzero(model.coef_)
        axes.axvline(model.alpha_, color=WARN, lw=1, ls="--")
        axes.text(model.alpha_, axes.get_ylim()[1], f" {word}: {count} columns ", color=WARN, ha=side, va="top")
    axes.set(xscale="log", xlabel="penalty α", ylabel="held-out squared error", title="Five folds, two rules")
    axes.invert_xaxis()
    return figure


def fastest(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of several runs: of at least three, and of as many as a second allows."""
    taken: list[float] = []
    while len(taken) < 3 or (sum(taken) < 1.0 and len(taken) < 12):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def growth(plt: Any) -> Any:
    """Seconds of a path of 100 penalties as rows, columns or density grow, with the slope of the last doubling."""
    import scipy.sparse as sp

    def seconds(X: Any, y: np.ndarray) -> float:
        return fastest(lambda: tl.lasso_path(X, y, n_alphas=100, eps=0.01))

    def text(density: float) -> tuple[Any, np.ndarray]:
        rng = np.random.default_rng(0)
        X = sp.random(5000, 20_000, density, format="csc", random_state=rng)
        return X, X[:, :200] @ rng.standard_normal(200) + 0.1 * rng.standard_normal(5000)

    rows = [2_000, 4_000, 8_000, 16_000, 32_000]
    columns = [1_000, 2_000, 4_000, 8_000, 16_000]
    filled = [2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3]
    lines = (
        ("rows (200 columns, Gram route)", rows, [seconds(*problem(n, 200)) for n in rows]),
        ("columns (300 rows, working sets)", columns, [seconds(*problem(300, d)) for d in columns]),
        ("density (sparse 5,000×20,000)", filled, [seconds(*text(share)) for share in filled]),
    )
    figure, places = plt.subplots(1, 3, figsize=(8.4, 2.8))
    for axes, (label, sizes, found) in zip(places, lines):
        slope = np.polyfit(np.log(sizes), np.log(found), 1)[0]
        axes.loglog(sizes, found, "o-", color=LINE, ms=4)
        axes.set(xlabel=label, title=f"grows as power {slope:.1f}", ylim=(min(found) / 2, max(found) * 2))
        axes.minorticks_off()
    places[0].set_ylabel("seconds, 100 penalties")
    figure.tight_layout()
    return figure
