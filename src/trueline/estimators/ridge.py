"""Ridge and RidgeCV: the whole path from one eigendecomposition, with scikit-learn's parameters and meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from ..errors import UsageError
from ..model.closed import fit_ridge, linear_record
from ..onepass import routes
from ..onepass.folds import SCORES, choose, need_folds, one_row_folds, ridge_scores
from ..onepass.leftout import errors_by_blocks, leave_one_out
from ..onepass.moments import Moments
from ..onepass.paths import RidgePath, standard_scales
from .arrays import FromMoments, checked_arrays, fold_numbers, refuse_nonfinite
from .parameters import NONE, SPLITTER, Flag, Number, OneOf, That, Whole, is_scoring, numbers_of
from .routing import RoutesGroups
from .sources import paired


def usual_score(moments: Moments) -> str:
    """R² as in scikit-learn, or the squared error where a fold of one row has no R²."""
    return "neg_mean_squared_error" if one_row_folds(moments) else "r2"


PEER_SOLVERS = ("svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga", "lbfgs")  # names only: there is one solver


class _RidgeFit(FromMoments, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """What both share: the final fit at given penalties."""

    fit_intercept: bool
    standardize: bool
    digits: Any
    alpha_: Any
    best_score_: Any
    cv_results_: np.ndarray

    def _finish(self, moments: Moments, alpha: Any, one_target: bool | None, positive: bool = False) -> None:
        if np.size(alpha) not in (1, len(moments.targets)):
            raise UsageError(
                f"alpha has {np.size(alpha)} numbers where there are {len(moments.targets)} targets; give one, or one per "
                "target",
                where="alpha",
            )
        alphas = np.broadcast_to(np.asarray(alpha, dtype=float), (len(moments.targets),))
        intercept = self._has_intercept(moments)
        if positive:
            if self.standardize:
                raise UsageError("positive=True goes with standardize=False only", where="positive")
            record = linear_record(
                moments,
                *routes.nonnegative(moments, fit_intercept=intercept, ridge=alphas),
                family="non-negative ridge",
                fit_intercept=intercept,
                alpha=float(alphas[0]) if len(set(alphas.tolist())) == 1 else alphas,
            )
        else:
            record = fit_ridge(moments, alphas, fit_intercept=intercept, standardize=self.standardize)
        self._hold(record, len(moments.targets) == 1 if one_target is None else one_target)
        self.n_iter_ = 1  # a closed form


class Ridge(_RidgeFit):
    """Least squares plus α‖w‖², solved exactly from one pass.

    Parameters
    ----------
    alpha, fit_intercept, copy_X, max_iter, tol, solver, positive, random_state
        As in scikit-learn; there is one solver here, exact, so ``max_iter``, ``tol``, ``solver`` and ``random_state``
        have nothing to do.
    standardize : bool
        Put the penalty on the standardised scale, α Σ (s_j w_j)², s_j the column's standard deviation; coefficients
        are on the original scale either way.
    digits : "auto" or float
        As in LinearRegression.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 2.0])
    >>> tl.Ridge(alpha=2.0).fit(X, y).coef_
    array([0.5])
    """

    legal = {
        "alpha": numbers_of(Number(0), "a number of at least 0, or one per target,"),
        "max_iter": NONE | Whole(1),
        "solver": OneOf("auto", *PEER_SOLVERS),
    }

    def __init__(
        self,
        alpha=1.0,
        *,
        fit_intercept=True,
        copy_X=True,
        max_iter=None,
        tol=1e-4,
        solver="auto",
        positive=False,
        random_state=None,
        standardize=False,
        digits="auto",
    ):
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.positive = positive
        self.random_state = random_state
        self.standardize = standardize
        self.digits = digits

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, target: Any = None, **source: Any) -> Any:
        """Fit to arrays ``(X, y)``, or to any source with ``target=`` its column's name (options as for tl.scan)."""
        y, target, source = paired(self, X, y, target, source, sample_weight)
        if y is None and target is not None:
            moments = self._moments(X, target, source)
            self._fit_moments(moments)
            self._names(moments)
            return self
        X, y, sample_weight = checked_arrays(self, X, y, sample_weight)
        moments = Moments.from_arrays(X, y, sample_weight, terms=self._term_names(), digits=self.digits)
        refuse_nonfinite(self, X, moments, y, sample_weight)
        self._finish(moments, self.alpha, y.ndim == 1 or y.shape[1] == 1, self.positive)
        return self

    def _fit_moments(self, moments: Moments) -> None:
        self._finish(moments, self.alpha, None, self.positive)


class RidgeCV(RoutesGroups, _RidgeFit):
    """Ridge with its penalty chosen by exact leave-one-out, K folds or generalised cross-validation.

    Parameters
    ----------
    alphas, fit_intercept, scoring, cv, gcv_mode, store_cv_results, alpha_per_target
        As in scikit-learn: ``cv=None`` is exact leave-one-out (one further pass over the rows), a number or splitter
        K-fold from per-fold moments, scored by R² (by squared error where a fold has one row); ``gcv_mode`` has
        nothing to do here. ``cv="gcv"`` is generalised
        cross-validation, with no further pass. From moments, None means their folds, or "gcv" if there is one.
    choice : "best" or "one-standard-error"
        With folds: the best mean score, or the largest penalty within one standard error of it.
    standardize, digits
        As in Ridge.

    Attributes
    ----------
    alpha_, best_score_, coef_, intercept_, cv_results_
        As in scikit-learn.
    scores_ : array
        Mean score of every penalty.
    certificate_ : ExactCertificate
        Of the final fit.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> tl.RidgeCV(alphas=(0.1, 1.0, 1000.0)).fit(X, X[:, 0] + rng.normal(size=50)).alpha_
    1.0
    """

    legal = {
        "alphas": numbers_of(Number(0), "a list of positive numbers (0 is allowed with cv=)"),
        "scoring": NONE | That("the name of a score or a function", is_scoring),
        "cv": OneOf("gcv") | SPLITTER,
        "gcv_mode": OneOf(None, "auto", "svd", "eigen"),
        "store_cv_results": Flag(),
        "alpha_per_target": Flag(),
        "choice": OneOf("best", "one-standard-error"),
    }

    def __init__(
        self,
        alphas=(0.1, 1.0, 10.0),
        *,
        fit_intercept=True,
        scoring=None,
        cv=None,
        gcv_mode=None,
        store_cv_results=False,
        alpha_per_target=False,
        choice="best",
        standardize=False,
        digits="auto",
    ):
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.cv = cv
        self.gcv_mode = gcv_mode
        self.store_cv_results = store_cv_results
        self.alpha_per_target = alpha_per_target
        self.choice = choice
        self.standardize = standardize
        self.digits = digits

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        target: Any = None,
        **source: Any,
    ) -> Any:
        """Fit to arrays ``(X, y)``, or to any source with ``target=`` its column's name (options as for tl.scan).

        ``groups`` has one label per row, for a splitter that keeps groups together (``cv=GroupKFold(5)``).
        """
        alphas = self._checked_alphas()
        y, target, source = paired(self, X, y, target, source, sample_weight)
        groups = self._groups(groups, y is None)
        if y is None and target is not None:
            moments = self._moments(X, target, source)
            self._fit_moments(moments)
            self._names(moments)
            return self
        X, y, sample_weight = checked_arrays(self, X, y, sample_weight)
        if isinstance(self.cv, str):
            moments = self._gathered(X, y, sample_weight)
            self._by_gcv(moments, alphas, len(moments.targets) == 1)
        elif self.cv is None:
            moments = self._gathered(X, y, sample_weight)
            self._by_leave_one_out(moments, X, y, sample_weight, alphas)
        else:
            self._by_folds(X, y, sample_weight, alphas, groups)
        return self

    def _checked_alphas(self) -> np.ndarray:
        alphas = np.atleast_1d(np.asarray(self.alphas, dtype=float))
        if self.cv is None and not alphas.all():
            raise UsageError(
                "alphas holds 0, which leave-one-out cannot judge; give positive numbers, or cv=", where="alphas"
            )
        if self.cv is not None and (self.store_cv_results or self.alpha_per_target):
            raise UsageError("store_cv_results and alpha_per_target go with cv=None only", where="cv")
        return alphas

    def _gathered(self, X: Any, y: np.ndarray, sample_weight: Any, folds: Any = None) -> Moments:
        moments = Moments.from_arrays(X, y, sample_weight, folds=folds, terms=self._term_names(), digits=self.digits)
        refuse_nonfinite(self, X, moments, y, sample_weight)
        return moments

    def _fit_moments(self, moments: Moments) -> None:
        alphas = self._checked_alphas()
        if self.cv == "gcv" or (self.cv is None and len(moments.parts) < 2):
            self._by_gcv(moments, alphas, None)
            return
        need_folds(moments)
        scoring = self.scoring or usual_score(moments)
        scores = ridge_scores(
            moments, alphas, fit_intercept=self._has_intercept(moments), standardize=self.standardize, scoring=scoring
        )
        self._settle(moments, alphas, scores, None)

    def _settle(self, moments: Moments, alphas: np.ndarray, scores: np.ndarray, one_target: bool | None) -> None:
        place = choose(scores, alphas, self.choice)
        self.scores_ = scores.mean(axis=1)
        self.alpha_ = float(alphas[place])
        self.best_score_ = float(self.scores_[place])
        self._finish(moments, self.alpha_, one_target)

    def _path(self, moments: Moments) -> RidgePath:
        d = len(moments.terms)
        scales = standard_scales(moments.total, d) if self.standardize else None
        return RidgePath(moments.total, d, self._has_intercept(moments), scales, moments.integer)

    def _by_gcv(self, moments: Moments, alphas: np.ndarray, one_target: bool | None) -> None:
        self._settle(moments, alphas, -self._path(moments).generalised(alphas).mean(axis=1)[:, None], one_target)

    def _by_leave_one_out(
        self, moments: Moments, X: Any, y: np.ndarray, sample_weight: Any, alphas: np.ndarray
    ) -> None:
        Y = y[:, None] if y.ndim == 1 else y
        path = self._path(moments)
        n, k = Y.shape
        if self.scoring is None and not self.store_cv_results:
            squares = leave_one_out(path, X, Y, sample_weight, alphas) / n
            scores = -squares if self.alpha_per_target else -squares.mean(axis=1)[:, None]
        else:
            scores = self._kept_errors(path, X, Y, sample_weight, alphas)
            if self.store_cv_results and y.ndim == 1:
                self.cv_results_ = self.cv_results_[:, 0, :]
        best = scores.argmax(axis=0)
        self.scores_ = scores if self.alpha_per_target and k > 1 else scores[:, 0]
        if self.alpha_per_target and k > 1:
            self.alpha_ = alphas[best]
            self.best_score_ = scores[best, np.arange(k)]
        else:
            self.alpha_, self.best_score_ = float(alphas[best[0]]), float(scores[best[0], 0])
        self._finish(moments, self.alpha_, y.ndim == 1 or y.shape[1] == 1)

    def _kept_errors(
        self, path: RidgePath, X: Any, Y: np.ndarray, sample_weight: Any, alphas: np.ndarray
    ) -> np.ndarray:
        """Scores per penalty (and target), keeping every leave-one-out error or prediction."""
        from sklearn.metrics import get_scorer

        errors = np.empty((*Y.shape, len(alphas)))
        for rows, block in errors_by_blocks(path, X, Y, sample_weight, alphas):
            errors[rows] = block
        if self.scoring is None:
            self.cv_results_ = errors**2
            scores = -(errors**2).mean(axis=0).T
            return scores if self.alpha_per_target else scores.mean(axis=1)[:, None]
        root = 1.0 if sample_weight is None else np.sqrt(sample_weight)[:, None, None]
        predictions = Y[:, :, None] - errors / root
        if self.store_cv_results:
            self.cv_results_ = predictions
        scorer = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
        extra = {} if sample_weight is None else {"sample_weight": sample_weight}

        def score(k: Any, a: int) -> float:
            return float(scorer(_Given(), predictions[:, k, a], Y[:, k], **extra))

        groups: list[Any] = (
            list(range(Y.shape[1])) if self.alpha_per_target else [0 if Y.shape[1] == 1 else slice(None)]
        )
        return np.array([[score(k, a) for k in groups] for a in range(len(alphas))])

    def _by_folds(self, X: Any, y: np.ndarray, sample_weight: Any, alphas: np.ndarray, groups: Any) -> None:
        folds, splits = fold_numbers(self.cv, X, y, groups)
        k = 1 if y.ndim == 1 else y.shape[1]
        if folds is None or (self.scoring is not None and self.scoring not in SCORES):
            moments = self._gathered(X, y, sample_weight)
            self._settle(moments, alphas, self._scores_by_rows(X, y, sample_weight, alphas, splits), k == 1)
            return
        moments = self._gathered(X, y, sample_weight, folds)
        scoring = self.scoring or usual_score(moments)
        scores = ridge_scores(
            moments,
            alphas,
            fit_intercept=self.fit_intercept,
            standardize=self.standardize,
            scoring=scoring,
        )
        self._settle(moments, alphas, scores, k == 1)

    def _scores_by_rows(self, X: Any, y: np.ndarray, sample_weight: Any, alphas: np.ndarray, splits: Any) -> np.ndarray:
        """Scores for splits that are no partition, or by a scorer that needs predictions."""
        from sklearn.metrics import get_scorer

        few = min(len(test) for _, test in splits)
        if self.scoring == "r2" and few < 2:
            raise UsageError(
                "R² has no meaning in a fold of one row; give scoring='neg_mean_squared_error', or fewer folds",
                where="scoring",
            )
        scorer = self.scoring or ("r2" if few > 1 else "neg_mean_squared_error")
        scorer = get_scorer(scorer) if isinstance(scorer, str) else scorer
        X = X.tocsr() if hasattr(X, "tocsr") else X
        scores = np.empty((len(alphas), len(splits)))
        for column, (train, test) in enumerate(splits):
            w = None if sample_weight is None else sample_weight[train]
            path = self._path(Moments.from_arrays(X[train], y[train], w, terms=self._term_names(), digits=self.digits))
            coefs = path.coef(alphas)
            levels = path.intercepts(coefs)
            for a in range(len(alphas)):
                predicted = X[test] @ coefs[a].T + levels[a]
                extra = {} if sample_weight is None else {"sample_weight": sample_weight[test]}
                scores[a, column] = scorer(_Given(), predicted[:, 0] if y.ndim == 1 else predicted, y[test], **extra)
        return scores


class _Given(RegressorMixin, BaseEstimator):
    """For scorers: the predictions are given already."""

    def fit(self, X: Any, y: Any = None) -> Any:
        return self

    def predict(self, X: Any) -> Any:
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return True
