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

from ..batch.design import FAR, spread_rows
from ..batch.duality import NO_OFFSET, has_conjugate
from ..data.blocks import Columns
from ..errors import DataError
from ..model.iterated import link_of
from ..objective.loss_interface import derivatives
from ..onepass.moments import Moments
from ..solvers.row_sums import conjugate_sum, upper_conjugate_sum
from . import statistic
from .expanding import Expansion, Sight, given, solved, spread
from .tables import Table
from .tiles import Rows, summed

MOST_VALUES = 1000  # distinct targets that are looked at as classes
START_ROWS = (
    1024,
    4096,
)  # at least and at most, 64 a column, or 16 a column, on which a partition solves its own problem
START_STEPS = 8
HELD_BYTES = 1 << 28  # rows that a partition holds to expand its own problem
DIGITS = 6.0  # of the moments: they only standardise


@dataclasses.dataclass(frozen=True)
class Look:
    """The first job: what the columns are, the values that the target takes, the loss of zero, and where to start.

    A partition solves its own problem on some rows. It is only a start: what it is worth is judged by the whole. With n
    rows of d columns the sum of such models leaves a gap of about (d/n)²/3, as measured: where that is not below ``left``,
    a partition sends its solution alone, and a Hessian at the mean of all is the better step.
    """

    declared: dict[str, Any]
    options: dict[str, Any]
    loss: Any = None
    intercept: bool = True
    left: float = 1e-6

    def run(self, number: int, tables: Any) -> bytes:
        encoder = statistic.encoder_of(number, tables, self.declared, self.options, apart=True)
        if encoder is None:
            return statistic.NOTHING
        plain = self.loss is not None and set(encoder.kinds.values()) <= {"number", "boolean"}
        if plain and self._fixed and encoder.terms == tuple(encoder.kinds):
            return pickle.dumps(self._sight(number, encoder), protocol=5)
        values: set[float] = set()
        kept: list[Any] = []
        losses = np.zeros(3)
        room = 4 * _start_rows(len(encoder.kinds)) if plain else 0

        def notice(block: Any) -> None:
            nonlocal room
            _see(values, block)
            if self.loss is not None:
                losses[:] += _bare_losses(self.loss, block)
            if room > 0:
                some = slice(0, room)
                kept.append((block.X[some], block.y[some], None if block.weights is None else block.weights[some]))
                room -= len(block.X)

        made = statistic.moments_of(encoder, digits=DIGITS, sample=0, notice=notice)
        start: list[float] = []
        if kept:
            X, y, c = _joined(kept)
            signs = _signs(self.loss, y, values, encoder.target_levels)
            shift = spread(X, c)[0] if self.intercept and c.any() else np.zeros(X.shape[1])
            found = None if signs is None else _solved(self.loss, [(X, signs, c)], shift, self.intercept)
            at = None if found is None else given(found[0], shift)
            start = [] if at is None else (float(c.sum()) * np.append(1.0, at)).tolist()
        return statistic.pack(made, values=sorted(values)[: MOST_VALUES + 1], losses=losses.tolist(), start=start)

    @property
    def _fixed(self) -> bool:
        """Whether the terms are the columns, whatever the rows hold."""
        return self.options.get("missing", "refuse") == "refuse" and self.options.get("formula") is None

    def _sight(self, number: int, encoder: Any) -> Sight:
        """What a partition of numbers sends; it is held in memory, up to a bound, to be gone through again."""
        values: set[float] = set()
        held: list[Any] = []
        losses, size = np.zeros(3), 0
        sight = Sight.empty(encoder)
        for block in encoder:
            if block.weights is not None and not block.weights.any():
                continue
            _see(values, block)
            losses += _bare_losses(self.loss, block)
            sight.add(block)
            if size <= HELD_BYTES:
                held.append((block.X, block.y, block.weights))
            size += 8 * math.prod(block.X.shape)
        sight.schema, sight.values, sight.losses = encoder.schema, sorted(values)[: MOST_VALUES + 1], losses
        if held and np.isfinite(sight.squares).all():  # what overflows is refused by the whole
            whole = size <= HELD_BYTES
            point, sight.expansion = self._expanded(number, held, values, encoder.target_levels, sight, whole)
            sight.start = None if point is None else np.append(1.0, point) * sight.weight
        return sight

    def _expanded(
        self, number: int, held: list[Any], values: set[float], levels: list[str], sight: Sight, whole: bool
    ) -> tuple[np.ndarray | None, Expansion | None]:
        """A sample finds the neighbourhood, a step on all rows the point, and there they are expanded.

        The step has the gradient of all rows but the Hessian of the sample, which leaves less than the partition's own
        noise: a Hessian of all rows is most of the work, and one is enough.
        """
        mean, rows = sight.mean, []
        d = len(mean)
        for X, y, weights in held:
            signs = _signs(self.loss, np.asarray(y, dtype=float), values, levels)
            if signs is None:
                return None, None
            rows.append((X, signs, np.ones(len(signs)) if weights is None else weights))
        n, shift = sum(len(y) for _, y, _ in rows), mean if self.intercept else np.zeros(d)
        found = _solved(self.loss, _few(rows, _start_rows(d) / n), shift, self.intercept)
        start = None if found is None else given(found[0], shift)
        if found is None or start is None or not whole or n < 20 * d:
            return start, None
        near = bool((np.abs(mean) <= FAR * np.sqrt(sight.squares / sight.weight)).all())
        before, gradient, _ = summed(
            self.loss, rows, shift, found[0], intercept=self.intercept, hessian=False, near=near
        )
        total = sum(float(c.sum()) for _, _, c in rows)
        point = given(found[0] - solved(total * found[1], gradient), shift)
        if point is None or n * math.sqrt(self.left) < d:
            return start if point is None else point, None
        for at in (point, start):
            made = Expansion.of(number, self.loss, rows, at, mean, self.intercept)
            if made.finite and (made.loss < before or at is start):
                return at, made
        return start, None

    def merge(self, answers: Sequence[bytes]) -> bytes:
        found = [raw for raw in answers if raw != statistic.NOTHING]
        told = [pickle.loads(raw) for raw in found]
        if told and isinstance(told[0], Sight):
            return pickle.dumps(Sight.merged(told, MOST_VALUES + 1), protocol=5)
        more = [statistic.unpack(raw)[1] for raw in found]
        values = {v for one in more for v in one["values"]}
        starts = [one["start"] for one in more if one["start"]]
        start = np.sum(starts, axis=0).tolist() if len({len(one) for one in starts}) == 1 else []
        losses = np.sum([one["losses"] for one in more], axis=0).tolist() if more else [0.0, 0.0, 0.0]
        return statistic.merge(answers, values=sorted(values)[: MOST_VALUES + 1], losses=losses, start=start)


def _start_rows(columns: int) -> int:
    least, most = START_ROWS
    return max(least, min(most, 64 * columns), 16 * columns)


def _see(values: set[float], block: Any) -> None:
    if len(values) == 2:  # two classes, as a rule, and then it is quicker to compare
        one, other = values
        if ((block.y == one) | (block.y == other)).all():
            return
    if len(values) <= MOST_VALUES:
        values.update(np.unique(block.y).tolist())


def _joined(blocks: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of (rows, targets, weights or None) as one."""
    X = blocks[0][0] if len(blocks) == 1 else np.concatenate([rows for rows, _, _ in blocks])
    y = np.concatenate([np.asarray(targets, dtype=float) for _, targets, _ in blocks])
    return X, y, np.concatenate([np.ones(len(rows)) if weights is None else weights for rows, _, weights in blocks])


def _bare_losses(loss: Any, block: Any) -> np.ndarray:
    """Σ weights·V(y, 0), Σ weights·min V(y, ·) and the sizes summed in the latter; signs are not seen at 0."""
    if loss.targets == "sign":
        y, c = np.ones(1), np.array([float(len(block.y)) if block.weights is None else float(block.weights.sum())])
    else:
        y = np.ascontiguousarray(block.y, dtype=float)
        c = np.ones(len(y)) if block.weights is None else block.weights
    zero = np.zeros(len(y))
    at_zero = derivatives(loss, zero, y, c, np.empty(len(y)), np.empty(0))
    if has_conjugate(loss):
        least, size = conjugate_sum(loss, zero, y, c, NO_OFFSET, 0, len(y))
    else:
        least, size = upper_conjugate_sum(loss, zero, y, c, NO_OFFSET, zero)
    return np.array([at_zero, -least, size])


def _signs(loss: Any, y: np.ndarray, values: set[float], levels: list[str]) -> np.ndarray | None:
    """Targets as the loss takes them; None where a partition does not show two classes."""
    if loss.targets != "sign":
        return y
    if len(values) != 2:
        return None
    upper = max(values) if not levels else float(levels.index(max(levels)))
    return np.where(y == upper, 1.0, -1.0)


def _few(rows: Rows, share: float) -> Rows:
    """Some rows of every block, in short runs spread evenly."""
    chosen = [(spread_rows(len(y), math.ceil(share * len(y))), X, y, c) for X, y, c in rows]
    return [
        (Columns([column[k] for column in X.columns]) if isinstance(X, Columns) else X[k], y[k], c[k])
        for k, X, y, c in chosen
    ]


def _solved(loss: Any, rows: Rows, shift: np.ndarray, intercept: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """(parameters of [x − shift, 1], a mean Hessian near there) of a few Newton steps; None of few rows or no minimum."""
    n, total, d = sum(len(y) for _, y, _ in rows), sum(float(c.sum()) for _, _, c in rows), len(shift)
    if n < 10 * d or not total > 0.0:
        return None
    theta, best, rough = np.zeros(d + int(intercept)), math.inf, True  # six digits are more than such a start is worth
    if intercept:
        theta[d] = constant(loss, sum(float(c @ y) for _, y, c in rows) / total)
    for _ in range(START_STEPS):
        value, gradient, hessian = summed(loss, rows, shift, theta, intercept=intercept, hessian=True, rough=rough)
        if rough and not ((np.diagonal(hessian) > 1e-30).all() and np.isfinite(hessian).all()):
            rough = False  # numbers beyond float32, or a column that never varies
            value, gradient, hessian = summed(loss, rows, shift, theta, intercept=intercept, hessian=True)
        if not value < best or not np.isfinite(hessian).all():
            return None
        best = value
        step = solved(hessian, gradient)
        theta = theta - step
        # What is left after this step is about the square of what it gains: below the noise of so few rows.
        if float(gradient @ step) < 0.5 * best * len(theta) / n:
            break
    return theta, hessian / total


def constant(loss: Any, mean: float) -> float:
    """The score of a model without columns, where the loss's mean is exp: from 0, Newton's steps towards large counts overshoot."""
    return math.log(mean) if link_of(loss) == "log" and 0.0 < mean < math.inf else 0.0


def looked(
    table: Table, options: dict[str, Any], loss: Any, intercept: bool, tol: float = 1e-6
) -> tuple[Moments, dict[str, Any]]:
    """The first job: (moments, what else it found). Of columns of numbers the moments are means and squares alone."""
    left = tol if tol > 1e-8 else 1.0  # beyond eight digits every job has a Hessian, and the nearest start is best
    task = Look(table.declared, options, loss if loss.has("curvature") else None, intercept, left)
    raw = table.combine(task, statistic.limit(len(table.declared), 1))
    made: Moments | None = None
    told: dict[str, Any] = {}
    if raw != statistic.NOTHING:
        found = pickle.loads(raw)
        made, told = found.told() if isinstance(found, Sight) else statistic.unpack(raw)
    return statistic.judged(made, table.describe, folds=False), told


def no_classes(target: str) -> DataError:
    """The refusal of dates as labels."""
    return DataError(
        f"target {target!r} is a date, and classes are text, numbers or true and false; derive such a column from it",
        where=target,
    )


def classes_of(moments: Moments, values: list[float], target: str, kind: type) -> tuple[Any, ...]:
    """The two classes of a target of text, of numbers (int or float, as ``kind`` says) or of true and false."""
    found: tuple[Any, ...] = moments.schema.classes
    if moments.schema.target_kind == "date":
        raise no_classes(target)
    if moments.schema.target_kind != "category":
        found = tuple(kind(value) for value in values)
    if len(found) != 2:
        shown = ", ".join(repr(label) for label in found[:3])
        raise DataError(
            f"target {target!r} takes {len(found)} values ({shown}{', …' if len(found) > 3 else ''}) and on Dask and Spark "
            "logistic regression takes two classes; derive a target of two values, or fit on one machine",
            where=target,
        )
    return found
