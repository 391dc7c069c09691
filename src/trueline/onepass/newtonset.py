"""Primal–dual active-set Newton for ½b'Gb − c'b + τ‖b‖₁ + ½μ‖b‖², exact to rounding, warm along a path of penalties.

Given the active set A and its signs s, the optimality conditions are linear: (G_AA + μI)b = c_A − τs. Solve, let the
columns whose sign came out wrong leave, look at the correlations h = c − Gb of the others, let every |h_j| > τ enter
with the sign of h_j; stop when neither happens. Two to four looks are usual. The rule can cycle; after twelve looks it
becomes the monotone one (go only as far as the first sign change; enter one column at a time), whose objective falls
at every step, so that no set of signs comes back.

Compiled: from some dozens of columns a hundred times as fast as the same idea in NumPy alone (activeset.py), which is
there for programs that must be done before a compiler would be loaded. ``paths.gram_path`` chooses.
"""

from __future__ import annotations

import mmap

import numpy as np

from .. import dense
from .._jit import kernel
from .triangle import append_columns, remove_column, solve_lower, solve_upper

BLOCK = 64  # columns that enter the factor together
LOOKS = 12  # looks at the correlations before the monotone rule takes over
SCATTERED = 4_000_000  # bytes from which it matters how many pages are touched


def sparse_room(shape: tuple[int, int]) -> np.ndarray:
    """Zeros that take memory only where they are written, by pages of 4 kB.

    NumPy asks for pages of 2 MB, of which a single number takes one: a few hundred rows of a path's coefficients, or
    the upper triangle of a factor, would take as much as the whole.
    """
    size = 8 * shape[0] * shape[1]
    if size < SCATTERED or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype=np.float64).reshape(shape)


@kernel(reassociate=True)
def outer_correlations(G, whole, c, size, b, active, order, k, h):
    """h = c − Gb for the columns outside the active set.

    G is symmetric: the rows of the few active columns are added up, or those of the few others met with b, whichever
    reads less of it. With only its lower triangle there, each row is read once: added up if its column is active,
    met with b if not.
    """
    if not whole:
        h[:size] = c[:size]
        for j in range(size):
            row = G[j, :j]
            above = h[:j]
            if active[j] != 0:
                p = b[j]
                for i in range(row.shape[0]):
                    above[i] -= p * row[i]
            elif 8 * k < j:
                total = h[j]
                for i in range(k):
                    if order[i] < j:
                        total -= row[order[i]] * b[order[i]]
                h[j] = total
            else:
                weights = b[:j]
                total = h[j]
                for i in range(row.shape[0]):
                    total -= row[i] * weights[i]
                h[j] = total
        return
    if k > size - k:
        weights = b[:size]
        for j in range(size):
            if active[j] == 0:
                row = G[j, :size]
                total = c[j]
                for i in range(row.shape[0]):
                    total -= row[i] * weights[i]
                h[j] = total
        return
    out = h[:size]
    out[:] = c[:size]
    fours = k - k % 4
    for i in range(0, fours, 4):  # four rows to one reading of h
        first, second, third, fourth = order[i], order[i + 1], order[i + 2], order[i + 3]
        p, q, r, s = b[first], b[second], b[third], b[fourth]
        one, two, three, four = G[first, :size], G[second, :size], G[third, :size], G[fourth, :size]
        for j in range(out.shape[0]):
            out[j] -= p * one[j] + q * two[j] + r * three[j] + s * four[j]
    for i in range(fours, k):
        p = b[order[i]]
        one = G[order[i], :size]
        for j in range(out.shape[0]):
            out[j] -= p * one[j]


@kernel
def enter(U, k, half, G, whole, c, order, active, signs, new, count, mu, ridge, block):
    """Let columns enter block by block; those without a pivot lose their sign again. Returns the new k."""
    start = 0
    while start < count:
        stop = min(start + BLOCK, count)
        k = append_columns(U, k, half, G, whole, c, signs, order, new[start:stop], stop - start, mu, ridge, block)
        start = stop
    for i in range(k):
        active[order[i]] = 1
    for i in range(count):
        if active[new[i]] == 0:
            signs[new[i]] = 0.0
    return k


@kernel
def newton_penalty(
    G, whole, c, size, tau, mu, ridge, slack, positive, order, active, signs, U, k, half, b, h, z, block, new
):
    """The solution at one penalty from the active set of the last one. Returns (k, looks)."""
    looks = 0
    for _ in range(20 * size + 200):
        for i in range(k):
            z[i] = half[0, i] - tau * half[1, i]
        solve_upper(U, k, z)
        if looks < LOOKS:
            left = 0
            for i in range(k - 1, -1, -1):
                a = order[i]
                if z[i] * signs[a] <= 0.0:
                    active[a] = 0
                    signs[a] = 0.0
                    b[a] = 0.0
                    k = remove_column(U, k, half, order, i)
                    left += 1
            if left > 0:
                continue
            for i in range(k):
                b[order[i]] = z[i]
        else:
            step = 1.0
            blocking = -1
            for i in range(k):
                a = order[i]
                if z[i] * signs[a] <= 0.0:
                    ratio = b[a] / (b[a] - z[i]) if b[a] != z[i] else 0.0
                    if ratio < step or blocking < 0:
                        step = ratio
                        blocking = i
            for i in range(k):
                b[order[i]] += step * (z[i] - b[order[i]])
            if blocking >= 0:
                a = order[blocking]
                active[a] = 0
                signs[a] = 0.0
                b[a] = 0.0
                k = remove_column(U, k, half, order, blocking)
                continue
        looks += 1
        outer_correlations(G, whole, c, size, b, active, order, k, h)
        bound = tau * (1.0 + slack)
        count = 0
        worst = 0.0
        for j in range(size):
            if active[j] == 0:
                violation = h[j] if positive else abs(h[j])
                if violation > bound:
                    if looks < LOOKS:
                        new[count] = j
                        signs[j] = 1.0 if h[j] > 0.0 else -1.0
                        count += 1
                    elif violation > worst:
                        worst = violation
                        new[0] = j
                        count = 1
        if count == 0:
            break
        if looks >= LOOKS:
            signs[new[0]] = 1.0 if h[new[0]] > 0.0 else -1.0
        before = k
        k = enter(U, k, half, G, whole, c, order, active, signs, new, count, mu, ridge, block)
        if k == before:
            break
    return k, looks


@kernel
def newton_path(
    G, whole, c, size, taus, mus, ridge, slack, positive, order, active, signs, U, k, half, B, h, z, block, new
):
    """Rows of B ← the solutions at successive penalties. Returns the size of the last active set."""
    for p in range(taus.shape[0]):
        k, _ = newton_penalty(
            G,
            whole,
            c,
            size,
            taus[p],
            mus[p],
            ridge,
            slack,
            positive,
            order,
            active,
            signs,
            U,
            k,
            half,
            B[p],
            h,
            z,
            block,
            new,
        )
    return k


class ActiveSet:
    """G, c and the factor of the active set, in buffers that grow; only what was written takes memory.

    With a whole Gram matrix given, the set is complete from the start. Otherwise G is its lower triangle, and the
    factor is the upper one of the same square, a row further up: neither writes where the other is.
    """

    def __init__(self, capacity: int, G: np.ndarray | None = None, c: np.ndarray | None = None) -> None:
        self.size = 0
        self.active_size = 0
        self._allocate(max(capacity, 1), G)
        if c is not None:
            self.size = capacity
            self.c = c

    def _allocate(self, capacity: int, G: np.ndarray | None = None) -> None:
        self.capacity = capacity
        self.whole = G is not None
        square = sparse_room((capacity + 1, capacity))
        self.G, self.U = square[1:] if G is None else G, square[:capacity]
        self.half = np.empty((2, capacity))
        self.c = np.empty(capacity)
        self.order = np.empty(capacity, dtype=np.int64)
        self.active = np.zeros(capacity, dtype=np.int8)
        self.signs = np.zeros(capacity)

    def grow(self, size: int) -> None:
        """Make room for ``size`` columns."""
        if size <= self.capacity:
            return
        old, k = (self.G, self.U, self.half, self.c, self.order, self.active, self.signs), self.active_size
        n = self.size
        self._allocate(size + size // 8)
        for i in range(n):
            self.G[i, : i + 1] = old[0][i, : i + 1]
        for i in range(k):
            self.U[i, i:k] = old[1][i, i:k]
        self.half[:, :k] = old[2][:, :k]
        self.c[:n], self.order[:n], self.active[:n], self.signs[:n] = (kept[:n] for kept in old[3:])

    def keep(self, chosen: np.ndarray) -> None:
        """Forget all columns but these (increasing places; every active one must be among them)."""
        where = np.full(self.size, -1, dtype=np.int64)
        where[chosen] = np.arange(chosen.size)
        self.order[: self.active_size] = where[self.order[: self.active_size]]
        m = chosen.size
        for row, place in enumerate(chosen):  # rows move up and columns left: never over one still to be read
            self.G[row, : row + 1] = self.G[place, chosen[: row + 1]]
        self.c[:m] = self.c[chosen]
        self.active[:m] = self.active[chosen]
        self.signs[:m] = self.signs[chosen]
        self.active[m:] = 0
        self.signs[m:] = 0.0
        self.size = m

    def restart(self) -> None:
        """Forget the active set, keep the Gram matrix."""
        self.active_size = 0
        self.active[:] = 0
        self.signs[:] = 0.0

    def solve(self, taus: np.ndarray, mus: np.ndarray, tolerance: float, positive: bool) -> np.ndarray:
        """The solutions at these penalties (largest first), a row each."""
        B = np.zeros((taus.size, self.size))
        # The lift must stay above rounding and below what the tolerance can see.
        ridge = min(1e-12, max(1e-6 * tolerance, 1e-14))
        if not mus.any():
            self._solve(taus, mus, ridge, tolerance, positive, B)
            return B
        for p in range(taus.size):
            self._refactor(float(mus[p]), ridge)  # with μ the factor depends on the penalty
            self._solve(taus[p : p + 1], mus[p : p + 1], ridge, tolerance, positive, B[p : p + 1])
        return B

    def _refactor(self, mu: float, ridge: float) -> None:
        """The factor of the active set for another μ."""
        k = self.active_size
        if k == 0:
            return
        chosen = self.order[:k]
        M = self.G[np.maximum.outer(chosen, chosen), np.minimum.outer(chosen, chosen)]
        M[np.diag_indices(k)] *= 1.0 + ridge
        M[np.diag_indices(k)] += mu
        L = dense.cholesky(M)
        for i in range(k):
            self.U[i, i:k] = L[i:, i]
        solve_lower(self.U, k, self.c[chosen], self.half[0])
        solve_lower(self.U, k, self.signs[chosen], self.half[1])

    def _solve(
        self, taus: np.ndarray, mus: np.ndarray, ridge: float, tolerance: float, positive: bool, B: np.ndarray
    ) -> None:
        size = self.size
        self.active_size = newton_path(
            self.G,
            self.whole,
            self.c,
            size,
            taus,
            mus,
            ridge,
            0.1 * tolerance,
            positive,
            self.order,
            self.active,
            self.signs,
            self.U,
            self.active_size,
            self.half,
            B,
            np.empty(size + 1),
            np.empty(size + 1),
            np.empty((BLOCK, size + 1)),
            np.empty(size + 1, dtype=np.int64),
        )
