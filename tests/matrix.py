"""``make matrix``: a short form of the tests in environments that users have and this machine's tests do not.

Each row of the table below is one run of pytest with other settings; two run side by side. Numbers are looked at under
other kernels of BLAS and NumPy and other counts of threads, text and files under other locales, time zones and homes,
and a little of everything from an installed wheel that cannot be written to and on the oldest and newest Python here
that the dependencies have wheels for. What a machine cannot do is said in one sentence and is no failure.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
COMPILED = (
    "apsw,celer,grpcio,httptools,llvmlite,msgspec,numba,numpy,onnx,onnxruntime,pandas,polars,pyarrow,river,safetensors,"
    "scikit-learn,scipy,statsmodels,uvloop,zstandard"  # what nobody should have to compile to use or to test trueline
)

NUMBERS = (
    "tests/frozen", "tests/test_dense.py", "tests/test_exact.py", "tests/test_inference.py", "tests/test_kernel.py",
    "tests/test_lasso_estimators.py", "tests/test_leftout.py", "tests/test_linear_estimators.py", "tests/test_logistic.py",
    "tests/test_mixture.py", "tests/test_moments.py", "tests/test_nist.py", "tests/test_online_files.py",
    "tests/test_pca.py", "tests/test_scales.py",
)  # fmt: skip
TEXT = (
    "tests/test_bad_input.py", "tests/test_cli.py", "tests/test_cli_outputs.py", "tests/test_cli_reading.py",
    "tests/test_cli_stream.py", "tests/test_read.py", "tests/test_report.py", "tests/test_schema.py",
)  # fmt: skip
# Whatever takes arrays, files or bodies from outside.
OUTSIDE = (
    "tests/test_crafted_files.py", "tests/test_kernel_boundary.py", "tests/test_kernels.py", "tests/test_learning_loop.py",
    "tests/test_losses.py", "tests/test_model_file.py", "tests/test_serve_hostile.py", "tests/test_sparse_path.py",
)  # fmt: skip
UNCOMPILED = (
    "tests/test_folds.py", "tests/test_kernels.py", "tests/test_lasso_estimators.py", "tests/test_learning_loop.py",
    "tests/test_losses.py", "tests/test_network.py",
)  # fmt: skip
LITTLE = (
    "tests/test_cli.py", "tests/test_cli_stream.py", "tests/test_linear_estimators.py", "tests/test_online_files.py",
)  # fmt: skip
# scikit-learn's own checks, browsers, measurements of memory and the longest frozen tables say the same in every environment.
LEFT_OUT = "not check_estimator and not conforms and not scikit_learn and not browser and not memory and not plain and not ab_test and not served and not sound and not drifting"


class Environment(NamedTuple):
    """One row: what is run, and what is different; a setting of None is a variable taken away."""

    name: str
    tests: tuple[str, ...]
    settings: dict[str, str | None] = {}
    python: Path = Path(sys.executable)
    source: Path = ROOT / "src"  # where trueline is imported from
    forbidden: bool = False  # whether writing there is refused, also to root
    needs: str = ""  # why this machine cannot do it, if it cannot
    prepared: Prepare | None = None  # what has to be built or installed first
    marks: str = "not torture and not building"


Prepare = Callable[[Environment, Path], Environment]


class Outcome(NamedTuple):
    environment: Environment
    said: str
    seconds: float
    output: str
    failed: bool


def kernels() -> Iterator[Environment]:
    """Other code paths of OpenBLAS and NumPy than the ones that this processor would choose."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    found = " ".join(simd.get("found", ()))
    x86 = platform.machine() in ("x86_64", "AMD64")
    wide, wider = "AVX2" in found or "X86_V3" in found, "AVX512" in found or "X86_V4" in found
    missing = f"the processor ({platform.machine()}) lacks what this kernel needs"
    for core, able, threads in (("Haswell", wide, 1), ("Zen", wide, 2), ("SkylakeX", wider, 2), ("Nehalem", True, 1)):
        settings = {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": str(threads)}
        if core == "Nehalem":
            settings["NPY_DISABLE_CPU_FEATURES"] = found
        name = f"OpenBLAS for {core}, {threads} thread{'s' * (threads > 1)}"
        name += ", NumPy without SIMD" * (core == "Nehalem")
        yield Environment(name, NUMBERS, settings, needs="" if x86 and able else missing)
    last = simd["found"][-1:] if simd.get("found") else []
    yield Environment(
        f"NumPy without {' '.join(last)}, 2 threads", NUMBERS,
        {"NPY_DISABLE_CPU_FEATURES": " ".join(last), "OPENBLAS_NUM_THREADS": "2"},
        needs="" if last else "NumPy uses no more than its baseline here",
    )  # fmt: skip


def places() -> Iterator[Environment]:
    """Locales, time zones and homes."""
    plain: dict[str, str | None] = {"LANG": None, "LANGUAGE": None, "PYTHONUTF8": None, "PYTHONIOENCODING": None}
    yield Environment("locale C, time zone of St. John's", TEXT, plain | {"LC_ALL": "C", "TZ": "America/St_Johns"})
    yield Environment("locale C.UTF-8, time zone of Chatham", TEXT, {"LC_ALL": "C.UTF-8", "TZ": "Pacific/Chatham"})
    yield Environment("HOME unset", LITTLE, {"HOME": None, "XDG_CACHE_HOME": None, "XDG_CONFIG_HOME": None})


def sealed(environment: Environment, folder: Path) -> Environment:
    """The wheel, installed where nothing can be written, with kernels that have to be compiled elsewhere."""
    built, site, home = folder / "wheel", folder / "site", folder / "home"
    uv = shutil.which("uv")
    build = [uv, "build", "--wheel"] if uv else [sys.executable, "-m", "pip", "wheel", "--no-deps"]
    subprocess.run([*build, "--quiet", "-o" if uv else "-w", str(built), str(ROOT)], check=True)
    (wheel,) = built.glob("trueline-*.whl")
    shutil.unpack_archive(wheel, site, "zip")
    home.mkdir()
    for path in (site, *site.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    settings = {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": None}
    return environment._replace(settings=settings, source=site, forbidden=True)


def uncompiled(environment: Environment, folder: Path) -> Environment:
    """The sources alone: all kernels run as plain Python."""
    bare = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT / "src" / "trueline", folder / "trueline", ignore=bare)
    return environment._replace(source=folder)


def checked(environment: Environment, folder: Path) -> Environment:
    """Kernels with bounds checked and sanitisers, built beside the others and kept."""
    compiler = next(filter(None, map(shutil.which, ("gcc", "cc"))), None)
    asan = ""
    if compiler is not None and sys.platform == "linux":
        asan = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(asan):
        return environment._replace(needs="there is no GCC with its sanitisers")
    place = ROOT / "build" / "checked"
    for path in (ROOT / "src").rglob("*"):
        made = place / path.relative_to(ROOT)
        older = not made.exists() or made.stat().st_mtime < path.stat().st_mtime
        if older and path.is_file() and path.suffix not in (".so", ".pyd", ".pyc"):
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, made)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, place / name)
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--parallel", "2"]
    settings = {"TRUELINE_COMPILE": "checked", "PYTHONPATH": ""}
    done = subprocess.run(build, cwd=place, env={**os.environ, **settings}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the checked form does not build: {done.stderr[-2000:]}")
    return environment._replace(
        source=place / "src",
        settings={"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"},
    )


def forms() -> Iterator[Environment]:
    """The kernels in the form that the other tests do not run."""
    yield Environment("kernels as plain Python", UNCOMPILED, prepared=uncompiled)


def long_forms() -> Iterator[Environment]:
    """Kernels with every bound checked, and the package built and installed anew: some twenty minutes."""
    yield Environment("kernels checked: bounds, ASan, UBSan", OUTSIDE, prepared=checked)
    yield Environment("built and installed elsewhere", ("tests/test_building.py",), marks="building")


def on_python(versions: dict[tuple[int, int], Path], environment: Environment, folder: Path) -> Environment:
    """On the first of these versions whose dependencies have wheels."""
    wrong = "it is not on this machine"
    for (major, minor), python in versions.items():
        venv = ROOT / f".venv-{major}.{minor}"
        wrong = installed(python, venv)
        if not wrong:
            return environment._replace(name=f"Python {major}.{minor}", python=venv / "bin" / "python")
        wrong = f"the dependencies have no wheels for Python {major}.{minor}: {wrong}"
    return environment._replace(needs=wrong)


def pythons() -> Iterator[Environment]:
    """The oldest Python that is supported and the newest that is here and has wheels, unless this run is on it."""
    here = sys.version_info[:2]
    found = interpreters()
    if here != OLDEST:
        oldest = {OLDEST: found[OLDEST]} if OLDEST in found else {}
        yield Environment("the oldest Python, 3.11", LITTLE, prepared=functools.partial(on_python, oldest))
    newer = {version: found[version] for version in sorted(found, reverse=True) if version > here}
    yield Environment("the newest Python", NUMBERS + TEXT, prepared=functools.partial(on_python, newer))


def interpreters() -> dict[tuple[int, int], Path]:
    """The interpreters on PATH and in pyenv's and uv's folders, by version."""
    homes = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    homes.append(Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python")))
    found = [shutil.which(f"python3.{minor}") for minor in range(11, 30)]
    found += [str(path) for home in homes for path in sorted(home.glob("*/bin/python3"))]
    versions: dict[tuple[int, int], Path] = {}
    for path in found:
        ask = (
            "import sys; print(*sys.version_info[:2], sys.implementation.name, getattr(sys, '_is_gil_enabled', bool)())"
        )
        told = subprocess.run([path, "-c", ask], capture_output=True, text=True) if path else None
        if told is not None and told.returncode == 0:
            major, minor, name, _ = told.stdout.split()
            if name == "cpython" and (int(major), int(minor)) >= OLDEST:
                versions.setdefault((int(major), int(minor)), Path(str(path)))
    return versions


def installed(python: Path, venv: Path) -> str:
    """Make a virtual environment with all but Spark, from wheels alone; what went wrong, or nothing."""
    ready, stamp = venv / ".ready", (ROOT / "pyproject.toml").read_text() + (ROOT / "constraints.txt").read_text()
    if ready.exists() and ready.read_text() == stamp:
        return ""
    uv = shutil.which("uv")
    commands = [[uv, "venv", "--quiet", "--clear", "--python", str(python), str(venv)]] if uv else [
        [str(python), "-m", "venv", "--clear", str(venv)]
    ]  # fmt: skip
    install = [uv, "pip", "install", "--quiet", "--python", str(venv / "bin/python")] if uv else [
        str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"
    ]  # fmt: skip
    needed = ["-c", "constraints.txt", "-e", ".[all,test]"]
    commands.append([*install, "--only-binary", COMPILED, *needed])
    for command in commands:
        # One binary serves every Python from 3.11 on, and it is there already.
        plain = {**os.environ, "TRUELINE_COMPILE": "0"}
        done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True)  # type: ignore[arg-type]
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            return lines[-1].strip() if lines else f"{command[0]} ended with {done.returncode}"
    ready.write_text(stamp)
    return ""


def without_override() -> None:
    """Root obeys the bits of files from now on: the right to write past them is dropped (Linux's CAP_DAC_OVERRIDE)."""
    if os.geteuid() == 0:
        drop, override = 24, 1
        if ctypes.CDLL(None, use_errno=True).prctl(drop, override, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")


def ran(environment: Environment, temporary: Path) -> Outcome:
    if environment.prepared is not None:
        environment = environment.prepared(environment, temporary)
    if environment.needs:
        return Outcome(environment, "not here", 0.0, environment.needs, False)
    variables = dict(os.environ) | {"PYTHONPATH": str(environment.source), "PYTHONDONTWRITEBYTECODE": "1"}
    for name, value in environment.settings.items():
        variables.pop(name, None)
        if value is not None:
            variables[name] = value
    start: dict[str, object] = {
        "cwd": ROOT,
        "env": variables,
        "capture_output": True,
        "text": True,
        "errors": "replace",
    }
    if environment.forbidden:
        start["preexec_fn"] = without_override
        probe = f"import pathlib; pathlib.Path({str(environment.source / 'trueline' / 'probe')!r}).write_text('')"
        tried = subprocess.run([environment.python, "-c", probe], **start)  # type: ignore[call-overload]
        if "PermissionError" not in tried.stderr:
            return Outcome(environment, "not sealed", 0.0, "the package folder can be written to", True)
    present = [path for path in environment.tests if (ROOT / path).exists()]
    command = [
        environment.python, "-m", "pytest", "-q", "-x", "-m", environment.marks, "-k", LEFT_OUT, "-p", "no:xdist",
        f"--basetemp={temporary / 'tests'}", "-o", f"pythonpath={ROOT / 'tests'}", *present,
    ]  # fmt: skip
    began = time.monotonic()
    done = subprocess.run(command, **start)  # type: ignore[call-overload]
    seconds = time.monotonic() - began
    said = "passed" if done.returncode == 0 else f"failed ({done.returncode})"
    return Outcome(environment, said, seconds, done.stdout + done.stderr, done.returncode != 0)


def main() -> int:
    parser = argparse.ArgumentParser(description="run a short form of the tests in other environments")
    parser.add_argument("only", nargs="*", help="words of the names of the environments to run; all by default")
    parser.add_argument("--long", action="store_true", help="run what takes long instead")
    only, long = parser.parse_args().only, parser.parse_args().long
    rows = [
        *pythons(),
        Environment("installed, package folder read-only", LITTLE, prepared=sealed),
        *forms(),
        *kernels(),
        *places(),
    ]
    rows = [*long_forms()] if long else rows
    rows = [row for row in rows if not only or any(word in row.name for word in only)]
    with tempfile.TemporaryDirectory(prefix="trueline-matrix-") as folder, ThreadPoolExecutor(2) as pool:
        places_of = [Path(folder, str(k)) for k in range(len(rows))]
        for place in places_of:
            place.mkdir()
        outcomes = []
        for outcome in pool.map(ran, rows, places_of):
            outcomes.append(outcome)
            if outcome.failed:
                print(f"\n== {outcome.environment.name}\n{outcome.output[-6000:]}", flush=True)
    width = max(len(outcome.environment.name) for outcome in outcomes)
    print()
    for environment, said, seconds, output, _ in outcomes:
        print(f"{environment.name:{width}}  {f'{said}, {seconds:.0f} s' if seconds else f'{said}: {output}'}")
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
