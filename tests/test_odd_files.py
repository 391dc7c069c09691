"""Files as people have them: blank lines, other line ends, spreadsheets' habits; read as meant, or refused by what they are."""

from __future__ import annotations

import gzip
import io

import polars as pl
import pytest

from trueline.cli import main
from trueline.data.read import open_source
from trueline.errors import DataError

ROWS = [f"{i},{'ab'[i % 2]},{2 * i}.5" for i in range(30)]
TEXT = "\n".join(["x,k,y", *ROWS, ""])


def frames(tmp_path, text, name="t.csv"):
    """The table from a file and from a pipe."""
    raw = text if isinstance(text, bytes) else text.encode()
    (tmp_path / name).write_bytes(raw)
    return [pl.concat(open_source(source).frames()) for source in (str(tmp_path / name), io.BytesIO(raw))]


@pytest.mark.parametrize(
    "text",
    [
        TEXT + "\n\n",  # at the end
        TEXT.replace("\n", "\r\n") + "\r\n",
        TEXT.replace("\n", "\n\n"),  # every other line
        TEXT.replace("\n", "\n \t\n", 1),  # below the header
        TEXT.replace("5,b", "\n\n5,b", 1),
        "\ufeff" + TEXT + "\n",
    ],
)
def test_blank_lines_are_no_rows(tmp_path, text):
    for frame in frames(tmp_path, text):
        assert frame.height == 30 and frame.null_count().sum_horizontal().item() == 0
        assert frame["x"].to_list() == list(range(30)) and frame["k"][5] == "b"
    for command in ("fit", "stream"):
        assert main([command, str(tmp_path / "t.csv"), "--target", "y", "-q"]) == 0


def test_a_blank_line_of_one_column_is_a_missing_value(tmp_path):
    for frame in frames(tmp_path, "x\n1\n\n3\n"):
        assert frame["x"].to_list() == [1.0, None, 3.0]


def test_blank_lines_inside_a_value_are_kept(tmp_path):
    for frame in frames(tmp_path, TEXT.replace("5,b", '5,"b\n\nc"', 1)):
        assert frame.height == 30 and frame["k"][5] == "b\n\nc"


def test_numbers_with_blank_lines_are_read_whole_by_every_way(tmp_path, capsys):
    rows = "\n".join(["x,y", *(f"{i},{3 * i + i % 3}" for i in range(12_000)), "", ""])
    rows = rows.replace("\n11990,", "\n\n11990,")  # far behind what is looked at first
    (tmp_path / "t.csv").write_text(rows)
    assert main(["stream", str(tmp_path / "t.csv"), "--target", "y", "--json"]) == 0
    assert '"counter": 12000' in capsys.readouterr().out.splitlines()[-1]


REFUSED = {
    "cr": (TEXT.replace("\n", "\r"), "carriage return alone"),
    "sep": ("sep=;\n" + TEXT.replace(",", ";"), "begins with 'sep=;'"),
    "utf-16": (TEXT.encode("utf-16"), "UTF-16 text; convert it to UTF-8"),
    "workbook": (b"PK\x03\x04" + b"\x14\0" * 100, "save the sheet as CSV"),
    "old workbook": (b"\xd0\xcf\x11\xe0" + b"\0" * 100, "save the sheet as CSV"),
    "trailing": ("".join(f"{line},\n" for line in TEXT.split("\n")[:-1]), "do lines end in a separator?"),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("way", ["fit", "stream", "pipe"])
def test_what_is_no_table_is_refused_by_what_it_is(tmp_path, capsys, monkeypatch, kind, way):
    text, said = REFUSED[kind]
    raw = text if isinstance(text, bytes) else text.encode()
    path = tmp_path / "t.csv"
    path.write_bytes(raw)
    if way == "pipe":
        monkeypatch.setattr("trueline.data.streams.standard_input", lambda: io.BytesIO(raw))
        monkeypatch.setattr("trueline.data.read.streams.standard_input", lambda: io.BytesIO(raw))
    assert main(["fit" if way == "pipe" else way, "-" if way == "pipe" else str(path), "--target", "y", "-q"]) == 3
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1, error


def test_gzip_without_its_ending_is_named(tmp_path, capsys):
    (tmp_path / "t.csv").write_bytes(gzip.compress(TEXT.encode()))
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y"]) == 3
    assert "end its name in .gz" in capsys.readouterr().err


def test_the_line_that_is_no_json_is_named(tmp_path):
    path = tmp_path / "t.ndjson"
    for bad in ("{oops", "[1, 2]", '{"x": 1'):
        path.write_text("".join(f'{{"x": {i}, "y": {i}}}\n' for i in range(20)) + bad + "\n")
        with pytest.raises(DataError, match=r"line 21 of .* is not a JSON object"):
            list(open_source(str(path)).frames())
