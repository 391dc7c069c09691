"""The block of numbers that flows from the readers to every learner."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Block(NamedTuple):
    """Some rows of the design: ``X`` float64, C-ordered, one column a term; the rest only where it is known.

    ``terms`` names the columns of X and may grow from block to block (a new categorical level): a term that an
    earlier block lacks was 0 in all of its rows.
    """

    terms: tuple[str, ...]
    X: np.ndarray
    y: np.ndarray | None = None
    weights: np.ndarray | None = None
    folds: np.ndarray | None = None
