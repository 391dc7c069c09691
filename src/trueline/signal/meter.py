"""What a canceller achieved, block by block, and what was wrong with the sound it was given."""

from __future__ import annotations

import array
import math

import numpy as np

TALKING = 0.05  # error energy over echo energy above which somebody else is heard
FLOOR = 1e-12


class Meter:
    """Energies of far end, microphone, clean signal and echo, peaks of the middle two: six numbers a block."""

    def __init__(self, block: int, seconds: float) -> None:
        self.block, self.seconds = block, seconds
        self.smoothing = math.exp(-seconds / 0.1)
        self._part = np.zeros(6)
        self._fill = 0
        self._rows = array.array("f")  # 24 bytes a block

    def add(self, far: np.ndarray, mic: np.ndarray, clean: np.ndarray) -> None:
        sounds = np.stack([far, mic, clean, mic - clean]).astype(float)
        done = 0
        while done < len(mic):
            count = min(self.block - self._fill, len(mic) - done)
            piece = sounds[:, done : done + count]
            self._part[:4] += (piece**2).sum(axis=1)
            np.maximum(self._part[4:], np.abs(piece[1:3]).max(axis=1), out=self._part[4:])
            self._fill += count
            done += count
            if self._fill == self.block:
                self._close()

    def _close(self) -> None:
        self._rows.extend(self._part)
        self._part, self._fill = np.zeros(6), 0

    def energies(self) -> np.ndarray:
        """One row a block, the last one perhaps shorter: energy of far, mic, clean, echo; peak of mic, clean."""
        if self._fill:
            self._close()
        return np.array(self._rows, dtype=float).reshape(-1, 6)

    def report(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(ERLE in dB, double-talk flags, far-end activity) of every block, from energies smoothed over 100 ms."""
        from scipy.signal import lfilter

        rows = self.energies()
        if not len(rows):
            return np.zeros(0), np.zeros(0, bool), np.zeros(0, bool)
        smooth = lfilter([1 - self.smoothing], [1, -self.smoothing], rows, axis=0)
        far, mic, clean, echo = smooth.T[:4]
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


def decibels(above: float, below: float) -> float:
    """10·log₁₀ of a ratio of energies; 0 where there is nothing to compare."""
    return 10 * math.log10(above / max(below, 1e-30)) if above > 0 else 0.0


class Summary:
    """ERLE in dB: over the first second with a far end, over all of it, and over the last half of the blocks in which
    nobody else is heard; echo return loss before and after; the share of double talk. Not a number where there is
    nothing to measure."""

    def __init__(self, meter: Meter) -> None:
        self.erle, self.double_talk, self.active = meter.report()
        self.energies = meter.energies()
        heard = self.energies[self.active]
        quiet = self.energies[self.active & ~self.double_talk]
        late = quiet[len(quiet) // 2 :]
        self.first = self._of(heard[: max(1, round(1 / meter.seconds))])
        self.overall = self._of(heard)
        self.converged = self._of(late)
        self.return_loss = decibels(heard[:, 0].sum(), heard[:, 1].sum()) if len(heard) else math.nan
        self.talking = float(self.double_talk.sum() / max(1, self.active.sum()))

    @staticmethod
    def _of(rows: np.ndarray) -> float:
        return decibels(rows[:, 1].sum(), rows[:, 2].sum()) if len(rows) else math.nan
