"""One pass over Parquet files: the scan against Polars merely reading and multiplying, and its peak memory."""

from __future__ import annotations

from .harness import Row
from .one_pass import parquet

NAME = "One pass: from Parquet"


def run(quick: bool) -> list[Row]:
    return parquet(300_000 if quick else 10_000_000, 50)
