"""Columns of text that are really numbers: a stray word makes a table's reader take all of a column for text.

Rows are counted, not levels, and judged at the end, so that the order of the rows does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from .columns import WITH_COMMA, with_commas
from .dates import LIKE_DATES, strptime
from .refusals import line_with

if TYPE_CHECKING:
    import polars as pl

    from .read import Source

MOST_STRAY = 0.1  # of the values may be words in a column that is taken for one of numbers
MOST_CLASSES = 100
FEW_CLASSES = 20  # so many may well be one a row
CLEAN = "if they are numbers, clean the column"
ENOUGH_ROWS = 100_000  # to see whether numbers are classes


class Stray:
    """How many words and numbers each watched column of text holds, and its first word; and how many dates."""

    def __init__(self, names: Sequence[str]) -> None:
        self._watched = dict.fromkeys(names, (0, 0))
        self._first: dict[str, tuple[int, str]] = {}
        self._dates = dict.fromkeys(names, (0, 0))
        self._date: dict[str, tuple[int, str]] = {}

    def see(self, frame: pl.DataFrame, row: int, describe: str) -> None:
        """Take notice of some rows, the first of them number ``row``; refuse numbers that are written with commas."""
        import polars as pl

        for name, (words, values) in list(self._watched.items()):
            text = frame.get_column(name).cast(pl.String)  # a later piece of a table may have another type
            bad = text.is_not_null() & as_number(text).is_null()
            count = int(bad.sum())
            commas = text.str.contains(WITH_COMMA).fill_null(False)
            if words == 0 and count and int(commas.sum()) == count:  # numbers, as far as the rows go
                raise with_commas(name, str(text[int(commas.arg_max() or 0)]), describe)
            if count and name not in self._first:
                place = int(bad.arg_max() or 0)
                self._first[name] = row + place, str(text[place])
            words, values = words + count, values + len(text) - text.null_count()
            if 2 * words > values:  # plainly words: not worth another look
                del self._watched[name]
            else:
                self._watched[name] = words, values

    def see_dates(self, frame: pl.DataFrame, row: int, source: Source) -> None:
        """Take notice of dates in text; refuse a column that has nothing else so far, before anything is made of it."""
        import polars as pl

        for name, (dates, values) in list(self._dates.items()):
            text = frame.get_column(name).cast(pl.String)
            like = text.str.strip_chars().str.contains(LIKE_DATES).fill_null(False)
            count, present = int(like.sum()), len(text) - text.null_count()
            if count and name not in self._date:
                place = int(like.arg_max() or 0)
                self._date[name] = row + place, str(text[place])
            dates, values = dates + count, values + present
            if dates and dates == values:
                raise self._undecided(name, source)
            if 2 * dates < values:  # plainly no dates: not worth another look
                del self._dates[name]
            else:
                self._dates[name] = dates, values

    def _undecided(self, name: str, source: Source) -> DataError:
        """The refusal of dates that stayed text: their order is open, they have several forms, or nobody read them."""
        row, value = self._date[name]
        year_first = value.strip()[:4].isdigit()
        why = (
            "dates as text"
            if year_first
            else "dates in which no value tells the day from the month, or whose forms differ"
        )
        return DataError(
            f"column {name!r} of {source.describe} holds {why}, such as {value!r} in row {row + 1}; say how they are "
            f'written: --derive "{name}={strptime(name, value.strip())}" (derive= in Python; %m before %d where the month '
            f"stands in front), or take them for codes: C({name}) in a formula (categories= in Python)",
            where=name,
        )

    def refuse(self, source: Source, target: str | None) -> None:
        """Refuse a column that is almost all numbers, or dates, with its first word."""
        for name, (dates, values) in self._dates.items():
            if values and dates >= (1 - MOST_STRAY) * values:
                raise self._undecided(name, source)
        for name, (words, values) in self._watched.items():
            if not 0 < words <= MOST_STRAY * values:
                continue
            row, word = self._first[name]
            line = next((found for path in source.paths if (found := line_with(path, name, word))), None)
            place = f"row {row + 1}" if line is None else f"line {line}"
            others = "" if words == 1 else f" (and {words - 1} more)"
            codes = (
                ""
                if name == target
                else f", or take all of them for codes: C({name}) in a formula (categories= in Python)"
            )
            raise DataError(
                f"{'target' if name == target else 'column'} {name!r} of {source.describe} holds {word!r} in {place}{others} "
                f"where {values - words} other values are numbers; correct it, or leave the cell empty and say how missing "
                f"values are to be treated{codes}",
                where=name,
            )


def as_number(text: pl.Series) -> pl.Series:
    """Text as numbers, blanks around them left out; null where it is not one."""
    import polars as pl

    return text.str.strip_chars().cast(pl.Float64, strict=False)


def refuse_classes(name: str, levels: Sequence[Any], rows: int, describe: str, remedy: str = CLEAN) -> None:
    """Refuse a target that has more classes than a classifier could learn; ``remedy`` is for those that are numbers."""
    if len(levels) <= MOST_CLASSES and (len(levels) <= FEW_CLASSES or 2 * len(levels) <= rows):
        return
    raise DataError(
        f"target {name!r} of {describe} has {len(levels)} different values ({levels[0]!r}, {levels[1]!r}, …) in {rows} rows, "
        f"too many for classes (at most {MOST_CLASSES}, and half the rows); {remedy}; otherwise choose another target or derive "
        "a coarser one",
        where=name,
    )


def refuse_numbers_as_classes(source: Source, name: str) -> None:
    """Refuse a target of numbers that are no classes, by its first rows; a source that is read only once is let pass."""
    if not source.rereadable or name not in source.names or not source.dtypes[name].is_numeric():
        return
    seen: dict[Any, None] = {}
    rows = 0
    for frame in source.refine(columns=[name]).frames():
        seen |= dict.fromkeys(frame.get_column(name).drop_nulls().unique(maintain_order=True).to_list())
        rows += frame.height
        if rows >= ENOUGH_ROWS:
            break
    refuse_classes(name, list(seen), rows, source.describe, "to predict the numbers fit squared loss (--loss squared)")
