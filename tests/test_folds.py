"""Folds of a source: by the values of a row alone, by groups, in blocks of time; the hash compiled and plain."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from encoding import scanned, table

from trueline.errors import DataError


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


def test_rows_and_columns_have_the_hashes_of_their_definition():
    from trueline.data import folds

    rng = np.random.default_rng(6)
    columns = list((rng.standard_normal((7, 9000)) * np.logspace(-9, 9, 7)[:, None]).round(3))
    columns[2][:50] = -0.0
    names = [f"x{j}" for j in range(7)]
    found = folds.hash_of_columns(columns, names, seed=4)
    for i in (0, 49, 50, 8999):
        total = 0
        for column, name in zip(columns, names):
            (bits,) = (column[i : i + 1] + 0.0).view(np.uint64).tolist()
            total += (bits ^ (bits >> 32)) * int(folds.multiplier(name, 4))
        assert int(found[i]) == total % 2**64
    assert (folds.number_hash(np.column_stack(columns) + 0.0, names, seed=4) == found).all()
    assert (folds.number_hash(np.asfortranarray(np.column_stack(columns) + 0.0), names, seed=4) == found).all()
    for odd in (np.inf, -np.inf, np.nan):
        spoiled = columns[5].copy()
        spoiled[8500] = odd
        assert folds.hash_of_columns([*columns, spoiled], [*names, "z"], seed=4) is None
