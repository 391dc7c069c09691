"""The languages of export: each has a writer (plan to bytes) and a runner that executes what was written.

Numbers are written by ``repr``: the shortest text that reads back as the same float64. Names and levels are quoted
as each language asks. Every runner gives the score before the link: that is what is compared.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError
from .plan import Input, Plan


class CannotRun(Exception):
    """What was written cannot be run on this machine."""


def number(value: Any) -> str:
    return repr(float(value))


def one_score(plan: Plan, to: str) -> None:
    if plan.outputs > 1:
        raise UsageError(
            f"a model with {plan.outputs} scores a row cannot become {to}; use json, python or onnx", where="to"
        )


# SQL


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: Any) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def sql_terms(plan: Plan, piece: int) -> str:
    """intercept + Σ w·x of one piece."""
    parts = [number(plan.intercepts[piece])]
    for column in plan.inputs:
        parts.append(_sql_term(column, piece))
    return " + ".join(part for part in parts if part)


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
        return f"CASE WHEN {name} THEN {number(weights[0])} WHEN NOT {name} THEN 0.0{rest} END"
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
    return f'1.0 / (1.0 + exp(-"score")) AS "probability", {label}' if plan.link == "logistic" else label


def _sql_class(value: Any) -> str:
    return literal(value) if isinstance(value, str) else str(value)


def run_sql(content: bytes, plan: Plan, rows: list[dict[str, Any]], table: str) -> np.ndarray:
    """The score's expression, executed by SQLite on the rows."""
    import sqlite3

    if plan.derive:
        raise CannotRun("the derived columns are the database's to compute")
    one = Plan(**{**plan.__dict__, "link": "identity", "where": None})
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
        found = [row[-1] for row in base.execute(write_sql(one, table).decode())]
        try:
            base.execute(content.decode().replace(f"\nWHERE {plan.where}", "") if plan.where else content.decode())
        except sqlite3.OperationalError as error:
            if "no such function" not in str(error):
                raise
    return np.array(found, dtype=float)[:, None]


# Python


def write_python(plan: Plan, table: str = "") -> bytes:
    """One function of a dictionary, with nothing but the standard library."""
    lines = [
        f'"""Predicts {plan.target} from a dictionary of the columns; written by trueline."""',
        "import math",
        "",
        "",
        "def score(row):",
        f"    total = {plan.intercepts.tolist()!r}",
    ]
    for column in plan.inputs:
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


def run_python(content: bytes, plan: Plan, rows: list[dict[str, Any]], table: str) -> np.ndarray:
    space: dict[str, Any] = {}
    exec(compile(content, "exported", "exec"), space)
    return np.array([space["score"](row) for row in rows], dtype=float)


# C


def c_name(name: str, taken: set[str]) -> str:
    """A C identifier near the column's name, not used so far."""
    base = re.sub(r"[^0-9a-zA-Z_]", "_", name)
    base = f"c_{base}" if not base or base[0].isdigit() or base in _C_WORDS or base.startswith("_") else base
    made, at = base, 2
    while made in taken:
        made, at = f"{base}_{at}", at + 1
    taken.add(made)
    return made


_C_WORDS = {
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
    "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof", "static",
    "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "row", "score",
}  # fmt: skip


def c_names(plan: Plan) -> list[str]:
    taken: set[str] = set()
    return [c_name(column.name, taken) for column in plan.inputs]


def c_string(text: str) -> str:
    """A C string literal, byte by byte where it is not plain ASCII."""
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{plain}"'


def c_number(value: float) -> str:
    return float(value).hex() if math.isfinite(value) else ("HUGE_VAL" if value > 0 else "-HUGE_VAL")


def write_c(plan: Plan, table: str = "") -> bytes:
    """A struct of the columns and two functions; NAN is a missing number, NULL a missing text, NAN comes back for both
    where the model does not take them, and for a level never seen."""
    one_score(plan, "c")
    names = c_names(plan)
    fields = [
        f"    {'const char *' if c.kind == 'category' else 'double '}{name}; /* {re.sub(r'[*/]', '?', c.name)} */"
        for name, c in zip(names, plan.inputs)
    ]
    lines = [
        f"/* Predicts {re.sub(r'[*/]', '?', plan.target)}; written by trueline. Weights are hexadecimal, so that no digit is lost. */",
        "#include <math.h>",
        "#include <string.h>",
        "",
        "typedef struct {",
        *(fields or ["    double unused;"]),
        "} trueline_row;",
        "",
        "double trueline_score(const trueline_row *row) {",
        f"    double total[{len(plan.intercepts)}] = {{{', '.join(c_number(b) for b in plan.intercepts)}}};",
    ]
    for name, column in zip(names, plan.inputs):
        lines += _c_column(name, column, len(plan.intercepts))
    lines.append("    double score = 0.0;")
    for k, share in enumerate(plan.shares):
        inner = f"total[{k}]"
        if not math.isinf(plan.low):
            inner = f"({inner} < {c_number(plan.low)} ? {c_number(plan.low)} : {inner} > {c_number(plan.high)} ? {c_number(plan.high)} : {inner})"
        lines.append(f"    score += {c_number(share)} * {inner};")
    lines += ["    return score;", "}", ""]
    ending = {
        "logistic": f"/* the probability of {c_string(str(plan.classes[-1] if plan.classes else 1))} */\n",
    }.get(plan.link, "")
    result = {"logistic": "1.0 / (1.0 + exp(-s))", "log": "exp(s)", "sign": "s > 0.0 ? 1.0 : 0.0"}.get(plan.link, "s")
    lines.append(
        f"{ending}double trueline_predict(const trueline_row *row) {{\n    double s = trueline_score(row);\n    return {result};\n}}"
    )
    return ("\n".join(lines) + "\n").encode()


def _c_column(name: str, column: Input, pieces: int) -> list[str]:
    def add(values: Any) -> str:
        return " ".join(f"total[{k}] += {c_number(v)};" for k, v in enumerate(values))

    absent = "return NAN;" if column.missing is None else add(column.missing)
    if column.kind == "category":
        chain = [f"    if (!row->{name}) {{ {absent} }}"]
        for k, level in enumerate(column.levels):
            chain.append(f"    else if (!strcmp(row->{name}, {c_string(level)})) {{ {add(column.weights[:, k])} }}")
        chain.append(f"    else {{ {'return NAN;' if column.unseen is None else add(column.unseen)} }}")
        return chain
    every = " ".join(f"total[{k}] += {c_number(column.weights[k, 0])} * row->{name};" for k in range(pieces))
    return [f"    if (isnan(row->{name})) {{ {absent} }} else {{ {every} }}"]


def run_c(content: bytes, plan: Plan, rows: list[dict[str, Any]], table: str) -> np.ndarray:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise CannotRun("there is no C compiler here")
    names = c_names(plan)
    kinds = [ctypes.c_char_p if c.kind == "category" else ctypes.c_double for c in plan.inputs]
    fields = list(zip(names, kinds)) or [("unused", ctypes.c_double)]
    Row = type("Row", (ctypes.Structure,), {"_fields_": fields})
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "model.c"), Path(folder, "model.so")
        source.write_bytes(content)
        made = subprocess.run(
            [compiler, "-std=c99", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"],
            capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
        if made.returncode:
            raise CannotRun(f"the C compiler failed: {made.stderr.strip().splitlines()[0][:120]}")
        score = ctypes.CDLL(str(library)).trueline_score
        score.restype = ctypes.c_double
        out = []
        for row in rows:
            values: list[Any] = []
            for column in plan.inputs:
                value = row[column.name]
                if column.kind == "category":
                    values.append(None if value is None else str(value).encode())
                else:
                    values.append(math.nan if value is None else float(value))
            out.append(score(ctypes.byref(Row(*values))))
    return np.array(out)[:, None]


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
