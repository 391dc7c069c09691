"""A source as blocks of the design, learned while it is read: the one pass in which a schema is made.

Iterating yields :class:`Block`; its terms may grow at the end when a new level or a first missing value appears (a
term that an earlier block lacks was 0 in all of its rows). All levels have a term during the scan. Afterwards
``encoder.schema`` is final, and ``schema.from_scan(encoder.terms)`` says how its terms come from the scan's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, UsageError, nearest
from . import folds as hashing
from .blocks import Block
from .columns import check_levels, codes, kind_of, numbers
from .read import Source, open_source
from .refusals import ragged, unknown_column
from .schema import MISSING_POLICIES, UNSEEN_POLICIES, Column, Schema, missing_value, refuse_infinite, refuse_undefined
from .watch import Watch

if TYPE_CHECKING:
    import polars as pl

    from .formula import Formula

SLICE_BYTES = 1 << 24  # of a block of numbers: it stays in the cache through all that is done to it


class Encoder:
    """Blocks of a source, and at the end their schema.

    Parameters
    ----------
    source:
        Whatever :func:`trueline.data.read.open_source` takes; ``where``, ``derive`` and ``separator`` go to it.
    target, weights, group:
        Names of columns; ``group`` decides folds. ``target=None`` gives blocks without y.
    features:
        Names of the input columns; by default all others, in their order.
    categories:
        Columns of numbers that are codes, to be treated as categories.
    formula:
        A string such as ``"y ~ poly(x, 3) + log(z)"`` or a :class:`trueline.data.formula.Formula`.
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
        missing: str = "refuse",
        unseen: str = "error",
        where: str | None = None,
        derive: Mapping[str, str] | None = None,
        separator: str | None = None,
        folds: int | None = None,
        fold_seed: int = 0,
        group: str | None = None,
        fold_blocks: bool | int = False,
        labels: bool = False,
        block_rows: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> None:
        _one_of("missing", missing, MISSING_POLICIES)
        _one_of("unseen", unseen, UNSEEN_POLICIES)
        if folds is not None and (not isinstance(folds, (int, np.integer)) or folds < 2):
            raise UsageError(f"folds must be a whole number of at least 2, not {folds!r}", where="folds")
        opened = open_source(source, where=where, derive=derive, block_rows=block_rows, separator=separator)
        self.formula = _formula(formula)
        if self.formula is not None:
            target = target or self.formula.target
            if features is not None:
                raise UsageError("give features or a formula, not both", where="formula")
            if missing in ("mean", "indicator"):
                raise UsageError(
                    f'missing="{missing}" does not go with a formula, whose terms are not linear in a missing value; '
                    'choose "refuse" or "drop"',
                    where="missing",
                )
            self.formula = self.formula.resolve(_others(opened.names, target, weights, group))
            features = self.formula.columns
            categories = [*categories, *self.formula.categories]
        for what, name in (("target", target), ("weights", weights), ("group", group)):
            if name is not None and name not in opened.names:
                raise unknown_column(name, opened.names, what=f"{what} column", source=opened.describe)
        chosen = list(features) if features is not None else _others(opened.names, target, weights, group)
        for name in [*chosen, *categories]:
            if name not in opened.names:
                raise unknown_column(name, opened.names, source=opened.describe)
        looks_back = self.formula is not None and self.formula.only_lags(str(target))
        if target is not None and target in chosen and not looks_back:
            raise UsageError(f"column {target!r} is the target and cannot be a feature too", where=target)
        if len(set(chosen)) < len(chosen):
            twice = next(name for name in chosen if chosen.count(name) > 1)
            raise UsageError(f"feature {twice!r} is named twice", where=twice)
        if not chosen:
            raise DataError(f"{opened.describe} has no column left to learn from besides the target", where="features")
        needed = [name for name in dict.fromkeys([*chosen, target, weights, group]) if name is not None]
        self.source: Source = opened.refine(columns=needed)
        self.target, self.weights, self.group = target, weights, group
        self.missing, self.unseen, self.labels = missing, unseen, labels
        self.folds, self.fold_seed, self.fold_blocks = folds, fold_seed, fold_blocks
        self.progress = progress
        self._where, self._derive = where, dict(derive or {})
        self._kinds = {
            name: "category" if name in categories else kind_of(name, opened.dtypes[name], describe=opened.describe)
            for name in chosen
        }
        self._plain = [name for name in chosen if self._kinds[name] != "category"]
        self._levels: dict[str, dict[str, int]] = {n: {} for n in chosen if self._kinds[n] == "category"}
        self._terms: list[str] = list(self._plain)
        self._place = {term: k for k, term in enumerate(self._terms)}
        self._features = chosen
        self._target_levels: dict[str, int] = {}
        self._target_kind = self._check_target(opened)
        self._watch = Watch()
        self._gaps = dict.fromkeys(chosen, 0)
        self._sums: dict[str, np.ndarray] = {}
        self._observed = dict.fromkeys(chosen, 0.0)
        self._row = 0
        self._kept = 0
        self._weight_total = 0.0
        self._tail: Any = None
        self._final: tuple[str, ...] = ()

    # ---- what is known
    @property
    def terms(self) -> tuple[str, ...]:
        """The scan's terms so far."""
        return self._final if self.formula is not None else tuple(self._terms)

    @property
    def target_levels(self) -> list[str]:
        """The target's labels in the order of their codes (with ``labels=True``)."""
        return list(self._target_levels)

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
            target_kind=self._target_kind,
            classes=tuple(sorted(self._target_levels)),
            weights=self.weights,
            missing=self.missing,
            unseen=self.unseen,
            where=self._where,
            derive=tuple(self._derive.items()),
            formula=None if self.formula is None else self.formula.to_dict(),
            rows=self._kept,
            dropped_rows=self._row - self._kept,
            constant=self._watch.constant(self.terms),
            duplicates=self._watch.duplicates(self.terms),
        )

    def _column(self, name: str) -> Column:
        levels = sorted(self._levels.get(name, ()))
        fill: tuple[float, ...] = ()
        if name in self._sums and self._observed[name] > 0:
            sums = self._sums[name]
            order = [self._levels[name][level] for level in levels] if name in self._levels else [0]
            fill = tuple(float(sums[k] / self._observed[name]) if k < len(sums) else 0.0 for k in order)
        return Column(name, self._kinds[name], tuple(levels), fill, float(self._observed[name]), self._gaps[name])

    # ---- the pass
    def __iter__(self) -> Iterator[Block]:
        step = max(256, SLICE_BYTES // (8 * len(self._features)))
        for batch in self.source.frames():
            for frame in batch.iter_slices(step) if batch.height > step else (batch,):
                yield from self._block(frame)
                self._row += frame.height
            if self.progress is not None:
                self.progress(self._row)
        self._finish()

    def _block(self, frame: pl.DataFrame) -> Iterator[Block]:
        describe, row = self.source.describe, self._row
        values = numbers(frame, self._plain, [self._kinds[name] for name in self._plain], describe)
        complete = refuse_infinite(values, self._plain, row, describe)
        y = self._target_values(frame, row)
        weights = self._weight_values(frame, row)
        found = {name: self._codes(frame, name) for name in self._levels}
        gaps = None if complete else np.isnan(values)
        if self.missing in ("refuse", "drop"):
            bad = self._incomplete(values, gaps, found, y, weights, row)
            if bad is not None:
                keep = ~bad
                values, found = np.ascontiguousarray(values[keep]), {n: c[keep] for n, c in found.items()}
                y, weights = (None if v is None else v[keep] for v in (y, weights))
                frame = frame.filter(keep)
            gaps = None
        values += 0.0  # −0.0 becomes 0.0: one value, one hash
        if gaps is not None:
            values[gaps] = 0.0
        folds = self._folds(frame, values, gaps, found, y)
        self._count(values, gaps, found, weights)
        X = self._design(values, gaps, found)
        if self.formula is not None:
            yield from self._expanded(X, y, weights, folds)
            return
        self._watch.see(X, self._terms)
        self._account(len(X), y, weights)
        if len(X):
            yield Block(tuple(self._terms), X, y, weights, folds)

    def _account(self, rows: int, y: np.ndarray | None, weights: np.ndarray | None) -> None:
        self._kept += rows
        self._weight_total += float(rows) if weights is None else float(weights.sum())
        if y is not None and rows:
            self._watch.see_target(y if weights is None else y[weights > 0])

    def _incomplete(
        self,
        values: np.ndarray,
        gaps: np.ndarray | None,
        found: dict[str, np.ndarray],
        y: np.ndarray | None,
        weights: np.ndarray | None,
        row: int,
    ) -> np.ndarray | None:
        """Which rows lack a value, or None where none does; refused under the policy "refuse"."""
        bad = np.zeros(len(values), dtype=bool)
        lacking: list[tuple[str, np.ndarray]] = []
        if gaps is not None:
            lacking += [(name, gaps[:, j]) for j, name in enumerate(self._plain) if gaps[:, j].any()]
        lacking += [(name, c == -1) for name, c in found.items() if (c == -1).any()]
        for name, vector in ((self.target, y), (self.weights, weights)):
            if vector is not None and not np.isfinite(vector.sum()):
                lacking.append((str(name), np.isnan(vector)))
        for name, gap in lacking:
            if self.missing == "refuse":
                for path in self.source.paths:
                    refusal = ragged(path)
                    if refusal is not None:
                        raise refusal
                raise missing_value(name, gap, row, self.source.describe)
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
            self._grow([f"{name}[{level}]" for level in list(levels)[before:]])
        return made

    def _grow(self, terms: Sequence[str]) -> None:
        for term in terms:
            if term not in self._place:
                self._place[term] = len(self._terms)
                self._terms.append(term)

    def _design(self, values: np.ndarray, gaps: np.ndarray | None, found: dict[str, np.ndarray]) -> np.ndarray:
        lacking: dict[str, np.ndarray] = {}
        if gaps is not None:
            lacking = {name: gaps[:, j] for j, name in enumerate(self._plain) if gaps[:, j].any()}
        lacking |= {name: c == -1 for name, c in found.items() if (c == -1).any()}
        self._grow([f"{name}[missing]" for name in lacking])
        for name, gap in lacking.items():
            self._gaps[name] += int(gap.sum())
        if len(self._terms) == len(self._plain):
            return values
        X = np.zeros((len(values), len(self._terms)))
        X[:, : len(self._plain)] = values
        every = np.arange(len(values))
        for name, c in found.items():
            place = np.array([self._place[f"{name}[{level}]"] for level in self._levels[name]] or [0])
            known = c >= 0
            X[every[known], place[c[known]]] = 1.0
        for name, gap in lacking.items():
            X[gap, self._place[f"{name}[missing]"]] = 1.0
        return X

    def _expanded(
        self, X: np.ndarray, y: np.ndarray | None, weights: np.ndarray | None, folds: np.ndarray | None
    ) -> Iterator[Block]:
        assert self.formula is not None
        known = [
            (name, tuple(f"{name}[{level}]" for level in self._levels[name]) if name in self._levels else (name,))
            for name in self._features
        ]
        order = [self._place[term] for _, terms in known for term in terms]
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
        self._watch.see(made, self._final)
        self._account(len(made), y, weights)
        if len(made):
            yield Block(self._final, made, y, weights, folds)

    def _count(
        self, values: np.ndarray, gaps: np.ndarray | None, found: dict[str, np.ndarray], weights: np.ndarray | None
    ) -> None:
        """The sums that the means of missing="mean" are made of."""
        if self.missing != "mean":
            return
        w = np.ones(len(values)) if weights is None else weights
        sums = w @ values
        total = float(w.sum())
        absent = np.zeros(len(self._plain)) if gaps is None else w @ gaps
        for j, name in enumerate(self._plain):
            self._sums[name] = self._sums.get(name, np.zeros(1)) + sums[j]
            self._observed[name] += total - float(absent[j])
        for name, c in found.items():
            known = c >= 0
            counts = np.bincount(c[known], weights=w[known], minlength=len(self._levels[name]))
            before = self._sums.get(name, np.zeros(0))
            self._sums[name] = counts + np.pad(before, (0, len(counts) - len(before)))
            self._observed[name] += float(w[known].sum())

    # ---- target, weights, folds
    def _check_target(self, opened: Source) -> str:
        if self.target is None:
            return "none"
        kind = kind_of(self.target, opened.dtypes[self.target], describe=opened.describe)
        if kind == "category" and not self.labels:
            raise DataError(
                f"target {self.target!r} of {opened.describe} is text, and a number is needed here; choose another "
                "target, derive a number from it, or fit a classifier",
                where=self.target,
            )
        return kind

    def _target_values(self, frame: pl.DataFrame, row: int) -> np.ndarray | None:
        if self.target is None:
            return None
        if self._target_kind == "category":
            found = codes(frame.get_column(self.target), self._target_levels, grow=True)
            y = np.where(found < 0, np.nan, found).astype(float)
        else:
            y = numbers(frame, [self.target], [self._target_kind], self.source.describe)[:, 0] + 0.0
            refuse_infinite(y[:, None], [self.target], row, self.source.describe)
        if self.missing in ("mean", "indicator") and np.isnan(y).any():
            raise DataError(
                f"target {self.target!r} is missing in row {row + int(np.argmax(np.isnan(y))) + 1} of "
                f'{self.source.describe} ({int(np.isnan(y).sum())} such rows); choose missing="drop" or filter with where',
                where=self.target,
            )
        return y

    def _weight_values(self, frame: pl.DataFrame, row: int) -> np.ndarray | None:
        if self.weights is None:
            return None
        w = numbers(frame, [self.weights], ["number"], self.source.describe)[:, 0]
        refuse_infinite(w[:, None], [self.weights], row, self.source.describe)
        if self.missing in ("mean", "indicator") and np.isnan(w).any():
            raise missing_value(self.weights, np.isnan(w), row, self.source.describe)
        negative = w < 0
        if negative.any():
            first = int(np.argmax(negative))
            raise DataError(
                f"weight {w[first]:g} in row {row + first + 1} of {self.source.describe} is negative (column "
                f"{self.weights!r}); weights are at least 0",
                where=self.weights,
            )
        return w

    def _folds(
        self,
        frame: pl.DataFrame,
        values: np.ndarray,
        gaps: np.ndarray | None,
        found: dict[str, np.ndarray],
        y: np.ndarray | None,
    ) -> np.ndarray | None:
        if self.folds is None:
            return None
        k, seed = int(self.folds), self.fold_seed
        if self.group is not None:
            from .columns import texts

            names = texts(frame.get_column(self.group)).fill_null(hashing.MISSING)
            levels: dict[str, int] = {}
            return hashing.fold_of(
                hashing.level_hash(codes(names, levels, grow=True), list(levels), self.group, seed), k
            )
        if self.fold_blocks:
            return self._time_folds(len(values), k)
        total = hashing.number_hash(values, self._plain, seed)
        if gaps is not None:
            for j in np.flatnonzero(gaps.any(axis=0)):
                total += (
                    hashing.level_hash(gaps[:, j].astype(np.int64) * -1, ["", ""], self._plain[j], seed) * gaps[:, j]
                )
        for name, c in found.items():
            total += hashing.level_hash(c, list(self._levels[name]), name, seed)
        if y is not None and self._target_kind != "category":
            total += hashing.number_hash(np.ascontiguousarray(y)[:, None], [str(self.target)], seed)
        elif y is not None:
            total += hashing.level_hash(y.astype(np.int64), list(self._target_levels), str(self.target), seed)
        return hashing.fold_of(total, k)

    def _time_folds(self, rows: int, k: int) -> np.ndarray:
        place = np.arange(self._kept, self._kept + rows)
        if self.fold_blocks is True:
            if self.source.rows is None:
                raise UsageError(
                    f"{self.source.describe} does not say how many rows it has; give the rows of a block as a number",
                    where="fold_blocks",
                )
            return np.minimum(place * k // self.source.rows, k - 1)
        return (place // int(self.fold_blocks)) % k

    def _finish(self) -> None:
        describe = self.source.describe
        if self._kept == 0:
            raise DataError(f"no row of {describe} is complete: all {self._row} have a missing value", where="missing")
        if self.weights is not None and self._weight_total == 0:
            raise DataError(
                f"all weights in column {self.weights!r} of {describe} are zero; at least one must not be",
                where=self.weights,
            )
        if self.target is not None and self._watch.target_is_constant:
            value = self.target_levels[0] if self._target_kind == "category" else f"{self._watch.target_value:g}"
            raise DataError(
                f"target {self.target!r} of {describe} is constant ({value} in all {self._kept} rows): there is nothing to learn",
                where=self.target,
            )


def _others(names: Sequence[str], *used: str | None) -> list[str]:
    return [name for name in names if name not in used]


def _one_of(name: str, value: str, accepted: Sequence[str]) -> None:
    if value not in accepted:
        raise UsageError(
            f"{name} is one of {', '.join(accepted)}, not {value!r}{nearest(str(value), accepted)}", where=name
        )


def _formula(formula: Any) -> Formula | None:
    if formula is None or not isinstance(formula, str):
        return formula
    from .formula import Formula

    return Formula.parse(formula)
