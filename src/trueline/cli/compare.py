"""``trueline compare``: every learner and solver that fits the task, side by side."""

from __future__ import annotations

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
    folds: Annotated[int, Option(help="Folds of the cross-validation.")] = 5,
    report: Annotated[
        str | None, Option(help="Write a report with the plot here: one HTML file.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> None:
    """Run every learner and solver that fits the task on the same rows, and rank them.

    Progressive error is that of predicting each row before learning it, in order; cross-validated error that of
    predicting rows left out. Both are root mean squared errors for numbers, and log losses for two classes.

    [bold]Example[/bold]

    trueline compare houses.csv --target price
    """
    from .comparing import compared
    from .console import emit
    from .output import check_apart, check_place

    check_apart([report], data)
    check_place(report)
    found = compared(
        options.one_source(data), options.required(target, "target", "the column to predict"), options.names(features),
        where, options.derivations(derive), missing, folds,
    )  # fmt: skip
    if report is not None:
        _report(found, data, report)
    if json:
        emit(found)
    else:
        print(told(found))


def told(found: dict[str, Any]) -> str:
    """The ranking as a table with bars."""
    from ..report.text import bars, number, table
    from .console import paint, width

    rows = found["methods"]
    best = [row["cross_validated"] if row["cross_validated"] is not None else row["progressive"] for row in rows]
    columns = [
        [row["method"] for row in rows],
        [number(row["progressive"]) for row in rows],
        [number(row["cross_validated"]) for row in rows],
        [number(row["std_error"], 3) for row in rows],
        [f"{row['seconds']:.2f}" for row in rows],
        [row["certificate"] for row in rows],
    ]
    heads = ["method", "progressive", "cross-val.", "±", "seconds", "certificate"]
    room = width()
    text = table(heads, columns, room=room, paint=paint)
    text += "".join(f"\n{row['method']} was refused: {row['refused']}" for row in rows if row["refused"])
    drawn = bars([value if value is not None else float("nan") for value in best], max(10, room - 34))
    plot = [f"  {row['method'][:22].ljust(22)} {bar} {number(value, 4)}" for row, bar, value in zip(rows, drawn, best)]
    head = f"{found['target']}, {found['n']:,} rows, {found['task']}: {found['measure']} (smaller is better)"
    return "\n".join([paint(head, "bold"), "", text, "", *plot])


def _report(found: dict[str, Any], data: list[str], report: str) -> None:
    from ..report import figures
    from ..report.html import Picture, Story, page
    from ..report.text import number
    from .command import command_line
    from .output import write_text

    rows = [row for row in found["methods"] if row["cross_validated"] is not None]
    drawn = figures.ranking(
        [r["method"] for r in rows],
        [r["cross_validated"] for r in rows],
        [r["std_error"] or 0.0 for r in rows],
        f"cross-validated {found['measure']}",
    )
    body = [
        [
            r["method"],
            number(r["progressive"]),
            number(r["cross_validated"]),
            number(r["std_error"], 3),
            f"{r['seconds']:.2f}",
            r["certificate"],
        ]
        for r in found["methods"]
    ]
    story = Story(
        title=f"{found['target']}: {len(found['methods'])} methods compared",
        lead=f"{found['n']:,} rows of {', '.join(data)}; {found['measure']}, smaller is better.",
        facts=[("best", found["methods"][0]["method"]), ("rows", f"{found['n']:,}")],
        pictures=[Picture("Cross-validated error", drawn, "Lines are one standard error over the folds.")]
        if rows
        else [],
        tables=[("Methods", ["method", "progressive", "cross-validated", "±", "seconds", "certificate"], body)],
        command=command_line(),
    )
    write_text(report, page(story))
