"""On Spark: the same moments, models and predictions as on one machine, through mapInArrow alone.

One local session of two threads serves the module. It needs Java.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import trueline as tl

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install pyspark runs these tests")

JAVA = shutil.which("java") or (os.environ.get("JAVA_HOME") and Path(os.environ["JAVA_HOME"], "bin", "java").exists())
pytestmark = pytest.mark.skipif(
    not JAVA,
    reason="Spark needs Java and there is none on PATH or in JAVA_HOME: install a JDK of version 17 or later "
    "(apt-get install openjdk-17-jre-headless, or brew install openjdk@17)",
)


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2]")
            .appName("trueline")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.memory", "1g")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    n = 2000
    frame = pd.DataFrame(rng.normal(size=(n, 3)) + np.array([0.0, 1e3, 0.0]), columns=list("abc"))
    frame["color"] = rng.choice(["blue", "red"], size=n)
    frame.loc[n - 1, "color"] = "unique"
    frame["label"] = np.where(frame.a + rng.normal(size=n) > 0, "yes", "no")
    frame["y"] = 2.0 * frame.a - 0.1 * frame.b + rng.normal(size=n)
    return frame


def distance(left: tl.Moments, right: tl.Moments) -> float:
    assert left.terms == right.terms and left.parts.keys() == right.parts.keys()
    worst = 0.0
    for name, part in left.parts.items():
        assert part.n == right.parts[name].n
        spread = np.sqrt(np.diagonal(part.products[0]))
        off = np.abs(part.products[0] - right.parts[name].products[0])
        worst = max(worst, float((off / (np.outer(spread, spread) + 1e-300)).max()))
    return worst


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
    np.testing.assert_allclose(found["prediction"], model.predict(found.drop(columns="prediction")), rtol=1e-15)


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


def test_no_rdd_is_used():
    for path in (Path(tl.__file__).parent / "scale").glob("*.py"):
        assert not re.search(r"\.rdd\b|sparkContext|mapPartitions\b", path.read_text())
