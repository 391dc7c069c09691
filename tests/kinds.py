"""A table with a column of every kind, for the tests of probability models."""

from __future__ import annotations

import numpy as np
import polars as pl


def mixed_table():
    """A column of every kind, two classes, some values missing."""
    rng = np.random.default_rng(0)
    n = 600
    y = rng.random(n) < 0.4
    table = {
        "height": np.where(y, 178.0, 165.0) + 7 * rng.standard_normal(n),
        "calls": rng.poisson(np.where(y, 6.0, 3.0)).astype(float),
        "smokes": (rng.random(n) < np.where(y, 0.4, 0.2)).astype(float),
        "wait": rng.exponential(np.where(y, 1.0, 3.0)),
        "two": np.where(rng.random(n) < 0.5, -3.0, 3.0) + rng.standard_normal(n) + y,
    }
    for column in table.values():
        column[rng.random(n) < 0.1] = np.nan
    town = np.array(["bath", "leeds", "york"])[(rng.random(n) * (2 + y)).astype(int)].astype(object)
    town[rng.random(n) < 0.1] = None
    frame = pl.DataFrame({k: pl.Series(v) for k, v in table.items()} | {"town": pl.Series(town.tolist())})
    kinds = {"height": "gaussian", "wait": "histogram", "two": "mixture(2)"}
    return frame, np.where(y, "m", "f"), kinds
