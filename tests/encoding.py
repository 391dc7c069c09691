"""A small table of every kind of column, and what the encoder makes of a source."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl

from trueline.data.schema import encode


def table(rows: int = 400, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "size": rng.normal(50, 10, rows),
            "floor": rng.integers(0, 9, rows),
            "city": rng.choice(["Rome", "Bern", "Oslo"], rows),
            "new": rng.random(rows) < 0.5,
            "built": [datetime.date(1970, 1, 1) + datetime.timedelta(days=int(k)) for k in rng.integers(0, 9999, rows)],
            "w": rng.random(rows) + 0.1,
            "y": rng.normal(size=rows),
        }
    )


def scanned(source, **options):
    """(encoder, the whole scan's design with late terms padded by zeros, y, folds)"""
    encoder = encode(source, **options)
    blocks = list(encoder)
    width = len(encoder.terms)
    assert all(block.terms == encoder.terms[: len(block.terms)] for block in blocks)
    assert all(block.X.flags.c_contiguous and block.X.dtype == np.float64 for block in blocks)
    X = np.concatenate([np.pad(block.X, ((0, 0), (0, width - block.X.shape[1]))) for block in blocks])
    y = np.concatenate([block.y for block in blocks]) if blocks[0].y is not None else None
    folds = np.concatenate([block.folds for block in blocks]) if blocks[0].folds is not None else None
    return encoder, X, y, folds


def final(encoder, X: np.ndarray) -> np.ndarray:
    """The final design from the scan's, as ``from_scan`` says."""
    places, fills = encoder.schema.from_scan(encoder.terms)
    made = X[:, places].copy()
    for k, indicator, mean in fills:
        made[:, k] += mean * X[:, indicator]
    return made
