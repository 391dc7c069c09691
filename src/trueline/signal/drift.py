"""Two clocks: sound cards that sample at slightly different rates make the echo's lag a line in time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

_HALF_WIDTH = 16


class Drift(NamedTuple):
    """The slope of the lag in parts per million, the distance from the line of four windows in five, and the way moved, both in seconds."""

    parts_per_million: float
    residual: float
    moved: float

    @property
    def seen(self) -> bool:
        """A line that moves by more than it scatters; a change of path also moves the lag, but is no line."""
        return abs(self.parts_per_million) > 2 and abs(self.moved) > max(6 * self.residual, 5e-5)


def line(times: np.ndarray, lags: np.ndarray) -> Drift:
    """The robust line (Theil and Sen: the median slope over all pairs) through lags over time."""
    if len(times) < 4:
        return Drift(0.0, math.inf, 0.0)
    keep = np.abs(lags - np.median(lags)) < 0.05
    times, lags = times[keep][:2000], lags[keep][:2000]
    if len(times) < 4:
        return Drift(0.0, math.inf, 0.0)
    i, j = np.triu_indices(len(times), 1)
    slope = float(np.median((lags[j] - lags[i]) / (times[j] - times[i])))
    rest = lags - slope * times
    residual = float(np.quantile(np.abs(rest - np.median(rest)), 0.8))
    return Drift(1e6 * slope, residual, slope * float(times[-1] - times[0]))


def warp(sound: np.ndarray, slope: float, start: int = 0, count: int | None = None, origin: int = 0) -> np.ndarray:
    """``sound`` at times t − slope·t for t = start, start + 1, …, by windowed-sinc interpolation; zero outside of it.

    ``origin`` is the time of its first sample: a piece of a recording can be warped by itself.

    >>> tone = np.sin(0.2 * np.arange(4000))
    >>> late = warp(tone, 1e-3)
    >>> bool(abs(late[2000] - np.sin(0.2 * (2000 - 2.0))) < 1e-3)
    True
    """
    t = np.arange(start, start + (len(sound) if count is None else count), dtype=float)
    at = t - slope * t - origin
    first = np.floor(at).astype(int)
    fraction = at - first
    padded = np.concatenate([np.zeros(_HALF_WIDTH), sound, np.zeros(_HALF_WIDTH + 1)])
    result = np.zeros(len(t))
    for k in range(-_HALF_WIDTH + 1, _HALF_WIDTH + 1):
        distance = k - fraction
        window = 0.5 + 0.5 * np.cos(math.pi * distance / (_HALF_WIDTH + 1))
        inside = np.clip(first + k + _HALF_WIDTH, 0, len(padded) - 1)
        result += padded[inside] * np.sinc(distance) * window
    return result
