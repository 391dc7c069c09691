"""One picture of a cancelled echo: what came in and what is left, how much is gone, the room that was learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from .meter import Summary

MIC, CLEAN, LINE, SHADE = "#a9adb4", "#1f5fae", "#c4561c", "#f3d9c9"


def draw(summary: Summary, response: np.ndarray, rate: float, block: int) -> Any:
    """A matplotlib figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 7.2), layout="constrained")
    waves, gain, room = figure.subplots(3, 1)
    time = np.arange(len(summary.energies)) * block / rate
    waves.fill_between(time, -summary.energies[:, 4], summary.energies[:, 4], color=MIC, lw=0, label="microphone")
    waves.fill_between(time, -summary.energies[:, 5], summary.energies[:, 5], color=CLEAN, lw=0, label="clean")
    waves.set_ylabel("peak")
    waves.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2, frameon=False)  # above the sound
    low, high = 0.0, 10.0
    if summary.active.any():
        low, high = (float(v) for v in np.percentile(summary.erle[summary.active], (1, 99)))
    gain.fill_between(time, min(low, 0) - 3, high + 5, where=summary.double_talk, color=SHADE, lw=0, step="mid")
    gain.plot(time, np.where(summary.active, summary.erle, np.nan), color=LINE, lw=1.2)
    gain.set_ylim(min(low, 0) - 3, high + 5)
    gain.set_ylabel("ERLE, dB")
    gain.set_xlabel("seconds")
    if summary.double_talk.any():
        gain.set_title("shaded: other sound than the echo predicted", loc="left", fontsize=9, color="0.35")
    for axes in (waves, gain):
        axes.set_xlim(0, max(time[-1], 1e-3) if len(time) else 1)
    room.plot(1000 * np.arange(len(response)) / rate, response, color=CLEAN, lw=0.8)
    room.set_xlim(0, 1000 * len(response) / rate)
    room.set_ylabel("learned response")
    room.set_xlabel("milliseconds")
    for axes in (waves, gain, room):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, lw=0.6)
    return figure
