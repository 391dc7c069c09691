"""Online learners in scikit-learn's clothes: any loss in any geometry."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UsageError
from ..objective.losses import resolve_loss
from .parameters import available
from .sources import lazily
from .tasks import Classification, Regression, plain

# Where the full mixture does not fit, "auto" is the geometry whose mixed rates erred least on streams tried: adaptive,
# or, with a penalty, which the adaptive one cannot have, normalised.
ALONE, PENALISED = "adaptive", "normalised"


class OnlineRegressor(Regression):
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


def has_probabilities(learner: Any) -> bool:
    """Whether what was learned, or will be, gives probabilities."""
    if "record_" in learner.__dict__:
        return bool(learner._probabilistic)
    try:
        return bool(resolve_loss(learner.loss).name == "logistic")
    except (TypeError, ValueError, AttributeError):
        return False  # no such loss, or one of the user's own: fit says so


class OnlineClassifier(Classification):
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

    @available(has_probabilities)
    @lazily
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, one column per class (logistic loss only)."""
        raw = self._raw(X)
        return np.column_stack([1.0 - raw, raw]) if raw.ndim == 1 else raw

    @available(has_probabilities)
    def predict_proba_one(self, x: dict[str, float]) -> dict[Any, float]:
        """The probability of each label for one example, all the same before any was seen (logistic loss only).

        Without ``classes`` there is no label to name before the first: then it is empty.
        """
        record = self.__dict__.get("record_")
        if record is None:
            if self.classes is None:
                return {}
            labels = tuple(plain(label) for label in np.unique(np.asarray(self.classes)))
            return dict.fromkeys(labels, 1.0 / len(labels))
        raw = record.predict_one(x)
        found = [1.0 - raw, raw] if np.ndim(raw) == 0 else list(raw)
        labels = self._labels() or ()
        return {label: float(p) for label, p in zip(labels, found)}


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
    usual = resolve_loss("squared" if task == "regression" else "logistic")
    given = resolve_loss(learner.loss)
    fits = (
        type(given) is type(usual) and given == usual and learner.schedule == "constant"
        and learner.batch_size == 1 and learner.fit_intercept
    )  # fmt: skip
    return "auto" if fits else ALONE
