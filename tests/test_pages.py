"""Parquet of numbers page by page: whatever wrote the file, the rows are the usual reader's, or they are left to it."""

from __future__ import annotations

import ctypes

import numpy as np
import polars as pl
import pytest
from test_swift import both

from trueline._jit import PLAIN
from trueline.data import pages, parquet, thrift
from trueline.data.unpacking import looked_up, rows_of, unsnapped

pytestmark = pytest.mark.skipif(PLAIN, reason="the plain path has the usual reader alone")
ROWS = 3000
KINDS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64)


def table(n=ROWS):
    """Every kind of number, at its ends too; values that repeat, values that never do, and both in one column."""
    rng = np.random.default_rng(0)
    made = {}
    for kind in KINDS:
        info = np.finfo(np.float32) if kind.is_float() else np.iinfo(pl.Series([], dtype=kind).to_numpy().dtype)
        few = rng.integers(0, 100, size=n)
        made[f"few {kind}"] = pl.Series(few).cast(kind)
        ends = [info.min, info.max, 0, 1]
        made[f"ends {kind}"] = pl.Series([ends[k % 4] for k in range(n)], dtype=kind)
    made["many"] = rng.normal(size=n)
    made["zeros"] = np.where(rng.random(n) < 0.5, -0.0, 0.0)
    made["sorted"] = np.arange(n) // 7
    made["y"] = rng.normal(size=n).round(1)
    return pl.DataFrame(made)


def arrow(path, frame, **options):
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(frame.to_arrow(), path, **options)


POLARS = [
    {"compression": "zstd"}, {"compression": "snappy"}, {"compression": "uncompressed"}, {"row_group_size": 257},
    {"data_page_size": 900}, {"data_page_size": 900, "row_group_size": 1100, "compression": "snappy"},
]  # fmt: skip
ARROW = [
    {}, {"compression": "zstd"}, {"compression": "none"}, {"use_dictionary": False}, {"data_page_version": "2.0"},
    {"data_page_version": "2.0", "compression": "zstd", "data_page_size": 700}, {"row_group_size": 999, "data_page_size": 500},
    {"write_page_checksum": True}, {"dictionary_pagesize_limit": 800, "data_page_size": 300}, {"store_schema": False},
    {"use_dictionary": ["few Float64", "sorted"], "data_page_size": 1000, "write_batch_size": 64},
]  # fmt: skip


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(("writer", "options"), [*(("polars", o) for o in POLARS), *(("arrow", o) for o in ARROW)])
def test_every_writers_pages(monkeypatch, tmp_path, writer, options, small):
    if small:  # many stripes, whose ends are not the pages'
        monkeypatch.setattr(pages, "_AHEAD", 1)
        monkeypatch.setattr(pages, "_BLOCK", 1)
    path, frame = tmp_path / "t.parquet", table()
    frame.write_parquet(path, **options) if writer == "polars" else arrow(path, frame, **options)
    ours, usual, given = both(monkeypatch, path)
    assert ours == usual and given == ROWS
    ours, usual, given = both(monkeypatch, path, features=["many", "few UInt8", "ends Int64"])
    assert ours == usual and given == ROWS


def test_columns_that_cannot_be_null(monkeypatch, tmp_path):
    pa = pytest.importorskip("pyarrow")
    path, found = tmp_path / "t.parquet", table().to_arrow()
    bare = pa.schema([pa.field(field.name, field.type, nullable=False) for field in found.schema])
    import pyarrow.parquet as pq

    for version in ("1.0", "2.0"):
        pq.write_table(found.cast(bare), path, data_page_version=version)
        ours, usual, given = both(monkeypatch, path)
        assert ours == usual and given == ROWS


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"}, {"compression": "lz4"}, {"compression": "brotli"}, {"version": "1.0"},
        {"use_dictionary": False, "column_encoding": {"sorted": "DELTA_BINARY_PACKED"}},
        {"use_dictionary": False, "use_byte_stream_split": ["many"]},
    ],
)  # fmt: skip
def test_what_is_not_known_here_is_the_usual_readers(monkeypatch, tmp_path, options):
    path = tmp_path / "t.parquet"
    arrow(path, table(), **options)
    ours, usual, given = both(monkeypatch, path)
    assert ours == usual and given == 0 and len(ours) == 4


def test_what_looks_like_numbers_and_is_none(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    columns = {
        "number": pa.array([1.0, 2.0]), "category": pa.array([1.0, 2.0]).dictionary_encode(), "span": pa.array([1, 2], pa.duration("s")),
        "date": pa.array([1, 2], pa.date32()), "time": pa.array([1, 2], pa.time32("s")), "when": pa.array([1, 2], pa.timestamp("us")),
        "half": pa.array(np.array([1, 2], np.float16)), "yes": pa.array([True, False]), "cents": pa.array([1, 2], pa.decimal128(5, 2)),
    }  # fmt: skip
    pq.write_table(pa.table(columns), path)
    assert {leaf.name: leaf.kind for leaf in parquet.leaves(parquet.footer(str(path)))} == {
        name: "f8" if name == "number" else "" for name in columns
    }
    pq.write_table(pa.table({"a": [[1.0], [2.0]], "b": [1, 2]}), path)  # lists are not flat
    assert parquet.leaves(parquet.footer(str(path))) == []
    marked = pa.field("a", pa.float64(), metadata={"ARROW:extension:name": "a.kind", "ARROW:extension:metadata": ""})
    pq.write_table(pa.table([pa.array([1.0, 2.0])], schema=pa.schema([marked])), path)
    assert [leaf.kind for leaf in parquet.leaves(parquet.footer(str(path)))] == [""]


def test_without_the_systems_zstd_the_usual_reader_reads(monkeypatch, tmp_path):
    path = tmp_path / "t.parquet"
    table(50).write_parquet(path)

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(pages, "_libraries", [])
    monkeypatch.setattr(ctypes, "CDLL", missing)
    ours, usual, given = both(monkeypatch, path)
    assert ours == usual and given == 0


def test_more_than_may_be_held_is_the_usual_readers(monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "_MOST", 8 * 24 * (ROWS - 1))
    path = tmp_path / "t.parquet"
    table().write_parquet(path)
    ours, usual, given = both(monkeypatch, path)
    assert ours == usual and given == 0


def snapped(data):
    pa = pytest.importorskip("pyarrow")
    return np.frombuffer(pa.compress(data, codec="snappy", asbytes=True), np.uint8)


def test_snappy_is_undone_and_no_damage_leaves_its_room():
    rng = np.random.default_rng(0)
    texts = [
        b"", b"a", b"ab" * 500, bytes(70_000), rng.bytes(70_000), rng.integers(0, 9, 5000).tobytes(),
        b"".join(rng.bytes(int(k)) * 3 for k in rng.integers(1, 80, size=400)),
    ]  # fmt: skip
    for text in texts:
        packed, guarded = snapped(text), np.full(len(text) + 16, 7, np.uint8)
        out = guarded[8 : 8 + len(text)]
        assert unsnapped(packed, out) and out.tobytes() == text
        for _ in range(300):
            damaged = packed.copy()
            for at in rng.integers(0, len(packed), size=3):
                damaged[at] = rng.integers(0, 256)
            damaged.flags.writeable = False
            unsnapped(damaged[: rng.integers(0, len(packed) + 1)], out)
        assert (guarded[:8] == 7).all() and (guarded[8 + len(text) :] == 7).all()
        assert not unsnapped(packed, guarded) and not unsnapped(packed[:-1], out)


def test_entries_are_looked_up_within_the_dictionary_only():
    rng = np.random.default_rng(0)
    guarded = np.full(40, 7.0)
    out, entries = guarded[8:32], np.arange(5.0)
    for _ in range(4000):
        runs = rng.integers(0, 256, size=rng.integers(0, 30)).astype(np.uint8)
        runs.flags.writeable = False
        out[:] = -1.0
        if looked_up(runs, int(rng.integers(0, 40)), entries, out):
            assert np.isin(out, entries).all()
    assert (guarded[:8] == 7).all() and (guarded[32:] == 7).all()
    fives = np.array([24 << 1, 4], np.uint8)
    fives.flags.writeable = False
    assert looked_up(fives, 3, entries, out) and (out == 4.0).all()
    assert not looked_up(fives, 3, entries[:4], out)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (1, 63), (1, 64), (2, 99)])
def test_rows_say_if_a_number_is_not_finite(value, place):
    columns = np.random.default_rng(0).normal(size=(3, 110))
    starts = np.array([0, 4, 10])
    X, y = np.empty((100, 2)), np.empty(100)
    assert rows_of(columns, starts, X, y)
    assert (np.column_stack([columns[0, :100], columns[1, 4:104]]) == X).all() and (y == columns[2, 10:]).all()
    columns[place[0], starts[place[0]] + place[1]] = value
    assert not rows_of(columns, starts, X, y)


def test_thrift_reads_every_type_and_ends_at_the_end():
    raw = bytes([0x11, 0x12, 0x13, 5, 0x15, 3, 0x17, *np.float64(2.5).tobytes(), 0x18, 2, 65, 66, 0x19, 0x25, 1, 2, 0x19, 0x11, 1,
                 0x1B, 1, 0x58, 4, 1, 90, 0x1B, 0, 0x1C, 0, 0x06, 0xC8, 1, 0x80, 1, 0])  # fmt: skip
    found, end = thrift.fields(raw, 0)
    assert end == len(raw)
    assert found == {
        1: True, 2: False, 3: 5, 4: -2, 5: 2.5, 6: b"AB", 7: [-1, 1], 8: [True], 9: [(2, b"Z")], 10: [], 11: {}, 100: 64,
    }  # fmt: skip
    for cut in range(len(raw) - 1):
        with pytest.raises((IndexError, ValueError)):
            thrift.fields(raw[:cut], 0)


def test_blocks_that_nobody_has_any_more_are_used_again(monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "_BLOCK", 1)
    path = str(tmp_path / "t.parquet")
    table(9000).select("many", "sorted", "y").write_parquet(path)
    told = parquet.footer(path)
    chunks = [parquet.chunks(told, k) for k in range(3)]
    passing, kept = (pages.Numbers(path, parquet.leaves(told), chunks) for _ in range(2))
    sums = [float(X.sum() + y.sum()) for X, y in passing]
    assert len(sums) == 9 and len(passing._blocks) <= 2
    parts = [(X[:5], y[:5].copy()) for X, y in kept]
    assert len(kept._blocks) == 9 and len({X.tobytes() for X, _ in parts}) == 9
