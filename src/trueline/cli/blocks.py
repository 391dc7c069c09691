"""The blocks that ``stream`` learns: tables and sparse text, the next block read while this one is learned."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..data.columns import LEVEL_LIMIT
from ..errors import UsageError
from .state import Asked, State

HIDDEN = "\0"  # a level that no row has: it takes the reference's place, so that every real level keeps its term


def ahead(blocks: Iterator[Any], meanwhile: Callable[[], None] = lambda: None) -> Iterator[Any]:
    """The same blocks, the next one read and encoded by another thread while this one is learned.

    ``meanwhile`` is called while the first one is read.
    Standard input is read by the thread too, so that whoever stops early leaves it waiting: it ends with the process.
    """
    import queue
    import threading

    waiting: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(maxsize=1)
    done = threading.Event()

    def put(block: Any, error: BaseException | None) -> None:
        while not done.is_set():
            try:
                waiting.put((block, error), timeout=0.1)
                break
            except queue.Full:
                continue

    def read() -> None:
        try:
            for block in blocks:
                put(block, None)
                if done.is_set():
                    return
            put(None, None)
        except BaseException as error:
            put(None, error)

    threading.Thread(target=read, daemon=True).start()
    try:
        meanwhile()
        while True:
            try:
                block, error = waiting.get(timeout=0.2)  # a Ctrl-C that another thread got is seen when this one wakes
            except queue.Empty:
                continue
            if error is not None:
                raise error
            if block is None:
                return
            yield block
    finally:
        done.set()


def text_form(source: Any) -> str | None:
    from ..data.text import text_format

    first = source[0] if isinstance(source, list) else source
    return text_format(first) if isinstance(first, str) else None  # what is open already is a table


def text_blocks(asked: Asked, state: State | None, form: str) -> Iterator[Any]:
    """svmlight or Vowpal Wabbit's text as sparse blocks."""
    from scipy.sparse import csr_array

    from ..data.text import read_text

    for option in ("target", "features", "weights", "where", "derive", "missing"):
        if getattr(asked, option) not in (None, {}, "refuse"):
            raise UsageError(
                f"--{option} is for tables; {form} text has its own labels, features and weights", where=option
            )
    for block in read_text(asked.source, form, known=tuple(state.terms if state else ())):
        X = csr_array((block.data, block.indices, block.indptr), shape=(len(block.y), len(block.names)))
        yield list(block.names), X, block.y, block.weights, None, "number", []


def table_blocks(asked: Asked, state: State | None) -> Iterator[Any]:
    """Blocks of a table, each with the schema so far."""
    from ..data.encode import Encoder
    from ..data.read import open_source

    old = state.schema if state is not None else None
    target = asked.target or (old.target if old is not None else None)
    if target is None:
        if asked.source != "-":
            open_source(asked.source)  # says so where this is no table but sparse text
        raise UsageError("give --target: the column to predict", where="target")
    settings: dict[str, Any] = {
        "features": asked.features,
        "weights": asked.weights,
        "where": asked.where,
        "derive": asked.derive,
        "missing": asked.missing,
    }
    if old is not None:
        settings = {
            "features": list(old.names), "weights": old.weights, "where": asked.where or old.where,
            "derive": dict(old.derive) | asked.derive, "missing": old.missing,
            "categories": [c.name for c in old.columns if c.kind == "category"], "dates": old.formats,
        }  # fmt: skip

    def told(schema: Any, levels: list[str]) -> tuple[Any, ...]:
        made = for_stream(schema)
        return made if old is None else old.merge(made), made.target_kind, levels

    part = None if old is None else 0  # of what the learner has seen in all
    source = asked.source
    if old is not None:
        source = open_source(source)
        old.check_names([*source.names, *settings["derive"]], source.describe, training=True)
    encoder = Encoder(source, target=target, labels=True, part=part, **settings)
    encoder.again = old is not None
    asked.notes[:] = encoder.source.notes
    for block in known_first(encoder):
        yield list(block.terms), block.X, block.y, block.weights, *told(encoder.schema, encoder.target_levels)
    encoder.refuse_no_rows()
    # No rows, but the schema of them all: a block's own still lacks the rows that were dropped from it.
    none = np.empty((0, len(encoder.terms)))
    yield list(encoder.terms), none, none[:, 0], None, *told(encoder.schema, encoder.target_levels)


def known_first(encoder: Any) -> Iterator[Any]:
    """The blocks of an encoder; of files the first ones together, when it is known whether a column names the rows.

    Such a column has 9 levels or more in 10 rows. Beyond so many rows it has more levels than any column may have, and
    the block that brings them is refused; of fewer rows the end is waited for. A pipe is not held up: it may be live.
    """
    rows, held = 0, []
    blocks = iter(encoder)
    while encoder.source.rereadable and 9 * rows <= 10 * LEVEL_LIMIT:
        block = next(blocks, None)
        if block is None:
            break
        rows += len(block.X)
        held.append(block)
    yield from held
    yield from blocks


def for_stream(schema: Any) -> Any:
    """The schema of a model whose every level has a term, and to which new levels count nothing."""
    columns = tuple(
        dataclasses.replace(
            c, levels=(HIDDEN, *(v for v in c.levels if v != HIDDEN)), fill=(0.0, *c.fill) if c.fill else ()
        )
        if c.kind == "category"
        else c
        for c in schema.columns
    )
    dropped = max(0, schema.dropped_rows)
    return dataclasses.replace(schema, columns=columns, unseen="ignore", classes=(), dropped_rows=dropped)
