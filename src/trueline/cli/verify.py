"""``trueline verify``: a certificate recomputed from the data by code that shares nothing with the solvers."""

from __future__ import annotations

from . import options


def verify(model: options.Model, data: options.Source, json: options.Json = False) -> int:
    """Recompute what a model's certificate claims from its training data. Exit code 0 if all of it holds, 4 if not.

    Online learners are replayed, so their rows must come in the order of training.

    [bold]Example[/bold]

    trueline verify m.tl houses.csv
    """
    from ..certify.verify import verify as check
    from .console import emit, paint, waiting
    from .models import open_model
    from .rows import training_rows
    from .streaming import replayed

    opened = open_model(model)
    with waiting("verifying"):
        source = options.one_source(data)
        again = (lambda X, y, c: replayed(opened, source)) if "stream_terms" in opened.meta else None
        result = check(opened.record, training_rows(opened, source), replay=again)
    if json:
        emit(result.to_dict())
    else:
        print(_table(result))
        print(paint(f"{model}: {result}", "green" if result.ok else "red"))
    return 0 if result.ok else 4


def _table(result: object) -> str:
    from ..report.text import number, table
    from .console import paint, width

    def shown(value: object) -> str:
        return (
            number(value, 6)
            if isinstance(value, (int, float)) and not isinstance(value, bool)
            else "–"
            if value is None
            else str(value)
        )

    checks = result.checks  # type: ignore[attr-defined]
    columns = [
        [check.claim.replace("_", " ") for check in checks],
        [shown(check.claimed) for check in checks],
        [shown(check.found) for check in checks],
        ["holds" if check.held else "FAILS" for check in checks],
    ]
    return table(
        ["claim", "claimed", "found", ""],
        columns,
        room=width(),
        paint=paint,
        marks=["" if c.held else "red" for c in checks],
    )
