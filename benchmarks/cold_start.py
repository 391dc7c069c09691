"""Starting: a first use against a second, short commands against bare imports, and a fresh machine's first `make demo`.

A first use is a new process with an empty HOME and empty caches; a second has what the first left. A fresh machine is a
copy of the files that git knows and an empty cache of pip's, with the machine's compiler, and with none (zig is downloaded).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .harness import Row, interleaved

NAME = "Starting: first use, short commands, a fresh machine"
ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("cc", "gcc", "clang", "c99", "c89", "tcc", "zig")
DATA = "import numpy as np, trueline as tl; X = np.random.default_rng(0).normal(size=(3000, 8)); y = X @ np.arange(8.0) + X[:, 0] ** 2"
USES = {
    "trueline stream, 3,000 rows": "from trueline.cli import main; main(['stream', 'table.csv', '--target', 'y', '-q'])",
    "tl.Lasso().fit": f"{DATA}; tl.Lasso().fit(X, y)",
    "tl.OnlineClassifier().partial_fit": f"{DATA}; tl.OnlineClassifier().partial_fit(X, y > 0)",
    "tl.NeuralNetwork().fit": f"{DATA}; tl.NeuralNetwork(epochs=3).fit(X, y)",
}


def run(quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="trueline-start-") as name:
        folder = Path(name)
        rows = [*first_uses(folder, 2 if quick else 4), *commands(folder, 3 if quick else 7)]
        return rows if quick else [*rows, *fresh_machines(folder)]


def used(place: Path, code: str) -> tuple[float, bool]:
    """CPU seconds of a process with this home, and whether it imported Numba."""
    ask = f"{code}; import sys, os; print('numba' in sys.modules, sum(os.times()[:2]), file=sys.stderr)"
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_")) and k != "PYTHONDONTWRITEBYTECODE"
    }
    env = kept | {
        "HOME": str(place / "home"),
        "PYTHONPYCACHEPREFIX": str(place.parent / "bytecode"),
        "PYTHONPATH": str(ROOT / "src"),
    }
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=place.parent, env=env, capture_output=True, text=True, check=True
    )
    numba, seconds = done.stderr.split()[-2:]
    return float(seconds), numba == "True"


def first_uses(folder: Path, rounds: int) -> list[Row]:
    import numpy as np

    X = np.random.default_rng(0).normal(size=(3000, 8))
    y = X @ np.arange(8.0)
    names = ",".join([*(f"x{j}" for j in range(8)), "y"])
    np.savetxt(folder / "table.csv", np.column_stack([X, y]), delimiter=",", header=names, comments="")
    rows = []
    for task, code in USES.items():
        used(folder / "bytecode first", code)  # Python's own files are no cache of ours
        first, second, imported, left = [], [], False, 0
        for k in range(rounds):
            place = folder / f"{len(rows)}-{k}"
            (place / "home").mkdir(parents=True)
            for found in (first, second):
                seconds, numba = used(place, code)
                found.append(seconds)
                imported |= numba
            left += sum(1 for path in place.rglob("*") if path.is_file())
        note = f"{'imports Numba' if imported else 'no Numba'}, {left} files left in caches"
        rows.append(Row(f"first use: {task}", min(first), min(second), "second use", "CPU s", 0.9, note))
    return rows


def commands(folder: Path, rounds: int) -> list[Row]:
    lines = (folder / "table.csv").read_text().splitlines(keepends=True)
    (folder / "hundred.csv").write_text("".join(lines[:101]))
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONPATH": str(ROOT / "src")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)

    def process(*words: object):
        return lambda: subprocess.run([sys.executable, *map(str, words)], check=True, capture_output=True, env=env)

    contenders = {
        "help": process("-m", "trueline", "--help"),
        "pass": process("-c", "pass"),
        "stream": process("-m", "trueline", "stream", folder / "hundred.csv", "--target", "y"),
        "imports": process("-c", "import numpy, polars"),
    }
    for call in contenders.values():
        call()
    best, _ = interleaved(contenders, rounds)
    return [
        Row("trueline --help", best["help"], best["pass"], "python -c pass", aim=0.25),
        Row("trueline stream, 100 rows", best["stream"], best["imports"], "import numpy, polars", aim=1 / 1.5),
    ]


def fresh_machines(folder: Path) -> list[Row]:
    times = {}
    for name in ("compiler", "zig"):
        checkout = folder / name / "checkout"
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True)
        for file in filter(None, listed.stdout.split("\0")):
            (checkout / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, checkout / file)
        env = {**os.environ, "PIP_CACHE_DIR": str(folder / name / "pip"), "HOME": str(folder / name)}
        env = {k: v for k, v in env.items() if k not in ("PYTHONPATH", "CC", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")}
        env["PATH"] = str(tools(folder / name / "bin", name == "compiler"))
        began = time.perf_counter()
        subprocess.run(["make", "demo"], cwd=checkout, env=env, check=True, capture_output=True)
        seconds = time.perf_counter() - began
        bytes_ = sum(path.stat().st_size for path in (folder / name / "pip").rglob("*") if path.is_file())
        times[name] = seconds, bytes_ / 1e6
        shutil.rmtree(folder / name)
    (ours, megabytes), (zig, more) = times["compiler"], times["zig"]
    note = f"wall time; {megabytes:.0f} MB downloaded against {more:.0f} MB"
    return [Row("make demo on a fresh machine with a compiler", ours, zig, "with none: zig", note=note)]


def tools(place: Path, compiler: bool) -> Path:
    """A folder of links to every program on PATH, but for uv, and for compilers where they are to be hidden."""
    place.mkdir(parents=True)
    for folder in os.environ["PATH"].split(os.pathsep):
        for path in sorted(Path(folder).glob("*")):
            hidden = path.name == "uv" or (not compiler and (path.name in COMPILERS or "-gcc" in path.name))
            if not hidden and not (place / path.name).exists():
                (place / path.name).symlink_to(path.resolve() if path.is_symlink() else path)
    return place
