"""Text for the terminal: tables whose numbers stand on their decimal points and whose width fits the screen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any


def number(value: Any, digits: int = 5) -> str:
    """A number in so many significant digits, no exponent where none is needed.

    >>> number(1234.5678), number(0.00012), number(12), number(3.2e-9), number(float("nan"))
    ('1234.6', '0.00012000', '12', '3.2000e-09', '–')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, (int,)) and not isinstance(value, bool):
        return str(value)
    size = abs(float(value))
    if math.isinf(size):
        return "∞" if value > 0 else "−∞"
    if size == 0.0:
        return "0." + "0" * (digits - 1)
    if size >= 10**digits:
        return f"{value:.0f}" if size < 1e9 else f"{value:.{digits - 1}e}"
    return f"{value:#.{digits}g}".rstrip(".") if size >= 1e-4 else f"{value:.{digits - 1}e}"


def p_value(p: Any) -> str:
    """A p-value as people write it."""
    if p is None or math.isnan(p):
        return "–"
    return "<0.0001" if p < 1e-4 else f"{p:.4f}"


def align(cells: Sequence[str]) -> list[str]:
    """Cells padded so that their decimal points stand under each other.

    >>> align(["1.5", "12", "0.125"])
    [' 1.5  ', '12    ', ' 0.125']
    """
    parts = [_split(cell) for cell in cells]
    left = max((len(head) for head, _ in parts), default=0)
    right = max((len(tail) for _, tail in parts), default=0)
    return [head.rjust(left) + tail.ljust(right) for head, tail in parts]


def table(
    heads: Sequence[str],
    columns: Sequence[Sequence[str]],
    *,
    room: int = 80,
    paint: Callable[[str, str], str] | None = None,
    gap: int = 2,
    marks: Sequence[str] | None = None,
) -> str:
    """A table: the first column is text on the left and gives way when the room is short, the rest are numbers."""
    if not columns:
        return ""
    bodies = [list(columns[0]), *(align(column) for column in columns[1:])]
    widths = [max([len(head), *(len(cell) for cell in body)]) for head, body in zip(heads, bodies)]
    rest = sum(widths[1:]) + gap * (len(widths) - 1)
    widths[0] = min(widths[0], max(8, room - rest))
    bodies[0] = [clip(cell, widths[0]) for cell in bodies[0]]
    lines = []
    for at in range(-1, len(bodies[0])):
        cells = (
            [clip(head, widths[0]) if i == 0 else head for i, head in enumerate(heads)]
            if at < 0
            else [b[at] for b in bodies]
        )
        line = (
            (" " * gap)
            .join(cell.ljust(size) if i == 0 else cell.rjust(size) for i, (cell, size) in enumerate(zip(cells, widths)))
            .rstrip()
        )
        if paint is not None and at < 0:
            line = paint(line, "bold")
        elif paint is not None and marks is not None and marks[at]:
            line = paint(line, marks[at])
        lines.append(line)
    return "\n".join(lines)


def clip(text: str, size: int) -> str:
    """Text in at most so many columns, its middle left out: both ends of a name tell names apart.

    >>> clip("neighbourhood=North", 12)
    'neigh…=North'
    """
    text = printable(text)
    if len(text) <= size:
        return text
    head = (size - 1) // 2
    return f"{text[:head]}…{text[len(text) - (size - 1 - head) :]}"


def printable(text: str) -> str:
    """Control characters shown, never sent: a column's name must not move the cursor or paint the screen."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def bars(values: Sequence[float], size: int = 24) -> list[str]:
    """Horizontal bars on a common scale from zero, in eighths of a character.

    >>> bars([1.0, 0.5], 4)
    ['████', '██']
    """
    finite = [v for v in values if math.isfinite(v)]
    top = max(finite, default=0.0)
    made = []
    for value in values:
        if not math.isfinite(value) or top <= 0.0:
            made.append("")
            continue
        eighths = round(8 * size * max(0.0, value) / top)
        made.append("█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8]).strip())
    return made


def _split(cell: str) -> tuple[str, str]:
    at = cell.find(".")
    if at < 0:
        at = next((i for i, c in enumerate(cell) if c in "e%"), len(cell))
    return cell[:at], cell[at:]
