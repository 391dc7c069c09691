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


def remedies(folder):
    """Command lines whose refusals name a remedy that is not every command's."""
    (folder / "gap.csv").write_text("x,z,w,y\n" + "".join(f"{k if k != 3 else ''},{k % 7},1,{k}\n" for k in range(40)))
    many = "x,y\n" + "".join(f"{k % 5},kind{k}\n" for k in range(60))
    (folder / "many.csv").write_text(many)
    (folder / "numbers.csv").write_text(many.replace("kind", "1"))
    (folder / "commas.csv").write_text("x;y\n" + "".join(f"{k % 5},5;{k}\n" for k in range(60)))
    (folder / "names.csv").write_text("x,name,y\n" + "".join(f"{k % 5},name{k},{k}\n" for k in range(60)))
    (folder / "days.csv").write_text("day,y\n" + "".join(f"0{1 + k % 9}/0{1 + k % 7}/2020,{k}\n" for k in range(60)))
    (folder / "bars.csv").write_text("x|y\n1|2\n2|3\n")
    for command in ("fit", "compare", "stream"):
        for name in ("gap", "many", "commas", "names", "days", "bars"):
            yield [command, f"{name}.csv", "-t", "y"]
    yield ["fit", "numbers.csv", "-t", "y", "--loss", "logistic"]
    yield ["stream", "gap.csv", "--resume", "online.tl"]
    for command in ("predict", "evaluate", "verify"):
        for model in ("linear.tl", "online.tl"):
            yield [command, model, "gap.csv"]
    yield ["export", "mixture.tl", "--to", "sql"]


def test_every_remedy_is_one_that_the_command_has(folder, capsys):
    """The check itself is made at every refusal of every test (conftest.py); here are those that were wrong."""
    words = placed(folder, ["stream", "t.csv", "-t", "y", "--features", "x,z", "-q", "--save", "mixture.tl"])
    assert run(capsys, *words)[0] == 0
    for words in list(remedies(folder)):
        code, _, err = run(capsys, *placed(folder, words))
        assert code in (2, 3), (words, err)


@pytest.mark.parametrize("model", ["linear.tl", "online.tl"])
def test_a_remedy_for_missing_values_works(model, folder, capsys):
    """Not --missing mean, which a model that was fitted without it cannot have."""
    list(remedies(folder))
    words = placed(folder, ["predict", model, "gap.csv"])
    code, _, err = run(capsys, *words)
    assert code == 3 and err.strip().endswith("choose --missing drop")
    assert run(capsys, *words, "--missing", "drop")[0] == 0


@pytest.mark.parametrize("target", ["y", "label"])
def test_what_a_method_of_compare_refuses_names_no_option_that_compare_lacks(target, tmp_path, capsys):
    from conftest import options_named, options_of

    for rows in (2, 3, 4, 6):
        labels = [["a", "b", "c"][k % 3] for k in range(rows)]
        pl.DataFrame({"x": range(rows), "y": [k * k for k in range(rows)], "label": labels}).write_csv(
            tmp_path / "t.csv"
        )
        code, out, err = run(capsys, "compare", tmp_path / "t.csv", "-t", target, "--features", "x", "--json")
        assert code in (0, 3), err
        assert options_named(out) <= options_of("compare"), out
