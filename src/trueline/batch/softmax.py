"""The multinomial risk Σ c_i [ln Σ_k exp s_ik − s_i,y] + Ω(θ), θ = one row of parameters a class, flattened.

It answers the same questions as ``Risk``, so Newton, coordinate descent, OWL-QN and FISTA run on it unchanged. The dual
variables of a row are a = p − e_y with p in the simplex, V*(a) = Σ p ln p; the free parameters (intercepts) are brought
to balance by the step a + (diag p − ppᵀ)X̃δ, which keeps p positive and its sum 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dense
from ..solvers.row_sums import below_the_top, negative_entropy, softmax_shares
from .design import Design
from .duality import NO_DUAL, Dual, mean_square, rounded, solve_symmetric
from .reference import Reference
from .risk import Point, Risk
from .scaled import ScaledPenalty

LARGEST_FACTOR = 1000  # parameters of a class whose matrix is factored once, to scale the steps


class Softmax:
    """What the methods may ask of the loss itself."""

    name = "softmax"
    smooth = True

    def has(self, method: str) -> bool:
        """Whether there is such a method; the matrix diag p − ppᵀ is formed where it is needed."""
        return method in ("curvature", "curvature_bound")

    def curvature_bound(self) -> float:
        return 0.5


class SoftmaxRisk(Risk):
    """The multinomial problem; ``y`` holds class numbers."""

    def __init__(
        self, design: Design, y: np.ndarray, c: np.ndarray, penalty: ScaledPenalty, labels: Sequence[Any]
    ) -> None:
        """``penalty`` is that of one class; each has the same."""
        super().__init__(design, np.asarray(y, dtype=np.int64), c, Softmax(), repeated(penalty, len(labels)))
        self.classes, self.labels = len(labels), labels
        self.ones = np.ones(len(y))

    @property
    def size(self) -> int:
        return self.design.size * self.classes

    def image(self, direction: np.ndarray) -> np.ndarray:
        rows, design = direction.reshape(self.classes, -1), self.design
        if design.sparse or design.far or design.X.dtype != np.float64:
            return np.column_stack([design.scores(row) for row in rows])
        design.passes += 1.0
        coef = np.divide(rows[:, : design.d].T, design.scale[:, None], order="C")  # BLAS is quickest so
        scores = design.X @ coef
        if design.intercept:
            scores += rows[:, -1] - design.shift @ coef
        return np.asarray(scores)

    def point(self, theta: np.ndarray, scores: np.ndarray | None = None) -> Point:
        if scores is None:
            scores = self.image(theta)
        scores = np.ascontiguousarray(scores)
        p, own, slope = np.empty(scores.shape), np.empty(len(scores)), np.empty(scores.shape)
        below_the_top(scores, self.y, p, own)
        np.exp(p, out=p)
        loss = softmax_shares(p, own, self.y, self.c, slope)
        return Point(theta, scores, loss, slope, p, self.penalty.value(theta))

    def gradient(self, point: Point) -> np.ndarray:
        if point.gradient is None:
            point.gradient = self._back(point.slope)
        return point.gradient

    def _back(self, slope: np.ndarray) -> np.ndarray:
        design = self.design
        if design.sparse or design.far or design.X.dtype != np.float64:
            return np.concatenate([design.correlations(np.ascontiguousarray(column)) for column in slope.T])
        design.passes += 1.0
        out = np.empty((self.classes, design.size))
        total = self.ones @ slope
        out[:, : design.d] = (slope.T @ design.X - total[:, None] * design.shift) / design.scale
        if design.intercept:
            out[:, -1] = total
        return out.ravel()

    def preconditioner(self) -> Any:
        """g ↦ B⁻¹g, B = ½X̃ᵀCX̃ + Λ of each class, which bounds the Hessian everywhere (Böhning); None if it is too large."""
        size = self.design.size
        if size > min(LARGEST_FACTOR, self.design.n):
            return None
        matrix = 0.5 * self.design.hessian(self.c)
        diagonal = np.diag_indices(size)
        matrix[diagonal] += self.penalty.l2[:size]
        matrix[diagonal] += 1e-10 * max(
            float(matrix[diagonal].max(initial=0.0)), 1e-300
        )  # columns that depend on others
        inverse = dense.cho_solve(dense.cho_factor(matrix, check_finite=False), np.eye(size), check_finite=False)
        return lambda g: (g.reshape(self.classes, size) @ inverse).ravel()

    def loss_hessian(self, point: Point) -> np.ndarray:
        size, p = self.design.size, point.curvature
        out = np.zeros((self.size, self.size))
        for k in range(self.classes):
            for m in range(k + 1):
                weights = self.c * p[:, k] * ((1.0 - p[:, k]) if k == m else p[:, m])
                part = self.design.hessian(weights)
                rows, columns = slice(k * size, (k + 1) * size), slice(m * size, (m + 1) * size)
                out[rows, columns] = part if k == m else -part
                out[columns, rows] = out[rows, columns].T
        return out

    def hessian_times(self, point: Point, v: np.ndarray) -> np.ndarray:
        p, change = point.curvature, self.image(v)
        bent = p * (change - (p * change).sum(axis=1, keepdims=True)) * self.c[:, None]
        return self._back(bent) + self.penalty.l2 * v

    def reference(self) -> Reference:
        """With intercepts the best constants are the logarithms of the classes' shares; the least loss is 0."""
        theta = np.zeros((self.classes, self.design.size))
        if not self.design.intercept:
            return Reference(math.log(self.classes), 0.0, 0.0, theta.ravel())
        parts = np.bincount(self.y, self.c, self.classes)
        theta[:, -1] = np.log(np.maximum(parts, 1e-300))
        return Reference(-float(parts[parts > 0.0] @ np.log(parts[parts > 0.0])), 0.0, 0.0, theta.ravel())

    def dual(self, point: Point) -> Dual:
        ca, z = point.slope, -self.gradient(point)
        free = np.flatnonzero(self.penalty.free)
        p, left = point.curvature, 0.0
        for _ in range(4):
            if not len(free) or np.abs(z[free]).max() <= 1e-13 * np.abs(ca).sum():
                break
            move = np.zeros(self.size)
            move[free] = solve_symmetric(self._free_hessian(point, free), z[free])
            rows = move.reshape(self.classes, -1)
            # Constants alone move every row alike.
            change = self.image(move) if rows[:, : self.design.d].any() else np.broadcast_to(rows[:, -1], p.shape)
            ca = ca + p * (change - (p * change).sum(axis=1, keepdims=True)) * self.c[:, None]
            z = -self._back(ca)
        if len(free):
            if np.abs(z[free]).max() > 1e-11 * max(np.abs(ca).sum(), 1e-300):
                return NO_DUAL
            left = float(np.abs(z[free]).max())
            z[free] = 0.0
        factor = self.penalty.shrink(z)
        ca, z = factor * ca, factor * z
        on = self.c > 0.0
        q = ca[on] / self.c[on, None]
        q[np.arange(len(q)), self.y[on]] += 1.0
        if q.min(initial=0.0) < -1e-12:
            return NO_DUAL
        total, held = negative_entropy(q, self.c[on]), self.penalty.conjugate(z)
        left += math.sqrt(float(self.c[on] @ (np.minimum(q, 0.0) ** 2).sum(axis=1)))  # shares below 0 count as 0
        # The own class's share is 1 less the others', rounded in units of 1.
        steep = mean_square(ca, self.c)
        return rounded(self, point, -total - held, z, steep, 1.0 + abs(total) + abs(held), left)

    def _free_hessian(self, point: Point, free: np.ndarray) -> np.ndarray:
        """The Hessian of the free parameters: of the intercepts alone it takes no pass.

        A constant on all intercepts changes nothing; a curvature along it makes the matrix regular.
        """
        size, p = self.design.size, point.curvature
        if (free % size == self.design.d).all():
            weighted = p * self.c[:, None]
            total = self.ones @ weighted
            return np.diag(total) - weighted.T @ p + float(total.sum()) / self.classes**2
        if point.hessian is not None:
            return point.hessian[np.ix_(free, free)]
        return self.loss_hessian(point)[np.ix_(free, free)]


def repeated(penalty: ScaledPenalty, classes: int) -> ScaledPenalty:
    """The same separable penalty on every class's parameters."""
    l1, l2, lower, upper = (np.tile(v, classes) for v in (penalty.l1, penalty.l2, penalty.lower, penalty.upper))
    return ScaledPenalty(l1, l2, lower, upper)
