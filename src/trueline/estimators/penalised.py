"""What the lasso's estimators share: the checks at the door, the grid of penalties, moments, the record they hold."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from ..batch.activeset import gram_path
from ..batch.lasso import LassoFit, LassoProblem, bridged, largest_penalty, penalty_grid
from ..errors import DataError, UsageError, warn_caller
from ..model.linear import LinearModel
from ..onepass.lasso_gap import LassoGaps
from ..onepass.moments import Moments, refuse_weights
from ..onepass.paths import moment_gaps, moment_gram, null_of_moments
from .arrays import FromMoments
from .checking import check_weights, target_names, validate_data
from .parameters import Flag, Number, OneOf, That, Whole, numbers_of
from .proofs import NotProvenWarning, warn_unproven

SPARSE = ("csr", "csc")


# Kept for scikit-learn's sake; the solver here has no use for a Gram matrix made beforehand.
PRECOMPUTE = Flag() | OneOf("auto") | That("a matrix", lambda value: not isinstance(value, str) and np.ndim(value) == 2)
ALPHAS = Whole(1) | numbers_of(Number(0), "numbers of at least 0")


def largest_first(alphas: Any) -> np.ndarray:
    """Penalties, largest first."""
    return np.sort(np.atleast_1d(np.asarray(alphas, dtype=np.float64)))[::-1]


def automatic_grid(
    problem: LassoProblem, y: np.ndarray, l1_ratio: float, positive: bool, eps: float, count: int
) -> np.ndarray:
    """scikit-learn's grid of penalties."""
    check_grid(l1_ratio)
    target, _ = problem.table.target(y)
    return penalty_grid(largest_penalty(problem.table, target, l1_ratio, positive), eps, count)


def check_grid(l1_ratio: float) -> None:
    if l1_ratio == 0.0:
        raise UsageError("l1_ratio=0 leaves no largest penalty to begin a grid with; give alphas=", where="alphas")


def checked_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Weights as scikit-learn takes them; a single number weighs nothing."""
    if sample_weight is None or isinstance(sample_weight, numbers.Number):
        return None
    weights = check_weights(sample_weight, X)
    refuse_weights(weights)
    if not weights.any():
        raise DataError("all weights are zero; at least one row needs a positive weight", where="sample_weight")
    return weights


def warn_worst(name: str, fit: LassoFit) -> None:
    relative = fit.relative
    worst = int(np.argmax(relative)) if relative.size else 0
    if relative.size and relative[worst] > fit.tolerance:
        warn_caller(f"{name}: at alpha={fit.alphas[worst]:.6g} the {fit.certificate(worst)}", NotProvenWarning)


class SparseLinear(FromMoments, RegressorMixin, BaseEstimator):
    """What the four estimators share: the door, and the record with its certificate."""

    legal = {"precompute": PRECOMPUTE}

    def _ratios(self) -> Sequence[float]:
        return (1.0,)

    def _arrays(self, X: Any, y: Any, sample_weight: Any, multi_output: bool) -> tuple[Any, np.ndarray, Any]:
        self._target_names = target_names(y)
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse=SPARSE,
            dtype=[np.float64, np.float32],
            y_numeric=True,
            multi_output=multi_output,
        )
        return X, np.asarray(y, dtype=np.float64), checked_weights(sample_weight, X)

    def _settle(
        self,
        record: LinearModel,
        gap: Any,
        passes: Any,
        one_target: bool,
    ) -> None:
        self._hold(record, one_target)
        self.dual_gap_ = float(np.ravel(gap)[0]) if one_target else np.asarray(gap)
        self.n_iter_ = int(np.ravel(passes)[0]) if one_target else [int(p) for p in passes]
        warn_unproven(record.certificate, type(self).__name__)

    def _adopt(self, record: LinearModel) -> None:
        super()._adopt(record)
        for name, value in record.statistics.items():
            if name.startswith("estimator."):
                setattr(self, name.partition(".")[2] + "_", value)

    @property
    def sparse_coef_(self) -> Any:
        """The coefficients as a sparse row."""
        from scipy import sparse

        return sparse.csr_matrix(self.coef_)


def from_gram(
    moments: Moments, alphas: np.ndarray, l1_ratio: float, *, fit_intercept: bool, positive: bool, tolerance: float,
    part: Any = None, target: int = 0,
) -> LassoFit:  # fmt: skip
    """Solutions from moments alone, in the order of the penalties."""
    part, d = moments.total if part is None else part, len(moments.terms)
    G, c, yy = moment_gram(part, d, fit_intercept, target)
    total = float(part.weight[0])
    top = float(np.max(c if positive else np.abs(c), initial=0.0)) / total
    grid, places = bridged(alphas, top / max(l1_ratio, 1e-3))
    path = gram_path(
        G, c, yy, total, grid, max(l1_ratio, 1e-9), positive=positive, tolerance=tolerance
    )  # l1_ratio = 0: solved next to it
    coefs, null = path.coefs[:, places], null_of_moments(part, d, fit_intercept, target)
    mean = part.mean[0]
    intercepts = mean[d + target] - mean[:d] @ coefs if fit_intercept else np.zeros(alphas.size)
    gaps = LassoGaps(path.gaps.primal[places], path.gaps.dual[places])
    # Of a path most gaps are far above rounding; the others, and a single penalty's, are worth the moments' own digits.
    beside = (grid[places] != alphas) | (l1_ratio < 1e-9)  # solved next to what was asked for
    close = np.flatnonzero(~(gaps.relative(null) <= tolerance) | beside | (alphas.size == 1))
    if close.size:
        finer = moment_gaps(
            part, d, coefs.T[close], alphas[close], l1_ratio, fit_intercept=fit_intercept, positive=positive,
            target=target,
        )  # fmt: skip
        gaps.primal[close], gaps.dual[close] = finer.primal, finer.dual
    return LassoFit(alphas, coefs, intercepts, gaps, null, 1, tolerance)


def told_objective(learner: Any, alpha: float, l1_ratio: float, fit_intercept: bool) -> dict[str, Any]:
    """What a lasso or elastic net minimised, so that anyone can form it again from the data."""
    return {
        "loss": "squared",
        "loss_fields": [],
        "penalty": "elastic_net",
        "alpha": float(alpha),
        "l1_ratio": float(l1_ratio),
        "fit_intercept": bool(fit_intercept),
        "positive": bool(learner.positive),
        "tolerance": float(learner.tol),
    }
