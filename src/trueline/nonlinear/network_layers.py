"""What a network does between its matrix products: biases and activations, the one output, slopes, steps.

Units and deltas are rows × units. ``kind`` is the place of an activation in backpropagation.ACTIVATIONS, or OWN for a
user's, whose slopes come as a matrix.
"""

from __future__ import annotations

import cython

from ..simd import Array

if not cython.compiled:  # compiled, these come from network_layers.pxd
    from math import sqrt

    from ..simd import row_add, row_dot

    SIGMOID, TANH, RELU = 0, 1, 2

FIRST: cython.double = 0.9  # Adam's memories, and the floor of its divisor
SECOND: cython.double = 0.999
FLOOR: cython.double = 1e-8
HUGE: cython.double = 1e150


def add_biases(kind: cython.int, units: Array, biases: Array) -> None:
    """units += biases in every row; max(0, ·) of that for ReLU."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    a: float
    for i in range(units.shape[0]):
        if kind == RELU:
            for j in range(units.shape[1]):
                a = units[i, j] + biases[j]
                units[i, j] = a if a > 0.0 else 0.0
        else:
            for j in range(units.shape[1]):
                units[i, j] += biases[j]


def score_rows(units: Array, weights: Array, bias: float, out: Array) -> bool:
    """The one output of each row; whether all are numbers that can be squared."""
    i: cython.Py_ssize_t
    s: float
    well: cython.int = 1
    for i in range(units.shape[0]):
        s = row_dot(units, i, 0, weights, units.shape[1]) + bias
        out[i] = s
        if not -HUGE <= s <= HUGE:
            well = 0
    return well == 1


def blame_last(
    kind: cython.int, units: Array, delta: Array, weights: Array, own: Array, slopes: Array, under: Array, sums: Array
) -> None:
    """The last layer backwards: its gradient (weights, then bias), the units' own deltas, and the sums of these."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    n: cython.Py_ssize_t = units.shape[1]
    total: float = 0.0
    d: float
    for j in range(n):
        slopes[j] = 0.0
    for i in range(units.shape[0]):
        d = delta[i]
        total += d
        row_add(units, i, 0, d, slopes, n)
        for j in range(n):
            under[i, j] = d * weights[j]
    slopes[n] = total
    blame(kind, units, own, under, sums)


def blame(kind: cython.int, units: Array, own: Array, under: Array, sums: Array) -> None:
    """under ← under ∘ h'(a), and the sums of its columns."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    h: float
    n: cython.Py_ssize_t = units.shape[1]
    for j in range(n):
        sums[j] = 0.0
    for i in range(units.shape[0]):
        if kind == SIGMOID:
            for j in range(n):
                h = units[i, j]
                under[i, j] *= h * (1.0 - h)
        elif kind == TANH:
            for j in range(n):
                h = units[i, j]
                under[i, j] *= 1.0 - h * h
        elif kind == RELU:
            for j in range(n):
                under[i, j] = under[i, j] if units[i, j] > 0.0 else 0.0
        else:
            for j in range(n):
                under[i, j] *= own[i, j]
        row_add(under, i, 0, 1.0, sums, n)


def adam_step(
    theta: Array, slopes: Array, first: Array, second: Array, decayed: Array, penalty: float, rate: float, steps: float
) -> None:
    """Adam's ``steps``-th step; ``decayed`` is 1 on weights, 0 on biases."""
    k: cython.Py_ssize_t
    g: float
    size: float = rate * sqrt(1.0 - SECOND**steps) / (1.0 - FIRST**steps)
    for k in range(theta.shape[0]):
        g = slopes[k] + penalty * decayed[k] * theta[k]
        first[k] += (1.0 - FIRST) * (g - first[k])
        second[k] += (1.0 - SECOND) * (g * g - second[k])
        theta[k] -= size * first[k] / (sqrt(second[k]) + FLOOR)
