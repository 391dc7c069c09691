"""Coordinate descent on successive quadratic models of the loss (for squared loss the model is the loss).

At a point with slopes and curvatures h, the model gᵀδ + ½δᵀHδ + Ω(θ + δ) is minimised one coordinate at a time:
θ_j ← prox(θ_j − q_j/H_jj, 1/H_jj), q the model's gradient; then a line search. With few parameters H is formed once by
BLAS and q kept up to date (a column of H a step); with many, only a working set moves (glm_working_set.py).

Losses with corners, under an L2 penalty on every parameter, are solved by the dual. With w = −Xᵀ(c∘a)/λ, row i's best
slope given the others solves s' = argmin V(y_i, s') + (s' − s₀)²/(2q), a_i = (s₀ − s')/q, q = c_i‖x_i‖²/λ,
s₀ = s_i + q·a_i: the loss's own prox, so a_i always lies in the range of its slopes and every point is dual feasible.
Rows are visited in a fresh random order each epoch, on X as it is: scaling columns would unequal λ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cython
import numpy as np

from .. import dense
from ..batch.gradient import Patience, curved, descend_to
from ..batch.risk import Point, Risk
from ..simd import Array, Places
from .sparse_columns import Columns, DenseColumns, SparseColumns, SparseSlices

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


@cython.final
@cython.cclass
class DualEpochs:
    """Dual variables a, a row each, and the parameters that they make, under an L2 penalty of ``rate`` and ``rate_b``."""

    def __init__(self, risk: Risk, rate: float, rate_b: float) -> None:
        design, n = risk.design, risk.design.n
        slices = design.slices
        if slices is not None and not slices.by_rows:
            slices = SparseSlices(design.X.tocsr())
        self.rows: Columns = (
            DenseColumns(np.ascontiguousarray(design.X, dtype=np.float64)) if slices is None else SparseColumns(slices)
        )
        self.loss, self.y, self.c = risk.loss, risk.y, risk.c
        self.offset = np.zeros(n) if risk.offset is None else np.ascontiguousarray(risk.offset, dtype=np.float64)
        squares = np.empty(n)
        places = np.arange(n)
        self.rows.sums(places, np.ones(design.d), np.empty(n), squares)
        self.rate, self.rate_b = rate, rate_b
        self.q = risk.c * (squares / rate + (1.0 / rate_b if rate_b > 0.0 else 0.0))
        self.a, self.w, self.b = np.zeros(n), np.zeros(design.d), 0.0

    def epoch(self, order: Places) -> int:
        """One visit to each row."""
        with cython.nogil:
            self.visit(order)
        return 0

    def visit(self, order: Places) -> int:
        """The same without the GIL, where the loss needs none."""
        k: cython.Py_ssize_t
        i: cython.Py_ssize_t
        base: cython.double
        new: cython.double
        move: cython.double
        for k in range(order.shape[0]):
            i = order[k]
            if self.q[i] <= 0.0:
                continue
            base = self.rows.dot(i, self.w) + self.b + self.offset[i] + self.q[i] * self.a[i]
            new = (base - self.loss.prox(base, self.y[i], self.q[i])) / self.q[i]
            move = new - self.a[i]
            if move != 0.0:
                self.a[i] = new
                self.rows.add(i, -self.c[i] * move / self.rate, self.w)
                if self.rate_b > 0.0:
                    self.b -= self.c[i] * move / self.rate_b
        return 0


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


def lacks_dual(risk: Risk) -> str | None:
    """What the dual route misses, in words."""
    penalty, design = risk.penalty, risk.design
    name = getattr(risk.loss, "name", type(risk.loss).__name__)
    if not risk.loss.has("prox"):
        return f"a smooth loss or one with a `prox`, which {name!r} has not; use 'interior' or 'fista'"
    if penalty.bounded or penalty.l1.any() or not penalty.l2[: design.d].all():
        return f"an L2 penalty on every coefficient for {name!r}, which is not smooth; use 'interior' or add one"
    if design.intercept and penalty.l2[design.d] == 0.0:
        return f"a penalised or no intercept for {name!r}, which is not smooth; use 'interior' or intercept=False"
    strength = penalty.l2[: design.d] * design.scale**2
    if np.ptp(strength) > 1e-9 * strength.max():
        return f"one strength for all coefficients under {name!r}; use 'interior' with penalty weights"
    return None


def by_dual(risk: Risk, start: np.ndarray, seed: Any = 0) -> Iterator[Point]:
    """Epochs of dual coordinate descent; each is a point with its dual variables."""
    design = risk.design
    rate = float(risk.penalty.l2[0] * design.scale[0] ** 2)
    dual = DualEpochs(risk, rate, float(risk.penalty.l2[design.d]) if design.intercept else 0.0)
    shuffle = np.random.default_rng(seed)
    while True:
        point = risk.point(design.join(np.asarray(dual.w), dual.b))
        point.dual = risk.c * np.asarray(dual.a)
        yield point
        dual.epoch(shuffle.permutation(design.n))
        design.passes += 1.0
