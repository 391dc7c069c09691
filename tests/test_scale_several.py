"""On Dask: losses that need several passes, and lazy predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from clusters import SIZES, client, labelled, split, table
from tolerances import rounding

import trueline as tl

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

__all__ = ["client", "table"]  # fixtures


@pytest.mark.parametrize("C", [1.0, np.inf])
def test_logistic_regression_as_on_one_machine(client, table, C):
    rows = labelled(table).drop(columns="count")
    here = tl.LogisticRegression(C=C, tol=1e-9).fit(rows[[*"abcd"]], rows["label"])
    there = tl.LogisticRegression(C=C, tol=1e-9).fit(split(rows, SIZES["empty and skewed"]), target="label")
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-9)
    assert there.certificate_.proven and there.certificate_.relative_gap <= 1e-9
    assert there.certificate_.dual <= here.certificate_.primal * (1 + 1e-12)
    assert list(there.classes_) == ["no", "yes"]
    assert there.model_.statistics["jobs"] <= 10  # one an iteration
    guessed = there.predict(split(rows, SIZES["seven"]))
    assert isinstance(guessed, dd.Series)
    assert list(guessed.compute()) == list(here.predict(rows[[*"abcd"]]))


@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_generalised_regression_as_on_one_machine(client, table, loss):
    rows = labelled(table).drop(columns="label")
    here = tl.GeneralizedRegression(loss, tol=1e-9).fit(rows[[*"abcd"]], rows["count"])
    there = tl.GeneralizedRegression(loss, tol=1e-9).fit(split(rows, SIZES["seven"]), target="count")
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-8)
    assert there.certificate_.proven


def test_what_many_passes_do_not_take_is_said(table):
    rows = labelled(table)
    with pytest.raises(ValueError, match="l1_ratio is 0"):
        tl.LogisticRegression(l1_ratio=1.0).fit(split(rows, [4000]), target="label")
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(ValueError, match="takes two classes"):
            tl.LogisticRegression().fit(split(table[["a", "color"]], [4000]), target="color")
        with pytest.raises(ValueError, match="no penalty and l2"):
            tl.GeneralizedRegression("poisson", penalty="l1").fit(split(rows[["a", "count"]], [4000]), target="count")


def test_predictions_are_lazy_and_keep_their_type(client, table):
    frame = split(table, SIZES["seven"])
    model = tl.LinearRegression().fit(frame, target="y")
    found = model.predict(frame)
    assert isinstance(found, dd.Series) and found.npartitions == 7
    here = model.predict(table)
    X = model.model_.schema.encode(table).X
    assert (np.abs(found.compute().to_numpy() - here) <= rounding(X, model.coef_, model.intercept_)).all()
    rows = table[[*"abcd"]].to_numpy()
    plain = tl.Ridge().fit(rows, table["y"])
    made = plain.predict(da.from_array(rows, chunks=(900, 4)))
    assert isinstance(made, da.Array) and made.chunks == ((900, 900, 900, 900, 400),)
    assert (np.abs(made.compute() - plain.predict(rows)) <= rounding(rows, plain.coef_, plain.intercept_)).all()


def test_intervals_are_lazy_too(client, table):
    frame = split(table, SIZES["seven"])
    model = tl.LinearRegression().fit(frame, target="y")
    found = model.predict(frame, interval=0.9)
    assert isinstance(found, dd.DataFrame) and list(found.columns) == ["prediction", "low", "high"]
    here = model.predict(table, interval=0.9)
    np.testing.assert_allclose(found.compute()["low"], here.lower, rtol=1e-12)
    rows = table[[*"abcd"]].to_numpy()
    plain = tl.LinearRegression().fit(rows, table["y"])
    made = plain.predict(da.from_array(rows, chunks=(900, 4)), interval=0.9)
    assert isinstance(made.upper, da.Array)
    np.testing.assert_allclose(made.upper.compute(), plain.predict(rows, interval=0.9).upper, rtol=1e-12)
    gaps = table.assign(a=np.where(np.arange(len(table)) == 3999, np.nan, table.a))
    with pytest.raises(tl.DataError, match="in partition 6: "):
        model.predict(split(gaps, SIZES["seven"])).compute()


@pytest.mark.parametrize("size", [3.0, 26.0])
def test_large_counts_take_few_jobs(size):
    """From a score of 0, Newton's steps towards a mean of exp(26) stayed there, and towards exp(10) they were 24."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    rows = pd.DataFrame({"x": x, "y": np.round(np.exp(0.3 * x + size + 0.1 * rng.normal(size=2000)))})
    with dask.config.set(scheduler="synchronous"):
        model = tl.GeneralizedRegression("poisson").fit(split(rows, [700, 0, 1300]), target="y")
    assert model.certificate_.proven and model.model_.statistics["jobs"] <= 5
    assert model.intercept_ == pytest.approx(size, abs=0.1)
