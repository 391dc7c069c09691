"""The classic online learners by their names, each with its own theorem."""

from __future__ import annotations

from typing import Any

from .parameters import Flag, Number
from .tasks import Classification, Regression


class WidrowHoff(Regression):
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


class ExponentiatedGradient(Regression):
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

    legal = {"signed": Flag()}

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


class Perceptron(Classification):
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


class Winnow(Classification):
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

    legal = {"rate": Number(0, open=True)}

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


class RecursiveLeastSquares(Regression):
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

    legal = {
        "ridge": Number(0, open=True),
        "forgetting": Number(0, 1, open=True, open_top=False),
        "forward": Flag(),
    }

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
        from ..online.recursive_least_squares import RecursiveModel

        return RecursiveModel(self.ridge, self.forgetting, self.forward, self.fit_intercept, self.certificate)
