"""A loaded estimator has every public attribute that the fitted one had, with the same values."""

from __future__ import annotations

import numpy as np
import pytest

import trueline as tl


def told(value) -> str:
    """A value as text: arrays to the last digit, records by what they say."""
    return repr(value.tolist()) if isinstance(value, np.ndarray) else repr(value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "target"),
    [
        (tl.Basis("poly(x0, 3)"), None),
        (tl.LocalRegression(fraction="gcv"), "number"),
        (tl.RobustRegression("bisquare"), "number"),
        (tl.OutlierMixture(n_starts=2), "number"),
        (tl.KernelRegression("auto"), "number"),
        (tl.KernelPerceptron(), "class"),
        (tl.NeuralNetwork((5,), epochs=3, random_state=0), "number"),
        (tl.AdaBoost(rounds=5), "class"),
        (tl.Density(), None),
        (tl.GenerativeClassifier(), "class"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_public_attributes_come_back(model, target, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 2.0] + 0.3 * rng.normal(size=60)
    model.fit(X, None if target is None else y if target == "number" else (y > 0).astype(int))
    model.save(tmp_path / "m.tl")
    same = tl.load(tmp_path / "m.tl")
    public = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    records = ("model_", "record_", "formula_")  # compared by what is made of them
    assert public and set(public) <= set(vars(same))
    for name in public:
        if name not in records:
            assert told(getattr(same, name)) == told(getattr(model, name)), name
