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
from .verify_moments import noise_of

UNIT = 2.0**-53


def check_dependent(out: Claims, record: Any, sums: Sums, lines: list[Line], solutions: list[Solution]) -> bool:
    """Each column that the certificate calls dropped lies in the span of the others, and the coefficients obey a rule."""
    names = list(record.terms)
    places = [names.index(name) for name in out.proof.dropped]
    combinations = {j: _combination(sums, solutions[0], j) for j in places}
    rooms = {j: _rounding(record, sums, solutions[0], j, gamma) for j, gamma in combinations.items()}
    held = [_check_column(out, names[j], sums, solutions[0], j, combinations[j], rooms[j]) for j in places]
    if combinations and not any(line.ridge.any() for line in lines):  # with a ridge the coefficients are unique
        _check_rule(out, record, sums, lines, solutions, combinations, rooms)
    return all(held)


def _combination(sums: Sums, solution: Solution, column: int) -> Rows:
    """γ with x_j ≈ γ·[constant and columns that count], by the equations of the fit, its ridge included."""
    if not solution.rows:
        return decimals(np.zeros(0))
    return solved(solution.matrix, sums.products[solution.rows, 1 + column], sums.constants)[0]


def _rounding(record: Any, sums: Sums, solution: Solution, column: int, gamma: Rows) -> float:
    """What the rounding of all entries, and of the products that the fit formed of them, may make of a combination."""
    sizes, noise = np.abs(gamma.astype(float)), noise_of(record, sums)
    entries = float(sums.raw_lengths([1 + column])[0]) + float(sizes @ sums.raw_lengths(solution.rows))
    places = [row - 1 for row in solution.rows if row]
    products = noise[column] + float(sizes[sums.constants :] @ noise[places])
    return 16.0 * UNIT * entries + 2.0 * products


def _check_column(
    out: Claims, name: str, sums: Sums, solution: Solution, column: int, gamma: Rows, room: float
) -> bool:
    """Its distance from the others is no more than rounding makes of such a combination."""
    rows, row = solution.rows, 1 + column
    square = sums.products[row, row]
    apart = root(square - gamma @ sums.products[rows, row]) if len(gamma) else root(square)
    length = root(square)
    share = apart / length if length else 0.0
    out.append(Check(f"{name} repeats others", "dropped", share, apart <= room, "its distance from them"))
    return apart <= room


def _check_rule(
    out: Claims,
    record: Any,
    sums: Sums,
    lines: list[Line],
    solutions: list[Solution],
    combinations: dict[int, Rows],
    rooms: dict[int, float],
) -> None:
    """0 for each dropped column, or least norm, to within rounding.

    A combination that is known to ``room`` in length has coefficients γ_k known to room·√V_kk, V the inverse.
    """
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
            unsure = rooms[j] * float(np.sqrt(np.diag(solution.inverse)) @ np.abs(own[line.place][line.columns]))
            room = 64.0 * (width + 1) * UNIT * length * size * solution.condition + unsure
            worst = max(worst, abs(float(null @ own[line.place])) / room if room else 0.0)
    note = "none that fits as well is shorter; in units of rounding"
    out.append(Check("coefficients of dependent columns", "least norm", worst, worst <= 1.0, note))
