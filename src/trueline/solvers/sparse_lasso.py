"""The working set's solver on a sparse table: coordinate epochs find the signs, conjugate gradients finish.

A Gram matrix of sparse columns is dense, so none is made. With the support and its signs fixed the optimality
conditions are linear, (X̃_A'X̃_A + μI)b = c_A − τs; conjugate gradients scaled by the column norms solve them in a few
dozen products with the support's stored entries. If signs come out wrong those coefficients become zero (if that
raises the objective: go only as far as the first sign change), and epochs follow, until the gap on the working set
holds. Between penalties the solution starts from its linear extrapolation.

Centring is implicit: the true residual is r + offset·√w with one number kept aside, and since it is orthogonal to √w,
x̃_j'(r + offset·√w) = z_j'r + offset·total·mean_j.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..batch.centred import SparseTable
from ..moments.active_set_newton import ActiveSet
from ..simd import Array, Places
from .sparse_columns import SparseSlices

if not cython.compiled:  # compiled, this comes from sparse_lasso.pxd
    from math import fabs

ROUNDS = 200  # of epochs and conjugate gradients, before the gap that was reached is reported
IDLE: cython.int = 5  # rounds without progress after which it ends
SMALL = 1000  # columns whose Gram matrix is worth having


@cython.final
@cython.cclass
class SparseSteps:
    """A working set of sparse columns, coefficients b on it, and the residual r + offset·√w that they leave."""

    def __init__(self, slices: SparseSlices, columns: Places, table: SparseTable, root: Array, y: Array) -> None:
        count = len(columns)
        self.slices, self.columns, self.root, self.y = slices, columns, root, y
        self.mean, self.lift = table.mean[columns], table.total
        squares = np.empty(count)
        self.squares(squares)
        norms = squares - self.lift * np.square(self.mean)
        norms[norms <= 1e-14 * squares] = 0.0  # constant: rounding is all that centring leaves
        self.norms = norms
        self.b, self.r, self.offset = np.zeros(count), y.copy(), 0.0
        self.image, self.trial = np.empty(len(y)), np.empty(count)
        self.change, self.rest, self.direction, self.product = np.empty((4, count))
        self.support, self.held = np.empty(count, dtype=np.int64), 0

    def squares(self, out: Array) -> None:
        """Σ x² of each column."""
        j: cython.Py_ssize_t
        with cython.nogil:
            for j in range(self.columns.shape[0]):
                out[j] = self.slices.square_sum(self.columns[j])

    def products(self, v: Array, out: Array, start: cython.Py_ssize_t) -> None:
        """z_j'v of each column from ``start`` on."""
        j: cython.Py_ssize_t
        with cython.nogil:
            for j in range(start, self.columns.shape[0]):
                out[j] = self.slices.dot(self.columns[j], v)

    def extend_gram(self, G: Array, start: cython.Py_ssize_t) -> None:
        """The lower triangle of G's rows from ``start``: one centred column is spread out, those before meet it."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        with cython.nogil:
            self.image[:] = 0.0
            for j in range(start, self.columns.shape[0]):
                self.slices.add(self.columns[j], 1.0, self.image)
                for i in range(j + 1):
                    G[j, i] = self.slices.dot(self.columns[i], self.image) - self.lift * self.mean[i] * self.mean[j]
                self.slices.clear(self.columns[j], self.image)

    def rebuild(self, b: Array, r: Array) -> float:
        """r = y − Zb from the beginning; returns its offset."""
        offset: float
        with cython.nogil:
            offset = self.rebuilt(b, r)
        return offset

    def rebuilt(self, b: Array, r: Array) -> float:
        """The same without the GIL."""
        j: cython.Py_ssize_t
        offset: float = 0.0
        r[:] = self.y
        for j in range(self.columns.shape[0]):
            if b[j] != 0.0:
                self.slices.add(self.columns[j], -b[j], r)
                offset += b[j] * self.mean[j]
        return offset

    def objective(self, r: Array, offset: float, b: Array) -> float:
        """½‖r + offset·√w‖² + τ‖b‖₁ + ½μ‖b‖²."""
        i: cython.Py_ssize_t
        value: float
        even: float = 0.0
        odd: float = 0.0
        penalty: float = 0.0
        for i in range(0, r.shape[0] - 1, 2):  # two strands
            value = r[i] + offset * self.root[i]
            even += value * value
            value = r[i + 1] + offset * self.root[i + 1]
            odd += value * value
        if r.shape[0] % 2:
            value = r[r.shape[0] - 1] + offset * self.root[r.shape[0] - 1]
            even += value * value
        for i in range(b.shape[0]):
            penalty += self.tau * fabs(b[i]) + 0.5 * self.mu * b[i] * b[i]
        return 0.5 * (even + odd) + penalty

    def slope(self, j: cython.Py_ssize_t, r: Array, offset: float) -> float:
        """x̃_j'(r + offset·√w) of the centred column."""
        return self.slices.dot(self.columns[j], r) + offset * self.lift * self.mean[j]

    def epoch(self) -> None:
        """One round of exact coordinate steps over the working set."""
        j: cython.Py_ssize_t
        old: float
        z: float
        value: float
        for j in range(self.columns.shape[0]):
            if self.norms[j] <= 0.0:
                continue
            old = self.b[j]
            z = self.slope(j, self.r, self.offset) + old * self.norms[j]
            value = 0.0
            if z > self.tau:
                value = (z - self.tau) / (self.norms[j] + self.mu)
            elif z < -self.tau and not self.positive:
                value = (z + self.tau) / (self.norms[j] + self.mu)
            if value != old:
                self.b[j] = value
                self.slices.add(self.columns[j], old - value, self.r)
                self.offset += (value - old) * self.mean[j]

    def find_support(self) -> None:
        """The places of the coefficients that are not 0."""
        j: cython.Py_ssize_t
        self.held = 0
        for j in range(self.columns.shape[0]):
            if self.b[j] != 0.0:
                self.support[self.held] = j
                self.held += 1

    def conjugate_gradients(self, accuracy: float, products: cython.Py_ssize_t) -> None:
        """Conjugate gradients for the change of b on its support, signs fixed; it is left in ``change``.

        Stops when every optimality condition holds to ``accuracy``, at the latest after ``products``.
        """
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        g: float
        slide: float
        curvature: float
        step: float
        ratio: float
        following: float
        rho: float = 0.0
        worst: float = 0.0
        for i in range(self.held):
            j = self.support[i]
            g = self.slope(j, self.r, self.offset) - self.mu * self.b[j]
            self.rest[i] = g - self.tau if self.b[j] > 0.0 else g + self.tau
            self.change[i] = 0.0
            self.direction[i] = self.rest[i] / (self.norms[j] + self.mu)
            rho += self.rest[i] * self.direction[i]
            worst = max(worst, fabs(self.rest[i]))
        for _ in range(products):
            if not (worst > accuracy and rho > 0.0):
                break
            self.image[:] = 0.0
            slide = 0.0
            for i in range(self.held):
                j = self.support[i]
                self.slices.add(self.columns[j], self.direction[i], self.image)
                slide -= self.direction[i] * self.mean[j]
            curvature = 0.0
            for i in range(self.held):
                self.product[i] = self.slope(self.support[i], self.image, slide) + self.mu * self.direction[i]
                curvature += self.product[i] * self.direction[i]
            if not curvature > 0.0:
                break
            step = rho / curvature
            following = 0.0
            worst = 0.0
            for i in range(self.held):
                j = self.support[i]
                self.change[i] += step * self.direction[i]
                self.rest[i] -= step * self.product[i]
                following += self.rest[i] * self.rest[i] / (self.norms[j] + self.mu)
                worst = max(worst, fabs(self.rest[i]))
            ratio = following / rho
            rho = following
            for i in range(self.held):
                j = self.support[i]
                self.direction[i] = self.rest[i] / (self.norms[j] + self.mu) + ratio * self.direction[i]

    def try_change(self) -> float:
        """``trial`` ← b + change, 0 where a sign changed; the part of the change at which the first did, 2 if none."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        value: float
        first: float = 2.0
        self.trial[:] = 0.0
        for i in range(self.held):
            j = self.support[i]
            value = self.b[j] + self.change[i]
            if value * self.b[j] > 0.0:
                self.trial[j] = value
            else:
                first = min(first, self.b[j] / (self.b[j] - value) if self.b[j] != value else 0.0)
        return first

    def go_to_first_crossing(self, first: float) -> None:
        """b moves by as much of the change as all signs hold."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        value: float
        for i in range(self.held):
            j = self.support[i]
            value = self.b[j] + first * self.change[i]
            self.b[j] = value if value * self.b[j] > 0.0 else 0.0

    def worst_slope(self) -> float:
        """The largest |x̃_j'r − μb_j|, or without the sign where coefficients are positive."""
        j: cython.Py_ssize_t
        g: float
        worst: float = 0.0
        for j in range(self.columns.shape[0]):
            g = self.slope(j, self.r, self.offset) - self.mu * self.b[j]
            worst = max(worst, g if self.positive else fabs(g))
        return worst

    def solve(self, tau: float, mu: float, positive: cython.bint, tolerance: float, most: cython.Py_ssize_t) -> None:
        """The solution on the working set at one penalty, from the b that is there."""
        rounds: cython.Py_ssize_t = 0
        idle: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        before: float
        allowed: float
        first: float
        shift: float
        absolute: float
        least: float = float("inf")
        self.tau, self.mu, self.positive = tau, mu, positive
        with cython.nogil:
            self.offset = self.rebuilt(self.b, self.r)
            while rounds < most:
                rounds += 1
                # Signs that do not settle are cheaper to find by epochs than by products with a support that is still wrong.
                for _ in range(16 if rounds > 4 else 1 << (rounds - 1)):
                    self.epoch()
                self.find_support()
                before = self.objective(self.r, self.offset, self.b)
                # Rounds that no longer lower the objective: rounding is all that is left.
                idle = idle + 1 if before >= least * (1.0 - 4e-16) else 0
                least = min(least, before)
                if idle >= IDLE:
                    break
                absolute = 0.0
                for i in range(self.held):
                    absolute += fabs(self.b[self.support[i]])
                # With |x_j'r − μb_j| ≤ (1 + ε)τ everywhere the gap is about ε·τ‖b‖₁.
                allowed = tau * min(0.1, 0.7 * tolerance * before / (tau * absolute + 1e-300))
                self.conjugate_gradients(0.8 * allowed, 40 * rounds)
                first = self.try_change()
                shift = self.rebuilt(self.trial, self.image)
                if first <= 1.0 and self.objective(self.image, shift, self.trial) > before:
                    self.go_to_first_crossing(first)
                    self.offset = self.rebuilt(self.b, self.r)
                    continue
                self.b[:] = self.trial
                self.r[:] = self.image
                self.offset = shift
                if first > 1.0 and self.worst_slope() <= tau + allowed:
                    break


class SparseInner:
    """A working set of sparse columns, read where they lie.

    While it is small its Gram matrix is small too, and active-set Newton (as on dense tables) is the faster solver.
    """

    def __init__(self, table: SparseTable, y: np.ndarray, tolerance: float, most: Any = ROUNDS) -> None:
        self.table, self.y, self.tolerance, self.most = table, y, tolerance, min(most, ROUNDS)
        self.root = np.ones(table.n) if table.root is None else table.root
        self.columns = np.empty(0, dtype=np.int64)
        self.b, self.slope, self.tau = np.empty(0), np.empty(0), float("nan")
        self.newton: ActiveSet | None = ActiveSet(min(SMALL, table.d))
        self.tried = False

    def add(self, chosen: np.ndarray) -> None:
        self.columns = np.concatenate([self.columns, chosen])
        self.b = np.concatenate([self.b, np.zeros(chosen.size)])
        self.slope = np.concatenate([self.slope, np.zeros(chosen.size)])
        self._measure()

    def trim(self, wanted: np.ndarray) -> None:
        """Forget inactive columns that are not wanted, when they have become many."""
        keep = np.flatnonzero(wanted | (self.b != 0.0))
        if self.newton is not None:
            keep = np.union1d(keep, np.flatnonzero(np.asarray(self.newton.active)[: self.newton.size]))
        if keep.size > 0.8 * self.columns.size:
            return
        if self.newton is not None:
            self.newton.keep(keep)
        self.columns, self.b, self.slope = self.columns[keep], self.b[keep], self.slope[keep]
        self._measure()

    def _measure(self) -> None:
        """What is known of the working set's columns."""
        self.steps = SparseSteps(self.table.slices, self.columns, self.table, self.root, self.y)
        count = self.columns.size
        if self.newton is not None and count > self.newton.capacity:
            self.newton = None
        elif self.newton is not None:
            start = self.newton.size
            self.steps.extend_gram(self.newton.G, start)
            self.steps.products(self.y, self.newton.c, start)
            self.newton.size = count

    def solve(self, taus: np.ndarray, mus: np.ndarray, positive: Any) -> np.ndarray:
        self.residual = np.empty((taus.size, self.table.n))
        if self.newton is not None:
            B = self.newton.solve(taus, mus, self.tolerance, positive)
            self.b, self.tau = B[taus.size - 1], float(taus[taus.size - 1])
            for b, row in zip(B, self.residual, strict=True):
                offset = self.steps.rebuild(b, row)
                if self.table.intercept:
                    row += offset * self.root
            return B
        B, steps = np.zeros((taus.size, self.columns.size)), self.steps
        for p in range(taus.size):
            before, before_tau = self.b, self.tau
            ahead = before + (taus[p] - before_tau) * self.slope if self.slope.any() else before
            steps.b, self.tau = np.where(ahead * before > 0.0, ahead, 0.0), float(taus[p])
            steps.solve(taus[p], mus[p], positive, self.tolerance, self.most)
            self.b = np.asarray(steps.b)
            if before_tau > self.tau:
                self.slope = (self.b - before) / (self.tau - before_tau)
            B[p] = self.b
            self.residual[p] = np.asarray(steps.r) + steps.offset * self.root
        return B

    def residuals(self, B: np.ndarray) -> np.ndarray:
        return self.residual

    def restart(self) -> bool:
        """Begin again from zero, once, without the Gram matrix."""
        if self.tried:
            return False
        self.tried = True
        self.newton = None
        self.b = np.zeros_like(self.b)
        self.slope = np.zeros_like(self.b)
        return True
