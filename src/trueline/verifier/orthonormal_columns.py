"""The columns of a problem with those that nothing holds made orthonormal in the rows' weights.

Nearly parallel columns have combinations that are short: what rounding leaves of them in float64 grows by as much as
they are lengthened. So where there are any, orthonormal columns are formed from the rows as they came, with products and sums
whose rounding errors are added up beside them (Ogita, Rump and Oishi 2005): each entry is as good as if it were rounded once.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from .exact_arithmetic import exact_multiples, exact_sums
from .minimised_problem import Group, Problem
from .stated_claims import Rows

EPS = float(np.finfo(float).eps)
PARALLEL = 1e-4  # a combination that is shorter, as a part of the longest, is formed with its rounding errors


@dataclasses.dataclass(frozen=True)
class Coordinates:
    """The problem in columns of which the first ``free`` are orthonormal, and the others are held by penalty or bounds.

    ``spread`` is how much the rounding of a sum over a column grows in making it orthonormal.
    """

    problem: Problem
    columns: Rows
    stated: Rows
    l1: Rows
    l2: Rows
    lower: Rows
    upper: Rows
    groups: tuple[Group, ...]
    free: int
    spread: Rows

    def scores(self, weights: Rows) -> Rows:
        found = self.columns @ weights
        return found if weights.shape[1] > 1 else found[:, 0]

    def correlations(self, slope: Rows) -> Rows:
        """Zᵀ(c∘a), columns × classes."""
        return self.columns.T @ (self.problem.c * slope.T).T.reshape(len(slope), -1)


def coordinates(problem: Problem) -> Coordinates:
    """The free columns made orthonormal in the rows' weights; directions in which they are dependent are left out."""
    free = problem.free
    if free[0] and not free[1:].any():
        return Coordinates(
            problem, problem.columns, problem.stated, problem.l1, problem.l2, problem.lower, problem.upper,
            problem.groups, 1, np.ones(1),
        )  # fmt: skip
    held = np.flatnonzero(~free)
    loose, stated, spread = orthonormal(problem, free)
    count = len(spread)
    place = {int(j): k + count for k, j in enumerate(held)}
    groups = tuple(
        Group(np.array([place[int(j)] for j in g.columns]), g.strength) for g in problem.groups if g.strength
    )

    def joined(values: Rows, empty: float) -> Rows:
        return np.r_[np.full(count, empty), values[held]]

    return Coordinates(
        problem,
        np.hstack([loose, problem.columns[:, held]]),
        np.vstack([stated, problem.stated[held]]),
        joined(problem.l1, 0.0), joined(problem.l2, 0.0), joined(problem.lower, -math.inf),
        joined(problem.upper, math.inf), groups, count, spread,
    )  # fmt: skip


def orthonormal(problem: Problem, free: Rows) -> tuple[Rows, Rows, Rows]:
    """(orthonormal columns with the span of the free ones, the stated weights in them, the spread of each)."""
    loose, weights = problem.columns[:, free], problem.stated[free]
    if not loose.shape[1]:
        return loose, weights, np.zeros(0)
    directions, lengths = principal_directions(loose, problem.c)
    turn = directions / lengths
    if lengths.min() > PARALLEL * lengths.max():
        return loose @ turn, (directions.T @ weights) * lengths[:, None], np.abs(turn).sum(axis=0)
    near = without_rounding(problem, free, turn)
    directions, lengths = principal_directions(near, problem.c)  # the first ones are off by their own rounding
    turn = directions / lengths
    columns = near @ turn
    stated = columns.T @ (problem.c[:, None] * (loose @ weights))
    return columns, stated, np.abs(turn).sum(axis=0)


def principal_directions(columns: Rows, c: Rows) -> tuple[Rows, Rows]:
    """(directions as columns, lengths): √c·Z times a direction has its length; those of rounding's size are left out."""
    values, vectors = np.linalg.eigh((columns * c[:, None]).T @ columns)
    if values[0] > PARALLEL**2 * values[-1]:
        return vectors, np.sqrt(values)
    triangle = np.linalg.qr(np.sqrt(c)[:, None] * columns, mode="r")  # a Gram matrix would square small lengths away
    _, lengths, turned = np.linalg.svd(triangle)
    turned = turned[: len(lengths)]
    counted = lengths > 4.0 * EPS * math.sqrt(len(columns.T)) * lengths[0]
    return turned[counted].T, lengths[counted]


def without_rounding(problem: Problem, free: Rows, turn: Rows) -> Rows:
    """The free columns times ``turn``, formed from the rows as they came; each entry is rounded about once."""
    first = int(problem.constant)
    total, lost = np.zeros((len(problem.c), turn.shape[1])), np.zeros((len(problem.c), turn.shape[1]))
    for j, factors in zip(np.flatnonzero(free), turn / problem.length[free][:, None], strict=True):
        column = problem.raw[:, j - first] if j >= first else np.ones(len(problem.c))
        centred, rest = exact_sums(column, -problem.shift[j])
        product, error = exact_multiples(centred[:, None], factors)
        total, missed = exact_sums(total, product)
        lost += missed + error + np.outer(rest, factors)
    return np.asarray(total + lost)
