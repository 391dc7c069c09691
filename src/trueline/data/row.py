"""One row given as a dictionary, as the service gets it: a few microseconds, and every refusal names the field."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, UsageError, nearest
from .columns import days
from .rounding import loses_digits, rounded

if TYPE_CHECKING:
    from .schema import Column, Schema

_ABSENT = object()
_LARGEST = sys.float_info.max
_WANTED = {
    "number": "a number", "boolean": "true or false", "date": 'a date such as "2024-01-31"', "category": "text",
}  # fmt: skip


class RowEncoder:
    """A schema's design of single rows; JSON numbers, strings, booleans and nulls."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.whole = bool(schema.derive) or schema.formula is not None  # needs Polars or a basis: by way of a table
        place = {} if self.whole else {term: k for k, term in enumerate(schema.terms)}
        self.size = len(place)
        self.steps: list[tuple[Column, dict[Any, int], int]] = []
        for column in () if self.whole else schema.columns:
            if column.kind == "category":
                own: dict[Any, int] = {lv: place.get(term, -1) for lv, term in zip(column.levels, column.raw_terms)}
            else:
                own = {0: place[column.name]}
            self.steps.append((column, own, place.get(f"{column.name}[missing]", -1)))

    def __call__(self, row: Mapping[str, Any]) -> np.ndarray:
        if self.whole:
            return self._by_table(row)
        x = np.zeros(self.size)
        for column, place, indicator in self.steps:
            value = row.get(column.name, _ABSENT)
            if value.__class__ is float or value.__class__ is int:
                if column.kind == "number" or (column.kind == "boolean" and value in (0, 1)):
                    if not -_LARGEST <= value <= _LARGEST:  # NaN, infinity, and whole numbers beyond float64
                        shown = value if value.__class__ is float else "a whole number beyond float64"
                        raise DataError(f"field {column.name!r} is {shown}; give a finite number", where=column.name)
                    if value.__class__ is int and loses_digits(value):
                        raise rounded(column.name, value, "of this row")
                    x[place[0]] = value
                    continue
            elif column.kind == "category" and isinstance(value, str):
                k = place.get(value, -2)
                if k >= 0:
                    x[k] = 1.0
                elif k == -2 and self.schema.unseen == "error":
                    raise DataError(self.schema.unseen_level(column, value, ""), where=column.name)
                continue
            self._odd(x, row, column, value, place, indicator)
        return x

    def _by_table(self, row: Mapping[str, Any]) -> np.ndarray:
        given = {name: value for name, value in row.items() if isinstance(value, (int, float, str, bool))}
        derived = dict(self.schema.derive)
        for name in self.schema.names:
            if name not in given and name not in derived:
                raise DataError(f"field {name!r} is missing{nearest(name, list(row))}", where=name)
        try:
            x = self.schema.encode([given]).X[0]
        except UsageError as error:  # a derived column's expression does not fit what this row holds
            raise DataError(error.message, where=error.where) from None
        if np.isnan(x).any():  # the model leaves such rows out
            raise DataError("a derived column of this row has no value; give other values", where="row")
        return x

    def _odd(
        self, x: np.ndarray, row: Mapping[str, Any], column: Column, value: Any, place: dict[Any, int], indicator: int
    ) -> None:
        """Booleans, dates, missing values, and what is refused."""
        if value is _ABSENT:
            raise DataError(f"field {column.name!r} is missing{nearest(column.name, list(row))}", where=column.name)
        if value is None:
            self._missing(x, column, place, indicator)
            return
        if isinstance(value, (bool, np.bool_)) and column.kind in ("boolean", "number"):
            x[place[0]] = float(value)
            return
        if isinstance(value, (np.floating, np.integer)) and column.kind == "number" and np.isfinite(value):
            if loses_digits(value):
                raise rounded(column.name, value, "of this row")
            x[place[0]] = float(value)
            return
        if column.kind == "date":
            try:
                x[place[0]] = days(value)
                return
            except (TypeError, ValueError, AttributeError, OverflowError):
                pass
        shown = repr(value) if len(repr(value)) < 80 else repr(value)[:77] + "…"
        raise DataError(f"field {column.name!r} is {shown}; give {_WANTED[column.kind]}", where=column.name)

    def _missing(self, x: np.ndarray, column: Column, place: dict[Any, int], indicator: int) -> None:
        schema = self.schema
        if schema.missing == "indicator" and column.missing:
            x[indicator] = 1.0
        elif schema.missing == "mean" and column.fill:
            for key, mean in zip(place, column.fill):
                if place[key] >= 0:
                    x[place[key]] = mean
        else:
            raise DataError(f"field {column.name!r} is null; give a value", where=column.name)
