"""LinearRegression: least squares from one pass, with scikit-learn's parameters and meaning."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from ..model.closed import least_squares_record, linear_record, part_of
from ..model.linear import LinearModel, names
from ..onepass import exact, routes
from ..onepass.digits import wanted
from ..onepass.moments import Moments
from ..onepass.squares import RANK_CHOICES, least_squares
from ..threads import one_blas_thread
from .arrays import FromMoments, checked_arrays, refuse_extremes, refuse_nonfinite
from .parameters import OneOf
from .sources import paired

METHODS = ("auto", "normal", "qr", "svd")
FEW_ROWS, FEW_NUMBERS = 4096, 2**18
HANDFUL = 2**12  # numbers: fewer are multiplied at the highest level at once


class LinearRegression(FromMoments, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Ordinary least squares, exactly: every coefficient with the number of digits that hold.

    Parameters
    ----------
    fit_intercept, copy_X, tol, n_jobs, positive
        As in scikit-learn. X is never copied whole or changed; ``tol`` and ``n_jobs`` have nothing to do here.
    digits : "auto" or float
        Correct digits wanted in every coefficient. "auto" asks for 13, or an error below a 10⁻⁹th of the standard
        error, whichever is easier.
    method : "auto", "normal", "qr" or "svd"
        The road by its textbook name. "auto" is the error-free normal equations, or the SVD when columns outnumber
        rows.
    rank : "minimum-norm" or "drop"
        What to do with columns that others explain: the solution of least norm, or coefficient 0 as R's lm.

    Attributes
    ----------
    coef_, intercept_, rank_, singular_, n_features_in_, feature_names_in_
        As in scikit-learn.
    certificate_ : ExactCertificate
        ``.digits`` that hold (the smaller of ``.arithmetic_digits`` and ``.data_digits``), ``.condition_number``,
        ``.rank``, ``.dropped``, ``.orthogonality``.
    model_ : LinearModel
        The plain record.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> model = tl.LinearRegression().fit(X, [3.1, 4.9, 7.2, 8.8])
    >>> model.coef_.round(2), round(float(model.intercept_), 2)
    (array([1.94]), 1.15)
    >>> model.certificate_.proven
    True
    """

    legal = {"method": OneOf(*METHODS), "rank": OneOf(*RANK_CHOICES)}

    def __init__(
        self,
        *,
        fit_intercept=True,
        copy_X=True,
        tol=1e-6,
        n_jobs=None,
        positive=False,
        digits="auto",
        method="auto",
        rank="minimum-norm",
    ):
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.tol = tol
        self.n_jobs = n_jobs
        self.positive = positive
        self.digits = digits
        self.method = method
        self.rank = rank

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, target: Any = None, **source: Any) -> Any:
        """Fit to arrays ``(X, y)``, or to any source with ``target=`` its column's name (options as for tl.scan)."""
        y, target, source = paired(self, X, y, target, source, sample_weight)
        if y is None and target is not None:
            moments = self._moments(X, target, source)
            self._fit_moments(moments)
            self._names(moments)
            return self
        X, y, sample_weight = checked_arrays(self, X, y, sample_weight)
        method = self.method
        if method == "auto":
            method = "svd" if X.shape[0] <= X.shape[1] and X.shape[1] > routes.WIDE and not self.positive else "normal"
        if method != "normal" and not self.positive:
            return self._fit_rows(X, y, sample_weight, method)
        named = hasattr(self, "feature_names_in_")
        options: dict[str, Any] = {"terms": self._term_names() if named else None, "digits": self.digits}
        size = X.shape[0] * X.shape[1]
        if not self.positive and (X.shape[0] <= FEW_ROWS or size <= FEW_NUMBERS):
            # On a busy machine BLAS's threads would wait for each other longer than such products take.
            with one_blas_thread() if HANDFUL < size <= FEW_NUMBERS else nullcontext():
                self._fit_few(X, y, sample_weight, options)
            return self
        moments = Moments.from_arrays(X, y, sample_weight, **options)
        refuse_nonfinite(self, X, moments, y, sample_weight)
        self._fit_moments(moments, y.ndim == 1)
        if getattr(self.certificate_, "dropped", ()) and any(moments.levels[:-1]):
            # A pivot that vanished at a cheaper level may only have drowned in its noise: look again, exactly.
            self._fit_moments(Moments.from_arrays(X, y, sample_weight, level=exact.HIGHEST, **options), y.ndim == 1)
        return self

    def _fit_few(self, X: Any, y: np.ndarray, sample_weight: Any, options: dict[str, Any]) -> None:
        """Few rows: almost always the middle level keeps all digits asked for, and what it kept tells whether it did."""
        levels = (exact.HIGHEST,) if X.shape[0] * X.shape[1] <= HANDFUL else (1, exact.HIGHEST)
        for level in levels:
            moments = Moments.from_arrays(X, y, sample_weight, level=level, **options)
            refuse_nonfinite(self, X, moments, y, sample_weight)
            solution = least_squares(moments, fit_intercept=self.fit_intercept, rank=self.rank)
            if level == exact.HIGHEST or solution.enough(wanted(self.digits)):
                break
        later = X.shape[0] * X.shape[1] <= FEW_NUMBERS  # what a certificate is made from is kept no longer than need be
        self._hold(least_squares_record(solution, moments, later), y.ndim == 1)

    def _fit_moments(self, moments: Moments, one_target: bool | None = None) -> None:
        intercept = self._has_intercept(moments)
        if self.positive:
            record = linear_record(
                moments,
                *routes.nonnegative(moments, fit_intercept=intercept),
                family="non-negative least squares",
                fit_intercept=intercept,
            )
        else:
            solution = least_squares(moments, fit_intercept=intercept, rank=self.rank)
            record = least_squares_record(solution, moments)
        self._hold(record, len(moments.targets) == 1 if one_target is None else one_target)

    def _fit_rows(self, X: Any, y: np.ndarray, sample_weight: Any, method: str) -> Any:
        refuse_extremes(self, X, y, sample_weight)
        terms = self._term_names()
        solution = routes.by_rows(
            X, y, sample_weight, terms, method=method, fit_intercept=self.fit_intercept, rank=self.rank
        )
        targets = ("y",) if y.ndim == 1 else names("y", y.shape[1])
        record = LinearModel(
            terms,
            solution.coef,
            solution.intercept,
            targets,
            certificate=solution.certificate,
            statistics={"family": "least squares", "n": X.shape[0], "fit_intercept": bool(self.fit_intercept)},
        )
        if X.shape[1] < X.shape[0]:
            moments = Moments.from_arrays(X, y, sample_weight, terms=terms, digits=self.digits)
            record = least_squares_record(solution, moments)
        self._hold(record, y.ndim == 1)
        return self

    @property
    def rank_(self) -> int:
        """The rank found."""
        certificate = self.certificate_
        return int(self.model_.statistics["rank"]) if certificate is None else certificate.rank

    @property
    def singular_(self) -> np.ndarray:
        """Singular values of the (centred) columns."""
        part = part_of(self.model_)
        if part is None:
            raise AttributeError("singular_ is not kept for a fit that kept no products")
        return routes.singular_values(part, len(self.model_.terms), bool(self.model_.statistics["fit_intercept"]))
