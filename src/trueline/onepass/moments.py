"""Mergeable moments: everything that least squares, ridge, lasso, folds, inference and PCA need from the rows.

For the columns z = [x y] of weighted rows: the count n, Σw, the mean z̄ and the centred cross-products
C = Σ w (z − z̄)(z − z̄)ᵀ, means and products as double-double pairs, per fold. Two parts merge by

  C = C₁ + C₂ + (W₁W₂/W)·δδᵀ,   z̄ = z̄₁ + (W₂/W)·δ,   δ = z̄₂ − z̄₁          (Chan, Golub, LeVeque)

Rows arrive in blocks. Blocks near one shift are summed about it; when the data move away, that sum is centred
and merged, and the next one gets its own shift. ``noise`` bounds what rounding did: per column Σ 4u·w(z − c)²,
u the unit of the level at which the block was multiplied.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..data.blocks import Block
from ..errors import DataError, UsageError
from ..modelfile import save
from . import exact
from .digits import LevelRule
from .doubled import add, divide, multiply, subtract_product, two_sum
from .sample import Sample

WIDEST = 2000  # above this many columns, C itself is the burden and a solver over the rows is the better road
# A block may be this many variances away from the shift before the shift is renewed.
_DRIFT = 16.0


@dataclasses.dataclass
class Part:
    """The moments of some rows: one fold, one partition, or everything."""

    n: int
    weight: tuple[float, float]
    mean: tuple[np.ndarray, np.ndarray]
    products: tuple[np.ndarray, np.ndarray]
    noise: np.ndarray
    log_weight: float = 0.0

    @classmethod
    def empty(cls, width: int) -> Part:
        zeros, square = np.zeros(width), np.zeros((width, width))
        return cls(0, (0.0, 0.0), (zeros, zeros), (square, square), zeros)

    def merged(self, other: Part) -> Part:
        """Both together, by Chan's formula in double-double."""
        if self.n == 0:
            return other
        if other.n == 0:
            return self
        weight = add(*self.weight, *other.weight)
        share = divide(*other.weight, *weight)
        factor = multiply(*self.weight, *share)
        dh, dl = add(*other.mean, -self.mean[0], -self.mean[1])
        mean = add(*self.mean, *multiply(dh, dl, *share))
        fh, fl = multiply(-dh, -dl, *factor)
        h, e = add(*self.products, *other.products)
        products = subtract_product(h, e, dh[:, None], dl[:, None], fh[None, :], fl[None, :])
        return Part(
            self.n + other.n,
            weight,
            mean,
            symmetric(products),
            self.noise + other.noise,
            self.log_weight + other.log_weight,
        )

    def selected(self, where: np.ndarray) -> Part:
        """Some of the columns."""
        square = np.ix_(where, where)
        return dataclasses.replace(
            self,
            mean=(self.mean[0][where], self.mean[1][where]),
            products=(self.products[0][square], self.products[1][square]),
            noise=self.noise[where],
        )

    def placed(self, where: np.ndarray, width: int) -> Part:
        """The same rows among more columns, which were 0 in all of them."""
        square = np.ix_(where, where)
        mean, products, noise = np.zeros((2, width)), np.zeros((2, width, width)), np.zeros(width)
        noise[where] = self.noise
        for k in (0, 1):
            mean[k][where] = self.mean[k]
            products[k][square] = self.products[k]
        return Part(self.n, self.weight, (mean[0], mean[1]), (products[0], products[1]), noise, self.log_weight)

    def filled(self, places: Sequence[int], fills: Sequence[tuple[int, int, float]]) -> Part:
        """Column ``places[k]`` plus m times column i, for each fill (k, i, m)."""
        part = dataclasses.replace(
            self,
            mean=(self.mean[0].copy(), self.mean[1].copy()),
            products=(self.products[0].copy(), self.products[1].copy()),
            noise=self.noise.copy(),
        )
        for k, i, m in fills:
            j = places[k]
            (mh, ml), (H, E) = part.mean, part.products
            mh[j], ml[j] = subtract_product(mh[j], ml[j], -m, 0.0, mh[i], ml[i])
            for _ in range(2):  # the row, then the column
                H[j], E[j] = subtract_product(H[j], E[j], -m, 0.0, H[i], E[i])
                H, E = H.T, E.T
            part.noise[j] += m * m * part.noise[i]
        return part

    def about_origin(self) -> tuple[np.ndarray, np.ndarray]:
        """Σ w z zᵀ, for models without an intercept."""
        mh, ml = self.mean
        wh, wl = multiply(-mh, -ml, *self.weight)
        return symmetric(subtract_product(*self.products, mh[:, None], ml[:, None], wh[None, :], wl[None, :]))

    def raw_squares(self) -> np.ndarray:
        """Σ w z² per column, in float64."""
        return np.diagonal(self.products[0]) + self.weight[0] * self.mean[0] ** 2


def symmetric(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The upper triangle mirrored: both halves of a merge round differently."""
    above, below = _triangle(len(pair[0]))
    for item in pair:
        item[below] = item[above]
    return pair


@lru_cache(maxsize=16)
def _triangle(width: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    rows, columns = np.triu_indices(width, 1)
    return (rows, columns), (columns, rows)


class _Open:
    """Sums about one shift, not yet centred."""

    def __init__(self, shift: np.ndarray) -> None:
        self.shift = shift
        width = len(shift)
        self.n = 0
        self.weight = (0.0, 0.0)
        self.sums = (np.zeros(width), np.zeros(width))
        self.products = (np.zeros((width, width)), np.zeros((width, width)))
        self.noise = np.zeros(width)
        self.log_weight = 0.0

    def add(self, n: int, weight: tuple[float, float], sums: Any, products: Any, noise: np.ndarray) -> None:
        self.weight = add(*self.weight, *weight) if self.n else weight
        self.sums = add(*self.sums, *sums) if self.n else sums
        if self.n:
            high, error = two_sum(self.products[0], products[0])
            error += self.products[1]
            error += products[1]
            self.products = (high, error)
        else:
            self.products = products
        self.n += n
        self.noise = self.noise + noise

    def closed(self) -> Part:
        wh, wl = self.weight
        sh, sl = self.sums
        mh, ml = divide(sh, sl, wh, wl)
        gh, gl = two_sum(*self.products)
        products = subtract_product(gh, gl, sh[:, None], sl[:, None], mh[None, :], ml[None, :])
        mean = add(mh, ml, self.shift, np.zeros_like(mh))
        return Part(self.n, self.weight, mean, symmetric(products), self.noise, self.log_weight)


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
    """Turns blocks of rows into moments; ``digits`` asks for that many correct digits, "auto" for the usual."""

    def __init__(
        self, width: int, targets: int, digits: float | str = "auto", *, level: int | None = None, keep: int = 0
    ) -> None:
        self.width = width
        self.targets = targets
        self.folds: dict[int, _Fold] = {}
        self.rule = LevelRule(targets, digits, level)
        self.integer = np.ones(width, dtype=bool)
        self.sample = Sample.empty(width, keep)
        self.blocks = [0] * exact.LEVELS
        self._mean_square: np.ndarray | None = None
        self._scratch = np.empty((0, width))

    def add(self, Z: np.ndarray, weights: np.ndarray | None = None, folds: np.ndarray | None = None) -> None:
        """Add rows of [x y]; ``weights`` positive where given, ``folds`` one whole number a row."""
        if folds is None:
            start = 0
            while start < len(Z):
                rows = slice(start, start + self._step)
                self._add(0, Z[rows], None if weights is None else weights[rows])
                start = rows.stop
            return
        for fold in np.unique(folds):
            members = np.flatnonzero(folds == fold)
            whole = len(members) == len(Z)
            start = 0
            while start < len(members):
                some = slice(start, start + self._step)
                chosen: Any = some if whole else members[some]
                self._add(int(fold), Z[chosen], None if weights is None else weights[chosen])
                start = some.stop

    @property
    def _step(self) -> int:
        """Rows at a time: the slices of the higher levels must all fit into the processor's cache."""
        return exact.BLOCK_ROWS if self.rule.level == 0 else exact.FINE_ROWS

    def widen(self, where: np.ndarray, width: int) -> None:
        """More columns from here on: old column k is now column ``where[k]``; new ones were 0 so far."""
        for fold in self.folds.values():
            fold.close()
            fold.done = None if fold.done is None else fold.done.placed(where, width)
        grown = np.ones(width, dtype=bool)
        grown[where] = self.integer
        self.integer, self.width, self._mean_square = grown, width, None
        self._scratch = np.empty((0, width))
        self.rule.forget()
        self.sample = self.sample.placed(where, width)

    def _add(self, name: int, Z: np.ndarray, weights: np.ndarray | None) -> None:
        if weights is not None and not weights.all():
            Z, weights = Z[weights > 0], weights[weights > 0]
        n = len(Z)
        if n == 0:
            return
        if weights is not None and (weights == 1.0).all():
            weights = None
        candidates = np.flatnonzero(self.integer)
        if len(candidates):
            some = Z if len(candidates) == self.width else Z[:, candidates]
            with np.errstate(invalid="ignore"):
                self.integer[candidates] = (np.rint(some) == some).all(axis=0)
        if self.sample.keep:
            self.sample = self.sample.including(Z, weights)
        fold = self.folds.setdefault(name, _Fold())
        weight = (float(n), 0.0) if weights is None else _sum_of(weights)
        with np.errstate(all="ignore"):
            self._multiply(fold, Z, weights, n, weight)

    def _multiply(self, fold: _Fold, Z: np.ndarray, weights: Any, n: int, weight: tuple[float, float]) -> None:
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

    def _products(self, Z: np.ndarray, shift: np.ndarray, weights: Any) -> tuple[int, tuple, np.ndarray]:
        """The block's sums and products at the cheapest level that keeps the digits asked for."""
        level = self.rule.level
        if level == 0:
            if self._scratch.shape[0] < len(Z):
                self._scratch = np.empty((exact.BLOCK_ROWS, len(shift)))
            high = np.subtract(Z, shift, out=self._scratch[: len(Z)])
            result = exact.gram(high, None, weights, 0)
            squares = np.diagonal(result[2]).copy()
            level = self.rule.needed(squares)
            if level == 0:
                return 0, result, squares
        high, low = exact.difference(Z, shift)
        if self.rule.settled:
            squares = np.einsum("ij,ij->j", high, high if weights is None else high * weights[:, None])
            level = self.rule.needed(squares)
            if level == 0:
                return 0, exact.gram(high, None, weights, 0), squares
        result = exact.gram(high, low, weights, level)
        return level, result, np.diagonal(result[2]).copy()

    def _drifted(self, mean_square: np.ndarray) -> bool:
        """Whether a block lies so far from the shift that squares about it would dwarf the spread of the data."""
        usual = self._mean_square
        assert usual is not None
        moved = bool((mean_square > _DRIFT * usual).any())
        self._mean_square = np.maximum(usual, mean_square)
        return moved

    def parts(self) -> dict[int, Part]:
        """The moments so far, per fold."""
        found = {name: fold.part() for name, fold in sorted(self.folds.items())}
        return {name: part for name, part in found.items() if part is not None}

    def together(self) -> Part:
        """All folds in one."""
        return merged(self.parts().values(), self.width)


def _sum_of(weights: np.ndarray) -> tuple[float, float]:
    from math import fsum

    high = fsum(weights)
    return high, fsum([*weights.tolist(), -high])


def merged(parts: Iterable[Part], width: int) -> Part:
    """All parts in one, added pairwise."""
    queue = list(parts)
    if not queue:
        return Part.empty(width)
    while len(queue) > 1:
        queue = [queue[i].merged(queue[i + 1]) if i + 1 < len(queue) else queue[i] for i in range(0, len(queue), 2)]
    return queue[0]


@dataclasses.dataclass
class Moments:
    """The result of one pass over the rows, from which every closed-form model comes.

    Parameters are filled by :func:`trueline.scan`, :meth:`from_arrays` or :meth:`from_blocks`; ``a + b`` merges two.

    >>> import numpy as np
    >>> X = np.arange(12.0).reshape(6, 2) ** 2
    >>> y = X @ [1.0, 2.0] + 3
    >>> left, right = Moments.from_arrays(X[:2], y[:2]), Moments.from_arrays(X[2:], y[2:])
    >>> both = left + right
    >>> both.n, both.terms
    (6, ('x0', 'x1'))
    >>> import trueline as tl
    >>> tl.LinearRegression.from_moments(both).coef_
    array([1., 2.])
    """

    kind = "moments"

    terms: tuple[str, ...]
    targets: tuple[str, ...]
    parts: dict[int, Part]
    integer: np.ndarray
    sample: Sample
    schema: Any = None
    weighted: bool = False
    digits: float | str = "auto"
    levels: tuple[int, ...] = (0,) * exact.LEVELS
    _total: Part | None = dataclasses.field(default=None, repr=False)

    @property
    def width(self) -> int:
        return len(self.terms) + len(self.targets)

    @property
    def n(self) -> int:
        """Rows with a positive weight."""
        return sum(part.n for part in self.parts.values())

    @property
    def total(self) -> Part:
        """The moments of all rows."""
        if self._total is None:
            self._total = merged(self.parts.values(), self.width)
        return self._total

    def without(self, fold: int) -> Part:
        """All rows but one fold's: the other folds added, never a difference."""
        return merged([part for name, part in self.parts.items() if name != fold], self.width)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any = None,
        sample_weight: np.ndarray | None = None,
        *,
        folds: np.ndarray | None = None,
        terms: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        digits: float | str = "auto",
        level: int | None = None,
        sample: int = 0,
    ) -> Moments:
        """Moments of arrays in memory, read in blocks and never copied whole."""
        d = X.shape[1]
        Y = np.empty((X.shape[0], 0)) if y is None else (y[:, None] if np.ndim(y) == 1 else y)
        k = Y.shape[1]
        refuse_wide(d)
        accumulator = Accumulator(d + k, k, digits, level=level, keep=sample)
        sparse = hasattr(X, "tocsr")
        X = X.tocsr() if sparse else X
        buffer = np.empty((min(exact.BLOCK_ROWS, max(X.shape[0], 1)), d + k))
        for start, stop in _spans(folds, X.shape[0]):
            Z = buffer[: stop - start]
            Z[:, :d] = X[start:stop].toarray() if sparse else X[start:stop]
            Z[:, d:] = Y[start:stop]
            accumulator.add(
                Z,
                None if sample_weight is None else sample_weight[start:stop],
                None if folds is None else folds[start:stop],
            )
        return cls(
            tuple(terms) if terms is not None else tuple(f"x{j}" for j in range(d)),
            tuple(targets) if targets is not None else (("y",) if k == 1 else tuple(f"y{j}" for j in range(k))),
            accumulator.parts(),
            accumulator.integer,
            accumulator.sample,
            weighted=sample_weight is not None,
            digits=digits,
            levels=tuple(accumulator.blocks),
        )

    @classmethod
    def from_blocks(
        cls,
        blocks: Iterable[Block],
        *,
        targets: Sequence[str] = ("y",),
        digits: float | str = "auto",
        sample: int = 10_000,
        schema: Any = None,
    ) -> Moments:
        """Moments of a stream of blocks whose terms may grow; ``schema()`` or a value describes the columns."""
        terms: tuple[str, ...] = ()
        accumulator: Accumulator | None = None
        weighted = False
        k = len(targets)
        for block in blocks:
            refuse_wide(len(block.terms))
            if accumulator is None:
                terms = block.terms
                accumulator = Accumulator(len(terms) + k, k, digits, keep=sample)
            elif block.terms != terms:
                where = [block.terms.index(term) for term in terms] + [len(block.terms) + j for j in range(k)]
                accumulator.widen(np.array(where), len(block.terms) + k)
                terms = block.terms
            weighted |= block.weights is not None
            refuse_weights(block.weights)
            Z = block.X if k == 0 else np.column_stack([block.X, block.y])  # type: ignore[list-item]
            accumulator.add(Z, block.weights, block.folds)
        if accumulator is None:
            raise DataError("the source has no rows; at least one is needed", where="rows")
        schema = schema() if callable(schema) else schema
        made = cls(
            terms,
            tuple(targets),
            accumulator.parts(),
            accumulator.integer,
            accumulator.sample,
            schema,
            weighted,
            digits,
            tuple(accumulator.blocks),
        )
        if made.n == 0:
            raise DataError("all weights are zero; at least one row needs a positive weight", where="weights")
        made.refuse_nonfinite()
        return made

    def refuse_nonfinite(self) -> None:
        """Refuse moments that hold a NaN or an infinity, naming the column."""
        bad = np.flatnonzero(~np.isfinite(self.total.mean[0]) | ~np.isfinite(np.diagonal(self.total.products[0])))
        if len(bad):
            name = (*self.terms, *self.targets)[bad[0]]
            raise DataError(
                f"column {name!r} holds NaN, infinity or numbers beyond 1e150; finite numbers are accepted", where=name
            )

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        if self.targets != other.targets:
            raise UsageError(
                f"moments with targets {', '.join(self.targets)} and {', '.join(other.targets)} cannot be merged; "
                "scan both with the same target",
                where="target",
            )
        left, right = self, other
        if self.terms != other.terms:
            terms = self.terms + tuple(term for term in other.terms if term not in self.terms)
            refuse_wide(len(terms))
            left, right = self.reordered(terms), other.reordered(terms)
        parts = {name: left.parts[name] for name in left.parts}
        for name, part in right.parts.items():
            parts[name] = parts[name].merged(part) if name in parts else part
        schema = left.schema
        if schema is not None and right.schema is not None:
            schema = schema.merge(right.schema)
        return Moments(
            left.terms,
            left.targets,
            dict(sorted(parts.items())),
            left.integer & right.integer,
            left.sample.merged(right.sample),
            schema,
            left.weighted or right.weighted,
            left.digits,
            tuple(a + b for a, b in zip(left.levels, right.levels, strict=True)),
        )

    def merge(self, *others: Moments) -> Moments:
        """These and the others together."""
        result = self
        for other in others:
            result = result + other
        return result

    def reordered(self, terms: Sequence[str]) -> Moments:
        """The same rows with the terms in this order; terms not known so far were 0 in all rows."""
        terms = tuple(terms)
        k, width = len(self.targets), len(terms) + len(self.targets)
        where = np.array([terms.index(t) for t in self.terms] + [len(terms) + j for j in range(k)], dtype=int)
        integer = np.ones(width, dtype=bool)
        integer[where] = self.integer
        parts = {name: part.placed(where, width) for name, part in self.parts.items()}
        return dataclasses.replace(
            self, terms=terms, parts=parts, integer=integer, sample=self.sample.placed(where, width), _total=None
        )

    def select(self, terms: Sequence[str], targets: Sequence[str] | None = None) -> Moments:
        """Fewer terms, for nested models: a column of zeros is not put in their place."""
        names = (*self.terms, *self.targets)
        targets = self.targets if targets is None else tuple(targets)
        for name in (*terms, *targets):
            if name not in names:
                from ..errors import nearest

                raise UsageError(f"there is no column {name!r}{nearest(name, names)}", where=name)
        where = np.array([names.index(name) for name in (*terms, *targets)], dtype=int)
        parts = {fold: part.selected(where) for fold, part in self.parts.items()}
        return dataclasses.replace(
            self,
            terms=tuple(terms),
            targets=tuple(targets),
            parts=parts,
            integer=self.integer[where],
            sample=self.sample.selected(where),
            _total=None,
        )

    def designed(self) -> Moments:
        """In the terms of the final design: reference levels left out, missing values filled.

        A scan does not know these beforehand, so its terms are others; the final ones are linear in them.
        """
        if self.schema is None or self.terms == self.schema.terms:
            return self
        places, fills = self.schema.from_scan(self.terms)
        mixed = self
        if fills:
            changed = {places[k] for k, _, _ in fills}
            mixed = dataclasses.replace(
                self,
                parts={name: part.filled(places, fills) for name, part in self.parts.items()},
                integer=np.array([self.integer[j] and j not in changed for j in range(self.width)]),
                sample=self.sample.filled(places, fills),
                _total=None,
            )
        return mixed.select([self.terms[p] for p in places])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, whole or not at all; ``trueline.load`` reads it back bit for bit."""
        save(self, path)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays: dict[str, np.ndarray] = {"integer": self.integer.astype(np.uint8)}
        for name, part in self.parts.items():
            arrays |= {f"{name}.{key}": value for key, value in part_arrays(part).items()}
        arrays |= self.sample.to_arrays()
        schema = self.schema.to_dict() if hasattr(self.schema, "to_dict") else self.schema
        meta = {
            "terms": list(self.terms),
            "targets": list(self.targets),
            "folds": {str(name): part.n for name, part in self.parts.items()},
            "weighted": self.weighted,
            "digits": self.digits,
            "levels": list(self.levels),
            "keep": self.sample.keep,
            "schema": schema,
        }
        return arrays, meta

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Moments:
        parts = {
            int(name): part_from({k.partition(".")[2]: v for k, v in arrays.items() if k.startswith(f"{name}.")}, n)
            for name, n in meta["folds"].items()
        }
        return cls(
            tuple(meta["terms"]),
            tuple(meta["targets"]),
            parts,
            arrays["integer"].astype(bool),
            Sample.from_arrays(arrays, meta["keep"]),
            schema_from(meta["schema"]),
            meta["weighted"],
            meta["digits"],
            tuple(meta["levels"]),
        )


def part_arrays(part: Part) -> dict[str, np.ndarray]:
    """A part as plain arrays, for a file."""
    return {
        "weight": np.array(part.weight, dtype=float),
        "mean": np.stack(part.mean),
        "products": np.stack(part.products),
        "noise": part.noise,
        "log_weight": np.array([part.log_weight]),
    }


def part_from(arrays: dict[str, np.ndarray], n: int) -> Part:
    """The part that ``part_arrays`` took apart."""
    mean, products, weight = arrays["mean"], arrays["products"], arrays["weight"]
    return Part(
        n,
        (float(weight[0]), float(weight[1])),
        (mean[0], mean[1]),
        (products[0], products[1]),
        arrays["noise"],
        float(arrays["log_weight"][0]),
    )


def schema_from(state: Any) -> Any:
    """The schema that a file holds, if it holds one."""
    if not isinstance(state, dict):
        return state
    from ..data.schema import Schema

    return Schema.from_dict(state)


def refuse_wide(columns: int) -> None:
    """Refuse what would need more memory for C than the rows are worth."""
    if columns > WIDEST:
        raise UsageError(
            f"one pass keeps {columns}×{columns} products and takes at most {WIDEST} columns; for wider tables use "
            "tl.minimize, which reads the rows again instead",
            where="features",
        )


def refuse_weights(weights: np.ndarray | None) -> None:
    """Refuse weights that are negative or not finite."""
    if weights is not None and not (np.isfinite(weights).all() and (weights >= 0).all()):
        row = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
        raise DataError(
            f"weights must be finite and not negative; found {weights[row]!r} in row {row} of a block", where="weights"
        )


def _spans(folds: np.ndarray | None, n: int) -> Iterable[tuple[int, int]]:
    """Row ranges of one block each, cut where a fold of consecutive rows ends."""
    edges = np.array([0, n])
    if folds is not None:
        changes = np.flatnonzero(np.diff(folds)) + 1
        if len(changes) <= n // exact.BLOCK_ROWS + 64:
            edges = np.concatenate([[0], changes, [n]])
    for a, b in itertools.pairwise(edges):
        for start in range(int(a), int(b), exact.BLOCK_ROWS):
            yield start, min(start + exact.BLOCK_ROWS, int(b))
