"""Moments: merging, folds, weights, growing terms, samples, files."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import trueline as tl
from trueline.data.blocks import Block
from trueline.data.encode import Encoder
from trueline.errors import DataError, UsageError
from trueline.model import load, save
from trueline.onepass.given import Given
from trueline.onepass.moments import Accumulator, Moments
from trueline.onepass.parts import part_arrays
from trueline.threads import limit


def rows(seed=0, n=200, d=3, offset=5.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, d) + offset
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


def agree(a: Moments, b: Moments, tolerance=1e-12):
    """To ``tolerance`` of √(C_ii C_jj), and as much in the means."""
    assert a.terms == b.terms and a.n == b.n
    C, D = a.total.products[0], b.total.products[0]
    size = np.sqrt(np.outer(np.diagonal(C), np.diagonal(C)))
    assert (np.abs(C - D) <= tolerance * size + 1e-300).all()
    assert np.allclose(a.total.mean[0], b.total.mean[0], rtol=1e-13)
    assert np.isclose(a.total.weight[0], b.total.weight[0], rtol=1e-14)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, sparse.csr_array])
def test_one_block_at_once_is_what_the_accumulator_makes_of_it(level, weighted, layout):
    X, y = rows(3, n=150, d=4)
    X[:, 2] = np.rint(X[:, 2])
    w = np.random.default_rng(0).integers(0, 3, 150) / 3 if weighted else None
    once = Moments.from_arrays(layout(X), y, w, level=level)
    several = Accumulator(5, 1, level=level)
    several.add(Given(layout(X), y, w))
    a, b = part_arrays(once.total), part_arrays(several.together())
    assert all((a[name] == b[name]).all() for name in a) and once.total.n == several.together().n
    assert (once.integer == several.integer).all() and once.levels == tuple(several.blocks)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.randoms(use_true_random=False), st.booleans())
def test_any_partition_in_any_order_agrees(seed, pieces, random, weighted):
    X, y = rows(seed % 50, n=60, offset=random.choice([0.0, 1e3, 1e6]))
    w = np.random.default_rng(seed).uniform(0.1, 9, 60) if weighted else None
    owner = np.random.default_rng(seed).integers(0, pieces, 60)
    whole = Moments.from_arrays(X, y, w)
    parts = [
        Moments.from_arrays(X[owner == k], y[owner == k], None if w is None else w[owner == k])
        for k in range(pieces)
        if (owner == k).any()
    ]
    random.shuffle(parts)
    left = parts[0].merge(*parts[1:])
    while len(parts) > 1:
        i = random.randrange(len(parts) - 1)
        parts[i : i + 2] = [parts[i + 1] + parts[i]]
    agree(whole, left)
    agree(whole, parts[0])
    first = tl.LinearRegression.from_moments(whole)
    second = tl.LinearRegression.from_moments(parts[0])
    digits = min(first.certificate_.digits, second.certificate_.digits)
    assert np.allclose(first.coef_, second.coef_, rtol=10.0 ** (1 - digits))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_zero_weight_is_leaving_the_row_out(seed):
    X, y = rows(seed % 20, n=40)
    w = np.random.default_rng(seed).integers(0, 3, 40).astype(float)
    w[0] = 1.0
    kept = w > 0
    a = tl.LinearRegression().fit(X, y, w)
    b = tl.LinearRegression().fit(X[kept], y[kept], w[kept])
    assert np.array_equal(a.coef_, b.coef_) and a.intercept_ == b.intercept_
    assert a.summary().n == kept.sum()


def test_whole_weights_are_repeated_rows():
    X, y = rows(3, n=50)
    w = np.random.default_rng(1).integers(1, 4, 50)
    repeated = Moments.from_arrays(np.repeat(X, w, axis=0), np.repeat(y, w))
    weighted = Moments.from_arrays(X, y, w.astype(float))
    C, D = repeated.total.products[0], weighted.total.products[0]
    assert np.allclose(C, D, rtol=1e-13, atol=1e-13 * np.abs(C).max())


def test_folds_add_up_and_leaving_one_out_adds_the_others():
    X, y = rows(4)
    folds = np.arange(len(y)) % 4
    moments = Moments.from_arrays(X, y, folds=folds)
    agree(moments, Moments.from_arrays(X, y))
    rest = Moments.from_arrays(X[folds != 2], y[folds != 2])
    assert np.allclose(moments.without(2).products[0], rest.total.products[0], rtol=1e-13)


def test_terms_that_appear_later_were_zero_before():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    X[:20, 2] = 0.0
    y = rng.normal(size=30)
    blocks = [
        Block(("a", "b"), X[:20, :2], y[:20]),
        Block(("a", "c", "b"), np.ascontiguousarray(X[20:, [0, 2, 1]]), y[20:]),
    ]
    grown = Moments.from_blocks(blocks, sample=10)
    direct = Moments.from_arrays(np.ascontiguousarray(X[:, [0, 2, 1]]), y, terms=("a", "c", "b"))
    agree(grown, direct)
    merged = Moments.from_arrays(X[:20, :2], y[:20], terms=("a", "b")) + Moments.from_arrays(
        X[20:], y[20:], terms=("a", "b", "c")
    )
    agree(merged.reordered(("a", "c", "b")), direct)


def test_a_moving_level_is_followed():
    x = np.concatenate([np.zeros(5000), np.full(5000, 1e9)]) + np.random.default_rng(0).normal(size=10_000)
    whole = Moments.from_arrays(x[:, None], x * 2)
    exactly = x.astype(np.longdouble)
    truth = float(((exactly - exactly.mean()) ** 2).sum())
    assert np.isclose(whole.total.products[0][0, 0], truth, rtol=1e-15)


def test_the_sample_does_not_depend_on_the_partition():
    X, y = rows(5, n=3000)
    whole = Moments.from_arrays(X, y, sample=100)
    parts = [Moments.from_arrays(X[a : a + 700], y[a : a + 700], sample=100) for a in range(0, 3000, 700)]
    merged = parts[3] + parts[1] + parts[4] + parts[0] + parts[2]
    assert np.array_equal(whole.sample.rows, merged.sample.rows) and len(whole.sample.rows) == 100
    again = Moments.from_arrays(X[::-1], y[::-1], sample=100)
    assert np.array_equal(again.sample.rows, whole.sample.rows)
    # It is a fair sample, also of few distinct rows.
    assert abs(whole.sample.rows[:, -1].mean() - y.mean()) < 5 * y.std() / 10
    coins = (np.arange(20_000) % 4 == 0).astype(float)
    kept = Moments.from_arrays(coins[:, None], coins, sample=1000).sample.rows[:, 0]
    assert 0.18 < kept.mean() < 0.32


def test_saved_and_loaded_bit_for_bit(tmp_path):
    frame = pl.DataFrame({"x": [1.0, 2.0, 4.0, 8.0], "c": ["u", "v", "u", "w"], "y": [1.0, 3.0, 2.0, 5.5]})
    moments = tl.scan(frame, target="y", folds=2)
    moments.save(tmp_path / "m.tl")
    back = tl.load(tmp_path / "m.tl")
    assert back.terms == moments.terms and back.schema == moments.schema and back.levels == moments.levels
    for name, part in moments.parts.items():
        for a, b in zip(part.products + part.mean, back.parts[name].products + back.parts[name].mean, strict=True):
            assert np.array_equal(a, b)
    assert np.array_equal(back.sample.rows, moments.sample.rows)
    model = tl.LinearRegression.from_moments(back)
    save(model.model_, tmp_path / "r.tl")
    assert np.array_equal(load(tmp_path / "r.tl").predict(frame), model.predict(frame))
    model.save(tmp_path / "e.tl")
    loaded = tl.load(tmp_path / "e.tl")
    assert np.array_equal(loaded.predict(frame), model.predict(frame))
    assert loaded.certificate_ == model.certificate_


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 400
    return pl.DataFrame(
        {
            "size": rng.normal(size=n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "day": pl.Series(rng.integers(0, 1000, n)).cast(pl.Int32).cast(pl.Date),
            "owned": rng.random(n) < 0.5,
            "price": rng.normal(size=n),
            "w": rng.integers(0, 3, n).astype(float),
        }
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_scan_of_a_file_is_a_fit_of_its_columns(table, tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    getattr(table, f"write_{ending}")(path)
    moments = tl.scan(path, target="price", weights="w", derive={"double": "size * size"}, where="size > -1")
    model = tl.LinearRegression.from_moments(moments)
    kept = table.filter(pl.col("size") > -1)
    X = np.column_stack(
        [
            kept["size"],
            kept["colour"] == "green",
            kept["colour"] == "red",
            kept["day"].cast(pl.Int32),
            kept["owned"],
            kept["size"] ** 2,
        ]
    ).astype(float)
    plain = tl.LinearRegression().fit(X, kept["price"].to_numpy(), kept["w"].to_numpy())
    order = [model.model_.terms.index(t) for t in ("size", "colour[green]", "colour[red]", "day", "owned", "double")]
    assert np.allclose(model.coef_[order], plain.coef_, rtol=1e-10)
    assert moments.n == (kept["w"] > 0).sum() and len(moments.parts) == 5
    shuffled = table.select(reversed(table.columns))
    assert np.array_equal(model.predict(shuffled), model.predict(table))
    direct = tl.LinearRegression().fit(
        path, target="price", weights="w", derive={"double": "size * size"}, where="size > -1"
    )
    assert np.array_equal(direct.coef_, model.coef_)


def test_scans_of_parts_merge_to_the_scan_of_all(table):
    options = {"target": "price", "folds": 4}
    whole = tl.scan(table, **options)
    merged = tl.scan(table[:150].filter(pl.col("colour") != "blue"), **options)
    merged = (
        merged + tl.scan(table[150:], **options) + tl.scan(table[:150].filter(pl.col("colour") == "blue"), **options)
    )
    a, b = whole.designed(), merged.designed()
    agree(a.reordered(b.terms), b)
    for fold in whole.parts:
        assert whole.parts[fold].n == merged.parts[fold].n


def test_a_formula_names_its_target(table):
    moments = tl.scan(table, formula="price ~ size + owned")
    assert moments.targets == ("price",)
    model = tl.LinearRegression.from_moments(moments)
    plain = tl.LinearRegression().fit(table, target="price", features=["size", "owned"])
    assert model.coef_.shape == (2,) and np.allclose(model.coef_, plain.coef_, rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 0.7, 1e4])
@pytest.mark.parametrize("weighted", [False, True])
def test_pieces_on_all_cores_are_the_rows_one_by_one(offset, weighted):
    """Many pieces, folds in runs or mixed, near 0 or far from it, weights of 0: the same as exact moments."""
    rng = np.random.default_rng(1)
    n = 30_000
    X = rng.normal(size=(n, 3)) + offset
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=n)
    w = rng.choice([0.0, 0.5, 2.0], n) if weighted else None
    for folds in (None, np.arange(n) * 3 // n, rng.integers(0, 3, n)):
        quick = Moments.from_arrays(X, y, w, folds=folds, digits=8, sample=50)
        assert quick.levels[0] > 0
        slow = Moments.from_arrays(X, y, w, folds=folds, level=2)
        agree(quick, slow)
        for name, part in slow.parts.items():
            assert quick.parts[name].n == part.n
            assert np.allclose(quick.parts[name].products[0], part.products[0], rtol=1e-11, atol=1e-9 * n)
        assert len(quick.sample.rows) == 50
    with limit(1):
        alone = Moments.from_arrays(X, y, w, folds=folds, digits=8)
    assert np.array_equal(alone.total.products[0], quick.total.products[0])


@pytest.mark.parametrize("shape", ["level", "moving", "offset", "two columns"])
def test_columns_that_lie_apart_are_the_rows_one_by_one(shape):
    """Gathered by tiles, sorted by fold: the same moments per fold as from rows, at every level of products."""
    rng = np.random.default_rng(3)
    n, d = 70_001, 1 if shape == "two columns" else 6
    X = rng.normal(size=(n, d))
    if shape == "moving":
        X[40_000:] += 50.0
    if shape == "offset":
        X += 1e6
    y = X @ np.arange(1.0, d + 1) + rng.normal(size=n)
    table = {f"x{j}": X[:, j] for j in range(d)} | {"y": y}
    scanned = tl.scan(table, target="y", folds=7)
    encoder = Encoder(table, target="y", folds=7)
    folds = np.concatenate([block.folds for block in encoder])
    by_rows = Moments.from_arrays(X, y, folds=folds)
    assert scanned.parts.keys() == by_rows.parts.keys() == set(range(7))
    for name, part in scanned.parts.items():
        other = by_rows.parts[name]
        assert part.n == other.n == (folds == name).sum()
        size = np.sqrt(np.diagonal(other.products[0]))
        assert (np.abs(part.products[0] - other.products[0]) / (size[:, None] * size)).max() < 1e-12
        assert np.allclose(part.mean[0], other.mean[0], rtol=1e-13, atol=1e-13)
    assert tl.scan(table, target="y", folds=None).parts[0].n == n
    if shape == "level":
        with limit(1):
            alone = tl.scan(table, target="y", folds=7)
        assert all((alone.parts[k].products[0] == scanned.parts[k].products[0]).all() for k in range(7))


def test_missing_values_filled_by_the_mean(table):
    holes = table.with_columns(pl.when(pl.col("size") > 1).then(None).otherwise(pl.col("size")).alias("size")).drop("w")
    model = tl.LinearRegression.from_moments(tl.scan(holes, target="price", missing="mean"))
    filled = holes.with_columns(pl.col("size").fill_null(holes["size"].mean()))
    plain = tl.LinearRegression().fit(filled, target="price")
    assert np.allclose(model.coef_, plain.coef_, rtol=1e-10) and np.allclose(
        model.predict(holes), plain.predict(filled)
    )


def test_refusals(table, tmp_path):
    X, y = rows()
    with pytest.raises(UsageError, match=r"2001×2001 products and takes at most 2000 .* tl.minimize"):
        Moments.from_arrays(np.zeros((2, 2001)), np.zeros(2))
    with pytest.raises(UsageError, match="digits must be 'auto' or a number"):
        Moments.from_arrays(X, y, digits="many")
    with pytest.raises(UsageError, match="digits must lie between 1 and 16"):
        Moments.from_arrays(X, y, digits=40)
    with pytest.raises(DataError, match="weights must be finite and not negative; found"):
        tl.LinearRegression().fit(X, y, np.r_[-1.0, np.ones(199)])
    with pytest.raises(ValueError, match="zero"):
        tl.LinearRegression().fit(X, y, np.zeros(200))
    with pytest.raises(UsageError, match="cannot be merged"):
        Moments.from_arrays(X, y, targets=["a"]) + Moments.from_arrays(X, y, targets=["b"])
    with pytest.raises(UsageError, match="no column 'z'"):
        Moments.from_arrays(X, y).select(["z"])
    with pytest.raises(DataError, match="target 'price' of the Polars frame is constant"):
        tl.scan(table.with_columns(price=pl.lit(1.0)), target="price")
    with pytest.raises(DataError, match="no row"):
        tl.scan(table, target="price", where="size > 1000")
    with pytest.raises(DataError, match="numbers beyond 1e150"):
        Moments.from_blocks([Block(("a",), np.array([[1e200], [2.0]]), np.array([1.0, 2.0]))])
    assert Accumulator(3, 1).together().n == 0
