"""The one loop of online learning: get x, predict, observe y, suffer V(y, s), update. Any loss, any geometry, any rows.

Everything that differs lives in the parts: rows know their layout, the loss its slope, the geometry the move. The loop
only counts. Sums that a certificate needs are kept when asked for.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np

from ..simd import Array
from .geometries import Geometry
from .learner_state import LearnerState

if not cython.compiled:  # compiled, these come from learning_loop.pxd
    from math import exp, fabs, log1p, sqrt
    from math import inf as INFINITY

    from ..data.row_access import Rows, begin, end, row_add, row_dot, row_norm2
    from ..objective.loss_interface import Loss
    from .geometries import pay, pay_all

LIMIT: cython.double = 1e100
HUGE = 1e100  # the same for Python: a score, slope or step beyond this is an overflow on its way


@cython.final
@cython.cclass
class Rule:
    """How a learner learns: its loss, geometry, rate base/t^power, penalties, and what it keeps beside the weights."""

    def __init__(
        self, loss: Loss, geometry: Geometry, rate: tuple[float, float], penalty: tuple[float, float] = (0.0, 0.0),
        batch: int = 1, intercept: bool = True, certify: bool = True, average: bool = False,
    ) -> None:  # fmt: skip
        self.loss, self.geometry = loss, geometry
        self.rate, self.power = rate
        self.l1, self.l2 = penalty
        self.batch, self.intercept, self.certify, self.average = batch, intercept, certify, average
        self.penalised = self.l1 + self.l2 > 0.0
        # Where a row moves the weights by a multiple of itself, the sum of all weights needs the row's entries only.
        self.lazy_mean = average and geometry.plain and batch == 1 and not self.penalised

    def state(self, width: int) -> LearnerState:
        """The state of a learner of so many features before its first example."""
        needed = ["memory", "low", "high"] if self.geometry.adaptive or self.geometry.name == "own" else []
        needed += ["pending"] if self.batch > 1 else []
        needed += ["average"] if self.average else []
        needed += ["shrunk", "cut"] if self.penalised else []
        needed += ["start"] if self.geometry.linked else []
        return LearnerState(width, self.intercept, needed)

    def fits(self, state: LearnerState) -> bool:
        """Whether the state has the arrays that the rule writes."""
        width: cython.Py_ssize_t = state.width
        return (
            state.dual.shape[0] > width
            and (not (self.geometry.adaptive or self.geometry.name == "own") or state.memory.shape[0] > width)
            and state.low.shape[0] == state.memory.shape[0] == state.high.shape[0]
            and (self.batch == 1 or state.pending.shape[0] > width)
            and (not self.average or state.average.shape[0] > width)
            and (not self.penalised or state.shrunk.shape[0] > width)
            and state.cut.shape[0] == state.shrunk.shape[0]
            and (not self.geometry.linked or state.start.shape[0] > width)
            and state.older.shape[0] == state.newer.shape[0]
            and (state.newer.shape[0] == 0 or state.newer.shape[0] > width)
            and self.intercept == state.intercept
        )

    def suits(self, state: LearnerState) -> bool:
        """As ``fits``, for Python."""
        return self.fits(state)

    def base(self, round: float) -> float:
        """η at a round, from 1."""
        return self.rate if self.power == 0.0 else self.rate / round**self.power

    def __reduce__(self) -> tuple[Any, ...]:
        kept = bool(self.intercept), bool(self.certify), bool(self.average)
        return Rule, (self.loss, self.geometry, (self.rate, self.power), (self.l1, self.l2), self.batch, *kept)


@cython.final
@cython.cclass
class Examples:
    """Rows with their targets, weights (none: 1 each) and the order in which they are learned (none: as they stand)."""

    def __init__(self, rows: Rows, y: Array, weights: Any = None, order: Any = None) -> None:
        self.rows = rows
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        self.weights = np.zeros(0) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        places = np.zeros(0, dtype=np.int64) if order is None else np.ascontiguousarray(order, dtype=np.int64)
        self.order = places
        self.count = len(places) if len(places) else rows.count
        self.now = Round()
        if self.y.shape[0] != rows.count or self.weights.shape[0] not in (0, rows.count):
            raise ValueError(f"{rows.count} rows with {self.y.shape[0]} targets and {self.weights.shape[0]} weights")
        if len(places) and not (places.min() >= 0 and places.max() < rows.count):
            raise ValueError(f"the order names rows that are not among the {rows.count}")


@cython.final
@cython.cclass
class Round:
    """The numbers of one round."""

    def __init__(self) -> None:
        self.score = self.y = self.c = self.suffered = self.slope = self.norm2 = self.share = 0.0


def learn(
    examples: Examples, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, rule: Rule, state: LearnerState, out: Array
) -> int:
    """Learn rows start … stop − 1 in order; the scores before each update go to ``out``.

    Returns ``stop``, or the position of the first row whose score or step is not a usable number: the state is then
    the one before that row.
    """
    reached: cython.Py_ssize_t
    within: cython.bint = 0 <= start <= stop <= examples.count and stop <= out.shape[0]
    if not within or examples.rows.width > state.width or not rule.fits(state):
        raise ValueError("rows, state and scores do not fit together")
    with cython.nogil:
        reached = run(examples, start, stop, rule, state, out)
    return reached


def run(
    examples: Examples, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, rule: Rule, state: LearnerState, out: Array
) -> int:
    at: cython.Py_ssize_t = start
    i: cython.Py_ssize_t
    weighted: cython.bint = examples.weights.shape[0] > 0
    ordered: cython.bint = examples.order.shape[0] > 0
    normed: cython.bint = rule.geometry.normed
    direct: cython.bint = rule.geometry.plain and rule.batch == 1
    direct = direct and not (rule.penalised or rule.certify or rule.average)
    c: float = 1.0
    norm2: float = 1.0
    y: float
    score: float
    base: float
    step: float
    slope: float
    value: float
    while at < stop:
        i = examples.order[at] if ordered else at
        if weighted:
            c = examples.weights[i]
        y = examples.y[i]
        score = rule.geometry.score(examples.rows, i, state)
        base = rule.base(state.rounds + 1.0)
        step = c * base
        if normed or rule.certify:
            norm2 = row_norm2(examples.rows, i) + rule.intercept
        if normed:
            step = rule.geometry.step(step, norm2)
            slope = rule.geometry.slope(rule.loss, score, y, step * norm2)
        else:
            slope = rule.loss.slope(score, y)
        value = rule.loss.value(score, y)
        # One comparison for all, which NaN fails.
        if not (score * score + slope * slope + step * slope * (step * slope) <= LIMIT * LIMIT and norm2 <= LIMIT):
            break
        if direct:
            if step * slope != 0.0:
                rule.geometry.move(examples.rows, i, slope, step, state)
        else:
            examples.now.score, examples.now.y, examples.now.c = score, y, c
            examples.now.suffered, examples.now.slope, examples.now.norm2 = c * value, slope, norm2
            examples.now.share = step / base
            learn_row(examples, i, step, rule, state)
        out[at] = score
        state.rounds += 1.0
        state.weight += c
        state.loss += c * value
        at += 1
    return at


def learn_row(examples: Examples, i: cython.Py_ssize_t, step: float, rule: Rule, state: LearnerState) -> int:
    """Move the weights by a row, and keep what a certificate or a mean needs of it."""
    slope: float = examples.now.slope
    share: float = examples.now.share  # a row's weight, or its share of a normalised step, belongs to its gradient
    base: float = rule.base(state.rounds + 1.0)
    before: float = 0.0
    after: float = 0.0
    certified_link: cython.bint = rule.certify and rule.geometry.linked
    if rule.penalised:
        pay(examples.rows, i, state)
    if rule.average and not rule.lazy_mean:
        add_weights(rule.geometry, examples.now.c, state)
    if certified_link:
        before = rule.geometry.conjugate(state)
    if rule.certify:
        count_row(examples, i, rule, state)
    if rule.batch > 1:
        row_add(examples.rows, i, share * slope, state.pending, 1)
        if rule.intercept:
            state.pending[0] += share * slope
        state.waiting += 1.0
        if state.waiting >= rule.batch:
            finish(rule, base, state)
    elif rule.geometry.plain:
        move_plainly(examples, i, step, rule, state)
    elif rule.geometry.adaptive:
        rule.geometry.move(examples.rows, i, share * slope, base, state)
    else:
        rule.geometry.move(examples.rows, i, slope, step, state)
    if certified_link:
        after = rule.geometry.conjugate(state)
        if rule.power > 0.0:
            state.distance = max(state.distance, after - rule.geometry.lowest(state))
    if rule.certify and (rule.batch == 1 or rule.geometry.normed):
        add_excess(examples, step, before, after, rule, state)
    if rule.penalised:
        state.threshold += step * rule.l1 * exp(state.shrink)
        state.shrink += log1p(step * rule.l2)
        if state.shrink > 50.0:
            pay_all(state)
    return 0


def move_plainly(examples: Examples, i: cython.Py_ssize_t, step: float, rule: Rule, state: LearnerState) -> int:
    """Where a row moves the weights by a multiple of itself, their mean and their length follow from its entries."""
    shift: float = step * examples.now.slope
    past: float = (state.weight + examples.now.c) * shift
    if shift != 0.0:
        rule.geometry.move(examples.rows, i, examples.now.slope, step, state)
        if rule.lazy_mean:  # Σ_t w_t = (Σc)·w_now − Σ_τ (Σc up to τ)·Δ_τ
            row_add(examples.rows, i, past, state.average, 1)
            if rule.intercept:
                state.average[0] += past
    if rule.certify:
        state.size2 += shift * (shift * examples.now.norm2 - 2.0 * examples.now.score)
        state.largest_size2 = max(state.largest_size2, state.size2)
    return 0


def count_row(examples: Examples, i: cython.Py_ssize_t, rule: Rule, state: LearnerState) -> int:
    """What a certificate needs of a round, before the update."""
    now_c: float = examples.now.c
    share: float = examples.now.share
    y: float = examples.now.y
    one: float = examples.now.suffered / now_c if now_c > 0.0 else 0.0
    zero: float = 0.0
    if rule.geometry.linked:
        zero = frozen_score(examples.rows, i, state.start)
        note_row(examples.rows, i, share, state)
    state.zero_loss += share * rule.loss.value(zero, y)
    if state.newer.shape[0] > 0:
        state.older_loss += share * rule.loss.value(frozen_score(examples.rows, i, state.older), y)
        state.newer_loss += share * rule.loss.value(frozen_score(examples.rows, i, state.newer), y)
        state.older_own += share * one
        state.newer_own += share * one
    state.largest_loss = max(state.largest_loss, examples.now.suffered)
    state.step_loss += share * one
    state.step_weight += share
    state.largest_norm2 = max(state.largest_norm2, examples.now.norm2)
    state.reach = max(state.reach, share * examples.now.norm2)
    state.slope2 += now_c * now_c * examples.now.slope * examples.now.slope
    if examples.now.score * y <= 0.0:
        state.mistakes += 1.0
    return 0


def add_excess(examples: Examples, step: float, before: float, after: float, rule: Rule, state: LearnerState) -> int:
    """A round's bracket of the universal bound."""
    excess: float = examples.now.share * rule.geometry.excess(
        rule.loss, examples.now.score, examples.now.y, examples.now.slope, examples.now.norm2, step, before, after
    )
    state.excess += excess
    state.older_excess += excess
    state.newer_excess += excess
    return 0


def note_row(rows: Rows, i: cython.Py_ssize_t, share: float, state: LearnerState) -> None:
    """The largest range and entry of a row, absent entries and the intercept included, times √share."""
    k: cython.Py_ssize_t
    low: float = 1.0 if state.intercept else INFINITY
    high: float = 1.0 if state.intercept else -INFINITY
    if end(rows, i) - begin(rows, i) < state.width:
        low, high = min(low, 0.0), max(high, 0.0)
    for k in range(begin(rows, i), end(rows, i)):
        low, high = min(low, rows.values[k]), max(high, rows.values[k])
    state.range = max(state.range, sqrt(share) * (high - low))
    state.peak = max(state.peak, sqrt(share) * max(fabs(low), fabs(high)))


def frozen_score(rows: Rows, i: cython.Py_ssize_t, weights: Array) -> float:
    """x_i · weights that no longer move."""
    return row_dot(rows, i, weights, 1) + weights[0]


def add_weights(geometry: Geometry, c: float, state: LearnerState) -> int:
    """Add the current weights to the running sum, where no shorter way is known."""
    j: cython.Py_ssize_t
    for j in range(state.width + 1):
        state.average[j] += c * geometry.weight(j, state)
    return 0


def finish(rule: Rule, step: float, state: LearnerState) -> int:
    """Apply the mean of a mini-batch's steps.

    Its bracket is that of the mean gradient, counted once a row. A normalised or implicit step is not a gradient's, so
    there the rows' own brackets were added: B(u, ·) is convex, so the mean of steps from one point is no further from u
    than they are in the mean.
    """
    j: cython.Py_ssize_t
    gradient: float
    along: float = 0.0
    norm2: float = 0.0
    before: float = rule.geometry.conjugate(state)
    for j in range(state.width + 1):
        gradient = state.pending[j] / state.waiting
        norm2 += gradient * gradient
        if rule.geometry.linked and gradient != 0.0:
            along += gradient * rule.geometry.weight(j, state)
        state.pending[j] = gradient
    for j in range(state.width + 1):
        if state.pending[j] != 0.0:
            rule.geometry.move_one(j, state.pending[j], step, state)
            state.pending[j] = 0.0
    rule.geometry.sum_masses(state)
    if rule.geometry.normed:
        norm2 = 0.0
    elif rule.geometry.linked:
        state.excess += state.waiting * max(0.0, along + (rule.geometry.conjugate(state) - before) / step)
    else:
        state.excess += state.waiting * 0.5 * step * norm2
    state.waiting = 0.0
    return 0


def finished(rule: Rule, state: LearnerState) -> LearnerState:
    """The state after the update that an unfinished mini-batch would make now; the state itself where there is none."""
    if state.waiting == 0.0:
        return state
    _, (width, intercept, names, arrays) = state.__reduce__()
    twin = LearnerState(width, intercept, names)
    twin.take(arrays)
    finish(rule, rule.base(max(1.0, state.rounds)), twin)
    return twin


def scores(rows: Rows, geometry: Geometry, state: LearnerState, out: Array) -> int:
    """The scores of all rows; the position of the first that is not a usable number, or how many there are."""
    if rows.width > state.width or out.shape[0] < rows.count or state.dual.shape[0] <= state.width:
        raise ValueError("rows, state and scores do not fit together")
    return run_scores(rows, geometry, state, out)


def run_scores(rows: Rows, geometry: Geometry, state: LearnerState, out: Array) -> int:
    i: cython.Py_ssize_t = 0
    score: float
    while i < rows.count:
        score = geometry.score(rows, i, state)
        if not fabs(score) <= LIMIT:
            break
        out[i] = score
        i += 1
    return i


def read_weights(geometry: Geometry, state: LearnerState) -> Array:
    """The weights that the next prediction uses, intercept first; the state is not touched."""
    out = np.empty(state.width + 1)
    fill_weights(geometry, state, out)
    return out


def fill_weights(geometry: Geometry, state: LearnerState, out: Array) -> int:
    j: cython.Py_ssize_t
    for j in range(state.width + 1):
        out[j] = geometry.weight(j, state)
    return 0


def sum_masses(geometry: Geometry, state: LearnerState) -> None:
    """Sum the total of a linked geometry afresh: after new coordinates, or new θ."""
    geometry.sum_masses(state)


def conjugate(geometry: Geometry, state: LearnerState) -> float:
    """ψ*(θ)."""
    return geometry.conjugate(state)


def risk(examples: Examples, loss: Loss, u: Array, gradient: Array) -> float:
    """Σ c·V(y, u·x) of fixed weights u (intercept first), and its gradient: the second pass of a comparator."""
    if len(u) != examples.rows.width + 1 or len(gradient) != len(u):
        raise ValueError("the comparator and the rows do not have the same columns")
    gradient[:] = 0.0
    return risk_rows(examples, loss, np.ascontiguousarray(u), gradient)


def risk_rows(examples: Examples, loss: Loss, u: Array, gradient: Array) -> float:
    i: cython.Py_ssize_t
    c: float = 1.0
    score: float
    slope: float
    total: float = 0.0
    for i in range(examples.rows.count):
        if examples.weights.shape[0] > 0:
            c = examples.weights[i]
        score = frozen_score(examples.rows, i, u)
        total += c * loss.value(score, examples.y[i])
        slope = c * loss.slope(score, examples.y[i])
        gradient[0] += slope
        row_add(examples.rows, i, slope, gradient, 1)
    return total
