"""The training rows of a model, read again as training read them: what a verifier needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError, ModelError


def training_rows(opened: Any, source: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(design, target, weights) of the rows that a model was trained on, in order."""
    schema = opened.schema
    if schema is None:
        return _plain_rows(opened, source)
    if schema.target is None:
        raise ModelError(
            f"{opened.path} does not say which column it predicts, so its claim cannot be checked", where=opened.path
        )
    encoder = encoder_of(schema, source)
    blocks = list(encoder)
    terms = blocks[-1].terms
    X = np.zeros((sum(len(b.X) for b in blocks), len(terms)))
    at = 0
    for block in blocks:
        X[at : at + len(block.X), : block.X.shape[1]] = block.X
        at += len(block.X)
    X = _designed(schema, encoder, X, terms, opened)
    y = np.concatenate([block.y for block in blocks])
    weights = None if blocks[0].weights is None else np.concatenate([block.weights for block in blocks])
    labels = encoder.target_levels
    if labels:
        y = np.asarray(labels)[y.astype(int)]
    return X, y, weights


def encoder_of(schema: Any, source: Any) -> Any:
    """An encoder with the settings that made a schema."""
    from ..data.encode import Encoder

    formula = None
    if schema.formula is not None:
        from ..data.formula import Formula

        formula = Formula.from_dict(schema.formula)
    return Encoder(
        source,
        target=schema.target,
        features=None if formula is not None else list(schema.names),
        weights=schema.weights,
        categories=[c.name for c in schema.columns if c.kind == "category"],
        formula=formula,
        missing=schema.missing,
        unseen=schema.unseen,
        where=schema.where,
        derive=dict(schema.derive),
        labels=bool(schema.classes),
    )


def designed(schema: Any, X: np.ndarray, terms: Any) -> np.ndarray:
    """The final design from the scan's."""
    order, fills = schema.from_scan(terms)
    if order == list(range(X.shape[1])) and not fills:
        return X
    made = np.ascontiguousarray(X[:, order])
    for k, i, m in fills:
        made[:, k] += m * X[:, i]
    return made


def _designed(schema: Any, encoder: Any, X: np.ndarray, terms: Any, opened: Any) -> np.ndarray:
    """The design in the record's own terms, refused if these rows have other ones."""
    if opened.kind == "linear":
        found = encoder.schema
        made = designed(found, X, terms)
        if found.terms != tuple(opened.names):
            new = sorted(set(found.terms) ^ set(opened.names)) or ["their order"]
            raise DataError(f"these are not the training rows: they differ from the model in {new[0]!r}", where=new[0])
        return made
    from .models import picked, places

    return picked(X, places(terms, opened.names))


def _plain_rows(opened: Any, source: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    frames = list(opened.frames(source, []))
    target = opened.target
    if target is None or target not in frames[0][0].columns:
        raise DataError(f"the data need the model's target, column {target!r}", where=str(target))
    return (
        np.concatenate([X for _, X in frames]),
        np.concatenate([f.get_column(target).to_numpy() for f, _ in frames]),
        None,
    )
