"""Spark from Parquet files, as Spark writes them (Snappy): trueline against MLlib; Spark reads the files.

MLlib is timed twice: with its vectors assembled and cached before the clock starts, which is the hardest comparison as we read
and decode the files at every job, and from the same files, read and assembled inside the clock. Accuracy as in ``clusters``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from typing import Any

from .clusters import (
    COLUMNS,
    best_known,
    made,
    mllib_linear,
    mllib_logistic,
    mllib_notes,
    objective,
    spark_session,
)
from .harness import Row, interleaved

NAME = "Clusters: Spark from Parquet files"


def written(spark: Any, frame: Any, folder: str, files: int) -> Any:
    """The frame as this many files that Spark wrote, and its dataframe of them."""
    plain = os.path.join(folder, "plain.parquet")
    frame.to_parquet(plain)
    spark.read.parquet(plain).repartition(files).write.parquet(os.path.join(folder, "rows"))
    os.unlink(plain)
    return spark.read.parquet(os.path.join(folder, "rows"))


def from_files(frame: Any, best: dict[str, float], files: int, rounds: int) -> list[Row]:
    """Four rows of one size."""
    from pyspark.ml.feature import VectorAssembler

    import trueline as tl

    features = [name for name in frame.columns if name.startswith("x")]
    size = f"{len(frame):,} × {len(features)}"
    with spark_session() as spark, tempfile.TemporaryDirectory() as folder:
        table = written(spark, frame, folder, files)
        assembler = VectorAssembler(inputCols=features, outputCol="features")
        vectors = assembler.transform(table).select("features", "y", "label").cache()
        vectors.count()
        tol, notes = mllib_notes(frame, best, vectors)
        seconds, results = interleaved(
            {
                "linear": lambda: tl.LinearRegression().fit(table, target="y", features=features, folds=None),
                "cached linear": lambda: mllib_linear(vectors),
                "files linear": lambda: mllib_linear(assembler.transform(table)),
                "logistic": lambda: tl.LogisticRegression().fit(table, target="label", features=features),
                "cached logistic": lambda: mllib_logistic(vectors, len(frame), tol),
                "files logistic": lambda: mllib_logistic(assembler.transform(table), len(frame), tol),
            },
            rounds=rounds,
        )
    rows = []
    for kind in ("linear", "logistic"):
        off = objective(frame, kind, results[kind].coef_, results[kind].intercept_) / best[kind] - 1.0
        jobs = "" if kind == "linear" else f"; {results[kind].model_.statistics['jobs']} jobs"
        rows += [
            Row(f"{kind} regression, {size}, from {files} files", seconds[kind], seconds[f"cached {kind}"],
                "MLlib, vectors cached", aim=5.0, note=f"{notes[kind]}; trueline above by {off:.1e}{jobs}"),
            Row(f"{kind} regression, {size}: both from the files", seconds[kind], seconds[f"files {kind}"],
                "MLlib, from the files", aim=5.0),
        ]  # fmt: skip
    return rows


def run(quick: bool) -> list[Row]:
    warnings.simplefilter("ignore")
    if not shutil.which("java"):
        return []
    sizes = [(500_000, COLUMNS, 8, 4), (100_000, 200, 8, 4), (2_000_000, COLUMNS, 16, 2)]
    rows: list[Row] = []
    for n, d, files, rounds in [(20_000, COLUMNS, 2, 1)] if quick else sizes:
        frame = made(n, d)
        rows += from_files(frame, best_known(frame), files, rounds)
    return rows
