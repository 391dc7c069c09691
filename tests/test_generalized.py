"""GeneralizedRegression against statsmodels and scikit-learn; offset, exposure, a user's own loss."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, PoissonRegressor, QuantileRegressor, TweedieRegressor
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    exposure = rng.uniform(0.5, 3.0, 300)
    mean = np.exp(0.3 + X @ [0.5, -0.2, 0.1])
    return X, exposure, rng.poisson(exposure * mean), rng.gamma(2.0, mean / 2.0), rng


def test_check_estimator():
    check_estimator(tl.GeneralizedRegression())


def test_poisson_inference_with_exposure(data):
    import statsmodels.api as sm

    X, exposure, counts, _, _ = data
    model = tl.GeneralizedRegression("poisson", tol=1e-10).fit(X, counts, exposure=exposure)
    peer = sm.GLM(counts, sm.add_constant(X), family=sm.families.Poisson(), exposure=exposure).fit(tol=1e-12)
    found = model.model_.statistics
    errors = np.sqrt(np.diag(found["covariance"]))
    assert np.allclose(np.r_[model.intercept_, model.coef_], peer.params, rtol=1e-6, atol=1e-8)
    assert np.allclose(errors, peer.bse, rtol=1e-5)
    assert found["deviance"] == pytest.approx(peer.deviance, rel=1e-8)
    assert found["null_deviance"] == pytest.approx(peer.null_deviance, rel=1e-8)
    assert found["aic"] == pytest.approx(peer.aic, rel=1e-8)
    assert np.allclose(model.predict(X, exposure=exposure), peer.fittedvalues, rtol=1e-6)
    offset = tl.GeneralizedRegression("poisson", tol=1e-10).fit(X, counts, offset=np.log(exposure))
    assert np.allclose(offset.coef_, model.coef_)


@pytest.mark.parametrize(
    ("loss", "peer"),
    [
        ("poisson", PoissonRegressor),
        ("gamma", GammaRegressor),
        ("tweedie", lambda **k: TweedieRegressor(power=1.5, link="log", **k)),
    ],
)
def test_penalised_families_agree_with_the_peer(data, loss, peer):
    X, _, counts, positive, _ = data
    y = positive if loss == "gamma" else counts.astype(float)
    weights = np.random.default_rng(3).uniform(0.2, 2.0, len(y))
    ours = tl.GeneralizedRegression(loss, penalty="l2", alpha=0.1, tol=1e-10).fit(X, y, weights)
    theirs = peer(alpha=0.1, tol=1e-10, max_iter=10_000).fit(X, y, sample_weight=weights)
    assert ours.certificate_.proven
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-5) and ours.intercept_ == pytest.approx(
        theirs.intercept_, abs=1e-5
    )
    assert np.allclose(ours.predict(X), theirs.predict(X), rtol=1e-4)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.8])
def test_quantiles_agree_with_the_linear_program(data, quantile):
    X, _, _, positive, _ = data
    y = np.log(positive)
    ours = tl.GeneralizedRegression("quantile", quantile=quantile, tol=1e-9).fit(X, y)
    theirs = QuantileRegressor(quantile=quantile, alpha=0.0).fit(X, y)
    assert ours.certificate_.proven and np.allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert abs((y < ours.predict(X)).mean() - quantile) < 0.02


def test_huber_resists(data):
    X, _, _, _, rng = data
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=300)
    y[:20] += 100.0
    model = tl.GeneralizedRegression("huber", delta=0.3).fit(X, y)
    assert model.certificate_.proven and np.allclose(model.coef_, [1.0, 2.0, 3.0], atol=0.1)


class LogCosh(NamedTuple):
    """A user's loss with a curvature but no conjugate."""

    unit: float = 1.0
    targets = "real"
    smooth = True

    def value(self, score, y):
        r = abs(score - y)
        return r + math.log1p(math.exp(-2.0 * r)) - math.log(2.0)

    def slope(self, score, y):
        return math.tanh(score - y)

    def curvature(self, score, y):
        return 1.0 - math.tanh(score - y) ** 2


def test_a_users_own_loss_is_proven_saved_and_loaded(data, tmp_path):
    X, _, _, positive, _ = data
    model = tl.GeneralizedRegression(LogCosh()).fit(X, positive)
    assert model.certificate_.proven and model.model_.statistics["method"] == "newton"
    residual = np.tanh(model.predict(X) - positive)
    assert np.abs(X.T @ residual / len(X)).max() < 1e-4
    model.save(tmp_path / "own.tl")
    with pytest.raises(tl.ModelError, match="parts="):
        tl.load(tmp_path / "own.tl")
    again = tl.load(tmp_path / "own.tl", parts=[LogCosh])
    assert (again.predict(X) == model.predict(X)).all()


def test_refusals(data):
    X, exposure, counts, _, _ = data
    with pytest.raises(tl.UsageError, match="use LogisticRegression"):
        tl.GeneralizedRegression("logistic").fit(X, counts)
    with pytest.raises(tl.UsageError, match="Tweedie's lies between 1 and 2"):
        tl.GeneralizedRegression("tweedie", power=3.0).fit(X, counts)
    with pytest.raises(tl.UsageError, match="an exposure needs a loss with a log link"):
        tl.GeneralizedRegression("huber").fit(X, counts, exposure=exposure)
    with pytest.raises(tl.DataError, match="positive numbers are accepted"):
        tl.GeneralizedRegression("gamma").fit(X, counts)
    with pytest.raises(tl.DataError, match="exposure is 0 in row 0"):
        tl.GeneralizedRegression("poisson").fit(X, counts, exposure=np.zeros(300))


def test_a_closed_form_counts_as_one_iteration():
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert tl.GeneralizedRegression("squared").fit(X, X[:, 0]).n_iter_ >= 1
    assert tl.GeneralizedRegression("squared", penalty="l2").fit(X, X[:, 0]).n_iter_ >= 1
