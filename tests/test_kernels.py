"""The compiled kernels: they are there, they are not older than their source, and plain Python gives their bits."""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trueline
from trueline import simd
from trueline.echo import sound_walks
from trueline.moments.active_set_newton import ActiveSet

PACKAGE = Path(trueline.__file__).parent
KERNELS = sorted(path.with_suffix(".py") for path in PACKAGE.rglob("*.pxd") if not path.with_suffix(".h").exists())
needs_compiler = pytest.mark.skipif(
    not list(PACKAGE.rglob("*.so")) and not list(PACKAGE.rglob("*.pyd")),
    reason="the kernels are plain Python here; install a C compiler and Python's headers, then run make",
)


def lasso_digest(width: int) -> str:
    """A path of coefficients by the active-set kernel; its sums are in our own order, so its bits are the processor's."""
    rng = np.random.default_rng(width)
    X = rng.normal(size=(3 * width, width)).round(3)
    y = (X[:, 0] - X[:, -1] + rng.normal(size=3 * width)).round(3)
    G, c = np.zeros((width, width)), np.zeros(width)
    for row, target in zip(X, y):  # not by BLAS, whose order of sums is not ours
        G += np.outer(row, row)
        c += row * target
    taus = np.abs(c).max() * np.geomspace(0.9, 0.01, 12)
    path = ActiveSet(width, G, c).solve(taus, 0.1 * taus, 1e-10, False)
    return hashlib.sha256(path.tobytes()).hexdigest()


FILTERS = [
    ("lms", {"rate": 0.02, "certify": True}),
    ("nlms", {"dtype": "float64"}),
    ("apa", {}),
    ("rls", {}),
    ("fdaf", {"block": 8}),
    ("kalman", {"block": 8}),
]


def filter_digest(method: str, options: dict[str, object]) -> str:
    """What an adaptive filter leaves of a sound, and its state."""
    rng = np.random.default_rng(5)
    far = rng.normal(size=300).round(3)
    adaptive = trueline.AdaptiveFilter(37, method, **options)
    left = adaptive.process(far, (0.5 * np.roll(far, 2) + 0.1 * rng.normal(size=300)).round(3))
    arrays = [array for _, array in sorted(adaptive.to_state()[0].items())]
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in [left, *arrays])).hexdigest()


def digests() -> list[str]:
    paths = [lasso_digest(width) for width in (3, 17, 40)]
    return paths + [filter_digest(method, options) for method, options in FILTERS]


@needs_compiler
@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.stem)
def test_every_kernel_is_compiled_and_up_to_date(source):
    name = ".".join(source.relative_to(PACKAGE.parent).with_suffix("").parts)
    binary = Path(importlib.import_module(name).__file__)
    assert binary.suffix in (".so", ".pyd"), f"{name} runs as plain Python; run make"
    if os.access(source, os.W_OK):  # a checkout; in a wheel all files have one time
        for path in (source, source.with_suffix(".pxd"), *PACKAGE.rglob("*.h")):
            assert binary.stat().st_mtime >= path.stat().st_mtime, (
                f"{path.name} was edited after {binary.name}; run make"
            )


@needs_compiler
def test_plain_python_gives_the_bits_of_the_compiled_kernels(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "trueline", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    code = "import test_kernels as t; print(*t.digests(), t.PACKAGE)"
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    *plain, package = done.stdout.split()
    assert Path(package) == tmp_path / "trueline"
    assert plain == digests()


def test_sums_in_lanes_are_sums():
    rng = np.random.default_rng(0)
    for n in [*range(40), 1000]:
        x, w = rng.normal(size=n), rng.normal(size=n)
        assert simd.dot(x, w, n) == pytest.approx(float(x @ w), abs=1e-12)
        indices = rng.integers(0, max(n, 1), n).astype(np.int32)
        assert simd.gathered_dot(x, indices, 0, n, w) == pytest.approx(float(x @ w[indices]), abs=1e-12)
        single = sound_walks.single_window_dot(x.astype(np.float32), 0, w.astype(np.float32), n)
        assert single == pytest.approx(float(x @ w), abs=1e-4)
