"""The picture of docs/onepass.md: seconds of a fit against rows and columns, beside scikit-learn in the same run."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import numpy as np

ROWS = (1000, 5000, 20_000, 100_000, 400_000)
COLUMNS = (3, 10, 30, 100, 300)
ROUNDS = 5


def draw(folder: str | pathlib.Path) -> list[pathlib.Path]:
    """Measure, draw and write the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    _sweep(axes[0], "rows (30 columns)", ROWS, [(n, 30) for n in ROWS])
    _sweep(axes[1], "columns (20,000 rows)", COLUMNS, [(20_000, d) for d in COLUMNS])
    axes[0].set_ylabel("seconds of LinearRegression.fit")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    path = folder / "onepass-growth.png"
    figure.savefig(path, dpi=90)
    plt.close(figure)
    return [path]


def _sweep(axis: Any, label: str, along: tuple[int, ...], sizes: list[tuple[int, int]]) -> None:
    from sklearn import linear_model

    import trueline as tl

    makers = {"trueline": tl.LinearRegression, "scikit-learn": linear_model.LinearRegression}
    seconds: dict[str, list[float]] = {name: [] for name in makers}
    for n, d in sizes:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d))
        y = X @ rng.standard_normal(d) + 3 * rng.standard_normal(n) + 1
        best = dict.fromkeys(makers, float("inf"))
        for _ in range(ROUNDS):
            for name, maker in makers.items():
                start = time.perf_counter()
                maker().fit(X, y)
                best[name] = min(best[name], time.perf_counter() - start)
        for name in makers:
            seconds[name].append(best[name])
    for name, values in seconds.items():
        axis.loglog(along, values, marker="o", label=name)
    axis.set_xlabel(label)
    axis.grid(alpha=0.3)
