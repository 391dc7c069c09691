"""The languages of export: each has a writer (plan to bytes) and a runner that executes what was written.

Numbers are written by ``repr``: the shortest text that reads back as the same float64. Names and levels are quoted as
each language asks. Every runner gives the score before the link: that is what is compared.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from .cfunction import run_c, write_c
from .escape import comment, json_bytes, python_value
from .infix import PYTHON, terms
from .plan import Input, Plan
from .query import run_sql, write_sql

# Python


def write_python(plan: Plan, table: str = "") -> bytes:
    """One function of a dictionary, with nothing but the standard library."""
    lines = [
        f'"""Predicts {comment(plan.target)} from a dictionary of the columns; written by trueline."""',
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
        lines.append(f"    value = row.get({python_value(column.name)})")
        absent = "raise ValueError" if column.missing is None else None
        lines.append("    if value is None or value != value:")
        if absent:
            lines.append(f"        raise ValueError({python_value(f'column {column.name!r} is missing')})")
        else:
            assert column.missing is not None
            lines.append(f"        add = {column.missing.tolist()!r}")
        if column.kind == "category":
            pairs = [f"{python_value(level)}: {column.weights[:, k].tolist()}" for k, level in enumerate(column.levels)]
            lines.append(f"    elif value in (levels := {{{', '.join(pairs)}}}):")
            lines.append("        add = levels[value]")
            lines.append("    else:")
            if column.unseen is None:
                lines.append(f"        raise ValueError({_never(column)} + repr(value))")
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
            f"    classes = [{', '.join(map(python_value, plan.classes))}]",
            "    return classes[int(s[0] > 0)] if len(s) == 1 else classes[s.index(max(s))]",
        ],
    }.get(plan.link, ["    return s[0] if len(s) == 1 else s"])
    return ("\n".join(lines) + "\n").encode()


def _python_dates(plan: Plan) -> list[str]:
    """In what unit the function takes dates, as in the query."""
    names = [comment(column.name) for column in plan.inputs if column.kind == "date"]
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
        lines += [f"    x{at} = row.get({python_value(column.name)})"]
        lines += [
            f"    if x{at} is None or x{at} != x{at}:",
            f"        raise ValueError({python_value(f'column {column.name!r} is missing')})",
        ]
        if column.kind != "category":
            continue
        levels = f"[{', '.join(map(python_value, column.levels))}]"
        if column.unseen is None:
            lines += [f"    if x{at} not in {levels}:", f"        raise ValueError({_never(column)} + repr(x{at}))"]
        lines += [f"    x{at} = {{level: float(level == x{at}) for level in {levels}}}"]
    return lines


def _never(column: Input) -> str:
    return python_value(f"column {column.name!r} holds a level never seen: ")


def run_python(content: bytes, plan: Plan, rows: list[dict[str, Any]], table: str) -> np.ndarray:
    space: dict[str, Any] = {}
    exec(compile(content, "exported", "exec"), space)
    return np.array([space["score"](row) for row in rows], dtype=float)


# JSON


def write_json(plan: Plan, table: str = "") -> bytes:
    from .export import as_json

    return json_bytes(as_json(plan) + "\n")


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
