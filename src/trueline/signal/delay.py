"""Where the echo begins: the bulk delay between far end and microphone, whether it moves, and whether it is there.

Windowed cross-spectra are summed first and whitened after: Σ_w F*·M, divided by its modulus, is nearly flat where the
microphone holds the far end, and its inverse transform has one peak, at the delay. The peak over the rms of the rest
is 40 and more with an echo and below 18 without. Each window's own peak gives the lag over time: a line with a slope
is a drift of the clocks, a jump is a change of the path. Memory: one spectrum and two numbers a window.
"""

from __future__ import annotations

import math

import numpy as np

from .drift import Drift, line

FOUND = 18.0
EARLIER, ARRIVED = (
    0.05,
    0.3,
)  # seconds before the peak in which the sound may first arrive; the share of the peak it has


class Delay:
    """Add sound in blocks of any size; ask for the lag at the end."""

    def __init__(self, rate: float, longest: float = 1.0) -> None:
        self.rate = rate
        self.longest = max(1, round(longest * rate))
        self.size = 2 ** math.ceil(math.log2(4 * self.longest))
        self.hop = self.size // 2
        self._taper = np.hanning(self.size)
        self._far, self._mic = np.zeros(self.size), np.zeros(self.size)
        self._fill = 0
        self._seen = 0
        self.total = np.zeros(self.size // 2 + 1, complex)
        self.times: list[float] = []
        self.lags: list[float] = []

    def add(self, far: np.ndarray, mic: np.ndarray) -> None:
        done = 0
        while done < len(far):
            count = min(self.size - self._fill, len(far) - done)
            self._far[self._fill : self._fill + count] = far[done : done + count]
            self._mic[self._fill : self._fill + count] = mic[done : done + count]
            self._fill += count
            done += count
            if self._fill == self.size:
                self._window()
                self._far[: -self.hop], self._mic[: -self.hop] = self._far[self.hop :], self._mic[self.hop :]
                self._fill -= self.hop
                self._seen += self.hop

    def _window(self) -> None:
        from scipy import fft

        cross = np.conj(fft.rfft(self._far * self._taper)) * fft.rfft(self._mic * self._taper)
        self.total += cross
        lag, strength = self._peak(cross)
        if strength > FOUND:
            self.times.append((self._seen + self.size / 2) / self.rate)
            self.lags.append(lag)

    def _finish(self) -> None:
        """A recording shorter than a window, or its last piece, counts too."""
        if self._fill > (0 if self._seen == 0 else self.hop):
            self._far[self._fill :] = 0
            self._mic[self._fill :] = 0
            self._window()
            self._fill = 0

    def _near(self, cross: np.ndarray) -> np.ndarray:
        """The whitened correlation within the longest lag either way; nothing where there is no sound."""
        from scipy import fft

        size = np.abs(cross)
        if not size.max() > 0:
            return np.zeros(0)
        whitened = fft.irfft(cross / (size + 1e-9 * size.max()), n=self.size)
        return np.concatenate([whitened[-self.longest :], whitened[: self.longest + 1]])

    def _peak(self, cross: np.ndarray) -> tuple[float, float]:
        """(lag in samples, peak over rms)."""
        near = self._near(cross)
        if not len(near):
            return 0.0, 0.0
        at = int(np.argmax(np.abs(near)))
        strength = float(abs(near[at]) / np.sqrt(np.mean(near**2)))
        offset = 0.0
        if 0 < at < len(near) - 1:  # the top of the parabola through three samples
            a, b, c = np.abs(near[at - 1 : at + 2])
            offset = 0.5 * (a - c) / (a - 2 * b + c) if a - 2 * b + c < 0 else 0.0
        return at - self.longest + float(offset), strength

    def estimate(self) -> tuple[float, float]:
        """(lag in samples, peak over rms); a peak below ``FOUND`` is no echo."""
        self._finish()
        return self._peak(self.total)

    def onset(self) -> int:
        """The lag in samples at which the sound first arrives. The strongest path may be a later one: a wall that
        focuses, a loudspeaker that looks away."""
        near = np.abs(self._near(self.total))
        peak = int(np.argmax(near))
        first = max(0, peak - round(EARLIER * self.rate))
        early = near[first:peak] > ARRIVED * near[peak]
        return (first + int(np.argmax(early)) if early.any() else peak) - self.longest

    def drift(self) -> Drift:
        """How the lag moves over time."""
        return line(np.array(self.times), np.array(self.lags) / self.rate)


class Envelopes:
    """Loudness of both signals every 10 ms: enough to see that one was played at another rate."""

    def __init__(self, rate: float) -> None:
        self.step = max(1, round(rate / 100))
        self._rest = [np.zeros(0), np.zeros(0)]
        self._levels: list[list[np.ndarray]] = [[], []]

    def add(self, far: np.ndarray, mic: np.ndarray) -> None:
        for side, sound in enumerate((far, mic)):
            joined = np.concatenate([self._rest[side], sound]) if len(self._rest[side]) else sound
            whole = len(joined) // self.step * self.step
            self._levels[side].append(
                np.sqrt(np.mean(joined[:whole].reshape(-1, self.step) ** 2, axis=1)).astype(np.float32)
            )
            self._rest[side] = np.array(joined[whole:])

    def mismatch(self) -> tuple[int, int] | None:
        """The pair of common sample rates (far, mic) that explains the microphone much better than equal rates."""
        far, mic = (np.concatenate(side).astype(float) if side else np.zeros(0) for side in self._levels)
        if len(far) < 300 or not (far.any() and mic.any()):
            return None
        common = (8_000, 16_000, 22_050, 32_000, 44_100, 48_000)
        pairs = {a / b: (a, b) for a in common for b in common if a != b and 0.3 < a / b < 3.1}
        plain = _alike(far, mic)
        best = max(pairs, key=lambda ratio: _alike(_stretched(far, ratio), mic))
        return pairs[best] if _alike(_stretched(far, best), mic) > max(0.6, plain + 0.25) else None


def _stretched(levels: np.ndarray, ratio: float) -> np.ndarray:
    """Sound recorded at rate a and taken for rate b lasts a/b times as long."""
    return np.interp(np.arange(int(len(levels) * ratio)) / ratio, np.arange(len(levels)), levels)


def _alike(a: np.ndarray, b: np.ndarray) -> float:
    """The largest correlation of two envelopes over lags of up to a second."""
    count = min(len(a), len(b))
    if count < 200:
        return 0.0
    best = -1.0
    for lag in range(-100, 101, 2):
        x, y = a[max(0, -lag) : count - max(0, lag)], b[max(0, lag) : count - max(0, -lag)]
        x, y = x - x.mean(), y - y.mean()
        size = math.sqrt(float(x @ x) * float(y @ y))
        best = max(best, float(x @ y) / size if size > 0 else -1.0)
    return best
