"""Which text is a date, and in what order its day and month stand.

A year in front leaves no doubt: 2024-01-31, 2024/01/31, 2024.01.31. With the year behind, 31/01/2024 and 01/31/2024 are
told apart by a number beyond 12 anywhere in the column, in a file of any length; a column in which every number fits
both is not guessed at. Years of two digits are never dates by themselves. A time may follow: 10:30, 10:30:00.25.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    import polars as pl

_TIME = r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
_TAIL = rf"([T ]{_TIME}(Z|[+-]\d{{2}}:?\d{{2}})?)?"
_YEAR_FIRST = rf"^\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}{_TAIL}$"
_YEAR_LAST = rf"^(\d{{1,2}})[-/.](\d{{1,2}})[-/.](\d{{4}}|\d{{2}}){_TAIL}$"
_CLOCK = rf"^{_TIME}$"
_ZONED = r":\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})$"
LIKE_DATES = f"{_YEAR_FIRST}|{_YEAR_LAST}"
_SHAPE = re.compile(r"\d+([-/.])\d+[-/.](\d+)(?:([T ])\d+:\d+(?::\d+(\.\d+)?)?)?")


def date_columns(frame: pl.DataFrame, formats: dict[str, str], lazy: pl.LazyFrame | None = None) -> list[pl.Expr]:
    """Columns of text that hold dates or times of day in all of these rows, as such.

    ``formats`` takes the order of day and month where one was settled; ``lazy`` has all the rows, and is asked where
    these do not tell.
    """
    import polars as pl

    made = []
    for name, dtype in frame.schema.items():
        text = frame.get_column(name).drop_nulls().str.strip_chars() if dtype == pl.String else None
        if text is None or not len(text):
            continue
        found = _year_first(text, name)
        if found is None and text.str.contains(_YEAR_LAST).all():
            form = _year_last(text)
            order = _order(text.to_frame(name).lazy(), name)
            if order is None and form and lazy is not None:
                order = _order(lazy.select(pl.col(name).drop_nulls().str.strip_chars()), name)
            if order and form:
                formats[name] = form.replace("1", order[0]).replace("2", order[1])
                found = parsed(name, formats[name])
        if found is None:
            continue
        with contextlib.suppress(pl.exceptions.PolarsError):  # 31 February, or dates of several forms
            frame.select(found)
            made.append(found)
    return made


def parsed(name: str, form: str) -> pl.Expr:
    """A column of text as dates of this format."""
    import polars as pl

    text = pl.col(name).str.strip_chars().str
    return text.to_datetime(form) if "%H" in form else text.to_date(form)


def _year_first(text: pl.Series, name: str) -> pl.Expr | None:
    import polars as pl

    column = pl.col(name).str.strip_chars().str
    if text.str.contains(_CLOCK).all():
        seconds = text.str.count_matches(":") == 2
        return (
            column.to_time("%H:%M:%S%.f" if seconds.all() else "%H:%M") if seconds.all() or not seconds.any() else None
        )
    if not text.str.contains(_YEAR_FIRST).all():
        return None
    mark = str(text[0])[4]
    if not text.str.contains(":").any():
        return column.to_date(f"%Y{mark}%m{mark}%d")
    zoned = text.str.contains(_ZONED)
    return column.to_datetime(time_zone="UTC") if zoned.all() else None if zoned.any() else column.to_datetime()


def _year_last(text: pl.Series) -> str | None:
    """The format with 1 and 2 for day and month, if the first value tells one that can be read without a guess."""
    shape = _SHAPE.match(str(text[0]))
    if shape is None or len(shape[2]) == 2 or text.str.contains(_ZONED).any():
        return None
    mark, gap = shape[1], shape[3]
    times = str(text[0]).count(":")
    clock = "" if not times else f"{gap}%H:%M" if times == 1 else f"{gap}%H:%M:%S%.f"
    return f"%1{mark}%2{mark}%Y{clock}"


def _order(text: pl.LazyFrame, name: str) -> str | None:
    """ "dm" or "md", where some number beyond 12 tells and every value is a date."""
    import polars as pl

    column = pl.col(name)
    parts = [column.str.extract(_YEAR_LAST, k).cast(pl.Int64).max() for k in (1, 2)]
    first, second, dates = (
        text.select(
            parts[0].alias("first"), parts[1].alias("second"), column.str.contains(_YEAR_LAST).all().alias("dates")
        )
        .collect()
        .row(0)
    )
    if not dates or max(first, second) <= 12 or min(first, second) > 12:
        return None
    return "dm" if first > 12 else "md"


def already_read(name: str, text: str, settled: str | None) -> bool:
    """Whether an SQL expression only says how the dates of a column are written, which are read so already.

    Refused where it says otherwise. ``settled`` is the format by which they were read, None for a year in front.

    >>> already_read("d", "strptime(d, '%d/%m/%Y')", "%d/%m/%Y"), already_read("d", "strptime(e, '%d/%m/%Y')", None)
    (True, False)
    """
    found = re.fullmatch(r"""strptime\(\s*(["`]?)(.+?)\1\s*,\s*'([^']*)'\s*\)""", text.strip(), re.IGNORECASE)
    if found is None or found[2] != name:
        return False
    if found[3] != settled and not (settled is None and found[3].startswith("%Y")):
        raise UsageError(
            f"column {name!r} holds dates that are written as {settled or '%Y-%m-%d'}, as its values show, not as {found[3]}; "
            "leave that expression out",
            where=name,
        )
    return True


def strptime(name: str, value: str) -> str:
    """The SQL that reads such a column with the day in front, for a refusal to show."""
    shape = _SHAPE.match(value)
    mark = shape[1] if shape else "/"
    year_first = bool(re.match(r"\d{4}", value))
    year = "%y" if shape and not year_first and len(shape[2]) == 2 else "%Y"
    form = f"%Y{mark}%m{mark}%d" if year_first else f"%d{mark}%m{mark}{year}"
    times = value.count(":")
    form += "" if not times else f"{shape[3] if shape else ' '}%H:%M" + (":%S" if times > 1 else "")
    return f"strptime({name}, '{form}')"
