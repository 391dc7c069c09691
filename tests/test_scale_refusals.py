"""On Dask: what is refused, in one sentence that names the partition or the worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from clusters import SIZES, client, distance, split, table

import trueline as tl

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

__all__ = ["client", "table"]  # fixtures


def broken(table: pd.DataFrame, change) -> dd.DataFrame:
    parts = [table.iloc[:1000].copy(), table.iloc[1000:2000].copy(), change(table.iloc[2000:].copy())]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=table.iloc[:0], verify_meta=False)


CHANGES = {
    "partition 2 lacks column 'b'": lambda part: part.drop(columns="b"),
    "column 'a' of partition 2 is a category": lambda part: part.assign(a="text"),
    "partition 2 has a column 'z'": lambda part: part.assign(z=1.0),
    "column 'a' of partition 2 has a missing value in row 6": lambda part: part.assign(
        a=np.where(np.arange(len(part)) == 5, np.nan, part.a)
    ),
    "column 'c' of partition 2 has 2000 infinite values": lambda part: part.assign(c=np.inf),
}


@pytest.mark.parametrize("sentence", CHANGES, ids=["lacking", "type", "extra", "missing", "infinite"])
def test_refusals_name_the_partition(client, table, sentence):
    with pytest.raises(tl.DataError, match=sentence) as refusal:
        tl.scan(broken(table, CHANGES[sentence]), target="y")
    assert "\n" not in str(refusal.value)


def test_arrays_lose_neither_a_mask_nor_a_digit(client):
    X, y = np.arange(40.0).reshape(20, 2) ** 0.5, np.arange(20.0)
    rows, targets = da.from_array(X, chunks=(7, 2)), da.from_array(y, chunks=7)
    model = tl.LinearRegression().fit(rows, targets)
    with pytest.raises(tl.DataError, match="a block of y is a masked array with 1 masked entry, the first in row 3"):
        tl.LinearRegression().fit(rows, da.ma.masked_equal(targets, 10.0))
    with pytest.raises(tl.DataError, match="a block of X is a masked array"):
        tl.LinearRegression().fit(da.ma.masked_greater(rows, 6.0), targets)
    with pytest.raises(tl.DataError, match="a block of X is a masked array"):
        model.predict(da.ma.masked_greater(rows, 6.0)).compute()
    whole = da.from_array(np.where(y == 9, 2**53 + 1, np.arange(20)), chunks=7)
    with pytest.raises(
        tl.DataError, match="column 'y' of a block of y in row 2 holds the whole number 9007199254740993"
    ):
        tl.LinearRegression().fit(rows, whole)


@pytest.mark.parametrize(
    "model", [tl.LogisticRegression(solver="gradient"), tl.GeneralizedRegression("poisson", method="fista")]
)
def test_a_method_that_is_not_there_is_refused_and_not_replaced(model):
    frame = dd.from_pandas(pd.DataFrame({"x": np.arange(9.0), "y": [0, 1, 1] * 3}), npartitions=2)
    with pytest.raises(tl.UsageError, match=r"on Dask and Spark the method is 'newton', not '(gradient|fista)'; leave"):
        model.fit(frame, target="y")


def test_what_only_the_whole_shows_is_refused_too(client, table):
    with pytest.raises(tl.DataError, match="is constant"):
        tl.scan(split(table.assign(y=1.0), SIZES["seven"]), target="y")
    with pytest.raises(tl.DataError, match="no rows left by where"):
        tl.scan(split(table, SIZES["seven"]), target="y", where="a > 1e9")
    with pytest.raises(tl.UsageError, match="there is no target column 'z'"):
        tl.scan(split(table, SIZES["seven"]), target="z")
    by_level = pd.concat([table[table.color == level] for level in ("red", "blue")])
    sizes = [int((by_level.color == level).sum()) for level in ("red", "blue")]
    there = tl.scan(split(by_level, sizes), target="y").designed()
    assert distance(tl.scan(by_level, target="y").designed(), there) < 1e-12
    assert there.schema.constant == ()


BLOCKER = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "trueline":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
"""


@pytest.fixture
def elsewhere(tmp_path):
    """(address, scheduler process) of a cluster whose one worker cannot import trueline."""
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    told = tmp_path / "scheduler.json"
    python = [sys.executable, "-m"]
    common = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(told)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([*python, "distributed.cli.dask_scheduler", "--port", "0", *common], **quiet)
    worker = subprocess.Popen(
        [*python, "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *common],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        **quiet,
    )
    try:
        deadline = time.monotonic() + 60
        while not told.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        yield json.loads(told.read_text())["address"], scheduler
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait(10)


@pytest.mark.timeout(120)
def test_a_worker_without_trueline_and_a_scheduler_that_is_gone(elsewhere, table):
    from distributed import Client

    address, scheduler = elsewhere
    frame = split(table, SIZES["seven"])
    with dask.config.set({"distributed.comm.timeouts.connect": "3s"}), Client(address, timeout="30s") as client:
        client.wait_for_workers(1, timeout=60)
        with pytest.raises(
            tl.UsageError, match=r"the worker tcp://127.0.0.1:\d+ of Dask has no trueline; install"
        ) as raised:
            tl.scan(frame, target="y")
        assert "\n" not in str(raised.value)
        scheduler.kill()
        scheduler.wait(10)
        deadline = time.monotonic() + 60
        while client.status == "running" and time.monotonic() < deadline:
            time.sleep(0.1)
        with pytest.raises(tl.UsageError, match="the scheduler of Dask cannot be reached; check its address"):
            tl.scan(frame, target="y")
