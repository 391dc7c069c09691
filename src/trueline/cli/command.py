"""The command line as it was typed, for model files and reports."""

from __future__ import annotations

import shlex

_given: list[str] = []


def remember(arguments: list[str]) -> None:
    """Keep the arguments of this run."""
    _given[:] = arguments


def given(flag: str) -> bool:
    """Whether an option was typed, where its default cannot tell.

    >>> remember(["stream", "a.csv", "--rate=auto"])
    >>> given("--rate"), given("--learner")
    (True, False)
    """
    return any(word == flag or word.startswith(f"{flag}=") for word in _given)


def command_line() -> str:
    """The command that would do this again.

    >>> remember(["fit", "my table.csv", "--target", "y"])
    >>> command_line()
    "trueline fit 'my table.csv' --target y"
    """
    return shlex.join(["trueline", *_given])
