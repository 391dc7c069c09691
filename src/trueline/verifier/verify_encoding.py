"""How a table becomes rows of numbers: the model's own encoder against the rows that its training reads from the table.

A model predicts a table by its schema: levels and their reference, means that stand for missing values, constants of
basis functions. The rows that all other checks use were read from the table anew; so if the schema turns the table into
the same rows, it holds wherever a row of the table uses it. What no row uses is recomputed where that is simple (the
mean of a column without a gap), and listed as stated otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import TruelineError
from .stated_claims import Check, Claims, Rows

UNIT = 2.0**-53
SAME = 2.0**-40  # of a column: its basis functions have constants that are sums over the rows, rounded on the way


def check_encoding(out: Claims, record: Any, X: Rows, weights: Rows, table: Any) -> None:
    """The schema of a model makes the rows X of the table that they came from."""
    schema = getattr(record, "schema", None)
    if schema is None or not hasattr(schema, "frames"):
        return
    try:
        own, gaps = encoded_rows(schema, table)
    except TruelineError as error:
        out.of_model("schema", None, None, False, f"its own encoder refuses the table: {str(error)[:80]}")
        return
    room = SAME * np.max(np.abs(X), axis=0, initial=0.0)
    fits = own.shape[1] == X.shape[1]
    if fits and len(own) > len(X):
        own = _in_order(own, X, room)
    if own.shape != X.shape:
        out.of_model("schema", len(own), len(X), False, "rows that its own encoder makes of the table")
        return
    terms = tuple(getattr(schema, "terms", record.terms))
    out.of_model("terms", ", ".join(map(str, record.terms)), None, tuple(record.terms) == terms, "names by its schema")
    apart = np.max(np.abs(own - X), axis=0, initial=0.0)
    held = bool((apart <= room).all())
    name = None if held else str(record.terms[int(np.argmax(apart - room))])
    out.of_model("schema", name, float(apart.max(initial=0.0)), held, "largest distance of its own rows from these")
    filled = [column.name for column in schema.columns if column.missing and not gaps[column.name]]
    out.of_model(
        "schema missing", filled[0] if filled else None, 0, not filled, "values that a column filled lacks here"
    )
    if record.statistics.get("holdout") is None and schema.formula is None:
        _check_fills(out, record, X, weights)


def check_streamed_encoding(out: Claims, record: Any, schema: Any, X: Rows, table: Any) -> None:
    """The schema that is kept beside a learner of a stream makes the rows X of the table, in the learner's columns.

    Means that stand for missing values were those of the rows before: they are stated, not checked.
    """
    if schema.missing == "mean":
        return
    try:
        found, _ = encoded_rows(schema, table)
    except TruelineError as error:
        out.append(Check("schema", None, None, False, f"its own encoder refuses the table: {str(error)[:80]}"))
        return
    place = {term: j for j, term in enumerate(schema.terms)}
    own = np.zeros((len(found), X.shape[1]))
    for k, name in enumerate(record.names):
        if name in place:
            own[:, k] = found[:, place[name]]
    room = SAME * np.max(np.abs(X), axis=0, initial=0.0)
    if len(own) and len(X) % len(own) == 0:
        own = np.tile(own, (len(X) // len(own), 1))
    elif len(own) > len(X):
        own = _in_order(own, X, room)
    if own.shape != X.shape:
        out.append(Check("schema", len(own), len(X), False, "rows that its own encoder makes of the table"))
        return
    apart = np.max(np.abs(own - X), axis=0, initial=0.0)
    held = bool((apart <= room).all())
    name = None if held else str(record.names[int(np.argmax(apart - room))])
    out.append(
        Check("schema", name, float(apart.max(initial=0.0)), held, "largest distance of its own rows from these")
    )


def encoded_rows(schema: Any, table: Any) -> tuple[Rows, dict[str, int]]:
    """The table as the schema encodes it, rows that lack no input; and how many values each column lacks."""
    blocks, gaps = list[Rows](), dict.fromkeys((column.name for column in schema.columns), 0)
    for frame, block in schema.frames(table, where=schema.where):
        blocks.append(np.asarray(block.X))
        for name in gaps:
            values = frame.get_column(name)
            gaps[name] += values.null_count() + (int(values.is_nan().sum()) if values.dtype.is_float() else 0)
    X = np.concatenate(blocks)
    return np.asarray(X[~np.isnan(X).any(axis=1)]), gaps


def _in_order(own: Rows, X: Rows, room: Rows) -> Rows:
    """Of rows some of which training left out (held out, or without a target) those that are X, in order."""
    kept = list[int]()
    for number, row in enumerate(own):
        if len(kept) < len(X) and (np.abs(row - X[len(kept)]) <= room).all():
            kept.append(number)
    return own[kept]


def _check_fills(out: Claims, record: Any, X: Rows, weights: Rows) -> None:
    """What stands for a missing value of a column that lacks none: its mean, or the share of each of its levels."""
    place = {term: j for j, term in enumerate(record.terms)}
    total = weights.sum()
    rounding = 4.0 * UNIT * (2.0 + math.log2(1.0 + len(X)))
    worst, held = 0.0, True
    for column in record.schema.columns:
        known = [term in place for term in column.raw_terms]
        if column.missing or not len(column.fill) or sum(known) < len(known) - 1:
            continue
        means = np.array([weights @ X[:, place[t]] / total if t in place else 0.0 for t in column.raw_terms])
        sizes = np.array([weights @ np.abs(X[:, place[t]]) / total if t in place else 1.0 for t in column.raw_terms])
        means = np.where(known, means, 1.0 - means.sum())
        apart = np.abs(np.asarray(column.fill, dtype=float) - means)
        worst, held = max(worst, float(apart.max(initial=0.0))), held and bool((apart <= rounding * sizes).all())
    out.of_model("schema fills", None, worst, held, "means of columns that lack nothing")
