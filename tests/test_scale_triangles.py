"""Statistics are merged as triangles: the bits of whole matrices, whatever the columns are."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import polars as pl
import pytest

from trueline.data.encode import Encoder
from trueline.data.schema import Column, Schema
from trueline.onepass.moments import Moments
from trueline.scale import statistic
from trueline.scale.triangles import merged_schemas, packed, unpacked


def part(k: int, **options) -> Moments:
    rng = np.random.default_rng(k)
    n = 300 + 40 * k
    table = pl.DataFrame({"a": rng.normal(size=n) + k, "b": rng.normal(size=n) * 1e5, "y": rng.normal(size=n)})
    table = table.with_columns(kind=pl.Series(rng.choice(["red", "blue", "green"][: 1 + k % 3], size=n)))
    encoder = Encoder(table, part=0, target="y", **options)
    return statistic.moments_of(encoder, digits="auto", sample=0)


@pytest.mark.parametrize("options", [{"features": ["a", "b"]}, {"features": ["a", "b"], "folds": 3}, {}])
def test_merged_triangles_have_the_bits_of_matrices(options):
    parts = [part(k, **options) for k in range(6)]
    whole = functools.reduce(Moments.__add__, parts)
    found, _ = statistic.unpack(statistic.merge([statistic.pack(one) for one in parts]))
    assert found.terms == whole.terms and found.schema == whole.schema and found.levels == whole.levels
    assert list(found.parts) == list(whole.parts)
    for name, one in whole.parts.items():
        mine = found.parts[name]
        for ours, theirs in zip(mine.products + mine.mean, one.products + one.mean, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert (mine.n, mine.weight) == (one.n, one.weight)
        np.testing.assert_array_equal(mine.noise, one.noise)


def test_there_and_back():
    moments = part(2, folds=2)
    back = unpacked(packed(packed(moments)))
    for name, one in moments.parts.items():
        for ours, theirs in zip(back.parts[name].products, one.products, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_schemas_as_one_after_the_other():
    numbers = tuple(Column(name, "number") for name in "abc")
    plain = [Schema(numbers, target="y", rows=k, constant=("a", "b")[k:], duplicates=(("a", "c"),)) for k in range(3)]
    counted = [
        dataclasses.replace(one, columns=(*numbers[:2], Column("c", "category", (f"l{k}",))))
        for k, one in enumerate(plain)
    ]
    missing = [
        dataclasses.replace(one, columns=(Column("a", "number", (), (1.0,), 4.0, 2), *numbers[1:])) for one in plain
    ]
    for schemas in (plain, counted, missing):
        assert merged_schemas(schemas) == functools.reduce(Schema.merge, schemas)
    from trueline.errors import UsageError

    with pytest.raises(UsageError, match="different columns"):
        merged_schemas([plain[0], dataclasses.replace(plain[1], target="z")])
