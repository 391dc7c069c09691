"""The best fixed filter in hindsight, from near-Toeplitz sums: no window is kept and none is multiplied out.

The Gram matrix of all windows has G[i+1, j+1] = G[i, j] − s[T−1−i]·s[T−1−j], so its first row, the autocorrelation
r[k] = Σ_t s[t]s[t−k], and the last samples give all of it at the end. With the cross-correlation b[k] = Σ_t y[t]s[t−k]
and Σ y² the loss of every fixed filter is known exactly.
"""

from __future__ import annotations

import math

import numpy as np

from ..certificates.certificate import Assumption, Status
from ..certificates.regret import RegretCertificate, bound_status, rounded_up
from ..online import best_fixed, sums
from ..online.regret import against
from .lms_filter import LmsFilter, add_lags

THEOREM = "Widrow–Hoff: L ≤ L_u/(1 − κ) + ‖u‖²/η"


class Toeplitz:
    """Running auto- and cross-correlation over the taps, and the microphone's energy."""

    def __init__(self, taps: int) -> None:
        self.r, self.b, self.energy = np.zeros(taps), np.zeros(taps), np.zeros(1)

    def add(self, core: LmsFilter, count: int) -> None:
        """The samples that the filter took last."""
        window, mic = core.window, core.heard[:count]
        add_lags(window.signal[window.first : window.head].astype(float), mic, count, self.r, self.b)
        self.energy[0] = np.cumsum(np.concatenate([self.energy, mic * mic]))[-1]  # one after the other: no blocks

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


def lms_certificate(core: LmsFilter, toeplitz: Toeplitz) -> RegretCertificate:
    """Loss, regret against the best fixed filter, and the theorem's bound at its best comparator."""
    eta, largest, suffered, resets = core.rate, core.loudest, 2 * core.loss, core.resets
    last = core.window.recent()[::-1]
    kappa = eta * largest
    remedy = f"use a rate below {1 / largest:.3g}, or method='nlms'" if largest > 0 else ""
    assumptions = (
        Assumption("κ = rate·max‖x‖² < 1", kappa < 1, kappa, 1.0, remedy),
        Assumption("the filter never began again", resets == 0, float(resets), 0.0),
    )
    G = toeplitz.moments(last)
    # Every entry is the sum over all samples less a few products: off by that sum's rounding, whatever its own size.
    gamma = best_fixed.UNIT * (core.samples + len(last) + 16)
    sizes = np.sqrt(np.append(np.full(len(last), G[1, 1]), G[-1, -1]))
    u = sums.best(G, 0.0, False)[1:]
    A, b, square = G[1:-1, 1:-1], G[1:-1, -1], float(G[-1, -1])
    found = best_fixed.least_squares(A, b, square, sizes[:-1], float(sizes[-1]), gamma, u)
    least = best_fixed.stated(u, *found, square)
    bound, bound_comparator = math.inf, None
    if kappa < 1 and resets == 0:
        bound_comparator = sums.best(G, (1 - kappa) / eta, False)[1:]
        upper = best_fixed.least_squares(A, b, square, sizes[:-1], float(sizes[-1]), gamma, bound_comparator).upper
        bound = upper / (1 - kappa) + float(bound_comparator @ bound_comparator) / eta
        squares = 2.0 * float(np.finfo(last.dtype).eps)  # what the squared errors, in the filter's precision, are off
        bound = rounded_up(bound, core.samples) * (1.0 + squares)
    status = bound_status(suffered, bound, assumptions)
    return RegretCertificate(
        status=status, assumptions=assumptions,
        advice="" if status is Status.PROVEN else f"the rate is too large for this far end: {remedy}",
        examples=core.samples, loss=suffered, bound=bound, bound_comparator=bound_comparator,
        theorem=THEOREM, **against(least, suffered),
    )  # fmt: skip


def nlms_certificate(core: LmsFilter) -> RegretCertificate:
    """The same theorem on losses weighted by 1/(ε + ‖x‖²), κ = η, against the silent filter u = 0."""
    eta, suffered, silent, resets = core.rate, 2 * core.weighted_loss, 2 * core.silent_loss, core.resets
    assumptions = (
        Assumption("κ = rate < 1", eta < 1, eta, 1.0, "use a rate below 1"),
        Assumption("the filter never began again", resets == 0, float(resets), 0.0),
    )
    bound = rounded_up(silent / (1 - eta), core.samples) if eta < 1 else math.inf
    return RegretCertificate(
        status=bound_status(suffered, bound, assumptions), assumptions=assumptions,
        advice="" if eta < 1 and resets == 0 else "use a rate below 1", examples=core.samples, loss=suffered,
        bound=bound, theorem=f"{THEOREM}, losses weighted by 1/(ε + ‖x‖²), u = 0",
    )  # fmt: skip


def no_theorem(method: str, why: str) -> RegretCertificate:
    return RegretCertificate(status=Status.NOT_PROVEN, advice=f"method {method!r} {why}")
