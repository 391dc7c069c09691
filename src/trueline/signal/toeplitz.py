"""The best fixed filter in hindsight, from near-Toeplitz sums: no window is kept and none is multiplied out.

The Gram matrix of all windows has G[i+1, j+1] = G[i, j] − s[T−1−i]·s[T−1−j], so its first row, the autocorrelation
r[k] = Σ_t s[t]s[t−k], and the last samples give all of it at the end. With the cross-correlation b[k] = Σ_t y[t]s[t−k]
and Σ y² the loss of every fixed filter is known exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._jit import kernel
from ..certificates.certificate import Assumption, Status
from ..certificates.regret import RegretCertificate
from ..data.rows import Sliding
from ..online import state, sums

THEOREM = "Widrow–Hoff: L ≤ L_u/(1 − κ) + ‖u‖²/η"


class Toeplitz:
    """Running auto- and cross-correlation over the taps, and the microphone's energy."""

    def __init__(self, taps: int) -> None:
        self.r, self.b, self.energy = np.zeros(taps), np.zeros(taps), np.zeros(1)

    def add(self, rows: Sliding, mic: np.ndarray, count: int) -> None:
        correlate(rows.signal, rows.first + rows.width - 1, mic, count, self.r, self.b, self.energy)

    def moments(self, last: np.ndarray) -> np.ndarray:
        """Σ z zᵀ over z = (1, x, y) with x newest first, the constant's row left zero; ``last`` is newest first."""
        taps, r, b = len(self.r), self.r[::-1], self.b[::-1]
        G = np.zeros((taps + 2, taps + 2))
        last = last.astype(float)
        for k in range(taps):
            diagonal = r[k] - np.concatenate([[0.0], np.cumsum(last[: taps - k - 1] * last[k : taps - 1])])
            at = np.arange(1, taps - k + 1)
            G[at, at + k] = G[at + k, at] = diagonal
        G[1:-1, -1] = G[-1, 1:-1] = b
        G[-1, -1] = self.energy[0]
        return G


def lms_certificate(numbers: np.ndarray, toeplitz: Toeplitz, last: np.ndarray, resets: int) -> RegretCertificate:
    """Loss, regret against the best fixed filter, and the theorem's bound at its best comparator."""
    eta, largest, suffered = float(numbers[state.RATE]), float(numbers[state.NORM2]), 2 * float(numbers[state.LOSS])
    kappa = eta * largest
    held = kappa < 1 and resets == 0
    remedy = f"use a rate below {1 / largest:.3g}, or method='nlms'" if largest > 0 else ""
    G = toeplitz.moments(last)
    small = 1e-12 * max(float(np.trace(G[1:-1, 1:-1])) / len(last), 1e-300)
    comparator = sums.best(G, small, False)
    best = sums.loss_of(G, comparator)
    bound, bound_comparator = math.inf, comparator
    if held:
        bound_comparator = sums.best(G, (1 - kappa) / eta, False)
        size = float(bound_comparator @ bound_comparator)
        bound = sums.loss_of(G, bound_comparator) / (1 - kappa) + size / eta
    return RegretCertificate(
        status=Status.PROVEN if held else Status.VOID,
        assumptions=(Assumption("κ = rate·max‖x‖² < 1", kappa < 1, kappa, 1.0, remedy),),
        advice="" if held else f"the rate is too large for this far end: {remedy}",
        examples=int(numbers[state.ROUNDS]), loss=suffered, best_fixed_loss=best, regret=suffered - best, bound=bound,
        comparator=comparator[1:], bound_comparator=bound_comparator[1:], theorem=THEOREM,
    )  # fmt: skip


def nlms_certificate(numbers: np.ndarray, resets: int) -> RegretCertificate:
    """The same theorem on losses weighted by 1/(ε + ‖x‖²), κ = η, against the silent filter u = 0."""
    eta, suffered = float(numbers[state.RATE]), 2 * float(numbers[state.STEP_LOSS])
    silent = 2 * float(numbers[state.ZERO_LOSS])
    held = eta < 1 and resets == 0
    return RegretCertificate(
        status=Status.PROVEN if held else Status.VOID,
        assumptions=(Assumption("κ = rate < 1", eta < 1, eta, 1.0, "use a rate below 1"),),
        advice="" if held else "use a rate below 1",
        examples=int(numbers[state.ROUNDS]), loss=suffered, best_fixed_loss=silent, regret=suffered - silent,
        bound=silent / (1 - eta) if held else math.inf,
        theorem=f"{THEOREM}, losses weighted by 1/(ε + ‖x‖²), u = 0",
    )  # fmt: skip


def no_theorem(method: str, why: str) -> RegretCertificate:
    return RegretCertificate(status=Status.NOT_PROVEN, advice=f"method {method!r} {why}")


@kernel(reassociate=True)
def correlate(signal: Any, head: int, mic: Any, count: int, r: Any, b: Any, energy: Any) -> None:
    """r += s[t]·s[t−k] and b += y[t]·s[t−k] for each new sample t, the longest lag k first."""
    for i in range(count):
        s, y = float(signal[head + i]), float(mic[i])
        energy[0] += y * y
        x = signal[head + i - r.size + 1 : head + i + 1]
        for j in range(r.size):  # oldest first, as the signal lies; lags run the other way
            past = float(x[j])
            r[j] += s * past
            b[j] += y * past
