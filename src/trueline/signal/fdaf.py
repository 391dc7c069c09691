"""Frequency-domain LMS: each bin takes a step of its own, normalised by the far end's power in it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._jit import kernel
from .spectra import Spectra, as_complex, as_real

LEAST = 0.1


class Fdaf:
    """W += constrained(rate·conj(X)·E/(½Σ_p|X_p|² + ε)), ε relative to the loudest far end so far."""

    def __init__(self, block: int, partitions: int, rate: float) -> None:
        self.rate = rate
        self.W = np.zeros((1, partitions, block + 1), np.complex64)
        self.loudest = 0.0
        self.resets = 0
        self._G = np.zeros_like(self.W)
        self._row, self._Y = np.zeros(1, np.int64), np.zeros((1, block + 1), np.complex64)
        self._power = np.zeros(block + 1, np.float32)
        self._echo = np.zeros(block, np.float32)

    @property
    def weights(self) -> np.ndarray:
        return self.W[0]

    def output(self, spectra: Spectra) -> np.ndarray:
        self._row[0] = spectra.newest
        self._echo = spectra.estimates(self.W, self._row, self._Y)[0, spectra.block :]
        return self._echo if math.isfinite(self._echo @ self._echo) else np.zeros_like(self._echo)

    def learn(self, spectra: Spectra, mic: np.ndarray) -> None:
        error = (mic - self._echo)[None]
        if not math.isfinite(error[0] @ error[0]):
            self.W[:] = 0
            self.resets += 1
            return
        half_power(spectra.X, self._power)
        self.loudest = max(self.loudest, float(self._power.mean()))
        if self.loudest == 0:
            return
        scale = np.float32(self.rate) / (self._power + np.float32(LEAST * self.loudest))
        steps(spectra.X, spectra.newest, spectra.error_spectra(error)[0] * scale, self._G)
        self.W += spectra.constrained(self._G)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {"W": as_real(self.W)}, {"loudest": self.loudest, "resets": self.resets}

    def adopt(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        self.W[:] = as_complex(arrays["W"])
        self.loudest, self.resets = float(meta["loudest"]), int(meta["resets"])


@kernel(reassociate=True)
def half_power(X, power):
    """½Σ_p|X_p|²."""
    for k in range(X.shape[1]):
        power[k] = 0
    for p in range(X.shape[0]):
        for k in range(X.shape[1]):
            x = X[p, k]
            power[k] += np.float32(0.5) * (x.real * x.real + x.imag * x.imag)


@kernel(reassociate=True)
def steps(X, newest, E, G):
    """G_p = conj(X_p)·E."""
    partitions = X.shape[0]
    for p in range(partitions):
        row = (newest + p) % partitions
        for k in range(X.shape[1]):
            G[0, p, k] = np.conj(X[row, k]) * E[k]
