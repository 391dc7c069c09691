"""Losses that need several passes: Newton's method with loss, gradient and Hessian summed by the engine.

The first job is a scan: levels, classes, Σ weights, and the shift and scale that standardise the columns. Then one job
an iteration: at θ every partition sends Σ c·V, Σ c·V'·x̃ and Σ c·V''·x̃x̃ᵀ, (d + 1)² numbers whatever its rows. The
same job certifies the step that led to θ = θ₀ + Δ: the slopes a = V'(s₀) + V''(s₀)·x̃Δ that the quadratic model
foretold balance by construction, so Σ c·V*(a) and −X̃ᵀ(c∘a) give a dual value, and with it the gap, as on one machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..batch.design import Design
from ..batch.duality import NO_OFFSET, conjugate_sum, solve_symmetric, upper_conjugate_sum
from ..batch.gradient import Patience, full_gradient, rounding
from ..batch.methods import advised, make_penalty, warn_unproven
from ..batch.risk import Point, Risk, evaluate, run
from ..batch.scaled import ScaledPenalty
from ..errors import DataError, UsageError
from ..model.training import designed
from ..onepass.moments import Moments
from . import statistic
from .tables import Table

WIDEST = 2000  # columns whose Hessian a partition sends
MOST_VALUES = 1000  # distinct targets that are looked at as classes
START_BYTES = 1 << 23  # rows that a partition keeps to solve its own problem: as many bytes, or rows a column
START_ROWS = 40
START_STEPS = 8
_HEAD = 6  # rows, loss, conjugates, Σ|c·a|, Σ curvature, smallest margin


@dataclasses.dataclass(frozen=True)
class Look:
    """The first job: moments without folds, the values that the target takes, the loss of zero, and where to start.

    A partition solves its own problem on the rows at hand; the mean of these solutions is a start from which Newton's
    method needs about two jobs instead of five. It is only a start: what it is worth is judged by the whole.
    """

    declared: dict[str, Any]
    options: dict[str, Any]
    loss: Any = None
    intercept: bool = True

    def run(self, number: int, tables: Iterator[Any]) -> bytes:
        encoder = statistic.encoder_of(number, tables, self.declared, self.options)
        if encoder is None:
            return statistic.NOTHING
        values: set[float] = set()
        kept: list[Any] = []
        null = 0.0
        d = max(1, len(encoder.kinds))
        plain = self.loss is not None and set(encoder.kinds.values()) <= {"number", "boolean"}
        room = max(START_BYTES // (8 * d), START_ROWS * d) if plain else 0

        def notice(block: Any) -> None:
            nonlocal null, room
            if len(values) <= MOST_VALUES:
                values.update(np.unique(block.y).tolist())
            if self.loss is not None:
                null += _loss_of_zero(self.loss, block)
            if room > 0:
                some = slice(0, room)
                kept.append((block.X[some], block.y[some], None if block.weights is None else block.weights[some]))
                room -= len(block.X)

        made = statistic.moments_of(encoder, digits="auto", sample=0, notice=notice)
        start = _solved(self.loss, kept, encoder.target_levels, self.intercept)
        return statistic.pack(made, values=sorted(values)[: MOST_VALUES + 1], null=null, start=start)

    def merge(self, answers: Sequence[bytes]) -> bytes:
        told = [statistic.unpack(raw)[1] for raw in answers if raw != statistic.NOTHING]
        values = {v for one in told for v in one["values"]}
        starts = [one["start"] for one in told if one["start"]]
        start = np.sum(starts, axis=0).tolist() if len({len(one) for one in starts}) == 1 else []
        null = math.fsum(one["null"] for one in told)
        return statistic.merge(answers, values=sorted(values)[: MOST_VALUES + 1], null=null, start=start)


def _loss_of_zero(loss: Any, block: Any) -> float:
    """Σ weights·V(y, 0); a loss of signs does not see them at 0."""
    y = np.ones(len(block.y)) if loss.targets == "sign" else np.ascontiguousarray(block.y, dtype=float)
    c = np.ones(len(y)) if block.weights is None else block.weights
    return float(evaluate(loss, np.zeros(len(y)), y, c, np.empty(len(y)), np.empty(len(y)), 0, len(y)))


def _solved(loss: Any, blocks: Sequence[Any], levels: list[str], intercept: bool) -> list[float]:
    """[Σ weights, Σ weights·coefficients …, Σ weights·intercept] of a few Newton steps on these rows; [] where none help."""
    if not blocks:
        return []
    X = blocks[0][0] if len(blocks) == 1 else np.concatenate([rows for rows, _, _ in blocks])
    y = np.concatenate([np.asarray(targets, dtype=float) for _, targets, _ in blocks])
    c = np.concatenate([np.ones(len(rows)) if weights is None else weights for rows, _, weights in blocks])
    total = float(c.sum())
    if loss.targets == "sign":
        found = np.unique(y)
        if len(found) != 2:
            return []
        upper = found[1] if not levels else float(levels.index(max(levels)))
        y = np.where(y == upper, 1.0, -1.0)
    if len(y) < 20 * X.shape[1] or not total > 0.0:
        return []
    design = Design(X, c / total, intercept=intercept)
    risk = Risk(design, y, c / total, loss, ScaledPenalty.nothing(design.size))
    theta, best = np.zeros(design.size), math.inf
    for _ in range(START_STEPS):
        point = risk.sweep(theta, hessian=True)
        if not point.loss < best:
            return []
        best = point.loss
        step = solve_symmetric(risk.hessian(point), risk.gradient(point))
        theta = theta - step
        if float(risk.gradient(point) @ step) < 1e-4 * best * design.size / len(y):
            break
    coef, constant = design.split(theta)
    return [total, *(total * coef), total * constant] if np.isfinite(theta).all() else []


@dataclasses.dataclass(frozen=True)
class Pass:
    """One job at θ; ``before`` is (θ₀, Δ) of the step that led there."""

    declared: dict[str, Any]
    options: dict[str, Any]
    schema: Any
    scan_terms: tuple[str, ...]
    loss: Any
    classes: tuple[Any, ...]
    shift: np.ndarray
    scale: np.ndarray
    intercept: bool
    total: float
    theta: np.ndarray
    before: tuple[np.ndarray, np.ndarray] | None

    def run(self, number: int, tables: Iterator[Any]) -> bytes:
        encoder = statistic.encoder_of(number, tables, self.declared, self.options)
        if encoder is None:
            return statistic.NOTHING
        size = len(self.theta)
        sums = np.zeros(_HEAD + 2 * size + size * size)
        sums[5] = math.inf
        for block in encoder:
            y = self._targets(block.y, encoder.target_levels)
            c = np.full(len(y), 1.0 / self.total) if block.weights is None else block.weights / self.total
            self._add(sums, self._design(block), y, c)
        return sums.tobytes()

    def merge(self, answers: Sequence[bytes]) -> bytes:
        found = [np.frombuffer(raw) for raw in answers if raw != statistic.NOTHING]
        if not found:
            return statistic.NOTHING
        total = np.sum(found, axis=0)
        total[5] = min(one[5] for one in found)
        return total.tobytes()

    def _design(self, block: Any) -> np.ndarray:
        """The final design of a block that may lack levels."""
        X = block.X
        if block.terms != self.scan_terms:
            place = {term: k for k, term in enumerate(self.scan_terms)}
            wide = np.zeros((len(X), len(self.scan_terms)))
            wide[:, [place[term] for term in block.terms]] = X
            X = wide
        return designed(self.schema, X, self.scan_terms)

    def _targets(self, y: Any, levels: Sequence[str]) -> np.ndarray:
        if not self.classes:
            return np.ascontiguousarray(y, dtype=float)
        codes = (
            np.array([self.classes.index(level) for level in levels], dtype=float)[y.astype(int)] if levels else None
        )
        index = np.searchsorted(np.array(self.classes, dtype=float), y) if codes is None else codes
        return np.ascontiguousarray(2.0 * index - 1.0)

    def _add(self, sums: np.ndarray, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> None:
        size = len(self.theta)
        design = Design(X, c, intercept=self.intercept, standardise=False)
        design.shift, design.scale = self.shift, self.scale
        risk = Risk(design, y, c, self.loss, ScaledPenalty.nothing(size))
        point = risk.sweep(self.theta, hessian=True)
        sums[0] += len(y)
        sums[1] += point.loss
        sums[_HEAD : _HEAD + size] += risk.gradient(point)
        sums[_HEAD + 2 * size :] += risk.hessian(point).ravel()
        if self.classes:
            sums[5] = min(sums[5], float((y * point.scores)[c > 0.0].min(initial=math.inf)))
        if self.before is None:
            return
        old = risk.point(self.before[0])
        ca = old.slope + old.curvature * design.scores(self.before[1])
        if hasattr(self.loss, "conjugate") and hasattr(self.loss, "slope_range"):
            sums[2] += conjugate_sum(self.loss, ca, y, c, NO_OFFSET, 0, len(y))
        else:
            sums[2] += upper_conjugate_sum(self.loss, ca, y, c, NO_OFFSET, old.scores)
        sums[3] += float(np.abs(ca).sum())
        sums[4] += float(old.curvature.sum())
        sums[_HEAD + size : _HEAD + 2 * size] -= design.correlations(ca)


@dataclasses.dataclass
class RemoteRisk(Risk):
    """A risk whose rows are elsewhere: a point is one job."""

    table: Any = None
    task: Any = None
    rows: int = 0
    margin: float = math.inf
    duals: dict[int, tuple[float, np.ndarray | None]] = dataclasses.field(default_factory=dict)
    null: float = math.nan

    def at(self, theta: np.ndarray, before: tuple[np.ndarray, np.ndarray] | None = None) -> Point:
        """The point of these parameters, with gradient, Hessian and the dual value of the step before."""
        size = self.size
        task = dataclasses.replace(self.task, theta=theta, before=before)
        sums = np.frombuffer(self.table.combine(task, 8 * (_HEAD + size * (size + 2))))
        self.design.passes += 1.0
        self.rows, self.margin = int(sums[0]), float(sums[5])
        loss = float(sums[1]) if sums[1] == sums[1] else math.inf
        nothing = np.zeros(0)
        point = Point(theta, nothing, loss, nothing, nothing, self.penalty.value(theta))
        point.gradient = sums[_HEAD : _HEAD + size].copy()
        point.hessian = sums[_HEAD + 2 * size :].reshape(size, size).copy()
        point.hessian[np.diag_indices(size)] += self.penalty.l2
        if before is not None:
            self.duals[id(point)] = self._dual(sums)
        return point

    def _dual(self, sums: np.ndarray) -> tuple[float, np.ndarray | None]:
        z = sums[_HEAD + self.size : _HEAD + 2 * self.size].copy()
        free = self.penalty.free
        left = float(np.abs(z[free]).max(initial=0.0))
        if left > 1e-11 * sums[3] + 1e-14 * sums[4] + 1e-300:
            return -math.inf, None
        z[free] = 0.0
        value = -float(sums[2]) - self.penalty.conjugate(z)
        return (value, z) if math.isfinite(value) else (-math.inf, None)

    def loss_hessian(self, point: Point) -> np.ndarray:
        assert point.hessian is not None
        return point.hessian - np.diag(self.penalty.l2)

    def dual(self, point: Point) -> tuple[float, np.ndarray | None]:
        return self.duals.get(id(point), (-math.inf, None))

    def null_value(self) -> float:
        return self.null


def newton(risk: RemoteRisk, first: Point) -> Iterator[Point]:
    """Damped Newton steps, a job each."""
    point, patience = first, Patience()
    while True:
        g = full_gradient(risk, point)
        direction = -solve_symmetric(risk.hessian(point), g)
        slope = float(g @ direction)
        point.decrement = math.sqrt(max(0.0, -slope))
        yield point
        if not slope < 0.0:
            return
        step, slack = 1.0, rounding(point)
        following = risk.at(point.theta + direction, (point.theta, direction))
        dual = risk.dual(following)
        while not following.objective <= point.objective + 1e-4 * step * slope + slack:
            step *= 0.5
            if step < 1e-10:
                return
            following = risk.at(point.theta + step * direction)
            risk.duals[id(following)] = dual
        if patience.over(point, following):
            return
        point = following


@dataclasses.dataclass
class Fit:
    """What the jobs found, in the user's units."""

    coef: np.ndarray
    intercept: float
    moments: Moments
    classes: tuple[Any, ...]
    certificate: Any
    statistics: dict[str, Any]


def looked(table: Table, options: dict[str, Any], loss: Any, intercept: bool) -> tuple[Moments, dict[str, Any]]:
    """The first job: (moments, what else it found)."""
    task = Look(table.declared, options, loss if callable(getattr(loss, "curvature", None)) else None, intercept)
    raw = table.combine(task, statistic.limit(len(table.declared), 1))
    made, meta = (None, {}) if raw == statistic.NOTHING else statistic.unpack(raw)
    return statistic.judged(made, table.describe, folds=False), meta


def classes_of(moments: Moments, values: list[float], target: str) -> tuple[Any, ...]:
    """The two classes of a target of text or of numbers."""
    found: tuple[Any, ...] = moments.schema.classes
    if moments.schema.target_kind != "category":
        whole = all(value == int(value) for value in values)
        found = tuple(int(value) if whole else value for value in values)
    if len(found) != 2:
        shown = ", ".join(repr(label) for label in found[:3])
        raise DataError(
            f"target {target!r} takes {len(found)} values ({shown}{', …' if len(found) > 3 else ''}) and on Dask and Spark "
            "logistic regression takes two classes; derive a target of two values, or fit on one machine",
            where=target,
        )
    return found


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
    if not callable(getattr(loss, "curvature", None)):
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
    bound = float(getattr(loss, "curvature_bound", lambda: math.inf)())
    design.stiffen(np.full(d, alpha) if alpha else None, bound)
    zero = np.zeros(design.size)
    task = Pass(
        table.declared, options, moments.schema, scanned.terms, loss, classes, design.shift, design.scale,
        fit_intercept, total, zero, None,
    )  # fmt: skip
    risk = RemoteRisk(design, np.zeros(0), np.zeros(0), loss, make_penalty(penalty, design), table=table, task=task)
    risk.null = told["null"] / total
    start, first = told["start"], None
    if len(start) == d + 2:
        first = risk.at(design.join(np.array(start[1:-1]) / start[0], start[-1] / start[0]))
    if first is None or not first.objective < risk.null:
        first = risk.at(zero)
    most = 100 if max_iter is None else max_iter
    # A job more for who asks for more than eight digits: a step squares the error.
    outcome = run(risk, newton(risk, first), tol=tol, max_iter=most, polish=int(tol <= 1e-8))
    separated = ""
    if classes and not alpha and risk.margin > 0.0:
        separated = "the classes are separable: some plane has every example on its right side, and the loss falls for ever along it"
    outcome = advised(outcome, "newton", tol, separated)
    warn_unproven(outcome)
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
    if not alpha and design.size <= WIDEST:
        from ..batch.inference import covariance

        order = np.roll(np.arange(design.size), int(fit_intercept))
        if classes or getattr(loss, "name", "") == "poisson":
            statistics["covariance"] = covariance(risk, outcome.point, total)[np.ix_(order, order)]
    return Fit(coef, intercept, moments, classes, outcome.certificate, statistics)
