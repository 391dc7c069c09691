"""The pictures of the solvers' page: every method on one problem, and growth with rows, columns and density."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import trueline as tl
from trueline.report.convergence import draw as draw_gaps

from .lasso import fastest

SMOOTH = ("gradient", "newton", "irls", "coordinate", "block", "fista", "sparsa", "owlqn", "stochastic")
SHARP = ("coordinate", "block", "fista", "sparsa", "owlqn", "stochastic")


def correlated(n: int = 4000, d: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns, some on scales a million times others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    for j in range(1, d):
        X[:, j] = 0.7 * X[:, j - 1] + 0.7 * X[:, j]
    y = X @ (0.5 * rng.normal(size=d)) + rng.logistic(size=n) > 0
    return X * np.logspace(-3, 3, d), y.astype(int)


def race(penalty: str | None, alpha: float, methods: tuple[str, ...]) -> dict[str, Any]:
    """Each method's solution; a first run leaves compilation out of the seconds."""
    X, y = correlated()
    if penalty is not None:  # one strength for all needs columns on one scale, or it would only hold the small ones
        X = X / X.std(axis=0)
    found = {}
    for method in methods:
        options: dict[str, Any] = {"alpha": alpha, "tol": 1e-10, "max_iter": 1000}
        if method == "stochastic":
            options["max_iter"] = 40
        tl.minimize(X[:400], y[:400], "logistic", penalty, method, **options | {"max_iter": 3})
        found[method] = tl.minimize(X, y, "logistic", penalty, method, **options)
    return found


def growth(path: Path) -> None:
    """Seconds to a relative gap of 1e-6 as rows, columns and density grow."""
    from matplotlib.figure import Figure
    from scipy import sparse

    rng = np.random.default_rng(0)

    def seconds(X: Any, penalty: str, alpha: float) -> float:
        d = X.shape[1]
        w = np.zeros(d)
        w[: min(d, 20)] = rng.normal(size=min(d, 20))
        y = (X @ w + rng.logistic(size=X.shape[0]) > 0).astype(int)
        return fastest(lambda: tl.minimize(X, y, "logistic", penalty, alpha=alpha))

    rows = [1000, 4000, 16_000, 64_000, 256_000]
    columns = [10, 30, 100, 300, 1000]
    densities = [0.001, 0.003, 0.01, 0.03, 0.1]
    panels = [
        ("rows (30 columns, L2)", rows, [seconds(rng.normal(size=(n, 30)), "l2", 1e-3) for n in rows]),
        ("columns (5,000 rows, L2)", columns, [seconds(rng.normal(size=(5000, d)), "l2", 1e-3) for d in columns]),
        (
            "density (5,000×10,000, L1)",
            densities,
            [seconds(sparse.random(5000, 10_000, p, "csr", random_state=0), "l1", 2e-3) for p in densities],
        ),
    ]
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    for axes, (label, sizes, times) in zip(figure.subplots(1, 3), panels, strict=True):
        axes.loglog(sizes, times, "o-")
        axes.loglog(sizes, times[-1] * np.array(sizes) / sizes[-1], ":", color="grey", label="proportional")
        axes.set_xlabel(label)
        axes.grid(True, alpha=0.25)
        axes.legend(fontsize=8, frameon=False)
    figure.axes[0].set_ylabel("seconds to a relative gap of 1e-6")
    figure.savefig(path, dpi=90)


def draw(folder: Path) -> None:
    """Draw all of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        smooth = race(None, 0.0, SMOOTH)
        draw_gaps(
            smooth, folder / "solvers_smooth.png",
            title="Logistic loss, no penalty, 4,000×60, column scales from 10⁻³ to 10³: every method",
        )  # fmt: skip
        sharp = race("l1", 0.003, SHARP)
        draw_gaps(sharp, folder / "solvers_l1.png", title="Logistic loss with an L1 penalty, 4,000×60: every method")
        growth(folder / "solvers_growth.png")


if __name__ == "__main__":
    draw(Path(__file__).parent / "pictures")
