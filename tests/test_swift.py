"""The swift readers give the usual reader's rows, bit for bit, and leave everything else to it."""

from __future__ import annotations

import struct
import threading

import numpy as np
import polars as pl
import pytest

from trueline._jit import PLAIN
from trueline.cli import blocks
from trueline.cli.state import Asked
from trueline.data import swift
from trueline.data.numerals import lines, numerals, powers
from trueline.errors import TruelineError

pytestmark = pytest.mark.skipif(PLAIN, reason="the plain path has the usual reader alone")


def bits(value):
    return struct.pack("<d", value)


def read(cells):
    """The numbers of a line of cells, or None if they are not all plain."""
    text = np.frombuffer((",".join(cells) + "\n").encode(), np.uint8).copy()
    X, y = np.empty((1, len(cells))), np.empty(1)
    assert lines(text) == 1
    made = numerals(text, 44, np.arange(len(cells)), powers(), X, y)
    return X[0].tolist() if made else None


def test_numerals_are_rounded_as_python_rounds_them():
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 2**64, size=4000, dtype=np.uint64).view(np.float64)
    cells = [repr(v) for v in raw.tolist() if np.isfinite(v) and 1e-40 < abs(v) < 1e40]
    cells += [repr(v) for v in (rng.normal(size=4000) * 10.0 ** rng.integers(-20, 20, size=4000)).tolist()]
    cells += [f"{v:.{k}f}" for k in range(18) for v in rng.normal(size=50).tolist()]
    cells += [f"{v:.{k}e}" for k in range(17) for v in rng.normal(size=50).tolist()]
    cells += [str(v) for v in rng.integers(-(10**18) + 1, 10**18, size=500).tolist()]
    cells += [str(2**53 + k) for k in range(-3, 9)] + [str(2**59 + k) for k in range(-70, 71)]
    for cell in cells:
        found = read([cell])
        assert found is not None, cell
        assert bits(found[0]) == bits(float(cell) + 0.0), cell
    assert read(["1", "2.50", "-3e2"]) == [1.0, 2.5, -300.0]
    assert bits(read(["-0.0"])[0]) == bits(0.0)


@pytest.mark.parametrize(
    "cell",
    ["", " 1", "1 ", "+1", ".5", "5.", "-", "--1", "1e", "1e+", "1.2.3", "0x10", "1_000", "1x", '"1"', "nan", "inf", "NA",
     "true", "2024-01-01", "1e99999", "1e61", "1e-80", "12345678901234567890", "9007199254740993.0", "1\r", "é"],
)  # fmt: skip
def test_what_is_not_a_plain_numeral_is_left_alone(cell):
    assert read(["1", cell, "2"]) is None
    assert read([cell]) is None or cell == "1\r"  # the end of a line of Windows


def test_a_row_of_another_length_is_not_plain():
    text = np.frombuffer(b"1,2\n3\n", np.uint8).copy()
    X, y = np.empty((2, 2)), np.empty(2)
    assert numerals(text, 44, np.arange(2), powers(), X, y) == 1
    text = np.frombuffer(b"1,2\n3,4,5\n", np.uint8).copy()
    assert numerals(text, 44, np.arange(2), powers(), X, y) == 1


def both(monkeypatch, path, **asked):
    """(blocks put together, schema) of the file with and without the swift reader, and how many rows that one gave."""
    found, given = [], []
    plainly = swift.swiftly

    def watched(*arguments):
        made = plainly(*arguments)
        given.append(made)
        return made

    for reader in (watched, lambda *arguments: None):
        monkeypatch.setattr(swift, "swiftly", reader)
        try:
            parts = list(blocks.table_blocks(Asked(str(path), "y", **asked), None))
            X, y = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
            found.append((parts[-1][0], X.tobytes(), y.tobytes(), parts[-1][4:]))
        except TruelineError as error:
            found.append((type(error), error.message, error.where))
    monkeypatch.setattr(swift, "swiftly", plainly)
    return found[0], found[1], 0 if not given or given[0] is None else given[0].given


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": rng.integers(-50, 50, size=n),
            "c": rng.normal(size=n).round(3),
            "y": rng.normal(size=n),
        }
    )


def test_csv_is_read_as_polars_reads_it(monkeypatch, tmp_path):
    monkeypatch.setattr(swift, "_CHUNK", 10_000)  # many chunks
    path, other = tmp_path / "t.csv", tmp_path / "t.tsv"
    table(12_500).write_csv(path)
    table(300).write_csv(other, separator="\t")
    raw = path.read_bytes()
    for content in (raw, raw[:-1], raw.replace(b"\n", b"\r\n"), raw.replace(b"a,b", b" a , b", 1)):
        path.write_bytes(content)
        ours, usual, given = both(monkeypatch, path)
        assert ours == usual and given == 12_500
    ours, usual, given = both(monkeypatch, other)
    assert ours == usual and given == 300
    ours, usual, given = both(monkeypatch, path, features=["c", "a"])
    assert ours == usual and given == 12_500 and ours[0] == ["c", "a"]


@pytest.mark.parametrize("missing", ["refuse", "drop"])
@pytest.mark.parametrize(
    ("cell", "handed_over"),
    [
        (b"", True),
        (b"NA", True),
        (b"word", False),
        (b'"1.5"', True),
        (b" 2.5", False),
        (b"1e400", False),
        (b"7,8", False),
    ],
)
@pytest.mark.parametrize("row", [40, 11_000])
def test_what_turns_up_late_is_the_usual_readers(monkeypatch, tmp_path, cell, handed_over, missing, row):
    monkeypatch.setattr(swift, "_CHUNK", 50_000)
    path = tmp_path / "t.csv"
    table(12_000).write_csv(path)
    content = path.read_bytes().split(b"\n")
    cells = content[row].split(b",")
    content[row] = b",".join([cells[0], cell, *cells[2:]])
    path.write_bytes(b"\n".join(content))
    ours, usual, given = both(monkeypatch, path, missing=missing)
    assert ours == usual
    assert given == (0 if row == 40 else row - 1)
    assert handed_over <= (len(ours) == 4 or missing == "refuse")


@pytest.mark.parametrize(
    "head",
    [b"a,b,c,y", b"\xef\xbb\xbfa,b,c,y", b'"a",b,c,y', b"a,a,c,y", b"a,b,,y", b"1,2,3,4", b"a;b;c;y", b"a,b,c,why", b"\xff,b,c,y",
     b"(Intercept),b,c,y"],
)  # fmt: skip
def test_odd_headers(monkeypatch, tmp_path, head):
    path = tmp_path / "t.csv"
    path.write_bytes(head + b"\n" + b"\n".join(b"%d,2,%d,%d" % (k, k * k, 3 * k) for k in range(9)) + b"\n")
    ours, usual, _ = both(monkeypatch, path)
    assert ours == usual


@pytest.mark.parametrize(
    "text",
    [b"a,y\n", b"a,y", b"", b"a,y\n1,2\n", b"a,y\n1,2\n3,2\n", b"a,y\n\n1,2\n2,3\n", b"y\n1\n2\n", b"a,y\r1,2\r2,3\r"],
)
def test_short_files(monkeypatch, tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    ours, usual, _ = both(monkeypatch, path)
    assert ours == usual


def test_parquet_is_read_as_polars_reads_it(monkeypatch, tmp_path):
    path = tmp_path / "t.parquet"
    frame = table(5000).with_columns(
        pl.col("a").cast(pl.Float32), pl.lit(-0.0).alias("zero"), pl.col("b").alias("twin")
    )
    frame.write_parquet(path, row_group_size=700)
    ours, usual, given = both(monkeypatch, path)
    assert ours == usual and given == 5000
    for name, row, value in (("c", 3000, None), ("c", 3000, float("nan")), ("a", 10, float("inf")), ("y", 4999, None)):
        places = pl.int_range(pl.len()) == row
        odd = frame.with_columns(pl.when(places).then(pl.lit(value)).otherwise(pl.col(name)).alias(name))
        odd.write_parquet(path, row_group_size=700)
        for missing in ("refuse", "drop"):
            ours, usual, _ = both(monkeypatch, path, missing=missing)
            assert ours == usual, (name, row, value, missing)
    frame.with_columns(pl.lit("x").alias("word"), pl.lit(True).alias("yes")).write_parquet(path)
    ours, usual, given = both(monkeypatch, path)
    assert ours[1:] == usual[1:] and given == 0
    ours, usual, given = both(monkeypatch, path, features=["c", "b"])  # what is not used does not matter
    assert ours == usual and given == 5000


def test_abreast_keeps_the_order_passes_errors_on_and_ends_its_threads(monkeypatch):
    monkeypatch.setattr("trueline.threads.get_threads", lambda: 3)
    before = threading.active_count()
    assert list(swift.abreast(lambda k: k * k, 20)) == [k * k for k in range(20)]
    assert list(swift.abreast(lambda k: k, 0)) == []
    with pytest.raises(ZeroDivisionError):
        list(swift.abreast(lambda k: 1 // (k - 7), 20))
    early = swift.abreast(lambda k: k, 1000)
    assert next(early) == 0
    early.close()
    assert threading.active_count() == before
