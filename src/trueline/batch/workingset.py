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

import numpy as np

from .._jit import kernel
from .columns import ColumnStore, column_products, column_sums
from .coordinate import descend_to, profile_intercept, shrunk
from .gradient import Patience
from .risk import Point, Risk

FAR = 0.3  # new columns for each old one in a working set whose signs are not worth fixing yet
NEAR = 0.8  # part of the bound from which a column is kept at hand
LEAST, MOST = 100, 8000  # columns that may always move, and that may enter at once
FLOOR = 0.01  # part of the violation below which no single model is solved
STEPS = 2  # Newton steps on a working set between two readings of the whole matrix
ROUNDS, MOST_ROUNDS = 3, 12  # of conjugate gradients on a model: more only where the support no longer changes
ENOUGH = 0.003  # part of the violation at which the set has given what it can


# The rows of a working set's table: one place a parameter, a penalised intercept last. Then the places of ``state``: the
# constant part of the scores' change, Σh·(whole change), the intercept's slope, Σh, whether the intercept is profiled.
START, THETA, SLOPE, L1, L2, LOWER, UPPER, SHIFT, SCALE, CURVE, HX, DELTA, REST, DIRECTION, PRODUCT = range(15)
BASE, TOTAL, SLOPE_B, WEIGHT, PROFILED = range(5)


@kernel
def slope_at(columns, rooms, table, k, pair, state):
    """The model's derivative in parameter k."""
    if k == rooms.shape[0]:
        return table[SLOPE, k] + state[TOTAL]
    raw = columns.dot(rooms[k], pair) + state[BASE] * table[HX, k] - table[SHIFT, k] * state[TOTAL]
    return table[SLOPE, k] + raw / table[SCALE, k]


@kernel
def move(columns, rooms, table, k, new, pair, state):
    """Parameter k takes a new value; the scores' change follows, and the intercept if it is profiled."""
    step = (new - table[THETA, k]) / table[SCALE, k]
    table[THETA, k] = new
    if k == rooms.shape[0]:
        state[BASE] += step
    else:
        columns.move(rooms[k], step, pair)
        state[BASE] -= step * table[SHIFT, k]
    state[TOTAL] += step * (table[HX, k] - table[SHIFT, k] * state[WEIGHT])
    if state[PROFILED] > 0.0:
        state[BASE] -= (state[SLOPE_B] + state[TOTAL]) / state[WEIGHT]
        state[TOTAL] = -state[SLOPE_B]


@kernel
def epoch(columns, rooms, table, pair, state, whole):
    """One round of coordinate steps over the working set, or over its non-zero part."""
    for k in range(table.shape[1]):
        curve, theta = table[CURVE, k], table[THETA, k]
        if curve <= 0.0 or (not whole and theta == 0.0):
            continue
        q = slope_at(columns, rooms, table, k, pair, state)
        new = shrunk(theta - q / curve, 1.0 / curve, table[L1, k], table[L2, k], table[LOWER, k], table[UPPER, k])
        if new != theta:
            move(columns, rooms, table, k, new, pair, state)


@kernel
def violation(columns, rooms, table, pair, state, support):
    """(largest violation of the model's conditions, size of the support); REST ← the conditions on the support."""
    worst, count = 0.0, 0
    for k in range(table.shape[1]):
        if table[CURVE, k] <= 0.0:
            continue
        theta, l1 = table[THETA, k], table[L1, k]
        q = slope_at(columns, rooms, table, k, pair, state) + table[L2, k] * theta
        if theta > 0.0:
            q += l1
        elif theta < 0.0:
            q -= l1
        elif l1 > 0.0:
            q = q - l1 if q > l1 else min(q + l1, 0.0)
        if theta <= table[LOWER, k]:
            q = min(q, 0.0)
        elif theta >= table[UPPER, k]:
            q = max(q, 0.0)
        elif theta != 0.0 or l1 == 0.0:
            support[count] = k
            table[REST, count] = -q
            count += 1
        worst = max(worst, abs(q))
    return worst, count


@kernel
def conjugate_steps(columns, rooms, table, h, state, support, count, accuracy, products, image):
    """Conjugate gradients for the conditions in REST on the support; the change is left in DELTA."""
    delta, rest, direction, product = table[DELTA], table[REST], table[DIRECTION], table[PRODUCT]
    rho, worst = 0.0, 0.0
    for i in range(count):
        k = support[i]
        delta[i] = 0.0
        direction[i] = rest[i] / (table[CURVE, k] + table[L2, k])
        rho += rest[i] * direction[i]
        worst = max(worst, abs(rest[i]))
    for done in range(products):
        if not worst > accuracy:
            return done
        image[:] = 0.0
        own = count > 0 and support[count - 1] == rooms.shape[0]  # the intercept, among the parameters
        held = count - int(own)
        if own:
            image[:] = direction[held]
        for i in range(held):
            columns.add(rooms[support[i]], direction[i] / table[SCALE, support[i]], image)
        mean = 0.0
        if state[PROFILED] > 0.0:
            for i in range(image.shape[0]):
                mean += h[i] * image[i]
            mean /= state[WEIGHT]
        for i in range(image.shape[0]):
            image[i] = h[i] * (image[i] - mean)
        if own:
            product[held] = image.sum() + table[L2, support[held]] * direction[held]
        for i in range(held):
            k = support[i]
            product[i] = columns.product(rooms[k], image) / table[SCALE, k] + table[L2, k] * direction[i]
        curvature = 0.0
        for i in range(count):
            curvature += product[i] * direction[i]
        if not curvature > 0.0:
            return done
        step = rho / curvature
        following, worst = 0.0, 0.0
        for i in range(count):
            delta[i] += step * direction[i]
            rest[i] -= step * product[i]
            following += rest[i] * rest[i] / (table[CURVE, support[i]] + table[L2, support[i]])
            worst = max(worst, abs(rest[i]))
        ratio = following / rho
        rho = following
        for i in range(count):
            direction[i] = rest[i] / (table[CURVE, support[i]] + table[L2, support[i]]) + ratio * direction[i]
    return products


@kernel
def model_value(table, pair, state):
    """The model's value, but for a constant."""
    total, moved = 0.0, state[BASE]
    for k in range(table.shape[1]):
        theta = table[THETA, k]
        step = theta - table[START, k]
        moved += table[SHIFT, k] * step / table[SCALE, k]
        total += table[SLOPE, k] * step + table[L1, k] * abs(theta) + 0.5 * table[L2, k] * theta * theta
    total += state[SLOPE_B] * moved
    for i in range(pair.shape[0]):
        whole = pair[i, 0] + state[BASE]
        total += 0.5 * pair[i, 1] * whole * whole
    return total


@kernel
def shift_support(columns, rooms, table, pair, state, support, count, step):
    """θ moves by step·DELTA on the support; what crosses zero or a bound stops there. Returns the first crossing."""
    first = 1.0
    for i in range(count):
        k = support[i]
        theta = table[THETA, k]
        new = theta + step * table[DELTA, i]
        if table[L1, k] > 0.0 and new * theta <= 0.0:
            first = min(first, theta / (theta - new) if theta != new else 1.0)
            new = 0.0
        new = min(max(new, table[LOWER, k]), table[UPPER, k])
        if new != theta:
            move(columns, rooms, table, k, new, pair, state)
    return first


@kernel
def solve_model(columns, rooms, table, pair, h, state, accuracy, epochs, rounds, support, image, kept):
    """The model's minimiser on the working set, to ``accuracy`` in its conditions; table, pair and state in place.

    Returns how many columns were read, and whether ``accuracy`` was reached.
    """
    read, reached = 0.0, False
    products = 8
    for turn in range(rounds + 1):
        for e in range(epochs):
            epoch(columns, rooms, table, pair, state, e == 0)
        read += 2.0 * epochs * rooms.shape[0]
        if turn == rounds:
            break
        worst, count = violation(columns, rooms, table, pair, state, support)
        read += rooms.shape[0]
        if worst <= accuracy:
            reached = True
            break
        done = conjugate_steps(columns, rooms, table, h, state, support, count, 0.5 * accuracy, products, image)
        read += (2.0 * done + 1.0) * count
        products *= 2
        before = model_value(table, pair, state)
        kept[:] = pair[:, 0]
        base, total = state[BASE], state[TOTAL]
        table[DIRECTION] = table[THETA]
        first = shift_support(columns, rooms, table, pair, state, support, count, 1.0)
        if first < 1.0 and model_value(table, pair, state) > before:
            # Crossings that cost more than the step gains: go only as far as the first.
            table[THETA] = table[DIRECTION]
            pair[:, 0] = kept
            state[BASE], state[TOTAL] = base, total
            shift_support(columns, rooms, table, pair, state, support, count, first)
        elif first == 1.0:
            worst, count = violation(columns, rooms, table, pair, state, support)
            read += rooms.shape[0]
            if worst <= accuracy:
                reached = True
                break
    return read, reached


class WorkingSet:
    """The columns that move now, among those near the bound: Newton steps on them read nothing else."""

    def __init__(self, risk: Risk) -> None:
        self.risk = risk
        design = risk.design
        self.profiled = design.intercept and bool(risk.penalty.free[-1])
        self.penalised = design.intercept and not self.profiled
        self.store = ColumnStore(design.X, design.sparse)
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
        worst = float(offence.max(initial=abs(float(g[-1])) if self.profiled else 0.0))
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
        column_products(self.store.columns, self.store.room_of[near], point.slope, raw)
        total = float(point.slope.sum())
        g[near] = (raw - design.shift[near] * total) / design.scale[near]
        if design.intercept:
            g[-1] = total
        design.passes += len(near) / max(1, design.d)
        return g

    def newton(self, point: Point, g: np.ndarray, worst: float, effort: float) -> Point | None:
        """The point after one quadratic model; None when rounding hides any decrease."""
        risk, design, penalty, ids = self.risk, self.risk.design, self.risk.penalty, self.ids
        h, weight, count = point.curvature, float(point.curvature.sum()), len(ids)
        moving = np.append(ids, design.d) if self.penalised else ids
        table, state, second = np.empty((15, len(moving))), np.zeros(5), np.empty(len(moving))
        table[START] = table[THETA] = point.theta[moving]
        table[SLOPE] = g[moving]
        for row, values in zip((L1, L2, LOWER, UPPER), (penalty.l1, penalty.l2, penalty.lower, penalty.upper)):
            table[row] = values[moving]
        table[SHIFT, :count], table[SHIFT, count:] = design.shift[ids], 0.0
        table[SCALE, :count], table[SCALE, count:] = design.scale[ids], 1.0
        column_sums(self.store.columns, self.rooms, h, table[HX], second)
        table[HX, count:] = second[count:] = weight
        hx, m, s = table[HX], table[SHIFT], table[SCALE]
        curve = (second - 2.0 * m * hx + m * m * weight) / s**2
        state[WEIGHT] = weight
        if self.profiled and weight > 0.0:
            curve -= ((hx - m * weight) / s) ** 2 / weight  # the intercept follows, and takes its share
            state[:] = -g[-1] / weight, -g[-1], g[-1], weight, 1.0
        table[CURVE] = np.where(curve > 1e-12 * second / s**2, curve, 0.0)
        held = int(np.count_nonzero(table[THETA]))
        far = len(moving) - held > FAR * held
        ratio = worst / float(penalty.l1.max(initial=1e-300))
        pair = np.zeros((design.n, 2), order=self.store.columns.order)
        pair[:, 1] = h
        image, kept = np.empty(design.n), np.empty(design.n)
        read, reached = solve_model(
            self.store.columns, self.rooms, table, pair, h, state, effort * worst * min(0.1, max(ratio, FLOOR)),
            4 if far else 2, 0 if far else self.rounds, np.empty(len(moving), dtype=np.int64), image, kept,
        )  # fmt: skip
        if not far and not reached and np.count_nonzero(table[THETA]) == held:
            self.rounds = min(self.rounds + 1, MOST_ROUNDS)
        design.passes += read / max(1, design.d)
        change = pair[:, 0] + state[BASE]
        theta = point.theta.copy()
        theta[moving] = table[THETA]
        if self.profiled:
            theta[-1] += state[BASE] + float((m * (table[THETA] - table[START]) / s).sum())
        following = descend_to(risk, point, theta, change, g)
        return None if following is None else profile_intercept(risk, following)


def by_columns(risk: Risk, start: np.ndarray) -> Iterator[Point]:
    """A growing working set of columns; the driver's certificate of each point screens the others."""
    design = risk.design
    norms = design.lengths(risk.c)
    bound = float(risk.loss.curvature_bound()) if hasattr(risk.loss, "curvature_bound") else math.inf
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
