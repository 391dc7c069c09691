"""The verifier's third part: models that are not a line, each certificate's numbers recomputed from the data."""

from __future__ import annotations

from collections.abc import Callable

BEYOND: dict[str, Callable[..., None]] = {}
