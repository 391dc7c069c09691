"""How a comparison is measured: contenders interleaved, the minimum of several rounds, ratios to the best peer.

Each benchmark module has ``NAME`` and ``run(quick: bool) -> list[Row]``; ``python -m benchmarks [name …]`` runs them
and rewrites their section of docs/benchmarks.md.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass
class Row:
    """One line of the table: what was measured, ours against theirs, and the aim if there is one."""

    task: str
    ours: float
    theirs: float
    peer: str
    unit: str = "s"
    aim: float | None = None
    note: str = ""
    larger_is_better: bool = False

    @property
    def ratio(self) -> float:
        """How many times better ours is."""
        top, bottom = (self.ours, self.theirs) if self.larger_is_better else (self.theirs, self.ours)
        return top / bottom if bottom else float("inf")


def interleaved(contenders: dict[str, Callable[[], Any]], rounds: int = 3) -> tuple[dict[str, float], dict[str, Any]]:
    """Run every contender once a round, in turn; the minimum seconds and the last result of each."""
    best = dict.fromkeys(contenders, float("inf"))
    results: dict[str, Any] = {}
    for _ in range(rounds):
        for name, call in contenders.items():
            gc.collect()
            start = time.perf_counter()
            results[name] = call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best, results
