"""A model as a SQL query, which SQLite runs here before it is written.

Numbers have an exponent, because 0.5 may be a decimal and 0.5e0 is a double in every dialect. Two habits of databases
could make a query wrong without a word, and its form rules them out:

- SQLite takes a name in double quotes that the table lacks for a text. So every name is that of a row, t."name", which
  is refused where there is none; also those in the filter's and the derived columns' own expressions.
- Where a subquery has two columns of one name, SQLite and DuckDB take the first. So what is computed stands before what
  was there: a table's own "score", or a column that was derived anew, is never taken for ours. (Others refuse.)
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from ..errors import ModelError
from .escape import comment, sql_columns, sql_name, sql_value
from .infix import CannotRun, number, one_score, sql_dialect, terms
from .plan import Input, Plan

ROW = "t"  # the alias of every table and subquery: inner ones are out of sight
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_TOGETHER = 400  # terms of one sum: SQLite takes expressions 1,000 deep


def of_row(name: str) -> str:
    """A column of the row at hand."""
    return f"{ROW}.{sql_name(name)}"


def qualified(expression: str) -> str:
    """A user's expression, whose names in double quotes become those of a row.

    >>> qualified('ln("a b") + x > 1 AND k <> \\'"\\' AND CAST("y" AS "INT") > 0')
    'ln(t."a b") + x > 1 AND k <> \\'"\\' AND CAST(t."y" AS "INT") > 0'
    """

    def one(found: re.Match[str]) -> str:
        before, after = expression[: found.start()].rstrip(), expression[found.end() :].lstrip()
        bare = found[0].startswith('"') and not (
            before.endswith(".") or after.startswith((".", "(")) or re.search(r"\bas$", before, re.IGNORECASE)
        )
        return f"{ROW}.{found[0]}" if bare else found[0]

    return _TOKEN.sub(one, expression)


def sql_terms(plan: Plan, piece: int) -> str:
    """intercept + Σ w·x of one piece."""
    if plan.formula is not None:
        parts = terms(plan, piece, sql_dialect(number, of_row))
    else:
        parts = [_sql_term(column, piece) for column in plan.inputs]
    parts = [number(plan.intercepts[piece]), *parts]
    while len(parts) > _TOGETHER:
        groups = [parts[i : i + _TOGETHER] for i in range(0, len(parts), _TOGETHER)]
        parts = [f"({' + '.join(group)})" for group in groups]
    return " + ".join(parts)


def _sql_term(column: Input, piece: int) -> str:
    cell, weights = of_row(column.name), column.weights[piece]
    absent = None if column.missing is None else number(column.missing[piece])
    if column.kind in ("category", "boolean"):
        if column.kind == "category":
            cases = [f"WHEN {cell} = {sql_value(level)} THEN {number(w)}" for level, w in zip(column.levels, weights)]
        else:  # = TRUE: SQLite would take the text 'true' of an imported file for false
            cases = [f"WHEN {cell} = TRUE THEN {number(weights[0])} WHEN {cell} = FALSE THEN 0.0e0"]
        if absent is not None:
            cases.append(f"WHEN {cell} IS NULL THEN {absent}")
        if column.kind == "category" and column.unseen is not None:
            cases.append(f"WHEN {cell} IS NOT NULL THEN {number(column.unseen[piece])}")
        return f"CASE {' '.join(cases)} END"
    term = f"{number(weights[0])} * {cell}"
    return term if absent is None else f"CASE WHEN {cell} IS NULL THEN {absent} ELSE {term} END"


def write_sql(plan: Plan, table: str) -> bytes:
    """A query: derived columns and the filter inside, the prediction outside."""
    one_score(plan, "sql")
    source = f"{sql_name(table)} AS {ROW}"
    for name, expression in plan.derive:  # one inside the other: an expression may use those before it
        # The bare * lets Polars see that a column is derived anew; it takes t.* for two columns of one name.
        source = f"(SELECT {qualified(expression)} AS {sql_name(name)}, * FROM {source}) AS {ROW}"
    if plan.where:
        source = f"{source}\nWHERE {qualified(plan.where)}"
    return (_sql_dates(plan) + (_sql_classes if plan.outputs > 1 else _sql_one)(plan, source)).encode()


def _selected(made: list[tuple[str, str]], source: str, line: str = " ") -> str:
    """Columns that are computed, by name, then the row's own."""
    columns = ", ".join(f"{text} AS {sql_name(name)}" for name, text in made)
    return f"SELECT {columns}, {ROW}.*{line}FROM {source}"


def _inside(made: list[tuple[str, str]], source: str) -> str:
    return f"({_selected(made, source)}) AS {ROW}"


def _sql_one(plan: Plan, source: str) -> str:
    """One score, a sum or a mean of sums that are kept within ends, and what its link makes of it."""
    if math.isinf(plan.low) and len(plan.intercepts) == 1:
        score = sql_terms(plan, 0)
    else:
        members = [f"member_{k}" for k in range(len(plan.intercepts))]
        source = _inside([(name, sql_terms(plan, k)) for k, name in enumerate(members)], source)
        low, high = number(plan.low), number(plan.high)
        score = " + ".join(
            f"{number(share)} * CASE WHEN {of_row(name)} < {low} THEN {low} "
            f"WHEN {of_row(name)} > {high} THEN {high} ELSE {of_row(name)} END"
            for name, share in zip(members, plan.shares)
        )
    if plan.link == "identity":
        return _selected([("prediction", score)], source, "\n")
    return _selected(_sql_link(plan, of_row("score")), _inside([("score", score)], source), "\n")


def _sql_classes(plan: Plan, source: str) -> str:
    """A score a class, their probabilities, and the class of the largest (of equal ones the first)."""
    names = _score_names(plan)
    scores = [of_row(name) for name in names]
    chances = [
        f"1.0e0 / ({' + '.join(f'exp({other} - {own})' if other != own else '1.0e0' for other in scores)})"
        for own in scores
    ]
    # A class that got here has beaten those before it, or one of them would have been taken.
    cases = [
        " AND ".join([f"{own} > {other}" for other in scores[:k]] + [f"{own} >= {other}" for other in scores[k + 1 :]])
        for k, own in enumerate(scores[:-1])
    ]
    cases.append(f"{scores[-1]} IS NOT NULL")
    chosen = " ".join(f"WHEN {case} THEN {sql_value(label)}" for case, label in zip(cases, plan.classes))
    made = list(zip(sql_columns(f"probability {label}" for label in plan.classes), chances))
    inner = _inside([(name, sql_terms(plan, k)) for k, name in enumerate(names)], source)
    return _selected([*made, ("prediction", f"CASE {chosen} END")], inner, "\n")


def _sql_dates(plan: Plan) -> str:
    """Databases count dates each in their own way: a comment says in what unit the query takes them."""
    names = [comment(column.name) for column in plan.inputs if column.kind == "date"]
    if not names:
        return ""
    return (
        f"-- {', '.join(names)}: the number of days since 1970-01-01, fractions for the time of day.\n"
        f"-- SQLite: julianday({names[0]}) - 2440587.5; PostgreSQL: extract(epoch from {names[0]}) / 86400.0\n"
    )


def _score_names(plan: Plan) -> list[str]:
    return sql_columns(f"score {label}" for label in plan.classes)


def _sql_link(plan: Plan, score: str) -> list[tuple[str, str]]:
    """The columns that the link makes of the score."""
    if plan.link == "log":
        return [("prediction", f"exp({score})")]
    low, high = (sql_value(label) for label in plan.classes)
    label = f"CASE WHEN {score} > 0 THEN {high} WHEN {score} <= 0 THEN {low} END"  # no class where there is no score
    chance = [("probability", f"1.0e0 / (1.0e0 + exp(-{score}))")] if plan.link == "logistic" else []
    return [*chance, ("prediction", label)]


def run_sql(content: bytes, plan: Plan, rows: list[dict[str, Any]], table: str) -> np.ndarray:
    """The score's expression, executed by SQLite on the rows."""
    import sqlite3

    # Derived columns are drawn like the others: what the database makes of their expressions is its own.
    bare = {**plan.__dict__, "where": None, "derive": ()}
    one = Plan(**bare) if plan.outputs > 1 else Plan(**bare | {"link": "identity"})
    columns = ", ".join(sql_name(c.name) for c in plan.inputs)
    with sqlite3.connect(":memory:") as base:
        try:
            base.execute(f"CREATE TABLE {sql_name(table)} ({columns})")
        except sqlite3.OperationalError as error:
            raise CannotRun(f"SQLite cannot hold the columns ({error})") from None
        marks = ", ".join("?" * len(plan.inputs))
        base.executemany(
            f"INSERT INTO {sql_name(table)} VALUES ({marks})", [[row[c.name] for c in plan.inputs] for row in rows]
        )
        wanted = _score_names(plan) if plan.outputs > 1 else ["prediction"]
        try:
            query = base.execute(write_sql(one, table).decode())
            names = [column[0] for column in query.description]
            found = [[row[names.index(name)] for name in wanted] for row in query]
        except sqlite3.OperationalError as error:
            if not re.search(r"no such function|too (many|large|big)", str(error)):
                raise ModelError(f"SQLite refuses the export: {error}; nothing was written", where="sql") from None
            raise CannotRun(f"this SQLite cannot run it ({error})") from None
        try:
            base.execute(write_sql(Plan(**bare), table).decode())
        except sqlite3.OperationalError as error:
            if "no such function" not in str(error):
                raise
    return np.array(found, dtype=float)
