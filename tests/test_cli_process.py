"""Commands in processes of their own: what they import, pipes, Ctrl-C, completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from commands import ENV, write_model, write_table


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("cli"))


@pytest.fixture(scope="module")
def model(table):
    return write_model(table)


def ended_well(*command, env=ENV):
    """The finished process of Python with these arguments, which ended with 0."""
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, encoding="utf-8", env=env)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done


def imported(*arguments):
    """Top-level modules that a command line imports, which ends with 0."""
    code = f"import sys; from trueline.cli import main; code = main({[str(a) for a in arguments]!r}); print(); print(*sys.modules); sys.exit(code)"
    return {name.partition(".")[0] for name in ended_well("-c", code).stdout.splitlines()[-1].split()}


def test_nothing_is_imported_that_a_command_does_not_use(table):
    used = imported("--help")
    assert "trueline" in used
    assert not used & {"numpy", "polars", "typer", "rich", "numba", "scipy", "sklearn", "matplotlib"}
    used = imported("fit", table / "t.csv", "--target", "y", "--features", "x,z,colour")
    assert {"numpy", "polars", "scipy"} <= used and not used & {  # SciPy for the tails of t and F
        "numba",
        "sklearn",
        "matplotlib",
        "rich",
        "pyarrow",
        "pandas",
        "typer",
        "pydantic",
    }


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_stream_of_numbers_needs_no_compiler(tmp_path, kind):
    pytest.importorskip("pyarrow")
    import polars as pl

    path = tmp_path / f"numbers.{kind}"
    frame = pl.DataFrame({"a": [float(k % 5) for k in range(50)], "y": [2.0 * (k % 5) + 1.5 for k in range(50)]})
    frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
    asked = ("stream", path, "-t", "y", "--learner", "widrow-hoff", "--rate", "0.01", "--no-certificate", "-q")
    imported(*asked)  # the first process leaves the machine code
    used = imported(*asked)
    assert {"numpy", "polars"} <= used and not used & {"pandas", "pyarrow", "scipy", "typer", "rich", "sklearn"}
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        assert not used & {"numba", "llvmlite"}


def test_a_bar_is_shown_on_a_terminal_and_taken_away(tmp_path):
    import pty

    # Without its patience the bar is shown from the first rows on.
    hasty = (
        "import sys; from trueline.cli import console, main; console.PATIENCE = console.BETWEEN = 0.0; sys.exit(main())"
    )

    def run(*options):
        ours, theirs = pty.openpty()
        child = subprocess.Popen(
            [sys.executable, "-c", hasty, "stream", "-", "-t", "y", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=theirs, env={**ENV, "COLUMNS": "80"},
        )  # fmt: skip
        os.close(theirs)
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(b"x,y\n")
        child.stdin.write(b"".join(b"%d,%d\n" % (k % 7, 2 * (k % 7) + 1) for k in range(800)))
        child.stdin.close()
        out, err = child.stdout.read().decode(), b""
        assert child.wait(timeout=60) == 0
        try:
            while piece := os.read(ours, 65536):
                err += piece
        except OSError:  # Linux's end of a terminal
            pass
        os.close(ours)
        return out, err.decode()

    out, err = run()
    assert "\033" not in out and "average" in out
    assert "learning: " in err and " rows, " in err and err.rstrip().endswith("\033[K")
    out, err = run("--quiet")
    assert out == err == ""


def test_pipes_close_cleanly_and_no_colour_is_honoured(table, model):
    command = f"{sys.executable} -m trueline predict {model} {table / 't.csv'} | head -n 2"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, env=ENV)
    assert done.returncode == 0 and done.stderr == "" and len(done.stdout.splitlines()) == 2
    coloured = ended_well("-m", "trueline", "--help", env={**os.environ, "FORCE_COLOR": "1", "NO_COLOR": ""})
    assert "\033[1m" in coloured.stdout and "\033" not in ended_well("-m", "trueline", "--help").stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_standard_output_that_cannot_be_written_is_one_sentence(model, options):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "trueline", "inspect", str(model), *options], stdout=full, stderr=subprocess.PIPE, text=True,
            env=ENV,
        )  # fmt: skip
    assert done.returncode == 1 and "No space left" in done.stderr and done.stderr.count("\n") == 1


def test_ctrl_c_keeps_what_was_learned(tmp_path):
    import signal

    save = tmp_path / "kept.tl"
    child = subprocess.Popen(
        [sys.executable, "-m", "trueline", "stream", "-", "-t", "y", "--save", str(save)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (a shell's background jobs ignore it)
    )  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("x,y\n" + "".join(f"{k % 7},{2 * (k % 7) + 1}\n" for k in range(64)))
    child.stdin.flush()
    seen = []
    while not seen or seen[-1].split()[2:3] != ["64"]:
        line = child.stdout.readline()
        assert line, child.stderr.read() if child.stderr else ""
        seen.append(line)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == 0  # standard input is still open: a reader waits on it to the end
    _, err = child.communicate(timeout=60)
    assert "Fatal" not in err and "interrupted after 64 examples" in err and save.exists()
    assert json.loads(ended_well("-m", "trueline", "inspect", save, "--json").stdout)["n"] == 64


def test_shell_completion_knows_the_tree():
    words = {"_TRUELINE_COMPLETE": "complete_bash", "COMP_WORDS": "trueline st", "COMP_CWORD": "1"}
    code = "from trueline.cli import main; raise SystemExit(main([]))"
    assert "stream" in ended_well("-c", code, env={**ENV, **words}).stdout


def test_a_locale_without_utf_8_changes_no_file(tmp_path):
    """Names and reports are UTF-8 whatever the terminal takes."""
    (tmp_path / "t.csv").write_text("größe,stadt,y\n" + "".join(f"{k},{'Köln' if k % 2 else '東京'},{3 * k}.5\n" for k in range(30)), encoding="utf-8")  # fmt: skip
    old = {
        **ENV,
        "LC_ALL": "C",
        "LANG": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
    }
    for env, name in ((ENV, "new"), (old, "old")):
        where = tmp_path / name
        words = [
            "fit",
            tmp_path / "t.csv",
            "-t",
            "y",
            "-o",
            where.with_suffix(".tl"),
            "--report",
            where.with_suffix(".html"),
        ]
        assert "größe" in ended_well("-m", "trueline", *words, env=env).stdout
        assert "größe" in ended_well("-m", "trueline", "inspect", where.with_suffix(".tl"), env=env).stdout
        page = where.with_suffix(".html").read_text(encoding="utf-8")
        assert "größe" in page and "stadt[東京]" in page
    made = [(tmp_path / f"{name}.tl").read_bytes() for name in ("new", "old")]
    assert made[0].count("größe".encode()) == made[1].count("größe".encode())
