"""From a point near the optimum of a program with corners to the optimum itself: its true zeros and rows met exactly.

Near the end of interior point the primal and dual slacks tell which rows lie on their corner, which coefficients are 0
and which are at a bound. With those held the conditions that are left are linear; their solution is the vertex (or the
foot on it), with rounding as its only error. It is taken only if the objective does not rise, and it counts as the end
only if its own dual point proves it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .. import dense
from .duality import solve_symmetric
from .risk import Point

if TYPE_CHECKING:
    from .interior import Program
    from .risk import Risk

LARGEST = 1500  # unknowns of the linear conditions
PROVEN = 1e-12  # relative gap from which a vertex is the optimum


def clean(program: Program, point: Point, theta: np.ndarray, a: np.ndarray, slacks: tuple[np.ndarray, ...]) -> Point:
    """The vertex that this point is near, if it is no worse; otherwise the point itself."""
    p, q, up, down = slacks
    risk, penalty, examples = program.risk, program.penalty, program.examples
    width = np.where(program.up & program.down, program.high - program.low, 1.0)
    unit = float(np.average(p + q, weights=program.c)) + 1e-300
    above = program.up & (p / unit > up / width)
    below = program.down & (q / unit > down / width)
    at = program.on & ~above & ~below
    at[examples:] &= program.on[examples:]
    loose = np.ones(len(theta), dtype=bool)
    snapped = theta.copy()
    single = program.single
    held = np.flatnonzero(at[examples:])
    snapped[single[held]] = program.corner[examples:][held]
    loose[single[held]] = False
    for group, strength in zip(penalty.groups, penalty.strengths, strict=True):
        pull = program.back(program.c * a)[group] if strength > 0.0 else np.zeros(len(group))
        if strength > 0.0 and float(np.linalg.norm(theta[group])) / unit < 1.0 - float(np.linalg.norm(pull)) / strength:
            snapped[group], loose[group] = 0.0, False
    slopes = np.where(above, program.high, np.where(below, program.low, a))
    slopes[examples:] = np.where(program.up & program.down, slopes, np.where(at, a, 0.0))[examples:]
    rows = np.flatnonzero(at[:examples])
    if not penalty.groups and len(rows) + int(loose.sum()) <= LARGEST:
        solved = _conditions(program, snapped, slopes, rows, loose)
        if solved is not None:
            snapped, slopes = solved
    corner = program.corner[examples:]
    zero = np.abs(snapped[single] - corner) <= 1e-13 * unit  # solved to rounding: it is on the corner of its penalty
    snapped[single[zero]] = corner[zero]
    snapped = np.clip(snapped, penalty.lower, penalty.upper)
    vertex = risk.point(snapped)
    scale = 4e-16 * math.sqrt(len(risk.c)) * (abs(point.loss) + abs(point.penalty))
    if not vertex.objective <= point.objective + scale:
        return point
    vertex.curvature = point.curvature
    vertex.dual = program.summed(program.c * np.clip(slopes, program.low, program.high))
    if not _optimal(risk, vertex):
        vertex.dual = point.dual
    vertex.finished = _optimal(risk, vertex)
    return vertex


def _optimal(risk: Risk, vertex: Point) -> bool:
    """Whether the vertex's own dual point leaves nothing but rounding."""
    dual = risk.dual(vertex)
    return risk.relative_gap(vertex.objective - dual.value - 2.0 * dual.rounding, vertex.objective) <= PROVEN


def _conditions(
    program: Program, theta: np.ndarray, slopes: np.ndarray, rows: np.ndarray, loose: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """(θ, slopes) with the optimality conditions of the loose coefficients and of the rows on their corners solved."""
    design, penalty, c = program.design, program.penalty, program.c
    some = np.flatnonzero(loose)
    n = design.n
    scores = np.tile(design.scores(theta), program.copies)
    slopes = slopes.copy()
    if program.rho[: program.examples].any():  # Huber's: slopes follow the scores, so only θ is unknown
        if not len(some):
            return None
        weights = np.zeros(n)
        weights[rows] = c[rows]
        slopes[rows] = (scores - program.corner[: program.examples])[rows]
        wrong = (program.back(c * slopes) + penalty.l2 * theta)[some]
        H = design.hessian(weights)[np.ix_(some, some)] + np.diag(penalty.l2[some])
        out = theta.copy()
        out[some] -= solve_symmetric(H, wrong)
        slopes[rows] = (np.tile(design.scores(out), program.copies) - program.corner[: program.examples])[rows]
        return out, slopes
    columns = _rows_of(program, rows % n, some)
    wrong = (program.back(c * slopes) + penalty.l2 * theta)[some]
    short = program.corner[rows] - scores[rows]
    k, m = len(some), len(rows)
    system = np.zeros((k + m, k + m))
    system[:k, :k] = np.diag(penalty.l2[some])
    system[:k, k:], system[k:, :k] = columns.T, columns
    # Corrections of least norm: where several vertices or slopes would do, the nearest is taken.
    change = dense.lstsq(system, np.concatenate([-wrong, short]), rcond=1e-12)[0]
    if not np.isfinite(change).all():
        return None
    out = theta.copy()
    out[some] += change[:k]
    slopes[rows] += change[k:] / c[rows]
    return out, slopes


def _rows_of(program: Program, rows: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Some rows and columns of the standardised matrix."""
    design = program.design
    out = np.ones((len(rows), len(some)))
    inside = some < design.d
    block = design.X[rows]
    block = np.asarray(block.toarray() if design.sparse else block, dtype=float)
    out[:, inside] = ((block - design.shift) / design.scale)[:, some[inside]]
    return out
