"""Back-propagation: the one compiled loop of the network, for one row, a mini-batch or a whole table.

All weights live in one vector, layer by layer: an (inputs × outputs) matrix, then the biases. All units of a batch live
in one buffer, likewise. Layers l = 0 … k: a_{l+1} = h_l·W_l + b_l, h = activation(a), the last layer's one output is
the score. Backwards: δ at the score is the loss's slope; ∂W_l = h_l'·δ; δ ← (δ·W_l')∘h'(a).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._jit import kernel

RATE, STEPS, PENALTY, ADAPTIVE, LOSS, WEIGHT, EXAMPLES, NUMBERS = range(8)
FIRST, SECOND, FLOOR = 0.9, 0.999, 1e-8  # Adam's memories and the floor of its divisor


@kernel(reassociate=True)
def score(units: Any, weights: Any, bias: float, out: Any) -> None:
    """The one output of each row: BLAS is slow on matrices of one column."""
    for i in range(units.shape[0]):
        total = bias
        for j in range(weights.size):
            total += units[i, j] * weights[j]
        out[i] = total


@kernel(reassociate=True)
def excite(activation: Any, units: Any, biases: Any) -> None:
    """h = activation(a + b), in place."""
    for i in range(units.shape[0]):
        for j in range(biases.size):
            units[i, j] = activation.value(units[i, j] + biases[j])


@kernel(reassociate=True)
def blame(activation: Any, units: Any, delta: Any, weights: Any, slopes: Any, under: Any) -> None:
    """The last layer backwards in one pass: its gradient, and δ of the units below."""
    slopes[:] = 0.0
    for i in range(units.shape[0]):
        d = delta[i]
        slopes[weights.size] += d
        for j in range(weights.size):
            h = units[i, j]
            slopes[j] += h * d
            under[i, j] = d * weights[j] * activation.slope(h)


@kernel(reassociate=True)
def forward(activation: Any, sizes: Any, theta: Any, units: Any, room: int, b: int) -> None:
    """Fill the units of b rows from the inputs in the first layer."""
    at, o = 0, 0
    for layer in range(sizes.size - 1):
        n, m = sizes[layer], sizes[layer + 1]
        below = units[at : at + b * n].reshape((b, n))
        at += room * n
        if layer == sizes.size - 2:
            score(below, theta[o : o + n], theta[o + n], units[at : at + b])
        else:
            above = units[at : at + b * m].reshape((b, m))
            np.dot(below, theta[o : o + n * m].reshape((n, m)), above)
            o += n * m
            excite(activation, above, theta[o : o + m])
            o += m


@kernel(reassociate=True)
def backward(activation: Any, sizes: Any, theta: Any, units: Any, deltas: Any, slopes: Any, room: int, b: int) -> None:
    """The gradient, from the slopes at the scores (in the last layer's place in ``deltas``)."""
    at, o = 0, 0
    for layer in range(sizes.size - 1):
        at += room * sizes[layer]
        o += (sizes[layer] + 1) * sizes[layer + 1]
    for layer in range(sizes.size - 2, -1, -1):
        n, m = sizes[layer], sizes[layer + 1]
        o -= (n + 1) * m
        here = at
        at -= room * n
        below = units[at : at + b * n].reshape((b, n))
        if layer == sizes.size - 2:
            under = deltas[at : at + b * n].reshape((b, n))
            blame(activation, below, deltas[here : here + b], theta[o : o + n], slopes[o : o + n + 1], under)
            continue
        delta = deltas[here : here + b * m].reshape((b, m))
        np.dot(below.T, delta, slopes[o : o + n * m].reshape((n, m)))
        for j in range(m):
            slopes[o + n * m + j] = 0.0
        for i in range(b):
            for j in range(m):
                slopes[o + n * m + j] += delta[i, j]
        if layer > 0:
            under = deltas[at : at + b * n].reshape((b, n))
            np.dot(delta, theta[o : o + n * m].reshape((n, m)).T, under)
            for i in range(b):
                for j in range(n):
                    under[i, j] *= activation.slope(below[i, j])


@kernel(reassociate=True)
def step(theta: Any, slopes: Any, first: Any, second: Any, decayed: Any, numbers: Any) -> None:
    """One step of Adam, or of plain gradient descent; ``decayed`` is 1 on weights, 0 on biases."""
    numbers[STEPS] += 1.0
    t, rate, penalty = numbers[STEPS], numbers[RATE], numbers[PENALTY]
    if numbers[ADAPTIVE] > 0.0:
        rate *= math.sqrt(1.0 - SECOND**t) / (1.0 - FIRST**t)
        for k in range(theta.size):
            g = slopes[k] + penalty * decayed[k] * theta[k]
            first[k] += (1.0 - FIRST) * (g - first[k])
            second[k] += (1.0 - SECOND) * (g * g - second[k])
            theta[k] -= rate * first[k] / (math.sqrt(second[k]) + FLOOR)
    else:
        for k in range(theta.size):
            theta[k] -= rate * (slopes[k] + penalty * decayed[k] * theta[k])


@kernel
def train(
    activation: Any, loss: Any, X: Any, y: Any, weights: Any, order: Any, sizes: Any, theta: Any, first: Any, second: Any,
    decayed: Any, slopes: Any, units: Any, deltas: Any, numbers: Any, room: int, out: Any,
) -> int:  # fmt: skip
    """Learn rows in this order, ``room`` at a time; out[i] is row i's score before its update.

    The position of the first batch with a score that is not a finite number, or the number of rows.
    """
    d = sizes[0]
    scores_at = 0
    for layer in range(sizes.size - 1):
        scores_at += room * sizes[layer]
    for start in range(0, order.size, room):
        b = min(room, order.size - start)
        for i in range(b):
            row = order[start + i]
            for j in range(d):
                units[i * d + j] = X[row, j]
        forward(activation, sizes, theta, units, room, b)
        for i in range(b):
            row = order[start + i]
            score = units[scores_at + i]
            if not abs(score) <= 1e150:
                return start
            c = weights[row] if weights.size > 0 else 1.0
            out[row] = score
            numbers[LOSS] += c * loss.value(score, y[row])
            numbers[WEIGHT] += c
            deltas[scores_at + i] = c * loss.slope(score, y[row]) / b
        backward(activation, sizes, theta, units, deltas, slopes, room, b)
        step(theta, slopes, first, second, decayed, numbers)
    numbers[EXAMPLES] += order.size
    return order.size


@kernel
def scores(activation: Any, X: Any, sizes: Any, theta: Any, units: Any, room: int, out: Any) -> None:
    """Scores of all rows."""
    d = sizes[0]
    scores_at = 0
    for layer in range(sizes.size - 1):
        scores_at += room * sizes[layer]
    for start in range(0, X.shape[0], room):
        b = min(room, X.shape[0] - start)
        for i in range(b):
            for j in range(d):
                units[i * d + j] = X[start + i, j]
        forward(activation, sizes, theta, units, room, b)
        for i in range(b):
            out[start + i] = units[scores_at + i]


@kernel
def full_gradient(
    activation: Any, loss: Any, X: Any, y: Any, weights: Any, sizes: Any, theta: Any, slopes: Any, units: Any, deltas: Any,
    room: int, total: Any,
) -> float:  # fmt: skip
    """The weighted mean loss; its gradient, without the penalty's, goes to ``total``."""
    d = sizes[0]
    scores_at = 0
    for layer in range(sizes.size - 1):
        scores_at += room * sizes[layer]
    value, weight = 0.0, 0.0
    total[:] = 0.0
    for start in range(0, X.shape[0], room):
        b = min(room, X.shape[0] - start)
        for i in range(b):
            for j in range(d):
                units[i * d + j] = X[start + i, j]
        forward(activation, sizes, theta, units, room, b)
        for i in range(b):
            c = weights[start + i] if weights.size > 0 else 1.0
            value += c * loss.value(units[scores_at + i], y[start + i])
            weight += c
            deltas[scores_at + i] = c * loss.slope(units[scores_at + i], y[start + i])
        backward(activation, sizes, theta, units, deltas, slopes, room, b)
        total += slopes
    weight = max(weight, 1e-300)
    total /= weight
    return value / weight
