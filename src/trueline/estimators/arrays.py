"""What the closed-form estimators share: the door for arrays, sources and moments, and the record they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..errors import DataError, UsageError
from ..model.linear import LinearModel, as_terms, names
from ..onepass.moments import LOST, Moments, overflowing, refuse_weights, vanishing
from .checking import check_weights, refuse_values, target_names, validate_data
from .linearrecord import HoldsLinear
from .sources import has_intercept, lazily

SPARSE = ("csr", "csc", "coo")


def checked_arrays(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, multi_output: bool = True
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Arrays as scikit-learn takes them. X is not searched for NaN here: the moments show it for nothing."""
    if sample_weight is None and _plain(X, 2) and _plain(y, 1) and len(X) == len(y) and X.size and np.isfinite(y).all():
        # Nothing to convert or to name: scikit-learn's checks would take longer than a small fit.
        estimator.n_features_in_ = X.shape[1]
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return X, y, None
    refuse_dictionary(X)
    estimator._target_names = target_names(y)
    X, y = validate_data(
        estimator,
        X,
        y,
        accept_sparse=SPARSE,
        dtype=[np.float64, np.float32],
        y_numeric=True,
        multi_output=multi_output,
        ensure_all_finite=False,
    )
    if sample_weight is not None:
        sample_weight = check_weights(sample_weight, X)
        refuse_weights(sample_weight)
        if not sample_weight.any():
            raise DataError("all weights are zero; at least one row needs a positive weight", where="sample_weight")
    return X, np.asarray(y, dtype=np.float64), sample_weight


def refuse_dictionary(X: Any) -> None:
    """Refuse dictionaries beside y: of columns or of rows, they are sources, which hold their target themselves."""
    columns = isinstance(X, Mapping) and not hasattr(X, "tocsr")  # one of SciPy's sparse matrices is a dictionary
    if columns or (isinstance(X, (list, tuple)) and len(X) and isinstance(X[0], Mapping)):
        what = "a dictionary" if columns else "a list of dictionaries"
        raise DataError(
            f"X is {what}; give an array or a table with y beside it, or a dictionary of columns, the target among "
            "them, with target= its name",
            where="X",
        )


def _plain(array: Any, dimensions: int) -> bool:
    return type(array) is np.ndarray and array.dtype == np.float64 and array.ndim == dimensions


def refuse_nonfinite(estimator: Any, X: Any, moments: Moments, y: Any = None, sample_weight: Any = None) -> None:
    """Name the place of a NaN or an infinity if the moments show one, and columns whose squares float64 does not hold."""
    with np.errstate(all="ignore"):
        part = moments.total
    if not (np.isfinite(part.mean[0]).all() and np.isfinite(np.diagonal(part.products[0])).all()):
        refuse_values(X, estimator)
        moments.refuse_nonfinite()
    for j in moments.lost_squares():  # seldom any but constant ones
        moments.refuse_lost([j] if _varies(X, y, int(j), sample_weight) else [])


def refuse_extremes(
    estimator: Any, X: Any, y: Any = None, sample_weight: Any = None, squares: np.ndarray | None = None
) -> None:
    """The same for those who make no moments, by the columns' squares if they are known, else by one reading of X."""
    d = X.shape[1]
    Y = np.empty((X.shape[0], 0)) if y is None else y[:, None] if y.ndim == 1 else y
    with np.errstate(all="ignore"):
        found = _squares(X) if squares is None else squares
        squares = np.concatenate([found, np.einsum("ij,ij->j", Y, Y)])
    if np.isfinite(squares).all() and squares.min(initial=1.0) > LOST:
        return
    refuse_values(X, estimator)
    targets = ("y",) if Y.shape[1] == 1 else names("y", Y.shape[1])
    told = [*as_terms(getattr(estimator, "feature_names_in_", None), d), *targets]
    for j in np.flatnonzero(~np.isfinite(squares)).tolist():
        raise overflowing(told[j])
    for j in np.flatnonzero(squares <= LOST).tolist():
        if _varies(X, y, j, sample_weight):
            raise vanishing(told[j])


def _squares(X: Any) -> np.ndarray:
    """Σ x² per column, about right; of a sparse matrix all together where that shows nothing unusual."""
    if not hasattr(X, "tocsr"):
        return np.einsum("ij,ij->j", X, X, dtype=np.float64)
    together = float(np.dot(X.data, X.data))
    if LOST < together < np.inf:
        return np.full(X.shape[1], together)
    stored = X.tocsc()
    columns = np.repeat(np.arange(X.shape[1]), np.diff(stored.indptr))
    return np.bincount(columns, weights=stored.data.astype(np.float64) ** 2, minlength=X.shape[1])


def _varies(X: Any, y: Any, j: int, sample_weight: Any) -> bool:
    """Whether column j of [x y] is not constant in the rows that count."""
    d = X.shape[1]
    if j >= d:
        column = y if y.ndim == 1 else y[:, j - d]
    else:
        column = X.tocsc()[:, [j]].toarray()[:, 0] if hasattr(X, "tocsr") else X[:, j]
    column = column if sample_weight is None else column[sample_weight > 0]
    return bool(column.max() > column.min())


class FromMoments(HoldsLinear):
    """An estimator that holds a linear record and can also be fitted from a source or from moments."""

    def _moments(self, source: Any, target: Any, options: dict[str, Any]) -> Moments:
        """One pass over a source."""
        from .sources import scan

        if target is None:
            raise UsageError("give y, or target= to say which column of the source it is", where="target")
        told = options if getattr(self, "fit_intercept", True) else {"intercept": False} | options
        return scan(source, target=target, digits=getattr(self, "digits", "auto"), **told).designed()

    @classmethod
    def from_moments(cls, moments: Moments, **parameters: Any) -> Any:
        """Fit from moments: no row is read again."""
        estimator = cls(**parameters)
        estimator._check_parameters()
        if not moments.targets:
            raise UsageError("the moments have no target; scan with target= the name of a column", where="target")
        moments = moments.designed(bool(getattr(estimator, "fit_intercept", True)))
        estimator._fit_moments(moments)
        estimator._names(moments)
        return estimator

    def _fit_moments(self, moments: Moments) -> None:
        raise NotImplementedError

    def _has_intercept(self, moments: Moments) -> bool:
        """``fit_intercept``, unless the formula of the moments takes the constant away."""
        return has_intercept(self, moments.schema)

    def _names(self, moments: Moments) -> None:
        """Feature names as scikit-learn keeps them."""
        self.feature_names_in_ = np.array(moments.terms, dtype=object)
        self.n_features_in_ = len(moments.terms)

    def _term_names(self) -> Sequence[str]:
        """The names of the columns that ``fit`` saw."""
        estimator: Any = self
        return as_terms(getattr(estimator, "feature_names_in_", None), estimator.n_features_in_)

    def _hold(self, record: LinearModel, one_target: bool) -> None:
        """Show the record through scikit-learn's attributes; one target given as a vector gives a vector."""
        record.targets = self.__dict__.pop("_target_names", record.targets)
        if one_target:
            record.coef = np.asarray(record.coef).reshape(-1)
            record.intercept = float(np.ravel(record.intercept)[0])
        self._show(record)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags

    def _adopt(self, record: LinearModel) -> None:
        self._hold(record, False)
        self.n_features_in_ = len(record.terms)
        if record.terms != as_terms(None, len(record.terms)):
            self.feature_names_in_ = np.array(record.terms, dtype=object)

    @lazily
    def predict(self, X: Any, interval: float | None = None, *, of: str = "observation") -> Any:
        """Predictions; with ``interval=0.95`` also the ends of the prediction interval (or ``of="mean"``'s)."""
        check_is_fitted(self)
        if self.model_.schema is not None and not isinstance(X, np.ndarray):
            return self.model_.predict(X, interval, of=of)
        X = validate_data(self, X, accept_sparse=SPARSE, dtype=[np.float64, np.float32], reset=False)
        return self.model_.predict(X, interval, of=of)

    def _foresee(self, method: str, options: dict[str, Any]) -> None:
        """Refuse an interval that no row can have: it is made of no rows, by the code that makes it of some."""
        if options.get("interval") is not None:
            self.model_.predict(np.zeros((0, len(self.model_.terms))), **options)


def fold_numbers(cv: Any, X: Any, y: Any, groups: Any = None) -> tuple[np.ndarray | None, Sequence[Any]]:
    """(fold number of each row, splits) of scikit-learn's own splitter; None where test sets do not partition."""
    from sklearn.model_selection import check_cv

    splits = list(check_cv(cv, y, classifier=False).split(X, y, groups))
    if not splits:
        raise UsageError("cv gives no split; at least one is needed", where="cv")
    numbers = np.full(X.shape[0], -1)
    for k, (train, test) in enumerate(splits):
        if (numbers[test] >= 0).any() or len(train) + len(test) != X.shape[0]:
            return None, splits
        numbers[test] = k
    return (numbers if (numbers >= 0).all() else None), splits
