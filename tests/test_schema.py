"""Schemas: terms, levels and missing values, learned in one pass and kept for prediction."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from encoding import final, scanned, table
from hypothesis import given, settings
from hypothesis import strategies as st

from trueline.data.schema import Schema, encode
from trueline.errors import DataError, TruelineError, UsageError


def test_terms_of_every_kind_of_column():
    data = table()
    encoder, X, y, _ = scanned(data, target="y", weights="w", block_rows=50)
    schema = encoder.schema
    assert schema.terms == ("size", "floor", "city[Oslo]", "city[Rome]", "new", "built")
    assert (y == data["y"].to_numpy()).all()
    made = dict(zip(schema.terms, final(encoder, X).T))
    assert (made["city[Oslo]"] == (data["city"] == "Oslo").to_numpy()).all()
    assert (made["new"] == data["new"].to_numpy()).all()
    assert (made["built"] == data["built"].cast(pl.Int32).to_numpy()).all()
    assert schema.rows == 400 and schema.dropped_rows == 0 and not schema.constant


def test_prediction_sees_what_training_saw():
    data = table()
    encoder, X, _, _ = scanned(data, target="y", features=["built", "city", "size", "new"], block_rows=64)
    schema = Schema.from_dict(json.loads(json.dumps(encoder.schema.to_dict())))
    assert schema == encoder.schema
    shuffled = data.select("new", "y", "size", "floor", "built", "city")  # other order, other columns
    assert (final(encoder, X) == schema.encode(shuffled).X).all()
    rows = shuffled.with_columns(pl.col("built").cast(pl.String)).to_dicts()
    assert (np.array([schema.encode_row(row) for row in rows]) == final(encoder, X)).all()


def test_levels_may_come_late_and_in_any_order():
    data = table()
    parts = [data.filter(pl.col("city") == city) for city in ("Rome", "Oslo", "Bern")]
    encoder, X, _, _ = scanned(parts, target="y", features=["size", "city"])
    assert encoder.terms == ("size", "city[Rome]", "city[Oslo]", "city[Bern]")
    assert encoder.schema.terms == ("size", "city[Oslo]", "city[Rome]")  # the reference is the first in sorted order
    assert (final(encoder, X) == encoder.schema.encode(pl.concat(parts)).X).all()


def test_codes_as_a_category():
    encoder = scanned(table(), target="y", features=["floor"], categories=["floor"])[0]
    assert encoder.schema.terms == tuple(f"floor[{k}]" for k in range(1, 9))
    assert encoder.schema.encode({"floor": [3.0, 0.0]}).X.sum(axis=1).tolist() == [1.0, 0.0]


def gaps(rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    hole = lambda: pl.Series(rng.random(rows) < 0.1)  # noqa: E731
    data = table(rows, 5).select("size", "city", "w", "y")
    return data.with_columns(
        size=pl.when(hole()).then(None).otherwise(pl.col("size")),
        city=pl.when(hole()).then(None).otherwise(pl.col("city")),
    )


def test_missing_values_are_refused_with_count_and_place():
    data = gaps()
    holes = data["size"].is_null()
    with pytest.raises(
        DataError, match=rf"'size' .* {holes.sum()} missing values, the first in row {holes.arg_max() + 1};"
    ):
        scanned(data, target="y")


def test_drop_leaves_complete_rows():
    data = gaps()
    encoder, X, y, _ = scanned(data, target="y", weights="w", missing="drop", block_rows=37)
    whole = data.drop_nulls()
    assert (y == whole["y"].to_numpy()).all() and encoder.schema.dropped_rows == 300 - whole.height
    assert (final(encoder, X)[:, 0] == whole["size"].to_numpy()).all()


@pytest.mark.parametrize("weights", [None, "w"])
def test_mean_is_exact_in_one_pass(weights):
    data = gaps()
    features = ["size", "city"]
    encoder, X, _, _ = scanned(data, target="y", features=features, weights=weights, missing="mean", block_rows=41)
    w = data["w"].to_numpy() if weights else np.ones(data.height)
    known = data["size"].is_not_null().to_numpy()
    mean = np.average(data["size"].to_numpy()[known], weights=w[known])
    made = final(encoder, X)
    assert encoder.schema.terms == ("size", "city[Oslo]", "city[Rome]")
    assert np.allclose(made[:, 0], np.where(known, data["size"].fill_null(0).to_numpy(), mean), rtol=1e-14)
    known = data["city"].is_not_null().to_numpy()
    rome = np.average((data["city"] == "Rome").fill_null(False).to_numpy()[known], weights=w[known])
    assert np.allclose(made[~known, 2], rome, rtol=1e-14)
    assert np.allclose(encoder.schema.encode(data).X, made, rtol=1e-14)  # and prediction puts the same means
    row = encoder.schema.encode_row({"size": None, "city": None})
    assert np.allclose(row, [mean, made[~known, 1][0], rome], rtol=1e-14)


def test_indicator_adds_a_term_where_a_value_was_missing():
    data = gaps()
    encoder, X, _, _ = scanned(data, target="y", features=["size", "city"], missing="indicator", block_rows=41)
    assert encoder.schema.terms == ("size", "size[missing]", "city[Oslo]", "city[Rome]", "city[missing]")
    made = final(encoder, X)
    assert (made[:, 1] == data["size"].is_null().to_numpy()).all()
    assert (made == encoder.schema.encode(data).X).all()
    assert encoder.schema.encode_row({"size": None, "city": "Bern"}).tolist() == [0, 1, 0, 0, 0]


def test_schemas_of_parts_merge_to_that_of_the_whole():
    data = gaps()
    whole = scanned(data, target="y", features=["size", "city"], missing="mean")[0].schema
    parts = [
        scanned(part, target="y", features=["size", "city"], missing="mean")[0].schema
        for part in (data[:100], data[100:])
    ]
    merged = parts[0].merge(parts[1])
    assert merged.terms == whole.terms and merged.rows == whole.rows
    for mine, theirs in zip(merged.columns, whole.columns):
        assert np.allclose(mine.fill, theirs.fill, rtol=1e-13) and mine.missing == theirs.missing
    with pytest.raises(UsageError, match="cannot be merged"):
        parts[0].merge(scanned(data, target="y", features=["city"], missing="mean")[0].schema)


def test_constant_and_duplicate_columns_are_reported():
    data = table().with_columns(one=pl.lit(3.0), same=pl.col("size"), late=pl.Series([0.0] * 399 + [1.0]))
    schema = scanned(data, target="y", block_rows=50)[0].schema
    assert schema.constant == ("one",) and schema.duplicates == (("size", "same"),)


def test_derived_columns_go_along():
    data = table()
    encoder, X, _, _ = scanned(data, target="y", derive={"double": "2 * size"}, where="new", features=["double"])
    assert encoder.schema.where == "new" and len(X) == data["new"].sum()
    assert encoder.schema.encode(data[:5]).X[:, 0].tolist() == (2 * data["size"][:5]).to_list()  # no filter
    assert encoder.schema.encode_row({"size": 4.0}).tolist() == [8.0]
    with pytest.raises(TruelineError, match="size"):
        encoder.schema.encode_row({"sizes": 4.0})


def test_labels_and_arrays():
    encoder, _, y, _ = scanned(table(), target="city", labels=True, features=["size"])
    assert [encoder.target_levels[int(k)] for k in y] == table()["city"].to_list()
    assert encoder.schema.classes == ("Bern", "Oslo", "Rome")
    assert (encoder.schema.encode(np.array([[3.0], [4.0]])).X == [[3.0], [4.0]]).all()
    with pytest.raises(DataError, match="2 columns where the model has 1"):
        encoder.schema.encode(np.ones((1, 2)))


def test_progress_counts_rows():
    seen: list[int] = []
    list(encode(table(), target="y", block_rows=150, progress=seen.append))
    assert seen[-1] == 400 and seen == sorted(seen)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.floats(-1e300, 1e300), st.sampled_from(["a", "b", "ü", ""]), st.one_of(st.none(), st.floats(-5, 5))
        ),
        min_size=2,
        max_size=40,
    ),
    cut=st.integers(1, 39),
)
def test_any_partitioning_gives_the_same_design(rows, cut):
    data = pl.DataFrame(rows, schema={"x": pl.Float64, "c": pl.String, "z": pl.Float64}, orient="row")
    data = data.with_columns(y=pl.Series(np.arange(len(rows), dtype=float)))
    options = {"target": "y", "missing": "mean", "folds": 3}
    try:
        whole, X, _, folds = scanned(data, **options)
    except DataError:
        return
    parts, Z, _, part_folds = scanned([data[: cut % len(rows)], data[cut % len(rows) :]], **options)
    assert whole.schema.terms == parts.schema.terms and (folds == part_folds).all()
    assert np.allclose(final(whole, X), final(parts, Z), rtol=1e-12, atol=1e-12)
