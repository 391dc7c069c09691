"""What the encoder and a schema refuse: one sentence each, naming the column or field and the remedy."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from encoding import scanned, table

from trueline.data.schema import Schema, encode
from trueline.errors import DataError, UsageError


def refusals():
    data = table()
    yield {"target": "price"}, UsageError, "no target column 'price'"
    yield {"target": "Y"}, UsageError, "no target column 'Y'"
    yield {"target": "y", "features": ["sise"]}, UsageError, "no column 'sise'.*did you mean 'size'"
    yield {"target": "y", "features": ["y"]}, UsageError, "cannot be a feature too"
    yield {"target": "city"}, DataError, "target 'city' .* is text"
    yield {"target": "y", "weights": "ww"}, UsageError, "no weights column 'ww'"
    yield {"target": "y", "missing": "median"}, UsageError, "missing is one of"
    yield {"target": "y", "folds": 1}, UsageError, "folds must be"
    yield {"target": "y", "where": "size > 1000"}, DataError, "no row .* is left by where"
    yield {"target": "y", "features": []}, DataError, "no column left"
    changes = {
        "constant": (data.with_columns(y=pl.lit(2.0)), "target 'y' .* is constant"),
        "negative": (data.with_columns(w=pl.Series([1.0] * 7 + [-0.5] + [1.0] * 392)), "weight -0.5 in row 8"),
        "zero": (data.with_columns(w=pl.lit(0.0)), "all weights .* are zero"),
        "infinite": (
            data.with_columns(size=pl.Series([1.0, float("inf")] * 200)),
            "'size' .* 200 infinite values, the first in row 2",
        ),
        "nan": (
            data.with_columns(size=pl.Series([1.0] * 399 + [float("nan")])),
            "'size' .* a missing value in row 400",
        ),
        "target": (data.with_columns(y=pl.Series([None] + [1.0, 2.0, 3.0] * 133)), "'y' .* a missing value in row 1"),
        "words": (
            data.with_columns(size=pl.Series([str(k) for k in range(399)] + ["n.a."])),
            "'size' .* such as 'n.a.'",
        ),
        "nested": (data.with_columns(size=pl.Series([[1.0]] * 400)), "'size' .* has type List"),
    }
    for change, sentence in changes.values():
        yield {"source": change, "target": "y", "weights": "w"}, DataError, sentence
    for policy in ("mean", "indicator"):
        yield (
            {"source": changes["target"][0], "target": "y", "missing": policy},
            DataError,
            "target 'y' is missing in row 1",
        )


@pytest.mark.parametrize("case", refusals(), ids=lambda case: case[2][:30])
def test_refusals(case):
    options, kind, sentence = case
    options = {"source": table()} | options
    with pytest.raises(kind, match=sentence) as caught:
        scanned(options.pop("source"), **options)
    assert "\n" not in caught.value.message and caught.value.where


def test_too_many_levels():
    with pytest.raises(DataError, match="more than 1000 levels"):
        scanned({"id": [f"c{k}" for k in range(1500)], "y": np.arange(1500.0)}, target="y")


@pytest.fixture(scope="module")
def schema() -> Schema:
    return scanned(table(), target="y", features=["size", "city", "new", "built"])[0].schema


ROW = {"size": 1.0, "city": "Rome", "new": True, "built": "2020-02-29"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"size": "big"}, "field 'size' is 'big'; give a number"),
        ({"size": float("nan")}, "field 'size' is nan"),
        ({"size": float("inf")}, "field 'size' is inf"),
        ({"size": None}, "field 'size' is null"),
        ({"size": [1]}, "field 'size'"),
        ({"city": "Roma"}, "'city' holds 'Roma', a level never seen in training; did you mean 'Rome'"),
        ({"city": 3}, "field 'city' is 3; give text"),
        ({"new": 2}, "field 'new' is 2; give true or false"),
        ({"built": "yesterday"}, "field 'built' is 'yesterday'; give a date"),
    ],
)
def test_rows_are_refused_by_field(schema, change, sentence):
    assert schema.encode_row(ROW).tolist() == [1.0, 0.0, 1.0, 1.0, 18321.0]
    with pytest.raises(DataError, match=sentence) as caught:
        schema.encode_row(ROW | change)
    assert caught.value.where in ROW


def test_prediction_refuses_by_name(schema):
    data = table()
    with pytest.raises(DataError, match="lacks column 'size'; did you mean 'sizes'"):
        schema.encode(data.rename({"size": "sizes"}))
    with pytest.raises(DataError, match="field 'size' is missing; did you mean 'sizes'"):
        schema.encode_row({"sizes": 1.0, "city": "Rome", "new": True, "built": "2020-02-29"})
    with pytest.raises(DataError, match=r"'Paris' in row 3 .* never seen"):
        schema.encode(data[:3].with_columns(city=pl.Series(["Rome", "Oslo", "Paris"])))
    with pytest.raises(DataError, match=r"'size' .* is text \('x' in row 1\)"):
        schema.encode(data[:2].with_columns(size=pl.Series(["x", "1"])))
    lenient = Schema.from_dict(schema.to_dict() | {"unseen": "ignore"})
    assert lenient.encode(data[:1].with_columns(city=pl.lit("Paris"))).X[0, 1:3].tolist() == [0.0, 0.0]
    assert lenient.encode_row(ROW | {"city": "Paris"})[1:3].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 1e308 * 10, float("-inf")], ids=["large", "small", "inf", "-inf"]
)
def test_numbers_beyond_float64_are_refused(schema, value):
    with pytest.raises(DataError, match="field 'size'"):
        schema.encode_row(ROW | {"size": value})


@pytest.mark.parametrize(
    ("levels", "rows", "told"),
    [
        (500, 500, "column 'id' of the dictionary of columns has 500 levels .* in 500 rows.*features="),
        (1500, 3000, "column 'id' of the dictionary of columns has more than 1000 levels .*features="),
        (900, 3000, "at most 2000 columns .column 'id' alone makes 900 of them: leave it out .*tl.minimize"),
    ],
)
def test_columns_of_identifiers_are_refused_with_their_remedy(levels, rows, told):
    import trueline as tl

    rng = np.random.default_rng(0)
    table = {"id": [f"u{k % levels:05d}" for k in range(rows)], "x": rng.normal(size=rows), "y": rng.normal(size=rows)}
    if levels == 900:
        table |= {other: [f"{other}{k % 600}" for k in range(rows)] for other in ("a", "b")}
    with pytest.raises(ValueError, match=told):
        tl.scan(table, target="y")
    assert tl.scan(table, target="y", features=["x"]).terms == ("x",)
    few = {"name": ["ann", "bob", "cat", "dan"], "y": [1.0, 2.0, 4.0, 3.0]}
    assert len(tl.scan(few, target="y").terms) == 4


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ({"c": ["a", "b"] * 3, "c[b]": [1.0, 2, 3, 5, 2, 9]}, {}, r"term 'c\[b\]' .* level of column 'c'; rename"),
        ({"c[a]": [1.0, 2, 3, 5, 2, 9], "c": ["a", "b"] * 3}, {}, r"term 'c\[a\]' .* level of column 'c'; rename"),
        ({"a": ["x][y", "z"] * 3, "a[x]": ["y", "z"] * 3}, {}, r"term 'a\[x\]\[y\]' .*'a'.*'a\[x\]'; rename"),
        (
            {"c": ["missing", None, "a"] * 2},
            {"missing": "indicator"},
            r"term 'c\[missing\]' .*the missing values of column 'c'; rename",
        ),
        ({"a": [1.0, None, 3.0] * 2, "a[missing]": [1.0, 2, 3, 5, 2, 9]}, {"missing": "mean"}, r"'a\[missing\]'.*rename"),
        ({"(intercept)": [1.0, 2, 3, 5, 2, 9]}, {}, r"column '\(intercept\)' .* constant term; rename the column"),
    ],
)  # fmt: skip
def test_two_terms_of_one_name_are_refused(columns, options, told):
    import trueline as tl

    data = columns | {"y": [2.0, 3.0, 5.0, 4.0, 2.0, 1.0]}
    with pytest.raises(DataError, match=told):
        list(encode(data, target="y", **options))
    with pytest.raises(DataError, match=told):
        tl.scan(data, target="y", **options)


def test_parts_whose_levels_make_one_term_are_not_merged():
    parts = [
        {"a": ["x][y", "u"], "a[x]": ["u", "v"], "y": [1.0, 2.0]},
        {"a": ["u", "v"], "a[x]": ["y", "u"], "y": [1.0, 2.0]},
    ]
    first, second = (scanned(part, target="y")[0].schema for part in parts)
    with pytest.raises(DataError, match=r"term 'a\[x\]\[y\]' .*; rename"):
        first.merge(second)


@pytest.mark.parametrize("word", ["foo", ".", "5%"])
def test_a_stray_word_among_numbers_is_refused_with_its_row(word):
    few = [str(k % 7) for k in range(200)]  # few levels, so that only the rows can tell
    few[56] = word
    y = list(np.arange(200.0))
    with pytest.raises(DataError, match=rf"column 'x' .* holds '{word.replace('.', '[.]')}' in row 57 where 199 other"):
        list(encode({"x": few, "y": y}, target="y"))
    with pytest.raises(DataError, match=r"target 'x' .* in row 57 where 199 other values are numbers"):
        list(encode({"x": few, "y": y}, target="x", labels=True))
    assert scanned({"x": few, "y": y}, target="y", categories=["x"])[0].schema.columns[0].kind == "category"
    codes = ["4+" if k % 5 == 0 else str(k % 5) for k in range(200)]
    assert len(scanned({"x": codes, "y": y}, target="y")[0].schema.terms) == 4


@pytest.mark.parametrize(("classes", "rows", "refused"), [(101, 900, 1), (100, 900, 0), (30, 59, 1), (20, 20, 0)])
def test_a_target_of_too_many_classes_is_refused(classes, rows, refused):
    data = {"x": np.arange(float(rows)), "y": [f"c{k % classes}" for k in range(rows)]}
    if refused:
        with pytest.raises(
            DataError, match=rf"target 'y' .* {classes} different values .* in {rows} rows.*clean the column"
        ):
            list(encode(data, target="y", labels=True))
    else:
        assert len(scanned(data, target="y", labels=True)[0].target_levels) == classes
