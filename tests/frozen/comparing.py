"""Recorded rows: files of them, and whether a new value agrees with an old one."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

from frozen.cases import CASES
from frozen.kinds import Row, Table
from frozen.tables import TABLES

RECORDED = Path(__file__).parent / "recorded"


def run_table(name: str, case: str | None = None) -> list[Row]:
    """Every row of a table's cases (or of one case), as this version gives it."""
    with tempfile.TemporaryDirectory() as folder:
        TABLES[name](Path(folder))
        table = Table(Path(folder))
        return [row for each in CASES[name] if case in (None, each.name) for row in each.rows(table)]


def read_rows(name: str) -> list[Row]:
    path = RECORDED / f"{name}.json"
    return [Row(**row) for row in json.loads(path.read_text())] if path.exists() else []


def write_rows(name: str, rows: list[Row]) -> None:
    """One line for each row, in the order of the cases."""
    order = {case.name: k for k, case in enumerate(CASES[name])}
    rows = sorted(rows, key=lambda row: order.get(row.case, len(order)))
    lines = [
        json.dumps(
            {k: v for k, v in dataclasses.asdict(row).items() if v is not None or k == "value"}, ensure_ascii=False
        )
        for row in rows
    ]
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


def differences(old: list[Row], new: list[Row]) -> list[str]:
    """What does not agree, a line each."""
    values = {(row.case, row.quantity): row.value for row in new}
    cases = {row.case for row in new}
    errors = {row.case: row.value for row in old if row.quantity == "std_errors"}
    found = []
    for row in old:
        place = f"{row.case} | {row.quantity}"
        if row.case not in cases:
            found.append(f"{place}: the case did not run")
        elif row.known_wrong is not None:
            if row.quantity == "exit" and values.get((row.case, "exit")) not in (0, 2, 3, 4):
                found.append(f"{place}: neither a result nor a refusal: {values.get((row.case, 'exit'))}")
        else:
            if (row.case, row.quantity) not in values:
                found.append(f"{place}: recorded {short(row.value)}, and now there is none")
            elif why := _differs(row, values[row.case, row.quantity], errors.get(row.case)):
                found.append(f"{place}: {why}")
    known = {(row.case, row.quantity) for row in old}
    wrong = {row.case for row in old if row.known_wrong is not None}
    found += [
        f"{case} | {quantity}: not recorded"
        for case, quantity in values
        if (case, quantity) not in known and case not in wrong
    ]
    return found


def short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}..."


def _differs(row: Row, value: Any, errors: Any) -> str | None:
    if row.at_most is not None:
        above = [
            f"{key or 'it'}: recorded {a}, now {b}, more than {row.at_most} of it"
            for key, a, b in _pairs(row.value, value)
            if (a != b if not (_is_number(a) and _is_number(b)) else b > row.at_most * a + 1e-12)
        ]
        return "; ".join(above) or None
    if row.tolerance is None:
        return None if row.value == value else f"recorded {short(row.value)}, now {short(value)}"
    pairs = _pairs(row.value, value)
    numbers = [abs(a) for _, a, _ in pairs if _is_number(a)]
    largest = max(numbers, default=0.0)
    for key, a, b in pairs:
        if not (_is_number(a) and _is_number(b)):
            if a != b:
                return f"{key}: recorded {short(a)}, now {short(b)}"
            continue
        scale = _scale(row.relative_to, key, abs(a), largest, errors or {})
        if not abs(a - b) <= row.tolerance * scale:
            return f"{key}: recorded {a!r}, now {b!r}, {abs(a - b) / scale:.1e} of {scale:.3g} apart, {row.tolerance:g} allowed"
    return None


def _scale(relative_to: str | float | None, term: str, size: float, largest: float, errors: dict[str, float]) -> float:
    """What a difference is measured in."""
    if isinstance(relative_to, (int, float)):
        return relative_to
    if relative_to == "std_error" and errors.get(term):
        return errors[term]
    return max(size, 1e-3 * largest, 1e-6)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _pairs(a: Any, b: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """The leaves of two values, with their place; where the shapes differ, the values themselves."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [leaf for k in a for leaf in _pairs(a[k], b[k], f"{key}.{k}" if key else str(k))]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [leaf for k, (u, v) in enumerate(zip(a, b)) for leaf in _pairs(u, v, f"{key}[{k}]")]
    return [(key, a, b)]
