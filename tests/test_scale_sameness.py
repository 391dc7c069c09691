"""However rows are divided, and whatever type they come in, Dask gives what one machine gives, or one sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from clusters import distance, one_process, split

import trueline as tl

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

__all__ = ["one_process"]  # fixture


@pytest.fixture
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame({"x": rng.normal(size=n), "k": rng.integers(1, 99, n), "y": rng.normal(size=n)})
    frame["when"] = pd.date_range("2020-03-01", periods=n, freq="37min")
    frame["took"] = pd.to_timedelta(rng.integers(0, 10**12, n), unit="us")
    frame["g"] = np.tile([1.0, 2.0, 3.0], n // 3)
    frame.loc[5, "g"] = 2.5
    return frame


@pytest.mark.parametrize(
    "options",
    [{}, {"derive": {"q": "x/7"}}, {"derive": {"q": "k/7"}, "where": "k > 20"}, {"categories": ["g"]}, {"group": "g"}],
    ids=str,
)
def test_partitions_of_one_row_have_the_folds_and_levels_of_one_machine(rows, options):
    """A single row was divided otherwise than several, and a fraction beside it renamed the level 1 to 1.0."""
    here = tl.scan(rows, target="y", **options)
    for sizes in ([1] * 120, [60, 60], [119, 1]):
        there = tl.scan(split(rows, sizes), target="y", **options)
        assert sorted(there.terms) == sorted(here.terms)
        assert distance(here.designed(), there.designed()) < 1e-12


def test_one_machine_names_levels_alike_in_every_block(rows):
    whole = tl.scan(rows, target="y", categories=["g"])
    halves = tl.scan(iter([rows[:60], rows[60:]]), target="y", categories=["g"])
    assert set(whole.terms) == set(halves.terms) and {"g[1]", "g[2.5]"} <= set(whole.terms)


@pytest.mark.parametrize("where", ["x > avg(x)", "rank() over (order by x) > 3", "row_number() over () > 3"])
def test_expressions_that_look_at_other_rows_are_refused(rows, where):
    with pytest.raises(
        tl.UsageError, match=r"takes other rows into account .*compute that column with the engine first"
    ):
        tl.scan(split(rows, [60, 60]), target="y", where=where)
    with pytest.raises(tl.UsageError, match=r"derive .* takes other rows into account"):
        tl.scan(split(rows, [60, 60]), target="y", derive={"q": "x / max(x)"})
    words = rows.assign(name="Max Rank")
    taken = tl.scan(split(words, [60, 60]), target="y", features=["x"], where="substr(name, 1, 3) = 'Max'")
    assert taken.n == 120


def test_constants_of_a_basis_come_from_many_partitions(rows):
    ordered = rows[["x", "y"]].sort_values("x")
    question = {"formula": "y ~ spline(x, 5)"}
    here = tl.scan(ordered, **question).designed()
    for sizes in ([1, 59, 60], [30] * 4):
        assert distance(here, tl.scan(split(ordered, sizes), **question).designed()) < 1e-9


def test_names_that_are_numbers():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.normal(size=(60, 3)))
    frame = dd.from_pandas(rows, npartitions=2)
    model = tl.LinearRegression().fit(frame, target="2", features=["0"])
    np.testing.assert_allclose(model.coef_, tl.LinearRegression().fit(rows[[0]].to_numpy(), rows[2]).coef_, rtol=1e-10)
    whole = tl.LinearRegression().fit(frame, target="2")
    assert len(whole.predict(frame).compute()) == 60


def test_arrays_of_other_things_than_numbers_are_refused(rows):
    array = da.from_array(rows[["x", "y"]].to_numpy(), chunks=(40, 2))
    for wrong in (array + 1j, array.astype(str), array.astype("M8[s]")):
        with pytest.raises(
            tl.errors.DataError, match="and numbers are taken; give a Dask dataframe for text and dates"
        ):
            tl.scan(wrong, target="x1")
    with pytest.raises(tl.errors.DataError, match="the targets are a Dask array of type <U1"):
        tl.LogisticRegression().fit(array, da.from_array(np.where(rows.y > 0, "p", "q"), chunks=40))


def test_arrays_that_are_divided_otherwise_are_divided_alike(rows):
    X, y = rows[["x", "k"]].to_numpy(float), rows.y.to_numpy()
    there = tl.LinearRegression().fit(da.from_array(X, chunks=((40, 80), 2)), da.from_array(y, chunks=((80, 40),)))
    np.testing.assert_allclose(there.coef_, tl.LinearRegression().fit(X, y).coef_, rtol=1e-10)


@pytest.mark.parametrize("kind", [float, int, bool])
def test_labels_keep_their_type(rows, kind):
    labels = (rows.y > 0).astype(kind)
    frame = split(rows[["x"]].assign(label=labels), [50, 70])
    X = da.from_array(rows[["x"]].to_numpy(), chunks=(60, 1))
    made = [
        tl.LogisticRegression().fit(frame, target="label"),
        tl.LogisticRegression().fit(X, da.from_array(labels.to_numpy(), chunks=60)),
        tl.OnlineClassifier("logistic", "additive", rate=0.1).fit(frame, target="label"),
    ]
    here = tl.LogisticRegression().fit(rows[["x"]], labels)
    for model in made:
        assert model.classes_.dtype == here.classes_.dtype


def test_a_date_is_no_class(rows):
    frame = split(rows[["x"]].assign(day=pd.Timestamp("2024-01-01") + (rows.y > 0) * pd.Timedelta("1D")), [60, 60])
    for model in (tl.LogisticRegression(), tl.OnlineClassifier("logistic", "additive", rate=0.1)):
        with pytest.raises(tl.errors.DataError, match="target 'day' is a date, and classes are text, numbers or true"):
            model.fit(frame, target="day")


def test_a_partition_without_any_value_of_a_column_may_have_any_type(rows):
    first, second = rows[["x", "y"]][:60], rows[["x", "y"]][60:].assign(x=pd.Series([None] * 60, index=range(60, 120)))
    parts = [dask.delayed(part) for part in (first, second.astype({"x": object}))]
    frame = dd.from_delayed(parts, meta=first[:0], verify_meta=False)
    assert tl.scan(frame, target="y", missing="drop").n == 60
