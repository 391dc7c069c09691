"""A network: its mean loss and the length of its gradient, by back-propagation written anew, layer by layer.

The objective is not convex. A gradient that is short says that no small change of the weights improves it, and nothing
about better networks: "stationary" at most, never proven.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..certificates.optimality import network_status
from .agreement import EPS, same_classes, same_predictions, same_status
from .stated_claims import Claims, Given, Rows
from .verify_losses import loss_of

Unit = Callable[[Rows], Rows]

# Each activation, and its derivative as a function of its value.
ACTIVATIONS: dict[str, tuple[Unit, Unit]] = {
    "sigmoid": (lambda a: 0.5 * (1.0 + np.tanh(0.5 * a)), lambda v: v * (1.0 - v)),
    "tanh": (np.tanh, lambda v: 1.0 - v * v),
    "relu": (lambda a: np.maximum(a, 0.0), lambda v: 1.0 * (v > 0.0)),
}
PENALTY = 2  # the place of α among the model's numbers
ACTIVATED = 1e-13  # the model's sigmoid and tanh are right to 13 digits, by their own word
CONVEX = "the objective is convex"


def network(out: Claims, given: Given) -> None:
    """Predictions, loss, gradient and status, on all rows."""
    record, proof, X, y, weights = given
    if not math.isnan(proof.validation_loss):
        raise NotImplementedError("a network that held rows out: which ones, its seed alone tells")
    if "one by one" in proof.rows or math.isnan(proof.gradient_norm):
        raise NotImplementedError("a network that learned rows one by one: its last gradient was not kept")
    if record.activation.name not in ACTIVATIONS:
        raise NotImplementedError(f"the activation {record.activation.name!r}")
    layers = _layers(record, X.shape[1])
    values = _forward(record.activation.name, layers, X)
    scores = values[-1][:, 0]
    signs = getattr(record.loss, "targets", "") == "sign"
    if not signs:
        target = y.astype(float)
    else:
        labels = np.unique(y).tolist()
        if record.classes is not None:
            same_classes(out, record.classes, y)
        target = np.where(y == labels[-1], 1.0, -1.0)
    # Each layer's rounding is carried on by the weights after it; activations stretch nothing.
    room = np.zeros(len(X))
    for (W, b), below in zip(layers, values, strict=False):
        size = float(np.abs(W).sum(axis=0).max(initial=0.0))
        room = (room + ACTIVATED) * size + (len(W) + 4) * EPS * (np.abs(below) @ np.abs(W) + np.abs(b)).max(axis=1) * (
            1.0 + size
        )
    name, parameter = record.loss.name, float((*record.loss, 0.0)[0])
    mean, slope_of_mean = _mean_of(name, scores)
    same_predictions(out, record.predict(X), mean, room * slope_of_mean + 8.0 * EPS * (1.0 + np.abs(mean)))
    each, slope, _ = loss_of(name, parameter, scores, target)
    share, decay = weights / weights.sum(), float(record.numbers[PENALTY])
    gradient, gradient_room = _backward(record, layers, values, share * slope, share * room)
    decayed = np.concatenate([np.repeat([1.0, 0.0], [W.size, b.size]) for W, b in layers])
    theta = np.asarray(record.theta, dtype=float)
    gradient = gradient + decay * decayed * theta
    loss = float(share @ each) + 0.5 * decay * float((decayed * theta**2).sum())
    loss_room = float(share @ (np.abs(slope) * room + room**2 + (len(X) + 64) * EPS * (np.abs(each) + np.abs(target))))
    out.equals("loss", loss, loss_room + (len(X) + len(theta)) * EPS * abs(loss))
    length = float(np.linalg.norm(gradient))
    out.equals("gradient_norm", length, gradient_room + (len(X) + len(theta)) * EPS * length)
    out.assumption(CONVEX, False)
    same_status(out, network_status(loss, length, float(np.linalg.norm(theta))), "a network's optimum is never proven")


def _mean_of(name: str, scores: Rows) -> tuple[Rows, Rows | float]:
    """The prediction on the target's scale, and its slope in the score."""
    if name == "logistic":
        p = np.exp(-np.logaddexp(0.0, -scores))
        return p, 0.25
    if name in ("poisson", "gamma", "tweedie"):
        return np.exp(scores), np.exp(scores)
    return scores, 1.0


def _layers(record: Any, width: int) -> list[tuple[Rows, Rows]]:
    """(weights, biases) of each layer, from the one vector of all of them."""
    sizes, theta, at, layers = [int(v) for v in record.sizes], record.theta, 0, []
    if sizes[0] != width or sizes[-1] != 1 or sum(a * b + b for a, b in itertools.pairwise(sizes)) != len(theta):
        raise ValueError("the sizes of the layers do not fit the weights and the rows")
    for inputs, units in itertools.pairwise(sizes):
        W = theta[at : at + inputs * units].reshape(inputs, units)
        layers.append((W, theta[at + inputs * units : at + inputs * units + units]))
        at += inputs * units + units
    return layers


def _forward(name: str, layers: list[tuple[Rows, Rows]], X: Rows) -> list[Rows]:
    """The values of every layer, the rows first and the score last."""
    bend, values = ACTIVATIONS[name][0], [X]
    for W, b in layers[:-1]:
        values.append(bend(values[-1] @ W + b))
    W, b = layers[-1]
    return [*values, values[-1] @ W + b]


def _backward(
    record: Any, layers: list[tuple[Rows, Rows]], values: list[Rows], slope: Rows, room: Rows
) -> tuple[Rows, float]:
    """The gradient of the mean loss by the chain rule, and a bound on its rounding."""
    bend_slope, error, parts = ACTIVATIONS[record.activation.name][1], slope[:, None], list[Rows]()
    noise, lost = (np.abs(room) + len(room) * EPS * np.abs(slope))[:, None], 0.0
    for (W, _), below in zip(layers[::-1], values[-2::-1], strict=True):
        parts = [(below.T @ error).ravel(), error.sum(axis=0), *parts]
        lost += float(np.linalg.norm(np.abs(below).T @ noise)) + float(np.linalg.norm(noise.sum(axis=0)))
        error, noise = (error @ W.T) * bend_slope(below), noise @ np.abs(W).T * 2.0
    return np.concatenate(parts), 4.0 * lost
