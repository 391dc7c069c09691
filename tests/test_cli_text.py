"""Sparse text on the command line: learned, predicted, evaluated, and lines without a label."""

from __future__ import annotations

import json

import numpy as np
import pytest

from trueline.cli import main


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3)).round(3)
    return X, np.where(X @ [1.0, -2.0, 0.5] > 0, 1, -1)


def vw(X, y, labelled):
    return "".join(
        f"{f'{t} ' if known else ''}|n a:{a!r} b:{b!r} c:{c!r}\n"
        for t, (a, b, c), known in zip(y.tolist(), X.tolist(), labelled)
    )


def svm(X, y):
    return "".join(f"{t} 1:{a!r} 2:{b!r} 3:{c!r}\n" for t, (a, b, c) in zip(y.tolist(), X.tolist()))


def run(capsys, *words):
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_models_of_sparse_text_predict_and_evaluate(capsys, tmp_path, rows):
    X, y = rows
    for name, text, unlabelled in (("a.vw", vw(X, y, X[:, 0] < 9), vw(X, y, X[:, 0] > 9)), ("a.svm", svm(X, y), None)):
        (tmp_path / name).write_text(text)
        model = tmp_path / f"{name}.tl"
        assert run(capsys, "stream", tmp_path / name, "--save", model, "-q")[0] == 0
        code, out, _ = run(capsys, "predict", model, tmp_path / name)
        lines = out.splitlines()
        assert code == 0 and lines[0] == "prediction,probability" and len(lines) == 301
        right = np.mean([int(line.partition(",")[0]) == t for line, t in zip(lines[1:], y)])
        code, out, _ = run(capsys, "evaluate", model, tmp_path / name, "--json")
        found = json.loads(out)
        measures = {m["name"]: m["value"] for m in found["metrics"]}
        assert code == 0 and found["n"] == 300 and measures["accuracy"] == pytest.approx(right) and right > 0.9
        if unlabelled:  # the same predictions without labels, by predict and by a resumed stream that learns nothing
            (tmp_path / "u.vw").write_text(unlabelled)
            assert run(capsys, "predict", model, tmp_path / "u.vw")[1].splitlines() == lines
            code, out, _ = run(capsys, "stream", tmp_path / "u.vw", "--resume", model, "-p", "-", "-q")
            shares = np.array([float(line) for line in out.split()])
            assert code == 0 and np.allclose(shares, [float(line.partition(",")[2]) for line in lines[1:]], rtol=1e-12)


def test_every_line_of_a_stream_is_predicted_in_its_turn(capsys, tmp_path, rows):
    """Labelled or not, one line out for a line in; what is learned is what the labelled lines alone would teach."""
    X, y = rows
    labelled = np.random.default_rng(5).random(300) < 0.5
    labelled[:20] = False  # before the first label there is nothing but a fresh learner
    (tmp_path / "mixed.vw").write_text(vw(X, y, labelled))
    (tmp_path / "learned.vw").write_text(vw(X[labelled], y[labelled], labelled[labelled]))
    for learner in ("mixture", "perceptron", "gradient"):
        asked = ("--learner", learner, "-q", "-p")
        options = ("--loss", "logistic") if learner == "gradient" else ()
        code, out, err = run(
            capsys, "stream", tmp_path / "mixed.vw", *asked, "-", *options, "--save", tmp_path / "m.tl"
        )
        assert code == 0, err
        all_lines = np.array([float(line) for line in out.split()])
        _, out, _ = run(capsys, "stream", tmp_path / "learned.vw", *asked, "-", *options, "--save", tmp_path / "l.tl")
        assert len(all_lines) == 300
        assert np.allclose(all_lines[labelled], [float(line) for line in out.split()], rtol=1e-12, atol=1e-15)
        one, two = (run(capsys, "predict", tmp_path / name, tmp_path / "mixed.vw")[1] for name in ("m.tl", "l.tl"))
        assert one == two
        code, out, _ = run(capsys, "evaluate", tmp_path / "m.tl", tmp_path / "mixed.vw", "--json")
        assert (
            code == 0
            and json.loads(out)["n"] == labelled.sum()
            and json.loads(out)["dropped_rows"] == (~labelled).sum()
        )
        code, out, err = run(capsys, "verify", tmp_path / "m.tl", tmp_path / "mixed.vw")
        assert code == 0, (learner, out, err)


def test_a_file_without_any_label_is_refused_with_the_reason(capsys, tmp_path):
    (tmp_path / "a.vw").write_text("1|n a\n-1|n b\n")
    code, _, err = run(capsys, "stream", tmp_path / "a.vw")
    assert code == 3 and "has a label" in err and "write '1 |'" in err


@pytest.mark.parametrize("command", ["stream", "fit", "compare"])
def test_sparse_text_under_another_name_is_pointed_out(capsys, tmp_path, command):
    (tmp_path / "a.dat").write_text("1 |n a:1\n-1 |n b:2\n")
    (tmp_path / "b.txt").write_text("1 1:0.5 7:2\n-1 3:1\n")
    for name, form in (("a.dat", "vw"), ("b.txt", "svmlight")):
        for target in (("-t", "y"), ()) if command == "stream" else (("-t", "y"),):
            code, _, err = run(capsys, command, tmp_path / name, *target)
            assert code == 2 and f"--format {form}" in err, err


def test_options_of_tables_are_refused_for_sparse_text(capsys, tmp_path, rows):
    (tmp_path / "a.vw").write_text(vw(*rows, rows[1] < 9))
    model = tmp_path / "m.tl"
    assert run(capsys, "stream", tmp_path / "a.vw", "--save", model, "-q")[0] == 0
    for command, *words in (
        ("predict", "--where", "a > 1"), ("predict", "--missing", "drop"), ("evaluate", "--where", "a > 1"),
        ("evaluate", "--target", "a"), ("evaluate", "--weights", "a"), ("predict", "--separator", ";"), ("predict", "--keep", "a"),
    ):  # fmt: skip
        code, _, err = run(capsys, command, model, tmp_path / "a.vw", *words)
        assert code == 2, (command, words, err)
