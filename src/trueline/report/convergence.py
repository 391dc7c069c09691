"""Convergence pictures: the relative gap of one or several solutions against passes over the data and against seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..certificates.optimality import relative_gap

FLOOR = 1e-16


def relative_gaps(solution: Any) -> np.ndarray:
    """The gap of each line of the trace by the final certificate's yardstick, not below what rounding can show."""
    proof = solution.certificate
    gaps = np.array([step.gap for step in solution.trace])
    if 0.0 < proof.gap < np.inf:
        return np.maximum(gaps * (proof.relative_gap / proof.gap), FLOOR)
    # No gap is left to read the yardstick from: the objective itself stands in.
    return np.maximum([relative_gap(gap, proof.primal, proof.primal, 0.0) for gap in gaps], FLOOR)


def draw(solutions: Mapping[str, Any], path: Any = None, *, title: str = "") -> Any:
    """A figure with both views; it is saved when a path is given."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatterSciNotation

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    styles = ("-", "--", "-.", ":")
    for k, (name, solution) in enumerate(solutions.items()):
        gaps = relative_gaps(solution)
        shown = np.isfinite(gaps)
        passes = np.maximum([step.passes for step in solution.trace], 0.5)
        seconds = np.maximum([step.seconds for step in solution.trace], 1e-5)
        look = {
            "color": f"C{k % 10}",
            "linestyle": styles[k // 10 % 4],
            "marker": ".",
            "markersize": 5,
            "linewidth": 1.3,
        }
        left.plot(np.array(passes)[shown], gaps[shown], label=name, **look)
        right.plot(np.array(seconds)[shown], gaps[shown], label=name, **look)
    for axes, label in ((left, "passes over the data"), (right, "seconds")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_minor_formatter(LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(0.4, 0.2)))
        axes.set_xlabel(label)
        axes.grid(True, alpha=0.25)
    left.set_ylabel("relative duality gap (certified)")
    if len(solutions) > 1:
        right.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    if title:
        figure.suptitle(title, fontsize=11)
    if path is not None:
        figure.savefig(path, dpi=100)
    return figure
