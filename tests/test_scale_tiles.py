"""Sums by tiles: of rows, of columns that lie apart and of columns that follow each other in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from clusters import split

import trueline as tl
from trueline.data.blocks import Columns
from trueline.objective.losses import resolve_loss
from trueline.scale import newton, tiles
from trueline.scale.dask import DaskTable
from trueline.scale.numbers import Encoded

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")


def layouts(X: np.ndarray) -> dict[str, object]:
    apart = [column.copy() for column in X.T]
    apart[1] = np.concatenate([np.zeros(3), X[:, 1]])[3:]  # off the others' distance
    return {"rows": X, "apart": Columns(apart), "regular": Columns(list(np.ascontiguousarray(X.T)))}


@pytest.mark.parametrize("layout", ["rows", "apart", "regular"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [1, 511, 70_000])
def test_sums_are_those_of_the_formulas(layout, intercept, n):
    rng = np.random.default_rng(2)
    X = rng.normal(loc=[0.0, 5.0, -20.0, 1.0], size=(n, 4))
    y, c = np.where(rng.random(n) < 0.4, 1.0, -1.0), rng.random(n)
    shift = np.array([0.1, 5.0, -20.0, 0.9]) * intercept
    z = np.column_stack([X - shift, np.ones(n)])[:, : 4 + intercept]
    theta = np.array([0.3, -0.2, 0.1, 0.05, -0.3])[: 4 + intercept]
    p = 1.0 / (1.0 + np.exp(y * (z @ theta)))
    for hessian, near in [(True, False), (True, True), (False, False), (False, True)]:
        value, gradient, squares = tiles.summed(
            resolve_loss("logistic"),
            [(layouts(X)[layout], y, c)],
            shift,
            theta,
            intercept=intercept,
            hessian=hessian,
            near=near,
        )
        np.testing.assert_allclose(value, c @ np.logaddexp(0.0, -y * (z @ theta)), rtol=1e-12)
        np.testing.assert_allclose(gradient, -(c * y * p) @ z, rtol=1e-9, atol=1e-9)
        if hessian:
            np.testing.assert_allclose(squares, (z.T * (c * p * (1.0 - p))) @ z, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("lying", [False, True])
@pytest.mark.parametrize("layout", ["rows", "apart", "regular"])
@pytest.mark.parametrize("intercept", [True, False])
def test_squares_of_tiles_that_are_copied_or_not(layout, intercept, lying, rough):
    rng = np.random.default_rng(4)
    n, spreads = 90_000, np.array([1.0, 1e4, 1e-5, 3.0])
    X = rng.normal(loc=[0.5, -0.9, 0.0, 0.2], size=(n, 4)) * spreads
    h, shift = rng.random(n) / n, X.mean(axis=0) * intercept
    z = np.column_stack([X - shift, np.ones(n)])[:, : 4 + intercept]
    squares = tiles.Squares(shift, intercept, rough)
    for some, tile in tiles.tiles(layouts(X)[layout], shift, intercept, lying):
        squares.add(tile, h[some])
    exact = (z.T * h) @ z
    units = np.sqrt(np.outer(np.diagonal(exact), np.diagonal(exact)))
    off = np.abs(squares.total - exact) / units
    assert off.max() < (2e-6 if rough else 1e-13)
    assert (squares.total == squares.total.T).all()
    if rough:
        assert off.max() > 1e-10  # or it would not be float32
    if intercept:
        assert off[4].max() < 1e-13
    np.testing.assert_array_equal(
        tiles.Squares(shift, intercept, rough).total, np.zeros((4 + intercept, 4 + intercept))
    )


def test_six_digits_of_a_hessian_prove_a_penalised_fit(monkeypatch):
    asked: list[tuple[bool, bool]] = []
    at = newton.RemoteRisk.at

    def noted(risk, *given, hessian):
        asked.append((hessian, risk.rough))
        return at(risk, *given, hessian=hessian)

    monkeypatch.setattr(newton.RemoteRisk, "at", noted)
    rng = np.random.default_rng(6)
    X = rng.normal(size=(20_000, 60))
    label = (X @ rng.normal(size=60) / 8.0 + rng.logistic(size=20_000) > 0.0).astype(float)
    rows = pd.DataFrame(X, columns=[f"x{j}" for j in range(60)])
    here = tl.LogisticRegression(tol=1e-12).fit(rows, label)
    with dask.config.set(scheduler="synchronous"):
        table = split(rows.assign(label=label), [2500] * 8)
        there = tl.LogisticRegression().fit(table, target="label")
        assert asked == [(True, True), (False, True)]
        assert there.certificate_.proven and there.certificate_.gap < 1e-6
        assert there.certificate_.dual <= here.certificate_.primal * (1.0 + 1e-12)
        np.testing.assert_allclose(there.certificate_.primal, here.certificate_.primal, rtol=1e-6)
        for exact in ({"C": np.inf}, {"C": 1e12}, {"tol": 1e-10}):  # standard errors, a weak penalty, more digits
            asked.clear()
            made = tl.LogisticRegression(**exact).fit(table, target="label")
            assert made.certificate_.proven and not any(rough for _, rough in asked)


def test_columns_that_follow_each_other_are_not_copied():
    X = layouts(np.random.default_rng(0).normal(size=(5000, 4)))
    shift = np.zeros(4)
    assert all(
        np.shares_memory(tile, X["regular"].columns[3]) for _, tile in tiles.tiles(X["regular"], shift, True, True)
    )
    assert not any(
        np.shares_memory(tile, X["apart"].columns[3]) for _, tile in tiles.tiles(X["apart"], shift, True, True)
    )
    backwards = Columns(X["regular"].columns[::-1])
    found = np.concatenate([tile for _, tile in tiles.tiles(backwards, shift, True, True)])
    np.testing.assert_array_equal(found, np.column_stack(backwards.columns))


@pytest.mark.parametrize("far", [0.0, 1e7])
@pytest.mark.parametrize("sizes", [[300] * 10, [3000]], ids=["few rows a column", "one partition"])
def test_partitions_of_few_rows_a_column_are_proven_in_three_jobs(far, sizes):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(3000, 12)) + far * np.arange(12)
    label = ((X - X.mean(axis=0)) @ rng.normal(size=12) / 3.0 + rng.logistic(size=3000) > 0.0).astype(float)
    rows = pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]).assign(label=label)
    here = tl.LogisticRegression().fit(rows.drop(columns="label"), label)
    with dask.config.set(scheduler="synchronous"):
        there = tl.LogisticRegression().fit(split(rows, sizes), target="label")
    assert there.certificate_.proven and there.model_.statistics["jobs"] <= 3
    assert there.certificate_.dual <= here.certificate_.primal * (1.0 + 1e-12)
    np.testing.assert_allclose(there.certificate_.primal, here.certificate_.primal, rtol=2e-6)


@pytest.mark.parametrize("name", ["huber", "poisson"])
def test_a_constant_column_gets_no_coefficient(name):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(rng.normal(size=(3000, 2)), columns=list("ab")).assign(k=0.7)
    rows["y"] = rng.poisson(np.exp(0.3 * rows.a)).astype(float)
    here = tl.GeneralizedRegression(name, tol=1e-9).fit(rows[[*"abk"]], rows.y)
    with dask.config.set(scheduler="synchronous"):
        there = tl.GeneralizedRegression(name, tol=1e-9).fit(split(rows, [400, 2600]), target="y")
    assert there.certificate_.proven and abs(there.coef_[2]) < 1e-12
    np.testing.assert_allclose(there.predict(rows[[*"abk"]]), here.predict(rows[[*"abk"]]), rtol=1e-7)


def test_columns_of_float64_are_not_kept_a_second_time():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    with dask.config.set(scheduler="synchronous"):
        floats = DaskTable(split(rows, [200, 200]).persist()).keep({"target": "c"})
        whole = DaskTable(split(rows.assign(a=rng.integers(0, 5, size=400)), [200, 200]).persist()).keep(
            {"target": "c"}
        )
        assert not floats.kept
        assert all(isinstance(part.compute(), Encoded) for part in whole.kept)
