"""``fit --engine dask|spark``: the same fit where the files are read by a cluster that is there already."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..data.files import resolve
from ..errors import DataError, UsageError, nearest
from .fitting import Asked, Fitted, check, schema_notes, solved

ENGINES = ("dask", "spark")
SEVERAL = ("logistic", "poisson", "huber")  # losses that take several passes there


@contextlib.contextmanager
def opened(source: Any, engine: str, scheduler: str | None, master: str | None) -> Iterator[Any]:
    """The files as a Dask or Spark table; what is started here is stopped here."""
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}{nearest(engine, ENGINES)}", where="engine")
    if (scheduler is not None and engine != "dask") or (master is not None and engine != "spark"):
        raise UsageError("--scheduler goes with --engine dask, --master with --engine spark", where="engine")
    paths = [source] if isinstance(source, str) else list(source)
    kinds = {"csv" if ".csv" in path or ".tsv" in path else "parquet" for path in paths}
    if len(kinds) > 1 or "-" in paths:
        raise UsageError("--engine reads Parquet or CSV files, one kind at a time", where="data")
    kind = kinds.pop()
    away = scheduler is not None or (master is not None and not master.startswith("local"))
    paths = [file for path in paths for file in _expanded(path, away)]
    with contextlib.ExitStack() as stack:
        try:
            yield _dask(stack, paths, kind, scheduler) if engine == "dask" else _spark(stack, paths, kind, master)
        except ImportError as error:
            name = {"dask": "dask[distributed]", "spark": "pyspark"}[engine]
            raise UsageError(f"--engine {engine} needs pip install '{name}' ({error.name})", where="engine") from None


def _expanded(path: str, away: bool) -> list[str]:
    """The files of a pattern, sorted; what is not here may still be where the workers are, and a folder is theirs to read."""
    if os.path.isdir(path):
        return [path]
    try:
        return resolve(path)
    except DataError:
        if away:
            return [path]
        raise


def _dask(stack: contextlib.ExitStack, paths: list[str], kind: str, scheduler: str | None) -> Any:
    if scheduler is not None:
        from distributed import Client

        try:
            stack.enter_context(Client(scheduler, timeout="5s"))
        except (OSError, ValueError) as error:
            why = str(error).splitlines()[0][:120]
            raise UsageError(
                f"the Dask scheduler {scheduler} cannot be reached ({why}); give an address such as tcp://host:8786",
                where="scheduler",
            ) from None
    import dask.dataframe

    try:
        return dask.dataframe.read_parquet(paths) if kind == "parquet" else dask.dataframe.read_csv(paths)
    except OSError as error:
        raise DataError(f"{paths[0]} cannot be read: {error}", where=paths[0]) from None


def _spark(stack: contextlib.ExitStack, paths: list[str], kind: str, master: str | None) -> Any:
    import shutil

    from pyspark.errors import AnalysisException
    from pyspark.sql import SparkSession

    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise UsageError("Spark needs Java 17 or later, and there is none on PATH or in JAVA_HOME", where="engine")
    where = "local[*]" if master is None else master
    if where.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master(where).appName("trueline fit").getOrCreate()
    stack.callback(session.stop)
    try:
        if kind == "parquet":
            return session.read.parquet(*paths)
        return session.read.csv(paths, header=True, inferSchema=True)
    except AnalysisException as error:
        raise DataError(f"{paths[0]} cannot be read: {str(error).splitlines()[0]}", where=paths[0]) from None


def fit_elsewhere(asked: Asked, engine: str, scheduler: str | None, master: str | None) -> Fitted:
    """Scan and solve, or solve by jobs, on the engine."""
    check(asked)
    if asked.holdout is not None:
        raise UsageError("--holdout is not taken with --engine; filter the rows with --where", where="holdout")
    if asked.loss not in (None, "squared", *SEVERAL):
        raise UsageError(f"with --engine the loss is squared, {', '.join(SEVERAL)}", where="loss")
    with opened(asked.source, engine, scheduler, master) as table:
        began = time.perf_counter()
        options: dict[str, Any] = {
            "features": asked.features, "formula": asked.formula, "weights": asked.weights, "where": asked.where,
            "derive": asked.derive, "missing": asked.missing,
        }  # fmt: skip
        if asked.loss in SEVERAL:
            return _by_jobs(asked, table, str(asked.loss), options, began)
        from ..scale.cluster import scan, text_target

        if asked.loss is None and text_target(table, asked.target):
            return _by_jobs(asked, table, "logistic", options, began)
        moments = scan(table, target=asked.target, folds=asked.folds, sample=asked.sample, **options).designed()
        asked.target = moments.targets[0]
        if asked.loss is None and _zero_or_one(moments):
            return _by_jobs(asked, table, "logistic", options, began)
        return solved(asked, moments, began)


def _zero_or_one(moments: Any) -> bool:
    """Whether every target is 0 or 1: whole numbers have y² ≥ y, with equality for these alone."""
    part, k = moments.total, len(moments.terms)
    total = part.weight[0] * part.mean[0][k]
    return bool(moments.integer[k]) and abs(part.raw_squares()[k] - total) <= 1e-9 * max(1.0, abs(total))


def _by_jobs(asked: Asked, table: Any, loss: str, options: dict[str, Any], began: float) -> Fitted:
    from ..parts.losses import loss as make_loss
    from ..parts.penalties import penalty as make_penalty
    from ..scale.cluster import fit_generalized, fit_logistic

    if asked.penalty not in ("none", "ridge"):
        raise UsageError("with --engine this loss takes --penalty none or ridge", where="penalty")
    if asked.penalty == "ridge" and asked.alpha == "cv":
        raise UsageError("with --engine this loss takes a number as --alpha", where="alpha")
    alpha = float(asked.alpha) if asked.penalty == "ridge" else None
    penalty = make_penalty(None) if alpha is None else make_penalty("l2", alpha=alpha)
    if loss == "logistic":
        record = fit_logistic(table, target=asked.target, penalty=penalty, **options)
    else:
        record = fit_generalized(table, target=asked.target, loss=make_loss(loss), penalty=penalty, **options)
    seconds = {"read": 0.0, "solve": time.perf_counter() - began}
    notes = [f"{record.statistics['jobs']} jobs", *schema_notes(record.schema)]
    return Fitted(record, record.statistics["n"], record.targets[0], loss, asked.penalty, alpha, notes, seconds)
