"""An estimator's predictions for one partition, in the types that the engines use.

``predict`` makes one column, ``prediction`` (and ``low`` and ``high`` with ``interval=``); ``predict_proba``,
``predict_log_proba`` and the scores of several classes make one a class; ``transform`` of components one a component.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.refusals import lacking_column
from ..data.rounding import as_floats
from ..errors import TruelineError, UsageError

PREFIXES = {"predict_proba": "probability", "predict_log_proba": "log_probability", "decision_function": "score"}


class Predictor:
    """A method of a fitted estimator that travels to the workers."""

    def __init__(self, estimator: Any, method: str = "predict", options: dict[str, Any] | None = None) -> None:
        self.estimator, self.method = estimator, method
        self.options = {name: value for name, value in (options or {}).items() if value is not None}
        for name in self.options:
            if name not in ("interval", "of"):
                raise UsageError(f"{name} is not taken with a Dask or Spark table", where=name)
        if self.options.get("interval") is None:
            self.options = {}

    @property
    def names(self) -> list[str] | None:
        """The columns that the model reads, where it knows them by name."""
        records = [getattr(self.estimator, name, None) for name in ("model_", "record_")]
        schema = next((found for one in records if (found := getattr(one, "schema", None)) is not None), None)
        if schema is not None:
            derived = {name for name, _ in schema.derive}
            return None if derived else [name for name in schema.names if name not in derived]
        known = getattr(self.estimator, "feature_names_in_", None)
        return None if known is None else [str(name) for name in known]

    @property
    def columns(self) -> dict[str, np.dtype]:
        """The columns made, and their types."""
        number = np.dtype(float)
        if self.options:
            return dict.fromkeys(("prediction", "low", "high"), number)
        classes = getattr(self.estimator, "classes_", None)
        if self.method == "transform":
            return {str(name): number for name in self.estimator.get_feature_names_out()}
        if self.method == "predict":
            targets = getattr(getattr(self.estimator, "model_", None), "targets", ("y",))
            if len(targets) > 1:
                return {f"prediction_{name}": number for name in targets}
            return {"prediction": number if classes is None else np.asarray(classes).dtype}
        prefix = PREFIXES[self.method]
        if classes is None or (prefix == "score" and len(classes) == 2):
            return {prefix: number}
        return {f"{prefix}_{label}": number for label in classes}

    def check(self, columns: list[str]) -> None:
        """Refuse a table that lacks a column, or a method that the model does not have, before any job."""
        for name in self.names or ():
            if name not in columns:
                raise lacking_column(name, columns, "the table")

    def values(self, rows: Any, number: int | None = None) -> np.ndarray:
        """The predictions of a pandas frame or of an array: one column, or several side by side."""
        made = self.columns
        flat = len(made) == 1
        if not len(rows):
            return np.empty(0 if flat else (0, len(made)), dtype=next(iter(made.values())))
        names = self.names
        if names is not None and hasattr(rows, "columns"):
            rows = rows[names]
        try:
            found = getattr(self.estimator, self.method)(rows, **self.options)
        except TruelineError as error:
            if number is None:
                raise
            raise type(error)(f"in partition {number}: {error.message}", where=error.where) from None
        found = np.column_stack(found) if self.options else np.asarray(found)
        return found.reshape(len(rows), -1)[:, 0] if flat else found

    def frame(self, rows: Any, partition_info: dict[str, Any] | None = None) -> Any:
        """The predictions of a pandas frame as a Series or a frame with its index."""
        import pandas

        made = self.columns
        found = self.values(rows, None if partition_info is None else partition_info["number"])
        if len(made) > 1:
            return pandas.DataFrame(found, index=rows.index, columns=list(made))
        ((name, dtype),) = made.items()
        return pandas.Series(found, index=rows.index, name=name, dtype=object if dtype.kind in "US" else dtype)

    def array(self, block: np.ndarray) -> np.ndarray:
        """The predictions of an array."""
        return self.values(as_floats(block, "a block of X"))
