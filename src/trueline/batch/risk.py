"""The empirical risk E(θ) = Σ c_i V(y_i, s_i) + Ω(θ), Σ c_i = 1, and the one driver that runs every method on it.

A method is a generator: it yields points and never decides when to stop. The driver measures each point,
certifies it by a dual point, writes the trace, applies the stop rule, and on Ctrl-C keeps the last certified
point. Dual values bound the optimum whatever point they came from, so the best one seen is kept.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import dense, threads
from ..certificates.certificate import Status
from ..certificates.optimality import GapCertificate, gap_certificate, relative_gap
from ..doubled import UNIT
from ..errors import UsageError, nearest
from ..objective.loss_interface import derivatives
from ..objective.user_loss import assumption_of
from ..onepass.lasso_gap import summing_error
from .design import Design, row_chunks, standardised_block
from .duality import Dual, column_widths, dual_value, mean_square, reach_of, solve_or_leave
from .reference import Reference, reference
from .scaled import ScaledPenalty

LONG = 20_000  # rows from which one fused reading beats separate products
BLOCK_ENTRIES = 100_000
SEEN = 1e-12  # of an objective: changes that a certificate states
LONGEST = 50  # iterations after which a dual point is formed whatever the gradient says: Ctrl-C keeps the last one


@dataclasses.dataclass
class Point:
    """Parameters with what one reading of the scores gives: mean loss, c·V' and c·V'' of every row."""

    theta: np.ndarray
    scores: np.ndarray
    loss: float
    slope: np.ndarray
    curvature: np.ndarray
    penalty: float
    dual: np.ndarray | None = None  # a method's own dual variables, where it has better ones than the slopes
    gradient: np.ndarray | None = None
    stationarity: np.ndarray | None = None  # the smallest subgradient of loss and penalty, and its norm
    norm: float = math.nan
    hessian: np.ndarray | None = None
    direction: np.ndarray | None = None  # −H⁻¹∇E by the Hessian of this point
    decrement: float | None = None  # √(gᵀH⁻¹g) by the Hessian of this point
    singular: bool = False  # whether that Hessian leaves directions out
    finished: bool = False  # a further step would change nothing but rounding
    z: np.ndarray | None = None  # −X̃ᵀ(c∘a) of the dual point found here, and the gap it leaves: for screening
    gap: float = math.inf
    dual_z: np.ndarray | None = None  # −X̃ᵀ(c∘a) of ``dual``, where it is known without a pass
    passing: bool = False  # a point on the way, not worth a dual point of its own

    @property
    def objective(self) -> float:
        return self.loss + self.penalty


@dataclasses.dataclass
class Risk:
    """One problem: design, targets, weights that sum to 1, loss, penalty and offset."""

    design: Design
    y: np.ndarray
    c: np.ndarray
    loss: Any
    penalty: ScaledPenalty
    offset: np.ndarray | None = None
    _largest: float | None = None
    _reference: Reference | None = None

    @property
    def size(self) -> int:
        return self.design.size

    @property
    def has_curvature(self) -> bool:
        return bool(self.loss.has("curvature"))

    def point(self, theta: np.ndarray, scores: np.ndarray | None = None) -> Point:
        """The point of these parameters; ``scores`` saves a pass where they are known."""
        if scores is None:
            scores = self.design.scores(theta)
            if self.offset is not None:
                scores += self.offset
        slope, curvature = np.empty_like(scores), np.empty_like(scores) if self.has_curvature else np.zeros(0)
        with np.errstate(over="ignore", invalid="ignore"):
            parts = threads.spread(
                lambda rows: derivatives(self.loss, scores, self.y, self.c, slope, curvature, *rows),
                row_chunks(len(scores)),
            )
        total = float(sum(parts))
        return Point(theta, scores, total if total == total else math.inf, slope, curvature, self.penalty.value(theta))

    def sweep(self, theta: np.ndarray, *, hessian: bool) -> Point:
        """The point with its gradient, and its Hessian if asked for, in one reading of X where X is dense and long.

        Each thread takes a share of the rows and does everything for a block while it is in its cache.
        """
        design = self.design
        if type(self) is not Risk or design.sparse or not self.has_curvature or design.n < LONG:
            point = self.point(theta)
            self.gradient(point)
            if hessian:
                self.hessian(point)
            return point
        design.passes += 1.0
        coef, constant = design.own_units(theta)
        far, shift = design.far, design.shift
        if far:
            constant, shift = float(theta[design.d]), np.zeros(design.d)
        scores, slope, curvature = np.empty(design.n), np.empty(design.n), np.empty(design.n)

        def share(rows: tuple[int, int]) -> tuple[float, np.ndarray, np.ndarray]:
            value, g, H = 0.0, np.zeros(design.d), np.zeros((design.size, design.size) if hessian else (0, 0))
            step = max(256, BLOCK_ENTRIES // design.size)
            block = np.empty((step, design.size))
            for start in range(rows[0], rows[1], step):
                stop = min(rows[1], start + step)
                part, some = design.X[start:stop], slice(start, stop)
                # A view, where it already is as wanted.
                part = part - design.shift if far else np.ascontiguousarray(part, dtype=np.float64)
                np.add(part @ coef, constant, out=scores[some])
                if self.offset is not None:
                    scores[some] += self.offset[some]
                value += derivatives(self.loss, scores, self.y, self.c, slope, curvature, start, stop)
                g += slope[some] @ part
                if hessian:
                    own = block[: stop - start]
                    standardised_block(part, 0, stop - start, shift, np.sqrt(curvature[some]), own)
                    H += own.T @ own
            return value, g, H

        with np.errstate(over="ignore", invalid="ignore"), threads.one_blas_thread():
            shares = threads.spread(share, row_chunks(design.n))
        total, sum_of_slopes = float(sum(one[0] for one in shares)), float(slope.sum())
        point = Point(theta, scores, total if total == total else math.inf, slope, curvature, self.penalty.value(theta))
        point.gradient = design.standardised_gradient(sum(one[1] for one in shares), sum_of_slopes, shift)
        if hessian:
            point.hessian = design.unscaled(sum(one[2] for one in shares))
            point.hessian[np.diag_indices(self.size)] += self.penalty.l2
        return point

    def image(self, direction: np.ndarray) -> np.ndarray:
        """How the scores change along a direction."""
        return self.design.scores(direction)

    def gradient(self, point: Point) -> np.ndarray:
        """The gradient of the mean loss, without the penalty."""
        if point.gradient is None:
            point.gradient = self.design.correlations(point.slope)
        return point.gradient

    def stationarity(self, point: Point) -> np.ndarray:
        """The smallest subgradient of loss and penalty."""
        if point.stationarity is None:
            point.stationarity = self.penalty.stationarity(point.theta, self.gradient(point))
        return point.stationarity

    def norm(self, point: Point) -> float:
        """The norm of that subgradient."""
        if math.isnan(point.norm):
            point.norm = length(self.stationarity(point))
        return point.norm

    def hessian(self, point: Point) -> np.ndarray:
        """The Hessian of the mean loss plus the L2 part of the penalty."""
        if point.hessian is None:
            point.hessian = self.loss_hessian(point)
            point.hessian[np.diag_indices(self.size)] += self.penalty.l2
        return point.hessian

    def loss_hessian(self, point: Point) -> np.ndarray:
        """The Hessian of the mean loss alone."""
        return self.design.hessian(point.curvature)

    def hessian_times(self, point: Point, v: np.ndarray) -> np.ndarray:
        """The same Hessian times a vector, for sizes at which the matrix itself is too large."""
        return self.design.correlations(point.curvature * self.design.scores(v)) + self.penalty.l2 * v

    def newton_direction(self, point: Point) -> np.ndarray:
        """−H⁻¹∇E by this point's own Hessian, formed once; the point keeps its length in H, the Newton decrement."""
        if point.direction is None:
            g = self.gradient(point) + self.penalty.l2 * point.theta
            found, left_out = solve_or_leave(self.hessian(point), g)
            point.direction, point.singular = -found, left_out is not None and left_out.shape[1] > 0
            if self._balanced_along(point, g, left_out):
                point.decrement = math.sqrt(max(0.0, -float(g @ point.direction)))
        return point.direction

    def _balanced_along(self, point: Point, g: np.ndarray, left_out: np.ndarray | None) -> bool:
        """Whether the gradient is no more than rounding along what was left out of a step.

        Otherwise the decrement is not known: a small slope may count much where little curves.
        """
        if left_out is None or not left_out.shape[1]:
            return True
        noise = summing_error(self.design.n) * math.sqrt(mean_square(point.slope, self.c))
        widths = np.tile(column_widths(self.design), len(g) // self.design.size)
        room = noise * widths + summing_error(len(g)) * self.penalty.l2 * np.abs(point.theta)
        return bool((np.abs(left_out.T @ g) <= 4.0 * (np.abs(left_out.T) @ room)).all())

    def preconditioner(self) -> Any:
        """A first inverse Hessian for quasi-Newton steps, where one is cheap; None otherwise."""
        return None

    @property
    def curvature_bound(self) -> float:
        """The most that the loss curves at any score; infinite where nothing bounds it."""
        return float(self.loss.curvature_bound())

    def lipschitz(self, point: Point | None = None) -> float:
        """λ_max of the Hessian of the mean loss: at any point (a bound), or at this point if there is no bound."""
        if math.isfinite(self.curvature_bound):
            if not self.penalty.l2.any() and (known := self.largest_curvature()) is not None:
                return known
            return self.curvature_bound * largest_eigenvalue(self.design, self.c)
        if point is None or not self.has_curvature:
            return math.inf
        return largest_eigenvalue(self.design, point.curvature)

    def largest_curvature(self) -> float | None:
        """λ_max of the Hessian of loss and L2 penalty together, a bound at any point; None where there is none.

        Gradient descent with a constant step converges when the step is below 2/λ_max; for squared loss, only then.
        """
        if self._largest is None and math.isfinite(self.curvature_bound):
            # Of several classes each has the same penalty, and the bound holds for each.
            l2 = self.penalty.l2[: self.design.size]
            self._largest = largest_eigenvalue(self.design, self.curvature_bound * self.c, l2)
        return self._largest

    def dual(self, point: Point) -> Dual:
        """The dual point that belongs to this point."""
        return dual_value(self, point)

    def gradient_in_units(self, point: Point) -> np.ndarray:
        """The smallest subgradient with respect to the coefficients and the intercept as the user reads them."""
        design, penalty, g = self.design, self.penalty, self.gradient(point)
        many = len(point.theta) // design.size
        scale = np.tile(np.append(design.scale, [1.0] * design.intercept), many)
        constant = g.reshape(many, -1)[:, -1:] if design.intercept else np.zeros((many, 1))
        shift = np.tile(np.append(design.shift, [0.0] * design.intercept), (many, 1))
        raw = scale * g + (shift * constant).ravel()
        return penalty.in_units(scale).stationarity(point.theta / scale, raw)

    def reference(self) -> Reference:
        """The objective of the best constant and the least loss that the targets allow: what gaps are measured by."""
        if self._reference is None:
            self._reference = reference(self)
        return self._reference

    def settled(self, point: Point) -> Point:
        """The same function without weights on columns that never vary, of which rounding may have left some.

        What such a column adds to every score is the intercept's, which no penalty holds.
        """
        design, penalty = self.design, self.penalty
        if not design.still.size or penalty.part is not None:
            return point
        theta = point.theta.reshape(-1, design.size)
        lower, upper = (bound.reshape(theta.shape)[:, design.still] for bound in (penalty.lower, penalty.upper))
        weights = np.clip(0.0, lower, upper)
        if (theta[:, design.still] == weights).all():
            return point
        found = self.point(design.without_still(theta, weights).ravel())
        found.gap, found.z = point.gap, point.z
        return found

    def as_returned(self, point: Point) -> Point:
        """The point of the parameters as the user gets them, where rounding beside a far level or shift may show.

        An intercept of 10⁹ is known to 10⁻⁷, and that is what predicts; the objective stated is that of its own.
        """
        design = self.design
        if not (design.level or design.far) or len(point.theta) != design.size:
            return point
        intercept = abs(design.split(point.theta)[1])
        # On a corner the slope says nothing of the loss beside it.
        steep = float(np.abs(point.slope).sum()) if getattr(self.loss, "smooth", True) else math.inf
        if UNIT * intercept * steep <= SEEN * point.objective:
            return point
        returned = self.point(design.join(*design.split(point.theta)))
        returned.decrement, returned.gap, returned.z = point.decrement, point.gap, point.z
        return returned

    def relative_gap(self, gap: float, objective: float) -> float:
        """The gap as a part of what there is to explain."""
        null, saturated, *_ = self.reference()
        return relative_gap(gap, objective, null, saturated)


def largest_eigenvalue(design: Design, h: np.ndarray, l2: np.ndarray | None = None) -> float:
    """λ_max of X̃ᵀ diag(h) X̃ + diag(l2): of the matrix itself while it is small, by Lanczos' method beyond."""
    if design.size <= 256 and not design.sparse:
        matrix = design.hessian(h)
        return float(dense.eigvalsh(matrix if l2 is None else matrix + np.diag(l2))[-1])
    from scipy.sparse.linalg import LinearOperator, eigsh

    size = design.size

    def times(v: np.ndarray) -> np.ndarray:
        v = np.ravel(v)
        image = design.correlations(h * design.scores(v))
        return image if l2 is None else image + l2 * v

    if size <= 2:
        return float(dense.eigvalsh(np.array([times(unit) for unit in np.eye(size)]))[-1])
    first = np.random.default_rng(0).normal(size=size)
    if not times(first).any():
        return 0.0
    operator = LinearOperator((size, size), matvec=times, dtype=np.float64)
    found = eigsh(operator, 1, which="LA", v0=first, tol=1e-6, return_eigenvectors=False)
    return float(found[-1]) * (1.0 + 1e-5)


def length(v: np.ndarray) -> float:
    """‖v‖ without BLAS, whose threads would be woken for microseconds of work."""
    return math.sqrt(float((v * v).sum()))


@dataclasses.dataclass(frozen=True)
class Step:
    """One line of the trace."""

    iteration: int
    objective: float
    gap: float
    gradient_norm: float | None  # at this iteration's point; None where the method did not form its gradient
    passes: float
    seconds: float


@dataclasses.dataclass
class Outcome:
    """What the driver returns: the best certified point, its certificate and the trace."""

    point: Point
    certificate: GapCertificate
    trace: list[Step]
    reason: str


STOPS = ("gap", "gradient", "decrease", "decrement")


def check_stop(stop: str) -> None:
    if stop not in STOPS:
        raise UsageError(f"there is no stop rule named {stop!r}{nearest(str(stop), STOPS)}", where="stop")


def run(
    risk: Risk,
    method: Iterator[Point],
    *,
    stop: str = "gap",
    tol: float = 1e-6,
    max_iter: int = 1000,
    every: int | None = 1,
    polish: int = 0,
    decrement: bool = False,
    callback: Any = None,
) -> Outcome:
    """Drive a method until its stop rule holds, it ends, its iterations run out, or Ctrl-C.

    ``every`` says how often a dual point is formed (it may cost a pass): after so many iterations, or, where it is None,
    when the gradient foretells that it meets the rule. The trace has every iteration. Up to ``polish``
    steps follow the one that met the rule: where steps converge faster than linearly, they give the digits. With ``decrement``
    the certificate states Newton's, by the Hessian of the point returned.
    """
    check_stop(stop)
    started, (null, saturated, least, _) = time.perf_counter(), risk.reference()
    trace: list[Step] = []
    best: Point | None = None
    best_dual, best_norm, last = Dual(least, None, 0.0), math.inf, math.inf
    certified = 0  # the iteration of the last dual point
    share = math.inf  # its gap over the squared norm of the gradient
    passes = risk.design.passes
    status, reason, iteration = None, "iterations", 0

    def certify(point: Point) -> None:
        nonlocal best, best_norm, best_dual, certified, share
        norm = risk.norm(point)
        dual = risk.dual(point)
        point.z, point.gap = dual.z, point.objective - dual.value
        certified, share = iteration, point.gap / norm**2 if norm > 0.0 else 0.0
        best_dual = max(best_dual, dual, key=lambda one: one.value)
        # Objectives within the rounding of their sums are the same: there the smaller gradient decides.
        same = 4e-16 * math.sqrt(risk.design.n) * abs(point.objective)
        if (
            best is None
            or point.objective < best.objective - same
            or (point.objective <= best.objective + same and (norm <= best_norm or point.finished))
        ):
            best, best_norm = point, norm

    def due(point: Point) -> bool:
        """Whether this point is to have a dual point. Near the optimum gaps fall as the square of the gradient does."""
        if best is None or iteration >= max_iter:
            return True
        if every is not None:
            return iteration % every == 0
        if reason == stop:
            return False  # of the steps that polish, only the last has one
        if iteration - certified >= LONGEST:
            return True
        foretold = share * risk.norm(point) ** 2
        return not math.isfinite(foretold) or risk.relative_gap(foretold, point.objective) <= tol

    def holds(point: Point, gap: float, decrease: float) -> bool:
        """Whether the stop rule is met at this point."""
        if stop == "gap":
            return risk.relative_gap(gap, point.objective) <= tol
        if stop == "gradient":
            return risk.norm(point) <= tol and length(risk.gradient_in_units(point)) <= tol
        if stop == "decrement":
            risk.newton_direction(point)
            return point.decrement is not None and point.decrement <= tol
        return decrease >= 0.0 and risk.relative_gap(decrease, point.objective) <= tol

    try:
        for point in method:
            if due(point) and not (point.passing and iteration < max_iter):
                certify(point)
            objective = point.objective
            gap = objective - best_dual.value
            seconds = time.perf_counter() - started
            norm = risk.norm(point) if stop == "gradient" or point.gradient is not None else None
            trace.append(Step(iteration, objective, gap, norm, risk.design.passes - passes, seconds))
            if callback is not None:
                callback(trace[-1])
            decrease, last = last - objective, objective
            if holds(point, gap, decrease):
                ends = stop != "gap" or polish == 0 or iteration >= max_iter or point.finished
                if best is not point and (ends or every == 1):  # where a dual point is dear, only the last has one
                    certify(point)
                if stop != "gap":  # the point returned is the one at which the rule holds
                    best, best_norm = point, risk.norm(point)
                reason = stop
                if ends:
                    break
                polish -= 1
            if iteration >= max_iter:
                break
            iteration += 1
        else:
            reason = reason if reason == stop else "stalled"
            if best is not point:
                certify(point)
    except KeyboardInterrupt:
        if best is None:
            raise
        status, reason = Status.INTERRUPTED, "interrupted"
    assert best is not None
    if reason != stop and best is not point and status is None:
        certify(point)
    settled = risk.settled(best)
    if settled is not best:
        best, best_norm = settled, risk.norm(settled)
    if decrement and status is None and best.decrement is None:
        risk.newton_direction(best)
    returned = risk.as_returned(best)
    if returned is not best:
        best, best_norm = returned, risk.norm(returned)
    certificate = gap_certificate(
        best.objective,
        best_dual.beside(reach_of(risk, best.theta)),
        null=null,
        saturated=saturated,
        tolerance=tol,
        gradient_norm=best_norm,
        newton_decrement=best.decrement,
        largest_step=2.0 / risk._largest if risk._largest is not None and risk._largest > 0.0 else None,
        status=status,
        assumptions=assumption_of(risk.loss),
    )
    return Outcome(best, certificate, trace, reason)
