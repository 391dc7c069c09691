"""Rows that lack a value, after a fit that left such rows out: an empty prediction, counted."""

from __future__ import annotations

import json
import warnings

import numpy as np
import polars as pl
import pytest

import trueline as tl
from trueline.cli import main


def run(capsys, *words):
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    n = 200
    frame = pl.DataFrame(
        {
            "x": rng.normal(size=n), "z": rng.uniform(1, 3, size=n), "c": rng.choice(["a", "b", "d"], size=n),
            "one": ["only"] * n, "y": rng.normal(size=n),
        }
    ).with_columns(y=pl.col("y") + 2 * pl.col("x") + pl.col("c").eq("b"))  # fmt: skip
    lacking = {"x": [3, 50], "z": [50, 70], "c": [7], "one": [9], "y": [11, 3]}
    for name, rows in lacking.items():
        mask = pl.Series(np.isin(np.arange(n), rows))
        frame = frame.with_columns(pl.when(mask).then(None).otherwise(pl.col(name)).alias(name))
    frame = frame.with_columns(label=pl.when(pl.col("y") > 0).then(pl.lit("yes")).otherwise(pl.lit("no")))
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    return tmp_path, frame, np.isin(np.arange(n), [3, 50, 70, 7, 9])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("formula", [None, "y ~ poly(x, 2) + log(z) + c + one", "y ~ lag(x, 1) + z + C(c) + one"])
def test_its_own_training_file_can_be_predicted_and_evaluated(capsys, table, ending, formula):
    folder, frame, lacking = table
    data, model = folder / f"t.{ending}", folder / "m.tl"
    asked = ("--formula", formula) if formula else ("-t", "y", "--features", "x,z,c,one")
    code, _, err = run(capsys, "fit", data, *asked, "--missing", "drop", "-o", model)
    assert code == 0, err
    out = folder / "p.csv"
    code, told, err = run(capsys, "predict", model, data, "-o", out, "--json")
    made = pl.read_csv(out)["prediction"]
    assert code == 0 and "5 of 200 rows" in err, err
    assert json.loads(told)["empty_predictions"] == 5 and (made.is_nan().to_numpy() == lacking).all()
    if formula is None or "lag" not in formula:  # what the rows would get alone; a lag looks back over rows left out
        whole = frame.filter(~lacking)
        whole.write_csv(folder / "whole.csv")
        code, alone, _ = run(capsys, "predict", model, folder / "whole.csv")
        assert np.allclose(made.drop_nans(), [float(v) for v in alone.split()[1:]], rtol=1e-12)
    code, told, _ = run(capsys, "evaluate", model, data, "--json")
    found = json.loads(told)
    known = ~lacking & frame["y"].is_not_null().to_numpy()
    assert code == 0 and found["n"] == known.sum() and found["dropped_rows"] == 200 - known.sum()
    rmse = np.sqrt(np.mean((made.to_numpy()[known] - frame["y"].to_numpy()[known]) ** 2))
    assert {m["name"]: m["value"] for m in found["metrics"]}["rmse"] == pytest.approx(rmse)
    assert run(capsys, "predict", model, data, "--missing", "refuse")[0] == 3
    assert run(capsys, "evaluate", model, data, "--missing", "refuse")[0] == 3
    assert run(capsys, "predict", model, data, "--missing", "mean")[0] == 2
    code, told, _ = run(capsys, "predict", model, data, "--where", "x > 0")
    assert code == 0 and len(told.splitlines()) == 1 + (frame["x"] > 0).sum()
    code, told, _ = run(capsys, "evaluate", model, data, "--where", "x > 0", "--json")
    assert code == 0 and json.loads(told)["n"] == (known & (frame["x"] > 0).fill_null(False).to_numpy()).sum()


@pytest.mark.parametrize("formula", ["y ~ x + c", "y ~ poly(x, 2) + c"])
def test_a_level_that_only_a_row_left_out_has_does_not_refuse_it(capsys, tmp_path, formula):
    frame = pl.DataFrame(
        {
            "x": [0.0, None, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0],
            "c": ["a", "rare", "b", "a", "b", "a", "b", "b"],
            "y": [1.0, 2.0, 3.5, 3.0, 5.0, 6.0, 8.0, 9.0],
        }
    )
    data, model = tmp_path / "t.csv", tmp_path / "m.tl"
    frame.write_csv(data)
    code, _, err = run(capsys, "fit", data, "--formula", formula, "--missing", "drop", "-o", model)
    assert code == 0, err
    code, out, err = run(capsys, "predict", model, data)
    made = [float(line) for line in out.split()[1:]]
    assert code == 0 and np.isnan(made[1]) and np.isfinite(made[:1] + made[2:]).all(), err
    code, out, err = run(capsys, "evaluate", model, data, "--json")
    assert code == 0 and json.loads(out)["n"] == 7, err
    frame.with_columns(x=pl.col("x").fill_null(1.0)).write_csv(data)
    code, _, err = run(capsys, "predict", model, data)
    assert code == 3 and "'rare' in row 2" in err


def test_labels_and_intervals_are_empty_too(capsys, table):
    folder, _, lacking = table
    data, model = folder / "t.csv", folder / "m.tl"
    asked = ("--missing", "drop", "--features", "x,z,c,one", "-o", model)
    assert run(capsys, "fit", data, "-t", "label", *asked)[0] == 0
    code, out, _ = run(capsys, "predict", model, data)
    rows = out.splitlines()[1:]
    assert code == 0 and [row == "," for row in rows] == lacking.tolist()
    code, out, _ = run(capsys, "predict", model, data, "--json")
    made = [json.loads(row) for row in out.splitlines()]
    assert [row["prediction"] is None and row["probability"] is None for row in made] == lacking.tolist()
    assert run(capsys, "evaluate", model, data)[0] == 0
    assert run(capsys, "fit", data, "-t", "y", *asked)[0] == 0
    code, out, _ = run(capsys, "predict", model, data, "--interval", "0.9")
    assert code == 0 and [row == ",," for row in out.splitlines()[1:]] == lacking.tolist()
    assert (
        run(capsys, "stream", data, "-t", "y", "--features", "x,z,c,one", "--missing", "drop", "--save", model, "-q")[0]
        == 0
    )
    code, out, err = run(capsys, "predict", model, data)
    assert code == 0, err
    assert [row == "NaN" for row in out.splitlines()[1:]] == lacking.tolist()


def test_a_model_that_refuses_can_be_told_to_drop(capsys, table):
    folder, frame, lacking = table
    frame.filter(~lacking).drop_nulls().write_csv(folder / "whole.csv")
    model = folder / "m.tl"
    assert run(capsys, "fit", folder / "whole.csv", "-t", "y", "--features", "x,z,c", "-o", model)[0] == 0
    code, _, err = run(capsys, "predict", model, folder / "t.csv")
    assert code == 3 and "missing" in err
    code, out, _ = run(capsys, "predict", model, folder / "t.csv", "--missing", "drop")
    assert code == 0 and len(out.splitlines()) == 201
    code, _, err = run(capsys, "evaluate", model, folder / "t.csv", "--missing", "drop")
    assert code == 0 and "left out" in err


def test_python_predicts_nan_and_says_so(table):
    _, frame, lacking = table
    model = tl.LinearRegression().fit(frame, target="y", features=["x", "z", "c", "one"], missing="drop")
    with pytest.warns(UserWarning, match="5 of 200 rows lack a value"):
        made = model.predict(frame)
    assert (np.isnan(made) == lacking).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.allclose(model.predict(frame.filter(~lacking)), made[~lacking], rtol=1e-12)


def test_robust_errors_leave_out_the_rows_that_the_fit_left_out(table):
    _, frame, _ = table
    options = {"target": "y", "features": ["x", "z", "c"], "missing": "drop"}
    known = frame.drop_nulls(["x", "z", "c", "y"])
    ours = tl.LinearRegression().fit(frame, **options).summary(robust="HC1", X=frame)
    alone = tl.LinearRegression().fit(known, **options).summary(robust="HC1", X=known)
    assert np.allclose(ours.std_errors, alone.std_errors, rtol=1e-12)


@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_the_number_of_filled_cells_is_told(capsys, table, policy):
    folder, frame, _ = table
    frame.drop_nulls(["y"]).write_csv(folder / "t.csv")
    asked = ("-t", "y", "--features", "x,z,c", "--missing", policy)
    for command in ("fit", "stream", "compare"):
        code, out, err = run(capsys, command, folder / "t.csv", *asked)
        assert code == 0, err
        assert "4 missing cells were filled" in " ".join(out.split()) and "(x 1, z 2, c 1)" in out, out
    assert any(
        "4 missing cells" in note
        for note in json.loads(run(capsys, "fit", folder / "t.csv", *asked, "--json")[1])["notes"]
    )


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_file_of_predictions_alone_has_a_line_for_every_row(capsys, table, ending):
    """An empty line would be skipped by pandas and by most readers, and rows would answer for others."""
    import pandas as pd

    folder, _, lacking = table
    model, out = folder / "alone.tl", folder / f"alone.{ending}"
    words = ["--features", "x,z", "--missing", "drop", "-q", "-o", model]
    assert run(capsys, "fit", folder / "t.csv", "-t", "y", *words)[0] == 0
    assert run(capsys, "predict", model, folder / "t.csv", "-o", out)[0] == 0
    made = pd.read_csv(out, sep="\t" if ending == "tsv" else ",")["prediction"]
    assert len(made) == len(lacking) and made.isna().any() and made.dtype == float
    np.testing.assert_allclose(pl.read_csv(out)["prediction"].to_numpy(), made.to_numpy(), rtol=1e-12)
    assert run(capsys, "predict", model, folder / "t.csv", "-o", folder / "alone.parquet")[0] == 0
    assert pl.read_parquet(folder / "alone.parquet")["prediction"].is_null().to_list() == made.isna().to_list()
