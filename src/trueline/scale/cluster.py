"""The same calls on Dask and Spark: what ``scan``, ``fit`` and ``predict`` do when a table of theirs comes in.

Everything here is written once, against :class:`trueline.scale.tables.Table`; the engines differ only in how they
run a task on every partition.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..data.encode import Encoder
from ..data.folds import fold_notes
from ..errors import DataError, UsageError, warn_caller
from ..model.linear import LinearModel
from ..onepass.moments import Moments
from . import statistic
from .numbers import encoder_like
from .predictor import Predictor
from .tables import Table

HEAD_ROWS = 10_000  # rows from which the constants of a formula's terms come


def table_of(source: Any, y: Any = None) -> Table:
    """A Dask or Spark table as what the rest of this room works with."""
    owner = type(source).__module__.partition(".")[0]
    if owner == "dask":
        from .dask import DaskTable

        return DaskTable(source, y)
    from .spark import SparkTable

    if y is not None:
        raise UsageError("a Spark dataframe holds its target: give target= the name of its column", where="target")
    return SparkTable(source)


@dataclasses.dataclass(frozen=True)
class Scan:
    """The task of a scan: moments of every partition."""

    declared: dict[str, Any]
    options: dict[str, Any]
    digits: float | str = "auto"
    sample: int = 10_000

    def run(self, number: int, tables: Any) -> bytes:
        encoder = statistic.encoder_of(number, tables, self.declared, self.options, apart=True)
        if encoder is None:
            return statistic.NOTHING
        moments = statistic.moments_of(encoder, digits=self.digits, sample=self.sample)
        return statistic.pack(moments, crowded=encoder.rule is not None and encoder.copies.crowded)

    def merge(self, answers: Sequence[bytes]) -> bytes:
        return statistic.merge(answers)


def scan(
    source: Any,
    *,
    target: str | None = None,
    folds: int | str | None = 5,
    digits: float | str = "auto",
    sample: int = 10_000,
    y: Any = None,
    **options: Any,
) -> Moments:
    """One job: every partition to its moments, merged in a tree; options as for ``tl.scan``."""
    result, notes = scan_with_notes(source, target=target, folds=folds, digits=digits, sample=sample, y=y, **options)
    for note in notes:
        warn_caller(note, UserWarning)
    return result


def scan_with_notes(
    source: Any,
    *,
    target: str | None,
    folds: int | str | None,
    digits: float | str = "auto",
    sample: int,
    y: Any = None,
    **options: Any,
) -> tuple[Moments, list[str]]:
    """(the moments, what is wrong with their folds in sentences) of the same job."""
    if isinstance(target, (list, tuple)):
        raise UsageError("a source has one target column; give its name", where="target")
    folds = None if folds in (0, 1) else folds
    table, options, terms = prepared(table_of(source, y), options | {"target": target, "folds": folds})
    task = Scan(table.declared, options, digits, sample)
    raw = table.combine(task, statistic.limit(terms, 1 if folds is None else int(folds)))
    made, more = (None, {}) if raw == statistic.NOTHING else statistic.unpack(raw)
    result = statistic.judged(made, table.describe, folds=folds is not None)
    if folds is None:
        return result, []
    sizes = [part.n for part in result.parts.values()]
    return result, fold_notes(int(folds), sizes, options.get("group"), more.get("crowded", False))


def prepared(table: Table, options: dict[str, Any]) -> tuple[Table, dict[str, Any], int]:
    """(the table with the columns needed, options for every partition's encoder, terms known so far).

    All that is wrong with the call is refused here, before a job starts.
    """
    options = dict(options)
    if options.pop("progress", None):
        raise UsageError(
            "on Dask and Spark, progress is shown by the engine's own page; leave progress out", where="progress"
        )
    if options.get("fold_blocks"):
        raise UsageError(
            "fold_blocks goes by the order of the rows, which partitions do not have; use folds or group",
            where="fold_blocks",
        )
    table, options = table.unpacked(options)
    encoder = encoder_like(table.declared, options, table.describe)
    _check_rowwise(options)
    options["target"] = encoder.target  # a formula may be what names it
    options["intercept"] = encoder.intercept  # and what takes the constant away
    if encoder.formula is not None:
        if encoder.formula.memory:
            raise UsageError(
                "lags look back along the rows, and partitions do not follow each other; make the lagged columns first",
                where="formula",
            )
        if not encoder.formula.fixed:
            looked = Encoder(table.head(HEAD_ROWS), part=0, **options)
            for _ in looked:
                break
            encoder = looked
        options["formula"] = encoder.formula
    else:
        options["features"] = list(encoder.kinds)
    if not options.get("where") and not options.get("derive"):
        needed = [*encoder.kinds, *(options.get(name) for name in ("target", "weights", "group"))]
        wanted = {name for name in needed if name is not None}
        if wanted < set(table.declared):
            table = table.select([name for name in table.declared if name in wanted])
    return table, options, len(encoder.kinds)


def _check_rowwise(options: dict[str, Any]) -> None:
    """Refuse expressions that look at other rows than their own: a partition sees its rows alone."""
    import polars as pl

    given = [("where", options.get("where")), *(("derive", text) for text in (options.get("derive") or {}).values())]
    for kind, text in given:
        if text is None:
            continue
        tree = json.loads(pl.sql_expr(text).meta.serialize(format="json"))
        if not _BEYOND_A_ROW.isdisjoint(_operations(tree)):
            raise UsageError(
                f"{kind} {text!r} takes other rows into account (an average, a rank, …), and a partition of Dask or Spark sees "
                "its own rows alone; compute that column with the engine first",
                where=kind,
            )


# Of the trees that Polars writes of its expressions, what looks beyond a row.
_BEYOND_A_ROW = {
    "Agg", "Over", "Window", "Len", "Rank", "RowNumber", "Shift", "Diff", "CumSum", "CumMin", "CumMax", "CumProd", "CumCount",
    "Rolling", "Sort", "SortBy", "Gather", "Explode", "Quantile", "Unique", "Mode",
}  # fmt: skip


def _operations(tree: Any) -> Iterator[str]:
    """The names of all operations of an expression; those of columns and the values of literals are not among them."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, list):
        for one in tree:
            yield from _operations(one)
    elif isinstance(tree, dict):
        for name, one in tree.items():
            yield name
            if name not in ("Column", "Literal", "Alias"):
                yield from _operations(one)


def text_target(source: Any, target: str | None) -> bool:
    """Whether a column of a table holds labels: text or true and false."""
    import polars as pl

    return table_of(source).declared.get(str(target)) in (pl.String, pl.Categorical, pl.Boolean)


def predict(estimator: Any, source: Any, method: str = "predict", options: dict[str, Any] | None = None) -> Any:
    """Lazy predictions of the engine's own type: a Dask Series, frame or array, or the Spark frame with more columns."""
    table = table_of(source)
    predictor = Predictor(estimator, method, options)
    table = table.readable(predictor.names)
    predictor.check(list(table.declared))
    return table.predicted(predictor)


def fit_logistic(
    source: Any,
    *,
    target: str | None,
    y: Any = None,
    C: float = math.inf,
    penalty: Any = None,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_iter: int | None = None,
    **options: Any,
) -> LinearModel:
    """Logistic regression of two classes: the mean loss plus ½‖w‖²/(C·Σ weights), or plus a penalty given as a part."""
    from ..model.iterated import objective_of, penalty_of
    from ..objective.losses import resolve_loss
    from .looking import classes_of
    from .newton import minimise

    loss = resolve_loss("logistic")
    table, options, found = _looked(source, y, target, options | {"labels": True}, loss, fit_intercept, tol)
    moments, told = found
    fit_intercept = bool(options["intercept"])
    classes = classes_of(moments, told["values"], str(options["target"]), table.label_type(str(options["target"])))
    if penalty is None:
        penalty = penalty_of(0.0 if math.isinf(C) else 1.0 / (C * moments.total.weight[0]), 0.0)
    made = minimise(
        table, options, found, loss, penalty, classes=classes, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter
    )
    objective = objective_of(
        loss, penalty, fit_intercept=bool(fit_intercept), tolerance=float(tol), class_factors=[1.0, 1.0]
    )
    return _record(made, "logistic", "logistic", classes, objective)


def fit_generalized(
    source: Any,
    *,
    target: str | None,
    y: Any = None,
    loss: Any,
    penalty: Any,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_iter: int | None = None,
    **options: Any,
) -> LinearModel:
    """A generalised linear model with no penalty or L2; the objective is the mean loss plus the penalty."""
    from ..model.iterated import link_of, objective_of
    from .newton import minimise

    table, options, found = _looked(source, y, target, options, loss, fit_intercept, tol)
    fit_intercept = bool(options["intercept"])
    kind = getattr(loss, "targets", "real")
    least = min(found[1]["values"], default=0.0)
    if (kind == "nonnegative" and least < 0.0) or (kind == "positive" and least <= 0.0):
        raise DataError(
            f"target {options['target']!r} goes down to {least:g}, and the loss {loss.name!r} takes {kind} numbers",
            where=str(options["target"]),
        )
    made = minimise(table, options, found, loss, penalty, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter)
    objective = objective_of(
        loss, penalty, fit_intercept=bool(fit_intercept), offset=False, bounded=False, tolerance=float(tol)
    )
    return _record(made, getattr(loss, "name", type(loss).__name__), link_of(loss), (), objective)


def fit_online(
    estimator: Any, source: Any, *, target: str | None, y: Any = None, **options: Any
) -> tuple[Any, Any, list[str] | None]:
    """(the merged record, the classes or None, the features' names or None for arrays) of an online learner."""
    from .training import OPTIONS, refuse_unmergeable, train

    refuse_unmergeable(estimator)
    for name in options:
        if name not in OPTIONS:
            raise UsageError(
                f"an online learner does not take {name} on Dask and Spark; it takes {', '.join(OPTIONS)}", where=name
            )
    if options.get("missing", "refuse") not in ("refuse", "drop"):
        raise UsageError("an online learner takes missing='refuse' or 'drop'", where="missing")
    from sklearn.base import is_classifier

    if is_classifier(estimator):
        options["labels"] = True
    table, options = _with_target(source, y, target, options)
    record, classes = train(estimator, table, options)
    return record, classes, record.names if y is None and hasattr(source, "columns") else None


def _with_target(source: Any, y: Any, target: str | None, options: dict[str, Any]) -> tuple[Table, dict[str, Any]]:
    if target is None and y is None and options.get("formula") is None:
        raise UsageError("give target= to say which column of the table it is", where="target")
    options.pop("folds", None)
    wanted = "y" if target is None and y is not None else target
    table, options, _ = prepared(table_of(source, y), options | {"target": wanted})
    return table, options


def _looked(
    source: Any, y: Any, target: str | None, options: dict[str, Any], loss: Any, intercept: bool, tol: float
) -> tuple[Table, dict[str, Any], Any]:
    from .looking import looked

    told = options if intercept else {"intercept": False} | options
    table, options = _with_target(source, y, target, told)
    table = table.keep(options)
    return table, options, looked(table, options, loss, bool(options["intercept"]), float(tol))


def _record(made: Any, family: str, link: str, classes: tuple[Any, ...], objective: dict[str, Any]) -> LinearModel:
    moments = made.moments
    statistics = {"family": family, **made.statistics, "objective": objective}
    return LinearModel(
        moments.terms, made.coef, made.intercept, moments.targets, moments.schema, link, classes, made.certificate,
        statistics,
    )  # fmt: skip
