"""What a canceller achieved, block by block, and what was wrong with the sound it was given."""

from __future__ import annotations

import math

import numpy as np

TALKING = 0.05  # error energy over echo energy above which somebody else is heard
FLOOR = 1e-12


class Meter:
    """Energies of far end, microphone, clean signal and echo in every block: four numbers a block."""

    def __init__(self, block: int, seconds: float) -> None:
        self.block = block
        self.smoothing = math.exp(-seconds / 0.1)
        self._part = np.zeros(4)
        self._fill = 0
        self._rows: list[np.ndarray] = []

    def add(self, far: np.ndarray, mic: np.ndarray, clean: np.ndarray) -> None:
        sounds = np.stack([far, mic, clean, mic - clean]).astype(float)
        done = 0
        while done < len(mic):
            count = min(self.block - self._fill, len(mic) - done)
            self._part += (sounds[:, done : done + count] ** 2).sum(axis=1)
            self._fill += count
            done += count
            if self._fill == self.block:
                self._close()

    def _close(self) -> None:
        self._rows.append(self._part)
        self._part, self._fill = np.zeros(4), 0

    def energies(self) -> np.ndarray:
        """One row a block, the last one perhaps shorter: far, mic, clean, echo."""
        if self._fill:
            self._close()
        return np.array(self._rows) if self._rows else np.zeros((0, 4))

    def report(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(ERLE in dB, double-talk flags, far-end activity) of every block, from energies smoothed over 100 ms."""
        from scipy.signal import lfilter

        rows = self.energies()
        if not len(rows):
            return np.zeros(0), np.zeros(0, bool), np.zeros(0, bool)
        smooth = lfilter([1 - self.smoothing], [1, -self.smoothing], rows, axis=0)
        far, mic, clean, echo = smooth.T
        active = far > 1e-4 * far.max() if far.max() > 0 else np.zeros(len(far), bool)
        talking = active & (clean > TALKING * echo) & (mic > 1e-6 * mic.max())
        return 10 * np.log10((mic + FLOOR) / (clean + FLOOR)), talking, active


class Levels:
    """Peak, silence and clipping of one signal: runs of three or more samples at its very peak."""

    def __init__(self) -> None:
        self.peak, self.flat, self.count = 0.0, 0, 0

    def add(self, sound: np.ndarray) -> None:
        if not len(sound):
            return
        size = np.abs(sound)
        top = float(size.max())
        if top > self.peak * 1.0005:
            self.peak, self.flat = top, 0
        at_top = size >= 0.9995 * self.peak
        if self.peak > 0 and at_top.any():
            runs = at_top[2:] & at_top[1:-1] & at_top[:-2]
            self.flat += int(runs.sum())
        self.count += len(sound)

    @property
    def silent(self) -> bool:
        return self.peak < 1e-6

    @property
    def clipped(self) -> bool:
        return self.flat > max(3, 1e-5 * self.count) and not self.silent
