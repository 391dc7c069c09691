"""On Spark: the same moments, models and predictions as on one machine, through mapInArrow alone.

One local session of two threads serves all. It needs Java.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sparks import distance, needs_java, spark, table
from tolerances import rounding

import trueline as tl

pytestmark = needs_java
__all__ = ["spark", "table"]  # fixtures


@pytest.mark.parametrize("partitions", [1, 7, 64])
def test_any_partitioning_gives_the_moments_of_one_machine(spark, table, partitions):
    rows = table[[*"abc", "color", "y"]]
    here = tl.scan(rows, target="y").designed()
    frame = spark.createDataFrame(rows).repartition(partitions)
    there = tl.scan(frame, target="y").designed()
    assert distance(here, there) < 1e-12
    assert there.schema == here.schema
    ours, theirs = (tl.LinearRegression.from_moments(m) for m in (here, there))
    digits = min(ours.certificate_.digits, theirs.certificate_.digits)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=10.0**-digits)


def test_empty_partitions_and_a_merge_on_the_executors(spark, table, monkeypatch):
    import trueline.scale.spark as room

    rows = table[[*"abc", "y"]].head(40)
    monkeypatch.setattr(room, "DRIVER_BYTES", 1)
    frame = spark.createDataFrame(rows).repartition(40, "a").filter("a > 0")
    here = tl.scan(rows[rows.a > 0], target="y", folds=3)
    assert distance(here, tl.scan(frame, target="y", folds=3)) < 1e-12


def test_predictions_are_lazy_and_keep_their_type(spark, table):
    frame = spark.createDataFrame(table).repartition(3)
    model = tl.LinearRegression().fit(frame, target="y", features=["a", "b", "color"])
    made = model.predict(frame)
    assert type(made) is type(frame) and made.columns == [*frame.columns, "prediction"]
    found = made.toPandas()
    X = model.model_.schema.encode(found).X
    apart = np.abs(found["prediction"] - model.predict(found.drop(columns="prediction")))
    assert (apart <= rounding(X, model.coef_, model.intercept_)).all()


def test_logistic_regression_as_on_one_machine(spark, table):
    here = tl.LogisticRegression(tol=1e-9).fit(table[[*"abc"]], table["label"])
    frame = spark.createDataFrame(table[[*"abc", "label"]]).repartition(3).cache()
    there = tl.LogisticRegression(tol=1e-9).fit(frame, target="label")
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-9)
    assert there.certificate_.proven
    found = there.predict(frame).toPandas()
    assert list(found["prediction"]) == list(here.predict(found[[*"abc"]]))
    frame.unpersist()


def test_refusals_name_the_partition(spark, table):
    gaps = table[[*"abc", "y"]].copy()
    gaps.loc[1990, "a"] = np.nan
    frame = spark.createDataFrame(gaps).repartition(2)
    with pytest.raises(tl.DataError, match=r"column 'a' of partition [01] has a missing value in row \d+") as refusal:
        tl.scan(frame, target="y")
    assert "\n" not in str(refusal.value)
    with pytest.raises(tl.UsageError, match="there is no target column 'z'"):
        tl.scan(frame, target="z")


def test_nulls_and_odd_names_in_a_table_of_doubles(spark, table):
    rows = table[[*"abc", "y"]].rename(columns={"a": "a `b` c.d"})
    frame = spark.createDataFrame(rows).repartition(3)
    assert distance(tl.scan(rows, target="y"), tl.scan(frame, target="y")) < 1e-12
    with pytest.raises(
        tl.DataError, match=r"column 'c' of partition [0-2] has \d+ missing values, the first in row \d+"
    ):
        tl.scan(frame.selectExpr("b", "if(b > 1000, null, c) as c", "y"), target="y")
    kept = frame.selectExpr("b", "if(b > 1000, null, c) as c", "y")
    here = rows[["b", "c", "y"]].assign(c=rows.c.where(~(rows.b > 1000)))
    there = tl.scan(kept, target="y", missing="drop")
    assert distance(tl.scan(here, target="y", missing="drop"), there) < 1e-12


def test_a_task_that_is_tried_again_counts_once(spark, table):
    rows = table[[*"abc", "y"]]
    frame = spark.createDataFrame(rows).repartition(3)
    expected = tl.scan(frame, target="y")

    def flaky(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches  # all rows are out before it fails
        if context.attemptNumber() == 0 and context.partitionId() == 1:
            raise RuntimeError("the first attempt fails")

    found = tl.scan(frame.mapInArrow(flaky, frame.schema), target="y")
    assert found.n == 2000 and distance(expected, found) == 0.0


def test_online_learners_probabilities_and_intervals(spark, table):
    frame = spark.createDataFrame(table[[*"ac", "label", "y"]]).repartition(3)
    made = tl.WidrowHoff(0.01, loss_range=1e6).fit(frame, target="y", features=["a", "c"])
    assert made.certificate_.proven and made.certificate_.examples == 2000
    assert made.certificate_.loss <= made.certificate_.bound
    found = made.predict(frame).toPandas()
    np.testing.assert_allclose(found["prediction"], made.predict(found[["a", "c"]]), rtol=1e-13)
    labels = tl.OnlineClassifier(geometry="additive", rate=0.5).fit(frame, target="label", features=["a", "c"])
    chances = labels.predict_proba(frame)
    assert chances.columns[-2:] == ["probability_no", "probability_yes"]
    shown = chances.toPandas()
    np.testing.assert_allclose(shown["probability_yes"], labels.predict_proba(shown[["a", "c"]])[:, 1], rtol=1e-13)
    linear = tl.LinearRegression().fit(frame, target="y", features=["a", "c"])
    ends = linear.predict(frame, interval=0.9).toPandas()
    np.testing.assert_allclose(ends["low"], linear.predict(ends[["a", "c"]], interval=0.9).lower, rtol=1e-12)
    with pytest.raises(tl.UsageError, match="a mixture, does not allow"):
        tl.OnlineRegressor().fit(frame, target="y", features=["a", "c"])


LACKING = """
import sys, trueline as tl
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
session = builder.config("spark.executorEnv.PYTHONPATH", sys.argv[1]).getOrCreate()
session.sparkContext.setLogLevel("OFF")
try:
    tl.scan(session.range(10).selectExpr("double(id) as x", "double(id * id) as y"), target="y")
except tl.UsageError as refusal:
    print(refusal)
session.stop()
"""


@pytest.mark.torture  # another JVM
@pytest.mark.timeout(180)
def test_workers_without_trueline(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'trueline':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", LACKING, str(tmp_path)], capture_output=True, text=True, timeout=170,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert ran.returncode == 0 and ran.stdout.strip().splitlines()[-1:] == [
        "a worker of Spark has no trueline; install trueline on every worker, the same version as here"
    ], ran.stderr[-3000:]


def test_no_rdd_is_used():
    for path in (Path(tl.__file__).parent / "scale").glob("*.py"):
        assert not re.search(r"\.rdd\b|sparkContext|mapPartitions\b", path.read_text())


def test_odd_names_and_types_beside_the_columns(spark, table):
    import datetime

    odd = table[["a", "b", "color", "y"]].set_axis(["a.b", "b`c", "the color", "y"], axis=1)
    frame = spark.createDataFrame(odd.assign(when=datetime.datetime(2024, 1, 2))).repartition(2)
    made = tl.LinearRegression().fit(frame, target="y", features=["a.b", "b`c", "the color"])
    here = tl.LinearRegression().fit(odd, target="y")
    np.testing.assert_allclose(made.coef_, here.coef_, rtol=1e-9)
    found = made.predict(frame).toPandas()
    assert list(found.columns) == [*odd.columns, "when", "prediction"]
    np.testing.assert_allclose(found["prediction"], here.predict(found[odd.columns[:3]]), rtol=1e-9)
    doubled = frame.select("y", "`a.b`", "`a.b`")
    with pytest.raises(tl.errors.UsageError, match=r"the Spark table has two columns named 'a.b'; rename or drop one"):
        tl.scan(doubled, target="y")
    formula = tl.scan(spark.createDataFrame(table), formula="y ~ a + color").designed()
    assert distance(formula, tl.scan(table, formula="y ~ a + color").designed()) < 1e-12


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


def test_a_python_worker_killed_in_the_middle_changes_nothing(spark, table, monkeypatch):
    numbers = table[[*"abc", "y"]]
    rows = spark.createDataFrame(numbers).repartition(3).cache()
    expected = tl.scan(rows, target="y")
    monkeypatch.setattr("trueline.scale.cluster.Scan", deadly())
    found = tl.scan(rows, target="y")
    assert found.n == len(table)
    (arrays, meta), (others, other) = found.to_state(), expected.to_state()
    assert meta == other and all(arrays[name].tobytes() == others[name].tobytes() for name in {*arrays, *others})
    assert distance(tl.scan(numbers, target="y"), found) < 1e-12
    rows.unpersist()
