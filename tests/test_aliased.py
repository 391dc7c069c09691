"""Constant and aliased columns, levels that no row has, and columns of names: as R treats them, and said by name."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from commands import result, run

import trueline as tl

ROWS = 160


def table() -> pl.DataFrame:
    """``twice`` and ``region`` say nothing new, ``same`` is constant, and the level "rare" goes with its missing rows."""
    rng = np.random.default_rng(8)
    size, kind = rng.normal(size=ROWS), rng.choice(["x", "y", "z"], ROWS)
    few = np.arange(ROWS) < 5
    score = 1.0 + size - (kind == "y") + rng.normal(size=ROWS)
    return pl.DataFrame(
        {
            "size": size,
            "twice": 2 * size + 1,
            "same": np.full(ROWS, 3.0),
            "kind": np.where(few, "rare", kind),
            "region": np.where(kind == "x", "north", "south"),
            "depth": [None if flag else float(value) for flag, value in zip(few, rng.normal(size=ROWS))],
            "y": score,
            "count": rng.poisson(np.exp(0.3 * score)).astype(float),
            "sold": np.where(score > 1.0, "yes", "no"),
        }
    )


FEATURES = ["size", "twice", "same", "kind", "region", "depth"]
ESTIMABLE = ["(intercept)", "size", "kind[y]", "kind[z]", "depth"]
ALIASED = ["twice", "same", "region[south]"]


def reduced(frame: pl.DataFrame) -> np.ndarray:
    kept = frame.drop_nulls("depth")
    levels = [(kept["kind"] == level).cast(pl.Float64) for level in "yz"]
    return sm.add_constant(np.column_stack([kept["size"], *levels, kept["depth"]]))


@pytest.mark.parametrize("target", ["y", "sold"])
def test_the_rest_is_tested_and_the_aliased_are_named(target, tmp_path, capsys):
    frame = table()
    frame.write_csv(tmp_path / "t.csv")
    y = frame.drop_nulls("depth")[target]
    X = reduced(frame)
    if target == "y":
        truth = sm.OLS(y.to_numpy(), X).fit()
    else:
        truth = sm.Logit((y == "yes").to_numpy().astype(float), X).fit(disp=0, tol=1e-12)
    options = ["-t", target, "--features", ",".join(FEATURES), "--missing", "drop"]
    path = tmp_path / "m.tl"
    for more in ([], ["--engine", "dask"]):
        if more:
            pytest.importorskip("dask")
        found = result(capsys, "fit", tmp_path / "t.csv", *options, *more, "-o", path)
        rows = {row["term"]: row for row in found["coefficients"]}
        assert [*rows] == ["(intercept)", "size", "twice", "same", "kind[y]", "kind[z]", "region[south]", "depth"]
        for key, values in (("estimate", truth.params), ("std_error", truth.bse), ("p", truth.pvalues)):
            values_here = np.array([rows[term][key] for term in ESTIMABLE])
            assert (np.abs(values_here - values) <= 1e-3 * truth.bse).all()
            assert all(rows[term][key] is None for term in ALIASED)
        said = " ".join([*found["notes"], str(found["certificate"]["advice"])])
        assert all(name in said for name in ALIASED)
        assert "rare" not in str(rows)
        code, out, _ = run(capsys, "fit", tmp_path / "t.csv", *options, *more)
        assert code == 0 and "–" in out


@pytest.mark.parametrize("target", ["y", "count", "sold"])
def test_a_command_predicts_by_the_table_that_it_prints(target, tmp_path, capsys):
    table().drop_nulls().select("size", "twice", "same", target).write_csv(tmp_path / "t.csv")
    # Rows in which what depended in training does not: only what the table shows may count.
    size = np.array([0.5, 0.5, 0.5, -1.0])
    new = pl.DataFrame({"size": size, "twice": [2.0, -7.0, 100.0, 3.0], "same": [3.0, 4.0, -5.0, 3.0]})
    loss = ["--loss", "poisson"] if target == "count" else []
    found = result(capsys, "fit", tmp_path / "t.csv", "-t", target, *loss, "-o", tmp_path / "m.tl")
    estimates = {row["term"]: row["estimate"] for row in found["coefficients"]}
    assert estimates["twice"] is None and estimates["same"] is None
    scores = estimates["(intercept)"] + estimates["size"] * size
    record = tl.load(tmp_path / "m.tl").model_
    predictions = record.probabilities(new)[:, 1] if target == "sold" else record.predict(new)
    expected = {"y": scores, "count": np.exp(scores), "sold": 1 / (1 + np.exp(-scores))}[target]
    np.testing.assert_allclose(predictions, expected, rtol=1e-9)
    assert run(capsys, "verify", tmp_path / "m.tl", tmp_path / "t.csv")[0] == 0


def test_a_likelihood_counts_the_parameters_that_it_has():
    frame = table().drop_nulls("depth")
    X = np.column_stack([frame["size"], frame["twice"], frame["same"], frame["depth"]])
    y = (frame["sold"] == "yes").to_numpy()
    truth = sm.Logit(y.astype(float), sm.add_constant(X[:, [0, 3]])).fit(disp=0, tol=1e-12)
    summary = tl.LogisticRegression(C=np.inf, tol=1e-12).fit(X, y).summary()
    assert summary.aic == pytest.approx(truth.aic, rel=1e-9)
    np.testing.assert_allclose(summary.estimates[[0, 1, 4]], truth.params, rtol=1e-6)
    np.testing.assert_allclose(summary.std_errors[[0, 1, 4]], truth.bse, rtol=1e-6)
    assert np.isnan(summary.estimates[[2, 3]]).all() and "x1, x2" in summary.notes[-1]
    counts = frame["count"].to_numpy()
    truth = sm.GLM(counts, sm.add_constant(X[:, [0, 3]]), sm.families.Poisson()).fit(tol=1e-12)
    summary = tl.GeneralizedRegression("poisson", alpha=0.0, tol=1e-12).fit(X, counts).summary()
    np.testing.assert_allclose(summary.estimates[[0, 1, 4]], truth.params, rtol=1e-6)
    np.testing.assert_allclose(summary.std_errors[[0, 1, 4]], truth.bse, rtol=1e-6)


def test_least_norm_stays_and_robust_errors_skip_the_aliased():
    from sklearn.linear_model import LinearRegression

    frame = table().drop_nulls("depth")
    X, y = np.column_stack([frame["size"], frame["twice"], frame["same"], frame["depth"]]), frame["y"].to_numpy()
    model = tl.LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, LinearRegression().fit(X, y).coef_, rtol=1e-9, atol=1e-12)
    truth = sm.OLS(y, sm.add_constant(X[:, [0, 3]])).fit()
    for kind in ("HC0", "HC3"):
        summary = model.summary(robust=kind, X=X, y=y)
        np.testing.assert_allclose(summary.std_errors[[0, 1, 4]], truth.get_robustcov_results(kind).bse, rtol=1e-9)
        assert np.isnan(summary.std_errors[[2, 3]]).all()
    assert model.summary().f_statistic == pytest.approx(truth.fvalue, rel=1e-9)


def test_levels_and_labels_of_dropped_rows_do_not_stay():
    frame = table().with_columns(
        sold=pl.when(pl.col("depth").is_null()).then(pl.lit("maybe")).otherwise(pl.col("sold"))
    )
    moments = tl.scan(frame.drop("sold"), target="y", missing="drop")
    assert not any("rare" in term for term in moments.terms)
    kinds = {c.name: c.levels for c in moments.schema.columns}
    assert kinds["kind"] == ("x", "y", "z")
    for options in ({"where": "kind <> 'rare'"}, {"missing": "drop"}):
        encoder = tl.data.encode.Encoder(
            frame, target="sold", labels=True, features=["size", "kind", "depth"], **options
        )
        assert sum(len(block.X) for block in encoder) == ROWS - 5
        assert sorted(encoder.target_levels) == ["no", "yes"]
        assert not any("rare" in term for term in encoder.terms)


@pytest.mark.parametrize("command", ["fit", "compare", "stream"])
@pytest.mark.parametrize("target", ["y", "sold"])
def test_a_column_that_names_the_rows_is_refused(command, target, tmp_path, capsys):
    frame = table().with_columns(name=pl.Series([f"house {k}" for k in range(ROWS)]))
    frame.select("name", "size", target).write_csv(tmp_path / "t.csv")
    code, _, err = run(capsys, command, tmp_path / "t.csv", "-t", target)
    assert code == 3 and "'name'" in err and "--features" in err
    code, _, _ = run(capsys, command, tmp_path / "t.csv", "-t", target, "--features", "size")
    assert code == 0


def test_a_column_that_names_the_rows_is_refused_on_dask():
    dask = pytest.importorskip("dask")
    import dask.dataframe as dd

    frame = table().with_columns(name=pl.Series([f"house {k}" for k in range(ROWS)])).select("name", "size", "y")
    with dask.config.set(scheduler="synchronous"), pytest.raises(tl.DataError, match="'name'"):
        tl.scan(dd.from_pandas(frame.to_pandas(), npartitions=3), target="y")
