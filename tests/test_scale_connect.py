"""Over Spark Connect: the same fits and a lazy prediction, against a server that the test starts and ends with its session."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from sparks import needs_java

pytestmark = needs_java

CONNECT = """
import numpy as np, pandas as pd, trueline as tl
from pyspark.sql import SparkSession

builder = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
session = builder.config("spark.connect.grpc.binding.address", "127.0.0.1").getOrCreate()
rng = np.random.default_rng(0)
rows = pd.DataFrame(rng.normal(size=(500, 2)), columns=["a", "b"])
rows["y"] = rows.a - rows.b + rng.normal(size=500)
rows["label"] = np.where(rows.y > 0, "yes", "no")
frame = session.createDataFrame(rows).repartition(3)
assert "connect" in type(frame).__module__
made = tl.LinearRegression().fit(frame, target="y", features=["a", "b"])
here = tl.LinearRegression().fit(rows[["a", "b"]], rows.y)
np.testing.assert_allclose(made.coef_, here.coef_, rtol=1e-11)
found = made.predict(frame)
assert type(found) is type(frame)
shown = found.toPandas()
np.testing.assert_allclose(shown["prediction"], made.predict(shown[["a", "b"]]), rtol=1e-13)
labels = tl.LogisticRegression().fit(frame, target="label", features=["a", "b"])
assert labels.certificate_.proven
from pyspark.ml.functions import array_to_vector
from pyspark.sql.functions import array
vectors = frame.select(array_to_vector(array("a", "b")).alias("x"), "y")
again = tl.LinearRegression().fit(vectors, target="y")
np.testing.assert_allclose(again.coef_, here.coef_, rtol=1e-11)
assert again.predict(vectors).count() == 500
session.stop()
print("done")
"""


@pytest.mark.torture  # a server of its own takes longer to start than all the rest
@pytest.mark.timeout(300)
def test_over_connect():
    pytest.importorskip("grpc", reason="Spark Connect needs pip install 'pyspark[connect]'")
    ran = subprocess.run(
        [sys.executable, "-c", CONNECT], capture_output=True, text=True, timeout=290,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.strip().splitlines()[-1] == "done"
