"""``trueline verify``: exit codes and one clear sentence, whatever file or rows it is given; nothing is cut on the screen."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from commands import run

from trueline import modelfile

FITS = {
    "linear": ["fit", "-t", "price"],
    "lasso": ["fit", "-t", "price", "--penalty", "lasso", "--alpha", 0.05],
    "logistic": ["fit", "-t", "dear"],
    "stream": ["stream", "-t", "price"],
}
COLUMNS = "size,a_rather_long_name,colour"


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    size, other = rng.normal(size=(2, 90))
    colour = np.array(["red", "green", "blue"])[rng.integers(0, 3, 90)]
    price = size + 2.0 * other + (colour == "red") + 0.7 * rng.normal(size=90)
    return pl.DataFrame(
        {"size": size, "a_rather_long_name": other, "colour": colour, "price": price, "dear": price > 0.0}
    )


@pytest.fixture
def fitted(capsys, table, tmp_path):
    """A maker of models: the path of the file of one kind, fitted to t.csv."""
    table.write_csv(tmp_path / "t.csv")

    def make(kind):
        command, *asked = FITS[kind]
        path = tmp_path / f"{kind}.tl"
        into = "--save" if command == "stream" else "-o"
        code, _, err = run(capsys, command, tmp_path / "t.csv", *asked, "--features", COLUMNS, into, path, "-q")
        assert code == 0, err
        return path

    return make


@pytest.mark.parametrize("kind", FITS)
def test_rows_of_every_format_hold_and_other_rows_do_not(capsys, table, fitted, tmp_path, kind):
    path = fitted(kind)
    table.write_parquet(tmp_path / "t.parquet")
    table.write_ipc(tmp_path / "t.arrow")
    table.write_ndjson(tmp_path / "t.ndjson")
    for ending in ("csv", "parquet", "arrow", "ndjson"):
        assert run(capsys, "verify", path, tmp_path / f"t.{ending}")[0] == 0, ending
    table.reverse().write_csv(tmp_path / "reversed.csv")
    code, out, _ = run(capsys, "verify", path, tmp_path / "reversed.csv")
    assert code == (4 if kind == "stream" else 0)  # only a learner of one row at a time has met them in an order
    table.head(60).write_csv(tmp_path / "fewer.csv")
    table.with_columns(pl.col("size") + 0.1 * pl.col("price")).write_csv(tmp_path / "others.csv")
    for name in ("fewer", "others"):
        code, out, _ = run(capsys, "verify", path, tmp_path / f"{name}.csv")
        assert code == 4 and "FAILS" in out, name


@pytest.mark.parametrize("kind", FITS)
def test_a_forged_file_ends_with_four(capsys, fitted, tmp_path, kind):
    made, arrays, meta = modelfile.read(fitted(kind))
    name = "coef" if "coef" in arrays else max(arrays, key=lambda key: arrays[key].size)
    modelfile.write(tmp_path / "forged.tl", made, arrays | {name: arrays[name] * 1.01 + 1e-3}, meta)
    code, out, err = run(capsys, "verify", tmp_path / "forged.tl", tmp_path / "t.csv")
    assert code == 4 and ("FAILS" in out or "forged.tl" in err)


def put(meta, path, value):
    *way, last = path
    for key in way:
        meta = meta[key]
    meta[last] = value


CRAFTED = [
    (("terms", 0), None),
    (("schema", "weights"), 1.0),
    (("schema", "unseen"), "never"),
    (("schema", "missing"), None),
    (("schema", "where"), True),
    (("schema", "columns", 0, "name"), None),
    (("schema", "columns", 1, "name"), "size"),
    (("schema", "columns", 2, "levels"), [1, 2]),
    (("schema", "columns", 0, "fill"), [float("inf")]),
    (("schema", "derive"), [["a", None]]),
    (("schema", "intercept"), "yes"),
    (("schema", "rows"), -1),
    (("schema", "formula"), "y ~ x"),
    (("schema", "formula"), {"products": [[{"kind": "column", "column": None}]]}),
]


@pytest.mark.parametrize(("path", "value"), CRAFTED, ids=lambda one: str(one)[:60])
def test_a_schema_that_cannot_be_is_refused_in_a_sentence(capsys, fitted, tmp_path, path, value):
    made, arrays, meta = modelfile.read(fitted("linear"))
    put(meta, path, value)
    modelfile.write(tmp_path / "crafted.tl", made, arrays, meta)
    for command in ("verify", "predict", "inspect"):
        data = [] if command == "inspect" else [tmp_path / "t.csv"]
        code, _, err = run(capsys, command, tmp_path / "crafted.tl", *data)
        assert code == 4 and "unexpected" not in err, command


@pytest.mark.parametrize("constant", [None, float("inf")])
def test_constants_of_a_basis_are_finite_numbers(capsys, fitted, tmp_path, constant):
    fitted("linear")
    formula = ["--formula", "price ~ spline(size, 4)", "-o", tmp_path / "m.tl", "-q"]
    assert run(capsys, "fit", tmp_path / "t.csv", *formula)[0] == 0
    made, arrays, meta = modelfile.read(tmp_path / "m.tl")
    put(meta, ("schema", "formula", "products", 0, 0, "knots", 0), constant)
    modelfile.write(tmp_path / "m.tl", made, arrays, meta)
    assert run(capsys, "verify", tmp_path / "m.tl", tmp_path / "t.csv")[0] == 4


def test_levels_of_a_stream_that_are_not_its_own_are_refused(capsys, fitted, tmp_path):
    path = fitted("stream")
    made, arrays, meta = modelfile.read(path)
    place = next(k for k, column in enumerate(meta["schema"]["columns"]) if column["kind"] == "category")
    put(meta, ("schema", "columns", place, "levels"), meta["schema"]["columns"][place]["levels"][::-1])
    modelfile.write(path, made, arrays, meta)
    code, out, _ = run(capsys, "verify", path, tmp_path / "t.csv")
    assert code == 4 and "schema" in out


@pytest.mark.parametrize("epochs", [10**9, "many"])
def test_epochs_that_nobody_learned_end_at_once(capsys, fitted, tmp_path, epochs):
    path = fitted("stream")
    made, arrays, meta = modelfile.read(path)
    modelfile.write(path, made, arrays, meta | {"epochs": epochs})
    assert run(capsys, "verify", path, tmp_path / "t.csv")[0] == 4


def test_what_is_no_model_or_no_table_gets_one_sentence(capsys, table, fitted, tmp_path):
    path = fitted("linear")
    (tmp_path / "text.tl").write_text("not a model\n")
    table.drop("size").write_csv(tmp_path / "narrow.csv")
    table.head(0).write_csv(tmp_path / "empty.csv")
    for model, rows, word in (
        ("text.tl", "t.csv", "text.tl"), ("none.tl", "t.csv", "none.tl"), (path.name, "narrow.csv", "size"),
        (path.name, "empty.csv", "row"), (path.name, "none.csv", "none.csv"),
    ):  # fmt: skip
        code, out, err = run(capsys, "verify", tmp_path / model, tmp_path / rows)
        assert code in (2, 3, 4) and not out, (model, rows, code)
        assert word in err and len(err.strip().splitlines()) == 1 and "Traceback" not in err, err


@pytest.mark.parametrize("kind", FITS)
def test_no_line_is_cut_or_too_long(capsys, fitted, tmp_path, monkeypatch, kind):
    path = fitted(kind)
    for columns in (80, 40):
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, _ = run(capsys, "verify", path, tmp_path / "t.csv")
        claims = out.splitlines()[:-1]  # the last names the file, as it was given
        assert code == 0 and "…" not in out and max(map(len, claims)) <= columns, out
