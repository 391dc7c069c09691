"""What commands write: never over what they read, in the labels' own words, of one kind, and nothing after a refusal."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import socket

import numpy as np
import polars as pl
import pytest

from trueline.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("outputs")
    rng = np.random.default_rng(5)
    n = 150
    a, b = rng.normal(size=n), rng.normal(size=n)
    table = pl.DataFrame({"a": a, "b": b, "rent": 1.0 + 2.0 * a - b + 0.1 * rng.normal(size=n)})
    table.write_csv(place / "d.csv")
    table.with_columns(prediction=pl.col("a") * 2).write_csv(place / "named.csv")
    word = np.where(a > 0.4, "warm", np.where(b > 0, "ça", "cold"))
    pl.DataFrame({"a": a, "b": b, "y": word}).write_csv(place / "three.csv")
    pl.DataFrame({"a": a, "b": b, "y": a > 0}).write_csv(place / "flags.csv")
    pl.DataFrame({"a": a, "b": b, "y": np.where(a + 0.5 * b + 0.7 * rng.normal(size=n) > 0, 1, -1)}).write_csv(
        place / "signs.csv"
    )
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(k) for k in range(n)]
    pl.DataFrame({"when": days, "y": np.arange(n) * 0.5}).write_csv(place / "dates.csv")
    for line in (["fit", "d.csv", "-t", "rent", "-o", "m.tl"], ["stream", "d.csv", "-t", "rent", "--save", "s.tl"]):
        assert main([str(place / word) if "." in word else word for word in line] + ["-q"]) == 0
    return place


@pytest.fixture
def run(capsys, folder, monkeypatch):
    """A command line in the folder: its code, what it printed, what it said."""
    monkeypatch.chdir(folder)

    def call(line):
        code = main(line.split())
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("fit d.csv -t rent -o d.csv", "d.csv"),
        ("fit d.csv -t rent -o ./sub/../d.csv", "d.csv"),
        ("fit d*.csv -t rent -o d.csv", "d.csv"),
        ("fit d.csv -t rent -o link.csv", "link.csv"),
        ("fit d.csv -t rent --report d.csv", "d.csv"),
        ("fit d.csv -t rent -o x.tl --report x.tl", "x.tl"),
        ("fit d.csv -t rent -o x.tl --report ./x.tl", "x.tl"),
        ("compare d.csv -t rent --report d.csv", "d.csv"),
        ("predict m.tl d.csv -o d.csv", "d.csv"),
        ("predict m.tl d.csv -o m.tl", "m.tl"),
        ("export m.tl --to json -o m.tl", "m.tl"),
        ("stream d.csv -t rent --save d.csv", "d.csv"),
        ("stream d.csv -t rent -p d.csv", "d.csv"),
        ("stream d.csv -t rent --save x.tl -p x.tl", "x.tl"),
        ("stream d.csv --resume s.tl --report s.tl", "s.tl"),
        ("echo d.csv m.tl -o m.tl", "m.tl"),
        ("echo --demo -o far.wav", "far.wav"),
    ],
)
def test_no_output_replaces_an_input_or_another_output(run, folder, line, named):
    (folder / "sub").mkdir(exist_ok=True)
    if not (folder / "link.csv").exists():
        (folder / "link.csv").symlink_to(folder / "d.csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    code, out, err = run(line)
    assert code == 2 and out == "" and named in err and len(err.splitlines()) == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_learner_may_go_on_in_its_own_file(run, folder):
    (folder / "own.tl").write_bytes((folder / "s.tl").read_bytes())
    assert run("stream d.csv --resume own.tl --save own.tl -q")[0] == 0
    assert json.loads(run("inspect own.tl --json")[1])["n"] == 300


def test_a_kept_column_never_vanishes_under_a_prediction(run):
    for keep in ("all", "prediction"):
        code, out, err = run(f"predict m.tl named.csv --keep {keep}")
        assert code == 2 and out == "" and "'prediction'" in err
    code, out, _ = run("predict m.tl named.csv --keep a,rent")
    assert code == 0 and out.splitlines()[0] == "a,rent,prediction"
    assert run("predict m.tl d.csv --keep all")[1].splitlines()[0] == "a,b,rent,prediction"


@pytest.mark.parametrize("learner", ["mixture", "gradient"])
def test_a_streamed_learner_says_the_words_of_three_classes(run, learner):
    code, out, _ = run(f"stream three.csv -t y --learner {learner} --save t.tl")
    assert code == 0
    rows = [line.split() for line in out.splitlines() if line.strip()[:1].isdigit()]
    assert {row[5] for row in rows if len(row) == 10} <= {"warm", "ça", "cold"}
    code, out, _ = run("predict t.tl three.csv")
    made = pl.read_csv(io.StringIO(out))
    assert made.columns == ["prediction", "probability cold", "probability warm", "probability ça"]
    truth = pl.read_csv("three.csv")["y"]
    assert code == 0 and (made["prediction"] == truth).mean() > 0.6
    code, out, _ = run("evaluate t.tl three.csv --json")
    measured = {metric["name"]: metric["value"] for metric in json.loads(out)["metrics"]}
    assert code == 0 and measured["accuracy"] == pytest.approx((made["prediction"] == truth).mean())


def test_json_rows_name_the_classes_of_their_probabilities(run):
    rows = [json.loads(line) for line in run("stream three.csv -t y --json")[1].splitlines()]
    assert all(row["classes"] == ["cold", "warm", "ça"] and len(row["prediction"]) == 3 for row in rows)


def test_stream_and_fit_say_the_same_of_booleans(run):
    assert (
        run("stream flags.csv -t y --save f.tl -q")[0] == 0 == run("fit flags.csv -t y -o g.tl -q --penalty ridge")[0]
    )
    streamed, fitted = (run(f"predict {name} flags.csv")[1].splitlines() for name in ("f.tl", "g.tl"))
    assert streamed[0] == fitted[0]
    assert {line.split(",")[0] for line in streamed[1:]} == {"true", "false"}
    assert run("evaluate f.tl flags.csv")[0] == 0
    assert run("stream flags.csv --resume f.tl --save f.tl -q")[0] == 0


@pytest.mark.parametrize(
    "option",
    [
        "--learner recursive", "--loss absolute", "--rate 0.1", "--target a", "--features a", "--missing mean",
        "--classes x,y", "--format vw", "--no-certificate",
    ],
)  # fmt: skip
def test_a_resumed_learner_refuses_to_be_another(run, option):
    code, _, err = run(f"stream d.csv --resume s.tl {option} -q")
    assert code == 2 and option.split()[0] in err and "s.tl" in err


def test_a_resumed_learner_takes_what_it_is(run):
    same = "--learner mixture --loss squared --rate auto --target rent --features b,a --missing refuse --certificate"
    assert run(f"stream d.csv --resume s.tl {same} -q") == (0, "", "")
    own = "--learner gradient --loss huber --rate 0.01 -q"
    assert run(f"stream d.csv -t rent {own} --save h.tl")[0] == 0
    assert run(f"stream d.csv --resume h.tl {own}") == (0, "", "")
    code, _, err = run("stream d.csv --resume h.tl --rate 0.02 -q")
    assert code == 2 and "0.01" in err


def test_a_formula_and_a_target_must_agree(run):
    code, _, err = run("fit d.csv -t rent --formula b~a")
    assert code == 2 and "'rent'" in err and "'b'" in err
    assert run("fit d.csv -t b --formula b~a -q")[0] == 0 == run("fit d.csv -t rent --formula ~a -q")[0]


@pytest.mark.parametrize("learner", ["winnow", "perceptron", "gradient --loss hinge --rate 0.1", "gradient"])
def test_the_last_row_counts_what_the_rows_above_count(run, learner, folder):
    """The first 128 of 150 rows end on a progress row: a stream of just those must end on the same figures."""
    table = pl.read_csv(folder / "signs.csv")
    table.head(128).write_csv(folder / "signs128.csv")
    rows = [json.loads(line) for line in run(f"stream signs.csv -t y --learner {learner} --json")[1].splitlines()]
    row = next(row for row in rows if row["counter"] == 128)
    last = json.loads(run(f"stream signs128.csv -t y --learner {learner} --json")[1].splitlines()[-1])
    assert last["final"] and last["average_loss"] == pytest.approx(row["average_loss"], rel=1e-9)
    assert last["since_last"] == pytest.approx(row["since_last"], rel=1e-9)
    end = rows[-1]  # and the tail is what is left between the two
    assert end["average_loss"] * 150 == pytest.approx(row["average_loss"] * 128 + end["since_last"] * 22, rel=1e-9)


def test_a_service_that_is_refused_leaves_nothing(run, folder):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as busy:
        before = {path.name for path in folder.iterdir()}
        code, _, err = run(f"serve s.tl --port {busy.getsockname()[1]} --store other.db")
        assert code == 2 and "cannot listen" in err
    (folder / "schema.json").write_text(json.dumps({"name": "x", "target": "y", "features": {"a": "number"}}))
    code, _, err = run("serve --features schema.json --store d.csv --port 0")
    assert code == 4 and "d.csv" in err
    assert {path.name for path in folder.iterdir()} == before | {"schema.json"}


@pytest.mark.parametrize("target", ["python", "c", "sql"])
def test_exports_say_how_to_pass_a_date(run, target):
    assert run("fit dates.csv -t y -o dates.tl -q")[0] == 0
    code, out, _ = run(f"export dates.tl --to {target}")
    assert code == 0 and any("when" in line and "days since 1970-01-01" in line for line in out.splitlines())
    assert "1970" not in run(f"export m.tl --to {target}")[1]


def test_a_device_or_a_pipe_is_written_into_and_a_link_stays(run, folder):
    import os
    import stat
    import threading

    from trueline.modelfile import is_special

    for option, name in (("-o", "pipe.tl"), ("--report", "pipe.html")):
        os.mkfifo(folder / name)
        got = []
        reader = threading.Thread(
            target=lambda name=name, got=got: got.append((folder / name).read_bytes()), daemon=True
        )
        reader.start()
        assert run(f"fit d.csv -t rent -q {option} {name}")[0] == 0
        reader.join(20)
        assert got and len(got[0]) > 500 and stat.S_ISFIFO(os.stat(folder / name).st_mode)
        os.symlink("real" + name, folder / ("link" + name))
        (folder / ("real" + name)).write_text("old")
        assert run(f"fit d.csv -t rent -q {option} link{name}")[0] == 0
        assert os.path.islink(folder / ("link" + name)) and (folder / ("real" + name)).stat().st_size > 500
    assert not [name for name in os.listdir(folder) if name.endswith(".part")]
    assert is_special("/dev/full")  # or the lines below would put a file in its place
    for option in ("-o", "--report"):
        code, out, err = run(f"fit d.csv -t rent {option} /dev/full")
        assert code in (1, 4) and "cannot write /dev/full" in err and "space" in err and out == ""
    assert is_special("/dev/full")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("fit d.csv -t rent --holdout 0.9999999", 3, "choose a smaller --holdout"),
        ("fit flags.csv -t y --holdout 0.9999999", 3, "choose a smaller --holdout"),
        ("fit d.csv -t rent --missing maybe", 2, "--missing is refuse, drop, mean or indicator, not 'maybe'"),
        ("fit d.csv -t a --loss poisson", 3, "target 'a' holds -"),
        ("evaluate m.tl d.csv --weights a", 3, "column 'a' holds weights"),
        ("--jsn", 2, "there is no option '--jsn'; did you mean '--version'?"),
    ],
)
def test_what_was_unclear_is_said_in_the_words_of_the_command(run, line, code, said):
    found, out, err = run(line)
    assert found == code and said in err and out == "" and err.count("\n") == 1
