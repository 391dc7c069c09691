"""The mixture on words and wide rows: features that appear and vanish, filters that give way to gradient members."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from trueline.errors import DataError, UsageError
from trueline.online.mixture import MixtureModel


def test_features_appear_vanish_and_may_be_words():
    rng = np.random.default_rng(1)
    model = MixtureModel("regression")
    effect = {"red": 5.0, "green": -3.0, "blue": 0.0}
    errors = []
    for t in range(600):
        colour = str(rng.choice(list(effect)))
        x = {"colour": colour, "on": bool(rng.integers(2)), "size": float(rng.normal())}
        y = effect[colour] + 2.0 * x["on"] + x["size"]
        if t >= 300:
            x["late"] = float(rng.normal() * 1e-4)
            y += 3e4 * x["late"]
        if t % 3 == 0:
            y -= x.pop("size")
        expected = model.predict_one(x)
        assert model.learn_one(x, y) == expected
        errors.append(abs(expected - y))
    assert model.names[:3] == ["colour=" + model.names[0][7:], "on", "size"] or "on" in model.names
    assert np.mean(errors[250:300]) < 0.2 and np.mean(errors[550:]) < 0.5
    assert model.certificate().proven and len(model.coef) == len(model.names)
    assert model.predict_one({"never seen": 1.0, "colour": "violet"}) == model.predict_one({})


def test_many_words_turn_filters_into_gradient_members():
    rng = np.random.default_rng(2)
    effect = rng.normal(size=900)
    for task in ("regression", "binary"):
        model = MixtureModel(task)
        losses = []
        for t in range(1500):
            where = np.unique((min(900, 20 + t) * rng.random(6)).astype(int))
            score = effect[where].sum()
            y = score if task == "regression" else (1.0 if score > 0 else -1.0)
            p = model.learn_one({f"w{j}": 1.0 for j in where}, y)
            losses.append((p - y) ** 2 if task == "regression" else -math.log(p if y > 0 else 1 - p))
        assert model.filters == 0 and model.width > 600
        certificate = model.certificate()
        assert certificate.proven and certificate.loss <= certificate.bound
        assert np.mean(losses[-200:]) < (0.6 * np.var(effect) * 6 if task == "regression" else 0.6)
        records_state = MixtureModel.from_state(*model.to_state())
        assert records_state.learn_one({"w3": 1.0, "new": 2.0}, 1.0) == model.learn_one({"w3": 1.0, "new": 2.0}, 1.0)


def test_wide_arrays_dense_and_sparse():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 310)) * (rng.random((500, 310)) < 0.05)
    y = X[:, :5] @ [5, -5, 4, 3, -6.0]
    dense, thin = MixtureModel("regression"), MixtureModel("regression")
    dense.learn(X + 1000.0, y)
    out = thin.learn(sparse.csr_matrix(X), y)
    assert dense.filters == thin.filters == 0 and dense.centred and not thin.centred
    for model in (dense, thin):
        certificate = model.certificate()
        assert certificate.proven and certificate.best_fixed_loss < 1e-6 and certificate.loss <= certificate.bound
    assert np.mean((out[400:] - y[400:]) ** 2) < np.var(y[400:])


def test_wide_dicts_are_wide_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 310)) * 10.0 + 100.0
    X[1:][rng.random((59, 310)) < 0.1] = 0.0
    y = X[:, :5].sum(axis=1)
    block, rows = MixtureModel(), MixtureModel()
    block.learn(X, y)
    for at, (row, target) in enumerate(zip(X.tolist(), y.tolist())):
        x = {f"x{j}": value for j, value in enumerate(row) if value or at % 3 == 0}
        x = dict(reversed(x.items())) if at % 2 else x
        rows.predict_one(x)
        rows.learn_one(x, target)
    assert rows.centred and rows.coef.tobytes() == block.coef.tobytes()
    assert str(rows.certificate()) == str(block.certificate())
    for model in (MixtureModel(), MixtureModel("binary")):  # a long document first, then short ones with other words
        for t in range(60):
            where = np.unique(rng.integers(0, 2000, 400 if t == 0 else 20))
            model.learn_one({f"t{j}": 1.0 for j in where}, 1.0 if (where % 7).mean() > 3.0 else -1.0)
        proof = model.certificate()
        assert not model.centred and proof.proven and proof.loss <= proof.bound


def test_odds_of_a_word_seen_once_stay_small():
    rng = np.random.default_rng(41)
    model = MixtureModel("binary")
    for _ in range(400):
        x = rng.normal()
        model.learn_one({"x": x}, 1.0 if x + rng.normal() > 0 else -1.0)
    model.learn_one({"x": 0.0, "seldom": "yes"}, 1.0)
    filters = model.member_coefficients()[2 : 2 + model.filters, 0, -1]
    # In units of the column's variance, 1/401 by then, one sight of the word was worth e⁶ to one.
    assert (filters > 0.0).all() and filters.max() < 2.0


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_going_wide_keeps_what_the_filters_knew(task):
    rng = np.random.default_rng(42)
    model = MixtureModel(task)
    for _ in range(300):
        x = rng.normal(size=3)
        score = x @ [1.0, -2.0, 0.5]
        y = score + 0.1 * rng.normal() if task == "regression" else (1.0 if score + rng.normal() > 0 else -1.0)
        model.learn_one({f"x{j}": float(v) for j, v in enumerate(x)}, y)
    model.learn_one({f"new{j}": 1.0 for j in range(310)}, 1.0)
    assert model.filters == 0
    counted = model.arrays["sums"][-1 if task == "regression" else 4]  # a filter with a diagonal matrix
    assert (counted[1:4] > 5.0).all() and (counted[1:4] < 320.0).all() and (counted[4:] <= 1.0).all()


def test_dict_refusals_name_the_feature():
    model = MixtureModel("regression")
    model.learn_one({"a": 1.0}, 2.0)
    for bad in (float("nan"), None, [1], 1e300):
        with pytest.raises(DataError, match="feature 'b'"):
            model.learn_one({"a": 1.0, "b": bad}, 2.0)
    with pytest.raises(DataError, match="y has 1 unusable entry: NaN in row 0"):
        model.learn_one({"a": 1.0, "c": 1.0}, float("nan"))
    assert model.names == ["a"] and model.examples == 1
    with pytest.raises(UsageError, match="task"):
        MixtureModel("ranking")
    assert MixtureModel("regression").predict([[1.0]])[0] == 0.0
    assert MixtureModel("multiclass", "abc").predict([[1.0]]).tolist() == [[1 / 3] * 3]
