"""Names that come from data, as text of another language: the only way by which they reach one.

A column's name, a level, a class or a target is somebody else's text. Each language has one function for it, and a
comment shows it in a harmless alphabet only. What a language cannot hold is refused by name. ``parsed`` reads what was
written before anything runs it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from ..errors import UsageError

LONGEST = 60  # characters of a name in a comment or a C identifier

_RESERVED = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    asm typeof alignas alignof bool constexpr false nullptr static_assert thread_local true typeof_unqual
    linux unix i386 row score total NULL NAN INFINITY EOF DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS MAXFLOAT
    """
C_RESERVED = frozenset(_RESERVED.split())
_C_MACRO = re.compile(r"(?:FP|M|MATH|HUGE|SNAN|X)_|HUGE")


def comment(name: Any) -> str:
    """A name inside a comment of any language: letters, digits and blanks.

    >>> comment('*/ system("ls"); /*'), comment("")
    ('_ system_ls_ _', '_')
    """
    return re.sub(r"[^0-9A-Za-z ]+", "_", str(name))[:LONGEST].rstrip() or "_"


def python_value(value: Any) -> str:
    """A name, a level or a class as a Python literal, in ASCII.

    >>> python_value('a"b\\n'), python_value(2.5)
    ('\\'a"b\\\\n\\'', '2.5')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return ascii(value) if isinstance(value, (str, bool, int, float)) else ascii(str(value))


def c_text(text: Any) -> str:
    """A C string literal, byte by byte where it is not plain ASCII; a question mark could begin a trigraph.

    >>> print(c_text('say "é"'))
    "say \\042\\303\\251\\042"
    """
    raw = _utf8(text, "C").encode()
    if 0 in raw:
        raise UsageError(f"{text!r} holds a NUL, where a text of C ends; export to python or json", where="to")
    inside = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in raw)
    return f'"{inside}"'


def c_fields(names: Iterable[str]) -> list[str]:
    """A C identifier near each name, no two alike.

    >>> c_fields(["a b", "a_b", "int", "2nd", ""])
    ['a_b', 'a_b_2', 'c_int', 'c_2nd', 'c_']
    """
    taken: set[str] = set()
    last: dict[str, int] = {}
    fields = []
    for name in names:
        base = re.sub(r"[^0-9a-zA-Z_]", "_", name)[:LONGEST]
        if not re.match(r"[A-Za-z]", base) or base in C_RESERVED or _C_MACRO.match(base):
            base = f"c_{base}"
        field, count = base, last.get(base, 1)
        while field in taken:
            count += 1
            field = f"{base}_{count}"
        last[base] = count
        taken.add(field)
        fields.append(field)
    return fields


def sql_name(name: Any) -> str:
    """A delimited identifier.

    >>> sql_name('say "b" twice')
    '"say ""b"" twice"'
    """
    text = _sql(name)
    if not text:
        raise UsageError("SQL has no column without a name; rename it, or export to python or json", where="to")
    return '"' + text.replace('"', '""') + '"'


def sql_value(value: Any) -> str:
    """A level or a class as a literal.

    >>> sql_value("it's"), sql_value(3), sql_value(True)
    ("'it''s'", '3', 'TRUE')
    """
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float)) and math.isfinite(value):
        return repr(value)
    return "'" + _sql(value).replace("'", "''") + "'"


def sql_columns(names: Iterable[str]) -> list[str]:
    """The names of columns that a query makes, no two alike to a database that takes A for a.

    >>> sql_columns(["score A", "score a", "score b"])
    ['score A', 'score a (2)', 'score b']
    """
    taken: set[str] = set()
    made = []
    for name in names:
        column, count = name, 1
        while column.casefold() in taken:
            count += 1
            column = f"{name} ({count})"
        taken.add(column.casefold())
        made.append(column)
    return made


def onnx_name(name: str) -> str:
    """The name of an input of a graph."""
    if not name or name in ("score", "prediction"):
        what = "has no name" if not name else f"is called {name!r}, as an output of the graph is"
        raise UsageError(f"a column {what}; rename it, or export to python or json", where="to")
    return _utf8(name, "ONNX")


def json_bytes(text: str) -> bytes:
    """JSON in UTF-8; half of a surrogate pair is written as its escape."""
    return text.encode("utf-8", "backslashreplace")


def _sql(value: Any) -> str:
    text = _utf8(value, "SQL")
    if "\0" in text:
        raise UsageError(f"{text!r} holds a NUL, which SQL cannot write; export to python or json", where="to")
    return text


def _utf8(value: Any, language: str) -> str:
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{text!r} holds half of a surrogate pair, which {language} cannot write; export to python or json",
            where="to",
        ) from None
    return text
