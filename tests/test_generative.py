"""Bayes' rule on densities against its peers: missing values, streams, calibration, the discriminative twin, entities."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from kinds import mixed_table
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.certificates.certificate import Status
from trueline.errors import DataError, UsageError


@pytest.fixture(scope="module")
def mixed():
    return mixed_table()


@pytest.mark.parametrize("model", [tl.GenerativeClassifier(), tl.GenerativeClassifier("gaussian", covariance="shared")])
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(model):
    check_estimator(model)


@pytest.mark.parametrize("data", [load_iris, load_wine])
def test_agrees_with_the_peers(data):
    X, y = data(return_X_y=True)
    w = np.random.default_rng(0).uniform(0.2, 2.0, len(y))
    for smoothing, weights in ((1e-9, None), (0.0, w)):  # the peer's smoothing does not look at weights
        ours = tl.GenerativeClassifier("gaussian", var_smoothing=smoothing).fit(X, y, weights)
        peer = GaussianNB(var_smoothing=smoothing).fit(X, y, weights)
        assert np.allclose(ours.predict_log_proba(X), peer.predict_log_proba(X), rtol=1e-9, atol=1e-9)
        assert np.allclose(ours.class_prior_, peer.class_prior_)
    for covariance, peer in (
        ("full", QuadraticDiscriminantAnalysis()),
        ("shared", LinearDiscriminantAnalysis()),
        ("shared", LinearDiscriminantAnalysis(solver="lsqr")),
    ):
        ours = tl.GenerativeClassifier("gaussian", covariance=covariance, var_smoothing=0.0).fit(X, y)
        assert np.allclose(ours.predict_log_proba(X), peer.fit(X, y).predict_log_proba(X), rtol=1e-6, atol=1e-6)
    assert ours.certificate_.proven and ours.certificate_.gap == pytest.approx(0.0, abs=1e-6)
    ours = tl.GenerativeClassifier("gaussian", covariance="full", correction=1, var_smoothing=0.0).fit(X, y)
    assert np.allclose(ours.model_.density.parts[0].fitted[1][0], np.cov(X[y == 0].T), rtol=1e-9, atol=1e-12)


def test_counts_agree_with_the_peers():
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, 400)
    X = rng.integers(0, 2, (400, 4)).astype(float)
    X[:, 0] = rng.random(400) < 0.2 + 0.3 * y
    ours = tl.GenerativeClassifier().fit(X, y)
    assert set(ours.densities_.values()) == {"bernoulli"}
    assert np.allclose(ours.predict_log_proba(X), BernoulliNB().fit(X, y).predict_log_proba(X))
    X = rng.integers(0, 4, (400, 3)).astype(float)
    ours = tl.GenerativeClassifier("categorical").fit(X, y)
    assert np.allclose(ours.predict_log_proba(X), CategoricalNB().fit(X, y).predict_log_proba(X))
    # a level that nobody has seen says nothing
    assert np.allclose(ours.predict_proba([[9.0, np.nan, np.nan]]), ours.class_prior_)


@pytest.mark.parametrize("covariance", ["diagonal", "full", "shared"])
def test_missing_values_are_integrated_out(covariance):
    X, y = load_iris(return_X_y=True)
    whole = tl.GenerativeClassifier("gaussian", covariance=covariance).fit(X, y)
    part = tl.GenerativeClassifier("gaussian", covariance=covariance, var_smoothing=0.0).fit(X[:, [0, 2]], y)
    gone = X.copy()
    gone[:, [1, 3]] = np.nan
    assert np.allclose(whole.predict_log_proba(gone), part.predict_log_proba(X[:, [0, 2]]), rtol=1e-5, atol=1e-6)
    assert np.allclose(whole.predict_proba(np.full((1, 4), np.nan)), whole.class_prior_)


@pytest.mark.parametrize("covariance", ["diagonal", "full", "shared"])
@pytest.mark.parametrize("rows", [700, 12_000])
def test_posteriors_are_densities_by_bayes_rule(covariance, rows):
    """Posteriors leave out what the classes share, many rows go by blocks on threads, far from the origin as near it."""
    rng = np.random.default_rng(8)
    y = rng.integers(0, 3, rows)
    X = 1e6 + rng.normal(size=(rows, 4)) @ rng.normal(size=(4, 4)) + np.outer(y, [1.0, 0.0, -1.0, 0.5])
    gone = X.copy()
    gone[::7, 1] = np.nan
    model = tl.GenerativeClassifier("gaussian", covariance=covariance).fit(X, y)
    for table in (X, gone):
        joint = model.log_likelihood(table) + np.log(model.class_prior_)
        expected = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
        np.testing.assert_allclose(model.predict_proba(table), expected, atol=1e-8)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(table)), expected, atol=1e-8)
        assert (model.predict(table) == joint.argmax(axis=1)).mean() > 0.9999
        one = np.vstack([model.predict_proba(table[k : k + 1]) for k in range(20)])
        np.testing.assert_allclose(one, model.predict_proba(table)[:20], atol=1e-12)


@pytest.mark.parametrize("covariance", ["diagonal", "full", "shared"])
def test_streams_merges_saves_and_continues(mixed, tmp_path, covariance):
    frame, y, kinds = mixed
    options = {"density": kinds, "covariance": covariance}
    whole = tl.GenerativeClassifier(**options).fit(frame, y)
    first = tl.GenerativeClassifier(**options).fit(frame[:300], y[:300])
    streamed = tl.GenerativeClassifier(**options).partial_fit(frame[:300], y[:300]).partial_fit(frame[300:], y[300:])
    merged = first.merge(tl.GenerativeClassifier(**options).fit(frame[300:], y[300:]))
    close = {"rtol": 0.02, "atol": 0.02}  # mixtures of other lattices
    assert np.allclose(whole.predict_proba(frame), streamed.predict_proba(frame), **close)
    assert np.allclose(whole.predict_proba(frame), merged.predict_proba(frame), **close)
    exact = dict.fromkeys(("height", "wait", "two"), "gaussian")
    a, b = (
        tl.GenerativeClassifier(exact, covariance=covariance).fit(frame[s], y[s])
        for s in (slice(0, 300), slice(300, None))
    )
    both = tl.GenerativeClassifier(exact, covariance=covariance).fit(frame, y)
    assert np.allclose((a + b).predict_log_proba(frame), both.predict_log_proba(frame), rtol=1e-6, atol=1e-8)
    # save in the middle, load, continue: as if it had never stopped
    first.save(tmp_path / "half.tl")
    again = tl.load(tmp_path / "half.tl").partial_fit(frame[300:], y[300:])
    assert again.get_params() == first.get_params()
    assert (again.predict_log_proba(frame) == streamed.predict_log_proba(frame)).all()
    assert str(again.certificate_) == str(streamed.certificate_) and list(again.feature_names_in_) == frame.columns
    assert again.classes_.dtype == whole.classes_.dtype


def test_new_classes_and_labels_of_any_type(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = tl.GenerativeClassifier("gaussian").partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    assert np.allclose(model.predict_proba(X), tl.GenerativeClassifier("gaussian").fit(X, y).predict_proba(X))
    named = tl.GenerativeClassifier("gaussian").fit(X, y > 0)
    named.save(tmp_path / "m.tl")
    assert tl.load(tmp_path / "m.tl").predict(X).dtype == np.bool_
    grid = GridSearchCV(tl.GenerativeClassifier("gaussian"), {"covariance": ["diagonal", "full", "shared"]}, cv=5).fit(
        X, y
    )
    assert grid.best_score_ > 0.96


def test_calibration_mends_posteriors_that_are_too_sure(tmp_path):
    """The same column ten times over: naive Bayes counts its evidence ten times, the temperature takes it back."""
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 3000)
    x = y + 1.5 * rng.standard_normal(3000)
    X = np.repeat(x[:, None], 10, axis=1) + 0.01 * rng.standard_normal((3000, 10))
    train, test = slice(0, 2000), slice(2000, None)
    raw = tl.GenerativeClassifier("gaussian").fit(X[train], y[train])
    calibrated = tl.GenerativeClassifier("gaussian", calibration="temperature").fit(X[train], y[train])
    truth = tl.GenerativeClassifier("gaussian").fit(X[train, :1], y[train])
    best = log_loss(y[test], truth.predict_proba(X[test, :1]))
    assert log_loss(y[test], raw.predict_proba(X[test])) > 1.5 * best
    assert log_loss(y[test], calibrated.predict_proba(X[test])) < 1.02 * best
    assert calibrated.model_.temper[0] == pytest.approx(0.1, abs=0.03)
    stream = tl.GenerativeClassifier("gaussian", calibration="temperature")
    for start in range(0, 2000, 200):
        stream.partial_fit(X[start : start + 200], y[start : start + 200])
    assert log_loss(y[test], stream.predict_proba(X[test])) < 1.03 * best
    stream.save(tmp_path / "c.tl")
    assert (tl.load(tmp_path / "c.tl").predict_proba(X) == stream.predict_proba(X)).all()


def test_the_twin_has_the_same_boundaries():
    """Shared covariances: the posterior is logistic in x, so both models agree where their assumptions hold."""
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, 5_000)
    X = rng.normal(size=(5_000, 3)) + np.outer(y, [1.0, -0.5, 0.2])
    model = tl.GenerativeClassifier("gaussian", covariance="shared").fit(X, y)
    twin = model.discriminative_twin(X, y, C=np.inf)
    assert np.abs(model.predict_proba(X) - twin.predict_proba(X)).max() < 0.05
    assert twin[-1].certificate_.proven
    assert model.sufficient_statistics(X).shape == (5_000, 3)
    assert tl.GenerativeClassifier("gaussian").fit(X, y).sufficient_statistics(X).shape == (5_000, 6)
    full = tl.GenerativeClassifier("gaussian", covariance="full").fit(X, y)
    odds = np.diff(full.predict_log_proba(X), axis=1)[:, 0]
    basis = np.column_stack([np.ones(len(X)), full.sufficient_statistics(X)])
    assert np.allclose(basis @ np.linalg.lstsq(basis, odds, rcond=None)[0], odds, atol=1e-8)


def calls(customers, each, seed):
    """(frame, fraud?) of calls: each customer has habits of minutes, hour and country; thieves all have the same."""
    rng = np.random.default_rng(seed)
    habits = np.random.default_rng(99)
    length, hour = habits.normal(1.0, 1.2, customers), habits.uniform(8, 20, customers)
    home = habits.integers(0, 6, customers)
    who = rng.integers(0, customers, customers * each)
    fraud = rng.random(len(who)) < 0.03
    minutes = np.where(fraud, rng.normal(2.0, 0.8, len(who)), length[who] + 0.4 * rng.standard_normal(len(who)))
    when = np.where(fraud, rng.normal(14, 6, len(who)), hour[who] + 1.5 * rng.standard_normal(len(who)))
    away = rng.random(len(who)) < np.where(fraud, 0.9, 0.1)
    country = np.where(away, rng.integers(0, 6, len(who)), home[who])
    frame = pl.DataFrame({
        "customer": [f"c{k}" for k in who], "log_minutes": minutes, "hour": when, "country": [f"k{k}" for k in country]
    })  # fmt: skip
    return frame, np.where(fraud, "fraud", "own")


def test_entities_beat_the_population(tmp_path):
    frame, y = calls(80, 40, seed=1)
    new, truth = calls(80, 40, seed=2)
    model = tl.GenerativeClassifier(entity="customer").fit(frame, y)
    assert model.densities_ == {"log_minutes": "gaussian", "hour": "gaussian", "country": "categorical"}
    population = tl.GenerativeClassifier().fit(frame.drop("customer"), y)
    personal = roc_auc_score(truth == "fraud", model.log_likelihood_ratio(new))
    common = roc_auc_score(truth == "fraud", population.log_likelihood_ratio(new.drop("customer"), "fraud", "own"))
    assert personal > 0.96 > 0.9 > common
    # a stranger has the population's density
    stranger = new.with_columns(pl.lit("nobody").alias("customer"))
    expected = population.log_likelihood(new.drop("customer"))
    assert np.allclose(model.log_likelihood(stranger), expected, rtol=1e-6)
    # streams, merges, saves
    half = len(y) // 2
    a, b = (tl.GenerativeClassifier(entity="customer").fit(frame[s], y[s]) for s in (slice(0, half), slice(half, None)))
    assert np.allclose((a + b).log_likelihood(new), model.log_likelihood(new), rtol=1e-8)
    model.save(tmp_path / "m.tl")
    assert (tl.load(tmp_path / "m.tl").log_likelihood(new) == model.log_likelihood(new)).all()
    a.partial_fit(frame[half:], y[half:])
    assert np.allclose(a.log_likelihood(new), model.log_likelihood(new), rtol=1e-8)
    # calibrated posteriors stay honest
    tempered = tl.GenerativeClassifier(entity="customer", calibration="temperature").fit(frame, y)
    assert log_loss(truth, tempered.predict_proba(new)) <= log_loss(truth, model.predict_proba(new)) * 1.02


def test_bad_input_is_named(mixed):
    frame, y, _ = mixed
    for call, words in (
        (lambda: tl.GenerativeClassifier(entity="who").fit(frame, y), "entity names column 'who'"),
        (lambda: tl.GenerativeClassifier(entity="town", covariance="full").fit(frame, y), "too few rows"),
        (lambda: tl.GenerativeClassifier(priors=[0.5]).fit(frame, y), "2 numbers"),
        (lambda: tl.GenerativeClassifier(calibration="platt").fit(frame, y), "temperature"),
    ):
        with pytest.raises((DataError, UsageError, ValueError), match=words):
            call()


def test_constant_columns_are_called_degenerate():
    X = np.column_stack([np.ones(20), np.arange(20.0)])
    model = tl.GenerativeClassifier("gaussian").fit(X, np.arange(20) > 9)
    assert model.certificate_.status is Status.DEGENERATE and "constant" in str(model.certificate_)
    assert np.isfinite(model.predict_log_proba(X)).all()


def test_auto_learns_the_kind_of_a_column_row_by_row():
    model = tl.GenerativeClassifier(density="auto")
    for value, label in ((0.0, 0), (0.5, 1), (1.0, 0), (2.5, 1), (0.25, 0), (3.0, 1)):
        model.partial_fit([[value]], [label])
    assert list(model.predict([[0.3], [2.8]])) == [0, 1]
