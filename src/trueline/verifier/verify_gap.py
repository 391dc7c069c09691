"""Minimised objectives: the objective of the stated weights anew, and how far they can be from the optimum.

The problem is read from the model (``minimised_problem``) and shown; the bound is found here (``dual_point``), and what
it is divided by comes from the rows. Of the certificate nothing is used but the numbers that are compared.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ..certificates.certificate import Status
from ..certificates.optimality import PROVEN_GAP, gap_status, relative_gap, yardstick
from .dual_point import EPS, Found, find_dual_point
from .minimised_problem import Problem, read_problems
from .stated_claims import Check, Claims, Given, Rows, is_finite
from .verify_losses import Softmax, Squared
from .verify_slopes import check_slopes


@dataclasses.dataclass(frozen=True)
class Measured:
    """A problem with what its rows say of the stated weights."""

    problem: Problem
    scores: Rows
    excess: float  # the objective less the least loss that the targets allow
    saturated: float
    null: float  # the least loss of a constant, or of scores of 0 where no column is constant; less ``saturated``
    other_null: tuple[float, ...]  # that of scores of 0, where only a combination of columns may be the constant
    found: Found
    room: float  # the rounding of an objective, by whoever computes it from the columns as they came

    @property
    def primal(self) -> float:
        return self.excess + self.saturated

    @property
    def scale(self) -> float:
        return yardstick(self.excess, self.null, 0.0)

    @property
    def relative(self) -> float:
        """The relative gap that is proven here, rounding included."""
        return relative_gap(self.found.gap + self.found.rounding, self.excess, self.null, 0.0)


def check_objective(out: Claims, given: Given) -> None:
    """Every number of a gap certificate, of the problem whose objective it states; the status rests on all problems."""
    problems = read_problems(out, given)
    bounded = [p for p in problems if np.isfinite(p.lower).any() or np.isfinite(p.upper).any()]
    if bounded:
        inside = all(p.within_bounds() for p in bounded)
        out.append(Check("bounds", "hold", "hold" if inside else "broken", inside, "of the weights"))
        if not inside:  # no objective belongs to weights that are not allowed
            return _refuse_numbers(out)
    every = [measure(p) for p in problems]
    if not all(math.isfinite(m.excess) for m in every):
        out.append(Check("objective", None, math.inf, False, "is not finite at the stated weights"))
        return _refuse_numbers(out)
    stated = out.proof.primal if is_finite(out.proof.primal) else math.inf
    shown = min(every, key=lambda m: abs(m.primal - stated))
    _check_values(out, shown)
    _check_status(out, every)
    check_slopes(out, shown.problem, shown.scores)
    return None


def measure(problem: Problem) -> Measured:
    """Objective, yardstick and bound of the stated weights."""
    c, loss = problem.c, problem.loss
    with np.errstate(over="ignore", invalid="ignore"):
        scores = problem.scores(problem.stated)
        rows = loss.excess(scores)
        penalty = problem.penalty(problem.stated)
        excess, saturated = float(c @ rows) + penalty, float(c @ loss.least)
        nulls = [float(c @ loss.excess(np.zeros_like(scores)))]
        if problem.spans_constant:
            nulls = [loss.best_constant(c)] if problem.constant else [loss.best_constant(c), *nulls]
        null, others = nulls[0], tuple(nulls[1:])
        if not math.isfinite(excess):
            return Measured(
                problem, scores, math.inf, saturated, null, others, Found(math.inf, 0.0, math.inf), math.inf
            )
        found = find_dual_point(problem, scores, excess, yardstick(excess, null, 0.0))
        steepness = loss.steepness(scores)
    steep = math.sqrt(float(c @ (steepness * steepness).reshape(len(c), -1).sum(axis=1)))
    sizes = float(c @ (rows + np.abs(loss.least))) + penalty + steep * problem.raw_size
    if isinstance(loss, Squared):  # may come from sums of squares and products of targets and columns
        sizes += 0.5 * float(c @ loss.y**2) + 0.5 * float(np.abs(problem.stated).sum()) ** 2
    if isinstance(loss, Softmax):  # logarithms of sums of about 1
        sizes += 1.0
    return Measured(problem, scores, excess, saturated, null, others, found, rounding_factor(len(c)) * sizes)


def rounding_factor(n: int) -> float:
    """Of a sum of n terms, as a part of the sum of their sizes; errors of a running sum add up like a random walk."""
    return EPS * (16.0 + math.sqrt(n))


def _refuse_numbers(out: Claims) -> None:
    for name in out.proof.checked:
        if name not in ("status", "assumptions"):
            out.covered.add(name)
    out.holds("status", "not_proven", not out.proof.proven)


def _check_values(out: Claims, m: Measured) -> None:
    proof, room = out.proof, m.room
    out.equals("primal", m.primal, room)
    own = m.primal - m.found.gap - m.found.rounding
    reached = m.found.reached + m.saturated
    none = proof.dual == -math.inf and not proof.proven  # no bound is claimed
    # A thousandth of what a proof allows is not resolved: an objective that falls towards 0 has no digits below that.
    below = is_finite(proof.dual) and proof.dual <= reached + room + 1e-3 * PROVEN_GAP * m.scale
    out.holds("dual", own, none or below, f"no lower bound is above {reached:.12g}, which is reached")
    if not (is_finite(proof.primal) and is_finite(proof.dual)):
        out.holds("gap", math.inf, none and proof.gap == math.inf)
        out.holds("relative_gap", math.inf, none and proof.relative_gap == math.inf)
        return
    difference = proof.primal - proof.dual
    own_room = 4.0 * EPS * (abs(proof.primal) + abs(proof.dual))
    # A lower bound that rounding alone has put above the objective leaves a gap of 0.
    clipped = difference < 0.0 and -difference <= 2.0 * room and proof.gap == 0.0
    out.holds("gap", difference, clipped or (is_finite(proof.gap) and abs(proof.gap - difference) <= own_room))
    shares = []
    for null in (m.null, *m.other_null):
        share, scale = relative_gap(difference, m.excess, null, 0.0), yardstick(m.excess, null, 0.0)
        shares.append((share, 1e-6 * share + (own_room + (share + 2.0 * EPS) * room) / scale if scale > 0.0 else 0.0))
    stated = proof.relative_gap if is_finite(proof.relative_gap) else math.inf
    out.equals("relative_gap", *min(shares, key=lambda one: abs(stated - one[0]) - one[1]))


def _check_status(out: Claims, every: list[Measured]) -> None:
    """Proven is what the bound found here proves, of every problem; less may always be said."""
    proof, worst = out.proof, max(m.relative for m in every)
    proven = gap_status(0.0, worst, PROVEN_GAP) is Status.PROVEN
    if proof.status is Status.PROVEN:
        held = proven and is_finite(proof.gap) and is_finite(proof.relative_gap)
        held = held and gap_status(proof.gap, proof.relative_gap, PROVEN_GAP) is Status.PROVEN
    elif proof.status is Status.DEGENERATE:
        held = any(_may_diverge(m) for m in every)
    else:
        held = proof.status in (Status.NOT_PROVEN, Status.INTERRUPTED)
    note = f"relative gap {worst:.2g} found here, {PROVEN_GAP:g} allowed"
    out.holds("status", "proven" if proven else "not_proven", held, note)


def _may_diverge(m: Measured) -> bool:
    """Whether the objective may have no minimum: weights that nothing holds, of a loss that falls without end.

    Where a penalty or two bounds hold every weight but the constant's, the objective falls without end only along the
    constant. A loss with |V‴| ≤ V″ has one where √(gᵀH⁻¹g) times the longest row, in units of H, is below a half (Bach 2010,
    Self-concordant analysis for logistic regression, proposition 2).
    """
    problem = m.problem
    if problem.loss.of_residual or not problem.free.any():
        return False
    if problem.constant and not problem.unheld[1:].any():
        return not problem.loss.has_best_constant()
    if not problem.loss.self_bounded or problem.stated.shape[1] > 1:
        return True
    slope = problem.loss.slope(m.scores)
    gradient = problem.columns.T @ (problem.c * slope) + problem.l2 * problem.stated[:, 0]
    root = np.sqrt(problem.c * problem.loss.curvature(m.scores))
    stacked = np.vstack([root[:, None] * problem.columns, np.diag(np.sqrt(problem.l2))])
    _, lengths, turned = np.linalg.svd(np.linalg.qr(stacked, mode="r"))
    if problem.l1.any() or not lengths[-1] > EPS * len(stacked) * lengths[0]:
        return True
    rows = float(np.linalg.norm((problem.columns @ turned.T) / lengths, axis=1).max())
    return not float(np.linalg.norm((turned @ gradient) / lengths)) * rows < 0.5
