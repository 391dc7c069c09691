"""Networks: loss and gradient by another back-propagation; stationary at most, never proven."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forged_records import copied, failures, fitted, replaced

import trueline as tl
from trueline.certificates.certificate import Status

RNG = np.random.default_rng(6)
X = RNG.normal(size=(70, 3))
Y = np.tanh(X[:, 0]) + 0.1 * RNG.normal(size=70)
NAMES = np.where(Y > 0, "up", "down")
W = RNG.random(70) + 0.1


@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize("w", [None, W, 1e9 * W, 1.0 * (np.arange(70) % 3 > 0)], ids=["1", "w", "large", "zero"])
def test_honest_networks_verify(activation, loss, w):
    y = NAMES if loss == "logistic" else 1e3 * Y + 1e3
    model = fitted(tl.NeuralNetwork((5, 3), activation, loss, epochs=4, alpha=0.01, random_state=0), X, y, w)
    assert not failures(model, (X, y) if w is None else (X, y, w))
    assert not model.certificate_.proven


def test_a_flat_network_is_stationary_and_never_proven():
    model = fitted(
        tl.NeuralNetwork(
            (2,), epochs=3000, tol=0.0, patience=3000, rate=0.01, alpha=0.1, batch_size=70, random_state=0
        ),
        X,
        Y,
    )
    assert model.certificate_.status is Status.STATIONARY and not failures(model, (X, Y))
    assert "status" in failures(model, (X, Y), replaced(model, status=Status.PROVEN))
    early = fitted(tl.NeuralNetwork((2,), epochs=1, random_state=0), X, Y)
    assert early.certificate_.status is Status.NOT_PROVEN
    assert "status" in failures(early, (X, Y), replaced(early, status=Status.STATIONARY))


@pytest.mark.parametrize("forgery", ["weights", "bias", "classes", "activation"])
def test_forged_networks_are_refused(forgery):
    model = fitted(tl.NeuralNetwork((4,), loss="logistic", epochs=3, random_state=0), X, NAMES)
    record = copied(model)
    if forgery == "weights":
        record.theta[:4] *= -1.0
    elif forgery == "bias":
        record.theta[-1] += 1e6
    elif forgery == "classes":
        record.classes = record.classes[::-1]
    else:
        record.activation = copied(fitted(tl.NeuralNetwork((4,), "relu", epochs=1), X, Y)).activation
    assert failures(record, (X, NAMES), replaced(model))


def test_every_number_counts():
    model = fitted(tl.NeuralNetwork((4,), epochs=3, random_state=0), X, Y)
    for name in ("loss", "gradient_norm"):
        for lie in (0.9 * getattr(model.certificate_, name), math.nan, math.inf, -math.inf):
            assert failures(model, (X, Y), replaced(model, **{name: lie})), name
    assert failures(model, (X, Y, W))
    held_out = fitted(tl.NeuralNetwork((4,), epochs=3, early_stopping=True, random_state=0), X, Y)
    with pytest.raises(tl.ModelError, match="held rows out"):
        tl.verify(held_out, (X, Y))
