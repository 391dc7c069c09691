"""A task keeps its memory while it runs, and only then."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

CODE = """
import resource, threading
import numpy as np
from trueline.scale.memory import kept_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(1 << 16)  # 128 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults())
with kept_memory(), kept_memory():
    faults()
    print(faults())
print(faults())
"""


def found(**setting: str) -> list[int]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | setting
    told = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    return [int(line) for line in told.stdout.split()]


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"),
    reason="the C library is not GNU's, whose limits these are",
)
def test_memory_is_used_again_inside_alone():
    before, inside, after = found(MALLOC_TRIM_THRESHOLD_="65536")  # as Dask's workers run
    assert inside < 500 and before > 5000 and after > 5000
    assert max(found()[1:]) < 500  # elsewhere nothing is changed: the library learns by itself
