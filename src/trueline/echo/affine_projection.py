"""The two time-domain methods that whiten: affine projection and recursive least squares, in double precision.

apa    w ← w + η X (XᵀX + δI)⁻¹ e over the last K windows X and their errors e
rls    k = Px/(λ + xᵀPx),  w ← w + k e,  P ← (P − kxᵀP)/λ

δ is relative to the loudest window: after a phrase the far end is softer than the room's reverberation, and steps
relative to it would learn that. P's start is relative to the first sound. Both stand still while the window is silent;
RLS stops forgetting while P is large, since what nothing excites would otherwise grow without limit.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from .lms_filter import CHUNK, SlidingWindow

if not cython.compiled:  # compiled, these come from affine_projection.pxd
    from math import fabs, sqrt

    from ..simd import rows_dot
    from .sound_walks import shrink_row, window_add, window_dot, window_row_dot, windows_dot

SILENT: cython.double = 1e-10  # of the loudest window
HUGE: cython.double = 1e100  # a score beyond this is an overflow on its way


@cython.final
@cython.cclass
class AffineProjection:
    """The state of an affine-projection filter."""

    def __init__(self, taps: int, rate: float, order: int, ridge: float) -> None:
        self.window = SlidingWindow(taps, np.float64, order)
        self.rate, self.order, self.ridge = rate, order, ridge
        self.w = np.zeros(taps)
        self.recent = np.zeros(order)  # the last microphone samples, newest first
        self.R = np.zeros((order, order))  # x_{t−m} · x_{t−k}
        self.loudest = 0.0  # ‖x‖² of the loudest window
        self.resets = 0
        self.G = np.zeros((order, order))
        self.e = np.zeros(order)
        self.heard, self.predicted = np.zeros(CHUNK), np.zeros(CHUNK)
        self.mic, self.echo = self.heard, self.predicted

    @property
    def weights(self) -> Any:
        return np.asarray(self.w)[::-1]

    def chunk(self, far: Any, mic: Any, out: Any) -> None:
        """The errors of up to CHUNK samples."""
        count = len(far)
        self.window.take(far)
        heard, left = self.heard[:count], self.predicted[:count]
        heard[:] = mic
        self.project(count)
        np.subtract(heard, left, out=left)
        out[:] = left

    def project(self, count: cython.Py_ssize_t) -> None:
        """Predict each of the samples last taken, then step."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        m: cython.Py_ssize_t
        here: cython.Py_ssize_t
        score: float
        taps: cython.Py_ssize_t = self.window.taps
        for i in range(count):
            for k in range(self.order - 1, 0, -1):
                self.recent[k] = self.recent[k - 1]
                for m in range(self.order - 1, k - 1, -1):  # windows k − 1 and m − 1 have become k and m
                    self.R[m, k] = self.R[m - 1, k - 1]
            self.recent[0] = self.mic[i]
            here = self.window.first + i
            for m in range(self.order):
                self.R[m, 0] = windows_dot(self.window.doubles, here - m, here, taps)
            score = window_dot(self.window.doubles, here, self.w, taps)
            if not fabs(score) < HUGE:
                self.w[:] = 0.0
                score = 0.0
                self.resets += 1
            self.echo[i] = score
            self.loudest = max(self.loudest, self.R[0, 0])
            if not self.R[0, 0] > SILENT * self.loudest:
                continue
            self.e[0] = self.recent[0] - score
            for k in range(1, self.order):
                self.e[k] = self.recent[k] - window_dot(self.window.doubles, here - k, self.w, taps)
            self.solve()
            for k in range(self.order):
                window_add(self.window.doubles, here - k, self.rate * self.e[k], self.w, taps)

    def solve(self) -> None:
        """e ← (R + δI)⁻¹e by Cholesky; a pivot that is not positive leaves its direction out."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        total: float
        root: float
        for j in range(self.order):
            total = self.R[j, j] + self.ridge * self.loudest - rows_dot(self.G, j, self.G, j, 0, j)
            root = sqrt(total) if total > 0.0 else 0.0
            self.G[j, j] = root
            for i in range(j + 1, self.order):
                total = self.R[i, j] - rows_dot(self.G, i, self.G, j, 0, j)
                self.G[i, j] = total / root if root > 0.0 else 0.0
        for i in range(self.order):
            total = self.e[i]
            for k in range(i):
                total -= self.G[i, k] * self.e[k]
            self.e[i] = total / self.G[i, i] if self.G[i, i] > 0.0 else 0.0
        for i in range(self.order - 1, -1, -1):
            total = self.e[i]
            for k in range(i + 1, self.order):
                total -= self.G[k, i] * self.e[k]
            self.e[i] = total / self.G[i, i] if self.G[i, i] > 0.0 else 0.0

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays = {"w": np.asarray(self.w), "mic": np.asarray(self.recent), "R": np.asarray(self.R)}
        return arrays | {"loudest": np.array([self.loudest])} | self.window.to_state(), {"resets": self.resets}

    def adopt(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        np.asarray(self.w)[:], np.asarray(self.recent)[:] = arrays["w"], arrays["mic"]
        np.asarray(self.R)[:] = arrays["R"]
        self.loudest = float(arrays["loudest"][0])
        self.window.adopt(arrays)
        self.resets = int(meta["resets"])


@cython.final
@cython.cclass
class RecursiveLeastSquares:
    """The state of a recursive-least-squares filter."""

    def __init__(self, taps: int, forgetting: float, ridge: float) -> None:
        self.window = SlidingWindow(taps, np.float64)
        self.forgetting, self.ridge = forgetting, ridge
        self.w = np.zeros(taps)
        self.P = np.zeros((taps, taps))
        self.loudest = 0.0  # ‖x‖²
        self.start = 0.0  # P's first diagonal; 0 before any sound
        self.resets = 0
        self.Px = np.zeros(taps)
        self.heard, self.predicted = np.zeros(CHUNK), np.zeros(CHUNK)
        self.mic, self.echo = self.heard, self.predicted

    @property
    def weights(self) -> Any:
        return np.asarray(self.w)[::-1]

    def chunk(self, far: Any, mic: Any, out: Any) -> None:
        """The errors of up to CHUNK samples."""
        count = len(far)
        self.window.take(far)
        heard, left = self.heard[:count], self.predicted[:count]
        heard[:] = mic
        self.recurse(count)
        np.subtract(heard, left, out=left)
        out[:] = left

    def recurse(self, count: cython.Py_ssize_t) -> None:
        """Predict each of the samples last taken, then step."""
        i: cython.Py_ssize_t
        a: cython.Py_ssize_t
        at: cython.Py_ssize_t
        score: float
        norm2: float
        q: float
        trace: float
        forget: float
        share: float
        root: float
        taps: cython.Py_ssize_t = self.window.taps
        for i in range(count):
            at = self.window.first + i
            score = window_dot(self.window.doubles, at, self.w, taps)
            if not fabs(score) < HUGE:
                self.w[:] = 0.0
                self.start = 0.0
                score = 0.0
                self.resets += 1
            self.echo[i] = score
            norm2 = self.window.norms[i]
            self.loudest = max(self.loudest, norm2)
            if not norm2 > SILENT * self.loudest:
                continue
            if self.start == 0.0:
                self.start = 1.0 / (self.ridge * norm2)
                self.P[:, :] = 0.0
                for a in range(taps):
                    self.P[a, a] = self.start
            trace = 0.0
            for a in range(taps):
                self.Px[a] = window_row_dot(self.P, a, self.window.doubles, at, taps)
                trace += self.P[a, a]
            q = window_dot(self.window.doubles, at, self.Px, taps)
            if not 0.0 <= q < HUGE:  # rounding has cost P its sign: begin again
                self.start = 0.0
                self.resets += 1
                continue
            forget = self.forgetting if trace < taps * self.start else 1.0
            share = 1.0 / (forget + q)
            for a in range(taps):
                self.w[a] += share * (self.mic[i] - score) * self.Px[a]
            root = sqrt(share)
            for a in range(taps):
                self.Px[a] *= root
            for a in range(taps):
                shrink_row(self.Px, self.Px[a], 1.0 / forget, self.P, a)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays = {"w": np.asarray(self.w), "P": np.asarray(self.P), "scale": np.array([self.loudest, self.start])}
        return arrays | self.window.to_state(), {"resets": self.resets}

    def adopt(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        np.asarray(self.w)[:], np.asarray(self.P)[:] = arrays["w"], arrays["P"]
        self.loudest, self.start = arrays["scale"].tolist()
        self.window.adopt(arrays)
        self.resets = int(meta["resets"])
