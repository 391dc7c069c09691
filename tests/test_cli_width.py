"""What commands print fits the screen, whatever its width and however long or wide the names are."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from trueline.certificates.certificate import Status
from trueline.certificates.optimality import ExactCertificate
from trueline.cli import main
from trueline.report.text import clip, columns_of, shortened, table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("width")
    rng = np.random.default_rng(11)
    n = 400
    X = rng.normal(size=(n, 3))
    names = [
        "面積の平方メートル",
        "größe — a name of far more than sixty characters, which no screen has room for",
        "x",
    ]
    frame = pl.DataFrame({name: X[:, k] * 10.0**k for k, name in enumerate(names)})
    frame = frame.with_columns(
        town=pl.Series(rng.choice(["Aachen", "東京", "Łódź"], n)),
        y=pl.Series(1e5 + X @ [1e4, 2.0, 3e-1] + rng.normal(size=n)),
    )
    frame.write_csv(place / "wide.csv")
    many = pl.DataFrame({f"a_column_of_the_same_kind_number_{k:03d}_as_ever": rng.normal(size=n) for k in range(12)})
    many = many.with_columns([many[:, 0].alias(f"again_{k}") for k in range(12)])
    many.with_columns(y=many[:, 0] + many[:, 1] + 0.1 * pl.Series(rng.normal(size=n))).write_csv(place / "many.csv")
    for name in ("wide", "many"):
        assert main(["fit", str(place / f"{name}.csv"), "-t", "y", "-q", "-o", str(place / f"{name}.tl")]) == 0
    assert main(["stream", str(place / "wide.csv"), "-t", "y", "-q", "--save", str(place / "s.tl")]) == 0
    return place


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
@pytest.mark.parametrize(
    "line",
    [
        "fit wide.csv -t y", "fit many.csv -t y", "stream wide.csv -t y", "inspect wide.tl", "inspect many.tl",
        "inspect s.tl", "evaluate wide.tl wide.csv", "verify wide.tl wide.csv", "verify many.tl many.csv",
        "verify s.tl wide.csv", "fit wide.csv -t y --penalty lasso --holdout 0.3",
    ],
)  # fmt: skip
def test_no_line_is_wider_than_the_screen(capsys, folder, monkeypatch, columns, line):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(line.split()) == 0
    out = capsys.readouterr()
    printed = (out.out + out.err).splitlines()
    too_long = [text for text in printed if columns_of(text) > columns]
    assert printed and not too_long, too_long[0]


def test_wide_characters_count_as_two_columns():
    lines = table(["name", "value"], [["東京", "Aachen", "e\u0301cole"], ["1.5", "2.5", "3.5"]]).splitlines()
    assert {columns_of(line) for line in lines} == {len("Aachen  value")}, lines


def test_a_narrow_screen_says_what_it_left_out(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["inspect", "wide.tl"]) == 0
    out = capsys.readouterr().out
    assert "not shown: " in out and "--json" in out and "95 % from" in out


def test_a_stream_on_a_narrow_screen_shows_or_names_every_column(capsys, folder, monkeypatch):
    from trueline.cli.stream import HEADS

    monkeypatch.chdir(folder)
    for columns in (40, 46, 47, 54, 55, 60, 62, 63, 71, 72, 79, 80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["stream", "wide.csv", "-t", "y"]) == 0
        lines = capsys.readouterr().out.split("\n")
        assert max(map(columns_of, lines)) <= columns
        told = " ".join(" ".join(lines).split())
        named = told.partition("not shown: ")[2].partition("(")[0].strip()
        gone = set(named.split(", ")) if named else set()
        assert gone <= {" ".join(head).strip() for head in HEADS.values()}
        assert len(lines[1].split()) == len(HEADS) - 1 - len(
            gone
        )  # best fixed or best member; the head's second line has a word a column
        assert bool(gone) == (columns < 80) and ("a screen of 80 columns, shows all" in told) == bool(gone)
        assert not {"regret", "bound", "average loss", "example counter", "current predict"} & gone


def test_a_screen_that_is_resized_does_not_move_a_streams_columns(capsys, monkeypatch):
    import sys

    from trueline.cli.stream import Printer

    printer = Printer(False, False, sys.stdout)
    for columns in (60, 100, 45):
        monkeypatch.setenv("COLUMNS", str(columns))
        printer.row({"average_loss": 1.5, "counter": 4, "regret": 2.0, "bound": 3.0})
    _, second, *rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 3 and {len(row) for row in rows} == {len(second)}


def test_names_that_share_both_ends_stay_apart():
    names = [f"column_number_{k:03d}_with_a_rather_long_name" for k in range(300)]
    for size in (10, 16, 20, 30):
        cut = shortened(names, size)
        assert len(set(cut)) == 300 and max(map(len, cut)) <= size
    assert shortened(["a", "b"], 8) == ["a", "b"]
    assert columns_of(clip("東京都千代田区", 7)) <= 7


def test_a_table_leaves_out_spare_columns_first_to_last():
    heads, columns = ["name", "one", "two"], [["abc", "d"], ["1.0", "2.0"], ["3.25", "4"]]
    assert "two" in table(heads, columns, room=40, spare=[1, 2])
    narrow = table(heads, columns, room=11, spare=[2, 1])
    assert "one" in narrow and "two" not in narrow
    assert "one" not in table(heads, columns, room=5, spare=[2, 1])


def test_many_dependent_columns_are_counted_on_the_screen_and_listed_in_json(capsys, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["inspect", "many.tl"]) == 0
    out = capsys.readouterr().out
    assert "again_5 and 6 more" in out.replace("\n", " ").replace("  ", " ")
    assert "again_11" not in out.split("degenerate")[1]
    assert main(["inspect", "many.tl", "--json"]) == 0
    proof = json.loads(capsys.readouterr().out)["certificate"]
    assert proof["dropped"] == [f"again_{k}" for k in range(12)]
    every = ExactCertificate(status=Status.DEGENERATE, dropped=tuple(f"c{k}" for k in range(300)))
    assert len(str(every)) < 250 and "c0" in str(every) and "294 more" in str(every)
