"""Geometries: how a gradient moves the weights. w_{t+1} minimises η·V(y_t, w·x_t) + distance(w, w_t).

The state keeps dual weights θ. Where distance is squared Euclidean, w = θ; otherwise w = ∇ψ*(θ), which may couple the
coordinates through one total (exponentiated_gradient.py). A geometry takes a whole row: the loop over its entries stands
here, so that the loop over rows calls it once to predict and once to move.

A penalty is owed, not applied: each coordinate remembers how much shrinkage it has paid and pays the rest when its row
comes. With a_t = rate·l1 and Δ_t = ln(1 + rate·l2) the prox of round t is |w| ← (|w| − a_t)₊·exp(−Δ_t); over many rounds
that is (|w|·exp(A_s) − (C_t − C_s))₊·exp(−A_t), A = ΣΔ and C = Σ a_τ·exp(A_{τ−1}): two numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cython
import numpy as np

from ..simd import Array
from .learner_state import LearnerState

if not cython.compiled:  # compiled, these come from geometries.pxd
    from math import copysign, exp, fabs, sqrt

    from ..data.row_access import Rows, begin, column, end, row_add, row_dot
    from ..objective.loss_interface import Loss


class Geometry:
    """A distance for online learning.

    ``linked``: the weights are not θ itself; ``adaptive``: the state keeps a memory and the range of each weight;
    ``normed``: the step or the slope need ‖x‖²; ``plain``: a row moves the weights by a multiple of itself.
    """

    name = ""
    _fields: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.linked = self.adaptive = self.normed = self.plain = False

    def score(self, rows: Rows, i: cython.Py_ssize_t, state: LearnerState) -> float:
        """x_i · w; the state is not touched."""
        raise NotImplementedError

    def weight(self, j: cython.Py_ssize_t, state: LearnerState) -> float:
        """The weight of a coordinate."""
        raise NotImplementedError

    def step(self, rate: float, norm2: float) -> float:
        """The step for a row of this squared norm."""
        return rate

    def slope(self, loss: Loss, score: float, y: float, gain: float) -> float:
        """The slope to follow; ``gain`` is how far the score falls per unit of slope."""
        return loss.slope(score, y)

    def move(self, rows: Rows, i: cython.Py_ssize_t, slope: float, step: float, state: LearnerState) -> int:
        """Move the weights by the gradient slope·x_i."""
        raise NotImplementedError

    def move_one(self, j: cython.Py_ssize_t, gradient: float, step: float, state: LearnerState) -> int:
        """Move one coordinate."""
        raise NotImplementedError

    def excess(
        self, loss: Loss, score: float, y: float, slope: float, norm2: float, step: float, before: float, after: float
    ) -> float:
        """g·(w_t − w_{t+1}) − B(w_{t+1}, w_t)/step, the round's term of the universal regret bound.

        ``before`` and ``after`` are ψ*(θ) around the update of a linked geometry.
        """
        return 0.0

    def conjugate(self, state: LearnerState) -> float:
        """ψ*(θ) where the weights are a function of θ."""
        return 0.0

    def sum_masses(self, state: LearnerState) -> int:
        """Sum the total of a linked geometry afresh."""
        return 0

    def lowest(self, state: LearnerState) -> float:
        """The smallest exponent of a multiplicative weight."""
        return 0.0

    def divergence(self, u: Array) -> float:
        """B(u, w₁) of a whole comparator."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[float]:
        return (getattr(self, field) for field in self._fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{field}={getattr(self, field)!r}' for field in self._fields)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple(self) == tuple(other)  # type: ignore[call-overload]

    def __hash__(self) -> int:
        return hash((type(self), *self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self)


class Additive(Geometry):
    """Squared Euclidean distance: w ← w − η V'(y, s) x. Widrow–Hoff for squared loss.

    >>> Additive()
    Additive()
    """

    name = "additive"

    def __init__(self) -> None:
        self.linked = self.adaptive = self.normed = False
        self.plain = True

    def score(self, rows: Rows, i: cython.Py_ssize_t, state: LearnerState) -> float:
        if state.shrunk.shape[0] > 0:
            return owing_score(rows, i, state)
        return state.dual[0] + row_dot(rows, i, state.dual, 1)

    def weight(self, j: cython.Py_ssize_t, state: LearnerState) -> float:
        return settled(j, state)

    def step(self, rate: float, norm2: float) -> float:
        return rate

    def slope(self, loss: Loss, score: float, y: float, gain: float) -> float:
        return loss.slope(score, y)

    def move(self, rows: Rows, i: cython.Py_ssize_t, slope: float, step: float, state: LearnerState) -> int:
        row_add(rows, i, -(step * slope), state.dual, 1)
        if state.intercept:
            state.dual[0] -= step * slope
        return 0

    def move_one(self, j: cython.Py_ssize_t, gradient: float, step: float, state: LearnerState) -> int:
        state.dual[j] -= step * gradient
        return 0

    def excess(
        self, loss: Loss, score: float, y: float, slope: float, norm2: float, step: float, before: float, after: float
    ) -> float:
        return 0.5 * step * slope * slope * norm2

    def conjugate(self, state: LearnerState) -> float:
        return 0.0

    def sum_masses(self, state: LearnerState) -> int:
        return 0

    def lowest(self, state: LearnerState) -> float:
        return 0.0

    def divergence(self, u: Array) -> float:
        return 0.5 * float(np.dot(u, u))


@cython.final
@cython.cclass
class Normalised(Additive):
    """Additive with the step η/(epsilon + ‖x‖²): blind to the scale of a row."""

    name = "normalised"
    _fields = ("epsilon",)

    def __init__(self, epsilon: float = 1e-8) -> None:
        Additive.__init__(self)
        self.normed, self.epsilon = True, epsilon

    def step(self, rate: float, norm2: float) -> float:
        return rate / (self.epsilon + norm2)


@cython.final
@cython.cclass
class Implicit(Additive):
    """Solve for the next weights: w ← w − η V'(y, w_next·x) x. Stable at every rate."""

    name = "implicit"

    def __init__(self) -> None:
        Additive.__init__(self)
        self.normed = True

    def slope(self, loss: Loss, score: float, y: float, gain: float) -> float:
        return implicit_slope(loss, score, y, gain)

    def excess(
        self, loss: Loss, score: float, y: float, slope: float, norm2: float, step: float, before: float, after: float
    ) -> float:
        fallen: float = loss.value(score, y) - loss.value(score - step * slope * norm2, y)
        return fallen - 0.5 * step * slope * slope * norm2


@cython.final
@cython.cclass
class Adaptive(Additive):
    """AdaGrad: each coordinate's step is η/√(epsilon + the sum of its squared gradients)."""

    name = "adaptive"
    _fields = ("epsilon",)

    def __init__(self, epsilon: float = 1e-12) -> None:
        Additive.__init__(self)
        self.adaptive, self.plain, self.epsilon = True, False, epsilon

    def move(self, rows: Rows, i: cython.Py_ssize_t, slope: float, step: float, state: LearnerState) -> int:
        k: cython.Py_ssize_t
        if state.intercept:
            adapt(0, slope, step, self.epsilon, state)
        if rows.dense:
            adapt_row(rows, i, slope, step, self.epsilon, state)
        else:
            for k in range(begin(rows, i), end(rows, i)):
                adapt(rows.indices[k] + 1, slope * rows.values[k], step, self.epsilon, state)
        return 0

    def move_one(self, j: cython.Py_ssize_t, gradient: float, step: float, state: LearnerState) -> int:
        adapt(j, gradient, step, self.epsilon, state)
        return 0

    def excess(
        self, loss: Loss, score: float, y: float, slope: float, norm2: float, step: float, before: float, after: float
    ) -> float:
        return 0.0  # its bound comes from the memories and the range of each weight, at the end


def adapt(j: cython.Py_ssize_t, gradient: float, step: float, epsilon: float, state: LearnerState) -> None:
    """One coordinate's step."""
    memory: float = state.memory[j] + gradient * gradient
    dual: float = state.dual[j] - step * gradient / sqrt(epsilon + memory)
    state.memory[j] = memory
    state.dual[j] = dual
    state.low[j] = dual if dual < state.low[j] else state.low[j]
    state.high[j] = dual if dual > state.high[j] else state.high[j]


def adapt_row(rows: Rows, i: cython.Py_ssize_t, slope: float, step: float, epsilon: float, state: LearnerState) -> None:
    """The same for every feature, in a loop that C compilers turn into one over registers."""
    j: cython.Py_ssize_t
    first: cython.Py_ssize_t = begin(rows, i)
    gradient: float
    memory: float
    dual: float
    for j in range(rows.width):
        gradient = slope * rows.values[first + j]
        memory = state.memory[j + 1] + gradient * gradient
        dual = state.dual[j + 1] - step * gradient / sqrt(epsilon + memory)
        state.memory[j + 1] = memory
        state.dual[j + 1] = dual
        state.low[j + 1] = dual if dual < state.low[j + 1] else state.low[j + 1]
        state.high[j + 1] = dual if dual > state.high[j + 1] else state.high[j + 1]


def paid(w: float, shrunk: float, cut: float, shrink: float, threshold: float) -> float:
    """A coordinate after it has paid what it owes in penalties."""
    size: float = fabs(w) * exp(shrunk - shrink) - (threshold - cut) * exp(-shrink)
    return copysign(size, w) if size > 0.0 else 0.0


def settled(j: cython.Py_ssize_t, state: LearnerState) -> float:
    """The weight of a coordinate when all is paid; the intercept owes nothing."""
    if j == 0 or state.shrunk.shape[0] == 0:
        return state.dual[j]
    return paid(state.dual[j], state.shrunk[j], state.cut[j], state.shrink, state.threshold)


def pay(rows: Rows, i: cython.Py_ssize_t, state: LearnerState) -> None:
    """Let the coordinates of row i pay."""
    k: cython.Py_ssize_t
    j: cython.Py_ssize_t
    for k in range(begin(rows, i), end(rows, i)):
        j = column(rows, i, k) + 1
        state.dual[j] = settled(j, state)
        state.shrunk[j] = state.shrink
        state.cut[j] = state.threshold


def pay_all(state: LearnerState) -> None:
    """Let every coordinate pay and start the count afresh (before it overflows)."""
    j: cython.Py_ssize_t
    for j in range(1, state.width + 1):
        state.dual[j] = settled(j, state)
        state.shrunk[j] = state.cut[j] = 0.0
    state.shrink = state.threshold = 0.0


def owing_score(rows: Rows, i: cython.Py_ssize_t, state: LearnerState) -> float:
    """x_i · w where the weights owe penalties."""
    k: cython.Py_ssize_t
    score: float = state.dual[0]
    for k in range(begin(rows, i), end(rows, i)):
        score += rows.values[k] * settled(column(rows, i, k) + 1, state)
    return score


def implicit_slope(loss: Loss, score: float, y: float, gain: float) -> float:
    """The a with a = V'(score − gain·a): between 0 and V'(score), found by safeguarded regula falsi.

    a − V'(score − gain·a) never decreases in a, so the root is bracketed; at a kink of V the bracket closes on the
    subgradient. For squared loss the first secant is exact.
    """
    far: float = loss.slope(score, y)
    near: float = 0.0
    value_near: float = -far
    value_far: float
    value: float
    root: float = 0.0
    trial: cython.int
    kept: cython.int = 0
    if gain == 0.0 or far == 0.0:
        return far
    value_far = far - loss.slope(score - gain * far, y)
    if value_far == 0.0:
        return far
    for trial in range(200):
        if trial % 3 == 2 or value_far == value_near:
            root = 0.5 * (near + far)
        else:
            root = near - value_near * (far - near) / (value_far - value_near)
        if not min(near, far) < root < max(near, far):
            root = 0.5 * (near + far)
        value = root - loss.slope(score - gain * root, y)
        if fabs(value) <= 4e-16 * fabs(root) or fabs(far - near) <= 4e-16 * fabs(root):
            break
        if (value > 0.0) == (value_far > 0.0):
            far, value_far = root, value
            if kept == 1:
                value_near *= 0.5
            kept = 1
        else:
            near, value_near = root, value
            if kept == 2:
                value_far *= 0.5
            kept = 2
    return root
