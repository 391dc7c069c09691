"""The options that several commands share, said once."""

from __future__ import annotations

from typing import Annotated, Any, Optional

from ..errors import UsageError
from .declare import Argument, Option, Told

BESIDE = {
    "separator": Option(help="What separates the values of CSV, such as ';', '|' or tab.", show_default=False),
    "decimal": Option(help="The mark before decimals in CSV, where it is a comma: ','.", show_default=False),
}
Source = Annotated[
    list[str],
    Argument(
        help="Files or glob patterns (CSV, TSV, Parquet, Arrow IPC, NDJSON; gzip, zstd), or - for standard input.",
        show_default=False,
        beside=BESIDE,
    ),
]
Model = Annotated[str, Argument(help="A model file.", show_default=False)]
Target = Annotated[Optional[str], Option("--target", "-t", help="The column to predict.", show_default=False)]  # noqa: UP045
Features = Annotated[
    str | None, Option(help="Columns to use, with commas between; default: all others.", show_default=False)
]
Weights = Annotated[Optional[str], Option(help="A column of row weights.", show_default=False)]  # noqa: UP045
Where = Annotated[Optional[str], Option(help="Rows to keep: a SQL expression.", show_default=False)]  # noqa: UP045
Derive = Annotated[
    list[str] | None, Option(help="A new column: name=SQL expression; may be repeated.", show_default=False)
]
Missing = Annotated[str, Option(help="Missing values: refuse, drop, mean or indicator.")]
MissingInNew = Annotated[
    Optional[str],  # noqa: UP045
    Option(
        help="Rows that lack a value: refuse, drop, or as in training; default: as in training.", show_default=False
    ),
]
Intercept = Annotated[
    bool, Option(help="Fit a constant term; without it, the first category has a coefficient for each level.")
]
Unseen = Annotated[
    str,
    Option(help="Levels never seen in training: refuse, or ignore, which takes them as the reference level."),
]
Json = Annotated[bool, Option("--json", help="One JSON object on standard output.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")]
Output = Annotated[Optional[str], Option("--output", "-o", help="Where to write.", show_default=False)]  # noqa: UP045


def one_source(paths: list[str]) -> Any:
    """One path as it is, several as a list; opened already where a separator or decimal mark was told."""
    source = paths[0] if len(paths) == 1 else paths
    told, mark = separator(paths), decimal(paths)
    if told is None and mark is None:
        return source
    from ..data.read import open_source

    return open_source(list(source) if isinstance(source, list) else source, separator=told, decimal=mark)


def say_notes(source: Any) -> None:
    """What was guessed of a source that is open, on standard error."""
    from .console import say

    for note in getattr(source, "notes", ()):
        say(note)


def beside(paths: list[str], option: str) -> str | None:
    """The value of an option that goes with the paths."""
    return paths.told.get(option) if isinstance(paths, Told) else None


def decimal(paths: list[str]) -> str | None:
    """The value of --decimal."""
    told = beside(paths, "decimal")
    mark = told and {"comma": ",", "point": "."}.get(told, told)
    if mark not in (None, ".", ","):
        raise UsageError(f"--decimal is a comma or a point, not {told!r}", where="decimal")
    return mark


def separator(paths: list[str]) -> str | None:
    """The value of --separator."""
    told = beside(paths, "separator")
    if told is None:
        return None
    meant = {"tab": "\t", "\\t": "\t"}.get(told, told)
    if len(meant.encode()) != 1 or meant in '"\r\n':
        raise UsageError(f"--separator is one character such as ';', or tab, not {told!r}", where="separator")
    return meant


def names(text: str | None) -> list[str] | None:
    """``a,b,c`` as a list."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def derivations(given: list[str] | None) -> dict[str, str]:
    """``name=expression`` pairs."""
    made = {}
    for item in given or ():
        name, equals, expression = item.partition("=")
        if not equals or not name.strip() or not expression.strip():
            raise UsageError(f"--derive takes name=expression, not {item!r}", where="derive")
        made[name.strip()] = expression.strip()
    return made


def required(value: str | None, option: str, meaning: str) -> str:
    """The value of an option that this call cannot do without."""
    if value is None:
        raise UsageError(f"give --{option}: {meaning}", where=option)
    return value


def share(value: float | None, option: str) -> float | None:
    """A number strictly between 0 and 1."""
    if value is not None and not 0.0 < value < 1.0:
        raise UsageError(f"--{option} lies between 0 and 1, not {value:g}", where=option)
    return value


def check_classes(source: Any, target: str | None, where: str | None, derive: dict[str, str]) -> None:
    """Refuse a classifier for a column of many different numbers, which would be a class each."""
    from ..data.files import is_pipe
    from ..data.read import open_source
    from ..data.stray import refuse_numbers_as_classes

    once = isinstance(source, str) and (source == "-" or is_pipe(source))
    if target is not None and not once:
        refuse_numbers_as_classes(open_source(source, where=where, derive=derive), target)
