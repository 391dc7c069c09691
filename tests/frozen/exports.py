"""Exported models, run where they would be used, on rows given as dictionaries."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl

Rows = list[dict[str, Any]]


def run_export(language: str, path: Path, frame: pl.DataFrame) -> list[Any] | None:
    """What the export in ``path`` computes for the rows of a frame; None where this machine cannot run it."""
    return {"sql": _sql, "python": _python, "c": _c, "json": _json, "onnx": _onnx}[language](path, frame)


def _sql(path: Path, frame: pl.DataFrame) -> list[Any]:
    import duckdb

    with duckdb.connect() as base:
        base.register("data", frame.to_arrow())
        result = base.execute(path.read_text()).fetchall()
        names = [d[0] for d in base.description]
    ours = [k for k, name in enumerate(names) if name.startswith(("prediction", "probability"))]
    return [[row[k] for k in ours] for row in result]


def _python(path: Path, frame: pl.DataFrame) -> list[Any]:
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return [space["predict"](row) for row in frame.to_dicts()]


def _c(path: Path, frame: pl.DataFrame) -> list[Any] | None:
    """A program of the export and these rows, compiled and run: its own process, so that nothing is loaded here."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    text = path.read_text()
    struct = re.search(r"typedef struct \{(.*?)\} trueline_row", text, re.S)
    assert struct is not None
    fields = re.findall(r"(double|const char \*)\s*(\w+);", struct.group(1))

    def cell(value: Any, kind: str) -> str:
        if kind != "double":
            return "0" if value is None else '"' + "".join(f'\\x{b:02x}""' for b in str(value).encode()) + '"'
        return "NAN" if value is None else float(value).hex()

    rows = ", ".join("{" + ", ".join(cell(row[name], kind) for kind, name in fields) + "}" for row in frame.to_dicts())
    classes = "double *probability" in text
    body = (
        'double p[99]; printf("%d ", trueline_predict(&rows[k], p)); printf("%.17g\\n", p[0]);'
        if classes
        else 'printf("%.17g\\n", trueline_predict(&rows[k]));'
    )
    main = f"int main(void) {{ static const trueline_row rows[] = {{{rows}}};\n"
    main += f"for (int k = 0; k < {len(frame)}; k++) {{ {body} }} return 0; }}\n"
    path.with_name("program.c").write_text(f"#include <stdio.h>\n{text}\n{main}")
    subprocess.run([compiler, "-O1", "-o", path.with_name("program"), path.with_name("program.c"), "-lm"], check=True)
    out = subprocess.run([path.with_name("program")], check=True, capture_output=True, text=True).stdout
    return [[float(v) for v in line.split()] for line in out.splitlines()]


def _json(path: Path, frame: pl.DataFrame) -> list[Any]:
    """Σ weights; then the link. Only models of one member, as ``trueline fit`` makes them."""
    model = json.loads(path.read_text())
    return [_score(model, row) for row in frame.to_dicts()]


def _score(model: dict[str, Any], row: dict[str, Any]) -> Any:
    outputs = len(model["intercept"])
    scores = list(model["intercept"])
    for column in model["columns"]:
        value = row[column["name"]]
        for k in range(outputs):
            weights = column["weights"][k]
            scores[k] += weights[column["levels"].index(value)] if column["levels"] else weights[0] * float(value)
    if model["link"] == "identity":
        return scores[0]
    if model["link"] == "log":
        return math.exp(scores[0])
    if model["link"] == "logistic":
        return 1.0 / (1.0 + math.exp(-scores[0]))
    top = max(scores)
    chances = [math.exp(s - top) for s in scores]
    return [c / sum(chances) for c in chances]


def _onnx(path: Path, frame: pl.DataFrame) -> list[Any]:
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    feed = {}
    for item in session.get_inputs():
        values = frame[item.name].to_list()
        kind = {"tensor(string)": object, "tensor(float)": np.float32}.get(item.type, np.float64)
        feed[item.name] = np.array(values, dtype=kind).reshape([-1, *[1] * (len(item.shape) - 1)])
    return np.asarray(session.run(["prediction"], feed)[0]).tolist()
