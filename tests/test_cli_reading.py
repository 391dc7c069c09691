"""What the commands read and how they name it: separators, decimal commas, blanks in headers, classes, errors."""

from __future__ import annotations

import io
import json
import math
import sys

import numpy as np
import polars as pl
import pytest

import trueline as tl
from trueline.cli import main
from trueline.data.read import open_source
from trueline.data.refusals import line_with


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 2)).round(4)
    return np.column_stack([X, (X @ [2.0, -1.0] + 0.1 * rng.normal(size=200)).round(4)])


def written(path, rows, separator, mark, head="a;b;y"):
    lines = [separator.join(f"{v:.4f}".replace(".", mark) for v in row) for row in rows]
    path.write_text("\n".join([head.replace(";", separator), *lines]) + "\n")
    return path


@pytest.mark.parametrize(
    "options, separator, mark",
    [
        (["--separator", ";"], ";", "."), (["--separator", "|"], "|", "."), (["--decimal", ","], ";", ","),
        (["--decimal", "comma", "--separator", "tab"], "\t", ","), (["--decimal", "."], ",", "."),
    ],
)  # fmt: skip
def test_every_command_reads_the_same_numbers(capsys, tmp_path, numbers, options, separator, mark):
    plain, other = (
        written(tmp_path / "plain.csv", numbers, ",", "."),
        written(tmp_path / "o.csv", numbers, separator, mark),
    )
    found = {}
    for path, asked in ((plain, []), (other, options)):
        code, out, err = run(capsys, "fit", path, "-t", "y", "--json", "-o", tmp_path / f"{path.stem}.tl", *asked)
        assert code == 0, err
        found[path] = [row["estimate"] for row in json.loads(out)["coefficients"]]
        code, out, err = run(
            capsys, "stream", path, "-t", "y", "--json", "--save", tmp_path / f"{path.stem}.s.tl", *asked
        )
        assert code == 0, err
        found[path].append(json.loads(out.splitlines()[-1])["average_loss"])
        for model in (f"{path.stem}.tl", f"{path.stem}.s.tl"):
            code, out, err = run(capsys, "verify", tmp_path / model, path, *asked)
            assert code == 0, (out, err)
        code, out, err = run(capsys, "predict", tmp_path / f"{path.stem}.tl", path, *asked)
        assert code == 0 and len(out.splitlines()) == 201, err
    assert found[plain] == found[other]


def test_a_pipe_with_decimal_commas(capsys, tmp_path, numbers, monkeypatch):
    text = written(tmp_path / "o.csv", numbers, ";", ",").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    code, out, err = run(capsys, "stream", "-", "-t", "y", "--decimal", ",", "--json")
    assert code == 0 and json.loads(out.splitlines()[-1])["counter"] == 200, err


def test_what_cannot_be_meant_is_refused_in_a_sentence(capsys, tmp_path, numbers):
    path = written(tmp_path / "o.csv", numbers, ";", ",")
    (tmp_path / "t.vw").write_text("1 | a:1\n")
    for asked, code, words in (
        (["fit", path, "-t", "y", "--decimal", "x"], 2, "comma or a point"),
        (["fit", path, "-t", "y", "--decimal", ",", "--separator", ","], 2, "cannot both"),
        (["fit", path, "-t", "y", "--separator", ";"], 3, "--decimal ,"),
        (["stream", tmp_path / "t.vw", "--separator", ";"], 2, "--separator is for tables"),
        (["stream", tmp_path / "t.vw", "--decimal", ","], 2, "--decimal is for tables"),
    ):
        found, _, err = run(capsys, *asked)
        assert found == code and words in err and len(err.strip().splitlines()) == 1, (asked, err)


def test_codes_as_text_are_still_categories():
    zips = [str(10_000 + k % 30) for k in range(600)]
    model = tl.LinearRegression().fit(
        {"zip": [float(z) for z in zips], "y": [float(k % 7) for k in range(600)]}, target="y", categories=["zip"]
    )
    assert len(model.coef_) == 29


def test_blanks_around_names_are_not_part_of_them(capsys, tmp_path, numbers, monkeypatch):
    path = written(tmp_path / "b.csv", numbers, ",", ".", head=" a ; b;y ")
    assert open_source(str(path)).names == ["a", "b", "y"]
    code, out, err = run(capsys, "fit", path, "-t", "y", "--json")
    assert code == 0 and [row["term"] for row in json.loads(out)["coefficients"]] == ["(intercept)", "a", "b"], err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert run(capsys, "stream", "-", "-t", "y", "--features", "a,b", "-q")[0] == 0
    twice = written(tmp_path / "t.csv", numbers, ",", ".", head="a; a;y")
    code, _, err = run(capsys, "fit", twice, "-t", "y")
    assert code == 3 and "names column 'a' twice" in err
    path.write_text(" a , b,y \n1,2,3\n1,x,4\n2,5,6\n")
    assert line_with(str(path), "b", "x") == 3  # a refusal still finds its place


def test_the_cross_validated_error_is_one_number_in_text_and_json(capsys, tmp_path, numbers):
    path = written(tmp_path / "p.csv", numbers, ",", ".")
    text = run(capsys, "fit", path, "-t", "y")[1]
    rows = json.loads(run(capsys, "fit", path, "-t", "y", "--json")[1])["cross_validation"]
    assert f"error {rows[0]['error']:.5g} ± " in " ".join(text.split())
    for row in rows:
        assert math.isclose(row["error"] ** 2, row["mean_squared_error"], rel_tol=1e-12) and row["std_error"] > 0
    assert 0.05 < rows[0]["error"] < 0.2


def test_columns_of_streamed_probabilities_have_the_names_of_the_classes(capsys, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    kinds = np.array(["cold", "warm", "hot, very"])[np.digitize(x + 0.3 * rng.normal(size=300), [-0.5, 0.5])]
    pl.DataFrame({"x": x, "kind": kinds}).write_csv(tmp_path / "k.csv")
    made = tmp_path / "p.csv"
    assert run(capsys, "stream", tmp_path / "k.csv", "-t", "kind", "-p", made, "-q")[0] == 0
    frame = pl.read_csv(made)
    assert frame.columns == ["probability cold", "probability hot, very", "probability warm"]
    assert frame.height == 300 and np.allclose(frame.to_numpy().sum(axis=1), 1.0)
    told = np.array([name.removeprefix("probability ") for name in frame.columns])[frame.to_numpy().argmax(axis=1)]
    assert (told == kinds)[100:].mean() > 0.7


def test_several_separable_classes_are_called_so(capsys, tmp_path):
    x = np.random.default_rng(0).normal(size=(300, 2))
    kinds = np.array(["a", "b", "c"])[np.digitize(x[:, 0], [-0.5, 0.5])]
    pl.DataFrame({"x": x[:, 0], "z": x[:, 1], "k": kinds}).write_csv(tmp_path / "s.csv")
    code, out, _ = run(capsys, "fit", tmp_path / "s.csv", "-t", "k", "-o", tmp_path / "m.tl")
    assert code == 0 and "degenerate" in out and "the classes are separable" in " ".join(out.split())
    assert run(capsys, "verify", tmp_path / "m.tl", tmp_path / "s.csv")[0] == 0
    mixed = np.roll(kinds, 1)
    pl.DataFrame({"x": x[:, 0], "z": x[:, 1], "k": mixed}).write_csv(tmp_path / "n.csv")
    assert "separable" not in run(capsys, "fit", tmp_path / "n.csv", "-t", "k")[1]


@pytest.mark.parametrize("colour", [False, True])
def test_the_overview_fits_80_columns(capsys, monkeypatch, colour):
    import re

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if colour:
        monkeypatch.setenv("FORCE_COLOR", "1")
    code, out, _ = run(capsys, "--help")
    assert code == 0 and max(len(re.sub(r"\033\[[0-9;]*m", "", line)) for line in out.splitlines()) <= 80


def test_levels_never_seen_are_refused_or_taken_as_the_reference_on_request(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    town = np.array(["Aachen", "Bonn"])[np.arange(60) % 2]
    pl.DataFrame({"x": x, "town": town, "y": x + (town == "Bonn")}).write_csv(tmp_path / "d.csv")
    pl.DataFrame({"x": [0.0, 0.0, 0.0], "town": ["Bonn", "Celle", "Aachen"], "y": [1.0, 0.0, 0.0]}).write_csv(
        tmp_path / "new.csv"
    )
    model, new = str(tmp_path / "m.tl"), str(tmp_path / "new.csv")
    assert main(["fit", str(tmp_path / "d.csv"), "-t", "y", "-q", "-o", model]) == 0
    assert main(["predict", model, new]) == 3
    said = capsys.readouterr().err
    assert "'Celle'" in said and "--unseen ignore" in said and 'unseen="' not in said
    assert main(["predict", model, new, "--unseen", "ignore"]) == 0
    found = list(map(float, capsys.readouterr().out.split()[1:]))
    assert np.allclose(found, [1.0, 0.0, 0.0], atol=1e-9)
    assert main(["evaluate", model, new, "--unseen", "ignore"]) == 0
    assert main(["predict", model, new, "--unseen", "guess"]) == 2
    assert "refuse or ignore" in capsys.readouterr().err


def test_remedies_are_told_as_options(tmp_path, capsys):
    (tmp_path / "gap.csv").write_text("x,y\n1,2\n,3\n4,5\n6,8\n")
    assert main(["fit", str(tmp_path / "gap.csv"), "-t", "y"]) == 3
    said = capsys.readouterr().err
    assert "--missing drop, mean or indicator" in said and "missing=" not in said


def test_blanks_around_names_do_not_part_a_model_from_its_data(tmp_path, capsys, monkeypatch):
    """Headers of text are read without the blanks around names, those of other files with them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({" lead": rng.normal(size=60), "b ": rng.normal(size=60)})
    frame = frame.with_columns((frame[" lead"] + 2 * frame["b "] + 0.1 * pl.Series(rng.normal(size=60))).alias(" y"))
    frame.write_csv("d.csv")
    frame.write_parquet("d.parquet")
    found = {}
    for kind, target in (("csv", "y"), ("parquet", " y")):
        assert main(["fit", f"d.{kind}", "-t", target, "-q", "-o", f"{kind}.tl"]) == 0
        assert main(["stream", f"d.{kind}", "-t", target, "-q", "--save", f"{kind}s.tl"]) == 0
        for other in ("csv", "parquet"):
            for model in (f"{kind}.tl", f"{kind}s.tl"):
                assert main(["predict", model, f"d.{other}"]) == 0
                found.setdefault(model.removeprefix(kind), set()).add(capsys.readouterr().out)
                assert main(["evaluate", model, f"d.{other}"]) == 0
                assert main(["verify", model, f"d.{other}", "--json"]) == 0
                capsys.readouterr()
            assert main(["stream", f"d.{other}", "--resume", f"{kind}s.tl", "-q"]) == 0
    assert all(len(texts) == 1 for texts in found.values())
    frame.rename({" lead": "leader"}).write_csv("other.csv")
    assert main(["predict", "parquet.tl", "other.csv"]) == 3
    assert "lacks column ' lead'" in capsys.readouterr().err


def test_derived_columns_keep_their_order_in_a_model_file(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i},{3 * i + i % 2}\n" for i in range(20)))
    line = ["fit", str(tmp_path / "t.csv"), "--target", "y", "-q", "-o", str(tmp_path / "m.tl")]
    assert main([*line, "--derive", "x=2.0*x", "--derive", "a=x*x"]) == 0  # a is made of the new x
    assert main(["evaluate", str(tmp_path / "m.tl"), str(tmp_path / "t.csv"), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert metrics[0]["value"] < 0.6, metrics[0]  # the root mean squared error
    assert main([*line, "--derive", "z=x+1", "--derive", "b=z*z"]) == 0
    assert main(["predict", str(tmp_path / "m.tl"), str(tmp_path / "t.csv")]) == 0


@pytest.mark.parametrize("ending", ["csv", "txt", "tsv", "-"])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_files_and_pipes_guess_the_same_separator_and_say_so(capsys, tmp_path, numbers, monkeypatch, separator, ending):
    path = written(tmp_path / f"o.{ending.replace('-', 'csv')}", numbers, separator, ".")
    plain = written(tmp_path / "plain.csv", numbers, ",", ".", head="a,b,y")
    usual = ending == "tsv" and separator == "\t"
    sentence = {";": "separated by semicolons", "\t": "separated by tabs"}[separator]

    def source():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        return "-" if ending == "-" else path

    for command in ("fit", "compare", "stream"):
        found, other = (
            json.loads(run(capsys, command, one, "-t", "y", "--json")[1].splitlines()[-1]) for one in (source(), plain)
        )
        assert sum(sentence in note for note in found["notes"]) == (not usual)
        assert not any("separated" in note for note in other["notes"])
        if command == "fit":
            assert found["coefficients"] == other["coefficients"]
    assert run(capsys, "fit", plain, "-t", "y", "-o", tmp_path / "m.tl", "-q")[0] == 0
    for command in ("predict", "evaluate"):
        code, out, err = run(capsys, command, tmp_path / "m.tl", source())
        assert code == 0 and (sentence in err) == (not usual)
        assert out == run(capsys, command, tmp_path / "m.tl", plain)[1]


def test_a_bar_is_not_guessed(capsys, tmp_path, numbers):
    path = written(tmp_path / "o.csv", numbers, "|", ".")
    code, _, err = run(capsys, "fit", path, "-t", "y")
    assert code == 3 and "--separator '|'" in err


@pytest.mark.parametrize("command", ["fit", "compare", "stream"])
@pytest.mark.parametrize("where", ["few values", "many values", "the target"])
def test_decimal_commas_never_become_levels(capsys, tmp_path, command, where):
    few = [f"{k % 4},{5 * (k % 2)}" for k in range(60)]
    many = [f"{k},{k % 10}" for k in range(60)]
    columns = {"few values": (few, range(60)), "many values": (many, range(60)), "the target": (range(60), few)}[where]
    path = tmp_path / "t.csv"
    path.write_text("x;y\n" + "".join(f"{x};{y}\n" for x, y in zip(*columns)))
    code, _, err = run(capsys, command, path, "-t", "y")
    assert code == 3 and "holds numbers with commas" in err and "--decimal ," in err, err
    assert run(capsys, command, path, "-t", "y", "--decimal", ",")[0] == 0


def test_decimal_commas_in_python(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;y\n" + "".join(f"{k % 7},5;{k},25\n" for k in range(40)))
    with pytest.raises(tl.DataError, match="decimal=','"):
        tl.scan(path, target="y")
    plain = tl.scan({"x": [k % 7 + 0.5 for k in range(40)], "y": [k + 0.25 for k in range(40)]}, target="y")
    np.testing.assert_array_equal(tl.scan(path, target="y", decimal=",").total.mean[0], plain.total.mean[0])
    codes = {"x": [f"{k % 4},{k % 4}" for k in range(40)], "y": list(range(40))}
    with pytest.raises(tl.DataError, match="categories="):
        tl.scan(codes, target="y")
    assert len(tl.scan(codes, target="y", categories=["x"]).schema.terms) == 3


@pytest.mark.parametrize("command", ["predict", "evaluate", "stream"])
def test_new_rows_with_decimal_commas_name_the_option(capsys, tmp_path, numbers, command):
    here, there = written(tmp_path / "a.csv", numbers, ",", "."), written(tmp_path / "b.csv", numbers, ";", ",")
    model = tmp_path / "m.tl"
    run(capsys, "stream", here, "-t", "y", "-q", "--save", model)
    line = [command, there, "--resume", model, "-q"] if command == "stream" else [command, model, there]
    code, _, said = run(capsys, *line)
    assert code == 3 and "--decimal ," in said
    if command != "stream":  # a resumed stream reads as it began
        assert run(capsys, *line, "--decimal", ",")[0] == 0
