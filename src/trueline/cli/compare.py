"""``trueline compare``: every model and online learner that fits the task, side by side."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from . import options
from .declare import Option


def compare(
    data: options.Source,
    target: options.Target = None,
    features: options.Features = None,
    where: options.Where = None,
    derive: options.Derive = None,
    missing: options.Missing = "refuse",
    intercept: options.Intercept = True,
    folds: Annotated[int, Option(help="Folds of the cross-validation.")] = 5,
    report: Annotated[
        str | None, Option(help="Write a report with the plot here: one HTML file.", show_default=False)
    ] = None,
    plot: Annotated[str | None, Option(help="Draw it: a PNG, SVG or PDF file.", show_default=False)] = None,
    json: options.Json = False,
) -> None:
    """Run every model and online learner that fits the task on the same rows, and rank them.

    Progressive error is that of predicting each row before learning it, in order; cross-validated error that of
    predicting rows left out, where each penalty is chosen anew without them. Methods within one standard error of the
    smallest error tie for the best. Both are root mean squared errors for numbers, and log losses for classes, with the share
    of rows whose label is wrong beside them. The time is that of one fit, or one pass, over all rows.

    [bold]Example[/bold]

    trueline compare houses.csv --target price --plot errors.png
    """
    from .comparing import compared
    from .console import emit, paint, say, show
    from .output import check_apart, check_picture, check_place

    check_apart([report, plot], data)
    check_place(report)
    check_picture(plot)
    found = compared(
        options.one_source(data), options.required(target, "target", "the column to predict"), options.names(features),
        where, options.derivations(derive), missing, intercept, folds,
    )  # fmt: skip
    if report is not None:
        _report(found, data, report)
    if plot is not None:
        from .output import write_picture
        from .ranking import draw

        write_picture(plot, draw(found))
    if json:
        emit(found | {"report": report, "plot": plot})
        return
    show(told(found))
    for what, path in (("report", report), ("plot", plot)):
        if path is not None:
            say(paint(f"{what} in {path}", "dim", sys.stderr))


BARS = 60  # columns of the longest bar
SHOWN = 4  # names of methods that tie


def told(found: dict[str, Any]) -> str:
    """The ranking as a table with bars."""
    from ..report.text import align, bars, columns_of, number, padded, table
    from .console import paint, width
    from .telling import wrapped

    rows, room = found["methods"], width()
    heads, columns = cells(found)
    text = table(heads, columns, room=room, paint=paint, spare=[heads.index(name) for name in ("±", "progressive")])
    refused = [f"{row['method']} was refused: {row['refused']}" for row in rows if row["refused"]]
    ranked = [row for row in rows if row["cross_validated"] is not None]
    values = align([number(row["cross_validated"], 4) for row in ranked])
    wide = max((columns_of(row["method"]) for row in ranked), default=0)
    left = room - wide - max(map(len, values), default=0) - 5
    drawn = bars([row["cross_validated"] for row in ranked], max(4, min(BARS, left)))
    plot = [f"  {padded(row['method'], wide)} {value} {bar}" for row, value, bar in zip(ranked, values, drawn)]
    measure = f"cross-validated {found['measure']}, smaller is better"
    head = wrapped(f"{found['target']}, {found['n']:,} rows, {found['task']}: {measure}", room)
    notes = [line for sentence in [*found["notes"], best(found), *refused] for line in wrapped(sentence, room)]
    return "\n".join([*(paint(line, "bold") for line in head), "", text, *notes, "", *plot])


def best(found: dict[str, Any]) -> str:
    """Which method predicts best, in a sentence; several that nothing tells apart tie."""
    from ..report.text import number

    names = found["best"]
    if not names:
        return "no method has such an error"
    error = found["methods"][0]["std_error"]
    if len(names) == 1:
        return f"{names[0]} predicts best" + ("" if error is None else ", by more than one standard error")
    shown = names if len(names) <= SHOWN + 1 else [*names[:SHOWN], f"{len(names) - SHOWN} more"]
    within = f"within one standard error, {number(error, 3)}, of the smallest error"
    return f"{', '.join(shown[:-1])} and {shown[-1]} tie for the best: they lie {within}"


def cells(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The table's heads and columns, the same on the screen and in the report."""
    from ..report.text import number

    rows = found["methods"]
    columns = {
        "method": [row["method"] for row in rows],
        "progressive": [number(row["progressive"]) for row in rows],
        "cross-val.": [number(row["cross_validated"]) for row in rows],
        "±": [number(row["std_error"], 3) for row in rows],
        "wrong": ["–" if row.get("wrong") is None else f"{100 * row['wrong']:.1f} %" for row in rows],
        "seconds": ["–" if row["seconds"] is None else f"{row['seconds']:.3f}" for row in rows],
        "certificate": ["refused" if row["refused"] else row["certificate"] for row in rows],
    }
    if all("wrong" not in row for row in rows):
        del columns["wrong"]
    return list(columns), list(columns.values())


def _report(found: dict[str, Any], data: list[str], report: str) -> None:
    from ..report import figures
    from ..report.html import Picture, Story, page
    from .command import command_line
    from .output import write_text

    rows = [row for row in found["methods"] if row["cross_validated"] is not None]
    drawn = figures.ranking(
        [r["method"] for r in rows],
        [r["cross_validated"] for r in rows],
        [r["std_error"] or 0.0 for r in rows],
        f"cross-validated {found['measure']}",
    )
    heads, columns = cells(found)
    story = Story(
        title=f"{found['target']}: {len(found['methods'])} methods compared",
        lead=f"{found['n']:,} rows of {', '.join(data)}; {found['measure']}, smaller is better.",
        facts=[
            ("best", found["best"][0] if len(found["best"]) == 1 else f"a tie of {len(found['best'])}"),
            ("rows", f"{found['n']:,}"),
        ],
        pictures=[Picture("Cross-validated error", drawn, "Lines are one standard error over the folds.")]
        if rows
        else [],
        notes=[
            *found["notes"],
            best(found),
            *(f"{row['method']} was refused: {row['refused']}" for row in found["methods"] if row["refused"]),
        ],
        tables=[("Methods", heads, [list(line) for line in zip(*columns)])],
        command=command_line(),
    )
    write_text(report, page(story))
