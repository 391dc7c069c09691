"""A source as blocks of the design, learned while it is read: the one pass in which a schema is made.

Iterating yields :class:`Block`; its terms may grow at the end when a new level or a first missing value appears (a
term that an earlier block lacks was 0 in all of its rows). All levels have a term during the scan. Afterwards
``encoder.schema`` is final, and ``schema.from_scan(encoder.terms)`` says how its terms come from the scan's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from .blocks import Block, Columns
from .choice import check_formula_options, choose, has_intercept, one_of, others, parsed, target_of, text_of
from .columns import as_numbers, check_levels, codes, kind_of, numbers, refuse_identifier
from .copies import Copies
from .folds import FoldRule, hash_of_columns
from .read import Source, open_source
from .refusals import missing_value, ragged, refuse_infinite, refuse_undefined
from .schema import MISSING_POLICIES, UNSEEN_POLICIES, Column, Schema
from .stray import Stray, refuse_classes
from .terms import Terms
from .vectors import Target, Weights
from .watch import Means, Watch

if TYPE_CHECKING:
    import polars as pl

    from .formula import Formula

SLICE_BYTES = 1 << 24  # of a block of numbers: it stays in the cache through all that is done to it


class Encoder:
    """Blocks of a source, and at the end their schema.

    Parameters
    ----------
    source:
        Whatever :func:`trueline.data.read.open_source` takes; ``where``, ``derive``, ``separator`` and ``decimal`` go to it.
    dates:
        Formats of columns of text that hold dates, where they do not tell their order of day and month themselves.
    target, weights, group:
        Names of columns; ``group`` decides folds. ``target=None`` gives blocks without y.
    features:
        Names of the input columns; by default all others, in their order.
    categories:
        Columns of numbers that are codes, to be treated as categories.
    formula:
        A string such as ``"y ~ poly(x, 3) + log(z)"`` or a :class:`trueline.data.formula.Formula`.
    intercept:
        Whether the model will have a constant. Without one the first category has a term for each of its levels.
    missing:
        "refuse", "drop", "mean" or "indicator". The target is never made up: it may be missing only with "drop".
    unseen:
        What prediction does with a level never seen: "error" or "ignore".
    folds, fold_seed:
        Number of folds, by a seeded hash of the row's values (or of ``group``), and the seed.
    fold_blocks:
        True for K blocks in the order of the rows (whose number must be known), or the number of rows of a block,
        which then go round the folds.
    labels:
        Whether a target of text is accepted: y is then the place in ``target_levels``.
    progress:
        Called with the number of rows read so far.
    part:
        The number of the part, where the source is one part of a table: it may then be empty or have a constant target,
        which only somebody who has all the parts can judge.
    apart:
        Whether X may come as columns that lie apart, just as they were read.

    >>> encoder = Encoder({"x": [1.0, 2.0, 3.0], "color": ["red", "blue", "red"], "y": [1.0, 2.0, 3.5]}, target="y")
    >>> [block.X.tolist() for block in encoder]
    [[[1.0, 0.0, 1.0], [2.0, 1.0, 0.0], [3.0, 0.0, 1.0]]]
    >>> encoder.terms, encoder.schema.terms, encoder.schema.from_scan(encoder.terms)[0]
    (('x', 'color[blue]', 'color[red]'), ('x', 'color[red]'), [0, 2])
    """

    def __init__(
        self,
        source: Any,
        *,
        target: str | None = None,
        features: Sequence[str] | None = None,
        weights: str | None = None,
        categories: Sequence[str] = (),
        formula: str | Formula | None = None,
        intercept: bool = True,
        missing: str = "refuse",
        unseen: str = "error",
        where: str | None = None,
        derive: Mapping[str, str] | None = None,
        separator: str | None = None,
        decimal: str | None = None,
        dates: Mapping[str, str] | None = None,
        folds: int | None = None,
        fold_seed: int = 0,
        group: str | None = None,
        fold_blocks: bool | int = False,
        labels: bool = False,
        block_rows: int | None = None,
        progress: Callable[[int], Any] | None = None,
        part: int | None = None,
        apart: bool = False,
    ) -> None:
        one_of("missing", missing, MISSING_POLICIES)
        one_of("unseen", unseen, UNSEEN_POLICIES)
        self.rule = None if folds is None else FoldRule(folds, fold_seed, group, fold_blocks)
        opened = open_source(source, block_rows=block_rows, separator=separator, decimal=decimal)
        if where is not None or derive or dates:
            opened = opened.refine(where=where, derive=derive, dates=dates)
        self.formula = parsed(formula)
        self.intercept = has_intercept(self.formula, intercept)
        target = target_of(self.formula, target)
        if self.formula is not None:
            check_formula_options(features, missing)
            self.formula = self.formula.resolve(others(opened.names, target, weights, group))
            features, categories = self.formula.columns, [*categories, *self.formula.categories]
        looks_back = self.formula is not None and self.formula.only_lags(str(target))
        chosen = choose(opened, features, categories, target, weights, group, target_is_feature=looks_back)
        needed = [name for name in dict.fromkeys([*chosen, target, weights, group]) if name is not None]
        self.source: Source = opened.refine(columns=needed)
        self.target, self.weights = target, weights
        self.missing, self.unseen = missing, unseen
        self.progress = progress
        self.part = part is not None
        self.copies = Copies(part or 0)
        self.again = False  # whether a model was trained on such rows before, by the same policy
        self._where, self._derive = where, dict(derive or {})
        self._kinds = {
            name: "category" if name in categories else kind_of(name, opened.dtypes[name], describe=opened.describe)
            for name in chosen
        }
        self._plain = [name for name in chosen if self._kinds[name] != "category"]
        self._levels: dict[str, dict[str, int]] = {n: {} for n in chosen if self._kinds[n] == "category"}
        self._terms = Terms(self._plain, self.source.describe)
        self._features = chosen
        self._given_target = Target(target, opened, missing, labels)
        self._given_weights = Weights(weights, opened, missing)
        self._watch = Watch()
        self._means = Means()
        self._stray = Stray(text_of(opened, [*self._levels, target], categories))
        self._gaps = dict.fromkeys(chosen, 0)
        hashed = self.rule is None or (self.rule.group is None and not self.rule.blocks)
        plain = not self._levels and self.formula is None and weights is None
        self._apart = apart and hashed and plain and self._given_target.kind != "category"
        self._row = 0
        self._kept = 0
        self._weight_total = 0.0
        self._tail: Any = None
        self._final: tuple[str, ...] = ()

    # ---- what is known
    @property
    def terms(self) -> tuple[str, ...]:
        """The scan's terms so far."""
        return self._final if self.formula is not None else tuple(self._terms.names)

    @property
    def target_levels(self) -> list[str]:
        """The target's labels in the order of their codes (with ``labels=True``)."""
        return list(self._given_target.levels)

    @property
    def kinds(self) -> dict[str, str]:
        """How each input column is used."""
        return dict(self._kinds)

    @property
    def rows(self) -> int:
        """Rows given out so far."""
        return self._kept

    @property
    def schema(self) -> Schema:
        """What is known of the columns by now; final after the last block."""
        return Schema(
            columns=tuple(self._column(name) for name in self._features),
            target=self.target,
            target_kind=self._given_target.kind,
            classes=tuple(sorted(self._given_target.levels)),
            weights=self.weights,
            missing=self.missing,
            unseen=self.unseen,
            where=self._where,
            derive=tuple(self._derive.items()),
            formula=None if self.formula is None else self.formula.to_dict(),
            intercept=self.intercept,
            rows=self._kept,
            dropped_rows=self._row - self._kept,
            constant=self._watch.constant(self.terms),
            duplicates=self._watch.duplicates(self.terms),
        )

    def _column(self, name: str) -> Column:
        levels = sorted(self._levels.get(name, ()))
        places = [self._levels[name][level] for level in levels] if name in self._levels else [0]
        fill = self._means.of(name, places)
        form = self.source.formats.get(name, "") if self._kinds[name] == "date" else ""
        return Column(name, self._kinds[name], tuple(levels), fill, self._means.observed(name), self._gaps[name], form)

    # ---- the pass
    def __iter__(self) -> Iterator[Block]:
        step = max(256, SLICE_BYTES // (8 * len(self._features)))
        for batch in self.source.frames(empty=self.part):
            block = self._as_read(batch) if self._apart else None
            if block is not None:
                yield block
                self._row += batch.height
            for frame in () if block is not None else batch.iter_slices(step):
                yield from self._block(frame)
                self._row += frame.height
            if self.progress is not None:
                self.progress(self._row)
            del batch, block  # or there would be one more while the next is read
        if not self.part:
            self._finish()

    def _block(self, frame: pl.DataFrame) -> Iterator[Block]:
        describe, row = self.source.describe, self._row
        values = numbers(frame, self._plain, [self._kinds[name] for name in self._plain], describe, row)
        complete = refuse_infinite(values, self._plain, row, describe)
        self._stray.see(frame, row, describe)
        self._stray.see_dates(frame, row, self.source)
        labels = self._given_target.kind == "category"
        y = None if labels else self._given_target.values(frame, row)
        weights = self._given_weights.values(frame, row)
        gaps = None if complete else np.isnan(values)
        if self.missing in ("refuse", "drop"):
            text = [*self._levels, *([str(self.target)] if labels else [])]
            nulls = {name: frame.get_column(name).is_null().to_numpy() for name in text}
            bad = self._incomplete(values, gaps, nulls, y, weights, row)
            if bad is not None:
                keep = ~bad
                values = np.ascontiguousarray(values[keep])
                y, weights = (None if v is None else v[keep] for v in (y, weights))
                frame = frame.filter(keep)
            gaps = None
        # Levels and labels are those of the rows that stay.
        y = self._given_target.values(frame, row) if labels else y
        found = {name: self._codes(frame, name) for name in self._levels}
        values += 0.0  # −0.0 becomes 0.0: one value, one hash
        if gaps is not None:
            values[gaps] = 0.0
        folds = self._folds(frame, values, gaps, found, y)
        self._count(values, gaps, found, weights)
        X = self._design(values, gaps, found)
        if self.formula is not None:
            yield from self._expanded(X, y, weights, folds)
            return
        self._watch.see(X, self._terms.names, weights)
        self._account(len(X), y, weights)
        if len(X):
            yield Block(tuple(self._terms.names), X, y, weights, folds)

    def _as_read(self, frame: pl.DataFrame) -> Block | None:
        """Columns of numbers that are all there, where they lie; else None."""
        names = [*self._plain, *([] if self.target is None else [self.target])]
        kinds = [*(self._kinds[name] for name in self._plain), self._given_target.kind]
        made = as_numbers(frame, names, kinds, self.source.describe, self._row)
        columns = [made.get_column(name).to_numpy() for name in names]
        folds = None
        if self.rule is not None:
            total = hash_of_columns(columns, names, self.rule.seed)
            if total is None:
                return None
            folds = self.rule.of(total, self.copies)
        elif not all(np.isfinite(column.sum()) for column in columns):
            return None
        d = len(self._plain)
        X, y = Columns(columns[:d]), None if self.target is None else columns[d]
        self._count(X, None, {}, None)
        self._watch.see(X, self._terms.names)
        self._account(len(X), y, None)
        return Block(tuple(self._terms.names), X, y, None, folds)

    def _account(self, rows: int, y: np.ndarray | None, weights: np.ndarray | None) -> None:
        self._kept += rows
        self._weight_total += float(rows) if weights is None else float(weights.sum())
        if y is not None and rows:
            self._watch.see_target(y if weights is None else y[weights > 0])

    def _incomplete(
        self,
        values: np.ndarray,
        gaps: np.ndarray | None,
        nulls: dict[str, np.ndarray],
        y: np.ndarray | None,
        weights: np.ndarray | None,
        row: int,
    ) -> np.ndarray | None:
        """Which rows lack a value, or None where none does; refused under the policy "refuse"."""
        bad = np.zeros(len(values), dtype=bool)
        lacking: list[tuple[str, np.ndarray]] = []
        if gaps is not None:
            lacking += [(name, gaps[:, j]) for j, name in enumerate(self._plain) if gaps[:, j].any()]
        lacking += [(name, null) for name, null in nulls.items() if null.any()]
        for name, vector in ((self.target, y), (self.weights, weights)):
            if vector is not None and not np.isfinite(vector.sum()):
                lacking.append((str(name), np.isnan(vector)))
        for name, gap in lacking:
            if self.missing == "refuse":
                for path in self.source.paths:
                    refusal = ragged(path)
                    if refusal is not None:
                        raise refusal
                raise missing_value(
                    name, gap, row, self.source.describe, trained=self.again, feature=name in self._gaps
                )
            bad |= gap
            if name in self._gaps:
                self._gaps[name] += int(gap.sum())
        return bad if lacking else None

    def _codes(self, frame: pl.DataFrame, name: str) -> np.ndarray:
        levels = self._levels[name]
        before = len(levels)
        made = codes(frame.get_column(name), levels, grow=True)
        if len(levels) > before:
            check_levels(name, list(levels), self.source.describe)
            self._terms.grow([f"{name}[{level}]" for level in list(levels)[before:]], f"a level of column {name!r}")
        return made

    def _design(self, values: np.ndarray, gaps: np.ndarray | None, found: dict[str, np.ndarray]) -> np.ndarray:
        lacking: dict[str, np.ndarray] = {}
        if gaps is not None:
            lacking = {name: gaps[:, j] for j, name in enumerate(self._plain) if gaps[:, j].any()}
        lacking |= {name: c == -1 for name, c in found.items() if (c == -1).any()}
        for name, gap in lacking.items():
            self._terms.grow([f"{name}[missing]"], f"the missing values of column {name!r}")
            self._gaps[name] += int(gap.sum())
        return self._terms.design(values, found, self._levels, lacking)

    def _expanded(
        self, X: np.ndarray, y: np.ndarray | None, weights: np.ndarray | None, folds: np.ndarray | None
    ) -> Iterator[Block]:
        assert self.formula is not None
        known = [
            (name, tuple(f"{name}[{level}]" for level in self._levels[name]) if name in self._levels else (name,))
            for name in self._features
        ]
        order = [self._terms.place[term] for _, terms in known for term in terms]
        raw = X if order == list(range(X.shape[1])) else np.ascontiguousarray(X[:, order])
        if not self.formula.fixed:
            self.formula = self.formula.fix(raw, known)
        made, names, self._tail = self.formula.expand(raw, known, self._tail)
        start = len(raw) - len(made)  # the first rows have no lag yet
        y, weights, folds = (None if v is None else v[start:] for v in (y, weights, folds))
        refuse_undefined(made, names, self._row + start, self.source.describe)
        fresh = [name for name in names if name not in self._final]
        self._final = self._final + tuple(fresh)
        if names != self._final:
            place = {name: k for k, name in enumerate(self._final)}
            wide = np.zeros((len(made), len(self._final)))
            wide[:, [place[name] for name in names]] = made
            made = wide
        self._watch.see(made, self._final, weights)
        self._account(len(made), y, weights)
        if len(made):
            yield Block(self._final, made, y, weights, folds)

    def _count(
        self,
        values: np.ndarray | Columns,
        gaps: np.ndarray | None,
        found: dict[str, np.ndarray],
        weights: np.ndarray | None,
    ) -> None:
        if self.missing != "mean":
            return
        w = np.ones(len(values)) if weights is None else weights
        self._means.see_numbers(values, gaps, self._plain, w)
        for name, c in found.items():
            self._means.see_codes(c, len(self._levels[name]), name, w)

    # ---- folds, and the end
    def _folds(
        self,
        frame: pl.DataFrame,
        values: np.ndarray,
        gaps: np.ndarray | None,
        found: dict[str, np.ndarray],
        y: np.ndarray | None,
    ) -> np.ndarray | None:
        rule = self.rule
        if rule is None:
            return None
        if rule.group is not None:
            return rule.by_group(frame.get_column(rule.group))
        if rule.blocks:
            return rule.by_place(self._kept, len(values), self.source.rows, self.source.describe)
        total = rule.numbers(values, gaps, self._plain)
        for name, c in found.items():
            total += rule.levels(c, list(self._levels[name]), name)
        if y is not None and self._given_target.kind == "category":
            total += rule.levels(y.astype(np.int64), list(self._given_target.levels), str(self.target))
        elif y is not None:
            total += rule.numbers(np.ascontiguousarray(y)[:, None], None, [str(self.target)])
        return rule.of(total, self.copies)

    def refuse_no_rows(self) -> None:
        """Refuse a source of which no row is left, at its end."""
        if self._row == 0:
            raise self.source.no_rows()
        if self._kept == 0:
            raise DataError(
                f"no row of {self.source.describe} is complete: all {self._row} have a missing value", where="missing"
            )

    def _finish(self) -> None:
        describe = self.source.describe
        self._stray.refuse(self.source, self.target)
        if self._given_target.kind == "category":
            refuse_classes(str(self.target), self.target_levels, self._kept, describe)
        self.refuse_no_rows()
        for name, levels in self._levels.items():
            refuse_identifier(name, sorted(levels), self._kept, describe)
        if self.weights is not None and self._weight_total == 0:
            raise DataError(
                f"all weights in column {self.weights!r} of {describe} are zero; at least one must not be",
                where=self.weights,
            )
        if self.target is not None and self._watch.target_is_constant:
            value = self.target_levels[0] if self._given_target.kind == "category" else f"{self._watch.target_value:g}"
            raise DataError(
                f"target {self.target!r} of {describe} is constant ({value} in all {self._kept} rows): there is nothing to learn",
                where=self.target,
            )
