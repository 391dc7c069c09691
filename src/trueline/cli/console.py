"""The terminal: its width, whether it takes colours, where messages go, progress on anything over a second."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

from ..errors import printable

PATIENCE, BETWEEN = 1.0, 0.1  # seconds before a bar is shown, and between two drawings of it
_drawn = False  # whether a bar stands on the terminal
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_PAINTED = re.compile(rf"(\n|\033\[(?:0|{'|'.join(_CODES.values())})m)")


def colours(stream: TextIO | None = None) -> bool:
    """Whether this stream is a terminal that wants colours."""
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a style, where the stream takes it."""
    return f"\033[{_CODES[style]}m{text}\033[0m" if colours(stream) else text


def width() -> int:
    """The columns that there are: COLUMNS, the terminal's (also when only messages go to it), or 100 without one."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return max(40, shutil.get_terminal_size((80, 24)).columns)
    with contextlib.suppress(OSError, ValueError):
        return max(40, os.get_terminal_size(sys.stderr.fileno()).columns)
    return 100


def say(text: str) -> None:
    """A message to the person, on standard error."""
    show(text, sys.stderr)


def show(text: str, stream: TextIO | None = None, end: str = "\n") -> None:
    """Text for a person: lines and our own colours, every other control character as its escape."""
    stream = sys.stdout if stream is None else stream
    if not text.isprintable():
        pieces = _PAINTED.split(text) if colours(stream) else re.split("(\n)", text)
        text = "".join(piece if at % 2 else printable(piece) for at, piece in enumerate(pieces))
    print(text, end=end, file=stream, flush=True)


def emit(record: Any) -> None:
    """One JSON object on one line of standard output: full precision, null for what is not a finite number."""
    print(json_line(plain(record)), flush=True)


def json_line(record: Any) -> str:
    r"""JSON on one line, in which every character that a terminal could obey is an escape.

    >>> print(json_line({"a": "ü\x9b2J"}))
    {"a": "ü\u009b2J"}
    """
    text = json.dumps(record, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def plain(value: Any) -> Any:
    """Numbers, strings, lists and dicts that JSON can hold."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return str(value)


def progress(items: Iterable[Any], label: str, count: Any = None, total: int | None = None) -> Iterator[Any]:
    """Pass items through; after a second show how far it is on standard error, if that is a terminal.

    ``count(item)`` says how many rows an item holds; ``total`` how many there will be, if known.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    began = shown = time.perf_counter()
    done = 0
    try:
        for item in items:
            yield item
            done += 1 if count is None else count(item)
            now = time.perf_counter()
            if now - began > PATIENCE and now - shown > BETWEEN:
                shown = now
                _bar(label, done, total, now - began)
    finally:
        wipe()


def _bar(label: str, done: int, total: int | None, seconds: float) -> None:
    speed = f"{done:,} rows, {done / seconds:,.0f} a second"
    if total:
        full = round(24 * min(1.0, done / total))
        left = (total - done) * seconds / max(done, 1)
        speed = f"{'━' * full}{'╌' * (24 - full)} {done / total:4.0%}, {left:.0f} s left"
    global _drawn
    _drawn = True
    room = shutil.get_terminal_size((80, 24)).columns - 1
    print("\r\033[K" + printable(f"{label}: {speed}")[:room], end="", file=sys.stderr, flush=True)


def wipe() -> None:
    """Take away the bar, before something else is printed to the same terminal."""
    global _drawn
    if _drawn:
        _drawn = False
        print("\r\033[K", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def waiting(label: str | Callable[[], str]) -> Iterator[None]:
    """Show a label and the seconds while something that cannot count its work runs for more than one."""
    if not sys.stderr.isatty():
        yield
        return
    import threading

    over = threading.Event()

    def tick() -> None:
        began = time.perf_counter()
        while not over.wait(0.2):
            if (spent := time.perf_counter() - began) > PATIENCE:
                text = f"{label if isinstance(label, str) else label()}: {spent:.0f} s"
                room = shutil.get_terminal_size((80, 24)).columns - 1
                print(f"\r\033[K{printable(text)[:room]}", end="", file=sys.stderr, flush=True)

    clock = threading.Thread(target=tick, daemon=True)
    clock.start()
    try:
        yield
    finally:
        over.set()
        clock.join()
        print("\r\033[K", end="", file=sys.stderr, flush=True)
