"""Mistake bounds of the perceptron and of Winnow, two classes and several."""

from __future__ import annotations

import numpy as np
import pytest

import trueline as tl
from trueline.errors import DataError


def test_perceptron_counts_its_mistakes():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 5))
    u = np.array([1.0, -1.0, 0.5, 0.0, 2.0])
    X = X[np.abs(X @ u) > 0.3]
    y = np.sign(X @ u)
    model = tl.Perceptron(fit_intercept=False).fit(X, y)
    proof = model.certificate_
    rho = (y * (X @ u)).min() / np.linalg.norm(u)
    assert proof.proven and proof.mistakes <= proof.bound <= np.max(np.sum(X * X, axis=1)) / rho**2
    w, mistakes = np.zeros(5), 0
    for x, t in zip(X, y):
        if t * (w @ x) <= 0:
            w, mistakes = w + t * x, mistakes + 1
    assert proof.mistakes == mistakes
    np.testing.assert_allclose(model.coef_, w, rtol=1e-12)
    noisy = np.where(rng.random(len(y)) < 0.1, -y, y)
    proof = tl.Perceptron().fit(X, noisy).certificate_
    assert proof.proven and proof.mistakes <= proof.bound and proof.slack > 0.0


@pytest.mark.parametrize("make", [tl.Perceptron, tl.Winnow])
def test_mistakes_of_several_classes_are_bounded_by_those_of_their_heads(make, tmp_path):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 4))
    y = np.argmax(X[:, :3] + 0.1 * rng.normal(size=(300, 3)), axis=1)
    model = make().fit(X, y)
    one = make(classes=[0, 1, 2])
    wrong = 0
    for row, label in zip(X, y):
        features = {f"x{j}": float(value) for j, value in enumerate(row)}
        wrong += one.predict_one(features) != label
        one.learn_one(features, int(label))
    proof = model.certificate_
    assert proof.mistakes == wrong == one.certificate_.mistakes > 0
    assert proof.bound == pytest.approx(one.certificate_.bound) and (not proof.proven or wrong <= proof.bound)
    assert proof.proven or make is tl.Winnow
    model.save(tmp_path / "model.tl")
    again = tl.load(tmp_path / "model.tl").certificate_
    assert (again.mistakes, again.bound) == (proof.mistakes, pytest.approx(proof.bound))


@pytest.mark.parametrize("rate", [0.1, "auto"])
def test_a_stream_of_signs_that_begins_with_1_is_one_of_signs(tmp_path, rate):
    """The first label 1 leaves open whether the other one is 0 or −1."""

    def learned(labels):
        model = tl.OnlineClassifier(rate=rate)
        for k, label in enumerate(labels):
            model.learn_one({"a": float(k % 3)}, label)
        return model

    signs, numbers = learned([1, 1, -1, 1]), learned([1, 1, 0, 1])
    assert signs.classes_.tolist() == [-1, 1] and numbers.classes_.tolist() == [0, 1]
    assert signs.predict_proba_one({"a": 1.0})[-1] == numbers.predict_proba_one({"a": 1.0})[0]
    signs.save(tmp_path / "signs.tl")
    assert tl.load(tmp_path / "signs.tl").classes_.tolist() == [-1, 1]
    with pytest.raises(DataError, match="unknown class 0"):
        signs.learn_one({"a": 1.0}, 0)
    with pytest.raises(DataError, match="unknown class -1"):
        numbers.learn_one({"a": 1.0}, -1)
    with pytest.raises(DataError, match="unknown class 2"):
        learned([1, 2])
