"""``fit --engine dask|spark``: the same fit where the files are read by a cluster that is there already."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..data.files import file_format, resolve
from ..errors import DataError, TruelineError, UsageError, nearest
from .engines import check_files, differing, pandas_options, separator_of
from .fitting import Asked, Fitted, alias_notes, as_shown, check, check_folds, schema_notes, solved

ENGINES = ("dask", "spark")
ENCODED = (
    "features",
    "formula",
    "weights",
    "where",
    "derive",
    "missing",
    "intercept",
)  # for the encoder of every partition
SOLVED = ("source", "target", "loss", "penalty", "alpha", "l1_ratio", "folds", "sample")  # all others are refused
SEVERAL = ("logistic", "poisson", "huber")  # losses that take several passes there
WORKER_SECONDS = 10  # that a scheduler without workers is given to find one


@contextlib.contextmanager
def opened(
    source: Any, engine: str, scheduler: str | None, master: str | None, progress: bool = False
) -> Iterator[Any]:
    """The files as a Dask or Spark table; what is started here is stopped here."""
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}{nearest(engine, ENGINES)}", where="engine")
    if (scheduler is not None and engine != "dask") or (master is not None and engine != "spark"):
        raise UsageError("--scheduler goes with --engine dask, --master with --engine spark", where="engine")
    paths = [source] if isinstance(source, str) else list(source)
    away = scheduler is not None or (master is not None and not master.startswith("local"))
    # Here is here, whichever way it is written, so that such files are looked at too.
    paths = [path.removeprefix("file://") if path.startswith("file:///") else path for path in paths]
    paths = [] if "-" in paths else [file for path in paths for file in _expanded(path, away)]
    kinds = {_kind(path) for path in paths}
    if len(kinds) != 1 or not kinds <= {"parquet", "csv", "tsv"}:
        raise UsageError("--engine reads Parquet or CSV files, one kind at a time", where="data")
    places = {path.partition("://")[0] if "://" in path else "here" for path in paths}
    if engine == "dask" and len(places) > 1:
        raise UsageError(
            f"Dask reads files from one place at a time, not from {' and '.join(sorted(places))}; give all files from one "
            "place",
            where="data",
        )
    with contextlib.ExitStack() as stack:
        try:
            check_files(paths, kind := kinds.pop())
            make = _dask if engine == "dask" else _spark
            yield make(stack, paths, kind, scheduler if engine == "dask" else master, progress)
        except Exception as error:
            if isinstance(error, TruelineError) and error.__cause__ is None:
                raise
            raise _failed(error, engine, paths) from (error if os.environ.get("TRUELINE_TRACEBACK") else None)


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


def _kind(path: str) -> str:
    """The kind of a file; by its name where it is not here, and a folder is one of Parquet files."""
    if os.path.isfile(path):
        return file_format(path)
    name = os.path.basename(path)
    return "csv" if ".csv" in name else "tsv" if ".tsv" in name else "parquet"


def _dask(stack: contextlib.ExitStack, paths: list[str], kind: str, scheduler: str | None, progress: bool) -> Any:
    if scheduler is not None:
        from distributed import Client

        try:
            client = stack.enter_context(Client(scheduler, timeout="5s"))
        except (OSError, ValueError) as error:
            why = str(error).splitlines()[0][:120]
            raise UsageError(
                f"the Dask scheduler {scheduler} cannot be reached ({why}); give an address such as tcp://host:8786",
                where="scheduler",
            ) from None
        _wait_for_a_worker(client, scheduler)
        if progress:
            from .console import paint, say

            say(paint(f"progress at {client.dashboard_link}", "dim", sys.stderr))
    elif progress:
        from dask.diagnostics import ProgressBar

        stack.enter_context(ProgressBar(minimum=1.0, out=sys.stderr))
    import dask.dataframe

    if kind == "parquet":
        # Without an index: pandas' own would be no column any more.
        table = dask.dataframe.read_parquet(paths, index=False)
    else:
        table = dask.dataframe.read_csv(paths, **pandas_options(paths, kind))
    if not len(table.columns):
        raise _nothing(paths)
    return table


def _wait_for_a_worker(client: Any, scheduler: str) -> None:
    """Refuse a scheduler that has none and gets none: Dask would wait for ever, without a word."""
    if client.scheduler_info(n_workers=-1)["workers"]:
        return
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise UsageError(
            f"the Dask scheduler {scheduler} has no workers; start one by `dask worker {scheduler}`", where="scheduler"
        ) from None


def _nothing(paths: list[str]) -> DataError:
    return DataError(
        f"no file matches {', '.join(paths[:3])}; check the path, and where the workers read it", where=paths[0]
    )


def _spark(stack: contextlib.ExitStack, paths: list[str], kind: str, master: str | None, progress: bool) -> Any:
    import shutil

    from pyspark.sql import SparkSession

    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        raise UsageError("Spark needs Java 17 or later, and there is none on PATH or in JAVA_HOME", where="engine")
    where = "local[*]" if master is None else master
    _check_master(where)
    if where.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else has to do with it
    if not os.environ.get("TRUELINE_TRACEBACK"):
        _hush(stack)
    builder = SparkSession.builder.master(where).appName("trueline fit")
    session = builder.config("spark.ui.showConsoleProgress", str(progress).lower()).getOrCreate()
    stack.callback(session.stop)
    if kind == "parquet":
        return session.read.parquet(*paths)
    return session.read.csv(paths, header=True, inferSchema=True, enforceSchema=False, sep=separator_of(kind))


def _hush(stack: contextlib.ExitStack) -> None:
    """No log of Spark's here: what goes wrong is said once, by us. Spark's own setting for it would be announced."""
    import tempfile

    if "LOG4J_CONFIGURATION_FILE" in os.environ:
        return  # somebody wants to see it
    path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "log4j2.properties")
    with open(path, "w", encoding="utf-8") as file:
        file.write(_SILENT)
    os.environ["LOG4J_CONFIGURATION_FILE"] = path
    stack.callback(os.environ.pop, "LOG4J_CONFIGURATION_FILE", None)


# Without an appender Spark takes it for no configuration at all; the gateway would raise the level again, and say so.
_SILENT = """
rootLogger.level = off
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""


def _check_master(master: str) -> None:
    """Refuse a master that Spark would look for in vain, which it does for minutes."""
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"there is no Spark master {master!r}; give one such as local[2], local[*], spark://host:7077, yarn or "
            "k8s://https://host:port",
            where="master",
        )
    if not master.startswith("spark://"):
        return
    import socket

    places = master.removeprefix("spark://").split(",")
    for place in places:
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
            return
        except (OSError, ValueError) as error:
            why = str(error)
    raise UsageError(
        f"the Spark master {master} cannot be reached ({why}); give an address such as spark://host:7077",
        where="master",
    )


_MASTER = re.compile(r"local(\[(\*|\d+)(, *\d+)?\]|-cluster\[.+\])?|spark://.+|yarn|k8s://.+")


_OTHERWISE = re.compile(r"Mismatched dtypes|could not convert string to float: ('.{,40}?')")  # as pandas says it


def _failed(error: Exception, engine: str, paths: list[str]) -> TruelineError:
    """The sentence for what an engine says of files, or of itself."""
    if isinstance(error, ModuleNotFoundError) and error.name in ("dask", "distributed", "pyspark"):
        name = {"dask": "dask[distributed]", "spark": "pyspark"}[engine]
        return UsageError(f"--engine {engine} needs pip install '{name}' ({error.name})", where="engine")
    for path in paths:
        if os.path.isfile(path) and _kind(path) == "parquet":
            wrong = differing(path, paths[0])
            if wrong:
                return DataError(wrong, where=path)
    whole = f"{error} {error.__cause__}"
    if engine == "dask" and "resolved to no files" in whole:
        return _nothing(paths)
    if isinstance(error, TruelineError) and not _OTHERWISE.search(whole):
        return error
    told = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in told if not line.startswith("An error occurred while calling")] or [type(error).__name__]
    what = told[0].removeprefix("Original Message: ")[:300].rstrip(".")
    otherwise = _OTHERWISE.search(whole)
    if otherwise:
        value = f" ({otherwise[1]})" if otherwise[1] else ""
        what = f"a column has other values{value} than in its first rows"
    return DataError(
        f"{engine.capitalize()} cannot read {paths[0]}{' and what follows' if len(paths) > 1 else ''}: {what}; check the "
        "files, or convert them to Parquet of one schema",
        where=paths[0],
    )


def fit_elsewhere(
    asked: Asked, engine: str, scheduler: str | None, master: str | None, progress: bool = False
) -> Fitted:
    """Scan and solve, or solve by jobs, on the engine."""
    check(asked)
    for field in dataclasses.fields(asked):
        unset = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if field.name not in (*ENCODED, *SOLVED) and getattr(asked, field.name) != unset:
            option = field.name.replace("_", "-")
            raise UsageError(
                f"--{option} is not taken with --engine; leave it out, or fit without --engine", where=field.name
            )
    if asked.loss not in (None, "squared", *SEVERAL):
        raise UsageError(f"with --engine the loss is squared, {', '.join(SEVERAL)}", where="loss")
    with opened(asked.source, engine, scheduler, master, progress) as table:
        began = time.perf_counter()
        options: dict[str, Any] = {name: getattr(asked, name) for name in ENCODED}
        if asked.loss in SEVERAL:
            return _by_jobs(asked, table, str(asked.loss), options, began)
        from ..scale.cluster import scan_with_notes, text_target

        if asked.loss is None and text_target(table, asked.target):
            return _by_jobs(asked, table, "logistic", options, began)
        moments, notes = scan_with_notes(table, target=asked.target, folds=asked.folds, sample=asked.sample, **options)
        moments = moments.designed()
        asked.target = moments.targets[0]
        if asked.loss is None and _zero_or_one(moments):
            return _by_jobs(asked, table, "logistic", options, began)
        return solved(asked, moments, began, notes)


def _zero_or_one(moments: Any) -> bool:
    """Whether every target is 0 or 1: whole numbers have y² ≥ y, with equality for these alone."""
    part, k = moments.total, len(moments.terms)
    total = part.weight[0] * part.mean[0][k]
    return bool(moments.integer[k]) and abs(part.raw_squares()[k] - total) <= 1e-9 * max(1.0, abs(total))


def _by_jobs(asked: Asked, table: Any, loss: str, options: dict[str, Any], began: float) -> Fitted:
    from ..objective.losses import resolve_loss
    from ..objective.penalties import resolve_penalty
    from ..scale.cluster import fit_generalized, fit_logistic

    if asked.penalty not in ("none", "ridge"):
        raise UsageError("with --engine this loss takes --penalty none or ridge", where="penalty")
    if asked.penalty == "ridge" and asked.alpha == "cv":
        raise UsageError("with --engine this loss takes a number as --alpha", where="alpha")
    check_folds(asked, loss)
    alpha = float(asked.alpha) if asked.penalty == "ridge" else None
    penalty = resolve_penalty(None) if alpha is None else resolve_penalty("l2", alpha=alpha)
    if loss == "logistic":
        record = fit_logistic(table, target=asked.target, penalty=penalty, **options)
    else:
        record = fit_generalized(table, target=asked.target, loss=resolve_loss(loss), penalty=penalty, **options)
    record = as_shown(record)
    seconds = {"read": 0.0, "solve": time.perf_counter() - began}
    notes = [f"{record.statistics['jobs']} jobs", *schema_notes(record.schema), *alias_notes(record)]
    return Fitted(record, record.statistics["n"], record.targets[0], loss, asked.penalty, alpha, notes, seconds)
