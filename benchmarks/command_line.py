"""The command line: how long a cold process takes, and how fast a stream is learned, against the usual tools.

Cold means a new process with bytecode present (kept in a scratch folder, written by first runs that are not timed, whatever
the environment says of bytecode). Stream speeds are rows over the time of the whole process: start-up is included on both
sides, and given as a line of its own. Vowpal Wabbit runs from its Python package on the same rows, as its text and as its
cache; Polars' own read of the same files is beside it. The same Parquet with Snappy is as pyarrow writes it. What no process
that reads numbers in Python can beat, the import of NumPy, is set against Vowpal Wabbit's whole run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .harness import Row, interleaved

NAME = "The command line: start-up and streams"
COLUMNS = 30


def run(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [
            *start_up(folder, 2 if quick else 5),
            *streams(folder, 200_000, 1 if quick else 3),
            *([] if quick else streams(folder, 1_000_000, 2, parquet_alone=True)),
            *([] if quick else streams(folder, 2_000_000, 2)),
        ]


def process(folder: Path, *words: object) -> Callable[[], None]:
    """A call that runs one process to its end, its bytecode kept in the folder."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env = {**kept, "NO_COLOR": "1", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}

    def call() -> None:
        subprocess.run([sys.executable, *map(str, words)], check=True, stdout=subprocess.DEVNULL, env=env)

    return call


def start_up(folder: Path, rounds: int) -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 8))
    y = X @ rng.normal(size=8) + rng.normal(size=500)
    table = folder / "small.csv"
    np.savetxt(
        table, np.column_stack([X, y]), delimiter=",", header=",".join([*(f"x{j}" for j in range(8)), "y"]), comments=""
    )
    contenders = {
        "help": process(folder, "-m", "trueline", "--help"),
        "fit help": process(folder, "-m", "trueline", "fit", "--help"),
        "fit": process(folder, "-m", "trueline", "fit", table, "--target", "y"),
        "import sklearn.linear_model": process(folder, "-c", "import sklearn.linear_model"),
        "sklearn fit": process(
            folder,
            "-c",
            "import sys, numpy as np; from sklearn.linear_model import LinearRegression; "
            "t = np.loadtxt(sys.argv[1], delimiter=',', skiprows=1); print(LinearRegression().fit(t[:, :-1], t[:, -1]).coef_)",
            table,
        ),
        "statsmodels fit": process(
            folder,
            "-c",
            "import sys, polars as pl, statsmodels.api as sm; t = pl.read_csv(sys.argv[1]).to_numpy(); "
            "print(sm.OLS(t[:, -1], sm.add_constant(t[:, :-1])).fit().summary())",
            table,
        ),
    }
    for call in contenders.values():
        call()  # writes the bytecode
    best, _ = interleaved(contenders, rounds)
    peer = best["import sklearn.linear_model"]
    return [
        Row("`trueline --help`, cold", best["help"], peer, "import sklearn.linear_model", note="aim: under 0.4 s"),
        Row("`trueline fit --help`, cold", best["fit help"], peer, "import sklearn.linear_model"),
        Row("`trueline fit` of a 500-row CSV, cold", best["fit"], peer, "import sklearn.linear_model", note="aim: under 1.5 s; with intervals, certificate and cross-validation"),
        Row("the same", best["fit"], best["sklearn fit"], "a script with scikit-learn", note="coefficients only"),
        Row("the same", best["fit"], best["statsmodels fit"], "a script with statsmodels", note="its summary"),
    ]  # fmt: skip


def write_rows(folder: Path, n: int, mark: str) -> dict[str, Path]:
    """The same rows as CSV, as Parquet of Polars (zstd) and of pyarrow (Snappy), and as Vowpal Wabbit's text."""
    import polars as pl
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, COLUMNS)).round(6)
    y = (X @ rng.normal(size=COLUMNS) + rng.normal(size=n)).round(6)
    names = [f"x{j}" for j in range(COLUMNS)]
    frame = pl.DataFrame({name: X[:, j] for j, name in enumerate(names)} | {"y": y})
    paths = {kind: folder / f"{mark}.{kind}" for kind in ("csv", "parquet", "vw", "cache")}
    paths["snappy"] = folder / f"{mark}_snappy.parquet"
    frame.write_csv(paths["csv"])
    frame.write_parquet(paths["parquet"])
    pq.write_table(frame.to_arrow(), paths["snappy"])
    text = frame.select(
        pl.concat_str(
            [
                pl.col("y").cast(pl.String),
                pl.lit(" |"),
                *(pl.concat_str([pl.lit(f" {name}:"), pl.col(name).cast(pl.String)]) for name in names),
            ]
        )
    ).to_series()
    paths["vw"].write_text("\n".join(text) + "\n")
    return paths


def vowpal(folder: Path, path: Path, *options: object) -> Callable[[], None]:
    """Vowpal Wabbit over a file, driven by its own reader."""
    words = " ".join(map(str, ["--quiet", "--no_stdin", *options]))
    return process(folder, "-c", f"import vowpalwabbit as vw; m = vw.Workspace({f'-d {path} {words}'!r}); m.finish()")


def streams(folder: Path, n: int, rounds: int, parquet_alone: bool = False) -> list[Row]:
    """Rows a second of whole processes, start-up included; the same on 100 rows is the start-up."""
    few, paths = write_rows(folder, 100, "few"), write_rows(folder, n, f"rows_{n}")  # a cache is never another run's

    def ours(path: Path, *options: str) -> Callable[[], None]:
        return process(folder, "-m", "trueline", "stream", path, "--target", "y", "-q", *options)

    plain = ("--learner", "widrow-hoff", "--rate", "0.005", "--no-certificate")
    proof = ("--learner", "widrow-hoff", "--rate", "0.005")
    contenders: dict[str, Callable[[], None]] = {
        "csv": ours(paths["csv"], *plain),
        "vw text": vowpal(folder, paths["vw"]),
        "polars": process(folder, "-c", f"import polars as pl; pl.read_csv({str(paths['csv'])!r})"),
        "polars parquet": process(folder, "-c", f"import polars as pl; pl.read_parquet({str(paths['parquet'])!r})"),
        "imports": process(folder, "-c", "import numpy, polars"),
        "numpy": process(folder, "-c", "import numpy"),
        "parquet": ours(paths["parquet"], *plain),
        "parquet, snappy": ours(paths["snappy"], *plain),
        "vw cache": vowpal(folder, paths["vw"], "--cache_file", paths["cache"]),
        "csv, certificate": ours(paths["csv"], *proof),
        "parquet, certificate": ours(paths["parquet"], *proof),
        "csv, default learner": ours(paths["csv"]),
        "parquet, default learner": ours(paths["parquet"]),
        "start-up": ours(few["csv"], *plain),
        "vw start-up": vowpal(folder, few["vw"]),
    }
    vowpal(folder, paths["vw"], "--cache_file", paths["cache"])()  # writes the cache
    if parquet_alone:
        contenders = {
            name: contenders[name] for name in ("parquet", "parquet, snappy", "vw cache", "polars parquet", "numpy")
        }
    # These write the bytecode, and the machine code that later processes run: each run keeps what it needed first.
    for options in (plain, plain, plain, proof, ()):
        for kind in ("csv", "parquet", "snappy"):
            ours(few[kind], *options)()
    for call in ("polars", "polars parquet"):
        if call in contenders:
            contenders[call]()
    best, _ = interleaved(contenders, rounds)
    speeds = {name: n / seconds for name, seconds in best.items()}
    task = f"stream, d = {COLUMNS}, {n:,} rows, whole process"

    def row(what: str, peer: str, aim: float | None, note: str = "") -> Row:
        return Row(f"{task}: {what}", speeds[what], speeds[peer], peer, "rows/s", aim, note, larger_is_better=True)

    both = [
        row("parquet", "vw cache", 2.0, "Widrow–Hoff, no certificate; zstd, as Polars writes it"),
        row("parquet, snappy", "vw cache", 2.0, "the same as pyarrow writes it"),
    ]
    limits = [
        row("polars parquet", "vw cache", None, "Polars' own read of the Parquet, nothing learned"),
        row("numpy", "vw cache", None, "the limit of any reader in Python: NumPy imported, nothing else"),
    ]
    if parquet_alone:
        return both + limits
    return [
        row("csv", "vw text", 1.5, "Widrow–Hoff, no certificate; or the next line"),
        row("csv", "polars", 0.8, "Polars' own read of the same CSV"),
        *both,
        row("csv, certificate", "vw text", None),
        row("parquet, certificate", "vw cache", None),
        row("csv, default learner", "vw text", None, "the mixture, with its certificate"),
        row("parquet, default learner", "vw cache", None),
        row("polars", "vw text", None, "Polars' own read of the CSV, nothing learned"),
        row("imports", "vw cache", None, "NumPy and Polars imported, nothing read"),
        *limits,
        Row(
            "stream of 100 rows: start-up",
            best["start-up"],
            best["vw start-up"],
            "Vowpal Wabbit's",
            note="in all above",
        ),
    ]


if __name__ == "__main__":
    began = time.perf_counter()
    for found in run(quick=True):
        print(found, f"{found.ratio:.2f}×")
    print(f"{time.perf_counter() - began:.0f} s")
