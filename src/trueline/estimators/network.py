"""NeuralNetwork in scikit-learn's clothes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ..beyond.network import NetworkModel, fit_network
from ..errors import UsageError
from ..online import inputs
from ..parts.activations import activation
from ..parts.losses import loss
from .checking import validate_data
from .tasks import Regression


class NeuralNetwork(Regression):
    """A network with one output and hidden layers of any number, trained by back-propagation with any loss.

    Scale the columns first (a Pipeline with StandardScaler): a network feels their units. With a loss on two classes
    ("logistic", "hinge", …) targets are 0 and 1 or −1 and 1, and predict gives the probability (logistic) or score.

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

    Attributes
    ----------
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
    >>> model = make_pipeline(StandardScaler(), network).fit(X[~held], y[~held])
    >>> bool(np.mean((model.predict(X[held]) > 0.5) == y[held]) > 0.93)
    True
    """

    def __init__(
        self, hidden: tuple[int, ...] = (100,), activation: Any = "tanh", loss: Any = "squared", *, rate: float = 1e-3,
        optimizer: str = "adam", alpha: float = 0.0, batch_size: int = 32, epochs: int = 200, shuffle: bool = True,
        early_stopping: bool = False, validation_fraction: float = 0.1, patience: int = 10, tol: float = 1e-4,
        random_state: Any = None,
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

    def _make(self) -> NetworkModel:
        hidden = (self.hidden,) if isinstance(self.hidden, (int, np.integer)) else tuple(self.hidden)
        hidden = tuple(self._whole("hidden", size) for size in hidden)
        if not hidden:
            raise UsageError("hidden is empty; give the size of at least one hidden layer, as (100,)", where="hidden")
        if not 0.0 < self.rate < np.inf:
            raise UsageError(f"rate is {self.rate!r}; a positive number is accepted", where="rate")
        if not 0.0 <= self.alpha < np.inf:
            raise UsageError(f"alpha is {self.alpha!r}; a number of at least 0 is accepted", where="alpha")
        seed = int(check_random_state(self.random_state).randint(0, 2**31 - 1))
        return NetworkModel(
            hidden, activation(self.activation), loss(self.loss), rate=float(self.rate), optimizer=self.optimizer,
            alpha=float(self.alpha), batch=self._whole("batch_size", self.batch_size), seed=seed,
        )  # fmt: skip

    def _arrays(self, X: Any, y: Any, reset: bool) -> tuple[Any, np.ndarray]:
        return validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True, reset=reset)  # type: ignore[no-any-return]

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "record_")
        return validate_data(self, X, dtype=np.float64, order="C", reset=False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Learn from the start: passes over the rows in mini-batches until the loss no longer falls."""
        X, y = self._arrays(X, y, reset=True)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        if not 0.0 < self.validation_fraction < 1.0:
            raise UsageError(
                f"validation_fraction is {self.validation_fraction!r}; a number between 0 and 1 is accepted",
                where="validation_fraction",
            )
        self._start(X.shape[1])
        fit_network(
            self.record_, X, np.asarray(y), inputs.weights(weights, len(X)), epochs=self._whole("epochs", self.epochs),
            shuffle=bool(self.shuffle), tol=float(self.tol), patience=self._whole("patience", self.patience),
            validation=self.validation_fraction if self.early_stopping else 0.0,
            rng=np.random.RandomState(self.record_.seed),
        )  # fmt: skip
        self.n_iter_ = len(self.record_.progress)
        return self

    def _adopt(self, record: Any) -> None:
        super()._adopt(record)
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

    def plot(self, ax: Any = None) -> Any:
        """Losses by pass; the matplotlib axes."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(6.4, 4.0), layout="constrained").subplots()
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
        return tags


__all__ = ["NeuralNetwork"]
