"""Schemas: terms, levels, missing values, folds and refusals, learned in one pass and kept for prediction."""

from __future__ import annotations

import datetime
import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueline.data.schema import Schema, encode
from trueline.errors import DataError, TruelineError, UsageError


def table(rows: int = 400, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "size": rng.normal(50, 10, rows),
            "floor": rng.integers(0, 9, rows),
            "city": rng.choice(["Rome", "Bern", "Oslo"], rows),
            "new": rng.random(rows) < 0.5,
            "built": [datetime.date(1970, 1, 1) + datetime.timedelta(days=int(k)) for k in rng.integers(0, 9999, rows)],
            "w": rng.random(rows) + 0.1,
            "y": rng.normal(size=rows),
        }
    )


def scanned(source, **options):
    """(encoder, the whole scan's design with late terms padded by zeros, y, folds)"""
    encoder = encode(source, **options)
    blocks = list(encoder)
    width = len(encoder.terms)
    assert all(block.terms == encoder.terms[: len(block.terms)] for block in blocks)
    assert all(block.X.flags.c_contiguous and block.X.dtype == np.float64 for block in blocks)
    X = np.concatenate([np.pad(block.X, ((0, 0), (0, width - block.X.shape[1]))) for block in blocks])
    y = np.concatenate([block.y for block in blocks]) if blocks[0].y is not None else None
    folds = np.concatenate([block.folds for block in blocks]) if blocks[0].folds is not None else None
    return encoder, X, y, folds


def final(encoder, X: np.ndarray) -> np.ndarray:
    """The final design from the scan's, as ``from_scan`` says."""
    places, fills = encoder.schema.from_scan(encoder.terms)
    made = X[:, places].copy()
    for k, indicator, mean in fills:
        made[:, k] += mean * X[:, indicator]
    return made


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


# ---- missing values


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


# ---- folds


def test_folds_depend_on_values_alone():
    data = table(2000)
    options = {"target": "y", "folds": 5, "features": ["size", "city", "new"]}
    _, _, _, folds = scanned(data, **options)
    order = np.random.default_rng(0).permutation(2000)
    assert (scanned(data[order], **options | {"block_rows": 91})[3] == folds[order]).all()
    assert (scanned(data, **options | {"features": ["new", "size", "city"]})[3] == folds).all()
    relabelled = [data.filter(pl.col("city") == city) for city in ("Rome", "Bern", "Oslo")]
    place = np.concatenate([np.flatnonzero((data["city"] == city).to_numpy()) for city in ("Rome", "Bern", "Oslo")])
    assert (scanned(relabelled, **options)[3] == folds[place]).all()
    zeros = [scanned({"x": [z, 1.0], "y": [1.0, 2.0]}, target="y", folds=97)[3][0] for z in (0.0, -0.0)]
    assert zeros[0] == zeros[1]
    counts = np.bincount(folds, minlength=5)
    assert counts.min() > 330 and (scanned(data, **options | {"fold_seed": 1})[3] != folds).mean() > 0.7


def test_folds_of_small_whole_numbers_are_even():
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (20_000, 24))
    folds = scanned({f"x{j}": X[:, j] for j in range(24)} | {"y": X[:, 0] + X[:, 1]}, target="y", folds=10)[3]
    counts = np.bincount(folds, minlength=10)
    assert ((counts - 2000) ** 2 / 2000).sum() < 40  # χ² with 9 degrees of freedom
    assert max(abs(np.corrcoef(folds == 0, X[:, j])[0, 1]) for j in range(24)) < 0.04


def test_known_folds_stay_as_they_are():
    """The hash is part of the format: results must be the same tomorrow and on every machine."""
    data = {"x": np.arange(12.0) / 7, "kind": list("abcabcabcabc"), "y": np.arange(12.0) ** 2}
    assert scanned(data, target="y", folds=5)[3].tolist() == KNOWN_FOLDS


KNOWN_FOLDS = [0, 2, 4, 3, 3, 0, 2, 4, 0, 2, 2, 1]


def test_groups_stay_together_and_blocks_follow_time():
    data = table(1000).with_columns(group=pl.Series([f"g{k % 40}" for k in range(1000)]))
    folds = scanned(data, target="y", group="group", folds=4, features=["size"], block_rows=130)[3]
    assert all(len(set(folds[k::40])) == 1 for k in range(40)) and len(set(folds)) == 4
    folds = scanned(data, target="y", features=["size"], folds=4, fold_blocks=True, block_rows=130)[3]
    assert (folds == np.repeat(range(4), 250)).all()
    folds = scanned(iter([data]), target="y", features=["size"], folds=4, fold_blocks=100)[3]
    assert (folds == np.arange(1000) // 100 % 4).all()


# ---- reports and refusals


def test_constant_and_duplicate_columns_are_reported():
    data = table().with_columns(one=pl.lit(3.0), same=pl.col("size"), late=pl.Series([0.0] * 399 + [1.0]))
    schema = scanned(data, target="y", block_rows=50)[0].schema
    assert schema.constant == ("one",) and schema.duplicates == (("size", "same"),)


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


def test_compiled_and_plain_hashes_agree():
    import sys

    from trueline import _jit
    from trueline.data import folds

    X = np.random.default_rng(0).normal(size=(3000, 30)) * np.logspace(-9, 9, 30)
    names = [f"x{j}" for j in range(30)]
    made = [folds.number_hash(X, names, seed=4)]
    total = np.zeros(len(X), dtype=np.uint64)
    factors = np.array([folds.multiplier(name, 4) for name in names])
    with np.errstate(over="ignore"):
        folds._row_sums(X.view(np.uint64)[:40], factors, total[:40])
    assert (total[:40] == made[0][:40]).all() and (_jit.PLAIN or "numba" in sys.modules)
    made.append(folds.number_hash(X, names, seed=4))  # now with Numba loaded
    assert (made[0] == made[1]).all()


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 1e308 * 10, float("-inf")], ids=["large", "small", "inf", "-inf"]
)
def test_numbers_beyond_float64_are_refused(schema, value):
    with pytest.raises(DataError, match="field 'size'"):
        schema.encode_row(ROW | {"size": value})


def test_columns_as_read_are_the_same_rows_in_the_same_folds():
    """The road by columns gives what the general one gives, −0.0 and columns of whole numbers included."""
    from trueline.data.blocks import Columns
    from trueline.data.encode import Encoder

    rng = np.random.default_rng(5)
    table = {
        "a": rng.standard_normal(3000),
        "zero": np.where(rng.random(3000) < 0.5, -0.0, 0.0),
        "count": rng.integers(-5, 5, 3000),
        "y": rng.standard_normal(3000),
    }
    (plain,) = Encoder(table, target="y", folds=5)
    (apart,) = Encoder(table, target="y", folds=5, apart=True)
    assert isinstance(apart.X, Columns) and not isinstance(plain.X, Columns)
    assert (apart.folds == plain.folds).all()
    assert (apart.X[:] == plain.X).all() and (apart.y == plain.y).all()
    with pytest.raises(DataError, match=r"column 'a'.*row 11"):
        list(Encoder(table | {"a": np.where(np.arange(3000) == 10, np.nan, table["a"])}, target="y", apart=True))


def test_compiled_and_plain_hashes_of_columns_agree():
    from trueline.data import folds

    rng = np.random.default_rng(6)
    columns = list((rng.standard_normal((7, 9000)) * np.logspace(-9, 9, 7)[:, None]).round(3))
    columns[2][:50] = -0.0
    names = [f"x{j}" for j in range(7)]
    compiled = folds.compiled
    made = []
    for choice in (lambda: False, lambda: True):
        folds.compiled = choice
        try:
            with np.errstate(over="ignore"):
                made.append(folds.hash_of_columns([c[:300] for c in columns], names, seed=4))
                spoiled = columns[5][:300].copy()
                spoiled[7] = np.inf
                assert folds.hash_of_columns([*(c[:300] for c in columns), spoiled], [*names, "z"], seed=4) is None
        finally:
            folds.compiled = compiled
    assert (made[0] == made[1]).all()
    whole = np.column_stack(columns) + 0.0
    assert (folds.number_hash(whole[:300], names, seed=4) == made[0]).all()


def test_row_groups_are_found_without_pyarrow(tmp_path):
    from trueline.data.parquet import group_sizes

    path = tmp_path / "t.parquet"
    frame = pl.DataFrame({"x": np.arange(1000.0), "word": ["a", None] * 500, "flag": [True, False] * 500})
    frame.write_parquet(path, row_group_size=300)
    sizes = group_sizes(str(path))
    assert sum(sizes) == 1000 and len(sizes) > 1
    pq = pytest.importorskip("pyarrow.parquet")
    meta = pq.read_metadata(path)
    assert sizes == [meta.row_group(k).num_rows for k in range(meta.num_row_groups)]


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
        with pytest.raises(DataError, match=rf"target 'y' .* {classes} different values .* in {rows} rows.*squared"):
            list(encode(data, target="y", labels=True))
    else:
        assert len(scanned(data, target="y", labels=True)[0].target_levels) == classes
