"""LinearRegression, Ridge and RidgeCV as scikit-learn estimators: conformance, roads, shapes, files."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from tolerances import assert_same_fit

import trueline as tl
from trueline.errors import DataError, UsageError
from trueline.onepass.exact import HIGHEST
from trueline.onepass.moments import Moments
from trueline.onepass.squares import least_squares


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["LinearRegression", "Ridge", "RidgeCV"])
def test_conforms(name):
    check_estimator(getattr(tl, name)())


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5)) + 2
    Y = X @ rng.normal(size=(5, 2)) + rng.normal(size=(120, 2))
    return X, Y, rng.uniform(0.2, 2, 120)


@pytest.mark.parametrize("method", ["normal", "qr", "svd"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_road_leads_to_the_same_place(data, method, fit_intercept):
    X, Y, w = data
    base = tl.LinearRegression(fit_intercept=fit_intercept).fit(X, Y, w)
    road = tl.LinearRegression(fit_intercept=fit_intercept, method=method).fit(X, Y, w)
    assert np.allclose(road.coef_, base.coef_, rtol=1e-12) and np.allclose(road.intercept_, base.intercept_)
    assert road.certificate_.digits > 11 and road.certificate_.rank == road.rank_ == 5
    assert np.allclose(road.summary(target=1).std_errors, base.summary(target=1).std_errors, rtol=1e-11)
    Z = (X - np.average(X, axis=0, weights=w) if fit_intercept else X) * np.sqrt(w)[:, None]
    assert np.allclose(base.singular_, np.linalg.svd(Z, compute_uv=False), rtol=1e-12)


def dependent(seed):
    """Columns of many sizes and offsets, and among them some that others explain."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(12, 300)), int(rng.integers(2, 6))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, d) + 10.0 ** rng.uniform(-2, 4) * rng.integers(0, 2)
    extra = [
        X[:, [0]] * rng.choice([3.0, 0.1, -7.0]),
        X[:, [0]] + X[:, [1]],
        np.full((n, 1), rng.choice([1.0, 0.1, 1e3])),
        X[:, [0]] - 2 * X[:, [-1]] + rng.choice([0.0, 5.0]),
    ]
    Z = np.hstack([X, *(extra[k] for k in rng.permutation(4)[: rng.integers(1, 4)])])
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    return Z[:, rng.permutation(Z.shape[1])], y, rng.random(n) if seed % 3 == 0 else None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rank", ["minimum-norm", "drop"])
def test_every_road_drops_the_same_columns(seed, rank):
    Z, y, w = dependent(seed)
    normal = tl.LinearRegression(rank=rank).fit(Z, y, w)
    for method in ("qr", "svd"):
        road = tl.LinearRegression(method=method, rank=rank).fit(Z, y, w)
        assert road.certificate_.dropped == normal.certificate_.dropped != ()
        assert road.certificate_.rank == normal.certificate_.rank
        size = np.abs(normal.coef_).max()
        np.testing.assert_allclose(road.coef_, normal.coef_, rtol=1e-5, atol=1e-7 * size)
        if rank == "drop":
            assert (road.coef_[[int(name[1:]) for name in road.certificate_.dropped]] == 0).all()


def test_wide_tables_name_and_drop_columns_too():
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(40, 300)), rng.normal(size=40)
    for rank, used in (("minimum-norm", 300), ("drop", 39)):
        model = tl.LinearRegression(rank=rank).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y, atol=1e-10)
        assert model.certificate_.dropped == tuple(f"x{j}" for j in range(39, 300))
        assert (model.coef_ != 0).sum() == used and len(model.certificate_.advice) < 300


@pytest.mark.parametrize("method", ["qr", "svd"])
def test_roads_over_the_rows_do_not_overclaim(method):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        U, _ = np.linalg.qr(rng.normal(size=(30, 4)))
        V, _ = np.linalg.qr(rng.normal(size=(4, 4)))
        X = (U * np.geomspace(1, 10 ** -rng.uniform(0, 8), 4)) @ V
        y = X @ rng.normal(size=4) + rng.normal(size=30) * 10 ** -rng.uniform(0, 6)
        exactly = tl.LinearRegression().fit(X, y)
        road = tl.LinearRegression(method=method).fit(X, y)
        error = np.max(np.abs(road.coef_ - exactly.coef_) / np.abs(exactly.coef_)) + 1e-16
        assert road.certificate_.digits <= -np.log10(error) + 1


def test_wide_and_rank_deficient_by_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 90))
    y = rng.normal(size=20)
    model = tl.LinearRegression().fit(X, y)
    Z = X - X.mean(axis=0)
    assert np.allclose(model.coef_, np.linalg.pinv(Z) @ (y - y.mean()), atol=1e-10)
    assert model.certificate_.rank == 19 and not model.certificate_.proven
    narrow = tl.LinearRegression().fit(X[:, :30], y)
    assert np.allclose(narrow.coef_, np.linalg.pinv(Z[:, :30]) @ (y - y.mean()), atol=1e-10)


def test_sparse_float32_and_fortran_rows_are_the_same_rows(data):
    X, Y, _ = data
    X = np.where(np.abs(X) > 2, X, 0.0)
    base = tl.LinearRegression().fit(X, Y)
    for other in (sparse.csr_array(X), sparse.coo_array(X), np.asfortranarray(X)):
        model = tl.LinearRegression().fit(other, Y)
        assert_same_fit(model, base)
        assert np.allclose(model.predict(other), base.predict(X), rtol=1e-13)
        assert np.allclose(tl.RidgeCV().fit(other, Y).coef_, tl.RidgeCV().fit(X, Y).coef_, rtol=1e-13)
    short = X.astype(np.float32)
    assert_same_fit(tl.LinearRegression().fit(short, Y), tl.LinearRegression().fit(short.astype(float), Y))


def test_positive_meets_the_optimality_conditions(data):
    X, Y, _ = data
    for model, ridge in ((tl.LinearRegression(positive=True), 0.0), (tl.Ridge(3.0, positive=True), 3.0)):
        model.fit(X, Y[:, 0])
        Z = X - X.mean(axis=0)
        slope = Z.T @ (Y[:, 0] - Y[:, 0].mean() - Z @ model.coef_) - ridge * model.coef_
        assert (model.coef_ >= 0).all() and (slope <= 1e-9).all() and (np.abs(slope[model.coef_ > 0]) < 1e-9).all()


def test_penalty_on_the_standardised_scale(data):
    X, Y, _ = data
    X = X * [1, 100, 0.01, 1, 1]
    model = tl.Ridge(7.0, standardize=True).fit(X, Y)
    scaled = tl.Ridge(7.0).fit((X - X.mean(axis=0)) / X.std(axis=0), Y)
    assert np.allclose(model.coef_ * X.std(axis=0), scaled.coef_, rtol=1e-11)
    chosen = tl.RidgeCV(alphas=(1.0, 7.0), standardize=True, cv=4).fit(X, Y)
    assert np.isfinite(chosen.best_score_) and chosen.alpha_ in (1.0, 7.0)


def test_from_moments_and_arrays_are_one(data):
    X, Y, w = data
    moments = Moments.from_arrays(X, Y, w, folds=np.arange(120) % 3)
    for make in (tl.LinearRegression, tl.Ridge):
        assert np.allclose(make.from_moments(moments).coef_, make().fit(X, Y, w).coef_, rtol=1e-13)
    from sklearn.model_selection import PredefinedSplit

    folds = tl.RidgeCV.from_moments(moments, alphas=(0.1, 10.0, 100.0))
    rows = tl.RidgeCV(alphas=(0.1, 10.0, 100.0), cv=PredefinedSplit(np.arange(120) % 3)).fit(X, Y, w)
    assert folds.alpha_ == rows.alpha_ and np.isclose(folds.best_score_, rows.best_score_, rtol=1e-12)
    assert np.allclose(folds.scores_, rows.scores_, rtol=1e-12)
    gcv = tl.RidgeCV.from_moments(moments, alphas=(0.1, 10.0), cv="gcv")
    assert np.isclose(gcv.best_score_, tl.RidgeCV(alphas=(0.1, 10.0), cv="gcv").fit(X, Y, w).best_score_, rtol=1e-12)
    wide = tl.RidgeCV(alphas=(0.01, 0.1, 1.0, 10.0, 1000.0), cv=4, choice="one-standard-error").fit(X, Y)
    assert wide.alpha_ >= tl.RidgeCV(alphas=(0.01, 0.1, 1.0, 10.0, 1000.0), cv=4).fit(X, Y).alpha_


def test_saved_estimators_predict_the_same(data, tmp_path):
    X, Y, _ = data
    for k, model in enumerate(
        (tl.LinearRegression(), tl.Ridge(2.0), tl.RidgeCV(cv=3), tl.LinearRegression(method="svd"))
    ):
        model.fit(X, Y)
        model.save(tmp_path / f"{k}.tl")
        back = tl.load(tmp_path / f"{k}.tl")
        assert type(back) is type(model) and np.array_equal(back.predict(X), model.predict(X))
        assert back.get_params() == model.get_params()
    one = tl.LinearRegression().fit(X, Y[:, 0])
    one.save(tmp_path / "one.tl")
    assert str(tl.load(tmp_path / "one.tl").summary()) == str(one.summary())


def test_in_pipelines_and_searches(data):
    X, Y, _ = data
    pipe = make_pipeline(StandardScaler(), tl.Ridge())
    search = GridSearchCV(pipe, {"ridge__alpha": [0.1, 10.0]}, cv=3).fit(X, Y)
    assert search.best_score_ > 0 and clone(pipe).fit(X, Y).predict(X).shape == (120, 2)


def test_shapes(data):
    X, Y, _ = data
    assert tl.LinearRegression().fit(X, Y[:, :1]).coef_.shape == (1, 5)
    assert tl.LinearRegression().fit(X, Y[:, 0]).coef_.shape == (5,)
    assert tl.Ridge().fit(X, Y[:, :1]).coef_.shape == (5,)
    intervals = tl.LinearRegression().fit(X, Y).predict(X[:7], interval=0.9)
    assert intervals.mean.shape == intervals.lower.shape == (7, 2) and (intervals.lower < intervals.upper).all()


def test_refusals(data):
    X, Y, _ = data
    for model, words in (
        (tl.LinearRegression(method="magic"), "method of LinearRegression is 'magic'"),
        (tl.LinearRegression(rank="some"), "rank of LinearRegression is 'some'"),
        (tl.Ridge(-1.0), "alpha of Ridge is -1.0"),
        (tl.RidgeCV(alphas=(0.0,)), "alphas holds 0"),
        (tl.RidgeCV(cv="loo"), "cv of RidgeCV is 'loo'"),
        (tl.RidgeCV(cv=3, store_cv_results=True), "go with cv=None only"),
    ):
        with pytest.raises(UsageError, match=words):
            model.fit(X, Y)
    with pytest.raises(UsageError, match="give y, or target="):
        tl.LinearRegression()._moments("x.csv", None, {})


@pytest.mark.parametrize("deficient", [False, True])
def test_a_certificate_made_later_is_the_one_made_at_once(data, tmp_path, deficient):
    X, Y, w = data
    X = np.column_stack([X, X[:, 0] - X[:, 1]]) if deficient else X
    fits = [tl.LinearRegression().fit(X, Y, w) for _ in range(6)]
    made = Moments.from_arrays(X, Y, w, level=HIGHEST)
    expected = least_squares(made).certificate
    assert callable(fits[0].model_.__dict__["certificate"])  # not yet made
    assert fits[0].certificate_ == fits[0].model_.certificate == expected
    assert bool(expected.dropped) == deficient and not callable(fits[0].model_.__dict__["certificate"])
    fits[1].coef_[:] = 0.0  # nothing is proven of coefficients that somebody wrote
    assert fits[1].certificate_ is None
    assert pickle.loads(pickle.dumps(fits[2])).certificate_ == expected
    assert copy.deepcopy(fits[3]).certificate_ == expected
    fits[4].save(tmp_path / "m.tl")
    assert tl.load(tmp_path / "m.tl").certificate_ == expected
    assert dataclasses.replace(fits[5].model_, targets=("a", "b")).certificate == expected


@pytest.mark.parametrize("d", [2, 60])
def test_few_rows_are_looked_at_again_when_digits_would_be_short(d):
    """1,000 rows begin at the middle level; columns within 1e-9 of each other need the highest."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(1000, d)) + 1e3
    y = X @ np.ones(d) + rng.normal(size=1000)
    easy = tl.LinearRegression(digits=12).fit(X, y)
    X[:, 1] = X[:, 0] + 1e-9 * X[:, 1]
    hard = tl.LinearRegression(digits=12).fit(X, y)
    best = tl.LinearRegression.from_moments(Moments.from_arrays(X, y, level=HIGHEST))
    assert easy.certificate_.arithmetic_digits >= 12
    assert_same_fit(hard, best)
    # The level below would leave six digits fewer.
    assert abs(hard.certificate_.arithmetic_digits - best.certificate_.arithmetic_digits) < 0.1


@pytest.mark.parametrize(
    "X", [{"a": [1, 2.5, 3, 4]}, [{"a": 1}, {"a": 2.5}, {"a": 3}, {"a": 4}]], ids=["columns", "rows"]
)
@pytest.mark.parametrize("estimator", [tl.LinearRegression(), tl.Ridge(), tl.RidgeCV()], ids=lambda e: type(e).__name__)
def test_dictionaries_beside_y_are_refused_with_the_remedy(estimator, X):
    with pytest.raises(DataError, match=r"X is a .*dictionar.*target= its name"):
        estimator.fit(X, [1.0, 2.0, 2.0, 5.0])
    estimator.fit({"a": [1, 2.5, 3, 4], "y": [1.0, 2.0, 2.0, 5.0]}, target="y")


@pytest.mark.parametrize("far", [0.0, 1e6])
def test_folds_of_one_row_are_scored_by_squared_errors(far):
    from sklearn.model_selection import LeaveOneOut

    rng = np.random.default_rng(1)
    X = rng.normal(size=(15, 3))
    y = X @ [1.0, -1.0, 0.0] + rng.normal(size=15) + far
    alphas = np.geomspace(0.01, 100, 9)
    exact = tl.RidgeCV(alphas).fit(X, y)
    for cv in (LeaveOneOut(), 15, [(np.delete(np.arange(15), i), [i]) for i in range(15)]):
        folds = tl.RidgeCV(alphas, cv=cv).fit(X, y)
        assert folds.alpha_ == exact.alpha_
        np.testing.assert_allclose(folds.best_score_, exact.best_score_, rtol=1e-8)
        with pytest.raises(UsageError, match="one row"):
            tl.RidgeCV(alphas, cv=cv, scoring="r2").fit(X, y)


def test_a_fold_of_equal_targets_has_no_spread_to_measure_errors_by():
    X = np.random.default_rng(2).normal(size=(12, 2))
    y = np.repeat([0.1, 0.7, 1.3], 4)
    model = tl.RidgeCV((0.1, 1.0), cv=3).fit(X, y)  # without shuffling every fold has one target
    assert abs(model.best_score_) < 10.0
