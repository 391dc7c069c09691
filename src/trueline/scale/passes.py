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

from ..batch.design import FAR
from ..batch.duality import NO_OFFSET, has_conjugate
from ..data.blocks import Columns
from ..model.training import designed
from ..objective.loss_interface import derivatives
from ..solvers.row_sums import conjugate_sum, upper_conjugate_sum
from . import statistic
from .tiles import CLOSE, Squares, space, tiles, times, weighed

SHORT = 256  # rows whose losses are summed one by one
HEAD = 9  # rows, loss, conjugates, Σ|c·a|, Σ curvature at b, smallest margin, Σ curvature, sizes of conjugates, Σ c·a²


@dataclasses.dataclass(frozen=True)
class Pass:
    """One job at θ; ``base`` is b, or a row of it for each partition, and ``last`` is θ₀ where that is another point.

    A ``rough`` Hessian has six digits, and those of the intercept's row in full.
    """

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
    rough: bool = False

    def run(self, number: int, tables: Any) -> bytes:
        encoder = statistic.encoder_of(number, tables, self.declared, self.options, apart=True, known=True)
        if encoder is None:
            return statistic.NOTHING
        size = len(self.theta)
        sums = np.zeros(HEAD + 2 * size + size * size * self.hessian)
        sums[5] = math.inf
        points = [self.theta]
        if self.base is not None:
            base = self.base if self.base.ndim == 1 else self.base[number]
            points += [base] if self.last is None else [base, self.last]
        for block in encoder:
            y = self._targets(block.y, encoder.target_levels)
            c = np.full(len(y), 1.0 / self.total) if block.weights is None else block.weights / self.total
            self._add(sums, self._design(block), y, c, points)
        return sums.tobytes()

    def merge(self, answers: Sequence[bytes]) -> bytes:
        found = [np.frombuffer(raw) for raw in answers if raw != statistic.NOTHING]
        if not found:
            return statistic.NOTHING
        total = np.sum(found, axis=0)
        total[5] = min(one[5] for one in found)
        return total.tobytes()

    def _design(self, block: Any) -> Any:
        """The final design of a block that may lack levels."""
        X = block.X
        if isinstance(X, Columns):
            if block.terms == self.scan_terms == self.schema.terms:
                return X
            X = X[:]
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

    def _add(self, sums: np.ndarray, X: Any, y: np.ndarray, c: np.ndarray, points: Sequence[np.ndarray]) -> None:
        """Count rows in; ``points`` are θ, b and θ₀, as far as they are others."""
        size, d = len(self.theta), X.shape[1]
        scale = np.append(self.scale, np.ones(size - d))
        conjugates = has_conjugate(self.loss)
        places = [point / scale for point in points]
        gradients, squares = np.zeros((2, size)), Squares(self.shift, self.intercept, self.rough)
        losses: list[float] = []
        near = bool((np.abs(self.shift) <= (CLOSE if self.hessian else FAR) * self.scale).all())
        with np.errstate(over="ignore", invalid="ignore"):
            for some, tile in tiles(X, self.shift, self.intercept, near):
                targets, weights = y[some], c[some]
                n = len(targets)
                scores, slopes, curves = space("vectors", 3 * len(points) * n).reshape(3, len(points), n)
                for k, place in enumerate(places):
                    scores[k] = times(tile, place, self.shift)
                    given = self.loss, scores[k], targets, weights, slopes[k], curves[k]
                    if k:
                        derivatives(*given)
                    else:  # a few at a time: steps near the end differ by less than long sums round
                        losses += [derivatives(*given, a, min(n, a + SHORT)) for a in range(0, n, SHORT)]
                sums[0] += n
                sums[6] += curves[0].sum()
                gradients[0] += weighed(slopes[0], tile, self.shift, size)
                if self.hessian:
                    squares.add(tile, curves[0])
                if self.classes:
                    sums[5] = min(sums[5], float((targets * scores[0])[weights > 0.0].min(initial=math.inf)))
                if len(points) == 1:
                    continue
                ca = slopes[-1] + curves[1] * (scores[0] - scores[-1])
                if conjugates:
                    found = conjugate_sum(self.loss, ca, targets, weights, NO_OFFSET, 0, n)
                else:
                    found = upper_conjugate_sum(self.loss, ca, targets, weights, NO_OFFSET, scores[-1])
                sums[2] += found[0]
                sums[7] += found[1]
                sums[8] += float(np.divide(ca * ca, weights, out=np.zeros(n), where=weights > 0.0).sum())
                sums[3] += float(np.abs(ca).sum())
                sums[4] += float(curves[1].sum())
                gradients[1] -= weighed(ca, tile, self.shift, size)
        sums[1] += np.sum(losses)
        sums[HEAD : HEAD + 2 * size] += (gradients / scale).ravel()
        if self.hessian:
            sums[HEAD + 2 * size :] += (squares.total / scale / scale[:, None]).ravel()
