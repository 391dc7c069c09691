"""Sources: every kind gives the same rows, in order; every bad file is refused in one sentence that names the place."""

from __future__ import annotations

import datetime
import gzip
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from tolerances import assert_same_fit

import trueline as tl
from trueline.data.read import open_source
from trueline.data.refusals import explain
from trueline.data.schema import encode
from trueline.errors import DataError, TruelineError, UsageError

ROWS = 500


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame({"a": rng.normal(size=ROWS), "b": rng.integers(0, 9, ROWS), "y": rng.normal(size=ROWS)})


def rows_of(source, **options) -> np.ndarray:
    return np.concatenate([frame.to_numpy().astype(float) for frame in open_source(source, **options).frames()])


@pytest.fixture(scope="module")
def files(table, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tables")
    made = {
        kind: str(folder / f"t.{kind}")
        for kind in ("csv", "tsv", "parquet", "arrow", "ndjson", "csv.gz", "ndjson.gz", "csv.zst")
    }
    table.write_csv(made["csv"])
    table.write_csv(made["tsv"], separator="\t")
    table.write_parquet(made["parquet"], row_group_size=100)
    table.write_ipc(made["arrow"])
    table.write_ndjson(made["ndjson"])
    for kind in ("csv", "ndjson"):
        with gzip.open(made[f"{kind}.gz"], "wb") as file:
            file.write(Path(made[kind]).read_bytes())
    import zstandard

    Path(made["csv.zst"]).write_bytes(zstandard.ZstdCompressor().compress(Path(made["csv"]).read_bytes()))
    return made


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "arrow", "ndjson", "csv.gz", "ndjson.gz", "csv.zst"])
def test_every_format_gives_the_same_rows(files, table, kind):
    source = open_source(files[kind], block_rows=128)
    assert source.names == ["a", "b", "y"] and source.rereadable
    assert source.rows == (ROWS if kind in ("parquet", "arrow") else None)
    for _ in range(2):  # rereadable
        assert (rows_of(source) == table.to_numpy()).all()


def in_memory(table: pl.DataFrame):
    arrow = table.to_arrow()
    yield "polars", table, True
    yield "lazy", table.lazy(), True
    yield "pandas", table.to_pandas(), True
    yield "pyarrow", arrow, True
    yield "reader", pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(max_chunksize=77)), False
    yield "dictionary", {name: table[name].to_list() for name in table.columns}, True
    yield "rows", table.to_dicts(), True
    yield "structured", table.to_numpy(structured=True), True
    yield "tables", [table[:100], table[100:].to_pandas()], True
    yield "iterator", iter([table[:100], table[100:].to_arrow()]), False


def test_every_table_gives_the_same_rows(table):
    for name, source, rereadable in in_memory(table):
        opened = open_source(source)
        assert opened.rereadable == rereadable, name
        assert opened.names == table.columns, name
        assert (rows_of(opened) == table.to_numpy()).all(), name


def test_a_stream_is_read_once_and_says_so(table):
    source = open_source(iter([table]))
    assert len(rows_of(source)) == ROWS
    with pytest.raises(UsageError, match="only once"):
        rows_of(source)


def test_arrays_are_named_by_place():
    X = np.arange(12.0).reshape(4, 3)
    assert open_source(X).names == ["x0", "x1", "x2"]
    assert (rows_of(X) == X).all()
    assert (rows_of(scipy.sparse.csr_matrix(X)) == X).all()
    assert (rows_of(np.asfortranarray(X[::2])) == X[::2]).all()


def test_globs_and_lists(files, table, tmp_path):
    for k in range(3):
        table[k * 100 : (k + 1) * 100].write_parquet(tmp_path / f"part{k}.parquet")
    assert (rows_of(str(tmp_path / "part*.parquet")) == table[:300].to_numpy()).all()
    assert (rows_of([tmp_path / "part2.parquet", files["csv"]]) == pl.concat([table[200:300], table]).to_numpy()).all()


def test_where_derive_and_columns_are_sql(files, table):
    made = rows_of(files["csv"], derive={"t": "ln(b + 1)"}, where="t > 1 AND a > 0", columns=["t", "y"])
    kept = table.filter((pl.col("b").log1p() > 1) & (pl.col("a") > 0))
    assert (
        np.allclose(made[:, 0], kept["b"].log1p().to_numpy(), rtol=1e-15) and (made[:, 1] == kept["y"].to_numpy()).all()
    )


def test_row_groups_of_parquet_come_in_order(tmp_path):
    table = pl.DataFrame({"x": np.arange(1000.0), "y": np.arange(1000.0) ** 2})
    table.write_parquet(tmp_path / "t.parquet", row_group_size=64)
    source = open_source(tmp_path / "t.parquet", block_rows=100)
    assert source.rows == 1000
    assert (rows_of(source) == table.to_numpy()).all()
    kept = source.refine(where="x >= 500")
    assert (rows_of(kept) == table.to_numpy()[500:]).all() and kept.rows is None


@pytest.mark.parametrize("kind", ["csv", "ndjson", "csv.gz", "parquet", "arrow"])
def test_standard_input(files, table, kind, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(files[kind]).read_bytes())))
    source = open_source("-")
    assert not source.rereadable
    assert (rows_of(source) == table.to_numpy()).all()


def test_a_pipe_is_read_as_it_flows():
    ends = os.pipe()
    writer = os.fdopen(ends[1], "wb")
    writer.write(b"x,y\n1,2\n3,4\n")
    writer.flush()
    frames = open_source(os.fdopen(ends[0], "rb")).frames()
    assert next(frames).rows() == [(1.0, 2.0), (3.0, 4.0)]  # before the writer has ended
    late = threading.Timer(0.1, lambda: (writer.write(b'5.5,"6"\n'), writer.close()))
    late.start()
    assert next(frames).rows() == [(5.5, 6.0)]
    late.join()
    assert next(frames, None) is None


def test_quoted_line_ends_do_not_cut_a_row(monkeypatch):
    from trueline.data import streams as module

    monkeypatch.setattr(module, "_PIECE_BYTES", 16)
    text = "name,y\n" + "".join(f'"a\nb,{k}",{k}\n' for k in range(50))

    class Drip(io.BytesIO):
        def read1(self, size=-1):
            return super().read(7)

    frame = pl.concat(list(open_source(Drip(text.encode())).frames()))
    assert frame["y"].to_list() == list(range(50)) and frame["name"][3] == "a\nb,3"


def test_whole_numbers_may_become_fractions_later(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{k},{k}\n" for k in range(20_000)) + "0.5,1\n")
    assert rows_of(path)[-1].tolist() == [0.5, 1.0]


def write(folder, name: str, content) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


GOOD = "x,y\n1,2\n2,3\n4,4\n"


def bad_files(folder, table):
    parquet = folder / "whole.parquet"
    table.write_parquet(parquet)
    raw = parquet.read_bytes()
    yield "empty.csv", b"", "is empty"
    yield "blank.csv", b"\n  \n", "is empty"
    yield "header.csv", "x,y\n", "no rows"
    yield "long.csv", "x,y\n1,2\n3,4,5\n", "line 3 .* has 3 fields where the header names 2"
    yield "short.csv", "x,y\n1,2\n3\n", "line 3 .* has 1 fields where the header names 2"
    yield "bars.csv", GOOD.replace(",", "|"), r"separated by '\|'"
    yield "word.csv", "x,y\n" + "1,2\n" * 20_000 + "abc,3\n", "column 'x' .* holds 'abc' in line 20002"
    yield "latin.csv", "name,y\ncaf\xe9,2\nb,3\n".encode("latin-1"), "line 2 .* not UTF-8 .*0xe9"
    yield "twice.csv", "x,x,y\n1,2,3\n", "column 'x' twice"
    yield "numbers.csv", "1,2\n3,4\n", "no header"
    yield "binary.csv", bytes(range(256)) * 4, "not text"
    yield "cut.parquet", raw[: len(raw) // 2], "cut short"
    yield "junk.parquet", b"not parquet at all", "does not begin with PAR1"
    yield "broken.parquet", raw[:100] + b"\xff" * (len(raw) - 104) + raw[-4:], "cannot be read"
    yield "array.json", b'[{"x": 1}]', "JSON array"
    yield "broken.ndjson", b'{"x": 1, "y": 2}\n{"x": 1, \n', r"line 2 of .* is not a JSON object"
    yield "rows.vw", b"1 | a b\n", "trueline stream"


def test_bad_files_are_refused_in_one_sentence(tmp_path, table):
    for name, content, sentence in bad_files(tmp_path, table):
        path = write(tmp_path, name, content)
        with pytest.raises(TruelineError, match=sentence) as caught:
            for _ in encode(path, target="y"):
                pass
        assert "\n" not in caught.value.message and caught.value.where, name
        assert len(caught.value.message) < 400, name


def test_a_long_line_that_is_quoted_is_cut():
    told = explain(ValueError("could not parse `" + "<style>" * 90), describe="page.html").message
    assert told == "page.html cannot be read: could not parse `" + ("<style>" * 5)[:30] + "…`"


def test_bad_places(tmp_path):
    write(tmp_path, "flights.csv", GOOD)
    with pytest.raises(DataError, match="is a directory"):
        open_source(tmp_path)
    with pytest.raises(DataError, match=r"there is no file .*flihgts.csv; did you mean 'flights.csv'\?"):
        open_source(tmp_path / "flihgts.csv")
    with pytest.raises(DataError, match="no file matches"):
        open_source(str(tmp_path / "*.parquet"))
    with pytest.raises(UsageError, match="not int"):
        open_source(3)
    with pytest.raises(DataError, match="3 dimensions"):
        open_source(np.zeros((2, 2, 2)))


def test_bad_expressions(table):
    with pytest.raises(UsageError, match=r"no column 'bb'.*did you mean 'b'"):
        open_source(table, where="bb > 1")
    with pytest.raises(UsageError, match="where 'b >' is not an SQL expression"):
        open_source(table, where="b >")
    with pytest.raises(UsageError, match="derive z"):
        open_source(table, derive={"z": "nosuch(b)"})
    with pytest.raises(UsageError, match=r"no column 'yy'.*did you mean 'y'"):
        open_source(table, columns=["yy"])
    with pytest.raises(DataError, match=r"no row .* is left by where 'b > 100'"):
        rows_of(table, where="b > 100")


def test_repeated_names_of_frames():
    frame = pd.DataFrame(np.ones((2, 2)), columns=["x", "x"])
    with pytest.raises(DataError, match="'x' twice"):
        open_source(frame)
    with pytest.raises(DataError, match="'x' twice"):
        open_source(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]))


def test_another_separator_on_request(tmp_path):
    path = write(tmp_path, "t.csv", GOOD.replace(",", ";"))
    assert rows_of(path, separator=";").tolist() == [[1, 2], [2, 3], [4, 4]]
    assert rows_of(path).tolist() == [[1, 2], [2, 3], [4, 4]]  # as the header shows
    assert open_source(path).notes == [f"the values of {path} are separated by semicolons, as its header shows"]


_MEMORY = """
import re, sys
import trueline as tl
made = tl.scan(sys.argv[1], target="y")
status = open("/proc/self/status").read()
print(made.n, int(re.search(r"VmHWM:\\s+(\\d+)", status).group(1)) // 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    rng = np.random.default_rng(0)
    names = [*(f"x{j}" for j in range(23)), "y"]
    group = pa.table({name: rng.integers(0, 1000, 131_072) / 8 for name in names})
    peaks = []
    for groups in (22, 66):  # 550 MB and 1.7 GB of numbers: more than Polars reads ahead
        path = tmp_path / f"t{groups}.parquet"
        with pq.ParquetWriter(path, group.schema) as writer:
            for _ in range(groups):
                writer.write_table(group, row_group_size=131_072)
        done = subprocess.run([sys.executable, "-c", _MEMORY, str(path)], capture_output=True, text=True, check=True)
        rows, peak = map(int, done.stdout.split())
        assert rows == 131_072 * groups
        peaks.append(peak)
    assert peaks[1] < 1.1 * peaks[0], peaks


def test_dates_in_ndjson_are_read_as_in_csv(tmp_path):
    days = [str(datetime.date(2020, 1, 1) + datetime.timedelta(days=i)) for i in range(60)]
    times = [f"2020-01-01T{i % 24:02d}:30:00" for i in range(60)]
    table = pl.DataFrame({"day": days, "time": times, "y": np.sin(np.arange(60.0))})
    table.write_ndjson(tmp_path / "a.ndjson")
    table.write_csv(tmp_path / "a.csv")
    json, csv = (tl.LinearRegression().fit(str(tmp_path / name), target="y") for name in ("a.ndjson", "a.csv"))
    assert list(json.feature_names_in_) == ["day", "time"]
    assert_same_fit(json, csv)


def test_blanks_around_numbers_are_not_text(tmp_path):
    text = "x,z,word,y\n" + "".join(f"{k}, {k * 0.5} , a{k % 2},{k}\n" for k in range(50)) + "7, NA, a1,3\n"
    path = write(tmp_path, "t.csv", text)
    for source in (path, io.BytesIO(text.encode())):
        opened = open_source(source)
        assert [opened.dtypes[name] for name in opened.names] == [pl.Float64, pl.Float64, pl.String, pl.Float64]
        found = pl.concat(opened.frames())
        assert found["z"].to_list() == [k * 0.5 for k in range(50)] + [None]
    late = write(tmp_path, "late.csv", "x,y\n" + " 1,2\n" * 10_001 + "foo,3\n")
    with pytest.raises(DataError, match=r"column 'x' of .* holds 'foo' in line 10003 where a number was expected"):
        rows_of(late)


def test_quoted_names_are_unescaped(tmp_path):
    text = '"a""b","c,d",y\n1,2,3\n2,3,4\n'
    for source in (write(tmp_path, "t.csv", text), io.BytesIO(text.encode())):
        opened = open_source(source)
        assert opened.names == ['a"b', "c,d", "y"]
        assert pl.concat(opened.frames()).rows() == [(1, 2, 3), (2, 3, 4)]


def test_a_named_pipe_is_read_as_it_flows(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: Path(path).write_text(GOOD), daemon=True)
    writer.start()
    assert rows_of(path).tolist() == [[1, 2], [2, 3], [4, 4]]
    writer.join(timeout=10)


def test_a_stray_word_is_named_with_its_line(tmp_path):
    path = write(tmp_path, "t.csv", "x,y\n" + "".join(f"{'foo' if k == 30 else k % 5},{k}\n" for k in range(60)))
    with pytest.raises(DataError, match=r"column 'x' of .*t.csv holds 'foo' in line 32 where 59 other values"):
        tl.scan(path, target="y")


@pytest.mark.parametrize(
    "column", [[1, 2.5, 3], [1.5, 2, None], [np.int64(1), 2.5, 3], (1, 2.5, np.float32(3))], ids=str
)
def test_whole_numbers_and_others_may_be_mixed_in_a_column(column):
    (frame,) = open_source({"x": column}).frames()
    assert frame["x"].dtype == pl.Float64
    assert frame["x"].to_list() == [None if value is None else float(value) for value in column]


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.zst", "t.ndjson.gz"])
@pytest.mark.parametrize("how", ["cut", "cut early", "damaged"])
def test_compressed_text_that_is_not_whole_is_refused_by_name(tmp_path, name, how):
    import zstandard

    rows = "".join(f"{k},{k * k % 7},{k % 5}\n" for k in range(5000))
    text = b'{"x": 1, "y": 2}\n{"x": 2, "y": 3}\n' * 5000 if "json" in name else ("x,z,y\n" + rows).encode()
    packed = (
        zstandard.ZstdCompressor(write_checksum=True).compress(text) if name.endswith("zst") else gzip.compress(text)
    )
    if how == "damaged":
        packed = packed[:-6] + bytes([packed[-6] ^ 255]) + packed[-5:]
    path = tmp_path / name
    path.write_bytes(packed if how == "damaged" else packed[:-30] if how == "cut" else packed[:60])
    with pytest.raises(
        DataError, match=rf"{name} is compressed text that is cut short or damaged \(.*\); copy it again"
    ):
        tl.scan(str(path), target="y")


def test_a_missing_target_is_not_offered_to_be_made_up(tmp_path):
    path = write(tmp_path, "t.csv", "x,y\n1,2\n2,\n3,4\n")
    with pytest.raises(DataError, match=r"'y' .* missing value in row 2; remove them, or choose missing=\"drop\"$"):
        tl.scan(path, target="y")


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_compressed_members_on_standard_input_are_all_read_and_a_cut_one_is_refused(kind):
    import zstandard

    pack = gzip.compress if kind == "gzip" else zstandard.ZstdCompressor(write_checksum=True).compress
    rows = ["".join(f"{k},{k * k % 7},{k % 5}\n" for k in range(a, a + 3000)) for a in (0, 3000)]
    both = pack(b"x,z,y\n" + rows[0].encode()) + pack(rows[1].encode())
    assert tl.scan(io.BytesIO(both), target="y").n == 6000
    if kind == "gzip":
        assert tl.scan(io.BytesIO(both + bytes(512)), target="y").n == 6000
    for cut in (both[:-30], both[:-6] + bytes([both[-6] ^ 255]) + both[-5:]):
        with pytest.raises(DataError, match=r"compressed text that is cut short or damaged \(.*\); copy it again"):
            tl.scan(io.BytesIO(cut), target="y")
