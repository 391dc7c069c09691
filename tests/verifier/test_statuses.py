"""The word for each kind of result: what has several optima is never proven, what has none is degenerate."""

from __future__ import annotations

import numpy as np
import pytest
from forged_records import failures, fitted, replaced

import trueline as tl
from trueline.certificates.certificate import Status

RNG = np.random.default_rng(4)
X = RNG.normal(size=(120, 3))
Y = X @ [1.0, 2.0, 3.0] + 0.5 * RNG.normal(size=120)
TWO = (Y > 0).astype(int)
FLAT = np.column_stack([X, np.ones(120)])
COPY = np.column_stack([X, X[:, 0]])
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
PROVEN, STATIONARY, DEGENERATE = Status.PROVEN, Status.STATIONARY, Status.DEGENERATE

TABLE = [
    (tl.RobustRegression("huber"), X, Y, PROVEN),
    (tl.RobustRegression("huber", start="high-breakdown"), X, Y, PROVEN),
    (tl.RobustRegression("huber"), COPY, Y, PROVEN),
    (tl.RobustRegression("huber"), FLAT, Y, PROVEN),
    *((tl.RobustRegression(psi), X, Y, STATIONARY) for psi in ("bisquare", "hampel", "andrews", "cauchy")),
    (tl.RobustRegression("bisquare", start="high-breakdown"), X, Y, STATIONARY),
    (tl.RobustRegression("bisquare"), COPY, Y, STATIONARY),
    (tl.OutlierMixture(), X, Y, STATIONARY),
    (tl.KernelRegression(), X, Y, PROVEN),
    (tl.AdaBoost(rounds=10), X, TWO, PROVEN),
    (tl.NeuralNetwork((4,), epochs=200, random_state=0), X, Y, STATIONARY),
    (tl.NeuralNetwork((4,), loss="logistic", epochs=200, random_state=0), X, TWO, STATIONARY),
    (tl.GenerativeClassifier(), X, TWO, PROVEN),
    (tl.GenerativeClassifier(covariance="full"), X, TWO, PROVEN),
    (tl.GenerativeClassifier(covariance="full"), GAPS, TWO, STATIONARY),
    (tl.GenerativeClassifier(covariance="full"), COPY, TWO, DEGENERATE),
    (tl.GenerativeClassifier(covariance="shared"), COPY, TWO, DEGENERATE),
    (tl.GenerativeClassifier("gaussian"), FLAT, TWO, DEGENERATE),
    (tl.GenerativeClassifier("mixture(2)"), X, TWO, STATIONARY),
    (tl.GenerativeClassifier("histogram"), X, TWO, PROVEN),
    (tl.Density("gaussian"), X, None, PROVEN),
    (tl.Density("gaussian"), FLAT, None, DEGENERATE),
    (tl.Density("gaussian", covariance="full"), COPY, None, DEGENERATE),
    (tl.Density("mixture(2)"), X, None, STATIONARY),
    (tl.LocalRegression(), X, Y, PROVEN),
    (tl.PCA(2), X, None, PROVEN),
]


@pytest.mark.parametrize("model, rows, target, word", TABLE, ids=lambda one: repr(one) if hasattr(one, "fit") else "")
def test_each_result_has_its_word(model, rows, target, word):
    model = fitted(model, rows, target)
    data = (rows,) if target is None else (rows, target)
    assert not failures(model, data)
    assert model.certificate_.status in (word, Status.NOT_PROVEN) and (word is not PROVEN or model.certificate_.proven)
    lies = {PROVEN, STATIONARY, DEGENERATE} - {model.certificate_.status}
    for lie in lies if model.certificate_.status is word else {PROVEN}:
        assert "status" in failures(model, data, replaced(model, status=lie))
