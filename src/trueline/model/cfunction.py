"""A model as a C99 function: a struct of the columns, the score and the prediction; compiled and run to be checked."""

from __future__ import annotations

import ctypes
import math
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .infix import C, CannotRun, c_number, one_score, terms
from .plan import Input, Plan

DAYS = ": days since 1970-01-01, fractions for the time of day"


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


def write_c(plan: Plan, table: str = "") -> bytes:
    """A struct of the columns and two functions; NAN is a missing number, NULL a missing text, NAN comes back for both
    where the model does not take them, and for a level never seen."""
    one_score(plan, "c")
    names = c_names(plan)
    fields = [
        f"    {'const char *' if c.kind == 'category' else 'double '}{name}; /* {re.sub(r'[*/]', '?', c.name)}{DAYS if c.kind == 'date' else ''} */"
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
    ]
    starts = [c_number(b) for b in plan.intercepts]
    if plan.outputs > 1:
        lines += ["/* One score a class; 0, or -1 where the row is refused. */",
                  "int trueline_scores(const trueline_row *row, double *total) {",
                  *(f"    total[{k}] = {start};" for k, start in enumerate(starts))]  # fmt: skip
    else:
        lines += ["double trueline_score(const trueline_row *row) {",
                  f"    double total[{len(starts)}] = {{{', '.join(starts)}}};"]  # fmt: skip
    refuse = "return -1;" if plan.outputs > 1 else "return NAN;"
    for at, (name, column) in enumerate(zip(names, plan.inputs)):
        lines += (
            _value(at, name, column, refuse)
            if plan.formula is not None
            else _c_column(name, column, len(starts), refuse)
        )
    if plan.formula is not None:
        lines += [f"    total[{k}] += {' + '.join(terms(plan, k, C))};" for k in range(len(plan.intercepts))]
    if plan.outputs > 1:
        return "\n".join([*lines, "    return 0;", "}", "", *_c_classes(plan)]).encode()
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


def _c_classes(plan: Plan) -> list[str]:
    """The likeliest class by its number, and the probability of each."""
    count = plan.outputs
    called = ", ".join(f"{k} is {c_string(str(label))}" for k, label in enumerate(plan.classes)).replace("*/", "* /")
    return [
        f"/* {called}; -1 where the row is refused. */",
        "int trueline_predict(const trueline_row *row, double *probability) {",
        "    double sum = 0.0; int best = 0;",
        "    if (trueline_scores(row, probability)) { return -1; }",
        f"    for (int k = 1; k < {count}; k++) {{ if (probability[k] > probability[best]) {{ best = k; }} }}",
        "    double top = probability[best];",
        f"    for (int k = 0; k < {count}; k++) {{ probability[k] = exp(probability[k] - top); sum += probability[k]; }}",
        f"    for (int k = 0; k < {count}; k++) {{ probability[k] /= sum; }}",
        "    return best;",
        "}",
        "",
    ]


def _c_column(name: str, column: Input, pieces: int, refuse: str) -> list[str]:
    def add(values: Any) -> str:
        return " ".join(f"total[{k}] += {c_number(v)};" for k, v in enumerate(values))

    absent = refuse if column.missing is None else add(column.missing)
    if column.kind == "category":
        chain = [f"    if (!row->{name}) {{ {absent} }}"]
        for k, level in enumerate(column.levels):
            chain.append(f"    else if (!strcmp(row->{name}, {c_string(level)})) {{ {add(column.weights[:, k])} }}")
        chain.append(f"    else {{ {refuse if column.unseen is None else add(column.unseen)} }}")
        return chain
    every = " ".join(f"total[{k}] += {c_number(column.weights[k, 0])} * row->{name};" for k in range(pieces))
    return [f"    if (isnan(row->{name})) {{ {absent} }} else {{ {every} }}"]


def _value(at: int, name: str, column: Input, refuse: str) -> list[str]:
    """A column as the number x0, x1, …, or as an array of its levels' zeros and ones."""
    if column.kind != "category":
        return [f"    double x{at} = row->{name};", f"    if (isnan(x{at})) {{ {refuse} }}"]
    chain = [f"    double x{at}[{max(1, len(column.levels))}] = {{0.0}};", f"    if (!row->{name}) {{ {refuse} }}"]
    for k, level in enumerate(column.levels):
        chain.append(f"    else if (!strcmp(row->{name}, {c_string(level)})) {{ x{at}[{k}] = 1.0; }}")
    return [*chain, *([f"    else {{ {refuse} }}"] if column.unseen is None else [])]


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
        library_ = ctypes.CDLL(str(library))
        several = (ctypes.c_double * plan.outputs)()
        if plan.outputs == 1:
            library_.trueline_score.restype = ctypes.c_double
        out = []
        for row in rows:
            values: list[Any] = []
            for column in plan.inputs:
                value = row[column.name]
                if column.kind == "category":
                    values.append(None if value is None else str(value).encode())
                else:
                    values.append(math.nan if value is None else float(value))
            if plan.outputs > 1:
                refused = library_.trueline_scores(ctypes.byref(Row(*values)), several)
                out.append([math.nan] * plan.outputs if refused else list(several))
            else:
                out.append([library_.trueline_score(ctypes.byref(Row(*values)))])
    return np.array(out)
