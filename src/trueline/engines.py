"""Which engine a table belongs to.

Estimators must send a Dask or Spark table to the room that knows its engine, and that room is above them: so the
package registers its engines here, below everybody, and an engine is imported when its first table comes in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_loaders: dict[str, Callable[[], Any]] = {}


def register(package: str, loader: Callable[[], Any]) -> None:
    """Tables whose type comes from this package belong to the module that ``loader`` imports."""
    _loaders[package] = loader


def engine_of(source: Any) -> Any | None:
    """The module with ``scan``, ``predict`` and ``fit`` for a table of another engine; None for all else.

    >>> engine_of([1.0, 2.0]) is None
    True
    """
    loader = _loaders.get(type(source).__module__.partition(".")[0])
    return None if loader is None else loader()
