"""Activations by name, and back-propagation over a block of rows: matrix products by BLAS, the rest compiled.

All weights live in one vector, layer by layer: an (inputs × outputs) matrix, then the biases. Layers l = 0 … k:
a_{l+1} = h_l·W_l + b_l, h = activation(a), the last layer's one output is the score. Backwards: δ at the score is the
loss's slope; ∂W_l = h_l'·δ; δ ← (δ·W_l')∘h'(a).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..errors import ModelError, UsageError, nearest
from ..objective.loss_interface import Loss, derivatives
from ..simd import Array
from .network_layers import add_biases, blame, blame_last, score_rows

ROOM = 256  # rows swept at once, so that their units stay in the cache
OWN = 3
NONE = np.empty(0)
NO_MATRIX = np.empty((0, 0))


class Sigmoid(NamedTuple):
    """1/(1 + exp(−a))."""

    unit: float = 1.0  # as model files have it
    name = "sigmoid"
    gain = 2.0  # of the first weights' spread √(gain/(inputs + outputs))

    def value(self, a: Any) -> Any:
        return 0.5 + 0.5 * np.tanh(0.5 * a)

    def slope(self, h: Any) -> Any:
        return h * (1.0 - h)


class Tanh(NamedTuple):
    """(exp(a) − exp(−a))/(exp(a) + exp(−a))."""

    unit: float = 1.0
    name = "tanh"
    gain = 6.0

    def value(self, a: Any) -> Any:
        return np.tanh(a)

    def slope(self, h: Any) -> Any:
        return 1.0 - h * h


class Relu(NamedTuple):
    """max(0, a); its slope at 0 is 0."""

    unit: float = 1.0
    name = "relu"
    gain = 6.0

    def value(self, a: Any) -> Any:
        return np.maximum(0.0, a)

    def slope(self, h: Any) -> Any:
        return np.where(h > 0.0, 1.0, 0.0)


ACTIVATIONS: dict[str, Any] = {cls.name: cls for cls in (Sigmoid, Tanh, Relu)}
KINDS = list(ACTIVATIONS.values())


def activation(given: Any) -> Any:
    """The activation of this name, or a user's own NamedTuple with ``value`` and ``slope``, called number by number.

    >>> activation("tanh")
    Tanh(unit=1.0)
    """
    if isinstance(given, str):
        if given not in ACTIVATIONS:
            raise UsageError(f"there is no activation named {given!r}{nearest(given, ACTIVATIONS)}", where="activation")
        return ACTIVATIONS[given]()
    if isinstance(given, type) and issubclass(given, tuple):
        given = given()
    missing = [name for name in ("value", "slope") if not callable(getattr(given, name, None))]
    if missing or not isinstance(given, tuple) or not getattr(given, "_fields", ()):
        lack = f"it lacks {', '.join(missing)}" if missing else "it is not a NamedTuple with at least one field"
        raise UsageError(
            f"{given!r} cannot serve as an activation: {lack}; give one of {', '.join(ACTIVATIONS)} or a NamedTuple with "
            "the methods value, slope",
            where="activation",
        )
    return given


def describe_activation(given: Any) -> dict[str, Any]:
    """As model files hold it."""
    return {"name": f"{type(given).__module__}.{type(given).__qualname__}", "fields": [float(v) for v in given]}


def described_activation(described: dict[str, Any], parts: Any = ()) -> Any:
    """The activation of ``describe_activation``: one of ours by its class, or of a user's classes, handed in as ``parts``."""
    last = described["name"].rpartition(".")[2]
    own = [item if isinstance(item, type) else type(item) for item in parts]
    ours = KINDS if described["name"].startswith("trueline.") else []
    same = [cls for cls in (*ours, *own) if cls.__qualname__ == last]
    if len(same) != 1:
        raise ModelError(
            f"the file uses the activation {described['name']}, which is not part of trueline; hand its class in: "
            f"load(path, parts=[{last}])",
            where="activation",
        )
    return activation(same[0](*described["fields"]))


def each(function: Callable[[float], float], numbers: Array) -> Array:
    """A user's function of one number, at every number."""
    return np.array([float(function(v)) for v in numbers.ravel().tolist()]).reshape(numbers.shape)


def layers(sizes: Any, theta: Array) -> list[tuple[Array, Array]]:
    """(matrix, biases) of each layer, as views of the one vector."""
    found, at = [], 0
    for n, m in zip(sizes[:-1].tolist(), sizes[1:].tolist()):
        found.append((theta[at : at + n * m].reshape(n, m), theta[at + n * m : at + (n + 1) * m]))
        at += (n + 1) * m
    return found


class Sweep:
    """Forward and backward over blocks of at most so many rows, with the memory for it."""

    def __init__(self, activation: Any, sizes: Any, theta: Array, room: int) -> None:
        self.activation = activation
        self.kind = KINDS.index(type(activation)) if type(activation) in KINDS else OWN
        self.layers = layers(sizes, theta)
        self.slopes = np.empty_like(theta)
        self.slope_layers = layers(sizes, self.slopes)
        self.slope_last = self.slopes[len(theta) - int(sizes[-2]) - 1 :]
        self.units = [np.empty((room, size)) for size in sizes[1:-1].tolist()]
        self.deltas = [np.empty((room, size)) for size in sizes[1:-1].tolist()]
        self.scores, self.delta = np.empty(room), np.empty(room)

    def forward(self, X: Array) -> bool:
        """Fill the units and scores of these rows; whether all scores are finite."""
        below, b = X, len(X)
        for units, (matrix, biases) in zip(self.units, self.layers):
            above = units[:b]
            np.matmul(below, matrix, out=above)
            add_biases(self.kind, above, biases)
            if self.kind == 1:
                np.tanh(above, out=above)
            elif self.kind == 0:
                above *= 0.5
                np.tanh(above, out=above)
                above *= 0.5
                above += 0.5
            elif self.kind == OWN:
                above[...] = each(self.activation.value, above)
            below = above
        matrix, bias = self.layers[-1]
        return bool(score_rows(below, matrix.reshape(-1), float(bias[0]), self.scores[:b]))

    def backward(self, X: Array) -> None:
        """``slopes`` from the deltas at the scores."""
        b, top = len(X), len(self.units) - 1
        own = self._own(top, b)
        blame_last(
            self.kind, self.units[top][:b], self.delta[:b], self.layers[-1][0].reshape(-1), own, self.slope_last,
            self.deltas[top][:b], self.slope_layers[top][1],
        )  # fmt: skip
        for k in range(top, -1, -1):
            delta = self.deltas[k][:b]
            below = self.units[k - 1][:b] if k else X
            np.matmul(below.T, delta, out=self.slope_layers[k][0])
            if k:
                np.matmul(delta, self.layers[k][0].T, out=self.deltas[k - 1][:b])
                blame(self.kind, below, self._own(k - 1, b), self.deltas[k - 1][:b], self.slope_layers[k - 1][1])

    def _own(self, layer: int, b: int) -> Array:
        return each(self.activation.slope, self.units[layer][:b]) if self.kind == OWN else NO_MATRIX

    def gradient(self, loss: Loss, X: Array, y: Array, c: Array) -> float | None:
        """Σ c·loss over these rows, ``slopes`` its gradient; None where a score is not finite."""
        b = len(X)
        if not self.forward(X):
            return None
        total = derivatives(loss, self.scores[:b], y, c, self.delta[:b], NONE)
        self.backward(X)
        return total
