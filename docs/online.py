"""Draws the pictures of online.md: the regret of a real stream, live beside its bound."""

from __future__ import annotations

from pathlib import Path


def draw(folder: Path) -> None:
    """Regret on scikit-learn's diabetes data (442 patients, in order), Widrow–Hoff and the forward forecaster."""
    import numpy as np
    from matplotlib.figure import Figure
    from sklearn.datasets import load_diabetes

    import trueline as tl

    X, y = load_diabetes(return_X_y=True)
    y = (y - 150.0) / 100.0
    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    models = (
        (left, "Widrow–Hoff, rate 0.2", tl.WidrowHoff(rate=0.2)),
        (right, "Vovk–Azoury–Warmuth", tl.RecursiveLeastSquares()),
    )
    for ax, title, model in models:
        model.fit(5.0 * X, np.asarray(y))
        model.regret_plot(ax)
        ax.set_title(f"{title}: {ax.get_title(loc='left')}", loc="left", fontsize=10)
    right.set_ylabel("")
    figure.savefig(folder / "regret.png", dpi=110)
