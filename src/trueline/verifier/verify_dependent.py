"""Columns that others make up: that they do so, and what a model does about coefficients that are then not unique.

The fitted values are unique all the same. Of all coefficients that give them a model has those with 0 for each dropped
column, or those of least norm, which are orthogonal to every e_j − γ_j, γ_j being what column j is in the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .exact_arithmetic import decimals, solved
from .normal_equations import Line, Solution, Sums, root
from .stated_claims import Check, Claims, Rows

UNIT = 2.0**-53


def check_dependent(out: Claims, record: Any, sums: Sums, lines: list[Line], solutions: list[Solution]) -> bool:
    """Each column that the certificate calls dropped lies in the span of the others, and the coefficients obey a rule."""
    names = list(record.terms)
    combinations = {names.index(name): _combination(sums, lines[0], names.index(name)) for name in out.proof.dropped}
    held = [_check_column(out, names[j], sums, lines[0], j, gamma) for j, gamma in combinations.items()]
    if combinations:
        _check_rule(out, record, sums, lines, solutions, combinations)
    return all(held)


def _combination(sums: Sums, line: Line, column: int) -> Rows:
    """γ with x_j ≈ γ·[constant and columns that count], by least squares without any ridge."""
    rows = sums.rows(line.columns)
    if not rows:
        return decimals(np.zeros(0))
    return solved(sums.products[np.ix_(rows, rows)], sums.products[rows, 1 + column], sums.constants)[0]


def _check_column(out: Claims, name: str, sums: Sums, line: Line, column: int, gamma: Rows) -> bool:
    """Its distance from the others is no more than the rounding of all entries in such a combination."""
    rows, row = sums.rows(line.columns), 1 + column
    square = sums.products[row, row]
    apart = root(square - gamma @ sums.products[rows, row]) if len(gamma) else root(square)
    length = root(square)
    room = 16.0 * UNIT * (length + float(np.abs(gamma.astype(float)) @ sums.raw_lengths(rows)))
    share = apart / length if length else 0.0
    out.append(Check(f"{name} repeats others", "dropped", share, apart <= room, "its distance from them"))
    return apart <= room


def _check_rule(
    out: Claims, record: Any, sums: Sums, lines: list[Line], solutions: list[Solution], combinations: dict[int, Rows]
) -> None:
    """0 for each dropped column, or least norm, to within the rounding of a projection in float64."""
    own = np.atleast_2d(np.asarray(record.coef, dtype=float))
    if not own[:, list(combinations)].any():
        out.append(Check("coefficients of dependent columns", "0", "0", True, "those of the others are unique then"))
        return
    width, worst = sums.X.shape[1], 0.0
    for line, solution in zip(lines, solutions, strict=True):
        basic = float(np.linalg.norm(solution.best[sums.constants :].astype(float)))
        for j, gamma in combinations.items():
            null = np.zeros(width)
            null[lines[0].columns] = -gamma.astype(float)[sums.constants :]
            null[j] = 1.0
            length, size = float(np.linalg.norm(null)), basic + float(np.linalg.norm(own[line.place]))
            room = 64.0 * (width + 1) * UNIT * length * size * solution.condition
            worst = max(worst, abs(float(null @ own[line.place])) / room if room else 0.0)
    note = "none that fits as well is shorter; in units of rounding"
    out.append(Check("coefficients of dependent columns", "least norm", worst, worst <= 1.0, note))
