"""Moments: everything that least squares, ridge, lasso, folds, inference and PCA need from the rows, per fold.

They come from arrays, from blocks or by merging (``a + b``), and are saved to a file; parts.py holds the numbers,
accumulate.py makes them from rows.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..data.blocks import Block
from ..errors import DataError, ModelError, UsageError
from ..modelfile import Array, save
from . import exact
from .accumulate import Accumulator, at_once, one_block
from .given import Given
from .parts import Part, merged, part_arrays, part_declared, part_from
from .sample import Sample

LOST = 1e-270  # of a column's squares about its mean
WIDEST = 2000  # above this many columns, C itself is the burden and a solver over the rows is the better road


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
    def intercept(self) -> bool:
        """Whether models of these rows have a constant: their formula may take it away."""
        return bool(getattr(self.schema, "intercept", True))

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
        k = 0 if y is None else 1 if np.ndim(y) == 1 else y.shape[1]
        refuse_wide(d)
        rows = Given(X, y, sample_weight)
        if level and folds is None and not sample and one_block(len(rows), d, k):
            part, integer = at_once(rows, level)
            parts, drawn, blocks = {0: part}, Sample.empty(d + k, 0), [int(i == level) for i in range(exact.LEVELS)]
        else:
            accumulator = Accumulator(d + k, k, digits, level=level, keep=sample)
            accumulator.add(rows, folds)
            parts, integer, drawn = accumulator.parts(), accumulator.integer, accumulator.sample
            blocks = accumulator.blocks
        return cls(
            tuple(terms) if terms is not None else tuple(f"x{j}" for j in range(d)),
            tuple(targets) if targets is not None else (("y",) if k == 1 else tuple(f"y{j}" for j in range(k))),
            parts,
            integer,
            drawn,
            weighted=sample_weight is not None,
            digits=digits,
            levels=tuple(blocks),
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
        hopeful: bool = False,
    ) -> Moments:
        """Moments of a stream of blocks whose terms may grow; ``schema()`` or a value describes the columns.

        ``hopeful``: the first rows, too, are multiplied in plain float64 where that is enough.
        """
        terms: tuple[str, ...] = ()
        accumulator: Accumulator | None = None
        weighted = False
        k = len(targets)
        for block in blocks:
            refuse_wide(len(block.terms), block.terms)
            if accumulator is None:
                terms = block.terms
                accumulator = Accumulator(len(terms) + k, k, digits, keep=sample, hopeful=hopeful)
            elif block.terms != terms:
                where = [block.terms.index(term) for term in terms] + [len(block.terms) + j for j in range(k)]
                accumulator.widen(np.array(where), len(block.terms) + k)
                terms = block.terms
            weighted |= block.weights is not None
            refuse_weights(block.weights)
            accumulator.add(Given(block.X, block.y if k else None, block.weights), block.folds)
            del block  # or there would be one more while the next is made
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
        if hasattr(schema, "constant"):
            places = made.lost_squares().tolist()
            made.refuse_lost(j for j in places if j < len(terms) and terms[j] not in schema.constant)
        return made

    def refuse_nonfinite(self) -> None:
        """Refuse moments that hold a NaN or an infinity, naming the column."""
        bad = np.flatnonzero(~np.isfinite(self.total.mean[0]) | ~np.isfinite(np.diagonal(self.total.products[0])))
        if len(bad):
            raise overflowing((*self.terms, *self.targets)[bad[0]])

    def lost_squares(self) -> np.ndarray:
        """Columns that are constant, or vary so little that float64 does not hold their squares with all digits."""
        squares = np.diagonal(self.total.products[0])
        return np.flatnonzero(squares < LOST) if squares.min(initial=1.0) < LOST else np.zeros(0, dtype=int)

    def refuse_lost(self, which: Iterable[int]) -> None:
        """Refuse columns that are known not to be constant, though their squares are lost."""
        for j in which:
            raise vanishing((*self.terms, *self.targets)[j])

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
            refuse_wide(len(terms), terms)
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

    def designed(self, intercept: bool = True) -> Moments:
        """In the terms of the final design: reference levels left out, missing values filled.

        Without an intercept the first category keeps all its levels.

        A scan does not know these beforehand, so its terms are others; the final ones are linear in them.
        """
        if self.schema is None:
            return self
        if not intercept and self.intercept:
            schema = dataclasses.replace(self.schema, intercept=False)
            lost = [term for term in schema.terms if term not in self.terms]
            if lost:
                raise UsageError(
                    f"these moments are of a model with an intercept, without {lost[0]!r}; scan again with "
                    "intercept=False",
                    where="intercept",
                )
            return dataclasses.replace(self, schema=schema).designed()
        if self.terms == self.schema.terms:
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

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """The products of every fold, which columns hold whole numbers, and the sample of rows."""
        width = len(meta["terms"]) + len(meta["targets"])
        made = {
            "integer": Array((width,), "uint8"),
            "sample.rows": Array(("rows", width), values="numbers"),
            "sample.weights": Array(("rows",)),
            "sample.priority": Array(("rows",), "int64"),
        }
        for name in meta["folds"]:
            made |= part_declared(f"{name}.", width)
        return made

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


def overflowing(name: str) -> DataError:
    """Of a column whose squares are no numbers."""
    return DataError(
        f"column {name!r} holds NaN, infinity or numbers beyond 1e150, whose squares overflow; divide it by a power of "
        "ten, or of two, which changes no digit",
        where=name,
    )


def vanishing(name: str) -> DataError:
    """Of a column whose squares are lost."""
    return DataError(
        f"column {name!r} varies by less than 1e-135, and float64 does not hold the squares of such numbers; "
        "multiply it by a power of ten, or of two, which changes no digit",
        where=name,
    )


def schema_from(state: Any) -> Any:
    """The schema that a file holds, if it holds one."""
    if state is None:
        return None
    if not isinstance(state, dict):
        raise ModelError("the schema in the file is none; use an intact copy", where="schema")
    from ..data.schema import Schema

    return Schema.from_dict(state)


def refuse_wide(columns: int, terms: Sequence[str] = ()) -> None:
    """Refuse what would need more memory for C than the rows are worth; levels of a category are told as such."""
    if columns > WIDEST:
        counts = Counter(term.partition("[")[0] for term in terms if term.endswith("]"))
        name, levels = counts.most_common(1)[0] if counts else ("", 0)
        told = f" (column {name!r} alone makes {levels} of them: leave it out by naming the others in features=)"
        raise UsageError(
            f"one pass keeps {columns}×{columns} products and takes at most {WIDEST} columns"
            f"{told if 10 * levels > columns else ''}; for wider tables use tl.minimize, which reads the rows again instead",
            where="features",
        )


def refuse_weights(weights: np.ndarray | None) -> None:
    """Refuse weights that are negative or not finite."""
    if weights is not None and not (np.isfinite(weights).all() and (weights >= 0).all()):
        row = int(np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))[0])
        raise DataError(
            f"weights must be finite and not negative; found {weights[row]:g} in row {row}", where="weights"
        )
