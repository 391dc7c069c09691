"""Whether what a model file says of its columns can be a schema: the type and range of every field.

A damaged or crafted file is refused where it is read, so that no later step meets a name that is a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ModelError

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_label(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool))


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _several(check: Check) -> Check:
    return lambda value: isinstance(value, (list, tuple)) and all(check(item) for item in value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(item, str) for item in value)


def _is_derive(value: Any) -> bool:
    if isinstance(value, Mapping):  # older files
        return all(isinstance(item, str) for item in value.values())
    return _several(_is_pair)(value)


def _one_of(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


COLUMN: dict[str, Check] = {
    "name": _is_text,
    "kind": _is_text,
    "levels": _several(_is_text),
    "fill": _several(_is_number),
    "observed": _is_number,
    "missing": _is_count,
    "format": _is_text,
}
SCHEMA: dict[str, Check] = {
    "columns": _several(lambda item: isinstance(item, Mapping)),
    "target": _or_none(_is_text),
    "target_kind": _is_text,
    "classes": _several(_is_label),
    "weights": _or_none(_is_text),
    "missing": _one_of("refuse", "drop", "mean", "indicator"),
    "unseen": _one_of("error", "ignore"),
    "where": _or_none(_is_text),
    "derive": _is_derive,
    "formula": _or_none(lambda value: isinstance(value, Mapping)),
    "intercept": _is_flag,
    "rows": _is_count,
    "dropped_rows": _is_count,
    "constant": _several(_is_text),
    "duplicates": _several(_is_pair),
}


def check_schema(values: Mapping[str, Any]) -> None:
    """Refuse values that are not those of a schema and its columns, by the name of the field."""
    _check(values, SCHEMA, "schema")
    names = []
    for k, column in enumerate(values.get("columns", ())):
        _check(column, COLUMN, f"schema.columns[{k}]")
        names.append(column.get("name"))
    if None in names or len(set(names)) < len(names):
        raise ModelError("the schema in the file has a column without a name, or two of one; use an intact copy",
                         where="schema.columns")  # fmt: skip


def _check(values: Mapping[str, Any], fields: dict[str, Check], place: str) -> None:
    for name, value in values.items():
        if name in fields and not fields[name](value):
            shown = repr(value)[:60]
            raise ModelError(f"{place}.{name} in the file is {shown}, which it cannot be; use an intact copy",
                             where=f"{place}.{name}")  # fmt: skip


def holds_finite_numbers(value: Any) -> bool:
    """Whether every number of a value from a file is finite, at any depth, and its lists hold no gap."""
    if isinstance(value, Mapping):
        return all(holds_finite_numbers(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return all(item is not None and holds_finite_numbers(item) for item in value)
    return not isinstance(value, float) or math.isfinite(value)
