"""The door for tables with missing values and strings: scikit-learn's checks where all is numbers, columns otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import validation

from ..errors import DataError, UsageError, nearest
from .checking import validate_data


class Columns(list):
    """The columns of an array, and the array itself for what wants them all."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix
        super().__init__(matrix[:, j] for j in range(matrix.shape[1]))


def _frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not isinstance(X, np.ndarray)


def _has_strings(X: Any) -> bool:
    if _frame(X):
        return any(np.asarray(X[name]).dtype.kind in "OUSTmM" for name in X.columns)
    if isinstance(X, np.ndarray) and X.dtype.kind in "OU" and X.ndim == 2:
        return any(isinstance(value, str) for value in X.ravel())
    return False


def read_table(estimator: Any, X: Any, *, reset: bool) -> list[np.ndarray]:
    """Columns: float64 with NaN for missing numbers, objects with None for missing strings. Infinity is refused."""
    if not _has_strings(X):
        X = validate_data(estimator, X, dtype=np.float64, order="C", ensure_all_finite="allow-nan", reset=reset)
        return Columns(X)
    validation.validate_data(estimator, X, reset=reset, skip_check_array=True)
    columns = [X[name] for name in X.columns] if _frame(X) else list(X.T)
    names = list(X.columns) if _frame(X) else range(len(columns))
    made = [_column(np.asarray(column), name) for column, name in zip(columns, names)]
    if not len(made[0]):
        raise DataError("the table has 0 rows (samples); at least 1 is required", where="X")
    return made


def _column(values: np.ndarray, name: Any) -> np.ndarray:
    if values.dtype.kind in "biuf":
        made = values.astype(np.float64)
    else:
        plain = [None if v is None or v != v else v for v in values.tolist()]
        if any(isinstance(v, str) for v in plain):
            return np.array([None if v is None else str(v) for v in plain], dtype=object)
        try:
            made = np.array([np.nan if v is None else float(v) for v in plain])
        except (TypeError, ValueError):
            odd = next(v for v in plain if v is not None and not isinstance(v, (int, float)))
            raise DataError(
                f"column {name!r} holds {odd!r} of type {type(odd).__name__}; numbers and strings are accepted",
                where=str(name),
            ) from None
    bad = np.flatnonzero(np.isinf(made))
    if len(bad):
        raise DataError(
            f"column {name!r} holds infinity {len(bad)} times, first in row {bad[0]}; finite numbers and missing values are accepted",
            where=str(name),
        )
    return made


def column_number(estimator: Any, column: Any, where: str) -> int:
    """The place of a column given by name or number."""
    names = list(getattr(estimator, "feature_names_in_", ()))
    if column in names:
        return names.index(column)
    if (
        isinstance(column, (int, np.integer))
        and not isinstance(column, bool)
        and 0 <= column < estimator.n_features_in_
    ):
        return int(column)
    known = names or [str(j) for j in range(estimator.n_features_in_)]
    raise UsageError(f"{where} names column {column!r}, which is not there{nearest(str(column), known)}", where=where)


def as_array(table: list[np.ndarray]) -> np.ndarray:
    """Columns side by side: floats, or objects if one holds strings."""
    if any(column.dtype == object for column in table):
        made = np.empty((len(table[0]), len(table)), dtype=object)
        for j, column in enumerate(table):
            made[:, j] = column
        return made
    return np.column_stack(table)
