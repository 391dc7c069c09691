"""What a model accepts: named JSON values become a row of numbers, or a refusal that names the field.

A declared number, boolean, or level of a category is a *fixed* column. An open category's levels, and features that an
open model allows, are *late* columns: they get their place at the first label that brings them, and count nothing
before. A row is stored as its fixed columns in float64, then the late ones as JSON.
"""

from __future__ import annotations

import struct
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np

from ..data.rounding import EXACT, loses_digits, rounded
from ..errors import DataError, UsageError, nearest

LIMIT = 1e100
MOST_FEATURES = 10_000
LONGEST_NAME = 256
KINDS = ("number", "boolean", "category")
WANTED = {"number": "a finite number", "boolean": "true or false", "category": "text"}


def shown(value: Any) -> str:
    """A value for a message: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


class Shape:
    """The declared features of a model.

    >>> shape = Shape({"size": "number", "colour": {"category": ["red", "blue"]}})
    >>> shape.columns
    ['size', 'colour[red]', 'colour[blue]']
    >>> shape.row(shape.encode({"size": 2, "colour": "blue"}), 3, {}).tolist()
    [2.0, 0.0, 1.0]
    """

    def __init__(self, features: dict[str, Any], open: bool = False) -> None:
        self.kinds: dict[str, str] = {}
        self.levels: dict[str, list[str] | None] = {}
        self.open = bool(open)
        self.columns: list[str] = []
        self.place: dict[str, int] = {}
        if not isinstance(features, dict) or (not features and not open):
            raise UsageError("features is an object that names at least one feature and its kind", where="features")
        if len(features) > MOST_FEATURES:
            raise UsageError(f"features has {len(features)} entries; at most {MOST_FEATURES}", where="features")
        for name, kind in features.items():
            self._declare(name, kind)
        if len(set(self.columns)) != len(self.columns):
            raise UsageError("two features give a column of the same name", where="features")
        self.size = len(self.columns)
        self.pack = struct.Struct(f"{self.size}d").pack
        self.plain = not open and all(kind == "number" for kind in self.kinds.values())
        self.take: Any = (
            itemgetter(*self.kinds) if len(self.kinds) > 1 else lambda row: tuple(row[n] for n in self.kinds)
        )
        self.fixed = not open and all(levels is not None for levels in self.levels.values())

    def _declare(self, name: str, kind: Any) -> None:
        if not isinstance(name, str) or not name or len(name) > LONGEST_NAME:
            raise UsageError(
                f"feature name {shown(name)} is not text of 1 to {LONGEST_NAME} characters", where="features"
            )
        levels: list[str] | None = None
        if isinstance(kind, dict) and set(kind) == {"category"}:
            levels = kind["category"]
            kind = "category"
            if (
                not isinstance(levels, list)
                or not levels
                or not all(isinstance(v, str) for v in levels)
                or len(set(levels)) < len(levels)
            ):
                raise UsageError(
                    f"feature {name!r}: the levels of a category are a list of different strings", where=name
                )
        if kind not in KINDS:
            raise UsageError(
                f'feature {name!r} has kind {shown(kind)}; give "number", "boolean", "category" or {{"category": [levels]}}',
                where=name,
            )
        self.kinds[name] = kind
        if kind == "category":
            self.levels[name] = levels
            new = [f"{name}[{level}]" for level in levels or ()]
        else:
            new = [name]
        for term in new:
            self.place[term] = len(self.columns)
            self.columns.append(term)

    def describe(self) -> list[dict[str, Any]]:
        """For forms and clients: name, kind, levels."""
        return [
            {"name": name, "kind": kind} | ({"levels": self.levels[name]} if self.levels.get(name) else {})
            for name, kind in self.kinds.items()
        ]

    def encode(self, features: Any) -> bytes:
        """The stored form of one row."""
        if self.plain:
            try:
                values = self.take(features)
                total = sum(values)  # not itself where there is a NaN, which min and max may overlook
                whole = len(features) == self.size and bool not in map(type, values)
                if whole and total == total and min(values) > -EXACT and max(values) < EXACT:
                    return self.pack(*values)
            except (KeyError, TypeError, struct.error, OverflowError):
                pass  # said by name below
        return self._slowly(features)

    def _slowly(self, features: Any) -> bytes:
        if not isinstance(features, dict):
            raise DataError(f"features is {shown(features)}; give an object of named values", where="features")
        if len(features) > MOST_FEATURES:
            raise DataError(f"features has {len(features)} entries; give at most {MOST_FEATURES}", where="features")
        values = [0.0] * self.size
        late: dict[str, float] = {}
        for name, kind in self.kinds.items():
            if name not in features:
                raise DataError(f"field {name!r} is missing{nearest(name, list(features))}", where=name)
            value = features[name]
            if kind != "category":
                values[self.place[name]] = self._number(name, value, kind)
                continue
            if not isinstance(value, str):
                raise DataError(f"field {name!r} is {shown(value)}; give text", where=name)
            levels = self.levels[name]
            if levels is None:
                late[self._late(f"{name}[{value}]", name)] = 1.0
            elif f"{name}[{value}]" in self.place:
                values[self.place[f"{name}[{value}]"]] = 1.0
            else:
                raise DataError(
                    f"field {name!r} is {shown(value)}, a level that the model does not have{nearest(value, levels)}",
                    where=name,
                )
        for name, value in features.items():
            if name in self.kinds:
                continue
            if not self.open:
                raise DataError(
                    f"field {name!r} is not a feature of this model{nearest(name, list(self.kinds))}", where=name
                )
            if isinstance(value, str):
                late[self._late(f"{name}[{value}]", name)] = 1.0
            else:  # nothing was declared: a number or a boolean
                kind = "boolean" if isinstance(value, bool) else "number"
                late[self._late(name, name)] = self._number(name, value, kind)
        packed = self.pack(*values)
        return packed + msgspec.json.encode(late) if late else packed

    def _late(self, term: str, name: str) -> str:
        if len(term) > 2 * LONGEST_NAME:
            raise DataError(
                f"field {name[:60]!r} is text of more than {LONGEST_NAME} characters; give a shorter name or level",
                where=name[:60],
            )
        return term

    def _number(self, name: str, value: Any, kind: str) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool) != (kind == "boolean"):
            raise DataError(f"field {name!r} is {shown(value)}; give {WANTED[kind]}", where=name)
        if not -LIMIT <= value <= LIMIT:
            raise DataError(
                f"field {name!r} is {shown(value)}; give a finite number no larger than {LIMIT:g}", where=name
            )
        if loses_digits(value):
            raise rounded(name, value, "of this row")
        return float(value)

    def late(self, stored: bytes) -> dict[str, float]:
        """The late columns of a stored row."""
        return msgspec.json.decode(stored[8 * self.size :]) if len(stored) > 8 * self.size else {}

    def row(self, stored: bytes, width: int, places: dict[str, int]) -> np.ndarray:
        """A stored row among the columns that the model has now; late ones it does not have count nothing."""
        x = np.zeros(width)
        if self.size:
            x[: self.size] = np.frombuffer(stored, count=self.size)
        for term, value in self.late(stored).items():
            if term in places:
                x[places[term]] = value
        return x

    def rows(self, stored: list[bytes], width: int, places: dict[str, int]) -> np.ndarray:
        """Several stored rows."""
        if self.fixed:
            return np.frombuffer(b"".join(stored)).reshape(len(stored), self.size)
        return np.array([self.row(one, width, places) for one in stored]).reshape(len(stored), width)


class SchemaShape(Shape):
    """The features of a model file, read as in training: missing values, dates, derived columns and all."""

    def __init__(self, schema: Any, columns: list[str]) -> None:
        terms = list(schema.terms)
        missing = [c for c in columns if c not in terms]
        if missing:
            raise UsageError(
                f"the model file has the column {missing[0]!r}, which its schema does not give", where=missing[0]
            )
        self.schema = schema
        self.order = None if terms == columns else [terms.index(c) for c in columns]
        self.kinds = {c.name: c.kind for c in schema.columns}
        self.levels = {c.name: [v for v in c.levels if v != "\0"] for c in schema.columns if c.kind == "category"}
        self.open, self.plain, self.fixed = False, False, True
        self.columns = list(columns)
        self.place = {c: k for k, c in enumerate(columns)}
        self.size = len(columns)

    def encode(self, features: Any) -> bytes:
        if not isinstance(features, dict):
            raise DataError(f"features is {shown(features)}; give an object of named values", where="features")
        derived = {name for name, _ in self.schema.derive}
        for name in features:
            if name not in self.kinds and not derived:
                raise DataError(
                    f"field {name!r} is not a feature of this model{nearest(name, list(self.kinds))}", where=name
                )
        x = self.schema.encode_row(features)
        if self.order is not None:
            x = x[self.order]
        if not np.abs(x).max(initial=0.0) <= LIMIT:
            k = int(np.argmax(~(np.abs(x) <= LIMIT)))
            raise DataError(
                f"field {self.columns[k]!r} is {x[k]:g}; give a finite number no larger than {LIMIT:g}",
                where=self.columns[k],
            )
        return x.tobytes()
