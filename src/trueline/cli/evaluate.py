"""``trueline evaluate``: a saved model on rows with known answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError, UsageError
from . import options


def evaluate(
    model: options.Model,
    data: options.Source,
    target: options.Target = None,
    weights: options.Weights = None,
    where: options.Where = None,
    missing: options.MissingInNew = None,
    unseen: options.Unseen = "refuse",
    json: options.Json = False,
) -> None:
    """Measure a saved model on other data: RMSE, MAE, R², or log loss, AUC, accuracy, Brier score and calibration.

    Each figure comes with a 95 % bootstrap interval. Rows that lack a value are left out, and counted, where the model was
    fitted so or --missing drop says it; lines of sparse text without a label always.

    [bold]Example[/bold]

    trueline evaluate m.tl test.csv
    """
    from .console import emit, say
    from .models import open_model

    opened = open_model(model).taking(unseen).missing(missing)
    if opened.form:
        for option, value in (("target", target), ("weights", weights), ("where", where)):
            if value is not None:
                raise UsageError(f"--{option} is for tables; {opened.form} text has its own labels", where=option)
        target, weights = "label", "weight" if opened.form == "vw" else None
    column = target or options.required(opened.target, "target", "the model does not know its target's name")
    source = opened.naming(options.one_source(data), (column, weights))
    options.say_notes(source)
    if target is None:
        source = _having(source, column)
    metrics, n, dropped = measured(opened, source, column, weights, where)
    if json:
        emit({"n": n, "dropped_rows": dropped, "target": column, "metrics": metrics})
    else:
        print(told(metrics, n, column))
        if dropped:
            say(f"{dropped:,} rows lack a value and were left out")


def measured(
    opened: Any, source: Any, column: str, weights: str | None, where: str | None = None
) -> tuple[list[dict[str, Any]], int, int]:
    """The metrics of a model on a source, the number of rows, and how many rows were left out."""
    import polars as pl

    from ..data.refusals import unknown_column
    from .console import progress
    from .models import unpredicted

    fitted, answers, sizes = [], [], []
    dropped = 0
    drops = bool(opened.form) or getattr(opened.schema, "missing", None) == "drop"
    extra = [column] + ([weights] if weights else [])
    opened_source = source if opened.form else _with(source, extra)
    for frame, X in progress(opened.frames(opened_source, extra, where), "evaluating", lambda item: item[0].height):
        for name in extra:
            if name not in frame.columns:
                raise unknown_column(name, frame.columns, source="the data")
        y = frame.get_column(column)
        lacking = (
            unpredicted(X) | y.is_null().to_numpy() | (weights is not None and frame[weights].is_null().to_numpy())
        )
        if y.dtype.is_float():
            lacking |= y.is_nan().fill_null(False).to_numpy()
        if lacking.any():
            if not drops:
                raise DataError(
                    f"column {column!r} has {int(lacking.sum())} missing answers; leave those rows out (--missing drop)",
                    where=column,
                )
            dropped += int(lacking.sum())
            frame, X, y = frame.filter(~lacking), X[~lacking], y.filter(~lacking)
            if not len(y):
                continue
        if not opened.classes and not y.dtype.is_numeric() and y.dtype != pl.Boolean:
            raise DataError(f"column {column!r} is not a number, and the model predicts numbers", where=column)
        fitted.append(opened.scores(X))
        answers.append(y.to_numpy())
        if weights:
            sizes.append(numbers_of(frame.get_column(weights), weights))
    if not answers:
        raise DataError(f"all {dropped:,} rows lack a value; there is nothing to measure", where=column)
    found, y = np.concatenate(fitted), np.concatenate(answers)
    return metrics_of(opened, found, y, np.concatenate(sizes) if sizes else None), len(y), dropped


def numbers_of(series: Any, name: str) -> np.ndarray:
    """A column of weights as numbers of at least 0."""
    values = series.to_numpy().astype(float) if series.dtype.is_numeric() and not series.null_count() else None
    if values is None or not np.isfinite(values).all() or (values < 0).any():
        raise DataError(f"column {name!r} holds weights that are not finite numbers of at least 0", where=name)
    return values


def _having(source: Any, column: str) -> Any:
    """The source, which has the column that the model predicts."""
    from ..data.read import open_source
    from ..data.refusals import lacking_column

    opened = open_source(source)
    if column not in opened.names:
        raise lacking_column(column, opened.names, opened.describe)
    return opened


def _with(source: Any, extra: list[str]) -> Any:
    from ..data.read import open_source
    from ..data.refusals import unknown_column

    opened = open_source(source)
    for name in extra:
        if name not in opened.names:
            raise unknown_column(name, opened.names, source=opened.describe)
    return opened


def metrics_of(opened: Any, found: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> list[dict[str, Any]]:
    """The metrics that belong to a model's task."""
    from ..report.metrics import binary_metrics, class_metrics, regression_metrics

    if not opened.classes:
        return regression_metrics(y.astype(float), found, weights)
    codes = class_codes(y, opened.classes)
    if found.ndim == 2:
        return class_metrics(codes, found, weights)
    if opened.probabilistic:
        return binary_metrics(codes.astype(float), found, weights)
    made = binary_metrics(codes.astype(float), (found > 0).astype(float), weights)
    return [metric for metric in made if metric["name"] == "accuracy"]


def class_codes(y: np.ndarray, classes: tuple[Any, ...]) -> np.ndarray:
    """The number of each row's class, labels compared as text where their types differ."""
    known = {plain(label): k for k, label in enumerate(classes)}
    codes = np.array([known.get(plain(value), -1) for value in y.tolist()])
    if (codes < 0).any():
        at = int(np.argmax(codes < 0))
        shown = ", ".join(repr(label) for label in classes[:6])
        raise DataError(f"row {at + 1} has the label {y.tolist()[at]!r}; the model knows {shown}", where="target")
    return codes


def plain(label: Any) -> str:
    """A label as text: 1, 1.0 and true are one label."""
    if isinstance(label, bool):
        return str(int(label))
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def metric_name(name: str) -> str:
    """A measure as people write it."""
    known = {"rmse": "RMSE", "mae": "MAE", "r_squared": "R²", "auc": "AUC", "brier": "Brier score"}
    return known.get(name, name.replace("_", " "))


def told(metrics: list[dict[str, Any]], n: int, target: str) -> str:
    """The metrics as a table."""
    from ..report.text import number, table
    from .console import paint, width

    columns = [
        [metric_name(metric["name"]) for metric in metrics],
        *([number(metric[side]) for metric in metrics] for side in ("value", "low", "high")),
    ]
    body = table([f"{target}, {n:,} rows", "value", "95 % from", "to"], columns, room=width(), paint=paint)
    return body
