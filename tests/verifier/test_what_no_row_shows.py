"""What a table's rows do not show: fills of columns that lack nothing, expressions, settings."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import trueline as tl
from trueline import modelfile


def forged(tmp_path, model, change):
    path = tmp_path / "model.tl"
    model.save(path)
    kind, arrays, meta = modelfile.loads(path.read_bytes())
    change(meta)
    path.write_bytes(modelfile.dumps(kind, arrays, meta))
    return tl.load(path)


@pytest.fixture
def flats():
    rng = np.random.default_rng(0)
    area = rng.uniform(20, 120, 80)
    return pl.DataFrame({"area": area, "rooms": rng.integers(1, 5, 80), "rent": 9 * area + rng.normal(0, 20, 80)})


def test_a_fill_for_a_column_that_lacks_nothing_is_refused(flats, tmp_path):
    def change(meta):
        meta["schema"]["missing"] = "mean"
        meta["schema"]["columns"][0].update(fill=[1e6], missing=1)

    honest = tl.LinearRegression().fit(flats, target="rent")
    assert tl.verify(honest, flats).ok
    assert not tl.verify(forged(tmp_path, honest, change), flats).ok


@pytest.mark.parametrize("missing", ["mean", "indicator", "drop"])
def test_columns_that_do_lack_values_hold(flats, missing):
    gaps = flats.with_columns(area=pl.when(pl.int_range(80) % 9 == 0).then(None).otherwise("area"))
    assert tl.verify(tl.LinearRegression().fit(gaps, target="rent", missing=missing), gaps).ok


def test_expressions_are_listed_as_stated_in_full(flats, tmp_path):
    expression = "case when area > 500 then 0.0 else area end"
    model = forged(
        tmp_path,
        tl.LinearRegression().fit(flats, target="rent"),
        lambda meta: meta["schema"].update(derive=[["area", expression]], where="area > 0"),
    )
    stated = dict(tl.verify(model, flats).stated)
    assert stated[f"derived column area = {expression}"] == expression
    assert stated["rows where area > 0"] == "area > 0"


def test_components_are_verified_with_a_plain_array():
    X = np.random.default_rng(0).normal(size=(40, 3))
    assert tl.verify(tl.PCA(2).fit(X), X).ok


def test_an_intercept_that_the_objective_does_not_have_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = (X[:, 0] + rng.normal(size=90) > 0).astype(int)
    model = tl.LogisticRegression(C=np.inf).fit(X, y)
    assert tl.verify(model, (X, y)).ok
    model = forged(tmp_path, model, lambda meta: meta["statistics"].update(fit_intercept=False))
    assert not tl.verify(model, (X, y)).ok


def test_parameters_of_the_estimator_are_listed_as_stated():
    X = np.random.default_rng(0).normal(size=(40, 3))
    assert "parameters of the estimator" in dict(tl.verify(tl.Ridge(2.0).fit(X, X[:, 0]), (X, X[:, 0])).stated)
