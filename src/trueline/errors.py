"""The refusals of every door: one sentence each, with the exit code that the command line gives it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from typing import Any


def printable(text: str) -> str:
    r"""Control characters shown, never sent: a name must not move the cursor, paint the screen or begin a line.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class TruelineError(ValueError):
    """A refusal: one sentence that names the place and the remedy.

    >>> error = DataError("column 'fare' has 3 missing values, the first in row 17", where="fare")
    >>> error.exit_code, error.where
    (3, 'fare')
    """

    kind = "failure"
    exit_code = 1

    def __init__(self, message: str, *, where: str | None = None) -> None:
        message = printable(message)
        super().__init__(message)
        self.message = message
        self.where = where

    def to_dict(self) -> dict[str, Any]:
        return {"error": {"kind": self.kind, "message": self.message, "where": self.where}}


class UsageError(TruelineError):
    """The call is wrong: an unknown option, method or name."""

    kind = "usage"
    exit_code = 2


class DataError(TruelineError):
    """The data cannot be used as they are."""

    kind = "data"
    exit_code = 3


class ModelError(TruelineError):
    """A model file, a journal or a certificate does not hold."""

    kind = "model"
    exit_code = 4


def named_options(function: Any) -> Any:
    """A public function whose unknown options are refused by name, with the nearest one that it takes."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def guarded(*args: Any, **options: Any) -> Any:
        for name in options:
            if name not in known:
                raise unknown_option(f"tl.{function.__name__}", name, known)
        return function(*args, **options)

    return guarded


def unknown_option(where: str, name: str, known: Iterable[str]) -> UsageError:
    """The refusal of an option that nobody takes."""
    return UsageError(f"{where} has no option {name!r}{nearest(name, list(known))}", where=name)


def nearest(name: str, known: Any) -> str:
    """``"; did you mean 'ridge'?"`` where some known name is close, otherwise the list of them."""
    import difflib

    names = list(dict.fromkeys(str(item) for item in known))
    same = [item for item in names if item.lower() == name.lower()]
    close = same or difflib.get_close_matches(name, names, 1, 0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"; known are {shown}"


def warn_caller(message: str, category: type[Warning]) -> None:
    """A warning that points at the line which called trueline, however deep inside it arose."""
    import inspect
    import warnings

    package = __name__.partition(".")[0]
    level, frame = 1, inspect.currentframe()
    while (
        frame is not None
        and frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] in (package, "sklearn")
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
