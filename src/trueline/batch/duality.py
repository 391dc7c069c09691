"""Dual points and their values: lower bounds on the optimum, from any point of any method.

For E(θ) = Σ c_i V(y_i, x_i·θ + o_i) + Ω(θ) and any slopes a_i,
    D(a) = −Σ c_i [V*(a_i, y_i) − a_i·o_i] − Ω*(−X̃ᵀ(c∘a))  ≤  min E.
Slopes of the current scores are the natural a. Two conditions make D finite: parameters that nothing holds
(the intercept, above all) need X̃_Uᵀ(c∘a) = 0, and the others must lie in the domain of Ω*. The first is met
by moving a along h∘X̃_U, h the curvature: the step Newton's method would take, seen from the dual side, which
stays inside the slope's range where a plain projection leaves it. The second by scaling a towards 0, which is
always in the range.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import dense, threads
from ..doubled import UNIT
from ..onepass.lasso_gap import summing_error
from ..solvers.row_sums import beyond_range, conjugate_sum, upper_conjugate_sum
from .design import row_chunks

if TYPE_CHECKING:
    from .risk import Point, Risk

NO_OFFSET = np.zeros(0)
WEAK = 1e-12  # of the largest eigenvalue, or of a column's own square: below, products of columns are mostly rounding
MOST_WEAK = 50  # weak directions that are looked at in the rows
MOST_WRITTEN = 20_000_000  # entries of columns that are written out for that
ROWS_ROUND = 4.0  # roundings within which the rows themselves cannot tell columns apart
LARGEST_PROJECTION = 1500  # free parameters that are projected by a factored Hessian; beyond, conjugate gradients


class Dual(NamedTuple):
    """A lower bound of the optimum, rounding already subtracted; −X̃ᵀ(c∘a) of its point; what was subtracted.

    ``unit`` of that is for each unit of ``reach``, the size of the parameters: whoever has larger ones subtracts more.
    """

    value: float
    z: np.ndarray | None
    rounding: float
    unit: float = 0.0
    reach: float = 0.0

    def beside(self, reach: float) -> float:
        """The bound where the parameters are of this size."""
        return self.value - self.unit * max(0.0, reach - self.reach)


NO_DUAL = Dual(-math.inf, None, 0.0)


def has_conjugate(loss: Any) -> bool:
    """Whether the loss brings its own conjugate."""
    return bool(loss.has("conjugate") and loss.has("slope_range"))


def dual_value(risk: Risk, point: Point) -> Dual:
    """The dual point that belongs to this point; −∞ if none was found."""
    if point.dual is not None and point.dual_z is not None:
        foretold = _finished(risk, point, point.dual, point.dual_z.copy())
        if math.isfinite(foretold.value):
            return foretold
    own = point.dual if point.dual is not None and point.dual_z is None else point.slope
    return _finished(risk, point, *_balanced(risk, point, own))


def _finished(risk: Risk, point: Point, ca: np.ndarray, z: np.ndarray, moved: float = 0.0, weakly: float = 0.0) -> Dual:
    """The value of a dual point whose free parameters balance; −∞ if they do not.

    ``moved`` is how far the optimum's parameters seem to be from these, ``weakly`` what is left along weak directions.
    """
    zero = risk.penalty.free | risk.penalty.unbalanced(point.theta, z)
    left = np.abs(z[zero])
    # More than rounding may not be left: where columns nearly repeat others, little is worth much. Slopes of the loss
    # carry rounding of the size of what they are differences of, which the curvatures show.
    steep = mean_square(ca, risk.c)
    room = summing_error(len(ca)) * math.sqrt(steep) * column_widths(risk.design)[zero] + 1e-300
    if getattr(risk.loss, "smooth", False):
        room += 1e-14 * float(point.curvature.sum())
    if (left > room).any():
        return NO_DUAL
    z[zero] = 0.0
    factor = risk.penalty.shrink(z)
    if factor < 1.0:
        ca, z = ca * factor, z * factor
    held = risk.penalty.conjugate(z)
    if not math.isfinite(held):
        return NO_DUAL
    total, size = _conjugates(risk, point, ca)
    if not math.isfinite(total):
        return NO_DUAL
    unbalanced = weakly + float((left / column_widths(risk.design)[zero]).max(initial=0.0))
    if has_conjugate(risk.loss):  # a slope that is moved into its range moves every sum over a column of width 1
        unbalanced += math.sqrt(beyond_range(risk.loss, ca, risk.y, risk.c))
    return rounded(risk, point, -total - held, z, steep, size + abs(held), unbalanced, moved=moved)


def column_widths(design: Any) -> np.ndarray:
    """How large each standardised column is in a product, before or after its shift is taken off: products round by that."""
    before = np.zeros(design.d) if design.far else np.abs(design.shift) / design.scale
    return np.append(1.0 + before, [1.0] * design.intercept)


def mean_square(ca: np.ndarray, c: np.ndarray) -> float:
    """Σ c·a², of one slope a row or several."""
    on = c > 0.0
    slopes = ca.reshape(len(c), -1)[on]
    return float(np.einsum("ik,ik,i->", slopes, slopes, 1.0 / c[on]))


def reach_of(risk: Risk, theta: np.ndarray) -> float:
    """How large scores are before columns and shifts cancel, in the root mean square."""
    widths = column_widths(risk.design)
    return float(np.abs(theta).reshape(-1, len(widths)).sum(axis=0) @ widths)


def rounded(
    risk: Risk, point: Point, value: float, z: np.ndarray, steep: float, size: float, unbalanced: float,
    n: int | None = None, moved: float = 0.0,
) -> Dual:  # fmt: skip
    """The dual point with what rounding may have added to its value less the primal one subtracted.

    That is: of their sums, whose terms have the size ``size`` and that of loss and penalty; of scores and products with
    columns, which round in the units of X as it came (``steep`` is Σ c·a², and the root mean square of a times that of a
    column bounds each sum of products); and what is left of sums that should vanish (``unbalanced``, in columns of width
    1), which counts at the optimum's own parameters, taken to be no more than twice these.
    """
    error, reach = summing_error(len(risk.c) if n is None else n), moved + reach_of(risk, point.theta)
    unit = 2.0 * (error * math.sqrt(steep) + unbalanced)
    rounding = error * (size + abs(point.loss) + abs(point.penalty)) + unit * reach
    return Dual(value - rounding, z, rounding, unit, reach)


def _conjugates(risk: Risk, point: Point, ca: np.ndarray) -> tuple[float, float]:
    """(Σ c·[V*(a) − a·o], the sum of the sizes of its terms)."""
    offset = np.ascontiguousarray(NO_OFFSET if risk.offset is None else risk.offset, dtype=float)
    if has_conjugate(risk.loss):
        parts = threads.spread(
            lambda rows: conjugate_sum(risk.loss, ca, risk.y, risk.c, offset, *rows), row_chunks(len(ca))
        )
        return float(sum(part[0] for part in parts)), float(sum(part[1] for part in parts))
    total, size = upper_conjugate_sum(risk.loss, ca, risk.y, risk.c, offset, point.scores)
    return float(total), float(size)


def _balanced(risk: Risk, point: Point, ca: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """(c∘a, −X̃ᵀ(c∘a), how far parameters would move, what is left along weak directions of length 1).

    The correlations of the free parameters are brought to 0. Slopes of few rows, as on a vertex, may not balance weak
    directions along with the others.
    """
    design = risk.design
    gradient = risk.gradient(point) if ca is point.slope else design.correlations(ca)
    z, moved, weak = -gradient, np.zeros(design.size), None
    for turn in range(4):
        free = np.flatnonzero(risk.penalty.free | risk.penalty.unbalanced(point.theta, z))
        size = float(np.abs(ca).sum())
        if not len(free) or (np.abs(z[free]).max() <= 1e-15 * size and (turn > 0 or len(free) == 1)):
            break
        metric = point.curvature if len(point.curvature) and point.curvature.any() else risk.c
        move, left_out = _solve(risk, point, metric, free, z[free])
        shift = design.dense_columns(free) @ move if len(free) <= 8 and design.sparse else None
        if shift is None:
            full = np.zeros(design.size)
            full[free] = move
            shift = design.scores(full)
        moved[free] += np.abs(move)
        if left_out is not None and 0 < left_out.shape[1] <= MOST_WEAK and len(free) * design.n <= MOST_WRITTEN:
            weak = WeakDirections.of(risk, metric, free, left_out) if weak is None else weak
            if len(weak.matrix):  # none is left where the columns depend on each other to the last digit
                along = solve_symmetric(weak.matrix, weak.images.T @ ca)
                shift = shift - weak.images @ along
                moved[free] += np.abs(weak.vectors @ along)
        # In the last digits a step can only hurt; before that it removes all but rounding.
        ca = ca + metric * shift
        z = -design.correlations(ca)
    weakly = 0.0 if weak is None else float(np.linalg.norm(weak.images.T @ ca))
    return ca, z, reach_of(risk, moved), weakly


class WeakDirections(NamedTuple):
    """Directions that the rounded matrix of products cannot tell from none, as the rows show them.

    A column that differs from another by 10⁻¹⁰ leaves nothing of that in the matrix, but the rows still show it; only
    where these round, too, are the columns dependent as far as anyone can tell.
    """

    vectors: np.ndarray
    images: np.ndarray  # their scores
    matrix: np.ndarray  # the products of these in the metric

    @classmethod
    def of(cls, risk: Risk, metric: np.ndarray, free: np.ndarray, left_out: np.ndarray) -> WeakDirections:
        columns = risk.design.dense_columns(free)  # they are shifted before they are multiplied
        if risk.design.sparse and free[-1] == risk.design.d:  # beside a constant these are shifted here
            means, left_out = risk.c @ columns[:, :-1], left_out.copy()
            columns = risk.design.dense_columns(free, risk.c)
            left_out[-1] += means @ left_out[:-1]
        # An eigenvector carries rounding along the others, and their images would look like its own: it is taken off.
        others = dense.qr(left_out, mode="complete")[0][:, left_out.shape[1] :]
        gram = others.T @ (columns.T @ (risk.c[:, None] * columns)) @ others
        along = others.T @ (columns.T @ (risk.c[:, None] * (columns @ left_out)))
        left_out = left_out - others @ solve_symmetric(gram, along)
        images = columns @ left_out
        lengths = np.sqrt(risk.c @ (columns * columns))
        room = ROWS_ROUND * UNIT * float((lengths @ np.abs(left_out)).max())
        values, turn = dense.eigh(images.T @ (risk.c[:, None] * images))
        turn = turn[:, values > room * room] / np.sqrt(values[values > room * room])
        images = images @ turn
        return cls(left_out @ turn, images, images.T @ (metric[:, None] * images))


def _solve(
    risk: Risk, point: Point, metric: np.ndarray, free: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """δ with X̃_Uᵀ diag(metric) X̃_U δ = right, and the directions left out as too weak for the matrix to tell."""
    if len(free) > LARGEST_PROJECTION:
        return _conjugate_gradients(risk, metric, free, right), None
    if point.hessian is not None and metric is point.curvature:
        matrix = point.hessian[np.ix_(free, free)]
    elif len(free) == 1 and free[0] == risk.design.d:
        matrix = np.array([[metric.sum()]])
    else:
        matrix = risk.design.hessian(metric, free)
    return solve_or_leave(matrix, right)


def solve_symmetric(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The least-norm solution of a positive semidefinite system: Cholesky, or eigenvectors where it fails."""
    return solve_or_leave(matrix, right)[0]


def solve_or_leave(matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """(that solution, the eigenvectors that were left out of it as too weak, if any)."""
    if not len(matrix):
        return np.zeros(0), None
    try:
        factor = dense.cho_factor(matrix, check_finite=False)
        if np.min(np.abs(np.diag(factor[0])) ** 2 / np.maximum(np.diag(matrix), 1e-300)) > WEAK:
            return dense.cho_solve(factor, right, check_finite=False), None
    except np.linalg.LinAlgError:
        pass
    values, vectors = dense.eigh(matrix)
    keep = values > WEAK * max(values[-1], 1e-300)
    return np.asarray((vectors[:, keep] / values[keep]) @ (vectors[:, keep].T @ right)), vectors[:, ~keep]


def _conjugate_gradients(risk: Risk, metric: np.ndarray, free: np.ndarray, right: np.ndarray) -> np.ndarray:
    def times(v: np.ndarray) -> np.ndarray:
        full = np.zeros(risk.design.size)
        full[free] = v
        return risk.design.correlations(metric * risk.design.scores(full))[free]

    return conjugate_gradients(times, right, 1e-12, 500)


def conjugate_gradients(times: Any, right: np.ndarray, tolerance: float, most: int) -> np.ndarray:
    """Conjugate gradients from 0 on a positive semidefinite operator."""
    x = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    size = first = float(residual @ residual)
    for _ in range(most):
        if size <= tolerance**2 * first or size == 0.0:
            break
        image = times(direction)
        curve = float(direction @ image)
        if not curve > 0.0:
            break
        x += (size / curve) * direction
        residual -= (size / curve) * image
        before, size = size, float(residual @ residual)
        direction = residual + (size / before) * direction
    return x
