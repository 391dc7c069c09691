"""Files of online learners that an earlier state of this repository wrote: those of the present layout load, predict and
go on as they did then, those of an older one are refused.

``make_golden`` is how tests/golden/learner_*.tl came to be; they are never written again, only added to.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import trueline as tl
from trueline.errors import ModelError

GOLDEN = Path(__file__).parent / "golden"
LEARNERS = {
    "widrow_hoff": lambda: tl.WidrowHoff(rate=0.05),
    "adaptive_huber": lambda: tl.OnlineRegressor("huber", "adaptive", 0.1, average=True),
    "signed": lambda: tl.ExponentiatedGradient(0.02),
    "rates": lambda: tl.WidrowHoff(),
    "recursive": lambda: tl.RecursiveLeastSquares(),
    "mixture": lambda: tl.OnlineRegressor(),
    "logistic": lambda: tl.OnlineClassifier(geometry="additive", rate=0.1, penalty="l1"),
    "classes": lambda: tl.OnlineClassifier(),
    "perceptron": lambda: tl.Perceptron(),
}


def targets(name, y):
    if name == "classes":
        return np.array(["low", "middle", "high"])[np.digitize(y, [-1, 1])]
    return np.where(y > 0, "up", "down") if name in ("logistic", "perceptron") else y


def answers(model, X):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


def figures(model):
    proof = model.certificate_
    return {name: getattr(proof, name) for name in ("loss", "mistakes", "bound") if hasattr(proof, name)}


def make_golden(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=40)
    told = {}
    for name, make in LEARNERS.items():
        t = targets(name, y)
        model = make().fit(X[:30], t[:30])
        model.save(folder / f"learner_{name}.tl")
        before = answers(model, X).tolist()
        model.partial_fit(X[30:], t[30:])
        told[name] = {"before": before, "after": answers(model, X).tolist(), "certificate": figures(model)}
    (folder / "learner.json").write_text(json.dumps({"X": X.tolist(), "y": y.tolist(), "learners": told}))


@pytest.mark.parametrize("name", LEARNERS)
def test_an_older_file_loads_predicts_and_goes_on(name):
    told = json.loads((GOLDEN / "learner.json").read_text())
    X, t, then = np.array(told["X"]), targets(name, np.array(told["y"])), told["learners"][name]
    model = tl.load(GOLDEN / f"learner_{name}.tl")
    # Another processor may fuse or order sums otherwise; beyond that nothing may differ.
    np.testing.assert_allclose(answers(model, X), then["before"], rtol=1e-12, atol=1e-14)
    model.partial_fit(X[30:], t[30:])
    np.testing.assert_allclose(answers(model, X), then["after"], rtol=1e-10, atol=1e-13)
    assert figures(model) == pytest.approx(then["certificate"], rel=1e-8)


OLDER = ("widrow_hoff", "adaptive_huber", "signed", "rates", "logistic", "perceptron")


@pytest.mark.parametrize("name", OLDER)
def test_a_learner_of_an_older_layout_is_refused_in_one_sentence(name):
    with pytest.raises(
        ModelError, match="a learner of an older layout, which this version does not read; let it learn"
    ):
        tl.load(GOLDEN / f"online_{name}.tl")


@pytest.mark.parametrize("settings", [{}, {"geometry": "additive", "rate": 0.1}, {"geometry": "additive"}])
@pytest.mark.parametrize("other", [-1, 0])
def test_a_file_from_before_the_second_label_goes_on_as_if_never_stopped(tmp_path, settings, other):
    model = tl.OnlineClassifier(**settings)
    for x in (0.5, 1.5):
        model.learn_one({"x": x}, 1)
    model.save(tmp_path / "m.tl")
    again = tl.load(tmp_path / "m.tl")
    for each in (model, again):
        each.learn_one({"x": -1.0}, other).learn_one({"x": 1.0}, 1)
    assert again.classes_.tolist() == model.classes_.tolist() == sorted([other, 1])
    assert again.predict_proba_one({"x": 0.3}) == model.predict_proba_one({"x": 0.3})
    assert again.certificate_.to_dict() == model.certificate_.to_dict()
    again.save(tmp_path / "m.tl")
    assert tl.load(tmp_path / "m.tl").classes_.tolist() == model.classes_.tolist()
