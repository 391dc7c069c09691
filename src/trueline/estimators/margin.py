"""LinearSVC: hinge and squared hinge with scikit-learn's parameters and meaning, and a dual certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from ..batch.methods import METHODS
from ..engines import engine_of
from ..errors import UsageError, nearest
from ..model.iterated import fit_margin
from ..model.linear import LinearModel
from .checking import validate_data
from .logistic import LinearRecord

LOSSES = ("hinge", "squared_hinge")
PENALTIES = ("l1", "l2")


class LinearSVC(LinearRecord, ClassifierMixin, BaseEstimator):
    """Linear support vector classification whose optimum is proven by its dual.

    Parameters
    ----------
    penalty, loss, C, fit_intercept, intercept_scaling, class_weight
        As in scikit-learn: ½‖(w, b/intercept_scaling)‖² + C·Σ loss; the intercept is penalised, as there. ``penalty="l1"``
        uses the 1-norm and goes with the squared hinge.
    tol : float
        The relative duality gap to reach.
    method : str
        "auto" or a method of ``tl.minimize`` by name.
    max_iter : int or None
        Iterations allowed; None is the method's own number.
    dual, multi_class, verbose, random_state
        Accepted for compatibility; several classes are fitted one against the rest.

    Attributes
    ----------
    coef_, intercept_, classes_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    certificate_ : GapCertificate
        Of several classes, the one that proves least.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> model = tl.LinearSVC(loss="hinge").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> model.predict([[2.5]]), model.certificate_.proven
    (array([1]), True)
    """

    def __init__(
        self,
        penalty="l2",
        loss="squared_hinge",
        *,
        dual="auto",
        tol=1e-6,
        C=1.0,
        multi_class="ovr",
        fit_intercept=True,
        intercept_scaling=1,
        class_weight=None,
        verbose=0,
        random_state=None,
        max_iter=None,
        method="auto",
    ):
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.method = method

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **source: Any) -> Any:
        """Fit to rows and labels."""
        if engine_of(X) is not None:
            raise UsageError(
                "LinearSVC is not taken on Dask and Spark: take tl.LogisticRegression there, or fit a sample on one machine",
                where="X",
            )
        if source:
            raise UsageError(f"LinearSVC has no option {next(iter(source))!r}; give X and y as arrays", where="X")
        self._refuse()
        X, y = validate_data(self, X, y, accept_sparse=("csr", "csc"), dtype=[np.float64, np.float32])
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        record = fit_margin(
            X,
            y,
            loss=self.loss,
            penalty=self.penalty,
            C=float(self.C),
            fit_intercept=self.fit_intercept,
            intercept_scaling=float(self.intercept_scaling),
            sample_weight=sample_weight,
            class_weight=self.class_weight,
            method=self.method,
            tol=self.tol,
            max_iter=self.max_iter,
            terms=getattr(self, "feature_names_in_", None),
            checked=True,
        )
        self._hold(record)
        return self

    def _refuse(self) -> None:
        for name, known in (("loss", LOSSES), ("penalty", PENALTIES), ("method", ("auto", *METHODS))):
            given = getattr(self, name)
            if given not in known:
                raise UsageError(f"there is no {name} named {given!r}{nearest(str(given), known)}", where=name)
        if self.penalty == "l1" and self.loss == "hinge":
            raise UsageError("penalty='l1' goes with loss='squared_hinge', not with 'hinge'", where="penalty")
        if self.multi_class != "ovr":
            raise UsageError(f"multi_class is {self.multi_class!r}; only 'ovr' is accepted", where="multi_class")
        if not self.C > 0.0:
            raise UsageError(f"C is {self.C!r}; a positive number is accepted", where="C")
        if not self.intercept_scaling > 0.0:
            raise UsageError(f"intercept_scaling is {self.intercept_scaling!r}; a positive number is accepted")

    def _hold(self, record: LinearModel) -> None:
        super()._hold(record)
        self.classes_ = np.asarray(record.classes)
        self.coef_ = np.atleast_2d(record.coef)
        self.intercept_ = np.atleast_1d(np.asarray(record.intercept, dtype=float))

    def decision_function(self, X: Any) -> np.ndarray:
        """The scores: one a row for two classes, otherwise one a row and class."""
        rows = self._rows(X)
        return self.model_.score(rows)

    def predict(self, X: Any) -> np.ndarray:
        """The class on whose side each row lies."""
        rows = self._rows(X)
        return self.classes_[self.model_.choose(self.model_.score(rows))]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
