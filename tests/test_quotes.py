"""Quotation marks that go wrong in delimited text: one sentence with the line where the mark opens, wherever it comes from."""

from __future__ import annotations

import io
import itertools

import polars as pl
import pytest

from trueline.cli import main
from trueline.data import streams
from trueline.data.quotes import wrong_quotes
from trueline.data.read import open_source
from trueline.errors import DataError

ROWS = [f"{i},{'ab'[i % 2]},{2 * i}.5" for i in range(40)]


def table(**changes):
    rows = [changes.get(f"row{i}", row) for i, row in enumerate(ROWS)]
    return "\n".join([changes.get("head", "x,k,y"), *rows, ""]).encode()


# (text, what must be said): row i stands in line i + 2
FAULTS = {
    "first row": (table(row0='0,"a,0.5'), ["line 2 of", "opens a quotation mark before 'a,0.5'", "never closed"]),
    "in the midst": (table(row20='20,"a,40.5'), ["line 22 of", "never closed"]),
    "last row": (table(row39='39,"b,78.5'), ["line 41 of", "never closed"]),
    "last column": (table(row10='10,a,"20.5'), ["line 12 of", "before '20.5'"]),
    "first column": (table(row10='"10,a,20.5'), ["line 12 of", "never closed"]),
    "header": (table(head='x,"k,y'), ["line 1 of", "never closed"]),
    "twice": (table(row10='10,"a,20.5', row25='25,"a,50.5'), ["line 12 of", "nothing closes before line 27"]),
    "thrice": (table(row3='3,"a,6.5', row9='9,"a,18.5', row12='12,"a,24.5'), ["line 5 of", "before line 11"]),
    "text behind": (table(row10='10,"ab"c,20.5'), ["line 12 of", "has 'c,20.5' behind a closing quotation mark"]),
    "inside": (table(row10='10,5" pipe,20.5'), ["line 12 of", "inside a value", '5" pipe']),
    "one row": (b'x,k,y\n1,"a,2\n', ["line 2 of", "never closed"]),
    "after a good one": (table(row3='3,"a ""b"" c\nd",6.5', row20='20,"a,40.5'), ["line 23 of", "never closed"]),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", ["fit", "stream", "pipe"])
def test_the_line_where_the_mark_opens_is_named(fault, command, tmp_path, capsys):
    text, said = FAULTS[fault]
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    if command == "pipe":
        with pytest.raises(DataError) as refusal:
            list(open_source(io.BytesIO(text)).frames())
        found = str(refusal.value)
    else:
        assert main([command, str(path), "--target", "y", "-q"]) == 3
        found = capsys.readouterr().err
        assert len(found.strip().splitlines()) == 1
    assert all(words in found for words in said), found
    assert 'write ""' in found


def test_other_separators_and_marks_that_are_right():
    assert "line 2" in str(wrong_quotes([b"x;k\n", b'1;"a\n'], ";", "t"))
    for good in (
        [b'x,"k, k"\n', b'1,"a\n', b'b"\n'],
        [b'1,"",3\r\n', b'"","a ""b""",""\r\n'],
        [b'1,5" pipe,2\n'],  # not ours to judge: some readers take it
        [b'1,"a"'],
        [],
    ):
        assert wrong_quotes(good, ",", "t") is None


def test_a_long_value_in_marks_is_one_value(tmp_path):
    words = "\n".join(f"line {i}, with a comma" for i in range(500))
    text = table(row10=f'10,"{words}",20.5')
    (tmp_path / "t.csv").write_bytes(text)
    for source in (str(tmp_path / "t.csv"), io.BytesIO(text)):
        frame = pl.concat(open_source(source).frames())
        assert frame.height == 40 and frame["k"][10] == words


def test_cuts_are_at_the_last_line_end_outside_marks():
    for letters in itertools.product('a"\n', repeat=8):
        text = "".join(letters).encode()
        ends = [i for i, c in enumerate(text) if c == 10 and text.count(b'"', 0, i) % 2 == 0]
        assert streams._last_end(text) == (ends[-1] if ends else -1)


def test_a_header_that_comes_alone_is_not_taken_twice(monkeypatch):
    head, *rows = table().split(b"\n")[:-1]
    pieces = iter([head + b"\n", *(row + b"\n" for row in rows)])
    monkeypatch.setattr(streams, "arrivals", lambda stream: pieces)
    frame = pl.concat(open_source(io.BytesIO(b"any")).frames())
    assert frame.columns == ["x", "k", "y"] and frame["x"].to_list() == list(range(40))


def test_json_lines_are_cut_whatever_their_marks(monkeypatch):
    lines = [b'{"x": 1, "k": "5\\" pipe"}\n', b'{"x": 2, "k": "b"}\n', b'{"x": 3, "k": "c"}\n']
    monkeypatch.setattr(streams, "arrivals", lambda stream: iter(lines))
    found = [frame.height for frame in open_source(io.BytesIO(b"any")).frames()]
    assert found == [1, 1, 1]


def test_an_endless_pipe_behind_an_unclosed_mark_is_not_held(monkeypatch):
    monkeypatch.setattr(streams, "_LONGEST_ROW", 1 << 16)
    taken = []

    def endless(stream):
        yield b'x,y\n1,2\n2,"3\n'
        for k in range(10_000):
            taken.append(k)
            yield b"3,4\n" * 1000

    monkeypatch.setattr(streams, "arrivals", endless)
    with pytest.raises(DataError, match="line 3 of the stream opens a quotation mark"):
        list(open_source(io.BytesIO(b"any")).frames())
    assert len(taken) < 100
