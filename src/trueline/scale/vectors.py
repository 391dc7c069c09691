"""Spark's columns that hold a row of numbers: MLlib's vectors, dense or sparse, and arrays of numbers.

An assembled vector brings the names of its entries with it; the entries of others are called after the column. To the rest
of this room they are columns like any other. Handed over as they are they cost Spark less than columns apart do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..errors import DataError, UsageError

_NUMBERS = ("double", "float", "bigint", "int", "smallint", "tinyint")


class Packed(NamedTuple):
    """A column of vectors or arrays, and the names of its entries."""

    column: str
    vector: bool
    names: tuple[str, ...]

    def values(self, name: str) -> Any:
        """The column as Spark's array of doubles, under this name."""
        from pyspark.sql.functions import col

        column = quoted(self.column)
        return (_to_array(column) if self.vector else col(column).cast("array<double>")).alias(name)


def found_in(frame: Any) -> dict[str, bool]:
    """The columns of vectors (True) and of arrays of numbers (False)."""
    made = {}
    for field in frame.schema.fields:
        if type(field.dataType).__name__ == "VectorUDT":
            made[field.name] = True
        elif type(field.dataType).__name__ == "ArrayType" and field.dataType.elementType.simpleString() in _NUMBERS:
            made[field.name] = False
    return made


def opened(frame: Any, column: str, vector: bool, wanted: Iterable[str] = ()) -> Packed:
    """A column with its entries named; where no names came with it, ``wanted`` ones or a first row say how many there are."""
    told = frame.schema[column].metadata.get("ml_attr") or {}
    named = {int(one["idx"]): one.get("name") for kind in told.get("attrs", {}).values() for one in kind}
    width = int(told.get("num_attrs") or len(named))
    if not width:
        numbers = (name.removeprefix(f"{column}_") for name in wanted if name.startswith(f"{column}_"))
        width = max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
    if not width:
        from pyspark.sql.functions import col, size

        name = quoted(column)
        values = _to_array(name) if vector else col(name)
        first = frame.where(col(name).isNotNull()).select(size(values).alias("entries")).limit(1).collect()
        width = first[0]["entries"] if first else 0
    if not width:
        raise DataError(f"column {column!r} holds no numbers in its first row; leave it out", where=column)
    return Packed(column, vector, tuple(named.get(k) or f"{column}_{k}" for k in range(width)))


def joined(declared: dict[str, Any], packed: Sequence[Packed], strict: Iterable[str]) -> dict[str, Any]:
    """The declared columns with the entries of packed ones in their places.

    An entry goes before a column of its name, from which it was assembled; of ``strict`` names there may be but one.
    """
    import polars as pl

    entries: dict[str, str] = {}
    for one in packed:
        for name in one.names:
            if name in entries:
                raise UsageError(
                    f"the columns {entries[name]!r} and {one.column!r} both hold {name!r}; give features= one of them",
                    where=one.column,
                )
            entries[name] = one.column
    for name in strict:
        if name in entries and name in declared:
            raise UsageError(
                f"column {entries[name]!r} holds {name!r}, which is a column of its own too; say by features= which to take",
                where=name,
            )
    by_column = {one.column: one for one in packed}
    made: dict[str, Any] = {}
    for name, dtype in declared.items():
        if name in by_column:
            made |= dict.fromkeys(by_column[name].names, pl.Float64())
        elif name not in entries:
            made[name] = dtype
    return made


def quoted(name: str) -> str:
    """A column's name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def _to_array(name: str) -> Any:
    """A column of vectors as arrays. Dense ones are taken as they lie: MLlib's own function makes objects of them first."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql.functions import col, unwrap_udt, when

    inside = unwrap_udt(col(name))
    sparse = inside.getField("type") == 0
    return when(sparse, vector_to_array(col(name))).otherwise(inside.getField("values"))  # of null it is null
