"""The certified path of lasso and elastic-net solutions by working sets: the one loop, dense or sparse.

Penalties come in batches. For each batch:

1. Predict the correlations X'r at its penalties linearly from the last two certified ones; columns predicted at or
   near the bound τ join the working set W.
2. Solve the batch's problems on W, warm (dense: exactly, by active-set Newton on the lazily built Gram matrix of W;
   sparse: by coordinate epochs and conjugate gradients).
3. One read of the whole table gives X'r for every residual of the batch, hence a dual point and a gap for each
   penalty. Accept the prefix whose gaps hold; columns outside W that break the bound join W; go on from there.

A column outside W is never dropped on a guess: it is out because a certificate, computed with it, says so.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np

from ..moments.active_set_newton import ActiveSet, sparse_room
from ..onepass import paths
from ..onepass.lasso_gap import LassoGaps, Sums, lasso_gaps, summing_error
from .centred import Centred, DenseTable

BATCH, TALL = 6, 32  # penalties to one read of the table; more where rows are the longer side, and the read the cost
ROOM = 2**20  # numbers that a batch's residuals or correlations may take, if they are more than a part of the table
STRIP = 64  # columns of a working set's Gram matrix that are made together
NEAR = 0.98  # predicted correlations above this part of the bound bring a column into the working set


@dataclasses.dataclass
class Path:
    """Solutions along a path: ``coefs`` (columns × penalties), their gaps, and how much work it was."""

    alphas: np.ndarray
    coefs: np.ndarray
    gaps: LassoGaps
    active: np.ndarray
    passes: int = 0
    working: int = 0


class Inner(Protocol):
    """A solver on the working set: grows it, solves on it, and gives residuals."""

    columns: np.ndarray

    def add(self, chosen: np.ndarray) -> None: ...
    def solve(self, taus: np.ndarray, mus: np.ndarray, positive: bool) -> np.ndarray: ...
    def residuals(self, B: np.ndarray) -> np.ndarray: ...
    def trim(self, wanted: np.ndarray) -> None: ...
    def restart(self) -> bool: ...


class DenseInner:
    """A working set of dense columns: its Gram matrix alone is kept, extended by matrix products."""

    def __init__(self, table: DenseTable, y: np.ndarray, tolerance: float) -> None:
        self.table, self.y, self.tolerance = table, y, tolerance
        self.columns = np.empty(0, dtype=np.int64)
        self.set = ActiveSet(min(table.d, max(256, table.n + table.n // 16)))
        self.restarted = False

    def add(self, chosen: np.ndarray) -> None:
        start, stop = self.set.size, self.set.size + chosen.size
        self.set.grow(stop)
        self.columns = np.concatenate([self.columns, chosen])
        G, c = np.asarray(self.set.G), np.asarray(self.set.c)
        G[start:stop, :stop] = c[start:stop] = 0.0
        for rows, Z in self.table.blocks(self.columns):
            for first in range(start, stop, STRIP):  # a whole product would be a second array of that size
                last = min(first + STRIP, stop)
                G[first:last, :last] += Z[first:last] @ Z[:last].T
            c[start:stop] += Z[start:] @ self.y[rows]
        self.set.size = stop

    def solve(self, taus: np.ndarray, mus: np.ndarray, positive: bool) -> np.ndarray:
        return self.set.solve(taus, mus, self.tolerance, positive)

    def residuals(self, B: np.ndarray) -> np.ndarray:
        used = np.flatnonzero(B.any(axis=0))
        b = np.ascontiguousarray(B[:, used])
        R = np.empty((len(B), self.table.n))
        for rows, Z in self.table.blocks(self.columns[used]):
            np.subtract(self.y[rows], b @ Z, out=R[:, rows])
        return R

    def trim(self, wanted: np.ndarray) -> None:
        """Forget inactive columns that are not wanted, when they have become many."""
        keep = np.flatnonzero(wanted | (np.asarray(self.set.active)[: self.set.size] != 0))
        if keep.size > 0.97 * self.set.size:
            return
        self.set.keep(keep)
        self.columns = self.columns[keep]

    def restart(self) -> bool:
        """Begin the active set anew, in case its factor has gone bad; False if that was tried already."""
        if self.restarted:
            return False
        self.restarted = True
        self.set.restart()
        return True


def working_set_path(
    table: Centred,
    inner: Inner,
    y: np.ndarray,
    alphas: np.ndarray,
    l1_ratio: float,
    *,
    positive: bool,
    tolerance: float,
    correlations: np.ndarray,
    null: float,
    known: np.ndarray | None = None,
) -> Path:
    """Certified solutions at every penalty (largest first); see the module's text.

    ``correlations`` are X'y (the loop writes over them); ``null`` is the loss of the best constant; ``known`` are those, X'r, of a solution nearby, which then
    takes the place of b = 0 as the start.
    """
    taus, mus = table.total * alphas * l1_ratio, table.total * alphas * (1.0 - l1_ratio)
    many, d = alphas.size, table.d
    coefs = sparse_room((d, many))
    primal, dual = np.zeros(many), np.zeros(many)
    active = np.zeros(many, dtype=np.int64)
    inside = np.zeros(d, dtype=bool)
    missed = np.zeros(d, dtype=bool)  # broke the bound since the last whole batch: kept in the working set
    yy = float(y @ y)
    most = max(ROOM, table.stored // 16) // max(table.n, d, 1)
    batch = min(TALL if table.n >= d else BATCH, max(2, most))
    room = np.empty((min(batch, many), d))  # correlations of a batch
    bars = np.empty(d)  # by how much of τ each column fills the bound, at its worst penalty of a batch

    top = extreme(correlations, positive)
    last, slope = correlations if known is None else known, np.zeros(d)
    last_tau = extreme(last, positive)
    done, passes = 0, 1 + int(known is not None)
    while done < many and taus[done] >= top:  # b = 0 is optimal here
        primal[done] = 0.5 * yy / table.total
        dual[done] = primal[done] * (1.0 - 2.0 * summing_error(table.n))
        done += 1
    while done < many:
        stop = min(done + batch, many)
        t, m = taus[done:stop], mus[done:stop]
        reach = float(t[-1])
        predicted = bars  # the same room
        np.multiply(slope, reach - last_tau, out=predicted)
        predicted += last
        if not positive:
            np.abs(predicted, out=predicted)
        if slope.any():
            near = predicted >= NEAR * reach
            near |= last >= NEAR * last_tau
            if not positive:
                near |= last <= -NEAR * last_tau
        else:  # no second point yet: the sequential strong rule's guess
            near = predicted >= min(max(2.0 * reach - last_tau, 0.5 * reach), NEAR * last_tau)
        near |= missed
        predicted[missed] = np.inf
        inner.trim(near[inner.columns])
        inside[:] = False
        inside[inner.columns] = True
        limit = max(100 + inner.columns.size // 2, int(missed.sum()))
        join(inner, inside, near, predicted, limit)

        B = inner.solve(t, m, positive)
        R = table.balance(inner.residuals(B))
        g = table.correlate(R, room[: t.size])
        passes += 1
        g[:, inner.columns] -= m[:, None] * B
        bars[:] = 0.0
        largest = np.empty(t.size)
        sums = row_sums(table, y, R, inner.columns, B)
        fill_bars(g, t, positive, bars, largest, summing_error(table.n) * np.sqrt(sums.residual_square), table.lengths)
        found = lasso_gaps(
            sums,
            np.abs(B).sum(axis=1),
            np.einsum("pi,pi->p", B, B),
            largest,
            t,
            m,
            table.total,
            positive,
        )
        holds = found.relative(null) <= tolerance
        accepted = t.size if holds.all() else int(np.argmin(holds))
        violating = (bars > 1.0 - 0.001) & ~inside
        if accepted == 0 and not violating.any() and not inner.restart():
            accepted = 1  # nothing more can be done: the gap that was reached is reported
        for p in range(accepted):
            used = np.flatnonzero(B[p])
            coefs[inner.columns[used], done + p] = B[p, used]
            active[done + p] = used.size
        primal[done : done + accepted] = found.primal[:accepted]
        dual[done : done + accepted] = found.dual[:accepted]
        if accepted:
            before, before_tau = (last, last_tau) if accepted == 1 else (g[accepted - 2], float(t[accepted - 2]))
            now, now_tau = g[accepted - 1], float(t[accepted - 1])
            if before_tau > now_tau:
                np.subtract(now, before, out=slope)
                slope /= now_tau - before_tau
            last[:], last_tau = now, now_tau
        if accepted < t.size:
            # They join when the set has been trimmed, so that it is never larger than it need be.
            missed[worst_of(violating, bars, limit=200 + inner.columns.size)] = True
        else:
            missed[:] = False
        done += accepted
        del R  # before the next batch's are made
    return Path(alphas, coefs, LassoGaps(primal, dual), active, passes, inner.columns.size)


def extreme(g: np.ndarray, positive: bool) -> float:
    """The largest |g|, or with b ≥ 0 the largest g, without a second array."""
    if not g.size:
        return 0.0
    return max(0.0, float(g.max()), 0.0 if positive else -float(g.min()))


def row_sums(table: Centred, y: np.ndarray, R: np.ndarray, columns: np.ndarray, B: np.ndarray) -> Sums:
    """‖r‖² and y'r of residuals (a row each) of coefficients B (a row each) of these columns, with their rounding.

    A residual is a difference: it errs by the lengths of the target and of the columns times their coefficients.
    """
    squares, size = np.einsum("pi,pi->p", R, R), float(np.sqrt(y @ y))
    lengths = np.sqrt(squares)
    off = summing_error(columns.size) * (size + np.abs(B) @ table.lengths[columns])
    several = summing_error(table.n)
    return Sums(squares, R @ y, (2.0 * lengths + off) * off + several * squares, several * size * lengths)


def fill_bars(
    g: np.ndarray, taus: np.ndarray, positive: bool, bars: np.ndarray, largest: np.ndarray, rounding: np.ndarray,
    lengths: np.ndarray,
) -> None:  # fmt: skip
    """bars ← the worst of |g|/τ of each column, largest ← the worst |g| of each penalty with its rounding."""
    for p in range(len(taus)):  # a row at a time: g may be large
        sizes = g[p] if positive else np.abs(g[p])
        np.maximum(bars, sizes / taus[p], out=bars)
        largest[p] = np.max(sizes + rounding[p] * lengths, initial=0.0)


def worst_of(wanted: np.ndarray, score: np.ndarray, limit: int) -> np.ndarray:
    """The wanted columns with the largest scores, at most ``limit`` of them."""
    found = np.flatnonzero(wanted)
    return found if found.size <= limit else found[np.argsort(-score[found])[:limit]]


def join(inner: Inner, inside: np.ndarray, wanted: np.ndarray, score: np.ndarray, limit: int) -> None:
    """Bring the wanted columns with the largest scores into the working set, at most ``limit`` of them."""
    fresh = worst_of(wanted & ~inside, score, limit)
    if fresh.size:
        inner.add(fresh.astype(np.int64))
        inside[fresh] = True


def gram_path(
    G: np.ndarray,
    c: np.ndarray,
    yy: float,
    total: float,
    alphas: np.ndarray,
    l1_ratio: float,
    *,
    positive: bool,
    tolerance: float,
    errors: np.ndarray | None = None,
) -> Path:
    """The path from G = X̃'X̃, c = X̃'y and y'y alone, for when there are many more rows than columns."""
    coefs, gaps = paths.gram_path(G, c, yy, total, alphas, l1_ratio, positive=positive, tol=tolerance, errors=errors)
    return Path(alphas, coefs.T, gaps, np.count_nonzero(coefs, axis=1), 1, c.size)
