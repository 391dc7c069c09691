"""The commands end to end, in one process; a few in processes of their own."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trueline.cli import main
from trueline.cli.tree import GROUPS, commands
from trueline.demo import RENTS

ENV = {**os.environ, "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A small table of numbers, a category and a yes/no, with a known answer."""
    rng = np.random.default_rng(3)
    n = 400
    x, z = rng.normal(size=n), rng.normal(size=n) * 50 + 1000
    colour = rng.choice(["red", "green", "blue"], n)
    y = 3.0 + 2.0 * x - 0.01 * z + np.where(colour == "red", 1.5, 0.0) + 0.1 * rng.normal(size=n)
    yes = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * x)), "yes", "no")
    folder = tmp_path_factory.mktemp("cli")
    frame = pl.DataFrame({"x": x, "z": z, "colour": colour, "y": y, "answer": yes})
    frame.write_csv(folder / "t.csv")
    frame.write_parquet(folder / "t.parquet")
    frame.head(200).write_csv(folder / "first.csv")
    frame.tail(200).write_csv(folder / "second.csv")
    return folder


@pytest.fixture(scope="module")
def model(table):
    path = table / "m.tl"
    assert main(["fit", str(table / "t.csv"), "--target", "y", "--features", "x,z,colour", "-q", "-o", str(path)]) == 0
    return path


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def result(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, (out, err)
    return json.loads(out.strip().splitlines()[-1])


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


def test_stream_rows_double_and_json_ends_with_the_final_one(capsys, table):
    code, out, _ = run(capsys, "stream", table / "t.csv", "--target", "y", "--features", "x,z,colour", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [row["counter"] for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 400]
    keys = {
        "average_loss",
        "since_last",
        "counter",
        "weight",
        "label",
        "prediction",
        "features",
        "best_fixed_loss",
        "regret",
        "bound",
    }
    assert all(keys <= set(row) for row in rows)
    assert [row.get("final", False) for row in rows] == [False] * 9 + [True]
    last = rows[-1]
    assert last["certificate"]["proven"] and math.isclose(
        last["average_loss"] * 400, last["certificate"]["loss"], rel_tol=1e-9
    )
    assert last["regret"] == pytest.approx(last["certificate"]["loss"] - last["best_fixed_loss"])
    bare = result(capsys, "stream", table / "t.csv", "--target", "y", "--learner", "widrow-hoff", "--no-certificate")
    assert bare["certificate"]["advice"].startswith("--no-certificate")  # the command line's words, not Python's


@pytest.mark.parametrize("learner", [["mixture"], ["widrow-hoff", "--rate", "1e-7"]])
def test_a_resumed_stream_is_the_stream_that_never_stopped(capsys, table, tmp_path, learner):
    from trueline import modelfile as file

    options = ["--target", "y", "--features", "x,z,colour", "--learner", *learner, "-q"]
    whole, part, both = (tmp_path / name for name in ("whole.tl", "part.tl", "both.tl"))
    assert run(capsys, "stream", table / "t.csv", *options, "--save", whole)[0] == 0
    assert run(capsys, "stream", table / "first.csv", *options, "--save", part)[0] == 0
    assert run(capsys, "stream", table / "second.csv", "--resume", part, "--save", both, "-q")[0] == 0
    one, two = file.read(whole), file.read(both)
    assert one[0] == two[0] and set(one[1]) == set(two[1])
    assert all(np.array_equal(one[1][name], two[1][name], equal_nan=True) for name in one[1])
    assert one[2]["rows"] == two[2]["rows"] and one[2]["seen"][1] == two[2]["seen"][1]
    assert run(capsys, "verify", whole, table / "t.csv")[0] == 0
    code, out, _ = run(capsys, "predict", both, table / "second.csv")
    assert code == 0 and len(out.splitlines()) == 201


def test_predictions_are_those_made_before_learning(capsys, table, tmp_path):
    path = tmp_path / "p.csv"
    assert run(capsys, "stream", table / "t.csv", "-t", "y", "--features", "x,z", "-p", path, "-q")[0] == 0
    made = pl.read_csv(path)["prediction"].to_numpy()
    y = pl.read_csv(table / "t.csv")["y"].to_numpy()
    assert len(made) == 400 and made[0] == 0.0
    code, out, err = run(capsys, "stream", table / "t.csv", "-t", "y", "--features", "x,z", "-p", "-")
    assert code == 0 and np.allclose([float(v) for v in out.split()], made) and "counter" in err
    last = result(capsys, "stream", table / "t.csv", "-t", "y", "--features", "x,z")
    assert np.mean((made - y) ** 2) == pytest.approx(last["average_loss"], rel=1e-12)


def test_text_formats_and_standard_input(capsys, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] > 0, 1, -1)
    (tmp_path / "a.svm").write_text(
        "".join(f"{t} 1:{a!r} 2:{b!r} 3:{c!r}\n" for t, (a, b, c) in zip(y.tolist(), X.tolist()))
    )
    (tmp_path / "a.vw").write_text(
        "".join(f"{t} |n a:{a!r} b:{b!r} c:{c!r}\n" for t, (a, b, c) in zip(y.tolist(), X.tolist()))
    )
    ends = [
        result(capsys, "stream", tmp_path / name, "--learner", "perceptron", "--save", tmp_path / f"{name}.tl")
        for name in ("a.svm", "a.vw")
    ]
    assert ends[0]["certificate"]["mistakes"] == ends[1]["certificate"]["mistakes"] <= ends[0]["certificate"]["bound"]
    assert run(capsys, "verify", tmp_path / "a.svm.tl", tmp_path / "a.svm")[0] == 0
    feed = "".join(json.dumps({"a": float(a), "y": float(2 * a)}) + "\n" for a in X[:50, 0])
    piped = subprocess.run(
        [sys.executable, "-m", "trueline", "stream", "-", "-t", "y", "--json"],
        input=feed,
        capture_output=True,
        text=True,
        env=ENV,
    )
    assert piped.returncode == 0 and json.loads(piped.stdout.splitlines()[-1])["counter"] == 50


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
    named = [line.strip() for line in out.split("Written")[1].split("Try next")[0].splitlines() if line.strip()]
    assert len(named) == 7 and all(Path(path).stat().st_size > 0 for path in named)


def test_the_demo_table_is_what_its_script_makes():
    from trueline.demo.make import lines

    assert RENTS.read_text() == "\n".join(lines()) + "\n"


def process(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "trueline", *map(str, arguments)], capture_output=True, text=True, env=ENV, **options
    )


def imported(*arguments):
    """Top-level modules that a command line imports."""
    code = f"import sys; from trueline.cli import main; main({[str(a) for a in arguments]!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENV)
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_nothing_is_imported_that_a_command_does_not_use(table):
    assert not imported("--help") & {"numpy", "polars", "typer", "rich", "numba", "scipy", "sklearn", "matplotlib"}
    used = imported("fit", table / "t.csv", "--target", "y", "--features", "x,z,colour")
    assert {"numpy", "polars"} <= used and not used & {
        "numba",
        "scipy",
        "sklearn",
        "matplotlib",
        "rich",
        "pyarrow",
        "pandas",
        "typer",
        "pydantic",
    }


def test_pipes_close_cleanly_and_no_colour_is_honoured(table, model):
    command = f"{sys.executable} -m trueline predict {model} {table / 't.csv'} | head -n 2"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, env=ENV)
    assert done.returncode == 0 and done.stderr == "" and len(done.stdout.splitlines()) == 2
    coloured = subprocess.run(
        [sys.executable, "-m", "trueline", "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "FORCE_COLOR": "1", "NO_COLOR": ""},
    )
    assert "\033[1m" in coloured.stdout and "\033" not in process("--help").stdout


def test_ctrl_c_keeps_what_was_learned(tmp_path):
    import signal
    import time

    save = tmp_path / "kept.tl"
    child = subprocess.Popen(
        [sys.executable, "-m", "trueline", "stream", "-", "-t", "y", "--save", str(save)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (a shell's background jobs ignore it)
    )  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("x,y\n" + "".join(f"{k % 7},{2 * (k % 7) + 1}\n" for k in range(64)))
    child.stdin.flush()
    seen = []
    while not seen or seen[-1].split()[2:3] != ["64"]:
        line = child.stdout.readline()
        assert line, child.stderr.read() if child.stderr else ""
        seen.append(line)
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == 0  # standard input is still open: a reader waits on it to the end
    _, err = child.communicate(timeout=60)
    assert "Fatal" not in err and "interrupted after 64 examples" in err and save.exists()
    assert json.loads(process("inspect", save, "--json").stdout)["n"] == 64


def test_shell_completion_knows_the_tree():
    done = subprocess.run(
        [sys.executable, "-c", "from trueline.cli import main; raise SystemExit(main([]))"], capture_output=True, text=True,
        env={**ENV, "_TRUELINE_COMPLETE": "complete_bash", "COMP_WORDS": "trueline st", "COMP_CWORD": "1"},
    )  # fmt: skip
    assert "stream" in done.stdout


def test_docs_show_the_help_as_it_is():
    import importlib

    root = Path(__file__).parent.parent
    sys.path.insert(0, str(root))
    try:
        page = importlib.import_module("docs.__main__").help_page()
    finally:
        sys.path.remove(str(root))
    assert (root / "docs" / "cli.md").read_text() == page, "run python -m docs"


def test_large_numbers_in_narrow_columns_are_said_as_people_say_them():
    from trueline.cli.stream import HEADS, fitting

    assert [fitting(v, 7) for v in (13912345.6, 2.04e9, -5.5e6, 123456.7, 4096.0)] == [
        "13.912M", "2.040B", "-5.500M", "123.46k", "4096",
    ]  # fmt: skip
    values = [s * m * 10.0**k for s in (1, -1) for m in (1.0, 1.23456789, 9.99999) for k in range(-8, 15)]
    assert all(len(fitting(v, 7)) <= 7 for v in values if abs(v) >= 1e-4), [fitting(v, 7) for v in values]
    assert sum(max(7, *map(len, head)) + 1 for head in HEADS) - 1 <= 80


def test_blocks_are_read_ahead_in_order_and_errors_come_through():
    from trueline.cli.streaming import ahead

    def blocks():
        yield from range(20)
        raise ValueError("row 21")

    seen = []
    with pytest.raises(ValueError, match="row 21"):
        for block in ahead(blocks()):
            seen.append(block)
    assert seen == list(range(20))
    stopped = ahead(iter(range(1000)))
    assert next(stopped) == 0
    stopped.close()


def test_a_separator_is_told_to_every_command_that_reads_tables(table, tmp_path, capsys):
    frame = pl.read_csv(table / "t.csv").select("x", "z", "colour", "y")
    frame.write_csv(tmp_path / "semi.csv", separator=";")
    frame.write_csv(tmp_path / "tabs.csv", separator="\t")
    semi, saved = tmp_path / "semi.csv", tmp_path / "m.tl"
    code, _, err = run(capsys, "fit", semi, "-t", "y")
    assert code == 3 and "--separator ';'" in err
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
