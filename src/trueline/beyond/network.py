"""A network of any depth with one output, trained by back-propagation: one row at a time or in mini-batches.

f(x) = Σ u_l h(w_l·x + b_l) + b for one hidden layer. The objective is the weighted mean of any loss plus ½α‖weights‖²
(biases are free). Nothing is proven about it but the gradient's size: the certificate says so.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..certificates.certificate import Assumption, Status, from_dict
from ..certificates.optimality import StationaryCertificate, network_status
from ..errors import DataError, UsageError
from ..modelfile import Array
from ..nonlinear.backpropagation import ROOM, Sweep, describe_activation, described_activation
from ..nonlinear.network_layers import adam_step
from ..objective.losses import resolve_loss
from ..online import inputs
from ..online.saving import describe, rebuild
from ..parts.losses import LOSSES
from ..threads import spread
from .kernelperceptron import named_row

RATE, STEPS, PENALTY, ADAPTIVE, LOSS, WEIGHT, EXAMPLES, NUMBERS = range(8)
PIECES = 4096  # rows of a gradient that one thread takes at a time
OPTIMIZERS = ("adam", "gradient")


class NetworkModel:
    """The record: all weights in one vector, the optimiser's memory, and what was seen.

    >>> from trueline.nonlinear.backpropagation import activation
    >>> from trueline.parts.losses import loss
    >>> model = NetworkModel((4,), activation("tanh"), loss("squared"), rate=0.01, batch=16, seed=0)
    >>> X = np.linspace(-1, 1, 64)[:, None]
    >>> for _ in range(200): before = model.learn(X, X[:, 0] ** 2)
    >>> bool(np.mean((model.predict(X) - X[:, 0] ** 2) ** 2) < 0.02)
    True
    """

    kind = "network"
    takes_parts = True

    def __init__(
        self, hidden: tuple[int, ...], activation: Any, loss: Any, *, rate: float = 1e-3, optimizer: str = "adam",
        alpha: float = 0.0, batch: int = 1, seed: int = 0,
    ) -> None:  # fmt: skip
        if optimizer not in OPTIMIZERS:
            raise UsageError(f"optimizer is {optimizer!r}; 'adam' or 'gradient' is accepted", where="optimizer")
        self.hidden, self.activation, self.loss = tuple(hidden), activation, loss
        self._loss = resolve_loss(loss)
        self.batch, self.seed = batch, seed
        self.numbers = np.zeros(NUMBERS)
        self.numbers[[RATE, PENALTY, ADAPTIVE]] = rate, alpha, optimizer == "adam"
        self.names: list[str] = []
        self.sizes = np.array([0, *hidden, 1])
        self.progress: list[dict[str, Any]] = []
        self.classes: tuple[Any, ...] | None = None  # the labels of −1 and 1, if they have names
        self._proof: StationaryCertificate | None = None
        self._named_once = False

    @property
    def examples(self) -> int:
        return int(self.numbers[EXAMPLES])

    @property
    def probabilistic(self) -> bool:
        """Whether predictions are probabilities of the second class."""
        return self.classes is not None and getattr(self.loss, "name", "") == "logistic"

    def _name(self, names: list[str]) -> None:
        """The first names draw the weights; later ones add columns whose weights start at 0."""
        if len(set(names)) != len(names):
            raise DataError("feature names repeat; give each column a name of its own", where="names")
        before, width = int(self.sizes[0]), len(names)
        self.names, self.sizes[0] = list(names), width
        if self._named_once:
            room = np.zeros((width - before) * int(self.sizes[1]))
            at = before * int(self.sizes[1])
            for name in ("theta", "first", "second"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old[:at], room, old[at:]]))
        else:
            self._named_once = True
            rng = np.random.RandomState(self.seed)
            drawn = []
            for n, m in zip(self.sizes[:-1], self.sizes[1:]):
                spread = np.sqrt(getattr(self.activation, "gain", 6.0) / (n + m))
                drawn += [rng.uniform(-spread, spread, n * m), rng.uniform(-spread, spread, m)]
            self.theta = np.concatenate(drawn)
            self.first, self.second = np.zeros_like(self.theta), np.zeros_like(self.theta)
        self.decayed = np.concatenate(
            [np.repeat([1.0, 0.0], [n * m, m]) for n, m in zip(self.sizes[:-1], self.sizes[1:])]
        )

    def _take(self, X: Any) -> np.ndarray:
        X = inputs.matrix(X)
        if not self._named_once:
            self._name([f"x{j}" for j in range(X.shape[1])])
        inputs.check_width(X, len(self.names))
        inputs.refuse_bad_rows(X, self.names)
        return X  # type: ignore[no-any-return]

    def _sweep(self, rows: int) -> Sweep:
        return Sweep(self.activation, self.sizes, self.theta, max(1, min(ROOM, rows)))

    def _targets(self, y: Any, n: int) -> np.ndarray:
        return inputs.targets(y, n, getattr(self.loss, "targets", "real"))

    def learn(self, X: Any, y: Any, weights: Any = None, order: np.ndarray | None = None) -> np.ndarray:
        """Learn rows in order, a mini-batch at a time; the predictions before each update."""
        X = self._take(X)
        y, c = self._targets(y, len(X)), inputs.weights(weights, len(X))
        out = self._train(X, y, c, np.arange(len(y)) if order is None else order)
        rows = f"the last {len(y)} rows learned"
        self._proof = self.stationary(X, y, c, rows) if len(X) > 1 else None
        return self._mean(out)

    def _train(self, X: np.ndarray, y: np.ndarray, c: np.ndarray, order: np.ndarray) -> np.ndarray:
        out = np.zeros(len(y))
        before = [array.copy() for array in (self.theta, self.first, self.second, self.numbers)]
        reached = self._batches(X, y, c if len(c) else np.ones(len(y)), np.asarray(order, dtype=np.int64), out)
        if reached < len(order) or not np.isfinite(self.theta).all():
            self.theta, self.first, self.second, self.numbers = before
            raise DataError(
                f"training diverges near row {reached}, and the network keeps its state before this block; use a smaller "
                "rate or scale the columns",
                where="rate",
            )
        return out

    def _batches(self, X: np.ndarray, y: np.ndarray, c: np.ndarray, order: np.ndarray, out: np.ndarray) -> int:
        """Learn rows in this order, a batch at a time; out[i] is row i's score before its update.

        The place of the first batch with a score that is not a finite number, or the number of rows.
        """
        numbers, sweep, n = self.numbers, self._sweep(min(self.batch, len(order))), len(order)
        for start in range(0, n, self.batch):
            b = min(self.batch, n - start)
            total: np.ndarray | None = None
            for at in range(start, start + b, ROOM):
                rows = order[at : min(at + ROOM, start + b)]
                shares = c[rows]
                value = sweep.gradient(self._loss, X[rows], y[rows], shares)
                if value is None:
                    return start
                out[rows] = sweep.scores[: len(rows)]
                numbers[LOSS] += value
                numbers[WEIGHT] += shares.sum()
                if b > ROOM:
                    total = sweep.slopes.copy() if total is None else total + sweep.slopes
            slopes = sweep.slopes if total is None else total
            slopes /= b
            numbers[STEPS] += 1.0
            rate, penalty = float(numbers[RATE]), float(numbers[PENALTY])
            if numbers[ADAPTIVE] > 0.0:
                steps = float(numbers[STEPS])
                adam_step(self.theta, slopes, self.first, self.second, self.decayed, penalty, rate, steps)
            else:
                self.theta -= rate * (slopes + penalty * self.decayed * self.theta)
        numbers[EXAMPLES] += n
        return n

    def scores(self, X: np.ndarray) -> np.ndarray:
        """f(x) of each row, on the loss's own scale."""
        X = self._take(X)
        out, sweep = np.empty(len(X)), self._sweep(len(X))
        for start in range(0, len(X), ROOM):
            rows = X[start : start + ROOM]
            sweep.forward(rows)
            out[start : start + ROOM] = sweep.scores[: len(rows)]
        return out

    def predict(self, X: Any) -> np.ndarray:
        """Predictions on the target's scale: a probability for the logistic loss, exp(f) for a log link."""
        return self._mean(self.scores(X))

    def _mean(self, out: np.ndarray) -> np.ndarray:
        mean = getattr(self.loss, "mean", None)
        if mean is None or getattr(self.loss, "name", "") == "squared":
            return out
        return np.array([mean(float(s)) for s in out])

    def learn_one(self, features: dict[str, float], y: Any, weight: float = 1.0) -> float:
        """Learn one example of named features; a name not seen before is a new column."""
        new = [name for name in features if name not in self.names]
        row = named_row(features, [*self.names, *new])
        target, share = self._targets([y], 1), inputs.weights([weight], 1) if weight != 1.0 else np.empty(0)
        if new or not self._named_once:
            self._name([*self.names, *new])
        self._proof = None
        return float(self._mean(self._train(row, target, share, np.zeros(1, dtype=np.int64)))[0])

    def predict_one(self, features: dict[str, float]) -> float:
        """The prediction for one example of named features."""
        if not self._named_once:
            return 0.0
        return float(self.predict(named_row(features, self.names))[0])

    def gradient(self, X: np.ndarray, y: np.ndarray, c: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient over these rows, penalty included."""

        def piece(rows: slice) -> tuple[float, float, np.ndarray]:
            sweep, total, value = self._sweep(len(y[rows])), np.zeros_like(self.theta), 0.0
            own = c[rows] if len(c) else np.ones(len(y[rows]))
            for at in range(0, len(own), ROOM):
                part = slice(at, at + ROOM)
                found = sweep.gradient(self._loss, X[rows][part], y[rows][part], own[part])
                value = math.inf if found is None else value + found
                total += sweep.slopes
            weight = max(float(own.sum()), 1e-300)
            return float(own.sum()), value / weight, total / weight

        # The pieces do not depend on the number of threads, so neither do the bits of their sum.
        found = spread(piece, [slice(a, a + PIECES) for a in range(0, len(X), PIECES)])
        weight = max(sum(w for w, _, _ in found), 1e-300)
        value = sum(w * v for w, v, _ in found) / weight
        total = np.sum([w * g for w, _, g in found], axis=0) / weight
        free = self.decayed * self.theta
        penalty = float(self.numbers[PENALTY])
        return float(value + 0.5 * penalty * free @ free), total + penalty * free

    def stationary(
        self, X: np.ndarray, y: np.ndarray, c: np.ndarray, rows: str, start: Any = None, **more: Any
    ) -> StationaryCertificate:
        """How flat it is here."""
        value, slope = self.gradient(X, y, c)
        told = {} if start is None else {"start_loss": start[0], "start_gradient_norm": float(np.linalg.norm(start[1]))}
        status = network_status(value, float(np.linalg.norm(slope)), float(np.linalg.norm(self.theta)))
        return StationaryCertificate(
            status=status,
            assumptions=(
                Assumption("the objective is convex", False, remedy="a linear or kernel model has a proven optimum"),
            ),
            advice="a network's objective is not convex: this is near a stationary point at best, and no bound says how "
            "far the best network is",
            examples=self.examples, loss=value, gradient_norm=float(np.linalg.norm(slope)), rows=rows, **told, **more,
        )  # fmt: skip

    def certificate(self) -> StationaryCertificate:
        """Of the last fit or block; after single rows, the mean loss suffered and no gradient."""
        if self._proof is not None:
            return self._proof
        suffered = float(self.numbers[LOSS] / self.numbers[WEIGHT]) if self.numbers[WEIGHT] > 0 else float("nan")
        return StationaryCertificate(
            status=Status.NOT_PROVEN, examples=self.examples, loss=suffered, rows="rows learned one by one",
            advice="loss is the mean before each update; rows learned one by one leave no gradient to judge",
        )  # fmt: skip

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Every bit of it."""
        arrays = {"theta": self.theta, "first": self.first, "second": self.second, "numbers": self.numbers}
        return arrays, {
            "hidden": list(self.hidden), "activation": describe_activation(self.activation), "loss": describe(self.loss),
            "batch": self.batch, "seed": self.seed, "names": self.names, "progress": self.progress,
            "classes": None if self.classes is None else list(self.classes), "judged": self._proof is not None,
            "certificate": self.certificate().to_dict(),
        }  # fmt: skip

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """All weights in one row, with the two moments of their gradients."""
        sizes = [len(meta["names"]), *meta["hidden"], 1]
        count = sum(n * m + m for n, m in itertools.pairwise(sizes))
        return {name: Array((count,)) for name in ("theta", "first", "second")} | {"numbers": Array((NUMBERS,))}

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any], parts: Any = ()) -> NetworkModel:
        """The record of a state."""
        model = cls(
            tuple(meta["hidden"]), described_activation(meta["activation"], parts),
            rebuild(meta["loss"], LOSSES, "loss", parts), batch=meta["batch"], seed=meta["seed"],
        )  # fmt: skip
        model._name(meta["names"])
        for name in ("theta", "first", "second", "numbers"):
            setattr(model, name, np.array(arrays[name]))
        model.progress = meta["progress"]
        named = meta.get("classes")
        model.classes = None if named is None else tuple(named)
        if meta["judged"]:
            proof: Any = from_dict(meta["certificate"])
            model._proof = proof
        return model


def fit_network(
    model: NetworkModel, X: np.ndarray, y: np.ndarray, c: np.ndarray, *, epochs: int, shuffle: bool, tol: float,
    patience: int, validation: float, rng: np.random.RandomState,
) -> None:  # fmt: skip
    """Passes over the rows until neither the training loss nor, with ``validation``, the held-out loss falls.

    With held-out rows the weights of the best pass are kept.
    """
    X = model._take(X)
    y = model._targets(y, len(X))
    n = len(y)
    held = np.sort(rng.permutation(n)[: max(1, round(validation * n))]) if validation > 0.0 else np.empty(0, dtype=int)
    if len(held) >= n:
        raise DataError(f"early stopping holds out {len(held)} of {n} rows and leaves none to learn", where="X")
    used = np.setdiff1d(np.arange(n), held) if len(held) else np.arange(n)
    inside = (X[used], y[used], c[used] if len(c) else c) if len(held) else (X, y, c)
    outside = (X[held], y[held], c[held] if len(c) else c)
    start = model.gradient(*inside)
    best, waited, kept = np.inf, 0, None
    for epoch in range(epochs):
        model.numbers[[LOSS, WEIGHT]] = 0.0
        model._train(*inside, rng.permutation(len(used)) if shuffle else np.arange(len(used)))
        training = float(model.numbers[LOSS] / max(model.numbers[WEIGHT], 1e-300))
        watched = model.gradient(*outside)[0] if len(held) else training
        model.progress.append({"epoch": epoch + 1, "loss": training} | ({"validation": watched} if len(held) else {}))
        waited = 0 if watched < best - tol else waited + 1
        if watched < best:
            best = watched
            kept = (model.theta.copy(), model.first.copy(), model.second.copy()) if len(held) else None
        if waited >= patience:
            break
    if kept is not None:
        model.theta, model.first, model.second = kept
    more: dict[str, Any] = {"validation_loss": best} if len(held) else {}
    model._proof = model.stationary(*inside, f"the {len(used)} rows learned", start, **more)
