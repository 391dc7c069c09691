"""The default tolerance of smooth losses reaches the digits that other programs print."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

import trueline as tl


@pytest.fixture(scope="module")
def visits():
    data = sm.datasets.randhie.load_pandas()
    return data.exog.to_numpy(float), data.endog.to_numpy(float)


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
@pytest.mark.parametrize("penalty", [{}, {"penalty": "l2", "alpha": 0.01}])
def test_generalised_linear_models(visits, loss, penalty):
    X, y = visits
    y = y + 0.5 if loss == "gamma" else y
    default = tl.GeneralizedRegression(loss, **penalty).fit(X, y)
    sharp = tl.GeneralizedRegression(loss, tol=1e-14, **penalty).fit(X, y)
    assert np.abs(default.coef_ / sharp.coef_ - 1.0).max() <= 1e-7
    assert default.intercept_ == pytest.approx(sharp.intercept_, rel=1e-7)
    if loss == "poisson" and not penalty:
        peer = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson()).fit(tol=1e-14).params
        assert np.allclose(np.append(default.intercept_, default.coef_), peer, rtol=1e-7)


def test_logistic(visits):
    X, y = visits
    y = (y > 2).astype(int)
    for C in (np.inf, 1.0):
        default, sharp = tl.LogisticRegression(C=C).fit(X, y), tl.LogisticRegression(C=C, tol=1e-14).fit(X, y)
        assert np.abs(default.coef_ / sharp.coef_ - 1.0).max() <= 1e-7
    peer = sm.Logit(y, sm.add_constant(X)).fit(disp=0, tol=1e-14).params
    assert np.allclose(tl.LogisticRegression(C=np.inf).fit(X, y).coef_[0], peer[1:], rtol=1e-7)
