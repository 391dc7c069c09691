"""An upper triangular factor U'U = G_AA that columns enter and leave: what active-set Newton steps run on.

U lives in the top left corner of a C-ordered buffer, so every inner loop below runs along a contiguous row. A block of
columns enters by one triangular solve; a column leaves by Givens rotations of the rows under it. Both are backward
stable. A column enters with its diagonal lifted by ``ridge``·G_jj: columns that coincide, nearly or exactly, then have
a positive pivot; the rise of the objective, ½·ridge·G_jj·b_j², is seen by the gap like any other error.

Two right-hand sides are carried along already solved by U', as further columns ``half`` = U'⁻¹[c_A s]: they grow and
turn with the factor, and a solve for any c_A − τs is left with one triangle instead of two.
"""

from __future__ import annotations

import cython
import numpy as np

from ..simd import Array, Places

if not cython.compiled:  # compiled, these come from cholesky_update.pxd
    from math import sqrt

    from ..simd import row_add, row_dot, rows_add, rows_dot

BLOCK: cython.int = 64  # columns that enter together


def lower_entry(G: Array, i: cython.Py_ssize_t, j: cython.Py_ssize_t) -> float:
    """G_ij of a symmetric matrix of which the lower triangle is there."""
    return G[i, j] if i >= j else G[j, i]


@cython.final
@cython.cclass
class CholeskyUpdate:
    """The factor of ``size`` columns of G, in the order ``order``, in a buffer with room for all of them."""

    def __init__(self, U: Array) -> None:
        capacity = U.shape[1]
        self.U = U
        self.half = np.empty((2, capacity))
        self.order = np.empty(capacity, dtype=np.int64)
        self.block = np.empty((BLOCK, capacity))  # new columns of U, a row each
        self.size = 0
        self.ridge = 0.0  # relative lift of a diagonal entry
        self.mu = 0.0  # added to it: the L2 penalty

    def solve_upper(self, z: Array) -> None:
        """z ← U⁻¹z, in place."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t = self.size
        for i in range(k - 1, -1, -1):
            z[i] = (z[i] - row_dot(self.U, i, i + 1, z, k - i - 1)) / self.U[i, i]

    def solve_lower(self, z: Array) -> None:
        """z ← U'⁻¹z, in place."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t = self.size
        for i in range(k):
            z[i] /= self.U[i, i]
            row_add(self.U, i, i + 1, -z[i], z, k - i - 1)

    def append(
        self, G: Array, c: Array, signs: Array, new: Places, start: cython.Py_ssize_t, count: cython.Py_ssize_t
    ) -> None:
        """Let columns ``new[start : start + count]`` of G enter; one without a positive pivot stays out.

        Of G the rows and columns of the lower triangle are read. At most BLOCK columns enter at once.
        """
        i: cython.Py_ssize_t
        side: cython.Py_ssize_t
        entering: cython.Py_ssize_t
        later: cython.Py_ssize_t
        column: cython.Py_ssize_t
        base: float
        pivot: float
        lifted: float
        root: float
        k: cython.Py_ssize_t = self.size
        for entering in range(count):
            column = new[start + entering]
            for i in range(k):
                self.block[entering, i] = lower_entry(G, column, self.order[i])
        for i in range(k):
            for entering in range(count):
                self.block[entering, i] /= self.U[i, i]
                rows_add(self.U, i, -self.block[entering, i], self.block, entering, i + 1, k - i - 1)
        for entering in range(count):
            column = new[start + entering]
            base = G[column, column]
            lifted = base * (1.0 + self.ridge) + self.mu
            pivot = lifted - rows_dot(self.block, entering, self.block, entering, 0, k)
            if not pivot > 0.01 * self.ridge * lifted:
                continue
            root = sqrt(pivot)
            for i in range(k):
                self.U[i, k] = self.block[entering, i]
            self.U[k, k] = root
            for side in range(2):
                base = c[column] if side == 0 else signs[column]
                self.half[side, k] = (base - rows_dot(self.block, entering, self.half, side, 0, k)) / root
            self.order[k] = column
            for later in range(entering + 1, count):
                base = lower_entry(G, new[start + later], column)
                self.block[later, k] = (base - rows_dot(self.block, later, self.block, entering, 0, k)) / root
            k += 1
        self.size = k

    def remove(self, at: cython.Py_ssize_t) -> None:
        """Let the column at place ``at`` leave."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        side: cython.Py_ssize_t
        a: float
        b: float
        x: float
        y: float
        radius: float
        cosine: float
        sine: float
        k: cython.Py_ssize_t = self.size
        for i in range(at):
            for j in range(at, k - 1):
                self.U[i, j] = self.U[i, j + 1]
        for i in range(at, k - 1):
            a = self.U[i, i + 1]
            b = self.U[i + 1, i + 1]
            radius = sqrt(a * a + b * b)
            cosine = a / radius
            sine = b / radius
            for j in range(i, k - 1):
                x = self.U[i, j + 1]
                y = self.U[i + 1, j + 1]
                self.U[i, j] = cosine * x + sine * y
                self.U[i + 1, j + 1] = cosine * y - sine * x
            for side in range(2):
                x = self.half[side, i]
                y = self.half[side, i + 1]
                self.half[side, i] = cosine * x + sine * y
                self.half[side, i + 1] = cosine * y - sine * x
            self.order[i] = self.order[i + 1]
        self.size = k - 1
