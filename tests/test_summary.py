"""Summaries against statsmodels: errors, robust errors, likelihoods; and what is withheld, with its true reason."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import trueline as tl
from trueline.errors import DataError, UsageError

rng = np.random.default_rng(11)
N = 150
X = np.column_stack([rng.normal(size=N), 40.0 + 3.0 * rng.normal(size=N), rng.integers(0, 2, N)])
D = sm.add_constant(X)
ETA = 0.3 + 0.5 * X[:, 0] - 0.1 * (X[:, 1] - 40.0) + 0.4 * X[:, 2]
MU = np.exp(ETA)
GROUPS = rng.integers(0, 17, N)
W = rng.uniform(0.2, 3.0, N)
COUNTS = rng.poisson(MU).astype(float)
SIZES = rng.gamma(2.0, MU / 2.0)
CLAIMS = np.array([rng.gamma(2.0, 1.0, int(k)).sum() for k in rng.poisson(MU)])
COIN = (rng.uniform(size=N) < 1.0 / (1.0 + np.exp(-ETA))).astype(int)
LOG = sm.families.links.Log()


def tweedie(p):
    return sm.families.Tweedie(LOG, var_power=p)


FAMILIES = {
    "poisson": (lambda **o: tl.GeneralizedRegression("poisson", tol=1e-12, **o), COUNTS, sm.families.Poisson()),
    "gamma": (lambda **o: tl.GeneralizedRegression("gamma", tol=1e-12, **o), SIZES, sm.families.Gamma(LOG)),
    "tweedie": (lambda **o: tl.GeneralizedRegression("tweedie", power=1.4, tol=1e-12, **o), CLAIMS, tweedie(1.4)),
    "squared": (lambda **o: tl.GeneralizedRegression("squared", tol=1e-12, **o), SIZES, sm.families.Gaussian()),
    "logistic": (lambda **o: tl.LogisticRegression(C=np.inf, tol=1e-12, **o), COIN, sm.families.Binomial()),
}


def peer(y, family, design=D, weights=None, **options):
    extra = {} if weights is None else {"var_weights": weights}
    return sm.GLM(y, design, family=family, **extra).fit(tol=1e-14, maxiter=200, **options)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", FAMILIES)
def test_generalised_linear_models_are_summarised_as_in_statsmodels(name, weights):
    make, y, family = FAMILIES[name]
    known = peer(y, family, weights=weights)
    summary = make().fit(X, y, sample_weight=weights).summary()
    np.testing.assert_allclose(summary.estimates, known.params, rtol=1e-8)
    np.testing.assert_allclose(summary.std_errors, known.bse, rtol=1e-8)
    np.testing.assert_allclose(summary.p_values, known.pvalues, rtol=1e-6, atol=1e-300)
    np.testing.assert_allclose(np.column_stack([summary.lower, summary.upper]), known.conf_int(), rtol=1e-7)
    assert summary.withheld == "" and summary.statistic_name == "z"
    if name != "logistic":
        np.testing.assert_allclose(summary.figures.get("dispersion", 1.0), known.scale, rtol=1e-8)
    if name != "squared":
        np.testing.assert_allclose(summary.null_log_likelihood, known.llnull, rtol=1e-8)
    if not (name == "squared" and weights is not None):
        np.testing.assert_allclose(summary.log_likelihood, known.llf, rtol=1e-8)
        np.testing.assert_allclose(summary.aic, known.aic, rtol=1e-8)


@pytest.mark.parametrize("weights", [None, W], ids=["plain", "weighted"])
@pytest.mark.parametrize("robust", ["HC0", "HC1", "HC2", "HC3", "cluster"])
@pytest.mark.parametrize("name", FAMILIES)
def test_robust_errors_of_generalised_linear_models_are_those_of_statsmodels(name, robust, weights):
    make, y, family = FAMILIES[name]
    extra = {"cov_kwds": {"groups": GROUPS}} if robust == "cluster" else {}
    known = peer(y, family, weights=weights, cov_type=robust, **extra)
    rows = {"X": X, "y": y, "sample_weight": weights} | ({"groups": GROUPS} if robust == "cluster" else {})
    model = make().fit(X, y, sample_weight=weights)
    summary = model.summary(robust=robust, **rows)
    np.testing.assert_allclose(summary.std_errors, known.bse, rtol=1e-8)
    np.testing.assert_allclose(summary.p_values, known.pvalues, rtol=1e-6, atol=1e-300)
    assert summary.errors_kind == robust
    assert not np.allclose(summary.std_errors, model.summary().std_errors, rtol=1e-3)


def test_robust_errors_without_an_intercept_and_with_an_exposure():
    exposure = rng.uniform(0.5, 4.0, N)
    y = rng.poisson(MU * exposure).astype(float)
    known = sm.GLM(y, X, family=sm.families.Poisson(), exposure=exposure).fit(cov_type="HC0", tol=1e-14)
    model = tl.GeneralizedRegression("poisson", fit_intercept=False, tol=1e-12).fit(X, y, exposure=exposure)
    summary = model.summary(robust="HC0", X=X, y=y, exposure=exposure)
    np.testing.assert_allclose(summary.std_errors, known.bse, rtol=1e-8)
    with pytest.raises(UsageError, match="exposure"):
        model.summary(robust="HC0", X=X, y=y)


def test_class_weights_count_in_robust_errors():
    weights = np.where(COIN == 1, 3.0, 1.0)
    known = peer(COIN, sm.families.Binomial(), weights=weights, cov_type="HC0")
    model = tl.LogisticRegression(C=np.inf, tol=1e-12, class_weight={1: 3.0}).fit(X, COIN)
    np.testing.assert_allclose(model.summary(robust="HC0", X=X, y=COIN).std_errors, known.bse, rtol=1e-8)


def test_robust_errors_of_a_source():
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        y=COUNTS, g=GROUPS.astype(str), city=np.array(["x", "y", "z"])[GROUPS % 3]
    )
    model = tl.GeneralizedRegression("poisson", tol=1e-12).fit(table, target="y", features=["a", "b", "city"])
    dummies = pd.get_dummies(table["city"], drop_first=True).to_numpy(dtype=float)
    design = sm.add_constant(np.column_stack([X[:, :2], dummies]))
    known = peer(COUNTS, sm.families.Poisson(), design, cov_type="cluster", cov_kwds={"groups": GROUPS})
    summary = model.summary(robust="cluster", X=table, groups="g")
    assert summary.names == ("(Intercept)", "a", "b", "city[y]", "city[z]")
    np.testing.assert_allclose(summary.std_errors, known.bse, rtol=1e-8)
    assert "of y on" in summary.title


ANSWERS = np.array(["bus", "car", "walk", "train"])[
    np.argmax(rng.gumbel(size=(N, 4)) + np.outer(X[:, 0], [0, 0.5, -0.5, 1.0]) + np.outer(X[:, 2], [0, 1, 0, 0]), 1)
]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("robust", [None, "HC0", "cluster"])
def test_a_multinomial_logit_is_summarised_as_mnlogit(robust, fit_intercept):
    design = D if fit_intercept else X
    codes = pd.Series(ANSWERS).astype("category").cat.codes.to_numpy()
    extra = {"cov_kwds": {"groups": GROUPS}} if robust == "cluster" else {}
    kind = {} if robust is None else {"cov_type": robust} | extra
    known = sm.MNLogit(codes, design).fit(disp=0, tol=1e-12, maxiter=200, method="newton", **kind)
    model = tl.LogisticRegression(C=np.inf, tol=1e-12, fit_intercept=fit_intercept).fit(X, ANSWERS)
    rows = {} if robust is None else {"X": X, "y": ANSWERS, "robust": robust}
    rows |= {"groups": GROUPS} if robust == "cluster" else {}
    summary = model.summary(**rows)
    np.testing.assert_allclose(summary.estimates, np.asarray(known.params).T.ravel(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(summary.std_errors, np.asarray(known.bse).T.ravel(), rtol=1e-6)
    np.testing.assert_allclose(summary.log_likelihood, known.llf, rtol=1e-9)
    if fit_intercept:
        np.testing.assert_allclose(summary.null_log_likelihood, known.llnull, rtol=1e-6)
        np.testing.assert_allclose(summary.pseudo_r_squared, known.prsquared, rtol=1e-6)
    shown = str(summary)
    for label in ("car", "train", "walk"):
        assert f"{label}: x0" in shown and summary.names.count(f"{label}: x0") == 1
    assert "against bus" in shown.replace("\n", " ")


def test_every_class_of_a_penalised_fit_is_shown():
    summary = tl.LogisticRegression(C=1.0).fit(X, ANSWERS).summary()
    assert [name.partition(":")[0] for name in summary.names[::4]] == ["bus", "car", "train", "walk"]
    assert "shrinks" in summary.withheld and np.isnan(summary.std_errors).all()
    machine = tl.LinearSVC().fit(X, ANSWERS).summary()
    assert len(machine.names) == 16 and "margin" in machine.withheld and "shrinks" not in machine.withheld


def test_every_target_is_shown_with_its_own_tests():
    both = pd.DataFrame({"rent": SIZES, "noise": rng.normal(size=N)})
    model = tl.LinearRegression().fit(X, both)
    summary = model.summary()
    for k, name in enumerate(both):
        known = sm.OLS(both[name].to_numpy(), D).fit()
        rows = slice(4 * k, 4 * k + 4)
        np.testing.assert_allclose(summary.estimates[rows], known.params, rtol=1e-9)
        np.testing.assert_allclose(summary.std_errors[rows], known.bse, rtol=1e-9)
        np.testing.assert_allclose(summary.p_values[rows], known.pvalues, rtol=1e-7)
        assert summary.names[4 * k] == f"{name}: (Intercept)"
        np.testing.assert_allclose(model.summary(target=name).r_squared, known.rsquared, rtol=1e-9)
        np.testing.assert_allclose(summary.parts[name].r_squared, known.rsquared, rtol=1e-9)
    assert "rent, noise" in summary.title and "rent: Multiple R-squared" in str(summary)
    robust = model.summary(robust="HC3", X=X, y=both)
    np.testing.assert_allclose(
        robust.std_errors[4:], sm.OLS(both["noise"].to_numpy(), D).fit(cov_type="HC3").bse, rtol=1e-8
    )
    with pytest.raises(UsageError, match="one target"):
        summary.without("x0")
    assert len(tl.Ridge().fit(X, both).summary().names) == 8


def test_titles_name_the_target_and_the_class():
    series = pd.Series(np.where(COIN == 1, "yes", "no"), name="bought")
    assert "bought = yes" in tl.LogisticRegression(C=np.inf).fit(X, series).summary().title
    assert "bought = yes" in tl.LogisticRegression().fit(X, series).summary().title
    mpg = pd.Series(SIZES, name="mpg")
    for model in (
        tl.LinearRegression(), tl.Ridge(), tl.RidgeCV(), tl.Lasso(), tl.LassoCV(), tl.RobustRegression(),
        tl.OutlierMixture(), tl.GeneralizedRegression("gamma"), tl.LinearRegression(method="qr"),
    ):  # fmt: skip
        assert " of mpg on 3 terms" in model.fit(X, mpg).summary().title


@pytest.mark.parametrize("q", [0.25, 0.5, 0.8])
def test_quantiles_have_the_errors_of_quantreg(q):
    X = np.random.default_rng(3).normal(size=(N, 2))
    D = sm.add_constant(X)
    y = 3.0 + X @ [1.0, 0.5] + (1.0 + 0.5 * np.abs(X[:, 0])) * np.random.default_rng(4).normal(size=N)
    known = sm.QuantReg(y, D).fit(q=q, p_tol=1e-12, max_iter=5000)
    models = [tl.GeneralizedRegression("quantile", quantile=q, tol=1e-10)]
    models += [tl.GeneralizedRegression("absolute", tol=1e-10)] if q == 0.5 else []
    for model in models:
        summary = model.fit(X, y).summary()
        # Three rows lie on the plane; statsmodels counts them on the side where its rounding puts them.
        np.testing.assert_allclose(summary.std_errors, known.bse, rtol=0.12)
        error = y - D @ summary.estimates
        squares = np.where(error > 1e-6, q, 1.0 - q) ** 2
        bread = np.linalg.inv(D.T @ D) * known.sparsity
        expected = np.sqrt(np.diag(bread @ (D.T @ (D * squares[:, None])) @ bread))
        np.testing.assert_allclose(summary.std_errors, expected, rtol=1e-4)
        np.testing.assert_allclose(summary.estimates, known.params, rtol=1e-3, atol=1e-3)
        assert summary.statistic_name == "t" and summary.withheld == ""
        with pytest.raises(UsageError, match="robust ones already"):
            model.summary(robust="HC1", X=X, y=y)


def test_huber_has_the_sandwich_of_an_m_estimate():
    y = X @ [1.0, 0.5, -1.0] + rng.standard_t(2, size=N)
    model = tl.GeneralizedRegression("huber", delta=1.0, tol=1e-12).fit(X, y)
    summary = model.summary()
    residual = y - D @ summary.estimates
    psi, inside = np.clip(residual, -1.0, 1.0), np.abs(residual) <= 1.0
    bread = np.linalg.inv(D.T @ (D * inside[:, None]))
    expected = np.sqrt(np.diag(bread @ (D.T @ (D * psi[:, None] ** 2)) @ bread))
    np.testing.assert_allclose(summary.std_errors, expected, rtol=1e-8)


def test_a_separable_logistic_withholds_its_table():
    y = (X[:, 0] > 0.1).astype(int)
    with pytest.warns(UserWarning, match="separable"):
        summary = tl.LogisticRegression(C=np.inf).fit(X, y).summary()
    assert (
        "separable" in summary.withheld and np.isnan(summary.std_errors).all() and np.isfinite(summary.estimates).all()
    )
    assert np.isnan(summary.p_values).all() and "Pr(>|z|)" not in str(summary)
    three = np.digitize(X[:, 0], [-0.4, 0.6])
    with pytest.warns(UserWarning, match="separable"):
        several = tl.LogisticRegression(C=np.inf).fit(X, three).summary()
    assert "separable" in several.withheld and np.isnan(several.std_errors).all()
    # Curvatures that vanish make no column depend on another.
    assert np.isfinite(several.estimates).all() and not several.notes


def test_shrinking_is_said_only_of_what_is_penalised():
    y = SIZES
    for model in (tl.Ridge(), tl.RidgeCV(), tl.Lasso(alpha=0.01), tl.LassoCV(), tl.ElasticNet(alpha=0.01)):
        assert "shrinks" in model.fit(X, y).summary().withheld
    assert "shrinks" in tl.GeneralizedRegression("gamma", penalty="l2").fit(X, y).summary().withheld
    assert "shrinks" in tl.GeneralizedRegression("gamma", penalty="l1", alpha=0.01).fit(X, y).summary().withheld
    others = (
        tl.OutlierMixture(), tl.LinearRegression(positive=True), tl.Ridge(alpha=0.0), tl.Lasso(alpha=0.0),
        tl.GeneralizedRegression("squared", penalty="nonnegative", alpha=0.0),
    )  # fmt: skip
    for model in others:
        withheld = model.fit(X, y).summary().withheld
        assert withheld and "shrinks" not in withheld


def test_robust_errors_that_do_not_exist_are_refused():
    least = tl.LinearRegression().fit(X, SIZES)
    logit = tl.LogisticRegression(C=np.inf).fit(X, COIN)
    for model, y in ((least, SIZES), (logit, COIN)):
        for wrong in ("nonsense", "hc1", 1, True):
            with pytest.raises(UsageError, match="no robust errors named"):
                model.summary(robust=wrong, X=X, y=y)
        with pytest.raises(UsageError, match="rows once more"):
            model.summary(robust="HC1")
        with pytest.raises(UsageError, match="needs groups"):
            model.summary(robust="cluster", X=X, y=y)
        with pytest.raises(UsageError, match="groups goes with"):
            model.summary(robust="HC1", X=X, y=y, groups=GROUPS)
        with pytest.raises(UsageError, match="goes with robust"):
            model.summary(groups=GROUPS)
        with pytest.raises(DataError, match="rows of the fit"):
            model.summary(robust="HC1", X=X[:-1], y=y[:-1])
        with pytest.raises(UsageError, match=r"no option 'robst'; did you mean 'robust'"):
            model.summary(robst="HC1")
    for model in (tl.Ridge(), tl.RobustRegression(), tl.Lasso()):
        with pytest.raises(UsageError, match="robust"):
            model.fit(X, SIZES).summary(robust="HC1", X=X, y=SIZES)
    with pytest.raises(DataError, match="two groups"):
        logit.summary(robust="cluster", X=X, y=COIN, groups=np.zeros(N))
    with pytest.raises(DataError, match="other labels"):
        logit.summary(robust="HC0", X=X, y=COIN + 5)


def test_counts_at_the_default_tolerance_have_the_digits_that_r_prints():
    table = sm.datasets.randhie.load_pandas()
    design = sm.add_constant(table.exog, prepend=True)
    known = sm.GLM(table.endog, design, family=sm.families.Poisson()).fit(tol=1e-14)
    model = tl.GeneralizedRegression("poisson").fit(table.exog, table.endog)
    np.testing.assert_allclose(np.r_[model.intercept_, model.coef_], known.params, rtol=1e-7)
    np.testing.assert_allclose(model.summary().std_errors, known.bse, rtol=1e-7)


def test_weights_by_class_are_looked_at():
    with pytest.raises(UsageError, match="class_weight names 7, which y does not hold"):
        tl.LogisticRegression(class_weight={7: 2.0}).fit(X, COIN)
    for wrong in ({1: "x"}, {1: -1.0}):
        with pytest.raises(UsageError, match="class_weight of LinearSVC"):
            tl.LinearSVC(class_weight=wrong).fit(X, COIN)
    with pytest.raises(UsageError, match="interval must lie"):
        tl.LinearRegression().fit(X, SIZES).predict(X, interval="wide")
