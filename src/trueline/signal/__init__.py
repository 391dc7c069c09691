"""Sound: adaptive filters and echo cancellation, the sources' own example of Widrow–Hoff."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {"AdaptiveFilter": "filters", "cancel_echo": "echo", "EchoResult": "echo", "EchoCanceller": "echo"}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'trueline.signal' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
