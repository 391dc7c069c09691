"""This tree against trueline 0.1.0, whose kernels Numba compiled at run time: each in a process of its own, in turn.

0.1.0 is taken from this repository's history into a scratch folder, and warm: each task is run once before it is
measured. CPU seconds on one thread, the minimum of several rounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from .harness import Row

NAME = "Compiled ahead of time: against trueline 0.1.0"
RELEASE = "96d5e99"
ROOT = Path(__file__).resolve().parent.parent
LEAST = 0.85


class Worker:
    """A process that imports trueline from one folder."""

    def __init__(self, source: Path, scratch: Path, size: str) -> None:
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "TRUELINE_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("_tasks.py")), size],
            env={**os.environ, **threads, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(scratch / "numba")},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.tasks: list[str] = self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def seconds(self, task: str) -> Any:
        """CPU seconds, or what went wrong."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def run(quick: bool) -> list[Row]:
    rounds = 3 if quick else 7
    rows = []
    with tempfile.TemporaryDirectory(prefix="trueline-0.1.0-") as name:
        scratch = Path(name)
        taken = subprocess.run(["git", "-C", str(ROOT), "archive", RELEASE, "src"], capture_output=True, check=True)
        with tarfile.open(fileobj=BytesIO(taken.stdout)) as archive:
            archive.extractall(scratch, filter="data")
        size = "quick" if quick else "whole"
        ours, theirs = Worker(ROOT / "src", scratch, size), Worker(scratch / "src", scratch, size)
        try:
            for task in ours.tasks:
                best = [float("inf"), float("inf")]
                wrong = ""
                for k in range(rounds + 1):
                    for place, worker in enumerate((ours, theirs)):
                        found = worker.seconds(task)
                        if isinstance(found, str):
                            wrong = f"{('here', '0.1.0')[place]}: {found}"
                        elif k:  # the first is to be warm
                            best[place] = min(best[place], found)
                    if wrong:
                        break
                aim = None if wrong else LEAST
                rows.append(Row(task, best[0], best[1], "0.1.0", "CPU s", aim, wrong))
                print(f"{task}: {rows[-1].ratio:.2f} {wrong}", flush=True)
        finally:
            ours.end()
            theirs.end()
    return rows
