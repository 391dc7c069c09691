"""The two time-domain methods that whiten: affine projection and recursive least squares, in double precision.

apa    w ← w + η X (XᵀX + δI)⁻¹ e over the last K windows X and their errors e
rls    k = Px/(λ + xᵀPx),  w ← w + k e,  P ← (P − kxᵀP)/λ

δ is relative to the loudest window: after a phrase the far end is softer than the room's reverberation, and steps
relative to it would learn that. P's start is relative to the first sound. Both stand still while the window is silent;
RLS stops forgetting while P is large, since what nothing excites would otherwise grow without limit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._jit import kernel
from .window import CHUNK, Window

SILENT = 1e-10  # of the loudest window


class Projection:
    """The state of an affine-projection filter."""

    def __init__(self, taps: int, rate: float, order: int, ridge: float) -> None:
        self.window = Window(taps, np.float64, order)
        self.rate, self.order, self.ridge = rate, order, ridge
        self.w = np.zeros(taps)
        self.recent = np.zeros(order)  # the last microphone samples, newest first
        self.R = np.zeros((order, order))  # x_{t−m} · x_{t−k}
        self.loudest = np.zeros(1)  # ‖x‖² of the loudest window
        self.resets = 0
        self._G, self._e = np.zeros((order, order)), np.zeros(order)
        self._mic = np.zeros(CHUNK)
        self._echo = np.zeros(CHUNK)

    @property
    def weights(self) -> np.ndarray:
        return self.w[::-1]

    def chunk(self, far: np.ndarray, mic: np.ndarray, out: np.ndarray) -> None:
        count = len(far)
        rows = self.window.rows(far)
        self._mic[:count] = mic
        self.resets += project(
            rows,
            self._mic,
            count,
            self.w,
            self.recent,
            self.R,
            self.loudest,
            self._G,
            self._e,
            self.rate,
            self.ridge,
            self._echo,
        )
        left = self._echo[:count]
        np.subtract(self._mic[:count], left, out=left)
        out[:] = left

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {"w": self.w, "mic": self.recent, "R": self.R, "loudest": self.loudest} | self.window.to_state(), {
            "resets": self.resets
        }

    def adopt(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        self.w[:], self.recent[:], self.R[:] = arrays["w"], arrays["mic"], arrays["R"]
        self.loudest[:] = arrays["loudest"]
        self.window.adopt(arrays)
        self.resets = int(meta["resets"])


class Recursion:
    """The state of a recursive-least-squares filter."""

    def __init__(self, taps: int, forgetting: float, ridge: float) -> None:
        self.window = Window(taps, np.float64)
        self.forgetting, self.ridge = forgetting, ridge
        self.w = np.zeros(taps)
        self.P = np.zeros((taps, taps))
        self.scale = np.zeros(2)  # the loudest ‖x‖²; P's start, 0 before any sound
        self.resets = 0
        self._Px = np.zeros(taps)
        self._mic = np.zeros(CHUNK)
        self._echo = np.zeros(CHUNK)

    @property
    def weights(self) -> np.ndarray:
        return self.w[::-1]

    def chunk(self, far: np.ndarray, mic: np.ndarray, out: np.ndarray) -> None:
        count = len(far)
        rows = self.window.rows(far)
        self._mic[:count] = mic
        self.resets += recurse(
            rows, self._mic, count, self.w, self.P, self._Px, self.scale, self.forgetting, self.ridge, self._echo
        )
        left = self._echo[:count]
        np.subtract(self._mic[:count], left, out=left)
        out[:] = left

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {"w": self.w, "P": self.P, "scale": self.scale} | self.window.to_state(), {"resets": self.resets}

    def adopt(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        self.w[:], self.P[:], self.scale[:] = arrays["w"], arrays["P"], arrays["scale"]
        self.window.adopt(arrays)
        self.resets = int(meta["resets"])


@kernel
def solve(G, e):
    """e ← G⁻¹e by Cholesky; a pivot that is not positive leaves its direction out."""
    n = e.size
    for j in range(n):
        pivot = G[j, j]
        for k in range(j):
            pivot -= G[j, k] * G[j, k]
        root = math.sqrt(pivot) if pivot > 0.0 else 0.0
        G[j, j] = root
        for i in range(j + 1, n):
            total = G[i, j]
            for k in range(j):
                total -= G[i, k] * G[j, k]
            G[i, j] = total / root if root > 0.0 else 0.0
    for i in range(n):
        total = e[i]
        for k in range(i):
            total -= G[i, k] * e[k]
        e[i] = total / G[i, i] if G[i, i] > 0.0 else 0.0
    for i in range(n - 1, -1, -1):
        total = e[i]
        for k in range(i + 1, n):
            total -= G[k, i] * e[k]
        e[i] = total / G[i, i] if G[i, i] > 0.0 else 0.0


@kernel(reassociate=True)
def overlap(signal, a, b, width):
    """The dot product of two windows."""
    x, z = signal[a : a + width], signal[b : b + width]
    total = 0.0
    for j in range(width):
        total += x[j] * z[j]
    return total


@kernel
def project(rows, mic, count, w, recent, R, loudest, G, e, rate, ridge, out):
    """Affine projection over ``count`` rows; returns how often it had to begin again."""
    order = recent.size
    resets = 0
    for i in range(count):
        for k in range(order - 1, 0, -1):
            recent[k] = recent[k - 1]
            for m in range(order - 1, k - 1, -1):  # windows k − 1 and m − 1 have become k and m
                R[m, k] = R[m - 1, k - 1]
        recent[0] = mic[i]
        here = rows.first + i
        for m in range(order):
            R[m, 0] = overlap(rows.signal, here - m, here, rows.width)
        score = rows.dot(i, w)
        if not abs(score) < 1e100:
            w[:] = 0.0
            score = 0.0
            resets += 1
        out[i] = score
        loudest[0] = max(loudest[0], R[0, 0])
        if not R[0, 0] > SILENT * loudest[0]:
            continue
        for k in range(order):
            e[k] = recent[k] - rows.dot(i - k, w) if k > 0 else recent[0] - score
        for k in range(order):
            for m in range(k, order):
                G[m, k] = R[m, k]
            G[k, k] += ridge * loudest[0]
        solve(G, e)
        for k in range(order):
            rows.add(i - k, rate * e[k], w)
    return resets


@kernel(reassociate=True)
def times(P, rows, i, Px):
    """Px, row by row; returns xᵀPx."""
    x = rows.signal[rows.first + i : rows.first + i + rows.width]
    q = 0.0
    for a in range(Px.size):
        total = 0.0
        for b in range(Px.size):
            total += P[a, b] * x[b]
        Px[a] = total
        q += total * x[a]
    return q


@kernel(reassociate=True)
def recurse(rows, mic, count, w, P, Px, scale, forgetting, ridge, out):
    """Recursive least squares over ``count`` rows; returns how often it had to begin again."""
    taps = w.size
    resets = 0
    for i in range(count):
        score = rows.dot(i, w)
        if not abs(score) < 1e100:
            w[:] = 0.0
            scale[1] = 0.0
            score = 0.0
            resets += 1
        out[i] = score
        norm2 = rows.norm2(i)
        scale[0] = max(scale[0], norm2)
        if not norm2 > SILENT * scale[0]:
            continue
        if scale[1] == 0.0:
            scale[1] = 1.0 / (ridge * norm2)
            P[:, :] = 0.0
            for a in range(taps):
                P[a, a] = scale[1]
        q = times(P, rows, i, Px)
        if not (0.0 <= q < 1e100):  # rounding has cost P its sign: begin again
            scale[1] = 0.0
            resets += 1
            continue
        trace = 0.0
        for a in range(taps):
            trace += P[a, a]
        forget = forgetting if trace < taps * scale[1] else 1.0
        error = mic[i] - score
        share = 1.0 / (forget + q)
        for a in range(taps):
            w[a] += share * error * Px[a]
        root = math.sqrt(share)
        for a in range(taps):
            Px[a] *= root
        grow = 1.0 / forget
        for a in range(taps):
            va = Px[a]
            for b in range(taps):
                P[a, b] = (P[a, b] - va * Px[b]) * grow
    return resets
