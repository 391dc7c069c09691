"""``compare --plot``: the contenders' errors as one picture, best on top, each with its standard error over the folds."""

from __future__ import annotations

from typing import Any

import numpy as np

BEST, OTHER, BAND = "#1f5fae", "#6d737c", "#dbe7f5"
FAR = 3.0  # times the best error: beyond it the axis is logarithmic
NAME = 40  # characters of a name


def draw(found: dict[str, Any]) -> Any:
    """A matplotlib figure of what ``compared`` found."""
    import textwrap

    from matplotlib.figure import Figure

    from ..errors import printable
    from ..report.text import clip

    ranked = [row for row in found["methods"] if row["cross_validated"] is not None]
    absent = [row["method"] for row in found["methods"] if row["cross_validated"] is None]
    figure = Figure(figsize=(8.0, 1.7 + 0.32 * max(3, len(ranked))), layout="constrained")
    axes = figure.subplots()
    values = np.array([row["cross_validated"] for row in ranked])
    spread = np.array([row["std_error"] or 0.0 for row in ranked])
    places = np.arange(len(ranked))[::-1]
    if len(ranked):
        low, high = values[0] - spread[0], values[0] + spread[0]
        axes.axvspan(low, high, color=BAND, lw=0, zorder=0, label="best ± one standard error")
        if values[-1] > FAR * values[0] and low > 0:
            _logarithmic(axes)
    for at, value, error in zip(places, values, spread):
        colour = BEST if at == len(ranked) - 1 else OTHER
        # On a logarithmic axis a bar that would reach zero ends at a hundredth of its value.
        left = min(error, 0.99 * value) if axes.get_xscale() == "log" else error
        axes.errorbar(value, at, xerr=[[left], [error]], fmt="o", color=colour, ms=6, lw=1.6, capsize=3)
    axes.set_yticks(places, [_literal(clip(printable(row["method"]), NAME)) for row in ranked])
    axes.set_ylim(-0.7, max(len(ranked), 1) - 0.3)
    axes.set_xlabel(f"cross-validated {found['measure']}, smaller is better")
    target = _literal(clip(printable(str(found["target"])), NAME))
    axes.set_title(f"{target}, {found['n']:,} rows, {found['task']}", loc="left", fontsize=11)
    if len(ranked):
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1, fontsize=8, frameon=False)
    if absent:
        told = textwrap.fill(f"without such an error: {'; '.join(map(printable, absent))}", 110)
        figure.supxlabel(_literal(told), fontsize=8, color="0.4", x=0.01, ha="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25, lw=0.6)
    return figure


def _logarithmic(axes: Any) -> None:
    """A logarithmic axis with its numbers written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _literal(text: str) -> str:
    """A text without what matplotlib would take for mathematics."""
    return text.replace("$", r"\$")
