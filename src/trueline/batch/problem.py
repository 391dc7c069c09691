"""From what a caller gives to a problem that the solvers take: checked arrays, signs for classes, weights that sum to 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.refusals import refuse_broken_sparse, refuse_values
from ..data.rounding import refuse_integers, refuse_masked
from ..errors import DataError, UsageError
from ..objective.regression_losses import Absolute, EpsilonInsensitive, Huber, Power, Quantile, Squared
from ..solvers.sparse_columns import canonical
from .design import Design, is_sparse
from .methods import make_penalty
from .risk import Risk

RESIDUAL = (Squared, Absolute, Huber, Quantile, EpsilonInsensitive, Power)  # losses of target less score alone


def as_matrix(X: Any, *, checked: bool = False) -> Any:
    """X as CSR, CSC or a two-dimensional array of float64 or float32, finite; nothing is copied that need not be.

    ``checked`` says that somebody has looked for NaN and infinity already.
    """
    refuse_masked(X, "X")
    refuse_broken_sparse(X)
    refuse_integers(X, (), "X")
    if is_sparse(X):
        X = X if X.format in ("csr", "csc") else X.tocsr()
        if X.data.dtype not in (np.float64, np.float32):
            X = X.astype(np.float64)
        X = canonical(X)
        values = X.data
    else:
        X = np.asarray(X)
        if X.dtype not in (np.float64, np.float32):
            try:
                X = X.astype(np.float64)
            except (TypeError, ValueError):
                raise DataError(
                    f"X holds {X.dtype} values that are not numbers; give numbers only", where="X"
                ) from None
        if X.ndim != 2:
            raise DataError(f"X has shape {X.shape}; rows × columns are accepted", where="X")
        values = X
    if not X.shape[0] or not X.shape[1]:
        raise DataError(f"X has shape {X.shape}; at least one row and one column are needed", where="X")
    if checked:
        return X
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum(dtype=np.float64)
    if not np.isfinite(total):
        refuse_values(X)  # the sum may overflow without any entry being at fault
    return X


def as_vector(values: Any, name: str, n: int, *, least: float = -np.inf) -> np.ndarray:
    """One finite number a row."""
    refuse_masked(values, name)
    refuse_integers(values, [name], name)
    try:
        out = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} holds values that are not numbers; give one number a row", where=name) from None
    if out.ndim == 0 and n != 1:
        out = np.full(n, float(out))
    out = out.reshape(-1) if out.ndim == 2 and 1 in out.shape else out
    if out.shape != (n,):
        raise DataError(f"{name} has shape {out.shape}, but X has {n} rows; give one number a row", where=name)
    bad = ~np.isfinite(out) | (out < least)
    if bad.any():
        row = int(np.argmax(bad))
        wanted = "finite numbers" if least == -np.inf else f"finite numbers of at least {least:g}"
        raise DataError(f"{name} holds {out[row]} in row {row}; {wanted} are accepted", where=name)
    return out


def as_targets(y: Any, loss: Any, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """(targets in the loss's own terms, the two classes if it is a loss on signs)."""
    kind = getattr(loss, "targets", "real")
    refuse_masked(y, "y")
    if kind == "sign":
        classes, index = np.unique(np.asarray(y), return_inverse=True)
        index = index.ravel()
        if index.shape != (n,):
            raise DataError(f"y has {index.size} labels, but X has {n} rows; give one label a row", where="y")
        if len(classes) != 2:
            found = "one class" if len(classes) == 1 else f"{len(classes)} classes"
            raise DataError(f"y holds {found}, {classes[:3].tolist()}; two are needed", where="y")
        return 2.0 * index - 1.0, classes
    out = as_vector(y, "y", n, least=0.0 if kind in ("nonnegative", "positive") else -np.inf)
    if kind == "positive" and (out <= 0.0).any():
        row = int(np.argmax(out <= 0.0))
        raise DataError(f"y holds {out[row]} in row {row}; positive numbers are accepted", where="y")
    return out, None


def as_weights(given: Any, n: int) -> np.ndarray:
    """Weights that sum to 1."""
    if given is None:
        return np.full(n, 1.0 / n)
    out = as_vector(given, "sample_weight", n, least=0.0)
    total = out.sum()
    if not total > 0.0:
        raise DataError("sample_weight is 0 in every row; some row must count", where="sample_weight")
    return out / total


def _ridge(penalty: Any, own: np.ndarray | None, d: int) -> np.ndarray | None:
    """The strength of the L2 part for each column, in the user's units."""
    strength = getattr(penalty, "alpha", 0.0) * {"l2": 1.0, "elastic_net": 1.0 - getattr(penalty, "l1_ratio", 0.0)}.get(
        getattr(penalty, "name", ""), 0.0
    )
    return None if strength == 0.0 else strength * (np.ones(d) if own is None else own)


def build(
    X: Any,
    targets: np.ndarray,
    loss: Any,
    penalty: Any,
    *,
    weights: np.ndarray,
    intercept: bool = True,
    intercept_l1: float = 0.0,
    intercept_l2: float = 0.0,
    penalty_weights: Any = None,
    groups: Any = None,
    lower: Any = None,
    upper: Any = None,
    offset: np.ndarray | None = None,
    standardise: bool = True,
) -> Risk:
    """The problem; X, targets and weights have been checked."""
    d = X.shape[1]
    own = None if penalty_weights is None else as_vector(penalty_weights, "penalty_weights", d, least=0.0)
    labels = None
    if groups is not None:
        labels = np.asarray(groups)
        if labels.shape != (d,):
            raise UsageError(
                f"groups has shape {labels.shape}, but X has {d} columns; one label a column", where="groups"
            )
    for name in ("alpha", "l1_ratio"):
        value = getattr(penalty, name, 0.0)
        if not value >= 0.0:
            raise UsageError(f"{name} is {value:g}; a penalty is 0 or more", where=name)
    if getattr(penalty, "l1_ratio", 0.0) > 1.0:
        raise UsageError(f"l1_ratio is {penalty.l1_ratio:g}; it lies between 0 and 1", where="l1_ratio")
    design = Design(
        X,
        weights,
        intercept=intercept,
        centre=intercept_l1 == 0.0 and intercept_l2 == 0.0,
        standardise=standardise,
        groups=labels if getattr(penalty, "name", "") == "group_l1" else None,
    )
    design.find_still(weights, intercept and intercept_l1 == 0.0 and intercept_l2 == 0.0)
    if standardise:
        design.stiffen(_ridge(penalty, own, d), float(loss.curvature_bound()))
    made = make_penalty(
        penalty,
        design,
        weights=own,
        groups=labels,
        lower=lower,
        upper=upper,
        intercept_l1=intercept_l1,
        intercept_l2=intercept_l2,
    )
    if intercept and type(loss) in RESIDUAL and made.free[-1]:
        # Digits go to what the intercept does not explain: targets at 10⁹ cost none of them.
        left = targets if offset is None else targets - offset
        design.level = float(weights @ left) if isinstance(loss, Squared) else float(np.median(left))
        targets = np.ascontiguousarray(targets - design.level)
    return Risk(design, targets, weights, loss, made, offset)
