"""Cross-validated errors of dependent columns: those of the fit of least norm, never of what rounding leaves."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from commands import result

import trueline as tl
from trueline.onepass.folds import ridge_scores
from trueline.onepass.moments import Moments

ROWS = 200
ALPHAS = np.array([1e-10, 1e-4, 1.0, 30.0])


def tables() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(ROWS, 4))
    rare = np.zeros(ROWS)
    rare[::5][:3] = 1.0  # three rows of the first fold: constant for those who train without it
    made = {
        "a duplicate": np.c_[A, A[:, 0]],
        "a duplicate on another scale": np.c_[A, 1000 * A[:, 0] + 5],
        "dummies that sum to one": np.c_[A, np.eye(3)[rng.integers(0, 3, ROWS)]],
        "a constant": np.c_[A, np.full(ROWS, 7.0)],
        "constant in a training part": np.c_[A, rare],
        "more columns than rows": rng.normal(size=(ROWS, 300)),
        "one dependent level a fold": np.c_[A, np.eye(40)[np.arange(ROWS) // 5 % 40]],
    }
    for digits in (3, 5, 7, 9, 11, 12):
        made[f"a copy to {digits} digits"] = np.c_[A, A[:, 0] + 10.0**-digits * rng.normal(size=ROWS)]
    return made


TABLES = tables()
FOLDS = np.arange(ROWS) % 5


def target(X: np.ndarray) -> np.ndarray:
    return X[:, :4] @ [1.0, 2.0, 0.0, -1.0] + np.random.default_rng(1).normal(size=ROWS) + 100.0


def penalised(X: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    """β for columns about their means, by a decomposition of the rows."""
    rows = np.r_[X, np.sqrt(alpha) * np.eye(X.shape[1])] if alpha else X
    return np.linalg.lstsq(rows, np.r_[y, np.zeros(len(rows) - len(y))], rcond=1e-14)[0]


@pytest.mark.parametrize("name", TABLES)
def test_errors_of_folds_are_those_of_least_norm(name):
    X = TABLES[name]
    y = target(X)
    alphas = np.r_[0.0, ALPHAS]
    found = -ridge_scores(Moments.from_arrays(X, y, folds=FOLDS), alphas, scoring="neg_mean_squared_error")
    for k in range(5):
        train, test = k != FOLDS, k == FOLDS
        mean, level = X[train].mean(axis=0), y[train].mean()
        for i, alpha in enumerate(alphas):
            beta = penalised(X[train] - mean, y[train] - level, alpha)
            error = np.mean((y[test] - level - (X[test] - mean) @ beta) ** 2)
            assert found[i, k] == pytest.approx(error, rel=1e-5), (k, alpha)


@pytest.mark.parametrize("name", [name for name in TABLES if name != "more columns than rows"])
def test_leaving_one_out_and_degrees_of_freedom_know_the_rank(name):
    X = TABLES[name]
    y = target(X)
    model = tl.RidgeCV(alphas=ALPHAS, store_cv_results=True).fit(X, y)
    for i in range(0, ROWS, 23):
        rest = np.arange(ROWS) != i
        mean, level = X[rest].mean(axis=0), y[rest].mean()
        for k, alpha in enumerate(ALPHAS[1:], 1):
            error = y[i] - level - (X[i] - mean) @ penalised(X[rest] - mean, y[rest] - level, alpha)
            assert model.cv_results_[i, k] == pytest.approx(error**2, rel=1e-5, abs=1e-9)
    free = tl.RidgeCV(alphas=[0.0], cv="gcv").fit(X, y)
    linear = tl.LinearRegression().fit(X, y)
    rss = float(((y - linear.predict(X)) ** 2).sum())
    left = 1 - (linear.certificate_.rank + 1) / ROWS
    assert -free.scores_[0] == pytest.approx(rss / ROWS / left**2, rel=1e-6)  # predict rounds


def test_the_command_line_says_the_error_of_the_fit_that_it_prints(tmp_path, capsys):
    rng = np.random.default_rng(2)
    n = 300
    make = rng.integers(0, 60, n)
    table = pl.DataFrame(
        {
            "weight": rng.normal(3000, 500, n),
            "country": np.array(["a", "b", "c"])[make % 3],  # what the make says already
            "make": [f"make {k}" for k in make],
            "metric": np.zeros(n),
        }
    ).with_columns(metric=pl.col("weight") * 0.4536)
    y = 40.0 - 0.005 * table["weight"].to_numpy() + 0.1 * make + rng.normal(size=n)
    table.with_columns(y=y).write_csv(tmp_path / "t.csv")
    rows = {
        row["method"]: row["error"] for row in result(capsys, "fit", tmp_path / "t.csv", "-t", "y")["cross_validation"]
    }
    assert 0.9 < rows["least squares"] < 1.6
    assert rows["ridge"] <= rows["least squares"] * 1.001
    compared = {
        r["method"]: r["cross_validated"] for r in result(capsys, "compare", tmp_path / "t.csv", "-t", "y")["methods"]
    }
    assert rows["least squares"] == pytest.approx(compared["least squares"], rel=0.02)
