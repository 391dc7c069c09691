"""Tolerances that rounding cannot meet: the lasso ends, says what it reached, and warns; and no penalty is least squares."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import trueline as tl


def table(seed=0, n=50, d=25):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, 0.3, format="csr", random_state=seed)
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_no_tolerance_at_all_ends_with_a_warning(form):
    X, y = table()
    given = X.toarray() if form == "dense" else X.asformat(form)
    with pytest.warns(tl.NotProvenWarning, match="not proven"):
        model = tl.Lasso(alpha=0.001, tol=0).fit(given, y)
    assert not model.certificate_.proven and 0.0 < model.certificate_.relative_gap <= 1e-12
    proven = tl.Lasso(alpha=0.001, tol=1e-9).fit(given, y)
    assert np.abs(model.coef_ - proven.coef_).max() <= 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, coefs, gaps = tl.lasso_path(given, y, tol=0.0, n_alphas=20)
        assert np.isfinite(coefs).all() and gaps.max() <= 1e-9
        for chosen in (tl.LassoCV(tol=0.0, max_iter=1, cv=3), tl.ElasticNetCV(tol=0.0, max_iter=1, cv=3)):
            assert np.isfinite(chosen.fit(given, y).coef_).all()


def test_max_iter_bounds_the_rounds_of_a_sparse_table():
    rng = np.random.default_rng(1)
    X = sparse.random(150, 1200, 0.02, format="csr", random_state=1)
    y = rng.normal(size=150)
    with pytest.warns(tl.NotProvenWarning):
        short = tl.Lasso(alpha=1e-4, max_iter=1, tol=1e-14).fit(X, y)
    assert np.isfinite(short.coef_).all() and short.certificate_.gap >= 0.0


def test_what_is_not_proven_is_one_public_convergence_warning():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    assert issubclass(tl.NotProvenWarning, ConvergenceWarning)
    for fit in (
        lambda: tl.minimize(X, y, "huber", method="gradient", max_iter=1),
        lambda: tl.LogisticRegression(solver="fista", max_iter=1).fit(X, y > 0),
        lambda: tl.LinearSVC(method="fista", max_iter=1).fit(X, y > 0),
        lambda: tl.GeneralizedRegression("gamma", method="fista", max_iter=1).fit(X, np.exp(y)),
        lambda: tl.Lasso(alpha=0.01, tol=0.0).fit(X, y),
        lambda: tl.lasso_path(X, y, tol=0.0),
        lambda: tl.RobustRegression(max_iter=1).fit(X, y),
    ):
        with pytest.warns(ConvergenceWarning) as caught:
            fit()
        assert caught[0].category is tl.NotProvenWarning and caught[0].filename == __file__


@pytest.mark.parametrize("form", ["csr", "dense"])
@pytest.mark.parametrize("intercept", [True, False])
def test_no_penalty_is_least_squares_to_its_digits(form, intercept):
    X, y = table(3, 60, 8)
    given = X if form == "csr" else X.toarray()
    A = np.column_stack([X.toarray(), np.ones(60)]) if intercept else X.toarray()
    truth = np.linalg.lstsq(A, y, rcond=None)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for model in (tl.Lasso(alpha=0, fit_intercept=intercept), tl.ElasticNet(alpha=0, fit_intercept=intercept)):
            model.fit(given, y)
            assert np.abs(model.coef_ - truth[:8]).max() <= 1e-13 * np.abs(truth).max()
            assert abs(model.intercept_ - (truth[8] if intercept else 0.0)) <= 1e-12
