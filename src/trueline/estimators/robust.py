"""RobustRegression and OutlierMixture: a line that stray rows do not bend."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..beyond.outliers import fit_mixture, outlier_probability
from ..beyond.psi import PSIS, psi_named
from ..beyond.robust import SCALES, STARTS, fit_robust
from ..errors import DataError, UsageError
from ..model.linear import Interval, LinearModel, as_terms
from ..report.plots import axes
from .checking import validate_data
from .logistic import LinearRecord
from .parameters import NONE, Names, Number, OneOf, Whole, numbers_of
from .proofs import warn_unproven
from .sources import has_intercept, refuse_there


class StrayProof(LinearRecord, RegressorMixin, BaseEstimator):
    """What the two share: the door, prediction and the record."""

    def _arrays(
        self, X: Any, y: Any, sample_weight: Any, target: Any, source: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        refuse_there(X, type(self).__name__, "fit a sample on one machine")
        X, y, sample_weight, self._read = self._training_rows(
            X, y, sample_weight, target, source, dtype=np.float64, y_numeric=True, order="C"
        )
        y = np.asarray(y, dtype=np.float64)
        if sample_weight is not None:
            if not sample_weight.any():
                raise DataError("all weights are zero; at least one row needs a positive weight", where="sample_weight")
            if (sample_weight == 0.0).any():
                kept = sample_weight > 0.0
                self._kept = kept
                return X[kept], y[kept], sample_weight[kept]
        self._kept = None
        return X, y, sample_weight

    def _spread_out(self, values: np.ndarray) -> np.ndarray:
        """One value for each row that came in; rows of weight 0 took no part and have NaN."""
        if self._kept is None:
            return values
        out = np.full(len(self._kept), np.nan)
        out[self._kept] = values
        return out

    def _linear(self, theta: np.ndarray, certificate: Any, statistics: dict[str, Any]) -> LinearModel:
        estimator: Any = self
        d = estimator.n_features_in_
        intercept = float(theta[d]) if len(theta) > d else 0.0
        read = self.__dict__.pop("_read")
        terms = as_terms(read["terms"], d)
        warn_unproven(certificate, type(self).__name__)
        return LinearModel(
            terms, theta[:d], intercept, (read["target"],), read.get("schema"), certificate=certificate,
            statistics=statistics,
        )  # fmt: skip

    def predict(self, X: Any) -> np.ndarray:
        """θ·x + intercept."""
        rows = self._rows(X)
        return np.asarray(self.model_.predict(rows))

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if self.model_.schema is not None and not isinstance(X, np.ndarray):
            return self.model_.design(X)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))


class RobustRegression(StrayProof):
    """M-estimation of a line, with R's ``rlm`` values, weights per row and asymptotic standard errors.

    Parameters
    ----------
    psi : "huber", "bisquare", "hampel", "andrews" or "cauchy"
        How much a residual may pull; all but Huber's fall again for distant rows (redescend).
    scale : "mad" or "huber"
        The residuals' scale: the median of their size over 0.6745, or Huber's proposal 2.
    tuning : float, tuple or None
        The constants of ψ in units of the scale; None takes R's.
    start : "auto", "least-squares" or "high-breakdown"
        "high-breakdown" begins at an S-estimate and keeps its scale (an MM-estimate), which fewer than half of the rows
        cannot carry away. "auto" begins at least squares as R does, and for the redescending ψ takes the high-breakdown
        fit instead when its scale is below half of what the other finds.
    tol : float
        Relative change of the residuals that ends the iteration; R's 1e-4. Smaller values go on to the fixed point.
    max_iter : int
    fit_intercept : bool
    random_state : int
        Seed of the resampling.

    Attributes
    ----------
    coef_, intercept_, scale_, weights_, n_iter_, start_
        ``weights_`` has one number a row: 1 counts fully, 0 not at all.
    std_errors_ : array
        Of the intercept (if there is one) and the coefficients; ``summary()`` has the table.
    certificate_ : MonotoneCertificate
        ``.before`` and ``.after`` each step, ``.stationarity``, ``.breakdown`` and ``.note``.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.arange(10.0)[:, None]
    >>> y = 2 * X[:, 0] + 1 + 0.1 * np.cos(7 * X[:, 0])
    >>> y[9] = 100.0
    >>> model = tl.RobustRegression("bisquare").fit(X, y)
    >>> model.coef_.round(1), float(model.weights_[9])
    (array([2.]), 0.0)

    Twenty-one days of a plant that oxidises ammonia (Brownlee's stack loss): two days count less than half.

    >>> air = [80, 80, 75, 62, 62, 62, 62, 62, 58, 58, 58, 58, 58, 58, 50, 50, 50, 50, 50, 56, 70]
    >>> water = [27, 27, 25, 24, 22, 23, 24, 24, 23, 18, 18, 17, 18, 19, 18, 18, 19, 19, 20, 20, 20]
    >>> acid = [89, 88, 90, 87, 87, 87, 93, 93, 87, 80, 89, 88, 82, 93, 89, 86, 72, 79, 80, 82, 91]
    >>> loss = [42, 37, 37, 28, 18, 18, 19, 20, 15, 14, 14, 13, 11, 12, 8, 7, 8, 8, 9, 15, 15]
    >>> plant = tl.RobustRegression("bisquare").fit(np.column_stack([air, water, acid]), loss)
    >>> (np.flatnonzero(plant.weights_ < 0.5) + 1).tolist()
    [4, 21]
    >>> plant.plot(np.column_stack([air, water, acid]), loss).get_xlabel()
    'fitted'
    """

    legal = {
        "psi": Names(lambda: PSIS, "psi"),
        "scale": OneOf(*SCALES),
        "tuning": NONE | numbers_of(Number(0, open=True), "positive numbers"),
        "start": OneOf(*STARTS),
    }

    def __init__(
        self,
        psi="huber",
        *,
        scale="mad",
        tuning=None,
        start="auto",
        tol=1e-4,
        max_iter=100,
        fit_intercept=True,
        random_state=0,
    ):
        self.psi = psi
        self.scale = scale
        self.tuning = tuning
        self.start = start
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, target: Any = None, **source: Any) -> Any:
        """Fit to arrays, or to any source with ``target=``; whole weights count as repetitions of their rows."""
        psi_named(self.psi, self.tuning)
        X, y, weights = self._arrays(X, y, sample_weight, target, source)
        fit = fit_robust(
            X,
            y,
            weights,
            psi=self.psi,
            tuning=self.tuning,
            scale=self.scale,
            start=self.start,
            fit_intercept=has_intercept(self, self._read.get("schema")),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            seed=seed_of(self.random_state),
        )
        statistics = {
            "family": f"robust ({self.psi})",
            "n": len(y),
            "fit_intercept": has_intercept(self, self._read.get("schema")),
            "covariance": fit.covariance,
            "dispersion": fit.scale,
            "scale": fit.scale,
            "scale_rule": self.scale,
            "tuning": [float(v) for v in psi_named(self.psi, self.tuning)],
            "weights": self._spread_out(fit.weights),
            "start": fit.start,
            "iterations": fit.iterations,
            "notes": [fit.certificate.note],
        }
        self._hold(self._linear(fit.theta, fit.certificate, statistics))
        return self

    def _hold(self, record: LinearModel) -> None:
        super()._hold(record)
        s = record.statistics
        self.scale_, self.weights_, self.start_ = s["scale"], s["weights"], s["start"]
        self.std_errors_ = np.sqrt(np.maximum(np.diagonal(s["covariance"]), 0.0))

    def plot(self, X: Any, y: Any, ax: Any = None) -> Any:
        """Residuals in scales against fitted values, darker where a row counts less; the matplotlib axes."""
        fitted = self.predict(X)
        shares = self.weights_ if len(self.weights_) == len(fitted) else None
        ax = _strays(ax, fitted, (np.asarray(y) - fitted) / self.scale_, None if shares is None else 1.0 - shares)
        ax.set(xlabel="fitted", ylabel="residual / scale")
        return ax

    def predict(self, X: Any, interval: float | None = None) -> Any:
        """Predictions; with ``interval=0.95`` also the ends of the asymptotic interval of the mean."""
        mean = super().predict(X)
        if interval is None:
            return mean
        if not isinstance(interval, numbers.Real) or not 0.0 < float(interval) < 1.0:
            raise UsageError(f"interval must lie between 0 and 1, not {interval!r}", where="interval")
        from scipy.special import ndtri

        rows = self._rows(X)
        design = np.column_stack([np.ones(len(rows)), rows]) if self.model_.statistics["fit_intercept"] else rows
        V = self.model_.statistics["covariance"]
        half = ndtri(0.5 + 0.5 * float(interval)) * np.sqrt(np.maximum(np.einsum("ij,ij->i", design @ V, design), 0.0))
        return Interval(mean, mean - half, mean + half)


class OutlierMixture(StrayProof):
    """A line and a wide Gaussian of outliers, by maximum likelihood: every row gets its probability of being stray.

    With probability p a row is y ~ N(θ·x, σ²), otherwise y ~ N(μ, σ_huge²); EM from several starts. The likelihood never
    falls; starts that collapse onto few rows are degenerate and not chosen.

    Parameters
    ----------
    n_starts : int
        An S-estimate, least squares, and lines through random rows.
    tol, max_iter
        EM ends when the log-likelihood grows by less than ``tol`` of itself.
    fit_intercept : bool
    random_state : int

    Attributes
    ----------
    coef_, intercept_, probability_ (p), sigma_, mu_, sigma_huge_
    outlier_probability_ : array
        One number a training row.
    log_likelihood_, n_iter_
    certificate_ : MonotoneCertificate
        The log-likelihood around each step; "degenerate" where every start collapsed.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.arange(12.0)[:, None]
    >>> y = 2 * X[:, 0] + 1 + 0.1 * np.cos(7 * X[:, 0])
    >>> y[[3, 8]] = 90.0, -60.0
    >>> model = tl.OutlierMixture().fit(X, y)
    >>> np.flatnonzero(model.outlier_probability_ > 0.5), model.coef_.round(1)
    (array([3, 8]), array([2.]))

    The breadth of iris petals by their length: nine flowers of 150 lie off the line of the others.

    >>> from sklearn.datasets import load_iris
    >>> petals = load_iris().data
    >>> flowers = tl.OutlierMixture().fit(petals[:, [2]], petals[:, 3])
    >>> flowers.coef_.round(2), int((flowers.outlier_probability_ > 0.5).sum())
    (array([0.4]), 9)
    >>> flowers.plot(petals[:, [2]], petals[:, 3]).get_ylabel()
    'observed'
    """

    legal = {"n_starts": Whole(1)}

    def __init__(self, *, n_starts=10, tol=1e-9, max_iter=1000, fit_intercept=True, random_state=0):
        self.n_starts = n_starts
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, target: Any = None, **source: Any) -> Any:
        """Fit to arrays, or to any source with ``target=``; whole weights count as repetitions of their rows."""
        X, y, weights = self._arrays(X, y, sample_weight, target, source)
        best, _ = fit_mixture(
            X,
            y,
            weights,
            fit_intercept=has_intercept(self, self._read.get("schema")),
            starts=int(self.n_starts),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            seed=seed_of(self.random_state),
        )
        statistics = {
            "family": "line among outliers",
            "n": len(y),
            "fit_intercept": has_intercept(self, self._read.get("schema")),
            "probability": best.probability,
            "sigma": best.sigma,
            "mu": best.mu,
            "sigma_huge": best.sigma_huge,
            "log_likelihood": best.log_likelihood,
            "outlier_probability": self._spread_out(best.outlier),
            "iterations": len(best.trace) - 1,
        }
        self._hold(self._linear(best.theta, best.certificate, statistics))
        return self

    def _hold(self, record: LinearModel) -> None:
        super()._hold(record)
        for name in ("probability", "sigma", "mu", "sigma_huge", "log_likelihood", "outlier_probability"):
            setattr(self, f"{name}_", record.statistics[name])

    def plot(self, X: Any, y: Any, ax: Any = None) -> Any:
        """Observed against fitted, darker where a row is probably an outlier; the matplotlib axes."""
        ax = _strays(ax, self.predict(X), np.asarray(y), self.outlier_probability(X, y))
        ax.set(xlabel="fitted", ylabel="observed")
        return ax

    def outlier_probability(self, X: Any, y: Any) -> np.ndarray:
        """The probability that each of these rows is an outlier."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=False)
        y = np.asarray(y, dtype=np.float64)
        return outlier_probability(self.model_.statistics, y - self.model_.predict(X), y)


def _strays(ax: Any, across: np.ndarray, up: np.ndarray, strange: np.ndarray | None) -> Any:
    """Points coloured from 0 (as the others) to 1 (stray)."""
    ax = axes(ax)
    seen = ax.scatter(across, up, c=strange, cmap="coolwarm", vmin=0.0, vmax=1.0, s=14, linewidths=0)
    if strange is not None:
        ax.figure.colorbar(seen, ax=ax, label="stray")
    return ax


def seed_of(random_state: Any) -> int:
    """A whole number from what scikit-learn calls a random state."""
    if random_state is None:
        return 0
    if isinstance(random_state, numbers.Integral) and int(random_state) >= 0:
        return int(random_state)
    return int(random_state.randint(np.iinfo(np.int32).max))
