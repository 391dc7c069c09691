"""What the tests of Spark share: a local session of two threads, a table, a distance. It needs Java."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import trueline as tl

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install pyspark runs these tests")

JAVA = shutil.which("java") or (os.environ.get("JAVA_HOME") and Path(os.environ["JAVA_HOME"], "bin", "java").exists())
needs_java = pytest.mark.skipif(
    not JAVA,
    reason="Spark needs Java and there is none on PATH or in JAVA_HOME: install a JDK of version 17 or later "
    "(apt-get install openjdk-17-jre-headless, or brew install openjdk@17)",
)


@pytest.fixture(scope="session")
def spark():
    """One session for all modules, which conftest.py sends to one process: a JVM takes long to start."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2,3]")  # a failed task is tried again
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
