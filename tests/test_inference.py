"""Standard errors, tests and intervals: closed forms, SciPy's tails, coverage, and the summary's faces."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

import trueline as tl
from trueline.errors import DataError, UsageError


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    X[:, 3] += 0.9 * X[:, 0]
    y = 1 + X @ [1.0, 2.0, 0.0, 0.1] + (1 + np.abs(X[:, 0])) * rng.normal(size=80)
    return X, y, tl.LinearRegression().fit(X, y)


def test_nested_tests_contrasts_and_inflation(fitted):
    X, y, model = fitted
    table = model.summary()
    one = table.without("x2")
    assert one.statistic == pytest.approx(table.statistics[3] ** 2, rel=1e-12)
    assert one.p_value == pytest.approx(table.p_values[3], rel=1e-10)
    smaller = tl.LinearRegression().fit(X[:, :2], y).summary()
    two = table.without("x2", "x3")
    by_hand = ((smaller.rss - table.rss) / 2) / (table.rss / 75)
    assert two.statistic == pytest.approx(by_hand, rel=1e-11) and (two.df, two.df_residual) == (2, 75)
    assert table.contrast({"x2": 1.0}).statistic == pytest.approx(one.statistic, rel=1e-12)
    both = table.contrast([[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]])
    assert both.statistic == pytest.approx(two.statistic, rel=1e-10)
    for j in range(4):
        r2 = tl.LinearRegression().fit(np.delete(X, j, axis=1), X[:, j]).summary().r_squared
        assert table.variance_inflation[1 + j] == pytest.approx(1 / (1 - r2), rel=1e-10)
    whole = table.without("x0", "x1", "x2", "x3")
    assert whole.statistic == pytest.approx(table.f_statistic, rel=1e-10)
    with pytest.raises(UsageError, match="no term 'x9'"):
        table.without("x9")
    with pytest.raises(UsageError, match="a contrast needs 5 weights"):
        table.contrast([1.0, 2.0])


def test_robust_errors_do_not_depend_on_blocks_and_refuse_other_rows(fitted):
    X, y, model = fitted
    groups = np.arange(80) % 9
    big = np.tile(X, (60, 1)), np.tile(y, 60)
    for kind in ("HC0", "HC1", "HC2", "HC3"):
        errors = model.summary(robust=kind, X=X, y=y).std_errors
        Z = np.column_stack([np.ones(80), X])
        bread = np.linalg.inv(Z.T @ Z)
        h = np.einsum("ij,jk,ik->i", Z, bread, Z)
        e = y - model.predict(X)
        e = {"HC0": e, "HC1": e * math.sqrt(80 / 75), "HC2": e / np.sqrt(1 - h), "HC3": e / (1 - h)}[kind]
        sandwich = bread @ (Z.T * e**2) @ Z @ bread
        assert np.allclose(errors, np.sqrt(np.diag(sandwich)), rtol=1e-11)
    # 4,800 rows come in two blocks; a group may lie in both.
    repeated = tl.LinearRegression().fit(*big)
    clustered = repeated.summary(robust="cluster", X=big[0], y=big[1], groups=np.tile(groups, 60))
    Z = np.column_stack([np.ones(4800), big[0]])
    scores = Z * (big[1] - repeated.predict(big[0]))[:, None]
    sums = np.array([scores[np.tile(groups, 60) == g].sum(axis=0) for g in range(9)])
    bread = np.linalg.inv(Z.T @ Z)
    covariance = bread @ sums.T @ sums @ bread * (9 / 8) * (4799 / 4795)
    assert np.allclose(clustered.std_errors, np.sqrt(np.diag(covariance)), rtol=1e-10)
    freedom = len(np.unique(groups)) - 1
    t = np.asarray(clustered.estimates) / np.asarray(clustered.std_errors)
    assert np.allclose(clustered.p_values, 2 * stats.t.sf(np.abs(t), freedom), rtol=1e-9)
    assert f"{freedom} degrees of freedom" in str(clustered)
    for unknown in (3, -1, "z"):
        with pytest.raises(UsageError, match="the model has no target"):
            model.summary(target=unknown)
    with pytest.raises(DataError, match="need the 80 rows of the fit, but 40"):
        model.summary(robust="HC3", X=X[:40], y=y[:40])
    with pytest.raises(UsageError, match="no robust errors named 'HC9'"):
        model.summary(robust="HC9", X=X, y=y)
    with pytest.raises(UsageError, match="rows once more"):
        model.summary(robust="HC3")
    with pytest.raises(UsageError, match="needs groups"):
        model.summary(robust="cluster", X=X, y=y)


def test_robust_errors_from_a_source():
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"x": rng.normal(size=90), "c": rng.choice(["u", "v"], 90), "y": rng.normal(size=90)})
    model = tl.LinearRegression().fit(frame, target="y")
    X = np.column_stack([frame["x"], (frame["c"] == "v").cast(float)])
    plain = tl.LinearRegression().fit(X, frame["y"].to_numpy())
    order = [0, *(1 + model.model_.terms.index(t) for t in ("x", "c[v]"))]
    found = model.summary(robust="HC3", X=frame).std_errors[order]
    assert np.allclose(found, plain.summary(robust="HC3", X=X, y=frame["y"].to_numpy()).std_errors, rtol=1e-11)


def test_intervals_cover_as_promised():
    rng = np.random.default_rng(0)
    hits = means = 0
    for _ in range(400):
        X = rng.normal(size=(12, 2))
        y = X @ [1.0, 2.0] + rng.normal(size=12)
        model = tl.LinearRegression().fit(X, y)
        new = rng.normal(size=(1, 2))
        inside = model.predict(new, interval=0.8)
        truth = float((new @ [1.0, 2.0])[0])
        hits += inside.lower[0] <= truth + rng.normal() <= inside.upper[0]
        about = model.predict(new, interval=0.8, of="mean")
        means += about.lower[0] <= truth <= about.upper[0]
        assert about.upper[0] < inside.upper[0] and inside.mean[0] == model.predict(new)[0]
    assert abs(int(hits) - 320) < 40 and abs(int(means) - 320) < 40


def test_the_summary_prints_as_text_html_frame_and_json(fitted):
    _, _, model = fitted
    table = model.summary(level=0.9)
    text = str(table)
    assert "Estimate Std. Error t value Pr(>|t|)" in text and "Residual standard error" in text and "5 %" in text
    assert max(len(line) for line in text.splitlines()) <= 120
    assert text.count("***") >= 2
    page = table._repr_html_()
    assert page.startswith("<table>") and "(Intercept)" in page and "Pr(&gt;|t|)" in page
    frame = table.to_frame()
    assert frame["term"].to_list() == ["(Intercept)", "x0", "x1", "x2", "x3"] and frame.width == 8
    assert table.to_dict()["figures"]["n"] == 80 and table.aic == table.figures["aic"]
    with pytest.raises(AttributeError, match="its figures are n"):
        table.nonsense  # noqa: B018


def test_p_values_are_withheld_with_a_reason():
    rng = np.random.default_rng(0)
    wide = tl.LinearRegression().fit(rng.normal(size=(5, 8)), rng.normal(size=5)).summary()
    assert "more rows than columns" in wide.withheld and np.isnan(wide.p_values).all()
    assert "No tests:" in str(wide) and "Pr(" not in str(wide) and "No tests:" in wide._repr_html_()
    x = rng.normal(size=50)
    near = np.column_stack([x, x + 1e-10 * rng.normal(size=50)])
    assert "nearly dependent" in tl.LinearRegression().fit(near, x + rng.normal(size=50)).summary().withheld
    assert "exact" in tl.LinearRegression().fit(x[:, None], 2 * x).summary().withheld
    ridge = tl.Ridge().fit(near, x).summary()
    assert "ridge" in ridge.withheld and np.isnan(ridge.p_values).all() and np.isfinite(ridge.estimates).all()
    inflated = np.column_stack([x, x + 0.1 * rng.normal(size=50)])
    assert "inflated" in str(tl.LinearRegression().fit(inflated, x + rng.normal(size=50)).summary())


def test_refusals(fitted):
    X, _, model = fitted
    with pytest.raises(UsageError, match="interval must lie between 0 and 1"):
        model.predict(X, interval=95)
    with pytest.raises(UsageError, match="level must lie"):
        model.summary(level=2)
    with pytest.raises(UsageError, match="intervals and tests come from least squares"):
        tl.Ridge().fit(X, X[:, 0]).predict(X, interval=0.9)
    with pytest.raises(DataError, match="leave no residual"):
        tl.LinearRegression().fit(X[:3], X[:3, 0]).predict(X, interval=0.9)


def test_questions_that_cannot_be_answered_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=50)
    summary = tl.LinearRegression().fit(X, y).summary()
    dropped = tl.LinearRegression(rank="drop").fit(np.column_stack([X, X[:, 0]]), y).summary()
    for ask, told in [
        (lambda: summary.without(), "at least one term"),
        (lambda: summary.contrast({"x0": 0.0}), "a weight other than 0"),
        (lambda: summary.contrast([[0, 1, 0, 0], [0, 2, 0, 0]]), "do not repeat"),
        (lambda: dropped.contrast({"x3": 1.0}), "not dropped"),
        (lambda: tl.LinearRegression.from_moments(tl.scan({"a": [1.0, 2.0, 4.0]})), "no target"),
        (lambda: tl.LinearRegression(digits="many").fit(X, y), "digits of LinearRegression is 'many'"),
        (lambda: tl.LinearRegression(digits=0).fit(X, y), "digits"),
        (lambda: tl.LinearRegression(rank="least").fit(X, y), "rank of LinearRegression is 'least'"),
        (lambda: tl.Ridge("small").fit(X, y), "alpha of Ridge is 'small'"),
    ]:
        with pytest.raises(tl.UsageError, match=told):
            ask()
    with pytest.raises(tl.DataError, match="5 labels where there are 50 rows"):
        tl.LinearRegression().fit(X, y).summary(robust="cluster", X=X, y=y, groups=np.arange(5))
