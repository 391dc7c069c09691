"""The compiled path: cached between processes, keyed by every source it reaches, equal to the plain path."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trueline import _prune

PART = """
from typing import NamedTuple
class Tilted(NamedTuple):
    tilt: float = 2.0
    targets = "real"
    smooth = True
    def value(self, score, y):
        return {body}
    def slope(self, score, y):
        return self.tilt * (score - y)
"""
MAIN = """
import numpy as np
from trueline import _jit
from part import Tilted
from kern import total
part = Tilted()
_jit.teach(part)
print(total(part, np.arange(4.0)), _jit.compiled_specialisations())
"""
KERNEL = """
from trueline._jit import kernel
@kernel
def total(part, scores):
    out = 0.0
    for s in scores:
        out += part.value(s, 1.0) + max(abs(s) - {threshold}, 0.0)
    return out
"""


def run(folder: Path, cache: Path, **environment: str) -> tuple[float, int]:
    settings = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(folder)} | environment
    done = subprocess.run([sys.executable, "-c", MAIN], env=settings, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    value, compiled = done.stdout.split()
    return float(value), int(compiled)


def write(folder: Path, body: str = "0.5 * self.tilt * (score - y) ** 2", threshold: str = "0.5") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "part.py").write_text(PART.format(body=body))
    (folder / "kern.py").write_text(KERNEL.format(threshold=threshold))
    return folder


def test_second_process_compiles_nothing_and_edits_are_seen(tmp_path):
    cache = tmp_path / "cache"
    first = write(tmp_path / "first")
    value, compiled = run(first, cache)
    assert compiled > 0
    assert run(first, cache) == (value, 0)
    # the plain path gives the same
    assert run(first, cache, NUMBA_DISABLE_JIT="1")[0] == pytest.approx(value, rel=1e-12)
    # another project's module and class of the same names do not share code
    second = write(tmp_path / "second", body="0.5 * self.tilt * (score - y) ** 2 + 100.0")
    assert run(second, cache) != (value, 0)
    assert run(second, cache)[0] == pytest.approx(value + 400.0)
    assert run(first, cache) == (value, 0)
    # an edited part is compiled anew
    write(first, body="0.5 * self.tilt * (score - y) ** 2 + 10.0")
    edited, compiled = run(first, cache)
    assert edited == pytest.approx(value + 40.0) and compiled > 0


def test_numba_is_not_imported_before_a_kernel_runs():
    code = "import sys, trueline, trueline.objective.losses, trueline.objective.penalties; print([m for m in ('numba', 'sklearn', 'polars', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_old_code_is_pruned_and_what_is_used_stays(tmp_path, monkeypatch):
    now = time.time()
    ages = {"today.nbc": 0.1, "week.nbc": 7.0, "month.nbc": 31.0, "month.ready": 40.0, "month.py": 31.0}
    for name, days in ages.items():
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (now - days * _prune.DAY,) * 2)
    _prune.used(tmp_path / "month.ready")  # somebody loads it
    assert _prune.prune(tmp_path) == 1
    assert {p.name for p in tmp_path.iterdir()} == ages.keys() - {"month.nbc"}
    monkeypatch.setattr(_prune, "ROOM", 150)  # too small even for what was used today: that stays nevertheless
    assert _prune.prune(tmp_path) == 1
    assert {p.name for p in tmp_path.iterdir()} == {"today.nbc", "month.ready", "month.py"}
    assert _prune.prune(tmp_path / "none") == 0


def test_a_process_that_compiles_prunes_and_one_that_loads_renews(tmp_path):
    cache, folder = tmp_path / "cache", tmp_path / "part"
    run(write(folder), cache)
    kept = list(cache.rglob("*.nbc"))
    for path in kept:
        os.utime(path, (time.time() - 20 * _prune.DAY,) * 2)
    assert run(folder, cache)[1] == 0
    assert any(time.time() - path.stat().st_mtime < _prune.DAY for path in kept)
    for path in kept:  # long unused; then the part is edited, and what it was is never asked for again
        os.utime(path, (time.time() - 60 * _prune.DAY,) * 2)
    assert run(write(folder, body="0.5 * self.tilt * (score - y) ** 2 + 10.0"), cache)[1] > 0
    gone = [path for path in kept if not path.exists()]
    assert gone and all(path.name.startswith("kern.total") for path in gone)
