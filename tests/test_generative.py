"""Probability models: densities that integrate to one, merge and stream; Bayes' rule against peers; entities; words."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.beyond.lattice import Histogram, Mixture
from trueline.certify.records import Status
from trueline.errors import DataError, UsageError


@pytest.fixture(scope="module")
def mixed():
    """A column of every kind, two classes, some values missing."""
    rng = np.random.default_rng(0)
    n = 600
    y = rng.random(n) < 0.4
    table = {
        "height": np.where(y, 178.0, 165.0) + 7 * rng.standard_normal(n),
        "calls": rng.poisson(np.where(y, 6.0, 3.0)).astype(float),
        "smokes": (rng.random(n) < np.where(y, 0.4, 0.2)).astype(float),
        "wait": rng.exponential(np.where(y, 1.0, 3.0)),
        "two": np.where(rng.random(n) < 0.5, -3.0, 3.0) + rng.standard_normal(n) + y,
    }
    for column in table.values():
        column[rng.random(n) < 0.1] = np.nan
    town = np.array(["bath", "leeds", "york"])[(rng.random(n) * (2 + y)).astype(int)].astype(object)
    town[rng.random(n) < 0.1] = None
    frame = pl.DataFrame({k: pl.Series(v) for k, v in table.items()} | {"town": pl.Series(town.tolist())})
    kinds = {"height": "gaussian", "wait": "histogram", "two": "mixture(2)"}
    return frame, np.where(y, "m", "f"), kinds


@pytest.mark.parametrize(
    "model",
    [
        tl.GenerativeClassifier(),
        tl.GenerativeClassifier("gaussian", covariance="shared"),
        tl.Density(),
        tl.Density("gaussian", covariance="full"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(model):
    check_estimator(model)


def test_check_estimator_words():
    check_estimator(tl.NGram())


# --- densities


def test_gaussian_poisson_bernoulli_against_scipy():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(3, 2, 500), rng.poisson(4, 500), rng.random(500) < 0.3]).astype(float)
    model = tl.Density(alpha=0.0, var_smoothing=0.0).fit(X)
    assert model.densities_ == {"x0": "gaussian", "x1": "poisson", "x2": "bernoulli"}
    m = X.mean(axis=0)
    expected = (
        stats.norm.logpdf(X[:, 0], m[0], X[:, 0].std()) + stats.poisson.logpmf(X[:, 1], m[1]) + stats.bernoulli.logpmf(X[:, 2], m[2])
    )  # fmt: skip
    assert np.allclose(model.log_density(X), expected, rtol=1e-12)
    certificate = model.certificate_
    assert certificate.proven and certificate.log_likelihood == pytest.approx(expected.sum(), rel=1e-12)
    assert abs(certificate.gap) < 1e-8 and certificate.per_row == pytest.approx(model.score(X))
    # smoothing costs likelihood on the training rows, and the certificate says how much
    smooth = tl.Density().fit(X)
    assert smooth.certificate_.gap > 0
    assert smooth.certificate_.log_likelihood == pytest.approx(smooth.log_density(X).sum(), rel=1e-10)
    assert smooth.certificate_.maximum == pytest.approx(certificate.maximum, rel=1e-10)


@given(
    arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e6, 1e6)),
    st.sampled_from(["gaussian", "histogram", "mixture(3)"]),
)
@settings(max_examples=40, deadline=None)
def test_densities_integrate_to_one(values, name):
    X = values[:, None]
    model = tl.Density(name, var_smoothing=1e-3).fit(X)
    assert np.isfinite(model.log_density(X)).all()
    part = model.model_.parts[0]
    if name == "histogram":
        mass, outside = part.fitted
        assert mass.sum() + outside.sum() == pytest.approx(1.0)
        edges = (part.low - 60 + np.arange(part.length + 120) + 0.5) * part.width
        assert (np.exp(model.log_density(edges[:, None])) * part.width).sum() == pytest.approx(1.0, abs=1e-9)
    elif name == "mixture(3)":
        assert part.fitted[0].sum() == pytest.approx(1.0) and (part.fitted[2] > 0).all()
        assert model.certificate_.monotone and not model.certificate_.proven


@given(
    arrays(np.float64, st.integers(2, 80), elements=st.one_of(st.floats(-1e9, 1e9), st.just(math.nan))),
    st.integers(1, 79),
    st.sampled_from(["gaussian", "histogram", "mixture"]),
)
@settings(max_examples=60, deadline=None)
def test_streams_merge(values, cut, name):
    """Two halves merged have the sums of the whole, whatever the values: on one lattice, to the last count."""
    X = values[:, None]
    cut = min(cut, len(X) - 1)
    whole = tl.Density(name).fit(X).model_.parts[0]
    halves = (tl.Density(name).fit(X[:cut]) + tl.Density(name).fit(X[cut:])).model_.parts[0]
    if name == "gaussian":
        assert np.allclose(whole.stats["weight"], halves.stats["weight"])
        size = np.nanmax(np.abs(values), initial=0.0)
        assert np.allclose(whole.stats["mean"], halves.stats["mean"], atol=1e-12 * size)
        assert np.allclose(whole.stats["scatter"], halves.stats["scatter"], atol=1e-11 * size**2 * len(X))
        return
    if whole.exponent is None or halves.exponent is None:
        assert whole.stats["weight"] == halves.stats["weight"]
        return
    while whole.exponent != halves.exponent:
        if whole.exponent < halves.exponent:
            whole = whole.coarser()
        else:
            halves = halves.coarser()
    assert whole.length == halves.length and whole.low == halves.low
    assert (whole.stats["counts"] == halves.stats["counts"]).all()
    assert halves.length <= 512


def test_lattice_survives_an_outlier_far_away():
    X = np.append(np.random.default_rng(0).normal(size=1000), 1e12)[:, None]
    model = tl.Density("histogram").fit(X[:1000]).partial_fit(X[1000:])
    assert model.model_.parts[0].length <= 512 and model.model_.parts[0].stats["counts"].sum() == 1001


def test_mixture_reaches_the_peers_likelihood():
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(-2, 0.5, 3000), rng.normal(1, 1.0, 5000), rng.normal(6, 2.0, 2000)])[:, None]
    ours, peer = (
        tl.Density("mixture(3)").fit(x),
        GaussianMixture(3, random_state=0, n_init=3, tol=1e-7, max_iter=2000).fit(x),
    )
    assert ours.score(x) >= peer.score(x) - 1e-4
    part = ours.model_.parts[0]
    assert np.allclose(np.sort(part.fitted[1][0]), np.sort(peer.means_[:, 0]), atol=0.1)
    assert ours.certificate_.monotone and ours.certificate_.iterations > 5 and not ours.certificate_.proven
    # what EM raises is a lower bound of the true log-likelihood, and a close one
    true = ours.log_density(x).sum()
    assert ours.certificate_.log_likelihood <= true + 1e-6
    assert ours.certificate_.log_likelihood == pytest.approx(true, rel=1e-2)
    # streamed in parts it is the same model as far as the lattice tells
    streamed = tl.Density("mixture(3)").fit(x[:5000:2])
    for start in range(4):
        streamed.partial_fit(x[start::4])
    assert streamed.score(x) == pytest.approx(ours.score(x), abs=0.02)


def test_sampling_gives_the_density_back(mixed):
    frame, _, kinds = mixed
    model = tl.Density(kinds).fit(frame)
    drawn = model.sample(20_000, random_state=1)
    again = tl.Density(kinds).fit(pl.DataFrame({c: drawn[:, j].tolist() for j, c in enumerate(frame.columns)}))
    assert again.densities_ == model.densities_
    assert again.score(frame) == pytest.approx(model.score(frame), abs=0.05)
    assert (model.sample(5, random_state=3) == model.sample(5, random_state=3)).all()
    assert set(drawn[:, 5]) == {"bath", "leeds", "york"}


def test_gaussian_with_missing_values_is_a_stationary_point():
    """EM over patterns: the gradient of the observed log-likelihood vanishes, and it never fell."""
    rng = np.random.default_rng(3)
    X = rng.multivariate_normal([1, 2, 3], [[2, 1, 0.5], [1, 3, -1], [0.5, -1, 2]], 400)
    X[rng.random(X.shape) < 0.25] = np.nan
    model = tl.Density("gaussian", covariance="full", var_smoothing=0.0).fit(X)
    part = model.model_.parts[0]
    assert model.certificate_.monotone and model.certificate_.iterations > 3
    assert model.certificate_.status is Status.NOT_PROVEN
    best = model.log_density(X).sum()
    assert model.certificate_.log_likelihood == pytest.approx(best, rel=1e-9)
    mean, cov = part.fitted
    for target in (mean, cov):
        for place in np.ndindex(target[0].shape):
            for step in (1e-3, -1e-3):
                kept = target.copy()
                target[0][place] += step
                if target.ndim == 3 and place[0] != place[1]:
                    target[0][place[::-1]] += step
                assert model.log_density(X).sum() <= best + 1e-6
                target[...] = kept


def test_full_covariance_merges_with_patterns():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    whole = tl.Density("gaussian", covariance="full").fit(X)
    halves = tl.Density("gaussian", covariance="full").fit(X[:100]) + tl.Density("gaussian", covariance="full").fit(
        X[100:]
    )
    streamed = tl.Density("gaussian", covariance="full").fit(X[:50]).partial_fit(X[50:])
    assert np.allclose(whole.log_density(X), halves.log_density(X), rtol=1e-6)
    assert np.allclose(whole.log_density(X), streamed.log_density(X), rtol=1e-6)


# --- Bayes' rule


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
def test_streams_merges_saves_and_continues(mixed, tmp_path, covariance):
    frame, y, kinds = mixed
    options = {"density": kinds, "covariance": covariance}
    whole = tl.GenerativeClassifier(**options).fit(frame, y)
    # the lattice starts from the first rows: start it from all of them, so that every way has the same
    first = tl.GenerativeClassifier(**options).fit(frame[:300], y[:300])
    streamed = tl.GenerativeClassifier(**options).partial_fit(frame[:300], y[:300]).partial_fit(frame[300:], y[300:])
    merged = first + tl.GenerativeClassifier(**options).fit(frame[300:], y[300:])
    close = {"rtol": 0.15, "atol": 0.15}  # histograms of other widths
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


# --- entities


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


# --- words


def test_ngram_ranks_sums_to_one_merges_and_saves(tmp_path):
    model = tl.NGram().fit()
    assert model.log_probability("I sat on a chair") > model.log_probability("I fat on a chair") + 2
    assert {"sat", "fat"} <= set(model.vocabulary_)
    for context in [(), ("i",), ("sat", "on"), ("never", "heard"), ("on", "a")]:
        total = sum(model.model_.probability(word, context) for word in [*model.vocabulary_, "never-seen"])
        assert total == pytest.approx(1.0, abs=1e-12)
    a, b = tl.NGram().fit("I sat. You sat on a chair."), tl.NGram().fit(["He sat on a mat!"])
    both = tl.NGram().fit(["I sat. You sat on a chair.", "He sat on a mat!"])
    assert (a + b).model_.counts == both.model_.counts == a.partial_fit("He sat on a mat!").model_.counts
    model.save(tmp_path / "words.tl")
    again = tl.load(tmp_path / "words.tl")
    assert again.log_probability("I sat on a mat") == model.log_probability("I sat on a mat")
    assert again.certificate_ == model.certificate_ and model.certificate_.gap > 0
    assert model.next_words("I sat on", 2)[0][0] in ("a", "the") and model.sample(1)
    assert model.perplexity("I sat on a chair.") < model.perplexity("Chair a on sat I.")
    uniform = tl.NGram(order=1).fit("a b c d")
    assert uniform.log_probability("a") < 0


# --- refusals


def test_bad_input_is_named(mixed):
    frame, y, _ = mixed
    X = np.array([[1.0, 2.0], [2.0, 0.5]])
    for call, words in (
        (lambda: tl.Density("gausian").fit(X), "did you mean 'gaussian'"),
        (lambda: tl.Density({"z": "gaussian"}).fit(X), "column 'z', which is not there"),
        (lambda: tl.Density("mixture(0)").fit(X), "mixture"),
        (lambda: tl.Density("poisson").fit(X), "column 'x1' holds .*0.5"),
        (lambda: tl.Density("bernoulli").fit(X), "column 'x0' holds .*2.0"),
        (lambda: tl.Density(covariance="ful").fit(X), "did you mean 'full'"),
        (lambda: tl.Density(alpha=-1.0).fit(X), "alpha is -1.0"),
        (lambda: tl.Density({"town": "gaussian"}).fit(frame), "column 'town' holds strings"),
        (lambda: tl.Density().fit(np.array([[np.inf]])), "infinity"),
        (lambda: tl.GenerativeClassifier(entity="who").fit(frame, y), "entity names column 'who'"),
        (lambda: tl.GenerativeClassifier(entity="town", covariance="full").fit(frame, y), "too few rows"),
        (lambda: tl.GenerativeClassifier(priors=[0.5]).fit(frame, y), "2 numbers"),
        (lambda: tl.GenerativeClassifier(calibration="platt").fit(frame, y), "temperature"),
        (lambda: tl.NGram(order=0).fit("a"), "order is 0"),
        (lambda: tl.NGram().fit(""), "no words"),
        (lambda: tl.NGram().fit([3]), "text 0 is 3"),
        (lambda: tl.Density("gaussian").fit(X) + tl.Density("histogram").fit(X), "different densities"),
    ):
        with pytest.raises((DataError, UsageError, ValueError), match=words):
            call()
    model = tl.Density("poisson").fit(np.array([[1.0], [2.0]]))
    before = model.model_.to_state()[0]["rows"].copy()
    with pytest.raises(DataError):
        model.partial_fit(np.array([[1.0], [0.5]]))
    assert model.model_.rows == before  # refused whole: nothing was learned


def test_constant_columns_are_called_degenerate():
    X = np.column_stack([np.ones(20), np.arange(20.0)])
    model = tl.GenerativeClassifier("gaussian").fit(X, np.arange(20) > 9)
    assert model.certificate_.status is Status.DEGENERATE and "constant" in str(model.certificate_)
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert Mixture.finer > Histogram.finer
