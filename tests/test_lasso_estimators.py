"""Lasso, ElasticNet, LassoCV and ElasticNetCV: scikit-learn's meaning, with a certificate."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import linear_model as peers
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl


def data(seed: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1, 3, d) + 2.0
    w = np.where(rng.random(d) < 0.3, rng.normal(size=d), 0.0)
    return X, X @ w + rng.normal(size=n) + 5.0


@pytest.mark.parametrize("estimator", [tl.Lasso(), tl.ElasticNet(), tl.LassoCV(cv=3), tl.ElasticNetCV(cv=3)], ids=str)
def test_scikit_learn_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(estimator, on_skip=None)


@pytest.mark.parametrize("shape", [(60, 12), (30, 80)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("l1_ratio", "positive", "intercept"), [(1.0, False, True), (0.4, True, True), (0.7, False, False)]
)
def test_one_penalty_agrees_with_scikit_learn(shape, weighted, l1_ratio, positive, intercept):
    X, y = data(0, *shape)
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float) if weighted else None
    options = {"alpha": 0.1, "l1_ratio": l1_ratio, "positive": positive, "fit_intercept": intercept}
    theirs = peers.ElasticNet(**options, tol=1e-13, max_iter=1_000_000).fit(X, y, weights)
    for layout in (np.asarray, np.asfortranarray, sp.csr_matrix):
        ours = tl.ElasticNet(**options, tol=1e-10).fit(layout(X), y, weights)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
        assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-4)
        np.testing.assert_allclose(ours.predict(layout(X)), theirs.predict(X), atol=1e-4)
        assert ours.certificate_.proven and 0.0 <= ours.dual_gap_ <= 1e-10 * ours.certificate_.primal
        assert ours.certificate_.dual <= ours.certificate_.primal * (1 + 1e-12)


def test_several_targets_at_once_are_each_target_alone():
    X, y = data(2, 40, 70)
    Y = np.column_stack([y, -2.0 * y + X[:, 0]])
    both = tl.Lasso(alpha=0.2).fit(X, Y)
    assert both.coef_.shape == (2, 70) and both.intercept_.shape == (2,) and both.predict(X).shape == (40, 2)
    for k in range(2):
        alone = tl.Lasso(alpha=0.2).fit(X, Y[:, k])
        # An objective's gap bounds the distance of the fitted values from the optimum's: ‖X(w − w*)‖² ≤ 2n·gap.
        apart = (X - X.mean(axis=0)) @ (both.coef_[k] - alone.coef_)
        assert np.linalg.norm(apart) <= sum(np.sqrt(2 * len(X) * gap) for gap in (both.dual_gap_[k], alone.dual_gap_))
        assert ((both.coef_[k] != 0) == (alone.coef_ != 0)).all()
    assert both.certificate_.gap == both.dual_gap_.max() and both.certificate_.proven


@pytest.mark.parametrize("shape", [(90, 8), (40, 60)])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_validation_agrees_with_scikit_learn(shape, weighted):
    X, y = data(3, *shape)
    weights = np.random.default_rng(3).random(len(y)) + 0.1 if weighted else None
    for cv in (4, ShuffleSplit(3, test_size=0.3, random_state=0)):
        options = {"cv": cv, "alphas": 15, "eps": 0.02}
        theirs = peers.LassoCV(**options, tol=1e-11, max_iter=1_000_000).fit(X, y, weights)
        for layout in (np.asarray, sp.csc_matrix):
            ours = tl.LassoCV(**options).fit(layout(X), y, weights)
            np.testing.assert_allclose(ours.alphas_, theirs.alphas_)
            np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-4)
            assert ours.alpha_ == pytest.approx(theirs.alpha_)
            np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
            assert ours.gap_path_.shape == ours.mse_path_.shape and ours.gap_path_.max() <= 1e-6
            assert ours.certificate_.assumptions[0].held and not hasattr(ours, "l1_ratio_")


def test_elastic_net_compares_ratios_as_scikit_learn_does():
    X, y = data(4, 50, 10)
    options = {"cv": 3, "l1_ratio": [0.2, 0.9], "alphas": 12}
    ours = tl.ElasticNetCV(**options).fit(X, y)
    theirs = peers.ElasticNetCV(**options, tol=1e-11, max_iter=1_000_000).fit(X, y)
    assert ours.l1_ratio_ == theirs.l1_ratio_ and ours.alpha_ == pytest.approx(theirs.alpha_)
    np.testing.assert_allclose(ours.alphas_, theirs.alphas_)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-4)
    given = tl.ElasticNetCV(cv=3, alphas=[0.1, 1.0, 0.01]).fit(X, y)
    np.testing.assert_allclose(given.alphas_, [1.0, 0.1, 0.01])


def test_one_standard_error_takes_the_largest_penalty_within_it():
    X, y = data(5, 80, 12)
    least, sparse = tl.LassoCV(cv=5).fit(X, y), tl.LassoCV(cv=5, selection_rule="1se").fit(X, y)
    mean = least.mse_path_.mean(axis=1)
    best = int(np.argmin(mean))
    bound = mean[best] + least.mse_path_[best].std(ddof=1) / np.sqrt(5)
    assert least.alpha_ == least.alphas_[best]
    assert sparse.alpha_ == least.alphas_[np.flatnonzero(mean <= bound)].max()
    with pytest.raises(ValueError, match="'min' or '1se'"):
        tl.LassoCV(selection_rule="best").fit(X, y)


def test_moments_tables_and_arrays_give_one_answer():
    import polars as pl

    X, y = data(6, 120, 4)
    table = pl.DataFrame({f"c{j}": X[:, j] for j in range(4)} | {"price": y})
    moments = tl.scan(table, target="price", folds=4)
    arrays = tl.Lasso(alpha=0.1).fit(X, y)
    for made in (tl.Lasso.from_moments(moments, alpha=0.1), tl.Lasso(alpha=0.1).fit(table, target="price")):
        np.testing.assert_allclose(made.coef_, arrays.coef_, atol=1e-8)
        assert made.certificate_.proven and list(made.feature_names_in_) == ["c0", "c1", "c2", "c3"]
        np.testing.assert_allclose(made.predict(table), arrays.predict(X), atol=1e-7)
    chosen = tl.LassoCV.from_moments(moments)
    assert chosen.mse_path_.shape == (100, 4) and chosen.certificate_.proven
    refit = tl.Lasso(alpha=chosen.alpha_).fit(X, y)
    np.testing.assert_allclose(chosen.coef_, refit.coef_, atol=1e-8)


@pytest.mark.parametrize(
    "estimator", [tl.Lasso(alpha=0.05), tl.ElasticNetCV(cv=3, alphas=10, l1_ratio=(0.5, 1.0))], ids=str
)
def test_saved_and_loaded_predictions_are_identical(estimator, tmp_path):
    X, y = data(7, 40, 6)
    model = estimator.fit(X, y)
    model.save(tmp_path / "model.tl")
    same = tl.load(tmp_path / "model.tl")
    assert type(same) is type(model) and same.get_params() == model.get_params()
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    assert repr(same.certificate_) == repr(model.certificate_) and same.dual_gap_ == model.dual_gap_
    if hasattr(model, "alpha_"):
        assert same.alpha_ == model.alpha_ and same.l1_ratio_ == model.l1_ratio_
        np.testing.assert_array_equal(same.mse_path_, model.mse_path_)


def test_pipelines_searches_names_and_sparse_coefficients():
    import pandas as pd

    X, y = data(8, 50, 5)
    frame = pd.DataFrame(X, columns=list("abcde"))
    search = GridSearchCV(make_pipeline(StandardScaler(), tl.Lasso()), {"lasso__alpha": [0.01, 1.0]}, cv=3).fit(
        frame, y
    )
    assert search.best_params_["lasso__alpha"] == 0.01
    model = tl.Lasso(alpha=0.5).fit(frame, y)
    assert list(model.feature_names_in_) == list("abcde") and model.model_.terms == tuple("abcde")
    np.testing.assert_array_equal(model.sparse_coef_.toarray()[0], model.coef_)


def test_an_unreachable_tolerance_is_said_not_hidden():
    X, y = data(9, 30, 5)
    with pytest.warns(ConvergenceWarning, match="not proven: objective .* duality gap .* relative"):
        model = tl.Lasso(alpha=0.01, tol=1e-30).fit(X, y)
    assert not model.certificate_.proven and "loosen tol" in str(model.certificate_)
    with pytest.warns(ConvergenceWarning, match="LinearRegression"):
        none = tl.Lasso(alpha=0.0).fit(X, y)
    np.testing.assert_allclose(none.coef_, tl.LinearRegression().fit(X, y).coef_, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_warm_starts_read_less_and_end_at_the_same_optimum(sparse):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 400)) * (rng.random((60, 400)) < 0.3 if sparse else 1.0)
    y = X[:, :8] @ rng.normal(size=8) + 0.1 * rng.normal(size=60)
    X = sp.csr_matrix(X) if sparse else X
    warm = tl.Lasso(alpha=0.011, warm_start=True).fit(X, y)
    for alpha in (0.01, 0.02):
        cold = tl.Lasso(alpha=alpha).fit(X, y)
        warm.set_params(alpha=alpha).fit(X, y)
        assert warm.certificate_.proven
        if alpha == 0.01:  # falling penalties gain; target, start and proof are the least that is read
            assert warm.n_iter_ < cold.n_iter_ or warm.n_iter_ == 3
        assert warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=2e-6)


def test_x_is_never_changed():
    X, y = data(10, 30, 40)
    for layout in (np.asfortranarray, sp.csc_matrix):
        made = layout(X)
        before = made.copy()
        tl.LassoCV(cv=3, alphas=5).fit(made, y, np.arange(30.0))
        assert (made != before).sum() == 0


@pytest.mark.parametrize("bad", [{"alpha": -1.0}, {"alpha": "much"}, {"tol": -1.0}])
def test_refusals(bad):
    X, y = data(11, 10, 3)
    with pytest.raises(ValueError, match=next(iter(bad))):
        tl.Lasso(**bad).fit(X, y)
    with pytest.raises(ValueError, match="weights"):
        tl.Lasso().fit(X, y, np.zeros(10))
