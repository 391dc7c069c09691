"""A Spark table of Parquet files alone: workers read these themselves, and only where they are provably the same rows."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pandas as pd
import pytest
from sparks import distance, needs_java, spark, table

import trueline as tl
import trueline.scale.spark as room
from trueline.scale.spark_files import MOST_PARTS, PART_BYTES, Piece, Rows, _files, _shared_out

pytestmark = needs_java
__all__ = ["spark", "table"]  # fixtures


@pytest.fixture
def roads(monkeypatch):
    """How the rows of each job came: files, or Arrow from Spark."""
    taken: list[str] = []
    read, handed = room.SparkTable._read, room.SparkTable._handed_over

    def reading(self, *arguments):
        found = read(self, *arguments)
        taken.extend(["files"] if found is not None else ["files refused"])
        return found

    def handing(self, *arguments):
        taken.append("arrow")
        return handed(self, *arguments)

    monkeypatch.setattr(room.SparkTable, "_read", reading)
    monkeypatch.setattr(room.SparkTable, "_handed_over", handing)
    return taken


@pytest.fixture
def folder(table, tmp_path):
    """Five files, of which the last has four row groups."""
    made = tmp_path / "rows"
    made.mkdir()
    for k in range(5):
        some = table.iloc[400 * k : 400 * (k + 1)]
        some.to_parquet(made / f"part {k}.parquet", index=False, row_group_size=100 if k == 4 else None)
    return made


NUMBERS = [*"abc", "y"]


def test_files_give_what_spark_and_one_machine_give(spark, table, folder, roads, monkeypatch):
    rows = spark.read.parquet(str(folder))
    here = tl.scan(table[NUMBERS], target="y")
    there = tl.scan(rows.select(*NUMBERS), target="y")
    again = tl.scan(rows, target="y", features=[*"abc"])
    assert roads == ["files", "files"]
    assert distance(here, there) < 1e-12 and there.schema == here.schema
    for name, part in there.parts.items():  # the same files, the same bits
        assert part.products[0].tobytes() == again.parts[name].products[0].tobytes()
    turned = tl.scan(rows.select("y", "c", "a").cache(), target="y", features=["a", "c"])
    assert distance(tl.scan(table[["a", "c", "y"]], target="y"), turned) < 1e-12
    assert roads[2:] == ["files"]
    spark.conf.set("spark.trueline.files", "false")
    try:
        handed = tl.scan(rows.select(*NUMBERS), target="y")
    finally:
        spark.conf.unset("spark.trueline.files")
    assert roads[3:] == ["arrow"] and distance(handed, there) < 1e-12
    monkeypatch.setattr("trueline.scale.spark_files.PART_BYTES", 4096)  # files in shares, and a merge on the executors
    monkeypatch.setattr(room, "DRIVER_BYTES", 1)
    assert distance(tl.scan(rows.select(*NUMBERS), target="y"), there) < 1e-12 and roads[4:] == ["files"]


def test_other_numbers_and_several_passes(spark, table, tmp_path, roads):
    rows = table[["a", "c"]].assign(
        k=np.arange(len(table)) % 7, small=(np.arange(len(table)) % 5).astype("int8"), f=table.b.astype("float32"),
        label=(table.label == "yes").astype("int32"),
    )  # fmt: skip
    rows.to_parquet(tmp_path / "numbers.parquet")
    frame = spark.read.parquet(str(tmp_path / "numbers.parquet"))
    here = tl.LogisticRegression(tol=1e-9).fit(rows.drop(columns="label"), rows.label)
    there = tl.LogisticRegression(tol=1e-9).fit(frame, target="label")
    assert set(roads) == {"files"} and len(roads) >= 2
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-8)
    assert there.certificate_.proven
    seen = len(roads)
    tl.WidrowHoff(0.01, loss_range=1e6).fit(frame, target="f", features=["a", "c"])
    assert roads[seen:] == ["arrow"]  # the learners' partitions are the user's


def test_every_other_plan_is_handed_over(spark, table, folder, roads, tmp_path):
    rows = spark.read.parquet(str(folder))
    numbers = table[NUMBERS]
    numbers.assign(part=np.arange(len(table)) % 2).to_parquet(tmp_path / "split", partition_cols=["part"])
    numbers.to_csv(tmp_path / "rows.csv", index=False)
    plans = {
        "filter": (rows.filter("a > 0").select(*NUMBERS), numbers[numbers.a > 0]),
        "derived": (rows.selectExpr("a + 1 AS a", "b", "c", "y"), numbers.assign(a=numbers.a + 1)),
        "renamed": (rows.selectExpr("c AS a", "b", "a AS c", "y"), numbers.assign(a=numbers.c, c=numbers.a)),
        "case": (rows.select("A", "b", "c", "y"), numbers.rename(columns={"a": "A"})),
        "cast": (rows.selectExpr("a", "float(b) AS b", "c", "y"), numbers.assign(b=numbers.b.astype("float32"))),
        "partitioned": (spark.read.parquet(str(tmp_path / "split")).select(*NUMBERS), numbers),
        "csv": (spark.read.csv(str(tmp_path / "rows.csv"), header=True, inferSchema=True), numbers),
        "text": (rows.drop("label"), table.drop(columns="label")),
        "union": (rows.select(*NUMBERS).union(rows.select(*NUMBERS)), pd.concat([numbers, numbers])),
        "twice": (spark.read.parquet(str(folder), str(folder)).select(*NUMBERS), None),
        "limit": (rows.select(*NUMBERS).limit(500), None),
        "option": (spark.read.option("mergeSchema", "true").parquet(str(folder)).select(*NUMBERS), numbers),
        "schema": (spark.read.schema("a double, b double, c double, y double, z double").parquet(str(folder)), None),
    }
    for name, (frame, expected) in plans.items():
        roads.clear()
        target = {"target": "y"} if name != "schema" else {"target": "y", "features": ["a", "z"], "missing": "mean"}
        found = tl.scan(frame, **target, folds=None)
        assert "files" not in roads and roads[-1] == "arrow", name
        if name in ("twice", "limit"):
            assert found.n == frame.count()
        if expected is not None:
            assert distance(tl.scan(expected, target="y", folds=None).designed(), found.designed()) < 1e-12, name
    roads.clear()
    nested = rows.selectExpr("named_struct('a', a, 'b', b) AS both", "c", "y")
    nested.write.parquet(str(tmp_path / "nested"))
    tl.scan(spark.read.parquet(str(tmp_path / "nested")).selectExpr("c", "y"), target="y")
    assert roads == ["files refused", "arrow"]


def test_files_that_changed_are_not_read(spark, table, folder, roads):
    numbers = table[NUMBERS]
    kept = spark.read.parquet(str(folder)).select(*NUMBERS).cache()
    kept.count()
    plain = spark.read.parquet(str(folder)).select("y", "a", "b")
    first = folder / "part 0.parquet"
    table.iloc[:400].assign(a=0.5).to_parquet(first, index=False)
    before = tl.scan(kept, target="y")
    assert roads == ["files refused", "arrow"]
    assert distance(tl.scan(numbers, target="y"), before) < 1e-12  # the rows that are cached
    roads.clear()
    now = tl.scan(plain, target="y")  # Spark reads the new ones
    changed = numbers.assign(a=np.where(np.arange(len(table)) < 400, 0.5, numbers.a))[["a", "b", "y"]]
    assert roads == ["files refused", "arrow"] and distance(tl.scan(changed, target="y"), now) < 1e-12
    roads.clear()
    later = spark.read.parquet(str(folder)).select(*NUMBERS)  # a new listing, for which Spark takes the cached rows
    assert distance(before, tl.scan(later, target="y")) == 0.0 and roads == ["arrow"]
    kept.unpersist()
    roads.clear()
    again = spark.read.parquet(str(folder)).select(*NUMBERS)
    first.unlink()
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|CANNOT_READ"):
        tl.scan(again, target="y")
    assert roads == ["files refused", "arrow"]


def test_a_file_that_changes_between_jobs_ends_the_fit(spark, table, folder, monkeypatch):
    from trueline.scale.newton import RemoteRisk

    at = RemoteRisk.at

    def later(self, *arguments, **options):
        table.iloc[:40].to_parquet(folder / "part 0.parquet", index=False)
        return at(self, *arguments, **options)

    monkeypatch.setattr(RemoteRisk, "at", later)
    rows = spark.read.parquet(str(folder)).selectExpr("a", "c", "b", "y")
    with pytest.raises(tl.DataError, match="the files of the Spark table changed during the fit"):
        tl.GeneralizedRegression("huber").fit(rows, target="y")


def test_bad_values_are_refused_by_the_file(spark, table, folder, roads):
    bad = table.iloc[800:1200].copy()
    bad.loc[917, "b"] = np.nan  # a null of the file
    bad.to_parquet(folder / "part 2.parquet", index=False)
    rows = spark.read.parquet(str(folder)).select(*NUMBERS)
    with pytest.raises(
        tl.DataError, match=r"column 'b' of partition 0 \(part 0.parquet and 4 more\) has a missing value in row 918"
    ):
        tl.scan(rows, target="y")
    dropped = tl.scan(rows, target="y", missing="drop")
    assert roads == ["files", "files"] and dropped.n == 1999
    shutil.copy(folder / "part 1.parquet", folder / "part 2.parquet")
    endless = table.iloc[:3].assign(c=[1.0, -np.inf, 2.0])
    endless.to_parquet(folder / "part 5.parquet", index=False)
    rows = spark.read.parquet(str(folder / "part 5.parquet")).select(*NUMBERS)
    with pytest.raises(tl.DataError, match=r"column 'c' of partition 0 \(part 5.parquet\) .*infinit"):
        tl.scan(rows, target="y")


def deadly():
    """A scan during which the worker of partition 1 is killed, once, when it has read all its rows."""
    from trueline.scale.cluster import Scan

    class Deadly:  # local, so that it goes to the workers by value
        def __init__(self, task):
            self.task = task

        def run(self, number, tables):
            import os
            import signal

            from pyspark import TaskContext

            raw = self.task.run(number, tables)
            if number == 1 and TaskContext.get().attemptNumber() == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return raw

        def merge(self, answers):
            return self.task.merge(answers)

    return lambda *arguments: Deadly(Scan(*arguments))


@pytest.mark.parametrize("road", ["files", "arrow"])
def test_a_python_worker_killed_in_the_middle_changes_nothing(spark, table, folder, roads, monkeypatch, road):
    monkeypatch.setattr("trueline.scale.spark_files.PART_BYTES", 16384)  # several tasks of files
    rows = spark.read.parquet(str(folder)).select(*NUMBERS)
    rows = rows if road == "files" else rows.repartition(3).cache()
    expected = tl.scan(rows, target="y")
    monkeypatch.setattr("trueline.scale.cluster.Scan", deadly())
    found = tl.scan(rows, target="y")
    assert roads == [road, road] and found.n == len(table)
    (arrays, meta), (others, other) = found.to_state(), expected.to_state()
    assert meta == other and all(arrays[name].tobytes() == others[name].tobytes() for name in {*arrays, *others})
    assert distance(tl.scan(table[NUMBERS], target="y"), found) < 1e-12
    rows.unpersist()


def test_tasks_depend_on_the_files_alone():
    assert _shared_out([("a", 10, 1), ("b", 20, 2)]) == [[Piece("a", 10, 1, 0, 1), Piece("b", 20, 2, 0, 1)]]
    parts = _shared_out([("a", 3 * PART_BYTES, 1), ("b", PART_BYTES // 2, 1), ("c", PART_BYTES // 2, 1)])
    assert [len(part) for part in parts] == [1, 1, 1, 2]
    assert [piece.share for part in parts[:3] for piece in part] == [0, 1, 2]
    assert [len(part) for part in _shared_out([(str(k), PART_BYTES // 3, 1) for k in range(8)])] == [2, 2, 2, 2]
    assert len(_shared_out([("a", 1 << 50, 1)])) == MOST_PARTS
    rng = np.random.default_rng(5)
    for _ in range(20):  # every share of every file once, and no task without one
        files = [(f"{k:03}", int(size), 1) for k, size in enumerate(rng.integers(1, 1 << 30, size=rng.integers(1, 99)))]
        parts = _shared_out(files)
        found = [(piece.path, piece.share) for part in parts for piece in part]
        shares = {piece.path: piece.shares for part in parts for piece in part}
        assert found == [(path, k) for path, _, _ in files for k in range(shares[path])] and all(parts)


def test_listings_that_are_not_understood():
    line = (
        "FileStatusWithMetadata(LocatedFileStatus{{path={}; isDirectory=false; length=5; replication=1; blocksize=3; "
        "modification_time=7; access_time=0; owner=; group=; permission=rw; isSymlink=false}},Map())"
    )
    assert _files(line.format("file:/tmp/b c.parquet")) == [("/tmp/b c.parquet", 5, 7)]
    for path in ("hdfs://host/a", "file://host/a", "s3a://b/a", "file:/a\nb"):
        assert _files(line.format(path)) is None
    assert _files("\n".join([line.format("file:/a")] * 2)) is None
    assert _files("") is None


def test_a_worker_that_sees_another_file(tmp_path, table):
    path = tmp_path / "rows.parquet"
    table[NUMBERS].to_parquet(path)
    seen = os.stat(path)
    listed = Piece(str(path), seen.st_size, seen.st_mtime_ns // 1_000_000, 0, 1)
    types = dict.fromkeys(NUMBERS, "double")
    good = Rows(3, [listed], types)
    assert sum(len(piece) for piece in good) == 2000 and not good.elsewhere
    os.utime(path, (1, 1))
    good.check()
    assert good.elsewhere
    for other, kinds in (
        (listed, types),
        (listed._replace(path=str(tmp_path / "none")), types),
        (listed._replace(changed=1000, size=7), types),
        (listed._replace(changed=1000), types | {"a": "float"}),
        (listed._replace(changed=1000), types | {"z": "double"}),
    ):
        rows = Rows(0, [other], kinds)
        assert sum(len(piece) for piece in rows) == 0 and rows.elsewhere
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    os.utime(path, (1, 1))
    broken = Rows(0, [listed._replace(changed=1000)], types)
    assert list(broken) == [] and broken.elsewhere
