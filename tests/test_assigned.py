"""Fitted numbers that a user assigns are used by predict, and nothing is claimed of them any more."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import is_classifier

import trueline as tl
from trueline.errors import DataError, UsageError

rng = np.random.default_rng(2)
X = rng.normal(size=(80, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=80)
COIN = (Y + rng.normal(size=80) > 0).astype(int)
THREE = np.digitize(Y + rng.normal(size=80), [-1.0, 1.0])
MODELS = [
    tl.LinearRegression(), tl.LinearRegression(method="svd"), tl.Ridge(), tl.RidgeCV(), tl.Lasso(alpha=0.01), tl.LassoCV(),
    tl.ElasticNet(alpha=0.01), tl.ElasticNetCV(), tl.GeneralizedRegression("squared"), tl.RobustRegression(),
    tl.OutlierMixture(), tl.LogisticRegression(), tl.LinearSVC(),
]  # fmt: skip


def fitted(model):
    return type(model)(**model.get_params()).fit(X, COIN if is_classifier(model) else Y)


def scores(model, rows):
    return model.decision_function(rows) if is_classifier(model) else model.predict(rows)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_assigned_coefficients_predict(model, tmp_path):
    v, b = np.array([3.0, 0.0, -1.0]), 7.0
    for in_place in (False, True):
        m = fitted(model)
        assert m.certificate_ is not None
        if in_place:
            m.coef_[...] = v
            m.coef_ *= 2.0
        else:
            m.coef_ = 2.0 * v.reshape(m.coef_.shape)
        if is_classifier(m):
            m.intercept_[:] = b
        else:
            m.intercept_ = b
        np.testing.assert_allclose(scores(m, X), X @ (2.0 * v) + b, rtol=1e-12)
        assert m.certificate_ is None and m.model_.certificate is None
        summary = m.summary()
        assert "assigned" in summary.withheld and np.isnan(summary.std_errors).all()
        np.testing.assert_array_equal(summary.estimates, [b, *(2.0 * v)])
        for other in (pickle.loads(pickle.dumps(m)), saved(m, tmp_path)):
            np.testing.assert_allclose(scores(other, X), X @ (2.0 * v) + b, rtol=1e-12)
            assert other.certificate_ is None and "assigned" in other.summary().withheld
        m.fit(X, COIN if is_classifier(m) else Y)
        assert m.certificate_ is not None and "assigned" not in m.summary().withheld


def saved(model, folder):
    model.save(folder / "m.tl")
    return tl.load(folder / "m.tl")


def test_one_number_is_enough_to_void_the_proof():
    m = fitted(tl.LinearRegression())
    rank = m.rank_
    m.intercept_ += 1e-9
    assert m.certificate_ is None and m.rank_ == rank
    with pytest.raises(UsageError, match="assigned"):
        m.predict(X, interval=0.95)
    with pytest.raises(UsageError, match="assigned"):
        m.summary(robust="HC1", X=X, y=Y)
    m.fit(X, Y)
    assert m.certificate_.proven and m.predict(X, interval=0.95).lower.shape == (80,)


def test_equal_numbers_keep_the_proof():
    m = fitted(tl.Ridge())
    m.coef_ = m.coef_.copy()
    assert m.certificate_.proven


@pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros((3, 3)), "x", [np.nan, 0.0, 0.0], 1.0])
def test_a_wrong_shape_is_refused(wrong):
    for m in (fitted(tl.LinearRegression()), fitted(tl.LogisticRegression())):
        m.coef_ = wrong
        with pytest.raises(DataError, match="coef_ was assigned"):
            m.predict(X)


def test_several_classes_and_targets():
    m = tl.LogisticRegression().fit(X, THREE)
    v = np.arange(9.0).reshape(3, 3)
    m.coef_, m.intercept_ = v, np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(m.decision_function(X), X @ v.T + [1.0, 2.0, 3.0])
    np.testing.assert_allclose(m.predict_proba(X).sum(axis=1), 1.0)
    both = tl.LinearRegression().fit(X, np.column_stack([Y, -Y]))
    both.coef_[1] = 0.0
    np.testing.assert_allclose(both.predict(X)[:, 1], both.intercept_[1])
    assert len(both.summary().names) == 8


def test_coefficients_without_any_fit():
    m = tl.LinearRegression()
    m.coef_, m.intercept_ = np.array([1.0, 2.0, 3.0]), 4.0
    np.testing.assert_allclose(m.predict(X), X @ [1.0, 2.0, 3.0] + 4.0)
    m = tl.LogisticRegression()
    m.classes_, m.coef_, m.intercept_ = np.array(["a", "b"]), np.array([[1.0, 0.0, 0.0]]), np.array([0.0])
    assert (m.predict(X) == np.where(X[:, 0] > 0, "b", "a")).all()
    m = tl.GeneralizedRegression("poisson")
    m.coef_, m.intercept_ = np.zeros(3), np.log(5.0)
    np.testing.assert_allclose(m.predict(X), 5.0)


def test_the_mean_of_two_models_predicts_the_mean():
    one, two = tl.Ridge().fit(X[:40], Y[:40]), tl.Ridge().fit(X[40:], Y[40:])
    mean = fitted(tl.Ridge())
    mean.coef_ = (one.coef_ + two.coef_) / 2
    mean.intercept_ = (one.intercept_ + two.intercept_) / 2
    np.testing.assert_allclose(mean.predict(X), (one.predict(X) + two.predict(X)) / 2)


@pytest.mark.parametrize("whiten", [False, True])
def test_assigned_components_transform(whiten, tmp_path):
    pca = tl.PCA(2, whiten=whiten).fit(X)
    known = pca.transform(X)
    assert pca.certificate_ is not None
    pca.components_ = -pca.components_
    np.testing.assert_allclose(pca.transform(X), -known)
    assert pca.certificate_ is None
    np.testing.assert_allclose(saved(pca, tmp_path).transform(X), -known)
    pca.fit(X)
    pca.mean_[:] = 0.0
    scale = np.sqrt(pca.explained_variance_) if whiten else 1.0
    np.testing.assert_allclose(pca.transform(X), X @ pca.components_.T / scale)
    with pytest.raises(DataError, match="components_ was assigned"):
        pca.components_ = np.eye(4)
        pca.transform(X)


def test_assigned_numbers_of_a_kernel_expansion(tmp_path):
    m = tl.KernelRegression(alpha=0.1).fit(X, Y)
    known = m.predict(X) - m.intercept_
    m.coef_ *= 2.0
    m.intercept_ = 1.0
    np.testing.assert_allclose(m.predict(X), 2.0 * known + 1.0)
    assert m.certificate_ is None
    np.testing.assert_allclose(saved(m, tmp_path).predict(X), 2.0 * known + 1.0)


@pytest.mark.parametrize("model", [tl.OnlineRegressor(), tl.WidrowHoff(rate=0.01), tl.Perceptron()])
def test_what_an_online_learner_knows_cannot_be_assigned(model):
    model.fit(X, COIN if is_classifier(model) else Y)
    with pytest.raises(AttributeError):
        model.coef_ = np.zeros(3)


def test_numbers_are_numpys():
    for model in MODELS:
        m = fitted(model)
        assert isinstance(m.coef_, np.ndarray)
        assert isinstance(m.intercept_, (np.float64, np.ndarray)), type(model).__name__
