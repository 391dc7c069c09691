"""What an online estimator is asked for: numbers, or labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from ..errors import DataError, UsageError
from .parameters import unknown_of_one
from .sources import ScoredHere, lazily
from .streaming import Streaming, one_weight


class Regression(ScoredHere, RegressorMixin, Streaming):
    """Targets are numbers."""

    @lazily
    def predict(self, X: Any) -> np.ndarray:
        """Predictions, on the target's scale."""
        return self._fitted_rows(X)

    def _fitted_rows(self, X: Any) -> np.ndarray:
        X = self._rows(X)
        return self.record_.predict(X)  # type: ignore[no-any-return]

    def predict_one(self, x: dict[str, float], **unknown: Any) -> float:
        """The prediction for one example of named features."""
        if unknown:
            raise unknown_of_one(self, "predict_one", unknown)
        try:
            record = self.record_
        except AttributeError:
            record = self._first_one(0.0)
        return record.predict_one(x)  # type: ignore[no-any-return]

    def learn_one(
        self, x: dict[str, float], y: Any, weight: float = 1.0, *, w: float | None = None, **unknown: Any
    ) -> Any:
        """Learn one example of named features, which may appear and vanish; returns the estimator.

        ``w`` is River's name for ``weight``.
        """
        if unknown:
            raise unknown_of_one(self, "learn_one", unknown)
        if w is not None:
            weight = one_weight(weight, w)
        try:
            record = self.record_
        except AttributeError:
            record = self._first_one(y)
        record.learn_one(x, y, weight)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Classification(ScoredHere, ClassifierMixin, Streaming):
    """Targets are labels; inside, −1 and +1, or the index of a class."""

    classes_: np.ndarray

    def _target_rules(self) -> dict[str, Any]:
        return {}

    def _prepare(self, y: np.ndarray) -> None:
        check_classification_targets(y)
        given = getattr(self, "_given_classes", None)
        if given is None:
            given = getattr(self, "classes", None)
        self.classes_ = unique_labels(y) if given is None else unique_labels(np.asarray(given))
        if len(self.classes_) < 2:
            raise DataError(
                f"y has one class only ({plain(self.classes_[0])!r}); a classifier needs at least two classes",
                where="y",
            )

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Go on learning; ``classes`` names every class at the first call if the first rows may lack some."""
        if not hasattr(self, "record_"):
            self._given_classes = classes
        try:
            return super().partial_fit(X, y, sample_weight)
        finally:
            self.__dict__.pop("_given_classes", None)

    def _code(self, y: Any) -> np.ndarray:
        labels = np.asarray(y)
        codes = np.searchsorted(self.classes_, labels)
        codes = np.minimum(codes, len(self.classes_) - 1)
        wrong = self.classes_[codes] != labels
        if np.any(wrong):
            at = int(np.argmax(wrong))
            shown = ", ".join(str(label) for label in self.classes_[:8])
            raise DataError(
                f"y has the unknown class {plain(labels[at])!r} in row {at}; the classes are {shown}", where="y"
            )
        return np.where(codes == 1, 1.0, -1.0) if len(self.classes_) == 2 else codes.astype(np.float64)

    def _prepare_one(self, y: Any) -> None:
        given = getattr(self, "classes", None)
        if given is not None:
            self.classes_ = unique_labels(np.asarray(given))
        elif isinstance(y, (bool, np.bool_)):
            self.classes_ = np.array([False, True])
        elif y in (0, 1):
            self.classes_ = np.array([0, 1])
        elif y == -1:
            self.classes_ = np.array([-1, 1])
        else:
            raise UsageError(
                f"the first label is {y!r}; a stream of dicts does not show its classes in advance: give classes=[…]",
                where="classes",
            )

    def _code_one(self, y: Any) -> float:
        table = self.__dict__.get("_codes")
        if table is None or table[0] is not self.classes_:
            labels = self._labels() or ()
            table = self._codes = (self.classes_, dict(zip(labels, self._code(self.classes_).tolist())))
        try:
            return table[1][y]  # type: ignore[no-any-return]
        except (KeyError, TypeError):
            return float(self._code([y])[0])

    def _labels(self) -> tuple[Any, ...] | None:
        return tuple(plain(label) for label in self.classes_)

    def _raw(self, X: Any) -> np.ndarray:
        X = self._rows(X)
        return np.asarray(self.record_.predict(X))

    @property
    def _probabilistic(self) -> bool:
        record = self.__dict__.get("record_")
        return record is None or getattr(record, "probabilistic", record.kind == "mixture")

    @property
    def _middle(self) -> float:
        """Where one label ends and the other begins."""
        return 0.5 if self._probabilistic else 0.0

    @lazily
    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each row."""
        winners = self._winners(self._raw(X))
        return self.classes_[winners]

    def _winners(self, raw: np.ndarray) -> np.ndarray:
        if raw.ndim == 1:
            return (raw > self._middle).astype(int)
        return np.argmax(raw, axis=1)

    @lazily
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: log-odds where there are probabilities."""
        raw = self._raw(X)
        if not self._probabilistic:
            return raw
        raw = np.clip(raw, 1e-300, None)
        return np.log(raw) - np.log(np.clip(1.0 - raw, 1e-17, None)) if raw.ndim == 1 else np.log(raw)

    def predict_one(self, x: dict[str, float], **unknown: Any) -> Any:
        """The most likely label of one example; None before any label was seen."""
        if unknown:
            raise unknown_of_one(self, "predict_one", unknown)
        record = self.__dict__.get("record_")
        if record is None:
            if getattr(self, "classes", None) is None:
                return None
            record = self._first_one(self.classes[0])  # type: ignore[attr-defined]
        raw = record.predict_one(x)
        code = int(np.argmax(raw)) if isinstance(raw, np.ndarray) else int(raw > self._middle)
        return plain(self.classes_[code])

    def _adopt(self, record: Any) -> None:
        super()._adopt(record)
        self.classes_ = np.asarray(record.classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
