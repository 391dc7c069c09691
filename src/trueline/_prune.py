"""Compiled code that nobody uses any more is removed, so that a folder of it stays bounded.

Every edit of a source, every other processor and every version leaves code behind that nothing will ask for again; no
name tells which. So a file's time of modification is kept as the time of its last use (renewed by whoever loads a file that was
not used for a day), and a process that adds code looks over the folder once: what was not used for ``DAYS`` goes, and
of a folder larger than ``ROOM`` the longest unused, but nothing that was used within a day, which may belong to a process
that runs now. A file is read whole when it is loaded, so removing one never harms a running process: the worst is that
the next one compiles anew.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

DAY = 86400.0
DAYS = 30.0
ROOM = 512_000_000  # bytes
ENDINGS = (".nbc", ".ready")

_seen: set[str] = set()


def used(path: Path) -> None:
    """Note that the code in this file is in use."""
    with contextlib.suppress(OSError):  # another user's file, a read-only disk
        if time.time() - path.stat().st_mtime > DAY:
            os.utime(path)


def look_over(folder: Path) -> None:
    """Remove unused code from a folder, once a process."""
    if str(folder) in _seen:
        return
    _seen.add(str(folder))
    prune(folder)


def prune(folder: Path) -> int:
    """Remove unused code from a folder; how many files went."""
    found: list[tuple[float, int, str]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(ENDINGS):
                with contextlib.suppress(OSError):
                    about = entry.stat()
                    found.append((time.time() - about.st_mtime, about.st_size, entry.path))
    total, gone = sum(size for _, size, _ in found), 0
    for age, size, path in sorted(found, reverse=True):
        if age > DAYS * DAY or (total > ROOM and age > DAY):
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size
                gone += 1
    return gone
