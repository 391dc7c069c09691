"""The Open Inference Protocol's tensors: one input a feature, all of one length, become rows of named values."""

from __future__ import annotations

from typing import Any

from .intake import Refused
from .shape import shown

DATATYPES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES",
)  # fmt: skip


def rows(given: Any) -> list[dict[str, Any]]:
    """The rows of an inference request: one input a feature, all of one length."""
    inputs = given.get("inputs") if isinstance(given, dict) else None
    if not isinstance(inputs, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in inputs
    ):
        raise Refused(400, "field 'inputs' is not a list of tensors with name, shape, datatype and data", "inputs")
    columns: dict[str, list[Any]] = {}
    for one in inputs:
        if one["name"] in columns:
            raise Refused(400, f"there are two inputs {shown(one['name'])}; give each once", "inputs")
        columns[one["name"]] = _column(one)
    lengths = {len(data) for data in columns.values()}
    if len(lengths) != 1 or not 0 < max(lengths) <= 10_000:
        raise Refused(400, "the inputs are not of one length from 1 to 10000", "inputs")
    return [{name: data[k] for name, data in columns.items()} for k in range(lengths.pop())]


def _column(one: dict[str, Any]) -> list[Any]:
    """The values of one input, [n] or [n, 1]."""
    where, data = f"input {shown(one['name'])}", one.get("data")
    if not isinstance(data, list):
        raise Refused(400, f"the data of {where} is not a list", "inputs")
    data = [v for part in data for v in (part if isinstance(part, list) else [part])]
    if one.get("datatype", "FP64") not in DATATYPES:
        raise Refused(
            400, f"the datatype of {where} is {shown(one['datatype'])}; give one of {', '.join(DATATYPES)}", "inputs"
        )
    shape = one.get("shape", [len(data)])
    if shape not in ([len(data)], [len(data), 1]):
        raise Refused(
            400,
            f"the shape of {where} is {shown(shape)} and its data have {len(data)} values; give [{len(data)}]",
            "inputs",
        )
    return data
