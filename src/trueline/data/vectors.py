"""The target and the weights of a source, read beside its columns and refused by the same rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import DataError
from .columns import codes, kind_of, numbers
from .read import Source
from .refusals import missing_value, refuse_infinite

if TYPE_CHECKING:
    import polars as pl

MADE_UP = ("mean", "indicator")  # policies for missing inputs; a target or weight is never made up


class Target:
    """The column to predict: numbers, or labels by their codes; without a name there is none."""

    def __init__(self, name: str | None, source: Source, missing: str, labels: bool) -> None:
        self.name, self.missing, self.describe = name, missing, source.describe
        self.levels: dict[str, int] = {}
        self.kind = "none"
        if name is None:
            return
        self.kind = kind_of(name, source.dtypes[name], describe=source.describe)
        if self.kind == "category" and not labels:
            raise DataError(
                f"target {name!r} of {source.describe} is text, and a number is needed here; choose another "
                "target, derive a number from it, give decimal=',' (--decimal ,) where decimals follow a comma, or fit a classifier",
                where=name,
            )

    def values(self, frame: pl.DataFrame, row: int) -> np.ndarray | None:
        """The target of some rows, the first of them number ``row``."""
        if self.name is None:
            return None
        if self.kind == "category":
            found = codes(frame.get_column(self.name), self.levels, grow=True)
            y = np.where(found < 0, np.nan, found).astype(float)
        else:
            y = numbers(frame, [self.name], [self.kind], self.describe, row)[:, 0] + 0.0
            refuse_infinite(y[:, None], [self.name], row, self.describe)
        if self.missing in MADE_UP and np.isnan(y).any():
            raise DataError(
                f"target {self.name!r} is missing in row {row + int(np.argmax(np.isnan(y))) + 1} of "
                f'{self.describe} ({int(np.isnan(y).sum())} such rows); choose missing="drop" or filter with where',
                where=self.name,
            )
        return y


class Weights:
    """The column of weights; without a name there is none."""

    def __init__(self, name: str | None, source: Source, missing: str) -> None:
        self.name, self.missing, self.describe = name, missing, source.describe

    def values(self, frame: pl.DataFrame, row: int) -> np.ndarray | None:
        """The weights of some rows, the first of them number ``row``."""
        if self.name is None:
            return None
        w = numbers(frame, [self.name], ["number"], self.describe, row)[:, 0]
        refuse_infinite(w[:, None], [self.name], row, self.describe)
        if self.missing in MADE_UP and np.isnan(w).any():
            raise missing_value(self.name, np.isnan(w), row, self.describe)
        negative = w < 0
        if negative.any():
            first = int(np.argmax(negative))
            raise DataError(
                f"weight {w[first]:g} in row {row + first + 1} of {self.describe} is negative (column "
                f"{self.name!r}); weights are at least 0",
                where=self.name,
            )
        return w
