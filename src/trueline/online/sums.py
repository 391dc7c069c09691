"""Running second moments of a stream of squared losses: L_u of *any* fixed u, exactly, with no second pass.

G = Σ c·z zᵀ over rows z = (1, x, y). Rows wait in a buffer of fixed size and are added by one matrix product, so
the cost per row is BLAS's, and a row at a time and a block at a time give the same bits. (hindsight.py keeps moments
about the mean: more work and more digits, for columns that nobody has scaled.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dense
from ..errors import ModelError
from ..modelfile import Array
from ..threads import one_blas_thread
from . import best_fixed
from .inputs import squared_norms
from .redundant_columns import RedundantColumns

BLOCK = 1024
WIDEST = 2000  # beyond this many features the moments are not kept


def declared(width: int) -> dict[str, Array]:
    """What a file holds of the sums of so many columns."""
    return {
        "sums": Array((width + 2, width + 2), optional="sums"),
        "waiting": Array((range(BLOCK), width + 2), optional="sums"),
        "redundant": RedundantColumns.declared(width, "redundant"),
    }


class Sums:
    """Σ c·z zᵀ, z = (1, x, y), and the rows still waiting to be added."""

    def __init__(self, width: int) -> None:
        self.G = np.zeros((width + 2, width + 2))
        self.waiting = np.zeros((BLOCK, width + 2))
        self.count = 0
        self.seen = RedundantColumns(width)  # of the rows added to G

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], width: int) -> Sums:
        """The sums that ``to_state`` described."""
        made = cls(width)
        made.G, made.count = np.array(arrays["sums"]), len(arrays["waiting"])
        made.waiting[: made.count] = arrays["waiting"]
        made.seen = RedundantColumns.from_array(arrays.get("redundant"), width)
        return made

    def to_state(self) -> dict[str, np.ndarray]:
        """Every bit of it."""
        return {"sums": self.G, "waiting": self.waiting[: self.count], "redundant": self.seen.to_array()}

    @property
    def width(self) -> int:
        return len(self.G) - 2

    def add(self, X: Any, y: np.ndarray, weights: np.ndarray | None) -> None:
        """Count rows; sparse ones are unfolded a buffer at a time."""
        start, n = 0, len(y)
        while start < n:
            stop = min(n, start + BLOCK - self.count)
            part = X[start:stop]
            place = self.waiting[self.count : self.count + stop - start]
            place[:, 0] = 1.0
            place[:, 1:-1] = part.toarray() if hasattr(part, "indptr") else part
            place[:, -1] = y[start:stop]
            if weights is not None:
                place *= np.sqrt(weights[start:stop])[:, None]
            self.count += stop - start
            self._add_full_block()
            start = stop

    def one_more(self) -> None:
        """One more row waits: ``named.py`` has written it."""
        self.count += 1
        if self.count == BLOCK:
            with one_blas_thread():
                self._add_full_block()

    def _add_full_block(self) -> None:
        if self.count == BLOCK:
            self.seen = self.redundant()
            self.G += self.waiting.T @ self.waiting
            self.count = 0

    def redundant(self) -> RedundantColumns:
        """Columns that are exactly combinations of others in all rows, the waiting ones included."""
        rows = self.waiting[: self.count]
        rows = rows[rows[:, 0] > 0.0]
        if self.G[0, 0] == 0.0:
            return RedundantColumns.of(rows[:, 1:-1], rows[:, 0])
        made = self.seen.copy()
        made.check(rows[:, 1:-1], rows[:, 0])
        return made

    def total(self) -> np.ndarray:
        """G with the waiting rows included."""
        rest = self.waiting[: self.count]
        return self.G + rest.T @ rest if self.count else self.G

    def few(self) -> np.ndarray | None:
        """All rows so far, √c·z each, while they are fewer than the features: shorter to solve than G."""
        return self.waiting[: self.count] if self.G[0, 0] == 0.0 and self.count <= self.width else None

    def widen(self, width: int) -> None:
        """Room for more features, which were 0 in every row so far."""
        old = self.width
        G, waiting = np.zeros((width + 2, width + 2)), np.zeros((BLOCK, width + 2))
        keep = np.r_[0 : old + 1, width + 1]
        G[np.ix_(keep, keep)] = self.G
        waiting[:, keep] = self.waiting
        self.G, self.waiting = G, waiting
        self.seen.widen(width)

    def __setstate__(self, saved: dict[str, Any]) -> None:
        # An unpickled array may be a read-only map of a file.
        self.__dict__ |= saved | {"G": np.array(saved["G"]), "waiting": np.array(saved["waiting"])}

    def copy(self) -> Sums:
        twin = Sums.__new__(Sums)
        twin.G, twin.waiting, twin.count = self.G.copy(), self.waiting.copy(), self.count
        twin.seen = self.seen.copy()
        return twin


def add_rows(model: Any, X: Any, targets: Any, weights: Any, order: Any, start: int, stop: int) -> None:
    """A model's moments, which need nothing of what it learns: long blocks add them on another thread."""
    if model.sums is None:
        return
    chosen: Any = order[start:stop] if len(order) else slice(start, stop)
    c = weights[chosen] if len(weights) else None
    part = X[chosen]
    with np.errstate(all="ignore"):  # rows that the engine is about to refuse
        shares = shares_of(model)
        if shares is not None:
            c = (1.0 if c is None else c) / shares(part)
        model.sums.add(part, targets[0][chosen], c)


def shares_of(model: Any) -> Any:
    """What divides the weights of rows where the theorem is about normalised losses; None elsewhere."""
    if model.geometry.name != "normalised" or model.quiet:  # a mixture counts losses as they are
        return None
    return lambda rows: model.geometry.epsilon + squared_norms(rows, model.fit_intercept)


def rounding(rows: int) -> float:
    """γ of the moments of so many rows, with what √weight rounds in each of them."""
    return best_fixed.rounding(rows, BLOCK)


def loss_of(G: np.ndarray, u: np.ndarray, gamma: float) -> float:
    """L_u = Σ c(u·x − y)² from moments, rounded up by what γ leaves open so that a bound stays a bound."""
    v = np.append(u, -1.0)
    size = float(np.abs(v) @ np.sqrt(G.diagonal()))
    return float(max(0.0, v @ G @ v) + (gamma + 3.0 * len(v) * best_fixed.UNIT) * size * size)


def best_fixed_loss(
    G: np.ndarray, intercept: bool, gamma: float, redundant: RedundantColumns, few: np.ndarray | None = None
) -> best_fixed.Least:
    """The best fixed weights and their loss, as far as moments that are off by γ tell."""
    square = float(G[-1, -1])
    null = max(0.0, square - float(G[0, -1]) ** 2 / float(G[0, 0])) if intercept and G[0, 0] > 0.0 else square
    needed = np.flatnonzero(~np.append(not intercept, redundant.mask(intercept)))
    if few is not None:  # fewer rows than features: what the weights lose shows in the rows themselves
        u = best(G, 0.0, intercept, few)
        missed = few[:, :-1] @ u - few[:, -1]
        slack = 2.0 * (len(u) + 2) * best_fixed.UNIT * (np.abs(few[:, :-1]) @ np.abs(u) + np.abs(few[:, -1]))
        upper = float(np.sum((np.abs(missed) + slack) ** 2))
        # Of labels that are all equal the best constant loses nothing, and the weights no more than their rounding.
        return best_fixed.stated(u, float(missed @ missed), 0.0, upper, max(null, 1e-17 * square))
    A, b = G[np.ix_(needed, needed)], G[needed, -1]
    u = np.zeros(len(G) - 1)
    u[needed] = solve(A, b)
    sizes = np.sqrt(G.diagonal())
    found = best_fixed.least_squares(A, b, square, sizes[needed], float(sizes[-1]), gamma, u[needed])
    return best_fixed.stated(u, *found, null)


def best(G: np.ndarray, ridge: float, intercept: bool, few: np.ndarray | None = None) -> np.ndarray:
    """The u (intercept first) that minimises L_u + ridge·‖u‖²; the shortest one where there are many.

    ``few`` are the rows themselves where they are fewer than the features.
    """
    first = 0 if intercept else 1
    A = G[first:-1, first:-1].copy()
    b = G[first:-1, -1]
    u = np.zeros(len(G) - 1)
    if not len(A):
        return u
    A[np.diag_indices_from(A)] += ridge
    if few is None:
        u[first:] = solve(A, b)
        return u
    Z, y = few[:, first:-1], few[:, -1]
    if ridge > 0.0:
        u[first:] = Z.T @ solve(Z @ Z.T + ridge * np.eye(len(Z)), y)
    elif len(Z):
        scale = 1.0 / np.sqrt(np.maximum(A.diagonal(), np.finfo(float).tiny))
        u[first:] = scale * dense.lstsq(Z * scale, y, rcond=None)[0]
    return u


def solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A solution of Au = b for a positive semidefinite A: scaled to unit diagonal, weak directions left out."""
    if not len(b):
        return b
    length = A.diagonal()
    used = length > np.finfo(float).tiny  # others are columns of zeros, but for rounding
    scale = np.where(used, 1.0 / np.sqrt(np.where(used, length, 1.0)), 0.0)
    scaled = A * scale * scale[:, None]
    found = _far_from_singular(scaled, scale * b)
    if found is None:
        if not np.isfinite(scaled).all():
            raise ModelError(
                "the sums behind the certificate are not those of any rows; use an intact copy", where="sums"
            )
        values, vectors = dense.eigh(scaled)
        kept = values > len(A) * np.finfo(float).eps * max(values[-1], 0.0)
        found = vectors[:, kept] @ ((vectors[:, kept].T @ (scale * b)) / values[kept])
    return np.asarray(scale * found)


def _far_from_singular(scaled: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """The solution by Cholesky, or None where a pivot is so small that a longer way is worth it."""
    if len(scaled) <= 100:  # not worth SciPy's import
        try:
            pivots = dense.cholesky(scaled).diagonal()
        except np.linalg.LinAlgError:
            return None
        return dense.solve(scaled, right) if pivots.min() > 1e-5 else None
    from scipy.linalg import lapack

    with dense.alone(len(scaled)):
        factor, wrong = lapack.dpotrf(scaled, lower=1, clean=0)
        if wrong or not factor.diagonal().min() > 1e-5:
            return None
        return np.asarray(lapack.dpotrs(factor, right, lower=1)[0])
