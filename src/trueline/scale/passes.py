"""The job of one Newton iteration: loss, gradient and Hessian at θ, and the proof of the step that led there.

At θ every partition sends Σ c·V, Σ c·V'·x̃ and, where a new Hessian is asked for, Σ c·V''·x̃x̃ᵀ: (d + 1)² numbers whatever
its rows. The same job certifies the step that led from θ₀ to θ by a Hessian of the point b: the slopes
a = V'(s₀) + V''(s_b)·(s − s₀) that the quadratic model foretold balance by construction, so Σ c·V*(a) and −X̃ᵀ(c∘a) give a
dual value, and with it the gap, as on one machine. For the first step, b = θ₀ is each partition's own (``expanding``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._jit import teach
from ..batch.design import Design, standardised_block
from ..batch.duality import NO_OFFSET, conjugate_sum, upper_conjugate_sum
from ..batch.risk import BLOCK_ENTRIES, evaluate, evaluate_together
from ..model.training import designed
from . import statistic

HEAD = 7  # rows, loss, conjugates, Σ|c·a|, Σ curvature at b, smallest margin, Σ curvature


@dataclasses.dataclass(frozen=True)
class Pass:
    """One job at θ; ``base`` is b, or a row of it for each partition, and ``last`` is θ₀ where that is another point."""

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
    base: np.ndarray | None = None
    last: np.ndarray | None = None
    hessian: bool = True

    def run(self, number: int, tables: Any) -> bytes:
        teach(self.loss)
        encoder = statistic.encoder_of(number, tables, self.declared, self.options)
        if encoder is None:
            return statistic.NOTHING
        size = len(self.theta)
        sums = np.zeros(HEAD + 2 * size + size * size * self.hessian)
        sums[5] = math.inf
        base = self.base if self.base is None or self.base.ndim == 1 else self.base[number]
        for block in encoder:
            y = self._targets(block.y, encoder.target_levels)
            c = np.full(len(y), 1.0 / self.total) if block.weights is None else block.weights / self.total
            self._add(sums, self._design(block), y, c, base)
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

    def _add(self, sums: np.ndarray, X: np.ndarray, y: np.ndarray, c: np.ndarray, base: np.ndarray | None) -> None:
        """Count rows in, some at a time, while they are in the cache."""
        size, d = len(self.theta), X.shape[1]
        design = Design(X, c, intercept=self.intercept, standardise=False)
        design.shift, design.scale = self.shift, self.scale
        last = base if self.last is None else self.last
        points = (
            [self.theta]
            if base is None or last is None
            else [self.theta, base]
            if last is base
            else [self.theta, base, last]
        )
        places = [design.split(point) for point in points]
        evaluator = evaluate_together if hasattr(self.loss, "together") else evaluate
        conjugates = hasattr(self.loss, "conjugate") and hasattr(self.loss, "slope_range")
        step = max(256, BLOCK_ENTRIES // size)
        own, gradients, H = np.empty((step, size)), np.zeros((2, d)), np.zeros((size, size))
        totals = np.zeros(2)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(y), step):
                part, targets, weights = X[start : start + step], y[start : start + step], c[start : start + step]
                n = len(targets)
                scores, slopes, curves = (np.empty((len(points), n)) for _ in range(3))
                loss = 0.0
                for k, (coef, constant) in enumerate(places):
                    np.add(part @ coef, constant, out=scores[k])
                    value = evaluator(self.loss, scores[k], targets, weights, slopes[k], curves[k], 0, n)
                    loss = value if k == 0 else loss
                sums[0] += n
                sums[1] += loss
                sums[6] += curves[0].sum()
                gradients[0] += slopes[0] @ part
                totals[0] += slopes[0].sum()
                if self.hessian:
                    block = own[:n]
                    standardised_block(part, 0, n, self.shift, np.sqrt(curves[0]), block)
                    H += block.T @ block
                if self.classes:
                    sums[5] = min(sums[5], float((targets * scores[0])[weights > 0.0].min(initial=math.inf)))
                if base is None:
                    continue
                ca = slopes[-1] + curves[1] * (scores[0] - scores[-1])
                if conjugates:
                    sums[2] += conjugate_sum(self.loss, ca, targets, weights, NO_OFFSET, 0, n)
                else:
                    sums[2] += upper_conjugate_sum(self.loss, ca, targets, weights, NO_OFFSET, scores[-1])
                sums[3] += float(np.abs(ca).sum())
                sums[4] += float(curves[1].sum())
                gradients[1] += ca @ part
                totals[1] += ca.sum()
        sums[HEAD : HEAD + size] += design.standardised_gradient(gradients[0], float(totals[0]))
        sums[HEAD + size : HEAD + 2 * size] -= design.standardised_gradient(gradients[1], float(totals[1]))
        if self.hessian:
            sums[HEAD + 2 * size :] += design.unscaled(H).ravel()
