"""What losses and penalties share in Python: fields by name, equality, pickles, and a user's own object behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cython

NO_NAMES: tuple[str, ...] = ()
COMPILED = bool(cython.compiled)


class NamedFunction:
    """A function with parameters, a value like a NamedTuple of them.

    ``_fields`` names the parameters in order. Of a user's own, ``own`` is the object as given, ``methods`` what Python
    calls, and ``remake`` makes this of the object again; of a built-in one they are None.
    """

    _fields = NO_NAMES

    def wrap(self, part: Any, methods: dict[str, Callable[..., float]], remake: Callable[[Any], Any]) -> None:
        """Stand for a user's own object."""
        self.own = part
        self.methods = methods
        self.remake = remake

    @property
    def part(self) -> Any:
        """The user's own object; a built-in one has none."""
        if self.own is None:
            raise AttributeError(f"{self!r} is no user's own")
        return self.own

    def has(self, method: str) -> bool:
        """Whether there is such a method."""
        if self.own is None:
            return True
        return method in self.methods or callable(getattr(self.own, method, None))

    def _asdict(self) -> dict[str, Any]:
        if self.own is None:
            return {name: getattr(self, name) for name in self._fields}
        return {name: getattr(self.own, name) for name in getattr(self.own, "_fields", NO_NAMES)}

    def _replace(self, **fields: float) -> Any:
        if self.own is None:
            return type(self)(**{**self._asdict(), **fields})
        return self.remake(self.own._replace(**fields))

    def __iter__(self) -> Iterator[float]:
        return iter(self._asdict().values())

    def __getattr__(self, name: str) -> Any:
        if name in ("own", "methods", "remake"):  # uncompiled, and a built-in one
            return None
        if self.own is not None and name == "name":
            return getattr(self.own, name, type(self.own).__name__)
        if self.own is not None and not name.startswith("__"):
            return getattr(self.own, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        if self.own is not None:
            return repr(self.own)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

    def __eq__(self, other: object) -> bool:
        if self.own is not None:
            other = other.own if isinstance(other, NamedFunction) else other
            return bool(type(self.own) is type(other) and self.own == other)
        return type(self) is type(other) and self._asdict() == other._asdict()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), *self) if self.own is None else (type(self.own), self.own))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), tuple(self)) if self.own is None else (self.remake, (self.own,))
