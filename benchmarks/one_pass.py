"""Closed forms from one pass against scikit-learn, statsmodels and Polars: same data, same run, accuracy compared.

1M×100 in memory; a Parquet file of 10M×50 with row groups of 131,072 rows; 150×4. Where a peer takes half a minute
it runs once. Growth in n and d is drawn by docs/onepass_pictures.py.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import re
import tempfile
import time
from typing import Any

import numpy as np

from .harness import Row, interleaved

NAME = "One pass: least squares, ridge, lasso and folds from moments"


def table(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    beta = np.where(rng.random(d) < 0.5, rng.standard_normal(d), 0.0)
    y = X @ beta + 3 * rng.standard_normal(n) + 1
    return X, y


def digits(a: Any, b: Any) -> float:
    """Digits in which two answers agree, relative to the largest entry."""
    a, b = np.ravel(a), np.ravel(b)
    return float(-np.log10(np.abs(a - b).max() / np.abs(b).max() + 1e-17))


def run(quick: bool) -> list[Row]:
    n, d = (60_000, 30) if quick else (1_000_000, 100)
    rows = in_memory(n, d, quick)
    return rows + small()


def in_memory(n: int, d: int, quick: bool) -> list[Row]:
    from sklearn import linear_model

    import trueline as tl

    X, y = table(n, d)
    label = f"{n:,}×{d}"
    rows = []
    alphas = np.logspace(-2, 5, 20)

    best, made = interleaved(
        {
            "trueline": lambda: tl.LinearRegression().fit(X, y),
            "error-free": lambda: tl.Moments.from_arrays(X, y, level=2),
            "scikit-learn": lambda: linear_model.LinearRegression().fit(X, y),
        },
        rounds=3,
    )
    same = digits(made["trueline"].coef_, made["scikit-learn"].coef_)
    certificate = made["trueline"].certificate_
    rows.append(
        Row(
            f"LinearRegression {label}",
            best["trueline"],
            best["scikit-learn"],
            "scikit-learn",
            aim=20,
            note=f"agree to {same:.1f} digits; certificate {certificate.digits:.1f}",
        )
    )
    rows.append(
        Row(
            f"error-free moments (level 2) {label}", best["error-free"], best["scikit-learn"], "scikit-learn", aim=1,
            note="2⁻⁹⁵ in every product",
        )
    )  # fmt: skip

    import statsmodels.api as sm

    best, made = interleaved(
        {
            "trueline": lambda: tl.LinearRegression().fit(X, y).summary().std_errors,
            "statsmodels": lambda: sm.OLS(y, sm.add_constant(X)).fit().bse,
        },
        rounds=1,
    )
    rows.append(
        Row(
            f"OLS with standard errors {label}", best["trueline"], best["statsmodels"], "statsmodels",
            note=f"agree to {digits(made['trueline'], made['statsmodels']):.1f} digits",
        )
    )  # fmt: skip

    for task, aim, options in ((f"RidgeCV, leave-one-out, 20 penalties {label}", 30, {}), (f"RidgeCV(cv=5), 20 penalties {label}", 100, {"cv": 5})):  # fmt: skip
        best, made = interleaved(
            {
                "trueline": lambda options=options: tl.RidgeCV(alphas=alphas, **options).fit(X, y),
                "scikit-learn": lambda options=options: linear_model.RidgeCV(alphas=alphas, **options).fit(X, y),
            },
            rounds=1,
        )
        again, _ = interleaved({"trueline": lambda options=options: tl.RidgeCV(alphas=alphas, **options).fit(X, y)}, 2)
        best["trueline"] = min(best["trueline"], again["trueline"])
        ours, theirs = made["trueline"], made["scikit-learn"]
        off = abs(ours.best_score_ - theirs.best_score_) / abs(theirs.best_score_)
        rows.append(
            Row(
                task, best["trueline"], best["scikit-learn"], "scikit-learn", aim=aim,
                note=f"same alpha_: {ours.alpha_ == theirs.alpha_}; best_score_ off by {off:.1g}",
            )
        )  # fmt: skip

    tl.LassoCV(cv=5).fit(X[:2000], y[:2000])  # compile
    best, made = interleaved(
        {
            "trueline": lambda: tl.LassoCV(cv=5).fit(X, y),
            "scikit-learn": lambda: linear_model.LassoCV(cv=5).fit(X, y),
        },
        rounds=1,
    )
    ours, theirs = made["trueline"], made["scikit-learn"]
    rows.append(
        Row(
            f"LassoCV, 5 folds, 100 penalties {label}", best["trueline"], best["scikit-learn"], "scikit-learn", aim=20,
            note=f"same alpha_: {bool(np.isclose(ours.alpha_, theirs.alpha_, rtol=1e-10))}",
        )
    )  # fmt: skip
    return rows


def small() -> list[Row]:
    from sklearn import linear_model
    from sklearn.datasets import load_iris

    import trueline as tl

    X = np.ascontiguousarray(load_iris().data)
    cases = [(X, X @ [1.0, -1.0, 2.0, 0.5] + np.sin(np.arange(150.0)), 50)]
    cases += [(*table(n, d), fits) for n, d, fits in ((1000, 30, 20), (20_000, 4, 5), (20_000, 30, 2))]
    rows = []
    for X, y, fits in cases:

        def many(make: Any, X: Any = X, y: Any = y, fits: int = fits) -> Any:
            for _ in range(fits):
                made = make().fit(X, y)
            return made

        best, _ = interleaved(
            {
                "trueline": lambda many=many: many(tl.LinearRegression),
                "scikit-learn": lambda many=many: many(linear_model.LinearRegression),
            },
            rounds=20,
        )
        label = f"LinearRegression {len(X):,}×{X.shape[1]}, {fits} fits"
        rows.append(Row(label, best["trueline"], best["scikit-learn"], "scikit-learn", aim=1, note=""))
    return rows


def write_parquet(path: str, n: int, d: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(d)] + ["y"]
    writer = pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names]))
    step = 131_072
    for start in range(0, n, step):
        size = min(step, n - start)
        X = rng.standard_normal((size, d))
        y = X[:, 0] - X[:, 1] + rng.standard_normal(size)
        arrays = [pa.array(X[:, j]) for j in range(d)] + [pa.array(y)]
        writer.write_table(pa.table(arrays, names=names), row_group_size=step)
    writer.close()


def _peak(path: str, which: str, results: Any) -> None:
    start = time.perf_counter()
    {"trueline": scan_it, "polars": multiply_it, "compiled": compile_it}.get(which, read_it)(path)
    seconds = time.perf_counter() - start
    # Not getrusage: its maximum survives exec and would be the parent's.
    status = pathlib.Path("/proc/self/status").read_text()
    results.put((seconds, int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024))  # type: ignore[union-attr]


def scan_it(path: str) -> Any:
    import trueline as tl

    return tl.scan(path, target="y")


def compile_it(_: str) -> None:
    """What a scan of this size wants compiled."""
    import trueline as tl
    from trueline.data.folds import compile_for

    compile_for(1 << 28)
    tl.scan({"x": np.arange(1000.0) % 7, "y": np.arange(1000.0)}, target="y")


def multiply_it(path: str) -> Any:
    """Polars merely reading the same columns and NumPy multiplying them, row group by row group."""
    import polars as pl

    total = 0.0
    for frame in pl.scan_parquet(path).collect_batches(chunk_size=131_072):
        Z = frame.to_numpy()
        total = total + Z.T @ Z
    return total


def read_it(path: str) -> None:
    """Polars reading the same columns, and nothing else."""
    import polars as pl

    for _ in pl.scan_parquet(path).collect_batches(chunk_size=131_072):
        pass


def in_a_process(path: str, which: str) -> tuple[float, float]:
    """(seconds, peak MB) in a process of its own."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_peak, args=(path, which, results))
    process.start()
    found = results.get()
    process.join()
    return found


def parquet(n: int, d: int) -> list[Row]:
    """Three sizes, each in processes of their own, in turn; the least time and the largest peak of each."""
    times: dict[str, float] = {}
    peaks: dict[tuple[str, int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        in_a_process("", "compiled")  # what is compiled once on a machine is, before peaks are measured
        for size in (n // 4, n // 2, n):
            path = os.path.join(folder, f"{size}.parquet")
            write_parquet(path, size, d)
            times = {"trueline": np.inf, "polars": np.inf, "polars, reading alone": np.inf}
            for _ in range(3):
                for which in times:
                    seconds, peak = in_a_process(path, which)
                    times[which] = min(times[which], seconds)
                    peaks[which, size] = max(peaks.get((which, size), 0.0), peak)
            os.unlink(path)
    label = f"Parquet {n:,}×{d}"
    ours, theirs, reading = times.values()
    flat = ", ".join(f"{peaks['trueline', size]:.0f} MB at {size:,} rows" for size in (n // 4, n // 2, n))
    return [
        Row(
            f"scan {label}", ours, theirs, "Polars reading and NumPy multiplying", aim=1 / 1.5,
            note=f"process included; {n / ours / 1e6:.2f}M rows/s; five folds and a sample besides; Polars reading alone {reading:.2f} s",
        ),
        Row(
            f"peak memory {label}", max(peaks["trueline", size] for size in (n // 4, n // 2, n)), 600.0, "the limit",
            unit="MB", aim=1, note=f"the largest of three runs each: {flat}; Polars {peaks['polars', n]:.0f} MB",
        ),
    ]  # fmt: skip
