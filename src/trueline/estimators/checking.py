"""The door for arrays: scikit-learn's checks, and where they refuse a value a sentence that names its place."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
from sklearn.base import is_regressor
from sklearn.utils import validation

from ..data.refusals import FILL, in_words, refuse_broken_sparse, unusable
from ..data.rounding import refuse_integers, refuse_masked
from ..errors import DataError


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **rules: Any) -> Any:
    """As scikit-learn's function of the same name; a value that it refuses is named by column and row.

    Masked entries, and whole numbers that float64 would round, are refused before they become numbers like others.
    """
    _refuse_lost(X, y, numeric=rules.get("y_numeric", False) or is_regressor(estimator))
    try:
        found = validation.validate_data(estimator, X, y, **rules)
    except (TypeError, ValueError):
        finite = rules.get("ensure_all_finite", True)
        # Where nothing was searched for, who meets NaN later names it: only words can be the fault here.
        if finite is not False or _wordy(X):
            refuse_values(X, estimator, missing=finite == "allow-nan")
        if not isinstance(y, str):
            refuse_target(y, numeric=rules.get("y_numeric", False))
        raise
    if rules.get("y_numeric") and isinstance(found, tuple) and found[1].dtype.kind in "US":
        refuse_target(found[1])  # words that scikit-learn lets through
    return tuple(map(_aligned, found)) if isinstance(found, tuple) else _aligned(found)


def check_array(X: Any, estimator: Any = None, **rules: Any) -> Any:
    """As scikit-learn's function of the same name; a value that it refuses is named by column and row."""
    _refuse_lost(X)
    try:
        return _aligned(validation.check_array(X, **rules))
    except (TypeError, ValueError):
        refuse_values(X, estimator)
        raise


def _aligned(array: Any) -> Any:
    """Numbers at addresses that are multiples of their size: what a compiled loop may read."""
    return array.copy() if isinstance(array, np.ndarray) and not array.flags.aligned else array


def check_weights(sample_weight: Any, X: Any, *, ensure_non_negative: bool = False) -> np.ndarray:
    """One float64 weight a row, of an array, one number or None (1 each); none masked, not all 0."""
    refuse_masked(sample_weight, "sample_weight")
    refuse_integers(sample_weight, ["sample_weight"], "the weights")
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if sample_weight is None:
        return np.ones(rows)
    try:
        weights = _aligned(
            validation.check_array(
                np.full(rows, sample_weight) if isinstance(sample_weight, Number) else sample_weight,
                ensure_2d=False, allow_nd=True, dtype=np.float64, order="C", input_name="sample_weight",
            )
        )  # fmt: skip
    except ValueError as error:
        raise DataError(str(error).partition("\n")[0], where="sample_weight") from None
    if weights.shape != (rows,):
        raise DataError(
            f"sample_weight has the shape {weights.shape} for {rows} rows; give one weight a row", where="sample_weight"
        )
    if not np.isfinite(weights.sum()):
        raise DataError(
            "the sample weights add up to more than a float64 holds; give smaller ones", where="sample_weight"
        )
    if not weights.any():
        raise DataError("all sample weights are zero; give at least one row a weight above 0", where="sample_weight")
    if ensure_non_negative and weights.min() < 0.0:
        raise DataError(
            f"row {int(np.argmin(weights))} has the sample weight {weights.min():g}; give weights of 0 or more",
            where="sample_weight",
        )
    return weights


def _refuse_lost(X: Any, y: Any = "no_validation", *, numeric: bool = False) -> None:
    refuse_masked(X, "X")
    refuse_broken_sparse(X)
    refuse_integers(X, (), "X")
    refuse_masked(y, "y")
    if numeric and not isinstance(y, str):
        refuse_integers(y, ["y"], "y")


def refuse_values(X: Any, estimator: Any = None, *, missing: bool = False) -> None:
    """Raise for the first entry of X that is no finite number, with how many there are; return if there is none.

    >>> refuse_values(np.array([[1.0, 2.0], [3.0, np.nan]]))
    Traceback (most recent call last):
    trueline.errors.DataError: X has 1 unusable entry: column 'x1' has NaN in row 1; give finite numbers: fill or drop what is missing first
    """
    _refuse_ragged(X)
    found: tuple[int, int, str, Any] | None = None
    count = 0
    for column, (name, values) in enumerate(_columns(X, list(getattr(estimator, "feature_names_in_", ())))):
        numbers, words = _numbers(values)
        bad = np.isinf(numbers) if missing else ~np.isfinite(numbers)
        bad |= words
        count += int(bad.sum())
        if bad.any():
            row = int(np.argmax(bad))
            if found is None or (row, column) < found[:2]:
                found = row, column, name, values[row]
    if found is None:
        return
    row, _, name, value = found
    if hasattr(X, "indices"):  # the rows of a sparse matrix's column: the stored ones
        stored = X.tocsc()
        row = int(stored.indices[stored.indptr[found[1]] + row])
    remedy = FILL
    if not isinstance(value, (int, float, np.number)) and value is not None and not _missing(value):
        kind, become = ("words", "categories") if isinstance(value, str) else ("dates", "days")
        remedy = (
            "give numbers: make indicator columns of words first" if isinstance(value, str) else "give numbers of days"
        )
        if hasattr(estimator, "from_moments"):
            remedy += f", or the whole table with target= its column's name: columns of {kind} then become {become}"
    raise unusable("X", count, f"column {name!r} has {_what(value)} in row {row}", name, remedy)


def refuse_target(y: Any, *, numeric: bool = True) -> None:
    """Raise for the first entry of a target that is NaN or infinity, or a word for a number; return if there is none."""
    if getattr(getattr(y, "dtype", None), "kind", "") == "c":
        return
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        flat = np.asarray(y, dtype=object)
        words = [row for row, value in enumerate(flat.tolist()) if isinstance(value, str)] if flat.ndim == 1 else []
        if words and numeric:
            raise DataError(
                f"y has {str(flat[words[0]])!r} in row {words[0]}; give numbers, or take a classifier for classes",
                where="y",
            ) from None
        return
    bad = ~np.isfinite(values)
    if values.ndim and bad.any():
        place = np.unravel_index(int(np.argmax(bad)), values.shape)
        where = f"row {place[0]}" + (f" of target {place[1]}" if len(place) > 1 else "")
        raise unusable("y", int(bad.sum()), f"{in_words(values[place])} in {where}", "y")


def target_names(y: Any) -> tuple[str, ...]:
    """What the targets are called: a Series' name, a frame's columns, or y, y0, y1 …

    >>> target_names([1.0, 2.0]), target_names(np.zeros((3, 2)))
    (('y',), ('y0', 'y1'))
    """
    columns = getattr(y, "columns", None)
    if columns is not None:
        return tuple(str(name) for name in columns)
    name = getattr(y, "name", None)
    if isinstance(name, str) and name:
        return (name,)
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, (list, tuple)) and len(y) and isinstance(y[0], (list, tuple, np.ndarray)):
        shape = (len(y), len(y[0]))
    return tuple(f"y{k}" for k in range(shape[1])) if shape is not None and len(shape) == 2 else ("y",)


def _refuse_ragged(X: Any) -> None:
    if not isinstance(X, (list, tuple)) or not all(isinstance(row, (list, tuple, np.ndarray)) for row in X):
        return
    for number, row in enumerate(X):
        if len(row) != len(X[0]):
            raise DataError(
                f"row {number} of X has {len(row)} entries where row 0 has {len(X[0])}; give every row the same columns",
                where="X",
            ) from None


def _missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _what(value: Any) -> str:
    if isinstance(value, str):
        return repr(str(value))
    if _missing(value):
        return "nothing"
    if isinstance(value, (int, float, np.number)):
        return in_words(float(value))
    return f"the date {value}"


def _wordy(X: Any) -> bool:
    kinds = [getattr(X, "dtype", None)] if not hasattr(X, "columns") else list(X.dtypes)
    return any(getattr(kind, "kind", "O") in "OUSTmM" for kind in kinds)


def _columns(X: Any, names: list[str]) -> Any:
    """(name, values) of each column of a frame, a sparse matrix or rows; nothing of what has no columns."""
    if len(names) != (X.shape[1] if len(getattr(X, "shape", ())) == 2 else -1):
        names = []
    if hasattr(X, "columns"):
        for name in X.columns:
            yield str(name), np.asarray(X[name])
    elif hasattr(X, "tocsc"):
        stored = X.tocsc()
        for j in range(X.shape[1]):
            yield names[j] if names else f"x{j}", stored.data[stored.indptr[j] : stored.indptr[j + 1]]
    else:
        try:
            rows = np.asarray(X) if isinstance(X, np.ndarray) else np.array(X, dtype=object)
        except ValueError:
            return
        if rows.ndim == 2:
            yield from ((names[j] if names else f"x{j}", rows[:, j]) for j in range(rows.shape[1]))


def _numbers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values as float64, and which of them are words or dates."""
    words = np.zeros(len(values), dtype=bool)
    if values.dtype.kind in "cmM":  # scikit-learn has a sentence for complex numbers
        return np.zeros(len(values)), words if values.dtype.kind == "c" else ~words
    try:
        return np.asarray(values, dtype=np.float64), words
    except (TypeError, ValueError):
        made = np.zeros(len(values))
        for row, value in enumerate(values.astype(object)):
            try:
                made[row] = np.nan if _missing(value) else float(value)
            except (TypeError, ValueError):
                words[row] = isinstance(value, str)
        return made, words
