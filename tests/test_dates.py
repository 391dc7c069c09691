"""Dates in text: which forms are dates, when the order of day and month is settled, and what is refused."""

from __future__ import annotations

import datetime
import io
import json

import numpy as np
import polars as pl
import pytest

import trueline as tl
from trueline.cli import main
from trueline.data import streams
from trueline.data.encode import Encoder
from trueline.data.read import open_source
from trueline.errors import DataError, UsageError


def run(capsys, *words):
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def days_of(source, **options):
    """The column ``day`` as the encoder gives it: days since 1970."""
    return np.concatenate([block.X[:, 0] for block in Encoder(source, target="y", features=["day"], **options)])


def write(path, cells, head="day,y"):
    path.write_text(head + "\n" + "".join(f'"{cell}",{k % 7}.5\n' for k, cell in enumerate(cells)))
    return str(path)


START = datetime.date(2020, 1, 1)
DATES = [START + datetime.timedelta(days=k) for k in range(60)]
EXPECTED = [(day - datetime.date(1970, 1, 1)).days for day in DATES]
EARLY = [datetime.date(2020, month, day) for month in (1, 2, 3) for day in range(1, 13)]  # every order fits


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y"]
)
@pytest.mark.parametrize("door", ["file", "pipe", "gz"])
def test_forms_of_dates(tmp_path, form, door):
    cells = [day.strftime(form) for day in DATES]
    path = write(tmp_path / "t.csv", cells)
    source = io.BytesIO(open(path, "rb").read()) if door == "pipe" else path  # noqa: SIM115
    if door == "gz":
        import gzip

        source = str(tmp_path / "t.csv.gz")
        (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    assert days_of(source).tolist() == EXPECTED


@pytest.mark.parametrize(
    ("form", "seconds"),
    [("%Y-%m-%d %H:%M", False), ("%Y-%m-%dT%H:%M:%S", True), ("%d/%m/%Y %H:%M", False), ("%m/%d/%Y %H:%M:%S", True),
     ("%Y-%m-%dT%H:%M:%SZ", True), ("%Y-%m-%d %H:%M:%S+00:00", True)],
)  # fmt: skip
def test_times_behind_dates(tmp_path, form, seconds):
    start = datetime.datetime(2020, 1, 1)
    times = [start + datetime.timedelta(minutes=731 * k, seconds=30 * seconds) for k in range(80)]
    path = write(tmp_path / "t.csv", [time.strftime(form) for time in times])
    meant = [(time - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1) for time in times]
    assert np.allclose(days_of(path), meant, rtol=1e-14)


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%m-%d-%Y", "%d/%m/%y", "%d/%m/%Y %H:%M"])
@pytest.mark.parametrize("rows", [2, 36, 20_000])
def test_an_order_that_nothing_tells_is_refused_with_the_remedy(capsys, tmp_path, form, rows):
    path = write(tmp_path / "t.csv", [EARLY[k % len(EARLY)].strftime(form) for k in range(rows)])
    for command in ("fit", "stream", "compare"):
        code, _, err = run(capsys, command, path, "-t", "y")
        assert code == 3 and "column 'day'" in err and "strptime" in err and "Traceback" not in err, err
    with pytest.raises(DataError, match="strptime"):
        tl.scan(path, target="y")
    # The remedy, as the sentence has it.
    shown = err.partition('--derive "')[2].partition('"')[0]
    known = dict([shown.split("=", 1)])
    meant = [(EARLY[k % len(EARLY)] - datetime.date(1970, 1, 1)).days for k in range(rows)]
    if form.startswith("%d"):
        assert days_of(path, derive=known).tolist() == meant
    # A column that is not used may be what it likes, and so may codes.
    (tmp_path / "u.csv").write_text("x," + (tmp_path / "t.csv").read_text().replace("\n", "\n1,")[:-2])
    frame = pl.read_csv(tmp_path / "u.csv").with_columns(x=pl.Series(np.arange(rows) * 1.5))
    frame.write_csv(tmp_path / "u.csv")
    Encoder(str(tmp_path / "u.csv"), target="y", features=["x"])
    if rows > 1000:  # fewer have a level a row
        assert len(list(Encoder(path, target="y", categories=["day"]))) >= 1


@pytest.mark.parametrize("rows", [2, 100, 100_000])
@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y"])
@pytest.mark.parametrize("where", ["first", "last"])
def test_one_day_beyond_12_settles_the_column_wherever_it_stands(tmp_path, rows, form, where):
    days = [EARLY[k % len(EARLY)] for k in range(rows)]
    days[0 if where == "first" else -1] = datetime.date(2020, 1, 13)
    path = write(tmp_path / "t.csv", [day.strftime(form) for day in days])
    meant = [(day - datetime.date(1970, 1, 1)).days for day in days]
    for block_rows in (None, 7 if rows < 1000 else 1111):
        assert days_of(path, block_rows=block_rows).tolist() == meant


def test_parts_of_a_table_settle_it_together(tmp_path):
    write(tmp_path / "a.csv", ["01/02/2020", "02/03/2020"])
    write(tmp_path / "b.csv", ["01/13/2020", "02/03/2020"])
    found = days_of(str(tmp_path / "*.csv"))
    assert found.tolist() == [
        (datetime.date(2020, m, d) - datetime.date(1970, 1, 1)).days for m, d in ((1, 2), (2, 3), (1, 13), (2, 3))
    ]


@pytest.mark.parametrize(
    "cells",
    [
        ["13/01/2020", "01/13/2020"],  # no order fits both
        ["31/02/2020", "01/03/2020"],  # no such day
        ["2020-01-05", "05/01/2020"],  # two forms
        [*(day.strftime("%m/%d/%Y") for day in DATES), "unknown"],
        ["20-01-05", "20-02-07"],
    ],
)
def test_text_that_is_nearly_dates_never_becomes_levels_in_silence(tmp_path, cells):
    path = write(tmp_path / "t.csv", cells)
    with pytest.raises(DataError, match="column 'day'"):
        days_of(path)


def test_a_value_that_breaks_the_order_later_is_named(tmp_path):
    cells = ["13/01/2020"] * 12_000
    cells[11_000] = "01/14/2020"
    with pytest.raises(DataError, match=r"column 'day' .* '01/14/2020' in line 11002"):
        days_of(write(tmp_path / "t.csv", cells))


def test_dates_as_text_in_a_frame_are_not_levels(tmp_path):
    frame = pl.DataFrame({"day": [str(day) for day in DATES], "y": np.arange(60.0)})
    for source in (frame, frame.to_pandas()):
        with pytest.raises(DataError, match="dates as text"):
            tl.scan(source, target="y")
        found = days_of(source, derive={"day": "strptime(day, '%Y-%m-%d')"})
        assert found.tolist() == EXPECTED


def test_a_model_remembers_the_order(capsys, tmp_path):
    """A file of new rows in which no day tells is read as the training rows were."""
    path = write(tmp_path / "t.csv", [day.strftime("%m/%d/%Y") for day in DATES])
    new = write(tmp_path / "new.csv", [day.strftime("%m/%d/%Y") for day in EARLY[:5]])
    model = tmp_path / "m.tl"
    assert run(capsys, "fit", path, "-t", "y", "-o", model)[0] == 0
    iso = write(tmp_path / "iso.csv", [str(day) for day in EARLY[:5]])
    one, two = (run(capsys, "predict", model, data)[:2] for data in (new, iso))
    assert one == two and one[0] == 0
    assert run(capsys, "verify", model, path)[0] == 0
    assert run(capsys, "stream", path, "-t", "y", "--save", model, "-q")[0] == 0
    assert run(capsys, "stream", new, "--resume", model, "--save", model, "-q")[0] == 0
    one, two = (run(capsys, "predict", model, data)[:2] for data in (new, iso))
    assert one == two and one[0] == 0


def test_the_types_of_columns_are_told(capsys, tmp_path):
    rng = np.random.default_rng(0)
    n = 60
    frame = pl.DataFrame(
        {
            "Year": [day.strftime("%d/%m/%Y") for day in DATES], "a": rng.normal(size=n), "b": rng.normal(size=n),
            "flag": rng.random(n) < 0.5, "k": rng.choice(["u", "v"], n), "y": rng.normal(size=n),
        }
    )  # fmt: skip
    frame.write_csv(tmp_path / "t.csv")
    line = "columns: 2 numbers, 1 boolean, 1 category, Year: dates (days, %d/%m/%Y)"
    kinds = {"Year": "date", "a": "number", "b": "number", "flag": "boolean", "k": "category"}
    for command in ("fit", "stream", "compare"):
        code, out, err = run(capsys, command, tmp_path / "t.csv", "-t", "y")
        assert code == 0 and line in out + err, (command, out, err)
        _, out, _ = run(capsys, command, tmp_path / "t.csv", "-t", "y", "--json")
        told = json.loads(out.splitlines()[-1])["columns"]
        assert {column["name"]: column["kind"] for column in told} == kinds
        assert next(c for c in told if c["name"] == "Year")["format"] == "%d/%m/%Y"


def test_times_of_day(tmp_path):
    path = write(tmp_path / "t.csv", [f"{k % 24:02d}:30:00" for k in range(48)])
    assert np.allclose(days_of(path), [(k % 24 + 0.5) / 24 for k in range(48)])
    assert open_source(path).dtypes["day"] == pl.Time


class Pieces(io.RawIOBase):
    """A pipe that hands over one piece at a time."""

    def __init__(self, pieces):
        self.left = [piece.encode() for piece in pieces]

    def readable(self):
        return True

    def read(self, size=-1):
        return self.left.pop(0) if self.left else b""

    read1 = read


def rows_of(dates, first=0):
    return "".join(f"{date},{first + k}\n" for k, date in enumerate(dates))


DAYS, CLEAR, MONTHS = ["01/02/2020", "03/04/2020"], ["15/01/2020", "16/02/2020"], ["01/15/2020", "02/17/2020"]
PIPES = {
    "order known from the first piece": (CLEAR, DAYS, None),
    "order open in the first piece": (DAYS, CLEAR, "no value tells the day from the month"),
    "a later piece contradicts": (CLEAR, MONTHS, "'01/15/2020'"),
    "no piece tells": (DAYS, DAYS, "no value tells the day from the month"),
}


@pytest.mark.parametrize("name", PIPES)
def test_a_pipe_reads_dates_as_a_file_does_or_refuses_them(name, tmp_path, monkeypatch):
    """Its first piece decides: what a later one says otherwise is refused, and what is open is never guessed."""
    monkeypatch.setattr(streams, "_PIECE_BYTES", 1)
    first, second, refusal = PIPES[name]
    pieces = ["d,y\n" + rows_of(first), rows_of(second, 2)]
    (tmp_path / "t.csv").write_text("".join(pieces))
    if refusal is None:
        here, there = tl.scan(tmp_path / "t.csv", target="y"), tl.scan(Pieces(pieces), target="y")
        np.testing.assert_array_equal(here.total.mean[0], there.total.mean[0])
        assert here.schema.formats == there.schema.formats == {"d": "%d/%m/%Y"}
        return
    with pytest.raises(DataError, match=refusal):
        tl.scan(Pieces(pieces), target="y")


@pytest.mark.parametrize("pieces", [(DAYS, CLEAR), (CLEAR, DAYS), (DAYS, DAYS)])
def test_the_remedy_of_open_dates_works_whatever_the_values_tell(pieces, tmp_path, monkeypatch):
    """Where a piece ends is chance: an order that is said is taken whether or not the values tell it too."""
    monkeypatch.setattr(streams, "_PIECE_BYTES", 1)
    text = ["d,y\n" + rows_of(pieces[0]), rows_of(pieces[1], 2)]
    (tmp_path / "t.csv").write_text("".join(text))
    said = {"d": "strptime(d, '%d/%m/%Y')"}
    here = tl.scan(tmp_path / "t.csv", target="y", derive=said)
    there = tl.scan(Pieces(text), target="y", derive=said)
    np.testing.assert_array_equal(here.total.mean[0], there.total.mean[0])
    model = tl.LinearRegression.from_moments(here)
    assert np.isfinite(model.predict({"d": DAYS})).all()
    if pieces != (DAYS, DAYS):
        with pytest.raises(UsageError, match="'d' holds dates that are written as %d/%m/%Y"):
            tl.scan(tmp_path / "t.csv", target="y", derive={"d": "strptime(d, '%m/%d/%Y')"})
