"""The one door through which every part enters: a name or a user's own NamedTuple becomes a part ready to run."""

from __future__ import annotations

from typing import Any

from .._jit import teach
from ..errors import UsageError, nearest


def part(given: Any, known: dict[str, Any], role: str, needed: tuple[str, ...], fields: dict[str, float]) -> Any:
    """One door for every role: resolve a name, check the methods, coerce fields to float, teach the compiler."""
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
    # An int field would make another specialisation of every kernel.
    made: Any = type(given)
    given = made(*(float(v) if isinstance(v, (int, float)) else v for v in given))
    teach(given)
    return given
