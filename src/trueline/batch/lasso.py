"""Lasso and elastic net by the fastest certified route: one door for paths and single penalties.

| table                                   | route                                                                   |
|-----------------------------------------|-------------------------------------------------------------------------|
| dense, columns ≤ rows, 4·penalties      | the whole Gram matrix once, active-set Newton on it                     |
| dense, more columns                     | working sets, active-set Newton on their lazily built Gram matrix       |
| sparse                                  | working sets, epochs and conjugate gradients (Newton while small)       |
| no L1 part (``l1_ratio=0``)             | one linear system, of the smaller of rows and columns                   |

Penalties far apart are bridged by helper penalties, so that every solution starts from a near one; a single penalty is
reached the same way. Gaps are always those of the data as given: the Gram route goes back to the rows where rounding
of the Gram matrix could hide an error of the size of the tolerance.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from .. import dense
from ..certificates.certificate import Assumption
from ..certificates.optimality import GapCertificate, gap_certificate
from ..onepass.lasso_gap import LassoGaps, elastic_gaps, summing_error
from ..solvers.sparse_lasso import ROUNDS, SparseInner
from .activeset import DenseInner, Path, extreme, gram_path, row_sums, working_set_path
from .centred import Centred, DenseTable, SparseTable

GRAM_COLUMNS = 2000
FEW = 200  # columns up to which a Gram matrix of enough rows is always worth having
ROWS = 2048  # rows of a block of the centred Gram matrix
RATIO = 1.6  # neighbouring penalties further apart than this get helpers between them
LOWEST = 1e-14  # of the largest penalty: below, the penalty is lost in the rounding of correlations
WRITTEN_OUT = 20_000_000  # entries up to which no penalty at all is solved as least squares
REACHABLE = 1e-15  # relative gap below which rounding decides


@dataclasses.dataclass
class LassoFit:
    """Solutions at each penalty, in the order of ``alphas``: coefficients (columns × penalties), intercepts, gaps."""

    alphas: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    gaps: LassoGaps
    null: float  # the loss of the best constant
    passes: int
    tolerance: float

    @property
    def relative(self) -> np.ndarray:
        """The gap of each solution as a part of what there is to explain."""
        return self.gaps.relative(self.null)

    def certificate(self, place: int = -1, assumptions: tuple[Assumption, ...] = ()) -> GapCertificate:
        """What is proven about one of the solutions."""
        made = gap_certificate(
            float(self.gaps.primal[place]), float(self.gaps.dual[place]), null=self.null, saturated=0.0,
            tolerance=self.tolerance, assumptions=assumptions,
        )  # fmt: skip
        if made.proven or made.reached:
            return made
        advice = (
            "alpha = 0 has no dual to certify with; LinearRegression solves and certifies it"
            if self.alphas[place] == 0.0
            else f"the relative gap {made.relative_gap:.2g} is above tol={self.tolerance:g}; loosen tol, raise alpha or "
            "scale the columns"
        )
        return dataclasses.replace(made, advice=advice)


def table_of(X: Any, weights: np.ndarray | None, intercept: bool) -> Centred:
    """The table as the lasso reads it."""
    kind: Any = SparseTable if hasattr(X, "tocsc") else DenseTable
    return kind(X, weights, intercept)


def largest_penalty(table: Centred, y: np.ndarray, l1_ratio: float, positive: bool) -> float:
    """The smallest alpha at which every coefficient is zero; ``y`` as ``table.target`` gives it."""
    c = table.correlate(y[None])[0]
    return extreme(c, positive) / (table.total * l1_ratio)


def penalty_grid(top: float, eps: float, count: int) -> np.ndarray:
    """Penalties from ``top`` down to ``eps`` of it, evenly in their logarithm, as scikit-learn's."""
    resolution = float(np.finfo(np.float64).resolution)
    return np.full(count, resolution) if top <= resolution else np.geomspace(top, top * eps, num=count)


def prefers_gram(n: int, d: int, penalties: int = 100) -> bool:
    """Whether a dense table of this shape is solved on its whole Gram matrix.

    The Gram matrix is n·d² flops, the correlations of every penalty's residual 2·n·d each: where few columns are ever
    used, working sets are the faster from d = 2·penalties on, where half of them are, from twice that. With few columns
    it is made in little more time than reading the rows takes, which working sets do again and again.
    """
    return d <= min(n, GRAM_COLUMNS, max(FEW, 4 * penalties))


class LassoProblem:
    """A table, weights and intercept, read once for any number of targets and paths."""

    def __init__(
        self, X: Any, weights: np.ndarray | None = None, intercept: bool = True, most: int | None = None
    ) -> None:
        """``most`` bounds the rounds that a penalty may take on a sparse table, where they are not known in advance."""
        self.table, self.most = table_of(X, weights, intercept), most
        self._gram: np.ndarray | None = None

    def prefers_gram(self, penalties: int) -> bool:
        """Whether the whole Gram matrix is the route for so many penalties; always when it is there already."""
        if self._gram is not None:
            return True
        return isinstance(self.table, DenseTable) and prefers_gram(self.table.n, self.table.d, penalties)

    def gram(self) -> np.ndarray:
        """X̃'X̃ of the centred, weighted columns, kept for the next target."""
        if self._gram is None:
            self._gram = centred_gram(self.table)
        return self._gram

    def solve(
        self,
        y: np.ndarray,
        alphas: np.ndarray,
        l1_ratio: float = 1.0,
        *,
        positive: bool = False,
        tolerance: float = 1e-6,
        start: np.ndarray | None = None,
    ) -> LassoFit:
        """Certified solutions for one target; ``start`` are coefficients of a penalty nearby, if any are known."""
        target, level = self.table.target(y)
        alphas = np.asarray(alphas, dtype=np.float64)
        if l1_ratio == 0.0 and not positive:
            path = self._ridge(target, alphas)
        else:
            path = self._path(target, alphas, l1_ratio, positive, tolerance, start)
        intercepts = np.zeros(alphas.size)
        if self.table.intercept:
            used = np.flatnonzero(path.coefs.any(axis=1))
            intercepts = level - self.table.mean[used] @ path.coefs[used]
        return LassoFit(alphas, path.coefs, intercepts, path.gaps, self.null(target), path.passes, tolerance)

    def null(self, target: np.ndarray) -> float:
        """The loss of the best constant, of a target as ``table.target`` gives it; of 0 where no column is constant."""
        table = self.table
        if not table.intercept and self._has_constant:
            root = np.ones(table.n) if table.root is None else table.root
            target = target - root * (float(root @ target) / table.total)
        return 0.5 * float(target @ target) / table.total

    @functools.cached_property
    def _has_constant(self) -> bool:
        """Whether some column has one value, other than 0, in every row."""
        X: Any = self.table.X  # type: ignore[attr-defined]
        if isinstance(self.table, DenseTable):
            return bool(((X.max(axis=0) == X.min(axis=0)) & (X[0] != 0.0)).any())
        root = np.ones(self.table.n) if self.table.root is None else self.table.root
        for j in np.flatnonzero(np.diff(X.indptr) == self.table.n):
            own, rows = X.data[X.indptr[j] : X.indptr[j + 1]], X.indices[X.indptr[j] : X.indptr[j + 1]]
            values = own[root[rows] > 0.0] / root[rows][root[rows] > 0.0]
            if values[0] != 0.0 and np.ptp(values) <= 1e-15 * abs(values[0]):
                return True
        return False

    def _path(
        self,
        y: np.ndarray,
        alphas: np.ndarray,
        l1_ratio: float,
        positive: bool,
        tolerance: float,
        start: np.ndarray | None,
    ) -> Path:
        # More than rounding allows is not tried for; the gap is judged by what was asked.
        reached, null = max(tolerance, REACHABLE), self.null(y)
        c = self.table.correlate(y[None])[0] if self.table.d else np.zeros(0)
        largest = extreme(c, positive) / self.table.total
        known = None
        by_gram = self.prefers_gram(bridged(alphas, largest / max(l1_ratio, 1e-3))[0].size)
        if start is not None and start.any() and not by_gram:
            known = self.table.correlate(residuals_of(self.table, y, start[:, None]))[0]
            largest = min(largest, extreme(known, positive) / self.table.total)
        grid, places = bridged(alphas, largest / max(l1_ratio, 1e-3))
        # No L1 part, or no penalty at all: solve next to it; the gap at the penalty asked for is computed below.
        ratio = max(l1_ratio, 1e-9)
        path = None
        if by_gram:
            G = self.gram()
            path = gram_path(
                G, c, float(y @ y), self.table.total, grid, ratio, positive=positive, tolerance=reached,
                errors=np.sqrt(summing_error(self.table.n)) * np.append(self.table.lengths, np.sqrt(y @ y)),
            )  # fmt: skip
            # The rounding of a Gram matrix may hide a small gap; rows show it.
            if not (path.gaps.relative(null)[places] <= reached).all():
                path.gaps = gaps_by_rows(self.table, y, path, ratio, positive)
            if not (path.gaps.relative(null)[places] <= reached).all():
                path = None
        if path is None:
            inner: Any = DenseInner(self.table, y, reached) if isinstance(self.table, DenseTable) else None
            if inner is None:
                inner = SparseInner(self.table, y, reached, ROUNDS if self.most is None else self.most)  # type: ignore[arg-type]
            path = working_set_path(
                self.table, inner, y, grid, ratio, positive=positive, tolerance=reached,
                correlations=c, known=known, null=null,
            )  # fmt: skip
        chosen = Path(
            alphas,
            path.coefs if np.array_equal(grid, alphas) else path.coefs[:, places],  # the whole path: no second copy
            LassoGaps(path.gaps.primal[places], path.gaps.dual[places]),
            path.active[places],
            path.passes,
            path.working,
        )
        nothing = np.flatnonzero(alphas == 0.0)
        if nothing.size and not positive and self.table.n * self.table.d <= WRITTEN_OUT:
            chosen.coefs[:, nothing] = dense.lstsq(all_rows(self.table), y, rcond=None)[0][:, None]
        if l1_ratio != ratio or (grid[places] != alphas).any():  # solved next to what was asked for
            chosen.gaps = gaps_by_rows(self.table, y, chosen, l1_ratio, positive)
        return chosen

    def _ridge(self, y: np.ndarray, alphas: np.ndarray) -> Path:
        """No L1 part: (X̃'X̃ + μI)b = X̃'y, or with rows the fewer b = X̃'(X̃X̃' + μI)⁻¹y."""
        table, d = self.table, self.table.d
        Z = all_rows(table)
        wide = d > table.n
        K = Z @ Z.T if wide else Z.T @ Z
        values, vectors = dense.eigh(K)
        values = np.maximum(values, 0.0)
        rotated = vectors.T @ (y if wide else Z.T @ y)
        coefs = np.empty((d, alphas.size))
        floor = values.max(initial=0.0) * max(K.shape) * np.finfo(float).eps
        for place, alpha in enumerate(alphas):
            lifted = values + table.total * alpha
            inner = vectors @ np.divide(rotated, lifted, out=np.zeros_like(rotated), where=lifted > floor)
            coefs[:, place] = Z.T @ inner if wide else inner
        path = Path(alphas, coefs, LassoGaps(alphas, alphas), np.count_nonzero(coefs, axis=0), 1, d)
        path.gaps = gaps_by_rows(table, y, path, 0.0, False)
        return path


def bridged(alphas: np.ndarray, top: float) -> tuple[np.ndarray, np.ndarray]:
    """A decreasing grid without large jumps that contains every penalty, and the places of those asked for.

    Penalties that rounding could not tell from none are raised to the least that it could.
    """
    wanted = np.unique(alphas)[::-1]
    lowest = max(top * LOWEST, 1e-300)
    grid: list[float] = []
    above = top
    for alpha in np.maximum(wanted, lowest):
        steps = int(np.ceil(np.log(above / alpha) / np.log(RATIO))) if above > alpha else 1
        if steps > 1:
            grid += np.geomspace(above, alpha, steps + 1)[1:-1].tolist()
        grid.append(float(alpha))
        above = min(above, float(alpha))
    made = np.array(grid)
    return made, np.array([int(np.flatnonzero(made == max(float(a), lowest))[0]) for a in alphas], dtype=np.int64)


def all_rows(table: Centred) -> np.ndarray:
    """The centred, scaled table written out whole: for small sides only."""
    X: Any = table.X  # type: ignore[attr-defined]
    sparse = isinstance(table, SparseTable)
    Z = np.asarray(X.toarray() if sparse else X, dtype=np.float64)
    root = np.ones(table.n) if table.root is None else table.root
    if sparse:
        return Z - root[:, None] * table.mean
    return (Z - table.mean) * root[:, None]


def centred_gram(table: Centred) -> np.ndarray:
    """X̃'X̃, centred before it is multiplied, block by block, so that large means cost no digits."""
    X: np.ndarray = table.X  # type: ignore[attr-defined]
    plain = table.root is None and not table.intercept and X.dtype == np.float64
    if plain or (table.root is None and X.dtype == np.float64 and _nearly_centred(X, table.mean)):
        G = np.asarray(X.T @ X)
        if table.intercept:
            G -= np.outer(table.n * table.mean, table.mean)
        return G
    G = np.zeros((table.d, table.d))
    for start in range(0, table.n, ROWS):
        Z = X[start : start + ROWS] - table.mean
        if table.root is not None:
            Z *= table.root[start : start + ROWS, None]
        G += Z.T @ Z
    return G


def _nearly_centred(X: np.ndarray, mean: np.ndarray) -> bool:
    """Means so small beside the columns that subtracting their product afterwards loses nothing."""
    sample = X[:: max(1, len(X) // 256)]
    return bool((mean**2 <= 1e-2 * np.mean(sample * sample, axis=0)).all())


def gaps_by_rows(table: Centred, y: np.ndarray, path: Path, l1_ratio: float, positive: bool) -> LassoGaps:
    """Gaps of given coefficients from the rows themselves, eight penalties to a read."""
    primal, dual = np.empty(path.alphas.size), np.empty(path.alphas.size)
    for start in range(0, path.alphas.size, 8):
        part = slice(start, start + 8)
        found = gaps_of(table, y, path.coefs[:, part], path.alphas[part], l1_ratio, positive)
        primal[part], dual[part] = found.primal, found.dual
    return LassoGaps(primal, dual)


def gaps_of(
    table: Centred, y: np.ndarray, coefs: np.ndarray, alphas: np.ndarray, l1_ratio: float, positive: bool
) -> LassoGaps:
    """The gaps of any coefficients whatever (columns × penalties), the intercept at its optimum for them."""
    taus, mus = table.total * alphas * l1_ratio, table.total * alphas * (1.0 - l1_ratio)
    used = np.flatnonzero(coefs.any(axis=1))
    B = np.ascontiguousarray(coefs[used].T)
    R = table.balance(residuals_of(table, y, coefs))
    sums = row_sums(table, y, R, used, B)
    g = table.correlate(R)
    unsure = summing_error(table.n) * np.sqrt(sums.residual_square)[:, None] * table.lengths
    return elastic_gaps(sums, np.ascontiguousarray(coefs.T), g, unsure, taus, mus, table.total, positive)


def residuals_of(table: Centred, y: np.ndarray, coefs: np.ndarray) -> np.ndarray:
    """The centred, scaled residuals of coefficients (columns × penalties), a row each."""
    used = np.flatnonzero(coefs.any(axis=1))
    if isinstance(table, DenseTable):  # centred before it is multiplied: large means cost no digits
        B, R = np.ascontiguousarray(coefs[used].T), np.empty((coefs.shape[1], table.n))
        for rows, Z in table.blocks(used):
            np.subtract(y[rows], B @ Z, out=R[:, rows])
        return R
    X: Any = table.X  # type: ignore[attr-defined]
    fitted = np.asarray((X[:, used] @ coefs[used]).T)
    level = (table.mean[used] @ coefs[used])[:, None]
    root: Any = 1.0 if table.root is None else table.root
    return np.asarray(y - fitted + level * root)
