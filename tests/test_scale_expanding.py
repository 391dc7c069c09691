"""The quadratic models that partitions of numbers send with the first job."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from clusters import split

import trueline as tl
from trueline.objective.losses import resolve_loss
from trueline.scale import looking
from trueline.scale.expanding import Expansion

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install 'dask[distributed]' runs these tests")


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 12_000
    frame = pd.DataFrame(rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 1e4, 0.0], columns=list("abc"))
    score = frame.a + 0.05 * (frame.b - 1e4) + 3.0 * frame.c
    return frame.assign(
        label=(score + rng.logistic(size=n) > 0.0).astype(float),
        count=rng.poisson(np.exp(0.3 * score)).astype(float),
        weight=rng.integers(0, 3, size=n).astype(float),
    )


def test_models_add_up_about_any_shift(rows):
    X, y = rows[[*"abc"]].to_numpy(), 2.0 * rows.label.to_numpy() - 1.0
    at, means = np.array([0.8, 0.04, 2.5, -400.0]), (X[:5000].mean(axis=0), X[5000:].mean(axis=0))
    logistic, one = resolve_loss("logistic"), np.ones(len(y))
    left = Expansion.of(0, logistic, [(X[:5000], y[:5000], one[:5000])], at, means[0], True)
    right = Expansion.of(4, logistic, [(X[5000:], y[5000:], one[5000:])], at, means[1], True)
    both = Expansion.merged([left, right])
    whole = Expansion.of(0, logistic, [(X, y, one)], at, means[0], True)
    scale = np.sqrt(np.diagonal(whole.hessian))
    assert both.points.keys() == {0, 4}
    np.testing.assert_allclose(
        both.hessian / scale / scale[:, None], whole.hessian / scale / scale[:, None], atol=1e-11
    )
    np.testing.assert_allclose(both.minimum(), whole.minimum(), rtol=1e-9)
    assert Expansion.merged([left, None]) is None


@pytest.mark.parametrize("how", ["shuffled", "sorted", "one class in some"])
@pytest.mark.parametrize("tol", [1e-6, 1e-9])
def test_the_proof_holds_however_rows_are_partitioned(rows, how, tol):
    by = {"shuffled": rows, "sorted": rows.sort_values("a"), "one class in some": rows.sort_values("label")}[how]
    features = {"target": "label", "features": [*"abc"]}
    best = tl.LogisticRegression(tol=1e-12).fit(rows[[*"abc"]], rows.label)
    with dask.config.set(scheduler="synchronous"):
        there = tl.LogisticRegression(tol=tol).fit(split(by, [2000] * 6), **features)
    proof, jobs = there.certificate_, there.model_.statistics["jobs"]
    assert proof.proven and proof.relative_gap <= tol
    least = best.certificate_.primal
    assert proof.dual <= least * (1.0 + 1e-12) and proof.primal <= least * (1.0 + tol)
    assert jobs <= (3 if how == "shuffled" and tol == 1e-6 else 8)
    if tol == 1e-9:
        X, y, w = rows[[*"abc"]].to_numpy(), 2.0 * rows.label.to_numpy() - 1.0, there.coef_[0]
        slopes = -y / (1.0 + np.exp(y * (X @ w + there.intercept_[0])))
        assert np.abs((X - X.mean(axis=0)).T @ slopes + w).max() / len(y) < 1e-10


@pytest.mark.parametrize("intercept", [True, False])
def test_weights_other_losses_and_inference(rows, intercept):
    options = {"tol": 1e-9, "fit_intercept": intercept}
    named = rows.assign(b=rows.b - 1e4)
    here = tl.GeneralizedRegression("poisson", **options).fit(
        named[[*"abc"]], named["count"], sample_weight=named.weight.to_numpy()
    )
    with dask.config.set(scheduler="synchronous"):
        there = tl.GeneralizedRegression("poisson", **options).fit(
            split(named[[*"abc", "count", "weight"]], [1500] * 8), target="count", weights="weight"
        )
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-8)
    assert there.certificate_.proven
    assert np.isfinite(there.model_.statistics["covariance"]).all()


def test_a_partition_too_large_to_be_held_sends_its_start_alone(rows, monkeypatch):
    monkeypatch.setattr(looking, "HELD_BYTES", 1 << 15)
    with dask.config.set(scheduler="synchronous"):
        there = tl.LogisticRegression().fit(split(rows, [6000] * 2), target="label", features=[*"abc"])
    assert there.certificate_.proven and there.model_.statistics["jobs"] <= 4


def test_numbers_that_overflow_are_refused_by_name(rows):
    huge = rows.assign(b=np.where(np.arange(len(rows)) == 7, 1e200, rows.b))
    with dask.config.set(scheduler="synchronous"), pytest.raises(tl.DataError, match="column 'b' holds"):
        tl.LogisticRegression().fit(split(huge, [6000] * 2), target="label", features=[*"abc"])
