"""A model's query is never wrong without a word: a table that lacks a column, or has one of ours, in every database here."""

from __future__ import annotations

import sqlite3

import numpy as np
import polars as pl
import pytest

from trueline.cli import main
from trueline.cli.models import open_model
from trueline.data.schema import Column, Schema
from trueline.model.export import TOLERANCE, export
from trueline.model.linear import LinearModel
from trueline.model.plan import Input, Plan
from trueline.model.query import write_sql


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def sqlite(query, frame):
    base = sqlite3.connect(":memory:")
    base.execute(f"CREATE TABLE data ({', '.join(map(quoted, frame.columns))})")
    base.executemany(f"INSERT INTO data VALUES ({', '.join('?' * frame.width)})", frame.rows())
    return [row[0] for row in base.execute(f'SELECT "prediction" FROM ({query})')]


def duckdb(query, frame):
    base = pytest.importorskip("duckdb", reason="pip install duckdb runs this test").connect()
    kinds = {pl.Float64: "DOUBLE", pl.Int64: "BIGINT", pl.Boolean: "BOOLEAN", pl.String: "VARCHAR"}
    base.execute(f"CREATE TABLE data ({', '.join(f'{quoted(n)} {kinds[t]}' for n, t in frame.schema.items())})")
    base.executemany(f"INSERT INTO data VALUES ({', '.join('?' * frame.width)})", frame.rows())
    return [row[0] for row in base.execute(f'SELECT "prediction" FROM ({query})').fetchall()]


def polars(query, frame):
    return pl.SQLContext(data=frame).execute(query, eager=True)["prediction"].to_list()


BASES = {"sqlite": sqlite, "duckdb": duckdb, "polars": polars}
each_base = pytest.mark.parametrize("base", BASES)

SCHEMA = Schema(
    columns=(
        Column("size", "number", (), (1.5,), 10.0, 2),
        Column("kind", "category", ("a", "b"), (0.5, 0.5), 10.0, 1),
        Column("ok", "boolean", (), (0.5,), 10.0, 1),
    ),
    target="y",
    missing="indicator",
)
FRAME = pl.DataFrame({"size": [1.0, -2.5, None, 4.0], "kind": ["a", "b", "a", None], "ok": [True, False, None, True]})
LINKS = {
    "identity": ((), 1),
    "logistic": (("no", "yes"), 1),
    "sign": (("no", "yes"), 1),
    "log": ((), 1),
    "softmax": (("u", "v", "w"), 3),
}


def model_of(link):
    classes, outputs = LINKS[link]
    coef = np.random.default_rng(3).normal(size=(outputs, len(SCHEMA.terms)))
    intercept = np.arange(outputs) / 7
    if outputs == 1:
        coef, intercept = coef[0], 0.25
    return LinearModel(SCHEMA.terms, coef, intercept, ("y",), SCHEMA, link, classes)


def predicted(model):
    found = model.predict(SCHEMA.encode({name: FRAME[name].to_list() for name in FRAME.columns}).X)
    return np.asarray(found).tolist()


def clipped():
    """Two members within ends, as online learners are exported."""
    inputs = (Input("a", "number", np.array([[1.0], [-2.0]])), Input("b b", "number", np.array([[0.5], [3.0]])))
    return Plan("y", inputs, np.array([0.1, 0.2]), np.array([0.25, 0.75]), -1.0, 1.0)


def agree(found, wanted):
    if isinstance(wanted[0], float):
        return np.allclose(found, wanted, rtol=1e-12)
    return found == wanted


@each_base
@pytest.mark.parametrize("link", LINKS)
def test_a_table_that_lacks_a_column_is_refused(base, link):
    model, run = model_of(link), BASES[base]
    query = export(model, "sql").text
    assert agree(run(query, FRAME), predicted(model))
    for name in FRAME.columns:
        for other in (FRAME.drop(name), FRAME.rename({name: f" {name}"}), FRAME.rename({name: f"{name}_"})):
            with pytest.raises(Exception, match=name):
                run(query, other)


@each_base
@pytest.mark.parametrize("link", LINKS)
def test_a_tables_own_score_or_prediction_is_not_taken_for_ours(base, link):
    model, run = model_of(link), BASES[base]
    query = export(model, "sql").text
    for name in ("score", "prediction", "probability", "member_0", "t", "data", "score u", "probability v"):
        there = FRAME.with_columns(pl.lit(99.0).alias(name))
        for table in (there, there.select(name, *FRAME.columns)):
            try:
                found = run(query, table)
            except Exception as error:  # Polars refuses two columns of one name
                assert base == "polars" and f"'{name}' is duplicated" in str(error)
                continue
            assert agree(found, predicted(model)), name


@each_base
def test_members_within_ends(base):
    query, run = write_sql(clipped(), "data").decode(), BASES[base]
    frame = pl.DataFrame({"a": [0.3, -4.0, 0.0], "b b": [0.1, 2.0, 0.0]})
    rows = [{name: row[name] for name in frame.columns} for row in frame.rows(named=True)]
    wanted = clipped().scores(rows)[0][:, 0].tolist()
    assert agree(run(query, frame), wanted)
    with pytest.raises(Exception, match="b b"):
        run(query, frame.rename({"b b": "b  b"}))
    if base != "polars":
        assert agree(run(query, frame.with_columns(member_0=pl.lit(5.0), member_1=pl.lit(5.0))), wanted)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sql")
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({"x": rng.random(60) + 0.5, "two words": rng.random(60) + 0.5, "y": rng.normal(size=60)})
    frame.write_parquet(folder / "t.parquet")
    return folder, frame


@each_base
@pytest.mark.parametrize(
    "options",
    [
        ["--derive", 'root=sqrt("two words")'],
        ["--derive", "root=sqrt(x)", "--derive", 'then="root" * 2.0 + "two words"'],  # one made of another
        ["--derive", "x=ln(x)"],  # a column made anew
        ["--derive", 'x=ln("x")', "--where", '"x" > -0.3'],  # the filter sees the new one
        ["--where", '"two words" > 0.7'],
        ["--where", "\"two words\" > 0.7 AND 'a\"b' <> 'two words'"],
        ["--features", "x", "--where", '"two words" > 0.7'],  # of a column that the sum does not have
    ],
)
def test_names_in_the_users_own_expressions_are_refused_too(table, tmp_path, base, options):
    folder, frame = table
    path, run = str(tmp_path / "m.tl"), BASES[base]
    assert main(["fit", str(folder / "t.parquet"), "--target", "y", "-q", "-o", path, *options]) == 0
    opened = open_model(path)
    query = export(opened.record, "sql").text
    text = " ".join(options)
    inside = frame
    if "--where" in options:
        inside = frame.filter(pl.col("x").log() > -0.3 if "derive" in text else pl.col("two words") > 0.7)
    wanted = np.concatenate([opened.scores(X) for _, X in opened.frames(inside, [])]).tolist()
    assert agree(run(query, frame), wanted)
    with pytest.raises(Exception, match=r"two words|x"):
        run(query, frame.drop("two words" if "two words" in text else "x"))


def test_a_text_is_no_truth_value_and_no_score_no_class():
    for link, none in (("identity", None), ("logistic", None)):
        query = export(model_of(link), "sql").text
        text = FRAME.select("size", "kind", ok=pl.lit("true"))
        assert sqlite(query, text) == [none] * 4
        assert sqlite(query, FRAME.select("size", "ok", kind=pl.lit("never seen"))) == [none] * 4


def test_more_terms_than_an_expression_of_sqlite_is_deep():
    rng = np.random.default_rng(5)
    names = tuple(f"x{j}" for j in range(1500))
    made = export(LinearModel(names, rng.normal(size=1500), 0.5, ("y",)), "sql")
    assert made.difference is not None and made.difference <= TOLERANCE
