"""AdaBoost in scikit-learn's clothes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..beyond.boosting import BoostingModel, boost, sort_columns
from ..errors import DataError
from ..onepass.moments import refuse_weights
from ..report.plots import axes
from .checking import check_weights, validate_data
from .loading import Saved
from .parameters import Whole


class AdaBoost(Saved, ClassifierMixin, BaseEstimator):
    """AdaBoost with decision stumps: each round finds the best of all stumps, exactly.

    The weighted training error is at most Π Z_t, the product of the rounds' normalisers, which falls as exp(−2Σγ_t²) for
    edges γ_t; the certificate holds it, with the margins. Several classes: one machine a class against the rest.

    Parameters
    ----------
    rounds : the most stumps a machine; it stops early where no stump beats chance.

    Attributes
    ----------
    classes_, certificate_ : of several classes, the certificate that proves least.
    bounds_ : Π Z_t after each round (a list for each machine).
    stumps_ : (column, threshold, vote) of the first machine: +vote above the threshold, −vote below.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.arange(20.0)[:, None]; y = (X[:, 0] > 5) & (X[:, 0] < 12)
    >>> model = tl.AdaBoost(rounds=20).fit(X, y)
    >>> model.score(X, y), model.certificate_.training_error <= model.certificate_.bound, model.certificate_.proven
    (1.0, True, True)

    >>> from sklearn.datasets import load_breast_cancer
    >>> tumours = tl.AdaBoost(rounds=50).fit(*load_breast_cancer(return_X_y=True))
    >>> print(tumours.certificate_)
    proven: training error 0, at most 0.00963381 after 50 rounds; smallest margin 0.0727, median 0.401
    """

    legal = {"rounds": Whole(1, floats=True)}

    def __init__(self, rounds: int = 100) -> None:
        self.rounds = rounds

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit to rows and labels."""
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"y has one class only ({self.classes_[0]!r}); a classifier needs two", where="y")
        weights = np.ones(len(y))
        if sample_weight is not None:
            weights = check_weights(sample_weight, X)
            refuse_weights(weights)
            if not weights.any():
                raise DataError("all weights are zero; at least one row needs a positive weight", where="sample_weight")
        # A row of weight 0 must not even place a threshold.
        counted = weights > 0.0
        if not counted.all():
            X, codes, weights = np.ascontiguousarray(X[counted]), codes[counted], weights[counted]
        columns, order = sort_columns(X)
        targets = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        fitted = [boost(X, columns, order, np.where(codes == k, 1.0, -1.0), weights, int(self.rounds)) for k in targets]
        machines, proofs, bounds = (list(item) for item in zip(*fitted))
        names = tuple(getattr(self, "feature_names_in_", ())) or None
        labels = [label.item() if isinstance(label, np.generic) else label for label in self.classes_]
        self._hold(BoostingModel(machines, proofs, bounds, labels, X.shape[1], names))
        return self

    def _hold(self, record: BoostingModel) -> None:
        self.model_ = record
        self.certificate_ = record.certificate
        self.bounds_ = record.bounds

    @property
    def stumps_(self) -> list[tuple[int, float, float]]:
        check_is_fitted(self)
        first = self.model_.machines[0]
        return list(zip(first.features.tolist(), first.thresholds.tolist(), first.votes.tolist()))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores in [−1, 1]: times the row's label they are its margins."""
        check_is_fitted(self)
        return self.model_.scores(validate_data(self, X, dtype=np.float64, order="C", reset=False))

    def predict(self, X: Any) -> np.ndarray:
        """The label that the stumps vote for."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0.0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)]

    def plot(self, ax: Any = None) -> Any:
        """The bound on the training error after each round; the matplotlib axes."""
        check_is_fitted(self)
        ax = axes(ax)
        for bound, label in zip(self.bounds_, self.classes_[-len(self.bounds_) :]):
            ax.semilogy(np.arange(1, len(bound) + 1), bound, label=str(label))
        ax.set_xlabel("round")
        ax.set_ylabel("product of normalisers ≥ training error")
        if len(self.bounds_) > 1:
            ax.legend()
        return ax

    def _record(self) -> BoostingModel:
        return self.model_

    def _adopt(self, record: BoostingModel) -> None:
        self._hold(record)
        self.classes_ = np.asarray(record.classes)
        self.n_features_in_ = record.width
        if record.names is not None:
            self.feature_names_in_ = np.array(record.names, dtype=object)


__all__ = ["AdaBoost"]
