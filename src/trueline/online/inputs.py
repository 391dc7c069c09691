"""The door of the online learners: what a block, a target or a weight must be, refused in one sentence otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.refusals import in_words, refuse_broken_sparse, refuse_values, unusable
from ..data.rounding import refuse_integers, refuse_masked
from ..errors import DataError

LARGEST = 1e100  # squares and products of larger entries overflow


def matrix(X: Any) -> Any:
    """A C-ordered float64 array of two dimensions, or CSR; not checked entry by entry (the engine sees bad ones)."""
    if hasattr(X, "tocsr"):
        refuse_broken_sparse(X)
        return X.tocsr() if X.dtype == np.float64 else X.tocsr().astype(np.float64)
    if not isinstance(X, np.ndarray) or X.dtype != np.float64:
        refuse_masked(X, "X")
        refuse_integers(X, (), "X")
        try:
            X = np.asarray(X)
            X = X.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(
                "X has entries that are not numbers; give numbers only, or encode them first", where="X"
            ) from None
    if X.ndim != 2:
        raise DataError(f"X has {X.ndim} dimension(s); give a table of rows and columns", where="X")
    return np.require(X, requirements=["C", "A", "E"])


def named(features: Any) -> Any:
    """An example: a dict from names to values. Names of another kind than strings become strings, as files hold them."""
    if not isinstance(features, Mapping):
        raise DataError(
            f"an example is a dict of named features, not {type(features).__name__}; rows of an array go to partial_fit "
            f"and predict",
            where="x",
        )
    if all(isinstance(name, str) for name in features):
        return features
    made = {str(name): value for name, value in features.items()}
    if len(made) < len(features):
        raise DataError("two features have the same name once names are strings; rename one", where="x")
    return made


def check_width(X: Any, width: int) -> None:
    if X.shape[1] != width:
        raise DataError(
            f"X has {X.shape[1]} features, but this learner is expecting {width} features as input", where="X"
        )


def targets(y: Any, n: int, kind: str) -> np.ndarray:
    """Targets as float64, legal for the loss: 0/1 and booleans become ±1 where signs are wanted."""
    refuse_masked(y, "y")
    refuse_integers(y, ["y"], "y")
    try:
        y = np.asarray(y)
        y = np.require(y, np.float64, ["C", "A", "E"]).reshape(-1)
    except (TypeError, ValueError):
        raise DataError(f"y has entries that are not numbers (the first is {_first_text(y)!r})", where="y") from None
    if len(y) != n:
        raise DataError(f"X has {n} rows but y has {len(y)} entries", where="y")
    if n and not (y.min() >= -LARGEST and y.max() <= LARGEST):  # NaN fails both
        bad = ~(np.abs(y) <= LARGEST)
        at = int(np.argmax(bad))
        raise unusable("y", int(bad.sum()), f"{in_words(y[at])} in row {at}", "y")
    if kind == "sign":
        found = np.unique(y)
        if np.isin(found, (0.0, 1.0)).all() and 0.0 in found:
            return 2.0 * y - 1.0
        if not np.isin(found, (-1.0, 1.0)).all():
            bad = ~np.isin(y, (-1.0, 0.0, 1.0))
            at = int(np.argmax(bad))
            what = f"{y[at]:g} in row {at}" if bad.any() else "−1, 0 and 1 together"
            raise DataError(f"y has {what}; a loss on two classes takes −1 and 1, or 0 and 1", where="y")
    if kind in ("nonnegative", "positive"):
        bad = y < 0.0 if kind == "nonnegative" else y <= 0.0
        if bad.any():
            at = int(np.argmax(bad))
            raise DataError(f"y has {y[at]:g} in row {at}; this loss takes {kind} targets", where="y")
    return y


def codes(y: Any, n: int, count: int) -> np.ndarray:
    """Class indices 0 … count − 1."""
    found = targets(y, n, "real")
    bad = ~np.isin(found, np.arange(count))
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(
            f"y has the unknown class {found[at]:g} in row {at}; the classes are 0 … {count - 1}", where="y"
        )
    return found


def target(y: Any, kind: str) -> float:
    """One target; as :func:`targets`, faster."""
    if type(y) is float and kind == "real" and abs(y) <= LARGEST:
        return y
    return float(targets(np.atleast_1d(np.asarray(y)), 1, kind)[0])


def weights(given: Any, n: int) -> np.ndarray:
    """Importance weights as float64, or an empty array for none."""
    if given is None:
        return np.empty(0)
    refuse_masked(given, "sample_weight")
    refuse_integers(given, ["sample_weight"], "the weights")
    try:
        c = np.require(given, np.float64, ["C", "A", "E"]).reshape(-1)
    except (TypeError, ValueError):
        raise DataError("sample_weight has entries that are not numbers", where="sample_weight") from None
    if len(c) != n:
        raise DataError(f"sample_weight.shape == {c.shape}, expected ({n},): one weight a row", where="sample_weight")
    bad = ~((c >= 0.0) & (c <= LARGEST))
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(
            f"sample_weight has {c[at]:g} in row {at}; weights are finite and not negative", where="sample_weight"
        )
    return c


def refuse_bad_rows(X: Any, names: list[str]) -> None:
    """Raise for the first entry of X that no learner can use; return if there is none."""
    refuse_values(X, names, LARGEST)


class Overflow(DataError):
    """A step left the range of float64: what came before it stays learned."""


def overflow(rate: float, place: str) -> Overflow:
    """The refusal of a step that leaves the range of float64."""
    return Overflow(
        f"the update overflows at {place}: rate {rate:g} is too large for these data, and the model keeps its state before "
        "it; use a smaller rate, geometry='normalised' or 'implicit' (--learner), or scale the columns",
        where="rate",
    )


def squared_norms(X: Any, intercept: bool) -> np.ndarray:
    """‖x‖² of every row, the intercept's 1 included."""
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel() if hasattr(X, "indptr") else np.einsum("ij,ij->i", X, X)
    return squares + float(intercept)


def _first_text(y: Any) -> Any:
    flat = np.asarray(y, dtype=object).reshape(-1)
    return next((v for v in flat if not isinstance(v, (int, float, np.number))), flat[0] if len(flat) else None)
