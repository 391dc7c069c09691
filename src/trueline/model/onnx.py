"""ONNX in double precision: one input a column (double, or string for a category), the score and the prediction.

Numbers are concatenated and multiplied by one double matrix; a category becomes the place of its level (LabelEncoder,
whole numbers) and Gather picks its weights, so that no weight passes through float32. Missing numbers are NaN,
missing text is the empty string.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import TruelineError
from .escape import onnx_name
from .plan import Plan


def write(plan: Plan) -> bytes:
    """The model's bytes."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise TruelineError("ONNX export needs onnx; try pip install 'trueline[onnx]'", where="onnx") from None
    nodes: list[Any] = []
    stored: list[Any] = []
    inputs = []
    pieces = len(plan.intercepts)

    columns = [onnx_name(column.name) for column in plan.inputs]
    mark = "_"  # before every name of our own that is not an output: no column begins with it
    while any(column.startswith(mark) for column in columns):
        mark += "_"

    def keep(name: str, array: np.ndarray) -> str:
        name = mark + name
        stored.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(kind: str, given: list[str], out: str, **options: Any) -> str:
        out = out if out in ("score", "prediction") else mark + out
        nodes.append(helper.make_node(kind, given, [out], **options))
        return out

    total = keep("intercept", plan.intercepts.astype(np.float64)[None, :])
    numeric, weights = [], []
    for at, column in enumerate(plan.inputs):
        text = column.kind == "category"
        inputs.append(
            helper.make_tensor_value_info(column.name, TensorProto.STRING if text else TensorProto.DOUBLE, [None, 1])
        )
        if not text and column.missing is None:
            numeric.append(column.name)
            weights.append(column.weights[:, 0])
            continue
        if not text:
            absent = node("IsNaN", [column.name], f"absent_{at}")
            own = node("MatMul", [column.name, keep(f"w_{at}", column.weights.T.astype(np.float64))], f"own_{at}")
            assert column.missing is not None
            stand = keep(f"stand_{at}", column.missing.astype(np.float64)[None, :])
            total = node("Add", [total, node("Where", [absent, stand, own], f"part_{at}")], f"total_{at}")
            continue
        refused = np.full(pieces, math.nan)
        table = [
            *column.weights.T,
            refused if column.missing is None else column.missing,
            refused if column.unseen is None else column.unseen,
        ]
        levels = list(column.levels)
        place = node(
            "LabelEncoder", [column.name], f"place_{at}", domain="ai.onnx.ml",
            keys_strings=[*levels, ""] if "" not in levels else levels,
            values_int64s=list(range(len(levels) + (0 if "" in levels else 1))), default_int64=len(levels) + 1,
        )  # fmt: skip
        flat = node("Reshape", [place, keep(f"shape_{at}", np.array([-1], dtype=np.int64))], f"flat_{at}")
        part = node("Gather", [keep(f"levels_{at}", np.array(table, dtype=np.float64)), flat], f"part_{at}", axis=0)
        total = node("Add", [total, part], f"total_{at}")
    if numeric:
        joined = numeric[0] if len(numeric) == 1 else node("Concat", numeric, "numbers", axis=1)
        product = node("MatMul", [joined, keep("weights", np.stack(weights).astype(np.float64))], "product")
        total = node("Add", [total, product], "linear")
    if len(plan.shares):
        if not math.isinf(plan.low):
            low, high = keep("low", np.array(plan.low)), keep("high", np.array(plan.high))
            total = node("Min", [node("Max", [total, low], "above"), high], "clipped")
        total = node("MatMul", [total, keep("shares", plan.shares.astype(np.float64)[:, None])], "mixed")
    node("Identity", [total], "score")
    link = {"logistic": "Sigmoid", "softmax": "Softmax", "log": "Exp"}.get(plan.link, "Identity")
    node(link, ["score"], "prediction", **({"axis": 1} if link == "Softmax" else {}))
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.DOUBLE, [None, plan.outputs])
        for name in ("score", "prediction")
    ]
    graph = helper.make_graph(nodes, "trueline", inputs, outputs, stored)
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8
    )
    made.producer_name = "trueline"
    onnx.checker.check_model(made)
    return made.SerializeToString()


def run(content: bytes, plan: Plan, rows: list[dict[str, Any]]) -> np.ndarray:
    """Scores by onnxruntime."""
    from .infix import CannotRun

    try:
        import onnxruntime
    except ImportError:
        raise CannotRun("onnxruntime is not installed") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    feed: dict[str, Any] = {}
    for column in plan.inputs:
        values = [row[column.name] for row in rows]
        if column.kind == "category":
            feed[column.name] = np.array([["" if v is None else str(v)] for v in values], dtype=object)
        else:
            feed[column.name] = np.array([[math.nan if v is None else float(v)] for v in values])
    return np.asarray(session.run(["score"], feed)[0])
