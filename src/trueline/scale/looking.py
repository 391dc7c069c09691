"""The first job of a loss that needs several: a scan that also finds the classes and where to start.

Levels, classes, Σ weights, the shift and scale that standardise the columns, the loss of zero, and a start: each
partition solves its own problem on some of its rows, and the mean of these solutions saves Newton's method about three
jobs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._jit import teach
from ..batch.design import Design
from ..batch.duality import solve_symmetric
from ..batch.risk import Risk, evaluate
from ..batch.scaled import ScaledPenalty
from ..errors import DataError
from ..onepass.moments import Moments
from . import statistic
from .tables import Table

MOST_VALUES = 1000  # distinct targets that are looked at as classes
START_BYTES = 1 << 23  # rows that a partition keeps to solve its own problem: as many bytes, or rows a column
START_ROWS = 40
START_STEPS = 8
DIGITS = 6.0  # of the moments: they only standardise


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

    def run(self, number: int, tables: Any) -> bytes:
        teach(self.loss)  # it came by pickle, and compiled code that this worker lacks must know its methods
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

        made = statistic.moments_of(encoder, digits=DIGITS, sample=0, notice=notice)
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
