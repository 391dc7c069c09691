"""Numbers of files to the last bit, and files that are damaged."""

import io
import json
import random
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import scipy.sparse

import trueline as tl
from trueline.data.encode import Encoder
from trueline.data.read import open_source
from trueline.errors import DataError

ODD = [
    "0", "-0", "0.0", "-0.0", "+1", "1.", ".5", "-.5", "1e0", "1E5", "1e-5", "1e+5", "00012.50", "1e22", "1e23", "1e-22",
    "1e-23", "9007199254740991", "9007199254740992", "9007199254740993.0", "9007199254740993e0",
    "2.2250738585072011e-308", "2.2250738585072014e-308", "2.225073858507201e-308", "4.9e-324", "2.4703282292062328e-324",
    "2.4703282292062327e-324", "1.7976931348623157e308", "1.7976931348623158e308", "123456789012345678901234567890e-10",
    "0.1000000000000000055511151231257827021181583404541015625", "6.02214076e23", "1" + "0" * 300 + ".", "0." + "0" * 300 + "1",
    "9" * 40 + ".5", "3." + "14159265358979323846" * 20,
]  # fmt: skip


def numerals(count):
    """Random decimals of all lengths and sizes, and decimals that lie just between two doubles."""
    draw = random.Random(1)
    for _ in range(count):
        digits = "".join(draw.choice("0123456789") for _ in range(draw.randint(1, 25)))
        cut = draw.randint(0, len(digits))
        text = draw.choice(["", "-"]) + digits[:cut] + "." + digits[cut:]
        yield text if draw.random() < 0.4 else f"{text}e{draw.randint(-330, 280)}"
    from fractions import Fraction

    for _ in range(count // 4):
        x = abs(draw.gauss(0, 1)) * 10.0 ** draw.randint(-5, 15)
        middle = (Fraction(x) + Fraction(np.nextafter(x, np.inf).item())) / 2
        scaled = middle * 10**60
        text = str(int(scaled)).rjust(61, "0")
        yield f"{text[:-60]}.{text[-60:]}"


@pytest.mark.parametrize("ending", ["csv", "tsv", "ndjson", "pipe"])
def test_numerals_are_read_to_the_last_bit(tmp_path, ending):
    cells = [cell for cell in [*ODD, *numerals(4000)] if cell.strip("-.") and abs(float(cell)) < np.inf]
    if ending == "ndjson":
        cells = [repr(float(cell)) for cell in cells]  # JSON knows fewer spellings
        text = "".join(f'{{"x": {cell}, "y": 1.5}}\n' for cell in cells)
    else:
        text = "x,y\n".replace(",", "\t" if ending == "tsv" else ",") + "".join(
            f"{cell}{chr(9) if ending == 'tsv' else ','}1.5\n" for cell in cells
        )
    path = tmp_path / f"t.{ending}"
    path.write_text(text)
    source = io.BytesIO(text.encode()) if ending == "pipe" else path
    read = np.concatenate([frame["x"].to_numpy() for frame in open_source(source).frames()])
    meant = np.array([float(cell) for cell in cells])
    wrong = np.flatnonzero(read.view(np.int64) != meant.view(np.int64))
    assert not len(wrong), [(cells[k], read[k], meant[k]) for k in wrong[:5]]


DAMAGED = """
import json, sys
import polars as pl
from trueline.data.read import open_source
from trueline.errors import TruelineError

path, raw = sys.argv[1], open(sys.argv[1], "rb").read()
length = int.from_bytes(raw[-8:-4], "little")
start = len(raw) - 8 - length
for bit in range(int(sys.argv[2]), 8 * (length + 8), int(sys.argv[3])):
    damaged = bytearray(raw)
    damaged[start + bit // 8] ^= 1 << bit % 8
    open(path, "wb").write(damaged)
    print(json.dumps(["bit", bit]), flush=True)
    try:
        ours = [row for frame in open_source(path).frames() for row in frame.rows()]
    except TruelineError as error:
        ours = "refused: " + error.message
    try:
        polars = pl.read_parquet(path, glob=False).rows()
    except BaseException as error:
        polars = "refused"
    print(json.dumps([bit, ours, polars]), flush=True)
open(path, "wb").write(raw)
"""


def test_a_damaged_footer_of_parquet_gives_what_polars_gives_or_a_refusal(tmp_path):
    """Every 11th bit of the footer in turn. Polars itself may end the process: a child takes that."""
    path = tmp_path / "t.parquet"
    table = pl.DataFrame({"x": np.arange(40.0), "k": np.arange(40) % 7, "y": np.arange(40.0) ** 2})
    table.write_parquet(path, row_group_size=20, use_pyarrow=False)
    rows = [list(row) for row in table.rows()]
    at, step, seen = 0, 11, 0
    for _ in range(40):  # as many ends of the process as we bear with
        made = subprocess.run(
            [sys.executable, "-c", DAMAGED, str(path), str(at), str(step)], capture_output=True, text=True, timeout=300
        )
        lines = [json.loads(line) for line in made.stdout.splitlines()]
        for bit, *said in (line for line in lines if line[0] != "bit"):
            ours, polars = said
            seen += 1
            # Nothing of our own between Polars and the reader: the same rows, or a sentence.
            assert ours in (rows, polars) or str(ours).startswith("refused: "), (bit, ours)
        if made.returncode == 0:
            break
        assert made.returncode < 0 or "panicked" in made.stderr, made.stderr[-2000:]  # Polars', not a traceback of ours
        assert "trueline" not in made.stderr.rpartition("Traceback")[2], made.stderr[-2000:]
        at = lines[-1][1] + step if lines[-1][0] == "bit" else lines[-1][0] + step
        path.write_bytes(b"")
        table.write_parquet(path, row_group_size=20, use_pyarrow=False)
    assert seen > 300


LARGE = [2**53 + 1, -(2**53) - 1, 2**60 + 1, 2**63 - 1, 2**63 + 1, 2**64 - 1, 10**19 + 1, 123456789012345678901]
HELD = [2**53, 2**60, 10**18, -(2**62), 2**63, 3 * 2**60]


def sources(folder, values):
    """The same whole numbers through every door that holds them."""
    rows = [(value, k + 0.5) for k, value in enumerate(values)]
    (folder / "t.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    (folder / "t.tsv").write_text("x\ty\n" + "".join(f" {x} \t{y}\n" for x, y in rows))
    (folder / "t.ndjson").write_text("".join(f'{{"x": {x}, "y": {y}}}\n' for x, y in rows))
    yield from (str(folder / name) for name in ("t.csv", "t.tsv", "t.ndjson"))
    yield io.BytesIO((folder / "t.csv").read_bytes())
    yield io.BytesIO((folder / "t.ndjson").read_bytes())
    ys = [y for _, y in rows]
    if max(values) < 2**64 and (min(values) >= 0 or max(values) < 2**63):
        dtype = np.int64 if max(values) < 2**63 else np.uint64
        frame = pl.DataFrame({"x": np.array(values, dtype=dtype), "y": ys})
        frame.write_parquet(folder / "t.parquet")
        frame.write_ipc(folder / "t.arrow")
        yield from (frame, frame.to_pandas(), frame.lazy(), str(folder / "t.parquet"), str(folder / "t.arrow"))
        yield {"x": np.array(values, dtype=dtype), "y": np.array(ys)}
    yield {"x": [*values[:-1], float(values[-1])] if len(values) > 1 else values, "y": ys}
    yield [{"x": x, "y": y} for x, y in rows]


@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize("at", [0, 3])
def test_whole_numbers_that_would_be_rounded_are_refused_with_their_place(tmp_path, value, at):
    values = [1, 2, 3, 4, 5]
    values[at] = value
    for source in sources(tmp_path, values):
        with pytest.raises(DataError, match=rf"column 'x' .*row {at + 1}\b|column 'x' .*row {at}\b") as caught:
            list(Encoder(source, target="y"))
        assert str(value) in caught.value.message
        if not isinstance(source, (io.BytesIO, dict, list)):
            list(Encoder(source, target="y", derive={"z": "y * 2"}, features=["z"]))  # not used: not refused


def test_whole_numbers_that_float64_holds_are_read(tmp_path):
    for value in HELD:
        for source in sources(tmp_path, [1, value, 3]):
            assert np.concatenate([b.X for b in Encoder(source, target="y")])[1, 0] == float(value)


def test_a_row_that_a_filter_leaves_out_is_not_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,1\n9007199254740993,2\n3,3\n9007199254740994,4\n")
    (block,) = Encoder(str(path), target="y", where="y <> 2")
    assert block.X[:, 0].tolist() == [1.0, 3.0, 9007199254740994.0]
    with pytest.raises(DataError, match="row 2 "):
        list(Encoder(str(path), target="y", where="y > 1"))
    path.write_text("x,y\n1,1\n9007199254740993.0,2\n9.007199254740993e15,3\n")  # decimals are rounded as decimals are
    assert len(list(Encoder(str(path), target="y"))) == 1


@pytest.mark.parametrize("value", [2**53 + 1, 2**64 - 1, 10**20 + 1])
def test_arrays_and_rows_of_such_numbers_are_refused(value):
    kinds = [np.array([[1], [value], [3]], dtype=object), [[1], [value], [3]]]
    if value < 2**64:
        kinds.append(np.array([[1], [value], [3]], dtype=np.uint64))
    y = [1.0, 2.0, 4.0]
    for estimator in (
        tl.LinearRegression(),
        tl.Lasso(alpha=0.1),
        tl.OnlineRegressor(),
        tl.GeneralizedRegression("poisson"),
    ):
        for X in kinds:
            with pytest.raises(DataError, match=rf"{value}.* would round"):
                estimator.fit(X, y)
            with pytest.raises(DataError, match=rf"{value}.* would round"):
                estimator.fit(np.ones((3, 1)) * [[1.0], [2.0], [5.0]], [1, value, 3])
    for X, t in ((kinds[1], y), ([[1.0], [2.0], [5.0]], [1, value, 3])):
        with pytest.raises(DataError, match=rf"{value}.* would round"):
            tl.minimize(X, t)
    if value < 2**63:
        stored = scipy.sparse.csr_array(np.array([[0, 1], [0, value], [3, 0]]))
        with pytest.raises(DataError, match=rf"column 'x1' of X in row 1 .*{value}"):
            tl.LinearRegression().fit(stored, y)
    schema = tl.scan({"x": [1.0, 2.0, 3.5], "y": y}, target="y").schema
    with pytest.raises(DataError, match=rf"{value}"):
        schema.encode_row({"x": value})
    assert schema.encode_row({"x": 2**60})[0] == 2.0**60


@pytest.mark.parametrize("learner", [tl.Ridge, tl.GeneralizedRegression, tl.OnlineRegressor, tl.LocalRegression])
def test_weights_are_refused_as_other_numbers_are(learner):
    X, y = np.arange(12.0).reshape(6, 2) ** 1.5, np.arange(6.0) + 1.0
    for weights in ([1, 2, 2**53 + 1, 1, 1, 1], np.array([1, 2, 2**53 + 1, 1, 1, 1])):
        with pytest.raises(DataError, match=rf"sample_weight.* row 2 .*{2**53 + 1}"):
            learner().fit(X, y, sample_weight=weights)
    learner().fit(X, y, sample_weight=[1, 2, 3, 1, 1, 1])
    with pytest.raises(DataError, match="sample_weight"):
        tl.OnlineRegressor().learn_one({"a": 1.0}, 1.0, w=2**53 + 1)


def test_numbers_of_thousands_of_digits_are_refused_in_a_short_sentence():
    with pytest.raises(DataError, match="16,610 bits") as refused:  # Python itself refuses to write them down
        tl.OnlineRegressor().learn_one({"a": 10**5000}, 1.0)
    assert len(str(refused.value)) < 300


def test_numbers_of_numpy_are_looked_at_one_by_one_too():
    value = np.int64(2**53 + 1)
    schema = tl.scan({"x": [1.0, 2.0, 3.5], "y": [1.0, 2.0, 4.0]}, target="y").schema
    for learn in (
        lambda: tl.OnlineRegressor().learn_one({"a": value}, 1.0),
        lambda: tl.OnlineRegressor().learn_one({"a": 1.0}, value),
        lambda: tl.LinearRegression().fit([[1], [value], [3]], [1.0, 2.0, 4.0]),
        lambda: schema.encode_row({"x": value}),
    ):
        with pytest.raises(DataError, match=r"9007199254740993.* would round"):
            learn()
    assert schema.encode_row({"x": np.int64(2**60)})[0] == 2.0**60


def test_masked_arrays_are_refused():
    X, y = np.arange(12.0).reshape(6, 2) ** 2, np.arange(6.0)
    hidden = np.ma.masked_array(y, mask=[0, 0, 1, 0, 0, 1])
    cells = np.ma.masked_array(X, mask=np.arange(12).reshape(6, 2) == 5)
    for estimator in (
        tl.LinearRegression(), tl.Ridge(), tl.Lasso(alpha=0.1), tl.OnlineRegressor(), tl.RobustRegression(), tl.KernelRegression(),
        tl.LogisticRegression(),
    ):  # fmt: skip
        labels = y > 2 if "Logistic" in type(estimator).__name__ else y
        with pytest.raises(DataError, match="X is a masked array with 1 masked entry, the first in row 2, column 1"):
            estimator.fit(cells, labels)
        with pytest.raises(DataError, match="y is a masked array with 2 masked entries, the first in row 2"):
            estimator.fit(X, np.ma.masked_array(labels, mask=hidden.mask))
        with pytest.raises(DataError, match="sample_weight is a masked array"):
            estimator.fit(X, labels, sample_weight=np.ma.masked_array(np.ones(6), mask=hidden.mask))
        estimator.fit(np.ma.masked_array(X), labels)  # nothing is hidden
        with pytest.raises(DataError, match="X is a masked array"):
            estimator.predict(cells)
    for arrays in ((cells, y), (X, hidden)):
        with pytest.raises(DataError, match="masked array"):
            tl.minimize(*arrays)
    with pytest.raises(DataError, match="sample_weight is a masked array"):
        tl.minimize(X, y, sample_weight=hidden + 1)
    for source in (cells, {"x": hidden, "y": y}, {"x": y**2, "y": hidden}):
        with pytest.raises(DataError, match="masked"):
            tl.scan(source)


def test_nothing_in_pandas_is_missing():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "a": pandas.array([1, None, 3, 4], dtype="Int64"), "b": pandas.array([True, False, None, True], dtype="boolean"),
            "c": pandas.array(["u", "v", "u", None], dtype="string"), "y": [1.0, 2.0, 3.0, 5.0],
        }
    )  # fmt: skip
    with pytest.raises(DataError, match="missing value in row 2"):
        tl.scan(frame, target="y")
    schema = tl.scan(pandas.concat([frame] * 5), target="y", missing="indicator").schema
    assert {column.name: column.missing for column in schema.columns} == {"a": 5, "b": 5, "c": 5}
    with pytest.raises(DataError, match="row 1"):
        tl.LinearRegression().fit(frame[["a"]], frame["y"])


@pytest.mark.parametrize(
    "line",
    [
        '{"x": 1, "x": 2, "y": 3}', '{"x": 1, "y": 3, "x": 1}', '{"x": null, "x": 2, "y": 3}', '{"x": 1, "y": 3, "x": null}',
        '{"x": 1, "\\u0078": 2, "y": 3}', '{"x": 1, "y": 3, "s": {"a": 1, "a": 2}}', '{"x": 1, "y": 3, "s": {"b": {"c": 1, "c": 1}}}',
        '{"y": 1, "y": 3}', '{"x": 1, "y": 3, "new": 1, "new": 2}', '{"x" : 1, "x" :2, "y": 3}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("door", ["file", "pipe", "gz"])
def test_a_key_twice_in_a_line_of_json_is_refused(tmp_path, line, door):
    good = [f'{{"x": {k}, "y": {k % 3}.5, "s": {{"a": 1}}}}' for k in range(8)]
    text = "\n".join([*good[:5], "", line, *good[5:]]) + "\n"
    path = tmp_path / ("t.ndjson.gz" if door == "gz" else "t.ndjson")
    import gzip

    path.write_bytes(gzip.compress(text.encode()) if door == "gz" else text.encode())
    source = io.BytesIO(text.encode()) if door == "pipe" else str(path)
    with pytest.raises(DataError, match=r"line 7 of .* twice"):
        list(Encoder(source, target="y", features=["x"]))


def test_lines_of_json_with_marks_and_gaps_are_read(tmp_path):
    lines = [
        '{"x": 1, "w": "a\\": b", "y": 1}',
        '{"y": 2, "x": null}',
        '{"w": "c", "x": 3, "y": 4}',
        '{"x": 5, "y": 6}',
    ]
    (tmp_path / "t.ndjson").write_text("\n".join(lines))
    frame = pl.concat(open_source(str(tmp_path / "t.ndjson")).frames())
    assert frame["x"].to_list() == [1, None, 3, 5] and frame["w"].to_list() == ['a": b', None, "c", None]


@pytest.mark.parametrize(
    "line", ['{"x": 1', '{"x": 1}{"x": 2}', "[1]", "3", '{"x": 1}tail', "word", '{"x": 01}', "null"]
)
def test_broken_lines_of_json_are_refused(tmp_path, line):
    path = tmp_path / "t.ndjson"
    path.write_text('{"x": 1, "y": 2}\n' + line + '\n{"x": 3, "y": 4}\n')
    with pytest.raises(DataError, match=r"line 2 of"):
        list(Encoder(str(path), target="y"))
