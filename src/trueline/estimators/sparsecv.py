"""LassoCV and ElasticNetCV: the penalty by cross-validation, from moments per fold or from certified paths.

With no more columns than rows (and at most 2,000) one read of the rows leaves moments per fold; the other folds'
moments added give each training problem, the held-out fold's moments its error, and no row is read again. Wide and
sparse tables solve a certified path per fold, the held-out rows having weight zero, so that nothing is copied.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from ..batch.lasso import GRAM_COLUMNS, LassoFit, LassoProblem, penalty_grid
from ..certificates.certificate import Assumption
from ..errors import UsageError
from ..model.closed import linear_record
from ..model.linear import LinearModel
from ..onepass.folds import need_folds
from ..onepass.moments import Moments
from ..onepass.paths import held_out, moment_gram
from ..threads import spread
from .arrays import fold_numbers, refuse_extremes, refuse_nonfinite
from .checking import target_names, validate_data
from .parameters import SHARE, OneOf, numbers_of
from .penalised import (
    ALPHAS,
    SPARSE,
    SparseLinear,
    automatic_grid,
    check_grid,
    checked_weights,
    from_gram,
    largest_first,
    told_objective,
)
from .routing import RoutesGroups
from .sources import paired

RULES = ("min", "1se")


class ElasticNetCV(RoutesGroups, SparseLinear):
    """Elastic net with its penalty chosen by cross-validation, every fold's path certified.

    Parameters
    ----------
    l1_ratio : float or list of floats
        Several are compared, as in scikit-learn.
    eps, alphas, fit_intercept, cv, positive
        As in scikit-learn: ``alphas`` is a number of penalties or the penalties themselves.
    tol : float
        The largest relative duality gap (gap over objective) that counts as proven.
    selection_rule : "min" or "1se"
        The penalty of least mean error, or the largest one whose mean error is within one standard error of it.
    max_iter : int
        Rounds that a penalty may take on a sparse table; elsewhere the active set ends by itself.
    precompute, copy_X, verbose, n_jobs, random_state, selection
        Accepted, without effect.

    Attributes
    ----------
    alpha_, l1_ratio_, alphas_, mse_path_, coef_, intercept_, dual_gap_, n_iter_
        As in scikit-learn.
    gap_path_ : array, shaped as ``mse_path_``
        Relative duality gap of every penalty in every fold.
    certificate_ : GapCertificate
        Of the final fit; one of its assumptions is that every fold's path was solved.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 100))
    >>> model = tl.ElasticNetCV(cv=3, l1_ratio=(0.5, 1.0), alphas=20).fit(X, X[:, 0] + rng.normal(size=60) / 10)
    >>> float(model.l1_ratio_), model.certificate_.proven
    (1.0, True)
    """

    legal = {
        "alphas": ALPHAS,
        "l1_ratio": numbers_of(SHARE, "a number in [0, 1] or a list of them"),
        "selection_rule": OneOf(*RULES),
    }

    def __init__(
        self,
        *,
        l1_ratio=0.5,
        eps=1e-3,
        alphas=100,
        fit_intercept=True,
        precompute="auto",
        max_iter=1000,
        tol=1e-6,
        cv=None,
        copy_X=True,
        verbose=0,
        n_jobs=None,
        positive=False,
        random_state=None,
        selection="cyclic",
        selection_rule="min",
    ):
        self.l1_ratio = l1_ratio
        self.eps = eps
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.max_iter = max_iter
        self.tol = tol
        self.cv = cv
        self.copy_X = copy_X
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.positive = positive
        self.random_state = random_state
        self.selection = selection
        self.selection_rule = selection_rule

    def _ratios(self) -> Sequence[float]:
        return tuple(np.atleast_1d(self.l1_ratio).tolist())

    def _check(self) -> None:
        if isinstance(self.alphas, numbers.Integral):
            for ratio in self._ratios():
                check_grid(ratio)

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
        self._check()
        y, target, source = paired(self, X, y, target, source, sample_weight)
        groups = self._groups(groups, y is None)
        if y is None and target is not None:
            folds = {"folds": self.cv} if isinstance(self.cv, numbers.Integral) else {}
            moments = self._moments(X, target, folds | source)
            self._fit_moments(moments)
            self._names(moments)
            return self
        self._target_names = target_names(y)
        X, y = validate_data(
            self, X, y, accept_sparse=SPARSE, dtype=[np.float64, np.float32], y_numeric=True, multi_output=True,
            ensure_all_finite=False,
        )  # fmt: skip
        y = column_or_1d(np.asarray(y, dtype=np.float64), warn=True)
        weights = checked_weights(sample_weight, X)
        numbers_of_rows, splits = fold_numbers(self.cv, X, y, groups)
        narrow = X.shape[1] <= min(X.shape[0] // 2, GRAM_COLUMNS) and not hasattr(X, "tocsr")
        if narrow and numbers_of_rows is not None:
            moments = Moments.from_arrays(X, y, weights, folds=numbers_of_rows, terms=self._term_names(), level=0)
            refuse_nonfinite(self, X, moments, y, weights)
            self._fit_moments(moments)
            if self.certificate_.proven:
                return self
        refuse_extremes(self, X, y, weights)
        self._by_rows(X, y, weights, splits)
        return self

    def _grids(self, grid: Any) -> list[np.ndarray]:
        """Penalties for each l1_ratio; ``grid(ratio)`` makes them where a number was asked for."""
        if isinstance(self.alphas, numbers.Integral):
            return [grid(ratio) for ratio in self._ratios()]
        return [largest_first(self.alphas) for _ in self._ratios()]

    def _fit_moments(self, moments: Moments) -> None:
        self._check()
        need_folds(moments)
        if len(moments.targets) != 1:
            raise UsageError(
                f"{type(self).__name__} takes one target, not {len(moments.targets)}; fit one at a time", where="target"
            )
        d, intercept = len(moments.terms), self._has_intercept(moments)
        options: dict[str, Any] = {"fit_intercept": intercept, "positive": self.positive, "tolerance": self.tol}
        _, c, _ = moment_gram(moments.total, d, intercept)
        top = max(float(np.max(c if self.positive else np.abs(c), initial=0.0)), 0.0) / moments.total.weight[0]
        grids = self._grids(lambda ratio: penalty_grid(top / ratio, self.eps, int(self.alphas)))

        def one(job: tuple[float, np.ndarray, Any]) -> tuple[np.ndarray, np.ndarray]:
            ratio, alphas, fold = job
            fit = from_gram(moments, alphas, ratio, part=moments.without(fold), **options)
            part = moments.parts[fold]
            squares = held_out(part, fit.coefs.T[:, None, :], fit.intercepts[:, None], d)[:, 0]
            return squares / part.weight[0], fit.relative

        jobs = [(ratio, alphas, fold) for ratio, alphas in zip(self._ratios(), grids) for fold in moments.parts]
        self._choose(grids, spread(one, jobs), len(moments.parts))
        fit = from_gram(moments, np.array([self.alpha_]), self._chosen_ratio, **options)
        record = linear_record(moments, fit.coefs.T, fit.intercepts, None, **self._statistics(intercept))
        self._finish(record, fit)

    def _by_rows(self, X: Any, y: np.ndarray, weights: np.ndarray | None, splits: Sequence[Any]) -> None:
        problem = LassoProblem(X, weights, self.fit_intercept, self.max_iter)
        grids = self._grids(lambda ratio: automatic_grid(problem, y, ratio, self.positive, self.eps, int(self.alphas)))
        rows = X.tocsr() if hasattr(X, "tocsr") else X
        found: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        for fold, (train, test) in enumerate(splits):
            kept = np.zeros(X.shape[0])
            kept[train] = 1.0 if weights is None else weights[train]
            part = LassoProblem(X, kept, self.fit_intercept, self.max_iter)
            for place, (ratio, alphas) in enumerate(zip(self._ratios(), grids)):
                fit = part.solve(y, alphas, ratio, positive=self.positive, tolerance=self.tol)
                used = np.flatnonzero(fit.coefs.any(axis=1))
                errors = y[test, None] - (rows[test][:, used] @ fit.coefs[used] + fit.intercepts)
                scored = np.average(errors**2, axis=0, weights=None if weights is None else weights[test])
                found[place, fold] = scored, fit.relative
            del part
        self._choose(grids, [found[key] for key in sorted(found)], len(splits))
        fit = problem.solve(y, np.array([self.alpha_]), self._chosen_ratio, positive=self.positive, tolerance=self.tol)
        record = LinearModel(
            self._term_names(),
            fit.coefs.T,
            fit.intercepts,
            statistics=self._statistics(self.fit_intercept) | {"n": int(X.shape[0])},
        )
        self._finish(record, fit)

    def _choose(self, grids: list[np.ndarray], found: list[tuple[np.ndarray, np.ndarray]], folds: int) -> None:
        """alpha_ and l1_ratio_ from the errors, ordered by l1_ratio and then by fold."""
        shape = (len(grids), folds, -1)
        errors = np.moveaxis(np.reshape([e for e, _ in found], shape), 2, 1)
        gaps = np.moveaxis(np.reshape([g for _, g in found], shape), 2, 1)
        mean = errors.mean(axis=2)
        ratio, place = divmod(int(np.argmin(mean)), mean.shape[1])
        if self.selection_rule == "1se":
            bound = mean[ratio, place] + errors[ratio, place].std(ddof=1) / np.sqrt(folds)
            place = int(np.flatnonzero(mean[ratio] <= bound)[0])  # penalties fall, so the first is the largest
        self.alpha_ = float(grids[ratio][place])
        self._chosen_ratio = float(self._ratios()[ratio])
        self._show_ratio()
        self.alphas_ = grids[0] if len(grids) == 1 or not isinstance(self.alphas, numbers.Integral) else np.array(grids)
        self.mse_path_, self.gap_path_ = np.squeeze(errors), np.squeeze(gaps)

    def _show_ratio(self) -> None:
        self.l1_ratio_ = self._chosen_ratio

    def _statistics(self, intercept: bool) -> dict[str, Any]:
        kept = {"alpha": self.alpha_, "alphas": self.alphas_, "mse_path": self.mse_path_, "gap_path": self.gap_path_}
        if hasattr(self, "l1_ratio_"):
            kept["l1_ratio"] = self.l1_ratio_
        return {
            "family": "lasso" if self._chosen_ratio == 1.0 else "elastic net",
            "fit_intercept": bool(intercept),
            "alpha": self.alpha_,
            "objective": told_objective(self, self.alpha_, self._chosen_ratio, intercept),
        } | {f"estimator.{name}": value for name, value in kept.items()}

    def _finish(self, record: LinearModel, fit: LassoFit) -> None:
        worst = float(np.max(self.gap_path_, initial=0.0))
        solved = Assumption(
            "every penalty of every fold is solved to tol",
            worst <= self.tol,
            worst,
            float(self.tol),
            "raise eps, so that the path ends earlier, or loosen tol",
        )
        record.certificate = fit.certificate(0, (solved,))
        gap = max(float(fit.gaps.gap[0]), 0.0)
        record.statistics |= {"estimator.dual_gap": gap, "estimator.n_iter": fit.passes}
        self._settle(record, gap, fit.passes, True)


class LassoCV(ElasticNetCV):
    """Lasso with its penalty chosen by cross-validation, every fold's path certified.

    Parameters and attributes as in :class:`ElasticNetCV`, with ``l1_ratio`` fixed at 1.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> y = X[:, 0] + rng.normal(size=200)
    >>> least, sparse = tl.LassoCV(cv=5).fit(X, y), tl.LassoCV(cv=5, selection_rule="1se").fit(X, y)
    >>> sparse.alpha_ > least.alpha_, sparse.certificate_.proven
    (True, True)
    """

    def __init__(
        self,
        *,
        eps=1e-3,
        alphas=100,
        fit_intercept=True,
        precompute="auto",
        max_iter=1000,
        tol=1e-6,
        copy_X=True,
        cv=None,
        verbose=False,
        n_jobs=None,
        positive=False,
        random_state=None,
        selection="cyclic",
        selection_rule="min",
    ):
        self.eps = eps
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.max_iter = max_iter
        self.tol = tol
        self.copy_X = copy_X
        self.cv = cv
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.positive = positive
        self.random_state = random_state
        self.selection = selection
        self.selection_rule = selection_rule

    def _ratios(self) -> Sequence[float]:
        return (1.0,)

    def _show_ratio(self) -> None:
        """A lasso has no l1_ratio_ to show."""
