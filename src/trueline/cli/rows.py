"""The training rows of a loaded model, for the verifier."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from ..model.training import training_rows as read_again


def training_rows(opened: Any, source: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(design, target, weights) of the rows that a model was trained on, in order."""
    if opened.meta.get("form"):
        return _text_rows(opened, source)
    if opened.schema is None:
        return _plain_rows(opened, source)
    return read_again(opened.schema, source, tuple(opened.names), final=opened.kind == "linear")


def _plain_rows(opened: Any, source: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    frames = list(opened.frames(source, []))
    target = opened.target
    if target is None or target not in frames[0][0].columns:
        raise DataError(f"the data need the model's target, column {target!r}", where=str(target))
    y = np.concatenate([frame.get_column(target).to_numpy() for frame, _ in frames])
    return np.concatenate([X for _, X in frames]), y, None


def _text_rows(opened: Any, source: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    from ..data.text import read_text

    blocks = list(read_text(source, opened.meta["form"], known=tuple(opened.names)))
    X = np.zeros((sum(len(block.y) for block in blocks), len(opened.names)))
    at = 0
    for block in blocks:
        part = block.toarray()[:, : X.shape[1]]
        X[at : at + len(part), : part.shape[1]] = part
        at += len(part)
    weights = None if blocks[0].weights is None else np.concatenate([block.weights for block in blocks])
    return X, np.concatenate([block.y for block in blocks]), weights
