"""Agreement of the closed forms with scikit-learn and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn import decomposition, linear_model
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold, ShuffleSplit

import trueline as tl


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)) + 3
    Y = X @ rng.normal(size=(6, 2)) + 3 * rng.normal(size=(300, 2))
    return X, Y, rng.uniform(0.5, 2, 300)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_linear_regression(data, fit_intercept):
    X, Y, w = data
    for y in (Y[:, 0], Y):
        for weights in (None, w):
            ours = tl.LinearRegression(fit_intercept=fit_intercept).fit(X, y, weights)
            theirs = linear_model.LinearRegression(fit_intercept=fit_intercept).fit(X, y, weights)
            assert np.allclose(ours.coef_, theirs.coef_, rtol=1e-10) and ours.coef_.shape == theirs.coef_.shape
            assert np.allclose(ours.intercept_, theirs.intercept_, rtol=1e-10)
            assert np.isclose(ours.score(X, y), theirs.score(X, y), rtol=1e-12)
    ours = tl.LinearRegression(positive=True).fit(X, Y[:, 0])
    theirs = linear_model.LinearRegression(positive=True).fit(X, Y[:, 0])
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cv": 5},
        {"cv": KFold(4, shuffle=True, random_state=0)},
        {"cv": ShuffleSplit(3, random_state=0)},
        {"alpha_per_target": True},
        {"scoring": "neg_mean_absolute_error"},
        {"fit_intercept": False},
        {"cv": 3, "scoring": "neg_mean_squared_error"},
        {"store_cv_results": True},
    ],
    ids=str,
)
def test_ridge_cv(data, options):
    X, Y, w = data
    alphas = np.logspace(-2, 4, 20)
    for y in (Y[:, 0], Y):
        for weights in (None, w):
            ours = tl.RidgeCV(alphas=alphas, **options).fit(X, y, weights)
            theirs = linear_model.RidgeCV(alphas=alphas, **options).fit(X, y, weights)
            assert np.array_equal(ours.alpha_, theirs.alpha_)
            assert np.allclose(ours.best_score_, theirs.best_score_, rtol=1e-9, atol=1e-10)
            assert np.allclose(ours.coef_, theirs.coef_, rtol=1e-9) and ours.coef_.shape == theirs.coef_.shape
            if "store_cv_results" in options:
                assert np.allclose(ours.cv_results_, theirs.cv_results_, rtol=1e-8)


def test_ridge(data):
    X, Y, w = data
    ours = tl.Ridge([1.0, 50.0]).fit(X, Y, w)
    theirs = linear_model.Ridge([1.0, 50.0]).fit(X, Y, w)
    assert np.allclose(ours.coef_, theirs.coef_, rtol=1e-11) and np.allclose(ours.intercept_, theirs.intercept_)


def test_statsmodels_tables(data):
    X, Y, w = data
    y = Y[:, 0]
    design = sm.add_constant(X)
    for theirs, model, extra in (
        (sm.OLS(y, design).fit(), tl.LinearRegression().fit(X, y), {}),
        (sm.WLS(y, design, weights=w).fit(), tl.LinearRegression().fit(X, y, w), {"sample_weight": w}),
        (sm.OLS(y, X).fit(), tl.LinearRegression(fit_intercept=False).fit(X, y), {}),
    ):
        ours = model.summary()
        for a, b in (
            (ours.estimates, theirs.params),
            (ours.std_errors, theirs.bse),
            (ours.statistics, theirs.tvalues),
            (ours.p_values, theirs.pvalues),
            (np.column_stack([ours.lower, ours.upper]), theirs.conf_int()),
            (ours.r_squared, theirs.rsquared),
            (ours.adjusted_r_squared, theirs.rsquared_adj),
            (ours.f_statistic, theirs.fvalue),
            (ours.log_likelihood, theirs.llf),
            (ours.aic, theirs.aic),
            (ours.bic, theirs.bic),
            (ours.residual_std_error, np.sqrt(theirs.scale)),
        ):
            assert np.allclose(a, b, rtol=1e-9, atol=1e-300)
        for kind in ("HC0", "HC1", "HC2", "HC3"):
            errors = model.summary(robust=kind, X=X, y=y, **extra).std_errors
            assert np.allclose(errors, getattr(theirs, f"{kind}_se"), rtol=1e-9)
        groups = np.arange(300) % 11
        errors = model.summary(robust="cluster", X=X, y=y, groups=groups, **extra).std_errors
        assert np.allclose(errors, theirs.get_robustcov_results("cluster", groups=groups).bse, rtol=1e-9)
    ols = sm.OLS(y, design).fit()
    found = tl.LinearRegression().fit(X, y).predict(X[:5], interval=0.9)
    frame = ols.get_prediction(design[:5]).summary_frame(alpha=0.1)
    assert np.allclose(found.lower, frame["obs_ci_lower"]) and np.allclose(found.upper, frame["obs_ci_upper"])


@pytest.mark.parametrize("options", [{}, {"n_components": 3}, {"n_components": 0.9}, {"n_components": "mle"}], ids=str)
def test_pca(data, options):
    X = load_diabetes().data * 100
    ours, theirs = tl.PCA(**options).fit(X), decomposition.PCA(**options).fit(X)
    for name in ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_"):
        assert np.allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8, atol=1e-10), name
    assert np.isclose(ours.noise_variance_, theirs.noise_variance_)
    assert np.allclose(ours.transform(X), theirs.transform(X), atol=1e-9)
    assert np.isclose(ours.score(X), theirs.score(X))
    assert np.allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-9)
