"""The report's figures: each takes plain arrays and gives one drawing. Every size is bounded whatever n is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .svg import Axes, escape

SHOWN = 40  # coefficients in the plot; the table below it has them all
CELLS = 44  # cells a side of a binned figure
STYLES = ("one", "two", "three", "four", "five", "six")


def coefficients(rows: Sequence[dict[str, Any]], scales: dict[str, float] | None, target: str) -> str:
    """Estimates with their intervals, largest first. With the columns' deviations: the effect of one deviation."""
    drawn = []
    for row in rows:
        if row["term"] == "(intercept)" or row["estimate"] is None or not np.isfinite(row["estimate"]):
            continue
        unit = 1.0 if scales is None else scales.get(row["term"], 1.0)
        low, high = (row.get(side) for side in ("low", "high"))
        low, high = (np.nan if v is None else v * unit for v in (low, high))
        drawn.append((row["term"], row["estimate"] * unit, low, high))
    drawn.sort(key=lambda item: -abs(item[1]))
    left_out = len(drawn) - SHOWN
    drawn = drawn[:SHOWN]
    every = np.array([v for item in drawn for v in item[1:] if np.isfinite(v)] + [0.0])
    low, high = float(every.min()), float(every.max())
    margin = 0.04 * (high - low or 1.0)
    longest = max((len(item[0]) for item in drawn), default=8)
    left = int(min(210, 24 + 6.6 * longest))
    height = 24 * max(len(drawn), 1) + 62
    axes = Axes(
        (low - margin, high + margin),
        (len(drawn) - 0.5, -0.5),
        size=(720, height),
        margins=(10, 16, 44, left),
        x_name="coefficient" if scales is None else f"effect of one standard deviation of the column on {target}",
    )
    axes.frame(y_ticks=[]).rule(x=0.0)
    for at, (term, estimate, a, b) in enumerate(drawn):
        clear = not (a <= 0.0 <= b) if np.isfinite(a) and np.isfinite(b) else True
        style = "one" if clear else "quiet"
        if np.isfinite(a) and np.isfinite(b):
            axes.line([a, b], [at, at], style)
        axes.points(estimate, at, style, 4.0)
        name = term if len(term) <= 28 else f"{term[:13]}…{term[-14:]}"
        axes.over.append(
            f'<text class="tick" x="{left - 8}" y="{float(axes.py(at)) + 4:.1f}" text-anchor="end">{escape(name)}</text>'
        )
    told = f"{left_out} smaller ones are in the table only" if left_out > 0 else ""
    return axes.done("Coefficients with their intervals", told)


def observed(fitted: np.ndarray, y: np.ndarray, target: str) -> str:
    """Fitted against observed, binned."""
    ends = _ends(np.concatenate([fitted, y]))
    axes = Axes(ends, ends, size=(460, 400), x_name=f"fitted {target}", y_name=f"observed {target}").frame()
    _binned(axes, fitted, y)
    axes.line(ends, ends, "ink", dashed=True, thin=True)
    return axes.done("Fitted against observed")


def residuals(fitted: np.ndarray, residual: np.ndarray, target: str) -> str:
    """Residuals against fitted, binned, with their running median: a bend says that a line is not enough."""
    axes = Axes(_ends(fitted), _ends(residual), size=(460, 400), x_name=f"fitted {target}", y_name="residual").frame()
    _binned(axes, fitted, residual)
    axes.rule(y=0.0, dashed=True)
    order = np.argsort(fitted, kind="stable")
    groups = [g for g in np.array_split(order, min(24, max(1, len(order) // 20))) if len(g)]
    if len(groups) > 2:
        axes.line([fitted[g].mean() for g in groups], [np.median(residual[g]) for g in groups], "two")
        axes.legend([("running median", "two", False)], at=(axes.left + 8.0, axes.top + 14.0))
    return axes.done("Residuals against fitted")


def quantiles(residual: np.ndarray) -> str:
    """Normal Q–Q plot of standardised residuals, at most 160 quantiles."""
    from statistics import NormalDist

    ordered = np.sort((residual - residual.mean()) / (residual.std() or 1.0))
    count = len(ordered)
    at = np.unique(np.linspace(0, count - 1, min(count, 160)).round().astype(int))
    normal = np.array([NormalDist().inv_cdf((k + 0.5) / count) for k in at])
    sample = ordered[at]
    axes = Axes(
        _ends(normal),
        _ends(np.concatenate([sample, normal])),
        size=(460, 400),
        x_name="normal quantile",
        y_name="residual quantile, standardised",
    )
    axes.frame().line(_ends(normal), _ends(normal), "ink", dashed=True, thin=True).points(normal, sample, "one", 2.6)
    return axes.done("Normal quantiles of the residuals")


def calibration(probability: np.ndarray, outcome: np.ndarray, name: str) -> str:
    """Predicted probability against the share that came true, in ten groups of equal size, with 95 % intervals."""
    axes = Axes(
        (0.0, 1.0), (0.0, 1.0), size=(460, 400), x_name=f"predicted probability of {name}", y_name="share observed"
    ).frame()
    axes.line([0, 1], [0, 1], "ink", dashed=True, thin=True)
    order = np.argsort(probability, kind="stable")
    for group in np.array_split(order, 10):
        if len(group) == 0:
            continue
        share, size, mean = outcome[group].mean(), len(group), probability[group].mean()
        middle, half = wilson(share, size)
        axes.line([mean, mean], [middle - half, middle + half], "one").points(mean, share, "one", 4.0)
    return axes.done("Calibration")


def scores(probability: np.ndarray, outcome: np.ndarray, names: tuple[str, str]) -> str:
    """Histograms of the predicted probability, one for each outcome."""
    edges = np.linspace(0.0, 1.0, 31)
    counts = [np.histogram(probability[outcome == k], edges)[0] / max(1, (outcome == k).sum()) for k in (0, 1)]
    top = max(c.max() for c in counts) or 1.0
    axes = Axes(
        (0, 1),
        (0, 1.1 * top),
        size=(460, 400),
        margins=(30, 16, 44, 58),
        x_name=f"predicted probability of {names[1]}",
        y_name="share of the rows",
    ).frame()
    for count, style in zip(counts, ("two", "one")):
        x, y = np.repeat(edges, 2)[1:-1], np.repeat(count, 2)
        axes.band(x, np.zeros_like(y), y, style).line(x, y, style)
    axes.legend([(str(names[1]), "one", False), (str(names[0]), "two", False)])
    return axes.done("Predicted probabilities by outcome")


def path(alphas: np.ndarray, coefs: np.ndarray, terms: Sequence[str], best: float | None, name: str) -> str:
    """Coefficients (in units of the columns' deviations) as the penalty falls; the twelve largest are named."""
    order = np.argsort(-np.abs(coefs).max(axis=0), kind="stable")[:SHOWN]
    right = int(min(160, 20 + 6.4 * max((len(terms[j]) for j in order[:12]), default=4)))
    axes = Axes(
        (float(alphas.max()), float(alphas.min())), _ends(coefs), size=(720, 360), margins=(14, right, 44, 62), x_log=True,
        x_name=f"{name} penalty, falling to the right", y_name="coefficient × deviation",
    ).frame()  # fmt: skip
    axes.rule(y=0.0)
    named = []
    last = int(np.argmin(alphas))
    for rank, j in enumerate(order):
        style = STYLES[rank % len(STYLES)] if rank < 12 else "quiet"
        axes.line(alphas, coefs[:, j], style, thin=rank >= 12)
        if rank < 12:
            named.append((float(axes.py(coefs[last, j])), terms[j], style))
    at = -1e9
    for place, term, style in sorted(named):
        at = max(place, at + 13.0)  # names keep their order and never overlap
        axes.over.append(
            f'<text class="tick {style}" x="{axes.width - right + 6}" y="{at + 4:.1f}">{escape(term[:22])}</text>'
        )
    if best is not None:
        axes.rule(x=best, dashed=True)
    return axes.done(f"{name} path")


def cross_validation(curves: Sequence[dict[str, Any]]) -> str:
    """Cross-validated error along the penalty, a band of one standard error, the best marked."""
    alphas = np.concatenate([c["alphas"] for c in curves])
    every = np.concatenate([np.r_[c["mean"] - c["error"], c["mean"] + c["error"]] for c in curves])
    level = [c["level"] for c in curves if c.get("level") is not None]
    steep = bool((every > 0).all()) and float(every.max()) > 8.0 * float(every.min())
    axes = Axes(
        (float(alphas.min()), float(alphas.max())), _ends(np.r_[every, level], log=steep), size=(720, 300), margins=(30, 20, 44, 62),
        x_log=True, y_log=steep, x_name="penalty alpha", y_name="cross-validated mean squared error",
    ).frame()  # fmt: skip
    entries = []
    for curve, style in zip(curves, STYLES):
        axes.band(curve["alphas"], curve["mean"] - curve["error"], curve["mean"] + curve["error"], style)
        axes.line(curve["alphas"], curve["mean"], style)
        best = int(np.argmin(curve["mean"]))
        axes.points(curve["alphas"][best], curve["mean"][best], style, 4.5)
        entries.append((curve["name"], style, False))
    if level:
        axes.rule(y=float(level[0]), dashed=True)
        entries.append(("no penalty", "ink", True))
    axes.legend(entries)
    return axes.done("Cross-validation")


def learning(rows: Sequence[dict[str, Any]]) -> str:
    """Average loss while learning, the best fixed weights' average, and the theorem's bound, over examples."""
    n = np.array([row["counter"] for row in rows], dtype=float)

    def column(name: str, divide: bool) -> np.ndarray:
        values = np.array([np.nan if row.get(name) is None else row[name] for row in rows], dtype=float)
        return values / np.array([row["weight"] for row in rows]) if divide else values

    average = column("average_loss", False)
    best, bound = column("best_fixed_loss", True), column("bound", True)
    # While there are fewer rows than weights the best fixed loss is 0 but for rounding: not worth fifteen decades.
    best = np.where(best > 1e-9 * np.nanmax(average, initial=0.0), best, np.nan)
    every = np.concatenate([average, best, bound])
    every = every[np.isfinite(every) & (every > 0)]
    if len(every) == 0:
        every = np.array([0.1, 1.0])
    top = min(float(every.max()), 30.0 * float(np.nanmax(average[average > 0], initial=1e-300)))
    low = float(every.min())
    axes = Axes(
        (max(1.0, float(n.min())), float(n.max())),
        (0.8 * low, 1.25 * max(top, low)),
        size=(720, 340),
        margins=(30, 20, 44, 62),
        x_log=True,
        y_log=True,
        x_name="examples",
        y_name="average loss",
    ).frame()
    bound = np.where(bound > 1.25 * top, np.nan, bound)
    if np.isfinite(bound).any():
        axes.line(n, bound, "two", dashed=True)
    if np.isfinite(best).any():
        axes.band(n, best, average, "one").line(n, best, "three")
    axes.line(n, average, "one").points(n, average, "one", 2.6)
    axes.legend(
        [
            ("loss suffered", "one", False),
            ("best fixed weights in hindsight", "three", False),
            ("the theorem's bound", "two", True),
        ]
    )
    return axes.done("Learning curve", "the shaded area is the regret")


def ranking(names: Sequence[str], values: Sequence[float], errors: Sequence[float] | None, quantity: str) -> str:
    """One dot a method, best on top: what `compare` draws."""
    longest = max((len(name) for name in names), default=8)
    left = int(min(240, 24 + 6.6 * longest))
    values_, spread = np.asarray(values, float), np.zeros(len(values)) if errors is None else np.asarray(errors, float)
    every = np.r_[values_ - np.nan_to_num(spread), values_ + np.nan_to_num(spread)]
    low, high = _ends(every)
    axes = Axes(
        (low, high),
        (len(names) - 0.5, -0.5),
        size=(720, 26 * len(names) + 60),
        margins=(10, 16, 44, left),
        x_name=quantity,
    ).frame(y_ticks=[])
    for at, name in enumerate(names):
        style = "one" if at == 0 else "quiet"
        if errors is not None and np.isfinite(spread[at]):
            axes.line([values_[at] - spread[at], values_[at] + spread[at]], [at, at], style)
        axes.points(values_[at], at, style, 4.5)
        axes.over.append(
            f'<text class="tick" x="{left - 8}" y="{float(axes.py(at)) + 4:.1f}" text-anchor="end">{escape(name)}</text>'
        )
    return axes.done(quantity)


def wilson(share: float, size: int, z: float = 1.96) -> tuple[float, float]:
    """Centre and half-width of Wilson's interval for a share."""
    scale = 1.0 + z * z / size
    centre = (share + z * z / (2 * size)) / scale
    return centre, z / scale * float(np.sqrt(share * (1 - share) / size + z * z / (4 * size * size)))


def _ends(values: np.ndarray, log: bool = False) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if log:
        return low / (high / low) ** 0.04, high * (high / low) ** 0.04
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def _binned(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Points while there are few, shaded cells once there are many."""
    if len(x) <= 400:
        axes.points(x, y, "faint", 3.0)
        return
    counts, x_edges, y_edges = np.histogram2d(x, y, bins=CELLS, range=[axes.x_range, axes.y_range])
    axes.cells(x_edges, y_edges, counts)
