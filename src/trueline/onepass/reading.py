"""From a source to moments: the encoder's blocks go straight into the accumulator; nothing else is kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from ..data.schema import encode
from ..errors import UsageError, warn_caller
from ..threads import ahead
from .moments import Moments


def scan_source(
    source: Any,
    *,
    target: str | None = None,
    digits: float | str = "auto",
    sample: int = 10_000,
    folds: int | None = 5,
    progress: bool | Callable[[int], Any] = False,
    **options: Any,
) -> Moments:
    """One pass over a source that this process reads itself; options as the encoder's."""
    if isinstance(target, (list, tuple)):
        raise UsageError("a source has one target column; give its name", where="target")
    report = _Meter() if progress is True else progress or None
    folds = None if folds in (0, 1) else folds
    encoder = encode(source, target=target, folds=folds, progress=report, apart=True, **options)
    # A formula names its target itself.
    targets = () if encoder.target is None else (encoder.target,)
    try:
        # What can be read only once may be a live pipe: nobody should wait for its next block.
        blocks = ahead(encoder) if encoder.source.rereadable else encoder
        made = Moments.from_blocks(blocks, targets=targets, digits=digits, sample=sample, schema=lambda: encoder.schema)
    finally:
        if isinstance(report, _Meter):
            report.close()
    if encoder.rule is not None:
        for note in encoder.rule.notes([part.n for part in made.parts.values()], encoder.copies):
            warn_caller(note, UserWarning)
    if folds is not None and len(made.parts) == 1 and made.n > 1:
        # Every row has fallen into one fold: there is nothing to leave out.
        made.parts = {0: made.total}
    return made


class _Meter:
    """Rows and rows per second on standard error."""

    def __init__(self) -> None:
        self.start = self.shown = time.perf_counter()
        self.rows = 0

    def __call__(self, rows: int) -> None:
        self.rows = rows
        now = time.perf_counter()
        if now - self.shown > 0.2:
            self.shown = now
            self._write()

    def _write(self) -> None:
        rate = self.rows / max(time.perf_counter() - self.start, 1e-9)
        sys.stderr.write(f"\r{self.rows:,} rows, {rate:,.0f} rows/s ")
        sys.stderr.flush()

    def close(self) -> None:
        self._write()
        sys.stderr.write("\n")
