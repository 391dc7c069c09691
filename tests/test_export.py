"""Exports are run where they would be used, and predict what the model predicts to 1e-12 of Σ|w·x|."""

from __future__ import annotations

import shutil
import sqlite3

import numpy as np
import polars as pl
import pytest

from trueline.cli import main
from trueline.cli.models import open_model
from trueline.data.schema import Column, Schema
from trueline.errors import UsageError
from trueline.model.export import TOLERANCE, export
from trueline.model.linear import LinearModel

TARGETS = ("sql", "json", "onnx", "python", "c")


def in_sqlite(query, columns, rows, table="data"):
    """What SQLite makes of a query, a list of dictionaries: of two columns of one name the first, as by its own rule."""
    base = sqlite3.connect(":memory:")
    named = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    base.execute(f'CREATE TABLE "{table}" ({named})')
    base.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})', rows)
    found = base.execute(query)
    return [dict(zip([c[0] for c in found.description][::-1], row[::-1])) for row in found]


def model_of(missing="refuse", link="identity", classes=(), seed=0):
    """Odd names and levels on purpose: quotes, accents, keywords."""
    columns = (
        Column("size", "number", (), (1.5,), 10.0, 2),
        Column("co\"l or'", "category", ("bl'ue", "red", "ünï"), (0.2, 0.3, 0.5), 10.0, 1),
        Column("double", "boolean", (), (0.5,), 10.0, 1),
        Column("2nd column", "number", (), (0.0,), 10.0, 1),
    )
    schema = Schema(columns=columns, target="y", missing=missing)
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=len(schema.terms)) * 10.0 ** rng.integers(-3, 4, len(schema.terms))
    return LinearModel(schema.terms, coef, float(rng.normal()), ("y",), schema, link, classes)


@pytest.mark.parametrize("to", TARGETS)
@pytest.mark.parametrize("missing", ["refuse", "mean", "indicator"])
def test_each_target_agrees_with_the_model(to, missing):
    for link, classes in (("identity", ()), ("logistic", ("no", "yes")), ("log", ())):
        made = export(model_of(missing, link, classes), to)
        if to == "c" and shutil.which("cc") is None and shutil.which("gcc") is None:
            assert made.difference is None and "compiler" in made.note
            continue
        assert made.difference is not None and made.difference <= TOLERANCE and made.rows == 200


def test_a_wrong_export_would_be_noticed(monkeypatch):
    from trueline.errors import ModelError
    from trueline.model import query

    monkeypatch.setattr(query, "number", lambda value: f"{float(value):.9g}")
    with pytest.raises(ModelError, match="predicts differently"):
        export(model_of(), "sql")


def test_several_classes_go_everywhere_with_their_probabilities():
    rng = np.random.default_rng(5)
    model = LinearModel(
        ("a", "b"), rng.normal(size=(3, 2)), rng.normal(size=3), ("y",), None, "softmax", ("u", "v", "w")
    )
    assert all(export(model, to).difference <= TOLERANCE for to in TARGETS)
    several = LinearModel(("a", "b"), rng.normal(size=(2, 2)), rng.normal(size=2), ("y", "z"))
    for to in ("sql", "c"):
        with pytest.raises(UsageError, match="json, python or onnx"):
            export(several, to)
    rows = rng.normal(size=(40, 2)) * 30
    rows[0] = 0.0
    frame = pl.DataFrame({"a": rows[:, 0], "b": rows[:, 1]})
    query = export(model, "sql").text
    chances, labels = model.probabilities(rows), np.asarray(model.predict(rows)).tolist()
    found = in_sqlite(query, ["a", "b"], [*rows.tolist(), (None, 1.0)])
    assert [row["prediction"] for row in found] == [*labels, None]
    wanted = [[row[f"probability {label}"] for label in "uvw"] for row in found[:-1]]
    assert np.allclose(wanted, chances, rtol=1e-12, atol=1e-300)
    polars = pl.SQLContext(data=frame).execute(query, eager=True)
    assert polars["prediction"].to_list() == labels
    assert np.allclose(polars.select("probability u", "probability v", "probability w"), chances, rtol=1e-12)
    same = LinearModel(("a",), np.zeros((3, 1)), np.zeros(3), ("y",), None, "softmax", ("u", "v", "w"))
    tied = pl.SQLContext(data=frame).execute(export(same, "sql").text, eager=True)
    assert set(tied["prediction"]) == {"u"} == set(np.asarray(same.predict(rows[:, :1])).tolist())
    space = {}
    exec(export(model, "python").text, space)
    wanted = model.probabilities(np.array([[0.3, -1.0]]))[0]
    assert np.allclose(space["predict"]({"a": 0.3, "b": -1.0}), wanted, rtol=1e-14)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(8)
    n = 200
    frame = pl.DataFrame(
        {
            "x": rng.random(n) * 9 + 0.5,
            "kind": rng.choice(["it's", "b"], n),
            "ok": rng.random(n) < 0.5,
            "y": rng.normal(size=n),
        }
    )
    frame.write_csv(folder / "t.csv")
    line = ["fit", str(folder / "t.csv"), "--target", "y", "--derive", "root=sqrt(x)", "--where", "x > 1", "-q", "-o"]
    assert main([*line, str(folder / "m.tl")]) == 0
    assert main(["fit", str(folder / "t.csv"), "--target", "y", "-q", "-o", str(folder / "plain.tl")]) == 0
    return folder, frame


def test_the_arithmetic_on_derived_columns_is_checked_too(fitted):
    made = export(open_model(str(fitted[0] / "m.tl")).record, "sql")
    assert made.difference <= TOLERANCE and made.rows > 100 and "the database's" in made.note


def test_derived_columns_and_filters_go_along_into_sql(fitted):
    folder, frame = fitted
    opened = open_model(str(folder / "m.tl"))
    query = export(opened.record, "sql", table="flats").text
    inside = frame.filter(pl.col("x") > 1)
    wanted = np.concatenate([opened.scores(X) for _, X in opened.frames(inside, [])])
    found = pl.SQLContext(flats=frame).execute(query, eager=True)["prediction"].to_numpy()
    assert np.allclose(found, wanted, rtol=1e-12, atol=1e-12)
    rows = in_sqlite(query, frame.columns, frame.rows(), "flats")
    assert np.allclose([row["prediction"] for row in rows], wanted, rtol=1e-12, atol=1e-12)
    for to in ("json", "onnx", "python", "c"):
        with pytest.raises(UsageError, match=r"sqrt\(x\)"):
            export(opened.record, to)


def test_the_command_writes_files_and_says_how_well_they_agree(fitted, tmp_path, capsys):
    folder, _ = fitted
    for to in TARGETS:
        path = tmp_path / f"model.{to}"
        assert main(["export", str(folder / "plain.tl"), "--to", to, "-o", str(path)]) == 0
        assert path.stat().st_size > 50 and "agrees with the model" in capsys.readouterr().err
    assert main(["export", str(folder / "plain.tl"), "--to", "python"]) == 0
    space = {}
    exec(capsys.readouterr().out, space)
    with pytest.raises(ValueError, match="never seen"):
        space["predict"]({"x": 1.0, "kind": "zzz", "ok": True})
    with pytest.raises(ValueError, match="missing"):
        space["predict"]({"x": None, "kind": "b", "ok": True})


@pytest.mark.parametrize("learner", ["gradient", "classes"])
def test_online_learners_are_exported_as_what_they_predict_next(learner, tmp_path):
    rng = np.random.default_rng(3)
    x, kind = rng.normal(size=120), rng.choice(["a", "it's"], 120)
    y = x + (kind == "a") + 0.1 * rng.normal(size=120)
    frame = pl.DataFrame({"x": x, "kind": kind, "y": np.where(y > 0.5, "yes", "no") if learner == "classes" else y})
    frame.write_csv(tmp_path / "t.csv")
    line = ["stream", str(tmp_path / "t.csv"), "--target", "y", "-q", "--save", str(tmp_path / "m.tl")]
    assert main([*line, "--learner", "recursive" if learner == "gradient" else "mixture"]) == 0
    assert main(["export", str(tmp_path / "m.tl")]) == 2  # predicts by more than a sum
    assert main([*line, "--learner", "gradient", "--rate", "0.05"]) == 0
    opened = open_model(str(tmp_path / "m.tl"))
    wanted = np.concatenate([opened.scores(X) for _, X in opened.frames(frame, [])])
    for to in TARGETS:
        assert main(["export", str(tmp_path / "m.tl"), "--to", to, "-o", str(tmp_path / f"m.{to}")]) == 0
    query = (tmp_path / "m.sql").read_text()
    base = sqlite3.connect(":memory:")
    base.create_function("exp", 1, np.exp)
    base.execute("CREATE TABLE data (x, kind, y)")
    base.executemany("INSERT INTO data VALUES (?, ?, ?)", frame.rows())
    column = "probability" if learner == "classes" else "prediction"
    found = [row[0] for row in base.execute(f'SELECT "{column}" FROM ({query})')]
    assert np.allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert np.allclose(pl.SQLContext(data=frame).execute(query, eager=True)[column], wanted, rtol=1e-12, atol=1e-12)


def test_dates_are_numbers_of_days_in_sql(tmp_path):
    import datetime

    rng = np.random.default_rng(4)
    days = rng.integers(0, 20_000, 80)
    frame = pl.DataFrame(
        {
            "when": [datetime.date(1970, 1, 1) + datetime.timedelta(int(d)) for d in days],
            "y": 0.01 * days + rng.normal(size=80),
        }
    )
    frame.write_csv(tmp_path / "t.csv")
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y", "-q", "-o", str(tmp_path / "m.tl")]) == 0
    opened = open_model(str(tmp_path / "m.tl"))
    made = export(opened.record, "sql")
    assert made.difference <= TOLERANCE and "days since 1970-01-01" in made.text
    wanted = np.concatenate([opened.scores(X) for _, X in opened.frames(frame, [])])
    counted = frame.with_columns(pl.col("when").cast(pl.Int32))  # whole numbers: weights must not become decimals
    found = pl.SQLContext(data=counted).execute(made.text, eager=True)["prediction"]
    assert found.dtype == pl.Float64 and np.allclose(found, wanted, rtol=1e-12)
    base = sqlite3.connect(":memory:")
    base.execute('CREATE TABLE data ("when", y)')
    base.executemany("INSERT INTO data SELECT julianday(?) - 2440587.5, ?", [(str(d), v) for d, v in frame.rows()])
    assert np.allclose([row[0] for row in base.execute(made.text)], wanted, rtol=1e-12)


@pytest.fixture(scope="module")
def formulas(tmp_path_factory):
    """A table of awkward columns: whole numbers, dates far from zero, levels with quotes, a boolean."""
    folder = tmp_path_factory.mktemp("formulas")
    rng = np.random.default_rng(11)
    n = 150
    frame = pl.DataFrame(
        {
            "x": rng.normal(40.0, 15.0, n),
            "count": rng.integers(0, 30, n),
            "z": rng.random(n) * 3,
            "kind": rng.choice(["it's", "b", "c"], n),
            "ok": rng.random(n) < 0.5,
            "y": rng.normal(size=n),
        }
    )
    frame.write_parquet(folder / "t.parquet")
    return folder, frame


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ poly(x, 3) + log(z)",
        "y ~ poly(x, 9) + poly(count, 5) + log(count + 1) + ok",
        "y ~ kind * x + poly(count, 2):z + sqrt(z) + square(count) + abs(x) + z:count",
        "y ~ gaussian(x, 4) + sigmoid(z, 3) + exp(z) + sin(x) + log10(z) + log(z + 0.5)",
        "y ~ poly(x, 2) - 1 + kind",
    ],
)
def test_formulas_become_expressions(formulas, formula, tmp_path):
    folder, frame = formulas
    path = str(tmp_path / "m.tl")
    assert main(["fit", str(folder / "t.parquet"), "--formula", formula, "-q", "-o", path]) == 0
    opened = open_model(path)
    (X,) = [X for _, X in opened.frames(frame, [])]
    wanted = opened.scores(X)
    size = np.abs(X) @ np.abs(opened.record.coef) + np.abs(opened.record.intercept)
    made = {to: export(opened.record, to) for to in ("sql", "python", "c")}
    assert all(one.rows == 200 and one.difference <= TOLERANCE for one in made.values() if one.difference is not None)
    assert made["sql"].difference is not None and made["python"].difference is not None
    space = {}
    exec(made["python"].text, space)
    found = {
        "polars": pl.SQLContext(data=frame).execute(made["sql"].text, eager=True)["prediction"].to_numpy(),
        "sqlite": np.array([row["prediction"] for row in in_sqlite(made["sql"].text, frame.columns, frame.rows())]),
        "python": np.array([space["predict"](row) for row in frame.rows(named=True)]),
    }
    for name, values in found.items():
        assert np.max(np.abs(values - wanted) / size) <= TOLERANCE, name
    for to in ("json", "onnx"):
        with pytest.raises(UsageError, match="sql, python or c"):
            export(opened.record, to)


def test_what_is_no_expression_of_one_row_is_named(formulas, tmp_path):
    folder, _ = formulas
    path = str(tmp_path / "m.tl")
    for formula, name in (("y ~ lag(x, 1)", r"lag\(x, 1\)"), ("y ~ spline(x, 5)", r"spline\(x\)\[1\]")):
        assert main(["fit", str(folder / "t.parquet"), "--formula", formula, "-q", "-o", path]) == 0
        for to in ("sql", "python", "c"):
            with pytest.raises(UsageError, match=name):
                export(open_model(path).record, to)
    assert main(["fit", str(folder / "t.parquet"), "--formula", "y ~ x + kind + ok", "-q", "-o", path]) == 0
    for to in TARGETS:  # a list of columns is no obstacle
        assert export(open_model(path).record, to).difference <= TOLERANCE


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_several_classes_in_c_name_their_numbers_and_refuse_what_the_model_refuses(tmp_path):
    import ctypes
    import subprocess

    model = LinearModel(
        ("a",), np.array([[1.0], [0.0], [-1.0]]), np.zeros(3), ("y",), None, "softmax", ("u", "v*/", "w")
    )
    source, library = tmp_path / "m.c", tmp_path / "m.so"
    source.write_bytes(export(model, "c").content)
    assert "0 is u, 1 is v_, 2 is w" in source.read_text()
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
    subprocess.run(["cc", *flags], check=True)
    predict, chances = ctypes.CDLL(str(library)).trueline_predict, (ctypes.c_double * 3)()
    for value, label in ((3.0, 0), (-3.0, 2)):
        assert predict(ctypes.byref(ctypes.c_double(value)), chances) == label
        assert np.allclose(list(chances), model.probabilities(np.array([[value]]))[0], rtol=1e-14)
    assert predict(ctypes.byref(ctypes.c_double(float("nan"))), chances) == -1
