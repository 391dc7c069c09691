"""On Dask: the same moments from any partitioning, whatever happens to the workers."""

from __future__ import annotations

import contextlib
import os
import signal

import numpy as np
import pandas as pd
import pytest
from clusters import SIZES, client, distance, same_bits, split, table

import trueline as tl
from trueline.scale import statistic
from trueline.scale.cluster import Scan, prepared, table_of

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

__all__ = ["client", "table"]  # fixtures


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_any_partitioning_gives_the_moments_of_one_machine(client, table, sizes):
    here = tl.scan(table, target="y", weights="weight").designed()
    there = tl.scan(split(table, sizes), target="y", weights="weight").designed()
    assert distance(here, there) < 1e-12
    assert there.schema == here.schema
    ours, theirs = (tl.LinearRegression.from_moments(m) for m in (here, there))
    digits = min(ours.certificate_.digits, theirs.certificate_.digits)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=10.0**-digits)


def test_twice_the_same_bits_and_any_order_the_same_statistic(client, table):
    frame = split(table, SIZES["seven"])
    first, second = (tl.scan(frame, target="y") for _ in range(2))
    assert same_bits(first, second)
    shuffled = split(table.sample(frac=1.0, random_state=3), SIZES["seven"])
    assert distance(first.designed(), tl.scan(shuffled, target="y").designed()) < 1e-12


def test_two_hundred_partitions_with_folds(client, table):
    here = tl.scan(table, target="y", features=list("abcd"), folds=3)
    there = tl.scan(split(table, [20] * 200), target="y", features=list("abcd"), folds=3)
    assert distance(here, there) < 1e-12
    ours, theirs = (tl.LinearRegression.from_moments(m) for m in (here, there))
    digits = min(ours.certificate_.digits, theirs.certificate_.digits)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=10.0**-digits)


def test_the_size_of_a_statistic_and_its_sample():
    for d in (3, 40):
        rng = np.random.default_rng(d)
        wide = pd.DataFrame(rng.normal(size=(3000, d + 1)), columns=[f"column_{j}" for j in range(d)] + ["y"])
        one, options, _ = prepared(table_of(dd.from_pandas(wide, npartitions=1)), {"target": "y", "folds": 5})
        import polars as pl

        raw = Scan(one.declared, options).run(0, iter([pl.DataFrame(wide)]))
        assert len(raw) <= 5 * (16 * (d + 4) ** 2 + 4096)
        kept, _ = statistic.unpack(raw)
        assert len(kept.sample.rows) > 100
        both = statistic.unpack(
            statistic.merge([raw, Scan(one.declared, options).run(1, iter([pl.DataFrame(-wide)]))])
        )[0]
        # What is left is a true beginning of the sample that one pass would keep.
        whole = tl.scan([wide, -wide], target="y").sample
        assert len(both.sample.rows) and (both.sample.priority == whole.priority[: len(both.sample.rows)]).all()


def test_a_worker_killed_in_the_middle_changes_nothing(client, table, tmp_path):
    def deadly(part: pd.DataFrame, partition_info=None) -> pd.DataFrame:
        """The worker that makes partition 3 is killed, once."""
        if partition_info is not None and partition_info["number"] == 3:
            with contextlib.suppress(FileExistsError):
                (tmp_path / "killed").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return part

    frame = split(table, SIZES["seven"]).map_partitions(deadly, meta=table.iloc[:0])
    expected = tl.scan(split(table, SIZES["seven"]), target="y")
    pids = set(client.run(os.getpid).values())
    found = tl.scan(frame, target="y")
    client.wait_for_workers(2, timeout=60)
    assert (tmp_path / "killed").exists() and pids != set(client.run(os.getpid).values())
    assert same_bits(found, expected)


def test_arrays_and_cross_validation_agree_with_one_machine(client, table):
    X, y = table[list("abcd")].to_numpy(), table["y"].to_numpy()
    arrays = da.from_array(X, chunks=(700, 2)), da.from_array(y, chunks=700)
    ours = tl.LinearRegression().fit(*arrays)
    here = tl.LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.coef_, here.coef_, rtol=1e-11)
    frame = table[[*"abcd", "y"]]
    there = tl.RidgeCV(alphas=(0.1, 1.0, 10.0)).fit(dd.from_pandas(frame, npartitions=5), target="y")
    local = tl.RidgeCV(alphas=(0.1, 1.0, 10.0)).fit(frame, target="y")
    assert there.alpha_ == local.alpha_
    np.testing.assert_allclose(there.coef_, local.coef_, rtol=1e-10)


@pytest.mark.parametrize("missing", ["drop", "mean", "indicator"])
def test_missing_values_by_each_policy(client, table, missing):
    gaps = table.copy()
    gaps.loc[::97, "a"] = np.nan
    gaps.loc[5::501, "color"] = None
    here = tl.scan(gaps, target="y", missing=missing).designed()
    there = tl.scan(split(gaps, SIZES["empty and skewed"]), target="y", missing=missing).designed()
    assert distance(here, there) < 1e-12
