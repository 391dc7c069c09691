"""Newton's method for losses that need several passes: the steps are taken here, the sums come from the engine.

One job an iteration (``passes``), after the first that looks at everything (``looking``); the certificate is that of
one machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..batch.design import Design
from ..batch.duality import NO_DUAL, Dual, column_widths, rounded, solve_symmetric
from ..batch.gradient import Patience, full_gradient, rounding
from ..batch.methods import advised, make_penalty
from ..batch.newton import SHARP
from ..batch.reference import Reference
from ..batch.risk import Point, Risk, run
from ..certificates.certificate import Status
from ..errors import UsageError
from ..model.iterated import link_of
from ..onepass.lasso_gap import summing_error
from ..onepass.moments import Moments
from .looking import constant
from .passes import HEAD, Pass
from .tables import Table, one_thread

WIDEST = 2000  # columns whose Hessian a partition sends


@dataclasses.dataclass
class RemoteRisk(Risk):
    """A risk whose rows are elsewhere: a point is one job."""

    table: Any = None
    task: Any = None
    rows: int = 0
    margin: float = math.inf
    duals: dict[int, Dual] = dataclasses.field(default_factory=dict)
    rough: bool = False

    def at(
        self, theta: np.ndarray, base: np.ndarray | None = None, last: np.ndarray | None = None, *, hessian: bool
    ) -> Point:
        """The point of these parameters, with its gradient, its Hessian if asked for, and the dual value of the step."""
        size = self.size
        task = dataclasses.replace(self.task, theta=theta, base=base, last=last, hessian=hessian, rough=self.rough)
        sums = np.frombuffer(self.table.combine(task, 8 * (HEAD + size * (size * hessian + 2))))
        self.design.passes += 1.0
        self.rows, self.margin = int(sums[0]), float(sums[5])
        loss = float(sums[1]) if sums[1] == sums[1] else math.inf
        nothing = np.zeros(0)
        point = Point(theta, nothing, loss, nothing, sums[6:7].copy(), self.penalty.value(theta))
        point.gradient = sums[HEAD : HEAD + size].copy()
        if hessian:
            point.hessian = sums[HEAD + 2 * size :].reshape(size, size).copy()
            point.hessian[np.diag_indices(size)] += self.penalty.l2
        if base is not None:
            self.duals[id(point)] = self._dual(point, sums)
        return point

    def _dual(self, point: Point, sums: np.ndarray) -> Dual:
        z = sums[HEAD + self.size : HEAD + 2 * self.size].copy()
        free = self.penalty.free
        left = np.abs(z[free])
        if left.max(initial=0.0) > 1e-11 * sums[3] + 1e-14 * sums[4] + 1e-300:
            return NO_DUAL
        z[free] = 0.0
        value, held = -float(sums[2]), self.penalty.conjugate(z)
        if not math.isfinite(value - held):
            return NO_DUAL
        unbalanced = float((left / column_widths(self.design)[free]).max(initial=0.0))
        return rounded(
            self, point, value - held, z, float(sums[8]), float(sums[7]) + abs(held), unbalanced, self.rows
        )  # fmt: skip

    def loss_hessian(self, point: Point) -> np.ndarray:
        assert point.hessian is not None
        return point.hessian - np.diag(self.penalty.l2)

    def dual(self, point: Point) -> Dual:
        return self.duals.get(id(point), NO_DUAL)


def newton(
    risk: RemoteRisk, first: Point, matrix: np.ndarray | None, base: np.ndarray | None, always: bool
) -> Iterator[Point]:
    """Damped Newton steps, a job each.

    A Hessian that still shrinks the decrement tenfold a step is kept, as on one machine; ``matrix`` is one that is known
    from ``base``. A point that the step before has moved far gets its own in the same job, and all do with ``always``.
    """
    point, patience, before = first, Patience(risk), math.inf
    while True:
        if point.hessian is not None:
            matrix, base = point.hessian, point.theta
        assert matrix is not None and base is not None
        g = full_gradient(risk, point)
        direction = -solve_symmetric(matrix, g)
        expected = math.sqrt(max(0.0, -float(g @ direction)))
        point.finished = expected <= SHARP
        if point.hessian is not None:  # the decrement is told by a point's own Hessian only
            point.decrement = expected
        yield point
        if point.hessian is None and not expected < 0.1 * before:
            point.hessian = risk.at(point.theta, hessian=True).hessian
            assert point.hessian is not None
            matrix, base = point.hessian, point.theta
            direction = -solve_symmetric(matrix, g)
        slope = float(g @ direction)
        if not slope < 0.0:
            return
        # Sums of many rows, in tiles and trees, carry more rounding than those that ``rounding`` was measured on.
        step, slack, before = 1.0, 16.0 * rounding(point), math.sqrt(-slope)
        full = always or far(-slope, float(point.curvature.sum()))
        following = risk.at(point.theta + direction, base, None if base is point.theta else point.theta, hessian=full)
        dual = risk.dual(following)
        while not following.objective <= point.objective + 1e-4 * step * slope + slack:
            step *= 0.5
            if step < 1e-10:
                return
            following = risk.at(point.theta + step * direction, hessian=True)
            risk.duals[id(following)] = dual
        if patience.over(point, following):
            return
        point = following


def bounded_imbalance(risk: RemoteRisk, tol: float) -> bool:
    """Whether a Hessian of six digits is good enough for the proof.

    The slopes that it foretells are out of balance by a millionth of a step, which a penalty Λ pays with ½‖·‖²/Λ in the gap. Of
    steps of a twentieth of the scores' unit that shall be a tenth of the tolerance. A longer one costs a job, never the proof.
    """
    design, weights = risk.design, risk.penalty.l2[: risk.design.d]
    if not (weights > 0.0).all() or not ((design.scale > 1e-9) & (design.scale < 1e9)).all():
        return False
    return float((0.5 * (1e-6 * 0.05) ** 2 / weights).sum()) <= 0.1 * tol * risk.reference().null


def far(square: float, curvature: float) -> bool:
    """Whether a step of this decrement, squared, moves scores so far (half their unit) that a Hessian there is another."""
    return not square <= 0.25 * curvature


@dataclasses.dataclass
class Fit:
    """What the jobs found, in the user's units."""

    coef: np.ndarray
    intercept: float
    moments: Moments
    classes: tuple[Any, ...]
    certificate: Any
    statistics: dict[str, Any]


def minimise(
    table: Table,
    options: dict[str, Any],
    looked_at: tuple[Moments, dict[str, Any]],
    loss: Any,
    penalty: Any,
    *,
    classes: tuple[Any, ...] = (),
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_iter: int | None = None,
) -> Fit:
    """Newton's method over the engine; no penalty or L2."""
    scanned, told = looked_at
    moments = scanned.designed()
    d = len(moments.terms)
    if d > WIDEST:
        raise UsageError(
            f"every partition sends a Hessian of {d}×{d} numbers; on Dask and Spark at most {WIDEST} columns are taken: "
            "choose features, or fit a sample on one machine, where wide and sparse problems have their own methods",
            where="features",
        )
    if getattr(penalty, "name", "none") not in ("none", "nothing", "l2"):
        raise UsageError(
            f"the penalty {penalty.name!r} is not taken on Dask and Spark for this loss: no penalty and l2 are; a lasso of "
            "squared loss comes from tl.scan and tl.Lasso.from_moments",
            where="penalty",
        )
    if not loss.has("curvature"):
        raise UsageError(
            f"the loss {getattr(loss, 'name', loss)!r} has no curvature, which Newton's steps on Dask and Spark need; "
            "logistic, poisson, gamma, tweedie, huber and squared have one",
            where="loss",
        )
    part = moments.total
    total = part.weight[0]
    design = Design(np.zeros((1, d)), np.ones(1), intercept=fit_intercept, standardise=False)
    squares = np.diagonal(part.products[0])[:d] if fit_intercept else part.raw_squares()[:d]
    design.shift = part.mean[0][:d].copy() if fit_intercept else np.zeros(d)
    design.scale = np.where(squares > 0.0, np.sqrt(squares / total), 1.0)
    alpha = float(getattr(penalty, "alpha", 0.0)) if getattr(penalty, "name", "") == "l2" else 0.0
    bound = float(loss.curvature_bound())
    design.stiffen(np.full(d, alpha) if alpha else None, bound)
    zero = np.zeros(design.size)
    task = Pass(
        table.declared, options, moments.schema, scanned.terms, loss, classes, design.shift, design.scale,
        fit_intercept, total, zero,
    )  # fmt: skip
    risk = RemoteRisk(design, np.zeros(0), np.zeros(0), loss, make_penalty(penalty, design), table=table, task=task)
    told = told | {"mean": float(part.mean[0][d]), "squares": float(part.products[0][d, d])}
    risk._reference = known_reference(risk, told, total, moments.n)
    inferred = not alpha and (bool(classes) or getattr(loss, "name", "") == "poisson")
    # Who asks for more than eight digits gets a job more, for a step with its own Hessian squares the error.
    always, polish = inferred or tol <= 1e-8, int(tol <= 1e-8)
    risk.rough = not always and bounded_imbalance(risk, tol)
    most = 100 if max_iter is None else max_iter
    with one_thread():  # here too: idle threads of BLAS spin, and workers on this machine would wait for them
        first, matrix, base = started(risk, told, total, always)
        outcome = run(risk, newton(risk, first, matrix, base, always), tol=tol, max_iter=most, polish=polish)
    separated = ""
    if classes and not alpha and risk.margin > 0.0:
        separated = "the classes are separable: some plane has every example on its right side, and the loss falls for ever along it"
    outcome = advised(outcome, "newton", tol, separated)
    coef, intercept = design.split(outcome.point.theta)
    statistics = {
        "n": moments.n,
        "sum_of_weights": total,
        "fit_intercept": bool(fit_intercept),
        "method": "newton",
        "reason": "gradients and Hessians are summed by the engine, one job an iteration",
        "iterations": len(outcome.trace) - 1,
        "jobs": int(design.passes) + 1,
        "seconds": outcome.trace[-1].seconds,
    }
    if classes:
        statistics |= {"deviance": 2.0 * total * outcome.point.loss, "log_likelihood": -total * outcome.point.loss}
    if inferred:
        from ..batch.inference import alias_figures, covariance

        order = np.roll(np.arange(design.size), int(fit_intercept))
        statistics["covariance"] = covariance(risk, outcome.point, total)[np.ix_(order, order)]
        if outcome.certificate.status is not Status.DEGENERATE:  # where curvatures vanish, columns only seem to depend
            statistics |= alias_figures(risk, risk.loss_hessian(outcome.point), outcome.point.theta)
    return Fit(coef, intercept, moments, classes, outcome.certificate, statistics)


def known_reference(risk: RemoteRisk, told: dict[str, Any], total: float, rows: int) -> Reference:
    """What gaps are measured by, from what the first job summed.

    With an intercept the loss of the best constant follows from the target's mean where the loss is linear in the target
    (counts) or quadratic; for Huber's the squares bound it from above. Of classes it is taken at an even share.
    """
    at_zero, least, size = (value / total for value in told["losses"])
    loss, mean, variance = risk.loss, told["mean"], told["squares"] / total
    null, theta, name = at_zero, np.zeros(risk.size), getattr(risk.loss, "name", "")
    if risk.design.intercept:
        if link_of(loss) == "log" and 0.0 < mean < math.inf:
            theta[-1] = math.log(mean)
            null = float(loss.value(theta[-1], mean))
        elif name == "squared":
            theta[-1], null = mean, 0.5 * variance
        elif name == "huber":
            theta[-1], null = mean, min(0.5 * variance, loss.delta * math.sqrt(variance))
    if not math.isfinite(least):
        return Reference(null, -math.inf, -math.inf, theta)
    return Reference(null, least, least - summing_error(rows) * size, theta)


def started(
    risk: RemoteRisk, told: dict[str, Any], total: float, always: bool
) -> tuple[Point, np.ndarray | None, np.ndarray | None]:
    """(the first point, a Hessian that is known and where it was taken), from what the job before found."""
    design, start = risk.design, told["start"]
    null = told["losses"][0] / total  # of zero: what a start has to be better than
    first: Point | None = None
    if told.get("expansion") is not None:
        H, q, base = told["expansion"].standardised(design, total)
        curvature = float(np.trace(H)) / design.size  # of a score: the columns are standardised
        matrix = H + np.diag(risk.penalty.l2)
        theta = solve_symmetric(matrix, q)
        away = base[list(told["expansion"].points)] - theta
        spread = float(np.einsum("ij,jk,ik->i", away, H, away).max())
        first = risk.at(theta, base, hessian=always or far(spread, curvature))
        if first.objective < null:
            return first, matrix, base
    elif len(start) == design.d + 2:
        first = risk.at(design.join(np.array(start[1:-1]) / start[0], start[-1] / start[0]), hessian=True)
    if first is None or not first.objective < null:
        theta = np.zeros(design.size)
        if design.intercept:
            theta[-1] = constant(risk.loss, told["mean"])
        first = risk.at(theta, hessian=True)
    return first, None, None
