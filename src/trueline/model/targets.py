"""The languages of export: each has a writer (plan to bytes) and a runner that executes what was written.

Numbers are written by ``repr``: the shortest text that reads back as the same float64; in SQL always with an exponent,
because 0.5 may be a decimal there and 0.5e0 is not. Names and levels are quoted as each language asks. Every runner
gives the score before the link: that is what is compared.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from .cfunction import run_c, write_c
from .infix import PYTHON, CannotRun, number, one_score, sql_dialect, terms
from .plan import Input, Plan

# SQL


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: Any) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def sql_terms(plan: Plan, piece: int) -> str:
    """intercept + Σ w·x of one piece."""
    if plan.formula is not None:
        parts = terms(plan, piece, sql_dialect(number, identifier, literal))
    else:
        parts = [_sql_term(column, piece) for column in plan.inputs]
    return " + ".join([number(plan.intercepts[piece]), *parts])


def _sql_term(column: Input, piece: int) -> str:
    name, weights = identifier(column.name), column.weights[piece]
    absent = None if column.missing is None else number(column.missing[piece])
    if column.kind == "category":
        cases = [f"WHEN {name} = {literal(level)} THEN {number(w)}" for level, w in zip(column.levels, weights)]
        if absent is not None:
            cases.append(f"WHEN {name} IS NULL THEN {absent}")
        if column.unseen is not None:
            cases.append(f"WHEN {name} IS NOT NULL THEN {number(column.unseen[piece])}")
        return f"CASE {' '.join(cases)} END"
    if column.kind == "boolean":
        rest = f" ELSE {absent}" if absent is not None else ""
        return f"CASE WHEN {name} THEN {number(weights[0])} WHEN NOT {name} THEN 0.0e0{rest} END"
    term = f"{number(weights[0])} * {name}"
    return term if absent is None else f"CASE WHEN {name} IS NULL THEN {absent} ELSE {term} END"


def write_sql(plan: Plan, table: str) -> bytes:
    """A query: derived columns and the filter inside, the prediction outside."""
    one_score(plan, "sql")
    source, note = identifier(table), _sql_dates(plan)
    if plan.derive:
        added = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in plan.derive)
        source = f"(SELECT *, {added} FROM {source}) AS derived"
    where = f"\nWHERE {plan.where}" if plan.where else ""
    if plan.outputs > 1:
        return f"{note}{_sql_classes(plan, source + where)}".encode()
    if math.isinf(plan.low) and len(plan.intercepts) == 1:
        score, inner = sql_terms(plan, 0), f"{source}{where}"
    else:
        members = ", ".join(f"{sql_terms(plan, k)} AS member_{k}" for k in range(len(plan.intercepts)))
        score = " + ".join(
            f"{number(share)} * CASE WHEN member_{k} < {number(plan.low)} THEN {number(plan.low)} "
            f"WHEN member_{k} > {number(plan.high)} THEN {number(plan.high)} ELSE member_{k} END"
            for k, share in enumerate(plan.shares)
        )
        inner = f"(SELECT *, {members} FROM {source}{where}) AS members"
    if plan.link == "identity":
        return f'{note}SELECT *, {score} AS "prediction"\nFROM {inner}'.encode()
    return f'{note}SELECT *, {_sql_link(plan)}\nFROM (SELECT *, {score} AS "score" FROM {inner}) AS scored'.encode()


def _sql_classes(plan: Plan, inner: str) -> str:
    """A score a class, their probabilities, and the class of the largest (of equal ones the first)."""
    scores = [identifier(f"score {label}") for label in plan.classes]
    made = ", ".join(f"{sql_terms(plan, k)} AS {name}" for k, name in enumerate(scores))
    chances = [
        f"1.0e0 / ({' + '.join(f'exp({other} - {own})' if other != own else '1.0e0' for other in scores)})"
        for own in scores
    ]
    columns = [f"{c} AS {identifier(f'probability {label}')}" for c, label in zip(chances, plan.classes)]
    cases = [
        f"WHEN {' AND '.join(f'{own} >= {other}' for other in scores[k + 1 :])} THEN {_sql_class(plan.classes[k])}"
        for k, own in enumerate(scores[:-1])
    ]
    # A class that got here has beaten those before it, or one of them would have been taken.
    for k in range(1, len(cases)):
        before = " AND ".join(f"{scores[k]} > {other}" for other in scores[:k])
        cases[k] = cases[k].replace("WHEN ", f"WHEN {before} AND ", 1)
    last = f"WHEN {scores[-1]} IS NOT NULL THEN {_sql_class(plan.classes[-1])}"
    label = f'CASE {" ".join([*cases, last])} END AS "prediction"'
    return f"SELECT *, {', '.join(columns)}, {label}\nFROM (SELECT *, {made} FROM {inner}) AS scored"


def _sql_dates(plan: Plan) -> str:
    """Databases count dates each in their own way: a comment says in what unit the query takes them."""
    names = [identifier(column.name) for column in plan.inputs if column.kind == "date"]
    if not names:
        return ""
    first = names[0].replace("\n", " ")
    listed = ", ".join(names).replace("\n", " ")
    return (
        f"-- {listed}: the number of days since 1970-01-01, fractions for the time of day.\n"
        f"-- SQLite: julianday({first}) - 2440587.5; PostgreSQL: extract(epoch from {first}) / 86400.0\n"
    )


def _sql_link(plan: Plan) -> str:
    if plan.link == "log":
        return 'exp("score") AS "prediction"'
    label = f'CASE WHEN "score" > 0 THEN {_sql_class(plan.classes[1])} ELSE {_sql_class(plan.classes[0])} END AS "prediction"'
    return f'1.0e0 / (1.0e0 + exp(-"score")) AS "probability", {label}' if plan.link == "logistic" else label


def _sql_class(value: Any) -> str:
    return literal(value) if isinstance(value, str) else str(value)


def run_sql(content: bytes, plan: Plan, rows: list[dict[str, Any]], table: str) -> np.ndarray:
    """The score's expression, executed by SQLite on the rows."""
    import sqlite3

    # Derived columns are drawn like the others: what the database makes of their expressions is its own.
    bare = {**plan.__dict__, "where": None, "derive": ()}
    one = Plan(**bare) if plan.outputs > 1 else Plan(**bare | {"link": "identity"})
    columns = ", ".join(identifier(c.name) for c in plan.inputs)
    with sqlite3.connect(":memory:") as base:
        try:
            base.execute(f"CREATE TABLE {identifier(table)} ({columns})")
        except sqlite3.OperationalError as error:
            raise CannotRun(f"SQLite cannot hold the columns ({error})") from None
        marks = ", ".join("?" * len(plan.inputs))
        base.executemany(
            f"INSERT INTO {identifier(table)} VALUES ({marks})", [[row[c.name] for c in plan.inputs] for row in rows]
        )
        try:
            wide, many = len(plan.inputs), plan.outputs
            query = base.execute(write_sql(one, table).decode())
            found = [row[wide : wide + many] if many > 1 else row[-1:] for row in query]
        except sqlite3.OperationalError as error:
            raise CannotRun(f"this SQLite cannot run it ({error})") from None
        try:
            base.execute(write_sql(Plan(**bare), table).decode())
        except sqlite3.OperationalError as error:
            if "no such function" not in str(error):
                raise
    return np.array(found, dtype=float)


# Python


def write_python(plan: Plan, table: str = "") -> bytes:
    """One function of a dictionary, with nothing but the standard library."""
    lines = [
        f'"""Predicts {plan.target} from a dictionary of the columns; written by trueline."""',
        "import math",
        *_python_dates(plan),
        "",
        "",
        "def score(row):",
        f"    total = {plan.intercepts.tolist()!r}",
    ]
    if plan.formula is not None:
        lines += _python_columns(plan)
        added = [" + ".join(terms(plan, k, PYTHON)) for k in range(len(plan.intercepts))]
        lines.append(f"    total = [t + a for t, a in zip(total, [{', '.join(added)}])]")
    for column in plan.inputs if plan.formula is None else ():
        lines.append(f"    value = row.get({column.name!r})")
        absent = "raise ValueError" if column.missing is None else None
        lines.append("    if value is None or value != value:")
        if absent:
            lines.append(f"        raise ValueError({f'column {column.name!r} is missing'!r})")
        else:
            assert column.missing is not None
            lines.append(f"        add = {column.missing.tolist()!r}")
        if column.kind == "category":
            table_ = {level: column.weights[:, k].tolist() for k, level in enumerate(column.levels)}
            lines.append(f"    elif value in (levels := {table_!r}):")
            lines.append("        add = levels[value]")
            lines.append("    else:")
            if column.unseen is None:
                lines.append(
                    f"        raise ValueError({f'column {column.name!r} holds a level never seen: '!r} + repr(value))"
                )
            else:
                lines.append(f"        add = {column.unseen.tolist()!r}")
        else:
            lines.append("    else:")
            lines.append(f"        add = [w * value for w in {column.weights[:, 0].tolist()!r}]")
        lines.append("    total = [a + b for a, b in zip(total, add)]")
    if len(plan.shares):
        low, high = (f"float('{e}')" if math.isinf(e) else repr(e) for e in (plan.low, plan.high))
        lines.append(
            f"    return [sum(s * min(max(t, {low}), {high}) for s, t in zip({plan.shares.tolist()!r}, total))]"
        )
    else:
        lines.append("    return total")
    lines += ["", "", "def predict(row):", "    s = score(row)"]
    lines += {
        "logistic": ["    e = math.exp(-abs(s[0]))", "    return 1 / (1 + e) if s[0] >= 0 else e / (1 + e)"],
        "softmax": ["    e = [math.exp(v - max(s)) for v in s]", "    return [v / sum(e) for v in e]"],
        "log": ["    return math.exp(s[0])"],
        "sign": [
            f"    classes = {list(plan.classes)!r}",
            "    return classes[int(s[0] > 0)] if len(s) == 1 else classes[s.index(max(s))]",
        ],
    }.get(plan.link, ["    return s[0] if len(s) == 1 else s"])
    return ("\n".join(lines) + "\n").encode()


def _python_dates(plan: Plan) -> list[str]:
    """In what unit the function takes dates, as in the query."""
    names = [repr(column.name) for column in plan.inputs if column.kind == "date"]
    if not names:
        return []
    return [
        "",
        f"# {', '.join(names)}: the number of days since 1970-01-01, fractions for the time of day.",
        "# A date d: (d - datetime.date(1970, 1, 1)).days",
    ]


def _python_columns(plan: Plan) -> list[str]:
    """Every column as a number x0, x1, …, or as a dictionary of its levels' zeros and ones."""
    lines = []
    for at, column in enumerate(plan.inputs):
        lines += [f"    x{at} = row.get({column.name!r})"]
        lines += [
            f"    if x{at} is None or x{at} != x{at}:",
            f"        raise ValueError({f'column {column.name!r} is missing'!r})",
        ]
        if column.kind != "category":
            continue
        if column.unseen is None:
            never = f"column {column.name!r} holds a level never seen: "
            lines += [f"    if x{at} not in {column.levels!r}:", f"        raise ValueError({never!r} + repr(x{at}))"]
        lines += [f"    x{at} = {{level: float(level == x{at}) for level in {column.levels!r}}}"]
    return lines


def run_python(content: bytes, plan: Plan, rows: list[dict[str, Any]], table: str) -> np.ndarray:
    space: dict[str, Any] = {}
    exec(compile(content, "exported", "exec"), space)
    return np.array([space["score"](row) for row in rows], dtype=float)


# JSON


def write_json(plan: Plan, table: str = "") -> bytes:
    from .export import as_json

    return (as_json(plan) + "\n").encode()


def run_json(content: bytes, plan: Plan, rows: list[dict[str, Any]], table: str) -> np.ndarray:
    read = json.loads(content)

    def array(values: Any) -> Any:
        return None if values is None else np.asarray(values, dtype=float)

    inputs = tuple(
        Input(
            c["name"],
            c["kind"],
            np.asarray(c["weights"], dtype=float),
            tuple(c["levels"]),
            array(c["missing"]),
            array(c["unseen"]),
        )
        for c in read["columns"]
    )
    ends = (-math.inf if read["low"] is None else read["low"], math.inf if read["high"] is None else read["high"])
    again = Plan(read["target"], inputs, np.asarray(read["intercept"]), np.asarray(read["share"]), *ends, read["link"])
    return again.scores(rows)[0]


def write_onnx(plan: Plan, table: str = "") -> bytes:
    from .onnx import write

    return write(plan)


def run_onnx(content: bytes, plan: Plan, rows: list[dict[str, Any]], table: str) -> np.ndarray:
    from .onnx import run

    return run(content, plan, rows)


TARGETS = {
    "sql": (write_sql, run_sql),
    "json": (write_json, run_json),
    "onnx": (write_onnx, run_onnx),
    "python": (write_python, run_python),
    "c": (write_c, run_c),
}
