"""The pictures of docs/local_robust.md: a curve with its band, the choice of width, the ψ, and a line among outliers."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

import trueline as tl
from trueline.beyond.psi import PSIS

from .drawing import INK, LINE, SOFT, WARN, drawn


def draw(folder: str | pathlib.Path) -> list[pathlib.Path]:
    """All pictures of the page."""
    return drawn(folder, "local_robust", curve, outliers)


def curve(plt: Any) -> Any:
    """A local fit with its intervals; the scores of the widths tried."""
    rng = np.random.default_rng(4)
    x = np.sort(rng.random(150) * 6.0)
    y = np.sin(x**1.5) + 0.25 * rng.standard_normal(150)
    y[::15] += 3.0
    grid = np.linspace(0, 6, 300)[:, None]
    plain = tl.LocalRegression("gcv", degree=2, robust_iterations=0).fit(x[:, None], y)
    robust = tl.LocalRegression(fraction="gcv", degree=2).fit(x[:, None], y)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2), width_ratios=(2, 1))
    mean, low, high = robust.predict(grid, interval=0.95, of="mean")
    left.scatter(x, y, s=8, color=SOFT, lw=0)
    left.fill_between(grid[:, 0], low, high, color=LINE, alpha=0.2, lw=0)
    left.plot(grid[:, 0], mean, color=LINE, lw=1.6, label="three robust iterations, 95% of the mean")
    left.plot(grid[:, 0], plain.predict(grid), color=WARN, lw=1, label="least squares in every window")
    left.set(xlabel="x", ylabel="y", title=f"Ten spikes; fraction {robust.fraction_:.2f} chosen")
    left.legend(frameon=False, fontsize=8)
    right.semilogx(robust.tried_, robust.scores_, "o-", color=LINE, ms=4)
    right.axvline(robust.fraction_, color=WARN, lw=1, ls="--")
    right.set(xlabel="fraction", ylabel="clipped leave-one-out error", title="Widths tried")
    figure.tight_layout()
    return figure


def outliers(plt: Any) -> Any:
    """What each ψ lets a residual pull; rows coloured by their probability of being stray."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2))
    u = np.linspace(-9, 9, 500)
    for (name, part), color in zip(PSIS.items(), (INK, LINE, SOFT, WARN, "#4d7c0f"), strict=True):
        left.plot(u, part().psi(u), color=color, lw=1.4, label=name)
    left.set(xlabel="residual in scales", ylabel="ψ", title="How much a residual may pull")
    left.legend(frameon=False, fontsize=8)
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 10, 120)
    y = 0.8 * x + 1 + 0.4 * rng.standard_normal(120)
    x[:36], y[:36] = rng.uniform(7, 10, 36), rng.normal(-4, 2, 36)
    ends = np.array([[0.0], [10.0]])
    mixture = tl.OutlierMixture().fit(x[:, None], y)
    seen = right.scatter(x, y, c=mixture.outlier_probability_, cmap="coolwarm", s=12, lw=0, vmin=0, vmax=1)
    figure.colorbar(seen, ax=right, label="probability of an outlier")
    lines = (
        (tl.LinearRegression(), "least squares", SOFT),
        (tl.RobustRegression(), "Huber", INK),
        (tl.RobustRegression("bisquare"), "bisquare", LINE),
        (mixture, "mixture", WARN),
    )
    for model, label, color in lines:
        right.plot(ends, model.fit(x[:, None], y).predict(ends), color=color, lw=1.4, label=label)
    right.set(xlabel="x", ylabel="y", title="30% of the rows, far out in x")
    right.legend(frameon=False, fontsize=8, loc="upper left")
    figure.tight_layout()
    return figure
