"""Many parameters: successive quadratic models of the loss on a working set of columns, with safe screening.

The model at a point with slopes and curvatures h is q'δ + ½Σh·(X̃δ)² + Ω(θ + δ). It is minimised by coordinate epochs,
θ_j ← prox(θ_j − q_j/H_jj, 1/H_jj), which find the support and its signs, and then by conjugate gradients on the support
with the signs fixed, where the conditions are linear. q_j comes from column j and the change of the scores; the
intercept, whose optimum given the rest is a ratio of two numbers, is profiled out at every step.
How exactly a model is solved follows the violation of the optimality conditions: a model is worth no more digits than
its point, and near the optimum each step squares the error.

Columns whose optimal coefficient is proven to be zero are screened: the dual point is within √(2M·gap) of the
optimal one (M the largest curvature), so |z_j| + ‖x_j‖·√(2M·gap) < l1_j settles column j for good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import cython
import numpy as np

from ..batch.gradient import Patience, descend_to, profile_intercept
from ..batch.risk import Point, Risk
from ..simd import Array, Places
from .sparse_columns import Columns, ColumnStore

if not cython.compiled:  # compiled, these come from glm_working_set.pxd
    from math import fabs

    from .coordinate_descent import shrunk

FAR = 0.3  # new columns for each old one in a working set whose signs are not worth fixing yet
NEAR = 0.8  # part of the bound from which a column is kept at hand
LEAST, MOST = 100, 8000  # columns that may always move, and that may enter at once
FLOOR = 0.01  # part of the violation below which no single model is solved
STEPS = 2  # Newton steps on a working set between two readings of the whole matrix
ROUNDS, MOST_ROUNDS = 3, 12  # of conjugate gradients on a model: more only where the support no longer changes
ENOUGH = 0.003  # part of the violation at which the set has given what it can


@cython.final
@cython.cclass
class QuadraticModel:
    """The model at a point, of some parameters; a penalised intercept comes last, a free one is profiled out.

    ``change`` is X̃δ but for ``base``, which is the same in every row; ``total`` is Σh·(the whole change).
    """

    def __init__(self, columns: Columns, rooms: Places, start: Array, slope: Array, h: Array) -> None:
        size = len(start)
        self.columns, self.rooms, self.h = columns, rooms, h
        self.change = columns.begin(h)
        self.start, self.theta, self.slope = start, start.copy(), slope
        self.sums, second = np.empty(size), np.empty(size)
        columns.sums(rooms, h, self.sums, second)
        self.weight = float(h.sum())
        for k in range(len(rooms), size):
            self.sums[k] = second[k] = self.weight
        self.second = second
        self.base, self.total, self.slope_b, self.profiled = 0.0, 0.0, 0.0, False
        self.rest, self.delta, self.direction, self.product = np.empty((4, size))
        self.support, self.held = np.empty(size, dtype=np.int64), 0
        self.image, self.kept = np.empty(len(h)), np.empty(len(h))

    def give_penalty(self, penalty: Any, ids: Places) -> None:
        """The strengths and bounds of these parameters."""
        self.l1, self.l2 = penalty.l1[ids], penalty.l2[ids]
        self.lower, self.upper = penalty.lower[ids], penalty.upper[ids]

    def standardise(self, shift: Array, scale: Array, slope_b: float, profiled: cython.bint) -> None:
        """The columns count as (x − shift)/scale; where the intercept is profiled its slope is ``slope_b``."""
        self.shift, self.scale, self.profiled = shift, scale, profiled and self.weight > 0.0
        sums, second = np.asarray(self.sums), np.asarray(self.second)
        curve = (second - 2.0 * shift * sums + shift * shift * self.weight) / np.square(scale)
        if self.profiled:  # the intercept follows, and takes its share
            curve -= np.square((sums - shift * self.weight) / scale) / self.weight
            self.slope_b = slope_b
            self.base, self.total = -slope_b / self.weight, -slope_b
        self.curve = np.where(curve > 1e-12 * second / np.square(scale), curve, 0.0)

    def moved(self) -> tuple[Array, Array, float]:
        """(the parameters, the change of the scores, that of the intercept where it is profiled)."""
        theta = np.asarray(self.theta)
        constant = float((np.asarray(self.shift) * (theta - np.asarray(self.start)) / np.asarray(self.scale)).sum())
        return theta, np.asarray(self.change) + self.base, self.base + constant

    def slope_at(self, k: cython.Py_ssize_t) -> float:
        """The model's derivative in parameter k."""
        raw: float
        if k == self.rooms.shape[0]:
            return self.slope[k] + self.total
        raw = self.columns.weighted_dot(self.rooms[k]) + self.base * self.sums[k] - self.shift[k] * self.total
        return self.slope[k] + raw / self.scale[k]

    def move(self, k: cython.Py_ssize_t, new: float) -> None:
        """Parameter k takes a new value; the scores' change follows, and the intercept if it is profiled."""
        step: float = (new - self.theta[k]) / self.scale[k]
        self.theta[k] = new
        if k == self.rooms.shape[0]:
            self.base += step
        else:
            self.columns.move(self.rooms[k], step)
            self.base -= step * self.shift[k]
        self.total += step * (self.sums[k] - self.shift[k] * self.weight)
        if self.profiled:
            self.base -= (self.slope_b + self.total) / self.weight
            self.total = -self.slope_b

    def epoch(self, whole: cython.bint) -> None:
        """One round of coordinate steps over the working set, or over its non-zero part."""
        k: cython.Py_ssize_t
        curve: float
        theta: float
        new: float
        for k in range(self.theta.shape[0]):
            curve = self.curve[k]
            theta = self.theta[k]
            if curve <= 0.0 or (not whole and theta == 0.0):
                continue
            new = shrunk(
                theta - self.slope_at(k) / curve, 1.0 / curve, self.l1[k], self.l2[k], self.lower[k], self.upper[k]
            )
            if new != theta:
                self.move(k, new)

    def violation(self) -> float:
        """The largest violation of the model's conditions; ``support`` and ``rest`` ← the conditions on the support."""
        k: cython.Py_ssize_t
        q: float
        theta: float
        worst: float = 0.0
        self.held = 0
        for k in range(self.theta.shape[0]):
            if self.curve[k] <= 0.0:
                continue
            theta = self.theta[k]
            q = self.slope_at(k) + self.l2[k] * theta
            if theta > 0.0:
                q += self.l1[k]
            elif theta < 0.0:
                q -= self.l1[k]
            elif self.l1[k] > 0.0:
                q = q - self.l1[k] if q > self.l1[k] else min(q + self.l1[k], 0.0)
            if theta <= self.lower[k]:
                q = min(q, 0.0)
            elif theta >= self.upper[k]:
                q = max(q, 0.0)
            elif theta != 0.0 or self.l1[k] == 0.0:
                self.support[self.held] = k
                self.rest[self.held] = -q
                self.held += 1
            worst = max(worst, fabs(q))
        return worst

    def times_hessian(self) -> None:
        """``product`` ← the model's matrix on the support times ``direction``."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        mean: float = 0.0
        total: float = 0.0
        columns: cython.Py_ssize_t = self.held
        self.image[:] = 0.0
        if self.held > 0 and self.support[self.held - 1] == self.rooms.shape[0]:  # the intercept, among the parameters
            columns -= 1
            self.image[:] = self.direction[columns]
        for i in range(columns):
            k = self.support[i]
            self.columns.add(self.rooms[k], self.direction[i] / self.scale[k], self.image)
        if self.profiled:
            for i in range(self.h.shape[0]):
                mean += self.h[i] * self.image[i]
            mean /= self.weight
        for i in range(self.h.shape[0]):
            self.image[i] = self.h[i] * (self.image[i] - mean)
            total += self.image[i]
        for i in range(self.held):
            k = self.support[i]
            self.product[i] = self.l2[k] * self.direction[i]
            if i < columns:
                self.product[i] += self.columns.dot(self.rooms[k], self.image) / self.scale[k]
            else:
                self.product[i] += total

    def conjugate_gradients(self, accuracy: float, products: cython.Py_ssize_t) -> int:
        """Conjugate gradients for the conditions in ``rest`` on the support; the change is left in ``delta``."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        done: cython.Py_ssize_t = 0
        step: float
        curvature: float
        following: float
        rho: float = 0.0
        worst: float = 0.0
        for i in range(self.held):
            k = self.support[i]
            self.delta[i] = 0.0
            self.direction[i] = self.rest[i] / (self.curve[k] + self.l2[k])
            rho += self.rest[i] * self.direction[i]
            worst = max(worst, fabs(self.rest[i]))
        while done < products and worst > accuracy:
            self.times_hessian()
            curvature = 0.0
            for i in range(self.held):
                curvature += self.product[i] * self.direction[i]
            if not curvature > 0.0:
                break
            done += 1
            step = rho / curvature
            following = 0.0
            worst = 0.0
            for i in range(self.held):
                k = self.support[i]
                self.delta[i] += step * self.direction[i]
                self.rest[i] -= step * self.product[i]
                following += self.rest[i] * self.rest[i] / (self.curve[k] + self.l2[k])
                worst = max(worst, fabs(self.rest[i]))
            for i in range(self.held):
                k = self.support[i]
                self.direction[i] = self.rest[i] / (self.curve[k] + self.l2[k]) + following / rho * self.direction[i]
            rho = following
        return done

    def value(self) -> float:
        """The model's value, but for a constant."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        theta: float
        step: float
        whole: float
        total: float = 0.0
        moved: float = self.base
        for k in range(self.theta.shape[0]):
            theta = self.theta[k]
            step = theta - self.start[k]
            moved += self.shift[k] * step / self.scale[k]
            total += self.slope[k] * step + self.l1[k] * fabs(theta) + 0.5 * self.l2[k] * theta * theta
        total += self.slope_b * moved
        for i in range(self.h.shape[0]):
            whole = self.change[i] + self.base
            total += 0.5 * self.h[i] * whole * whole
        return total

    def shift_support(self, step: float) -> float:
        """θ moves by step·delta on the support; what crosses zero or a bound stops there. Returns the first crossing."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        theta: float
        new: float
        first: float = 1.0
        for i in range(self.held):
            k = self.support[i]
            theta = self.theta[k]
            new = theta + step * self.delta[i]
            if self.l1[k] > 0.0 and new * theta <= 0.0:
                first = min(first, theta / (theta - new) if theta != new else 1.0)
                new = 0.0
            new = min(max(new, self.lower[k]), self.upper[k])
            if new != theta:
                self.move(k, new)
        return first

    def shift_as_far_as_it_gains(self) -> float:
        """Go by ``delta``; where crossings cost more than that gains, only as far as the first."""
        first: float
        before: float = self.value()
        base: float = self.base
        total: float = self.total
        self.kept[:] = self.change
        self.direction[:] = self.theta
        first = self.shift_support(1.0)
        if first < 1.0 and self.value() > before:
            self.theta[:] = self.direction
            self.change[:] = self.kept
            self.base = base
            self.total = total
            self.shift_support(first)
        return first

    def solve(self, accuracy: float, epochs: cython.Py_ssize_t, rounds: cython.Py_ssize_t) -> tuple[float, bool]:
        """Find the minimiser, to ``accuracy`` in its conditions: (how many columns were read, whether it was reached)."""
        read: float = 0.0
        reached: cython.bint = False
        products: cython.Py_ssize_t = 8
        turn: cython.Py_ssize_t = 0
        done: cython.Py_ssize_t
        e: cython.Py_ssize_t
        with cython.nogil:
            while True:
                for e in range(epochs):
                    self.epoch(e == 0)
                read += 2.0 * epochs * self.rooms.shape[0]
                if turn == rounds:
                    break
                reached = self.violation() <= accuracy
                read += self.rooms.shape[0]
                if reached:
                    break
                done = self.conjugate_gradients(0.5 * accuracy, products)
                read += (2.0 * done + 1.0) * self.held
                products *= 2
                if self.shift_as_far_as_it_gains() == 1.0:
                    reached = self.violation() <= accuracy
                    read += self.rooms.shape[0]
                    if reached:
                        break
                turn += 1
        return read, reached


class WorkingSet:
    """The columns that move now, among those near the bound: Newton steps on them read nothing else."""

    def __init__(self, risk: Risk) -> None:
        self.risk = risk
        design = risk.design
        self.profiled = design.intercept and bool(risk.penalty.free[design.d])
        self.penalised = design.intercept and not self.profiled
        self.store = ColumnStore(design.X, design.slices)
        self.ids = self.rooms = self.near = np.zeros(0, dtype=np.int64)
        self.rounds = ROUNDS

    def gather(self, point: Point, g: np.ndarray, alive: np.ndarray) -> None:
        """Bring the columns that hold a coefficient, break the bound or are near it together."""
        d, l1 = self.risk.design.d, self.risk.penalty.l1[: self.risk.design.d]
        held = point.theta[:d] != 0.0
        filled = np.abs(g[:d]) / np.maximum(l1, 1e-300)
        filled[~alive] = 0.0
        filled[held] = np.inf
        breaking = int((filled > 1.0).sum())
        most = max(LEAST, min(2 * breaking, breaking + MOST))
        near = np.flatnonzero(filled > NEAR)
        near = near if len(near) <= most else np.sort(near[np.argpartition(-filled[near], most)[:most]])
        absent = self.store.room_of[near] < 0
        if not (filled[near][absent] > 1.0).any():  # not worth a reading of the matrix
            near = near[~absent]
        self.near = near

    def choose(self, point: Point, g: np.ndarray) -> float:
        """The support and the worst offenders move next; returns the largest violation among the near columns."""
        penalty, near = self.risk.penalty, self.near
        offence = np.abs(penalty.stationarity(point.theta, g, near))
        worst = float(offence.max(initial=abs(float(g[self.risk.design.d])) if self.profiled else 0.0))
        support = point.theta[near] != 0.0
        offence[support] = np.inf
        offenders, held = int((offence > 0.0).sum()), int(support.sum())
        count = min(offenders, max(LEAST, 2 * held, min(offenders // 2, MOST)))
        chosen = np.argpartition(-offence, count - 1)[:count] if 0 < count < len(near) else np.flatnonzero(offence > 0)
        self.ids = near[np.sort(chosen)]
        self.rooms = self.store.rooms(self.ids, near)
        return worst

    def gradient(self, point: Point, g: np.ndarray) -> np.ndarray:
        """A copy of g with the gradient at this point for the near columns and the intercept."""
        design, near, g, raw = self.risk.design, self.near, g.copy(), np.empty(len(self.near))
        self.store.columns.products(self.store.room_of[near], point.slope, raw)
        total = float(point.slope.sum())
        g[near] = (raw - design.shift[near] * total) / design.scale[near]
        if design.intercept:
            g[design.d] = total
        design.passes += len(near) / max(1, design.d)
        return g

    def newton(self, point: Point, g: np.ndarray, worst: float, effort: float) -> Point | None:
        """The point after one quadratic model; None when rounding hides any decrease."""
        risk, design, penalty, ids = self.risk, self.risk.design, self.risk.penalty, self.ids
        moving = np.append(ids, design.d) if self.penalised else ids
        model = QuadraticModel(self.store.columns, self.rooms, point.theta[moving], g[moving], point.curvature)
        model.give_penalty(penalty, moving)
        one = np.ones(len(moving) - len(ids))
        model.standardise(
            np.append(design.shift[ids], 0.0 * one),
            np.append(design.scale[ids], one),
            float(g[design.d]) if design.intercept else 0.0,
            self.profiled,
        )
        held = int(np.count_nonzero(point.theta[moving]))
        far = len(moving) - held > FAR * held
        ratio = worst / float(penalty.l1.max(initial=1e-300))
        read, reached = model.solve(
            effort * worst * min(0.1, max(ratio, FLOOR)), 4 if far else 2, 0 if far else self.rounds
        )
        found, change, constant = model.moved()
        if not far and not reached and np.count_nonzero(found) == held:
            self.rounds = min(self.rounds + 1, MOST_ROUNDS)
        design.passes += read / max(1, design.d)
        theta = point.theta.copy()
        theta[moving] = found
        if self.profiled:
            theta[design.d] += constant
        following = descend_to(risk, point, theta, change, g)
        return None if following is None else profile_intercept(risk, following)


def by_columns(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """A growing working set of columns; the driver's certificate of each point screens the others."""
    design = risk.design
    norms = design.lengths(risk.c)
    bound = risk.curvature_bound
    alive = np.ones(design.d, dtype=bool)
    point = profile_intercept(risk, risk.point(risk.penalty.prox(start, 0.0)))
    working, effort, patience = WorkingSet(risk), 1.0, Patience(risk)
    while True:
        yield point
        alive &= ~settled(risk, point, norms, bound)
        before, g = point, risk.gradient(point)
        working.gather(point, g, alive)
        if not len(working.near) and not design.intercept:
            return
        first = worst = working.choose(point, g)
        for _ in range(STEPS):
            following = working.newton(point, g, worst, effort)
            if following is None:
                break
            point = following
            g = working.gradient(point, g)
            worst = working.choose(point, g)
            if worst <= ENOUGH * first:
                break
        if point is before:
            if effort < 1e-7:
                return
            effort *= 1e-2
            continue
        if patience.over(before, point):
            return
        if before.objective - point.objective < 1e-2 * max(before.gap, 0.0):
            effort = max(0.3 * effort, 1e-8)


def settled(risk: Risk, point: Point, norms: np.ndarray, bound: float) -> np.ndarray:
    """The columns whose optimal coefficient this point's dual proves to be zero."""
    d, penalty = risk.design.d, risk.penalty
    if point.z is None or not math.isfinite(bound) or not math.isfinite(point.gap):
        return np.zeros(d, dtype=bool)
    radius = norms * math.sqrt(2.0 * bound * (max(point.gap, 0.0) + 1e-15 * abs(point.objective)))
    inside = (penalty.lower[:d] <= 0.0) & (penalty.upper[:d] >= 0.0)
    return inside & (np.abs(point.z[:d]) + radius < penalty.l1[:d])
