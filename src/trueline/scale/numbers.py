"""A partition whose columns are all float64: its blocks come straight from memory, without a table in between.

A piece is a matrix of the declared columns, a row after the other (Spark's arrays), or :class:`Columns` that lie apart
(pandas, Arrow). Folds, refusals and schema are those of :class:`trueline.data.encode.Encoder`, which does all that is
more than numbers: text, weights, groups, formulas, filters, and missing values that are not refused.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..data.blocks import Block, Columns
from ..data.copies import Copies
from ..data.encode import SLICE_BYTES, Encoder
from ..data.folds import hash_of_columns
from ..data.read import Source
from ..data.refusals import missing_value, refuse_infinite
from ..data.schema import Schema
from ..data.watch import Watch

_BEYOND = ("formula", "where", "derive", "weights", "group", "categories")
_TILE = 512  # rows that are turned from columns to rows at a time: they stay in the cache


def plain(declared: dict[str, Any], options: dict[str, Any]) -> bool:
    """Whether nothing but numbers is asked for."""
    import polars as pl

    floats = all(dtype == pl.Float64 for dtype in declared.values())
    return floats and options.get("missing", "refuse") == "refuse" and not any(options.get(name) for name in _BEYOND)


class Unchecked(Columns):
    """Columns that nobody has looked over yet: who sees a sum that is not finite asks them to ``verify``, which refuses."""

    def __init__(self, columns: Sequence[np.ndarray], verify: Callable[[], None]) -> None:
        super().__init__(columns)
        self.verify = verify


class Numbers:
    """What an encoder is, for such a partition; ``apart`` lets X come as :class:`Columns`, ``known`` spares the checks.

    With ``trusting`` a first piece of columns is not gone through only to be checked: it comes as :class:`Unchecked`.
    """

    trusting = False

    weights = None
    target_levels: list[str] = []

    def __init__(
        self,
        described: str,
        pieces: Iterator[Any],
        declared: dict[str, Any],
        options: dict[str, Any],
        apart: bool,
        known: bool = False,
        number: int = 0,
    ) -> None:
        like, schema = _like(tuple(declared), pickle.dumps(options))
        self.describe, self.pieces, self.apart, self.known = described, pieces, apart, known
        self.kinds, self.terms, self.target, self.rule = like.kinds, like.terms, like.target, like.rule
        place = {name: k for k, name in enumerate(declared)}
        self._features = [place[name] for name in self.terms]
        self._target = None if self.target is None else place[self.target]
        self._schema, self._watch, self._rows, self.copies = schema, Watch(), 0, Copies(number)
        self.unchecked: Unchecked | None = None

    @property
    def schema(self) -> Schema:
        """What is known of the columns by now."""
        watch = self._watch
        constant, duplicates = watch.constant(self.terms), watch.duplicates(self.terms)
        return dataclasses.replace(self._schema, rows=self._rows, constant=constant, duplicates=duplicates)

    def __iter__(self) -> Iterator[Block]:
        for piece in self.pieces:
            step = max(256, SLICE_BYTES // (8 * piece.shape[1]))
            rows = len(piece)
            whole = self.apart and isinstance(piece, Columns)
            for start in [0] if whole else range(0, rows, step):
                some = slice(0, rows) if whole else slice(start, min(start + step, rows))
                X, y = self._values(piece, some, whole)
                if self.known:
                    yield Block(self.terms, X, y)
                    continue
                if self.trusting and whole and self.rule is None and not self._rows:
                    self.unchecked = X = Unchecked(X.columns, functools.partial(self._check, X, y))
                else:
                    self._check(X, y, self._rows)
                folds = self._folds(X, y)
                self._watch.see(X, self.terms)
                if y is not None:
                    self._watch.see_target(y)
                self._rows += len(X)
                yield Block(self.terms, X, y, None, folds)

    def _values(self, piece: Any, some: slice, whole: bool) -> tuple[Any, np.ndarray | None]:
        if not isinstance(piece, Columns):
            first, last = self._features[0], self._features[-1]
            together = self._features == list(range(first, last + 1))
            chosen = piece[some, first : last + 1] if together else piece[some][:, self._features]
            # Adding zero copies, and makes −0.0 the 0.0 that the folds' hash knows.
            return chosen + 0.0, None if self._target is None else piece[some, self._target] + 0.0
        y = None if self._target is None else piece.columns[self._target][some] + 0.0
        chosen = Columns([piece.columns[k][some] for k in self._features])
        return (chosen if whole else _by_rows(chosen)), y

    def _check(self, X: Any, y: np.ndarray | None, rows: int = 0) -> None:
        """Refuse what is not finite, in the order and the words of every other source."""
        if isinstance(X, Columns):
            with np.errstate(invalid="ignore", over="ignore"):
                if all(np.isfinite(column.sum()) for column in X.columns):
                    X = np.zeros((0, len(self.terms)))
                else:
                    X = _by_rows(X)
        names, complete = list(self.terms), refuse_infinite(X, self.terms, rows, self.describe)
        if y is not None and not refuse_infinite(y[:, None], [str(self.target)], rows, self.describe):
            X = X if len(X) else np.zeros((len(y), len(names)))
            X, names, complete = np.column_stack([X, y]), [*names, str(self.target)], False
        if not complete:
            gaps = np.isnan(X)
            j = int(np.argmax(gaps.any(axis=0)))
            raise missing_value(names[j], gaps[:, j], rows, self.describe)

    def _folds(self, X: Any, y: np.ndarray | None) -> np.ndarray | None:
        rule = self.rule
        if rule is None:
            return None
        names = [*self.terms, *([] if y is None else [str(self.target)])]
        if isinstance(X, Columns):
            total = hash_of_columns([*X.columns, *([] if y is None else [y])], names, rule.seed)
            if total is not None:
                return rule.of(total, self.copies)
            X = _by_rows(X)  # finite, though a sum of it overflows
        total = rule.numbers(X, None, self.terms)
        if y is not None:
            total += rule.numbers(np.ascontiguousarray(y)[:, None], None, names[-1:])
        return rule.of(total, self.copies)


def encoder_like(declared: dict[str, Any], options: dict[str, Any], described: str = "the table") -> Encoder:
    """The encoder of a table of no rows, which refuses what is wrong with a call; of columns of numbers made once."""
    import polars as pl

    if plain(declared, options):
        return _like(tuple(declared), pickle.dumps(options), described)[0]
    nothing = Source(described, lambda: iter([pl.DataFrame(schema=declared)]), rereadable=False)
    return Encoder(nothing, part=0, **options)


@functools.lru_cache(8)
def _like(names: tuple[str, ...], options: bytes, described: str = "the table") -> tuple[Encoder, Schema]:
    """An encoder of such a table and its schema, for what is known beforehand; made once for all partitions of a job."""
    import polars as pl

    empty = pl.DataFrame(schema=dict.fromkeys(names, pl.Float64))
    made = Encoder(Source(described, lambda: iter([empty]), rereadable=False), part=0, **pickle.loads(options))
    return made, made.schema


def _by_rows(columns: Columns) -> np.ndarray:
    """Columns that lie apart as one matrix, C-ordered, −0.0 made 0.0."""
    n, d = columns.shape
    out = np.empty((n, d))
    for start in range(0, n, _TILE):
        rows = slice(start, start + _TILE)
        np.add(np.array([column[rows] for column in columns.columns]).T, 0.0, out=out[rows])
    return out


def as_table(piece: Any, declared: dict[str, Any]) -> Any:
    """A piece as the Polars frame that the encoder of everything else reads."""
    import polars as pl

    columns = piece.columns if isinstance(piece, Columns) else piece.T
    return pl.DataFrame({name: np.ascontiguousarray(column) for name, column in zip(declared, columns, strict=True)})


class Encoded:
    """A partition that has been encoded, kept on its worker for the jobs to come: iterated as often as one likes."""

    def __init__(self, encoder: Any) -> None:
        self.blocks = list(encoder)
        self.terms, self.kinds, self.target, self.weights = (
            encoder.terms,
            encoder.kinds,
            encoder.target,
            encoder.weights,
        )
        self.target_levels, self.schema = list(encoder.target_levels), encoder.schema

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)

    def __sizeof__(self) -> int:
        """What an engine's account of memory asks for."""
        kept = itertools.chain.from_iterable(block[1:] for block in self.blocks)
        return 1024 + sum(8 * math.prod(array.shape) for array in kept if array is not None)
