"""Building: sdist, wheel and installs from a clean copy of the checkout, in environments of their own.

Slow, and `make torture` runs it. The wheel is built from the sdist in isolation and tried with its dependencies; editable
and uv's installs are of the plain form, since they compile by the same call.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [pytest.mark.building, pytest.mark.timeout(0)]
needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a clean copy is made by git")
TRY = """
import importlib.util, sys, warnings
warnings.simplefilter("error", RuntimeWarning)
import numpy as np, trueline as tl
X = np.random.default_rng(0).normal(size=(60, 4)); y = X @ [1.0, 0.0, -2.0, 0.0]
assert tl.Lasso(alpha=0.1).fit(X, y).certificate_.proven
assert tl.LocalRegression().fit(X[:, :1], y).predict(X[:, :1]).shape == (60,)
assert tl.AdaptiveFilter(8).process(y, y).shape == (60,)
kernel = importlib.util.find_spec("trueline.moments.active_set_newton").origin
print(kernel)
"""


class Built(NamedTuple):
    sdist: Path
    wheel: Path
    seconds: float
    environment: Path


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TRUELINE_COMPILE")}
    environment = plain | dict(options.pop("env", {}))  # type: ignore[call-overload]
    done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


def clean_copy(place: Path) -> Path:
    """The files that git knows, or would take, and nothing that was built."""
    listed = run("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    return place


def environment(place: Path, beside: Path | None = None) -> Path:
    """A new virtual environment's Python; ``beside`` lends it that environment's packages."""
    run(sys.executable, "-m", "venv", place)
    python = place / "bin" / "python"
    if beside is not None:
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        Path(run(python, "-c", ask).stdout.strip(), "beside.pth").write_text(run(beside, "-c", ask).stdout)
    return python


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist of a clean copy, and the wheel that an isolated build makes of it, without anything compiled before."""
    place = tmp_path_factory.mktemp("building")
    checkout = clean_copy(place / "checkout")
    hook = "import sys; sys.path.insert(0, '.'); import setup; print(setup.build_sdist(sys.argv[1]))"
    (place / "dist").mkdir()
    run(sys.executable, "-c", hook, place / "dist", cwd=checkout, env={"TRUELINE_COMPILE": "0"})
    (sdist,) = (place / "dist").glob("*.tar.gz")
    python = environment(place / "empty")
    began = time.perf_counter()
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", place / "wheels", sdist, cwd=place)
    seconds = time.perf_counter() - began
    (wheel,) = (place / "wheels").glob("*.whl")
    with_constraints = ["-c", ROOT / "constraints.txt"]
    run(python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *with_constraints, wheel, cwd=place)
    return Built(sdist, wheel, seconds, python)


@needs_git
def test_the_wheel_of_the_sdist_works_where_nothing_is(built, tmp_path, record_property):
    kernels = [path for path in (ROOT / "src").rglob("*.pxd") if not path.with_suffix(".h").exists()]
    with zipfile.ZipFile(built.wheel) as wheel:
        binaries = {
            info.filename: info.file_size for info in wheel.infolist() if info.filename.endswith((".so", ".pyd"))
        }
    assert len(binaries) == len(kernels) + 1, "one for each kernel, and one that they share"
    assert sum(binaries.values()) < 4 << 20
    assert "-abi3-" in built.wheel.name and built.wheel.name.startswith("trueline-")
    record_property("build seconds", round(built.seconds))
    done = run(built.environment, "-I", "-c", TRY, cwd=tmp_path, env={"HOME": str(tmp_path)})
    assert ".abi3.so" in done.stdout
    shown = run(built.environment.parent / "trueline", "--version", cwd=tmp_path, env={"HOME": str(tmp_path)})
    assert shown.stdout.startswith("trueline ")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "nothing is written at home"


@needs_git
@pytest.mark.parametrize("how", ["pip install .", "pip install -e .", "uv pip install ."])
def test_installs_of_a_checkout(built, tmp_path, how):
    checkout = clean_copy(tmp_path / "checkout")
    python = environment(tmp_path / "venv", beside=built.environment)
    installer: list[object] = [python, "-m", "pip"]
    if how.startswith("uv"):
        uv = shutil.which("uv") or tmp_path / "uv" / "bin" / "uv"
        if not Path(uv).exists():
            run(environment(tmp_path / "uv"), "-m", "pip", "install", "--quiet", "uv")
        installer = [uv, "pip"]
    target = ["--python", python] if how.startswith("uv") else []
    run(*installer, "install", "--quiet", *target, "--no-deps", *how.split()[how.split().index("install") + 1 :],
        cwd=checkout, env={"TRUELINE_COMPILE": "0"})  # fmt: skip
    done = run(python, "-c", TRY.replace('"error"', '"ignore"'), cwd=tmp_path)
    where = Path(done.stdout.split()[-1])
    assert where.suffix == ".py" and (checkout in where.parents) == ("-e" in how)


def test_an_edit_is_recompiled_alone(tmp_path):
    if not list((ROOT / "src").rglob("*.so")) or not (ROOT / "build" / "c-1").exists():
        pytest.skip("nothing was compiled here")
    for name in ("src", "build", "setup.py", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "Makefile"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tmp_path / name)
    make = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    run(*make, cwd=tmp_path, env={"TRUELINE_COMPILE": "1"})
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "src").rglob("*.so")}
    edited = tmp_path / "src" / "trueline" / "data" / "row_hash.py"
    edited.write_text(edited.read_text(encoding="utf-8") + "\nEDITED = 1\n", encoding="utf-8")
    run(*make, cwd=tmp_path, env={"TRUELINE_COMPILE": "1"})
    changed = [path.name.partition(".")[0] for path, then in before.items() if path.stat().st_mtime_ns != then]
    assert changed == ["row_hash"]
    if shutil.which("make"):
        (tmp_path / ".venv" / "bin").mkdir(parents=True)
        for name in (".core", ".kernels"):
            (tmp_path / ".venv" / name).touch()
        assert "build_ext" not in run("make", "-n", ".venv/.kernels", cwd=tmp_path).stdout
        time.sleep(0.01)
        edited.touch()
        assert "build_ext --inplace" in run("make", "-n", ".venv/.kernels", cwd=tmp_path).stdout


ASK = """
import sys, sysconfig, warnings
if sys.argv[1] == "no headers":
    known = sysconfig.get_path
    sysconfig.get_path = lambda name, *a, **k: sys.argv[2] if name == "include" else known(name, *a, **k)
sys.path.insert(0, ".")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import setup
print(setup.FORM, setup.FORM != "0" and "ziglang" in setup.get_requires_for_build_wheel(), len([w for w in told if "Python.h" in str(w.message)]))
"""


@pytest.mark.parametrize(
    ("machine", "said"), [("whole", "1 False 0"), ("no headers", "0 False 1"), ("no compiler", "1 True 0")]
)
def test_what_a_machine_lacks(tmp_path, machine, said):
    """With a compiler it compiles, without one it asks for zig's, without Python's headers it stays plain and says so."""
    settings = {"PATH": str(tmp_path), "CC": ""} if machine == "no compiler" else {}
    if machine != "no headers" and not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("there are no headers of Python here")
    if machine == "whole" and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no compiler here")
    done = run(sys.executable, "-c", ASK, machine, tmp_path, cwd=ROOT, env=settings)
    assert done.stdout.split("\n")[-2] == said
