"""Dask and Spark: trueline against dask-ml and Spark MLlib on the same cluster and the same data in memory there.

Linear regression: both at their full accuracy. Logistic regression: the peers run at fixed,
tight tolerances, and equality of the objectives is not enforced: read its rows with that in mind. One cluster of two worker processes; scaling compares it with one.
The constants of the cost model in docs/clusters.md (rows a second and worker, bytes and seconds of a merge) are here too.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

import numpy as np

from .harness import Row, interleaved

NAME = "Clusters"
COLUMNS = 50


def made(n: int) -> Any:
    """A frame of numbers with a target and a label."""
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, COLUMNS))
    w = rng.normal(size=COLUMNS) / np.sqrt(COLUMNS)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)])
    return frame.assign(y=X @ w + rng.normal(size=n), label=(X @ w + rng.logistic(size=n) > 0).astype(float))


def constants(frame: Any) -> list[Row]:
    """What the cost model rests on: one partition's task and one merge, on one thread."""
    import polars as pl

    from trueline.scale.cluster import Scan
    from trueline.scale.statistic import limit, merge

    table = pl.from_pandas(frame.drop(columns="label"))
    task = Scan(dict(table.schema), {"target": "y", "folds": 5})
    times, results = interleaved({"map": lambda: task.run(0, iter([table]))})
    raw = results["map"]
    merging, _ = interleaved({"merge": lambda: merge([raw] * 8)})
    most = limit(COLUMNS, 5)
    return [
        Row(f"rows a second and thread, {COLUMNS} columns, 5 folds", len(frame) / times["map"], 0.0, "", "rows/s"),
        Row("bytes of a statistic", float(len(raw)), float(most), "the limit", "B"),
        Row("merging eight statistics", merging["merge"], 0.0, ""),
    ]


def on_dask(frame: Any, workers: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Seconds on a cluster of this many one-threaded workers."""
    import dask.array as da
    import dask.dataframe as dd
    from dask_ml.linear_model import LinearRegression, LogisticRegression
    from distributed import Client, LocalCluster, wait

    import trueline as tl

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        table = dd.from_pandas(frame, npartitions=8).persist()
        X = table[[f"x{j}" for j in range(COLUMNS)]].to_dask_array(lengths=True).persist()
        y, label = (table[name].to_dask_array(lengths=True).persist() for name in ("y", "label"))
        wait([table, X, y, label])
        assert isinstance(X, da.Array)
        features = [f"x{j}" for j in range(COLUMNS)]
        contenders: dict[str, Any] = {
            "linear": lambda: tl.LinearRegression().fit(table, target="y", features=features, folds=None),
            "logistic": lambda: tl.LogisticRegression().fit(table, target="label", features=features),
        }
        if workers == 2:
            contenders |= {
                "dask-ml linear": lambda: LinearRegression(solver="admm").fit(X, y),
                "dask-ml logistic": lambda: LogisticRegression(solver="lbfgs", tol=1e-6).fit(X, label),
            }
        return interleaved(contenders, rounds=2)


def on_spark(frame: Any) -> dict[str, float]:
    """Seconds in a local session of two threads."""
    import os

    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression
    from pyspark.sql import SparkSession

    import trueline as tl

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        features = [f"x{j}" for j in range(COLUMNS)]
        table = spark.createDataFrame(frame).repartition(8).cache()
        table.count()
        vectors = VectorAssembler(inputCols=features, outputCol="features").transform(table).cache()
        vectors.count()
        n = len(frame)
        best, _ = interleaved(
            {
                "linear": lambda: tl.LinearRegression().fit(table, target="y", features=features, folds=None),
                "MLlib linear": lambda: LinearRegression(labelCol="y", solver="normal").fit(vectors),
                "logistic": lambda: tl.LogisticRegression().fit(table, target="label", features=features),
                "MLlib logistic": lambda: LogisticRegression(
                    labelCol="label", regParam=1.0 / n, standardization=False, tol=1e-9, maxIter=200
                ).fit(vectors),
            },
            rounds=2,
        )
        return best
    finally:
        spark.stop()


def run(quick: bool) -> list[Row]:
    frame = made(20_000 if quick else 1_000_000)
    size = f"{len(frame):,} × {COLUMNS}"
    rows = constants(frame.head(200_000))
    began = time.perf_counter()
    two, _ = on_dask(frame, 2)
    for kind in ("linear", "logistic"):
        rows.append(Row(f"Dask, {kind} regression, {size}", two[kind], two[f"dask-ml {kind}"], "dask-ml", aim=5.0))
    one, _ = on_dask(frame, 1)
    for kind in ("linear", "logistic"):
        rows.append(Row(f"Dask, {kind}: two workers against one", two[kind], one[kind], "one worker", aim=1.7))
    if shutil.which("java"):
        spark = on_spark(frame)
        for kind in ("linear", "logistic"):
            rows.append(
                Row(f"Spark, {kind} regression, {size}", spark[kind], spark[f"MLlib {kind}"], "Spark MLlib", aim=5.0)
            )
    print(f"{time.perf_counter() - began:.0f} s")
    return rows
