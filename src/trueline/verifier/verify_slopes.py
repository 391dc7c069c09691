"""What solvers state beside a gap: the gradient's norm, Newton's decrement, and the largest constant step.

They are measured in the columns that the solver worked on: of length 1 (the ridge's curvature counted in), centred or,
where the rows are sparse, as they are; or not scaled at all. A number that is not stated is not checked.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from .dual_point import EPS, LARGEST_MATRIX
from .minimised_problem import Problem
from .stated_claims import Claims, Rows, is_finite
from .verify_losses import Softmax

SAMPLED = 65_536  # rows beyond which solvers take the columns' lengths from a sample


@dataclasses.dataclass(frozen=True)
class Units:
    """The solver's columns: (length·column + shift)/unit, of the problem's scaled columns."""

    shift: Rows
    unit: Rows


def check_slopes(out: Claims, problem: Problem, scores: Rows) -> None:
    """Each of the three that is stated."""
    fields = ("gradient_norm", "newton_decrement", "largest_step")
    stated = [name for name in fields if getattr(out.proof, name) is not None]
    out.covered.update(name for name in fields if name not in stated)
    ways = _units(problem)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = problem.loss.slope(scores)
        pull = problem.columns.T @ (problem.c * slope.T).T.reshape(len(slope), -1)
        if "gradient_norm" in stated:
            found = [gradient_norm(problem, units, scores, slope, pull) for units in ways]
            _nearest(out, "gradient_norm", found)
        if "newton_decrement" in stated:
            _nearest(out, "newton_decrement", [newton_decrement(problem, scores, slope, pull)])
        if "largest_step" in stated:
            _nearest(out, "largest_step", [largest_step(problem, units) for units in ways])


def _nearest(out: Claims, name: str, found: list[tuple[float, float]]) -> None:
    """The claim against the nearest of what was found, each with its room."""
    claimed = getattr(out.proof, name)
    if not is_finite(claimed) or claimed < 0.0:
        return out.holds(name, found[0][0], False)
    value, room = min(found, key=lambda one: abs(claimed - one[0]) - one[1])
    if not room <= 0.1 * abs(value):
        out.unsure.add(name)
    return out.equals(name, value, room)


def _units(problem: Problem) -> list[Units]:
    first, none = int(problem.constant), np.zeros(len(problem.length))
    if not problem.standardise:
        return [Units(problem.shift, np.ones(len(problem.length)))]
    curve = problem.loss.most_curved if math.isfinite(problem.loss.most_curved) else 1.0
    curve = 0.25 if isinstance(problem.loss, Softmax) else curve
    squares, alone = problem.length**2, problem.still.copy()
    for group in problem.groups:  # which have one length
        alone[group.columns] = False
    squares[alone] = 0.0
    ridge = problem.l2 * problem.length**2 / curve
    ridge[:first] = 0.0
    ways = []
    for shift in [none, problem.shift] if problem.shift.any() else [none]:
        unit = np.sqrt(squares + shift**2 + ridge)
        unit[unit == 0.0], unit[:first] = 1.0, 1.0
        ways.append(Units(shift, unit))
    return ways


def gradient_norm(problem: Problem, units: Units, scores: Rows, slope: Rows, pull: Rows) -> tuple[float, float]:
    """(the norm of the smallest subgradient, what rounding leaves open)."""
    ratio = (problem.length / units.unit)[:, None]
    constant = pull[:1] if problem.constant else np.zeros_like(pull[:1])
    g = ratio * pull + (units.shift / units.unit)[:, None] * constant
    weights = problem.stated / ratio
    l1, l2 = problem.l1[:, None] * ratio, problem.l2[:, None] * ratio**2
    lower, upper = problem.lower[:, None] / ratio, problem.upper[:, None] / ratio
    total = g + l2 * weights
    corner = np.sign(total) * np.maximum(np.abs(total) - l1, 0.0)
    total = np.where(weights == 0.0, corner, total + l1 * np.sign(weights))
    total = np.where(weights <= lower, np.minimum(total, 0.0), total)
    total = np.where(weights >= upper, np.maximum(total, 0.0), total)
    for group in problem.groups:
        strength = group.strength * float(ratio[group.columns[0], 0])
        w, own = weights[group.columns], g[group.columns]
        norm, size = float(np.linalg.norm(w)), float(np.linalg.norm(own))
        if norm > 0.0:
            total[group.columns] = own + strength * w / norm
        else:
            total[group.columns] = own * (max(0.0, 1.0 - strength / size) if size > 0.0 else 0.0)
    steep = float(np.linalg.norm(total))
    return steep, _gradient_room(problem, units, scores, slope) + (1e-9 if len(scores) <= SAMPLED else 0.5) * steep


def _gradient_room(problem: Problem, units: Units, scores: Rows, slope: Rows) -> float:
    """The rounding of sums over columns as they came, and of the slopes by that of the scores."""
    n, c = len(scores), problem.c
    wide = float(np.linalg.norm(np.hypot(problem.length, problem.shift) / units.unit)) * math.sqrt(slope.size / n)
    size = math.sqrt(float(c @ (slope * slope).reshape(n, -1).sum(axis=1)))
    if problem.loss.kinked:  # on a corner any slope of its range may be meant
        sharp: Any = problem.loss
        near = np.abs(sharp.beyond(scores)) <= 8.0 * EPS * (problem.raw_size + np.abs(scores) + np.abs(sharp.y))
        size = size * EPS + float(np.sqrt(c @ (near * (sharp.high - sharp.low)) ** 2))
        return 2.0 * wide * size
    curve = 0.25 if isinstance(problem.loss, Softmax) else problem.loss.curvature(scores)
    bent = math.sqrt(float(c @ (np.broadcast_to(curve, n) ** 2)))
    return EPS * (16.0 + math.sqrt(n)) * wide * (size + bent * problem.raw_size)


def newton_decrement(problem: Problem, scores: Rows, slope: Rows, pull: Rows) -> tuple[float, float]:
    """(√(gᵀH⁻¹g), what rounding leaves open): an error e of g counts ‖e‖/√λ at most in a direction that curves by λ.

    A matrix of products tells curvatures to a few units in the last place of the largest, δ: whoever solves with it has
    a share δ/λ of each direction's part open. Where λ is no more than 2δ nothing is told, but for a constant on all
    classes, along which nothing changes.
    """
    g = (pull + problem.l2[:, None] * problem.stated + problem.l1[:, None] * np.sign(problem.stated)).ravel()
    found = _principal_curvatures(problem, scores)
    if found is None:
        return math.nan, math.inf
    values, vectors = found
    blurred = 4.0 * EPS * len(values) * float(values.max(initial=0.0))
    along, told = np.abs(vectors.T @ g), values > 2.0 * blurred
    parts = along[told] ** 2 / values[told]
    whole = math.sqrt(float(parts.sum()))
    units = Units(np.zeros(len(problem.length)), problem.length)
    noise = 4.0 * _gradient_room(problem, units, scores, slope)
    if not told.all() and (problem.stated.shape[1] == 1 or (along[~told] > noise).any()):
        return whole, math.inf
    noise = noise / math.sqrt(float(values[told].min(initial=math.inf)))
    open_ = float((parts * 2.0 * blurred / values[told]).sum()) / whole if whole > 0.0 else 0.0
    return whole, open_ + 1e-4 * whole + noise


def _principal_curvatures(problem: Problem, scores: Rows) -> tuple[Rows, Rows] | None:
    """Eigenvalues and eigenvectors of the Hessian: of one score a row by the rows themselves, whose products round."""
    if problem.stated.size > LARGEST_MATRIX:
        return None
    if problem.stated.shape[1] > 1:
        values, vectors = np.linalg.eigh(_hessian(problem, scores))
        return values, vectors
    root = np.sqrt(problem.c * problem.loss.curvature(scores))
    stacked = np.vstack([root[:, None] * problem.columns, np.diag(np.sqrt(problem.l2))])
    _, lengths, turned = np.linalg.svd(np.linalg.qr(stacked, mode="r"))
    return lengths**2, turned.T


def _hessian(problem: Problem, scores: Rows) -> Rows:
    """Of the loss of several classes, and of the ridge."""
    columns, c, many = problem.columns, problem.c, problem.stated.shape[1]
    p = problem.loss.probabilities(scores)  # type: ignore[attr-defined]
    curve = c[:, None, None] * p[:, :, None] * (np.eye(many) - p[:, None, :])
    H = np.einsum("iu,iab,iv->uavb", columns, curve, columns, optimize=True)
    H = np.asarray(H).reshape(problem.stated.size, problem.stated.size)
    H[np.diag_indices(len(H))] += np.repeat(problem.l2, many)
    return H


def largest_step(problem: Problem, units: Units) -> tuple[float, float]:
    """(2/λ of the most that the objective curves, room): constant steps below it converge."""
    columns = problem.columns * (problem.length / units.unit)
    if problem.constant:
        columns = columns + units.shift / units.unit
    ridge = problem.l2 * (problem.length / units.unit) ** 2
    top = _largest_eigenvalue(columns * np.sqrt(problem.c)[:, None], problem.loss.most_curved, ridge)
    step = 2.0 / top if top > 0.0 else math.inf
    return step, step * (1e-4 if len(columns) <= SAMPLED else 0.05)


def _largest_eigenvalue(A: Rows, curve: float, ridge: Rows) -> float:
    if A.shape[1] <= LARGEST_MATRIX:
        return float(np.linalg.eigvalsh(curve * A.T @ A + np.diag(ridge))[-1])
    v, value = np.ones(A.shape[1]) + 0.1 * np.sin(np.arange(A.shape[1])), 0.0
    for _ in range(300):
        v = v / np.linalg.norm(v)
        image = curve * (A.T @ (A @ v)) + ridge * v
        value, v = float(v @ image), image
    return value
