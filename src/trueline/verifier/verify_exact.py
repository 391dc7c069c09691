"""Closed forms: least squares and ridge, beside the solution of their normal equations in 120 decimal digits.

The sums of the equations have no rounding and the solution has none that matters, so the digits of the model's own
coefficients are known here, not estimated. A result is proven when no column is made up by others, its fitted values
are the best ones but for rounding, at least one digit of every coefficient holds and, where coefficients may not be
negative, none that is 0 would lower the squares by growing (Karush, Kuhn and Tucker).
"""

from __future__ import annotations

import math
from decimal import localcontext
from typing import Any, NamedTuple

import numpy as np

from ..certificates.certificate import Status
from ..certificates.optimality import FLOOR, LEAST_DIGITS, PROVEN_GAP
from ..errors import ModelError
from .agreement import same_status
from .exact_arithmetic import PRECISION, decimals
from .normal_equations import Line, Solution, Sums, lines_of, root, solve, sums_of
from .stated_claims import Check, Claims, Given, Rows, is_finite
from .verify_dependent import check_dependent
from .verify_moments import check_moments, noise_of
from .verify_predictions import check_constants, check_linear_predictions

UNIT = 2.0**-53
NONNEGATIVE = ("non-negative least squares", "non-negative ridge")
CLOSED_FORMS = ("least squares", "ridge regression", *NONNEGATIVE)
UNSEEN = 2.0**-54  # of the target: a coefficient that moves no prediction by its last place has no digit to lose
KEPT_AT_ZERO = "no coefficient left at 0 would lower the squares by growing"
FITTED = 1e-7  # of the residual's length: how far a proven fit may lie from the best one beside rounding


class Measured(NamedTuple):
    """A number found, and what rounding may leave of it where it should be 0."""

    found: float
    room: float

    @property
    def within(self) -> bool:
        return self.found <= self.room


def check_closed_form(out: Claims, given: Given) -> None:
    """All checks of least squares, ridge and their non-negative forms."""
    record, settings = given.record, given.record.statistics
    constants = int(bool(settings.get("fit_intercept", True)))
    coefficients = np.atleast_2d(np.asarray(record.coef, dtype=float))
    _check_shapes(record, given, coefficients)
    check_constants(out, record, bool(constants))
    own = np.asarray(record.intercept, dtype=float) if constants else np.zeros(1)
    check_linear_predictions(out, record, given.X, "squared", coefficients.T, own)
    dropped = _dropped_columns(out, list(record.terms))
    sums = sums_of(given, constants)
    ridges = _ridges(record, sums)
    bounded = settings["family"] in NONNEGATIVE
    lines = lines_of(record, sums, dropped, ridges, bounded)
    with localcontext(PRECISION):
        try:
            solutions = [solve(sums, line) for line in lines]
        except ZeroDivisionError as place:
            out.holds("rank", place.args[0], False, "a column that counts is made up by the others")
            return
        dependent = check_dependent(out, record, sums, lines, solutions)
        _check_rank(out, sums, lines, dropped, bounded)
        fitted = _check_fitted_values(out, record, sums, lines, solutions, ridges)
        digits = _check_digits(out, sums, lines, solutions, fitted if dropped else None)
        _check_condition(out, sums, solutions)
        _check_angle(out, record, sums, lines, solutions, ridges, dropped)
        stays = _check_signs(out, sums, lines, solutions) if bounded else True
    proven = dependent and fitted and stays and not dropped and digits >= LEAST_DIGITS
    _check_status(out, proven, bool(dropped))
    check_moments(out, record, sums, solutions)


def _check_shapes(record: Any, given: Given, coefficients: Rows) -> None:
    """Refuse a model whose numbers are not one finite number for each column and target of the rows."""
    targets = given.y.reshape(len(given.y), -1).shape[1]
    if coefficients.shape != (targets, given.X.shape[1]) or len(record.terms) != given.X.shape[1]:
        raise ModelError(
            f"the model has {coefficients.shape[0]} × {coefficients.shape[1]} coefficients for {len(record.terms)} terms, "
            f"and the rows have {targets} targets and {given.X.shape[1]} columns; give the rows that it was trained on",
            where="coef",
        )
    if np.size(record.intercept) not in (1, targets) or not np.isfinite(coefficients).all():
        raise ModelError("the coefficients are not one finite number for each column and target", where="coef")


def _ridges(record: Any, sums: Sums) -> Rows:
    """The ridge on each column, a row for each target, from the penalty that the model states: at least 0."""
    settings, targets = record.statistics, sums.Y.shape[1]
    alpha = np.asarray(settings.get("alpha", 0.0), dtype=float)
    right = bool(np.isfinite(alpha).all() and (alpha >= 0.0).all() and alpha.size in (1, targets))
    if settings["family"] in ("least squares", "non-negative least squares"):
        right = right and not alpha.any()
    if not right:
        raise ModelError(f"the penalty alpha of {settings['family']} is no number of at least 0", where="alpha")
    unit = np.ones(sums.X.shape[1])
    if settings.get("standardize"):
        with localcontext(PRECISION):
            squares = [sums.centred_square(1 + j) / sums.products[0, 0] for j in range(len(unit))]
        unit = np.array([math.sqrt(max(0.0, float(square))) ** 2 or 1.0 for square in squares])
    return np.broadcast_to(alpha.ravel(), (targets,))[:, None] * unit


def _dropped_columns(out: Claims, names: list[str]) -> list[int]:
    """The columns that the certificate calls dropped: columns of the model, each named once."""
    dropped = list(out.proof.dropped)
    unknown = [name for name in dropped if name not in names]
    if unknown or len(set(dropped)) < len(dropped):
        name = unknown[0] if unknown else "a column"
        fault = "is no column of the model" if unknown else "stands there twice"
        raise ModelError(f"the certificate calls {name!r} dropped, which {fault}", where="dropped")
    out.holds("dropped", len(dropped), True, "names of columns of the model")
    return [names.index(name) for name in dropped]


def _check_rank(out: Claims, sums: Sums, lines: list[Line], dropped: list[int], bounded: bool) -> None:
    ranks = [len(line.columns) for line in lines]
    most = sums.X.shape[1] if bounded else min(ranks)  # a coefficient that may not be negative counts at 0 or not
    rank = out.proof.rank
    out.holds("rank", min(ranks), isinstance(rank, int) and min(ranks) <= rank <= most)
    out.assumption("columns are linearly independent", not dropped)


def _check_fitted_values(
    out: Claims, record: Any, sums: Sums, lines: list[Line], solutions: list[Solution], ridges: Rows
) -> bool:
    """The model's fitted values are those of the solution, but for the rounding of its coefficients."""
    measured = [_fitted(record, sums, line, solution, ridges) for line, solution in zip(lines, solutions, strict=True)]
    worst = max(measured, key=lambda one: one.found - one.room)
    note = "distance from the best ones; claimed is what rounding allows"
    out.of_model("fitted values", worst.room, worst.found, worst.within, note)
    return worst.within


def _fitted(record: Any, sums: Sums, line: Line, solution: Solution, ridges: Rows) -> Measured:
    """√((β − β*)ᵀ M (β − β*)) over all columns, dropped ones too.

    Coefficients rounded to float64 move predictions by 2⁻⁵³ Σ |β_j|·‖x_j‖; orthogonal factorisations lose a small
    multiple of that and of the target's length; and a fit that sums products more cheaply stays within a small part of
    the coefficients' standard errors, which is a part of the residual.
    """
    rows = [*range(sums.target)]
    own = np.r_[line.coefficients[0] if sums.constants else 0.0, np.atleast_2d(record.coef)[line.place]].astype(float)
    best = np.zeros(len(rows))
    best[solution.rows] = solution.best.astype(float)
    apart = decimals(own)
    apart[solution.rows] = apart[solution.rows] - solution.best
    matrix = sums.products[np.ix_(rows, rows)] + np.diag(decimals(np.r_[0.0, ridges[line.place]]))
    reach = sums.length(sums.target + line.place) + float(
        sums.raw_lengths(rows) @ np.maximum(np.abs(own), np.abs(best))
    )
    room = 16.0 * (len(rows) + 1) * UNIT * reach + FITTED * math.sqrt(solution.residual_squares)
    return Measured(root(apart @ (matrix @ apart)), room)


def _check_digits(out: Claims, sums: Sums, lines: list[Line], solutions: list[Solution], fitted: bool | None) -> float:
    """Digits that hold of every coefficient, and those that the data allow; the fewer of both are returned.

    Where columns were dropped the coefficients are not unique: ``fitted`` says whether the fitted values hold instead.
    """
    pairs = list(zip(lines, solutions, strict=True))
    digits = min(_digits(sums, line, solution) for line, solution in pairs)
    if fitted is not None:
        digits = 16.0 if fitted else 0.0
    out.at_most("arithmetic_digits", digits, 0.0, "beside the solution in 120 digits")
    allowed = min(_data_digits(sums, line, solution) for line, solution in pairs)
    room = 0.5 if fitted is None else 16.0
    out.at_most("data_digits", allowed, room, "entries known to half a unit in their last place")
    return min(digits, allowed)


def _digits(sums: Sums, line: Line, solution: Solution) -> float:
    """Correct digits of the worst coefficient; one that is 0 by the structure of the data has none to lose."""
    errors = np.abs((decimals(line.coefficients) - solution.best).astype(float))
    errors = np.maximum(errors - _ridge_rounding(sums, line, solution), 0.0)
    values, own = np.abs(solution.best.astype(float)), np.abs(line.coefficients)
    lengths = sums.raw_lengths(solution.rows)
    target = float(sums.raw_lengths([sums.target + line.place])[0])
    sizes = target / np.where(lengths > 0.0, lengths, 1.0)
    share = np.divide(errors, values, out=np.where(errors > 0.0, np.inf, 0.0), where=values > 0.0)
    counted = np.maximum(values, own) > UNSEEN * sizes
    return max(0.0, -math.log10(max(float(np.max(share[counted], initial=0.0)), UNIT)))


def _ridge_rounding(sums: Sums, line: Line, solution: Solution) -> Rows:
    """What the rounding of the ridge itself, a product of a penalty and a variance, may move each coefficient by."""
    own = np.abs(solution.inverse) @ (4.0 * UNIT * line.ridge * np.abs(solution.best[sums.constants :].astype(float)))
    if not sums.constants:
        return own
    centre = np.abs((sums.products[0, solution.rows[1:]] / sums.products[0, 0]).astype(float))
    return np.r_[centre @ own, own]


def _data_digits(sums: Sums, line: Line, solution: Solution) -> float:
    """Digits that stay if every entry that is not a whole number may be off by half a unit in its last place.

    With h² = 2⁻¹⁰⁶ Σ w z² of each column, β_j moves by about √(V_jj (h_y² + Σ h_k²β_k²)/n) + √(Σ V_ji² h_i²·RSS/n), V the
    inverse. A coefficient that this can make 0, and that moves no prediction by as much, has no digit to lose.
    """
    first, n, V = sums.constants, len(sums.X), solution.inverse
    best = solution.best.astype(float)
    whole = sums.whole[[*line.columns, sums.target - 1 + line.place]]
    raw = sums.raw_lengths([*solution.rows[first:], sums.target + line.place])
    part = np.where(whole, 0.0, (UNIT * raw) ** 2)
    lever = np.vstack([solution.constant[None, 1:], V]) if first else V
    spread = np.maximum(np.r_[solution.constant[:first] + 1.0 / n, np.diag(V)], 0.0)
    moved = np.sqrt(spread * (part[-1] + part[:-1] @ best[first:] ** 2) / n)
    moved = moved + np.sqrt(lever**2 @ part[:-1] * solution.residual_squares / n)
    reach = np.r_[math.sqrt(sums.weights.sum()), raw[:-1]][1 - first :]
    gone = (np.abs(best) <= 4.1 * moved) & (moved * reach <= 8.2 * UNIT * raw[-1])
    counted = ~gone & (np.abs(best) * reach > 2.0**-200 * raw[-1])  # what is left of 0 in 120 digits is 0
    lost = moved[counted] / np.abs(best[counted]) + UNIT
    return max(0.0, float(np.min(-np.log10(lost), initial=16.0)))


def _check_condition(out: Claims, sums: Sums, solutions: list[Solution]) -> None:
    """The worst condition number; float64 tells its inverse, σ_min/σ_max, to a few units in the last place of 1."""
    condition, claimed = max(solution.condition for solution in solutions), out.proof.condition_number
    units = 8.0 * (sums.X.shape[1] + 8) * UNIT
    room = units + (1e-6 + min(1e-4, units * condition**2)) / condition  # from products the square of it is told
    near = is_finite(claimed) and claimed >= 1.0 and abs(1.0 / claimed - 1.0 / condition) <= room
    out.holds("condition_number", condition, near, "of columns of length 1")


def _check_angle(
    out: Claims, record: Any, sums: Sums, lines: list[Line], solutions: list[Solution], ridges: Rows, dropped: list[int]
) -> None:
    """‖Xᵀr‖/(‖X‖‖r‖): how nearly the residual is orthogonal to the columns."""
    pairs = zip(lines, solutions, strict=True)
    measured = [_angle(record, sums, line, ridges, dropped, found.residual_squares) for line, found in pairs]
    worst = max(one.found for one in measured)
    out.equals("orthogonality", worst, 0.01 * worst + max(one.room for one in measured))


def _angle(record: Any, sums: Sums, line: Line, ridges: Rows, dropped: list[int], squares: float) -> Measured:
    """The angle beside the constant that belongs to the coefficients, and what their rounding makes of it."""
    first, columns = sums.constants, sorted([*line.columns, *dropped])
    rows, place = sums.rows(columns), sums.target + line.place
    own = decimals(np.atleast_2d(np.asarray(record.coef, dtype=float))[line.place][columns])
    left = sums.products[rows, place]
    if columns:
        left = left - sums.products[np.ix_(rows, rows[first:])] @ own
    if first:
        left = left[1:] - sums.products[rows[1:], 0] * left[0] / sums.products[0, 0]
    drift = float(np.linalg.norm((left - decimals(ridges[line.place][columns]) * own).astype(float)))
    lengths = np.array([sums.length(row) for row in rows[first:]])
    size = float(np.linalg.norm(lengths)) * math.sqrt(squares)
    reach = sums.length(place) + float(lengths @ np.abs(own.astype(float)))
    if size == 0.0 or math.sqrt(squares) <= 8.0 * len(rows) * UNIT * reach:
        return Measured(0.0, 1.0)  # no columns, or a residual of rounding, which has no angle
    noise = noise_of(record, sums)
    own_noise = noise[columns] * (noise[sums.X.shape[1] + line.place] + noise[columns] @ np.abs(own.astype(float)))
    room = 16.0 * UNIT * reach / math.sqrt(squares) + 8.0 * float(np.linalg.norm(own_noise)) / size
    return Measured(drift / size, room)


def _check_signs(out: Claims, sums: Sums, lines: list[Line], solutions: list[Solution]) -> bool:
    """No coefficient is negative, and none at 0 would lower the squares by growing."""
    pulls = [_pull(sums, line, solution) for line, solution in zip(lines, solutions, strict=True)]
    worst = max(pulls, key=lambda one: one.found - one.room)
    within = all(pull.found <= max(pull.room, _harmless(sums, line)) for pull, line in zip(pulls, lines, strict=True))
    negative = any((line.coefficients[sums.constants :] < 0.0).any() for line in lines)
    out.append(Check("no coefficient is negative", None, None, not negative))
    held = any(item.held for item in out.proof.assumptions if item.name.startswith(KEPT_AT_ZERO))
    out.assumption(KEPT_AT_ZERO, held and within, worst.found if held else None, 2.0 * worst.room)
    return within and not negative


def _harmless(sums: Sums, line: Line) -> float:
    """A cosine that cannot lower the squares by a provable share, with weights of up to twice the stated scores.

    On a column that nearly repeats another a residual pulls, however little it would gain.
    """
    spread, lengths = sums.length(sums.target + line.place), [sums.length(row) for row in sums.rows(line.columns)]
    reach = float(np.abs(line.coefficients.astype(float))[sums.constants :] @ np.array(lengths)[sums.constants :])
    return 0.5 * PROVEN_GAP * FLOOR * spread / (2.0 * (spread + reach)) if spread else 0.0


def _pull(sums: Sums, line: Line, solution: Solution) -> Measured:
    """The largest cosine of the residual and a column left out, relative to the target's spread."""
    place, largest = sums.target + line.place, 0.0
    spread = sums.length(place)
    for row in set(range(1, sums.target)) - set(solution.rows):
        length = sums.length(row)
        if length and spread:
            slope = sums.products[row, place]
            if solution.rows:
                slope = slope - sums.products[row, solution.rows] @ solution.best
            largest = max(largest, float(slope) / (length * spread))
    return Measured(largest, 64.0 * (sums.X.shape[1] + 8) * UNIT)


def _check_status(out: Claims, proven: bool, dropped: bool) -> None:
    """Proven only if it is, and degenerate just where columns were dropped."""
    few = min(out.proof.arithmetic_digits, out.proof.data_digits) < LEAST_DIGITS
    same_status(out, Status.DEGENERATE if dropped else Status.PROVEN if proven and not few else Status.NOT_PROVEN)
