"""Models without an intercept: by formula, by option, from sources, moments and clusters, and all that is made of them."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from commands import result
from sklearn.base import clone

import trueline as tl
from trueline.cli import main
from trueline.data.formula import Formula

WITHOUT = ("y ~ x - 1", "y ~ x + 0", "y ~ 0 + x", "y ~ -1 + x", "y ~ x + 1 - 1")
WITH = ("y ~ x", "y ~ x + 1", "y ~ 1 + x", "y ~ x - 1 + 1", "y ~ x - 0")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(11)
    n = 90
    x, z = rng.normal(size=n) + 4, rng.uniform(1, 3, n)
    town, kind = rng.choice(["Bern", "Rom", "Ulm"], n), rng.choice(["a", "b"], n)
    y = 7 + 2 * x - z + 3 * (town == "Rom") + rng.normal(size=n)
    up = (x - 2 * z + rng.normal(size=n) > 0).astype(int)
    counts = rng.poisson(np.exp(0.3 * z))
    return pl.DataFrame({"x": x, "z": z, "town": town, "kind": kind, "y": y, "up": up, "counts": counts})


@pytest.fixture(scope="module")
def csv(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("intercept") / "t.csv"
    table.write_csv(path)
    return path


def fit_result(capsys, csv, *options):
    made = result(capsys, "fit", csv, *options)
    return made, {row["term"]: row["estimate"] for row in made["coefficients"]}


def test_what_a_formula_says():
    assert [Formula.parse(text).intercept for text in WITHOUT] == [False] * 5
    assert [Formula.parse(text).intercept for text in WITH] == [None, True, True, True, True]
    for text in (*WITHOUT, *WITH):
        formula = Formula.parse(text)
        assert Formula.from_dict(formula.to_dict()).intercept == formula.intercept


def test_the_cars_of_1974():
    """R: lm(mpg ~ wt - 1) has 5.2916, standard error 0.5932, R² 0.7197."""
    wt = [2.62, 2.875, 2.32, 3.215, 3.44, 3.46, 3.57, 3.19, 3.15, 3.44, 3.44, 4.07, 3.73, 3.78, 5.25, 5.424, 5.345, 2.2, 1.615, 1.835, 2.465, 3.52, 3.435, 3.84, 3.845, 1.935, 2.14, 1.513, 3.17, 2.77, 3.57, 2.78]  # fmt: skip
    mpg = [21, 21, 22.8, 21.4, 18.7, 18.1, 14.3, 24.4, 22.8, 19.2, 17.8, 16.4, 17.3, 15.2, 10.4, 10.4, 14.7, 32.4, 30.4, 33.9, 21.5, 15.5, 15.2, 13.3, 19.2, 27.3, 26, 30.4, 15.8, 19.7, 15, 21.4]  # fmt: skip
    summary = tl.LinearRegression().fit({"wt": wt, "mpg": mpg}, formula="mpg ~ wt - 1").summary()
    assert summary.names == ("wt",)
    found = [summary.estimates[0], summary.std_errors[0], dict(summary.figures)["r_squared"]]
    np.testing.assert_allclose(found, [5.291624, 0.593180, 0.719660], rtol=1e-6)


FORMULAS = (
    "y ~ x - 1", "y ~ town - 1", "y ~ town + x - 1", "y ~ town + kind - 1", "y ~ town * x - 1", "y ~ town:x - 1",
    "y ~ town:kind - 1", "y ~ x:town + kind - 1", "y ~ kind + town:kind - 1", "y ~ town", "y ~ town:kind + x",
)  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS)
def test_levels_are_as_in_statsmodels(table, csv, capsys, formula):
    """The same fitted values and rank as patsy's design; full rank, so that every term is tested."""
    peer = smf.ols(formula, table.to_pandas()).fit()
    model = tl.LinearRegression().fit(table, formula=formula)
    np.testing.assert_allclose(model.predict(table), peer.fittedvalues, rtol=1e-9)
    assert model.rank_ + (model.intercept_ != 0) == np.linalg.matrix_rank(peer.model.exog)
    assert model.certificate_.proven and np.isfinite(model.summary().std_errors).all()
    made, _ = fit_result(capsys, csv, "--formula", formula)
    assert made["certificate"]["status"] == "proven"
    assert made["residual_std_error"] == pytest.approx(np.sqrt(peer.mse_resid), rel=1e-9)
    total = float(((table["y"] - (table["y"].mean() if "- 1" not in formula else 0.0)) ** 2).sum())  # as R has it
    assert made["r_squared"] == pytest.approx(1 - peer.ssr / total, rel=1e-9)


def test_inference_equals_statsmodels(table):
    X = table.select("x", "z").to_numpy()
    peer = sm.OLS(table["y"].to_numpy(), X).fit()
    model = tl.LinearRegression().fit(table, formula="y ~ x + z - 1")
    summary = model.summary()
    np.testing.assert_allclose(summary.std_errors, peer.bse, rtol=1e-9)
    np.testing.assert_allclose(summary.p_values, peer.pvalues, rtol=1e-6)
    figures = dict(summary.figures)
    assert figures["f_statistic"] == pytest.approx(peer.fvalue, rel=1e-9)
    assert figures["adjusted_r_squared"] == pytest.approx(peer.rsquared_adj, rel=1e-9)
    interval = model.predict(table, interval=0.9)
    wanted = peer.get_prediction(X).conf_int(obs=True, alpha=0.1)
    np.testing.assert_allclose(np.column_stack([interval.lower, interval.upper]), wanted, rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV"]
)
def test_every_estimator_from_moments(table, name):
    estimator = getattr(tl, name)
    moments = tl.scan(table, formula="y ~ x + z - 1")
    made = estimator.from_moments(moments)
    assert made.intercept_ == 0.0 and made.model_.statistics["fit_intercept"] is False
    asked = estimator.from_moments(tl.scan(table, target="y", features=["x", "z"]), fit_intercept=False)
    np.testing.assert_allclose(made.coef_, asked.coef_, rtol=1e-9)
    straight = estimator().fit(table, formula="y ~ x + z - 1")
    np.testing.assert_allclose(made.coef_, straight.coef_, rtol=1e-9)
    if "CV" not in name:  # the folds of a source are not those of arrays
        arrays = estimator(fit_intercept=False).fit(table.select("x", "z").to_numpy(), table["y"].to_numpy())
        np.testing.assert_allclose(made.coef_, arrays.coef_, rtol=1e-6)


@pytest.mark.parametrize("estimator", [tl.LinearRegression, tl.Ridge, tl.LassoCV])
def test_fit_intercept_keeps_every_level_of_the_first_category(table, estimator):
    wanted = estimator().fit(table, formula="y ~ town + x - 1")
    for made in (
        estimator(fit_intercept=False).fit(table, target="y", features=["town", "x"]),
        estimator.from_moments(tl.scan(table, target="y", features=["town", "x"]), fit_intercept=False),
        estimator.from_moments(tl.scan(table, target="y", features=["town", "x"], intercept=False)),
    ):
        assert tuple(made.feature_names_in_) == ("town[Bern]", "town[Rom]", "town[Ulm]", "x")
        np.testing.assert_allclose(made.predict(table), wanted.predict(table), rtol=1e-6)


def test_moments_that_left_a_level_out_are_refused(table):
    moments = tl.scan(table, target="y", features=["town", "x"]).designed()
    with pytest.raises(tl.UsageError, match="scan again with intercept=False"):
        tl.LinearRegression.from_moments(moments, fit_intercept=False)


OPTIONS = {
    "least squares": ("-t", "y"), "ridge": ("-t", "y", "--penalty", "ridge", "--alpha", "3"),
    "lasso": ("-t", "y", "--penalty", "lasso", "--alpha", "0.05"), "elastic": ("-t", "y", "--penalty", "elastic", "--alpha", "0.05"),
    "logistic": ("-t", "up"), "logistic ridge": ("-t", "up", "--penalty", "ridge", "--alpha", "0.1"),
    "poisson": ("-t", "counts", "--loss", "poisson"), "huber": ("-t", "y", "--loss", "huber"),
    "absolute": ("-t", "y", "--loss", "absolute"), "hinge": ("-t", "up", "--loss", "hinge", "--penalty", "ridge", "--alpha", "0.1"),
    "ridge, chosen": ("-t", "y", "--penalty", "ridge"), "lasso, chosen": ("-t", "y", "--penalty", "lasso"),
    "logistic lasso, chosen": ("-t", "up", "--penalty", "lasso"),
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_every_fit_of_the_command_line(csv, tmp_path, capsys, name):
    """The option and the formula are one; the optimum is that of the same call in Python; the proof holds; exports agree."""
    options, target = OPTIONS[name], OPTIONS[name][1]
    _, by_option = fit_result(capsys, csv, *options, "--features", "x,z", "--no-intercept", "-o", tmp_path / "m.tl")
    assert set(by_option) == {"x", "z"}
    _, by_formula = fit_result(capsys, csv, *options, "--formula", f"{target} ~ x + z - 1")
    assert by_formula == pytest.approx(by_option, rel=1e-12)
    assert main(["verify", str(tmp_path / "m.tl"), str(csv)]) == 0
    frame = pl.read_csv(csv)
    X, y = frame.select("x", "z").to_numpy(), frame[target].to_numpy()
    peers = {
        "least squares": lambda: np.linalg.lstsq(X, y, rcond=None)[0],
        "ridge": lambda: np.linalg.solve(X.T @ X + 3 * np.eye(2), X.T @ y),
        "logistic": lambda: sm.Logit(y, X).fit(disp=0).params,
        "poisson": lambda: sm.GLM(y, X, sm.families.Poisson()).fit().params,
        "lasso": lambda: tl.Lasso(0.05, fit_intercept=False).fit(X, y).coef_,
        "elastic": lambda: tl.ElasticNet(0.05, fit_intercept=False).fit(X, y).coef_,
    }
    if name in peers:
        np.testing.assert_allclose([by_option["x"], by_option["z"]], peers[name](), rtol=1e-5)
    scores = X @ [by_option["x"], by_option["z"]]
    assert main(["export", str(tmp_path / "m.tl"), "--to", "sql", "--output", str(tmp_path / "m.sql")]) == 0
    base = sqlite3.connect(":memory:")
    base.create_function("exp", 1, np.exp)
    base.execute("CREATE TABLE data (x, z)")
    base.executemany("INSERT INTO data VALUES (?, ?)", X.tolist())
    found = base.execute((tmp_path / "m.sql").read_text())
    row = dict(zip([c[0] for c in found.description], found.fetchone()))
    if "score" in row:
        assert row["score"] == pytest.approx(scores[0], rel=1e-9)
    elif "hinge" not in name:
        assert row["prediction"] == pytest.approx(scores[0], rel=1e-9)


def test_several_classes(csv, capsys):
    _, terms = fit_result(
        capsys, csv, "-t", "town", "--features", "x,z", "--no-intercept", "--penalty", "ridge", "--alpha", "0.1"
    )
    assert not [name for name in terms if name.startswith("(intercept)")] and len(terms) == 6


@pytest.mark.parametrize("learner", ["mixture", "widrow-hoff", "recursive", "adagrad", "exponentiated", "normalised"])
def test_streams(csv, tmp_path, capsys, learner):
    model = tmp_path / "s.tl"
    code = main(["stream", str(csv), "-t", "y", "--features", "x,z", "--learner", learner, "--no-intercept", "-q", "--save", str(model)])  # fmt: skip
    assert code == 0
    assert main(["verify", str(model), str(csv)]) == 0
    capsys.readouterr()
    rows = result(capsys, "inspect", model)["coefficients"]
    assert [row["term"] for row in rows] == ["x", "z"]
    assert main(["predict", str(model), str(csv), "-o", str(tmp_path / "p.csv")]) == 0
    assert main(["stream", str(csv), "--resume", str(model), "-q"]) == 0
    assert main(["stream", str(csv), "--resume", str(model), "--intercept", "-q"]) == 2
    if learner != "recursive":  # a mixture of rates keeps its predictions within the labels seen
        return
    zero = pl.DataFrame({"x": [0.0], "z": [0.0]})
    zero.write_csv(tmp_path / "zero.csv")
    assert main(["predict", str(model), str(tmp_path / "zero.csv"), "-o", str(tmp_path / "p.csv")]) == 0
    assert pl.read_csv(tmp_path / "p.csv")["prediction"][0] == 0.0


def test_widrow_and_hoff_by_hand(csv, table, capsys, tmp_path):
    assert main(["stream", str(csv), "-t", "y", "--features", "x,z", "--learner", "widrow-hoff", "--rate", "0.01", "--no-intercept", "-q", "-p", str(tmp_path / "p.csv")]) == 0  # fmt: skip
    w, made = np.zeros(2), []
    for x, y in zip(table.select("x", "z").to_numpy(), table["y"]):
        made.append(w @ x)
        w = w - 0.01 * (w @ x - y) * x
    np.testing.assert_allclose(pl.read_csv(tmp_path / "p.csv")["prediction"], made, rtol=1e-9, atol=1e-12)


def test_compare(csv, capsys):
    rows = {
        row["method"]: row
        for row in result(capsys, "compare", csv, "-t", "y", "--features", "x", "--no-intercept")["methods"]
    }
    other = {row["method"]: row for row in result(capsys, "compare", csv, "-t", "y", "--features", "x")["methods"]}
    assert "stream: mixture" not in rows and "stream: recursive" in rows
    for name in ("least squares", "ridge", "lasso", "huber loss", "absolute loss", "stream: recursive"):
        assert rows[name]["refused"] is None
        assert abs(rows[name]["cross_validated"] - other[name]["cross_validated"]) > 0.05, name


def test_contradictions_are_refused(csv, table, capsys):
    for options in (("--formula", "y ~ x + 1", "--no-intercept"), ("-t", "z", "--formula", "y ~ x")):
        assert main(["fit", str(csv), *options, "--json"]) == 2
        assert json.loads(capsys.readouterr().out)["error"]["where"] in ("intercept", "target")
    assert main(["fit", str(csv), "--formula", "y ~ x - 1", "--no-intercept", "-q"]) == 0
    for options in (
        {"target": "z", "formula": "y ~ x"},
        {"formula": "log(y) ~ x"},
        {"target": "y", "formula": "log(y) ~ x"},
    ):
        for model in (tl.LinearRegression(), tl.RidgeCV(), tl.Lasso()):
            with pytest.raises(tl.UsageError):
                model.fit(table, **options)
        with pytest.raises(tl.UsageError):
            tl.scan(table, **options)
    with pytest.raises(tl.UsageError, match="asks for one by"):
        tl.LinearRegression(fit_intercept=False).fit(table, formula="y ~ x + 1")


def test_a_formula_names_its_target(table):
    for model in (
        tl.LinearRegression(),
        tl.Ridge(),
        tl.RidgeCV(),
        tl.Lasso(),
        tl.LassoCV(),
        tl.ElasticNet(),
        tl.ElasticNetCV(),
    ):
        alone = model.fit(table, formula="y ~ x + town").coef_
        np.testing.assert_array_equal(alone, model.fit(table, target="y", formula="y ~ x + town").coef_)
    log = tl.LinearRegression().fit(table, formula="ly ~ x", derive={"ly": "ln(y)"})
    wanted = np.polyfit(table["x"], np.log(table["y"]), 1)
    np.testing.assert_allclose([log.coef_[0], log.intercept_], wanted)


def test_saved_and_loaded(table, csv, tmp_path):
    model = tl.LinearRegression().fit(table, formula="y ~ town * x - 1")
    model.save(tmp_path / "m.tl")
    loaded = tl.load(tmp_path / "m.tl")
    assert loaded.intercept_ == 0.0
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    moments = tl.scan(csv, formula="y ~ town * x - 1")
    moments.save(tmp_path / "moments.tl")
    again = tl.LinearRegression.from_moments(tl.load(tmp_path / "moments.tl"))
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_scans_with_and_without_are_not_merged(table):
    with pytest.raises(tl.UsageError, match="intercepts"):
        tl.scan(table, formula="y ~ x - 1") + tl.scan(table, formula="y ~ x")


def test_on_dask(table):
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(table.to_pandas(), npartitions=3)
    for formula in ("y ~ town + x - 1", "y ~ x + 0"):
        here = tl.LinearRegression().fit(table, formula=formula)
        there = tl.LinearRegression().fit(frame, formula=formula)
        assert there.intercept_ == 0.0
        np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-9)
        np.testing.assert_allclose(np.asarray(there.predict(frame).compute()), here.predict(table), rtol=1e-9)
    plain = tl.LinearRegression(fit_intercept=False).fit(frame, target="y", features=["town", "x"])
    assert tuple(plain.feature_names_in_) == ("town[Bern]", "town[Rom]", "town[Ulm]", "x")
    X, up = table.select("x", "z").to_numpy(), table["up"].to_numpy()
    logistic = tl.LogisticRegression(C=np.inf, tol=1e-12).fit(frame, formula="up ~ x + z - 1")
    np.testing.assert_allclose(np.ravel(logistic.coef_), sm.Logit(up, X).fit(disp=0).params, rtol=1e-5)
    assert float(np.ravel(logistic.intercept_)[0]) == 0.0
    counts = tl.GeneralizedRegression("poisson", alpha=0, tol=1e-12).fit(frame, formula="counts ~ z - 1")
    wanted = sm.GLM(table["counts"].to_numpy(), X[:, 1:], sm.families.Poisson()).fit().params
    np.testing.assert_allclose(counts.coef_, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (tl.LogisticRegression(C=2.0), "up"), (tl.LinearSVC(), "up"), (tl.GeneralizedRegression("poisson"), "counts"),
        (tl.RobustRegression(), "y"), (tl.OutlierMixture(), "y"), (tl.Lasso(0.1), "y"), (tl.Ridge(), "y"),
    ],
)  # fmt: skip
def test_models_of_many_passes_from_a_source(table, model, target):
    arrays = (
        clone(model).set_params(fit_intercept=False).fit(table.select("x", "z").to_numpy(), table[target].to_numpy())
    )
    made = clone(model).fit(table, formula=f"{target} ~ x + z - 1")
    np.testing.assert_allclose(np.ravel(made.coef_), np.ravel(arrays.coef_), rtol=1e-6)
    assert not np.ravel(made.intercept_).any() and made.summary().names == ("x", "z")
    every = clone(model).set_params(fit_intercept=False).fit(table, target=target, features=["town", "x"])
    assert tuple(every.feature_names_in_) == ("town[Bern]", "town[Rom]", "town[Ulm]", "x")
    assert tl.verify(every, table).ok
