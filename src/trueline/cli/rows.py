"""The training rows of a loaded model, for the verifier."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, UsageError
from ..model.training import training_rows as read_again


class Named(NamedTuple):
    """What the columns of a model of arrays are called in the data: None where they have the model's own names."""

    target: list[str] | None = None
    features: list[str] | None = None
    weights: str | None = None


Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def training_rows(opened: Any, source: Any, named: Named = Named()) -> Rows:  # noqa: B008
    """(design, target, weights) of the rows that a model was trained on, in order."""
    if opened.meta.get("form"):
        return _text_rows(opened, source)
    if opened.schema is None:
        return _plain_rows(opened, source, named)
    return read_again(opened.schema, source, tuple(opened.names), final=opened.kind == "linear")


def _plain_rows(opened: Any, source: Any, named: Named) -> Rows:
    from ..data.columns import kind_of, numbers
    from ..data.read import open_source
    from ..data.refusals import missing_value, unknown_column

    table = open_source(source)
    features = named.features or opened.names
    if len(features) != len(opened.names):
        raise UsageError(
            f"--features names {len(features)} columns, and the model has {len(opened.names)}", where="features"
        )
    known = list(getattr(opened.record, "targets", None) or [opened.target])
    targets = named.target or known
    if len(targets) != len(known):
        raise UsageError(
            f"--target names {len(targets)} columns, and the model has {len(known)} targets", where="target"
        )
    for option, names in (("features", features), ("target", targets)):
        absent = [name for name in names if name not in table.names]
        if absent and getattr(named, option) is None:
            lacking = "" if absent[0] is None else f" {absent[0]!r}"
            raise DataError(
                f"{table.describe} lacks the model's {option.removesuffix('s')}{lacking}; say with --{option} how it is called there",
                where=option,
            )
    weights = [] if named.weights is None else [named.weights]
    unknown = next((name for name in [*features, *targets, *weights] if name not in table.names), None)
    if unknown is not None:
        raise unknown_column(str(unknown), table.names, source=table.describe)
    wanted = [*features, *weights, *(() if opened.classes else targets)]
    found = [kind_of(name, table.dtypes[name], describe=table.describe) for name in wanted]
    kinds = ["number" if kind == "category" else kind for kind in found]
    frames = list(table.refine(columns=list(dict.fromkeys([*wanted, *targets]))).frames())
    values = np.concatenate([numbers(frame, wanted, kinds, table.describe) for frame in frames])
    for name, column in zip(wanted, values.T):
        if not np.isfinite(column).all():
            raise missing_value(name, ~np.isfinite(column), 0, table.describe, trained=True)
    d = len(features)
    if opened.classes:
        y: Any = np.concatenate([frame.get_column(targets[0]).to_numpy() for frame in frames])
    else:
        y = np.ascontiguousarray(values[:, -1] if len(targets) == 1 else values[:, -len(targets) :])
    return np.ascontiguousarray(values[:, :d]), y, np.ascontiguousarray(values[:, d]) if weights else None


def _text_rows(opened: Any, source: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The lines that were learned: those with a label."""
    from ..data.text import read_text

    blocks = list(read_text(source, opened.meta["form"], known=tuple(opened.names)))
    X = np.zeros((sum(len(block.y) for block in blocks), len(opened.names)))
    at = 0
    for block in blocks:
        part = block.toarray()[:, : X.shape[1]]
        X[at : at + len(part), : part.shape[1]] = part
        at += len(part)
    weights = None if blocks[0].weights is None else np.concatenate([block.weights for block in blocks])
    y = np.concatenate([block.y for block in blocks])
    labelled = np.isfinite(y)
    return X[labelled], y[labelled], None if weights is None else weights[labelled]
