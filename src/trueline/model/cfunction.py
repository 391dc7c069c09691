"""A model as a C99 function: a struct of the columns, the score and the prediction; compiled and run to be checked."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ModelError
from .escape import c_fields, c_text, comment
from .infix import C, CannotRun, c_number, one_score, terms
from .plan import Input, Plan

DAYS = ": days since 1970-01-01, fractions for the time of day"


def write_c(plan: Plan, table: str = "") -> bytes:
    """A struct of the columns and two functions; NAN is a missing number, NULL a missing text, NAN comes back for both
    where the model does not take them, and for a level never seen."""
    one_score(plan, "c")
    names = c_fields(column.name for column in plan.inputs)
    fields = [
        f"    {'const char *' if c.kind == 'category' else 'double '}{field}; /* {comment(c.name)}{DAYS if c.kind == 'date' else ''} */"
        for field, c in zip(names, plan.inputs)
    ]
    lines = [
        f"/* Predicts {comment(plan.target)}; written by trueline. Weights are hexadecimal, so that no digit is lost. */",
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
    for at, (field, column) in enumerate(zip(names, plan.inputs)):
        lines += (
            _value(at, field, column, refuse)
            if plan.formula is not None
            else _c_column(field, column, len(starts), refuse)
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
        "logistic": f"/* the probability of {comment(plan.classes[-1] if plan.classes else 1)} */\n",
    }.get(plan.link, "")
    result = {"logistic": "1.0 / (1.0 + exp(-s))", "log": "exp(s)", "sign": "s > 0.0 ? 1.0 : 0.0"}.get(plan.link, "s")
    lines.append(
        f"{ending}double trueline_predict(const trueline_row *row) {{\n    double s = trueline_score(row);\n    return {result};\n}}"
    )
    return ("\n".join(lines) + "\n").encode()


def _c_classes(plan: Plan) -> list[str]:
    """The likeliest class by its number, and the probability of each."""
    count = plan.outputs
    called = ", ".join(f"{k} is {comment(label)}" for k, label in enumerate(plan.classes))
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


def _c_column(field: str, column: Input, pieces: int, refuse: str) -> list[str]:
    def add(values: Any) -> str:
        return " ".join(f"total[{k}] += {c_number(v)};" for k, v in enumerate(values))

    absent = refuse if column.missing is None else add(column.missing)
    if column.kind == "category":
        chain = [f"    if (!row->{field}) {{ {absent} }}"]
        for k, level in enumerate(column.levels):
            chain.append(f"    else if (!strcmp(row->{field}, {c_text(level)})) {{ {add(column.weights[:, k])} }}")
        chain.append(f"    else {{ {refuse if column.unseen is None else add(column.unseen)} }}")
        return chain
    every = " ".join(f"total[{k}] += {c_number(column.weights[k, 0])} * row->{field};" for k in range(pieces))
    return [f"    if (isnan(row->{field})) {{ {absent} }} else {{ {every} }}"]


def _value(at: int, field: str, column: Input, refuse: str) -> list[str]:
    """A column as the number x0, x1, …, or as an array of its levels' zeros and ones."""
    if column.kind != "category":
        return [f"    double x{at} = row->{field};", f"    if (isnan(x{at})) {{ {refuse} }}"]
    chain = [f"    double x{at}[{max(1, len(column.levels))}] = {{0.0}};", f"    if (!row->{field}) {{ {refuse} }}"]
    for k, level in enumerate(column.levels):
        chain.append(f"    else if (!strcmp(row->{field}, {c_text(level)})) {{ x{at}[{k}] = 1.0; }}")
    return [*chain, *([f"    else {{ {refuse} }}"] if column.unseen is None else [])]


def run_c(content: bytes, plan: Plan, rows: list[dict[str, Any]], table: str) -> np.ndarray:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise CannotRun("there is no C compiler here")
    names = c_fields(column.name for column in plan.inputs)
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
            first = (made.stderr.strip().splitlines() or ["no reason"])[0][:120]
            raise ModelError(f"the C compiler refuses the export: {first}; nothing was written", where="c")
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
