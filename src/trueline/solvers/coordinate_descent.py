"""Coordinate descent on successive quadratic models of the loss (for squared loss the model is the loss).

At a point with slopes and curvatures h, the model gᵀδ + ½δᵀHδ + Ω(θ + δ) is minimised one coordinate at a time:
θ_j ← prox(θ_j − q_j/H_jj, 1/H_jj), q the model's gradient; then a line search. With few parameters H is formed once by
BLAS and q kept up to date (a column of H a step); with many, only a working set moves (glm_working_set.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cython
import numpy as np

from .. import dense
from ..batch.gradient import Patience, curved, descend_to
from ..batch.risk import Point, Risk
from ..simd import Array

if not cython.compiled:  # compiled, this comes from coordinate_descent.pxd
    from ..simd import row_add


def shrunk(u: float, step: float, l1: float, l2: float, lower: float, upper: float) -> float:
    """prox of step·(l1|·| + ½l2(·)²) on [lower, upper] at u."""
    threshold: float = step * l1
    v: float = 0.0
    if u > threshold:
        v = (u - threshold) / (1.0 + step * l2)
    elif u < -threshold:
        v = (u + threshold) / (1.0 + step * l2)
    return min(max(v, lower), upper)


@cython.final
@cython.cclass
class GramModel:
    """A formed model: its matrix H, its gradient q at theta, and the penalty of each coordinate."""

    def __init__(self, H: Array, q: Array, theta: Array, penalty: Any) -> None:
        self.H, self.q, self.theta = np.ascontiguousarray(H), q.copy(), theta.copy()
        self.l1, self.l2, self.lower, self.upper = penalty.l1, penalty.l2, penalty.lower, penalty.upper

    def descend(self, epochs: cython.Py_ssize_t, tolerance: float) -> int:
        """Coordinate epochs until the largest step is ``tolerance`` of the first one's; returns the epochs used."""
        done: cython.Py_ssize_t = 0
        first: float = 0.0
        largest: float
        with cython.nogil:
            while done < epochs:
                done += 1
                largest = self.epoch()
                first = max(first, largest)
                if largest <= tolerance * first:
                    break
        return done

    def epoch(self) -> float:
        """One step in every coordinate; returns the largest curvature·step²."""
        j: cython.Py_ssize_t
        size: cython.Py_ssize_t = self.theta.shape[0]
        curve: float
        new: float
        move: float
        largest: float = 0.0
        for j in range(size):
            curve = self.H[j, j]
            if curve <= 0.0:
                continue
            new = shrunk(
                self.theta[j] - self.q[j] / curve, 1.0 / curve, self.l1[j], self.l2[j], self.lower[j], self.upper[j]
            )
            move = new - self.theta[j]
            if move != 0.0:
                self.theta[j] = new
                row_add(self.H, j, 0, move, self.q, size)
                largest = max(largest, curve * move * move)
        return largest


def by_gram(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """Every parameter on the formed model."""
    penalty, quadratic = risk.penalty, getattr(risk.loss, "name", "") == "squared"
    point = risk.point(penalty.prox(start, 0.0))
    H = None
    if quadratic:
        H = risk.loss_hessian(point)
        risk._largest = dense.spectral_norm(H + np.diag(penalty.l2))
    patience = Patience(risk)
    while True:
        yield point
        if H is None or not quadratic:
            H = curved(risk, risk.loss_hessian(point))
        model = GramModel(H, risk.gradient(point), point.theta, penalty)
        model.descend(1000, 1e-12)
        theta = np.asarray(model.theta)
        following = descend_to(risk, point, theta, risk.image(theta - point.theta))
        if following is None or patience.over(point, following):
            return
        point = following
