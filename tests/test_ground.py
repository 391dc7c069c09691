"""The ground: what an import costs, one threads setting, pinned versions that name no host."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import trueline
from trueline import threads
from trueline.errors import UsageError

ROOT = Path(__file__).parent.parent
HEAVY = ("numba", "sklearn", "polars", "scipy", "matplotlib", "rich")


def test_import_is_light_and_names_are_listed():
    code = f"import sys, trueline; print(sorted(set(sys.modules) & set({HEAVY!r})), len(dir(trueline)) > 30)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"


@pytest.mark.parametrize("name", trueline.__all__)
def test_every_public_name_resolves_and_explains_itself(name):
    value = getattr(trueline, name)
    assert value.__doc__ and len(value.__doc__.strip()) > 20


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'Rigde'"):
        trueline.Rigde  # noqa: B018


def test_only_a_users_own_part_asks_for_a_compiler_at_run_time():
    sources = (ROOT / "src/trueline").rglob("*.py")
    found = {p.name for p in sources if re.search(r"^\s*(from|import) (numba|llvmlite)\b", p.read_text(), re.MULTILINE)}
    assert found == {"user_functions.py"}  # with the extra jit


def test_constraints_pin_versions_and_name_no_host():
    for line in (ROOT / "constraints.txt").read_text().split():
        assert re.fullmatch(r"[A-Za-z0-9_.\-]+(\[[a-z,]+\])?==[^/@]+", line), line


def test_threads_setting(monkeypatch):
    monkeypatch.setenv("TRUELINE_THREADS", "3")
    assert threads.get_threads() == 3
    with threads.limit(1):
        assert threads.get_threads() == 1
        from threadpoolctl import threadpool_info

        assert {pool["num_threads"] for pool in threadpool_info()} <= {1}
    assert threads.get_threads() == 3
    assert threads.spread(abs, [-1, -2, -3]) == [1, 2, 3]
    for bad in ("0", "many", -1):
        with pytest.raises(UsageError, match="threads must be a whole number"):
            threads.set_threads(bad)
