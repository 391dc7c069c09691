"""The Open Inference Protocol's tensors: one input a feature, all of one length, become rows of named values."""

from __future__ import annotations

from typing import Any

from .intake import Refused
from .shape import shown


def rows(given: Any) -> list[dict[str, Any]]:
    """The rows of an inference request: one input a feature, all of one length."""
    try:
        inputs = given["inputs"]
        columns = {str(one["name"]): one["data"] for one in inputs}
    except (TypeError, KeyError):
        raise Refused(
            400, "field 'inputs' is not a list of tensors with name, shape, datatype and data", "inputs"
        ) from None
    columns = {
        name: [v for part in data for v in (part if isinstance(part, list) else [part])]
        if isinstance(data, list)
        else None
        for name, data in columns.items()
    }
    for name, data in columns.items():
        if data is None:
            raise Refused(400, f"the data of input {shown(name)} is not a list", "inputs")
    lengths = {len(data) for data in columns.values() if data is not None}
    if len(lengths) != 1 or not 0 < max(lengths) <= 10_000:
        raise Refused(400, "the inputs are not of one length from 1 to 10000", "inputs")
    return [{name: data[k] for name, data in columns.items() if data is not None} for k in range(lengths.pop())]
