"""Rows on their way into the store: their digests, and the statements that bring many of them in at once.

Python's sqlite3 gives the interpreter's lock up and takes it again at every row of executemany, and searches its table
of adapters for every bytes and every None. A statement of many rows does the first once, and what is bound here is
neither. Half the cost.
"""

from __future__ import annotations

import functools
import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec

# Rows of one statement. SQLite before 3.32 binds 999 values at most.
BLOCKS = (1024, 256, 64, 16, 4, 1) if sqlite3.sqlite_version_info >= (3, 32) else (64, 16, 4, 1)
PREDICTION = "prediction(pid, mid, id, features, output, position, at, digest)"
GIVEN = "journal(mid, seq, id, label, weight, features, at, digest)"  # a label that brought its features
WAITED = "journal(mid, seq, id, label, weight, pid, at, digest)"  # a label of a prediction
_encode = msgspec.msgpack.Encoder().encode
_blake = functools.partial(hashlib.blake2b, digest_size=8)


Part = tuple[str, list[tuple[Any, ...]]]  # columns, and rows to be bound


def parts(made: Iterable[tuple[str, int, Any]], learns: Iterable[tuple[int, str | None, Any]], at: float) -> list[Part]:
    """The rows of predictions (id, mid, entry) and labels (mid, id, entry), each with its digest."""
    predictions, given, waited = [], [], []
    for name, mid, e in made:
        check = _blake(_encode((e.pid, mid, name, e.features, e.output, e.position, e.at))).digest()
        predictions.append(
            (e.pid, mid, name, bytearray(e.features), bytearray(e.output), e.position, e.at, bytearray(check))
        )
    for mid, id, e in learns:
        if e.pid is None:
            check = _blake(_encode((mid, e.seq, id, e.label, e.weight, None, e.features, at))).digest()
            given.append((mid, e.seq, id, bytearray(e.label), e.weight, bytearray(e.features), at, bytearray(check)))
        else:
            check = _blake(_encode((mid, e.seq, id, e.label, e.weight, e.pid, None, at))).digest()
            waited.append((mid, e.seq, id, bytearray(e.label), e.weight, e.pid, at, bytearray(check)))
    return [(PREDICTION, predictions), (GIVEN, given), (WAITED, waited)]


def statements(columns: str, rows: list[tuple[Any, ...]]) -> Iterator[tuple[str, list[Any]]]:
    """(statement, values) that insert these rows, few of them.

    >>> [len(values) for _, values in statements("t(a, b)", [(1, 2)] * 21)]
    [32, 8, 2]
    """
    at = 0
    for size in BLOCKS:
        while len(rows) - at >= size:
            yield _insert(columns, size), list(chain.from_iterable(rows[at : at + size]))
            at += size


@functools.cache
def _insert(columns: str, rows: int) -> str:
    one = "(" + ",".join("?" * (columns.count(",") + 1)) + ")"
    return f"INSERT INTO {columns} VALUES{','.join([one] * rows)}"
