"""LogisticRegression: two or more classes, no penalty, L1, L2 or elastic net, with a duality gap on every fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..batch.methods import METHODS
from ..engines import engine_of
from ..errors import UsageError
from ..model.iterated import fit_logistic
from ..model.linear import LinearModel, as_terms
from .checking import check_weights, target_names, validate_data
from .linearrecord import HoldsLinear
from .parameters import NONE, Names, OneOf, Whole
from .proofs import warn_unproven
from .sources import has_intercept, lazily, newton_there, paired, source_rows

PEER_SOLVERS = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")
PEER_PENALTIES = ("l1", "l2", "elasticnet", None)


class LinearRecord(HoldsLinear):
    """An estimator that holds one linear record and shows it through scikit-learn's attributes."""

    def _hold(self, record: LinearModel) -> None:
        self._show(record)
        self.n_iter_: Any = max(1, int(record.statistics.get("iterations", 1)))  # a closed form is one

    def _adopt(self, record: LinearModel) -> None:
        self.n_features_in_ = len(record.terms)
        if record.terms != as_terms(None, len(record.terms)):
            self.feature_names_in_ = np.array(record.terms, dtype=object)
        self._hold(record)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        if self.model_.schema is not None and not isinstance(X, np.ndarray):
            return self.model_.design(X)
        return validate_data(self, X, accept_sparse=("csr", "csc"), dtype=[np.float64, np.float32], reset=False)

    def _training_rows(
        self, X: Any, y: Any, sample_weight: Any, target: Any, source: dict[str, Any], **rules: Any
    ) -> tuple[Any, Any, Any, dict[str, Any]]:
        """(X, y, weights, what the record keeps of their names) of arrays or of a source, as scikit-learn checks them."""
        estimator: Any = self
        y, target, source = paired(self, X, y, target, source, sample_weight)
        kept: dict[str, Any] = {"target": target_names(y)[0]}
        if y is None and target is not None:
            X, y, sample_weight, schema = source_rows(self, X, target, source, labels=is_classifier(estimator))
            kept = {"schema": schema, "target": schema.target}
            names = estimator.feature_names_in_
        X, y = validate_data(self, X, y, **rules)
        if "schema" in kept:
            estimator.feature_names_in_ = names
        kept["terms"] = getattr(self, "feature_names_in_", None)
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, X, ensure_non_negative=True)
        return X, y, sample_weight, kept


class LogisticRegression(LinearRecord, ClassifierMixin, BaseEstimator):
    """Logistic regression whose optimum is proven: ``certificate_`` bounds the distance to it.

    Parameters
    ----------
    penalty
        As in scikit-learn 1.9, where it is deprecated: use ``C`` and ``l1_ratio``.
    C : float
        Inverse strength: the objective is C·Σ loss + l1_ratio·‖w‖₁ + ½(1 − l1_ratio)·‖w‖². ``inf`` for no penalty.
    l1_ratio : float
        0 is L2, 1 is L1, between them the elastic net.
    tol : float
        The relative duality gap to reach.
    fit_intercept, class_weight, warm_start
        As in scikit-learn; the intercept is never penalised.
    solver : str
        "auto" or a method of ``tl.minimize`` by name; scikit-learn's names are taken as "auto".
    max_iter : int or None
        Iterations allowed; None is the method's own number.
    random_state, dual, intercept_scaling, verbose, n_jobs
        Accepted for compatibility; nothing here is random.

    Attributes
    ----------
    coef_, intercept_, classes_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    certificate_ : GapCertificate
        ``.primal``, ``.dual``, ``.gap``, ``.relative_gap``; status "degenerate" when the classes, or one of them
        from all others, are separable and no penalty keeps the optimum finite.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = tl.LogisticRegression().fit(X, ["a", "b", "a", "b"])
    >>> model.predict([[2.5]]), model.certificate_.proven
    (array(['b'], dtype='<U1'), True)
    """

    legal = {
        "penalty": OneOf("deprecated", *PEER_PENALTIES),
        "solver": Names(lambda: ("auto", *METHODS, *PEER_SOLVERS), "solver"),
        "max_iter": NONE | Whole(1),
    }

    def __init__(
        self,
        penalty="deprecated",
        *,
        C=1.0,
        l1_ratio=0.0,
        dual=False,
        tol=1e-6,
        fit_intercept=True,
        intercept_scaling=1,
        class_weight=None,
        random_state=None,
        solver="auto",
        max_iter=None,
        verbose=0,
        warm_start=False,
        n_jobs=None,
    ):
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, target: Any = None, **source: Any) -> Any:
        """Fit to rows and labels, or to any source with ``target=`` its column's name (options as for tl.scan).

        A Dask or Spark table is fitted where it lives.
        """
        engine = engine_of(X)
        if engine is not None:
            return self._fit_there(engine, X, y, sample_weight, target, source)
        X, y, sample_weight, kept = self._training_rows(
            X, y, sample_weight, target, source, accept_sparse=("csr", "csc"), dtype=[np.float64, np.float32]
        )
        check_classification_targets(y)
        strength, ratio = self._penalty()
        start = None
        if self.warm_start and hasattr(self, "model_") and self.model_.coef.shape[-1] == X.shape[1]:
            start = (self.model_.coef, self.model_.intercept)
        record = fit_logistic(
            X,
            y,
            C=strength,
            l1_ratio=ratio,
            fit_intercept=has_intercept(self, kept.get("schema")),
            sample_weight=sample_weight,
            class_weight=self.class_weight,
            method=self._method(),
            tol=self.tol,
            max_iter=self.max_iter,
            start=start,
            checked=True,
            **kept,
        )
        self._hold(record)
        warn_unproven(record.certificate)
        return self

    def _fit_there(self, engine: Any, X: Any, y: Any, sample_weight: Any, target: Any, source: dict[str, Any]) -> Any:
        """Fit where a table of another engine lives."""
        y, target, options = paired(self, X, y, target, source, sample_weight)
        strength, ratio = self._penalty()
        if ratio > 0.0 and not math.isinf(strength):
            raise UsageError("on Dask and Spark l1_ratio is 0: the penalty is L2 or none", where="l1_ratio")
        if self.class_weight is not None:
            raise UsageError("on Dask and Spark give weights= a column instead of class_weight", where="class_weight")
        newton_there("solver", self._method())
        record = engine.fit_logistic(
            X,
            target=target,
            C=strength,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            **options,
        )
        self._adopt(record)
        warn_unproven(record.certificate)
        return self

    def _penalty(self) -> tuple[float, float]:
        """(C, l1_ratio), with the deprecated ``penalty`` taken into account."""
        ratio = self.l1_ratio
        if self.penalty != "deprecated":
            if self.penalty is None:
                return math.inf, 0.0
            ratio = {"l1": 1.0, "l2": 0.0}.get(self.penalty, ratio)
        return float(self.C), float(ratio)

    def _method(self) -> str:
        return "auto" if self.solver in PEER_SOLVERS else str(self.solver)

    def _hold(self, record: LinearModel) -> None:
        super()._hold(record)
        self.classes_ = np.asarray(record.classes)
        self.coef_ = np.atleast_2d(self.coef_)
        self.intercept_ = np.atleast_1d(self.intercept_)
        self.n_iter_ = np.array([self.n_iter_])

    def _link(self) -> str:
        return "logistic" if len(self.classes_) == 2 else "softmax"

    @lazily
    def decision_function(self, X: Any) -> np.ndarray:
        """The scores: one a row for two classes, otherwise one a row and class."""
        rows = self._rows(X)
        return self.model_.score(rows)

    @lazily
    def predict(self, X: Any) -> Any:
        """The most probable class of each row; of a Dask or Spark table lazily, where it lives."""
        rows = self._rows(X)
        return self.classes_[self.model_.choose(self.model_.score(rows))]

    @lazily
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class."""
        rows = self._rows(X)
        return self.model_.probabilities(rows)

    @lazily
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Their logarithms, exact in the tails."""
        rows = self._rows(X)
        scores = self.model_.score(rows)
        if self.model_.link == "logistic":
            scores = np.column_stack([np.zeros(len(scores)), scores])
        top = scores.max(axis=1, keepdims=True)
        return scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
