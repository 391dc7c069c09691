"""How a command declares its options, and how they are read without Typer.

Typer draws help, completion and refusals, but its import takes as long as the whole of a short command. So commands
declare options in these words; a command line that is plainly right is read here, and every other one, wrong or asking
for help, goes to Typer, which is given the same declarations.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import UsageError

PLAIN = {int: re.compile(r"[0-9]+"), float: re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")}


class Argument:
    """A value by its place; ``beside`` are options that belong to it, so that every command with it has them."""

    def __init__(self, *, help: str, show_default: bool = True, beside: dict[str, Option] | None = None) -> None:
        self.flags: tuple[str, ...] = ()
        self.help, self.show_default = help, show_default
        self.beside = beside or {}


class Option(Argument):
    """A value by its name: the given flags, or the parameter's own name."""

    def __init__(self, *flags: str, help: str, show_default: bool = True) -> None:
        super().__init__(help=help, show_default=show_default)
        self.flags = flags


class Told(list[str]):
    """The values of an argument, and what the options beside it said."""

    def __init__(self, values: Sequence[str], told: dict[str, str]) -> None:
        super().__init__(values)
        self.told = told


def declared(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """(type, declaration) of each parameter; the declaration is None for what was declared in other words."""
    found = {}
    for name, hint in typing.get_type_hints(function, include_extras=True).items():
        if name != "return":
            kind, *notes = typing.get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
            found[name] = kind, next((note for note in notes if isinstance(note, Argument)), None)
    return found | {name: (str | None, option) for name, option in _beside(found).items()}


def _beside(found: dict[str, tuple[Any, Any]]) -> dict[str, Option]:
    return {name: option for _, note in found.values() if note is not None for name, option in note.beside.items()}


def _together(function: Callable[..., Any], values: dict[str, Any]) -> dict[str, Any]:
    """The values with which to call: options beside an argument go with it."""
    for name, (_, note) in declared(function).items():
        told = {option: values.pop(option, None) for option in (note.beside if note is not None else ())}
        if any(value is not None for value in told.values()):
            values[name] = Told(values[name], {k: v for k, v in told.items() if v is not None})
    return values


def read(function: Callable[..., Any], given: Sequence[str]) -> dict[str, Any] | None:
    """The values of a command line that is plainly right, or None.

    >>> from typing import Annotated
    >>> def cut(name: Annotated[str, Argument(help="")], to: Annotated[int, Option("-n", help="")] = 1): ...
    >>> read(cut, ["rope", "-n", "3"]), read(cut, ["rope", "--help"])
    ({'to': 3, 'name': 'rope'}, None)
    """
    places: list[tuple[str, Any]] = []
    flags: dict[str, tuple[str, Any, Any]] = {}  # parameter, type, and the value of a switch
    for name, (hint, note) in declared(function).items():
        if note is None:
            return None
        kind = _without_none(hint)
        if not isinstance(note, Option):
            places.append((name, kind))
        elif kind is bool:
            for flag in note.flags or (f"--{_dashed(name)}",):
                flags[flag] = name, bool, True
            if not note.flags:
                flags[f"--no-{_dashed(name)}"] = name, bool, False
        else:
            flags |= dict.fromkeys(note.flags or (f"--{_dashed(name)}",), (name, kind, None))
    values: dict[str, Any] = {}
    loose: list[str] = []
    words = iter(given)
    for word in words:
        if word == "-" or not word.startswith("-"):
            loose.append(word)
            continue
        flag, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        if flag not in flags:
            return None
        name, kind, switched = flags[flag]
        if kind is bool:
            if equals:
                return None
            values[name] = switched
            continue
        value = _value(kind, text if equals else next(words, "-?"))
        if value is None:
            return None
        values[name] = [*values.get(name, []), value] if kind == list[str] else value
    for name, kind in places:
        if kind == list[str]:
            taken, loose = loose, []
            if not taken:
                return None
            values[name] = taken
        elif loose:
            if kind is not str:
                return None
            values[name] = loose.pop(0)
    if loose or "" in values.values():
        return None
    missing = (p for p in inspect.signature(function).parameters.values() if p.default is p.empty)
    return _together(function, values) if all(p.name in values for p in missing) else None


def wrong_number(
    function: Callable[..., Any], name: str, flags: Sequence[str], given: Sequence[str]
) -> UsageError | None:
    """The refusal of a command line whose value of this parameter is no number of its range; None for other kinds."""
    hint = typing.get_type_hints(function, include_extras=True).get(name)
    kind, *notes = typing.get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
    wanted = {int: "a whole number", float: "a number"}.get(_without_none(kind))
    if wanted is None:
        return None
    low, high = (
        next((v for note in notes if (v := getattr(note, end, None)) is not None), None) for end in ("min", "max")
    )
    if low is not None:
        wanted += f" of at least {low}" if high is None else f" from {low} to {high}"
    found = [text for word, text in zip(given, [*given[1:], ""]) if word in flags]
    found += [word.partition("=")[2] for word in given if word.partition("=")[0] in flags and "=" in word]
    shown = f", not {found[-1]!r}" if found else ""
    return UsageError(f"{flags[0]} is {wanted}{shown}", where=name)


def for_typer(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, declared in Typer's words."""
    import typer

    heard: dict[str, Any] = {}  # of options beside an argument, which the function itself does not have

    def told(hint: Any, note: Any, **more: Any) -> Any:
        kind: Any = typer.Option if isinstance(note, Option) else typer.Argument
        return typing.Annotated[hint, kind(*note.flags, help=note.help, show_default=note.show_default, **more)]

    def hearing(name: str) -> Callable[[str | None], None]:
        def hear(value: str | None) -> None:
            heard[name] = value

        return hear

    @functools.wraps(function)
    def call(*args: Any, **values: Any) -> Any:
        return function(*args, **_together(function, values | heard))

    known = declared(function)
    hints = {name: told(*pair) for name, pair in known.items() if pair[1] is not None}
    for name in _beside(known):
        hints[name] = told(*known[name], callback=hearing(name), expose_value=False)
    if not hints:
        return function
    signature = inspect.signature(function)
    own = [p.replace(annotation=hints.get(p.name, p.annotation)) for p in signature.parameters.values()]
    alone = inspect.Parameter.KEYWORD_ONLY
    own += [inspect.Parameter(name, alone, default=None, annotation=hints[name]) for name in _beside(known)]
    call.__signature__ = signature.replace(parameters=own, return_annotation=signature.empty)  # type: ignore[attr-defined]
    call.__annotations__ = hints
    del call.__wrapped__  # type: ignore[attr-defined]
    return call


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else None
    return hint


def _value(kind: Any, text: str) -> Any:
    """The value of an option, or None where that is for Typer to judge."""
    if kind in PLAIN:
        return kind(text) if PLAIN[kind].fullmatch(text) else None
    return text if kind in (str, list[str]) and text and (text == "-" or not text.startswith("-")) else None
