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

import numpy as np

from .._jit import kernel
from ..moments.active_set_newton import ActiveSet
from .centred import SparseTable
from .products import picked_add, picked_sum

ROUNDS = 200  # of epochs and conjugate gradients, before the gap that was reached is reported
IDLE = 5  # rounds without progress after which it ends
SMALL = 1000  # columns whose Gram matrix is worth having


@kernel
def column_dot(data, indices, spans, j, r):
    """z_j'r over the stored entries of a column."""
    return picked_sum(data[spans[j, 0] : spans[j, 1]], indices[spans[j, 0] : spans[j, 1]], r)


@kernel
def column_add(data, indices, spans, j, scale, r):
    """r += scale·z_j."""
    picked_add(data[spans[j, 0] : spans[j, 1]], indices[spans[j, 0] : spans[j, 1]], scale, r)


@kernel
def epoch(data, indices, spans, count, norms, lift, mean, tau, mu, positive, b, r, offset):
    """One round of exact coordinate steps over the working set; returns the residual's new offset."""
    for j in range(count):
        if norms[j] <= 0.0:
            continue
        old = b[j]
        g = column_dot(data, indices, spans, j, r) + offset * lift * mean[j]
        z = g + old * norms[j]
        if z > tau:
            value = (z - tau) / (norms[j] + mu)
        elif z < -tau and not positive:
            value = (z + tau) / (norms[j] + mu)
        else:
            value = 0.0
        if value != old:
            b[j] = value
            column_add(data, indices, spans, j, old - value, r)
            offset += (value - old) * mean[j]
    return offset


@kernel
def rebuild(data, indices, spans, count, mean, y, b, r):
    """r = y − Zb from the beginning; returns its offset."""
    r[:] = y
    offset = 0.0
    for j in range(count):
        if b[j] != 0.0:
            column_add(data, indices, spans, j, -b[j], r)
            offset += b[j] * mean[j]
    return offset


@kernel(reassociate=True)
def square(r, root, offset):
    """‖r + offset·√w‖²."""
    total = 0.0
    for i in range(r.shape[0]):
        value = r[i] + offset * root[i]
        total += value * value
    return total


@kernel
def finish(data, indices, spans, support, k, norms, lift, mean, tau, mu, b, r, offset, accuracy, products, room, image):
    """Conjugate gradients for the change of b on its support, signs fixed; the change is left in room[0].

    Stops when every optimality condition holds to ``accuracy``, at the latest after ``products``.
    """
    change, rest, direction, product = room[0], room[1], room[2], room[3]
    rho = 0.0
    worst = 0.0
    for i in range(k):
        j = support[i]
        g = column_dot(data, indices, spans, j, r) + offset * lift * mean[j] - mu * b[j]
        rest[i] = g - tau if b[j] > 0.0 else g + tau
        change[i] = 0.0
        direction[i] = rest[i] / (norms[j] + mu)
        rho += rest[i] * direction[i]
        worst = max(worst, abs(rest[i]))
    for _ in range(products):
        if not (worst > accuracy and rho > 0.0):
            break
        image[:] = 0.0
        slide = 0.0
        for i in range(k):
            j = support[i]
            column_add(data, indices, spans, j, direction[i], image)
            slide -= direction[i] * mean[j]
        curvature = 0.0
        for i in range(k):
            j = support[i]
            product[i] = column_dot(data, indices, spans, j, image) + slide * lift * mean[j] + mu * direction[i]
            curvature += product[i] * direction[i]
        if not curvature > 0.0:
            break
        step = rho / curvature
        following = 0.0
        worst = 0.0
        for i in range(k):
            change[i] += step * direction[i]
            rest[i] -= step * product[i]
            j = support[i]
            following += rest[i] * rest[i] / (norms[j] + mu)
            worst = max(worst, abs(rest[i]))
        ratio = following / rho
        rho = following
        for i in range(k):
            j = support[i]
            direction[i] = rest[i] / (norms[j] + mu) + ratio * direction[i]


@kernel
def sparse_penalty(
    data, indices, spans, count, norms, lift, mean, root, y, tau, mu, positive, tolerance, b, r, offset,
    support, room, image, trial, most,
):  # fmt: skip
    """The solution on the working set at one penalty, b and r updated in place. Returns (offset, rounds)."""
    rounds = 0
    least, idle = np.inf, 0
    for _ in range(most):
        rounds += 1
        # Signs that do not settle are cheaper to find by epochs than by products with a support that is still wrong.
        for _ in range(min(2 ** (rounds - 1), 16)):
            offset = epoch(data, indices, spans, count, norms, lift, mean, tau, mu, positive, b, r, offset)
        k = 0
        absolute = 0.0
        ridge = 0.0
        for j in range(count):
            if b[j] != 0.0:
                support[k] = j
                k += 1
                absolute += abs(b[j])
                ridge += b[j] * b[j]
        fit = square(r, root, offset)
        before = 0.5 * fit + tau * absolute + 0.5 * mu * ridge
        # Rounds that no longer lower the objective: rounding is all that is left.
        idle = idle + 1 if before >= least * (1.0 - 4e-16) else 0
        least = min(least, before)
        if idle >= IDLE:
            break
        # With |x_j'r − μb_j| ≤ (1 + ε)τ everywhere the gap is about ε·τ‖b‖₁.
        allowed = tau * min(0.1, 0.7 * tolerance * before / (tau * absolute + 1e-300))
        finish(
            data, indices, spans, support, k, norms, lift, mean, tau, mu, b, r, offset, 0.8 * allowed, 40 * rounds, room,
            image,
        )  # fmt: skip
        crossing = 0
        first = 1.0
        absolute = 0.0
        ridge = 0.0
        trial[:count] = 0.0
        for i in range(k):
            old = b[support[i]]
            value = old + room[0][i]
            if value * old <= 0.0:
                crossing += 1
                first = min(first, old / (old - value) if old != value else 0.0)
            else:
                trial[support[i]] = value
                absolute += abs(value)
                ridge += value * value
        shift = rebuild(data, indices, spans, count, mean, y, trial, image)
        after = 0.5 * square(image, root, shift) + tau * absolute + 0.5 * mu * ridge
        if crossing > 0 and after > before:
            for i in range(k):
                old = b[support[i]]
                value = old + first * room[0][i]
                b[support[i]] = value if value * old > 0.0 else 0.0
            offset = rebuild(data, indices, spans, count, mean, y, b, r)
            continue
        b[:count] = trial[:count]
        r[:] = image
        offset = shift
        if crossing > 0:
            continue
        worst = 0.0
        for j in range(count):
            g = column_dot(data, indices, spans, j, r) + offset * lift * mean[j] - mu * b[j]
            worst = max(worst, g if positive else abs(g))
        if worst <= tau + allowed:
            break
    return offset, rounds


@kernel
def column_squares(data, spans, out):
    """Σ x² of each column."""
    for j in range(out.shape[0]):
        total = 0.0
        for e in range(spans[j, 0], spans[j, 1]):
            total += float(data[e]) ** 2
        out[j] = total


@kernel
def extend_gram(data, indices, spans, start, stop, lift, mean, G, image):
    """The lower triangle of G's rows ``start`` to ``stop``: one centred column is spread out, those before meet it."""
    image[:] = 0.0
    for j in range(start, stop):
        column_add(data, indices, spans, j, 1.0, image)
        for i in range(j + 1):
            G[j, i] = column_dot(data, indices, spans, i, image) - lift * mean[i] * mean[j]
        for e in range(spans[j, 0], spans[j, 1]):
            image[indices[e]] = 0.0


class SparseInner:
    """A working set of sparse columns, read where they lie.

    While it is small its Gram matrix is small too, and active-set Newton (as on dense tables) is the faster solver.
    """

    def __init__(self, table: SparseTable, y: np.ndarray, tolerance: float, most: int = ROUNDS) -> None:
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
        """Where the working set's columns are, and what is known of them."""
        X = self.table.X
        self.Z = X.data, X.indices, np.column_stack([X.indptr[self.columns], X.indptr[self.columns + 1]])
        self.mean = self.table.mean[self.columns]
        count, image = self.columns.size, np.empty(self.table.n)
        if self.newton is not None and count > self.newton.capacity:
            self.newton = None
        elif self.newton is not None:
            start = self.newton.size
            extend_gram(*self.Z, start, count, self.table.total, self.mean, np.asarray(self.newton.G), image)
            for j in range(start, count):
                self.newton.c[j] = column_dot(*self.Z, j, self.y)
            self.newton.size = count
        squares = np.empty(count)
        column_squares(self.Z[0], self.Z[2], squares)
        self.norms = squares - self.table.total * self.mean**2
        self.norms[self.norms <= 1e-14 * squares] = 0.0  # constant: rounding is all that centring leaves

    def solve(self, taus: np.ndarray, mus: np.ndarray, positive: bool) -> np.ndarray:
        count, n = self.columns.size, self.table.n
        if self.newton is not None:
            B = self.newton.solve(taus, mus, self.tolerance, positive)
            self.b, self.tau = B[-1], float(taus[-1])
            self.residual = np.empty((taus.size, n))
            for b, row in zip(B, self.residual, strict=True):
                offset = rebuild(*self.Z, count, self.mean, self.y, b, row)
                if self.table.intercept:
                    row += offset * self.root
            return B
        Z = self.Z
        B = np.zeros((taus.size, count))
        self.residual = np.empty((taus.size, n))
        support, room, trial = np.empty(count + 1, dtype=np.int64), np.empty((4, count + 1)), np.empty(count + 1)
        image, r = np.empty(n), np.empty(n)
        for p in range(taus.size):
            before, before_tau = self.b, self.tau
            ahead = before + (taus[p] - before_tau) * self.slope if self.slope.any() else before
            self.b, self.tau = np.where(ahead * before > 0.0, ahead, 0.0), float(taus[p])
            offset = rebuild(*Z, count, self.mean, self.y, self.b, r)
            offset, _ = sparse_penalty(
                *Z, count, self.norms, self.table.total, self.mean, self.root, self.y, taus[p], mus[p], positive,
                self.tolerance, self.b, r, offset, support, room, image, trial,
                self.most,
            )  # fmt: skip
            if before_tau > self.tau:
                self.slope = (self.b - before) / (self.tau - before_tau)
            B[p] = self.b
            self.residual[p] = r + offset * self.root
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
