"""Two waits of Spark's Python workers, cut short: together most of what a task that does little takes."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import stat
import sys
from collections.abc import Iterator

_modules = 0  # that were there when what lives was last set aside


@contextlib.contextmanager
def hastened() -> Iterator[None]:
    """Around a task, in a worker that Spark will use again.

    Spark collects garbage after each task, and goes through every object of every library for it: 40 ms with ours. What
    has been imported by then is set aside for good. And it writes to its workers in small pieces, of which each waits up to
    40 ms for the receipt of the one before: receipts are sent at once.
    """
    global _modules
    _receipts_at_once()
    yield
    if len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.collect()
        gc.freeze()
    _receipts_at_once()  # the system takes the wish back after a while


def _receipts_at_once() -> None:
    """Where the system can (Linux), for the connections of this process with its own machine."""
    quick: int = getattr(socket, "TCP_QUICKACK", 0)
    for name in os.listdir("/proc/self/fd") if quick and os.path.isdir("/proc/self/fd") else []:
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family == socket.AF_INET and one.getpeername()[0] == "127.0.0.1":
                    one.setsockopt(socket.IPPROTO_TCP, quick, 1)
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
