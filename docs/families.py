"""Pictures of docs/families.md: kernels, a network, boosting, and the two families side by side."""

from __future__ import annotations

import pathlib

import numpy as np


def draw(folder: pathlib.Path) -> None:
    """Write the pictures."""
    from matplotlib.figure import Figure
    from sklearn.datasets import load_breast_cancer

    import trueline as tl

    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3, 3, 60))
    y = np.sin(2 * x) + 0.3 * rng.normal(size=60)
    grid = np.linspace(-3.2, 3.2, 400)[:, None]
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    kernel = tl.KernelRegression("auto", gamma=1.0).fit(x[:, None], y)
    network = tl.NeuralNetwork((30,), rate=0.01, epochs=2000, patience=200, tol=0.0, random_state=0).fit(x[:, None], y)
    left.plot(x, y, ".", color="0.5")
    left.plot(grid, kernel.predict(grid), label=f"kernel, alpha {kernel.alpha_:.2g} by leave-one-out")
    left.plot(grid, network.predict(grid), label="network of 30 units")
    left.plot(grid, np.sin(2 * grid), "k:", linewidth=1.0, label="truth")
    left.set_ylim(-1.6, 2.2)
    left.legend(fontsize=8)
    left.set_xlabel("x")
    kernel.plot(right)
    figure.savefig(folder / "families_kernel.png", dpi=90)

    X, labels = load_breast_cancer(return_X_y=True)
    model = tl.AdaBoost(rounds=150).fit(X, labels)
    errors = []
    signs = np.where(labels == 1, 1.0, -1.0)
    score = np.zeros(len(labels))
    for column, threshold, vote in model.stumps_:
        score += np.where(X[:, column] > threshold, vote, -vote)
        errors.append(float((signs * score <= 0).mean()))
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    model.plot(left)
    left.semilogy(
        np.arange(1, len(errors) + 1),
        np.where(np.array(errors) > 0, errors, np.nan),
        label="training error, while above 0",
    )
    left.lines[0].set_label("product of normalisers")
    left.set_ylabel("breast cancer, 569 rows")
    left.legend()
    right.hist(signs * model.decision_function(X), bins=40)
    right.set_xlabel("margin")
    right.set_ylabel("rows")
    figure.savefig(folder / "families_boosting.png", dpi=90)

    axes = tl.compare_geometries().plot()
    axes[0].figure.savefig(folder / "families_dichotomy.png", dpi=90)
