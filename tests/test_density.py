"""Densities: they integrate to one, merge, stream, sample, and reach the likelihood of their peers."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kinds import mixed_table
from scipy import stats
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.certificates.certificate import Status
from trueline.errors import DataError, UsageError


@pytest.fixture(scope="module")
def mixed():
    return mixed_table()


@pytest.mark.parametrize("model", [tl.Density(), tl.Density("gaussian", covariance="full")])
@pytest.mark.filterwarnings("ignore")
def test_check_estimator(model):
    check_estimator(model)


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
        part, mass, outside = part.fitted
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
@example(np.array([0.0, 0.5, 0.5, -5e-324, 1e9]), 4, "histogram")  # below 0 by less than a float can tell of a bin
@settings(max_examples=60, deadline=None)
def test_streams_merge(values, cut, name):
    """Two halves merged have the sums of the whole, whatever the values: on one lattice, to the last count."""
    X = values[:, None]
    cut = min(cut, len(X) - 1)
    whole = tl.Density(name).fit(X).model_.parts[0]
    halves = tl.Density(name).fit(X[:cut]).merge(tl.Density(name).fit(X[cut:])).model_.parts[0]
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


@pytest.mark.parametrize("name", ["gaussian", "poisson", "categorical", "bernoulli", "histogram"])
def test_parts_of_a_table_merge_to_the_density_of_the_whole(name):
    rng = np.random.default_rng(5)
    drawn = {
        "poisson": rng.poisson(4, 4000),
        "categorical": rng.integers(0, 5, 4000),
        "bernoulli": rng.random(4000) < 0.3,
    }
    X = np.asarray(drawn.get(name, rng.exponential(2.0, 4000)), dtype=float)[:, None]
    whole = tl.Density(name).fit(X)
    merged = tl.Density(name).fit(X[:500]).merge(tl.Density(name).fit(X[500:1500]), tl.Density(name).fit(X[1500:]))
    stream = tl.Density(name).fit(X[:500]).partial_fit(X[500:])
    for model in (merged, stream):
        np.testing.assert_allclose(model.log_density(X), whole.log_density(X), rtol=1e-12)
    times = rng.integers(0, 3, 4000)
    weighed, repeated = tl.Density(name).fit(X, sample_weight=times), tl.Density(name).fit(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(weighed.log_density(X), repeated.log_density(X), rtol=1e-12)


def test_a_histogram_of_an_older_file_is_read_as_it_was():
    model = tl.Density("histogram").fit(np.random.default_rng(6).normal(size=(500, 1)))
    arrays, meta = model.model_.to_state()
    assert meta["parts"][0].pop("fine")
    again = type(model.model_).from_state(arrays, meta).parts[0]
    assert again.fitted[0] is again and model.model_.parts[0].fitted[0].exponent > again.exponent


def test_pictures_of_every_density(mixed):
    frame, y, kinds = mixed
    model, classes = tl.Density(kinds).fit(frame), tl.GenerativeClassifier(kinds).fit(frame, y)
    assert list(model.densities_) == frame.columns
    for name, kind in model.densities_.items():
        for drawn in (model.plot(name), classes.plot(name)):
            counted = kind in ("poisson", "bernoulli", "categorical")
            groups = 1 if drawn.get_legend() is None else 2
            assert drawn.get_xlabel() == name and len(drawn.containers if counted else drawn.lines) == groups
            if counted:  # the bars of a density sum to one, but for its far tail
                heights = sum(bar.get_height() for one in drawn.containers for bar in one)
                assert heights == pytest.approx(groups, rel=0.02)
            else:
                low, high = drawn.lines[0].get_xdata()[[0, -1]]
                seen = frame[name].drop_nans()
                assert seen.min() - 5 < low < seen.mean() < high < seen.max() + 5
    who = tl.GenerativeClassifier(entity="town").fit(frame, y)
    assert who.plot("wait").get_xlabel() == "wait"
    with pytest.raises(tl.UsageError, match="'town' says whose row it is"):
        who.plot("town")


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
    assert model.certificate_.status is Status.STATIONARY
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


def test_bad_input_is_named(mixed):
    frame, _, _ = mixed
    X = np.array([[1.0, 2.0], [2.0, 0.5]])
    for call, words in (
        (lambda: tl.Density("gausian").fit(X), "did you mean 'gaussian'"),
        (lambda: tl.Density({"z": "gaussian"}).fit(X), "column 'z', which is not there"),
        (lambda: tl.Density("mixture(0)").fit(X), "mixture"),
        (lambda: tl.Density("poisson").fit(X), "column 'x1' has 0.5 in row 1, which a poisson"),
        (lambda: tl.Density("bernoulli").fit(X), "column 'x0' has 2 in row 1, which"),
        (lambda: tl.Density(covariance="ful").fit(X), "did you mean 'full'"),
        (lambda: tl.Density(alpha=-1.0).fit(X), "alpha of Density is -1.0"),
        (lambda: tl.Density({"town": "gaussian"}).fit(frame), "column 'town' holds strings"),
        (lambda: tl.Density().fit(np.array([[np.inf]])), "infinity"),
        (lambda: tl.Density().fit(X).sample(0), "n_samples is 0"),
        (lambda: tl.GenerativeClassifier().fit(X, [0, 1]).sample(-1), "n_samples is -1"),
        (lambda: tl.GenerativeClassifier().fit(X, [0, 1]).sample(1.5), "n_samples is 1.5"),
        (lambda: tl.Density("gaussian").fit(X) + tl.Density("histogram").fit(X), "different densities"),
    ):
        with pytest.raises((DataError, UsageError, ValueError), match=words):
            call()
    model = tl.Density("poisson").fit(np.array([[1.0], [2.0]]))
    before = model.model_.to_state()[0]["rows"].copy()
    with pytest.raises(DataError):
        model.partial_fit(np.array([[1.0], [0.5]]))
    assert model.model_.rows == before  # refused whole: nothing was learned


STREAMS = {
    "a half after zeros and ones": [0.0, 1.0, 0.0, 0.5, 0.25, 1.0, 0.0, 0.75],
    "counts after zeros and ones": [0.0, 1.0, 1.0, 0.0, 3.0, 2.0, 0.0, 4.0],
    "one large number": [0.0, 1.0, 0.0, 1.0, 1e6, 0.0, 1.0, 0.0],
    "negative": [0.0, 0.0, -1.0, 1.0, 0.0, 2.0, 3.0, 1.0],
    "first missing": [np.nan, 0.0, np.nan, 0.5, 2.0, 1.0, np.nan, 0.0],
    "ones only": [1.0] * 8,
}


@pytest.mark.parametrize("values", STREAMS.values(), ids=STREAMS)
def test_row_by_row_ends_where_all_rows_at_once_end(values, tmp_path):
    other = np.random.default_rng(0).normal(size=8)
    X, y = np.column_stack([values, other]), np.array(["a", "b"] * 4)
    weights = np.array([1.0, 2.0, 1.0, 0.0, 1.0, 3.0, 1.0, 1.0])
    for w in (np.ones(8), weights):
        whole, stream = tl.Density().fit(X, sample_weight=w), tl.Density()
        for k in range(8):
            if w[k] > 0:
                stream.partial_fit(X[[k]], sample_weight=w[[k]])
        assert stream.densities_ == whole.densities_
        np.testing.assert_allclose(stream.log_density(X), whole.log_density(X), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(stream.certificate_.log_likelihood, whole.certificate_.log_likelihood, rtol=1e-9)
        stream.save(tmp_path / "d.tl")
        again = tl.load(tmp_path / "d.tl").partial_fit(X)
        np.testing.assert_allclose(again.log_density(X), stream.partial_fit(X).log_density(X), rtol=1e-12)
    classes, whole = tl.GenerativeClassifier(), tl.GenerativeClassifier().fit(X, y)
    for k in range(8):
        if k > 1:
            assert np.isfinite(classes.predict_proba(X[[k]])).all()  # a value not seen so far speaks for no class
        classes.partial_fit(X[[k]], y[[k]])
    assert classes.densities_ == whole.densities_
    np.testing.assert_allclose(classes.predict_proba(X), whole.predict_proba(X), rtol=1e-8, atol=1e-12)
    parts = tl.GenerativeClassifier().fit(X[:4], y[:4]).merge(tl.GenerativeClassifier().fit(X[4:], y[4:]))
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), rtol=1e-8, atol=1e-12)


def test_entities_follow_the_densities_of_their_class():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 3, 60), np.r_[rng.integers(0, 2, 30), rng.normal(size=30)]])
    y = rng.integers(0, 2, 60)
    whole = tl.GenerativeClassifier(entity=0, entity_class=0).fit(X, y)
    stream = tl.GenerativeClassifier(entity=0, entity_class=0)
    for k in range(0, 60, 3):
        stream.partial_fit(X[k : k + 3], y[k : k + 3], classes=[0, 1])
    assert stream.densities_ == whole.densities_ == {"x1": "gaussian"}
    np.testing.assert_allclose(stream.predict_proba(X), whole.predict_proba(X), rtol=1e-8)


def test_a_density_by_name_is_kept_and_covariances_are_not_made_up():
    stream = tl.Density({"x0": "bernoulli"}).partial_fit([[0.0, 1.0]])
    with pytest.raises(DataError, match="bernoulli density cannot have"):
        stream.partial_fit([[0.5, 1.0]])
    assert stream.partial_fit([[1.0, 2.5]]).densities_["x0"] == "bernoulli"
    full = tl.Density(covariance="full").fit([[0.0, 1.5], [1.0, 2.5], [0.0, 0.5]])
    before = full.log_density([[0.0, 1.0]])
    with pytest.raises(DataError, match="'x0' looked bernoulli so far and gaussian"):
        full.partial_fit([[0.5, 1.0]])
    assert (full.log_density([[0.0, 1.0]]) == before).all()
