"""Whole numbers that float64 would round, and masked entries: what arrays and tables must not lose in silence.

Beyond 2⁵³ not every whole number is a float64. Identifiers and hashes are of that size; two of them would become one.
A number written with a decimal point or an exponent is a decimal, and rounded like all decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError

if TYPE_CHECKING:
    import polars as pl

EXACT = 2**53
_DIGITS = r"^\s*[+-]?\d{16,}\s*$"


def exact(value: int) -> bool:
    """Whether float64 holds a whole number as it is.

    >>> exact(2**53 + 1), exact(2**60), exact(10**400)
    (False, True, False)
    """
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def loses_digits(value: Any) -> bool:
    """Whether a value is a whole number, Python's or NumPy's, that float64 would round."""
    return isinstance(value, (int, np.integer)) and not -EXACT <= value <= EXACT and not exact(int(value))


def rounded(name: str, value: Any, place: str) -> DataError:
    """The refusal of a whole number that would be rounded."""
    bits = int(value).bit_length()
    number = f"the whole number {value}" if bits <= 128 else f"a whole number of {bits:,} bits"
    return DataError(
        f"column {name!r} {place} holds {number}, which float64 would round; leave the column out, give it "
        "as text if it holds codes, or as decimals (float64, or with a decimal point in text) if rounding does not matter",
        where=name,
    )


def refuse_rounded(series: pl.Series, row: int, describe: str) -> None:
    """Refuse a column of whole numbers of which float64 would round one; ``row`` is the number of the first."""
    import polars as pl

    low, high = series.min(), series.max()
    if low is None or (int(low) >= -EXACT and int(high) <= EXACT):  # type: ignore[arg-type, call-overload]
        return
    wide = series.cast(pl.Int128, strict=False)
    bad = (series.cast(pl.Float64).cast(pl.Int128, strict=False) != wide).fill_null(False)
    if bad.any():
        at = int(bad.arg_max() or 0)
        raise rounded(series.name, series[at], f"in row {row + at + 1} of {describe}")


def refuse_rounded_fields(features: Mapping[Any, Any]) -> None:
    """The same for one example of named features.

    >>> refuse_rounded_fields({"id": 2**53, "x": 1e300})
    """
    for name, value in features.items():
        if loses_digits(value):
            raise rounded(str(name), value, "of this row")


def refuse_integers(values: Any, names: Sequence[str], what: str) -> None:
    """The same for arrays, frames and lists of rows, which become float64 afterwards."""
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        for name in values.columns:
            _refuse_vector(values[name], str(name), what)
        return
    if isinstance(values, (list, tuple)):
        _refuse_listed(values, names, what)
        return
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if not hasattr(values, "ndim") or kind not in "iuO":
        return
    if hasattr(values, "tocoo"):
        stored = values.tocoo()
        for value, row, column in zip(stored.data.tolist(), *(place.tolist() for place in (stored.row, stored.col))):
            if loses_digits(value):
                raise rounded(names[column] if names else f"x{column}", value, f"of {what} in row {row}")
        return
    if values.ndim == 1:
        _refuse_vector(values, names[0] if names else what, what)
    elif values.ndim == 2 and (kind == "O" or (values.dtype.itemsize == 8 and _large(values))):
        for j in range(values.shape[1]):
            _refuse_vector(np.asarray(values)[:, j], names[j] if j < len(names) else f"x{j}", what)


def _large(values: np.ndarray) -> bool:
    return bool(values.size) and (int(values.max()) > EXACT or int(values.min()) < -EXACT)


def _refuse_vector(values: Any, name: str, what: str) -> None:
    dtype = str(getattr(values, "dtype", "")).lower()
    if dtype in ("int64", "uint64", "int128") or dtype == "object":
        listed = values.to_list() if hasattr(values, "to_list") else values.tolist()
        if dtype != "object" and not _large(np.asarray([v for v in (values.min(), values.max()) if v == v])):
            return
        _refuse_listed(listed, [name], what)


def _refuse_listed(values: Sequence[Any], names: Sequence[str], what: str) -> None:
    for row, given in enumerate(values):
        for j, value in enumerate(given if isinstance(given, (list, tuple)) else (given,)):
            if loses_digits(value):
                raise rounded(names[j] if j < len(names) else f"x{j}", value, f"of {what} in row {row}")


def refuse_masked(values: Any, what: str) -> None:
    """Refuse an array of which entries are masked: they would be used as if they were numbers.

    >>> refuse_masked(np.ma.masked_array([1.0, 2.0], mask=[False, True]), "y")
    Traceback (most recent call last):
    trueline.errors.DataError: y is a masked array with 1 masked entry, the first in row 1; fill it (filled) or drop those rows
    """
    if not isinstance(values, np.ma.MaskedArray):
        return
    mask = np.ma.getmaskarray(values)
    count = int(mask.sum())
    if count:
        place = np.unravel_index(int(np.argmax(mask)), mask.shape)
        where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
        many = "entry" if count == 1 else "entries"
        raise DataError(
            f"{what} is a masked array with {count:,} masked {many}, the first in {where}; fill it (filled) or drop those rows",
            where=what,
        )


def as_floats(block: Any, what: str, names: Sequence[str] = ()) -> np.ndarray:
    """An array of numbers, dense or sparse, as float64; what that would lose is refused."""
    refuse_masked(block, what)
    refuse_integers(block, names, what)
    return np.asarray(block.toarray() if hasattr(block, "toarray") else block, dtype=float)


class Numerals:
    """Cells of text formats that are whole numbers float64 has rounded: looked for where a column has large numbers.

    ``read`` gives a column as text, lazily; its rows begin with number ``first``. A row that a filter leaves out does not
    count.
    """

    def __init__(self, read: Callable[[str], pl.LazyFrame] | None = None) -> None:
        self.renew(read)

    def renew(self, read: Callable[[str], pl.LazyFrame] | None, first: int = 0) -> None:
        """Go on to other rows."""
        self._read, self._first = read, first
        self._cells: dict[str, dict[float, tuple[int, str]]] = {}

    def refuse(self, frame: pl.DataFrame, names: Sequence[str], describe: str) -> None:
        """Refuse a frame of which one of these columns of numbers holds such a cell."""
        import polars as pl

        if self._read is None:
            return
        for name in names:
            column = frame.get_column(name)
            if column.dtype != pl.Float64:
                continue
            sizes = column.fill_nan(None).abs()
            largest: Any = sizes.max()
            if largest is None or not largest >= EXACT:
                continue
            if name not in self._cells:
                self._cells[name] = _rounded_cells(self._read(name), name, self._first)
            cells = self._cells[name]
            hit = next((value for value in column.filter(sizes >= EXACT).to_list() if value in cells), None)
            if hit is not None:
                row, text = cells[hit]
                raise rounded(name, text.strip(), f"in row {row + 1} of {describe}")


def _rounded_cells(text: pl.LazyFrame, name: str, first: int) -> dict[float, tuple[int, str]]:
    """The numbers that cells of text became by rounding, each with the first such row and its text."""
    import polars as pl

    large = text.select(pl.col(name).alias("text")).with_row_index("row").filter(pl.col("text").str.contains(_DIGITS))
    found: dict[float, tuple[int, str]] = {}
    for row, cell in large.collect().iter_rows():
        if not exact(int(cell)):
            found.setdefault(float(cell), (first + row, cell))
    return found
