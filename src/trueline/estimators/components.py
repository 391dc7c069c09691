"""PCA from one pass, with scikit-learn's parameters, attributes and signs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .. import dense
from ..engines import engine_of
from ..errors import DataError, UsageError
from ..onepass.components import (
    Components,
    certified,
    certified_rows,
    from_rows,
    likeliest_dimension,
    randomised,
    spectrum,
)
from ..onepass.moments import WIDEST, Moments
from .arrays import SPARSE, refuse_extremes, refuse_nonfinite
from .assigned import Shown
from .checking import check_array, validate_data
from .loading import Saved
from .parameters import Flag, Number, OneOf, Whole
from .sources import check_source_options, nameless, refuse_there

SOLVERS = ("auto", "full", "covariance_eigh", "randomized", "arpack")


class PCA(Shown, Saved, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components of any source, from one pass.

    Parameters
    ----------
    n_components, copy, whiten, svd_solver, tol, iterated_power, n_oversamples, power_iteration_normalizer, random_state
        As in scikit-learn. The solver is the eigendecomposition of the d×d products, or subspace iteration on them
        with ``svd_solver="randomized"``, which alone takes ``iterated_power``, ``n_oversamples`` and
        ``power_iteration_normalizer`` ("auto" or "QR"); "arpack" is taken as "full", and ``tol`` is 0. ``copy`` has
        nothing to do: X is never changed.
    digits : "auto" or float
        Accuracy of the products, as in LinearRegression.

    Attributes
    ----------
    components_, explained_variance_, explained_variance_ratio_, singular_values_, mean_, n_components_, n_samples_,
    noise_variance_
        As in scikit-learn.
    certificate_ : ExactCertificate
        Digits of the variances kept.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.array([[1.0, 1.0], [2.0, 2.1], [3.0, 2.9], [4.0, 4.0]])
    >>> pca = tl.PCA(n_components=1).fit(X)
    >>> pca.explained_variance_ratio_.round(3)
    array([0.999])
    """

    shown = {"components_": "vectors", "mean_": "mean", "explained_variance_": "variance"}
    legal = {
        "n_components": OneOf(None, "mle") | Whole(0) | Number(0, 1, open=True),
        "whiten": Flag(),
        "svd_solver": OneOf(*SOLVERS),
        "iterated_power": OneOf("auto") | Whole(0),
        "n_oversamples": Whole(1),
        "power_iteration_normalizer": OneOf("auto", "QR"),
    }

    def __init__(
        self,
        n_components=None,
        *,
        copy=True,
        whiten=False,
        svd_solver="auto",
        tol=0.0,
        iterated_power="auto",
        n_oversamples=10,
        power_iteration_normalizer="auto",
        random_state=None,
        digits="auto",
    ):
        self.n_components = n_components
        self.copy = copy
        self.whiten = whiten
        self.svd_solver = svd_solver
        self.tol = tol
        self.iterated_power = iterated_power
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer
        self.random_state = random_state
        self.digits = digits

    def fit(self, X: Any, y: Any = None, **source: Any) -> PCA:
        """Fit to an array, or to a path, a Dask or Spark table or other source (options as for tl.scan)."""
        check_source_options(self, source)
        self._refuse_idle()
        away = engine_of(X) is not None  # its rows stay where they are
        if isinstance(X, (str, os.PathLike)) or source or away:
            from .sources import scan

            moments = scan(X, target=None, digits=self.digits, **{"folds": None, **source}).designed()
            self._fit_moments(moments, named=not away or hasattr(X, "columns"))
            return self
        X = validate_data(
            self,
            X,
            accept_sparse=SPARSE,
            dtype=[np.float64, np.float32],
            ensure_min_samples=2,
            ensure_all_finite=False,
        )
        n, d = X.shape
        if d > WIDEST or n <= d:
            X = check_array(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
            refuse_extremes(self, X)
            mean, values, vectors = from_rows(X)
            self._keep(mean, values, vectors, float(values.sum()), n, min(n, d), d)
            self.record_.certificate = certified_rows(self.explained_variance_, self.components_)
            return self
        names = getattr(self, "feature_names_in_", None)
        moments = Moments.from_arrays(X, None, terms=names, digits=self.digits)
        refuse_nonfinite(self, X, moments)
        self._fit_moments(moments, named=names is not None)
        return self

    @classmethod
    def from_moments(cls, moments: Moments, **parameters: Any) -> PCA:
        """Fit from moments (the target is left out): no row is read again."""
        estimator = cls(**parameters)
        estimator._check_parameters()
        estimator._refuse_idle()
        estimator._fit_moments(moments.designed())
        return estimator

    def _fit_moments(self, moments: Moments, named: bool = True) -> None:
        part, d = moments.total, len(moments.terms)
        if part.n < 2:
            raise DataError(f"principal components need at least 2 rows, not {part.n}", where="rows")
        most = min(part.n, d)
        total = float(np.trace(part.products[0][:d, :d])) / (part.weight[0] - 1)
        count = self.n_components
        if self.svd_solver == "randomized" and isinstance(count, (int, np.integer)) and count < d:
            from sklearn.utils import check_random_state

            steps = 8 if self.iterated_power == "auto" else int(self.iterated_power)
            seed = check_random_state(self.random_state)
            count = self._checked(int(count), most)
            values, vectors = randomised(part, d, count, seed, max(steps, 1), int(self.n_oversamples))
        else:
            values, vectors = spectrum(part, d)
        self.n_features_in_ = d
        if named:
            self.feature_names_in_ = np.array(moments.terms, dtype=object)
        self._keep(part.mean[0][:d].copy(), values, vectors, total, part.n, most, d, moments)
        self.record_.certificate = certified(part, d, self.explained_variance_, self.components_, moments.integer)

    def _refuse_idle(self) -> None:
        """Refuse settings of a solver that is not the one asked for."""
        for name, usual in (("iterated_power", "auto"), ("n_oversamples", 10), ("power_iteration_normalizer", "auto")):
            if getattr(self, name) != usual and self.svd_solver != "randomized":
                raise UsageError(f"{name} goes with svd_solver='randomized', not {self.svd_solver!r}", where=name)
        if self.tol != 0.0:
            raise UsageError("tol is for ARPACK's iterations, which are not used here: leave it at 0", where="tol")

    def _checked(self, count: int, most: int) -> int:
        if not 0 <= count <= most:
            raise UsageError(
                f"n_components must lie between 0 and min(rows, columns) = {most}, not {count}", where="n_components"
            )
        return count

    def _count(self, values: np.ndarray, total: float, n: int, most: int) -> int:
        given = self.n_components
        if given is None:
            return most
        if isinstance(given, str):  # "mle"
            if n < self.n_features_in_:
                raise UsageError(
                    f"n_components='mle' needs at least as many rows as columns, not {n} rows of {self.n_features_in_}",
                    where="n_components",
                )
            return likeliest_dimension(values[:most], n)
        if isinstance(given, (float, np.floating)) and 0 < given < 1:
            return int(np.searchsorted(np.cumsum(values / total), given, side="right")) + 1
        return self._checked(int(given), most)

    def _keep(
        self,
        mean: np.ndarray,
        values: np.ndarray,
        vectors: np.ndarray,
        total: float,
        n: int,
        most: int,
        d: int,
        moments: Moments | None = None,
    ) -> None:
        count = self._count(values, total, n, most)
        left = (total - values[:count].sum()) / (most - count) if count < most else 0.0
        terms = moments.terms if moments is not None else tuple(f"x{j}" for j in range(d))
        self._adopt(
            Components(
                terms,
                mean,
                vectors[:count].copy(),
                values[:count].copy(),
                total,
                float(max(left, 0.0)),
                n,
                bool(self.whiten),
                None if moments is None else moments.schema,
            ),
            named=False,
        )

    @property
    def record_(self) -> Components:
        """The plain record."""
        return self._agreeing()  # type: ignore[no-any-return]

    @record_.setter
    def record_(self, record: Components) -> None:
        self.__dict__["_kept"] = record

    @property
    def certificate_(self) -> Any:
        """Digits of the variances kept; None once a number of the fit was assigned."""
        return self.record_.certificate

    def _record(self) -> Components:
        check_is_fitted(self)
        return self.record_

    def _adopt(self, record: Components, named: bool = True) -> None:
        self._show(record)
        total = record.total_variance
        self.explained_variance_ratio_ = record.variance / total if total > 0 else np.zeros_like(record.variance)
        self.singular_values_ = np.sqrt(record.variance * (record.n - 1))
        self.noise_variance_ = record.noise_variance
        self.n_components_ = len(record.vectors)
        self.n_samples_ = record.n
        self.n_features_in_ = len(record.mean)
        if named and record.terms != tuple(f"x{j}" for j in range(len(record.terms))):
            self.feature_names_in_ = np.array(record.terms, dtype=object)

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if self.record_.schema is not None and not isinstance(X, np.ndarray):
            return np.asarray(self.record_.schema.encode(X).X)
        X = validate_data(self, X, accept_sparse=SPARSE, dtype=[np.float64, np.float32], reset=False)
        return np.asarray(X.toarray() if hasattr(X, "toarray") else X)

    def transform(self, X: Any) -> Any:
        """Scores of the rows on the components; of a Dask or Spark table lazily, where it lives."""
        engine = engine_of(X)
        if engine is not None:
            check_is_fitted(self)
            made = engine.predict(nameless(self, X), X, "transform")
            if getattr(made, "ndim", 2) == 2:
                return made
            return made.to_frame() if hasattr(made, "to_frame") else made[:, None]  # one component is a table too
        rows = self._rows(X)
        return self.record_.transform(rows).astype(rows.dtype, copy=False)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows from their scores."""
        check_is_fitted(self)
        refuse_there(X, "inverse_transform", "compute the scores first, or call it in every partition (map_partitions)")
        return self.record_.restore(check_array(X, dtype=[np.float64, np.float32]))

    def get_covariance(self) -> np.ndarray:
        """The covariance of the probabilistic model: components, plus noise in the other directions.

        With ``whiten`` the components count by their standard deviation, as in scikit-learn.
        """
        check_is_fitted(self)
        V = self.components_ * np.sqrt(self.explained_variance_)[:, None] if self.whiten else self.components_
        excess = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        return (V.T * excess) @ V + self.noise_variance_ * np.eye(self.n_features_in_)

    def get_precision(self) -> np.ndarray:
        """The inverse of ``get_covariance``."""
        return dense.inv(self.get_covariance())

    def score_samples(self, X: Any) -> np.ndarray:
        """Log-likelihood of each row under the probabilistic model."""
        refuse_there(X, "a likelihood", "give a sample of the rows, computed first")
        Z = self._rows(X) - self.mean_
        precision = self.get_precision()
        sign = dense.slogdet(precision)[1]
        return -0.5 * (np.einsum("ij,ij->i", Z @ precision, Z) + self.n_features_in_ * np.log(2 * np.pi) - sign)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood."""
        return float(self.score_samples(X).mean())

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
