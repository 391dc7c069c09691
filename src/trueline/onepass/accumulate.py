"""From rows to moments: pieces of rows are multiplied on all cores and taken in, in order, if they are exact enough.

Sums are kept about one shift c per fold; when the data move away, that sum is centred and merged, and the next one
gets its own shift. ``noise`` bounds what rounding did: per column Σ 4u·w(z − c)², u the unit of the level at which
the rows were multiplied. The first rows go one block at a time at the highest level, until a factor exists by which
levels can be compared. From then on pieces are tried at the level that served last, several at once; one that
would have needed a higher level, or lies far from the shift, is done again with care. Pieces do not depend on the
number of threads, so neither do the results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..threads import one_blas_thread, started, stream
from . import exact
from .digits import LevelRule
from .doubled import add, divide, subtract_product, two_sum
from .given import Chosen, Given, count, cut
from .parts import Part, merged, symmetric
from .sample import Sample, hashed_columns, priorities

PIECE_ROWS = 8192
_DRAW_ROWS = 4 * PIECE_ROWS
# A piece may be this many variances away from the shift before the shift is renewed.
_DRIFT = 16.0
# Columns whose mean is within so many (squared) spreads are summed about 0 at level 0: no row is copied then.
_NEAR_ZERO = 4.0
_NARROW = 256  # columns
_SPREAD = 2**19  # numbers: fewer are multiplied before threads have started
# Bytes of products that may wait to be taken in.
_WAITING = 2**26


class _Open:
    """Sums about one shift, not yet centred."""

    def __init__(self, shift: np.ndarray) -> None:
        self.shift = shift
        width = len(shift)
        self.n = 0
        self.weight = (0.0, 0.0)
        self.sums = (np.zeros(width), np.zeros(width))
        self.products: tuple[np.ndarray, np.ndarray] | None = None
        self.noise = np.zeros(width)
        self.log_weight = 0.0
        self.tried_zero = False

    def add(self, n: int, weight: tuple[float, float], sums: Any, products: Any, noise: np.ndarray) -> None:
        self.weight = add(*self.weight, *weight) if self.n else weight
        self.sums = add(*self.sums, *sums) if self.n else sums
        if self.products is not None:
            high, error = two_sum(self.products[0], products[0])
            error += self.products[1]
            error += products[1]
            self.products = (high, error)
        else:
            self.products = products
        self.n += n
        self.noise = self.noise + noise

    def take(self, other: _Open) -> None:
        """Other rows' sums about the same shift."""
        self.add(other.n, other.weight, other.sums, other.products, other.noise)
        self.log_weight += other.log_weight

    @property
    def squares(self) -> np.ndarray:
        """Σ w (z − c)² per column."""
        assert self.products is not None
        return np.diagonal(self.products[0]).copy()

    def closed(self) -> Part:
        assert self.products is not None
        wh, wl = self.weight
        sh, sl = self.sums
        mh, ml = divide(sh, sl, wh, wl)
        H, E = self.products

        def centred(i: slice, j: slice) -> tuple[np.ndarray, np.ndarray]:
            gh, gl = two_sum(H[i, j], E[i, j])
            return subtract_product(gh, gl, sh[i, None], sl[i, None], mh[None, j], ml[None, j])

        mean = add(mh, ml, self.shift, np.zeros_like(mh))
        return Part(self.n, self.weight, mean, symmetric(centred, len(mh)), self.noise, self.log_weight)


class _Fold:
    """A part that is still growing."""

    def __init__(self) -> None:
        self.done: Part | None = None
        self.open: _Open | None = None

    def close(self) -> None:
        if self.open is not None and self.open.n:
            part = self.open.closed()
            self.done = part if self.done is None else self.done.merged(part)
        self.open = None

    def part(self) -> Part | None:
        part = self.open.closed() if self.open is not None and self.open.n else None
        if part is None or self.done is None:
            return part or self.done
        return self.done.merged(part)


class Accumulator:
    """Turns rows into moments; ``digits`` asks for that many correct digits, "auto" for the usual."""

    def __init__(
        self, width: int, targets: int, digits: float | str = "auto", *, level: int | None = None, keep: int = 0
    ) -> None:
        self.width = width
        self.targets = targets
        self.folds: dict[int, _Fold] = {}
        self.rule = LevelRule(targets, digits, level)
        self.integer = np.ones(width, dtype=bool)
        self._sample = Sample.empty(width, keep)
        self._drawn: list[Sample] = []
        self.blocks = [0] * exact.LEVELS
        self._mean_square: np.ndarray | None = None
        self._pool: Any = None

    def add(self, rows: Given, folds: np.ndarray | None = None) -> None:
        """Add rows of [x y]; ``folds`` one whole number a row."""
        pieces = list(rows.pieces(folds, PIECE_ROWS))
        if self._sample.keep:
            for start in range(0, count(rows.everything()), _DRAW_ROWS):
                self._draw(rows, cut(rows.everything(), start, start + _DRAW_ROWS))
        i = 0
        # Small factors and single blocks gain nothing from BLAS's threads, and on a busy machine they wait for them.
        alone = len(rows) >= 2 * exact.FINE_ROWS and self.width <= _NARROW
        with np.errstate(all="ignore"), one_blas_thread() if alone else nullcontext():
            while i < len(pieces):
                run = self._ready(pieces, i)
                taken = self._try(rows, run) if run else 0
                if taken:
                    i += taken
                    continue
                name, chosen = pieces[i]
                step = exact.FINE_ROWS if self.rule.level else exact.BLOCK_ROWS
                self._carefully(name, rows, cut(chosen, 0, step))
                if count(chosen) > step:
                    pieces[i] = (name, cut(chosen, step, count(chosen)))
                else:
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

    # ---- several pieces at once

    def _ready(self, pieces: list[tuple[int, Chosen]], start: int) -> list[tuple[int, Chosen]]:
        """The next pieces that can be tried: a level is known, and a shift for each one's fold."""
        if not (self.rule.settled or self.rule.fixed is not None):
            return []
        stop = start
        most = start + max(8, _WAITING // (16 * self.width**2))
        while stop < min(len(pieces), most):
            fold = self.folds.get(pieces[stop][0])
            if fold is None or fold.open is None:
                break
            stop += 1
        return pieces[start:stop]

    def _try(self, rows: Given, run: list[tuple[int, Chosen]]) -> int:
        """Multiply pieces at the level that served last; how many of them were good enough, from the first on."""
        level = self.rule.level
        if level == 0 and rows.direct:
            for name in {name for name, _ in run}:
                self._about_zero(self.folds[name])
        shifts = {name: self.folds[name].open.shift for name, _ in run}  # type: ignore[union-attr]
        candidates = np.flatnonzero(self.integer)

        def work(piece: tuple[int, Chosen]) -> tuple[_Open, np.ndarray]:
            name, chosen = piece
            return _multiplied(rows, chosen, shifts[name], level), _whole(rows, chosen, candidates)

        taken = 0
        with one_blas_thread():
            numbers = self.width * sum(count(chosen) for _, chosen in run)
            if numbers >= _SPREAD and self._pool is None:
                self._pool = started(len(run))
            results = stream(work, run, self._pool) if numbers >= _SPREAD else map(work, run)
            for (name, _), (found, whole) in zip(run, results, strict=False):
                fold = self.folds[name]
                squares = found.squares
                if self._drifted(squares / found.weight[0]):
                    fold.close()
                    break
                if self.rule.needed(squares) > level:
                    break
                assert fold.open is not None
                fold.open.take(found)
                self.integer[candidates] &= whole
                self.blocks[level] += 1
                taken += 1
                self.rule.seen(found.n, found.noise, self)
                if self.rule.level < level:
                    break  # the next ones can be had for less
        return taken

    def _about_zero(self, fold: _Fold) -> None:
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
        fold.open = _Open(shift)
        fold.open.tried_zero = True
        self._mean_square = np.maximum(self._mean_square, self._mean_square + (old.shift - shift) ** 2)

    def _draw(self, rows: Given, chosen: Chosen) -> None:
        """Rows that may belong to the sample wait until there are enough of them to be worth a merge."""
        priority = priorities(rows.columns(chosen, hashed_columns(self.width)).T)
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
        Z, weights = rows.block(chosen), rows.weights_of(chosen)
        n = len(Z)
        candidates = np.flatnonzero(self.integer)
        if len(candidates):
            some = Z if len(candidates) == self.width else Z[:, candidates]
            self.integer[candidates] = (np.rint(some) == some).all(axis=0)
        weight = (float(n), 0.0) if weights is None else _sum_of(weights)
        fold = self.folds.setdefault(name, _Fold())
        fresh = fold.open is None
        if fold.open is None:
            fold.open = _Open(exact.shift_of(Z))
        level, result, squares = self._products(Z, fold.open.shift, weights)
        if not fresh and self._drifted(squares / weight[0]):
            fold.close()
            fold.open = _Open(exact.shift_of(Z))
            level, result, squares = self._products(Z, fold.open.shift, weights)
        if self._mean_square is None:
            self._mean_square = squares / weight[0]
        self.blocks[level] += 1
        noise = 4 * exact.UNITS[level] * squares
        fold.open.add(n, weight, result[:2], result[2:], noise)
        if weights is not None:
            fold.open.log_weight += float(np.log(weights).sum())
        self.rule.seen(n, noise, self)
        if self.rule.settled:
            self.rule.needed(squares)

    def _products(self, Z: np.ndarray, shift: np.ndarray, weights: Any) -> tuple[int, tuple, np.ndarray]:
        """The block's sums and products at the cheapest level that keeps the digits asked for."""
        level = self.rule.level
        high, low = exact.difference(Z, shift)
        if self.rule.settled:
            squares = np.einsum("ij,ij->j", high, high if weights is None else high * weights[:, None])
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


def _multiplied(rows: Given, chosen: Chosen, shift: np.ndarray, level: int) -> _Open:
    """The sums of a piece about a shift, block by block."""
    found = _Open(shift)
    n, step = count(chosen), exact.FINE_ROWS
    weights = rows.weights_of(chosen)
    weight = (float(n), 0.0) if weights is None else _sum_of(weights)
    with np.errstate(all="ignore"):
        if level == 0:
            products = exact.plain(_plainly(rows, chosen, shift))
            lows = np.zeros_like(products)
            found.add(n, weight, (products[-1, :-1], lows[-1, :-1]), (products[:-1, :-1], lows[:-1, :-1]), found.noise)
        else:
            for start in range(0, n, step):
                some = cut(chosen, start, start + step)
                high, low = exact.difference(rows.block(some), shift)
                result = exact.gram(high, low, rows.weights_of(some), level)
                found.add(len(high), (0.0, 0.0), result[:2], result[2:], found.noise)
            found.weight = weight
        found.noise = 4 * exact.UNITS[level] * found.squares
        if weights is not None:
            found.log_weight = float(np.log(weights).sum())
    return found


def _plainly(rows: Given, chosen: Chosen, shift: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """√w·(x − c) and √w·[y − c, 1] block by block; x is not copied where it lies ready and its shift is 0."""
    d = rows.X.shape[1]
    ready = rows.direct and rows.weights is None and not shift[:d].any()
    step = exact.FINE_ROWS  # rows that a core's cache holds while they are multiplied twice
    buffer = None if ready else np.empty((step, d), order="F" if rows.by_columns else "C")
    rest = np.ones((step, len(shift) - d + 1))
    for start in range(0, count(chosen), step):
        some = cut(chosen, start, start + step)
        X = rows.features(some)
        right = rest[: len(X)]
        if rows.Y is not None:
            np.subtract(rows.Y[some], shift[d:], out=right[:, :-1])
        if buffer is not None:
            X = np.subtract(X, shift[:d], out=buffer[: len(X)])
        weights = rows.weights_of(some)
        if weights is not None:
            root = np.sqrt(weights)[:, None]
            X *= root
            right[:, -1] = 1.0
            right *= root
        yield X, right


def _whole(rows: Given, chosen: Chosen, candidates: np.ndarray) -> np.ndarray:
    """Which of these columns hold whole numbers only."""
    found = np.ones(len(candidates), dtype=bool)
    for start in range(0, count(chosen) if len(candidates) else 0, exact.FINE_ROWS):
        which = np.flatnonzero(found)
        some = rows.columns(cut(chosen, start, start + exact.FINE_ROWS), candidates[which].tolist())
        found[which] = (np.rint(some) == some).all(axis=0)
    return found


def _sum_of(weights: np.ndarray) -> tuple[float, float]:
    from math import fsum

    high = fsum(weights)
    return high, fsum([*weights.tolist(), -high])
