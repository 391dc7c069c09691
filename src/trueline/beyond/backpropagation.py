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
def enter(X: Any, order: Any, start: int, b: int, units: Any) -> None:
    """b rows into the first layer's units, in the given order or as they lie."""
    d = X.shape[1]
    for i in range(b):
        row = order[start + i] if order.size > 0 else start + i
        for j in range(d):
            units[i * d + j] = X[row, j]


@kernel
def place_of_scores(sizes: Any, room: int) -> int:
    """Where the last layer's units begin."""
    at = 0
    for layer in range(sizes.size - 1):
        at += room * sizes[layer]
    return at


@kernel
def sweep(
    activation: Any, loss: Any, X: Any, y: Any, weights: Any, order: Any, start: int, b: int, share: float, sizes: Any,
    theta: Any, slopes: Any, units: Any, deltas: Any, sums: Any, room: int, out: Any,
) -> bool:  # fmt: skip
    """Forward and backward over b rows: ``slopes`` is their gradient times ``share``; whether all scores are finite.

    ``sums`` gains their losses and weights, ``out`` their scores unless it is empty.
    """
    at = place_of_scores(sizes, room)
    enter(X, order, start, b, units)
    forward(activation, sizes, theta, units, room, b)
    for i in range(b):
        row = order[start + i] if order.size > 0 else start + i
        score = units[at + i]
        if not abs(score) <= 1e150:
            return False
        c = weights[row] if weights.size > 0 else 1.0
        if out.size > 0:
            out[row] = score
        sums[0] += c * loss.value(score, y[row])
        sums[1] += c
        deltas[at + i] = c * share * loss.slope(score, y[row])
    backward(activation, sizes, theta, units, deltas, slopes, room, b)
    return True


@kernel
def train(
    activation: Any, loss: Any, X: Any, y: Any, weights: Any, order: Any, sizes: Any, theta: Any, first: Any, second: Any,
    decayed: Any, total: Any, slopes: Any, units: Any, deltas: Any, numbers: Any, batch: int, room: int, out: Any,
) -> int:  # fmt: skip
    """Learn rows in this order, ``batch`` at a time; out[i] is row i's score before its update.

    A batch is swept ``room`` rows at a time, so that their units stay in the cache; their gradients add up. The
    position of the first batch with a score that is not a finite number, or the number of rows.
    """
    sums = numbers[LOSS : LOSS + 2]  # losses and weights
    for start in range(0, order.size, batch):
        b = min(batch, order.size - start)
        for at in range(start, start + b, room):
            these = min(room, start + b - at)
            own = total if at == start else slopes
            if not sweep(
                activation, loss, X, y, weights, order, at, these, 1.0 / b, sizes, theta, own, units, deltas, sums, room,
                out,
            ):  # fmt: skip
                return start
            if at > start:
                for k in range(total.size):
                    total[k] += slopes[k]
        step(theta, total, first, second, decayed, numbers)
    numbers[EXAMPLES] += order.size
    return order.size


@kernel
def scores(activation: Any, X: Any, sizes: Any, theta: Any, units: Any, room: int, out: Any) -> None:
    """Scores of all rows."""
    at, order = place_of_scores(sizes, room), np.empty(0, dtype=np.int64)
    for start in range(0, X.shape[0], room):
        b = min(room, X.shape[0] - start)
        enter(X, order, start, b, units)
        forward(activation, sizes, theta, units, room, b)
        for i in range(b):
            out[start + i] = units[at + i]


@kernel
def full_gradient(
    activation: Any, loss: Any, X: Any, y: Any, weights: Any, sizes: Any, theta: Any, slopes: Any, units: Any, deltas: Any,
    room: int, total: Any,
) -> float:  # fmt: skip
    """The weighted mean loss; its gradient, without the penalty's, goes to ``total``."""
    sums, order, out = np.zeros(2), np.empty(0, dtype=np.int64), np.empty(0)
    total[:] = 0.0
    for start in range(0, X.shape[0], room):
        b = min(room, X.shape[0] - start)
        sweep(
            activation, loss, X, y, weights, order, start, b, 1.0, sizes, theta, slopes, units, deltas, sums, room, out
        )
        total += slopes
    weight = max(sums[1], 1e-300)
    total /= weight
    return sums[0] / weight
