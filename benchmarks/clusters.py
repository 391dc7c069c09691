"""Dask and Spark: trueline against dask-ml and Spark MLlib on the same cluster, the same data, in memory there.

Accuracy is made equal before the clock starts: every peer's setting is tightened until its objective is within a
relative 1e-6 of the best one known (trueline's fit at a certified gap of 1e-12), and only then timed; a peer that never
gets there is timed at its tightest, and the note says how far off it is. trueline is timed at its default, whose gap of
1e-6 is proven by its own certificate. Objectives are computed here from the coefficients, by one formula for all.

Everybody's data lie ready before the clock starts, each in the form he likes best: dask-ml's arrays are persisted and
MLlib's vectors assembled and cached; trueline reads the user's own persisted or cached table of columns, and on Spark
MLlib's vectors too. MLlib is timed from the table of columns as well, its assembler inside the clock.

The limits: two independent processes that run the same task at once against one alone (what two workers can gain on this
machine); on Spark a job that does nothing, and ``mapInArrow`` that only counts rows, handed over by columns, as one array a row and
from vectors, which is how trueline takes them (what Spark's part of each of our jobs costs by itself). These tables are cached from
this process; what Spark reads from Parquet files is in ``clusters_files``.
The constants of the cost model in docs/clusters.md are measured at its own 500 columns.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .harness import Row, interleaved

NAME = "Clusters"
COLUMNS = 50
NEAR = 1e-6  # relative distance of objectives that counts as equal
WIDE = 500  # the cost model's columns


def made(n: int, d: int = COLUMNS, seed: int = 0) -> Any:
    """A frame of numbers with a target and a label."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = np.random.default_rng(1).normal(size=d) / np.sqrt(d)  # of every partition the same
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])
    return frame.assign(y=X @ w + rng.normal(size=n), label=(X @ w + rng.logistic(size=n) > 0).astype(float))


def objective(frame: Any, kind: str, coef: Any, intercept: float) -> float:
    """Mean squared error, or mean logistic loss plus ‖w‖²/(2n)."""
    X = frame.filter(regex="^x").to_numpy()
    w = np.ravel(coef)
    scores = X @ w + float(np.ravel(intercept)[0])
    if kind == "linear":
        return float(np.mean((scores - frame.y.to_numpy()) ** 2))
    signs = 2.0 * frame.label.to_numpy() - 1.0
    return float(np.mean(np.logaddexp(0.0, -signs * scores)) + 0.5 * w @ w / len(frame))


def tightened(
    frame: Any, kind: str, best: float, settings: Iterator[Any], fit: Callable[[Any], Any]
) -> tuple[Any, float]:
    """(the first setting whose objective is near the best, how far it is); the nearest where none is."""
    tried = []
    for setting in settings:
        coef, intercept = fit(setting)
        off = objective(frame, kind, coef, intercept) / best - 1.0
        if not np.isfinite(off):
            continue
        tried.append((off, setting))
        if off <= NEAR:
            return setting, off
    off, setting = min(tried, key=lambda pair: pair[0])
    return setting, off


def one_partition(d: int, n: int) -> Any:
    """A scan's task, its table and its answer, at the cost model's width."""
    import polars as pl

    from trueline.scale.cluster import Scan

    table = pl.from_pandas(made(n, d).drop(columns="label"))
    task = Scan(dict(table.schema), {"target": "y", "folds": 5})
    return task, table


def busy(rounds: int, d: int, n: int, gate: Any, answers: Any) -> None:
    """Run a partition's task again and again, in a process of its own."""
    from trueline.scale.tables import answer

    task, table = one_partition(d, n)
    answer(task, 0, iter([table]))
    gate.wait()
    start = time.perf_counter()
    for _ in range(rounds):
        answer(task, 0, iter([table]))
    answers.put(time.perf_counter() - start)


def alone_and_together(rounds: int, d: int, n: int) -> tuple[float, float]:
    """Seconds of one process alone, and of the slower of two at once, each with the same work."""
    context = multiprocessing.get_context("spawn")
    seconds = []
    for count in (1, 2):
        gate, answers = context.Barrier(count), context.Queue()
        running = [context.Process(target=busy, args=(rounds, d, n, gate, answers)) for _ in range(count)]
        for process in running:
            process.start()
        seconds.append(max(answers.get() for _ in running))
        for process in running:
            process.join()
    return seconds[0], seconds[1]


def constants(quick: bool) -> list[Row]:
    """What the cost model rests on: one partition's task and one merge at 500 columns, on one thread."""
    from trueline.scale.statistic import limit, merge
    from trueline.scale.tables import answer

    n = 2_000 if quick else 40_000
    task, table = one_partition(WIDE, n)
    times, results = interleaved({"map": lambda: answer(task, 0, iter([table]))[1:]})
    raw = results["map"]
    merging, _ = interleaved({"merge": lambda: merge([raw] * 8)}, rounds=2)
    alone, together = alone_and_together(1 if quick else 6, COLUMNS, 5_000 if quick else 60_000)
    return [
        Row(f"rows a second and thread, {WIDE} columns, 5 folds", n / times["map"], 0.0, "", "rows/s"),
        Row(f"bytes of a statistic, {WIDE} columns, 5 folds", float(len(raw)), float(limit(WIDE, 5)), "the limit", "B"),
        Row(f"merging eight statistics, {WIDE} columns, 5 folds", merging["merge"], 0.0, ""),
        Row("two processes at once, twice the work, against one alone", together, 2.0 * alone, "one process", aim=None,
            note="no engine: what a second worker can gain on this machine"),
    ]  # fmt: skip


@contextlib.contextmanager
def dask_cluster(workers: int, made: Callable[[], Any]) -> Iterator[tuple[Any, Any]]:
    """(the client of so many one-threaded workers, the table persisted there)."""
    from distributed import Client, LocalCluster, wait

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        table = made().persist()
        wait(table)
        yield client, table


def there(client: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    """A call on this client's cluster."""

    def run() -> Any:
        with client.as_current():
            return call()

    return run


def ours_on_dask(client: Any, table: Any) -> dict[str, Callable[[], Any]]:
    """Our two fits there."""
    import trueline as tl

    features = [name for name in table.columns if name.startswith("x")]
    return {
        "linear": there(client, lambda: tl.LinearRegression().fit(table, target="y", features=features, folds=None)),
        "logistic": there(client, lambda: tl.LogisticRegression().fit(table, target="label", features=features)),
    }


def scaled(n: int, d: int, parts: int) -> list[Row]:
    """Two workers against one, in turn, on a table that is made where it lies."""
    import dask.dataframe as dd

    def table() -> Any:
        return dd.from_map(functools.partial(made, n // parts, d), range(parts), meta=made(2, d))

    alone, together = alone_and_together(6, d, n // parts)
    with dask_cluster(1, table) as one, dask_cluster(2, table) as two:
        contenders = {f"one {name}": call for name, call in ours_on_dask(*one).items()}
        seconds, _ = interleaved(contenders | ours_on_dask(*two), rounds=5)
    return scaling(f"{n:,} × {d}", seconds, 2.0 * alone / together)


def scaling(size: str, seconds: dict[str, float], bare: float) -> list[Row]:
    """Two workers against one."""
    return [
        Row(f"Dask, {kind}, {size}: two workers against one", seconds[kind], seconds[f"one {kind}"], "one worker",
            aim=1.7, note=f"two bare processes just then: {bare:.2f}×")
        for kind in ("linear", "logistic")
    ]  # fmt: skip


def on_dask(frame: Any, best: dict[str, float]) -> tuple[dict[str, float], dict[str, str]]:
    """(seconds on a cluster of two workers and, in turn with it, on one of one; notes on the peers' accuracy)."""
    import dask.dataframe as dd
    from dask_ml.linear_model import LinearRegression, LogisticRegression
    from distributed import wait

    notes: dict[str, str] = {}
    features = [name for name in frame.columns if name.startswith("x")]

    def persisted() -> Any:
        return dd.from_pandas(frame, npartitions=8)

    with dask_cluster(1, persisted) as (one, alone), dask_cluster(2, persisted) as (two, table):
        X = table[features].to_dask_array(lengths=True).persist()
        y, label = (table[name].to_dask_array(lengths=True).persist() for name in ("y", "label"))
        wait([X, y, label])
        contenders: dict[str, Any] = dict(ours_on_dask(two, table))
        contenders |= {f"one {name}": call for name, call in ours_on_dask(one, alone).items()}
        peers = {"linear": (LinearRegression, y), "logistic": (LogisticRegression, label)}
        for kind, (peer, target) in peers.items():
            # C = 1e8 is no penalty for the least squares; L-BFGS and Newton are dask-ml's fastest here.
            settings = iter([("lbfgs", 1e-4), ("newton", 1e-6), ("lbfgs", 1e-8), ("lbfgs", 1e-12)])
            C = 1e8 if kind == "linear" else 1.0

            def fitted(setting: Any, peer: Any = peer, target: Any = target, C: float = C) -> Any:
                made = peer(solver=setting[0], tol=setting[1], max_iter=500, C=C).fit(X, target)
                return made.coef_, made.intercept_

            setting, off = tightened(frame, kind, best[kind], settings, fitted)
            notes[kind] = f"dask-ml {setting[0]}, tol {setting[1]:g}: objective above the best by {off:.1e}"
            contenders[f"peer {kind}"] = there(two, lambda setting=setting, fitted=fitted: fitted(setting))
        seconds, results = interleaved(contenders, rounds=5)
        for kind in ("linear", "logistic"):
            off = objective(frame, kind, results[kind].coef_, results[kind].intercept_) / best[kind] - 1.0
            notes[f"ours {kind}"] = f"trueline above by {off:.1e}"
        return seconds, notes


@contextlib.contextmanager
def spark_session() -> Iterator[Any]:
    """A local session of two threads, stopped in the end."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "6g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def mllib_linear(rows: Any) -> Any:
    """MLlib's coefficients and intercept from rows of vectors."""
    from pyspark.ml.regression import LinearRegression

    made = LinearRegression(labelCol="y", solver="normal").fit(rows)
    return made.coefficients.toArray(), made.intercept


def mllib_logistic(rows: Any, n: int, tol: float) -> Any:
    """MLlib's coefficients and intercept from rows of vectors."""
    from pyspark.ml.classification import LogisticRegression

    peer = LogisticRegression(labelCol="label", regParam=1.0 / n, standardization=False, tol=tol, maxIter=500)
    made = peer.fit(rows)
    return made.coefficients.toArray(), made.intercept


def mllib_notes(frame: Any, best: dict[str, float], vectors: Any) -> tuple[float, dict[str, str]]:
    """(the tolerance at which MLlib's logistic regression is near the best, notes on its accuracy)."""
    notes: dict[str, str] = {}
    settings = iter([1e-4, 1e-6, 1e-9, 1e-12])
    fit = functools.partial(mllib_logistic, vectors, len(frame))
    chosen, off = tightened(frame, "logistic", best["logistic"], settings, fit)
    notes["logistic"] = f"MLlib tol {chosen:g}: objective above the best by {off:.1e}"
    _, off = tightened(frame, "linear", best["linear"], iter([vectors]), mllib_linear)
    notes["linear"] = f"MLlib normal equations: objective above the best by {off:.1e}"
    return chosen, notes


def on_spark(frame: Any, best: dict[str, float]) -> tuple[dict[str, float], dict[str, str]]:
    """(seconds in a local session of two threads, notes on the peers' accuracy)."""
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql.functions import array

    import trueline as tl
    from trueline.scale.spark import _batches_of
    from trueline.scale.spark_batches import batch_rows
    from trueline.scale.vectors import opened

    with spark_session() as spark:
        features = [name for name in frame.columns if name.startswith("x")]
        table = spark.createDataFrame(frame).repartition(8).cache()
        table.count()
        vectors = VectorAssembler(inputCols=features, outputCol="features").transform(table)
        vectors = vectors.select("features", "y", "label").cache()
        vectors.count()

        chosen, notes = mllib_notes(frame, best, vectors)

        def counted(rows: Any) -> Any:
            def count(batches: Iterator[Any]) -> Iterator[Any]:
                import pyarrow

                total = sum(batch.num_rows for batch in batches)
                yield pyarrow.RecordBatch.from_pydict({"n": [total]})

            return rows.mapInArrow(count, "n long").toArrow().column("n").to_pylist()

        def arrays(rows: Any) -> Any:
            with _batches_of(spark, batch_rows(len(everything))):
                return counted(rows)

        values = opened(vectors, "features", vector=True).values("vector")

        assembler = VectorAssembler(inputCols=features, outputCol="features")
        everything = [*features, "y"]
        seconds, results = interleaved(
            {
                "linear": lambda: tl.LinearRegression().fit(vectors, target="y", features=["features"], folds=None),
                "columns linear": lambda: tl.LinearRegression().fit(table, target="y", features=features, folds=None),
                "peer linear": lambda: mllib_linear(vectors),
                "same linear": lambda: mllib_linear(assembler.transform(table)),
                "logistic": lambda: tl.LogisticRegression().fit(vectors, target="label", features=["features"]),
                "columns logistic": lambda: tl.LogisticRegression().fit(table, target="label", features=features),
                "peer logistic": lambda: mllib_logistic(vectors, len(frame), chosen),
                "same logistic": lambda: mllib_logistic(assembler.transform(table), len(frame), chosen),
                "nothing": lambda: counted(spark.range(8, numPartitions=8)),
                "columns": lambda: counted(table.select(*everything)),
                "arrays": lambda: arrays(table.select(array(*everything).alias("row"))),
                "vectors": lambda: arrays(vectors.select(values, array("y").alias("row"))),
            },
            rounds=3,
        )
        jobs = results["logistic"].model_.statistics["jobs"]
        notes["jobs"] = f"{jobs} jobs"
        for kind in ("linear", "logistic"):
            off = objective(frame, kind, results[kind].coef_, results[kind].intercept_) / best[kind] - 1.0
            notes[f"ours {kind}"] = f"trueline above by {off:.1e}"
        return seconds, notes


def best_known(frame: Any) -> dict[str, float]:
    """The smallest objectives, from this machine alone, at certified accuracy."""
    import trueline as tl

    X = frame.filter(regex="^x").to_numpy()
    linear = tl.LinearRegression().fit(X, frame.y.to_numpy())
    logistic = tl.LogisticRegression(tol=1e-12).fit(X, frame.label.to_numpy())
    return {
        "linear": objective(frame, "linear", linear.coef_, linear.intercept_),
        "logistic": objective(frame, "logistic", logistic.coef_, logistic.intercept_),
    }


def compared(engine: str, peer: str, size: str, found: tuple[dict[str, float], dict[str, str]]) -> list[Row]:
    """The two rows of an engine."""
    seconds, notes = found
    return [
        Row(f"{engine}, {kind} regression, {size}", seconds[kind], seconds[f"peer {kind}"], peer, aim=5.0,
            note=f"{notes[kind]}; {notes[f'ours {kind}']}")
        for kind in ("linear", "logistic")
    ]  # fmt: skip


def floors(size: str, found: tuple[dict[str, float], dict[str, str]]) -> list[Row]:
    """Fits from the table of columns, and Spark's own part of our jobs."""
    seconds, notes = found
    whole, jobs = "MLlib's whole linear regression", int(notes["jobs"].split()[0])
    same = "its vectors assembled inside the clock, from the table that trueline reads"

    def share(floor: str, linear: str, logistic: str) -> str:
        first, second = seconds[floor] / seconds[linear], jobs * seconds[floor] / seconds[logistic]
        return f"{100 * first:.0f} % of the linear fit, {100 * second:.0f} % of the logistic one ({notes['jobs']})"

    rows = []
    for kind in ("linear", "logistic"):
        ours = seconds[f"columns {kind}"]
        rows += [
            Row(f"Spark, {kind}, {size}: ours from a cached table of columns", ours, seconds[f"peer {kind}"],
                "MLlib from cached vectors", aim=5.0),
            Row(f"Spark, {kind}, {size}: both from that table", ours, seconds[f"same {kind}"], "MLlib", note=same),
        ]  # fmt: skip
    return [
        *rows,
        Row("Spark, a job of 8 tasks that do nothing", seconds["nothing"], seconds["peer linear"], whole,
            note="a floor of each of our jobs"),
        Row(f"Spark, {size}: handing over columns, to count rows", seconds["columns"], seconds["peer linear"], whole),
        Row(f"Spark, {size}: handing over columns as an array a row, to count rows", seconds["arrays"],
            seconds["peer linear"], whole, note=share("arrays", "columns linear", "columns logistic")),
        Row(f"Spark, {size}: handing over vectors, to count rows", seconds["vectors"], seconds["peer linear"], whole,
            note=share("vectors", "linear", "logistic")),
    ]  # fmt: skip


def run(quick: bool) -> list[Row]:
    warnings.simplefilter("ignore")
    rows = constants(quick)
    shapes = [(20_000, COLUMNS)] if quick else [(500_000, COLUMNS), (100_000, 200)]
    for n, d in shapes:
        frame = made(n, d)
        size, best = f"{n:,} × {d}", best_known(frame)
        found = on_dask(frame, best)
        rows += compared("Dask", "dask-ml", size, found)
        alone, together = alone_and_together(
            1 if quick else 6, d, 5_000 if quick else 12_500 if d > COLUMNS else 60_000
        )
        rows += scaling(size, found[0], 2.0 * alone / together)
        if shutil.which("java"):
            found = on_spark(frame, best)
            rows += compared("Spark, both from cached vectors", "Spark MLlib", size, found)
            rows += floors(size, found)
    # What the engine costs is a few hundredths of a second a job: on tables for which nobody needs a cluster, much of the fit.
    return rows + ([] if quick else [*scaled(2_000_000, COLUMNS, 16), *scaled(8_000_000, COLUMNS, 64)])
