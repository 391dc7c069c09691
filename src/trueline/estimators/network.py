"""NeuralNetwork in scikit-learn's clothes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils import ClassifierTags, check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted

from ..beyond.network import OPTIMIZERS, NetworkModel, fit_network
from ..errors import DataError, UsageError
from ..nonlinear.backpropagation import ACTIVATIONS, activation
from ..online import inputs
from ..parts.losses import loss
from ..report.plots import axes
from .checking import check_weights, validate_data
from .parameters import Flag, Number, OneOf, Part, Whole, available, numbers_of, unknown_of_one
from .sources import lazily
from .streaming import one_weight, unchanged_if_refused
from .tasks import Classification, Regression, plain


def _labelled(network: Any) -> bool:
    """Whether its loss is one on two classes, which makes it a classifier."""
    try:
        return getattr(loss(network.loss), "targets", "") == "sign"
    except (TypeError, ValueError):
        return False  # no such loss: fit says so


def _probable(network: Any) -> bool:
    return _labelled(network) and loss(network.loss).name == "logistic"


class NeuralNetwork(Regression):
    """A network with one output and hidden layers of any number, trained by back-propagation with any loss.

    Scale the columns first (a Pipeline with StandardScaler): a network feels their units. A loss on two classes
    ("logistic", "hinge", "squared_hinge", "perceptron") makes it a classifier of any two labels: predict gives labels,
    decision_function scores, predict_proba (logistic) probabilities, score the accuracy.

    Parameters
    ----------
    hidden : the sizes of the hidden layers.
    activation : "sigmoid", "tanh", "relu", or a NamedTuple with ``value(a)`` and ``slope(h)``.
    loss : any loss by name ("squared", "absolute", "huber", "quantile", "poisson", "logistic", …) or your own.
    rate : the step; ``optimizer`` "adam" adapts it to each weight, "gradient" uses it as it is.
    alpha : ½·alpha·‖weights‖² is added to the mean loss; biases are free.
    batch_size : rows a step; 1 is online learning.
    epochs : the most passes over the rows; ``shuffle`` them before each.
    early_stopping : hold out ``validation_fraction`` of the rows, stop when their loss has not fallen by ``tol`` for
        ``patience`` passes, keep the best weights. Without it the training loss is watched in the same way.
    random_state : draws the first weights, the held-out rows and the order.
    classes : the two labels, for a stream whose first rows may lack one.

    Attributes
    ----------
    classes_ : the two labels in order, with a loss on classes.
    certificate_ : loss and gradient norm at the start and at the end. Nothing is proven, and it says so.
    progress_ : the losses of each pass.
    weights_ : a list of (matrix, biases), layer by layer.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.linspace(-2, 2, 200)[:, None]
    >>> model = tl.NeuralNetwork((20,), rate=0.01, random_state=0).fit(X, np.sin(2 * X[:, 0]))
    >>> bool(model.score(X, np.sin(2 * X[:, 0])) > 0.99), model.certificate_.proven
    (True, False)

    Tumours, benign or malignant, from thirty measurements; a quarter of them held out:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> held = np.arange(len(y)) % 4 == 0
    >>> network = tl.NeuralNetwork((10,), loss="logistic", rate=0.01, early_stopping=True, random_state=0)
    >>> model = make_pipeline(StandardScaler(), network).fit(X[~held], np.where(y, "benign", "malignant")[~held])
    >>> model.predict(X[:3]).tolist(), bool(np.mean((model.predict_proba(X[held])[:, 0] > 0.5) == y[held]) > 0.93)
    (['malignant', 'malignant', 'malignant'], True)
    """

    legal = {
        "hidden": numbers_of(Whole(1, floats=True), "the size of a hidden layer, or of each of several,"),
        "activation": Part(lambda: ACTIVATIONS, "activation"),
        "rate": Number(0, open=True),
        "optimizer": OneOf(*OPTIMIZERS),
        "shuffle": Flag(),
        "early_stopping": Flag(),
        "validation_fraction": Number(0, 1, open=True),
        "patience": Whole(1, floats=True),
    }

    def __init__(
        self, hidden: tuple[int, ...] = (100,), activation: Any = "tanh", loss: Any = "squared", *, rate: float = 1e-3,
        optimizer: str = "adam", alpha: float = 0.0, batch_size: int = 32, epochs: int = 200, shuffle: bool = True,
        early_stopping: bool = False, validation_fraction: float = 0.1, patience: int = 10, tol: float = 1e-4,
        random_state: Any = None, classes: Any = None,
    ) -> None:  # fmt: skip
        self.hidden = hidden
        self.activation = activation
        self.loss = loss
        self.rate = rate
        self.optimizer = optimizer
        self.alpha = alpha
        self.batch_size = batch_size
        self.epochs = epochs
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.tol = tol
        self.random_state = random_state
        self.classes = classes

    def _make(self) -> NetworkModel:
        hidden = tuple(int(size) for size in np.ravel(self.hidden))
        seed = int(check_random_state(self.random_state).randint(0, 2**31 - 1))
        record = NetworkModel(
            hidden, activation(self.activation), loss(self.loss), rate=float(self.rate), optimizer=self.optimizer,
            alpha=float(self.alpha), batch=self._whole("batch_size", self.batch_size), seed=seed,
        )  # fmt: skip
        if _labelled(self):
            record.classes = tuple(plain(label) for label in self.classes_)
        return record

    def _arrays(self, X: Any, y: Any, reset: bool) -> tuple[Any, np.ndarray]:
        loss(self.loss)  # a name that is none is told before the targets are judged by it
        numeric = not _labelled(self)
        return validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=numeric, reset=reset)  # type: ignore[no-any-return]

    # Two classes

    def _prepare(self, y: np.ndarray) -> None:
        if not _labelled(self):
            return
        check_classification_targets(y)
        found = unique_labels(y if self.classes is None else np.asarray(self.classes))
        if len(found) == 1 and self.classes is None:
            found = _pair(plain(found[0]))
        if len(found) != 2:
            raise DataError(
                f"y has {len(found)} classes, and a network has one output. Only binary classification is supported. "
                "The type of the target is multiclass.",
                where="y",
            )
        self.classes_ = found

    def _code(self, y: Any) -> np.ndarray:
        return Classification._code(self, y) if _labelled(self) else super()._code(y)  # type: ignore[arg-type]

    def _prepare_one(self, y: Any) -> None:
        self._prepare(np.array([y]))

    def _code_one(self, y: Any) -> Any:
        return float(self._code([y])[0]) if _labelled(self) else y

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "record_")
        return validate_data(self, X, dtype=np.float64, order="C", reset=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Learn from the start: passes over the rows in mini-batches until the loss no longer falls."""
        with unchanged_if_refused(self):
            self._fit_passes(X, y, sample_weight)
        return self

    def _fit_passes(self, X: Any, y: Any, sample_weight: Any) -> None:
        X, y = self._arrays(X, y, reset=True)
        weights = None if sample_weight is None else check_weights(sample_weight, X)
        self._prepare(y)
        if _labelled(self) and len(np.unique(y)) < 2:
            raise DataError(
                f"y has one class only ({plain(y[0])!r}); a classifier needs at least two classes", where="y"
            )
        self._start(X.shape[1])
        fit_network(
            self.record_, X, self._code(y), inputs.weights(weights, len(X)), epochs=self._whole("epochs", self.epochs),
            shuffle=bool(self.shuffle), tol=float(self.tol), patience=self._whole("patience", self.patience),
            validation=self.validation_fraction if self.early_stopping else 0.0,
            rng=np.random.RandomState(self.record_.seed),
        )  # fmt: skip
        self.n_iter_: int = len(self.record_.progress)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None) -> Any:  # type: ignore[override]
        """Go on learning with these rows, in order; ``classes`` names both labels if the first rows may lack one."""
        given = self.classes
        try:
            self.classes = given if classes is None else classes
            return super().partial_fit(X, y, sample_weight)
        finally:
            self.classes = given

    @lazily
    def predict(self, X: Any) -> np.ndarray:
        """Predictions on the target's scale, or labels."""
        if not _labelled(self):
            return self._fitted_rows(X)
        above = self.decision_function(X) > 0.0
        return self.classes_[above.astype(int)]

    @available(_labelled)
    def decision_function(self, X: Any) -> np.ndarray:
        """f(x) of each row: above 0 for the second label (log-odds with the logistic loss)."""
        X = self._rows(X)
        return self.record_.scores(X)  # type: ignore[no-any-return]

    @available(_probable)
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of both labels, a column each (logistic loss only)."""
        up = self._fitted_rows(X)
        return np.column_stack([1.0 - up, up])

    def predict_one(self, x: dict[str, float], **unknown: Any) -> Any:
        """The prediction for one example of named features; a label, or None before any was seen, with classes."""
        if unknown:
            raise unknown_of_one(self, "predict_one", unknown)
        if not _labelled(self):
            return super().predict_one(x)
        record = self.__dict__.get("record_")
        if record is None:
            return None
        return plain(self.classes_[int(record.predict_one(x) > (0.5 if _probable(self) else 0.0))])

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
        if not hasattr(self, "record_"):
            self._first_one(y)
        self.record_.learn_one(x, self._code_one(y), weight)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R², or with classes the share of right labels."""
        if not _labelled(self):
            return super().score(X, y, sample_weight)  # type: ignore[no-any-return]
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def _adopt(self, record: Any) -> None:
        super()._adopt(record)
        if _labelled(self):
            self.classes_ = np.asarray((0, 1) if record.classes is None else record.classes)
        if record.progress:  # a fit, not a stream
            self.n_iter_ = len(record.progress)

    @property
    def weights_(self) -> list[tuple[np.ndarray, np.ndarray]]:
        record, found, at = self._fitted(), [], 0
        for n, m in zip(record.sizes[:-1], record.sizes[1:]):
            matrix, biases = record.theta[at : at + n * m].reshape(n, m), record.theta[at + n * m : at + (n + 1) * m]
            found.append((matrix.copy(), biases.copy()))
            at += (n + 1) * m
        return found

    @property
    def coef_(self) -> np.ndarray:
        raise AttributeError("a network has no coef_; see weights_")

    @property
    def intercept_(self) -> Any:
        raise AttributeError("a network has no intercept_; see weights_")

    def regret_plot(self, ax: Any = None) -> Any:
        """Refused: a network proves no regret; ``plot`` draws its losses by pass."""
        raise UsageError("a network proves no regret; plot() draws its losses by pass", where="regret_plot")

    def progress_table(self) -> str:
        """The losses of each pass as a table for people."""
        lines = self._fitted().progress
        names = [name for name in ("epoch", "loss", "validation") if lines and name in lines[0]]
        cells = [[f"{line[name]:.6g}" for name in names] for line in lines]
        rows = [[{"epoch": "pass"}.get(name, name) for name in names], *cells]
        return "\n".join("  ".join(cell.rjust(12) for cell in row) for row in rows)

    def plot(self, ax: Any = None) -> Any:
        """Losses by pass; the matplotlib axes."""
        ax = axes(ax)
        lines = self._fitted().progress
        for name in ("loss", "validation"):
            if lines and name in lines[0]:
                label = {"loss": "training (before each update)", "validation": "held out"}[name]
                ax.semilogy([line["epoch"] for line in lines], [line[name] for line in lines], label=label)
        ax.set_xlabel("pass")
        ax.set_ylabel("mean loss")
        ax.legend()
        return ax

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        if _labelled(self):
            tags.estimator_type, tags.regressor_tags = "classifier", None
            tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


def _pair(label: Any) -> np.ndarray:
    """Both labels of a stream that has shown one: 0 and 1, −1 and 1, or the two booleans."""
    for pair in ([False, True], [0, 1], [-1, 1]):
        if label in pair and isinstance(label, bool) == isinstance(pair[0], bool):
            return np.array(pair)
    raise DataError(
        f"the first rows show one class only ({label!r}); name both: classes=[{label!r}, …]", where="classes"
    )


__all__ = ["NeuralNetwork"]
