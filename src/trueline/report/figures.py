"""The report's figures: each takes plain arrays and gives one drawing. Every size is bounded whatever n is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .regret import compared
from .svg import Axes, escape, label
from .text import shortened

SHOWN = 40  # coefficients in the plot; the table below it has them all
NAME = 30  # characters of a name beside a drawing
CONFUSED = 12  # classes in a table of which is taken for which
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
    drawn = [item for item in drawn if item[1] != 0.0] or drawn  # what a penalty silenced is not drawn
    drawn.sort(key=lambda item: -abs(item[1]))
    left_out = len(drawn) - SHOWN
    drawn = drawn[:SHOWN]
    every = np.array([v for item in drawn for v in item[1:] if np.isfinite(v)] + [0.0])
    low, high = float(every.min()), float(every.max())
    margin = 0.04 * (high - low or 1.0)
    names = shortened([item[0] for item in drawn], NAME)
    left = int(min(220, 24 + 6.6 * max(map(len, names), default=8)))
    height = 24 * max(len(drawn), 1) + 62
    axes = Axes(
        (low - margin, high + margin),
        (len(drawn) - 0.5, -0.5),
        size=(720, height),
        margins=(10, 16, 44, left),
        x_name="coefficient" if scales is None else f"effect of one standard deviation of the column on {target}",
    )
    axes.frame(y_ticks=[]).rule(x=0.0)
    for at, (name, (_, estimate, a, b)) in enumerate(zip(names, drawn)):
        clear = not (a <= 0.0 <= b) if np.isfinite(a) and np.isfinite(b) else True
        style = "one" if clear else "quiet"
        if np.isfinite(a) and np.isfinite(b):
            axes.line([a, b], [at, at], style)
        axes.points(estimate, at, style, 4.0)
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


def residuals(fitted: np.ndarray, residual: np.ndarray, target: str, scaled: bool = False) -> str:
    """Residuals against fitted, binned, with their running centre: a bend says that a line is not enough.

    Scaled ones, as of counts, have a skewed spread whose mean, and not the median, is 0.
    """
    name = "residual / its expected deviation" if scaled else "residual"
    axes = Axes(
        _ends(fitted), _ends(residual), size=(460, 400), margins=(30, 16, 44, 58), x_name=f"fitted {target}", y_name=name
    ).frame()  # fmt: skip
    _binned(axes, fitted, residual)
    axes.rule(y=0.0, dashed=True)
    order = np.argsort(fitted, kind="stable")
    groups = [g for g in np.array_split(order, min(24, max(1, len(order) // 20))) if len(g)]
    if len(groups) > 2:
        centre = np.mean if scaled else np.median
        axes.line([fitted[g].mean() for g in groups], [centre(residual[g]) for g in groups], "two")
        axes.legend([(f"running {'mean' if scaled else 'median'}", "two", False)])
    return axes.done("Residuals against fitted")


def sizes(residual: np.ndarray, target: str) -> str:
    """How large the errors are: the share of rows that are predicted to within so much."""
    size = np.sort(np.abs(residual))
    at = np.unique(np.linspace(0, len(size) - 1, min(len(size), 200)).round().astype(int))
    top = float(np.quantile(size, 0.99)) * 1.12
    axes = Axes(
        (0.0, 1.0), (0.0, top), size=(460, 400), x_name="share of the rows", y_name=f"error of {target}, at most"
    ).frame()
    axes.line((at + 0.5) / len(size), np.where(size[at] <= top, size[at], np.nan), "one")
    for share, said in ((0.5, "half"), (0.9, "90 %"), (0.95, "95 %")):
        value = float(np.quantile(size, share))
        axes.line([0.0, share, share], [value, value, 0.0], "ink", dashed=True, thin=True)
        axes.points(share, value, "one", 4.0)
        low = 13.0 if share == 0.9 else -6.0  # below its line, where the next one is near
        axes.note(0.02, value, f"{said} within {label(float(f'{value:.3g}'))}", dy=low)
    return axes.done("How large the errors are")


def confusion(shares: np.ndarray, names: Sequence[str]) -> str:
    """Which class is taken for which: a row is an observed class, its cells the shares that were predicted as each."""
    count = len(names)
    told = shortened(list(map(str, names)), 14)
    left = int(38 + 6.8 * max(map(len, told)))
    side = max(34, 240 // count)
    size = (max(460, left + 52 * count + 16), 62 + side * count)
    axes = Axes((0.0, count), (count, 0.0), size=size, margins=(48, 16, 14, left), x_name="", y_name="observed")
    axes.frame(x_ticks=[], y_ticks=[])
    for i in range(count):
        middle = float(axes.px(i + 0.5))
        axes.over.append(f'<text class="tick" x="{middle:.1f}" y="40" text-anchor="middle">{escape(told[i])}</text>')
        axes.note(0.0, i + 0.5, told[i], anchor="end", dx=-8, dy=4)
        for j in range(count):
            x, y = float(axes.px(j)), float(axes.py(i))
            wide, high = float(axes.px(j + 1)) - x - 2, float(axes.py(i + 1)) - y - 2
            style = "one" if i == j else "two"
            axes.marks.append(
                f'<rect class="cell {style}" x="{x + 1:.1f}" y="{y + 1:.1f}" width="{wide:.1f}" height="{high:.1f}" '
                f'rx="3" fill-opacity="{0.06 + 0.5 * shares[i, j]:.2f}"/>'
            )
            axes.note(j + 0.5, i + 0.5, f"{shares[i, j]:.0%}".replace("%", " %"), style="name", anchor="middle", dy=4)
    axes.over.append(
        f'<text class="name" x="{float(axes.px(count / 2)):.0f}" y="18" text-anchor="middle">predicted</text>'
    )
    return axes.done("Which class is taken for which")


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


def groups(values: np.ndarray, count: int) -> np.ndarray:
    """The group of each value, in their order: at most ``count``, of about equal size, equal values in one.

    What differs by rounding only is equal: of two rows alike, BLAS may sum one in another order.

    >>> groups(np.array([0.1, 0.1, 0.1, 0.9]), 2).tolist()
    [0, 0, 0, 1]
    """
    _, place, sizes = np.unique(np.round(values, 12), return_inverse=True, return_counts=True)
    middle = np.cumsum(sizes) - 0.5 * sizes
    return np.asarray((count * middle / max(1, len(values))).astype(int)[place])


def calibration(probability: np.ndarray, outcome: np.ndarray, name: str) -> str:
    """Predicted probability against the share that came true, in about ten groups, with 95 % intervals."""
    axes = Axes(
        (0.0, 1.0), (0.0, 1.0), size=(460, 400), x_name=f"predicted probability of {name}", y_name="share observed"
    ).frame()
    axes.line([0, 1], [0, 1], "ink", dashed=True, thin=True)
    place = groups(probability, 10)
    for group in (np.flatnonzero(place == k) for k in np.unique(place)):
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
    short = dict(zip(order[:12], shortened([terms[j] for j in order[:12]], 22)))
    right = int(min(170, 20 + 6.4 * max(map(len, short.values()), default=4)))
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
            named.append((float(axes.py(coefs[last, j])), short[j], style))
    at = -1e9
    for place, term, style in sorted(named):
        at = max(place, at + 13.0)  # names keep their order and never overlap
        axes.over.append(
            f'<text class="tick {style}" x="{axes.width - right + 6}" y="{at + 4:.1f}">{escape(term)}</text>'
        )
    if best is not None:
        axes.rule(x=best, dashed=True)
    return axes.done(f"{name} path")


def cross_validation(curves: Sequence[dict[str, Any]], quantity: str = "mean squared error") -> str:
    """Cross-validated error along the penalty, a band of one standard error, the best marked."""
    alphas = np.concatenate([c["alphas"] for c in curves])
    every = np.concatenate([np.r_[c["mean"] - c["error"], c["mean"] + c["error"]] for c in curves])
    level = [c["level"] for c in curves if c.get("level") is not None]
    steep = bool((every > 0).all()) and float(every.max()) > 8.0 * float(every.min())
    axes = Axes(
        (float(alphas.max()), float(alphas.min())), _ends(np.r_[every, level], log=steep), size=(720, 300), margins=(30, 20, 44, 62),
        x_log=True, y_log=steep, x_name="penalty alpha, falling to the right", y_name=f"cross-validated {quantity}",
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
    """Average loss while learning, the average of what it is compared with, and the theorem's bound, over examples."""
    n = np.array([row["counter"] for row in rows], dtype=float)

    def column(name: str, divide: bool) -> np.ndarray:
        values = np.array([np.nan if row.get(name) is None else row[name] for row in rows], dtype=float)
        return values / np.array([row["weight"] for row in rows]) if divide else values

    average = column("average_loss", False)
    key, name = compared(rows)
    best, bound = column(key, True), column("bound", True)
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
    known = [(name, "three", False)] if np.isfinite(best).any() else []
    axes.legend([("loss suffered", "one", False), *known, ("the theorem's bound", "two", True)])
    return axes.done("Learning curve", "the shaded area is the regret" if known else "")


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
