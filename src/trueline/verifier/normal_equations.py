"""The normal equations of least squares without rounding: their sums, their solution, and what it leaves.

The coefficients β of Σ w (y − b − x·β)² + Σ ridge_j β_j² solve M β = r, where M and r are sums of products of the rows.
Here those sums are exact and the solution has at least 60 digits. Decimals are used within ``PRECISION``.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np

from .exact_arithmetic import PRECISION, decimals, gram, solved
from .stated_claims import Given, Rows


class Sums(NamedTuple):
    """All products of the constant 1, the columns and the targets, in this order, as decimals, with their rows.

    ``constants`` is 1 where the model has an intercept, otherwise 0.
    """

    X: Rows
    Y: Rows
    weights: Rows
    constants: int
    products: Rows
    whole: Rows  # of which columns and targets every entry is a whole number

    @property
    def target(self) -> int:
        """Where the first target stands in the products."""
        return 1 + self.X.shape[1]

    def rows(self, columns: list[int]) -> list[int]:
        """Where [the constant and] some columns stand in the products."""
        return [*range(self.constants), *(1 + j for j in columns)]

    def centred_square(self, row: int) -> Decimal:
        """Σ w (z − z̄)² of a column or target."""
        square: Decimal = self.products[row, row]
        return square - self.products[0, row] ** 2 / self.products[0, 0]

    def length(self, row: int) -> float:
        """√(Σ w z²) of a column or target, about its mean where the model has an intercept."""
        return root(self.centred_square(row) if self.constants else self.products[row, row])

    def raw_lengths(self, rows: list[int]) -> Rows:
        """√(Σ w z²) about 0."""
        return np.array([root(self.products[j, j]) for j in rows])


class Line(NamedTuple):
    """One target: the columns that count, the model's [constant and] coefficients of them, and the ridge on them."""

    place: int
    columns: list[int]
    coefficients: Rows
    ridge: Rows


class Solution(NamedTuple):
    """The equations of one line, matrix·best = right over ``rows`` of the products, and their solution.

    ``residual_squares`` is Σ w (y − b − x·β)² there; ``centred`` and ``inverse`` are the matrix without the constant,
    which is eliminated, and its inverse V, in float64; ``constant`` holds x̄ᵀVx̄ and x̄ᵀV, x̄ the columns' means.
    """

    rows: list[int]
    matrix: Rows
    right: Rows
    best: Rows
    residual_squares: float
    centred: Rows
    inverse: Rows
    constant: Rows

    @property
    def condition(self) -> float:
        """The condition number of columns of length 1, from the largest eigenvalues of the matrix and of its inverse."""
        if not len(self.centred):
            return 1.0
        lengths = np.sqrt(np.diag(self.centred))
        both = (self.centred / np.outer(lengths, lengths), self.inverse * np.outer(lengths, lengths))
        return math.sqrt(max(1.0, math.prod(float(np.linalg.eigvalsh(S)[-1]) for S in both)))


def root(square: Decimal) -> float:
    """√ of a number that only rounding can make negative."""
    return math.sqrt(max(0.0, float(square)))


def sums_of(given: Given, constants: int) -> Sums:
    """The products of the rows that count, without rounding."""
    counted = given.c > 0
    X, weights = given.X[counted], given.c[counted]
    Y = given.y.astype(float).reshape(len(given.y), -1)[counted]
    with localcontext(PRECISION):
        products = gram(np.column_stack([np.ones(len(X)), X, Y]), weights)
    whole = np.array([_is_whole(column) for column in (*X.T, *Y.T)])
    return Sums(X, Y, weights, constants, products, whole)


def _is_whole(column: Rows) -> bool:
    """Whether every entry is a whole number; the first entries mostly tell that one is not."""
    return all(bool((part == np.rint(part)).all()) for part in (column[:64], column[64:]))


def lines_of(record: Any, sums: Sums, dropped: list[int], ridges: Rows, bounded: bool) -> list[Line]:
    """One line for each target, without dropped columns; of ``bounded`` coefficients those at 0 are left out."""
    coefficients = np.atleast_2d(np.asarray(record.coef, dtype=float))
    intercepts = np.broadcast_to(np.ravel(record.intercept), len(coefficients))
    found = []
    for place, (own, intercept, ridge) in enumerate(zip(coefficients, intercepts, ridges, strict=True)):
        columns = [j for j in range(sums.X.shape[1]) if j not in dropped and (own[j] != 0.0 or not bounded)]
        found.append(Line(place, columns, np.r_[[intercept] * sums.constants, own[columns]], ridge[columns]))
    return found


def solve(sums: Sums, line: Line) -> Solution:
    """The solution of one line; ZeroDivisionError where a column that counts is made up by others."""
    first, rows, place = sums.constants, sums.rows(line.columns), sums.target + line.place
    ridge = decimals(np.r_[np.zeros(first), line.ridge])
    matrix = sums.products[np.ix_(rows, rows)] + np.diag(ridge)
    right = sums.products[rows, place]
    best, inverse = solved(matrix, right, first)
    own = best @ (matrix @ best) - 2 * (best @ right) - ridge @ best**2 if len(best) else Decimal(0)
    centred = matrix[first:, first:]
    if first:
        centred = centred - np.outer(matrix[first:, 0], matrix[0, first:]) / matrix[0, 0]
    squares = max(0.0, float(sums.products[place, place] + own))
    constant = _constant_row(matrix, inverse) if first else np.zeros(0)
    V = inverse[first:, first:].astype(float)
    return Solution(rows, matrix, right, best, squares, centred.astype(float), V, constant)


def _constant_row(matrix: Rows, inverse: Rows) -> Rows:
    """(x̄ᵀVx̄, x̄ᵀV) before anything of it is rounded, where the inverse has its row of the constant."""
    if not isinstance(inverse[0, 0], float):
        return np.r_[inverse[0, 0] - 1 / matrix[0, 0], -inverse[0, 1:]].astype(float)
    centre = (matrix[0, 1:] / matrix[0, 0]).astype(float)
    return np.r_[centre @ inverse[1:, 1:] @ centre, centre @ inverse[1:, 1:]]
