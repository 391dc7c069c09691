"""Machine code that an earlier process left runs without Numba, to the same bits, and what does not fit is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from trueline import _link, _ready


class Squared(NamedTuple):
    unit: float


SCRIPT = """
import sys
import numpy as np
from trueline import _jit
from trueline.online.recursive_least_squares import RecursiveModel

if sys.argv[1] == "light":
    _jit.start_lightly()
else:
    import numba
rng = np.random.default_rng(0)
X = rng.normal(size=(50, 7))
model = RecursiveModel(certificate=False)
made = model.learn(X, X.sum(axis=1))
print(made.tobytes().hex(), model.P.tobytes().hex(), "numba" in sys.modules)
"""


def test_the_second_process_needs_no_numba_and_learns_the_same_bits(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}

    def run(how):
        done = subprocess.run([sys.executable, "-c", SCRIPT, how], env=env, capture_output=True, text=True, check=True)
        return done.stdout.split()

    first, second, usual = run("light"), run("light"), run("usual")
    assert first[:2] == second[:2] == usual[:2]
    if os.uname().machine != "x86_64":
        pytest.skip("machine code of this platform is not kept")
    assert (first[2], second[2], usual[2]) == ("True", "False", "True")
    for path in tmp_path.glob("*.ready"):  # a damaged file is not run
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert run("light") == [*first[:2], "True"]


def test_an_object_that_is_not_for_here_is_left_to_llvm(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    subprocess.run([sys.executable, "-c", SCRIPT, "light"], env=env, check=True, capture_output=True)
    if os.uname().machine != "x86_64":
        pytest.skip("machine code of this platform is not kept")
    kept = next(tmp_path.glob("recursive*.ready"))
    body = kept.read_bytes()[len(_ready.MARK) + 16 :]
    size = int.from_bytes(body[:4], "little")
    head, code = json.loads(body[4 : 4 + size]), bytearray(body[4 + size :])
    symbol, missing = head["symbol"], head["missing"]
    assert _link.linked(bytes(code), symbol, missing)
    assert _link.linked(bytes(code), "another", missing) is None
    sections = _link.sections_of(bytes(code))
    references = next(s for s in sections if s[1] == 4)
    code[references[4] + 8] = 2  # a reference that is relative
    assert _link.linked(bytes(code), symbol, missing) is None
    code[18] = 183  # another processor
    assert _link.linked(bytes(code), symbol, missing) is None


def test_values_and_numba_types_are_described_in_the_same_words():
    numba = pytest.importorskip("numba")
    table = np.zeros((3, 4))
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    given = [None, True, 3, 2.5, np.float64(1.0), table, table.T, table[:, ::2], frozen, np.zeros(2, dtype=np.uint32)]
    given += [Squared(1.0), (1.0, 2)]
    for value in given:
        assert _ready.of_value(value) == _ready.of_type(numba.typeof(value)), value
    with pytest.raises(_ready.Unready):
        _ready.of_value("text")
    assert [leaf.value for leaf in _ready.flat((1.5, 2))] == [1.5, 2]
