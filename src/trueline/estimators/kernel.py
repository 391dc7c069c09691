"""Kernel regression and the kernel perceptron in scikit-learn's clothes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..beyond.kernel import EXACT_ROWS, FORMS, KernelModel, fit_kernel
from ..beyond.kernelperceptron import KernelPerceptronModel
from ..onepass.moments import refuse_weights
from ..parts.kernels import KERNELS, similarity
from ..report.plots import axes
from .assigned import Shown
from .checking import check_weights, validate_data
from .loading import Saved
from .parameters import NONE, Number, OneOf, Part, Whole
from .tasks import Classification

KERNEL_RULES = {
    "kernel": Part(lambda: KERNELS, "kernel"),
    "gamma": OneOf("scale") | Number(0, open=True),
    "coef0": Number(0),
    "degree": Whole(1, floats=True),
}


def gamma_of(gamma: Any, X: np.ndarray, weights: np.ndarray | None = None) -> float:
    """``"scale"`` is 1/(columns · variance of the entries)."""
    if isinstance(gamma, str):
        middle = np.average(X, axis=0, weights=weights).mean()
        variance = float(np.average(((X - middle) ** 2).mean(axis=1), weights=weights))
        return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0
    return float(gamma)


class KernelRegression(Shown, Saved, RegressorMixin, BaseEstimator):
    """Ridge regression on Σ c_i K(x, x_i): a smooth curve whose optimum and leave-one-out error are known exactly.

    It minimises Σ w_i(y_i − f(x_i))² + alpha·‖f‖², as scikit-learn's KernelRidge does, with an intercept that is not
    penalised. Beyond 5,000 rows it looks for f among the terms of ``components`` random rows (Nyström), and says so in
    the certificate.

    Parameters
    ----------
    alpha : a positive number, or "auto": the one of 34 penalties with the least leave-one-out error.
    kernel : "gaussian" exp(−gamma·‖x − z‖²), "polynomial" (gamma·x·z + coef0)^degree, "linear", a callable
        ``k(X, Z)`` that gives the matrix of all pairs, or a NamedTuple with ``value(dot, norm_x, norm_z)``.
    gamma : a positive number, or "scale": 1/(columns · variance of the entries).
    coef0, degree : of the polynomial kernel.
    fit_intercept : whether f has a constant of its own.
    approximation : "auto", "exact", "nystrom" or "random_features" (Gaussian only).
    components : how many landmarks or random features.
    tol : the relative duality gap below which the optimum counts as proven.
    random_state : which rows or features are drawn.

    Attributes
    ----------
    coef_, points_, intercept_, alpha_ : f(x) = intercept_ + Σ coef_·K(x, points_).
    leave_one_out_residuals_ : y_i minus what all other rows predict for it.
    leave_one_out_error_ : their weighted mean square.
    certificate_ : the duality gap, and over which functions.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> model = tl.KernelRegression(alpha=1e-3).fit(x, np.sin(x[:, 0]))
    >>> bool(abs(model.predict([[1.0]])[0] - np.sin(1.0)) < 0.01), model.certificate_.proven
    (True, True)

    The progression of diabetes in 442 patients: the penalty chosen by leaving out each of them in turn.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> patients = tl.KernelRegression(alpha="auto").fit(X, y)
    >>> round(float(1 - patients.leave_one_out_error_ / y.var()), 2)
    0.48
    """

    shown = {"coef_": "coef", "points_": "points", "intercept_": "intercept"}
    legal = KERNEL_RULES | {
        "alpha": OneOf("auto") | Number(0, open=True),
        "approximation": OneOf(*FORMS),
        "components": Whole(1, floats=True),
    }

    def __init__(
        self, alpha: Any = 1.0, *, kernel: Any = "gaussian", gamma: Any = "scale", coef0: float = 1.0, degree: int = 3,
        fit_intercept: bool = True, approximation: str = "auto", components: int = 500, tol: float = 1e-9,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.fit_intercept = fit_intercept
        self.approximation = approximation
        self.components = components
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit to rows and targets."""
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        weights = None
        if sample_weight is not None:
            weights = check_weights(sample_weight, X)
            refuse_weights(weights)
        shape = similarity(self.kernel, gamma_of(self.gamma, X, weights), self.coef0, self.degree)
        record = fit_kernel(
            X, y, weights, shape, self.alpha, fit_intercept=bool(self.fit_intercept), form=self.approximation,
            components=int(self.components), rng=check_random_state(self.random_state), tol=self.tol,
        )  # fmt: skip
        record.names = tuple(getattr(self, "feature_names_in_", ())) or None
        self._hold(record)
        return self

    def _hold(self, record: KernelModel) -> None:
        self._show(record)
        self.alpha_, self.leave_one_out_residuals_ = record.alpha, record.residuals
        self.leave_one_out_error_ = np.nan if record.certificate is None else record.certificate.leave_one_out

    @property
    def model_(self) -> KernelModel:
        """The plain record."""
        return self._agreeing()  # type: ignore[no-any-return]

    @property
    def certificate_(self) -> Any:
        """What is proven of the fit; None once a number of it was assigned."""
        return self.model_.certificate

    def predict(self, X: Any) -> np.ndarray:
        """f of each row."""
        check_is_fitted(self)
        return self.model_.predict(validate_data(self, X, dtype=np.float64, order="C", reset=False))

    def plot(self, ax: Any = None) -> Any:
        """Leave-one-out error against the penalty; with one penalty, how the residuals spread. The matplotlib axes."""
        check_is_fitted(self)
        ax = axes(ax)
        if self.model_.tried is None:
            ax.hist(np.asarray(self.leave_one_out_residuals_).ravel(), bins="auto", color="#1f6fb4")
            ax.set_xlabel("leave-one-out residual")
            ax.set_ylabel("rows")
            return ax
        alphas, errors = self.model_.tried.T
        ax.loglog(alphas, errors)
        ax.axvline(self.alpha_, color="0.4", linestyle=":")
        ax.set_xlabel("alpha")
        ax.set_ylabel("leave-one-out squared error")
        return ax

    def _record(self) -> KernelModel:
        return self.model_

    def _adopt(self, record: KernelModel) -> None:
        self._hold(record)
        self.n_features_in_ = record.points.shape[1]
        if record.names is not None:
            self.feature_names_in_ = np.array(record.names, dtype=object)


class KernelPerceptron(Classification):
    """The perceptron in its dual form: w = Σ y_i φ(x_i) over the mistakes, φ the kernel's own features.

    Rounds are taken in order; on a mistake (y·f(x) ≤ 0) the row joins the expansion. Mistakes N ≤ (R‖w‖ + ‖ξ‖₂)² for
    every function w of the kernel's space, R² = max K(x, x): the certificate names the w it found. With a ``budget`` the
    oldest row leaves when a new one would exceed it, and the bound is void. Several classes: one against the rest.

    Parameters
    ----------
    kernel, gamma, coef0, degree : as in :class:`KernelRegression`; ``gamma="scale"`` is settled by the first rows seen.
    fit_intercept : adds 1 to the kernel, as a constant column would.
    budget : the most rows the expansion may hold, or None.
    order, epochs, classes, random_state : as in :class:`OnlineClassifier`.

    Examples
    --------
    >>> import numpy as np, trueline as tl
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]] * 10); y = np.array([0, 0, 1, 1] * 10)
    >>> model = tl.KernelPerceptron(gamma=2.0).fit(X, y)
    >>> model.score(X, y), model.certificate_.proven, model.certificate_.mistakes <= model.certificate_.bound
    (1.0, True, True)

    569 tumours, one after the other:

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> tumours = tl.KernelPerceptron().fit((X - X.mean(0)) / X.std(0), y)
    >>> print(tumours.certificate_)
    proven: 39 mistakes in 569 rounds, at most 54.7393 possible
    """

    legal = KERNEL_RULES | {"budget": NONE | Whole(1, floats=True)}

    def __init__(
        self, kernel: Any = "gaussian", *, gamma: Any = "scale", coef0: float = 1.0, degree: int = 3,
        fit_intercept: bool = False, budget: int | None = None, order: str = "in_order", epochs: int = 1,
        classes: Any = None, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.fit_intercept = fit_intercept
        self.budget = budget
        self.order = order
        self.epochs = epochs
        self.classes = classes
        self.random_state = random_state

    def _arrays(self, X: Any, y: Any, reset: bool) -> tuple[Any, np.ndarray]:
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", reset=reset)
        if reset:
            self._gamma = gamma_of(self.gamma, X)
        return X, y

    def fit(self, X: Any, y: Any = None, *, target: Any = None) -> Any:  # type: ignore[override]
        """Learn the rows from the start, in the chosen order, as many times as ``epochs`` says; not on Dask or Spark."""
        return super().fit(X, y) if target is None else super().fit(X, y, target=target)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:  # type: ignore[override]
        """Go on learning; ``classes`` names every class at the first call if the first rows may lack some."""
        return super().partial_fit(X, y, classes)

    def _make(self) -> KernelPerceptronModel:
        budget = None if self.budget is None else self._whole("budget", self.budget)
        gamma = getattr(self, "_gamma", None)
        if gamma is None:
            gamma = 1.0 if isinstance(self.gamma, str) else float(self.gamma)
        shape = similarity(self.kernel, gamma, self.coef0, self.degree)
        return KernelPerceptronModel(shape, bool(self.fit_intercept), budget, self._labels())

    @property
    def _probabilistic(self) -> bool:
        return False

    @property
    def support_(self) -> np.ndarray:
        """The rows of the expansion (of the first class, if there are several)."""
        head = self._fitted().heads[0]
        return head.rows[: head.size].copy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "record_")
        return validate_data(self, X, dtype=np.float64, order="C", reset=False)


__all__ = ["EXACT_ROWS", "KernelPerceptron", "KernelRegression"]
