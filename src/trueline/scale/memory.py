"""Memory of a task, kept until the task is done.

Dask's workers run with MALLOC_TRIM_THRESHOLD_ set, so that freed memory goes back to the system at once; with it the C
library also stops to learn which arrays come again and again. Every temporary array is then made of new pages, which the system
must clear, and at a few hundred columns that takes as long as the sums. For the time of a task both limits are raised; then
the worker's own are back in force.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator

_TRIM, _MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_KEPT, _LARGEST = 1 << 28, 1 << 25  # bytes: free ones kept by a task; an array from where it has a mapping of its own
_USUAL_MAP = 1 << 17
_lock = threading.Lock()
_inside = 0


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Freed memory is used again while a task is inside; tasks of several threads enter together."""
    global _inside
    setting = _setting()
    if setting is None:
        yield
        return
    adjust, trim, largest = setting
    with _lock:
        _inside += 1
        if _inside == 1:
            adjust(_TRIM, _KEPT)
            adjust(_MAP, _LARGEST)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                adjust(_TRIM, trim)
                adjust(_MAP, largest)


@functools.cache
def _setting() -> tuple[Callable[[int, int], int], int, int] | None:
    """(mallopt, the limits in force); None where the C library learns by itself, or is another."""
    trim, largest = os.environ.get("MALLOC_TRIM_THRESHOLD_", ""), os.environ.get("MALLOC_MMAP_THRESHOLD_", "")
    if not trim.isdecimal():
        return None
    try:
        adjust = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return None
    return adjust, int(trim), int(largest) if largest.isdecimal() else _USUAL_MAP
