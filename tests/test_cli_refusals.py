"""Refusals of the command line: one exit code for one kind of mistake, our own sentences, remedies that can be taken."""

from __future__ import annotations

import polars as pl
import pytest
from commands import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, tables that lack one of its columns, and models of it."""
    from trueline.cli import main

    made = tmp_path_factory.mktemp("refusals")
    frame = pl.DataFrame({"x": range(40), "z": [k % 7 for k in range(40)], "w": [1, 2] * 20})
    frame = frame.with_columns(y=2.0 * pl.col("x") - pl.col("z") + pl.col("w") % 3)
    frame.write_csv(made / "t.csv")
    frame.drop("y").write_csv(made / "no_y.csv")
    frame.drop("z").write_csv(made / "no_z.csv")
    frame.drop("w").write_csv(made / "no_w.csv")
    for command, option, name in (("fit", "-o", "linear.tl"), ("stream", "--save", "online.tl")):
        words = [command, str(made / "t.csv"), "-t", "y", "--features", "x,z", "--weights", "w", "-q"]
        assert main([*words, option, str(made / name)]) == 0
    return made


# A name that the call gives and that is wrong is a wrong call (2); data that lack what a model needs are wrong data (3).
NAMED = [
    ["fit", "t.csv", "-t", "nope"],
    ["fit", "t.csv", "-t", "y", "--features", "x,nope"],
    ["fit", "t.csv", "-t", "y", "--weights", "nope"],
    ["fit", "t.csv", "--formula", "y ~ nope"],
    ["compare", "t.csv", "-t", "nope"],
    ["compare", "t.csv", "-t", "y", "--features", "nope"],
    ["stream", "t.csv", "-t", "nope"],
    ["stream", "t.csv", "-t", "y", "--features", "nope"],
    ["predict", "linear.tl", "t.csv", "--keep", "nope"],
    ["evaluate", "linear.tl", "t.csv", "-t", "nope"],
    ["evaluate", "linear.tl", "t.csv", "--weights", "nope"],
]
LACKED = [
    (["predict", "linear.tl", "no_z.csv"], "z"),
    (["predict", "online.tl", "no_z.csv"], "z"),
    (["evaluate", "linear.tl", "no_z.csv"], "z"),
    (["evaluate", "linear.tl", "no_y.csv"], "y"),
    (["evaluate", "online.tl", "no_y.csv"], "y"),
    (["verify", "linear.tl", "no_z.csv"], "z"),
    (["verify", "linear.tl", "no_y.csv"], "y"),
    (["verify", "linear.tl", "no_w.csv"], "w"),
    (["stream", "no_z.csv", "--resume", "online.tl"], "z"),
    (["stream", "no_y.csv", "--resume", "online.tl"], "y"),
    (["stream", "no_y.csv", "--resume", "online.tl", "--weights", "w"], "y"),
    (["stream", "no_w.csv", "--resume", "online.tl"], "w"),
]


def placed(folder, words):
    return [str(folder / word) if word.endswith((".csv", ".tl")) else word for word in words]


@pytest.mark.parametrize("words", NAMED, ids=" ".join)
def test_a_column_that_the_call_names_wrongly_is_a_wrong_call(words, folder, capsys):
    code, _, err = run(capsys, *placed(folder, words))
    assert code == 2 and "'nope'" in err


@pytest.mark.parametrize(("words", "column"), LACKED, ids=[" ".join(words) for words, _ in LACKED])
def test_data_without_a_column_of_the_model_are_wrong_data(words, column, folder, capsys):
    code, _, err = run(capsys, *placed(folder, words))
    assert code == 3 and f"lacks column '{column}'" in err, err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["serve", "linear.tl", "--port", "x"], "--port is a whole number from 0 to 65535, not 'x'"),
        (["serve", "linear.tl", "--port=70000"], "--port is a whole number from 0 to 65535, not '70000'"),
        (["serve", "--snapshot-every", "0"], "--snapshot-every is a whole number of at least 1, not '0'"),
        (["fit", "t.csv", "-t", "y", "--folds", "many"], "--folds is a whole number, not 'many'"),
        (["fit", "t.csv", "-t", "y", "--holdout", "1/4"], "--holdout is a number, not '1/4'"),
    ],
)
def test_a_value_that_is_no_number_is_refused_in_our_words(words, sentence, folder, capsys):
    code, _, err = run(capsys, *placed(folder, words))
    assert code == 2 and err.strip() == f"trueline: {sentence}"
