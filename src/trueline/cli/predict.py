"""``trueline predict``: a saved model on new rows, streamed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ..errors import UsageError
from . import options
from .declare import Option

if TYPE_CHECKING:
    import polars as pl


def predict(
    model: options.Model,
    data: options.Source,
    output: Annotated[
        str | None,
        Option(
            "--output",
            "-o",
            help="CSV, TSV, Parquet, Arrow or NDJSON file; default: CSV to standard output.",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[
        float | None, Option(help="Add the ends of a prediction interval, such as 0.95.", show_default=False)
    ] = None,
    keep: Annotated[
        str | None, Option(help="Input columns to keep, with commas between, or 'all'.", show_default=False)
    ] = None,
    where: options.Where = None,
    missing: options.MissingInNew = None,
    unseen: options.Unseen = "refuse",
    json: options.Json = False,
) -> None:
    """Predict from a saved model: a row out for every row in, in order.

    A model that was fitted without rows that lack a value gives them an empty prediction, and says how many. In CSV of
    predictions alone it is written NaN: readers skip empty lines.

    [bold]Examples[/bold]

    trueline predict m.tl new.csv

    trueline predict m.tl new.parquet -o out.parquet --interval 0.95 --keep id
    """
    from .console import emit, progress, say
    from .models import open_model
    from .output import check_apart, check_place, file_format, write_frames

    options.share(interval, "interval")
    check_apart([output], [model, *data])
    if output not in (None, "-"):
        check_place(output)
        file_format(str(output))
    opened = open_model(model).taking(unseen).missing(missing)
    source = options.one_source(data)
    if opened.form and where is not None:
        raise UsageError(f"--where is for tables, not for {opened.form} text", where="where")
    kept = options.names(keep)
    counts = Counts()
    table = opened.naming(source)
    options.say_notes(table)
    frames = progress(opened.frames(table, wanted(kept), where), "predicting", lambda item: item[0].height)
    rows = write_frames(predictions(opened, frames, kept, interval, counts), output, json=json)
    if counts.empty:
        say(f"{counts.empty:,} of {rows:,} rows lack a value: their prediction is empty")
    if output not in (None, "-"):
        say(f"{rows:,} predictions in {output}")
        if json:
            emit({"output": output, "rows": rows, "empty_predictions": counts.empty})


@dataclasses.dataclass
class Counts:
    """What was noticed while predictions were made."""

    empty: int = 0


def wanted(kept: list[str] | None) -> list[str] | None:
    """The input columns to read beside the model's; None means all."""
    return None if kept == ["all"] else list(kept or ())


def predictions(
    opened: Any, frames: Iterator[Any], kept: list[str] | None, interval: float | None, counts: Counts
) -> Iterator[pl.DataFrame]:
    """Frames of predictions, with the columns to keep in front."""
    import polars as pl

    from ..data.refusals import unknown_column
    from .models import unpredicted

    if interval is not None and (opened.kind != "linear" or opened.classes):
        raise UsageError(
            f"intervals belong to least squares, and {opened.path} is another kind of model; leave --interval out",
            where="interval",
        )
    for frame, X in frames:
        unknown = next((name for name in kept or () if name != "all" and name not in frame.columns), None)
        if unknown is not None:
            raise unknown_column(unknown, frame.columns, source="the data")
        names = frame.columns if kept == ["all"] else list(kept or ())
        made: dict[str, Any] = {}
        lacking = unpredicted(X)
        if interval is not None:
            found = opened.record.interval(np.nan_to_num(X), interval)
            made = {"prediction": found.mean, "low": found.lower, "high": found.upper}
        else:
            scores = opened.scores(X)
            made = {"prediction": scores}
            if opened.classes:
                made = {"prediction": opened.labels(scores)}
                if scores.ndim == 2:
                    made |= {f"probability {label}": scores[:, k] for k, label in enumerate(opened.classes)}
                else:
                    made["probability" if opened.probabilistic else "score"] = scores
        clash = next((name for name in names if name in made), None)
        if clash is not None:
            raise UsageError(
                f"--keep has the column {clash!r}, and that is also the name of a column that predict adds; keep others, or rename it in the data",
                where="keep",
            )
        added = pl.DataFrame(made)
        if lacking.any():
            counts.empty += int(lacking.sum())
            added = added.select(pl.when(pl.lit(pl.Series(~lacking))).then(pl.all()))
        yield pl.concat([frame.select(names), added], how="horizontal")
