"""One bit flipped in what a Parquet file says of itself: what our reader still reads is what was written, and is seldom."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from trueline.data import parquet
from trueline.data.swift import swiftly
from trueline.data.thrift import fields
from trueline.data.unpacking_footer import sound

arrow = pytest.importorskip("pyarrow.parquet")
N = 300


def written(path, kind):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "a": rng.normal(size=N),
            "b": rng.integers(0, 9, N),
            "c": rng.integers(0, 4, N).astype(np.int32),
            "y": rng.normal(size=N).astype(np.float32),
        }
    )
    if kind == "polars":
        frame.write_parquet(path, row_group_size=128)
    else:
        more = {"data_page_version": "2.0", "compression": "none"} if kind == "second" else {"compression": "zstd"}
        arrow.write_table(frame.to_arrow(), path, **more)
    return frame.to_numpy().astype(float)


def described(raw, path):
    """The places of all bytes of headers and footer."""
    length = int.from_bytes(raw[-8:-4], "little")
    places = list(range(len(raw) - 8 - length, len(raw)))
    for k in range(4):
        for chunk in parquet.chunks(parquet.footer(path), k):
            at = chunk.start
            while at < chunk.stop:
                header, end = fields(raw, at)
                places += range(at, end)
                at = end + header[3]
    return sorted({*places})


def read(path):
    """The rows, or None where they are left to the usual reader."""
    found = swiftly(str(path), "y", None, "refuse")
    rows = [np.column_stack(part) for part in found] if found is not None else []
    return np.concatenate(rows) if found is not None and found.whole else None


def refused(path):
    try:
        pl.read_parquet(path)
    except BaseException as error:  # Polars panics at some
        if isinstance(error, KeyboardInterrupt):
            raise
        return True
    return False


@pytest.mark.parametrize("kind", ["polars", "first", "second"])
def test_a_bit_that_flips_in_a_description(tmp_path, kind, capfd):
    path = tmp_path / "t.parquet"
    wanted = written(path, kind)
    raw = path.read_bytes()
    assert (read(path) == wanted).all()
    places = [(at, bit) for at in described(raw, str(path)) for bit in range(8)][::41]
    passed = 0
    for at, bit in places:
        flipped = bytearray(raw)
        flipped[at] ^= 1 << bit
        path.write_bytes(flipped)
        found = read(path)
        if found is None:
            continue
        same = found.shape == wanted.shape and (found == wanted).all()
        passed += refused(path)
        assert same, (at, bit)
    assert len(places) > 150 and passed <= 0.02 * len(places), (passed, len(places))


def test_what_the_footer_says_twice_it_must_say_alike(tmp_path):
    path = str(tmp_path / "t.parquet")
    written(path, "polars")
    assert sound(parquet.footer(path))

    def spoiled(change):
        told = parquet.footer(path)
        change(told)
        try:
            return not sound(told)
        except ValueError:
            return True

    about = 3
    assert spoiled(lambda told: told.update({3: N + 1}))  # rows
    assert spoiled(lambda told: told.pop(1))
    assert spoiled(lambda told: told.update({99: 1}))
    assert spoiled(lambda told: told[2][1].update({4: b"\xff"}))  # a name
    assert spoiled(lambda told: told[2][1].update({4: b"other"}))
    assert spoiled(lambda told: told[2][2].update({3: 7}))  # how often it may repeat
    assert spoiled(lambda told: told[4][0][1][0][about].update({3: [b"b"]}))
    assert spoiled(lambda told: told[4][1][1][0][about].update({1: 2}))  # its type
    assert spoiled(lambda told: told[4][1][1][3][about].update({4: 77}))  # its codec
    assert spoiled(lambda told: told[4][1][1][3][about].update({2: [3, 70]}))  # its encodings
    assert spoiled(lambda told: told[4][0][1][0][about].pop(7))
    assert spoiled(lambda told: told[4][0][1][0][about][12].update({7: 3}))  # statistics
    assert spoiled(lambda told: told[4][0][1].pop())
    assert spoiled(lambda told: told[4][0].update({1: [1, 2, 3, 4]}))
