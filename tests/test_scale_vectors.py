"""Spark's columns of vectors and arrays: their entries are features under their own names, as if they were columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sparks import distance, needs_java, spark

import trueline as tl
from trueline.errors import DataError, UsageError

pytestmark = needs_java
__all__ = ["spark"]  # fixture
PARTS = ["u", "v", "w", "q"]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 600
    frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=[*PARTS, "z"])
    frame[PARTS[1:]] *= rng.random((n, 3)) < 0.2  # so that assembled vectors are sparse in part
    frame["y"] = frame.u - 2.0 * frame.v + 0.5 * frame.z + rng.normal(size=n)
    frame["label"] = np.where(frame.y + rng.normal(size=n) > 0, "yes", "no")
    frame["color"] = rng.choice(["blue", "red"], size=n)
    return frame


@pytest.fixture(scope="module")
def assembled(spark, rows):
    """A vector beside z, the targets and a category: some rows dense, some sparse."""
    from pyspark.ml.feature import VectorAssembler

    frame = spark.createDataFrame(rows).repartition(3)
    made = VectorAssembler(inputCols=PARTS, outputCol="parts").transform(frame)
    kinds = {type(row.parts).__name__ for row in made.select("parts").collect()}
    assert kinds == {"DenseVector", "SparseVector"}
    return made


def test_an_assembled_vector_is_its_columns(assembled, rows):
    here = tl.scan(rows[[*PARTS, "y"]], target="y")
    there = tl.scan(assembled.select("parts", "y"), target="y")
    assert there.terms == here.terms == tuple(PARTS)
    assert distance(here, there) < 1e-12
    # Named among others, in any place, and where the columns it was assembled from are still there.
    mixed = tl.scan(assembled, target="y", features=["z", "parts"])
    assert distance(tl.scan(rows[["z", *PARTS, "y"]], target="y"), mixed) < 1e-12
    by_entry = tl.scan(assembled.select("y", "parts", "z"), target="y", formula="y ~ w + z")
    assert by_entry.terms == ("w", "z")
    textual = tl.scan(assembled, target="y", features=["parts", "color"]).designed()
    assert distance(tl.scan(rows[[*PARTS, "color", "y"]], target="y").designed(), textual) < 1e-12


def test_models_and_lazy_predictions(assembled, rows):
    here = tl.LogisticRegression(tol=1e-9).fit(rows[PARTS], rows["label"])
    there = tl.LogisticRegression(tol=1e-9).fit(assembled, target="label", features=["parts"])
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-8)
    assert list(there.feature_names_in_) == PARTS
    table = assembled.select("parts", "label")
    made = there.predict(table)
    assert made.columns == ["parts", "label", "prediction"]
    found = made.toPandas()
    expected = here.predict(pd.DataFrame([v.toArray() for v in found.parts], columns=PARTS))
    assert (found.prediction == expected).all()
    # The same model reads a table of columns.
    assert "prediction" in there.predict(assembled.select(*PARTS)).columns
    online = tl.OnlineRegressor(geometry="normalised", rate=0.5).fit(assembled.select("parts", "y"), target="y")
    assert online.predict(assembled.select("parts")).count() == len(rows)


def test_arrays_are_named_after_their_column(spark, rows):
    from pyspark.sql.functions import array

    frame = spark.createDataFrame(rows).select(array("u", "v").alias("pair"), "z", "y")
    there = tl.scan(frame, target="y")
    assert there.terms == ("pair_0", "pair_1", "z")
    plain = rows[["u", "v", "z", "y"]].set_axis(["pair_0", "pair_1", "z", "y"], axis=1)
    assert distance(tl.scan(plain, target="y"), there) < 1e-12
    dotted = frame.withColumnRenamed("pair", "p.q")
    assert tl.scan(dotted, target="y").terms == ("p.q_0", "p.q_1", "z")
    model = tl.LinearRegression().fit(frame, target="y")
    found = model.predict(frame.withColumnRenamed("y", "seen")).toPandas()
    np.testing.assert_allclose(found.prediction, model.predict(plain[["pair_0", "pair_1", "z"]]), rtol=1e-12)


def test_nulls_lengths_and_double_names_are_refused(spark, assembled):
    schema = "x array<double>, y double"
    ragged = spark.createDataFrame([([1.0, 2.0], 1.0)] * 5 + [([1.0], 2.0)], schema).coalesce(1)
    with pytest.raises(DataError, match="'x' holds 1 numbers in row 6 of partition 0 and 2 elsewhere"):
        tl.scan(ragged, target="y")
    rows = [([float(k), 1.0 / (k + 1)], float(k)) for k in range(9)] + [(None, 1.0), ([1.0, None], 1.0)]
    gaps = spark.createDataFrame(rows, schema)
    with pytest.raises(DataError, match="missing"):
        tl.scan(gaps, target="y")
    assert tl.scan(gaps, target="y", missing="drop", folds=None).total.n == 9
    with pytest.raises(UsageError, match="'parts' holds 'u', which is a column of its own too; say by features="):
        tl.scan(assembled, target="y")
    with pytest.raises(UsageError, match="'u'"):
        tl.scan(assembled, target="u", features=["parts"])
    empty = spark.createDataFrame([(None, 1.0)], schema)
    with pytest.raises(DataError, match="'x' holds no numbers in its first row; leave it out"):
        tl.scan(empty, target="y")


def test_batches_of_any_length_become_matrices_in_one_room(monkeypatch):
    """What is kept of a matrix must be a copy: the next one takes its place."""
    import polars as pl
    import pyarrow as pa

    from trueline.scale import spark_batches, statistic
    from trueline.scale.cluster import Scan

    monkeypatch.setattr(spark_batches, "ROWS_BYTES", (8 * 3 * 50, 8 * 3 * 50))
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(400, 3))

    def arrays(some):
        offsets = np.arange(0, some.size + 1, some.shape[1], dtype=np.int32)
        return pa.ListArray.from_arrays(offsets, some.ravel())

    def batches():
        for some in np.split(rows, [10, 40, 60, 60, 260, 390]):  # one longer than the room, one empty
            yield pa.RecordBatch.from_arrays([arrays(some[:, 1:]), arrays(some[:, :1])], names=["v", "row"])

    layout = spark_batches.Layout(("v", "row"), (2, 1), (2, 0, 1))
    found = [piece.copy() for piece in spark_batches.matrices(batches(), layout, "partition 0")]
    assert len(found) > 2 and max(map(len, found)) == 200
    np.testing.assert_array_equal(np.concatenate(found), rows)
    task = Scan(dict.fromkeys(["y", "a", "b"], pl.Float64()), {"target": "y", "folds": 3})
    made, _ = statistic.unpack(task.run(0, spark_batches.matrices(batches(), layout, "partition 0")))
    here = tl.scan(pl.DataFrame(rows, schema=["y", "a", "b"]), target="y", folds=3)
    assert distance(here, made) < 1e-12
