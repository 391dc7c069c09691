"""The command line: a thin edge. ``main`` finds the command, runs it, and turns every refusal into one sentence.

Nothing is imported that the command does not use: the tree of commands is a table of strings (tree.py), the top
help is drawn from it without Typer, and a command's module brings in what it needs when it runs. Data go to
standard output, messages and progress to standard error. Exit codes: 0 ok, 1 failure, 2 usage, 3 data, 4 model.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence

from ..errors import TruelineError, UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    >>> main(["--version"])
    trueline 0.1.0
    0
    """
    if argv is None:
        _encode_output()
    return _run(argv)


def _encode_output() -> None:
    """Files and pipes get UTF-8 in every locale; a terminal gets what it can show, and codes for the rest."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8")


def _run(argv: Sequence[str] | None) -> int:
    from .tree import run

    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            with warnings.catch_warnings():
                # What a warning would say stands in the certificate's status and in the notes.
                warnings.simplefilter("ignore" if not os.environ.get("TRUELINE_TRACEBACK") else "default")
                return run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has what it wanted (`| head`): that is no failure, and Python must not complain at exit.
        if argv is None:
            _silence()
        return 0
    except TruelineError as error:
        return _refuse(error, arguments)
    except KeyboardInterrupt:
        print("trueline: interrupted; nothing was written", file=sys.stderr)
        return 130
    except Exception as error:
        if os.environ.get("TRUELINE_TRACEBACK"):
            raise
        return _refuse(_sentence(error), arguments)


def _refuse(error: TruelineError, arguments: Sequence[str]) -> int:
    error.message = in_options(error.message)
    if "--json" in arguments:
        from .console import json_line

        try:
            print(json_line(error.to_dict()), flush=True)
            return error.exit_code
        except OSError:  # standard output itself is what cannot be written
            _silence()
    from .console import paint, say

    message = " ".join(error.message.split())
    say(f"{paint('trueline:', 'red', sys.stderr)} {message}")
    return error.exit_code


def in_options(message: str) -> str:
    """A message in the words of the command line, where the library speaks of Python's arguments.

    >>> in_options('remove them, or choose missing="drop", "mean" or "indicator"')
    'remove them, or choose --missing drop, mean or indicator'
    """
    import re

    choice = re.compile(r'\b(missing|unseen)=("\w+"(?:, "\w+")*(?: or "\w+")?)')
    return choice.sub(lambda found: f"--{found[1]} {found[2].replace(chr(34), '')}", message)


def _silence() -> None:
    """Nothing more goes to standard output, and Python must not complain of that at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sentence(error: Exception) -> TruelineError:
    """The refusal that an exception of another library amounts to."""
    from ..errors import DataError

    module = type(error).__module__
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if module.startswith("typer") or hasattr(error, "format_message"):
        text = error.format_message() if hasattr(error, "format_message") else first
        text = text.strip().rstrip(".")
        return UsageError(f"{text[:1].lower() + text[1:]}; see `trueline --help`", where=_parameter(error))
    if module.startswith("polars"):
        return DataError(f"the data cannot be read: {first}; check the file and the columns named", where="data")
    if isinstance(error, OSError):
        place = f" {error.filename}" if error.filename else ""
        return TruelineError(
            f"cannot read or write{place}: {error.strerror or first}; choose another place or free some space",
            where=str(error.filename) if error.filename else None,
        )
    if isinstance(error, MemoryError):
        return TruelineError(
            "there is not enough memory for this; use fewer columns or a smaller block", where="memory"
        )
    if isinstance(error, ModuleNotFoundError):
        return TruelineError(
            f"this needs {error.name}, which is not installed; try pip install 'trueline[all]'", where=error.name
        )
    return TruelineError(
        f"unexpected {type(error).__name__}: {first}; set TRUELINE_TRACEBACK=1 to see where, and please report it"
    )


def _parameter(error: Exception) -> str | None:
    parameter = getattr(error, "param", None)
    return getattr(error, "option_name", None) or getattr(parameter, "name", None)
