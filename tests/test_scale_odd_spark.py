"""Spark's tables as people have them: vectors that are missing, files that do not fit, columns that no one can hand over."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sparks import distance, needs_java, spark

import trueline as tl
from trueline.errors import DataError, UsageError

pytestmark = needs_java
__all__ = ["spark"]  # fixture


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    return frame.assign(y=frame.a - frame.b + rng.normal(size=80))


def test_missing_vectors_are_missing_values(spark, rows):
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import DoubleType, StructField, StructType

    def vector(k, a, b):
        return None if k % 7 == 0 else Vectors.sparse(2, {0: a, 1: b}) if k % 5 == 0 else Vectors.dense([a, b])

    made = [(vector(k, row.a, row.b), row.y) for k, row in enumerate(rows.itertuples())]
    schema = StructType([StructField("v", VectorUDT()), StructField("y", DoubleType())])
    frame = spark.createDataFrame(made, schema).repartition(2)
    with pytest.raises(DataError, match="missing"):
        tl.scan(frame, target="y")
    kept = rows[np.arange(80) % 7 != 0].rename(columns={"a": "v_0", "b": "v_1"})
    assert distance(tl.scan(kept, target="y"), tl.scan(frame, target="y", missing="drop")) < 1e-12
    model = tl.LinearRegression().fit(kept, target="y")
    assert model.predict(frame.where("v is not null")).count() == len(kept)
    assert model.predict(frame.limit(0)).collect() == []  # the model knows how long the vectors are


def test_files_that_do_not_fit_are_one_sentence(spark, rows, tmp_path):
    rows[:40].to_parquet(tmp_path / "p0.parquet", index=False)
    rows[40:].astype({"a": str}).to_parquet(tmp_path / "p1.parquet", index=False)
    table = spark.read.schema("a double, b double, y double").parquet(str(tmp_path))
    for ask in (
        lambda: tl.scan(table, target="y"),
        lambda: tl.OnlineRegressor("squared", "additive", rate=0.01).fit(table, target="y"),
    ):
        with pytest.raises(DataError, match=r"Spark cannot read its files \(.*p1\.parquet") as refusal:
            ask()
        assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 600


def test_columns_that_cannot_be_handed_over_are_in_nobodys_way(spark, rows):
    from pyspark.sql.functions import expr

    frame = spark.createDataFrame(rows).withColumn("ym", expr("make_ym_interval(1, 2)"))
    model = tl.LinearRegression().fit(frame, target="y", features=["a", "b"])
    np.testing.assert_allclose(model.coef_, tl.LinearRegression().fit(rows, target="y").coef_, rtol=1e-10)
    with pytest.raises(DataError, match=r"column 'ym' of .* has type Object"):
        tl.scan(frame, target="y")
    with pytest.raises(UsageError, match=r"column 'ym' has type .*, which Spark does not hand over to Python; drop it"):
        model.predict(frame)


def test_labels_keep_their_type_and_predictions_their_names(spark, rows):
    labels = rows.assign(label=(rows.y > 0).astype(float)).drop(columns="y")
    frame = spark.createDataFrame(labels)
    model = tl.LogisticRegression().fit(frame, target="label")
    assert model.classes_.dtype == float and dict(model.predict(frame).dtypes)["prediction"] == "double"
    with pytest.raises(UsageError, match="the table has a column 'Prediction' already; rename or drop it"):
        model.predict(frame.withColumnRenamed("label", "Prediction"))


def test_partitions_of_one_row_have_the_folds_of_one_machine(spark, rows):
    dated = rows.assign(when=pd.date_range("2020-03-01", periods=80, freq="37min"))
    there = tl.scan(spark.createDataFrame(dated).repartition(80), target="y", derive={"q": "b/7"})
    assert distance(tl.scan(dated, target="y", derive={"q": "b/7"}), there) < 1e-12
