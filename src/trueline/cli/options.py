"""The options that several commands share, said once."""

from __future__ import annotations

from typing import Annotated, Optional

from ..errors import UsageError
from .declare import Argument, Option

Source = Annotated[
    list[str],
    Argument(
        help="Files or glob patterns (CSV, TSV, Parquet, Arrow IPC, NDJSON; gzip, zstd), or - for standard input.",
        show_default=False,
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
Json = Annotated[bool, Option("--json", help="One JSON object on standard output.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")]
Output = Annotated[Optional[str], Option("--output", "-o", help="Where to write.", show_default=False)]  # noqa: UP045


def one_source(paths: list[str]) -> str | list[str]:
    """One path as it is, several as a list."""
    return paths[0] if len(paths) == 1 else paths


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
