"""The weights of learners at several rates, row by row: ∝ exp(−η·loss), η = ln K/Δ (aggregate.py has the proof)."""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..simd import Array

if not cython.compiled:  # compiled, these come from rate_hedge.pxd
    from math import exp, log
    from math import inf as INFINITY

    from ..objective.loss_interface import Loss


def rate(gap: float, count: cython.Py_ssize_t) -> float:
    """η = ln K/Δ; infinity, that is the leader, while Δ is 0."""
    return log(count) / gap if gap > 0.0 else INFINITY


def posterior(losses: Array, count: cython.Py_ssize_t, eta: float, out: Array) -> None:
    """Weights ∝ exp(−η·loss); the leaders alone, equally, when η is infinite; losses are not negative."""
    k: cython.Py_ssize_t
    least: float = losses[0]
    total: float = 0.0
    for k in range(1, count):
        least = min(least, losses[k])
    for k in range(count):
        if eta == INFINITY:
            out[k] = 1.0 if losses[k] <= least * (1.0 + 1e-12) else 0.0
        else:
            out[k] = exp(-eta * (losses[k] - least))
        total += out[k]
    for k in range(count):
        out[k] /= total


def mix_loss(losses: Array, step: Array, count: cython.Py_ssize_t, eta: float) -> float:
    """M_t(η) − M_{t−1}(η) from summed losses before the step, in log space: nothing underflows to a wrong answer."""
    k: cython.Py_ssize_t
    before: float = INFINITY
    after: float = INFINITY
    old: float = 0.0
    new: float = 0.0
    for k in range(count):
        before = min(before, losses[k])
        after = min(after, losses[k] + step[k])
    if eta == INFINITY:
        return after - before
    for k in range(count):
        old += exp(-eta * (losses[k] - before))
        new += exp(-eta * (losses[k] + step[k] - after))
    return after - before - (log(new) - log(old)) / eta


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
