"""The weights of learners at several rates, row by row: ∝ exp(−η·loss), η = ln K/Δ (aggregate.py has the proof)."""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..simd import Array

if not cython.compiled:  # compiled, these come from rate_hedge.pxd
    from ..objective.loss_interface import Loss
    from .aggregate import mix_loss, posterior, rate


@cython.final
@cython.cclass
class RateHedge:
    """Mixes the scores of so many members; ``clip`` keeps them within the labels seen so far."""

    def __init__(self, loss: Loss, count: int, clip: bool) -> None:
        self.loss, self.clip = loss, clip
        self.share, self.step = np.empty(count), np.empty(count)

    def learn(self, scores: Array, y: Array, weights: Any, losses: Array, totals: Array, out: Array) -> None:
        """Rows in order, a column of ``scores`` each; ``totals`` holds Δ, the mixture's loss and the label range."""
        c = np.ones(len(y)) if weights is None else weights
        count = len(self.share)
        if not (
            scores.shape == (count, len(y))
            and len(c) == len(out) == len(y)
            and len(losses) == count
            and len(totals) == 4
        ):
            raise ValueError("scores, targets and losses do not fit together")
        self.mix(np.ascontiguousarray(scores), np.ascontiguousarray(y), np.ascontiguousarray(c), losses, totals, out)

    def mix(self, scores: Array, y: Array, weights: Array, losses: Array, totals: Array, out: Array) -> int:
        t: cython.Py_ssize_t
        k: cython.Py_ssize_t
        count: cython.Py_ssize_t = self.share.shape[0]
        c: float
        eta: float
        score: float
        mixed: float
        suffered: float
        for t in range(y.shape[0]):
            c = weights[t]
            eta = rate(totals[0], count)
            posterior(losses, count, eta, self.share)
            mixed = 0.0
            for k in range(count):
                score = scores[k, t]
                if self.clip and totals[2] <= totals[3]:
                    score = max(totals[2], min(totals[3], score))
                mixed += self.share[k] * score
                self.step[k] = c * self.loss.value(score, y[t])
            out[t] = mixed
            suffered = c * self.loss.value(mixed, y[t])
            totals[0] += max(0.0, suffered - mix_loss(losses, self.step, count, eta))
            totals[1] += suffered
            for k in range(count):
                losses[k] += self.step[k]
            totals[2] = min(totals[2], y[t])
            totals[3] = max(totals[3], y[t])
        return 0
