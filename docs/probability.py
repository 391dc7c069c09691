"""The pictures of docs/probability.md, drawn from code on generated data with fixed seeds."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

import trueline as tl

from .drawing import INK, LINE, SOFT, WARN, drawn


def draw(folder: str | pathlib.Path) -> list[pathlib.Path]:
    """All pictures of the page."""
    return drawn(folder, "probability", heights, learning, fraud)


def people(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Heights in cm and the sex of generated people."""
    rng = np.random.default_rng(seed)
    male = rng.random(n) < 0.5
    return np.where(male, 176 + 7.5 * rng.standard_normal(n), 163 + 6.5 * rng.standard_normal(n)), np.where(
        male, "m", "f"
    )


def threshold(x: np.ndarray, y: np.ndarray) -> float:
    """The height above which "m" makes the fewest mistakes: no probability, only a boundary."""
    order = np.argsort(x)
    male = (y[order] == "m").astype(int)
    mistakes = np.append(0, np.cumsum(male)) + (len(y) - male.sum() - np.append(0, np.cumsum(1 - male)))
    k = int(np.argmin(mistakes))
    edges = np.concatenate([[x.min() - 1], x[order], [x.max() + 1]])
    return float((edges[k] + edges[k + 1]) / 2)


def crossing(model: Any) -> float:
    """Where the posterior is one half, between the two means."""
    grid = np.linspace(163, 176, 2001)
    return float(grid[np.argmin(np.abs(model.predict_proba(grid[:, None])[:, 1] - 0.5))])


def heights(plt: Any) -> Any:
    """Two densities and their crossing; the threshold twin; both when samples are drawn again and again."""
    x, y = people(60, 0)
    model = tl.GenerativeClassifier("gaussian").fit(x[:, None], y)
    cut = threshold(x, y)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.0))
    grid = np.linspace(140, 205, 300)
    likelihood = np.exp(model.log_likelihood(grid[:, None]))
    for k, (name, colour) in enumerate((("women", WARN), ("men", LINE))):
        left.plot(grid, likelihood[:, k], color=colour)
        own = x[y == model.classes_[k]]
        left.plot(own, np.full(len(own), -0.001 - 0.0015 * k), "|", color=colour, ms=6)
        left.text(grid[np.argmax(likelihood[:, k])], likelihood[:, k].max() * 1.02, name, color=colour, ha="center")
    left.axvline(crossing(model), color=INK, lw=1)
    left.axvline(cut, color=INK, lw=1, ls="--")
    left.set(xlabel="height (cm)", ylabel="density", title="60 people: posterior ½ (line), fewest mistakes (dashed)")
    both = []
    for seed in range(1, 301):
        a, b = people(60, seed)
        both.append((crossing(tl.GenerativeClassifier("gaussian").fit(a[:, None], b)), threshold(a, b)))
    found = np.array(both)
    bins = np.linspace(158, 182, 49)
    right.hist(found[:, 1], bins, color=SOFT, label=f"threshold, spread {found[:, 1].std():.1f} cm")
    right.hist(
        found[:, 0], bins, histtype="step", color=LINE, lw=1.5, label=f"densities, spread {found[:, 0].std():.1f} cm"
    )
    right.set(xlabel="boundary found (cm)", ylabel="of 300 samples", title="The same, on 300 samples of 60")
    right.legend(frameon=False)
    figure.tight_layout()
    return figure


def learning(plt: Any) -> Any:
    """Held-out error against rows: where the assumption is true, and where it is false."""

    def true(n: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 2, n)
        return rng.standard_normal((n, 10)) * (1 + 0.4 * y[:, None]) + 0.4 * y[:, None], y

    def false(n: int, rng: Any) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 2, n)
        one = rng.standard_normal((n, 1))  # columns that move together, which naive Bayes counts ten times
        return 0.9 * one + 0.45 * rng.standard_normal((n, 10)) + 0.4 * y[:, None] * np.linspace(0.2, 1.8, 10), y

    sizes = [20, 40, 80, 160, 320, 640, 1280, 2560]
    figure, places = plt.subplots(1, 2, figsize=(8.4, 3.0), sharex=True)
    for axes, make, title in (
        (places[0], true, "columns independent, as assumed"),
        (places[1], false, "columns that depend on each other"),
    ):
        test, truth = make(4000, np.random.default_rng(10**6))
        lines = np.zeros((2, len(sizes)))
        repeats = 5
        for seed in range(repeats):
            X, y = make(sizes[-1], np.random.default_rng(seed))
            for k, n in enumerate(sizes):
                model = tl.GenerativeClassifier("gaussian").fit(X[:n], y[:n])
                twin = model.discriminative_twin(X[:n], y[:n], C=10.0)
                for row, each in enumerate((model, twin)):
                    lines[row, k] += (each.predict(test) != truth).mean() / repeats
        axes.semilogx(sizes, lines[0], "o-", ms=3, color=LINE, label="GenerativeClassifier")
        axes.semilogx(sizes, lines[1], "s-", ms=3, color=WARN, label="its discriminative twin")
        axes.set(xlabel="rows learned", title=title, ylim=(0, 0.5))
    places[0].set_ylabel("held-out error")
    places[0].legend(frameon=False)
    figure.tight_layout()
    return figure


def calls(customers: int, each: int, seed: int) -> tuple[Any, np.ndarray]:
    """Generated calls: every customer has habits of length, hour and country; thieves share theirs."""
    import polars as pl

    habits, rng = np.random.default_rng(99), np.random.default_rng(seed)
    length, hour = habits.normal(1.0, 1.2, customers), habits.uniform(8, 20, customers)
    home = habits.integers(0, 6, customers)
    who = rng.integers(0, customers, customers * each)
    stolen = rng.random(len(who)) < 0.03
    minutes = np.where(stolen, rng.normal(2.0, 0.8, len(who)), length[who] + 0.4 * rng.standard_normal(len(who)))
    when = np.where(stolen, rng.normal(14, 6, len(who)), hour[who] + 1.5 * rng.standard_normal(len(who)))
    away = rng.random(len(who)) < np.where(stolen, 0.9, 0.1)
    country = np.where(away, rng.integers(0, 6, len(who)), home[who])
    names = {
        "customer": [f"c{k}" for k in who],
        "log_minutes": minutes,
        "hour": when,
        "country": [f"k{k}" for k in country],
    }
    return pl.DataFrame(names), np.where(stolen, "fraud", "own")


def fraud(plt: Any) -> Any:
    """Frauds found against false alarms: one density for all customers, or one for each."""
    from sklearn.metrics import roc_auc_score, roc_curve

    frame, y = calls(200, 40, 1)
    new, truth = calls(200, 40, 2)
    personal = tl.GenerativeClassifier(entity="customer").fit(frame, y).log_likelihood_ratio(new)
    common = (
        tl.GenerativeClassifier()
        .fit(frame.drop("customer"), y)
        .log_likelihood_ratio(new.drop("customer"), "fraud", "own")
    )
    figure, axes = plt.subplots(figsize=(5.2, 3.4))
    for score, label, colour in ((personal, "each customer's own", LINE), (common, "one for all customers", WARN)):
        alarm, found, _ = roc_curve(truth == "fraud", score)
        axes.plot(alarm, found, color=colour, label=f"{label}: area {roc_auc_score(truth == 'fraud', score):.3f}")
    axes.set(xscale="log", xlim=(1e-4, 1), xlabel="share of honest calls questioned", ylabel="share of frauds found")
    axes.legend(frameon=False, title="density")
    return figure
