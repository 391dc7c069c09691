"""LMS and normalised LMS over sliding windows, with the sums of their theorem.

lms    w ← w + η e x               the theorem L ≤ L_u/(1 − κ) + ‖u‖²/η needs κ = η·max‖x‖² < 1
nlms   w ← w + η/(ε + ‖x‖²) e x    blind to the loudness of the far end

Everything here goes sample by sample in the order of arrival, so a signal cut into other blocks gives the same bits.
Sums over a window are in the signal's own precision, so float32 runs at float32's speed.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..simd import Array

if not cython.compiled:  # compiled, these come from lms_filter.pxd
    from .sound_walks import single_window_add, single_window_dot, window_add, window_dot

CHUNK = 4096  # samples taken at a time
HUGE: cython.double = 1e100  # a score or step beyond this is an overflow on its way


@cython.final
@cython.cclass
class SlidingWindow:
    """``taps`` samples ending at each new one; ``history`` more behind them for methods that look further back.

    Samples are written once and never moved, except that a full buffer starts again at its front (once in thousands of
    samples), so no window is ever copied. Window i of the samples last taken is signal[first + i : first + i + taps],
    oldest sample first, and norms[i] its ‖x‖²: two multiplications a sample instead of a whole walk.
    """

    def __init__(self, taps: int, dtype: Any, history: int = 0) -> None:
        self.taps = taps
        self.lead = taps + history
        self.signal = np.zeros(self.lead + max(4 * self.lead, 4 * CHUNK), dtype)
        self.single = dtype is np.float32
        self.singles = self.signal if self.single else np.zeros(0, np.float32)
        self.doubles = np.zeros(0) if self.single else self.signal
        self.head = self.lead
        self.first = 0
        self.norms = np.zeros(CHUNK)
        self.norm2 = 0.0  # of the newest window
        self.age = 0  # samples since it was last summed afresh

    def take(self, far: Any) -> None:
        """Up to CHUNK new samples."""
        count = len(far)
        if self.head + count > len(self.signal):
            self.signal[: self.lead] = self.signal[self.head - self.lead : self.head]
            self.head = self.lead
        self.signal[self.head : self.head + count] = far
        self.slide_norms(count)
        self.first = self.head - self.taps + 1
        self.head += count

    def sample(self, at: cython.Py_ssize_t) -> float:
        """Of either precision."""
        return float(self.singles[at]) if self.single else self.doubles[at]

    def slide_norms(self, count: cython.Py_ssize_t) -> None:
        """‖x‖² of each new window: one sample enters, one leaves; summed afresh once a window against rounding."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        new: float
        old: float
        total: float = self.norm2
        for i in range(self.head, self.head + count):
            new = self.sample(i)
            old = self.sample(i - self.taps)
            total = max(total + (new * new - old * old), 0.0)
            self.age += 1
            if self.age >= self.taps:
                self.age = 0
                total = 0.0
                for j in range(i - self.taps + 1, i + 1):
                    new = self.sample(j)
                    total += new * new
            self.norms[i - self.head] = total
        self.norm2 = total

    def recent(self) -> Any:
        """The last samples, oldest first: all that the next window needs."""
        return self.signal[self.head - self.lead : self.head]

    def to_state(self) -> dict[str, Any]:
        return {"recent": self.recent().copy(), "running": np.array([self.norm2, float(self.age)])}

    def adopt(self, arrays: dict[str, Any]) -> None:
        self.head = self.lead
        self.signal[: self.lead] = arrays["recent"]
        self.norm2, self.age = float(arrays["running"][0]), int(arrays["running"][1])


@cython.final
@cython.cclass
class LmsFilter:
    """The weights of an LMS or NLMS filter, and what its theorem sums."""

    def __init__(self, taps: int, normalised: bool, rate: float, epsilon: float, dtype: Any) -> None:
        self.window = SlidingWindow(taps, dtype)
        self.rate, self.epsilon, self.normalised = rate, epsilon, normalised
        self.w = np.zeros(taps, dtype)
        self.single_w = self.w if self.window.single else np.zeros(0, np.float32)
        self.double_w = np.zeros(0) if self.window.single else self.w
        self.samples = 0
        self.loss = 0.0  # Σ ½e²
        self.weighted_loss = 0.0  # Σ ½e²·step/rate
        self.silent_loss = 0.0  # the same of the silent filter
        self.loudest = 0.0  # the largest ‖x‖²
        self.resets = 0
        self.rounded = np.zeros(CHUNK, dtype)  # the microphone in the filter's precision
        self.heard = np.zeros(CHUNK)
        self.predicted = np.zeros(CHUNK)
        self.mic, self.echo = self.heard, self.predicted

    @property
    def weights(self) -> Any:
        """The impulse response: the newest sample's weight first."""
        return self.w[::-1]

    def chunk(self, far: Any, mic: Any, out: Any) -> None:
        """The errors of up to CHUNK samples."""
        count = len(far)
        self.window.take(far)
        self.rounded[:count] = mic
        heard, left = self.heard[:count], self.predicted[:count]
        heard[:] = self.rounded[:count]
        self.learn(count)
        np.subtract(heard, left, out=left)
        out[:] = left  # a cast in an assignment needs no buffer

    def learn(self, count: cython.Py_ssize_t) -> None:
        """Predict each of the samples last taken, then step."""
        i: cython.Py_ssize_t
        at: cython.Py_ssize_t
        score: float
        error: float
        step: float
        share: float
        norm2: float
        taps: cython.Py_ssize_t = self.window.taps
        for i in range(count):
            at = self.window.first + i
            norm2 = self.window.norms[i]
            if self.window.single:
                score = single_window_dot(self.window.singles, at, self.single_w, taps)
            else:
                score = window_dot(self.window.doubles, at, self.double_w, taps)
            step = self.rate / (self.epsilon + norm2) if self.normalised else self.rate
            error = self.mic[i] - score
            if not usable(score, error, step, norm2):  # the rate is too large: begin again from nothing
                self.single_w[:] = 0.0
                self.double_w[:] = 0.0
                self.resets += 1
                score = 0.0
                error = self.mic[i]
            self.echo[i] = score
            if not usable(score, error, step, norm2):
                continue
            share = step / self.rate
            self.samples += 1
            self.loss += 0.5 * error * error
            self.weighted_loss += share * (0.5 * error * error)
            self.silent_loss += share * (0.5 * self.mic[i] * self.mic[i])
            self.loudest = max(self.loudest, norm2)
            if self.window.single:
                single_window_add(self.window.singles, at, step * error, self.single_w, taps)
            else:
                window_add(self.window.doubles, at, step * error, self.double_w, taps)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        sums = np.array([self.samples, self.loss, self.loudest, self.weighted_loss, self.silent_loss])
        return {"weights": self.w.copy(), "sums": sums} | self.window.to_state(), {"resets": self.resets}

    def adopt(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self.w[:] = arrays["weights"]
        samples, self.loss, self.loudest, self.weighted_loss, self.silent_loss = arrays["sums"].tolist()
        self.samples = int(samples)
        self.window.adopt(arrays)
        self.resets = int(meta["resets"])


def usable(score: float, error: float, step: float, norm2: float) -> bool:
    """Whether none of these is an overflow on its way: one comparison for three of them, which NaN fails."""
    shove: float = step * error
    return score * score + error * error + shove * shove <= HUGE * HUGE and norm2 <= HUGE


def add_lags(signal: Array, mic: Array, count: cython.Py_ssize_t, r: Array, b: Array) -> None:
    """r += s[t]·s[t−k] and b += y[t]·s[t−k] for ``count`` samples t, the longest lag k first.

    The windows are those of ``signal`` from its beginning, as it lies: lags run the other way.
    """
    i: cython.Py_ssize_t
    taps: cython.Py_ssize_t = r.shape[0]
    for i in range(count):
        window_add(signal, i, signal[i + taps - 1], r, taps)
        window_add(signal, i, mic[i], b, taps)
