"""Online learners in scikit-learn's clothes: any loss in any geometry, and the classics by their names."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from ..errors import DataError, UsageError
from ..online.model import OnlineModel
from ..parts import losses
from .sources import lazily
from .streaming import Streaming

# Where the full mixture does not fit, "auto" is the geometry whose mixed rates erred least on streams tried: adaptive,
# or, with a penalty, which the adaptive one cannot have, normalised.
ALONE, PENALISED = "adaptive", "normalised"


class _Regression(RegressorMixin, Streaming):
    """Targets are numbers."""

    @lazily
    def predict(self, X: Any) -> np.ndarray:
        """Predictions, on the target's scale."""
        return self._fitted_rows(X)

    def _fitted_rows(self, X: Any) -> np.ndarray:
        X = self._rows(X)
        return self.record_.predict(X)  # type: ignore[no-any-return]

    def predict_one(self, x: dict[str, float]) -> float:
        """The prediction for one example of named features."""
        record = self.__dict__.get("record_")
        if record is None:
            record = self._first_one(0.0)
        return record.predict_one(x)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _Classification(ClassifierMixin, Streaming):
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
                f"y has one class only ({_plain(self.classes_[0])!r}); a classifier needs at least two classes",
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
                f"y has the unknown class {_plain(labels[at])!r} in row {at}; the classes are {shown}", where="y"
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
        return float(self._code([y])[0])

    def _labels(self) -> tuple[Any, ...] | None:
        return tuple(_plain(label) for label in self.classes_)

    def _raw(self, X: Any) -> np.ndarray:
        X = self._rows(X)
        return np.asarray(self.record_.predict(X))

    @property
    def _probabilistic(self) -> bool:
        record = self.__dict__.get("record_")
        return record is None or getattr(record, "probabilistic", record.kind == "mixture")

    @lazily
    def predict(self, X: Any) -> np.ndarray:
        """The most likely label of each row."""
        winners = self._winners(self._raw(X))
        return self.classes_[winners]

    def _winners(self, raw: np.ndarray) -> np.ndarray:
        if raw.ndim == 1:
            return (raw > (0.5 if self._probabilistic else 0.0)).astype(int)
        return np.argmax(raw, axis=1)

    @lazily
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: log-odds where there are probabilities."""
        raw = self._raw(X)
        if not self._probabilistic:
            return raw
        raw = np.clip(raw, 1e-300, None)
        return np.log(raw) - np.log(np.clip(1.0 - raw, 1e-17, None)) if raw.ndim == 1 else np.log(raw)

    def predict_one(self, x: dict[str, float]) -> Any:
        """The most likely label of one example; None before any label was seen."""
        record = self.__dict__.get("record_")
        if record is None:
            if getattr(self, "classes", None) is None:
                return None
            record = self._first_one(self.classes[0])  # type: ignore[attr-defined]
        raw = record.predict_one(x)
        code = int(self._winners(np.array([raw]))[0]) if np.ndim(raw) == 0 else int(np.argmax(raw))
        return _plain(self.classes_[code])

    def _adopt(self, record: Any) -> None:
        super()._adopt(record)
        self.classes_ = np.asarray(record.classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class OnlineRegressor(_Regression):
    """Online regression with any loss in any geometry; by default a mixture with nothing to tune.

    Parameters
    ----------
    loss : a name ("squared", "absolute", "huber", "quantile", "epsilon_insensitive", "power", "poisson") or a part of
        your own: a NamedTuple with ``value(score, y)`` and ``slope(score, y)``.
    geometry : "auto", "additive", "multiplicative", "signed", "normalised", "implicit", "adaptive", or a
        part of your own (``trueline.roles.Mirror``). "auto" is the full mixture of geometries, rates and memories. That
        has squared loss (logistic for classes), an intercept, no penalty, no mini-batches and chooses its rates; where
        you ask for something else, "auto" is "additive" with a number as ``rate``, and otherwise mixes the rates of
        "normalised" with a penalty and of "adaptive" without. ``record_.geometry`` tells.
    rate : "auto" mixes rates with a proof; a number is used as it is.
    schedule : "constant", "1/sqrt(t)" or "1/t".
    penalty, alpha, l1_ratio : None, "l1", "l2" or "elastic_net", applied in every round; zeros are true zeros.
    radius : the L1 radius of the signed multiplicative geometry.
    order : "in_order", "cyclic", "uniform" or "shuffled"; ``epochs`` passes, mini-batches of ``batch_size``.
    average : predict with the mean of the weights before each update (not of a mixture); ``loss_range`` is the B of its risk bound.
    certificate : keep the sums that the certificate needs.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4)); y = X @ [1, -2, 0, 3]
    >>> model = tl.OnlineRegressor(geometry="normalised", rate=0.5).fit(X, y)
    >>> model.certificate_.proven, model.certificate_.loss <= model.certificate_.bound
    (True, True)
    """

    def __init__(
        self, loss: Any = "squared", geometry: Any = "auto", rate: Any = "auto", *, schedule: str = "constant",
        penalty: Any = None, alpha: float = 1e-4, l1_ratio: float = 0.5, radius: float = 1.0, order: str = "in_order",
        epochs: int = 1, batch_size: int = 1, fit_intercept: bool = True, average: bool = False,
        certificate: bool = True, loss_range: float | None = None, confidence: float = 0.95, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.loss = loss
        self.geometry = geometry
        self.rate = rate
        self.schedule = schedule
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.radius = radius
        self.order = order
        self.epochs = epochs
        self.batch_size = batch_size
        self.fit_intercept = fit_intercept
        self.average = average
        self.certificate = certificate
        self.loss_range = loss_range
        self.confidence = confidence
        self.random_state = random_state

    def _make(self) -> Any:
        geometry = _geometry(self, "regression")
        return _mixture("regression", None, self.certificate) if geometry == "auto" else _general(self, geometry, None)


class OnlineClassifier(_Classification):
    """Online classification, two classes or several; by default a mixture with nothing to tune.

    The parameters are those of :class:`OnlineRegressor`; losses are "logistic", "hinge", "squared_hinge",
    "perceptron" or your own. ``classes`` names the labels in advance, for streams of dicts. Several classes are learned
    one against the rest (the mixture learns them jointly). Probabilities come with the logistic loss.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.array([[0.0], [1.0], [0.2], [0.9]] * 25); y = (X[:, 0] > 0.5).astype(int)
    >>> model = tl.OnlineClassifier(geometry="additive", rate=1.0).fit(X, y)
    >>> model.predict([[0.0], [1.0]]).tolist()
    [0, 1]
    """

    def __init__(
        self, loss: Any = "logistic", geometry: Any = "auto", rate: Any = "auto", *, schedule: str = "constant",
        penalty: Any = None, alpha: float = 1e-4, l1_ratio: float = 0.5, radius: float = 1.0, order: str = "in_order",
        epochs: int = 1, batch_size: int = 1, fit_intercept: bool = True, average: bool = False,
        certificate: bool = True, loss_range: float | None = None, confidence: float = 0.95, classes: Any = None,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.loss = loss
        self.geometry = geometry
        self.rate = rate
        self.schedule = schedule
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.radius = radius
        self.order = order
        self.epochs = epochs
        self.batch_size = batch_size
        self.fit_intercept = fit_intercept
        self.average = average
        self.certificate = certificate
        self.loss_range = loss_range
        self.confidence = confidence
        self.classes = classes
        self.random_state = random_state

    def _make(self) -> Any:
        labels = self._labels()
        geometry = _geometry(self, "classification")
        if geometry == "auto":
            return _mixture("binary" if len(labels or ()) == 2 else "multiclass", labels, self.certificate)
        return _general(self, geometry, labels)

    @lazily
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, one column a class (logistic loss only)."""
        raw = self._raw(X)
        if not self._probabilistic:
            raise UsageError("probabilities come with loss='logistic'; this loss gives scores", where="loss")
        return np.column_stack([1.0 - raw, raw]) if raw.ndim == 1 else raw

    def predict_proba_one(self, x: dict[str, float]) -> dict[Any, float]:
        """The probability of each label for one example; empty before any label was seen."""
        record = self.__dict__.get("record_")
        if record is None:
            return {}
        raw = record.predict_one(x)
        found = [1.0 - raw, raw] if np.ndim(raw) == 0 else list(raw)
        labels = self._labels() or ()
        return {label: float(p) for label, p in zip(labels, found)}


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _general(learner: Any, geometry: Any, classes: Any) -> Any:
    """The record of a learner in one geometry."""
    l1, l2 = learner._penalty(learner.penalty, learner.alpha, learner.l1_ratio)
    fields = {"radius": float(learner.radius)} if isinstance(geometry, str) and geometry == "signed" else {}
    return learner._online(
        learner.loss, geometry, learner.rate, fields=fields, schedule=learner.schedule, l1=l1, l2=l2,
        intercept=learner.fit_intercept, certificate=learner.certificate,
        batch=learner._whole("batch_size", learner.batch_size), average=learner.average, classes=classes,
        loss_range=learner.loss_range, confidence=learner.confidence,
    )  # fmt: skip


def _mixture(task: str, classes: Any, certificate: bool) -> Any:
    """The record of the default learner."""
    from ..online.mixture import MixtureModel

    return MixtureModel(task, classes, certificate)


def _geometry(learner: Any, task: str) -> Any:
    """What ``geometry`` means: "auto" is the full mixture where that fits, and one geometry where it does not."""
    if not (isinstance(learner.geometry, str) and learner.geometry == "auto"):
        return learner.geometry
    if not (isinstance(learner.rate, str) and learner.rate == "auto"):
        return "additive"
    if learner.average:
        raise UsageError(
            "average=True needs one learner, and rate='auto' is a mixture of them; give a number as rate",
            where="average",
        )
    if not (learner.penalty is None or (isinstance(learner.penalty, str) and learner.penalty == "none")):
        return PENALISED
    usual = losses.loss("squared" if task == "regression" else "logistic")
    given = losses.loss(learner.loss)
    fits = (
        type(given) is type(usual) and given == usual and learner.schedule == "constant"
        and learner.batch_size == 1 and learner.fit_intercept
    )  # fmt: skip
    return "auto" if fits else ALONE


class WidrowHoff(_Regression):
    """The Widrow–Hoff rule (LMS): squared loss, w ← w − rate·(w·x − y)·x, with its theorem's bound.

    L ≤ L_u/(1 − κ) + ‖u‖²/rate for every u, κ = rate·max‖x‖² < 1. ``rate="auto"`` mixes many rates with a proof.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.ones((1000, 1)); y = np.tile([1.0, -1.0], 500)
    >>> proof = tl.WidrowHoff(rate=0.1, fit_intercept=False).fit(X, y).certificate_
    >>> proof.proven, bool(0.95 * proof.bound <= proof.loss <= proof.bound)
    (True, True)
    """

    def __init__(
        self, rate: Any = "auto", *, order: str = "in_order", epochs: int = 1, batch_size: int = 1,
        fit_intercept: bool = True, average: bool = False, certificate: bool = True, loss_range: float | None = None,
        confidence: float = 0.95, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.rate = rate
        self.order = order
        self.epochs = epochs
        self.batch_size = batch_size
        self.fit_intercept = fit_intercept
        self.average = average
        self.certificate = certificate
        self.loss_range = loss_range
        self.confidence = confidence
        self.random_state = random_state

    def _make(self) -> Any:
        return self._online(
            "squared", "additive", self.rate, intercept=self.fit_intercept, certificate=self.certificate,
            batch=self._whole("batch_size", self.batch_size), average=self.average, loss_range=self.loss_range,
            confidence=self.confidence,
        )  # fmt: skip


class ExponentiatedGradient(_Regression):
    """Exponentiated gradient: multiplicative updates, for targets that few of many features explain.

    ``signed=True`` allows weights of both signs with ‖w‖₁ ≤ ``radius`` (EG±); False keeps them on the simplex.
    L ≤ L_u/(1 − κ) + (2/rate)·RE(u‖w₁), κ = rate·R²/4 < 1, R the range of a row (2·radius·max|x| when signed).

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], size=(500, 50)); y = X[:, 3]
    >>> model = tl.ExponentiatedGradient(rate=0.2, signed=False, fit_intercept=False).fit(X, y)
    >>> int(model.coef_.argmax()), model.certificate_.proven
    (3, True)
    """

    def __init__(
        self, rate: Any = "auto", *, loss: Any = "squared", signed: bool = True, radius: float = 10.0,
        order: str = "in_order", epochs: int = 1, fit_intercept: bool = True, average: bool = False,
        certificate: bool = True, loss_range: float | None = None, confidence: float = 0.95, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.rate = rate
        self.loss = loss
        self.signed = signed
        self.radius = radius
        self.order = order
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.average = average
        self.certificate = certificate
        self.loss_range = loss_range
        self.confidence = confidence
        self.random_state = random_state

    def _make(self) -> Any:
        geometry = "signed" if self.signed else "multiplicative"
        return self._online(
            self.loss, geometry, self.rate, fields={"radius": float(self.radius)} if self.signed else {},
            intercept=self.fit_intercept, certificate=self.certificate, average=self.average,
            loss_range=self.loss_range, confidence=self.confidence,
        )  # fmt: skip


class Perceptron(_Classification):
    """Rosenblatt's perceptron, one pass in order: w ← w + y·x on a mistake, y·(w·x) ≤ 0.

    Its certificate counts mistakes against (R‖w‖ + ‖ξ‖₂)², the best w that was found; with a margin ρ that is R²/ρ².
    Several classes are learned one against the rest; their mistakes are at most the sum of the heads' bounds.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.array([[2.0, 1.0], [-1.0, -2.0], [1.0, 2.0], [-2.0, -1.0]] * 5); y = np.tile([1, 0], 10)
    >>> proof = tl.Perceptron().fit(X, y).certificate_
    >>> proof.proven, proof.mistakes <= proof.bound
    (True, True)
    """

    def __init__(
        self, *, order: str = "in_order", epochs: int = 1, fit_intercept: bool = True, certificate: bool = True,
        classes: Any = None, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.order = order
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.certificate = certificate
        self.classes = classes
        self.random_state = random_state

    def _make(self) -> Any:
        labels = self._labels()
        return self._online(
            "perceptron", "additive", 1.0, intercept=self.fit_intercept, certificate=self.certificate, classes=labels,
            keep_rows=self.certificate,
        )  # fmt: skip


class Winnow(_Classification):
    """Balanced Winnow: multiplicative updates on a mistake, for labels that few of many features explain.

    Mistakes N ≤ (RE(u‖w₁) + rate·Σ(γ − y u·x)₊)/(rate·γ − rate²‖x‖∞²/2) for every ‖u‖₁ = 1 and margin γ.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], size=(400, 100)); y = X[:, 7] > 0
    >>> model = tl.Winnow(rate=0.3, fit_intercept=False).fit(X, y)
    >>> model.certificate_.proven, model.certificate_.mistakes < 60
    (True, True)
    """

    def __init__(
        self, rate: float = 0.1, *, order: str = "in_order", epochs: int = 1, fit_intercept: bool = True,
        certificate: bool = True, classes: Any = None, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.rate = rate
        self.order = order
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.certificate = certificate
        self.classes = classes
        self.random_state = random_state

    def _make(self) -> Any:
        labels = self._labels()
        return self._online(
            "perceptron", "signed", self.rate, fields={"radius": 1.0}, intercept=self.fit_intercept,
            certificate=self.certificate, classes=labels, keep_rows=self.certificate,
        )  # fmt: skip

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # its weights are for sparse targets; blobs need more passes
        return tags


class RecursiveLeastSquares(_Regression):
    """Recursive least squares: the ridge solution after every row, with the Vovk–Azoury–Warmuth prediction.

    ``forward=False`` predicts as plain recursive least squares does; ``forgetting`` below 1 follows change (and voids
    the bound). L ≤ min_u (L_u + ridge·‖u‖²) + Y²·ln det(I + XᵀX/ridge).

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.arange(20.0).reshape(10, 2) / 10; y = X @ [2.0, 1.0]
    >>> proof = tl.RecursiveLeastSquares().fit(X, y).certificate_
    >>> proof.proven, proof.loss <= proof.bound
    (True, True)
    """

    def __init__(
        self, ridge: float = 1.0, *, forgetting: float = 1.0, forward: bool = True, order: str = "in_order",
        epochs: int = 1, fit_intercept: bool = True, certificate: bool = True, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.ridge = ridge
        self.forgetting = forgetting
        self.forward = forward
        self.order = order
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.certificate = certificate
        self.random_state = random_state

    def _make(self) -> Any:
        from ..online.recursive import RecursiveModel

        if not 0.0 < self.forgetting <= 1.0:
            raise UsageError(f"forgetting must lie in (0, 1], not {self.forgetting!r}", where="forgetting")
        if not 0.0 < self.ridge < np.inf:
            raise UsageError(f"ridge must be positive, not {self.ridge!r}", where="ridge")
        return RecursiveModel(self.ridge, self.forgetting, self.forward, self.fit_intercept, self.certificate)


__all__ = [
    "ExponentiatedGradient", "OnlineClassifier", "OnlineModel", "OnlineRegressor", "Perceptron", "RecursiveLeastSquares",
    "WidrowHoff", "Winnow",
]  # fmt: skip
