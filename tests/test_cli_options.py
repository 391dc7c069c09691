"""Every option of a command is honoured or refused by name, whatever reads the rows: none is dropped on the way."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from commands import run

from trueline.cli.compare import compare
from trueline.cli.declare import declared
from trueline.cli.evaluate import evaluate
from trueline.cli.fit import fit
from trueline.cli.predict import predict
from trueline.cli.stream import stream

REFUSED = "refused"
CHANGES = "changes the result"  # as the JSON says it
WRITES = "writes a file"
SILENT = "changes what is printed"
ACCEPTS = "takes what is refused without it"
NEEDED = "needed by every call"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, the same as Parquet, Vowpal Wabbit's text, and a model of each kind."""
    from trueline.cli import main

    made = tmp_path_factory.mktemp("options")
    rng = np.random.default_rng(4)
    n = 240
    x, z = rng.normal(size=n), rng.normal(size=n)
    frame = pl.DataFrame(
        {"x": x, "z": z, "w": rng.integers(1, 4, n), "kind": rng.choice(["a", "b"], n), "y": x - z + rng.normal(size=n)}
    )
    frame = frame.with_columns(sold=pl.when(pl.col("y") > 0).then(pl.lit("yes")).otherwise(pl.lit("no")))
    frame.write_csv(made / "t.csv")
    frame.write_parquet(made / "t.parquet")
    frame.write_csv(made / "bars.csv", separator="|")
    frame.write_csv(made / "decimals.csv", separator=";", decimal_comma=True)
    gaps = pl.Series(np.arange(n) % 9 == 4)
    frame.with_columns(x=pl.when(~gaps).then(pl.col("x"))).write_csv(made / "gaps.csv")
    frame.with_columns(kind=pl.lit("c")).write_csv(made / "levels.csv")
    lines = [f"{1 if s == 'yes' else -1} |f x:{a} z:{b}" for a, b, s in zip(x, z, frame["sold"])]
    (made / "t.vw").write_text("\n".join(lines) + "\n")
    table, text = str(made / "t.csv"), str(made / "t.vw")
    assert main(["fit", table, "-t", "y", "--features", "x,z,kind", "-q", "-o", str(made / "linear.tl")]) == 0
    assert main(["stream", text, "-q", "--save", str(made / "text.tl")]) == 0
    assert main(["stream", table, "-t", "y", "--features", "x,z", "-q", "--save", str(made / "online.tl")]) == 0
    return made


def outcome(capsys, folder, command, *arguments):
    """(exit code, the result without what no two runs share, standard error)"""
    code, out, err = run(capsys, *command, *arguments)
    if code == 0 and "--json" in command:
        result = json.loads(out.strip().splitlines()[-1])
        for name in ("seconds", "model", "report", "plot", "output"):
            result.pop(name, None)
        for row in result.get("methods", ()):
            row.pop("seconds")
        return code, result, err
    return code, out, out + err  # with --json a refusal is an object on standard output


def judged(capsys, folder, command, option, value, expected, before=()):
    """Run with and without an option, and compare with what is expected of it."""
    plain = option.replace("_", "-")
    flag = (
        "--format" if option == "form" else f"--no-{plain}" if option in ("certificate", "intercept") else f"--{plain}"
    )
    path = folder / (value if expected == WRITES and value != "PATH" else "written")
    path.unlink(missing_ok=True)
    given = [flag] if value is True else [flag, str(path) if expected == WRITES else value]
    code, result, err = outcome(capsys, folder, [*command, *before], *given)
    if expected == REFUSED:
        assert code == 2 and flag.removeprefix("--").removeprefix("no-") in err.replace("_", "-"), (option, code, err)
        return
    assert code == 0, (option, err)
    if expected == WRITES:
        assert path.exists(), option
    elif expected == ACCEPTS:
        assert outcome(capsys, folder, [*command, *before])[0] == 3, option
    elif expected in (CHANGES, SILENT):
        _, other, _ = outcome(capsys, folder, [*command, *before])
        assert result != other, option


# option: (value, what is expected, what must stand beside it)
FIT = {
    "data": (None, NEEDED, ()),
    "target": (None, NEEDED, ()),
    "features": ("x", CHANGES, ()),
    "formula": ("y ~ x", CHANGES, ()),
    "intercept": (True, CHANGES, ()),
    "weights": ("w", CHANGES, ()),
    "where": ("z > 0", CHANGES, ()),
    "derive": ("q=x*x", CHANGES, ()),
    "missing": ("maybe", REFUSED, ()),
    "loss": ("huber", CHANGES, ()),
    "penalty": ("ridge", CHANGES, ()),
    "alpha": ("50", CHANGES, ("--penalty", "ridge")),
    "l1_ratio": ("0.9", CHANGES, ("--penalty", "elastic", "--alpha", "0.1")),
    "folds": ("9", CHANGES, ()),
    "holdout": ("0.2", REFUSED, ()),
    "output": ("PATH", WRITES, ()),
    "report": ("PATH", WRITES, ()),
    "engine": (None, NEEDED, ()),
    "scheduler": ("nowhere", REFUSED, ()),
    "master": ("local[1]", REFUSED, ()),
    "quiet": (None, NEEDED, ()),
    "json": (None, NEEDED, ()),
    "separator": (";", REFUSED, ()),
    "decimal": (",", REFUSED, ()),
}


def test_the_table_has_every_option_of_fit():
    assert {*FIT} == {*declared(fit)}, "a new option of fit needs a line here: does --engine honour it or refuse it?"


@pytest.mark.parametrize("option", [name for name, (_, expected, _) in FIT.items() if expected != NEEDED])
def test_fit_on_an_engine_honours_or_refuses_every_option(option, folder, capsys):
    dask = pytest.importorskip("dask")
    value, expected, before = FIT[option]
    if option == "missing":
        expected = REFUSED  # a policy that there is not; those that there are go to every partition
    target = [] if option == "formula" else ["-t", "y"]
    command = ["fit", str(folder / "t.csv"), *target, "--engine", "dask", "--json"]
    if option != "formula":
        command += [] if option in ("features", "derive") else ["--features", "x,z,kind"]
    with dask.config.set(scheduler="synchronous"):
        if option == "formula":
            code, result, err = outcome(capsys, folder, command, "--formula", value)
            assert code == 0 and [row["term"] for row in result["coefficients"]] == ["(intercept)", "x"], err
        else:
            judged(capsys, folder, command, option, value, expected, before)


def test_a_field_that_no_engine_knows_is_refused(folder, monkeypatch):
    """Not a list of what is refused: of what is known."""
    import dataclasses

    from trueline.cli import elsewhere
    from trueline.cli.fitting import Asked
    from trueline.errors import UsageError

    @dataclasses.dataclass
    class More(Asked):
        new_option: bool = False

    with pytest.raises(UsageError, match="--new-option is not taken with --engine"):
        elsewhere.fit_elsewhere(More(str(folder / "t.csv"), "y", new_option=True), "dask", None, None)


# Of sparse text: what does not apply there.
STREAM_TEXT = {
    "data": NEEDED,
    "target": ("y", REFUSED),
    "learner": ("widrow-hoff", CHANGES),
    "loss": ("hinge", CHANGES, ("--learner", "gradient")),
    "rate": ("0.01", CHANGES, ("--learner", "gradient")),
    "epochs": ("2", CHANGES),
    "features": ("x", REFUSED),
    "weights": ("w", REFUSED),
    "where": ("x > 0", REFUSED),
    "derive": ("q=x", REFUSED),
    "missing": ("drop", REFUSED),
    "intercept": (True, CHANGES, ()),
    "classes": ("-1,0,1", CHANGES),
    "form": ("svmlight", "another format"),
    "certificate": (True, CHANGES, ("--learner", "gradient")),
    "save": ("PATH", WRITES),
    "resume": NEEDED,
    "predictions": ("PATH", WRITES),
    "report": ("PATH", WRITES),
    "quiet": NEEDED,
    "json": NEEDED,
    "separator": (";", REFUSED),
    "decimal": (",", REFUSED),
}


def test_the_table_has_every_option_of_stream():
    assert {*STREAM_TEXT} == {*declared(stream)}, "a new option of stream needs a line here"


@pytest.mark.parametrize("option", [name for name, line in STREAM_TEXT.items() if line != NEEDED])
def test_stream_of_text_honours_or_refuses_every_option(option, folder, capsys):
    value, expected, *before = STREAM_TEXT[option]
    command = ["stream", str(folder / "t.vw"), "--json"]
    if expected == "another format":
        assert run(capsys, *command, "--format", value)[0] == 3
        return
    judged(capsys, folder, command, option, value, expected, before[0] if before else ())


NOT_HERE = [
    ("separator", ["fit", "t.parquet", "-t", "y", "--separator", ";"]),
    ("decimal", ["compare", "t.parquet", "-t", "y", "--decimal", ","]),
    ("separator", ["stream", "t.parquet", "-t", "y", "--separator", ";"]),
    ("separator", ["predict", "linear.tl", "t.parquet", "--separator", ";"]),
    ("l1-ratio", ["fit", "t.csv", "-t", "y", "--penalty", "ridge", "--l1-ratio", "0.2"]),
    ("alpha", ["fit", "t.csv", "-t", "y", "--alpha", "2"]),
    ("folds", ["fit", "t.csv", "-t", "sold", "--folds", "7"]),
    ("folds", ["fit", "t.csv", "-t", "sold", "--folds", "7", "--penalty", "ridge", "--alpha", "0.1"]),
    ("rate", ["stream", "t.csv", "-t", "y", "--rate", "0.1"]),
    ("rate", ["stream", "t.csv", "-t", "y", "--learner", "recursive", "--rate", "0.1"]),
    ("rate", ["stream", "t.csv", "-t", "sold", "--learner", "perceptron", "--rate", "0.1"]),
    ("loss", ["stream", "t.csv", "-t", "y", "--loss", "absolute"]),
    ("loss", ["stream", "t.csv", "-t", "sold", "--learner", "winnow", "--loss", "hinge"]),
    ("unseen", ["predict", "text.tl", "t.vw", "--unseen", "ignore"]),
    ("missing", ["predict", "text.tl", "t.vw", "--missing", "drop"]),
    ("where", ["predict", "text.tl", "t.vw", "--where", "x > 0"]),
    ("interval", ["predict", "text.tl", "t.vw", "--interval", "0.9"]),
    ("interval", ["predict", "online.tl", "t.csv", "--interval", "0.9"]),
    ("unseen", ["evaluate", "text.tl", "t.vw", "--unseen", "ignore"]),
    ("missing", ["evaluate", "text.tl", "t.vw", "--missing", "drop"]),
    ("target", ["evaluate", "text.tl", "t.vw", "--target", "y"]),
    ("weights", ["evaluate", "text.tl", "t.vw", "--weights", "w"]),
]


@pytest.mark.parametrize(("option", "arguments"), NOT_HERE, ids=[" ".join(words) for _, words in NOT_HERE])
def test_what_does_not_apply_is_refused_by_name(option, arguments, folder, capsys):
    command, *rest = [
        str(folder / word) if word.startswith(("t.", "linear.", "text.", "online.")) else word for word in arguments
    ]
    code, _, err = run(capsys, command, *rest)
    assert code == 2 and option in err, err


# Of each command (what every call has, option: (value, what is expected of it, another call where that is needed)).
SHOWN = {
    "compare": (
        compare,
        ["compare", "t.csv", "-t", "y", "--features", "x,z", "--json"],
        {
            "data": NEEDED,
            "target": ("w", CHANGES),
            "features": ("x", CHANGES),
            "where": ("z > 0", CHANGES),
            "derive": ("q=x*x", CHANGES, ["compare", "t.csv", "-t", "y", "--json"]),
            "missing": ("drop", CHANGES, ["compare", "gaps.csv", "-t", "y", "--missing", "mean", "--json"]),
            "intercept": (True, CHANGES),
            "folds": ("4", CHANGES),
            "report": ("written.html", WRITES),
            "plot": ("written.png", WRITES),
            "json": (True, SILENT, ["compare", "t.csv", "-t", "y", "--features", "x", "--folds", "2"]),
            "separator": ("|", ACCEPTS, ["compare", "bars.csv", "-t", "y", "--features", "x", "--json"]),
            "decimal": (",", ACCEPTS, ["compare", "decimals.csv", "-t", "y", "--features", "x", "--json"]),
        },
    ),
    "predict": (
        predict,
        ["predict", "linear.tl", "t.csv"],
        {
            "model": NEEDED,
            "data": NEEDED,
            "output": ("written.csv", WRITES),
            "interval": ("0.9", CHANGES),
            "keep": ("y", CHANGES),
            "where": ("z > 0", CHANGES),
            "missing": ("drop", ACCEPTS, ["predict", "linear.tl", "gaps.csv"]),
            "unseen": ("ignore", ACCEPTS, ["predict", "linear.tl", "levels.csv"]),
            "json": (True, SILENT),
            "separator": ("|", ACCEPTS, ["predict", "linear.tl", "bars.csv"]),
            "decimal": (",", ACCEPTS, ["predict", "linear.tl", "decimals.csv"]),
        },
    ),
    "evaluate": (
        evaluate,
        ["evaluate", "linear.tl", "t.csv", "--json"],
        {
            "model": NEEDED,
            "data": NEEDED,
            "target": ("z", CHANGES),
            "weights": ("w", CHANGES),
            "where": ("z > 0", CHANGES),
            "missing": ("drop", ACCEPTS, ["evaluate", "linear.tl", "gaps.csv", "--json"]),
            "unseen": ("ignore", ACCEPTS, ["evaluate", "linear.tl", "levels.csv", "--json"]),
            "json": (True, SILENT, ["evaluate", "linear.tl", "t.csv"]),
            "separator": ("|", ACCEPTS, ["evaluate", "linear.tl", "bars.csv", "--json"]),
            "decimal": (",", ACCEPTS, ["evaluate", "linear.tl", "decimals.csv", "--json"]),
        },
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_table_has_every_option_of_the_other_commands(name):
    function, _, shown = SHOWN[name]
    assert {*shown} == {*declared(function)}, f"a new option of {name} needs a line here"


@pytest.mark.parametrize(
    ("name", "option"), [(name, one) for name, (_, _, shown) in SHOWN.items() for one in shown if shown[one] != NEEDED]
)
def test_the_other_commands_show_what_their_options_say(name, option, folder, capsys):
    _, words, shown = SHOWN[name]
    value, expected, *other = shown[option]
    words = [str(folder / word) if word.endswith((".csv", ".tl")) else word for word in (other[0] if other else words)]
    judged(capsys, folder, words, option, value, expected)


@pytest.mark.parametrize("learner", ["recursive", "perceptron"])
def test_a_resumed_learner_without_a_rate_refuses_one(learner, tmp_path, capsys):
    target = ["no", "yes"] * 10 if learner == "perceptron" else range(20)
    pl.DataFrame({"x": [float(k % 7) for k in range(20)], "y": target}).write_csv(tmp_path / "t.csv")
    path = tmp_path / "m.tl"
    assert run(capsys, "stream", tmp_path / "t.csv", "-t", "y", "--learner", learner, "--save", path, "-q")[0] == 0
    code, _, err = run(capsys, "stream", tmp_path / "t.csv", "--resume", path, "--rate", "0.3")
    assert code == 2 and "no rate to choose" in err
    assert run(capsys, "stream", tmp_path / "t.csv", "--resume", path, "--rate", "auto", "-q")[0] == 0
