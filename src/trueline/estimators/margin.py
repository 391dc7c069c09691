"""LinearSVC: hinge and squared hinge with scikit-learn's parameters and meaning, and a dual certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from ..engines import engine_of
from ..errors import UsageError
from ..model.iterated import fit_margin
from ..model.linear import LinearModel
from .logistic import LinearRecord
from .parameters import NONE, Number, OneOf, Whole
from .proofs import warn_unproven
from .sources import has_intercept

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

    legal = {
        "penalty": OneOf(*PENALTIES),
        "loss": OneOf(*LOSSES),
        "C": Number(0, open=True),
        "multi_class": OneOf("ovr"),
        "max_iter": NONE | Whole(1),
    }

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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, target: Any = None, **source: Any) -> Any:
        """Fit to rows and labels, or to any source with ``target=`` its column's name (options as for tl.scan)."""
        if engine_of(X) is not None:
            raise UsageError(
                "LinearSVC is not taken on Dask and Spark: take tl.LogisticRegression there, or fit a sample on one machine",
                where="X",
            )
        self._refuse()
        X, y, sample_weight, kept = self._training_rows(
            X, y, sample_weight, target, source, accept_sparse=("csr", "csc"), dtype=[np.float64, np.float32]
        )
        check_classification_targets(y)
        record = fit_margin(
            X,
            y,
            loss=self.loss,
            penalty=self.penalty,
            C=float(self.C),
            fit_intercept=has_intercept(self, kept.get("schema")),
            intercept_scaling=float(self.intercept_scaling),
            sample_weight=sample_weight,
            class_weight=self.class_weight,
            method=self.method,
            tol=self.tol,
            max_iter=self.max_iter,
            checked=True,
            **kept,
        )
        self._hold(record)
        warn_unproven(record.certificate)
        return self

    def _refuse(self) -> None:
        if self.penalty == "l1" and self.loss == "hinge":
            raise UsageError("penalty='l1' goes with loss='squared_hinge', not with 'hinge'", where="penalty")

    def _hold(self, record: LinearModel) -> None:
        super()._hold(record)
        self.classes_ = np.asarray(record.classes)
        self.coef_ = np.atleast_2d(self.coef_)
        self.intercept_ = np.atleast_1d(self.intercept_)

    def _link(self) -> str:
        return "sign"

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
