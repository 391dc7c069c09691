"""``trueline demo``: the main job end to end, on the table that ships with the package."""

from __future__ import annotations

from typing import Annotated

from . import options
from .declare import Argument

FOLDER = "demo-output"
STEPS = (
    (
        "1. What does the rent of a flat depend on? Every column gets a coefficient with its interval; the line that begins with 'proven' says how many digits of them are right.",
        "fit {}/rents.csv --target rent -o {}/rent.tl --report {}/rent.html",
    ),
    (
        "2. Nobody has to believe that: other code computes each claim again from the table.",
        "verify {}/rent.tl {}/rents.csv",
    ),
    (
        "3. The same rows one by one, each predicted before it is learned. The regret is what that cost against the best fixed weights, the bound what it may cost at most.",
        "stream {}/rents.csv --target rent --save {}/stream.tl --report {}/stream.html",
    ),
    (
        "4. A target of yes and no: logistic regression, measured on a fifth of the rows that it has not seen.",
        "fit {}/rents.csv --target let_quickly --holdout 0.2 --report {}/let_quickly.html",
    ),
    (
        "5. The first model as a query that a database can run.",
        "export {}/rent.tl --to sql -o {}/rent.sql",
    ),
)


def demo(
    folder: Annotated[str, Argument(help="Where to put what it makes.")] = FOLDER,
    json: options.Json = False,
) -> None:
    """Fit, verify, stream and report on 3,000 invented flats; then say what was written and what to try next."""
    import shutil
    from pathlib import Path

    from ..demo import RENTS
    from ..errors import TruelineError
    from .console import emit, paint, show, width
    from .telling import wrapped

    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(RENTS, place / "rents.csv")
    except OSError as error:
        raise TruelineError(f"cannot write to {folder}: {error.strerror}; name another folder", where=folder) from None
    for why, step in STEPS:
        command = [word.format(folder) for word in step.split()]
        if not json:
            for line in wrapped(why, width()):
                show(f"\n{line}" if line[:1] != " " else line)
            show(f"{paint('$ trueline ' + ' '.join(command), 'bold')}\n")
        _run(command, json)
    files = [
        str(place / name)
        for name in ("rents.csv", "rent.tl", "rent.html", "stream.tl", "stream.html", "let_quickly.html", "rent.sql")
    ]
    if json:
        emit({"files": files})
        return
    show(f"\n{paint('Written', 'bold')}")
    for file in files:
        show(f"  {file}")
    show(f"\n{paint('Try next', 'bold')}")
    for line in (
        f"open {folder}/rent.html in a browser",
        f"trueline inspect {folder}/rent.tl",
        f"trueline predict {folder}/rent.tl {folder}/rents.csv --interval 0.95 --keep rent",
        f"trueline compare {folder}/rents.csv --target rent",
        f"trueline export {folder}/rent.tl --to python",
    ):
        show(f"  {line}")


def _run(command: list[str], silent: bool) -> None:
    """One step, as the shell would run it; its failure is the demo's."""
    import contextlib
    import io

    from ..errors import TruelineError
    from .tree import run

    with contextlib.redirect_stdout(io.StringIO()) if silent else contextlib.nullcontext():
        code = run(command)
    if code:
        raise TruelineError(f"the step `trueline {' '.join(command)}` ended with {code}", where=command[0])
