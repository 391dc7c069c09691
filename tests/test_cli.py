"""The commands end to end, in one process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import result, run, write_model, write_table

from trueline.cli.tree import GROUPS, commands
from trueline.demo import RENTS


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("cli"))


@pytest.fixture(scope="module")
def model(table):
    return write_model(table)


def test_help_names_every_command_in_its_group(capsys, monkeypatch):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert all(group in out for group in GROUPS) and all(name in out for name in commands())
    assert max(len(line) for line in out.splitlines()) <= 100
    monkeypatch.setenv("COLUMNS", "80")
    assert max(len(line) for line in run(capsys, "--help")[1].splitlines()) <= 80


@pytest.mark.parametrize("name", [name for name in commands() if name not in ("serve", "echo")])
def test_every_command_has_help_and_json(capsys, name):
    code, out, _ = run(capsys, name, "--help")
    assert code == 0 and "--json" in out and "Usage: trueline " + name in out


def test_fit_json_contract(capsys, table):
    found = result(capsys, "fit", table / "t.csv", "--target", "y", "--features", "x,z,colour")
    assert {
        "n", "target", "loss", "penalty", "coefficients", "intercept", "r_squared", "residual_std_error", "certificate",
        "cross_validation", "seconds",
    } <= set(found)  # fmt: skip
    assert found["n"] == 400 and found["loss"] == "squared" and found["penalty"] == "none"
    first = found["coefficients"][0]
    assert first["term"] == "(intercept)" and first["estimate"] == found["intercept"]
    assert list(first) == ["term", "estimate", "std_error", "t", "p", "low", "high"]
    assert {"kind", "status", "digits", "condition_number", "rank"} <= set(found["certificate"])
    assert set(found["seconds"]) == {"read", "solve"}
    assert [row["method"] for row in found["cross_validation"]] == ["least squares", "ridge", "lasso"]
    # Against NumPy, to the last digits: numbers are in full precision.
    frame = pl.read_csv(table / "t.csv")
    design = np.column_stack(
        [np.ones(400), frame["x"], frame["z"], frame["colour"] == "green", frame["colour"] == "red"]
    ).astype(float)
    beta = np.linalg.lstsq(design, frame["y"].to_numpy(), rcond=None)[0]
    assert [row["term"] for row in found["coefficients"][1:]] == ["x", "z", "colour[green]", "colour[red]"]
    assert np.allclose([row["estimate"] for row in found["coefficients"]], beta, rtol=1e-10)


def test_fit_speaks_of_ridge_and_lasso_and_of_what_is_proven(capsys, table):
    code, out, _ = run(capsys, "fit", table / "t.csv", "--target", "y", "--features", "x,z,colour")
    assert code == 0 and "cross-validation" in out and "ridge at" in out and "lasso at" in out
    assert "proven" in out and "digits" in out and "\033" not in out


def test_fit_by_formula_finds_the_curve_and_the_model_predicts_by_it(capsys, tmp_path):
    rng = np.random.default_rng(9)
    x, z = rng.uniform(-2, 2, 300), rng.uniform(0.5, 9.0, 300)
    y = 1.0 + x**3 - 2.0 * x + 4.0 * np.log(z) + 0.01 * rng.normal(size=300)
    pl.DataFrame({"x": x, "z": z, "y": y}).write_csv(tmp_path / "t.csv")
    formula = "y ~ poly(x, 3) + log(z)"
    found = result(capsys, "fit", tmp_path / "t.csv", "--formula", formula, "-o", tmp_path / "m.tl")
    estimates = {row["term"]: row["estimate"] for row in found["coefficients"]}
    assert found["target"] == "y" and len(estimates) == 5 and found["certificate"]["status"] == "proven"
    assert abs(estimates["log(z)"] - 4.0) < 0.01 and found["residual_std_error"] < 0.012
    code, out, _ = run(capsys, "predict", tmp_path / "m.tl", tmp_path / "t.csv")
    made = np.array([float(line) for line in out.splitlines()[1:]])
    assert code == 0 and np.abs(made - y).max() < 0.06
    code, _, error = run(capsys, "export", tmp_path / "m.tl", "--to", "json")
    assert code == 2 and "'poly(x)[1]' of its formula" in error and "sql, python or c" in error
    code, out, error = run(capsys, "export", tmp_path / "m.tl", "--to", "python")
    assert code == 0 and "agrees with the model" in error and "math.log" in out


def test_columns_stand_on_their_decimal_points(capsys, table):
    _, out, _ = run(capsys, "fit", table / "t.csv", "--target", "y", "--features", "x,z,colour")
    lines = out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("term"))
    places = {line.index(".") for line in lines[start + 1 : start + 6]}
    assert len(places) == 1


def test_a_target_of_two_values_gets_logistic_regression_and_says_so(capsys, table):
    code, out, _ = run(capsys, "fit", table / "t.csv", "--target", "answer", "--features", "x,z")
    assert code == 0 and "logistic regression" in out and "takes the values no and yes" in out
    found = result(capsys, "fit", table / "t.csv", "--target", "answer", "--features", "x,z", "--holdout", "0.25")
    assert found["loss"] == "logistic" and found["classes"] == ["no", "yes"]
    assert {m["name"] for m in found["holdout"]} >= {"log_loss", "auc", "accuracy"}
    assert next(m["value"] for m in found["holdout"] if m["name"] == "auc") > 0.8
    assert found["n"] < 400


def test_penalties_from_the_same_scan(capsys, table):
    from sklearn.linear_model import Lasso, Ridge

    frame = pl.read_csv(table / "t.csv")
    X, y = frame.select("x", "z").to_numpy(), frame["y"].to_numpy()
    base = ["fit", table / "t.csv", "--target", "y", "--features", "x,z"]
    lasso = result(capsys, *base, "--penalty", "lasso", "--alpha", "0.3")
    peer = Lasso(alpha=0.3, tol=1e-12, max_iter=100_000).fit(X, y)
    assert np.allclose([r["estimate"] for r in lasso["coefficients"][1:]], peer.coef_, atol=1e-7)
    ridge = result(capsys, *base, "--penalty", "ridge", "--alpha", "20")
    assert np.allclose([r["estimate"] for r in ridge["coefficients"][1:]], Ridge(alpha=20).fit(X, y).coef_, rtol=1e-8)
    chosen = result(capsys, *base, "--penalty", "elastic", "--alpha", "cv")
    assert chosen["alpha"] > 0 and chosen["certificate"]["proven"]


def test_predict_streams_in_every_format(capsys, table, model, tmp_path):
    code, out, _ = run(capsys, "predict", model, table / "t.csv")
    direct = pl.read_csv(out.encode())
    assert code == 0 and direct.columns == ["prediction"] and direct.height == 400
    for ending in ("csv", "parquet", "arrow", "ndjson", "tsv"):
        path = tmp_path / f"out.{ending}"
        assert (
            run(capsys, "predict", model, table / "t.parquet", "-o", path, "--keep", "x", "--interval", "0.9")[0] == 0
        )
        read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "arrow": pl.read_ipc, "ndjson": pl.read_ndjson}.get(
            ending, lambda p: pl.read_csv(p, separator="\t")
        )(path)
        assert read.columns == ["x", "prediction", "low", "high"]
        assert np.allclose(read["prediction"], direct["prediction"], rtol=1e-14)
        assert (read["low"] < read["prediction"]).all()
    y = pl.read_csv(table / "t.csv")["y"].to_numpy()
    inside = ((read["low"].to_numpy() < y) & (y < read["high"].to_numpy())).mean()
    assert 0.85 < inside < 0.95
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_predict_json_lines_and_probabilities(capsys, table, tmp_path):
    path = tmp_path / "l.tl"
    assert run(capsys, "fit", table / "t.csv", "--target", "answer", "--features", "x", "-q", "-o", path)[0] == 0
    code, out, _ = run(capsys, "predict", path, table / "t.csv", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and len(rows) == 400 and set(rows[0]) == {"prediction", "probability"}
    assert all((row["probability"] > 0.5) == (row["prediction"] == "yes") for row in rows)


def test_inspect_evaluate_and_verify(capsys, table, model):
    found = result(capsys, "inspect", model)
    assert found["target"] == "y" and found["n"] == 400 and found["certificate"]["kind"] == "exact"
    code, out, _ = run(capsys, "inspect", model)
    assert code == 0 and "colour [3 levels]" in out and "made by: trueline fit" in out
    measured = {m["name"]: m for m in result(capsys, "evaluate", model, table / "second.csv")["metrics"]}
    assert (
        0.07 < measured["rmse"]["value"] < 0.13
        and measured["rmse"]["low"] < measured["rmse"]["value"] < measured["rmse"]["high"]
    )
    assert measured["r_squared"]["value"] > 0.99
    assert result(capsys, "verify", model, table / "t.csv")["ok"] is True


def test_verify_says_no_with_exit_code_four(capsys, table, model, tmp_path):
    changed = pl.read_csv(table / "t.csv").with_columns(pl.col("y") + pl.col("x") * 1e-3)
    changed.write_csv(tmp_path / "other.csv")
    code, out, _ = run(capsys, "verify", model, tmp_path / "other.csv")
    assert code == 4 and "FAILS" in out and "arithmetic digits" in out


def test_compare_ranks_learners_and_solvers(capsys, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 2))
    pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X @ [1.0, 2.0] + 0.1 * rng.normal(size=120)}).write_csv(
        tmp_path / "c.csv"
    )
    found = result(capsys, "compare", tmp_path / "c.csv", "--target", "y", "--folds", "3")
    names = [row["method"] for row in found["methods"]]
    assert {"least squares", "ridge", "lasso", "stream: mixture", "stream: widrow-hoff"} <= set(names)
    errors = [row["cross_validated"] for row in found["methods"] if row["cross_validated"] is not None]
    assert errors == sorted(errors) and errors[0] < 0.12
    assert all(row["progressive"] is not None for row in found["methods"] if row["method"].startswith("stream"))


def test_demo_names_what_it_wrote(capsys, tmp_path):
    code, out, _ = run(capsys, "demo", tmp_path / "d")
    assert code == 0 and "Try next" in out
    steps = [line for line in out.splitlines() if line[:2] in ("1.", "2.", "3.", "4.", "5.")]
    assert len(steps) == 5 == out.count("$ trueline ")  # every command is preceded by what it is for
    named = [line.strip() for line in out.split("Written")[1].split("Try next")[0].splitlines() if line.strip()]
    assert len(named) == 7 and all(Path(path).stat().st_size > 0 for path in named)


def test_the_demo_table_is_what_its_script_makes():
    from trueline.demo.make import lines

    assert RENTS.read_text() == "\n".join(lines()) + "\n"


def test_docs_show_the_help_as_it_is():
    import importlib

    root = Path(__file__).parent.parent
    sys.path.insert(0, str(root))
    try:
        page = importlib.import_module("docs.__main__").help_page()
    finally:
        sys.path.remove(str(root))
    assert (root / "docs" / "cli.md").read_text() == page, "run python -m docs"


def test_a_separator_is_told_to_every_command_that_reads_tables(table, tmp_path, capsys):
    frame = pl.read_csv(table / "t.csv").select("x", "z", "colour", "y")
    frame.write_csv(tmp_path / "semi.csv", separator=";")
    frame.write_csv(tmp_path / "tabs.csv", separator="\t")
    semi, saved = tmp_path / "semi.csv", tmp_path / "m.tl"
    told = ("--separator", ";")
    found = result(capsys, "fit", semi, "-t", "y", "-o", saved, *told)
    plain = result(capsys, "fit", table / "t.csv", "-t", "y", "--features", "x,z,colour")
    assert found["coefficients"] == plain["coefficients"]
    assert result(capsys, "fit", tmp_path / "tabs.csv", "-t", "y", "--separator", "tab")["n"] == 400
    code, out, _ = run(capsys, "predict", saved, semi, "--separator=;")
    assert code == 0 and len(out.splitlines()) == 401
    assert result(capsys, "evaluate", saved, semi, *told)["n"] == 400
    assert run(capsys, "verify", saved, semi, *told)[0] == 0
    code, _, err = run(capsys, "fit", semi, "-t", "y", "--separator", "ab")
    assert code == 2 and "--separator is one character" in err
    code, _, err = run(capsys, "fit", semi, "-t", "y", "--engine", "dask", *told)
    assert code == 2 and "--separator does not go with --engine" in err


def test_typer_reads_a_separator_too(table, tmp_path, capsys):
    from trueline.cli.tree import load

    pl.read_csv(table / "t.csv").write_csv(tmp_path / "semi.csv", separator=";")
    command = load("fit")
    words = [str(tmp_path / "semi.csv"), "-t", "y", "--features", "x,z", "--separator", ";", "--json"]
    with command.make_context("trueline fit", words) as context:
        command.invoke(context)
    assert json.loads(capsys.readouterr().out)["n"] == 400


def test_the_targets_that_get_logistic_regression_are_those_of_the_help(tmp_path, capsys):
    rng = np.random.default_rng(4)
    x = rng.normal(size=100)
    for low, high, loss in ((0, 1, "logistic"), (False, True, "logistic"), ("a", "b", "logistic"), (1, 2, "squared")):
        y = [high if up else low for up in x + rng.normal(size=100) > 0]
        pl.DataFrame({"x": x, "y": y}).write_csv(tmp_path / "t.csv")
        assert result(capsys, "fit", tmp_path / "t.csv", "-t", "y")["loss"] == loss
