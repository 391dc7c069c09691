"""The live service: predict now, learn when the label arrives, lose nothing.

shape.py and spec.py say what a model accepts; store.py keeps rows; service.py learns each label once; wire.py and app.py
are its HTTP edge, protocol.py its limits, guard.py its tokens; client.py calls it.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "command":
        from .launch import serve

        return serve
    if name in ("Client", "AsyncClient"):
        from . import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
