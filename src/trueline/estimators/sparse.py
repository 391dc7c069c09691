"""Lasso, ElasticNet, LassoCV, ElasticNetCV, lasso_path: sparse linear regression with a duality gap on every solution.

Parameters mean what they mean in scikit-learn. ``tol`` is the largest relative duality gap (as
``certificates.optimality`` defines it) that is solved to. The solver is exact active-set Newton on the right route (trueline.batch.lasso), so
``precompute``, ``selection``, ``random_state``, ``copy_X`` and ``n_jobs`` are accepted and have nothing to do: X is never
copied whole or changed. ``max_iter`` bounds the rounds that a penalty may take on a sparse table.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin

from ..batch.lasso import LassoFit, LassoProblem, prefers_gram
from ..certificates.certificate import Certificate
from ..errors import DataError, named_options
from ..model.closed import linear_record
from ..model.linear import LinearModel, names
from ..onepass.moments import Moments
from .arrays import refuse_extremes
from .checking import check_array, refuse_target
from .parameters import RULES, Whole, check_value
from .penalised import (
    ALPHAS,
    SPARSE,
    SparseLinear,
    automatic_grid,
    checked_weights,
    from_gram,
    largest_first,
    told_objective,
    warn_worst,
)
from .sources import paired
from .sparsecv import ElasticNetCV, LassoCV

__all__ = ["ElasticNet", "ElasticNetCV", "Lasso", "LassoCV", "lasso_path"]


@named_options
def lasso_path(
    X: Any,
    y: Any,
    *,
    alphas: Any = None,
    n_alphas: int = 100,
    eps: float = 1e-3,
    l1_ratio: float = 1.0,
    positive: bool = False,
    tol: float = 1e-6,
    sample_weight: Any = None,
    fit_intercept: bool = False,
    max_iter: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lasso or elastic-net solutions along a path of penalties, each with its duality gap.

    Minimises ``(1/2n)‖y − Xw‖² + α·l1_ratio‖w‖₁ + ½α(1 − l1_ratio)‖w‖²`` at every penalty, to a relative gap of ``tol``.

    Parameters
    ----------
    X : array or CSR/CSC matrix (n, d)
        Read in place, in whatever order and precision.
    y : array (n,)
        The target.
    alphas : array or int
        Penalties; a whole number or None asks for so many (``n_alphas``), evenly in their logarithm, from the smallest
        that leaves no coefficient down to ``eps`` of it.
    l1_ratio, positive
        As in scikit-learn's enet_path.
    tol : float
        The largest relative gap that counts as solved. A NotProvenWarning states the gap where it is not reached.
    fit_intercept : bool
        False, as in scikit-learn's lasso_path: centre first, or set it, and the gaps stay valid with the intercept.
    max_iter : int
        Rounds that a penalty may take on a sparse table; dense tables take as many as it needs.

    Returns
    -------
    alphas : array (k,), decreasing
    coefs : array (d, k)
    gaps : array (k,)
        Absolute duality gaps of the objective above.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20, 50))
    >>> alphas, coefs, gaps = tl.lasso_path(X, X[:, 0] - X[:, 1], n_alphas=10, eps=0.01)
    >>> coefs.shape, bool((gaps <= 1e-6).all()), [int(j) for j in np.flatnonzero(coefs[:, 3])]
    ((50, 10), True, [0, 1])
    """
    by_gram = isinstance(X, np.ndarray) and X.dtype == np.float64 and X.ndim == 2 and prefers_gram(*X.shape)
    X = check_array(X, accept_sparse=SPARSE, dtype=[np.float64, np.float32], ensure_all_finite=False)
    y = np.asarray(y, dtype=np.float64)
    if y.ndim != 1 or len(y) != X.shape[0]:
        raise DataError(f"y has shape {y.shape}; a vector of {X.shape[0]} numbers is accepted", where="y")
    refuse_target(y)
    given = {"n_alphas": n_alphas, "eps": eps, "l1_ratio": l1_ratio, "positive": positive, "tol": tol}
    for name, value in (given | {"fit_intercept": fit_intercept}).items():
        check_value("lasso_path", name, value, RULES.get(name) or Whole(1))
    if alphas is not None:
        check_value("lasso_path", "alphas", alphas, ALPHAS)
    weights = checked_weights(sample_weight, X)
    with np.errstate(invalid="ignore", over="ignore"):
        problem = LassoProblem(X, weights, fit_intercept, max_iter)
        squares = np.diagonal(problem.gram()) if by_gram else None  # saves a reading of its own
    refuse_extremes(None, X, y, weights, squares)
    if isinstance(alphas, numbers.Integral):
        alphas, n_alphas = None, int(alphas)
    if alphas is None:
        alphas = automatic_grid(problem, y, l1_ratio, positive, eps, n_alphas)
    else:
        alphas = largest_first(alphas)
    fit = problem.solve(y, alphas, l1_ratio, positive=positive, tolerance=tol)
    warn_worst("lasso_path", fit)
    return alphas, fit.coefs, np.maximum(fit.gaps.gap, 0.0)


class ElasticNet(MultiOutputMixin, SparseLinear):
    """Least squares with an L1 and an L2 penalty, solved to a certified duality gap.

    Minimises ``(1/2n)‖y − Xw − b‖² + alpha·l1_ratio‖w‖₁ + ½alpha(1 − l1_ratio)‖w‖²``.

    Parameters
    ----------
    alpha, l1_ratio, fit_intercept, positive, warm_start
        As in scikit-learn. The solution does not depend on where it starts; on wide and sparse tables ``warm_start``
        saves reads of the table while penalties fall.
    tol : float
        The largest relative duality gap that is solved to, and that counts as proven if it is at most 1e-6.
    max_iter : int
        Rounds that a penalty may take on a sparse table; elsewhere the active set ends by itself.
    precompute, copy_X, random_state, selection
        Accepted, without effect.

    Attributes
    ----------
    coef_, intercept_, sparse_coef_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn; ``n_iter_`` counts reads of the whole table.
    certificate_ : GapCertificate
        ``.primal``, ``.dual``, ``.gap``, ``.relative_gap``, ``.proven``; of the worst target where there are several.
    model_ : LinearModel
        The plain record.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 80))
    >>> model = tl.ElasticNet(alpha=0.1, l1_ratio=0.9).fit(X, 3 * X[:, 0] + rng.normal(size=30) / 10)
    >>> int(np.argmax(model.coef_)), model.certificate_.proven
    (0, True)
    """

    def __init__(
        self,
        alpha=1.0,
        *,
        l1_ratio=0.5,
        fit_intercept=True,
        precompute=False,
        max_iter=1000,
        copy_X=True,
        tol=1e-6,
        warm_start=False,
        positive=False,
        random_state=None,
        selection="cyclic",
    ):
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.max_iter = max_iter
        self.copy_X = copy_X
        self.tol = tol
        self.warm_start = warm_start
        self.positive = positive
        self.random_state = random_state
        self.selection = selection

    def _ratios(self) -> Sequence[float]:
        return (self.l1_ratio,)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, target: Any = None, **source: Any) -> Any:
        """Fit to arrays ``(X, y)``, or to any source with ``target=`` its column's name (options as for tl.scan)."""
        y, target, source = paired(self, X, y, target, source, sample_weight)
        if y is None and target is not None:
            moments = self._moments(X, target, source)
            self._fit_moments(moments)
            self._names(moments)
            return self
        X, y, weights = self._arrays(X, y, sample_weight, True)
        refuse_extremes(self, X, y, weights)
        problem = LassoProblem(X, weights, self.fit_intercept, self.max_iter)
        columns = (y[:, None] if y.ndim == 1 else y).T
        fits = [
            problem.solve(
                column,
                np.array([self.alpha]),
                self._ratios()[0],
                positive=self.positive,
                tolerance=self.tol,
                start=start,
            )
            for column, start in zip(columns, self._starts(columns.shape[0], X.shape[1]), strict=True)
        ]
        record = LinearModel(
            self._term_names(),
            np.array([fit.coefs[:, 0] for fit in fits]),
            np.array([fit.intercepts[0] for fit in fits]),
            ("y",) if y.ndim == 1 else names("y", y.shape[1]),
            certificate=worst_certificate(fits),
            statistics=self._statistics(X.shape[0], self.fit_intercept),
        )
        self._finish(record, fits, y.ndim == 1 or y.shape[1] == 1)
        return self

    def _starts(self, targets: int, d: int) -> Sequence[np.ndarray | None]:
        """The last fit's coefficients for each target where ``warm_start`` asks for them and they fit."""
        last = np.atleast_2d(getattr(self, "coef_", np.empty((0, 0))))
        return list(last) if self.warm_start and last.shape == (targets, d) else [None] * targets

    def _finish(self, record: LinearModel, fits: list[LassoFit], one_target: bool) -> None:
        gaps = np.array([max(float(fit.gaps.gap[0]), 0.0) for fit in fits])
        passes = [fit.passes for fit in fits]
        record.statistics |= {"estimator.dual_gap": gaps, "estimator.n_iter": passes}
        if one_target:
            record.statistics |= {"estimator.dual_gap": float(gaps[0]), "estimator.n_iter": passes[0]}
        self._settle(record, gaps, passes, one_target)

    def _statistics(self, n: int, intercept: bool) -> dict[str, Any]:
        family = "lasso" if self._ratios()[0] == 1.0 else "elastic net"
        told = told_objective(self, self.alpha, self._ratios()[0], intercept)
        return {
            "family": family,
            "n": int(n),
            "fit_intercept": bool(intercept),
            "alpha": float(self.alpha),
            "objective": told,
        }

    def _fit_moments(self, moments: Moments) -> None:
        fits = [
            from_gram(
                moments,
                np.array([float(self.alpha)]),
                self._ratios()[0],
                fit_intercept=self._has_intercept(moments),
                positive=self.positive,
                tolerance=self.tol,
                target=k,
            )
            for k in range(len(moments.targets))
        ]
        statistics = self._statistics(moments.total.n, self._has_intercept(moments))
        record = linear_record(
            moments,
            np.array([fit.coefs[:, 0] for fit in fits]),
            np.array([fit.intercepts[0] for fit in fits]),
            worst_certificate(fits),
            **{name: value for name, value in statistics.items() if name != "n"},
        )
        self._finish(record, fits, len(fits) == 1)


def worst_certificate(fits: list[LassoFit]) -> Certificate:
    """The certificate of the target with the largest relative gap."""
    return max((fit.certificate(0) for fit in fits), key=lambda c: c.relative_gap)


class Lasso(ElasticNet):
    """Least squares with an L1 penalty, solved to a certified duality gap.

    Minimises ``(1/2n)‖y − Xw − b‖² + alpha‖w‖₁``. Parameters and attributes as in :class:`ElasticNet`.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 80))
    >>> model = tl.Lasso(alpha=0.5).fit(X, 3 * X[:, 0] + rng.normal(size=30) / 10)
    >>> [int(j) for j in np.flatnonzero(model.coef_)], model.certificate_.relative_gap < 1e-6
    ([0], True)
    """

    def __init__(
        self,
        alpha=1.0,
        *,
        fit_intercept=True,
        precompute=False,
        copy_X=True,
        max_iter=1000,
        tol=1e-6,
        warm_start=False,
        positive=False,
        random_state=None,
        selection="cyclic",
    ):
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.positive = positive
        self.random_state = random_state
        self.selection = selection

    def _ratios(self) -> Sequence[float]:
        return (1.0,)
