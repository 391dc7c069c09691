"""``trueline verify``: a certificate recomputed from the data by code that shares nothing with the solvers."""

from __future__ import annotations

from typing import Annotated, Any

from ..errors import DataError, ModelError, TruelineError, UsageError
from . import options
from .declare import Option


def verify(
    model: options.Model,
    data: options.Source,
    target: Annotated[
        str | None,
        Option(
            "--target", "-t", help="The target's column, for a model of arrays, which has no names.", show_default=False
        ),
    ] = None,
    features: Annotated[
        str | None,
        Option(help="The same of its columns, in the order of the fit, with commas between.", show_default=False),
    ] = None,
    weights: Annotated[str | None, Option(help="The same of its row weights.", show_default=False)] = None,
    json: options.Json = False,
) -> int:
    """Recompute what a model and its certificate claim from the training data. Exit code 0 if all of it holds, 4 if not.

    Exit code 3 says that it cannot be checked. What no check recomputes is listed as stated, not checked.

    Online learners are replayed, so their rows must come in the order of training.

    [bold]Examples[/bold]

    trueline verify m.tl houses.csv

    trueline verify of_arrays.tl houses.csv --target price --features size,rooms
    """
    import numpy as np

    from ..verifier.verify import verify as check
    from .console import emit, paint, show, waiting
    from .models import open_model
    from .replaying import replayed
    from .rows import Named

    opened = open_model(model)
    named = Named(options.names(target), options.names(features), weights)
    given = next((option for option, value in named._asdict().items() if value is not None), None)
    if given and (opened.schema is not None or opened.meta.get("form")):
        raise UsageError(f"{model} knows its columns by name; leave out --{given}", where=given)
    with waiting("verifying"):
        source = opened.naming(options.one_source(data))
        again = (lambda X, y, c: replayed(opened, source)) if "stream_terms" in opened.meta else None
        rows = _learned(opened, _read(opened, source, named))
        passes = _passes(opened, len(rows[0]))
        rows = tuple(v if v is None or passes == 1 else np.concatenate([v] * passes) for v in rows)
        result = check(opened.record, rows, replay=again, table=source, schema=opened.schema)
    if json:
        emit(result.to_dict())
    else:
        show(_table(result))
        show(_stated(result))
        show(paint(f"{model}: {result}", "green" if result.ok else "red"))
    return 0 if result.ok else 4


WORDS = 26  # columns of a cell; longer words are written below their claim
SHOWN = 40  # claims on the screen; those that fail are all shown


MOST_ROWS = 10**9  # of all passes together


def _read(opened: Any, source: Any, named: Any) -> tuple[Any, Any, Any]:
    """The rows as the model reads them; a crafted model may fail at it in any way, which is a refusal."""
    from .rows import training_rows

    try:
        return training_rows(opened, source, named)
    except TruelineError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:120]
        raise ModelError(f"{opened.path} cannot read rows by what it says of its columns ({reason})",
                         where="schema") from None  # fmt: skip


def _learned(opened: Any, rows: tuple[Any, Any, Any]) -> tuple[Any, ...]:
    """The rows that the fit saw: those that it held out are told by their numbers."""
    from ..model.training import fitted_rows

    share = opened.meta.get("holdout", getattr(opened.record, "statistics", {}).get("holdout"))
    if share is None and "--holdout" in str(opened.meta.get("command", "")).split():
        raise DataError(
            f"{opened.path} was fitted with --holdout by a version that did not keep which rows; fit it again to verify it",
            where="holdout",
        )
    return fitted_rows(*rows, share)


def _passes(opened: Any, rows: int) -> int:
    """How often each row was learned; a stream that was resumed may not be one that can be told from its rows."""
    passes = opened.meta.get("epochs", 1)
    if not isinstance(passes, int) or passes * rows > MOST_ROWS:
        raise ModelError(f"{opened.path} says that it learned {passes} epochs of {rows:,} rows; it cannot have",
                         where="epochs")  # fmt: skip
    if passes < 1:
        raise DataError(
            f"{opened.path} was resumed with --epochs, so the order of its rows is not known; stream all files in one run to verify",
            where="epochs",
        )
    return passes


def _table(result: Any) -> str:
    """A line a claim; what does not fit into the terminal's width is written below its claim, and nothing is cut."""
    from .console import paint, width

    checks = [c for at, c in enumerate(result.checks) if at < SHOWN or not c.held]
    hidden = len(result.checks) - len(checks)
    names = ["claim", *(_named(c.claim) for c in checks)]
    claimed, found = _cells("claimed", [c.claimed for c in checks]), _cells("found", [c.found for c in checks])
    said = ["", *("holds" if c.held else "FAILS" for c in checks)]
    marks = ["bold", *("" if c.held else "red" for c in checks)]
    rows = list(zip(names, claimed, found, said, strict=True))
    short = [row for row in rows if max(len(row[1].strip()), len(row[2].strip())) <= WORDS]
    first, second = (max(len(row[k]) for row in short) for k in (1, 2))
    wide = min(max(len(row[0]) for row in short), width() - first - second - len("holds") - 6)
    lines = []
    for (name, a, b, end), mark in zip(rows, marks, strict=True):
        if len(name) <= wide and (name, a, b, end) in short:
            line = f"{name:<{wide}}  {a:>{first}}  {b:>{second}}  {end}".rstrip()
        else:
            line = _below(name, a, b, end) if end else ""
        lines += [paint(line, mark) if mark else line] if line else []
    more = [f"… and {hidden:,} more that hold (--json shows all)"] if hidden else []
    return "\n".join([*lines, *more])


def _below(name: str, claimed: str, found: str, end: str) -> str:
    """A claim in lines of the terminal's width."""
    from ..report.text import in_lines
    from .console import width

    head = in_lines(f"{name}: {end}", width(), "    ")
    parts = (f"claimed {claimed.strip()}", f"found {found.strip()}")
    return "\n".join([*head, *(line for part in parts for line in in_lines(part, width(), "    ", "  "))])


def _named(claim: str) -> str:
    """A field as words; names of columns are left as they are."""
    if " " in claim:
        return claim
    return claim.removeprefix("statistics.").removeprefix("part.").replace("_", " ")


def _stated(result: Any) -> str:
    """The names of what is said and not checked, in lines of the terminal's width."""
    from ..report.text import in_lines
    from .console import width

    names = [_named(name) for name, _ in result.stated]
    return "\n".join(in_lines(f"stated, not checked: {', '.join(names) or 'nothing'}", width()))


def _cells(head: str, values: list[Any]) -> list[str]:
    """A head and its cells: the points of the numbers under each other."""
    from ..report.text import align, number

    plain = [isinstance(v, (int, float)) and not isinstance(v, bool) for v in values]
    numbers = iter(align([number(v, 6) for v, is_number in zip(values, plain, strict=True) if is_number]))
    return [head, *(next(numbers) if is_number else _words(v) for v, is_number in zip(values, plain, strict=True))]


def _words(value: Any) -> str:
    if isinstance(value, (tuple, list)) or getattr(value, "shape", ()) != ():
        return f"{len(value)} values"
    return "–" if value is None else str(value).replace("_", " ")
