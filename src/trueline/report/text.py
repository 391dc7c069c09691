"""Text for the terminal: tables whose numbers stand on their decimal points and whose width fits the screen."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import printable

NAMES = 24  # columns that names get before a table leaves out a spare column


def number(value: Any, digits: int = 5) -> str:
    """A number in so many significant digits, no exponent where none is needed.

    >>> number(1234.5678), number(0.00012), number(12), number(3.2e-9), number(float("nan"))
    ('1234.6', '0.00012000', '12', '3.2000e-09', '–')
    >>> number(9999.9999, 4)
    '10000'
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
    if size < 1e-4:
        return f"{value:.{digits - 1}e}"
    text = f"{value:#.{digits}g}".rstrip(".")
    return f"{value:.0f}" if "e" in text else text  # rounded up to a digit more


def by_class(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[str], list[list[Any]]]:
    """(classes, terms, a column of estimates a class) of rows that tell their class; empty where they do not."""
    if not rows or "class" not in rows[0]:
        return [], [], []
    table = {(row["class"], row["column"]): row["estimate"] for row in rows}
    labels, terms = (list(dict.fromkeys(row[key] for row in rows)) for key in ("class", "column"))
    return list(map(str, labels)), terms, [[table.get((label, term)) for term in terms] for label in labels]


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
    spare: Sequence[int] = (),
) -> str:
    """A table: the first column is text on the left and gives way when the room is short, the rest are numbers.

    Where that is not enough, columns of ``spare`` are left out, the first of them first.
    """
    if not columns:
        return ""
    bodies = [list(columns[0]), *(align(column) for column in columns[1:])]
    out = list(spare)
    while out and name_room(heads, bodies, room, gap) < min(NAMES, max(map(columns_of, [heads[0], *bodies[0]]))):
        at = out.pop(0)
        heads, bodies = ([v for i, v in enumerate(all_) if i != at] for all_ in (heads, bodies))  # type: ignore[assignment]
        out = [i - (i > at) for i in out]
    widths = [max(map(columns_of, [head, *body])) for head, body in zip(heads, bodies)]
    widths[0] = min(widths[0], max(8, name_room(heads, bodies, room, gap)))
    bodies[0] = shortened(bodies[0], widths[0])
    lines = []
    for at in range(-1, len(bodies[0])):
        cells = (
            [clip(head, widths[0]) if i == 0 else head for i, head in enumerate(heads)]
            if at < 0
            else [b[at] for b in bodies]
        )
        line = (
            (" " * gap)
            .join(padded(cell, size, right=i > 0) for i, (cell, size) in enumerate(zip(cells, widths)))
            .rstrip()
        )
        if paint is not None and at < 0:
            line = paint(line, "bold")
        elif paint is not None and marks is not None and marks[at]:
            line = paint(line, marks[at])
        lines.append(line)
    return "\n".join(lines)


def name_room(heads: Sequence[str], bodies: Sequence[Sequence[str]], room: int, gap: int = 2) -> int:
    """The columns of the screen that a table leaves to its first."""
    rest = sum(max(map(columns_of, [head, *body])) + gap for head, body in zip(heads[1:], bodies[1:]))
    return room - rest


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes: two for wide characters, none for combining marks.

    >>> columns_of("town"), columns_of("東京"), columns_of("e\\u0301")
    (4, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def in_lines(text: str, room: int, indent: str = "  ", first: str = "") -> list[str]:
    """A sentence in lines of so many columns of the terminal, all but the first behind ``indent``; a longer word is cut.

    >>> in_lines("town: 東京, Aachen", 10)
    ['town:', '  東京,', '  Aachen']
    """
    lines, line, gap = [], first, ""
    for word in text.split(" "):
        if columns_of(line + gap + word) > room:
            if gap:
                lines.append(line)
                line = indent
            gap = ""
        line += gap + word
        gap = " "
        while columns_of(line) > max(room, len(indent) + 2):
            fits = next(k for k in range(len(line), 0, -1) if columns_of(line[:k]) <= room)
            lines.append(line[:fits])
            line = indent + line[fits:]
    return [*lines, line]


def padded(text: str, size: int, right: bool = False) -> str:
    """Text filled with blanks to so many columns of the terminal."""
    blanks = " " * max(0, size - columns_of(text))
    return blanks + text if right else text + blanks


def shortened(names: Sequence[str], size: int) -> list[str]:
    """Names in at most so many columns; where a cut at the middle makes two of them look alike, what they share goes.

    >>> shortened(["a_long_name_1_of_many", "a_long_name_2_of_many"], 12)
    ['…1_of_many', '…2_of_many']
    """
    cut = [clip(name, size) for name in names]
    if len(set(cut)) == len(set(names)):
        return cut
    long = [name for name in dict.fromkeys(map(printable, names)) if columns_of(name) > size]
    first, last = min(long), max(long)
    skip = next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), min(len(first), len(last)))
    return [
        _ending(f"…{name[skip:]}", size) if columns_of(name) > size and skip > 1 else clip(name, size)
        for name in map(printable, names)
    ]


def clip(text: str, size: int) -> str:
    """Text in at most so many columns, its middle left out: both ends of a name tell names apart.

    >>> clip("neighbourhood=North", 12)
    'neigh…=North'
    """
    text = printable(text)
    if columns_of(text) <= size:
        return text
    head = (size - 1) // 2
    return f"{_first(text, head)}…{_first(text[::-1], size - 1 - head)[::-1]}"


def _ending(text: str, size: int) -> str:
    return text if columns_of(text) <= size else f"{_first(text, size - 1)}…"


def _first(text: str, size: int) -> str:
    """As many characters as fit into so many columns."""
    used = 0
    for at, character in enumerate(text):
        used += _columns(character)
        if used > size:
            return text[:at]
    return text


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
    if not any(map(str.isdigit, cell)):
        return cell, ""  # a word, or a dash
    at = cell.find(".")
    if at < 0:
        at = next((i for i, c in enumerate(cell) if c in "e%"), len(cell))
    return cell[:at], cell[at:]
