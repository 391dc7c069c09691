"""What the commands say about a model: the table of coefficients, the certificate in a line, statistics."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..errors import printable
from ..report.text import NAMES, align, by_class, columns_of, name_room, number, p_value, table
from .console import paint

SHOWN = 60  # rows of a coefficient table on the screen; --json and the report have more


def coefficient_rows(opened: Any) -> list[dict[str, Any]]:
    """Coefficients of a loaded model, intercept first, with what inference there is."""
    record = opened.record
    if opened.kind == "linear":
        return linear_rows(record)
    if not hasattr(record, "examples") or not hasattr(record, "coef"):
        return []  # a model beyond the line: its numbers are not coefficients of columns
    coef, constant = (
        np.atleast_2d(record.coef),
        np.ravel(record.intercept_ if hasattr(record, "intercept_") else record.intercept),
    )
    several = len(coef) > 1
    made = []
    for k, row in enumerate(coef):
        label = opened.classes[k] if several and k < len(opened.classes) else None
        if getattr(record, "fit_intercept", True):
            made.append(_plain_row("(intercept)", float(constant[k]), label))
        made += [_plain_row(name, float(value), label) for name, value in zip(opened.names, row)]
    return made


def linear_rows(record: Any) -> list[dict[str, Any]]:
    """Coefficients of a linear record, intercept first; errors, tests and intervals where its summary has them."""
    single = np.ndim(record.coef) == 1
    if single and (record.statistics.get("family") == "least squares" or "covariance" in record.statistics):
        from ..report.summary import summarise

        return summary_rows(summarise(record))
    coef = np.atleast_2d(record.coef)
    constant = np.broadcast_to(np.ravel(record.intercept), (len(coef),))
    made = []
    for k, row in enumerate(coef):
        label = None if len(coef) == 1 else (record.classes or record.targets)[k]
        if record.statistics.get("fit_intercept", True):
            made.append(_plain_row("(intercept)", float(constant[k]), label))
        made += [_plain_row(term, float(value), label) for term, value in zip(record.terms, row)]
    return made


def summary_rows(summary: Any) -> list[dict[str, Any]]:
    """The rows of a summary as plain values, the intercept first."""
    columns = (
        summary.estimates,
        summary.std_errors,
        summary.statistics,
        summary.p_values,
        summary.lower,
        summary.upper,
    )
    keys = ("estimate", "std_error", "t", "p", "low", "high")
    made = []
    for j, name in enumerate(summary.names):
        values = {key: float(column[j]) if np.isfinite(column[j]) else None for key, column in zip(keys, columns)}
        made.append({"term": "(intercept)" if name == "(Intercept)" else name} | values)
    return made


def _plain_row(term: str, value: float, label: Any = None) -> dict[str, Any]:
    """A coefficient alone; of one class among several, ``column`` and ``class`` say which."""
    of = {} if label is None else {"column": term, "class": label}
    name = term if label is None else f"{term} → {label}"
    return {"term": name, "estimate": value, **dict.fromkeys(("std_error", "t", "p", "low", "high")), **of}


SPARE = ("t", "std_error", "p")  # columns that a narrow screen goes without, in this order
HEADS = {
    "estimate": "estimate",
    "std_error": "std. error",
    "t": "t",
    "p": "p",
    "low": "95 % from",
    "high": "to",
}


def coefficient_table(rows: list[dict[str, Any]], room: int) -> str:
    """The table for the screen; where names would have to be cut, numbers give a digit or two, then columns go."""
    if side := _by_class(rows, room):
        return side
    shown = rows[:SHOWN]
    full = any(row["std_error"] is not None for row in shown)
    kept = list(HEADS) if full else ["estimate"]
    terms = [row["term"] for row in shown]
    longest = max(map(columns_of, ["term", *terms]))
    heads, columns = _columns(shown, kept, 5)
    for digits, out in ((5, 0), (4, 0), (3, 0), (4, 1), (4, 2), (3, 2), (3, 3)):
        left = [name for name in kept if name not in SPARE[:out]]
        heads, columns = _columns(shown, left, digits)
        found = name_room(["term", *heads], [terms, *map(align, columns)], room)
        if found >= longest or (digits == 3 and found >= NAMES):
            break
    marks = ["dim" if row["low"] is not None and row["low"] <= 0.0 <= row["high"] else "" for row in shown]
    text = table(["term", *heads], [terms, *columns], room=room, paint=paint, marks=marks)
    more = [f"… and {len(rows) - SHOWN:,} more"] if len(rows) > SHOWN else []
    gone = [HEADS[name] for name in kept if HEADS[name] not in heads]
    more += [f"not shown: {', '.join(gone)}"] if gone else []
    return text + (f"\n{'; '.join(more)} (--json shows all)" if more else "")


def _by_class(rows: list[dict[str, Any]], room: int) -> str:
    """A column a class, where there are several and the screen has room for them; otherwise nothing."""
    labels, terms, values = by_class(rows)
    for digits in (5, 4, 3) if labels else ():
        columns = [[number(v, digits) for v in column[:SHOWN]] for column in values]
        names, heads = terms[:SHOWN], ["term", *map(printable, labels)]
        if name_room(heads, [names, *map(align, columns)], room) >= min(16, max(map(columns_of, ["term", *names]))):
            more = f"\n… and {len(terms) - SHOWN:,} more (--json shows all)" if len(terms) > SHOWN else ""
            return table(heads, [names, *columns], room=room, paint=paint) + more
    return ""


def _columns(rows: list[dict[str, Any]], names: list[str], digits: int) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of a table of coefficients."""

    def cell(name: str, value: Any) -> str:
        return p_value(value) if name == "p" else number(value, min(4, digits) if name == "t" else digits)

    return [HEADS[name] for name in names], [[cell(name, row[name]) for row in rows] for name in names]


def certificate_text(certificate: dict[str, Any]) -> str:
    """The certificate in one plain line."""
    from ..certificates.certificate import from_dict
    from .counting import spoken

    proof = from_dict(certificate)
    proof = dataclasses.replace(proof, advice=spoken(proof.advice))
    line = str(proof)
    if certificate.get("kind") in ("regret", "stream") and not np.isfinite(proof.bound) and proof.advice:  # type: ignore[attr-defined]
        line = f"not proven: loss {proof.loss:.6g} over {proof.examples:,} examples; {proof.advice}"  # type: ignore[attr-defined]
    head, _, rest = line.partition(":")
    colour = "green" if certificate.get("proven") else "yellow"
    return f"{paint(head, colour)}{':' if rest else ''}{rest}"


def wrapped(text: str, room: int) -> list[str]:
    """A sentence over several lines; colours do not count as width."""
    import re

    from ..report.text import columns_of, in_lines

    bare = re.sub(r"\033\[\d+m", "", text)
    if columns_of(bare) <= room:
        return [text]
    whole = re.sub(
        r"(?<=\w) (?=[\d∞-])|(?<=\d) (?=digits|examples|mistakes|rows)", "\0", bare
    )  # a number stays with its name
    lines = [line.replace("\0", " ") for line in in_lines(whole, room)]
    head = bare.partition(":")[0]
    if text != bare and lines[0].startswith(head):
        lines[0] = text[: text.index(head) + len(head)] + "\033[0m" + lines[0][len(head) :]
    return lines
