"""``trueline verify`` on models of arrays, whose columns have other names in the file, or none."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from commands import run

import trueline as tl

FEATURES = ["--features", "a,b,c"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The rows as arrays by name, and as a file whose columns stand in another order."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.1 * rng.normal(size=300)
    columns = {"X": X, "y": y, "yes": (y > 0).astype(int), "word": np.where(y > 0, "yes", "no"), "z": 2 * y + X[:, 0]}
    columns["w"] = rng.uniform(0.5, 2.0, size=300)
    path = tmp_path_factory.mktemp("arrays") / "d.csv"
    named = {name: columns[name] for name in ("w", "word", "y", "yes", "z")}
    pl.DataFrame(named | {"c": X[:, 2], "a": X[:, 0], "b": X[:, 1]}).write_csv(path)
    return columns, path


@pytest.mark.parametrize(
    ("make", "target"),
    [
        (tl.LinearRegression, "y"), (lambda: tl.Ridge(alpha=2.0), "y"), (lambda: tl.Lasso(alpha=0.1), "y"),
        (tl.LogisticRegression, "word"), (tl.LogisticRegression, "yes"), (tl.LinearSVC, "yes"), (tl.Perceptron, "yes"),
        (tl.WidrowHoff, "y"), (tl.RecursiveLeastSquares, "y"), (tl.OnlineRegressor, "y"), (tl.OnlineClassifier, "word"),
    ],
)  # fmt: skip
def test_columns_are_named_on_the_command_line(capsys, data, tmp_path, make, target):
    columns, path = data
    model = tmp_path / "m.tl"
    make().fit(columns["X"], columns[target]).save(model)
    code, out, err = run(capsys, "verify", model, path, *FEATURES, "--target", target, "--json")
    assert code == 0 and json.loads(out)["ok"], (out, err)
    code, out, _ = run(capsys, "verify", model, path, "--features", "a,b,w", "--target", target, "--json")
    assert code == 4 and not json.loads(out)["ok"]


def test_weights_and_several_targets(capsys, data, tmp_path):
    columns, path = data
    model = tmp_path / "m.tl"
    tl.LinearRegression().fit(columns["X"], columns["y"], sample_weight=columns["w"]).save(model)
    assert run(capsys, "verify", model, path, *FEATURES, "-t", "y", "--weights", "w")[0] == 0
    assert run(capsys, "verify", model, path, *FEATURES, "-t", "y")[0] == 4
    tl.LinearRegression().fit(columns["X"], np.column_stack([columns["y"], columns["z"]])).save(model)
    assert run(capsys, "verify", model, path, *FEATURES, "-t", "y,z")[0] == 0
    assert run(capsys, "verify", model, path, *FEATURES, "-t", "z,y")[0] == 4
    code, _, err = run(capsys, "verify", model, path, *FEATURES, "-t", "y")
    assert code == 2 and "2 targets" in err


def test_the_models_own_names_are_found(capsys, data, tmp_path):
    columns, path = data
    model, named = tmp_path / "m.tl", tmp_path / "n.parquet"
    tl.LinearRegression().fit(columns["X"], columns["y"]).save(model)
    pl.read_csv(path).rename({"a": "x0", "b": "x1", "c": "x2"}).write_parquet(named)
    assert run(capsys, "verify", model, named)[0] == 0


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 3, "lacks the model's feature 'x0'; say with --features how it is called there"),
        (["--features", "a,b"], 2, "--features names 2 columns, and the model has 3"),
        (["--features", "a,b,cc", "-t", "y"], 2, "there is no column 'cc' in"),
        (["--features", "a,b,word", "-t", "y"], 3, "column 'word' of"),
        ([*FEATURES, "-t", "word"], 3, "column 'word' of"),
        ([*FEATURES, "-t", "why"], 2, "there is no column 'why' in"),
        ([*FEATURES, "-t", "y", "--weights", "none"], 2, "there is no column 'none' in"),
    ],
)
def test_refusals(capsys, data, tmp_path, options, code, said):
    columns, path = data
    model = tmp_path / "m.tl"
    tl.Lasso(alpha=0.1).fit(columns["X"], columns["y"]).save(model)
    found, out, err = run(capsys, "verify", model, path, *options)
    assert (found, out) == (code, "") and said in err and err.count("\n") == 1


def test_a_model_that_knows_its_columns_needs_no_names(capsys, data, tmp_path):
    _, path = data
    model = tmp_path / "m.tl"
    assert run(capsys, "fit", path, "-t", "y", "--features", "a,b", "-o", model, "-q")[0] == 0
    code, _, err = run(capsys, "verify", model, path, "--target", "y")
    assert code == 2 and "leave out --target" in err
    assert run(capsys, "verify", model, path)[0] == 0


@pytest.mark.parametrize("n", [20, 3000])
@pytest.mark.parametrize("whole", [True, False])
def test_a_fit_without_noise_whose_coefficients_are_0_is_not_refused(n, whole):
    """Of a coefficient that is 0 by the structure of the data no digit is asked, by the fit and by the checker alike."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 4)) * [100.0, 1.0, 10.0, 1000.0]
    X = np.rint(X) if whole else X
    y = X @ [0.0, 0.0, 2.0, -3.0] + (0.0 if whole else 1e5)
    model = tl.LinearRegression().fit(X, y)
    found = tl.verify(model, (X, y))
    assert found.ok, str(found)
    record = model.model_
    record.coef[1] += 1e-6  # a coefficient that shows in the predictions is still caught
    assert not tl.verify(record, (X, y)).ok
