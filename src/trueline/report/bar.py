"""A progress bar for fits that take long: nothing is drawn, and Rich not imported, before a second has passed."""

from __future__ import annotations

import sys
import time
from typing import Any

PATIENCE = 1.0  # seconds


class Bar:
    """How far a fit is, on standard error if that is a terminal; gone when it is done.

    >>> with Bar("WidrowHoff", 100) as bar:
    ...     bar.tell(50, 0.25)
    """

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total = title, total
        self._start = time.monotonic()
        self._shown: Any = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()

    def tell(self, done: int, loss: float | None) -> None:
        """So many examples are done; the average loss so far."""
        if time.monotonic() - self._start < PATIENCE or not sys.stderr.isatty():
            return
        if self._shown is None:
            self._begin()
        said = "" if loss is None else f"loss {loss:.4g}"
        self._shown.update(self._shown.tasks[0].id, completed=done, count=f"{done:,} of {self.total:,}", loss=said)

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        # The title and the bar give way first where a terminal is narrow.
        self._shown = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=None), TaskProgressColumn(),
            TextColumn("{task.fields[count]}"), TextColumn("{task.fields[loss]}"), TimeRemainingColumn(),
            console=Console(stderr=True), transient=True, expand=True,
        )  # fmt: skip
        self._shown.add_task(self.title, total=self.total, count="", loss="")
        self._shown.start()
