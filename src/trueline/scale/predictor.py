"""An estimator's predictions for one partition, in the types that the engines use."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError, nearest


class Predictor:
    """A fitted estimator that travels to the workers."""

    def __init__(self, estimator: Any, method: str = "predict") -> None:
        self.estimator, self.method = estimator, method

    @property
    def names(self) -> list[str] | None:
        """The columns that the model reads, where it knows them by name."""
        schema = getattr(getattr(self.estimator, "model_", None), "schema", None)
        if schema is not None:
            derived = {name for name, _ in schema.derive}
            return None if derived else [name for name in schema.names if name not in derived]
        known = getattr(self.estimator, "feature_names_in_", None)
        return None if known is None else [str(name) for name in known]

    @property
    def dtype(self) -> Any:
        """The type of a prediction."""
        classes = getattr(self.estimator, "classes_", None)
        return np.dtype(float) if classes is None else np.asarray(classes).dtype

    def check(self, columns: list[str]) -> None:
        """Refuse a table that lacks a column, before any job."""
        for name in self.names or ():
            if name not in columns:
                raise DataError(f"the table lacks column {name!r}{nearest(name, columns)}", where=name)

    def values(self, frame: Any) -> np.ndarray:
        """The predictions of a pandas frame."""
        names = self.names
        if not len(frame):
            return np.empty(0, dtype=self.dtype)
        rows = frame if names is None else frame[names]
        return np.asarray(getattr(self.estimator, self.method)(rows))

    def series(self, frame: Any) -> Any:
        """The predictions of a pandas frame as a Series with its index."""
        import pandas

        found = self.values(frame)
        dtype = object if self.dtype.kind in "US" else self.dtype
        return pandas.Series(found, index=frame.index, name="prediction", dtype=dtype)

    def array(self, block: np.ndarray) -> np.ndarray:
        """The predictions of an array."""
        if not len(block):
            return np.empty(0, dtype=self.dtype)
        return np.asarray(getattr(self.estimator, self.method)(np.asarray(block)))
