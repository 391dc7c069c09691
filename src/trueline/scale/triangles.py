"""Moments whose symmetric products are kept as triangles: half the bytes to send, and merged as they are.

A triangle holds the places on and above the diagonal, one row after the other. Everything in a merge is done entry by
entry, so that its bits are those of whole matrices (``onepass.parts``).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ..data.schema import Column, Schema
from ..doubled import Pair, add, subtract_product
from ..onepass.moments import Moments
from ..onepass.parts import Part

_STRIP = 2**13  # entries that are merged at a time: some forty temporaries of them stay in a core's cache


class Triangles(Part):
    """A part whose products are triangles."""

    def _joined(self, other: Part, delta: Pair, factor: Pair) -> Pair:
        (ah, al), (bh, bl) = self.products, other.products
        (dh, dl), (fh, fl) = delta, factor
        rows, columns = upper(len(dh))
        made = np.empty((2, len(rows)))
        for start in range(0, len(rows), _STRIP):
            some = slice(start, start + _STRIP)
            i, j = rows[some], columns[some]
            h, e = add(ah[some], al[some], bh[some], bl[some])
            made[0, some], made[1, some] = subtract_product(h, e, dh[i], dl[i], fh[j], fl[j])
        return made[0], made[1]


def packed(moments: Moments) -> Moments:
    """The same moments with triangles."""
    if _triangular(moments):
        return moments
    places = upper(moments.width)
    return _changed(moments, Triangles, lambda square: square[places])


def unpacked(moments: Moments) -> Moments:
    """The same moments with whole matrices."""
    if not _triangular(moments):
        return moments
    width = moments.width

    def whole(triangle: np.ndarray) -> np.ndarray:
        square, start = np.empty((width, width)), 0
        for k in range(width):
            square[k, k:] = square[k:, k] = triangle[start : start + width - k]
            start += width - k
        return square

    return _changed(moments, Part, whole)


def _triangular(moments: Moments) -> bool:
    return any(isinstance(part, Triangles) for part in moments.parts.values())


def _changed(moments: Moments, kind: type[Part], change: Callable[[np.ndarray], np.ndarray]) -> Moments:
    parts = {}
    for name, part in moments.parts.items():
        products = change(part.products[0]), change(part.products[1])
        parts[name] = kind(part.n, part.weight, part.mean, products, part.noise, part.log_weight)
    return dataclasses.replace(moments, parts=parts, _total=None)


def added(several: Iterable[Moments]) -> Moments:
    """Moments with triangles as one, in their order, of which two are held at a time; with matrices where terms differ."""
    total: Moments | None = None
    schemas = []
    for one in several:
        schemas.append(one.schema)
        one = dataclasses.replace(one, schema=None)
        if total is None:
            total = one
            continue
        if one.terms != total.terms or _triangular(one) != _triangular(total):
            total, one = unpacked(total), unpacked(one)
        total = total + one
    assert total is not None
    return dataclasses.replace(total, schema=merged_schemas(schemas), _total=None)


def merged_schemas(schemas: Sequence[Schema]) -> Schema:
    """One after the other by ``Schema.merge``; equal columns of which nothing is counted are not gone through each time."""
    columns = schemas[0].columns
    counted = any(column != Column(column.name, column.kind) for column in columns)
    if counted or any(other.columns != columns for other in schemas[1:]):
        return functools.reduce(Schema.merge, schemas)
    bare = [dataclasses.replace(one, columns=()) for one in schemas]
    return dataclasses.replace(functools.reduce(Schema.merge, bare), columns=columns)


@functools.lru_cache(8)
def upper(width: int) -> tuple[np.ndarray, ...]:
    """The places on and above the diagonal."""
    return np.triu_indices(width)
