"""``trueline fit --engine`` reads files as embedded reading does, or refuses them in one sentence that names the file."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from clusters import one_process

from trueline.cli import elsewhere, main

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")

__all__ = ["one_process"]  # fixture

DASK = ["--engine", "dask"]
SPARK = ["--engine", "spark", "--master", "local[1]"]
SPARK_HERE = pytest.mark.skipif(
    not (shutil.which("java") and importlib.util.find_spec("pyspark")),
    reason="Spark needs Java of version 17 or later on PATH, and pip install pyspark",
)


@pytest.fixture
def rows() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=60).round(6), rng.normal(size=60).round(6)
    return pl.DataFrame({"a": a, "b": b, "y": a - 2.0 * b + rng.normal(size=60).round(6)})


def said(capsys, *arguments, target: str = "y") -> tuple[int, str, str]:
    code = main(["fit", *map(str, arguments), "-t", target])
    out = capsys.readouterr()
    return code, out.out, " ".join(out.err.split())


def refused(capsys, code, sentence, *arguments):
    found, out, err = said(capsys, *arguments)
    assert (found, out) == (code, "") and sentence in err, err
    assert "Traceback" not in err and "unexpected" not in err


def alike(capsys, *arguments, target: str = "y") -> dict:
    """The same terms embedded and on Dask, and the same estimates or both proven near one minimum; what Dask answered."""
    made = []
    for engine in ([], DASK):
        code, out, err = said(capsys, *arguments, "--penalty", "none", "--json", *engine, target=target)
        assert code == 0, err
        made.append(json.loads(out))
    here, there = ({row["term"]: row["estimate"] for row in one["coefficients"]} for one in made)
    assert here.keys() == there.keys()
    proofs = [one["certificate"] for one in made]
    if proofs[0]["kind"] == "gap":
        assert all(proof["proven"] for proof in proofs)
        assert abs(proofs[0]["primal"] - proofs[1]["primal"]) <= 1e-12 + sum(max(0.0, proof["gap"]) for proof in proofs)
    else:
        np.testing.assert_allclose([there[term] for term in here], list(here.values()), rtol=1e-8)
    assert made[0]["n"] == made[1]["n"] and made[0].get("loss") == made[1].get("loss")
    return made[1]


def csvs(folder, *frames: pl.DataFrame) -> list:
    for k, frame in enumerate(frames):
        frame.write_csv(folder / f"part{k}.csv")
    return [folder / f"part{k}.csv" for k in range(len(frames))]


@pytest.mark.parametrize("engine", [DASK, pytest.param(SPARK, marks=SPARK_HERE)], ids=["dask", "spark"])
def test_headers_are_compared_before_any_engine_starts(capsys, tmp_path, rows, engine, monkeypatch):
    monkeypatch.setattr(elsewhere, f"_{engine[1]}", lambda *_: pytest.fail("the engine was started"))
    files = csvs(tmp_path, rows, rows.select("b", "a", "y"), rows.with_columns(z=pl.col("a")), rows.drop("b"))
    order = f"{files[1]} has columns in another order (b, a, y) than {files[0]}"
    refused(capsys, 3, order, *files[:2], *engine)
    refused(capsys, 3, f"{files[2]} has other columns ('z')", files[0], files[2], *engine)
    refused(capsys, 3, f"{files[3]} has other columns ('b')", files[0], files[3], *engine)
    twice = tmp_path / "twice.csv"
    twice.write_text("a,a,y\n1,2,3\n2,1,5\n4,4,1\n")
    refused(capsys, 3, f"{twice} names column 'a' twice", twice, *engine)
    long = tmp_path / "long.csv"
    long.write_text('a,"b,c",y\n"7,1",1,2,3\n8,2,1,5\n9,4,4,1\n')
    refused(capsys, 3, f"the first row of {long} has 4 values and its header 3 names", long, *engine)
    semicolons = tmp_path / "semicolons.csv"
    semicolons.write_text("a;b;y\n1;2;3\n")
    refused(capsys, 3, "looks separated by ';', which --engine does not take", semicolons, *engine)


@SPARK_HERE
@pytest.mark.torture  # another JVM
@pytest.mark.timeout(180)
def test_spark_refuses_another_order_where_no_look_was_possible_and_logs_nothing(tmp_path, rows):
    files = csvs(tmp_path, rows, rows.select("b", "a", "y"))
    script = "import sys; from trueline.cli import elsewhere, main; elsewhere.check_files = lambda *_: None; "
    call = ["fit", *map(str, files), "-t", "y", "-q", *SPARK]
    # A process of its own: Spark's words come past Python, and its first session decides what it says.
    done = subprocess.run(
        [sys.executable, "-c", f"{script}sys.exit(main({call!r}))"], capture_output=True, text=True, timeout=170
    )
    assert (done.returncode, done.stdout) == (3, "") and str(files[1]) in done.stderr, done.stderr
    assert not any(word in done.stderr for word in ("log level", "log4j", "Traceback", "WARN ", "ERROR "))


def test_quoted_names_packed_files_and_marks_of_bytes_are_read(capsys, tmp_path, rows):
    import gzip

    (path,) = csvs(tmp_path, rows.rename({"b": 'b, "so called"'}))
    alike(capsys, path)
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    alike(capsys, tmp_path / "packed.csv.gz")
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    alike(capsys, tmp_path / "marked.csv", path)


def test_marks_of_missing_values_are_those_of_embedded_reading(capsys, tmp_path, rows):
    words = pl.Series("kind", ["None", "n/a", "x"] * 20)
    (path,) = csvs(tmp_path, rows.with_columns(words))
    terms = {row["term"] for row in alike(capsys, path)["coefficients"]}
    assert sum("kind" in term for term in terms) == 2
    gaps = rows.with_columns(a=pl.when(pl.int_range(60) % 7 == 0).then(pl.lit("N/A")).otherwise(pl.col("a").cast(str)))
    (path,) = csvs(tmp_path, gaps)
    refused(capsys, 3, "column 'a'", path, *DASK)
    alike(capsys, path, "--missing", "drop")


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d/%m/%Y", "%Y/%m/%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"])
def test_dates_are_one_term(capsys, tmp_path, rows, form):
    days = pl.datetime_range(pl.datetime(2020, 1, 1), pl.datetime(2020, 12, 31), "6d2h", eager=True)[:60]
    dated = rows.with_columns(when=days.dt.strftime(form))
    files = csvs(tmp_path, dated.head(30), dated.tail(30))
    assert sum("when" in row["term"] for row in alike(capsys, *files)["coefficients"]) == 1


def test_whole_numbers_may_go_on_with_fractions_and_gaps_and_text_with_numbers(capsys, tmp_path, rows):
    whole = rows.head(30).with_columns(a=pl.int_range(30) % 7, kind=pl.Series(["p", "1"] * 15))
    parts = rows.tail(30).with_columns(kind=pl.Series(["1", "2"] * 15))
    alike(capsys, *csvs(tmp_path, whole, parts))
    gaps = parts.with_columns(a=pl.when(pl.int_range(30) == 4).then(None).otherwise(pl.col("a")))
    alike(capsys, *csvs(tmp_path, whole, gaps), "--missing", "drop")


@pytest.mark.parametrize("labels", [[0, 1], [False, True], ["no", "yes"], ["False", "True"]], ids=str)
def test_labels_stay_labels(capsys, tmp_path, rows, labels):
    label = pl.Series("label", [labels[int(value)] for value in rows["y"] > 0])
    table = rows.drop("y").with_columns(label)
    made = alike(capsys, *csvs(tmp_path, table.head(30), table.tail(30)), target="label")
    assert made["loss"] == "logistic"


@pytest.mark.parametrize("later", ["oops", "2020-13-45"])
def test_a_column_that_goes_on_otherwise_is_told_in_a_sentence(capsys, tmp_path, rows, later):
    head, tail = rows.head(30), rows.tail(30).with_columns(a=pl.lit(later))
    if later != "oops":
        head = head.with_columns(a=pl.Series(["2020-01-02", "2020-03-04", "2021-01-01"] * 10))
    files = csvs(tmp_path, head, tail)
    refused(capsys, 3, "a column has other values", *files, *DASK)
    assert "pd.read_csv" not in said(capsys, *files, *DASK)[2]


def test_an_index_that_pandas_stored_is_a_column(capsys, tmp_path, rows):
    rng = np.random.default_rng(1)
    table = rows.to_pandas()
    table.set_index(pd.Index(rng.normal(size=60), name="k")).to_parquet(tmp_path / "named.parquet")
    terms = [row["term"] for row in alike(capsys, tmp_path / "named.parquet")["coefficients"]]
    assert "k" in terms
    table.set_index(pd.RangeIndex(60, name="r")).to_parquet(tmp_path / "range.parquet")
    alike(capsys, tmp_path / "range.parquet")
    rows.write_parquet(tmp_path / "polars.parquet")
    alike(capsys, tmp_path / "polars.parquet")


def test_a_column_that_only_a_later_parquet_file_has_is_told(capsys, tmp_path, rows):
    first, second = tmp_path / "part0.parquet", tmp_path / "part1.parquet"
    rows.write_parquet(first)
    rows.with_columns(z=pl.col("a") * 2).write_parquet(second)
    sentence = f"{first} lacks column 'z', which {second} has; give all files the same columns"
    refused(capsys, 3, sentence, first, second, *DASK)
    refused(capsys, 3, sentence, tmp_path, *DASK)


@pytest.mark.parametrize("name", ["none*.parquet", "none*.csv"])
def test_a_pattern_without_files_is_told(capsys, tmp_path, name):
    from distributed import LocalCluster

    refused(capsys, 3, "no file matches", f"file://{tmp_path}/{name}", *DASK)
    refused(capsys, 3, "no file matches", f"local://{tmp_path}/{name}", *DASK)  # as s3:// would be
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        refused(capsys, 3, "no file matches", tmp_path / name, "--scheduler", cluster.scheduler_address)


def test_files_from_two_places_are_told(capsys, tmp_path, rows):
    rows.write_parquet(tmp_path / "a.parquet")
    refused(capsys, 2, "give all files from one place", tmp_path / "a.parquet", "s3://nowhere/b.parquet", *DASK)
    alike(capsys, tmp_path / "a.parquet")
    code, _, err = said(capsys, f"file://{tmp_path}/a.parquet", tmp_path / "a.parquet", *DASK, "-q")
    assert code == 0, err


def test_a_scheduler_without_workers_is_told(capsys, tmp_path, rows, monkeypatch):
    from distributed import LocalCluster

    rows.write_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(elsewhere, "WORKER_SECONDS", 0.5)
    with LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster:
        where = cluster.scheduler_address
        refused(capsys, 2, f"the Dask scheduler {where} has no workers", tmp_path / "a.parquet", "--scheduler", where)
