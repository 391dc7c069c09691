"""``trueline stream``: learn row by row."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from typing import Annotated, Any

from ..errors import UsageError
from . import options
from .declare import Argument, Option

HEADS = {
    "average_loss": ("average", "loss"), "since_last": ("since", "last"), "counter": ("example", "counter"),
    "weight": ("example", "weight"), "label": ("current", "label"), "prediction": ("current", "predict"),
    "features": ("current", "features"), "best_fixed_loss": ("best", "fixed"),
    "best_member_loss": ("best", "member"), "regret": ("", "regret"), "bound": ("", "bound"),
}  # fmt: skip
LEAST, MOST = 7, 11  # columns of the screen for one of the table
SPARE = (
    "weight",
    "features",
    "since_last",
    "best_fixed_loss",
    "best_member_loss",
    "label",
)  # what a narrow terminal goes without, in this order


def stream(
    data: Annotated[
        list[str],
        Argument(
            help="Files (CSV, NDJSON, Parquet, svmlight, Vowpal Wabbit's text) or - for standard input.",
            show_default=False,
            beside=options.BESIDE,
        ),
    ],
    target: options.Target = None,
    learner: Annotated[
        str,
        Option(
            help="mixture, widrow-hoff, gradient, normalised, implicit, adagrad, exponentiated, recursive, perceptron or winnow."
        ),
    ] = "mixture",
    loss: Annotated[
        str | None,
        Option(
            help="squared, absolute, huber, quantile, logistic, hinge, poisson …; default: by the target.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[str, Option(help="The learning rate, or auto: a mixture of rates with a proof.")] = "auto",
    epochs: Annotated[int, Option(help="Passes over the files.")] = 1,
    features: options.Features = None,
    weights: options.Weights = None,
    where: options.Where = None,
    derive: options.Derive = None,
    missing: options.Missing = "refuse",
    intercept: options.Intercept = True,
    classes: Annotated[
        str | None,
        Option(help="All labels, with commas between, if the first rows may lack some.", show_default=False),
    ] = None,
    form: Annotated[
        str | None,
        Option("--format", help="svmlight or vw, where the file's name does not tell.", show_default=False),
    ] = None,
    certificate: Annotated[bool, Option(help="Keep what the bound needs; without it, learning is faster.")] = True,
    save: Annotated[
        str | None, Option(help="Save the learner here at the end, and on Ctrl-C.", show_default=False)
    ] = None,
    resume: Annotated[
        str | None, Option(help="Go on from a saved learner, as if it had never stopped.", show_default=False)
    ] = None,
    predictions: Annotated[
        str | None,
        Option(
            "--predictions",
            "-p",
            help="Write the prediction made before each row was learned: a file, or - for standard output.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[str | None, Option(help="Write a report here: one HTML file.", show_default=False)] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Learn row by row, each row predicted before it is learned, with the regret against the best fixed weights.

    Prints a row whenever the number of examples has doubled. Ctrl-C ends the run and keeps all that was learned.
    A column that only names the rows is refused: of files before anything is learned, of a pipe at its end, and then
    nothing is saved.

    [bold]Examples[/bold]

    trueline stream clicks.csv --target clicked --save m.tl

    cat more.ndjson | trueline stream - --resume m.tl --save m.tl

    trueline stream day1.vw --learner widrow-hoff --rate 0.01
    """
    from .blocks import text_form
    from .counting import final_row
    from .output import check_apart, check_place
    from .state import Asked, State
    from .streaming import stream as run

    check_apart((save, report, predictions), data)
    check_apart((report, predictions), [resume])  # the learner itself may go on in its own file
    for path in (save, report, None if predictions == "-" else predictions):
        check_place(path)
    state = None
    if resume is not None:
        from .models import open_model
        from .resuming import check_resumed

        opened = open_model(resume)
        state = State.resumed(opened)
        check_resumed(
            state, resume, target=target, learner=learner, loss=loss, rate=rate, features=options.names(features),
            weights=weights, derive=options.derivations(derive), where=where, missing=missing, classes=options.names(classes), form=form, certificate=certificate,
            intercept=intercept,
        )  # fmt: skip
    text = form or (state.form if state is not None else None) or text_form(data)
    for option in options.BESIDE:
        if text and options.beside(data, option) is not None:
            raise UsageError(f"--{option} is for tables, not for {text} text", where=option)
    source: Any = options.one_source(data)
    if resume is not None and not text:
        source = opened.naming(source)
    asked = Asked(
        source, target, options.names(features), weights, where, options.derivations(derive), missing, intercept, form,
        options.names(classes), state.learner if state else learner, loss, rate, epochs, certificate,
        not quiet and predictions != "-",
    )  # fmt: skip
    printer = Printer(json, quiet, sys.stderr if predictions == "-" else sys.stdout)
    with written(predictions) as predicted:
        state = run(asked, state, printer.row, predicted)
    final = final_row(state)
    if state.schema is not None:
        final |= {"columns": state.schema.detected, "notes": asked.notes}
    if save is not None:
        from ..model import save as save_record
        from .command import command_line

        save_record(state.record, save, **state.meta(), source=", ".join(data), command=command_line())
    printer.final(final, state, save, asked.notes)
    if report is not None:
        _report(state, final, data, report)


def _report(state: Any, final: dict[str, Any], data: list[str], report: str) -> None:
    from ..report.html import page
    from .command import command_line
    from .models import Opened
    from .output import write_text
    from .story import stream_story
    from .telling import coefficient_rows

    opened = Opened(report, state.record.kind, state.record, None, state.meta())
    told = {
        "rows": state.rows, "final": final, "target": state.target or "the label", "coefficients": coefficient_rows(opened),
        "learner": f"The {state.learner} learner",
    }  # fmt: skip
    write_text(report, page(stream_story(told, ", ".join(data), command_line())))


class Printer:
    """Progress rows as a table or as JSON lines."""

    def __init__(self, json: bool, quiet: bool, out: Any) -> None:
        self.json, self.quiet, self.out = json, quiet, out
        self.heads: dict[str, tuple[str, str]] = {}  # of the columns that the rows fill
        self.shown: list[tuple[str, int]] = []  # the table's columns and their widths, as its head was printed

    def row(self, row: dict[str, Any]) -> None:
        if self.quiet:
            return
        if self.json:
            from .console import emit, wipe

            wipe()
            emit(row)
            return
        from .console import show, wipe

        wipe()
        if not self.shown:
            self.head(row)
        if "classes" in row:  # the table has room for the likeliest class alone, in the words of the label beside it
            chances = row["prediction"]
            row = row | {"prediction": row["classes"][max(range(len(chances)), key=chances.__getitem__)]}
        cells = [fitting(row.get(key), wide).rjust(wide) for key, wide in self.shown]
        show(" ".join(cells).rstrip(), self.out)

    def head(self, row: dict[str, Any]) -> None:
        """Choose the columns that the first row fills and the screen has room for, and print their heads."""
        from ..report.regret import compared
        from .console import paint, show, width

        other = {"best_fixed_loss", "best_member_loss"} - {compared([row])[0]}
        room, heads = width(), {key: head for key, head in HEADS.items() if key not in other}
        self.heads = dict(heads)
        for key in SPARE:
            if _needed(heads) > room:
                heads.pop(key, None)
        size = max(LEAST, min(MOST, room // len(heads) - 1))
        self.shown = [(key, max(size, *map(len, head))) for key, head in heads.items()]
        for k in range(2):
            line = " ".join(heads[key][k].rjust(wide) for key, wide in self.shown)
            show(paint(line.rstrip(), "bold", self.out), self.out)

    def left_out(self) -> str:
        """What the table had no room for, in a sentence."""
        gone = [" ".join(head).strip() for key, head in self.heads.items() if key not in dict(self.shown)]
        return (
            f"not shown: {', '.join(gone)} (--json, or a screen of {_needed(self.heads)} columns, shows all)"
            if gone
            else ""
        )

    def final(self, row: dict[str, Any], state: Any, save: str | None, notes: list[str]) -> None:
        if self.quiet:
            return
        if self.json:
            self.row(row)
            return
        from .console import paint, say, show, width
        from .telling import certificate_text, wrapped

        if not state.rows or state.rows[-1]["counter"] != row["counter"]:
            self.row(row)
        if gone := self.left_out():
            show(paint("\n".join(wrapped(gone, width())), "dim", self.out), self.out)
        show("", self.out)
        for line in wrapped(certificate_text(row["certificate"]), width()):
            show(line, self.out)
        told = [] if state.schema is None else [state.schema.told_columns(), state.schema.told_missing()]
        for line in (line for note in [*told, *notes] if note for line in wrapped(note, width())):
            print(line, file=self.out)
        if state.interrupted:
            say(
                f"interrupted after {row['counter']:,} examples; all of them are learned"
                + ("" if save else ", but --save was not given")
            )
        if save is not None:
            say(paint(f"learner in {save}", "dim", sys.stderr))


def _needed(heads: dict[str, tuple[str, str]]) -> int:
    """The width of a table with these heads at least."""
    return sum(max(LEAST, *map(len, head)) + 1 for head in heads.values()) - 1


def fitting(value: Any, size: int) -> str:
    """A number in so many columns."""
    from ..report.text import clip, number

    if value is None:
        return "–"
    if isinstance(value, str):
        return clip(value, size)
    if isinstance(value, (int, float)) and math.isfinite(value) and value == int(value) and len(f"{value:.0f}") <= size:
        return f"{value:.0f}"
    if isinstance(value, (int, float)) and 10 ** (size - 2) <= abs(value) < math.inf:
        text = large(float(value), size)
        if text:
            return text
    for digits in range(min(6, size - 1), 2, -1):
        text = number(value, digits)
        if len(text) <= size:
            return text
    short = [
        f"{value:.{digits}e}".replace("e+", "e").replace("e0", "e").replace("e-0", "e-") for digits in (3, 2, 1, 0)
    ]
    return next((text for text in short if len(text) <= size), short[-1])


def large(value: float, size: int) -> str:
    """A number of a thousand times more digits than there is room for, as people say it: 13.9M, 2.04B."""
    for power, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= power and abs(value) < 1e15:
            for digits in (3, 2, 1, 0):
                text = f"{value / power:.{digits}f}{letter}"
                if len(text) <= size:
                    return text
    return ""


@contextlib.contextmanager
def written(path: str | None) -> Iterator[Any]:
    """A function that takes predictions, and the file that they go to."""
    if path is None:
        yield None
        return
    if path == "-":
        yield lambda values, labels, _: _lines(values, sys.stdout, labels, None)
        return
    from .output import whole

    with whole(path) as scratch, open(scratch, "w", encoding="utf-8") as file:
        heads: list[str] = []
        yield lambda values, labels, _: _lines(values, file, labels, heads)


def _lines(values: Any, file: Any, labels: list[Any], heads: list[str] | None) -> None:
    if heads is not None and not heads:
        import csv

        heads += ["prediction"] if values.ndim == 1 else [f"probability {label}" for label in labels]
        csv.writer(file, lineterminator="\n").writerow(heads)
    if values.ndim == 1:
        file.write("\n".join(map(repr, values.tolist())) + "\n")
    else:
        file.write("\n".join(",".join(map(repr, row)) for row in values.tolist()) + "\n")
