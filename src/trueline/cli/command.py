"""The command line as it was typed, for model files and reports."""

from __future__ import annotations

import shlex

_given: list[str] = []


def remember(arguments: list[str]) -> None:
    """Keep the arguments of this run."""
    _given[:] = arguments


def command_line() -> str:
    """The command that would do this again.

    >>> remember(["fit", "my table.csv", "--target", "y"])
    >>> command_line()
    "trueline fit 'my table.csv' --target y"
    """
    return shlex.join(["trueline", *_given])
