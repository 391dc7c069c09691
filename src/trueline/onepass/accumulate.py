"""From rows to moments: pieces of rows are multiplied on all cores and taken in, in order, if they are exact enough.

Sums are kept about one shift c per fold; when the data move away, that sum is centred and merged, and the next one
gets its own shift. ``noise`` bounds what rounding did: per column Σ 4u·w(z − c)², u the unit of the level at which
the rows were multiplied. The first rows go one block at a time at the highest level, until a factor exists by which
levels can be compared. From then on pieces are tried at the level that served last, several at once; one that
would have needed a higher level, or lies far from the shift, is done again with care. Pieces do not depend on the
number of threads, so neither do the results. A ``hopeful`` accumulator multiplies its first piece at level 0 and keeps it
if the factor of that very piece says that level 0 is enough: of a short partition the careful beginning is most of the work.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ..threads import one_blas_thread, started, stream
from . import exact
from .digits import LevelRule
from .given import Chosen, Given, Piece, count, cut
from .parts import Part, merged
from .sample import Sample, hashed_columns, priorities
from .sums import Fold, Open, multiplied, sum_of, whole

# Rows of a piece: a thirty-second of what is given, so that every core has some; longer ones are taken in seldomer.
PIECE_ROWS, LONG_PIECE_ROWS = 8192, 32768
_DRAW_ROWS = 32768
# A piece may be this many variances away from the shift before the shift is renewed.
_DRIFT = 16.0
# Columns whose mean is within so many (squared) spreads are summed about 0 at level 0: no row is copied then.
_NEAR_ZERO = 4.0
_NARROW = 256  # columns
_HEAD = 8  # rows that show of almost any column whether it holds fractions
_SPREAD = 2**19  # numbers: fewer are multiplied before threads have started
# Bytes of products that may wait to be taken in.
_WAITING = 2**26


def one_block(rows: int, columns: int, targets: int) -> bool:
    """Whether rows are so few that they are one block above level 0."""
    return 0 < rows <= exact.fine_rows(columns + targets)


def at_once(rows: Given, level: int) -> tuple[Part, np.ndarray]:
    """(moments, which columns hold whole numbers only) of rows that are one block: as the accumulator's, sooner."""
    chosen = rows.everything()
    Z, weights = rows.lines(chosen), rows.weights_of(chosen)
    n = Z.shape[1]
    with np.errstate(all="ignore"):
        integer = (np.rint(Z) == Z).all(axis=1)
        found = Open(exact.shift_of(Z))
        result = exact.gram(*exact.difference(Z, found.shift), weights, level)
        noise = 4 * exact.UNITS[level] * np.diagonal(result[2])
        found.add(n, (float(n), 0.0) if weights is None else sum_of(weights), result[:2], result[2:], noise)
        if weights is not None:
            found.log_weight = float(np.log(weights).sum())
        return found.closed(), integer


class Accumulator:
    """Turns rows into moments; ``digits`` asks for that many correct digits, "auto" for the usual."""

    def __init__(
        self,
        width: int,
        targets: int,
        digits: float | str = "auto",
        *,
        level: int | None = None,
        keep: int = 0,
        hopeful: bool = False,
    ) -> None:
        self.width = width
        self.targets = targets
        self.hopeful = hopeful and level is None
        self.folds: dict[int, Fold] = {}
        self.rule = LevelRule(targets, digits, level)
        self.integer = np.ones(width, dtype=bool)
        self._sample = Sample.empty(width, keep)
        self._drawn: list[Sample] = []
        self.blocks = [0] * exact.LEVELS
        self._mean_square: np.ndarray | None = None
        self._squares = np.zeros(width)  # of the last block
        self._pool: Any = None

    def add(self, rows: Given, folds: np.ndarray | None = None) -> None:
        """Add rows of [x y]; ``folds`` one whole number a row."""
        pieces = list(rows.pieces(folds, min(max(PIECE_ROWS, len(rows) // 32), LONG_PIECE_ROWS)))
        if self._sample.keep:
            for start in range(0, count(rows.everything()), _DRAW_ROWS):
                self._draw(rows, cut(rows.everything(), start, start + _DRAW_ROWS))
        i = 0
        # A piece loses its runs as they are taken in.
        # Small factors and single blocks gain nothing from BLAS's threads, and on a busy machine they wait for them.
        alone = len(rows) >= 2 * exact.FINE_ROWS and self.width <= _NARROW
        with np.errstate(all="ignore"), one_blas_thread() if alone else nullcontext():
            if self.hopeful and pieces:
                i, self.hopeful = int(self._hoped(rows, pieces[0])), False
            while i < len(pieces):
                if self.rule.due:
                    self.rule.refactor(self.together())
                    self.rule.needed(self._squares)
                ready = self._ready(pieces, i)
                if not (ready and self._try(rows, ready)):
                    name, start, stop = pieces[i].runs.pop(0)
                    step = min(exact.fine_rows(self.width) if self.rule.level else exact.BLOCK_ROWS, stop - start)
                    self._carefully(name, rows, cut(pieces[i].rows, start, start + step))
                    if start + step < stop:
                        pieces[i].runs.insert(0, (name, start + step, stop))
                while i < len(pieces) and not pieces[i].runs:
                    i += 1

    def widen(self, where: np.ndarray, width: int) -> None:
        """More columns from here on: old column k is now column ``where[k]``; new ones were 0 so far."""
        for fold in self.folds.values():
            fold.close()
            fold.done = None if fold.done is None else fold.done.placed(where, width)
        grown = np.ones(width, dtype=bool)
        grown[where] = self.integer
        self.integer, self.width, self._mean_square = grown, width, None
        self.rule.forget()
        self._sample = self.sample.placed(where, width)

    # ---- the first piece, in hope

    def _hoped(self, rows: Given, piece: Piece) -> bool:
        """Take the first piece in at level 0, if that is enough by its own factor; otherwise nothing has happened.

        The factor can be trusted with that: where level 0 passes, the noise of the products is a small part of the smallest
        eigenvalue. A column that it drops may be one that more digits would keep, so that such a piece is done with care.
        """
        if not (self.rule.rows == 0 and self.rule.enough(count(piece.rows), self.width)):
            return False
        shifts: dict[int, np.ndarray] = {}
        usual = np.zeros(self.width)
        d = self.width - self.targets
        for name, start, stop in piece.runs:
            Z = rows.lines(cut(piece.rows, start, min(stop, start + exact.fine_rows(self.width))))
            shift = exact.shift_of(Z)
            spread = np.square(Z - shift[:, None]).mean(axis=1)
            if rows.direct and (shift[:d] ** 2 <= _NEAR_ZERO * spread[:d]).all():
                spread[:d] += shift[:d] ** 2
                shift[:d] = 0.0
            shifts[name], usual = shift, np.maximum(usual, spread)
        made = multiplied(rows, piece, shifts, 0)
        if not all((one.squares <= _DRIFT * one.weight[0] * usual).all() for one in made):
            return False
        for (name, _, _), one in zip(piece.runs, made, strict=True):
            fold = self.folds.setdefault(name, Fold())
            if fold.open is None:
                fold.open = one
            else:
                fold.open.take(one)
            fold.open.tried_zero = True
            self.rule.seen(one.n, one.noise)
        squares = np.maximum.reduce([one.squares for one in made])
        if self.rule.due:
            self.rule.refactor(self.together())
        if not (self.rule.settled and self.rule.full and self.rule.needed(squares) == 0):
            self.folds.clear()
            self.rule.forget()
            self.rule.rows = 0
            return False
        candidates = np.flatnonzero(self.integer)
        self.integer[candidates] = whole(rows, piece.rows, candidates)
        self._mean_square, self._squares = usual, squares
        self.blocks[0] += len(made)
        piece.runs.clear()
        return True

    # ---- several pieces at once

    def _ready(self, pieces: list[Piece], start: int) -> list[Piece]:
        """The next pieces that can be tried: a level is known, and a shift for each run's fold."""
        if not (self.rule.settled or self.rule.fixed is not None):
            return []
        stop, runs = start, 0
        most = max(8, _WAITING // (16 * self.width**2))
        while stop < len(pieces) and (stop == start or runs + len(pieces[stop].runs) <= most):
            folds = [self.folds.get(name) for name, _, _ in pieces[stop].runs]
            if any(fold is None or fold.open is None for fold in folds):
                break
            runs += len(folds)
            stop += 1
        return pieces[start:stop]

    def _try(self, rows: Given, ready: list[Piece]) -> int:
        """Multiply pieces at the level that served last and take their runs in, from the first on, while they are
        good enough; how many were."""
        level = self.rule.level
        names = {name for piece in ready for name, _, _ in piece.runs}
        if level == 0 and rows.direct:
            for name in names:
                self._about_zero(self.folds[name])
        shifts = {name: self.folds[name].open.shift for name in names}  # type: ignore[union-attr]
        candidates = np.flatnonzero(self.integer)

        def work(piece: Piece) -> tuple[list[Open], np.ndarray]:
            return multiplied(rows, piece, shifts, level), whole(rows, piece.rows, candidates)

        taken = 0
        with one_blas_thread():
            numbers = self.width * sum(count(piece.rows) for piece in ready)
            if numbers >= _SPREAD and self._pool is None:
                self._pool = started(len(ready))
            results = stream(work, ready, self._pool) if numbers >= _SPREAD else map(work, ready)
            for piece, (made, integer) in zip(ready, results, strict=False):
                self.integer[candidates] &= integer
                for found in made:
                    if not self._take(piece.runs[0][0], found, level):
                        return taken
                    del piece.runs[0]
                    taken += 1
                    if self.rule.level < level:
                        return taken  # the next ones can be had for less
        return taken

    def _take(self, name: int, found: Open, level: int) -> bool:
        """Take in sums that were made at a level, unless they lie far from the shift or need a higher level."""
        fold, squares = self.folds[name], found.squares
        if self.rule.due:
            self.rule.refactor(self.together())
        if self._drifted(squares / found.weight[0]):
            fold.close()
            return False
        if self.rule.needed(squares) > level:
            return False
        assert fold.open is not None
        fold.open.take(found)
        self.blocks[level] += 1
        self._squares = squares
        self.rule.seen(found.n, found.noise)
        return True

    def _about_zero(self, fold: Fold) -> None:
        """Sum about 0 from here on if the means are small: then no row need be copied to be shifted."""
        old = fold.open
        assert old is not None and self._mean_square is not None
        if old.tried_zero:
            return
        old.tried_zero = True
        d = self.width - self.targets
        shift = old.shift.copy()
        shift[:d] = 0.0
        if (shift == old.shift).all() or (old.shift[:d] ** 2 > _NEAR_ZERO * self._mean_square[:d]).any():
            return
        fold.close()
        fold.open = Open(shift)
        fold.open.tried_zero = True
        self._mean_square = np.maximum(self._mean_square, self._mean_square + (old.shift - shift) ** 2)

    def _draw(self, rows: Given, chosen: Chosen) -> None:
        """Rows that may belong to the sample wait until there are enough of them to be worth a merge."""
        priority = priorities(rows.columns(chosen, hashed_columns(self.width)))
        places = self._sample.candidates(priority)
        if len(places) == 0:
            return
        picked = places + chosen.start if isinstance(chosen, slice) else chosen[places]
        weights = rows.weights_of(picked)
        drawn = (rows.block(picked), np.ones(len(picked)) if weights is None else weights, priority[places])
        self._drawn.append(Sample(*drawn, self._sample.keep))
        if sum(len(sample.rows) for sample in self._drawn) > self._sample.keep:
            self._sample = self.sample

    @property
    def sample(self) -> Sample:
        """The seeded sample of all rows so far."""
        self._sample, self._drawn = self._sample.merged(*self._drawn), []
        return self._sample

    # ---- one block with care

    def _carefully(self, name: int, rows: Given, chosen: Chosen) -> None:
        Z, weights = rows.lines(chosen), rows.weights_of(chosen)
        n = Z.shape[1]
        for seen in (slice(_HEAD), slice(_HEAD, None)):
            candidates = np.flatnonzero(self.integer)
            if len(candidates):
                some = Z[candidates, seen]
                self.integer[candidates] = (np.rint(some) == some).all(axis=1)
        weight = (float(n), 0.0) if weights is None else sum_of(weights)
        fold = self.folds.setdefault(name, Fold())
        fresh = fold.open is None
        if fold.open is None:
            fold.open = Open(exact.shift_of(Z))
        level, result, squares = self._products(Z, fold.open.shift, weights)
        if not fresh and self._drifted(squares / weight[0]):
            fold.close()
            fold.open = Open(exact.shift_of(Z))
            level, result, squares = self._products(Z, fold.open.shift, weights)
        if self._mean_square is None:
            self._mean_square = squares / weight[0]
        self.blocks[level] += 1
        noise = 4 * exact.UNITS[level] * squares
        fold.open.add(n, weight, result[:2], result[2:], noise)
        if weights is not None:
            fold.open.log_weight += float(np.log(weights).sum())
        self._squares = squares
        self.rule.seen(n, noise)
        if self.rule.settled:
            self.rule.needed(squares)

    def _products(self, Z: np.ndarray, shift: np.ndarray, weights: Any) -> tuple[int, tuple, np.ndarray]:
        """The block's sums and products at the cheapest level that keeps the digits asked for."""
        level = self.rule.level
        high, low = exact.difference(Z, shift)
        if self.rule.settled:
            squares = np.einsum("ij,ij->i", high, high if weights is None else high * weights)
            level = self.rule.needed(squares)
        result = exact.gram(high, low, weights, level)
        return level, result, np.diagonal(result[2]).copy()

    def _drifted(self, mean_square: np.ndarray) -> bool:
        """Whether rows lie so far from the shift that squares about it would dwarf the spread of the data."""
        usual = self._mean_square
        assert usual is not None
        moved = bool((mean_square > _DRIFT * usual).any())
        self._mean_square = np.maximum(usual, mean_square)
        return moved

    def parts(self) -> dict[int, Part]:
        """The moments so far, per fold."""
        with np.errstate(all="ignore"):
            found = {name: fold.part() for name, fold in sorted(self.folds.items())}
        return {name: part for name, part in found.items() if part is not None}

    def together(self) -> Part:
        """All folds in one."""
        return merged(self.parts().values(), self.width)
