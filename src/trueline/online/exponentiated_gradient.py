"""Geometries whose weights are a function of θ and of one total over all coordinates: EG, EG±, a user's mirror map.

``link`` gives a weight from its θ, ``mass`` what θ adds to the total. Masses of EG are exponentials: they are counted
from a shift that follows the largest exponent (``height``), so that they neither overflow nor vanish.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
import numpy as np

from ..simd import Array
from .geometries import Geometry
from .learner_state import LearnerState

if not cython.compiled:  # compiled, these come from exponentiated_gradient.pxd
    from math import exp, fabs, log
    from math import inf as INFINITY
    from math import isfinite as is_finite

    from ..data.row_access import Rows, begin, column, end, row_dot
    from ..objective.loss_interface import Loss

    def one_number(address: int) -> Any:
        """A C function of one number; uncompiled, none."""
        return None

    two_numbers = one_number

FAR: cython.double = 30.0  # how far exponents may leave the shift


class Linked(Geometry):
    """What the linked geometries share: the walk over a row's entries, and the total that follows each of them."""

    def __init__(self) -> None:
        self.linked, self.scale = True, 1.0
        self.adaptive = self.normed = self.plain = False

    def mass(self, dual: float, shift: float) -> float:
        """What θ_j adds to the total."""
        raise NotImplementedError

    def link(self, dual: float, state: LearnerState) -> float:
        """w_j from θ_j and the state's total."""
        raise NotImplementedError

    def height(self, dual: float) -> float:
        """The exponent that the shift must follow."""
        return 0.0

    def score(self, rows: Rows, i: cython.Py_ssize_t, state: LearnerState) -> float:
        k: cython.Py_ssize_t
        score: float = self.link(state.dual[0], state) if state.intercept else 0.0
        for k in range(begin(rows, i), end(rows, i)):
            score += rows.values[k] * self.link(state.dual[column(rows, i, k) + 1], state)
        return score

    def weight(self, j: cython.Py_ssize_t, state: LearnerState) -> float:
        return self.link(state.dual[j], state) if j > 0 or state.intercept else 0.0

    def move(self, rows: Rows, i: cython.Py_ssize_t, slope: float, step: float, state: LearnerState) -> int:
        k: cython.Py_ssize_t
        if state.intercept:
            self.move_one(0, slope, step, state)
        for k in range(begin(rows, i), end(rows, i)):
            self.move_one(column(rows, i, k) + 1, slope * rows.values[k], step, state)
        state.touched += end(rows, i) - begin(rows, i) + 1
        if state.touched >= state.width + 1.0 or not state.total > 0.0:
            self.sum_masses(state)
        return 0

    def move_one(self, j: cython.Py_ssize_t, gradient: float, step: float, state: LearnerState) -> int:
        before: float = state.dual[j]
        dual: float = before - step * self.scale * gradient
        state.dual[j] = dual
        if self.height(dual) > state.shift + FAR:
            state.touched = INFINITY  # exp would leave its range: the total is summed afresh with another shift
        else:
            state.total += self.mass(dual, state.shift) - self.mass(before, state.shift)
        return 0

    def conjugate(self, state: LearnerState) -> float:
        return log(state.total) + state.shift

    def sum_masses(self, state: LearnerState) -> int:
        j: cython.Py_ssize_t
        first: cython.Py_ssize_t = 0 if state.intercept else 1
        top: float = -INFINITY
        total: float = 0.0
        for j in range(first, state.width + 1):
            top = max(top, self.height(state.dual[j]))
        if fabs(top - state.shift) > FAR:
            state.shift = top
        for j in range(first, state.width + 1):
            total += self.mass(state.dual[j], state.shift)
        state.total = total
        state.touched = 0.0
        return 0

    def excess(
        self, loss: Loss, score: float, y: float, slope: float, norm2: float, step: float, before: float, after: float
    ) -> float:
        return max(0.0, slope * score + (after - before) / step) if step > 0.0 else 0.0

    def lowest(self, state: LearnerState) -> float:
        j: cython.Py_ssize_t
        low: float = INFINITY
        for j in range(0 if state.intercept else 1, state.width + 1):
            low = min(low, -self.height(-state.dual[j]))
        return low


@cython.final
@cython.cclass
class Multiplicative(Linked):
    """Relative entropy on the simplex: exponentiated gradient, w_i ∝ w_i exp(−η V' x_i), w₁ uniform."""

    name = "multiplicative"

    def mass(self, dual: float, shift: float) -> float:
        return exp(dual - shift)

    def link(self, dual: float, state: LearnerState) -> float:
        return exp(dual - state.shift) / state.total

    def height(self, dual: float) -> float:
        return dual

    def divergence(self, u: Array) -> float:
        u = np.asarray(u, dtype=float)
        if u.min(initial=0.0) < -1e-12 or abs(u.sum() - 1.0) > 1e-9:
            return INFINITY
        inside = u[u > 0.0]
        return max(0.0, float(np.sum(inside * np.log(inside))) + float(np.log(len(u))))


@cython.final
@cython.cclass
class SignedMultiplicative(Linked):
    """EG±: exponentiated gradient on (Ux, −Ux), so that weights have signs and ‖w‖₁ ≤ U = ``radius``.

    With one dual θ_j for each pair, w_j = U·(exp θ_j − exp −θ_j)/Σ_i(exp θ_i + exp −θ_i); θ moves by η·U·V'·x.
    """

    name = "signed"
    _fields = ("radius",)

    def __init__(self, radius: float = 1.0) -> None:
        Linked.__init__(self)
        self.radius = self.scale = radius

    def mass(self, dual: float, shift: float) -> float:
        return exp(dual - shift) + exp(-dual - shift)

    def link(self, dual: float, state: LearnerState) -> float:
        return self.radius * (exp(dual - state.shift) - exp(-dual - state.shift)) / state.total

    def height(self, dual: float) -> float:
        return fabs(dual)

    def divergence(self, u: Array) -> float:
        """RE of the best split of u/U over the 2d corners: slack goes to both signs, spread evenly over log-space."""
        u = np.abs(np.asarray(u, dtype=float)) / self.radius
        slack = 1.0 - u.sum()
        if slack < -1e-9:
            return INFINITY
        share = 0.5 * max(0.0, slack) / len(u)
        both = np.concatenate([u + share, np.full(len(u), share)])
        inside = both[both > 0.0]
        return max(0.0, float(np.sum(inside * np.log(inside))) + float(np.log(2 * len(u))))


@cython.final
@cython.cclass
class Mirrored(Linked):
    """A user's mirror map (``roles.Mirror``) with the plain dual step.

    ``find(method)`` gives the address of a C function for a method of the map, or 0. A C function cannot raise: where
    its result is not finite, and where there is none, the method is called in Python, which raises what it raises.
    """

    name = "mirrored"
    _fields = ("map",)

    def __init__(self, map: Any, remake: Callable[[Any], Any], find: Callable[[str], int] | None = None) -> None:
        Linked.__init__(self)
        self.map, self.remake, self.find = map, remake, find
        self.mass_at = one_number(find("mass") if find is not None else 0)
        self.conjugate_at = one_number(find("conjugate") if find is not None else 0)
        self.weight_at = two_numbers(find("weight") if find is not None else 0)

    def mass(self, dual: float, shift: float) -> float:
        if self.mass_at:
            result: cython.double = self.mass_at(dual)
            if is_finite(result):
                return result
        return self.mass_again(dual)

    def link(self, dual: float, state: LearnerState) -> float:
        if self.weight_at:
            result: cython.double = self.weight_at(dual, state.total)
            if is_finite(result):
                return result
        return self.link_again(dual, state.total)

    def conjugate(self, state: LearnerState) -> float:
        if self.conjugate_at:
            result: cython.double = self.conjugate_at(state.total)
            if is_finite(result):
                return result
        return self.conjugate_again(state.total)

    def mass_again(self, dual: float) -> float:
        try:
            return self.map.mass(dual)
        except OverflowError:  # as C functions have it
            return INFINITY

    def link_again(self, dual: float, total: float) -> float:
        try:
            return self.map.weight(dual, total)
        except OverflowError:  # as C functions have it
            return INFINITY

    def conjugate_again(self, total: float) -> float:
        try:
            return self.map.conjugate(total)
        except OverflowError:  # as C functions have it
            return INFINITY

    def divergence(self, u: Array) -> float:
        return float(self.map.divergence(u))

    def __reduce__(self) -> tuple[Any, ...]:
        return self.remake, (self.map,)  # C functions do not travel


@cython.final
@cython.cclass
class OwnGeometry(Linked):
    """A user's whole geometry (``roles.Geometry``), called in Python, coordinate by coordinate; its errors come out."""

    name = "own"
    _fields = ("part",)

    def __init__(self, part: Any) -> None:
        Linked.__init__(self)
        self.part = part
        self.linked, self.adaptive = bool(getattr(part, "linked", False)), bool(getattr(part, "adaptive", False))
        self.normed = True  # its step and slope may ask for ‖x‖²

    def mass(self, dual: float, shift: float) -> float:
        return self.part.mass(dual, shift)

    def link(self, dual: float, state: LearnerState) -> float:
        return self.part.weight(dual, state.total, state.shift)

    def height(self, dual: float) -> float:
        return self.part.height(dual)

    def step(self, rate: float, norm2: float) -> float:
        return self.part.step(rate, norm2)

    def slope(self, loss: Loss, score: float, y: float, gain: float) -> float:
        return self.part.slope(loss, score, y, gain)

    def score(self, rows: Rows, i: cython.Py_ssize_t, state: LearnerState) -> float:
        if self.linked:
            return Linked.score(self, rows, i, state)
        return state.dual[0] + row_dot(rows, i, state.dual, 1)

    def weight(self, j: cython.Py_ssize_t, state: LearnerState) -> float:
        return Linked.weight(self, j, state) if self.linked else state.dual[j]

    def move(self, rows: Rows, i: cython.Py_ssize_t, slope: float, step: float, state: LearnerState) -> int:
        return Linked.move(self, rows, i, slope, step, state)

    def move_one(self, j: cython.Py_ssize_t, gradient: float, step: float, state: LearnerState) -> int:
        before: float = state.dual[j]
        dual, memory = self.part.move(before, state.memory[j], gradient, step)
        state.dual[j], state.memory[j] = dual, memory
        if self.linked:
            if self.part.height(dual) > state.shift + FAR:
                state.touched = INFINITY
            else:
                state.total += self.part.mass(dual, state.shift) - self.part.mass(before, state.shift)
        else:
            state.low[j], state.high[j] = min(state.low[j], dual), max(state.high[j], dual)
        return 0

    def conjugate(self, state: LearnerState) -> float:
        return self.part.conjugate(state.total, state.shift) if self.linked else 0.0

    def sum_masses(self, state: LearnerState) -> int:
        return Linked.sum_masses(self, state) if self.linked else 0

    def excess(
        self, loss: Loss, score: float, y: float, slope: float, norm2: float, step: float, before: float, after: float
    ) -> float:
        return self.part.excess(loss, score, y, slope, norm2, step, before, after)

    def divergence(self, u: Array) -> float:
        return float(self.part.divergence(u))
