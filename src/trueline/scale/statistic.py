"""A partition's rows as one statistic of bounded size, and the merge of several.

A statistic is the bytes of pickled moments (it goes between workers that the engine already trusts with code), the
symmetric products as triangles: at most 16·(d + 4)² bytes plus 4 kB per fold, d the scan's terms. The room that triangles leave goes to the sample of rows. A
sample that was cut short knows nothing beyond its last priority, so a merge keeps the rows below the smallest such
priority: what is left is exactly the sample that one pass over all rows would have begun with, where all
columns are numbers (a category's indicators enter the hash, and a partition knows its own levels alone).

A partition may be empty, have a constant target or lack a level; only the whole is judged (``judged``).
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..data.blocks import Block
from ..data.columns import refuse_identifier
from ..data.encode import Encoder
from ..data.read import Source
from ..errors import DataError
from ..onepass import exact
from ..onepass.moments import Moments, merged
from ..onepass.sample import Sample
from .numbers import Encoded, Numbers, as_table, plain
from .triangles import added, packed, unpacked

NOTHING = b""  # the statistic of no rows
_AROUND = 1024  # bytes around the numbers of a sample, and a margin


def limit(terms: int, folds: int) -> int:
    """The most bytes of a statistic."""
    return max(1, folds) * (16 * (terms + 4) ** 2 + 4096)


def encoder_of(
    number: int,
    tables: Any,
    declared: dict[str, Any],
    options: dict[str, Any],
    *,
    apart: bool = False,
    known: bool = False,
) -> Any:
    """The encoder of one partition, its columns checked against those that the whole table declares; None if empty.

    ``tables`` are Polars frames or, where every column is float64, the pieces of :mod:`trueline.scale.numbers`; a
    partition that was kept comes encoded. With ``apart`` blocks may hold columns that lie apart; with ``known`` an earlier
    job has looked the rows over.
    """
    if isinstance(tables, Encoded):
        return tables
    described = getattr(tables, "describe", f"partition {number}")
    tables = (table for table in tables if len(table))
    first = next(tables, None)
    if first is None:
        return None
    found: Iterator[Any] = itertools.chain([first], tables)
    if not hasattr(first, "height"):
        if plain(declared, options):
            return Numbers(described, found, declared, options, apart, known, number)
        found = (as_table(piece, declared) for piece in found)
    pieces = (_as_declared(table, declared, described) for table in found)
    return Encoder(Source(described, lambda: pieces, rereadable=False), part=number, apart=apart, **options)


def _as_declared(table: Any, declared: dict[str, Any], described: str) -> Any:
    """The table with its columns of nulls typed, or the refusal of another schema."""
    import polars as pl

    from ..data.columns import kind_of

    for name in declared:
        if name not in table.columns:
            raise DataError(f"{described} lacks column {name!r}, which the table declares", where=name)
    for name in table.columns:
        if name not in declared:
            raise DataError(f"{described} has a column {name!r} that the table does not declare", where=name)
    # Of a column without any value a partition tells no type, or any.
    other = [name for name, dtype in table.schema.items() if dtype != declared[name]]
    empty = [name for name in other if table.get_column(name).null_count() == table.height]
    table = table.with_columns(pl.col(name).cast(declared[name]) for name in empty) if empty else table
    for name, dtype in table.schema.items():
        if dtype == declared[name]:
            continue
        try:
            found, wanted = kind_of(name, dtype), kind_of(name, declared[name])
        except DataError:
            continue  # a type that is refused only where the column is used
        if found != wanted:
            raise DataError(
                f"column {name!r} of {described} is a {found} ({dtype}) where the table declares a {wanted} "
                f"({declared[name]}); give all partitions one type",
                where=name,
            )
    return table


def moments_of(
    encoder: Any, *, digits: float | str, sample: int, notice: Callable[[Block], Any] | None = None
) -> Moments:
    """The moments of one partition, which may have no row that counts; ``notice`` is shown every block that does."""
    targets = () if encoder.target is None else (encoder.target,)
    if isinstance(encoder, Numbers):  # its terms are known, and rows that a statistic has no room for need not be drawn
        terms, folds = len(encoder.terms), 1 if encoder.rule is None else encoder.rule.count
        sample = min(sample, limit(terms, folds) // (8 * (terms + 2)))
        encoder.trusting = True  # products that are not finite show what it would look for
    counted = (block for block in encoder if block.weights is None or block.weights.any())
    if notice is not None:
        counted = (block for block in counted if notice(block) or True)
    first = next(counted, None)
    if first is None:
        return _of_nothing(encoder, targets, digits, sample)
    blocks = itertools.chain([first], counted)
    try:
        made = Moments.from_blocks(
            blocks, targets=targets, digits=digits, sample=sample, schema=lambda: encoder.schema, hopeful=True
        )
    except DataError:
        if getattr(encoder, "unchecked", None) is not None:
            encoder.unchecked.verify()
        raise
    return made if made.terms == encoder.terms else made.reordered(encoder.terms)


def _of_nothing(encoder: Any, targets: tuple[str, ...], digits: float | str, sample: int) -> Moments:
    width = len(encoder.terms) + len(targets)
    everything = np.ones(width, dtype=bool)
    none = Sample.empty(width, sample)
    return Moments(
        encoder.terms,
        targets,
        {},
        everything,
        none,
        encoder.schema,
        encoder.weights is not None,
        digits,
        (0,) * exact.LEVELS,
    )


def pack(moments: Moments, **more: Any) -> bytes:
    """The bytes of a statistic, its sample cut to the room that is left."""
    width = moments.width
    none = Sample.empty(width, 0)
    body = pickle.dumps((dataclasses.replace(packed(moments), sample=none), more), protocol=5)
    room = limit(len(moments.terms), len(moments.parts)) - len(body) - _AROUND
    return pickle.dumps((body, _shortened(moments.sample, max(0, room // (8 * (width + 2))))), protocol=5)


def unpack(raw: bytes) -> tuple[Moments, dict[str, Any]]:
    """(the moments, what was packed with them) of a statistic."""
    moments, more = _loaded(raw)
    return unpacked(moments), more


def _loaded(raw: bytes) -> tuple[Moments, dict[str, Any]]:
    """As ``unpack``, the products still triangles."""
    body, sample = pickle.loads(raw)
    moments, more = pickle.loads(body)
    return dataclasses.replace(moments, sample=sample), more


def _shortened(sample: Sample, most: int) -> Sample:
    if len(sample.priority) <= most:
        return sample
    return Sample(sample.rows[:most], sample.weights[:most], sample.priority[:most], most)


def _beginning(samples: Sequence[Sample]) -> Sample:
    """The rows of all samples as far as every one knows its own; where some were cut, about as many as one held."""
    cuts = [sample.priority[-1:] for sample in samples if len(sample.priority) == sample.keep]
    if not cuts:
        return samples[0].merged(*samples[1:])
    if any(len(cut) == 0 for cut in cuts):
        return Sample.empty(samples[0].rows.shape[1], 0)
    most = max(len(sample.priority) for sample in samples)
    smallest = np.sort(np.concatenate([sample.priority for sample in samples]))[:most]
    edge = min(smallest[-1], *(cut[0] for cut in cuts))
    inside = [int(np.searchsorted(sample.priority, edge, side="right")) for sample in samples]
    kept = [
        Sample(sample.rows[:k], sample.weights[:k], sample.priority[:k], sum(inside))
        for sample, k in zip(samples, inside, strict=True)
    ]
    return kept[0].merged(*kept[1:])


def merge(statistics: Sequence[bytes], **more: Any) -> bytes:
    """Several statistics as one, in their order; their samples are joined once, at the end.

    ``more`` is packed with them, and whether the table of row hashes was full in any of them (``crowded``).
    """
    found = [raw for raw in statistics if raw != NOTHING]
    if len(found) < 2:
        return found[0] if found else NOTHING
    samples: list[tuple[tuple[str, ...], Sample]] = []
    crowded: list[bool] = []

    def loaded() -> Iterator[Moments]:
        for raw in found:
            one, beside = _loaded(raw)
            crowded.append(beside.get("crowded", False))
            samples.append((one.terms, one.sample))
            yield dataclasses.replace(one, sample=Sample.empty(one.width, 0))

    total = added(loaded())
    placed = [sample if terms == total.terms else _placed(sample, terms, total) for terms, sample in samples]
    return pack(dataclasses.replace(total, sample=_beginning(placed)), crowded=any(crowded), **more)


def _placed(sample: Sample, terms: tuple[str, ...], whole: Moments) -> Sample:
    place = {name: k for k, name in enumerate((*whole.terms, *whole.targets))}
    return sample.placed(np.array([place[name] for name in (*terms, *whole.targets)]), whole.width)


def judged(moments: Moments | None, described: str, *, folds: bool) -> Moments:
    """The moments of a whole table, or its refusal."""
    if moments is None or moments.schema.rows == 0:
        tail = ""
        if moments is not None and moments.schema.where:
            tail = f" left by where {moments.schema.where!r}"
        elif moments is not None and moments.schema.dropped_rows:
            tail = f": all {moments.schema.dropped_rows} have a missing value"
        raise DataError(f"{described} has no rows{tail}", where="rows")
    for column in moments.schema.columns:
        refuse_identifier(column.name, column.levels, moments.schema.rows, described)
    if moments.n == 0:
        raise DataError("all weights are zero; at least one row needs a positive weight", where="weights")
    moments.refuse_nonfinite()
    total = moments.total
    still = np.diagonal(total.products[0]) == 0.0
    schema, d = moments.schema, len(moments.terms)
    if moments.targets and still[d] and schema.target_kind != "category":
        raise DataError(
            f"target {moments.targets[0]!r} of {described} is constant ({total.mean[0][d]:g} in all {schema.rows} rows): "
            "there is nothing to learn",
            where=moments.targets[0],
        )
    place = {term: k for k, term in enumerate(moments.terms)}
    schema = dataclasses.replace(
        schema,
        constant=tuple(term for k, term in enumerate(moments.terms) if still[k]),
        duplicates=tuple(pair for pair in schema.duplicates if not still[place[pair[0]]]),
    )
    parts = moments.parts
    if folds and len(parts) == 1 and moments.n > 1:
        parts = {0: merged(parts.values(), moments.width)}  # every row is in one fold: nothing can be left out
    return dataclasses.replace(moments, schema=schema, parts=parts, _total=None)
