"""The tree of commands: which there are, where each lives, and the help above them all."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
from typing import Any, NamedTuple

from ..errors import UsageError, nearest
from .console import paint, width


class Entry(NamedTuple):
    """One command: where its function lives and what it does, in a line."""

    place: str
    line: str


GROUPS: dict[str, dict[str, Entry]] = {
    "Learn": {
        "fit": Entry("trueline.cli.fit:fit", "A table to a model in one scan: coefficients, intervals, certificate."),
        "stream": Entry(
            "trueline.cli.stream:stream", "Learn row by row as the data arrive, with the regret beside it."
        ),
        "compare": Entry(
            "trueline.cli.compare:compare", "Every model and online learner that fits the task, in one table."
        ),
    },
    "Use": {
        "predict": Entry("trueline.cli.predict:predict", "Predict from a saved model, with intervals on request."),
        "evaluate": Entry("trueline.cli.evaluate:evaluate", "Measure a saved model on other data, with intervals."),
        "export": Entry("trueline.cli.export:export", "A model as SQL, JSON, ONNX, Python or C, checked to agree."),
        "serve": Entry("trueline.serve:command", "The same model, live: predict now, learn when the label arrives."),
    },
    "Trust": {
        "inspect": Entry("trueline.cli.inspect:inspect", "What a model is, what it was trained on, what it proves."),
        "verify": Entry("trueline.cli.verify:verify", "Recompute a certificate from the data, by other code."),
    },
    "Try": {
        "demo": Entry("trueline.cli.demo:demo", "The main job end to end, on data that ship with the package."),
        "echo": Entry("trueline.cli.echo:echo", "Remove the echo of one recording from another."),
    },
}

EXAMPLES = (
    ("trueline fit houses.csv --target price", "coefficients, intervals, certificate"),
    ("trueline fit houses.csv --target price -o m.tl --report m.html", "keep the model and a report"),
    ("trueline predict m.tl new.csv", "predictions to standard output"),
    ("cat clicks.ndjson | trueline stream - --target clicked", "learn from a pipe"),
    ("trueline verify m.tl houses.csv", "check the claim with other code"),
)


def commands() -> dict[str, Entry]:
    """Every command by its name."""
    return {name: entry for group in GROUPS.values() for name, entry in group.items()}


def run(arguments: list[str]) -> int:
    """Dispatch one command line."""
    if "_TRUELINE_COMPLETE" in os.environ or (
        arguments and arguments[0] in ("--install-completion", "--show-completion")
    ):
        return _complete(arguments)
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        if len(arguments) > 1 and arguments[0] == "help":
            return run([arguments[1], "--help"])
        print(overview())
        return 0
    if arguments[0] in ("--version", "-V"):
        from .. import __version__

        print(f"trueline {__version__}")
        return 0
    name, known = arguments[0], commands()
    if name not in known:
        what = "option" if name.startswith("-") else "command"
        choices = ("--help", "--version", "--install-completion") if what == "option" else known
        raise UsageError(f"there is no {what} {name!r}{nearest(name, choices)}", where=what)
    from .command import remember

    remember(arguments)
    from .declare import read

    function = _function(name)
    values = read(function, arguments[1:])
    if values is not None:
        result = function(**values)
        return result if isinstance(result, int) else 0
    return _typed(name, arguments[1:])


def _typed(name: str, arguments: list[str]) -> int:
    """By way of Typer, which knows help and every way to be wrong."""
    from typer import Exit

    command = load(name)

    try:
        with command.make_context(f"trueline {name}", list(arguments)) as context:
            result = command.invoke(context)
    except Exit as end:
        return end.exit_code
    except Exception as error:
        parameter = getattr(error, "param", None)
        if type(error).__name__ == "BadParameter" and parameter is not None:
            from .declare import wrong_number

            refusal = wrong_number(_function(name), parameter.name, parameter.opts, arguments)
            if refusal is not None:
                raise refusal from None
        raise
    return result if isinstance(result, int) else 0


def load(name: str) -> Any:
    """The Typer command of this name, built from its function."""
    import typer

    from .declare import for_typer

    application = typer.Typer(add_completion=False, rich_markup_mode="rich")
    application.command(name)(for_typer(_function(name)))
    return typer.main.get_command(application)


def overview() -> str:
    """The help above all commands: groups, one line each, examples."""
    room = min(width(), 100)
    lines = [
        f"{paint('trueline', 'bold')}: linear learning with proof.",
        "Every result carries a certificate that anyone can check.",
        "",
        f"{paint('Usage:', 'bold')} trueline COMMAND …    trueline COMMAND --help    trueline --version",
    ]
    for group, entries in GROUPS.items():
        lines += ["", paint(group, "bold")]
        for name, entry in entries.items():
            body = textwrap.wrap(entry.line, room - 13) or [""]
            lines.append(f"  {paint(name.ljust(9), 'cyan')}  {body[0]}")
            lines += [" " * 13 + more for more in body[1:]]
    lines += ["", paint("Examples", "bold")]
    longest = max(len(example) for example, _ in EXAMPLES)
    for example, meaning in EXAMPLES:
        beside = f"  {example.ljust(longest)}  {paint(meaning, 'dim')}"
        lines.append(beside if 4 + longest + len(meaning) <= room else f"  {example}")
    lines += [
        "",
        "Every command takes --json. Data go to standard output, messages to standard error.",
        "Exit codes: 0 ok, 1 failure, 2 usage, 3 data, 4 model.",
        "Shell completion: trueline --install-completion",
    ]
    return "\n".join(wrapped for line in lines for wrapped in _wrap(line, room))


def _wrap(line: str, room: int) -> list[str]:
    if "\033" in line or line.startswith("  ") or len(line) <= room:
        return [line]
    return textwrap.wrap(line, room)


def _function(name: str) -> Any:
    module, _, function = commands()[name].place.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("trueline"):
            raise
        raise UsageError(f"the command {name!r} is not part of this installation", where=name) from None


def _complete(arguments: list[str]) -> int:
    """Shell completion needs the whole tree at once: the only time that every command is imported."""
    import typer

    from .declare import for_typer

    application = typer.Typer(add_completion=True, no_args_is_help=True)
    for name in commands():
        try:
            application.command(name)(for_typer(_function(name)))
        except (UsageError, ModuleNotFoundError):
            continue
    try:
        typer.main.get_command(application).main(arguments, prog_name="trueline", standalone_mode=False)
    except SystemExit as end:
        sys.stdout.flush()
        return int(end.code or 0)
    return 0
