"""Primal–dual active-set Newton for ½b'Gb − c'b + τ‖b‖₁ + ½μ‖b‖², exact to rounding, warm along a path of penalties.

Given the active set A and its signs s, the optimality conditions are linear: (G_AA + μI)b = c_A − τs. Solve, let the
columns whose sign came out wrong leave, look at the correlations h = c − Gb of the others, let every |h_j| > τ enter
with the sign of h_j; stop when neither happens. Two to four looks are usual. The rule can cycle; after twelve looks it
becomes the monotone one (go only as far as the first sign change; enter one column at a time), whose objective falls
at every step, so that no set of signs comes back.
"""

from __future__ import annotations

import mmap
from typing import Any

import cython
import numpy as np

from .. import dense
from ..simd import Array
from .cholesky_update import CholeskyUpdate

if not cython.compiled:  # compiled, these come from active_set_newton.pxd
    from math import fabs

    from ..simd import row_add, row_dot
    from .cholesky_update import BLOCK

LOOKS: cython.int = 12  # looks at the correlations before the monotone rule takes over
SCATTERED = 4_000_000  # bytes from which it matters how many pages are touched


def sparse_room(shape: tuple[int, int]) -> Array:
    """Zeros that take memory only where they are written, by pages of 4 kB.

    NumPy asks for pages of 2 MB, of which a single number takes one: a few hundred rows of a path's coefficients, or
    the upper triangle of a factor, would take as much as the whole.
    """
    size = 8 * shape[0] * shape[1]
    if size < SCATTERED or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype=np.float64).reshape(shape)


@cython.final
@cython.cclass
class ActiveSet:
    """G, c and the factor of the active set, in buffers that grow; only what was written takes memory.

    With a whole Gram matrix given, the set is complete from the start. Otherwise G is its lower triangle, and the
    factor is the upper one of the same square, a row further up: neither writes where the other is.
    """

    def __init__(self, capacity: int, G: Any = None, c: Any = None) -> None:
        self.size = 0
        self.allocate(max(capacity, 1), G)
        if c is not None:
            self.size = capacity
            self.c = c

    def allocate(self, capacity: int, G: Any = None) -> None:
        """Empty buffers for this many columns."""
        self.capacity = capacity
        self.whole = G is not None
        square = sparse_room((capacity + 1, capacity))
        self.G = square[1:] if G is None else G
        self.factor = CholeskyUpdate(square[:capacity])
        self.c = np.empty(capacity)
        self.active = np.zeros(capacity, dtype=np.int8)
        self.signs = np.zeros(capacity)
        self.correlations = np.empty(capacity)
        self.solution = np.empty(capacity)
        self.entering = np.empty(capacity, dtype=np.int64)

    def grow(self, size: int) -> None:
        """Make room for ``size`` columns."""
        if size <= self.capacity:
            return
        n, factor = self.size, self.factor
        k = factor.size
        old_G, *old = np.asarray(self.G), np.asarray(self.c), np.asarray(self.active), np.asarray(self.signs)
        self.allocate(size + size // 8)
        self.factor.mu, self.factor.ridge = factor.mu, factor.ridge
        G, U, order = np.asarray(self.G), np.asarray(self.factor.U), np.asarray(self.factor.order)
        for i in range(n):
            G[i, : i + 1] = old_G[i, : i + 1]
        for i in range(k):
            U[i, i:k] = np.asarray(factor.U)[i, i:k]
        order[:k] = np.asarray(factor.order)[:k]
        np.asarray(self.factor.half)[:, :k] = np.asarray(factor.half)[:, :k]
        self.factor.size = k
        for array, values in zip([np.asarray(self.c), np.asarray(self.active), np.asarray(self.signs)], old):
            array[:n] = values[:n]

    def keep(self, chosen: Any) -> None:
        """Forget all columns but these (increasing places; every active one must be among them)."""
        where = np.full(self.size, -1, dtype=np.int64)
        where[chosen] = np.arange(chosen.size)
        G, order = np.asarray(self.G), np.asarray(self.factor.order)[: self.factor.size]
        order[:] = where[order]
        m = chosen.size
        for row, place in enumerate(chosen):  # rows move up and columns left: never over one still to be read
            G[row, : row + 1] = G[place, chosen[: row + 1]]
        c, active, signs = np.asarray(self.c), np.asarray(self.active), np.asarray(self.signs)
        for array in (c, active, signs):
            array[:m] = array[chosen]
        active[m:] = 0
        signs[m:] = 0.0
        self.size = m

    def restart(self) -> None:
        """Forget the active set, keep the Gram matrix."""
        self.factor.size = 0
        np.asarray(self.active)[:] = 0
        np.asarray(self.signs)[:] = 0.0

    def solve(self, taus: Any, mus: Any, tolerance: float, positive: bool) -> Array:
        """The solutions at these penalties (largest first), a row each."""
        B = np.zeros((taus.size, self.size))
        self.positive = positive
        self.slack = 0.1 * tolerance
        # The lift must stay above rounding and below what the tolerance can see.
        self.factor.ridge = min(1e-12, max(1e-6 * tolerance, 1e-14))
        for p in range(taus.size):
            if mus[p] != self.factor.mu:  # with μ the factor depends on the penalty
                self.factor.mu = mus[p]
                self.refactor()
            self.newton_steps(taus[p], B[p])
        return B

    def refactor(self) -> None:
        """The factor of the active set for another μ."""
        k, factor = self.factor.size, self.factor
        if k == 0:
            return
        chosen = np.asarray(factor.order)[:k]
        M = np.asarray(self.G)[np.maximum.outer(chosen, chosen), np.minimum.outer(chosen, chosen)]
        M[np.diag_indices(k)] *= 1.0 + factor.ridge
        M[np.diag_indices(k)] += factor.mu
        L = dense.cholesky(M)
        U, half = np.asarray(factor.U), np.asarray(factor.half)
        for i in range(k):
            U[i, i:k] = L[i:, i]
        half[0, :k], half[1, :k] = np.asarray(self.c)[chosen], np.asarray(self.signs)[chosen]
        factor.solve_lower(half[0])
        factor.solve_lower(half[1])

    def newton_steps(self, tau: float, b: Array) -> None:
        """b ← the solution at one penalty, from the active set of the last one."""
        look: cython.Py_ssize_t = 0
        steps: cython.Py_ssize_t = 20 * self.size + 200
        count: cython.Py_ssize_t
        before: cython.Py_ssize_t
        start: cython.Py_ssize_t
        i: cython.Py_ssize_t
        left: cython.bint
        with cython.nogil:
            while steps > 0:
                steps -= 1
                for i in range(self.factor.size):
                    self.solution[i] = self.factor.half[0, i] - tau * self.factor.half[1, i]
                self.factor.solve_upper(self.solution)
                left = self.drop_wrong_signs(b) if look < LOOKS else self.step_to_first_sign_change(b)
                if left:
                    continue
                look += 1
                self.find_correlations(b)
                count = self.find_entering(tau * (1.0 + self.slack), look >= LOOKS)
                before = self.factor.size
                start = 0
                while start < count:
                    self.factor.append(self.G, self.c, self.signs, self.entering, start, min(BLOCK, count - start))
                    start += BLOCK
                for i in range(self.factor.size):
                    self.active[self.factor.order[i]] = 1
                for i in range(count):
                    if self.active[self.entering[i]] == 0:
                        self.signs[self.entering[i]] = 0.0  # it had no pivot
                if self.factor.size == before:
                    break

    def leave(self, place: cython.Py_ssize_t, b: Array) -> None:
        """The column at this place of the factor is 0 from now on."""
        column: cython.Py_ssize_t = self.factor.order[place]
        self.active[column] = 0
        self.signs[column] = 0.0
        b[column] = 0.0
        self.factor.remove(place)

    def drop_wrong_signs(self, b: Array) -> bool:
        """Let the columns whose sign came out wrong leave; b is the solution where there is none."""
        i: cython.Py_ssize_t
        left: cython.bint = False
        for i in range(self.factor.size - 1, -1, -1):
            if self.solution[i] * self.signs[self.factor.order[i]] <= 0.0:
                self.leave(i, b)
                left = True
        if not left:
            for i in range(self.factor.size):
                b[self.factor.order[i]] = self.solution[i]
        return left

    def step_to_first_sign_change(self, b: Array) -> bool:
        """Go towards the solution as far as all signs hold; the column that stops the step leaves."""
        i: cython.Py_ssize_t
        column: cython.Py_ssize_t
        blocking: cython.Py_ssize_t = -1
        length: float = 1.0
        ratio: float
        for i in range(self.factor.size):
            column = self.factor.order[i]
            if self.solution[i] * self.signs[column] <= 0.0:
                ratio = b[column] / (b[column] - self.solution[i]) if b[column] != self.solution[i] else 0.0
                if ratio < length or blocking < 0:
                    length = ratio
                    blocking = i
        for i in range(self.factor.size):
            column = self.factor.order[i]
            b[column] += length * (self.solution[i] - b[column])
        if blocking >= 0:
            self.leave(blocking, b)
        return blocking >= 0

    def find_entering(self, bound: float, single: bool) -> int:
        """Columns whose correlation is beyond the bound, with the sign they get: all of them, or the worst alone."""
        j: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        violation: float
        worst: float = 0.0
        for j in range(self.size):
            if self.active[j] == 0:
                violation = self.correlations[j] if self.positive else fabs(self.correlations[j])
                if violation > bound and (not single or violation > worst):
                    worst = violation
                    if single:
                        count = 0
                    self.entering[count] = j
                    count += 1
        for j in range(count):
            self.signs[self.entering[j]] = 1.0 if self.correlations[self.entering[j]] > 0.0 else -1.0
        return count

    def find_correlations(self, b: Array) -> None:
        """h = c − Gb for the columns outside the active set.

        G is symmetric: the rows of the few active columns are added up, or those of the few others met with b, whichever
        reads less of it. With only its lower triangle there, each row is read once: added up if its column is active,
        met with b if not.
        """
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        column: cython.Py_ssize_t
        k: cython.Py_ssize_t = self.factor.size
        for j in range(self.size):
            self.correlations[j] = self.c[j]
        if self.whole and 2 * k <= self.size:
            for i in range(k):
                column = self.factor.order[i]
                row_add(self.G, column, 0, -b[column], self.correlations, self.size)
        elif self.whole:
            for j in range(self.size):
                if self.active[j] == 0:
                    self.correlations[j] -= row_dot(self.G, j, 0, b, self.size)
        else:
            for j in range(self.size):
                if self.active[j] != 0:
                    row_add(self.G, j, 0, -b[j], self.correlations, j)
                elif 8 * k < j:
                    for i in range(k):
                        column = self.factor.order[i]
                        if column < j:
                            self.correlations[j] -= self.G[j, column] * b[column]
                else:
                    self.correlations[j] -= row_dot(self.G, j, 0, b, j)
