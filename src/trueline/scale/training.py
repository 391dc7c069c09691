"""Online learners on an engine: one a partition, in parallel, merged by averaging.

One job trains a learner on the rows of each partition, in their order, and sends the sum of its weights, its losses and
what it proves; sums merge in the tree. A classifier that was not told its classes asks for them in a job before.
The theorem of the mean (``online.merged``) needs one learner with one pass: what it does not cover is refused by name.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import modelfile
from ..data.encode import Encoder
from ..errors import DataError, TruelineError, UsageError
from ..online.merged import MergedModel, Share
from ..online.model import OnlineModel
from . import statistic
from .looking import no_classes
from .tables import Table

MOST_CLASSES = 1000
OPTIONS = ("target", "features", "weights", "where", "missing")


@dataclasses.dataclass(frozen=True)
class Labels:
    """The job before: the distinct targets."""

    declared: dict[str, Any]
    options: dict[str, Any]

    def run(self, number: int, tables: Any) -> bytes:
        encoder = statistic.encoder_of(number, tables, self.declared, self.options)
        if encoder is None:
            return statistic.NOTHING
        values: set[Any] = set()
        for block in encoder:
            if not encoder.target_levels and len(values) <= MOST_CLASSES:
                values.update(np.unique(np.asarray(block.y)).tolist())
        return _listed(encoder.target_levels or values)

    def merge(self, answers: Sequence[bytes]) -> bytes:
        return _listed({value for raw in answers if raw != statistic.NOTHING for value in json.loads(raw)})


def _listed(values: Any) -> bytes:
    return json.dumps(sorted(values)[: MOST_CLASSES + 1]).encode()


@dataclasses.dataclass(frozen=True)
class Train:
    """The job: ``learner`` is the estimator, told its classes, that every partition begins with."""

    declared: dict[str, Any]
    options: dict[str, Any]
    learner: Any
    names: list[str]
    in_order: ClassVar[bool] = True  # partitions are the user's, and so is the order of their rows

    def run(self, number: int, tables: Any) -> bytes:
        encoder = statistic.encoder_of(number, tables, self.declared, self.options)
        if encoder is None:
            return statistic.NOTHING
        record, row = self.record(), 0
        for block in encoder:
            try:
                y = np.asarray(block.y)
                if hasattr(self.learner, "classes_"):
                    levels = encoder.target_levels
                    y = self.learner._code(np.array(levels)[y.astype(int)] if levels else y)
                record.learn(np.ascontiguousarray(block.X), y, block.weights)
            except TruelineError as error:
                place = f"partition {number}" if row == 0 else f"partition {number}, counted from its row {row}"
                raise type(error)(f"in {place}: {error.message}", where=error.where) from None
            row += len(y)
        return statistic.NOTHING if record.examples == 0 else _packed(Share.of(record))

    def merge(self, answers: Sequence[bytes]) -> bytes:
        found = [_unpacked(raw) for raw in answers if raw != statistic.NOTHING]
        return _packed(sum(found[1:], found[0])) if found else statistic.NOTHING

    def record(self) -> OnlineModel:
        """A learner that has seen nothing."""
        made = self.learner._make()
        made._name(self.names)
        return made  # type: ignore[no-any-return]


def _packed(share: Share) -> bytes:
    return modelfile.dumps("share", *share.to_state())


def _unpacked(raw: bytes) -> Share:
    _, arrays, meta = modelfile.loads(raw, where="a partition's learner")
    return Share.from_state(arrays, meta)


def refuse_unmergeable(estimator: Any) -> None:
    """Learners whose mean proves nothing, each by its reason."""
    name = type(estimator).__name__
    if name in ("Perceptron", "Winnow"):
        geometry = "'additive', rate=1.0" if name == "Perceptron" else "'signed', rate=0.1"
        raise UsageError(
            f"the theorem of {name} counts the mistakes of one learner in order, and on Dask and Spark the mean of one "
            f"learner a partition has none; tl.OnlineClassifier('perceptron', {geometry}) merges with a risk bound",
            where="fit",
        )
    if name == "KernelPerceptron":
        raise UsageError(
            "a kernel perceptron is made of the rows on which it was wrong, and the mean of one a partition would keep "
            "those of all; it is not taken on Dask and Spark: fit a sample on one machine, or tl.OnlineClassifier there",
            where="fit",
        )
    if name == "RecursiveLeastSquares":
        raise UsageError(
            "recursive least squares ends at the ridge solution of all rows, which needs no averaging on Dask and Spark: "
            "tl.Ridge(alpha=…) fits it there from one scan",
            where="fit",
        )
    # With a number as rate, geometry="auto" is one learner, the additive one.
    if _auto(estimator, "rate"):
        setting = "geometry" if _auto(estimator, "geometry") else "rate"
        raise UsageError(
            f"on Dask and Spark one learner a partition is trained and they are merged by averaging, which "
            f"{setting}='auto', a mixture, does not allow: give geometry and rate, such as 'normalised' and 0.5",
            where=setting,
        )
    if getattr(estimator, "order", "in_order") != "in_order" or getattr(estimator, "epochs", 1) != 1:
        raise UsageError(
            "on Dask and Spark every row is learned once, in its partition's order, as the risk bound of the mean needs: "
            "leave order='in_order' and epochs=1",
            where="order",
        )


def train(estimator: Any, table: Table, options: dict[str, Any]) -> tuple[MergedModel, Any]:
    """(the mean of one learner a partition, the classes or None); ``options`` as ``cluster.prepared`` made them."""
    import polars as pl
    from sklearn.base import clone, is_classifier

    encoder = Encoder(pl.DataFrame(schema=table.declared), part=0, **options)
    for name, kind in encoder.kinds.items():
        if kind not in ("number", "boolean"):
            raise UsageError(
                f"column {name!r} is a {kind}, and online learners take numbers: leave it out with features=, or make "
                "columns of numbers from it",
                where=name,
            )
    learner: Any = clone(estimator)
    learner.average = True
    if is_classifier(estimator):
        given = getattr(estimator, "classes", None)
        learner._prepare(np.asarray(_classes(table, options) if given is None else given))
    task = Train(table.declared, options, learner, list(encoder.kinds))
    like = task.record()
    raw = table.combine(task, 8 * (len(task.names) + 2) * (len(task.names) + 2 + len(like.heads)))
    if raw == statistic.NOTHING:
        tail = "" if not options.get("where") else f" left by where {options['where']!r}"
        raise DataError(f"{table.describe} has no rows{tail}", where="rows")
    return MergedModel.of(_unpacked(raw), like), getattr(learner, "classes_", None)


def _classes(table: Table, options: dict[str, Any]) -> list[Any]:
    target = str(options["target"])
    raw = table.combine(Labels(table.declared, options), 1 << 16)
    found = [] if raw == statistic.NOTHING else json.loads(raw)
    if len(found) > MOST_CLASSES:
        raise DataError(
            f"target {target!r} takes more than {MOST_CLASSES} values, too many to be classes; give a column of labels",
            where=target,
        )
    if table.declared[target].is_temporal():
        raise no_classes(target)
    kind = table.label_type(target)
    return [value if isinstance(value, str) else kind(value) for value in found]


def _auto(estimator: Any, setting: str) -> bool:
    value = getattr(estimator, setting, None)
    return isinstance(value, str) and value == "auto"
