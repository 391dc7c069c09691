"""Robust regression against R's rlm, theorems of reweighting and EM, breakdown, and the parts ψ themselves."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.beyond.highbreakdown import weighted_median
from trueline.beyond.outliers import fit_mixture
from trueline.beyond.psi import PSIS, psi_named
from trueline.certificates.certificate import Status

# R's rlm on stack loss: air flow, water temperature, acid concentration, intercept; scale; standard errors.
RLM = {
    "huber": ((0.82937387, 0.92610818, -0.12784916, -41.02653105), 2.44071379, (0.11118035, 0.3034081, 0.12885259, 9.8073472)),
    "hampel": ((0.74108304, 1.22507934, -0.14552506, -40.47473236), 3.08826466, (0.13482596, 0.36793632, 0.1562567, 11.89315426)),
    "bisquare": ((0.9275471, 0.65073222, -0.11233103, -42.28525369), 2.28188588, (0.10805398, 0.29487634, 0.12522928, 9.5315672)),
}  # fmt: skip
ALL = tuple(PSIS)


@pytest.fixture(scope="module")
def stackloss():
    data = pytest.importorskip("statsmodels.api").datasets.stackloss.load_pandas()
    return data.exog.to_numpy(float), data.endog.to_numpy(float)


def contaminated(n: int, share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A plane, and a cluster of rows far out in x and off the plane."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, 2.0, 3.0] + 4.0 + 0.5 * rng.normal(size=n)
    stray = np.arange(n) < share * n
    X[stray] += 6.0
    y[stray] = -30.0 + rng.normal(size=stray.sum())
    return X, y, stray


@pytest.mark.parametrize(
    "estimator",
    [tl.RobustRegression(), tl.OutlierMixture(n_starts=2, max_iter=100)],
    ids=str,
)
def test_scikit_learn_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(estimator, on_skip=None)


@pytest.mark.parametrize("psi", RLM)
def test_rlm_on_stack_loss(stackloss, psi):
    model = tl.RobustRegression(psi).fit(*stackloss)
    coefficients, scale, errors = RLM[psi]
    np.testing.assert_allclose([*model.coef_, model.intercept_], coefficients, rtol=1e-7)
    assert model.scale_ == pytest.approx(scale, rel=1e-8) and model.start_ == "least-squares"
    np.testing.assert_allclose(np.roll(model.std_errors_, -1), errors, rtol=1e-6)
    table = model.summary()
    np.testing.assert_allclose(np.roll(table.std_errors, -1), errors, rtol=1e-6)
    assert model.weights_.argmin() == 20 and model.certificate_.monotone
    assert model.certificate_.status is (Status.PROVEN if psi == "huber" else Status.STATIONARY)


def test_mm_estimate_andrews_and_the_fixed_point(stackloss):
    mm = tl.RobustRegression("bisquare", start="high-breakdown").fit(*stackloss)
    # What robustbase's lmrob prints, whose S-estimate stops at a looser tolerance than ours.
    np.testing.assert_allclose([*mm.coef_, mm.intercept_], [0.93885, 0.57955, -0.11292, -41.52462], rtol=3e-4)
    assert mm.scale_ == pytest.approx(1.912, abs=1e-3) and mm.certificate_.breakdown == 0.5
    andrews = tl.RobustRegression("andrews").fit(*stackloss)
    np.testing.assert_allclose([*andrews.coef_, andrews.intercept_], [0.9282, 0.6492, -0.1123, -42.2930], atol=1e-4)
    import statsmodels.api as sm

    X, y = stackloss
    tight = tl.RobustRegression(tol=1e-12, max_iter=500).fit(X, y)
    theirs = sm.RLM(y, sm.add_constant(X)).fit(tol=1e-13, maxiter=500)
    np.testing.assert_allclose([tight.intercept_, *tight.coef_], theirs.params, rtol=1e-4)
    assert tight.certificate_.stationarity < 1e-9
    proposal = tl.RobustRegression(scale="huber", tol=1e-12, max_iter=500).fit(X, y)
    clipped = np.minimum((y - proposal.predict(X)) ** 2, (1.345 * proposal.scale_) ** 2).sum() / 17
    assert clipped / proposal.scale_**2 == pytest.approx(0.7101645, rel=1e-5)  # E min(z², 1.345²)


@pytest.mark.parametrize("psi", ALL)
def test_standard_errors_are_hubers_first_form(stackloss, psi):
    X, y = stackloss
    model = tl.RobustRegression(psi, start="least-squares", tol=1e-12, max_iter=2000).fit(X, y)
    part, u = psi_named(psi), (y - model.predict(X)) / model.scale_
    A, (n, p) = np.column_stack([np.ones(len(y)), X]), (len(y), 4)
    slope = part.slope(u)
    widened = 1.0 + p * slope.var(ddof=1) / (n * slope.mean() ** 2)
    spread = model.scale_ * widened * np.sqrt((part.psi(u) ** 2).sum() / (n - p)) / slope.mean()
    np.testing.assert_allclose(model.std_errors_, spread * np.sqrt(np.diag(np.linalg.inv(A.T @ A))), rtol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_rho_of_a_small_residual_is_half_its_square(name):
    """An S-estimate begun at a scale that is far too large would take a ρ of 0 for a line through the rows."""
    u = 10.0 ** -np.arange(4.0, 150.0)
    np.testing.assert_allclose(psi_named(name).rho(u), 0.5 * u * u, rtol=1e-8)


@pytest.mark.parametrize("name", ALL)
def test_psi_is_the_slope_of_rho_and_bounds_hold(name):
    part = psi_named(name)
    u = np.linspace(-12, 12, 4001)
    h = 1e-6
    np.testing.assert_allclose((part.rho(u + h) - part.rho(u - h)) / (2 * h), part.psi(u), atol=1e-5)
    numeric = (part.psi(u + h) - part.psi(u - h)) / (2 * h)
    assert np.mean(np.abs(numeric - part.slope(u)) < 1e-4) > 0.99  # but for the kinks
    np.testing.assert_allclose(part.weight(u) * u, part.psi(u), atol=1e-12)
    assert (part.slope(u) <= 1.0 + 1e-12).all() and (part.weight(u) >= 0).all() and (part.weight(u) <= 1.0).all()
    v = u[u > 0]
    assert (np.diff(part.weight(v)) <= 1e-12).all(), "weights fall: reweighting majorises ρ"


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(ALL), st.integers(0, 10_000), st.booleans(), st.sampled_from(["mad", "huber"]))
def test_no_step_raises_the_objective(psi, seed, intercept, scale):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, size=(40, 3))
    y = X @ rng.normal(size=3) + rng.standard_cauchy(40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tl.RobustRegression(psi, scale=scale, fit_intercept=intercept, start="least-squares").fit(X, y)
    assert model.certificate_.monotone and len(model.certificate_.before) == model.n_iter_


@pytest.mark.parametrize("psi", ["bisquare", "hampel", "andrews"])
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_forty_percent_of_bad_leverage_rows_do_not_bend_a_redescender(psi, share):
    X, y, stray = contaminated(200, share)
    model = tl.RobustRegression(psi).fit(X, y)
    np.testing.assert_allclose([*model.coef_, model.intercept_], [1, 2, 3, 4], atol=0.25)
    assert model.start_ == "high-breakdown" and (model.weights_[stray] == 0).all()
    assert "half" in model.certificate_.note
    assert np.abs(tl.RobustRegression("huber").fit(X, y).coef_ - [1, 2, 3]).max() > 1.0


def test_weights_are_repetitions_and_equivariance_holds():
    X, y, _ = contaminated(60, 0.1, seed=3)
    times = np.random.default_rng(0).integers(0, 3, 60)
    for psi in ("huber", "cauchy"):
        options = {"psi": psi, "start": "least-squares"}
        weighed = tl.RobustRegression(**options).fit(X, y, times)
        repeated = tl.RobustRegression(**options).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        np.testing.assert_allclose(weighed.coef_, repeated.coef_, rtol=1e-8)
        np.testing.assert_allclose(weighed.std_errors_, repeated.std_errors_, rtol=1e-6)
        moved = tl.RobustRegression(**options).fit(X * 10.0, 3.0 * y + X @ [30.0, 0.0, 0.0] + 7.0, times)
        np.testing.assert_allclose(moved.coef_, (3.0 * weighed.coef_ + [30.0, 0, 0]) / 10.0, rtol=1e-3)
    assert weighted_median(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0])) == 2.5


def test_standard_errors_and_intervals_have_their_level():
    hits = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(80, 2))
        model = tl.RobustRegression("bisquare").fit(X, X @ [1.0, -1.0] + rng.standard_t(3, size=80))
        _, lower, upper = model.predict([[0.5, 0.5]], interval=0.9)
        hits.append(lower[0] <= 0.0 <= upper[0])
    assert 0.8 <= np.mean(hits) <= 0.98


def test_rows_exactly_on_a_line_and_too_few_rows():
    x = np.arange(12.0)
    y = 3 * x - 1
    y[[2, 7]] = 50.0
    model = tl.RobustRegression("bisquare").fit(x[:, None], y)
    np.testing.assert_allclose([model.coef_[0], model.intercept_], [3, -1], atol=1e-8)
    with pytest.raises(ValueError, match="more rows than parameters"):
        tl.RobustRegression().fit(np.eye(3), [1.0, 2.0, 3.0])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 0.4), st.booleans())
def test_the_likelihood_never_falls(seed, share, weighted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=40)
    bad = rng.random(40) < share
    y[bad] = rng.normal(3, 10, bad.sum())
    _, fits = fit_mixture(X, y, rng.random(40) + 0.1 if weighted else None, starts=6, max_iter=200)
    for fit in fits:
        steps = np.diff(fit.trace)
        assert (steps >= -1e-9 * (1 + np.abs(fit.trace[:-1]))).all()
        assert fit.sigma_huge >= fit.sigma > 0 and 0 <= fit.probability <= 1


def test_mixture_finds_its_parameters():
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, (2000, 1))
    stray = rng.random(2000) < 0.3
    y = np.where(stray, rng.normal(5, 8, 2000), 2 * X[:, 0] + 1 + 0.3 * rng.normal(size=2000))
    model = tl.OutlierMixture().fit(X, y)
    assert model.coef_[0] == pytest.approx(2, abs=0.03) and model.intercept_ == pytest.approx(1, abs=0.05)
    assert model.probability_ == pytest.approx(0.7, abs=0.03) and model.sigma_ == pytest.approx(0.3, rel=0.1)
    assert model.mu_ == pytest.approx(5, abs=1) and model.sigma_huge_ == pytest.approx(8, rel=0.1)
    far = np.abs(y - 2 * X[:, 0] - 1) > 2
    assert (model.outlier_probability_[far] > 0.95).all()
    np.testing.assert_allclose(model.outlier_probability(X, y), model.outlier_probability_, atol=1e-6)
    assert (
        model.certificate_.status is Status.STATIONARY
        and model.certificate_.rising
        and "degenerate" in model.certificate_.note
    )


def test_a_degenerate_start_has_the_higher_likelihood_and_is_not_chosen():
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 10, 40)
    y = x + 0.5 * rng.normal(size=40)
    y[:14] = 40.0 - 3.0 * x[:14]  # rows exactly on another line: there the likelihood has no bound
    best, fits = fit_mixture(x[:, None], y, starts=40, seed=3)
    degenerate = [fit for fit in fits if fit.degenerate]
    assert degenerate and not best.degenerate
    assert max(fit.log_likelihood for fit in degenerate) > best.log_likelihood
    assert best.theta[0] == pytest.approx(1.0, abs=0.2) and best.sigma == pytest.approx(0.5, rel=0.4)
    exact = 2 * x + 1
    with pytest.warns(UserWarning, match="degenerate"):
        model = tl.OutlierMixture().fit(x[:, None], exact)
    assert model.certificate_.status.value == "degenerate" and model.coef_[0] == pytest.approx(2.0)


@pytest.mark.parametrize(
    "estimator", [tl.RobustRegression("hampel", tuning=(1.5, 3.5, 8.0)), tl.OutlierMixture()], ids=str
)
def test_saved_and_loaded_predictions_are_identical(estimator, tmp_path):
    X, y, _ = contaminated(80, 0.2)
    model = estimator.fit(X, y)
    model.save(tmp_path / "m.tl")
    same = tl.load(tmp_path / "m.tl")
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    assert same.get_params() == model.get_params() and repr(same.certificate_) == repr(model.certificate_)
    name = "weights_" if isinstance(model, tl.RobustRegression) else "outlier_probability_"
    np.testing.assert_array_equal(getattr(same, name), getattr(model, name))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"psi": "hubr"}, "did you mean 'huber'"),
        ({"scale": "std"}, "'mad' or 'huber'"),
        ({"tuning": -1.0}, "tuning"),
        ({"psi": "hampel", "tuning": (4.0, 2.0, 8.0)}, "increasing"),
        ({"start": "zero"}, "start"),
        ({"tol": -1.0}, "tol"),
        ({"random_state": -3}, "random_state"),
    ],
)
def test_refusals(options, word):
    X, y, _ = contaminated(30, 0.1)
    with pytest.raises(ValueError, match=word):
        tl.RobustRegression(**options).fit(X, y)
    with pytest.raises(ValueError, match="n_starts"):
        tl.OutlierMixture(n_starts=0).fit(X, y)
