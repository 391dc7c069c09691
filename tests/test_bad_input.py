"""Bad invocations and bad files: each gets its exit code, one sentence that names the place, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import trueline as tl
from trueline.cli import main
from trueline.errors import DataError
from trueline.online.mixture import MixtureModel

GOOD = "x,z,word,y\n" + "".join(f"{k},{(k * 7) % 5},{'ab'[k % 2]},{2 * k + (k * 7) % 5 + 0.5}\n" for k in range(40))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of good and bad files."""
    folder = tmp_path_factory.mktemp("bad")
    texts = {
        "good.csv": GOOD,
        "empty.csv": "",
        "header.csv": "x,z,y\n",
        "ragged.csv": "x,z,y\n1,2,3\n4,5,6,7\n8,9,10\n",
        "gap.csv": "x,z,y\n1,2,3\n,5,6\n8,9,10\n",
        "infinite.csv": "x,z,y\n1,2,3\ninf,5,6\n8,9,10\n",
        "constant.csv": "x,y\n1,5\n2,5\n3,5\n",
        "twice.csv": "x,x,y\n1,2,3\n4,5,6\n",
        "one.csv": "y\n1\n2\n",
        "words.csv": "x,y\n1,low\n2,high\n3,middle\n4,low\n",
        "stray.csv": "x,y\n" + "".join(f"{'oops' if k == 30 else k},{k}\n" for k in range(60)),
        "negative.csv": "x,w,y\n1,1,2\n2,-1,3\n3,1,5\n",
        "zero.csv": "x,w,y\n1,0,2\n2,0,3\n3,0,5\n",
        "bad.svm": "1 3:0.5\n1 three:1\n",
        "bad.vw": "1 no bar here\n",
        "late.csv": "x,y\n" + "1,a\n2,b\n" * 3,
        "later.csv": "x,y\n1,a\n2,c\n",
        "broken.ndjson": '{"x": 1, "y": 2}\n{"x": 1, "y"\n',
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "junk.csv").write_bytes(bytes(range(256)) * 40)
    (folder / "junk.parquet").write_bytes(b"PAR1" + bytes(range(256)) * 4)
    (folder / "short.parquet").write_bytes(b"PAR1")
    (folder / "pickle.tl").write_bytes(pickle.dumps({"coef": [1, 2]}))
    (folder / "text.tl").write_text("this is not a model, it only says so\n" * 20)
    (folder / "folder.tl").mkdir()
    assert main(["fit", str(folder / "good.csv"), "--target", "y", "-q", "-o", str(folder / "m.tl")]) == 0
    raw = (folder / "m.tl").read_bytes()
    (folder / "cut.tl").write_bytes(raw[: len(raw) // 2])
    flipped = bytearray(raw)
    flipped[len(raw) - 9] ^= 4
    (folder / "flipped.tl").write_bytes(flipped)
    import trueline.modelfile as modelfile

    kept, modelfile.FORMAT = modelfile.FORMAT, modelfile.FORMAT + 1
    try:
        (folder / "newer.tl").write_bytes(modelfile.dumps("linear", {"coef": np.ones(1)}, {}))
    finally:
        modelfile.FORMAT = kept
    (folder / "other.tl").write_bytes(modelfile.dumps("hologram", {"coef": np.ones(1)}, {}))
    (folder / "bare.tl").write_bytes(modelfile.dumps("linear", {"coef": np.ones(1)}, {}))
    assert main(["stream", str(folder / "late.csv"), "-t", "y", "-q", "--save", str(folder / "s.tl")]) == 0
    return folder


# (arguments, exit code, words that the sentence must have)
CASES = [
    ("frobnicate", 2, ["no command 'frobnicate'"]),
    ("ftt good.csv", 2, ["did you mean 'fit'"]),
    ("--frob", 2, ["no option '--frob'"]),
    ("fit", 2, ["missing", "data"]),
    ("fit good.csv", 2, ["--target"]),
    ("fit good.csv --target y --frob 3", 2, ["--frob"]),
    ("fit good.csv --target y --folds three", 2, ["--folds", "whole number"]),
    ("fit good.csv --target y --folds 1", 2, ["folds", "1"]),
    ("fit good.csv --target y --loss huberr", 2, ["did you mean 'huber'"]),
    ("fit good.csv --target y --penalty rigde", 2, ["did you mean 'ridge'"]),
    ("fit good.csv --target y --penalty ridge --alpha -1", 2, ["alpha", "-1"]),
    ("fit good.csv --target y --alpha 3", 2, ["--alpha needs a penalty"]),
    ("fit good.csv --target y --penalty elastic --l1-ratio 2", 2, ["l1-ratio"]),
    ("fit good.csv --target y --holdout 1.5", 2, ["holdout", "1.5"]),
    ("fit good.csv --target y --missing guess", 2, ["missing", "guess"]),
    ("fit good.csv --target y --derive nonsense", 2, ["name=expression"]),
    ("fit good.csv --target y --features x,y", 2, ["'y' is the target"]),
    ("fit good.csv --target y --features x,x", 2, ["'x' is named twice"]),
    ("fit good.csv --formula poly( --target y", 2, ["poly("]),
    ("fit none.csv --target y", 3, ["none.csv"]),
    ("fit *.nothing --target y", 3, ["*.nothing"]),
    ("fit good.csv --target Y", 2, ["'Y'", "did you mean 'y'"]),
    ("fit good.csv --target y --features x,zed", 2, ["'zed'"]),
    ("fit good.csv --target y --weights word", 3, ["'word'", "text"]),
    ("fit good.csv --target word --loss squared", 3, ["'word'", "text"]),
    ("fit good.csv --target y --where nope>3", 2, ["nope"]),
    ("fit good.csv --target y --where x>1000", 3, ["no row", "x>1000"]),
    ("fit good.csv --target y --derive q=ln(nope)", 2, ["nope"]),
    ("fit empty.csv --target y", 3, ["empty.csv", "empty"]),
    ("fit header.csv --target y", 3, ["no rows"]),
    ("fit ragged.csv --target y", 3, ["ragged.csv", "3"]),
    ("fit gap.csv --target y", 3, ["'x'", "row 2", "missing"]),
    ("fit infinite.csv --target y", 3, ["'x'", "row 2", "infinite"]),
    ("fit constant.csv --target y", 3, ["'y'", "constant"]),
    ("fit twice.csv --target y", 3, ["'x'"]),
    ("fit one.csv --target y", 3, ["no column left"]),
    ("fit junk.csv --target y", 3, ["junk.csv"]),
    ("fit junk.parquet --target y", 3, ["junk.parquet"]),
    ("fit short.parquet --target y", 3, ["short.parquet"]),
    ("fit broken.ndjson --target y", 3, ["broken.ndjson"]),
    ("fit stray.csv --target y", 3, ["'x'", "oops"]),
    ("fit negative.csv --target y --weights w", 3, ["-1", "row 2"]),
    ("fit zero.csv --target y --weights w", 3, ["'w'", "zero"]),
    ("fit words.csv --target y --loss hinge", 2, ["two classes"]),
    ("fit good.csv --target y -o nowhere/m.tl", 1, ["nowhere"]),
    ("fit good.csv --target y --report folder.tl", 1, ["folder"]),
    ("predict none.tl good.csv", 4, ["none.tl"]),
    ("predict folder.tl good.csv", 4, ["folder.tl"]),
    ("predict pickle.tl good.csv", 4, ["pickle"]),
    ("predict text.tl good.csv", 4, ["text.tl", "not a trueline model"]),
    ("predict cut.tl good.csv", 4, ["cut.tl"]),
    ("predict flipped.tl good.csv", 4, ["flipped.tl", "damaged"]),
    ("predict newer.tl good.csv", 4, ["newer.tl", "upgrade"]),
    ("predict other.tl good.csv", 4, ["hologram", "upgrade"]),
    ("predict bare.tl good.csv", 4, ["bare.tl"]),
    ("predict m.tl none.csv", 3, ["none.csv"]),
    ("predict m.tl constant.csv", 3, ["lacks column"]),
    ("predict m.tl good.csv -o out.xyz", 2, ["out.xyz", ".csv"]),
    ("predict m.tl good.csv --interval 95", 2, ["interval", "95"]),
    ("predict m.tl good.csv --keep nope", 2, ["'nope'"]),
    ("predict s.tl late.csv --interval 0.9", 2, ["interval"]),
    ("evaluate m.tl good.csv --target nope", 2, ["'nope'"]),
    ("inspect none.tl", 4, ["none.tl"]),
    ("export m.tl --to sqll", 2, ["did you mean 'sql'"]),
    ("export m.tl --to onnx", 2, ["-o"]),
    ("verify m.tl gap.csv", 3, ["'word'"]),
    ("stream good.csv", 2, ["--target"]),
    ("stream good.csv --target y --learner lms", 2, ["no learner 'lms'"]),
    ("stream good.csv --target y --rate fast --learner gradient", 2, ["rate", "fast"]),
    ("stream good.csv --target y --rate 0.1", 2, ["mixture"]),
    ("stream good.csv --target y --learner perceptron", 3, ["40 different values"]),
    ("stream good.csv --target y --epochs 0", 2, ["epochs"]),
    ("stream good.csv --target y --resume m.tl", 2, ["m.tl", "resumed"]),
    ("stream later.csv --resume s.tl", 3, ["'c'"]),
    ("stream bad.svm", 3, ["line 2", "three:1"]),
    ("stream bad.vw", 3, ["line 1", "|"]),
    ("stream gap.csv --target y --learner normalised --rate 0.5", 3, ["'x'"]),
    ("compare good.csv", 2, ["--target"]),
    ("compare words.csv --target y --where x>9", 3, ["row"]),
]  # fmt: skip


@pytest.fixture
def inside(place, monkeypatch):
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize(("line", "code", "words"), CASES, ids=[case[0] for case in CASES])
def test_one_sentence_and_the_right_exit_code(inside, capsys, line, code, words):
    before = sorted(os.listdir(inside))
    assert main(line.split()) == code
    out = capsys.readouterr()
    said = out.err.strip()
    assert said.startswith("trueline: ") and "\n" not in said and "Traceback" not in said, said
    assert "unexpected" not in said, said
    for word in words:
        assert word in said, (word, said)
    assert out.out == ""
    assert main([*line.split(), "--json"]) == code
    error = json.loads(capsys.readouterr().out)["error"]
    kinds = {1: "failure", 2: "usage", 3: "data", 4: "model"}
    assert set(error) == {"kind", "message", "where"} and error["kind"] == kinds[code]
    assert sorted(os.listdir(inside)) == before


def test_there_are_enough_of_them():
    assert len(CASES) >= 40 and {code for _, code, _ in CASES} == {1, 2, 3, 4}


def test_every_byte_of_a_model_counts(inside, capsys):
    raw = (inside / "m.tl").read_bytes()
    for at in range(0, len(raw), max(1, len(raw) // 60)):
        damaged = bytearray(raw)
        damaged[at] ^= 1
        (inside / "one.tl").write_bytes(damaged)
        assert main(["inspect", "one.tl"]) == 4
        said = capsys.readouterr().err.strip()
        assert said.startswith("trueline: one.tl") and "\n" not in said
    (inside / "one.tl").unlink()


@pytest.mark.parametrize(
    "line",
    [
        "fit {0}/good.csv --target y -q -o {1}/m.tl",
        "fit {0}/good.csv --target y -q --report {1}/m.html",
        "predict {0}/m.tl {0}/good.csv -o {1}/out.csv",
        "predict {0}/m.tl {0}/good.csv -o {1}/out.parquet",
        "stream {0}/good.csv --target y -q --learner recursive --save {1}/s.tl",
    ],
)
def test_a_full_disk_leaves_the_old_file_or_none(place, tmp_path, line):
    """A limit on the size of files stands for the full disk; the old file survives."""
    words = line.format(place, tmp_path).split()
    target = words[-1]
    with open(target, "w") as file:
        file.write("old")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
        f"from trueline.cli import main; sys.exit(main({words!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode in (1, 4), done.stderr
    assert (
        "cannot write" in done.stderr and "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1
    )
    assert os.listdir(tmp_path) == [os.path.basename(target)]
    with open(target) as file:
        assert file.read() == "old"


def test_an_unexpected_fault_is_one_sentence_too(inside, capsys, monkeypatch):
    import trueline.cli.fitting as fitting

    def broken(asked):
        raise RuntimeError("the wheel came off")

    monkeypatch.setattr(fitting, "fit", broken)
    assert main(["fit", "good.csv", "--target", "y"]) == 1
    said = capsys.readouterr().err
    assert "unexpected RuntimeError: the wheel came off" in said and "report it" in said


def test_a_name_that_would_paint_the_screen_is_shown_harmless(tmp_path, capsys):
    pl.DataFrame({"\033[31mred": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 3.5, 4.0]}).write_csv(tmp_path / "t.csv")
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y"]) == 0
    out = capsys.readouterr().out
    assert "\033" not in out and "\\x1b[31mred" in out


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("c,c[b],y\na,1,2\nb,2,3\na,3,5\nb,5,4\na,2,2\nb,9,1\n", "", ["'c[b]'", "rename"]),
        ("(intercept),y\n1,2\n2,3\n3,5\n4,4\n", "", ["'(intercept)'", "rename"]),
        ("x,y\n" + "".join(f"{k},{'foo' if k == 9 else k / 7}\n" for k in range(200)), "", ["'foo' in line 11", "'y'"]),
        ("x,y\n" + "".join(f"{k},u{k}\n" for k in range(200)), "", ["200 different values", "clean the column"]),
        ("x,y\n" + "".join(f"{k},{k / 7}\n" for k in range(200)), "--loss logistic", ["200 different", "--loss squared"]),
        ("x,y\n" + "".join(f"{'.' if k == 9 else k % 5},{k}\n" for k in range(200)), "", ["'.' in line 11", "'x'"]),
    ],
    ids=["terms", "intercept", "target", "names", "logistic", "feature"],
)  # fmt: skip
def test_what_was_once_fitted_silently_is_refused(tmp_path, capsys, text, more, words):
    (tmp_path / "t.csv").write_text(text)
    assert main(["fit", str(tmp_path / "t.csv"), "-t", "y", *more.split()]) == 3
    said = capsys.readouterr().err.strip()
    assert "\n" not in said and all(word in said for word in words), said


def test_a_pipe_of_the_shell_is_read(place, capsys):
    reading, writing = os.pipe()
    os.write(writing, GOOD.encode())
    os.close(writing)
    try:
        assert main(["fit", f"/dev/fd/{reading}", "-t", "y", "--json"]) == 0
    finally:
        os.close(reading)
    assert json.loads(capsys.readouterr().out)["n"] == 40


@pytest.mark.parametrize("which", ["X", "y"])
def test_every_online_learner_says_the_same_of_a_number_too_large(which):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    y = X @ [1.0, -1.0]
    bad = {"X": X.copy(), "y": y.copy()}
    bad[which][(3, 1) if which == "X" else 3] = 1e308
    where = "column 'x1' has 1e+308" if which == "X" else "y has 1 unusable entry: 1e+308"
    said = set()
    for make in (tl.OnlineRegressor, tl.WidrowHoff, lambda: tl.WidrowHoff(0.1), tl.RecursiveLeastSquares, MixtureModel):
        model = make()
        learn = model.learn if make is MixtureModel else model.partial_fit
        learn(X, y)
        before = np.array(model.predict(X))
        with pytest.raises(DataError) as refused:
            learn(bad["X"], bad["y"])
        said.add(str(refused.value))
        assert (model.predict(X) == before).all()
    assert len(said) == 1 and where in said.pop()
