"""``trueline export``: a model in another language."""

from __future__ import annotations

from typing import Annotated

from . import options
from .declare import Option


def export(
    model: options.Model,
    to: Annotated[str, Option(help="sql, json, onnx, python or c.")] = "sql",
    output: Annotated[
        str | None,
        Option("--output", "-o", help="File to write; default: standard output.", show_default=False),
    ] = None,
    table: Annotated[str, Option(help="The table's name in the SQL.")] = "data",
    json: options.Json = False,
) -> None:
    """Write a model as a SQL query, JSON, an ONNX graph, a Python or a C function.

    What is written is run here and compared with the model on drawn rows: it must agree to 1e-12 of Σ|w·x|. Derived
    columns and filters go along into SQL; a formula's polynomials, logs, bumps and products into SQL, Python and C.
    The query's predictions stand before the table's own columns; a table that lacks one of the model's is refused.

    [bold]Examples[/bold]

    trueline export m.tl --to sql --table flats

    trueline export m.tl --to c -o model.c
    """
    import sys

    from ..errors import UsageError
    from ..model.export import export as write
    from .console import emit, say
    from .models import as_linear, open_model
    from .output import check_apart, check_place, whole

    check_apart([output], [model])
    if output is not None:
        check_place(output)
    if to == "onnx" and output is None:
        raise UsageError("an ONNX graph is binary; give -o model.onnx", where="output")
    made = write(as_linear(open_model(model)), to, table=table)
    if output is not None:
        with whole(output) as scratch:
            scratch.write_bytes(made.content)
    if json:
        emit(
            {
                "to": to,
                "path": output,
                "difference": made.difference,
                "rows": made.rows,
                "note": made.note,
                "text": None if output else made.text,
            }
        )
        return
    if output is None:
        if sys.stdout.isatty() and not made.text.replace("\n", "").isprintable():
            raise UsageError(
                "a name in the export holds control characters, which a terminal would obey; give -o FILE",
                where="output",
            )
        sys.stdout.write(made.text.rstrip("\n") + "\n")
    checked = (
        made.note
        if made.difference is None
        else f"agrees with the model to {made.difference:.1e} of Σ|w·x| on {made.rows} drawn rows"
        + (f"; {made.note}" if made.note else "")
    )
    say(f"{f'{output}: ' if output else ''}{checked}")
