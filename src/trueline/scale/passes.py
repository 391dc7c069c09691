"""The job of one Newton iteration: loss, gradient and Hessian at θ, and the proof of the step that led there.

At θ every partition sends Σ c·V, Σ c·V'·x̃ and Σ c·V''·x̃x̃ᵀ, (d + 1)² numbers whatever its rows. The same job
certifies the step that led to θ = θ₀ + Δ: the slopes a = V'(s₀) + V''(s₀)·x̃Δ that the quadratic model foretold
balance by construction, so Σ c·V*(a) and −X̃ᵀ(c∘a) give a dual value, and with it the gap, as on one machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._jit import teach
from ..batch.design import Design
from ..batch.duality import NO_OFFSET, conjugate_sum, upper_conjugate_sum
from ..batch.risk import Risk
from ..batch.scaled import ScaledPenalty
from ..model.training import designed
from . import statistic

HEAD = 6  # rows, loss, conjugates, Σ|c·a|, Σ curvature, smallest margin


@dataclasses.dataclass(frozen=True)
class Pass:
    """One job at θ; ``before`` is (θ₀, Δ) of the step that led there."""

    declared: dict[str, Any]
    options: dict[str, Any]
    schema: Any
    scan_terms: tuple[str, ...]
    loss: Any
    classes: tuple[Any, ...]
    shift: np.ndarray
    scale: np.ndarray
    intercept: bool
    total: float
    theta: np.ndarray
    before: tuple[np.ndarray, np.ndarray] | None

    def run(self, number: int, tables: Any) -> bytes:
        teach(self.loss)
        encoder = statistic.encoder_of(number, tables, self.declared, self.options)
        if encoder is None:
            return statistic.NOTHING
        size = len(self.theta)
        sums = np.zeros(HEAD + 2 * size + size * size)
        sums[5] = math.inf
        for block in encoder:
            y = self._targets(block.y, encoder.target_levels)
            c = np.full(len(y), 1.0 / self.total) if block.weights is None else block.weights / self.total
            self._add(sums, self._design(block), y, c)
        return sums.tobytes()

    def merge(self, answers: Sequence[bytes]) -> bytes:
        found = [np.frombuffer(raw) for raw in answers if raw != statistic.NOTHING]
        if not found:
            return statistic.NOTHING
        total = np.sum(found, axis=0)
        total[5] = min(one[5] for one in found)
        return total.tobytes()

    def _design(self, block: Any) -> np.ndarray:
        """The final design of a block that may lack levels."""
        X = block.X
        if block.terms != self.scan_terms:
            place = {term: k for k, term in enumerate(self.scan_terms)}
            wide = np.zeros((len(X), len(self.scan_terms)))
            wide[:, [place[term] for term in block.terms]] = X
            X = wide
        return designed(self.schema, X, self.scan_terms)

    def _targets(self, y: Any, levels: Sequence[str]) -> np.ndarray:
        if not self.classes:
            return np.ascontiguousarray(y, dtype=float)
        codes = (
            np.array([self.classes.index(level) for level in levels], dtype=float)[y.astype(int)] if levels else None
        )
        index = np.searchsorted(np.array(self.classes, dtype=float), y) if codes is None else codes
        return np.ascontiguousarray(2.0 * index - 1.0)

    def _add(self, sums: np.ndarray, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
        size = len(self.theta)
        design = Design(X, c, intercept=self.intercept, standardise=False)
        design.shift, design.scale = self.shift, self.scale
        risk = Risk(design, y, c, self.loss, ScaledPenalty.nothing(size))
        point = risk.sweep(self.theta, hessian=True)
        sums[0] += len(y)
        sums[1] += point.loss
        sums[HEAD : HEAD + size] += risk.gradient(point)
        sums[HEAD + 2 * size :] += risk.hessian(point).ravel()
        if self.classes:
            sums[5] = min(sums[5], float((y * point.scores)[c > 0.0].min(initial=math.inf)))
        if self.before is None:
            return
        old = risk.point(self.before[0])
        ca = old.slope + old.curvature * design.scores(self.before[1])
        if hasattr(self.loss, "conjugate") and hasattr(self.loss, "slope_range"):
            sums[2] += conjugate_sum(self.loss, ca, y, c, NO_OFFSET, 0, len(y))
        else:
            sums[2] += upper_conjugate_sum(self.loss, ca, y, c, NO_OFFSET, old.scores)
        sums[3] += float(np.abs(ca).sum())
        sums[4] += float(old.curvature.sum())
        sums[HEAD + size : HEAD + 2 * size] -= design.correlations(ca)
