"""Lines of JSON in which an object names a key twice: readers disagree which value counts, so none is taken."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import DataError

if TYPE_CHECKING:
    import polars as pl

_KEY = re.compile(r'"\s*:')


def refuse_repeated_keys(text: bytes, frame: pl.DataFrame, describe: str, first: int) -> None:
    """Refuse the first line with a repeated key, nested ones too; ``first`` is the number of the first line.

    A line with as many keys as its row has values is right: a repeated key would make the keys more. Others are parsed.
    """
    import polars as pl

    lines = text.decode("utf-8", "replace").split("\n")
    rows = [k for k, line in enumerate(lines) if line and not line.isspace()]
    suspects: Sequence[int] = rows
    if len(rows) == frame.height and frame.width:
        present = frame.select(pl.sum_horizontal(pl.all().is_not_null().cast(pl.Int64))).to_series().to_list()
        suspects = [k for k, count in zip(rows, present) if len(_KEY.findall(lines[k])) != count]
    for k in suspects:
        refusal = bad_line(lines[k], describe, first + k)
        if refusal is not None and " twice" in refusal.message:  # Polars has read the line: nothing else is wrong
            raise refusal


def bad_line(line: str | bytes, describe: str, number: int) -> DataError | None:
    """The refusal of a line that is no JSON object, or that names a key twice."""
    where = f"{describe}:{number}"
    try:
        if not line.strip() or isinstance(json.loads(line, object_pairs_hook=_once), dict):
            return None
    except _Repeated as error:
        return DataError(
            f"line {number} of {describe} names the key {error.args[0]!r} twice; give each key once", where=where
        )
    except ValueError:
        pass
    shown = line.strip() if isinstance(line, str) else line.strip().decode("utf-8", "replace")
    shown = shown if len(shown) <= 30 else shown[:30] + "…"
    return DataError(
        f"line {number} of {describe} is not a JSON object: {shown!r}; give one object a line", where=where
    )


def repeated_key(text: str | bytes) -> str | None:
    """The first key that an object of this JSON names twice."""
    try:
        json.loads(text, object_pairs_hook=_once)
    except _Repeated as error:
        return str(error.args[0])
    return None


def whole_numbers(text: bytes, name: str) -> list[str | None]:
    """The digits of a column where it holds whole numbers; None where it holds anything else.

    >>> whole_numbers(b'{"x": 9007199254740993}\\n{"x": 1e16}\\n{}', "x")
    ['9007199254740993', None, None]
    """
    found = (json.loads(line).get(name) for line in text.split(b"\n") if line.strip())
    return [str(value) if type(value) is int else None for value in found]


class _Repeated(Exception):
    """A key that an object names twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Repeated(key)
            seen.add(key)
    return made
