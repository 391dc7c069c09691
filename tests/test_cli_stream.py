"""``trueline stream``: rows at doubling counts, resuming, predictions, text formats, reading ahead."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from commands import ENV, result, run, write_table


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("cli"))


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
    assert one[2]["rows"] == two[2]["rows"] and one[2]["seen"] == two[2]["seen"]
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


def test_large_numbers_in_narrow_columns_are_said_as_people_say_them():
    from trueline.cli.stream import HEADS, fitting

    assert [fitting(v, 7) for v in (13912345.6, 2.04e9, -5.5e6, 123456.7, 4096.0)] == [
        "13.912M", "2.040B", "-5.500M", "123.46k", "4096",
    ]  # fmt: skip
    values = [s * m * 10.0**k for s in (1, -1) for m in (1.0, 1.23456789, 9.99999) for k in range(-8, 15)]
    assert all(len(fitting(v, 7)) <= 7 for v in values if abs(v) >= 1e-4), [fitting(v, 7) for v in values]
    shown = [
        head for key, head in HEADS.items() if key != "best_member_loss"
    ]  # in place of best_fixed_loss, never beside it
    assert sum(max(7, *map(len, head)) + 1 for head in shown) - 1 <= 80


def test_blocks_are_read_ahead_in_order_and_errors_come_through():
    from trueline.cli.blocks import ahead

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


def test_classes_of_another_kind_than_the_target(capsys, table):
    code, out, err = run(capsys, "stream", table / "t.csv", "-t", "y", "--features", "x", "--classes", "a,b")
    assert (code, out) == (2, "") and "the target holds numbers, and --classes names 'a'" in err


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_a_stream_goes_on_with_a_single_row(capsys, table, tmp_path, kind):
    rows = pl.read_csv(table / "t.csv").select("x", "y")
    first, last, model = tmp_path / "first.csv", tmp_path / f"last.{kind}", tmp_path / "m.tl"
    rows[:-1].write_csv(first)
    rows[-1:].write_csv(last) if kind == "csv" else rows[-1:].write_ndjson(last)
    assert run(capsys, "stream", first, "-t", "y", "--save", model, "-q")[0] == 0
    assert run(capsys, "stream", last, "--resume", model, "--save", model, "-q") == (0, "", "")
    assert result(capsys, "inspect", model)["n"] == len(rows)
    assert run(capsys, "stream", last, "-t", "y", "-q")[0] == 3  # alone it has nothing to tell


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("block", [0, 2])
def test_ctrl_c_within_a_block_loses_nothing_of_it(capsys, table, tmp_path, monkeypatch, request, block, moment):
    import os
    import signal

    from trueline.cli import streaming

    # What starts a job in the background may have it ignore the key.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    learn, blocks, seen = streaming.learn_block, streaming.text_blocks, []

    def short(*arguments):
        for names, X, y, weights, *rest in blocks(*arguments):
            assert weights is None
            for k in range(0, len(y), 50):
                yield names, X[k : k + 50], y[k : k + 50], None, *rest

    def pressed(state, *arguments):
        seen.append(len(arguments[2]))
        if moment == "after":
            learn(state, *arguments)
        if len(seen) == block + 1:
            os.kill(os.getpid(), signal.SIGINT)
        if moment == "before":
            learn(state, *arguments)

    monkeypatch.setattr(streaming, "learn_block", pressed)
    monkeypatch.setattr(streaming, "text_blocks", short)
    lines = "".join(f"{k % 2} 1:{k}.5\n" for k in range(200))
    (tmp_path / "a.svm").write_text(lines)
    code, _, err = run(capsys, "stream", tmp_path / "a.svm", "--save", tmp_path / "m.tl", "--learner", "perceptron")
    assert code == 0 and f"interrupted after {sum(seen):,} examples" in err, err
    monkeypatch.undo()
    assert result(capsys, "inspect", tmp_path / "m.tl")["n"] == sum(seen)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("learner", ["gradient", "normalised", "implicit", "adagrad"])
def test_the_loss_of_counts_is_of_their_log_means(learner, capsys, tmp_path):
    rng = np.random.default_rng(5)
    a, b = 4 + 0.5 * rng.normal(size=300), rng.normal(size=300)
    y = rng.poisson(np.exp(0.3 * b + 0.5))
    pl.DataFrame({"a": a, "b": b, "y": y}).write_csv(tmp_path / "t.csv")
    paths = tmp_path / "m.tl", tmp_path / "p.csv"
    options = ["--loss", "poisson", "--learner", learner, "--save", paths[0], "-p", paths[1], "--json"]
    code, out, err = run(capsys, "stream", tmp_path / "t.csv", "-t", "y", *options)
    assert code == 0, err
    means = np.maximum(pl.read_csv(paths[1])["prediction"].to_numpy(), 1e-300)
    last = json.loads(out.splitlines()[-1])
    expected = float((means - y * np.log(means)).sum())
    assert last["certificate"]["loss"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    code, out, err = run(capsys, "verify", paths[0], tmp_path / "t.csv", "--json")
    checks = {check["claim"]: check for check in json.loads(out)["checks"]}
    assert checks["loss"]["held"], checks["loss"]


def test_a_resumed_stream_refuses_a_derived_column_it_has_no_use_for(capsys, table, tmp_path):
    model, again = tmp_path / "m.tl", tmp_path / "again.tl"
    words = ["--features", "x,double", "--derive", "double=2 * z", "--save", model, "-q"]
    assert run(capsys, "stream", table / "first.csv", "-t", "y", *words)[0] == 0
    resumed = ["stream", table / "second.csv", "--resume", model, "--save", again, "-q"]
    for derive, why in (("square=x * x", "has no such column"), ("double=3 * z", "double=2 * z")):
        code, _, err = run(capsys, *resumed, "--derive", derive)
        assert code == 2 and why in err and not again.exists(), err
    assert run(capsys, *resumed, "--derive", "double=2 * z")[0] == 0
    assert run(capsys, *resumed, "--derive", "square=x * x", "--where", "square < 1")[0] == 0
    code, _, err = run(capsys, *resumed, "--weights", "z")
    assert code == 2 and "--weights says z" in err


@pytest.mark.parametrize("resume", [False, True])
def test_a_filter_that_leaves_no_row_is_refused(capsys, table, tmp_path, resume):
    model, again = tmp_path / "m.tl", tmp_path / "again.tl"
    assert run(capsys, "stream", table / "first.csv", "-t", "y", "--features", "x,z", "--save", model, "-q")[0] == 0
    how = ["--resume", model] if resume else ["-t", "y", "--features", "x,z"]
    code, _, err = run(capsys, "stream", table / "second.csv", *how, "--where", "x > 1e9", "--save", again)
    assert code == 3 and "no row" in err and "x > 1e9" in err and not again.exists()


@pytest.mark.parametrize("files", [1, 3])
def test_a_column_that_names_the_rows_is_refused_before_anything_is_learned(capsys, tmp_path, files):
    """Of several small files too; a pipe may be live, and is refused at its end with nothing saved."""
    rows = [f"{k % 7},name{k},{k}\n" for k in range(300)]
    paths = [tmp_path / f"{k}.csv" for k in range(files)]
    for k, path in enumerate(paths):
        path.write_text("x,name,y\n" + "".join(rows[k::files]))
    saved, made = tmp_path / "m.tl", tmp_path / "p.csv"
    for beside in (["--save", saved], ["-p", made], ["-p", "-"]):
        code, out, err = run(capsys, "stream", *paths, "-t", "y", *beside)
        assert code == 3 and "it names the rows" in err and out == ""
    code, out, err = run(capsys, "stream", *paths, "-t", "y", "--json")
    assert code == 3 and len(out.strip().splitlines()) == 1  # the refusal alone
    with open(paths[0], "rb") as pipe:
        import sys
        from unittest import mock

        with mock.patch.object(sys, "stdin", mock.Mock(buffer=pipe, fileno=pipe.fileno)):
            assert run(capsys, "stream", "-", "-t", "y", "--save", saved, "-p", made)[0] == 3
    assert not saved.exists() and not made.exists()
