"""The one door through which every part enters: a name or a user's own NamedTuple becomes a part ready to run."""

from __future__ import annotations

from numbers import Real
from typing import Any

from ..errors import ModelError, UsageError, nearest


def part(given: Any, known: dict[str, Any], role: str, needed: tuple[str, ...], fields: dict[str, float]) -> Any:
    """One door for every role: resolve a name, check the methods, coerce fields to float."""
    if isinstance(given, str):
        if given not in known:
            raise UsageError(f"there is no {role} named {given!r}{nearest(given, known)}", where=role)
        given = known[given](**fields)
    if isinstance(given, type) and issubclass(given, tuple):
        given = given(**fields)
    missing = [name for name in needed if not callable(getattr(given, name, None))]
    if missing or not isinstance(given, tuple) or not getattr(given, "_fields", ()):
        lack = f"it lacks {', '.join(missing)}" if missing else "it is not a NamedTuple with at least one field"
        raise UsageError(
            f"{given!r} cannot serve as a {role}: {lack}; give one of {', '.join(known)} or a NamedTuple with "
            f"the methods {', '.join(needed)}",
            where=role,
        )
    made: Any = type(given)
    return made(*(float(v) if isinstance(v, Real) else v for v in given))


def describe(given: Any) -> dict[str, Any]:
    """A part as its class's name and its fields."""
    made = type(given)
    return {"name": f"{made.__module__}.{made.__qualname__}", "fields": [float(v) for v in given]}


def rebuild(described: dict[str, Any], known: dict[str, Any], role: str, parts: Any = ()) -> Any:
    """The part that ``describe`` described, of the built-in ones or of those handed in."""
    classes = [*known.values(), *(item if isinstance(item, type) else type(item) for item in parts)]
    by_name = {f"{made.__module__}.{made.__qualname__}": made for made in classes}
    name = described["name"]
    made = by_name.get(name) or own_class(name, classes[len(known) :])
    if made is None:
        raise lacking_part(name, role)
    return part(made(*described["fields"]), known, role, (), {})


def own_class(name: str, classes: list[Any]) -> Any:
    """A script's own part lives in __main__ today and may live in a module tomorrow: its last name decides."""
    same = [cls for cls in classes if cls.__qualname__ == name.rpartition(".")[2]]
    return same[0] if len(same) == 1 else None


def lacking_part(name: str, role: str) -> ModelError:
    """The refusal of a file whose part nobody handed in."""
    return ModelError(
        f"the file uses the {role} {name}, which is not part of trueline; hand its class in: load(path, "
        f"parts=[{name.rpartition('.')[2]}])",
        where=role,
    )
