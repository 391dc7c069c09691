"""The training rows of a model, read again as training read them: what a verifier needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError, ModelError


def training_rows(
    schema: Any, source: Any, terms: tuple[str, ...], *, final: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(design, target, weights) of the rows that a model was trained on, in order, columns as ``terms``.

    ``final`` says that the terms are those of the final design, as closed forms use them; a learner that followed the
    rows has one term for every level instead.
    """
    if schema is None or schema.target is None:
        raise ModelError("the model does not know its columns and target; give (X, y) as arrays", where="model")
    X, found, y, weights = rows_of(encoder_of(schema, source), final=final)
    other = sorted(set(found) ^ set(terms))
    if other:
        raise DataError(f"these are not the training rows: they differ from the model in {other[0]!r}", where=other[0])
    X = X if found == tuple(terms) else np.ascontiguousarray(X[:, [found.index(term) for term in terms]])
    return X, y, weights


def rows_of(encoder: Any, *, final: bool = True) -> tuple[np.ndarray, tuple[str, ...], np.ndarray, np.ndarray | None]:
    """(design, terms, target, weights) of all rows that an encoder reads; labels as they stand in the source."""
    blocks = list(encoder)
    X = np.zeros((sum(len(b.X) for b in blocks), len(blocks[-1].terms)))
    at = 0
    for block in blocks:
        X[at : at + len(block.X), : block.X.shape[1]] = block.X
        at += len(block.X)
    terms = encoder.schema.terms if final else blocks[-1].terms
    X = designed(encoder.schema, X, blocks[-1].terms) if final else X
    y = np.concatenate([block.y for block in blocks])
    if encoder.target_levels:
        y = np.asarray(encoder.target_levels)[y.astype(int)]
    weights = None if blocks[0].weights is None else np.concatenate([block.weights for block in blocks])
    return X, tuple(terms), y, weights


def held_out(first: int, count: int, share: float) -> np.ndarray:
    """Which of ``count`` rows from number ``first`` on a fit keeps out: those whose number hashes below the share."""
    number = np.arange(first, first + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    number ^= number >> np.uint64(32)
    number *= np.uint64(0xD6E8FEB86659FD93)
    return (number >> np.uint64(11)).astype(float) * 2.0**-53 < share


def fitted_rows(
    X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, share: float | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """All rows of a table, or those that a fit with this share held out did see."""
    if share is None:
        return X, y, weights
    kept = ~held_out(0, len(X), share)
    if not kept.any():
        raise DataError("every row of these data would be held out; give the rows of the fit", where="holdout")
    return X[kept], y[kept], None if weights is None else weights[kept]


def encoder_of(schema: Any, source: Any) -> Any:
    """An encoder with the settings that made a schema."""
    from ..data.encode import Encoder
    from ..data.read import open_source

    formula = None
    if schema.formula is not None:
        from ..data.formula import Formula

        formula = Formula.from_dict(schema.formula)
    opened = open_source(source)
    schema.check_names([*opened.names, *dict(schema.derive)], opened.describe, training=True)
    encoder = Encoder(
        opened,
        target=schema.target,
        features=None if formula is not None else list(schema.names),
        weights=schema.weights,
        categories=[c.name for c in schema.columns if c.kind == "category"],
        formula=formula,
        intercept=schema.intercept,
        missing=schema.missing,
        unseen=schema.unseen,
        where=schema.where,
        derive=dict(schema.derive),
        dates=schema.formats,
        labels=True,
    )
    encoder.again = True
    return encoder


def designed(schema: Any, X: np.ndarray, terms: Any) -> np.ndarray:
    """The final design from the scan's."""
    order, fills = schema.from_scan(terms)
    if order == list(range(X.shape[1])) and not fills:
        return X
    made = np.ascontiguousarray(X[:, order])
    for k, i, m in fills:
        made[:, k] += m * X[:, i]
    return made
