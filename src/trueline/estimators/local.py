"""LocalRegression: a curve or surface without a formula, LOWESS and LOESS with intervals."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..beyond.local import LocalModel, Settings
from ..beyond.smoothing import KERNELS, RULES, SURFACES, choose, fit_local
from ..errors import DataError, UsageError
from ..model.linear import Interval, as_terms
from ..report.plots import axes
from .checking import check_weights, validate_data
from .loading import Saved
from .parameters import Number, OneOf, That, Whole

LOWESS_FRACTION = 2.0 / 3.0


class LocalRegression(Saved, RegressorMixin, BaseEstimator):
    """Locally weighted regression: at every point a weighted least squares of its neighbours.

    With one input and the defaults, ``fitted_`` is what R's ``lowess(x, y, delta = 0)`` gives.

    Parameters
    ----------
    bandwidth : float, "gcv", "cv" or None
        A fixed width in the inputs' units: τ of exp(−d²/2τ²), or the tricube's reach. "gcv" and "cv" (leave one out)
        choose it.
    fraction : float, "gcv", "cv" or None
        The nearest share of the rows instead, each input divided by its standard deviation if there are several. None
        (and no bandwidth) is R's 2/3. With the Gaussian kernel τ is a third of the last neighbour's distance.
    degree : 0, 1 or 2
    kernel : "tricube" or "gaussian"
    robust_iterations : int
        How often rows are weighed by their residuals and the fit repeated.
    delta : float
        As in R's lowess, for one input: fit only at rows this far apart and draw straight lines between.
    surface : "auto", "exact" or "interpolate"
        Fit at every row, or at the corners of a k-d tree of cells and interpolate; ``certificate_`` has the error.
        "auto" interpolates where fitting every row would need more than 2·10¹⁰ weighings (4·10⁸ with several inputs).

    Attributes
    ----------
    fitted_ : array
        The curve at the training rows, in their order.
    robustness_ : array
        The weight of each training row after the robust iterations.
    degrees_of_freedom_, sigma_, gcv_, cv_
        The smoother's trace, the residuals' spread, the two scores.
    bandwidth_ or fraction_, tried_, scores_
        The width used, and where it was chosen the widths tried and their scores.
    certificate_ : MonotoneCertificate

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> x = np.linspace(0, 3, 60)
    >>> y = np.sin(x) + 0.01 * np.cos(40 * x)
    >>> model = tl.LocalRegression(fraction=0.3, degree=2).fit(x[:, None], y)
    >>> model.predict([[1.5]]).round(2)
    array([1.])
    >>> mean, lower, upper = model.predict([[1.5]], interval=0.95)
    >>> bool(lower[0] < mean[0] < upper[0])
    True

    How the progression of diabetes rises with the body mass index, in 442 patients:

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> curve = tl.LocalRegression(fraction="gcv", robust_iterations=0).fit(X[:, [2]], y)
    >>> curve.predict([[20.0], [25.0], [30.0], [35.0]]).round().astype(int).tolist()
    [94, 134, 190, 242]
    >>> curve.plot().get_ylabel()
    'y'
    """

    legal = {
        "bandwidth": OneOf(None, *RULES) | Number(0, open=True),
        "fraction": OneOf(None, *RULES) | Number(0, 1, open=True, open_top=False),
        "degree": That("0, 1 or 2", lambda value: Whole(0).holds(value) and value <= 2),
        "kernel": OneOf(*KERNELS),
        "robust_iterations": Whole(0),
        "delta": Number(0),
        "surface": OneOf(*SURFACES),
    }

    def __init__(
        self,
        bandwidth=None,
        fraction=None,
        *,
        degree=1,
        kernel="tricube",
        robust_iterations=3,
        delta=0.0,
        surface="auto",
    ):
        self.bandwidth = bandwidth
        self.fraction = fraction
        self.degree = degree
        self.kernel = kernel
        self.robust_iterations = robust_iterations
        self.delta = delta
        self.surface = surface

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit; whole weights count as repetitions of their rows."""
        by, width = self._width()
        settings = Settings(
            degree=self.degree,
            kernel=self.kernel,
            robust_iterations=self.robust_iterations,
            surface=self.surface,
            delta=self.delta,
        )
        if self.delta > 0.0 and self.surface == "interpolate":
            raise UsageError("delta and surface='interpolate' are two ways to interpolate; give one", where="delta")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        kept = None
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, X, ensure_non_negative=True)
            if not sample_weight.any():
                raise DataError("all weights are zero; at least one row needs a positive weight", where="sample_weight")
            if (sample_weight == 0.0).any():
                kept, rows = sample_weight > 0.0, X
                X, y, sample_weight = X[kept], y[kept], sample_weight[kept]
            if sample_weight.min() == sample_weight.max() == 1.0:
                sample_weight = None
        terms = tuple(as_terms(getattr(self, "feature_names_in_", None), X.shape[1]))
        if isinstance(width, str):
            model = choose(X, y, sample_weight, settings, terms, by, width)
        else:
            fixed = {"fraction": width} if by == "fraction" else {"bandwidth": width}
            chosen = Settings(**(vars(settings) | fixed))
            model = fit_local(X, y, sample_weight, chosen, terms)
        if kept is not None:
            fitted = np.empty(len(kept))
            fitted[kept] = model.fitted
            fitted[~kept] = model.evaluate(rows[~kept])[:, 0]
            model.fitted = fitted
        self._hold(model)
        return self

    def _width(self) -> tuple[str, Any]:
        if self.bandwidth is not None and self.fraction is not None:
            raise UsageError("bandwidth and fraction are two ways to say the same; give one of them", where="bandwidth")
        by = "fraction" if self.bandwidth is None else "bandwidth"
        width = LOWESS_FRACTION if self.bandwidth is None and self.fraction is None else getattr(self, by)
        return by, width if isinstance(width, str) else float(width)

    def _hold(self, model: LocalModel) -> None:
        self.model_ = model
        self.fitted_, self.robustness_ = model.fitted, model.robustness
        self.degrees_of_freedom_, self.sigma_, self.gcv_, self.cv_ = model.trace, model.sigma, model.gcv, model.cv
        self.certificate_ = model.certificate
        for name in ("fraction_", "bandwidth_", "tried_", "scores_"):
            self.__dict__.pop(name, None)
        if model.tried.size:
            self.tried_, self.scores_ = model.tried, model.scores
        if model.settings.bandwidth is None:
            self.fraction_ = model.settings.fraction
        else:
            self.bandwidth_ = model.settings.bandwidth

    def _record(self) -> LocalModel:
        check_is_fitted(self)
        return self.model_

    def _adopt(self, record: LocalModel) -> None:
        self.n_features_in_ = len(record.terms)
        if record.terms != as_terms(None, len(record.terms)):
            self.feature_names_in_ = np.array(record.terms, dtype=object)
        self._hold(record)

    def predict(self, X: Any, interval: float | None = None, *, of: str = "observation") -> Any:
        """The curve at new rows; with ``interval=0.95`` also the ends of the interval of an observation or the mean."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if interval is None:
            return self.model_.evaluate(X)[:, 0]
        if not isinstance(interval, numbers.Real) or not 0.0 < float(interval) < 1.0:
            raise UsageError(f"interval must lie between 0 and 1, not {interval!r}", where="interval")
        if of not in ("observation", "mean"):
            raise UsageError(f"of must be 'observation' or 'mean', not {of!r}", where="of")
        mean, half = self.model_.interval(X, float(interval), of)
        return Interval(mean, mean - half, mean + half)

    def plot(self, column: int = 0, *, interval: float = 0.95, ax: Any = None) -> Any:
        """The curve along one input, the others at their medians, with the interval of its mean; the matplotlib axes."""
        check_is_fitted(self)
        if not 0 <= int(column) < self.n_features_in_:
            raise UsageError(
                f"column is {column!r}; a number from 0 to {self.n_features_in_ - 1} is accepted", where="column"
            )
        ax = axes(ax)
        rows = self.model_.Z * self.model_.unit
        seen = rows[:, column]
        along = np.tile(np.median(rows, axis=0), (200, 1))
        along[:, column] = np.linspace(seen.min(), seen.max(), 200)
        mean, half = self.model_.interval(along, float(interval), "mean")
        ax.scatter(seen, self.model_.y, s=9, color="0.6", linewidths=0)
        ax.fill_between(along[:, column], mean - half, mean + half, alpha=0.25, linewidth=0)
        ax.plot(along[:, column], mean)
        ax.set(xlabel=self.model_.terms[column], ylabel="y")
        return ax

    def standard_errors(self, X: Any) -> np.ndarray:
        """σ·‖l(x)‖ of the curve at each row."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.model_.sigma * np.sqrt(np.maximum(self.model_.evaluate(X)[:, 2], 0.0))
