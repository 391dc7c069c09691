"""``trueline inspect`` says of every kind of model file what it is and what it proves."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import trueline as tl
from trueline.cli.inspect import describe, told
from trueline.cli.models import open_model

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(80, 2)), columns=["a", "b"])
Y = X["a"].to_numpy() + 0.1 * RNG.normal(size=80)
LABELS = np.where(Y > 0, "up", "down")

MADE = {
    "LinearRegression": lambda: tl.LinearRegression().fit(X, Y),
    "LocalRegression": lambda: tl.LocalRegression().fit(X, Y),
    "RobustRegression": lambda: tl.RobustRegression().fit(X, Y),
    "KernelRegression": lambda: tl.KernelRegression().fit(X, Y),
    "KernelPerceptron": lambda: tl.KernelPerceptron().fit(X, LABELS),
    "NeuralNetwork": lambda: tl.NeuralNetwork((3,), epochs=2).fit(X, Y),
    "AdaBoost": lambda: tl.AdaBoost(5).fit(X, LABELS),
    "Density": lambda: tl.Density().fit(X),
    "GenerativeClassifier": lambda: tl.GenerativeClassifier().fit(X, LABELS),
    "NGram": lambda: tl.NGram().fit(),
    "PCA": lambda: tl.PCA().fit(X),
    "WidrowHoff": lambda: tl.WidrowHoff(0.1).fit(X, Y),
    "OnlineClassifier": lambda: tl.OnlineClassifier().fit(X, LABELS),
}


@pytest.mark.parametrize("name", MADE)
def test_every_kind_is_described(name, tmp_path):
    model = MADE[name]()
    model.save(tmp_path / "m.tl")
    found = describe(open_model(str(tmp_path / "m.tl")))
    text = told(found)
    assert name in text and str(model.certificate_.status.value).replace("_", " ") in text
    assert json.loads(json.dumps(found, default=str))["estimator"] == name
    if hasattr(model, "classes_"):
        assert "down, up" in text
    if name in ("LinearRegression", "WidrowHoff"):
        assert [row["term"] for row in found["coefficients"]] == ["(intercept)", "a", "b"] and "80 rows" in text
