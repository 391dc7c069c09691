"""The network: gradients by finite differences, agreement of its doors, and what its certificate does not claim."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from sklearn.base import is_classifier
from sklearn.utils.estimator_checks import check_estimator

import trueline as tl
from trueline.beyond.network import NetworkModel
from trueline.certificates.certificate import Status
from trueline.cli import main
from trueline.nonlinear.backpropagation import activation
from trueline.parts.losses import loss

ORDER = "rows are learned one by one, so repeating a row is not the same as weighting it"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


class Softsign(NamedTuple):
    """a/(1 + |a|): a user's own unit; its slope is (1 − |h|)²."""

    unit: float = 1.0

    def value(self, a):
        return a / (1.0 + abs(a))

    def slope(self, h):
        return (1.0 - abs(h)) ** 2


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_check_estimator(kind):
    expected = {"check_sample_weight_equivalence_on_dense_data": ORDER}
    model = tl.NeuralNetwork((8,), loss=kind, rate=0.01)
    found = check_estimator(model, expected_failed_checks=expected, on_fail=None)
    assert not [(r["check_name"], r["exception"]) for r in found if r["status"] == "failed"]


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "relu"])
def test_activations_are_what_they_say(name):
    a = np.concatenate([np.linspace(-50, 50, 2001), [0.0, 1e-9, -1e-9, 700.0, -700.0]])
    exact = {"sigmoid": lambda a: 0.5 * (1 + np.tanh(a / 2)), "tanh": np.tanh, "relu": lambda a: np.maximum(0, a)}
    made = activation(name)
    found = np.array([made.value(float(v)) for v in a])
    assert np.abs(found - exact[name](a)).max() < 1e-13
    step = 1e-6
    slopes = (exact[name](a + step) - exact[name](a - step)) / (2 * step)
    away = np.abs(a) > 1e-5
    assert np.abs(np.array([made.slope(h) for h in found]) - slopes)[away].max() < 1e-8


@pytest.mark.parametrize(
    ("hidden", "unit", "kind"),
    [((5,), "tanh", "squared"), ((4, 3), "tanh", "squared"), ((5,), "sigmoid", "logistic"), ((6,), Softsign(), "squared"),
     ((4, 3), "relu", "squared")],
)  # fmt: skip
def test_gradients_agree_with_finite_differences(data, hidden, unit, kind):
    X, y = data
    y = np.where(y > 0, 1.0, -1.0) if kind == "logistic" else y
    model = NetworkModel(hidden, activation(unit), loss(kind), alpha=0.3, seed=1)
    model._take(X)
    c = np.random.default_rng(2).uniform(0.0, 2.0, len(y))
    _, slope = model.gradient(X, y, c)
    theta, step = model.theta.copy(), 1e-6
    numeric = np.empty_like(theta)
    for k in range(len(theta)):
        values = []
        for sign in (1.0, -1.0):
            model.theta = theta.copy()
            model.theta[k] += sign * step
            values.append(model.gradient(X, y, c)[0])
        numeric[k] = (values[0] - values[1]) / (2 * step)
    assert np.abs(slope - numeric).max() < 1e-7 * max(1.0, np.abs(slope).max())


def test_a_step_is_minus_the_rate_times_the_gradient(data):
    X, y = data
    model = NetworkModel(
        (5,), activation("tanh"), loss("squared"), rate=0.1, optimizer="gradient", alpha=0.2, batch=120
    )
    model._take(X)
    before = model.theta.copy()
    slope = model.gradient(X, y, np.empty(0))[1]
    model.learn(X, y)
    assert np.allclose(model.theta, before - 0.1 * slope, atol=1e-14)


def test_learns_and_says_what_is_not_proven(data):
    X, y = data
    model = tl.NeuralNetwork((30,), rate=0.01, epochs=400, tol=0.0, patience=400, random_state=0).fit(X, y)
    proof = model.certificate_
    assert model.score(X, y) > 0.99
    assert proof.status is Status.NOT_PROVEN and not proof.proven and "not convex" in str(proof)
    assert proof.loss < 0.01 * proof.start_loss and proof.gradient_norm < 0.2 * proof.start_gradient_norm
    assert model.weights_[0][0].shape == (3, 30) and model.plot().get_ylabel() == "mean loss"
    # The same two numbers from the weights alone, with no code in common.
    (W, b), (u, k) = model.weights_
    H = np.tanh(X @ W + b)
    rest = H @ u[:, 0] + k - y
    slopes = [
        X.T @ (rest[:, None] * u.T * (1 - H**2)),
        (rest[:, None] * u.T * (1 - H**2)).sum(0),
        H.T @ rest,
        rest.sum(),
    ]
    assert proof.loss == pytest.approx(0.5 * np.mean(rest**2), rel=1e-9)
    norm = np.sqrt(sum(float(np.sum(np.square(s))) for s in slopes)) / len(y)
    assert proof.gradient_norm == pytest.approx(norm, rel=1e-6)


def test_early_stopping_keeps_the_best_pass(data):
    X, y = data
    noisy = y + np.random.default_rng(3).normal(size=len(y))
    model = tl.NeuralNetwork((50,), rate=0.02, early_stopping=True, validation_fraction=0.3, patience=5, random_state=0)
    model.fit(X, noisy)
    held = [line["validation"] for line in model.progress_]
    assert model.n_iter_ < 200 and model.certificate_.validation_loss == min(held) < held[-1]


def test_online_in_rows_blocks_dicts_and_after_a_stop(data, tmp_path):
    X, y = data
    settings = {"hidden": (6,), "batch_size": 1, "random_state": 0}
    block = tl.NeuralNetwork(**settings).partial_fit(X, y)
    rows = tl.NeuralNetwork(**settings)
    for i in range(len(y)):
        rows.partial_fit(X[i : i + 1], y[i : i + 1])
    half = tl.NeuralNetwork(**settings).partial_fit(X[:50], y[:50])
    half.save(tmp_path / "n.tl")
    half = tl.load(tmp_path / "n.tl").partial_fit(X[50:], y[50:])
    dicts = tl.NeuralNetwork(**settings)
    for row, target in zip(X, y):
        dicts.learn_one({"a": row[0], "b": row[1], "c": row[2]}, target)
    for other in (rows, half):
        assert (other.predict(X) == block.predict(X)).all()
    assert dicts.predict_one({"a": X[0, 0], "b": X[0, 1], "c": X[0, 2]}) == block.predict(X[:1])[0]
    assert dicts.certificate_.examples == 120 and not dicts.certificate_.proven
    dicts.learn_one({"a": 1.0, "new": 2.0}, 0.5)
    assert dicts.record_.names == ["a", "b", "c", "new"]


@pytest.mark.parametrize("kind", ["logistic", "hinge"])
@pytest.mark.parametrize("labels", [("no", "yes"), (0, 1), (-1, 1), (False, True), (0.0, 1.0)], ids=str)
def test_two_classes_by_any_name(data, tmp_path, kind, labels):
    X, y = data
    named = np.array(labels)[(y > 0).astype(int)]
    settings = {"hidden": (12,), "activation": "tanh", "loss": kind, "rate": 0.02, "random_state": 0}
    model = tl.NeuralNetwork(**settings).fit(X, named)
    assert is_classifier(model) and model.classes_.tolist() == list(labels)
    assert model.predict(X).dtype == named.dtype and model.score(X, named) == (model.predict(X) == named).mean() > 0.95
    assert ((model.decision_function(X) > 0) == (model.predict(X) == labels[1])).all()
    if kind == "logistic":
        p = model.predict_proba(X)
        assert np.allclose(p[:, 1], 1 / (1 + np.exp(-model.decision_function(X)))) and np.allclose(p.sum(axis=1), 1.0)
    assert hasattr(model, "predict_proba") == (kind == "logistic")
    model.save(tmp_path / "s.tl")
    again = tl.load(tmp_path / "s.tl")
    assert (again.predict(X) == model.predict(X)).all() and again.classes_.tolist() == list(labels)
    stream = tl.NeuralNetwork(**settings, batch_size=1).partial_fit(X[:1], named[:1], classes=list(labels))
    stream.partial_fit(X[1:], named[1:])
    dicts = tl.NeuralNetwork(**settings, batch_size=1, classes=list(labels))
    assert dicts.predict_one({"a": 1.0}) is None
    for row, label in zip(X, named.tolist()):
        dicts.learn_one(dict(zip("abc", row)), label)
    assert [dicts.predict_one(dict(zip("abc", row))) for row in X[:20]] == stream.predict(X[:20]).tolist()


def test_the_command_line_gives_the_labels_that_python_gives(data, tmp_path, capsys):
    X, y = data
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    model = tl.NeuralNetwork((12,), loss="logistic", rate=0.02, random_state=0).fit(frame, np.where(y > 0, "yes", "no"))
    model.save(tmp_path / "n.tl")
    frame.write_csv(tmp_path / "n.csv")
    with contextlib.suppress(SystemExit):
        main(["predict", str(tmp_path / "n.tl"), str(tmp_path / "n.csv")])
    made = pl.read_csv(capsys.readouterr().out.encode())
    assert made["prediction"].to_list() == model.predict(frame).tolist()
    np.testing.assert_allclose(made["probability"], model.predict_proba(frame)[:, 1], rtol=1e-9)


def test_labels_that_do_not_fit(data):
    X, y = data
    with pytest.raises(tl.DataError, match="3 classes, and a network has one output"):
        tl.NeuralNetwork(loss="logistic").fit(X, np.arange(len(y)) % 3)
    with pytest.raises(tl.DataError, match=r"one class only \('a'\)"):
        tl.NeuralNetwork(loss="logistic").partial_fit(X[:2], ["a", "a"])
    model = tl.NeuralNetwork((3,), loss="logistic", epochs=1).fit(X, np.where(y > 0, "yes", "no"))
    before = model.decision_function(X)
    with pytest.raises(tl.DataError, match="unknown class 'maybe' in row 1; the classes are no, yes"):
        model.partial_fit(X[:2], ["yes", "maybe"])
    with pytest.raises(tl.DataError, match="one class only"):
        model.fit(X, ["no"] * len(y))
    assert (model.decision_function(X) == before).all(), "a refused fit changes nothing"
    with pytest.raises(tl.UsageError, match="logistic"):
        tl.NeuralNetwork(loss="logistc").fit(X, np.where(y > 0, "yes", "no"))
    assert not hasattr(tl.NeuralNetwork(), "predict_proba") and not is_classifier(tl.NeuralNetwork())


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"hidden": ()}, "hidden of NeuralNetwork is"), ({"hidden": (0,)}, "hidden"), ({"activation": "tan"}, "did you mean 'tanh'"),
        ({"loss": "square"}, "squared"), ({"rate": 0}, "rate"), ({"optimizer": "sgd"}, "adam"), ({"alpha": -1}, "alpha"),
        ({"validation_fraction": 1.0}, "in .0, 1. is accepted"), ({"batch_size": 0}, "batch_size"),
        ({"tol": -1}, "tol"), ({"rate": "fast"}, "rate"),
    ],
)  # fmt: skip
def test_refusals(data, parameters, match):
    with pytest.raises(tl.UsageError, match=match):
        tl.NeuralNetwork(**parameters).fit(*data)


def test_divergence_is_told_and_undone(data):
    X, y = data
    model = tl.NeuralNetwork((5,), rate=1e3, batch_size=1, optimizer="gradient", random_state=0)
    with pytest.raises(tl.DataError, match="smaller rate"):
        model.partial_fit(X * 1e6, y)
    assert not hasattr(model, "record_"), "nothing was learned, so nothing is fitted"
    model = tl.NeuralNetwork((5,), "relu", rate=1e3, batch_size=1, optimizer="gradient", random_state=0)
    model.partial_fit(X[:1] * 1e-6, y[:1] * 1e-6)
    before = model.record_.theta.copy()
    with pytest.raises(tl.DataError, match="smaller rate"):
        model.partial_fit(X * 1e6, y)
    np.testing.assert_array_equal(model.record_.theta, before)
