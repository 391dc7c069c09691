"""The first job of several: a scan that also finds the classes and where to start.

Levels, classes, Σ weights, the shift and scale that standardise the columns, the loss of zero, and a start: each
partition solves its own problem on some of its rows. Where all columns are numbers (``expanding``) it also sends its
quadratic model there, which spares a job; otherwise moments and the mean of the solutions.
"""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._jit import teach
from ..batch.design import Design, spread_rows
from ..batch.duality import solve_symmetric
from ..batch.risk import Risk, evaluate
from ..batch.scaled import ScaledPenalty
from ..errors import DataError
from ..onepass.moments import Moments
from . import statistic
from .expanding import Expansion, Sight
from .tables import Table

MOST_VALUES = 1000  # distinct targets that are looked at as classes
START_BYTES = 1 << 24  # rows on which a partition solves its own problem: as many bytes, or rows a column
START_ROWS = 60
START_STEPS = 8
HELD_BYTES = 1 << 28  # rows that a partition holds to expand its own problem
DIGITS = 6.0  # of the moments: they only standardise


@dataclasses.dataclass(frozen=True)
class Look:
    """The first job: what the columns are, the values that the target takes, the loss of zero, and where to start.

    A partition solves its own problem on some rows. It is only a start: what it is worth is judged by the whole.
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
        plain = self.loss is not None and set(encoder.kinds.values()) <= {"number", "boolean"}
        if plain and self._fixed and encoder.terms == tuple(encoder.kinds):
            return pickle.dumps(self._sight(number, encoder), protocol=5)
        values: set[float] = set()
        kept: list[Any] = []
        null = 0.0
        room = _start_rows(len(encoder.kinds)) if plain else 0

        def notice(block: Any) -> None:
            nonlocal null, room
            _see(values, block)
            if self.loss is not None:
                null += _loss_of_zero(self.loss, block)
            if room > 0:
                some = slice(0, room)
                kept.append((block.X[some], block.y[some], None if block.weights is None else block.weights[some]))
                room -= len(block.X)

        made = statistic.moments_of(encoder, digits=DIGITS, sample=0, notice=notice)
        start: list[float] = []
        if kept:
            X, y, c = _joined(kept)
            signs = _signs(self.loss, y, encoder.target_levels)
            theta = None if signs is None else _solved(self.loss, X, signs, c, self.intercept)
            start = [] if theta is None else (float(c.sum()) * np.append(1.0, theta)).tolist()
        return statistic.pack(made, values=sorted(values)[: MOST_VALUES + 1], null=null, start=start)

    @property
    def _fixed(self) -> bool:
        """Whether the terms are the columns, whatever the rows hold."""
        return self.options.get("missing", "refuse") == "refuse" and self.options.get("formula") is None

    def _sight(self, number: int, encoder: Any) -> Sight:
        """What a partition of numbers sends; it is held in memory, up to a bound, to be gone through again."""
        values: set[float] = set()
        held: list[Any] = []
        null, size = 0.0, 0
        sight = Sight.empty(encoder)
        for block in encoder:
            if block.weights is not None and not block.weights.any():
                continue
            _see(values, block)
            null += _loss_of_zero(self.loss, block)
            sight.add(block)
            size += block.X.nbytes
            if size <= HELD_BYTES:
                held.append((block.X, block.y, block.weights))
        sight.schema, sight.values, sight.null = encoder.schema, sorted(values)[: MOST_VALUES + 1], null
        if held:
            X, y, c = _joined(held)
            signs = _signs(self.loss, y, encoder.target_levels)
            some = spread_rows(len(y), _start_rows(X.shape[1]))
            theta = None if signs is None else _solved(self.loss, X[some], signs[some], c[some], self.intercept)
            if theta is not None:
                sight.start = np.append(1.0, theta) * sight.weight
                if size <= HELD_BYTES:
                    sight.expansion = Expansion.of(number, self.loss, (X, signs, c), theta, sight.mean, self.intercept)
        return sight

    def merge(self, answers: Sequence[bytes]) -> bytes:
        found = [raw for raw in answers if raw != statistic.NOTHING]
        told = [pickle.loads(raw) for raw in found]
        if told and isinstance(told[0], Sight):
            return pickle.dumps(Sight.merged(told, MOST_VALUES + 1), protocol=5)
        more = [statistic.unpack(raw)[1] for raw in found]
        values = {v for one in more for v in one["values"]}
        starts = [one["start"] for one in more if one["start"]]
        start = np.sum(starts, axis=0).tolist() if len({len(one) for one in starts}) == 1 else []
        null = math.fsum(one["null"] for one in more)
        return statistic.merge(answers, values=sorted(values)[: MOST_VALUES + 1], null=null, start=start)


def _start_rows(columns: int) -> int:
    d = max(1, columns)
    return max(START_BYTES // (8 * d), START_ROWS * d)


def _see(values: set[float], block: Any) -> None:
    if len(values) <= MOST_VALUES:
        values.update(np.unique(block.y).tolist())


def _joined(blocks: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of (rows, targets, weights or None) as one."""
    X = blocks[0][0] if len(blocks) == 1 else np.concatenate([rows for rows, _, _ in blocks])
    y = np.concatenate([np.asarray(targets, dtype=float) for _, targets, _ in blocks])
    return X, y, np.concatenate([np.ones(len(rows)) if weights is None else weights for rows, _, weights in blocks])


def _loss_of_zero(loss: Any, block: Any) -> float:
    """Σ weights·V(y, 0); a loss of signs does not see them at 0."""
    y = np.ones(len(block.y)) if loss.targets == "sign" else np.ascontiguousarray(block.y, dtype=float)
    c = np.ones(len(y)) if block.weights is None else block.weights
    return float(evaluate(loss, np.zeros(len(y)), y, c, np.empty(len(y)), np.empty(len(y)), 0, len(y)))


def _signs(loss: Any, y: np.ndarray, levels: list[str]) -> np.ndarray | None:
    """Targets as the loss takes them; None where a partition does not show two classes."""
    if loss.targets != "sign":
        return y
    found = np.unique(y)
    if len(found) != 2:
        return None
    upper = found[1] if not levels else float(levels.index(max(levels)))
    return np.where(y == upper, 1.0, -1.0)


def _solved(loss: Any, X: np.ndarray, y: np.ndarray, c: np.ndarray, intercept: bool) -> np.ndarray | None:
    """[coefficients …, intercept] near the minimum on these rows; None where they are too few or have none.

    A few Newton steps on some of the rows find the neighbourhood, and one on all of them is as good as these rows are.
    """
    few = max(2048, 20 * X.shape[1])
    if len(y) < 20 * X.shape[1] or not c.sum() > 0.0:
        return None
    found: np.ndarray | None = None
    for rows, steps in ((few, START_STEPS), (len(y), 1)) if few < len(y) else ((len(y), START_STEPS),):
        some = spread_rows(len(y), rows) if rows < len(y) else slice(None)
        share = c[some] / max(float(c[some].sum()), 1e-300)
        design = Design(X[some], share, intercept=intercept)
        risk = Risk(design, y[some], share, loss, ScaledPenalty.nothing(design.size))
        theta = np.zeros(design.size) if found is None else design.join(found[:-1], found[-1])
        best = math.inf
        for _ in range(steps):
            point = risk.sweep(theta, hessian=True)
            if not point.loss < best:
                return None
            best = point.loss
            step = solve_symmetric(risk.hessian(point), risk.gradient(point))
            theta = theta - step
            # What is left after this step is the square of what it gained: far below the noise of so few rows.
            if float(risk.gradient(point) @ step) < 0.5 * best * design.size / len(share):
                break
        if not np.isfinite(theta).all():
            return None
        coef, constant = design.split(theta)
        found = np.append(coef, constant)
    return found


def looked(table: Table, options: dict[str, Any], loss: Any, intercept: bool) -> tuple[Moments, dict[str, Any]]:
    """The first job: (moments, what else it found). Of columns of numbers the moments are means and squares alone."""
    task = Look(table.declared, options, loss if callable(getattr(loss, "curvature", None)) else None, intercept)
    raw = table.combine(task, statistic.limit(len(table.declared), 1))
    made: Moments | None = None
    told: dict[str, Any] = {}
    if raw != statistic.NOTHING:
        found = pickle.loads(raw)
        made, told = found.told() if isinstance(found, Sight) else statistic.unpack(raw)
    return statistic.judged(made, table.describe, folds=False), told


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
