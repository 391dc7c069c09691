"""What the columns mean: kept with the model, so that prediction reads any table as training did.

A number, boolean or date is one term with its own name. A category is one 0/1 term a level, ``color[red]``, against
a reference: the first level in sorted order, which has no term. ``missing`` says what became of missing values:
"refuse"; "drop" the row; "mean", which puts the (weighted) mean of the column; "indicator", which puts 0 and adds the
term ``age[missing]``.

During a scan the levels and means are not yet known, so the scan's terms are others: all levels have a term, and a
missing value is 0 beside ``age[missing]`` = 1. The final design is linear in those, x + m·x[missing], so that
moments of the scan's terms give exact moments of the final ones; ``from_scan`` says how.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, ModelError, UsageError, nearest, printable
from .blocks import Block
from .columns import codes, numbers
from .refusals import lacking_column, missing_value, refuse_infinite, refuse_undefined, same_term
from .row import RowEncoder
from .schema_file import check_schema

if TYPE_CHECKING:
    import polars as pl

    from .encode import Encoder
    from .formula import Formula

MISSING_POLICIES = ("refuse", "drop", "mean", "indicator")
MOST_NAMED = 5  # columns that a line names
UNSEEN_POLICIES = ("error", "ignore")


@dataclasses.dataclass(frozen=True)
class Column:
    """One input column. ``fill`` is the mean that stands for a missing value; of a category, one number a level.

    ``format`` is that of dates in text whose day and month could be taken for each other: the column settled it.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    fill: tuple[float, ...] = ()
    observed: float = 0.0
    missing: int = 0
    format: str = ""

    @property
    def raw_terms(self) -> tuple[str, ...]:
        return (self.name,) if self.kind != "category" else tuple(f"{self.name}[{level}]" for level in self.levels)


@dataclasses.dataclass(frozen=True)
class Schema:
    """The input columns of a model, its target, and what was done about missing values.

    >>> schema = Schema(columns=(Column("size", "number"), Column("color", "category", ("blue", "red"))), target="y")
    >>> schema.terms
    ('size', 'color[red]')
    >>> schema.encode_row({"color": "red", "size": 2}).tolist()
    [2.0, 1.0]
    >>> Schema.from_dict(schema.to_dict()) == schema
    True
    """

    columns: tuple[Column, ...]
    target: str | None = None
    target_kind: str = "number"
    classes: tuple[str, ...] = ()
    weights: str | None = None
    missing: str = "refuse"
    unseen: str = "error"
    where: str | None = None
    derive: tuple[tuple[str, str], ...] = ()
    formula: dict[str, Any] | None = dataclasses.field(default=None, hash=False)
    intercept: bool = True
    rows: int = 0
    dropped_rows: int = 0
    constant: tuple[str, ...] = ()
    duplicates: tuple[tuple[str, str], ...] = ()

    # ---- the terms
    @property
    def names(self) -> tuple[str, ...]:
        """The input columns."""
        return tuple(column.name for column in self.columns)

    @property
    def formats(self) -> dict[str, str]:
        """The formats of dates that the training rows settled."""
        return {column.name: column.format for column in self.columns if column.format}

    @property
    def references(self) -> tuple[str, ...]:
        """The terms that the design leaves out, one per category; without an intercept the first leaves out none."""
        first = [column.raw_terms[0] for column in self.columns if column.raw_terms and column.kind == "category"]
        return tuple(first if self.intercept or self.formula is not None else first[1:])

    @property
    def indicators(self) -> tuple[str, ...]:
        """The terms of missing values, under the policy "indicator"."""
        if self.missing != "indicator":
            return ()
        return tuple(f"{column.name}[missing]" for column in self.columns if column.missing)

    @property
    def terms(self) -> tuple[str, ...]:
        """The columns of the final design, in the order of the input columns."""
        if self.formula is not None:
            basis = self._basis()
            known = [(column.name, column.raw_terms) for column in self.columns]
            return self._identified(basis.terms(known))
        left_out = set(self.references)
        wanted = set(self.indicators)
        made: list[str] = []
        for column in self.columns:
            made += [term for term in column.raw_terms if term not in left_out]
            made += [f"{column.name}[missing]"] if f"{column.name}[missing]" in wanted else []
        return tuple(dict.fromkeys(made))

    def _identified(self, terms: Sequence[str]) -> tuple[str, ...]:
        """Without the terms on a reference level that others already span.

        ``x:color[blue]`` goes where ``x`` is a term, ``color[blue]`` where there is an intercept, or a category
        before it that has all its levels; otherwise it stays.
        """
        every, references = set(terms), set(self.references)
        constant = self.intercept

        def spanned(term: str) -> bool:
            nonlocal constant
            factors = term.split(":")
            rest = [factor for factor in factors if factor not in references]
            if not rest and not constant:
                constant = True  # the levels of this category (or cells of several), all kept, sum to 1
                return False
            return len(rest) < len(factors) and (not rest or ":".join(rest) in every)

        return tuple(term for term in terms if not spanned(term))

    def _basis(self) -> Formula:
        from .formula import Formula

        assert self.formula is not None
        return Formula.from_dict(self.formula)

    def from_scan(self, scan_terms: Sequence[str]) -> tuple[list[int], list[tuple[int, int, float]]]:
        """How the final design comes from the scan's: (places of the terms, fills).

        ``places[k]`` is the scan's column of final term k; each fill (k, i, m) then adds m times the scan's column
        i (an indicator of missing values) to it.
        """
        place = {term: i for i, term in enumerate(scan_terms)}
        terms = self.terms
        fills: list[tuple[int, int, float]] = []
        if self.missing == "mean":
            own = {term: k for k, term in enumerate(terms)}
            for column in self.columns:
                indicator = place.get(f"{column.name}[missing]")
                if indicator is None or not column.missing:
                    continue
                fills += [(own[t], indicator, m) for t, m in zip(column.raw_terms, column.fill) if t in own]
        return [place[term] for term in terms], fills

    # ---- what the columns turned out to be, for people
    @property
    def detected(self) -> list[dict[str, Any]]:
        """Name and kind of each input column, and the format of its dates where one was settled."""
        return [{"name": c.name, "kind": c.kind} | ({"format": c.format} if c.format else {}) for c in self.columns]

    def told_columns(self) -> str:
        """The kinds of the input columns in a line.

        >>> Schema(columns=(Column("a", "number"), Column("day", "date"), Column("c", "category"))).told_columns()
        'columns: 1 number, 1 category, day: dates (days)'
        """
        kinds = [column.kind for column in self.columns]
        plural = {"number": "numbers", "boolean": "booleans", "category": "categories"}
        counted = [
            f"{kinds.count(kind):,} {kind if kinds.count(kind) == 1 else several}"
            for kind, several in plural.items()
            if kind in kinds
        ]
        dates = [
            f"{c.name}: dates (days{f', {c.format}' if c.format else ''})" for c in self.columns if c.kind == "date"
        ]
        return printable("columns: " + ", ".join(counted + dates[:MOST_NAMED] + ["…"] * (len(dates) > MOST_NAMED)))

    def told_missing(self) -> str:
        """What became of missing values, in a line; empty where there were none."""
        if self.missing == "drop":
            many = "row with missing values was" if self.dropped_rows == 1 else "rows with missing values were"
            return f"{self.dropped_rows:,} {many} left out" if self.dropped_rows else ""
        filled = {column.name: column.missing for column in self.columns if column.missing}
        if not filled or self.missing not in ("mean", "indicator"):
            return ""
        cells = sum(filled.values())
        shown = ", ".join(f"{name} {count:,}" for name, count in list(filled.items())[:MOST_NAMED])
        more = ", …" if len(filled) > MOST_NAMED else ""
        how = "with the mean of their column" if self.missing == "mean" else "with 0, beside a term that says so"
        many = "cell was" if cells == 1 else "cells were"
        return printable(f"{cells:,} missing {many} filled {how} ({shown}{more})")

    # ---- new rows
    def encode(self, data: Any) -> Block:
        """The design of new rows: any table with the columns in any order, a list of dictionaries, or an array.

        A column that is missing, a level never seen and a missing value are refused by name. Under the policy "drop"
        a row with a missing value is NaN in all its terms.
        """
        blocks = list(self.blocks(data))
        X = blocks[0].X if len(blocks) == 1 else np.concatenate([block.X for block in blocks])
        return Block(self.terms, X)

    def blocks(self, source: Any, *, extra: Sequence[str] = ()) -> Iterator[Block]:
        """The design of a source of any size, block by block."""
        for _, block in self.frames(source, extra=extra):
            yield block

    def frames(
        self, source: Any, *, extra: Sequence[str] | None = (), where: str | None = None
    ) -> Iterator[tuple[pl.DataFrame, Block]]:
        """Each frame of a source, the input columns and ``extra`` (None: all its columns), with its design.

        Under the policy "drop" a row that lacks an input is NaN in all its terms.
        """
        from .read import open_source

        if isinstance(source, np.ndarray) and source.ndim == 2:
            source = self._named(source)
        opened = open_source(source)
        derived = [name for name, _ in self.derive]
        self.check_names([*opened.names, *derived], opened.describe)
        opened = opened.refine(derive=dict(self.derive), where=where, dates=self.formats)
        if extra is not None:
            opened = opened.refine(columns=list(dict.fromkeys([*self.names, *extra])))
        basis = self._basis() if self.formula is not None else None
        tail: Any = None
        row = 0
        for frame in opened.frames():
            lacking = self._lacking(frame)
            X, terms = self._raw(frame, lacking, row, opened.describe)
            if basis is not None:
                X, terms, tail = self._expanded(basis, X, terms, tail, lacking, row, opened.describe)
            X[lacking] = np.nan
            yield frame, Block(terms, X)
            row += frame.height

    def _lacking(self, frame: pl.DataFrame) -> np.ndarray:
        """Which rows lack an input, under the policy "drop"."""
        found = np.zeros(frame.height, dtype=bool)
        for name in self.names if self.missing == "drop" else ():
            column = frame.get_column(name)
            found |= column.is_null().to_numpy()
            if column.dtype.is_float():
                found |= column.is_nan().fill_null(False).to_numpy()
        return found

    def _named(self, array: np.ndarray) -> dict[str, np.ndarray]:
        wanted = [name for name in self.names if name not in dict(self.derive)]
        if array.shape[1] != len(wanted):
            raise DataError(
                f"the array has {array.shape[1]} columns where the model has {len(wanted)}: {', '.join(wanted[:8])}",
                where="columns",
            )
        return {name: np.asarray(array[:, j], dtype=float) for j, name in enumerate(wanted)}

    def check_names(self, given: Sequence[str], describe: str, *, training: bool = False) -> None:
        """Refuse a table that lacks a column of the model; of rows to learn from, also target and weights."""
        for name in (*self.names, *((self.target, self.weights) if training else ())):
            if name is not None and name not in given:
                raise lacking_column(name, given, describe)

    def _raw(
        self, frame: pl.DataFrame, lacking: np.ndarray, row: int, describe: str
    ) -> tuple[np.ndarray, tuple[str, ...]]:
        """The design before any basis: final terms, or all levels where a formula goes on from them."""
        plain = [column for column in self.columns if column.kind != "category"]
        values = numbers(frame, [c.name for c in plain], [c.kind for c in plain], describe, row)
        refuse_infinite(values, [c.name for c in plain], row, describe)
        terms = self.terms if self.formula is None else tuple(t for c in self.columns for t in c.raw_terms)
        if terms == tuple(c.name for c in plain):
            gaps = np.isnan(values)
            if gaps.any():
                self._fill(values, gaps, plain, row, describe)
            return values, terms
        place = {term: k for k, term in enumerate(terms)}
        X = np.zeros((frame.height, len(terms)))
        for j, column in enumerate(plain):
            gap = np.isnan(values[:, j])
            X[:, place[column.name]] = values[:, j]
            if gap.any():
                X[gap, place[column.name]] = self._standing(column, gap, row, describe)
                if f"{column.name}[missing]" in place:
                    X[gap, place[f"{column.name}[missing]"]] = 1.0
        for column in self.columns:
            if column.kind == "category":
                self._indicate(X, frame.get_column(column.name), column, place, lacking, row, describe)
        return X, terms

    def _indicate(
        self,
        X: np.ndarray,
        series: pl.Series,
        column: Column,
        place: dict[str, int],
        lacking: np.ndarray,
        row: int,
        describe: str,
    ) -> None:
        found = codes(series, {level: k for k, level in enumerate(column.levels)}, grow=False)
        unseen = (found == -2) & ~lacking  # training left such a row out, and its level with it
        if unseen.any() and self.unseen == "error":
            first = int(np.argmax(unseen))
            raise DataError(
                self.unseen_level(column, str(series[first]), f" in row {row + first + 1} of {describe}"),
                where=column.name,
            )
        gap = found == -1
        if gap.any():
            self._standing(column, gap, row, describe)
        for k, term in enumerate(column.raw_terms):
            if term in place:
                X[found == k, place[term]] = 1.0
                if gap.any() and self.missing == "mean":
                    X[gap, place[term]] = column.fill[k]
        if f"{column.name}[missing]" in place:
            X[gap, place[f"{column.name}[missing]"]] = 1.0

    def _fill(self, values: np.ndarray, gaps: np.ndarray, plain: list[Column], row: int, describe: str) -> None:
        for j, column in enumerate(plain):
            if gaps[:, j].any():
                values[gaps[:, j], j] = self._standing(column, gaps[:, j], row, describe)

    def _standing(self, column: Column, gap: np.ndarray, row: int, describe: str) -> float:
        """What stands for a missing value of a column, or the refusal of it."""
        if self.missing == "mean":
            if not column.fill:
                raise DataError(
                    f"column {column.name!r} has no value in training, so no mean to put", where=column.name
                )
            return column.fill[0]
        if self.missing == "drop" or (self.missing == "indicator" and column.missing):
            return 0.0  # the whole row is marked, or the indicator beside it is
        raise missing_value(column.name, gap, row, describe, trained=self.missing == "indicator", new=True)

    def unseen_level(self, column: Column, value: str, place: str) -> str:
        """The sentence that refuses a level."""
        return (
            f"column {column.name!r} holds {value!r}{place}, a level never seen in training{nearest(value, column.levels)}; "
            'unseen="ignore" would treat it as the reference level'
        )

    def _expanded(
        self,
        basis: Formula,
        X: np.ndarray,
        terms: tuple[str, ...],
        tail: Any,
        lacking: np.ndarray,
        row: int,
        describe: str,
    ) -> tuple[np.ndarray, tuple[str, ...], Any]:
        known = [(column.name, column.raw_terms) for column in self.columns]
        # What lacks an input was left out in training before any term looked back.
        made, names, tail = basis.expand(X[~lacking] if lacking.any() else X, known, tail, hold=True)
        kept = self._identified(names)
        place = {name: k for k, name in enumerate(names)}
        made = made if len(kept) == len(names) else np.ascontiguousarray(made[:, [place[name] for name in kept]])
        X = made
        if lacking.any():
            X = np.zeros((len(lacking), len(kept)))
            X[~lacking] = made
        refuse_undefined(X, kept, row, describe)
        return X, kept, tail

    def encode_row(self, row: Mapping[str, Any]) -> np.ndarray:
        """The design of one row given as a dictionary (JSON numbers, strings and booleans)."""
        encoder = self.__dict__.get("_row_encoder")
        if encoder is None:
            encoder = RowEncoder(self)
            object.__setattr__(self, "_row_encoder", encoder)
        return encoder(row)

    # ---- keeping and merging
    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        made = dataclasses.asdict(self)
        made["derive"] = [list(pair) for pair in self.derive]  # in order: a model file sorts an object's names
        return _listed(made)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Schema:
        """The schema that ``to_dict`` gave; what no schema can be is refused."""
        check_schema(values)
        columns = tuple(Column(**_tupled(item)) for item in values["columns"])
        given = _tupled(values)
        given["duplicates"] = tuple((a, b) for a, b in values.get("duplicates", ()))
        made = cls(**given | {"columns": columns, "derive": tuple(dict(values.get("derive", {})).items())})
        if made.formula is not None:
            _check_formula(made)
        return made

    def merge(self, other: Schema) -> Schema:
        """The schema of two parts of one table: levels united, means and counts added."""
        if self.names != other.names or (self.target, self.weights, self.missing, self.intercept) != (
            other.target,
            other.weights,
            other.missing,
            other.intercept,
        ):
            raise UsageError(
                "two scans of different columns, targets, intercepts or missing policies cannot be merged",
                where="schema",
            )
        columns = tuple(_merged(mine, theirs) for mine, theirs in zip(self.columns, other.columns))
        _refuse_same_terms(columns)
        return dataclasses.replace(
            self,
            columns=columns,
            classes=tuple(sorted({*self.classes, *other.classes})),
            rows=self.rows + other.rows,
            dropped_rows=self.dropped_rows + other.dropped_rows,
            constant=tuple(name for name in self.constant if name in other.constant),
            duplicates=tuple(pair for pair in self.duplicates if pair in other.duplicates),
        )


def _check_formula(schema: Schema) -> None:
    """Refuse a formula of a file that makes no terms of its columns."""
    try:
        _ = schema.terms
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = f"{type(error).__name__}: {error}"[:80]
        raise ModelError(f"the formula in the file is none ({reason}); use an intact copy", where="schema") from None


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _listed(v) for k, v in value.items()}
    return [_listed(v) for v in value] if isinstance(value, (list, tuple)) else value


def _tupled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def _merged(mine: Column, theirs: Column) -> Column:
    if mine.kind != theirs.kind:
        raise DataError(
            f"column {mine.name!r} is a {mine.kind} in one part and a {theirs.kind} in another", where=mine.name
        )
    levels = tuple(sorted({*mine.levels, *theirs.levels}))
    total = mine.observed + theirs.observed
    fill: tuple[float, ...] = ()
    if mine.fill and theirs.fill and total > 0:
        parts = [_by_level(column, levels) for column in (mine, theirs)]
        fill = tuple((mine.observed * a + theirs.observed * b) / total for a, b in zip(*parts))
    else:
        fill = mine.fill if mine.observed else theirs.fill
    missing, form = mine.missing + theirs.missing, mine.format or theirs.format
    return Column(mine.name, mine.kind, levels, fill, total, missing, form)


def _refuse_same_terms(columns: Sequence[Column]) -> None:
    """Levels that met only now may make a term that another column has."""
    owners: dict[str, str] = {}
    for column in columns:
        for term in column.raw_terms:
            if term in owners:
                one, another = f"column {owners[term]!r}", f"column {column.name!r}"
                raise same_term(term, one, another, "the merged parts")
            owners[term] = column.name


def _by_level(column: Column, levels: Sequence[str]) -> list[float]:
    if column.kind != "category":
        return list(column.fill)
    own = dict(zip(column.levels, column.fill))
    return [own.get(level, 0.0) for level in levels]


def encode(source: Any, **options: Any) -> Encoder:
    """The :class:`~trueline.data.encode.Encoder` of a source: iterate it for blocks, then take its ``schema``."""
    from .encode import Encoder

    return Encoder(source, **options)
